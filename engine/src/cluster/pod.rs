//! What is kept of a pod behind its address and its namespace: its name, and what those of its labels say that are asked for.
//!
//! ```text
//!   picker-0 NUL  len+1 web  0  1 ...      of each label the length and one more, and its text; 0 where the pod has none
//! ```

/// The longest text of a label; the API has none that is longer.
const TEXT_LEN_MAX: usize = 63;
/// Ends the name where labels stand behind it; no name has it.
const NAME_END: u8 = 0;

/// What labels of a pod say, in the order in which they are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels(Vec<u8>);

impl PodLabels {
    /// None of them where the pod has no such label, or one that no API server has.
    pub fn new<'t>(texts: impl IntoIterator<Item = Option<&'t str>>) -> Self {
        let mut bytes = Vec::new();
        for text in texts {
            if bytes.is_empty() {
                bytes.push(NAME_END);
            }
            match text.filter(|text| text.len() <= TEXT_LEN_MAX) {
                Some(text) => {
                    bytes.push(text.len() as u8 + 1);
                    bytes.extend_from_slice(text.as_bytes());
                }
                None => bytes.push(0),
            }
        }
        Self(bytes)
    }

    /// None are asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The name in what is kept.
pub(crate) fn name(kept: &[u8]) -> &[u8] {
    kept.split(|byte| *byte == NAME_END).next().unwrap_or_default()
}

/// What the label at a place says.
pub(crate) fn label(kept: &[u8], place: usize) -> Option<&[u8]> {
    let mut rest = kept.get(name(kept).len() + 1..)?;
    for _ in 0..place {
        let len = usize::from(*rest.first()?);
        rest = rest.get(len.max(1)..)?;
    }
    let len = usize::from(*rest.first()?);
    rest.get(1..len)
}

/// Whether `key` is that of a pod which `owner` begins, without or with labels behind it.
pub(super) fn is_of(key: &[u8], owner: &[u8]) -> bool {
    let behind = key.strip_prefix(owner);
    behind.is_some_and(|behind| behind.first().is_none_or(|byte| *byte == NAME_END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stand_behind_the_name_by_their_places() {
        let long = "a".repeat(TEXT_LEN_MAX);
        let labels = PodLabels::new([Some("web"), None, Some(""), Some(&long), Some("end")]);
        let kept = [b"picker-0", labels.as_bytes()].concat();
        assert_eq!(name(&kept), b"picker-0");
        let found: Vec<_> = (0..6).map(|place| label(&kept, place)).collect();
        let expected = [Some("web"), None, Some(""), Some(&*long), Some("end"), None];
        assert_eq!(found, expected.map(|text| text.map(str::as_bytes)));
    }

    #[test]
    fn without_labels_there_is_the_name_alone() {
        assert!(PodLabels::new([]).is_empty());
        assert_eq!((name(b"picker-0"), label(b"picker-0", 0)), (&b"picker-0"[..], None));
        // What no API server takes is not there.
        let labels = PodLabels::new([Some(&*"a".repeat(TEXT_LEN_MAX + 1)), Some("b")]);
        let kept = [b"p", labels.as_bytes()].concat();
        assert_eq!((label(&kept, 0), label(&kept, 1)), (None, Some(&b"b"[..])));
    }

    #[test]
    fn a_pod_is_known_by_all_of_its_name() {
        let check = |key: &[u8], expected: bool| assert_eq!(is_of(key, b"\x02nsweb"), expected);
        check(b"\x02nsweb", true);
        check(b"\x02nsweb\x00\x00", true);
        check(b"\x02nsweb-1", false);
        check(b"\x02nswe", false);
    }
}
