//! Says a reason once, and again when a minute has passed; pure, time is an argument.

use std::time::{Duration, Instant};

/// How long the same reason is not repeated.
const REPEAT: Duration = Duration::from_secs(60);
/// Reasons kept in mind. One fault often shows itself in two or three ways in turn.
const REASONS_MAX: usize = 8;

/// What was said lately, and when.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    said: Vec<(String, Instant)>,
}

impl Quiet {
    /// Whether `text` is worth saying now; if so, it counts as said.
    pub(crate) fn says(&mut self, text: &str, now: Instant) -> bool {
        self.said.retain(|(_, at)| now.saturating_duration_since(*at) < REPEAT);
        if self.said.iter().any(|(said, _)| said == text) {
            return false;
        }
        if self.said.len() == REASONS_MAX {
            self.said.remove(0);
        }
        self.said.push((text.to_owned(), now));
        true
    }

    /// All is well again: every reason is new.
    pub(crate) fn clear(&mut self) {
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_said_once_a_minute() {
        let mut quiet = Quiet::default();
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        assert!(quiet.says("away", at(0)));
        assert!(!quiet.says("away", at(1)));
        assert!(!quiet.says("away", at(59)));
        assert!(quiet.says("away", at(60)));
        assert!(quiet.says("denied", at(61)));
        assert!(!quiet.says("away", at(62)));
        quiet.clear();
        assert!(quiet.says("away", at(63)));
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let mut quiet = Quiet::default();
        let now = Instant::now();
        for n in 0..=REASONS_MAX {
            assert!(quiet.says(&n.to_string(), now));
        }
        assert!(quiet.says("0", now));
        assert!(!quiet.says(&REASONS_MAX.to_string(), now));
    }
}
