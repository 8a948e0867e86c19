//! Whole numbers and durations as options have them, with Go's words for what is none.

use std::num::IntErrorKind;
use std::time::Duration;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::{below_zero, go_duration};
use crate::corefile::lexer::Word;

/// Reads a whole number, which may have a sign.
pub(super) fn int(word: &Word, directive: &str, scope: &mut Scope<'_>) -> Option<i64> {
    parsed(word, directive, "Atoi", word.text.parse(), scope)
}

/// Reads a whole number of 32 bits without a sign.
pub(super) fn uint(word: &Word, directive: &str, scope: &mut Scope<'_>) -> Option<u32> {
    let is_signed = word.text.starts_with('+');
    let number = if is_signed { "+".parse() } else { word.text.parse() };
    parsed(word, directive, "ParseUint", number, scope)
}

fn parsed<N>(
    word: &Word,
    directive: &str,
    function: &str,
    number: Result<N, std::num::ParseIntError>,
    scope: &mut Scope<'_>,
) -> Option<N> {
    let error = match number {
        Ok(number) => return Some(number),
        Err(error) => error,
    };
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    let text = format!("plugin/{directive}: strconv.{function}: parsing {:?}: {why}", word.text);
    let error = Diagnostic::error(word.span, text);
    scope.findings.error(error.label("expected a whole number"));
    None
}

/// Reads a duration; `negative` words the error for one below zero.
pub(super) fn duration(
    word: &Word,
    directive: &str,
    negative: impl FnOnce(Duration) -> String,
    scope: &mut Scope<'_>,
) -> Option<Duration> {
    let text = match (go_duration(&word.text), below_zero(&word.text)) {
        (Ok(time), _) => return Some(time),
        (Err(_), Some(below)) => negative(below),
        (Err(error), None) => error.to_string(),
    };
    let error = Diagnostic::error(word.span, format!("plugin/{directive}: {text}"));
    scope
        .findings
        .error(error.label("expected a duration such as `5s` or `1m30s`"));
    None
}
