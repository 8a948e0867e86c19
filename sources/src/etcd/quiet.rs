//! Says a reason once until it changes, or a minute has passed; pure, time is an argument.

use std::time::{Duration, Instant};

/// How long the same reason is not repeated.
const REPEAT: Duration = Duration::from_secs(60);

/// What was said last, and when.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    last: Option<(String, Instant)>,
}

impl Quiet {
    /// Whether `text` is worth saying now; if so, it counts as said.
    pub(super) fn says(&mut self, text: &str, now: Instant) -> bool {
        if let Some((said, at)) = &self.last
            && said == text
            && now.saturating_duration_since(*at) < REPEAT
        {
            return false;
        }
        self.last = Some((text.to_owned(), now));
        true
    }

    /// All is well again: the next reason is new.
    pub(super) fn clear(&mut self) {
        self.last = None;
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
        assert!(quiet.says("away", at(62)));
        quiet.clear();
        assert!(quiet.says("away", at(63)));
    }
}
