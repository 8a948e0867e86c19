//! `reload`

use std::time::Duration;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_duration;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::Reload;

const INTERVAL: Duration = Duration::from_secs(30);
const INTERVAL_MIN: Duration = Duration::from_secs(2);
const JITTER: Duration = Duration::from_secs(15);
const JITTER_MIN: Duration = Duration::from_secs(1);

/// `reload [INTERVAL [JITTER]]`
pub(super) fn reload(line: &Line, scope: &mut Scope<'_>) -> Option<Reload> {
    scope.no_block(line);
    if line.args.len() > 2 {
        scope.argument_count(line, "an interval and a jitter at most");
        return None;
    }
    let mut args = line.args.iter();
    let interval = args.next().map_or(Some(INTERVAL), |word| {
        let fits = |time| time >= INTERVAL_MIN;
        duration(word, "interval value must be greater or equal to 2s", fits, scope)
    });
    let jitter = args.next().map_or(Some(JITTER), |word| {
        let fits = |time: Duration| time.is_zero() || time >= JITTER_MIN;
        duration(word, "jitter value must be 0 or greater or equal to 1s", fits, scope)
    });
    let interval = interval?;
    Some(Reload {
        interval,
        jitter: jitter?.min(interval / 2),
    })
}

fn duration(word: &Word, rule: &str, fits: impl Fn(Duration) -> bool, scope: &mut Scope<'_>) -> Option<Duration> {
    let wrong = match go_duration(&word.text) {
        Ok(time) if fits(time) => return Some(time),
        Ok(_) => Diagnostic::error(word.span, format!("plugin/reload: {rule}")),
        Err(error) => Diagnostic::error(word.span, format!("plugin/reload: {error}")),
    };
    scope.findings.error(wrong.label("expected a duration such as `30s`"));
    None
}
