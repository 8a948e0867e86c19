//! Names inside a message, where the end of one may be written as a pointer to an earlier one (RFC 1035 §4.1.4).
//!
//! ```text
//!   at 12   3 w w w 7 e x a m p l e 3 o r g 0
//!   at 29   2 n s 0xc0 0x10                          ns.example.org
//! ```
//!
//! What a pointer leads to must stand as a whole before the piece with the pointer, so following ends (RFC 9267 §2) and
//! no name depends on the bytes behind it. And a name has no use for more pointers than labels.

use core::fmt;
use core::iter::FusedIterator;

use super::label::{LABEL_LEN_MAX, eq_folded, write_labels};
use super::owned::Unfinished;
use super::{LABELS_MAX, NAME_LEN_MAX, Name, NameBuf};
use crate::error::{ParseError, Reason};
use crate::header::HEADER_LEN;

/// A valid name that starts at some place of a message and may jump to earlier ones.
#[derive(Clone, Copy)]
pub struct PackedName<'p> {
    message: &'p [u8],
    at: usize,
    /// Bytes when written without pointers, 1 to 255.
    plain_len: usize,
}

impl<'p> PackedName<'p> {
    /// The name at `at`, and where the bytes behind it start.
    pub fn parse(message: &'p [u8], at: usize) -> Result<(Self, usize), ParseError> {
        let (plain_len, end) = measure(message, at)?;
        Ok((Self { message, at, plain_len }, end))
    }

    /// Where the name starts in its message.
    pub const fn at(self) -> usize {
        self.at
    }

    /// Bytes of the name when it is written without pointers.
    pub const fn plain_len(self) -> usize {
        self.plain_len
    }

    /// Whether there are no labels.
    pub const fn is_root(self) -> bool {
        self.plain_len <= 1
    }

    /// Whether it is nothing but a pointer to there.
    pub fn is_pointer_to(self, at: usize) -> bool {
        matches!(step(self.message, self.at), Ok(Step::Jump(target)) if target == at)
    }

    /// The labels from left to right, without the root's.
    pub const fn labels(self) -> PackedLabels<'p> {
        PackedLabels {
            message: self.message,
            at: self.at,
        }
    }

    /// The name when it stands in one piece, so that it can be borrowed.
    pub fn as_name(self) -> Option<Name<'p>> {
        let (name, _) = Name::split_wire(self.message.get(self.at..)?).ok()?;
        Some(name)
    }

    /// A copy without pointers.
    pub fn to_buf(self) -> NameBuf {
        let mut name = Unfinished::default();
        self.labels()
            .try_for_each(|label| name.label(label))
            .and_then(|()| name.finish(Name::ROOT))
            .expect("measured when it was parsed")
    }
}

impl PartialEq for PackedName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.plain_len == other.plain_len && self.labels().zip(other.labels()).all(|(a, b)| eq_folded(a, b))
    }
}

impl Eq for PackedName<'_> {}

impl PartialEq<Name<'_>> for PackedName<'_> {
    fn eq(&self, other: &Name<'_>) -> bool {
        self.plain_len == other.len() && self.labels().zip(other.labels()).all(|(a, b)| eq_folded(a, b))
    }
}

impl PartialEq<PackedName<'_>> for Name<'_> {
    fn eq(&self, other: &PackedName<'_>) -> bool {
        other == self
    }
}

impl fmt::Display for PackedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(self.labels(), f)
    }
}

impl fmt::Debug for PackedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The labels of a name in a message from left to right, without the root's.
#[derive(Clone, Debug)]
pub struct PackedLabels<'p> {
    message: &'p [u8],
    at: usize,
}

impl<'p> Iterator for PackedLabels<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        loop {
            match step(self.message, self.at).ok()? {
                Step::Root => return None,
                Step::Label(label) => {
                    self.at = self.at.wrapping_add(1).wrapping_add(label.len());
                    return Some(label);
                }
                Step::Jump(target) => self.at = target,
            }
        }
    }
}

impl FusedIterator for PackedLabels<'_> {}

/// Where the bytes behind the name at `at` start; the name is checked as a whole.
pub(crate) fn skip(message: &[u8], at: usize) -> Result<usize, ParseError> {
    measure(message, at).map(|(_, end)| end)
}

/// Most pointers in one name: one behind each label and one to the root.
const POINTERS_MAX: usize = LABELS_MAX + 1;

enum Step<'p> {
    Root,
    Label(&'p [u8]),
    Jump(usize),
}

fn step(message: &[u8], at: usize) -> Result<Step<'_>, ParseError> {
    let short = ParseError::new(Reason::Short, at);
    let rest = message.get(at..).ok_or(short)?;
    let (&first, rest) = rest.split_first().ok_or(short)?;
    match first >> 6 {
        0 if first == 0 => Ok(Step::Root),
        0 => {
            debug_assert!(usize::from(first) <= LABEL_LEN_MAX);
            rest.get(..usize::from(first)).map(Step::Label).ok_or(short)
        }
        3 => {
            let low = rest.first().ok_or(short)?;
            Ok(Step::Jump(usize::from(u16::from_be_bytes([first & 0x3f, *low]))))
        }
        _ => Err(ParseError::new(Reason::LabelType, at)),
    }
}

/// Length without pointers, and where the bytes behind the name start.
fn measure(message: &[u8], start: usize) -> Result<(usize, usize), ParseError> {
    let mut at = start;
    let mut plain_len = 0_usize;
    let mut end = None;
    // Where the piece being read starts, and what it may be read from; both shrink with every jump.
    let (mut piece, mut view) = (start, message);
    let mut pointers = 0_usize;
    loop {
        let step = step(view, at).map_err(|error| match error.reason {
            Reason::Short if pointers > 0 => ParseError::new(Reason::Pointer, at),
            _ => error,
        });
        match step? {
            Step::Root => {
                let behind = at.wrapping_add(1);
                return Ok((plain_len.wrapping_add(1), end.unwrap_or(behind)));
            }
            Step::Label(label) => {
                plain_len = plain_len.wrapping_add(1).wrapping_add(label.len());
                if plain_len >= NAME_LEN_MAX {
                    return Err(ParseError::new(Reason::NameLong, at));
                }
                at = at.wrapping_add(1).wrapping_add(label.len());
            }
            Step::Jump(target) => {
                pointers = pointers.wrapping_add(1);
                if target >= piece || target < HEADER_LEN || pointers > POINTERS_MAX {
                    return Err(ParseError::new(Reason::Pointer, at));
                }
                end.get_or_insert_with(|| at.wrapping_add(2));
                view = message.get(..piece).unwrap_or_default();
                (piece, at) = (target, target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;
    use std::vec::Vec;

    /// The figure of the module, twelve bytes of header in front.
    fn message() -> Vec<u8> {
        let mut message = Vec::from([0; 12]);
        message.extend_from_slice(b"\x03www\x07example\x03org\x00\x02ns\xc0\x10\xff");
        message
    }

    #[test]
    fn follows_a_pointer() {
        let message = message();
        let (name, end) = PackedName::parse(&message, 29).unwrap();
        assert_eq!(name.to_string(), "ns.example.org.");
        assert_eq!((name.plain_len(), end), (16, 34));
        assert_eq!(name, NameBuf::from_text("NS.example.ORG").unwrap().as_name());
        assert_eq!(name.to_buf().as_bytes(), b"\x02ns\x07example\x03org\x00");
        assert_eq!(name.as_name(), None);
        assert!(!name.is_pointer_to(15), "a label stands in front");
        let (pointer, _) = PackedName::parse(&message, name.at() + 3).unwrap();
        assert!(pointer.is_pointer_to(16) && !pointer.is_pointer_to(12));

        let (whole, end) = PackedName::parse(&message, 12).unwrap();
        assert_eq!((whole.plain_len(), end), (17, 29));
        assert!(whole != name);
        assert_eq!(whole.as_name().unwrap().to_string(), "www.example.org.");
    }

    #[test]
    fn pointers_that_do_not_lead_back() {
        let check = |tail: &[u8], at: usize, reason| {
            let mut message = message();
            message.truncate(29);
            message.extend_from_slice(tail);
            assert_eq!(PackedName::parse(&message, at).unwrap_err().reason, reason, "{tail:?}");
        };
        check(b"\xc0\x1d", 29, Reason::Pointer); // to itself
        check(b"\x01a\xc0\x1d", 29, Reason::Pointer); // to its own first label
        check(b"\xc0\x1f\x00", 29, Reason::Pointer); // forward
        check(b"\xc0\x0b", 29, Reason::Pointer); // into the header
        check(b"\xc0", 29, Reason::Short);
        check(b"\x40", 29, Reason::LabelType);
        check(b"\x80", 29, Reason::LabelType);
        check(b"", 29, Reason::Short);
        check(b"", 99, Reason::Short);
        check(b"\x01a\xc0\x20\x01b\xc0\x1d", 33, Reason::Pointer); // a loop of two
        check(b"\x03\xc0\x1dz\0", 30, Reason::Pointer); // back into a label that holds the pointer
        check(b"\x04abc\xc0\x1d\0", 33, Reason::Pointer); // back to a piece that runs over it
    }

    #[test]
    fn a_chain_of_pointers_ends_at_255_bytes() {
        // Each name is one label in front of the one before it.
        let mut message = Vec::from([0; 12]);
        message.push(0);
        let mut before = 12_u16;
        let mut starts = Vec::new();
        for _ in 0..128 {
            let at = message.len();
            message.extend_from_slice(&[1, b'a']);
            message.extend_from_slice(&(0xc000 | before).to_be_bytes());
            before = at as u16;
            starts.push(at);
        }
        let (longest, _) = PackedName::parse(&message, starts[126]).unwrap();
        assert_eq!((longest.plain_len(), longest.labels().count()), (255, 127));
        assert_eq!(longest.to_buf().as_bytes().len(), 255);
        assert_eq!(
            PackedName::parse(&message, starts[127]).unwrap_err().reason,
            Reason::NameLong
        );
    }

    #[test]
    fn a_chain_of_128_pointers_and_no_more() {
        let mut message = Vec::from([0; 12]);
        message.push(0);
        let mut target = 12_u16;
        let mut starts = Vec::new();
        for _ in 0..=POINTERS_MAX {
            let at = message.len();
            message.extend_from_slice(&(0xc000 | target).to_be_bytes());
            target = at as u16;
            starts.push(at);
        }
        let (name, end) = PackedName::parse(&message, starts[POINTERS_MAX - 1]).unwrap();
        assert!(name.is_root());
        assert_eq!(end, starts[POINTERS_MAX]);
        assert_eq!(
            PackedName::parse(&message, starts[POINTERS_MAX]).unwrap_err().reason,
            Reason::Pointer
        );
    }
}
