//! `errors [stdout] { stacktrace | consolidate DURATION REGEXP [LEVEL] [show_first] }`

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_duration;
use crate::corefile::parser::Line;
use crate::corefile::re2;
use crate::corefile::settings::{Consolidate, ErrorLevel, Errors};

/// `consolidate` lines of one block, at most.
pub(crate) const CONSOLIDATE_MAX: usize = 100;

/// Reads the directive.
pub(super) fn errors(line: &Line, scope: &mut Scope<'_>) -> Option<Errors> {
    match line.args.as_slice() {
        [] => {}
        [word] if &*word.text == "stdout" => {}
        [word] => {
            let error = Diagnostic::error(word.span, format!("invalid log file: {}", word.text));
            scope
                .findings
                .error(error.help("errors are written to standard output; leave the word out"));
        }
        _ => scope.argument_count(line, "`stdout` at most"),
    }
    let mut errors = Errors {
        stacktrace: false,
        consolidate: Vec::new(),
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "stacktrace" => {
                scope.no_args(option);
                errors.stacktrace = true;
            }
            "consolidate" if errors.consolidate.len() == CONSOLIDATE_MAX => {
                let text = format!("more than {CONSOLIDATE_MAX} `consolidate` in one block");
                scope.error(option.name.span, text);
                break;
            }
            "consolidate" => errors.consolidate.extend(consolidate(option, scope)),
            name => {
                scope.unknown(
                    option.name.span,
                    format!("Unknown field {name}"),
                    name,
                    &["stacktrace", "consolidate"],
                );
            }
        }
    }
    Some(errors)
}

fn consolidate(option: &Line, scope: &mut Scope<'_>) -> Option<Consolidate> {
    let [duration, pattern, options @ ..] = option.args.as_slice() else {
        scope.argument_count(option, "a duration and a regular expression");
        return None;
    };
    if options.len() > 2 {
        scope.argument_count(option, "a level and `show_first` at most");
        return None;
    }
    let every = go_duration(&duration.text).map_err(|error| {
        let error = Diagnostic::error(duration.span, error.to_string());
        error.label("expected a duration such as `30s` or `5m`")
    });
    let compiled = re2::compile(&pattern.text).map_err(|error| {
        let error = Diagnostic::error(pattern.span, error);
        error.help("regular expressions are those of RE2; one with blanks stands in quotes")
    });
    let mut level = None;
    let mut show_first = false;
    for word in options {
        let wanted = match &*word.text {
            "warning" => ErrorLevel::Warning,
            "error" => ErrorLevel::Error,
            "info" => ErrorLevel::Info,
            "debug" => ErrorLevel::Debug,
            "show_first" => {
                show_first = true;
                continue;
            }
            other => {
                let text = format!("unknown option in consolidate: {other}");
                let known = ["warning", "error", "info", "debug", "show_first"];
                scope.unknown(word.span, text, other, &known);
                continue;
            }
        };
        let wrong = if show_first {
            Some("log level must come before show_first in consolidate")
        } else {
            level.map(|_| "multiple log levels specified in consolidate")
        };
        if let Some(text) = wrong {
            scope.error(word.span, text);
        }
        level = Some(wanted);
    }
    for error in [every.as_ref().err(), compiled.as_ref().err()].into_iter().flatten() {
        scope.findings.error(error.clone());
    }
    compiled.ok()?;
    Some(Consolidate {
        every: every.ok()?,
        pattern: pattern.text.to_string(),
        level: level.unwrap_or(ErrorLevel::Error),
        show_first,
    })
}
