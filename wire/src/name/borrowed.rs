//! Names that stand uncompressed in somebody else's bytes.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::iter::FusedIterator;

use arrayvec::ArrayVec;

use super::label::{LABEL_LEN_MAX, eq_folded, fold_in_place, folded_words, write_labels};
use super::{LABELS_MAX, NAME_LEN_MAX, NameBuf};
use crate::error::{ParseError, Reason};

/// A valid name in wire form: labels with their length bytes, the root label last, at most 255 bytes.
///
/// ```text
///   3 w w w 7 e x a m p l e 3 o r g 0
/// ```
///
/// Equality, hash and order are those of RFC 4034 §6.1: letter case does not count, and names sort by their last
/// label first.
#[derive(Clone, Copy)]
pub struct Name<'p>(&'p [u8]);

impl<'p> Name<'p> {
    /// The name of no labels.
    pub const ROOT: Name<'static> = Name(&[0]);

    /// The name that `bytes` are, with nothing behind it.
    pub fn from_wire(bytes: &'p [u8]) -> Result<Self, ParseError> {
        let (name, rest) = Self::split_wire(bytes)?;
        if rest.is_empty() {
            Ok(name)
        } else {
            Err(ParseError::new(Reason::Trailing, name.len()))
        }
    }

    /// The name in front of `bytes`, and what follows it.
    #[inline]
    pub fn split_wire(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), ParseError> {
        let len = wire_len(bytes)?;
        match bytes.split_at_checked(len) {
            Some((name, rest)) => Ok((Self(name), rest)),
            None => Err(ParseError::new(Reason::Short, bytes.len())),
        }
    }

    /// `bytes` must have been measured by [`wire_len`].
    #[inline]
    pub(crate) const fn from_measured(bytes: &'p [u8]) -> Self {
        Self(bytes)
    }

    /// The wire form.
    #[inline]
    pub const fn as_bytes(self) -> &'p [u8] {
        self.0
    }

    /// Bytes of the wire form, 1 to 255.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "no name is empty; see is_root")]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are no labels.
    #[inline]
    pub const fn is_root(self) -> bool {
        self.0.len() <= 1
    }

    /// The labels from left to right, without the root's.
    #[inline]
    pub const fn labels(self) -> Labels<'p> {
        Labels(self.0)
    }

    /// How many labels there are, without the root's.
    pub fn label_count(self) -> usize {
        self.labels().count()
    }

    /// The leftmost label.
    pub fn first_label(self) -> Option<&'p [u8]> {
        self.labels().next()
    }

    /// The name without its leftmost label; none of the root.
    #[inline]
    pub fn parent(self) -> Option<Self> {
        let (&len, rest) = self.0.split_first()?;
        if len == 0 {
            return None;
        }
        rest.get(usize::from(len)..).map(Self)
    }

    /// Whether this is `zone` or below it.
    #[inline]
    pub fn is_within(self, zone: Name<'_>) -> bool {
        self.strip(zone).is_some()
    }

    /// The labels in front of `zone` in wire form, without a root label; none when the name is not within `zone`.
    pub fn strip(self, zone: Name<'_>) -> Option<&'p [u8]> {
        let cut = self.0.len().checked_sub(zone.0.len())?;
        let (front, back) = self.0.split_at_checked(cut)?;
        if !eq_folded(back, zone.0) {
            return None;
        }
        // Equal bytes may still begin in the middle of a label.
        let mut at = 0_usize;
        while at < cut {
            at = at.wrapping_add(1).wrapping_add(usize::from(*front.get(at)?));
        }
        (at == cut).then_some(front)
    }

    /// A copy that owns its bytes.
    pub fn to_buf(self) -> NameBuf {
        NameBuf::from_name(self)
    }
}

impl PartialEq for Name<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        eq_folded(self.0, other.0)
    }
}

impl Eq for Name<'_> {}

impl Hash for Name<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        folded_words(self.0).for_each(|word| state.write_u64(word));
    }
}

impl Ord for Name<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // RFC 4034 §6.1: label by label from the right, each as folded bytes, and a name sorts before what is below it.
        let (mine, theirs): (LabelList<'_>, LabelList<'_>) = (self.labels().collect(), other.labels().collect());
        let mut theirs = theirs.iter().rev();
        for mine in mine.iter().rev() {
            let Some(theirs) = theirs.next() else {
                return Ordering::Greater;
            };
            match cmp_folded(mine, theirs) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        if theirs.next().is_some() {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    }
}

impl PartialOrd for Name<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name<'_> {
    /// The presentation form with its final dot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(self.labels(), f)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The labels of a name from left to right, without the root's.
#[derive(Clone, Debug)]
pub struct Labels<'p>(&'p [u8]);

impl<'p> Iterator for Labels<'p> {
    type Item = &'p [u8];

    #[inline]
    fn next(&mut self) -> Option<&'p [u8]> {
        let (&len, rest) = self.0.split_first()?;
        if len == 0 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(label)
    }
}

impl FusedIterator for Labels<'_> {}

type LabelList<'p> = ArrayVec<&'p [u8], LABELS_MAX>;

fn cmp_folded(a: &[u8], b: &[u8]) -> Ordering {
    let fold = |label: &[u8]| {
        let mut folded = [0; LABEL_LEN_MAX];
        let len = label.len().min(LABEL_LEN_MAX);
        super::label::fold_into(label, &mut folded);
        (folded, len)
    };
    let ((a, a_len), (b, b_len)) = (fold(a), fold(b));
    a.get(..a_len).cmp(&b.get(..b_len))
}

/// Bytes of the uncompressed name in front of `bytes`, its root label included.
#[inline]
pub(crate) fn wire_len(bytes: &[u8]) -> Result<usize, ParseError> {
    let mut at = 0_usize;
    // A name has no byte behind these, its root label included.
    let within = bytes.get(..NAME_LEN_MAX).unwrap_or(bytes);
    while let Some(&len) = within.get(at) {
        match usize::from(len) {
            0 => return Ok(at.wrapping_add(1)),
            len @ 1..=LABEL_LEN_MAX => at = at.wrapping_add(1).wrapping_add(len),
            _ => return Err(ParseError::new(Reason::LabelType, at)),
        }
    }
    let reason = if at < NAME_LEN_MAX {
        Reason::Short
    } else {
        Reason::NameLong
    };
    Err(ParseError::new(reason, at))
}

/// Folds a name in wire form where it stands.
pub(super) fn fold(name: &mut [u8]) {
    fold_in_place(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;
    use std::vec;
    use std::vec::Vec;

    fn wire(text: &str) -> NameBuf {
        NameBuf::from_text(text).unwrap()
    }

    #[test]
    fn a_name_of_255_bytes_and_no_more() {
        let mut bytes: Vec<u8> = [1, b'a'].repeat(127);
        bytes.push(0);
        let name = Name::from_wire(&bytes).unwrap();
        assert_eq!((name.len(), name.label_count()), (NAME_LEN_MAX, LABELS_MAX));

        let mut bytes = [1, b'a'].repeat(126);
        bytes.extend_from_slice(&[2, b'a', b'a', 0]);
        assert_eq!(Name::from_wire(&bytes).unwrap_err().reason, Reason::NameLong);
    }

    #[test]
    fn labels_of_63_bytes_and_no_more() {
        let mut bytes = vec![63];
        bytes.extend([b'x'; 63]);
        bytes.push(0);
        assert!(Name::from_wire(&bytes).is_ok());
        bytes[0] = 64;
        assert_eq!(Name::from_wire(&bytes), Err(ParseError::new(Reason::LabelType, 0)));
        bytes[0] = 0xc0;
        assert_eq!(Name::from_wire(&bytes), Err(ParseError::new(Reason::LabelType, 0)));
    }

    #[test]
    fn ends_that_do_not_fit() {
        for short in [&b""[..], b"\x03", b"\x03ww", b"\x03www"] {
            assert_eq!(Name::from_wire(short).unwrap_err().reason, Reason::Short);
        }
        assert_eq!(Name::from_wire(b"\x00\x00"), Err(ParseError::new(Reason::Trailing, 1)));
    }

    #[test]
    fn within_means_on_a_label_boundary() {
        let check = |name: &str, zone: &str, expected: Option<&[u8]>| {
            assert_eq!(
                wire(name).as_name().strip(wire(zone).as_name()),
                expected,
                "{name} {zone}"
            );
        };
        check("WWW.Example.org.", "example.ORG.", Some(b"\x03WWW"));
        check("example.org.", "example.org.", Some(b""));
        check("example.org.", ".", Some(b"\x07example\x03org"));
        check(".", ".", Some(b""));
        check("org.", "example.org.", None);
        check("badexample.org.", "example.org.", None);
        // The bytes of the zone, length byte and all, inside a longer label.
        check("a\\007example.org.", "example.org.", None);
    }

    #[test]
    fn parents_up_to_the_root() {
        let name = wire("a.b.");
        let parent = name.as_name().parent().unwrap();
        assert_eq!(parent.to_string(), "b.");
        assert_eq!(parent.parent(), Some(Name::ROOT));
        assert_eq!(Name::ROOT.parent(), None);
        assert_eq!(name.as_name().first_label(), Some(&b"a"[..]));
    }

    #[test]
    fn the_order_of_rfc_4034() {
        // The example of RFC 4034 §6.1.
        let names: Vec<NameBuf> = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            "\\001.z.example",
            "*.z.example",
            "\\200.z.example",
        ]
        .map(wire)
        .into();
        assert!(names.is_sorted());
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    proptest! {
        #[test]
        fn order_is_that_of_reversed_folded_labels(a in labels(), b in labels()) {
            let reversed = |labels: &[Vec<u8>]| -> Vec<Vec<u8>> {
                labels.iter().rev().map(|label| label.to_ascii_lowercase()).collect()
            };
            let name = |labels: &[Vec<u8>]| NameBuf::from_labels(labels.iter().map(Vec::as_slice), Name::ROOT).unwrap();
            prop_assert_eq!(name(&a).cmp(&name(&b)), reversed(&a).cmp(&reversed(&b)));
            prop_assert_eq!(name(&a) == name(&b), reversed(&a) == reversed(&b));
        }

        #[test]
        fn splitting_takes_the_name_and_nothing_else(labels in labels(), behind: Vec<u8>) {
            let name = NameBuf::from_labels(labels.iter().map(Vec::as_slice), Name::ROOT).unwrap();
            let mut bytes = name.as_bytes().to_vec();
            bytes.extend_from_slice(&behind);
            let (split, rest) = Name::split_wire(&bytes).unwrap();
            prop_assert_eq!(split.as_bytes(), name.as_bytes());
            prop_assert_eq!(rest, &behind[..]);
        }
    }

    fn labels() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![Just(b'a'), Just(b'B'), Just(b'b'), any::<u8>()];
        proptest::collection::vec(proptest::collection::vec(byte, 1..4), 0..6)
    }
}
