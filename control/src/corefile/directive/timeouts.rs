//! `timeouts { read DURATION; write DURATION; idle DURATION; maxtcpqueries N }`

use std::time::Duration;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::{DurationError, go_duration, go_text};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{QueriesMax, Timeouts};

const OPTIONS: [&str; 4] = ["read", "write", "idle", "maxtcpqueries"];
const DURATION_MIN: Duration = Duration::from_secs(1);
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads a stanza into `timeouts`; what an earlier one set and this one does not stays.
pub(super) fn timeouts(line: &Line, timeouts: &mut Timeouts, scope: &mut Scope<'_>) {
    scope.no_args(line);
    for option in scope.options(line) {
        let Some(word) = scope.one_arg(option) else { continue };
        match &*option.name.text {
            "read" => timeouts.read = duration(word, scope),
            "write" => timeouts.write = duration(word, scope),
            "idle" => timeouts.idle = duration(word, scope),
            "maxtcpqueries" => timeouts.queries_max = queries_max(word, scope),
            name => scope.unknown(option.name.span, format!("unknown option: '{name}'"), name, &OPTIONS),
        }
    }
    if line.options().is_empty() {
        let error = Diagnostic::error(
            line.name.span,
            "plugin/timeouts: timeouts block with no timeouts specified",
        );
        scope.findings.error(error.help("write for example `idle 30s`"));
    }
}

/// A bare number is seconds.
fn duration(word: &Word, scope: &mut Scope<'_>) -> Option<Duration> {
    let is_number = word.text.parse::<i64>().is_ok();
    let text = format!("{}{}", word.text, if is_number { "s" } else { "" });
    let shown = match go_duration(&text) {
        Ok(duration) if (DURATION_MIN..=DURATION_MAX).contains(&duration) => return Some(duration),
        Ok(duration) => go_text(duration),
        Err(DurationError::Negative(text)) => text,
        Err(error) => {
            let diagnostic = Diagnostic::error(word.span, format!("failed to parse duration '{text}'"));
            scope.findings.error(
                diagnostic
                    .label(error.to_string())
                    .help("write seconds or a duration, `30`, `30s` or `5m`"),
            );
            return None;
        }
    };
    let text = format!("timeout provided '{shown}' needs to be between 1 second and 24 hours");
    scope.error(word.span, text);
    None
}

fn queries_max(word: &Word, scope: &mut Scope<'_>) -> Option<QueriesMax> {
    match word.text.parse::<i64>() {
        Ok(-1) => Some(QueriesMax::Unlimited),
        Ok(n @ 1..) => Some(QueriesMax::Of(n.unsigned_abs())),
        _ => {
            let text = format!("maxtcpqueries '{}' needs to be -1 or greater than 0", word.text);
            let error = Diagnostic::error(word.span, text);
            scope
                .findings
                .error(error.label("expected a number of queries, or -1 for no limit"));
            None
        }
    }
}
