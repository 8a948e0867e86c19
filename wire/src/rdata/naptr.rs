//! NAPTR: a rule that rewrites a string into another name (RFC 3403 §4.1).

use core::fmt::{self, Write as _};

use super::text::write_string;
use super::writer::write;
use crate::error::{Full, ParseError};
use crate::name::Name;
use crate::reader::Reader;

/// The data of a NAPTR record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Naptr<'p> {
    /// The lowest is applied first.
    pub order: u16,
    /// The lowest first among those of one order.
    pub preference: u16,
    /// What comes next: `S`, `A`, `U`, `P` or nothing.
    pub flags: &'p [u8],
    /// What the rule is for.
    pub services: &'p [u8],
    /// A substitution, when there is no replacement.
    pub regexp: &'p [u8],
    /// The next name to ask for, or the root.
    pub replacement: Name<'p>,
}

impl<'p> Naptr<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let naptr = Self {
            order: reader.u16()?,
            preference: reader.u16()?,
            flags: reader.string()?,
            services: reader.string()?,
            regexp: reader.string()?,
            replacement: reader.name()?,
        };
        reader.finish()?;
        Ok(naptr)
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.u16(self.order)?;
            out.u16(self.preference)?;
            [self.flags, self.services, self.regexp]
                .iter()
                .try_for_each(|string| out.string(string))?;
            out.bytes(self.replacement.as_bytes())
        })
    }
}

impl fmt::Display for Naptr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.order, self.preference)?;
        [self.flags, self.services, self.regexp].iter().try_for_each(|string| {
            write_string(string, f)?;
            f.write_char(' ')
        })?;
        self.replacement.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let naptr = Naptr {
            order: 100,
            preference: 50,
            flags: b"u",
            services: b"E2U+sip",
            regexp: br"!^.*$!sip:info\@example.com!",
            replacement: Name::ROOT,
        };
        let mut out = [0; 64];
        let len = naptr.build(&mut out).unwrap();
        assert_eq!(Naptr::parse(&out[..len]), Ok(naptr));
        assert_eq!(
            naptr.to_string(),
            r#"100 50 "u" "E2U+sip" "!^.*$!sip:info\\@example.com!" ."#
        );
    }
}
