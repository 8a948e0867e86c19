//! Regular expressions with groups for the packet path.
//!
//! Whether one matches at all, its table says ([`pattern`](crate::pattern)); where the groups lie, which only a match
//! needs to know, is found in memory that the caller keeps. The time is bounded by the product of both lengths.

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::primitives::{NonMaxUsize, PatternID};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::pattern::{Pattern, PatternError};

/// A compiled pattern whose groups can be asked for.
#[derive(Clone, Debug)]
pub struct Captures {
    pattern: Pattern,
    machine: PikeVM,
}

/// What a search works in. One is enough for any number of patterns; it grows to the needs of the largest.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    cache: Option<Cache>,
    slots: Vec<Option<NonMaxUsize>>,
}

/// The groups of one match.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'t, 's> {
    text: &'t str,
    slots: &'s [Option<NonMaxUsize>],
}

impl Captures {
    /// Compiles a pattern in the syntax of the `regex` crate.
    ///
    /// # Errors
    /// Those of [`Pattern::new`].
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let pattern = Pattern::new(text)?;
        let machine = PikeVM::builder()
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false))
            .build(text)
            .expect("it has just been compiled");
        Ok(Self { pattern, machine })
    }

    /// How many groups there are beside the whole match.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.machine.get_nfa().group_info().group_len(PatternID::ZERO) - 1
    }

    /// The names of all groups, the whole match first, which has none.
    pub fn group_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.machine.get_nfa().group_info().pattern_names(PatternID::ZERO)
    }

    /// The leftmost match, of several there the one that the pattern prefers.
    #[must_use]
    pub fn find<'t, 's>(&self, text: &'t str, scratch: &'s mut Scratch) -> Option<Groups<'t, 's>> {
        if !self.pattern.is_match(text.as_bytes()) {
            return None;
        }
        let cache = match &mut scratch.cache {
            Some(cache) => {
                self.machine.reset_cache(cache);
                cache
            }
            none => none.insert(self.machine.create_cache()),
        };
        scratch.slots.clear();
        scratch.slots.resize((self.group_count() + 1) * 2, None);
        let input = Input::new(text).anchored(Anchored::No);
        self.machine.search_slots(cache, &input, &mut scratch.slots)?;
        Some(Groups {
            text,
            slots: &scratch.slots,
        })
    }
}

impl<'t> Groups<'t, '_> {
    /// What a group matched; 0 is the whole match. Empty where it took no part, none where there is no such group.
    #[must_use]
    pub fn get(&self, group: usize) -> Option<&'t str> {
        let slots = self.slots.get(group * 2..group * 2 + 2)?;
        let (Some(start), Some(end)) = (slots[0], slots[1]) else {
            return Some("");
        };
        Some(self.text.get(start.get()..end.get()).unwrap_or_default())
    }

    /// How many groups there are, the whole match counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() / 2
    }

    /// Never: there is the whole match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: &[&str]) {
        let mut scratch = Scratch::default();
        let captures = Captures::new(pattern).unwrap();
        // The scratch of another pattern does as well.
        let _ = Captures::new("(a)(b)?").unwrap().find("xab", &mut scratch);
        let groups = captures.find(text, &mut scratch);
        let found: Vec<_> = groups
            .iter()
            .flat_map(|groups| (0..groups.len()).filter_map(|group| groups.get(group)))
            .collect();
        assert_eq!(found, expected, "{pattern} {text}");
        assert!(groups.is_none_or(|groups| groups.get(groups.len()).is_none()));
    }

    #[test]
    fn groups_of_the_leftmost_match() {
        check("b", "abc", &["b"]);
        check("d", "abc", &[]);
        check(
            r"(.*)\.oak\.example\.",
            "a.b.oak.example.",
            &["a.b.oak.example.", "a.b"],
        );
        check("(a)|(b)", "xb", &["b", "", "b"]);
        check("(a|ab)(c|bcd)(d*)", "abcd", &["abcd", "a", "bcd", ""]);
        check("", "", &[""]);
    }

    #[test]
    fn groups_have_names() {
        let captures = Captures::new("(?P<a>x)(y)").unwrap();
        assert_eq!(captures.group_names().collect::<Vec<_>>(), [None, Some("a"), None]);
        assert_eq!(captures.group_count(), 2);
    }
}
