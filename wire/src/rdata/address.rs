//! A (RFC 1035 §3.4.1) and AAAA (RFC 3596 §2.2).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::writer::write;
use crate::error::{Full, ParseError};
use crate::reader::Reader;

/// The data of an A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct A {
    /// The address.
    pub address: Ipv4Addr,
}

impl A {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let address = reader.array::<4>()?.into();
        reader.finish()?;
        Ok(Self { address })
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| out.bytes(&self.address.octets()))
    }
}

impl fmt::Display for A {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// The data of an AAAA record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aaaa {
    /// The address.
    pub address: Ipv6Addr,
}

impl Aaaa {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let address = reader.array::<16>()?.into();
        reader.finish()?;
        Ok(Self { address })
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| out.bytes(&self.address.octets()))
    }
}

impl fmt::Display for Aaaa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let mut out = [0; 16];
        let a = A {
            address: Ipv4Addr::new(192, 0, 2, 1),
        };
        let len = a.build(&mut out).unwrap();
        assert_eq!(A::parse(&out[..len]), Ok(a));
        assert_eq!(a.to_string(), "192.0.2.1");

        let aaaa = Aaaa {
            address: "2001:db8::1".parse().unwrap(),
        };
        let len = aaaa.build(&mut out).unwrap();
        assert_eq!(Aaaa::parse(&out[..len]), Ok(aaaa));
        assert_eq!(aaaa.to_string(), "2001:db8::1");
        assert_eq!(aaaa.build(&mut out[..15]), Err(Full));
    }
}
