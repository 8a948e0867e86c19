//! A cursor over input bytes that only moves forward and checks every step.

use crate::error::{ParseError, Reason};
use crate::name::Name;

/// Reads big-endian fields one after the other; a read behind the end is an error and moves nothing.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'p> {
    rest: &'p [u8],
    at: usize,
}

impl<'p> Reader<'p> {
    /// A reader at the first of `bytes`.
    pub const fn new(bytes: &'p [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    /// A reader at `at`, which counts from the start of `bytes`.
    pub fn new_at(bytes: &'p [u8], at: usize) -> Result<Self, ParseError> {
        match bytes.get(at..) {
            Some(rest) => Ok(Self { rest, at }),
            None => Err(ParseError::new(Reason::Short, bytes.len())),
        }
    }

    /// Offset of the next byte.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Everything not yet read.
    pub const fn rest(&self) -> &'p [u8] {
        self.rest
    }

    /// Whether everything is read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// An error about the next byte.
    pub(crate) const fn error(&self, reason: Reason) -> ParseError {
        ParseError::new(reason, self.at)
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'p [u8], ParseError> {
        let Some((taken, rest)) = self.rest.split_at_checked(n) else {
            return Err(self.error(Reason::Short));
        };
        self.rest = rest;
        self.at = self.at.wrapping_add(n);
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error(Reason::Short));
        };
        self.rest = rest;
        self.at = self.at.wrapping_add(N);
        Ok(*taken)
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, ParseError> {
        self.array().map(|[byte]| byte)
    }

    /// The next two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A character-string of RFC 1035 §3.3: a length byte and that many bytes.
    #[inline]
    pub fn string(&mut self) -> Result<&'p [u8], ParseError> {
        let mut ahead = *self;
        let len = ahead.u8()?;
        let string = ahead.take(usize::from(len))?;
        *self = ahead;
        Ok(string)
    }

    /// An uncompressed name.
    #[inline]
    pub fn name(&mut self) -> Result<Name<'p>, ParseError> {
        let (name, rest) = Name::split_wire(self.rest).map_err(|error| error.behind(self.at))?;
        self.rest = rest;
        self.at = self.at.wrapping_add(name.len());
        Ok(name)
    }

    /// Fails when something is left.
    pub fn finish(&self) -> Result<(), ParseError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.error(Reason::Trailing))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_to_the_end_and_no_further() {
        let mut reader = Reader::new(&[1, 2, 3, 2, b'h', b'i', 9]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(0x0203));
        assert_eq!(reader.string(), Ok(&b"hi"[..]));
        assert_eq!(reader.finish(), Err(ParseError::new(Reason::Trailing, 6)));
        assert_eq!(reader.u32(), Err(ParseError::new(Reason::Short, 6)));
        assert_eq!(reader.take(1), Ok(&[9][..]));
        assert_eq!(reader.finish(), Ok(()));
        assert_eq!(reader.at(), 7);
    }

    #[test]
    fn a_string_that_runs_over_the_end_moves_nothing() {
        let mut reader = Reader::new(&[3, b'h', b'i']);
        assert_eq!(reader.string(), Err(ParseError::new(Reason::Short, 1)));
        assert_eq!(reader.at(), 0);
    }
}
