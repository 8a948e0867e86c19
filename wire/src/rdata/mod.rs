//! The data of records: for each type where names stand and whether they may be compressed.
//!
//! | type | fields |
//! | --- | --- |
//! | NS CNAME PTR MB MD MF MG MR | name |
//! | SOA | name, name, 20 bytes |
//! | MX | 2 bytes, name |
//! | MINFO | name, name |
//! | DNAME | name* |
//! | SRV | 6 bytes, name* |
//! | NAPTR | 4 bytes, string, string, string, name* |
//! | SVCB HTTPS | 2 bytes, name*, rest |
//! | RRSIG | 18 bytes, name*, rest |
//!
//! `*` is never written compressed (RFC 2782, RFC 3597 §4). What the table does not know is opaque.

use crate::error::{ParseError, Reason};
use crate::name::{Name, PackedName};
use crate::reader::Reader;
use crate::rtype::Rtype;

/// One piece of rdata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// So many bytes.
    Fixed(u8),
    /// A domain name, which a sender may compress or not. A receiver takes either (RFC 3597 §4).
    Name {
        /// Whether a sender may compress it.
        compress: bool,
    },
    /// One character-string: a length byte and that many bytes.
    String,
    /// Character-strings up to the end, at least one.
    Strings,
    /// Anything up to the end.
    Rest,
}

impl Field {
    /// The bytes of this field in uncompressed rdata.
    pub(crate) fn read<'p>(self, reader: &mut Reader<'p>) -> Result<&'p [u8], ParseError> {
        let rest = reader.rest();
        let len = match self {
            Self::Fixed(len) => usize::from(len),
            Self::Name { .. } => {
                let at = reader.at();
                let (name, _) =
                    Name::split_wire(rest).map_err(|error| ParseError::new(error.reason, at.wrapping_add(error.at)))?;
                name.len()
            }
            Self::String => {
                let mut ahead = *reader;
                ahead.string()?.len().wrapping_add(1)
            }
            Self::Strings => {
                let mut ahead = *reader;
                ahead.string()?;
                while !ahead.is_empty() {
                    ahead.string()?;
                }
                rest.len()
            }
            Self::Rest => rest.len(),
        };
        reader.take(len)
    }
}

const PACKED: Field = Field::Name { compress: true };
const PLAIN: Field = Field::Name { compress: false };

/// The fields of a type's rdata. An unknown type is [`Field::Rest`] alone.
#[inline]
pub const fn layout(rtype: Rtype) -> &'static [Field] {
    use Field::{Fixed, Rest, String, Strings};
    match rtype {
        Rtype::A => &[Fixed(4)],
        Rtype::AAAA => &[Fixed(16)],
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::MB | Rtype::MD | Rtype::MF | Rtype::MG | Rtype::MR => &[PACKED],
        Rtype::SOA => &[PACKED, PACKED, Fixed(20)],
        Rtype::MX => &[Fixed(2), PACKED],
        Rtype::MINFO => &[PACKED, PACKED],
        Rtype::TXT | Rtype::SPF => &[Strings],
        Rtype::HINFO => &[String, String],
        Rtype::SRV => &[Fixed(6), PLAIN],
        Rtype::NAPTR => &[Fixed(4), String, String, String, PLAIN],
        Rtype::DNAME => &[PLAIN],
        Rtype::AFSDB | Rtype::RT | Rtype::KX | Rtype::LP => &[Fixed(2), PLAIN],
        Rtype::PX => &[Fixed(2), PLAIN, PLAIN],
        Rtype::RP => &[PLAIN, PLAIN],
        Rtype::CAA => &[Fixed(1), String, Rest],
        Rtype::DS | Rtype::CDS | Rtype::DNSKEY | Rtype::CDNSKEY | Rtype::KEY => &[Fixed(4), Rest],
        Rtype::SVCB | Rtype::HTTPS => &[Fixed(2), PLAIN, Rest],
        Rtype::RRSIG | Rtype::SIG => &[Fixed(18), PLAIN, Rest],
        Rtype::NSEC | Rtype::NXT => &[PLAIN, Rest],
        Rtype::TLSA | Rtype::SMIMEA => &[Fixed(3), Rest],
        Rtype::SSHFP => &[Fixed(2), Rest],
        Rtype::URI => &[Fixed(4), Rest],
        _ => &[Rest],
    }
}

/// Whether uncompressed `rdata` have the shape of their type, no more and no less.
pub fn check(rtype: Rtype, rdata: &[u8]) -> Result<(), ParseError> {
    let mut reader = Reader::new(rdata);
    for field in layout(rtype) {
        field.read(&mut reader)?;
    }
    reader.finish()
}

/// Rdata as they stand in a message, `rdata_at` being where, without compression. Gives the part of `out` that was
/// written; `out` of 65,535 bytes is always enough.
pub fn unpack<'o>(
    rtype: Rtype,
    message: &[u8],
    rdata_at: usize,
    rdata_len: usize,
    out: &'o mut [u8],
) -> Result<&'o [u8], ParseError> {
    let end = rdata_at.saturating_add(rdata_len);
    // Pointers lead to before the rdata, so names are read from the message; what is behind the rdata is out of sight.
    let message = message
        .get(..end)
        .ok_or(ParseError::new(Reason::Short, message.len()))?;
    let mut reader = Reader::new_at(message, rdata_at)?;
    let mut written = 0_usize;
    let mut push = |bytes: &[u8], at: usize| {
        let full = ParseError::new(Reason::Rdata, at);
        let next = written.wrapping_add(bytes.len());
        out.get_mut(written..next).ok_or(full)?.copy_from_slice(bytes);
        written = next;
        Ok::<_, ParseError>(())
    };
    for field in layout(rtype) {
        let at = reader.at();
        if let Field::Name { .. } = field {
            let (name, end) = PackedName::parse(message, at)?;
            match name.as_name() {
                Some(name) => push(name.as_bytes(), at)?,
                None => push(name.to_buf().as_bytes(), at)?,
            }
            reader = Reader::new_at(message, end)?;
        } else {
            push(field.read(&mut reader)?, at)?;
        }
    }
    reader.finish()?;
    out.get(..written).ok_or(ParseError::new(Reason::Rdata, end))
}
