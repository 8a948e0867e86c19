//! NS, CNAME, PTR (RFC 1035 §3.3) and DNAME (RFC 6672 §2.1): one name.

use core::fmt;

use super::writer::write;
use crate::error::{Full, ParseError};
use crate::name::Name;

/// The data of an NS, CNAME, PTR or DNAME record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target<'p> {
    /// The name that the record leads to.
    pub name: Name<'p>,
}

impl<'p> Target<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        Name::from_wire(rdata).map(|name| Self { name })
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| out.bytes(self.name.as_bytes()))
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let name = NameBuf::from_text("www.example.org").unwrap();
        let target = Target { name: name.as_name() };
        let mut out = [0; 255];
        let len = target.build(&mut out).unwrap();
        assert_eq!(Target::parse(&out[..len]), Ok(target));
        assert_eq!(target.to_string(), "www.example.org.");
    }
}
