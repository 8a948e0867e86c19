//! The presentation form of rdata of any type.

use core::fmt::{self, Write as _};

use super::{A, Aaaa, Caa, Ds, Hinfo, Mx, Naptr, Soa, Srv, Svcb, Target, Txt};
use crate::rtype::Rtype;

/// Shows uncompressed rdata as a zone file would. Types without a form here, and data without the shape of their type,
/// are shown as `\# length hex` (RFC 3597 §5).
#[derive(Clone, Copy, Debug)]
pub struct Text<'p> {
    /// The type whose rdata it is.
    pub rtype: Rtype,
    /// Uncompressed wire form.
    pub rdata: &'p [u8],
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rdata = self.rdata;
        macro_rules! shown_as {
            ($view:ident) => {
                if let Ok(view) = $view::parse(rdata) {
                    return view.fmt(f);
                }
            };
        }
        match self.rtype {
            Rtype::A => shown_as!(A),
            Rtype::AAAA => shown_as!(Aaaa),
            Rtype::NS | Rtype::CNAME | Rtype::DNAME | Rtype::PTR => shown_as!(Target),
            Rtype::MB | Rtype::MD | Rtype::MF | Rtype::MG | Rtype::MR => shown_as!(Target),
            Rtype::SOA => shown_as!(Soa),
            Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX => shown_as!(Mx),
            Rtype::TXT | Rtype::SPF => shown_as!(Txt),
            Rtype::SRV => shown_as!(Srv),
            Rtype::NAPTR => shown_as!(Naptr),
            Rtype::CAA => shown_as!(Caa),
            Rtype::SVCB | Rtype::HTTPS => shown_as!(Svcb),
            Rtype::DS | Rtype::CDS => shown_as!(Ds),
            Rtype::HINFO => shown_as!(Hinfo),
            _ => {}
        }
        write!(f, "\\# {}", rdata.len())?;
        if !rdata.is_empty() {
            f.write_char(' ')?;
        }
        write_hex(rdata, f)
    }
}

/// Hex digits, two a byte.
pub(super) fn write_hex(bytes: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))
}

/// A character-string in quotes: `\"` and `\\` for these two, `\DDD` for what is not printable.
pub(super) fn write_string(string: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    string.iter().try_for_each(|&byte| match byte {
        b'"' | b'\\' => {
            out.write_char('\\')?;
            out.write_char(char::from(byte))
        }
        b' '..=b'~' => out.write_char(char::from(byte)),
        _ => write!(out, "\\{byte:03}"),
    })?;
    out.write_char('"')
}

/// Base64 with padding (RFC 4648 §4).
pub(super) fn write_base64(bytes: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes.chunks(3).try_for_each(|chunk| {
        let mut group = [0; 4];
        group.iter_mut().skip(1).zip(chunk).for_each(|(to, from)| *to = *from);
        let group = u32::from_be_bytes(group);
        [18_u32, 12, 6, 0].iter().enumerate().try_for_each(|(i, shift)| {
            let digit = DIGITS
                .get((group.wrapping_shr(*shift) & 63) as usize)
                .filter(|_| i <= chunk.len());
            out.write_char(char::from(*digit.unwrap_or(&b'=')))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString as _};

    #[test]
    fn every_type_has_a_text() {
        let check = |rtype, rdata: &[u8], expected: &str| {
            assert_eq!(Text { rtype, rdata }.to_string(), expected);
        };
        check(Rtype::A, &[192, 0, 2, 1], "192.0.2.1");
        check(Rtype::A, &[192, 0, 2], r"\# 3 C00002");
        check(Rtype::CNAME, b"\x03www\x07example\0", "www.example.");
        check(Rtype::RT, b"\0\x0a\x02rt\0", "10 rt.");
        check(Rtype(65280), b"", r"\# 0");
        check(Rtype(65280), b"\x01\xff", r"\# 2 01FF");
    }

    #[test]
    fn base64_of_every_remainder() {
        let check = |bytes: &[u8], expected: &str| {
            let mut text = String::new();
            write_base64(bytes, &mut text).unwrap();
            assert_eq!(text, expected);
        };
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(b"foobar", "Zm9vYmFy");
        check(b"\xfb\xff", "+/8=");
    }
}
