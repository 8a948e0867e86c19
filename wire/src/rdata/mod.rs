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
//!
//! Each family has a file and each type a view of the same shape: `parse` borrows from uncompressed rdata, which
//! [`unpack`] makes of those in a message; `build` writes them; `Display` is the presentation form.

mod address;
mod caa;
mod ds;
mod hinfo;
mod mx;
mod naptr;
mod soa;
mod srv;
mod svcb;
mod target;
mod text;
mod txt;
mod writer;

pub use address::{A, Aaaa};
pub use caa::Caa;
pub use ds::Ds;
pub use hinfo::Hinfo;
pub use mx::Mx;
pub use naptr::Naptr;
pub use soa::Soa;
pub use srv::Srv;
pub use svcb::{SvcParams, Svcb, svc_key};
pub use target::Target;
pub use text::Text;
pub use txt::{STRING_LEN_MAX, Txt};

use crate::error::{ParseError, Reason};
use crate::name::PackedName;
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
    #[inline]
    pub(crate) fn read<'p>(self, reader: &mut Reader<'p>) -> Result<&'p [u8], ParseError> {
        let mut ahead = *reader;
        match self {
            Self::Fixed(len) => ahead.take(len.into()).map(|_| ())?,
            Self::Name { .. } => ahead.name().map(|_| ())?,
            Self::String => ahead.string().map(|_| ())?,
            Self::Strings => {
                ahead.string()?;
                while !ahead.is_empty() {
                    ahead.string()?;
                }
            }
            Self::Rest => ahead.take(ahead.rest().len()).map(|_| ())?,
        }
        reader.take(ahead.at().wrapping_sub(reader.at()))
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

/// Whether rdata of the type hold names, so that copying them as bytes is not all there is to do.
#[inline]
pub const fn has_names(rtype: Rtype) -> bool {
    rtype.0 < u128::BITS as u16 && NAMED >> rtype.0 & 1 == 1
}

/// The bits of the types with names, taken from the table above: all of them are low numbers.
const NAMED: u128 = {
    let mut bits = 0;
    let mut rtype = 0;
    while rtype < u128::BITS as u16 {
        let mut fields = layout(Rtype(rtype));
        while let [field, rest @ ..] = fields {
            if let Field::Name { .. } = field {
                bits |= 1 << rtype;
            }
            fields = rest;
        }
        rtype = rtype.wrapping_add(1);
    }
    bits
};

/// Whether uncompressed `rdata` have the shape of their type, no more and no less.
pub fn check(rtype: Rtype, rdata: &[u8]) -> Result<(), ParseError> {
    let mut reader = Reader::new(rdata);
    for field in layout(rtype) {
        field.read(&mut reader)?;
    }
    reader.finish()?;
    match rtype {
        Rtype::SVCB | Rtype::HTTPS => Svcb::parse(rdata).map(|_| ()),
        Rtype::CAA => Caa::parse(rdata).map(|_| ()),
        _ => Ok(()),
    }
}

/// Rdata as they stand in a message, `rdata_at` being where, without compression. Gives the part of `out` that was
/// written. What would need more than 65,535 bytes is no rdata.
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
        .ok_or_else(|| ParseError::new(Reason::Short, message.len()))?;
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
    out.get(..written).ok_or_else(|| ParseError::new(Reason::Rdata, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn rdata_of_their_shape_and_no_other() {
        let checked = check;
        let check = |rtype, rdata: &[u8], expected: Result<(), Reason>| {
            assert_eq!(
                checked(rtype, rdata).map_err(|error| error.reason),
                expected,
                "{rtype} {rdata:?}"
            );
        };
        check(Rtype::A, &[1, 2, 3, 4], Ok(()));
        check(Rtype::A, &[1, 2, 3], Err(Reason::Short));
        check(Rtype::A, &[1, 2, 3, 4, 5], Err(Reason::Trailing));
        check(Rtype::MX, b"\0\x0a\x02mx\0", Ok(()));
        check(Rtype::MX, b"\0\x0a\x02mx\xc0\x0c", Err(Reason::LabelType));
        check(Rtype::TXT, b"", Err(Reason::Short));
        check(Rtype::TXT, b"\0", Ok(()));
        check(Rtype::TXT, b"\x01a\x02b", Err(Reason::Short));
        check(Rtype::HINFO, b"\x01a", Err(Reason::Short));
        check(Rtype::NAPTR, b"\0\x01\0\x02\x01u\0\0\0", Ok(()));
        check(Rtype::CAA, b"\0\x05issueca.example", Ok(()));
        check(Rtype::CAA, b"\0\0ca.example", Err(Reason::Rdata));
        check(Rtype::HTTPS, b"\0\x01\0\0\x03\0\x02\x01\xbb", Ok(()));
        check(Rtype::HTTPS, b"\0\x01\0\0\x03\0\x03\x01\xbb", Err(Reason::Rdata));
        check(Rtype(65280), b"", Ok(()));
    }

    #[test]
    fn names_of_a_message_unpacked() {
        let mut message = Vec::from([0; 12]);
        message.extend_from_slice(b"\x07example\x03org\0");
        let rdata_at = message.len();
        message.extend_from_slice(b"\0\x0a\x02mx\xc0\x0c");
        message.extend_from_slice(b"behind");
        let mut out = [0; 64];
        assert_eq!(
            unpack(Rtype::MX, &message, rdata_at, 7, &mut out),
            Ok(&b"\0\x0a\x02mx\x07example\x03org\0"[..])
        );
        // A name may not run over the end of its rdata, and nothing may follow it there.
        assert_eq!(
            unpack(Rtype::MX, &message, rdata_at, 6, &mut out).unwrap_err().reason,
            Reason::Short
        );
        assert_eq!(
            unpack(Rtype::MX, &message, rdata_at, 8, &mut out).unwrap_err().reason,
            Reason::Trailing
        );
        // What is unknown stays as it is.
        assert_eq!(
            unpack(Rtype(65280), &message, rdata_at, 7, &mut out),
            Ok(&message[rdata_at..rdata_at + 7])
        );
        assert_eq!(
            unpack(Rtype::MX, &message, rdata_at, 7, &mut out[..10])
                .unwrap_err()
                .reason,
            Reason::Rdata
        );
        assert_eq!(
            unpack(Rtype::MX, &message, 999, 7, &mut out).unwrap_err().reason,
            Reason::Short
        );
    }

    #[test]
    fn types_hold_at_most_two_names() {
        for rtype in 0..=u16::MAX {
            let names = layout(Rtype(rtype))
                .iter()
                .filter(|field| matches!(field, Field::Name { .. }))
                .count();
            assert!(names <= 2);
        }
        let mut message = vec![0; 12];
        message.extend_from_slice(&[0; 65_535]);
        let mut out = vec![0; 65_535];
        assert_eq!(
            unpack(Rtype::NULL, &message, 12, 65_535, &mut out).unwrap().len(),
            65_535
        );
    }
}
