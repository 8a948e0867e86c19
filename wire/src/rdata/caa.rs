//! CAA: who may issue certificates (RFC 8659 §4.1).

use core::fmt::{self, Write as _};

use super::text::write_string;
use super::writer::write;
use crate::error::{Full, ParseError, Reason};
use crate::reader::Reader;

/// The data of a CAA record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caa<'p> {
    /// Bit 7: one who does not know the tag must not issue.
    pub flags: u8,
    /// Letters and digits, at least one and at most 255.
    pub tag: &'p [u8],
    /// What the tag says it is, up to the end.
    pub value: &'p [u8],
}

impl<'p> Caa<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let flags = reader.u8()?;
        let tag_at = reader.at();
        let tag = reader.string()?;
        if tag.is_empty() || !tag.iter().all(u8::is_ascii_alphanumeric) {
            return Err(ParseError::new(Reason::Rdata, tag_at));
        }
        Ok(Self {
            flags,
            tag,
            value: reader.rest(),
        })
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.u8(self.flags)?;
            out.string(self.tag)?;
            out.bytes(self.value)
        })
    }
}

impl fmt::Display for Caa<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.flags)?;
        self.tag.iter().try_for_each(|byte| f.write_char(char::from(*byte)))?;
        f.write_char(' ')?;
        write_string(self.value, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let caa = Caa {
            flags: 128,
            tag: b"issue",
            value: b"ca.example; x=1",
        };
        let mut out = [0; 64];
        let len = caa.build(&mut out).unwrap();
        assert_eq!(Caa::parse(&out[..len]), Ok(caa));
        assert_eq!(caa.to_string(), r#"128 issue "ca.example; x=1""#);
        assert_eq!(Caa::parse(b"\0\x01-x"), Err(ParseError::new(Reason::Rdata, 1)));
    }
}
