//! Errors like one another: counted for a while, told in one line.

use std::fmt::Write as _;
use std::time::Instant;

use regex::bytes::Regex;

use crate::corefile::duration::go_text;
use crate::corefile::re2;
use crate::corefile::settings::{Consolidate, ErrorLevel};

/// The `consolidate` lines of one block, at work.
#[derive(Debug)]
pub struct Consolidator {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    settings: Consolidate,
    pattern: Regex,
    count: u64,
    /// When they are told; none while nothing has come.
    due: Option<Instant>,
}

impl Consolidator {
    /// Nothing has come yet.
    pub fn new(settings: &[Consolidate]) -> Self {
        let rule = |settings: &Consolidate| {
            Some(Rule {
                settings: settings.clone(),
                // It did when the configuration was read.
                pattern: re2::compile(&settings.pattern).ok()?,
                count: 0,
                due: None,
            })
        };
        Self {
            rules: settings.iter().filter_map(rule).collect(),
        }
    }

    /// How an error is to be marked when it is written now; none where it is only counted.
    pub fn level(&mut self, text: &str, now: Instant) -> Option<ErrorLevel> {
        let Some(rule) = self
            .rules
            .iter_mut()
            .find(|rule| rule.pattern.is_match(text.as_bytes()))
        else {
            return Some(ErrorLevel::Error);
        };
        rule.count += 1;
        rule.due = rule.due.or(Some(now + rule.settings.every));
        (rule.count == 1 && rule.settings.show_first).then_some(rule.settings.level)
    }

    /// When the next line is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.rules.iter().filter_map(|rule| rule.due).min()
    }

    /// Writes the lines whose time has come; all of them where there is no `now`. Those of `debug` are written only where
    /// some block has it.
    pub fn tell(&mut self, now: Option<Instant>, has_debug: bool, out: &mut String) {
        for rule in &mut self.rules {
            let is_due = rule.due.is_some_and(|due| now.is_none_or(|now| due <= now));
            if !is_due {
                continue;
            }
            rule.due = None;
            let count = std::mem::take(&mut rule.count);
            let Consolidate {
                every,
                pattern,
                level,
                show_first,
            } = &rule.settings;
            // The first one has been written as it is.
            if (*show_first && count == 1) || (*level == ErrorLevel::Debug && !has_debug) {
                continue;
            }
            let (level, every) = (level.as_str(), go_text(*every));
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "[{level}] plugin/errors: {count} errors like '{pattern}' occurred in last {every}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn consolidator(lines: &[(&str, ErrorLevel, bool)]) -> Consolidator {
        let line = |&(pattern, level, show_first): &(&str, ErrorLevel, bool)| Consolidate {
            every: Duration::from_secs(60),
            pattern: pattern.to_owned(),
            level,
            show_first,
        };
        Consolidator::new(&lines.iter().map(line).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_pattern_counts_until_its_time_has_come() {
        let mut own = consolidator(&[
            ("^a", ErrorLevel::Warning, false),
            ("a|b", ErrorLevel::Error, true),
            ("c", ErrorLevel::Debug, false),
        ]);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(own.level("d", start), Some(ErrorLevel::Error), "matches nothing");
        assert_eq!(own.deadline(), None);
        assert_eq!(own.level("ab", start), None);
        assert_eq!(own.level("ba", at(10)), Some(ErrorLevel::Error), "shown first");
        assert_eq!(own.level("ab", at(20)), None);
        assert_eq!(own.level("ba", at(30)), None);
        assert_eq!(own.level("c", at(30)), None);
        assert_eq!(own.deadline(), Some(at(60)));

        let mut out = String::new();
        own.tell(Some(at(59)), false, &mut out);
        assert_eq!(out, "");
        own.tell(Some(at(60)), false, &mut out);
        assert_eq!(
            out,
            "[WARNING] plugin/errors: 2 errors like '^a' occurred in last 1m0s\n"
        );
        out.clear();
        own.tell(Some(at(200)), false, &mut out);
        assert_eq!(
            out,
            "[ERROR] plugin/errors: 2 errors like 'a|b' occurred in last 1m0s\n"
        );
        assert_eq!(own.deadline(), None);

        assert_eq!(own.level("c", at(300)), None);
        assert_eq!(own.level("b", at(300)), Some(ErrorLevel::Error), "the first again");
        out.clear();
        own.tell(None, true, &mut out);
        assert_eq!(out, "[DEBUG] plugin/errors: 1 errors like 'c' occurred in last 1m0s\n");
        assert_eq!(own.deadline(), None);
    }
}
