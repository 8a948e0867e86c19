//! SOA: where a zone begins, and how long its names can be missing (RFC 1035 §3.3.13, RFC 2308 §4).

use core::fmt;

use super::writer::write;
use crate::error::{Full, ParseError};
use crate::name::Name;
use crate::reader::Reader;

/// The data of a SOA record. Times are in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Soa<'p> {
    /// The primary name server.
    pub mname: Name<'p>,
    /// The mailbox of who is responsible, its first dot standing for `@`.
    pub rname: Name<'p>,
    /// The version of the zone, compared as RFC 1982 says.
    pub serial: u32,
    /// How often a secondary asks for the serial.
    pub refresh: u32,
    /// How soon it asks again after a failure.
    pub retry: u32,
    /// When it stops to serve what it could not refresh.
    pub expire: u32,
    /// How long a negative answer may be kept, if the record's own TTL is not shorter.
    pub minimum: u32,
}

impl<'p> Soa<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let soa = Self {
            mname: reader.name()?,
            rname: reader.name()?,
            serial: reader.u32()?,
            refresh: reader.u32()?,
            retry: reader.u32()?,
            expire: reader.u32()?,
            minimum: reader.u32()?,
        };
        reader.finish()?;
        Ok(soa)
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.bytes(self.mname.as_bytes())?;
            out.bytes(self.rname.as_bytes())?;
            [self.serial, self.refresh, self.retry, self.expire, self.minimum]
                .iter()
                .try_for_each(|n| out.u32(*n))
        })
    }
}

impl fmt::Display for Soa<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mname,
            rname,
            serial,
            refresh,
            retry,
            expire,
            minimum,
        } = self;
        write!(f, "{mname} {rname} {serial} {refresh} {retry} {expire} {minimum}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let (mname, rname) = (
            NameBuf::from_text("ns.example").unwrap(),
            NameBuf::from_text(r"some\.one.example").unwrap(),
        );
        let soa = Soa {
            mname: mname.as_name(),
            rname: rname.as_name(),
            serial: 4_294_967_295,
            refresh: 7200,
            retry: 1800,
            expire: 86_400,
            minimum: 30,
        };
        let mut out = [0; 64];
        let len = soa.build(&mut out).unwrap();
        assert_eq!(Soa::parse(&out[..len]), Ok(soa));
        assert_eq!(
            soa.to_string(),
            r"ns.example. some\.one.example. 4294967295 7200 1800 86400 30"
        );
        assert!(Soa::parse(&out[..len - 1]).is_err());
    }
}
