//! Names as people write them (RFC 1035 §5.1).

use core::str::FromStr;

use arrayvec::ArrayVec;

use super::owned::Unfinished;
use super::{LABEL_LEN_MAX, Name, NameBuf};
use crate::error::NameError;

impl NameBuf {
    /// The name that `text` is, with or without its final dot. `\.` is a dot inside a label, `\DDD` any byte.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        Self::from_text_in(text, Name::ROOT)
    }

    /// The name that `text` is when it ends in a dot, else `text` in front of `origin`; `@` is `origin` itself.
    pub fn from_text_in(text: &str, origin: Name<'_>) -> Result<Self, NameError> {
        match text {
            "" => return Err(NameError::Empty),
            "." => return Ok(Self::root()),
            "@" => return Ok(Self::from_name(origin)),
            _ => {}
        }
        let mut name = Unfinished::default();
        let mut label = ArrayVec::<u8, LABEL_LEN_MAX>::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            let byte = match byte {
                b'.' => {
                    name.label(&label)?;
                    label.clear();
                    continue;
                }
                b'\\' => unescape(&mut bytes).ok_or(NameError::Escape)?,
                plain => plain,
            };
            label.try_push(byte).map_err(|_| NameError::LabelLong)?;
        }
        if label.is_empty() {
            return name.finish(Name::ROOT);
        }
        name.label(&label)?;
        name.finish(origin)
    }
}

impl FromStr for NameBuf {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::from_text(text)
    }
}

/// What stands behind a backslash: three digits up to 255, or one other character for itself.
fn unescape(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let first = bytes.next()?;
    if !first.is_ascii_digit() {
        return Some(first);
    }
    [first, bytes.next()?, bytes.next()?]
        .iter()
        .try_fold(0_u8, |value, digit| {
            let digit = digit.is_ascii_digit().then(|| digit.wrapping_sub(b'0'))?;
            value.checked_mul(10)?.checked_add(digit)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;
    use std::vec::Vec;

    #[test]
    fn with_and_without_the_final_dot() {
        let check = |text: &str, expected: &str| {
            assert_eq!(NameBuf::from_text(text).unwrap().to_string(), expected, "{text}");
        };
        check(".", ".");
        check("org", "org.");
        check("org.", "org.");
        check("WWW.Example.org", "WWW.Example.org.");
        check(r"a\.b.org.", r"a\.b.org.");
        check(r"\097\b.", "ab.");
        check(r"\255\000", r"\255\000.");
        check("*._tcp", "*._tcp.");
        check(r"dot\.", r"dot\..");
        check(r"\@", r"\@.");
    }

    #[test]
    fn texts_that_are_no_names() {
        let check = |text: &str, expected| assert_eq!(NameBuf::from_text(text), Err(expected), "{text}");
        check("", NameError::Empty);
        check("..", NameError::LabelEmpty);
        check(".a", NameError::LabelEmpty);
        check("a..b", NameError::LabelEmpty);
        check("a.\\", NameError::Escape);
        check("\\25", NameError::Escape);
        check("\\2a5", NameError::Escape);
        check("\\256", NameError::Escape);
        check(&"a".repeat(64), NameError::LabelLong);
        check(&"a.".repeat(128), NameError::NameLong);
        assert!(NameBuf::from_text(&"a.".repeat(127)).is_ok());
    }

    #[test]
    fn relative_to_an_origin() {
        let origin = NameBuf::from_text("example.org").unwrap();
        let check = |text: &str, expected: &str| {
            assert_eq!(
                NameBuf::from_text_in(text, origin.as_name()).unwrap().to_string(),
                expected,
                "{text}"
            );
        };
        check("@", "example.org.");
        check("www", "www.example.org.");
        check("www.", "www.");
        check(".", ".");
        check(r"a\.", r"a\..example.org.");
    }

    proptest! {
        #[test]
        fn any_name_survives_its_text(labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..8)) {
            let name = NameBuf::from_labels(labels.iter().map(Vec::as_slice), Name::ROOT).unwrap();
            let read = NameBuf::from_text(&name.to_string()).unwrap();
            prop_assert_eq!(read.as_bytes(), name.as_bytes());
        }

        #[test]
        fn no_text_panics(text: std::string::String) {
            let _ = NameBuf::from_text(&text);
        }
    }
}
