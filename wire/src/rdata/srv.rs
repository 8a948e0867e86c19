//! SRV: host and port of a service (RFC 2782).

use core::fmt;

use super::writer::write;
use crate::error::{Full, ParseError};
use crate::name::Name;
use crate::reader::Reader;

/// The data of a SRV record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Srv<'p> {
    /// The lowest is tried first.
    pub priority: u16,
    /// The share among those of one priority.
    pub weight: u16,
    /// Where the service listens.
    pub port: u16,
    /// The host; the root when there is no such service.
    pub target: Name<'p>,
}

impl<'p> Srv<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let srv = Self {
            priority: reader.u16()?,
            weight: reader.u16()?,
            port: reader.u16()?,
            target: reader.name()?,
        };
        reader.finish()?;
        Ok(srv)
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            [self.priority, self.weight, self.port]
                .iter()
                .try_for_each(|n| out.u16(*n))?;
            out.bytes(self.target.as_bytes())
        })
    }
}

impl fmt::Display for Srv<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.priority, self.weight, self.port, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let target = NameBuf::from_text("a.example.org").unwrap();
        let srv = Srv {
            priority: 1,
            weight: 2,
            port: 65_535,
            target: target.as_name(),
        };
        let mut out = [0; 64];
        let len = srv.build(&mut out).unwrap();
        assert_eq!(Srv::parse(&out[..len]), Ok(srv));
        assert_eq!(srv.to_string(), "1 2 65535 a.example.org.");
    }
}
