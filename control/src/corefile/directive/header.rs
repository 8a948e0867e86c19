//! `header { query|response set|clear FLAGS... }`

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Header, HeaderBits};

/// Reads the directive. Of rules for the same bit the last counts.
pub(super) fn header(line: &Line, scope: &mut Scope<'_>) -> Option<Header> {
    scope.no_args(line);
    let mut header = Header::default();
    let mut rules = 0;
    for option in scope.options(line) {
        rules += 1;
        rule(option, &mut header, scope);
    }
    if rules == 0 {
        let text = "plugin/header: Wrong argument count or unexpected line ending after 'header'";
        scope
            .findings
            .error(Diagnostic::error(line.name.span, text).label("expected a block with at least one rule"));
    }
    Some(header)
}

fn rule(line: &Line, header: &mut Header, scope: &mut Scope<'_>) {
    let mut words = std::iter::once(&line.name).chain(&line.args);
    let selector = line.name.text.to_ascii_lowercase();
    let bits = match &*selector {
        "query" => {
            words.next();
            &mut header.query
        }
        "response" => {
            words.next();
            &mut header.response
        }
        // The form of before there were rules for questions.
        "set" | "clear" => &mut header.response,
        word => {
            let text = format!("plugin/header: setting up rule: invalid selector={word} should be query or response");
            return scope.unknown(line.name.span, text, word, &["query", "response"]);
        }
    };
    let Some(action) = words.next() else {
        let text = "plugin/header: setting up rule: no flag action provided";
        let error = Diagnostic::error(line.name.span, text);
        return scope.findings.error(error.label("expected `set` or `clear`"));
    };
    let set = match &*action.text.to_ascii_lowercase() {
        "set" => true,
        "clear" => false,
        word => {
            let text = format!("plugin/header: setting up rule: unknown flag action={word}, should be set or clear");
            return scope.unknown(action.span, text, word, &["set", "clear"]);
        }
    };
    let mut flags = words.peekable();
    if flags.peek().is_none() {
        let text = "plugin/header: setting up rule: invalid length for flags, at least one should be provided";
        let error = Diagnostic::error(action.span, text);
        return scope.findings.error(error.label("expected `aa`, `ra` or `rd`"));
    }
    for flag in flags {
        let HeaderBits { aa, ra, rd } = bits;
        match &*flag.text.to_ascii_lowercase() {
            "aa" => *aa = Some(set),
            "ra" => *ra = Some(set),
            "rd" => *rd = Some(set),
            word => {
                let text = format!("plugin/header: setting up rule: unknown/unsupported flag={word}");
                scope.unknown(flag.span, text, word, &["aa", "ra", "rd"]);
            }
        }
    }
}
