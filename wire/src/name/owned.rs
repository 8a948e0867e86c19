//! Names that own their bytes.

use core::borrow::Borrow as _;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use arrayvec::ArrayVec;

use super::{LABEL_LEN_MAX, NAME_LEN_MAX, Name, borrowed};
use crate::error::NameError;

/// A name in 255 bytes of its own, on the stack or wherever it is put.
pub struct NameBuf {
    /// A valid name in wire form, root label and all.
    bytes: ArrayVec<u8, NAME_LEN_MAX>,
}

impl NameBuf {
    /// The name of no labels.
    pub fn root() -> Self {
        Self::from_name(Name::ROOT)
    }

    /// A copy of `name`.
    pub fn from_name(name: Name<'_>) -> Self {
        let mut bytes = ArrayVec::new();
        bytes
            .try_extend_from_slice(name.as_bytes())
            .expect("a name has at most 255 bytes");
        Self { bytes }
    }

    /// The labels, leftmost first, in front of `suffix`.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>, suffix: Name<'_>) -> Result<Self, NameError> {
        let mut name = Unfinished::default();
        labels.into_iter().try_for_each(|label| name.label(label))?;
        name.finish(suffix)
    }

    /// The same name, borrowed.
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name::from_measured(self.bytes.borrow())
    }

    /// The wire form.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Turns all letters small.
    pub fn fold(&mut self) {
        borrowed::fold(&mut self.bytes);
    }

    /// The same name in small letters.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.fold();
        self
    }
}

/// Labels of a name whose end is still to come.
#[derive(Default)]
pub(super) struct Unfinished {
    bytes: ArrayVec<u8, NAME_LEN_MAX>,
}

impl Unfinished {
    pub(super) fn label(&mut self, label: &[u8]) -> Result<(), NameError> {
        if label.is_empty() {
            return Err(NameError::LabelEmpty);
        }
        if label.len() > LABEL_LEN_MAX {
            return Err(NameError::LabelLong);
        }
        self.bytes
            .try_push(label.len() as u8)
            .map_err(|_| NameError::NameLong)?;
        self.bytes.try_extend_from_slice(label).map_err(|_| NameError::NameLong)
    }

    pub(super) fn finish(mut self, suffix: Name<'_>) -> Result<NameBuf, NameError> {
        self.bytes
            .try_extend_from_slice(suffix.as_bytes())
            .map_err(|_| NameError::NameLong)?;
        Ok(NameBuf { bytes: self.bytes })
    }
}

impl Default for NameBuf {
    fn default() -> Self {
        Self::root()
    }
}

impl Clone for NameBuf {
    /// One copy of the bytes in use, where the derived one would go byte by byte.
    fn clone(&self) -> Self {
        Self::from_name(self.as_name())
    }
}

impl From<Name<'_>> for NameBuf {
    fn from(name: Name<'_>) -> Self {
        Self::from_name(name)
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_name() == other.as_name()
    }
}

impl Eq for NameBuf {}

impl PartialEq<Name<'_>> for NameBuf {
    fn eq(&self, other: &Name<'_>) -> bool {
        self.as_name() == *other
    }
}

impl Hash for NameBuf {
    /// As the borrowed name.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_name().hash(state);
    }
}

impl Ord for NameBuf {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_name().cmp(&other.as_name())
    }
}

impl PartialOrd for NameBuf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn put_together_from_labels() {
        let zone = NameBuf::from_text("example.org").unwrap();
        let name = NameBuf::from_labels([&b"a.b"[..], b"WWW"], zone.as_name()).unwrap();
        assert_eq!(name.to_string(), r"a\.b.WWW.example.org.");
        assert_eq!(name.clone().folded().to_string(), r"a\.b.www.example.org.");
        assert_eq!(name.clone().folded(), name);
        assert_eq!(NameBuf::from_labels([], Name::ROOT), Ok(NameBuf::root()));
    }

    #[test]
    fn labels_that_make_no_name() {
        let check = |labels: &[&[u8]], expected| {
            assert_eq!(NameBuf::from_labels(labels.iter().copied(), Name::ROOT), Err(expected));
        };
        check(&[b""], NameError::LabelEmpty);
        check(&[&[b'a'; 64][..]], NameError::LabelLong);
        check(&[&[b'a'; 63][..]; 4], NameError::NameLong);
        check(&[&b"a"[..]; 128], NameError::NameLong);
        assert!(NameBuf::from_labels([&b"a"[..]; 127], Name::ROOT).is_ok());
    }
}
