//! HINFO: once machine and system, today the answer to ANY (RFC 1035 §3.3.2, RFC 8482 §4.2).

use core::fmt::{self, Write as _};

use super::text::write_string;
use super::writer::write;
use crate::error::{Full, ParseError};
use crate::reader::Reader;

/// The data of a HINFO record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hinfo<'p> {
    /// The machine, at most 255 bytes.
    pub cpu: &'p [u8],
    /// The system, at most 255 bytes.
    pub os: &'p [u8],
}

impl<'p> Hinfo<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let hinfo = Self {
            cpu: reader.string()?,
            os: reader.string()?,
        };
        reader.finish()?;
        Ok(hinfo)
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.string(self.cpu)?;
            out.string(self.os)
        })
    }
}

impl fmt::Display for Hinfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_string(self.cpu, f)?;
        f.write_char(' ')?;
        write_string(self.os, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let hinfo = Hinfo {
            cpu: b"ANY obsoleted",
            os: b"See RFC 8482",
        };
        let mut out = [0; 64];
        let len = hinfo.build(&mut out).unwrap();
        assert_eq!(Hinfo::parse(&out[..len]), Ok(hinfo));
        assert_eq!(hinfo.to_string(), r#""ANY obsoleted" "See RFC 8482""#);
    }
}
