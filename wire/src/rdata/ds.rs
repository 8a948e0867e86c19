//! DS: the digest of a child zone's key (RFC 4034 §5).

use core::fmt;

use super::text::write_hex;
use super::writer::write;
use crate::error::{Full, ParseError};
use crate::reader::Reader;

/// The data of a DS or CDS record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ds<'p> {
    /// Which key it is likely to be.
    pub key_tag: u16,
    /// The key's algorithm.
    pub algorithm: u8,
    /// How the digest was made.
    pub digest_type: u8,
    /// The digest, up to the end.
    pub digest: &'p [u8],
}

impl<'p> Ds<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        Ok(Self {
            key_tag: reader.u16()?,
            algorithm: reader.u8()?,
            digest_type: reader.u8()?,
            digest: reader.rest(),
        })
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.u16(self.key_tag)?;
            out.bytes(&[self.algorithm, self.digest_type])?;
            out.bytes(self.digest)
        })
    }
}

impl fmt::Display for Ds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.key_tag, self.algorithm, self.digest_type)?;
        write_hex(self.digest, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let ds = Ds {
            key_tag: 60_485,
            algorithm: 5,
            digest_type: 1,
            digest: &[0x2b, 0xb1, 0x83],
        };
        let mut out = [0; 64];
        let len = ds.build(&mut out).unwrap();
        assert_eq!(Ds::parse(&out[..len]), Ok(ds));
        assert_eq!(ds.to_string(), "60485 5 1 2BB183");
    }
}
