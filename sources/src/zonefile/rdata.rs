//! The data of a record, from text to uncompressed wire form.

use std::net::{Ipv4Addr, Ipv6Addr};

use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace;
use nodens_wire::{Name, NameBuf, Rtype, rdata};

use super::scan::Token;
use super::{svcb, text, uncommon};

/// Strings of TXT records are cut to this length.
const STRING_LEN_MAX: usize = 255;

pub(super) fn parse(rtype: Rtype, tokens: &[Token<'_>], origin: Name<'_>) -> Result<Vec<u8>, String> {
    let data = match tokens {
        [first, rest @ ..] if first.text == br"\#" && !first.quoted => generic(rest)?,
        _ => known(rtype, tokens, origin)?,
    };
    // Whatever way they came, nobody behind this has to doubt them.
    rdata::check(rtype, &data).map_err(|error| format!("the data do not fit the type: {error}"))?;
    Ok(data)
}

/// The serial in the data of an SOA.
pub(super) fn soa_serial(data: &[u8]) -> Option<u32> {
    let (_, rest) = Name::split_wire(data).ok()?;
    let (_, numbers) = Name::split_wire(rest).ok()?;
    numbers.first_chunk().map(|&serial| u32::from_be_bytes(serial))
}

/// RFC 3597 §5: the length and the bytes in hexadecimal.
fn generic(tokens: &[Token<'_>]) -> Result<Vec<u8>, String> {
    let (length, digits) = tokens.split_first().ok_or(r"\# needs a length")?;
    let length: u16 = text::number(length.text, "length")?;
    let bytes = hex(digits.iter().flat_map(|token| token.text)).ok_or("bad hexadecimal digits")?;
    if bytes.len() != usize::from(length) {
        return Err(format!("{length} bytes announced, {} given", bytes.len()));
    }
    Ok(bytes)
}

/// The bytes that hexadecimal digits stand for, two each.
pub(super) fn hex<'d>(digits: impl Iterator<Item = &'d u8>) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .map(|&digit| {
            char::from(digit)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn known(rtype: Rtype, tokens: &[Token<'_>], origin: Name<'_>) -> Result<Vec<u8>, String> {
    let mut fields = Fields {
        tokens,
        origin,
        data: Vec::new(),
    };
    match rtype {
        Rtype::A => {
            let address: Ipv4Addr = fields.address()?;
            fields.data.extend(address.octets());
        }
        Rtype::AAAA => {
            let address: Ipv6Addr = fields.address()?;
            fields.data.extend(address.octets());
        }
        Rtype::NS | Rtype::CNAME | Rtype::DNAME | Rtype::PTR => fields.folded_name()?,
        Rtype::MX | Rtype::AFSDB | Rtype::KX | Rtype::RT => {
            fields.u16("preference")?;
            fields.folded_name()?;
        }
        Rtype::SOA => {
            fields.folded_name()?;
            fields.folded_name()?;
            let serial: u32 = text::number(fields.next("serial")?.text, "serial")?;
            fields.data.extend(serial.to_be_bytes());
            for what in ["refresh", "retry", "expire", "minimum"] {
                let seconds = text::seconds(fields.next(what)?.text)?;
                fields.data.extend(seconds.to_be_bytes());
            }
        }
        Rtype::TXT | Rtype::SPF => {
            fields.cut_string("text")?;
            while !fields.tokens.is_empty() {
                fields.cut_string("text")?;
            }
        }
        Rtype::SRV => {
            for what in ["priority", "weight", "port"] {
                fields.u16(what)?;
            }
            fields.name()?;
        }
        Rtype::NAPTR => {
            fields.u16("order")?;
            fields.u16("preference")?;
            for what in ["flags", "service", "regexp"] {
                fields.string(what)?;
            }
            fields.name()?;
        }
        Rtype::HINFO => {
            fields.string("cpu")?;
            fields.string("os")?;
        }
        Rtype::CAA => {
            fields.u8("flags")?;
            fields.string("tag")?;
            let value = text::unescape(fields.next("value")?.text)?;
            fields.data.extend(value);
        }
        Rtype::URI => {
            fields.u16("priority")?;
            fields.u16("weight")?;
            let target = text::unescape(fields.next("target")?.text)?;
            fields.data.extend(target);
        }
        Rtype::SVCB | Rtype::HTTPS => {
            fields.u16("priority")?;
            fields.name()?;
            svcb::params(std::mem::take(&mut fields.tokens), &mut fields.data)?;
        }
        _ if uncommon::read(rtype, &mut fields)? => {}
        _ => return rare(rtype, tokens, origin),
    }
    match fields.tokens.first() {
        None => Ok(fields.data),
        Some(more) => Err(format!("\"{}\" is too much", more.text.escape_ascii())),
    }
}

/// DNSSEC and other types that clusters seldom hold, by the `domain` crate: the words go to it as one line.
fn rare(rtype: Rtype, tokens: &[Token<'_>], origin: Name<'_>) -> Result<Vec<u8>, String> {
    let mut file = inplace::Zonefile::new();
    let origin = domain::base::Name::from_octets(origin.as_bytes().to_vec().into());
    file.set_origin(origin.map_err(|error| error.to_string())?);
    file.extend_from_slice(format!(". 0 IN {rtype}").as_bytes());
    for token in tokens {
        let quote: &[u8] = if token.quoted { b"\"" } else { b"" };
        file.extend_from_slice(b" ");
        file.extend_from_slice(quote);
        // An escaped line end would end the line there.
        let text: Vec<u8> = token
            .text
            .iter()
            .map(|&byte| if byte == b'\n' { b' ' } else { byte })
            .collect();
        file.extend_from_slice(&text);
        file.extend_from_slice(quote);
    }
    file.extend_from_slice(b"\n");
    match file.next_entry() {
        Ok(Some(inplace::Entry::Record(record))) => {
            let mut data = Vec::new();
            record
                .data()
                .compose_rdata(&mut data)
                .map_err(|error| error.to_string())?;
            Ok(data)
        }
        Ok(_) => Err("no data".to_owned()),
        Err(error) => Err(format!("{error}; data of any type can be given as \\# LENGTH HEX")),
    }
}

/// The words of a record that are still to be read, and the data that those before them made.
pub(super) struct Fields<'a, 't, 'o> {
    pub(super) tokens: &'a [Token<'t>],
    origin: Name<'o>,
    pub(super) data: Vec<u8>,
}

impl<'t> Fields<'_, 't, '_> {
    pub(super) fn next(&mut self, what: &str) -> Result<Token<'t>, String> {
        let (first, rest) = self.tokens.split_first().ok_or_else(|| format!("no {what}"))?;
        self.tokens = rest;
        Ok(*first)
    }

    pub(super) fn address<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let token = self.next("address")?;
        let address = std::str::from_utf8(token.text).ok().and_then(|text| text.parse().ok());
        address.ok_or_else(|| format!("bad address \"{}\"", token.text.escape_ascii()))
    }

    pub(super) fn u8(&mut self, what: &str) -> Result<(), String> {
        let number = text::number(self.next(what)?.text, what)?;
        self.data.push(number);
        Ok(())
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<(), String> {
        let number: u16 = text::number(self.next(what)?.text, what)?;
        self.data.extend(number.to_be_bytes());
        Ok(())
    }

    pub(super) fn name(&mut self) -> Result<(), String> {
        let name = self.read_name()?;
        self.data.extend_from_slice(name.as_bytes());
        Ok(())
    }

    fn folded_name(&mut self) -> Result<(), String> {
        let name = self.read_name()?.folded();
        self.data.extend_from_slice(name.as_bytes());
        Ok(())
    }

    fn read_name(&mut self) -> Result<NameBuf, String> {
        let token = self.next("name")?;
        text::name(token.text, self.origin)
    }

    pub(super) fn string(&mut self, what: &str) -> Result<(), String> {
        let bytes = text::unescape(self.next(what)?.text)?;
        let length = u8::try_from(bytes.len()).map_err(|_| format!("{what} of more than {STRING_LEN_MAX} bytes"))?;
        self.data.push(length);
        self.data.extend(bytes);
        Ok(())
    }

    /// A longer one becomes several.
    fn cut_string(&mut self, what: &str) -> Result<(), String> {
        let bytes = text::unescape(self.next(what)?.text)?;
        if bytes.is_empty() {
            self.data.push(0);
        }
        for piece in bytes.chunks(STRING_LEN_MAX) {
            self.data.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
            self.data.extend_from_slice(piece);
        }
        Ok(())
    }
}
