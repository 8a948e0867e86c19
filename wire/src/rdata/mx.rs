//! MX: who takes a domain's mail (RFC 1035 §3.3.9).

use core::fmt;

use super::writer::write;
use crate::error::{Full, ParseError};
use crate::name::Name;
use crate::reader::Reader;

/// The data of an MX record; AFSDB, RT and KX have the same fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mx<'p> {
    /// The lowest is tried first.
    pub preference: u16,
    /// The mail server.
    pub exchange: Name<'p>,
}

impl<'p> Mx<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let mx = Self {
            preference: reader.u16()?,
            exchange: reader.name()?,
        };
        reader.finish()?;
        Ok(mx)
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.u16(self.preference)?;
            out.bytes(self.exchange.as_bytes())
        })
    }
}

impl fmt::Display for Mx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.preference, self.exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let exchange = NameBuf::from_text("mx.example.org").unwrap();
        let mx = Mx {
            preference: 10,
            exchange: exchange.as_name(),
        };
        let mut out = [0; 64];
        let len = mx.build(&mut out).unwrap();
        assert_eq!(Mx::parse(&out[..len]), Ok(mx));
        assert_eq!(mx.to_string(), "10 mx.example.org.");
    }
}
