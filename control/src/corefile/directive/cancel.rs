//! `cancel [TIMEOUT]`

use std::time::Duration;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::{DurationError, go_duration};
use crate::corefile::parser::Line;

const TIMEOUT_DEFAULT: Duration = Duration::from_millis(5001);

/// Reads the directive.
pub(super) fn cancel(line: &Line, scope: &mut Scope<'_>) -> Option<Duration> {
    scope.no_block(line);
    let word = match line.args.as_slice() {
        [] => return Some(TIMEOUT_DEFAULT),
        [word] => word,
        _ => {
            scope.argument_count(line, "one duration at most");
            return None;
        }
    };
    let text = match go_duration(&word.text) {
        Ok(timeout) if !timeout.is_zero() => return Some(timeout),
        Ok(_) | Err(DurationError::Negative(_)) => format!("plugin/cancel: invalid negative duration: {:?}", word.text),
        Err(_) => format!("plugin/cancel: invalid duration: {:?}", word.text),
    };
    scope
        .findings
        .error(Diagnostic::error(word.span, text).label("expected a duration above zero such as `5s`"));
    None
}
