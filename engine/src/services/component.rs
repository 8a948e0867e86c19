//! Components of keys and labels of names: the same text, written differently.

use arrayvec::ArrayVec;
use nodens_wire::label as wire_label;

/// A label, at most 63 bytes.
pub(crate) type Label = ArrayVec<u8, 63>;

/// The label whose presentation form, in lower case, is this component. A component with a bare dot, a blank or a
/// capital letter has none: such a key is found only by asking for a name above it.
pub(crate) fn label(component: &[u8]) -> Option<Label> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'*');
    if component.iter().copied().all(plain) {
        return (!component.is_empty())
            .then(|| Label::try_from(component).ok())
            .flatten();
    }
    let label = single(component)?;
    let mut text = arrayvec::ArrayString::<256>::new();
    wire_label::write_text(&label, &mut text).ok()?;
    (text.as_bytes() == component && !label.iter().any(u8::is_ascii_uppercase)).then_some(label)
}

fn single(component: &[u8]) -> Option<Label> {
    let mut labels = Unescaped(component);
    let label = labels.next()??;
    labels.next().is_none().then_some(label)
}

/// The labels that a component adds to a name made from its key: more than one where it holds dots. `None` for what
/// no name can hold.
pub(crate) fn labels(component: &[u8]) -> impl Iterator<Item = Option<Label>> {
    Unescaped(component)
}

struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = Option<Label>;

    fn next(&mut self) -> Option<Option<Label>> {
        if self.0.is_empty() {
            return None;
        }
        let mut label = Label::new();
        loop {
            let (byte, rest) = match self.0 {
                [] => break,
                [b'.', rest @ ..] => {
                    // A trailing dot would leave an empty label behind it.
                    let dangling = rest.is_empty();
                    self.0 = rest;
                    return Some((!label.is_empty() && !dangling).then_some(label));
                }
                [b'\\', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
                    let code = [a, b, c]
                        .iter()
                        .fold(0_u16, |code, digit| code * 10 + u16::from(**digit - b'0'));
                    let Ok(byte) = u8::try_from(code) else {
                        self.0 = &[];
                        return Some(None);
                    };
                    (byte, rest)
                }
                [b'\\', byte, rest @ ..] | [byte, rest @ ..] => (*byte, rest),
            };
            self.0 = rest;
            if label.try_push(byte).is_err() {
                self.0 = &[];
                return Some(None);
            }
        }
        Some((!label.is_empty()).then_some(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_reached_by_the_label_that_reads_the_same() {
        let check = |component: &str, expected: Option<&[u8]>| {
            assert_eq!(label(component.as_bytes()).as_deref(), expected, "{component}");
        };
        check("web", Some(b"web"));
        check("_tcp", Some(b"_tcp"));
        check("*", Some(b"*"));
        check("a\\.b", Some(b"a.b"));
        check("a.b", None);
        check("Web", None);
        check("", None);
        check(&"x".repeat(63), Some(&[b'x'; 63]));
        check(&"x".repeat(64), None);
    }

    #[test]
    fn a_made_name_has_a_label_for_each_dot() {
        let all = |component: &str| {
            labels(component.as_bytes())
                .map(|l| l.map(|l| l.to_vec()))
                .collect::<Vec<_>>()
        };
        assert_eq!(all("a.b"), [Some(b"a".to_vec()), Some(b"b".to_vec())]);
        assert_eq!(all("a\\.B"), [Some(b"a.B".to_vec())]);
        assert_eq!(all("a..b"), [Some(b"a".to_vec()), None, Some(b"b".to_vec())]);
        assert_eq!(all("a."), [None]);
        assert_eq!(all("\\300"), [None]);
        assert_eq!(all(""), Vec::<Option<Vec<u8>>>::new());
    }
}
