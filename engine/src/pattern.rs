//! Regular expressions for the packet path: complete tables, made when the configuration is read.
//!
//! A search reads the table and the text, once from left to right. It takes no lock and no memory, as one that builds
//! its states while it searches would have to; in return a pattern whose table were too large is refused.

use std::fmt;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// Bytes of one pattern's table, at most.
pub const TABLE_BYTES_MAX: usize = 4 << 20;

/// A compiled pattern.
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    table: dense::DFA<Vec<u32>>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// Compiles a pattern in the syntax of the `regex` crate. Its classes are of ASCII, as is all that is searched.
    ///
    /// # Errors
    /// It is no pattern, or its table were larger than [`TABLE_BYTES_MAX`].
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let table = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(TABLE_BYTES_MAX))
            .determinize_size_limit(Some(TABLE_BYTES_MAX));
        let states = thompson::Config::new()
            .nfa_size_limit(Some(TABLE_BYTES_MAX / 4))
            .which_captures(thompson::WhichCaptures::None);
        let table = dense::Builder::new()
            .configure(table)
            .thompson(states)
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .build(text)
            .map_err(|error| PatternError(reason(&error)))?;
        Ok(Self {
            text: text.into(),
            table,
        })
    }

    /// Whether the pattern matches somewhere in the text.
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::No).earliest(true);
        // No byte makes the search give up: a table would need to be told which.
        matches!(self.table.try_search_fwd(&input), Ok(Some(_)))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// The innermost cause, in one line.
fn reason(error: &dense::BuildError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    // A syntax error draws the pattern over several lines; what is wrong stands in the last one.
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_may_stand_anywhere() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(
                Pattern::new(pattern).unwrap().is_match(text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        };
        check("b", "abc", true);
        check("^b", "abc", false);
        check("c$", "abc", true);
        check("", "", true);
        check("^$", "a", false);
        check(r"^[a-z]+\.oak\.$", "web.oak.", true);
        check(r"^[a-z]+\.oak\.$", "1.oak.", false);
        check("(?i)OAK", "web.oak.", true);
        check(r"\bweb\b", "a-web.oak.", true);
        check(".", "\u{e9}", true);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        assert_eq!(Pattern::new("a(b").unwrap_err().to_string(), "unclosed group");
        assert_eq!(
            Pattern::new("*").unwrap_err().to_string(),
            "repetition operator missing expression"
        );
    }

    #[test]
    fn a_table_is_bounded() {
        let error = Pattern::new("[ab]*a[ab]{20}").unwrap_err().to_string();
        assert!(error.contains("exceeded"), "{error}");
        assert!(Pattern::new("(((a{100}){100}){100}){100}").is_err());
    }
}
