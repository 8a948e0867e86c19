//! `on`, and the old `startup` and `shutdown`.

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Event, Hook};

/// `on startup|shutdown|certrenew CMD ARGS... [&]`
pub(super) fn on(line: &Line, scope: &mut Scope<'_>) -> Option<Hook> {
    let Some((event, words)) = line.args.split_first() else {
        scope.argument_count(line, "an event and a command");
        return None;
    };
    let event = match &*event.text.to_ascii_lowercase() {
        "startup" => Event::Startup,
        "shutdown" => Event::Shutdown,
        "certrenew" => Event::CertRenew,
        other => {
            let text = format!("Wrong event name or event not supported: '{}'", event.text);
            scope.unknown(event.span, text, other, &["startup", "shutdown", "certrenew"]);
            return None;
        }
    };
    hook(line, event, words, scope)
}

/// `startup CMD ARGS... [&]`, and `shutdown` likewise.
pub(super) fn at(line: &Line, event: Event, scope: &mut Scope<'_>) -> Option<Hook> {
    hook(line, event, &line.args, scope)
}

fn hook(line: &Line, event: Event, words: &[Word], scope: &mut Scope<'_>) -> Option<Hook> {
    scope.no_block(line);
    let (words, in_background) = match words {
        [words @ .., last] if &*last.text == "&" => (words, true),
        words => (words, false),
    };
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        scope.argument_count(line, "a command");
        return None;
    };
    let text: Vec<&str> = words.iter().map(|word| &*word.text).collect();
    let command = shlex::split(&text.join(" ")).filter(|command| !command.is_empty());
    if command.is_none() {
        let span = first.span.to(last.span);
        let error = Diagnostic::error(span, "the command cannot be split into words");
        scope
            .findings
            .error(error.label("a quote is not closed, or nothing is left"));
    }
    Some(Hook {
        event,
        command: command?,
        in_background,
    })
}
