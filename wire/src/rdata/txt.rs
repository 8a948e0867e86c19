//! TXT: character-strings (RFC 1035 §3.3.14).

use core::fmt::{self, Write as _};
use core::iter::FusedIterator;

use super::Field;
use super::text::write_string;
use super::writer::write;
use crate::error::{Full, ParseError};
use crate::reader::Reader;

/// Longest character-string.
pub const STRING_LEN_MAX: usize = 255;

/// The data of a TXT record: at least one string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Txt<'p> {
    /// Whole strings with their length bytes.
    strings: &'p [u8],
}

impl<'p> Txt<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        Field::Strings
            .read(&mut Reader::new(rdata))
            .map(|strings| Self { strings })
    }

    /// The strings without their length bytes.
    pub fn strings(&self) -> impl FusedIterator<Item = &'p [u8]> + use<'p> {
        let mut reader = Reader::new(self.strings);
        core::iter::from_fn(move || reader.string().ok()).fuse()
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| out.bytes(self.strings))
    }

    /// Writes rdata of these strings, each of at most 255 bytes; of none, the empty string alone.
    pub fn build_strings<'a>(strings: impl IntoIterator<Item = &'a [u8]>, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            let mut strings = strings.into_iter();
            out.string(strings.next().unwrap_or_default())?;
            strings.try_for_each(|string| out.string(string))
        })
    }

    /// Writes rdata of a text of any length, cut after every 255 bytes; nothing is cut off a text of exactly that.
    pub fn build_text(text: &[u8], out: &mut [u8]) -> Result<usize, Full> {
        Self::build_strings(text.chunks(STRING_LEN_MAX), out)
    }
}

impl fmt::Display for Txt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.strings().enumerate().try_for_each(|(i, string)| {
            if i > 0 {
                f.write_char(' ')?;
            }
            write_string(string, f)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn there_and_back() {
        let mut out = [0; 64];
        let len = Txt::build_strings([&b"a \"b\" \\"[..], b"", b"\xff~"], &mut out).unwrap();
        let txt = Txt::parse(&out[..len]).unwrap();
        assert!(txt.strings().eq([&b"a \"b\" \\"[..], b"", b"\xff~"]));
        assert_eq!(txt.to_string(), r#""a \"b\" \\" "" "\255~""#);
        let mut again = [0; 64];
        assert_eq!(txt.build(&mut again), Ok(len));
        assert_eq!(out, again);
        assert_eq!(Txt::build_strings([&[0; 256][..]], &mut [0; 512]), Err(Full));
    }

    #[test]
    fn texts_are_cut_without_an_empty_rest() {
        let check = |text_len: usize, expected: &[usize]| {
            let mut out = [0; 1024];
            let len = Txt::build_text(&vec![b'x'; text_len], &mut out).unwrap();
            let lens: Vec<usize> = Txt::parse(&out[..len]).unwrap().strings().map(<[u8]>::len).collect();
            assert_eq!(lens, expected);
        };
        check(0, &[0]);
        check(1, &[1]);
        check(255, &[255]);
        check(256, &[255, 1]);
        check(510, &[255, 255]);
    }
}
