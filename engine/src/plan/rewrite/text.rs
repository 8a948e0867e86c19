//! Names as texts: rules compare and change them as they are written, across the borders of labels.

use std::fmt::Write as _;

use arrayvec::ArrayString;
use nodens_wire::{Name, NameBuf};

use crate::captures::{Captures, Scratch};

/// Bytes of a name's text: 255 of the name, each of which may take four.
const TEXT_LEN_MAX: usize = 1024;

/// A name in lower case with its final dot, or what a rule made of one.
pub(super) type NameText = ArrayString<TEXT_LEN_MAX>;

/// The text of a name.
pub(super) fn text_of(name: Name<'_>) -> NameText {
    let mut text = NameText::new();
    // It fits: see the length.
    let _ = write!(text, "{name}");
    text.make_ascii_lowercase();
    text
}

/// What a name must be like. The texts are absolute and in lower case.
#[derive(Clone, Debug)]
pub enum NameMatch {
    /// It is this one.
    Exact(Box<str>),
    /// It begins so.
    Prefix(Box<str>),
    /// It ends so, which may be in the middle of a label.
    Suffix(Box<str>),
    /// This stands in it.
    Substring(Box<str>),
    /// The pattern matches somewhere in it.
    Regex(Box<Captures>),
}

/// What a pattern puts in a name's place.
#[derive(Clone, Debug)]
pub struct Replacement(Box<[Part]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Group(usize),
}

/// A change of names.
#[derive(Clone, Debug)]
pub struct NameEdit {
    /// Which names are changed.
    pub matches: NameMatch,
    /// What comes in the place of what matched; of the whole name where that was a pattern.
    pub to: Replacement,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The name is none of those that are changed.
    No,
    /// It was changed.
    Yes,
    /// It would be longer than any name.
    Long,
}

impl NameMatch {
    pub(super) fn holds(&self, text: &str, scratch: &mut Scratch) -> bool {
        match self {
            Self::Exact(name) => text == &**name,
            Self::Prefix(prefix) => text.starts_with(&**prefix),
            Self::Suffix(suffix) => text.ends_with(&**suffix),
            Self::Substring(part) => text.contains(&**part),
            Self::Regex(captures) => captures.find(text, scratch).is_some(),
        }
    }
}

impl Replacement {
    /// `{1}` in a text stands for the first group of the pattern, which has so many; without one it is the text.
    #[must_use]
    pub fn new(text: &str, groups: usize) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut done = 0;
        while let Some(at) = rest[done..].find('{').map(|at| done + at) {
            let number = rest[at + 1..].split_once('}').and_then(|(number, _)| {
                let is_plain = number == "0" || !number.starts_with(['0', '+']);
                let group = number.parse::<usize>().ok()?;
                (is_plain && group <= groups).then_some((group, number.len()))
            });
            match number {
                Some((group, len)) => {
                    parts.push(Part::Text(rest[..at].into()));
                    parts.push(Part::Group(group));
                    rest = &rest[at + len + 2..];
                    done = 0;
                }
                None => done = at + 1,
            }
        }
        parts.push(Part::Text(rest.into()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Self(parts.into())
    }

    /// A text that has no groups.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        Self(Box::new([Part::Text(text.into())]))
    }

    fn write<'t>(&self, group: impl Fn(usize) -> Option<&'t str>, out: &mut NameText) -> Option<()> {
        for part in &self.0 {
            let text = match part {
                Part::Text(text) => text,
                Part::Group(number) => group(*number).unwrap_or_default(),
            };
            out.try_push_str(text).ok()?;
        }
        Some(())
    }
}

impl NameEdit {
    /// Changes a name, if it is one of those that are changed.
    pub(super) fn apply(&self, text: &mut NameText, scratch: &mut Scratch) -> Edited {
        let mut out = NameText::new();
        let old = text.as_str();
        let done = match &self.matches {
            NameMatch::Exact(name) if old == &**name => self.put(&mut out),
            NameMatch::Prefix(prefix) => match old.strip_prefix(&**prefix) {
                Some(rest) => self.put(&mut out).and_then(|()| out.try_push_str(rest).ok()),
                None => return Edited::No,
            },
            NameMatch::Suffix(suffix) => match old.strip_suffix(&**suffix) {
                Some(rest) => out.try_push_str(rest).ok().and_then(|()| self.put(&mut out)),
                None => return Edited::No,
            },
            NameMatch::Substring(part) if old.contains(&**part) => {
                let mut pieces = old.split(&**part);
                let first = pieces.next().unwrap_or_default();
                let first = out.try_push_str(first).ok();
                first.and_then(|()| {
                    pieces.try_for_each(|piece| self.put(&mut out).and_then(|()| out.try_push_str(piece).ok()))
                })
            }
            NameMatch::Regex(captures) => match captures.find(old, scratch) {
                Some(groups) => self.to.write(|group| groups.get(group), &mut out),
                None => return Edited::No,
            },
            NameMatch::Exact(_) | NameMatch::Substring(_) => return Edited::No,
        };
        if done.is_none() {
            return Edited::Long;
        }
        *text = out;
        Edited::Yes
    }

    fn put(&self, out: &mut NameText) -> Option<()> {
        self.to.write(|_| None, out)
    }
}

/// Puts `to` in the place of `from`, which is the whole text or stands at its end behind a dot.
pub(super) fn remap(text: &mut NameText, from: &str, to: &str) -> Edited {
    let Some(front) = text.strip_suffix(from) else {
        return Edited::No;
    };
    if !front.is_empty() && !front.ends_with('.') {
        return Edited::No;
    }
    let len = front.len();
    if len + to.len() > TEXT_LEN_MAX {
        return Edited::Long;
    }
    text.truncate(len);
    text.push_str(to);
    Edited::Yes
}

/// The name that a text is.
pub(super) fn name_of(text: &str) -> Option<NameBuf> {
    NameBuf::from_text(text).ok().map(NameBuf::folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(matches: NameMatch, to: Replacement, name: &str) -> String {
        let mut text = text_of(NameBuf::from_text(name).unwrap().as_name());
        let edit = NameEdit { matches, to };
        match edit.apply(&mut text, &mut Scratch::default()) {
            Edited::No => "-".to_owned(),
            Edited::Yes => text.to_string(),
            Edited::Long => "!".to_owned(),
        }
    }

    #[test]
    fn kinds_of_rules() {
        let check = |kind: fn(Box<str>) -> NameMatch, from: &str, to: &str, name: &str, expected: &str| {
            assert_eq!(
                edited(kind(from.into()), Replacement::plain(to), name),
                expected,
                "{from} {to} {name}"
            );
        };
        check(NameMatch::Exact, "a.oak.", "b.elm.", "A.Oak", "b.elm.");
        check(NameMatch::Exact, "a.oak.", "b.elm.", "x.a.oak", "-");
        check(NameMatch::Prefix, "dev-.", "prod-.", "dev-.oak", "prod-.oak.");
        check(NameMatch::Prefix, "dev-.", "prod-.", "dev-a.oak", "-");
        check(
            NameMatch::Suffix,
            ".pine.example.",
            ".cedar.example.",
            "a.b.pine.example",
            "a.b.cedar.example.",
        );
        check(
            NameMatch::Suffix,
            ".pine.example.",
            ".cedar.example.",
            "pine.example",
            "-",
        );
        check(NameMatch::Suffix, "pine.example.", "oak.", "xpine.example", "xoak.");
        check(NameMatch::Substring, "b.", "c.", "b.ab.b", "c.ac.c.");
        check(NameMatch::Substring, "x.", "c.", "b.ab.b", "-");
        check(NameMatch::Suffix, "oak.", &"a.".repeat(600), "oak", "!");
        let long = "{".repeat(1000);
        check(NameMatch::Substring, "b.", &long, "b.b.", "!");
    }

    #[test]
    fn patterns_put_groups_into_their_place() {
        let check = |pattern: &str, to: &str, name: &str, expected: &str| {
            let captures = Captures::new(pattern).unwrap();
            let to = Replacement::new(to, captures.group_count());
            assert_eq!(
                edited(NameMatch::Regex(captures.into()), to, name),
                expected,
                "{pattern} {name}"
            );
        };
        check(r"(.*)\.oak\.$", "{1}.elm.", "A.b.oak", "a.b.elm.");
        check(r"(.*)-(.*)\.oak\.$", "{2}.{1}.{0}", "a-b.oak", "b.a.a-b.oak.");
        check(r"(.*)\.oak\.$", "{1}{2}{01}{+1}{x}{.", "a.oak", "a{2}{01}{+1}{x}{.");
        check(r"^(x)?a", "{1}b.", "a.oak", "b.");
        check(r"(.*)\.oak\.$", "{1}.elm.", "a.elm", "-");
    }

    #[test]
    fn names_are_mapped_back_at_borders_of_labels() {
        let check = |name: &str, expected: &str| {
            let mut text = text_of(NameBuf::from_text(name).unwrap().as_name());
            let shown = match remap(&mut text, "new.oak.", "old.elm.") {
                Edited::No => "-",
                Edited::Yes | Edited::Long => &*text,
            };
            assert_eq!(shown, expected, "{name}");
        };
        check("new.oak", "old.elm.");
        check("a.NEW.oak", "a.old.elm.");
        check("xnew.oak", "-");
        check("oak", "-");
    }

    #[test]
    fn the_longest_text_fits() {
        let long = NameBuf::from_labels([[0_u8; 63].as_slice(), &[0; 63], &[0; 63], &[0; 61]], Name::ROOT).unwrap();
        assert_eq!(long.as_bytes().len(), 255);
        let text = text_of(long.as_name());
        assert_eq!(text.len(), 250 * 4 + 4);
        assert_eq!(name_of(&text).unwrap(), long);
    }
}
