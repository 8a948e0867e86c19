//! `errors [stdout] { stacktrace }`

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;
use crate::corefile::settings::Errors;

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
    let mut errors = Errors { stacktrace: false };
    for option in scope.options(line) {
        match &*option.name.text {
            "stacktrace" => {
                scope.no_args(option);
                errors.stacktrace = true;
            }
            "consolidate" => scope.error(option.name.span, "nodens does not have the option 'consolidate' yet"),
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
