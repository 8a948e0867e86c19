//! The data of types that zones seldom hold and the `domain` crate does not read.

use std::net::{IpAddr, Ipv4Addr};

use domain::utils::base64;
use nodens_wire::Rtype;

use super::rdata::{Fields, hex};
use super::{location, text};

/// What CERT records may say in place of a number (RFC 4398 §2.1).
const CERTIFICATES: [(&[u8], u16); 10] = [
    (b"PKIX", 1),
    (b"SPKI", 2),
    (b"PGP", 3),
    (b"IPKIX", 4),
    (b"ISPKI", 5),
    (b"IPGP", 6),
    (b"ACPKIX", 7),
    (b"IACPKIX", 8),
    (b"URI", 253),
    (b"OID", 254),
];

/// Reads the data of such a type; false of another one.
pub(super) fn read(rtype: Rtype, fields: &mut Fields<'_, '_, '_>) -> Result<bool, String> {
    match rtype {
        Rtype::LOC => {
            let data = location::parse(std::mem::take(&mut fields.tokens))?;
            fields.data = data;
        }
        Rtype::CERT => {
            let word = fields.next("type")?.text;
            let known = CERTIFICATES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
            let kind = known.map_or_else(|| text::number(word, "type"), |&(_, kind)| Ok(kind))?;
            fields.data.extend(kind.to_be_bytes());
            fields.u16("key tag")?;
            fields.u8("algorithm")?;
            base64_rest(fields)?;
        }
        Rtype::DHCID => base64_rest(fields)?,
        Rtype::SMIMEA => {
            for what in ["usage", "selector", "matching type"] {
                fields.u8(what)?;
            }
            let tokens = std::mem::take(&mut fields.tokens);
            let digits = hex(tokens.iter().flat_map(|token| token.text)).ok_or("bad hexadecimal digits")?;
            fields.data.extend(digits);
        }
        Rtype::PX => {
            fields.u16("preference")?;
            fields.name()?;
            fields.name()?;
        }
        Rtype::LP => {
            fields.u16("preference")?;
            fields.name()?;
        }
        Rtype::L32 => {
            fields.u16("preference")?;
            let address: Ipv4Addr = fields.address()?;
            fields.data.extend(address.octets());
        }
        Rtype::NID | Rtype::L64 => {
            fields.u16("preference")?;
            groups(fields, "locator", b':', 4, 4)?;
        }
        Rtype::EUI48 => groups(fields, "address", b'-', 6, 2)?,
        Rtype::EUI64 => groups(fields, "address", b'-', 8, 2)?,
        Rtype::X25 => fields.string("address")?,
        Rtype::ISDN => {
            fields.string("address")?;
            if !fields.tokens.is_empty() {
                fields.string("subaddress")?;
            }
        }
        Rtype::GPOS => {
            for what in ["longitude", "latitude", "altitude"] {
                fields.string(what)?;
            }
        }
        Rtype::CSYNC => {
            let serial: u32 = text::number(fields.next("serial")?.text, "serial")?;
            fields.data.extend(serial.to_be_bytes());
            fields.u16("flags")?;
            types(fields)?;
        }
        Rtype::APL => {
            while !fields.tokens.is_empty() {
                address_prefix(fields)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// All words that are left, as one text in base64.
fn base64_rest(fields: &mut Fields<'_, '_, '_>) -> Result<(), String> {
    let tokens = std::mem::take(&mut fields.tokens);
    let letters: Vec<u8> = tokens.iter().flat_map(|token| token.text).copied().collect();
    let letters = std::str::from_utf8(&letters).ok();
    let data: Option<Vec<u8>> = letters.and_then(|letters| base64::decode(letters).ok());
    fields.data.extend(data.ok_or("bad base64")?);
    Ok(())
}

/// `count` groups of `digits` hexadecimal digits, with a mark between them.
fn groups(fields: &mut Fields<'_, '_, '_>, what: &str, mark: u8, count: usize, digits: usize) -> Result<(), String> {
    let word = fields.next(what)?.text;
    let bytes: Option<Vec<u8>> = word
        .split(|&byte| byte == mark)
        .map(|group| hex(group.iter()).filter(|_| group.len() == digits))
        .collect::<Option<Vec<_>>>()
        .filter(|groups| groups.len() == count)
        .map(|groups| groups.concat());
    fields
        .data
        .extend(bytes.ok_or_else(|| format!("bad {what} \"{}\"", word.escape_ascii()))?);
    Ok(())
}

/// The types that are left, as a map of bits (RFC 4034 §4.1.2).
fn types(fields: &mut Fields<'_, '_, '_>) -> Result<(), String> {
    let mut windows = std::collections::BTreeMap::<u8, Vec<u8>>::new();
    for token in std::mem::take(&mut fields.tokens) {
        let word = std::str::from_utf8(token.text).ok();
        let rtype: Option<Rtype> = word.and_then(|word| word.parse().ok());
        let Rtype(number) = rtype.ok_or_else(|| format!("unknown type \"{}\"", token.text.escape_ascii()))?;
        let [window, low] = number.to_be_bytes();
        let bits = windows.entry(window).or_default();
        let at = usize::from(low / 8);
        if bits.len() <= at {
            bits.resize(at + 1, 0);
        }
        bits[at] |= 0x80 >> (low % 8);
    }
    for (window, bits) in windows {
        fields.data.push(window);
        fields.data.push(u8::try_from(bits.len()).unwrap_or(u8::MAX));
        fields.data.extend(bits);
    }
    Ok(())
}

/// `[!]FAMILY:ADDRESS/PREFIX` (RFC 3123 §4 and 5); zeros at the end of the address are left out.
fn address_prefix(fields: &mut Fields<'_, '_, '_>) -> Result<(), String> {
    let word = fields.next("prefix")?.text;
    let parsed = std::str::from_utf8(word).ok().and_then(|word| {
        let (negation, word) = word.strip_prefix('!').map_or((0, word), |word| (0x80, word));
        let (family, net) = word.split_once(':')?;
        let (address, prefix) = net.split_once('/')?;
        let prefix: u8 = text::number(prefix.as_bytes(), "prefix").ok()?;
        let (family, mut octets) = match (family, address.parse().ok()?) {
            ("1", IpAddr::V4(address)) if prefix <= 32 => (1_u8, address.octets().to_vec()),
            ("2", IpAddr::V6(address)) if prefix <= 128 => (2, address.octets().to_vec()),
            _ => return None,
        };
        while octets.last() == Some(&0) {
            octets.pop();
        }
        let length = u8::try_from(octets.len()).ok()?;
        Some([&[0, family, prefix, negation | length], &octets[..]].concat())
    });
    fields
        .data
        .extend(parsed.ok_or_else(|| format!("bad prefix \"{}\"", word.escape_ascii()))?);
    Ok(())
}
