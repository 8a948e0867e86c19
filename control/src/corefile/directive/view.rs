//! `view NAME { expr EXPRESSION... }`

use std::ops::Range;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::expression::{self, Compiled, Fault};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::View;
use crate::corefile::source::Span;

/// Reads the directive.
pub(super) fn view(line: &Line, scope: &mut Scope<'_>) -> Option<View> {
    let name = scope.one_arg(line);
    let mut conditions = Vec::new();
    for option in scope.options(line) {
        if &*option.name.text != "expr" {
            scope.unknown_option(option, &["expr"]);
            continue;
        }
        conditions.extend(expression(option, &option.args, "view", expression::condition, scope));
    }
    // A block whose view is wrong is not said to collide with others on top of that.
    Some(View {
        name: name.map(|name| name.text.to_string()).unwrap_or_default(),
        conditions,
    })
}

/// The expression in some words of an option.
pub(super) fn expression<T>(
    option: &Line,
    words: &[Word],
    directive: &str,
    compile: fn(&str) -> Result<Compiled<T>, Fault>,
    scope: &mut Scope<'_>,
) -> Option<T> {
    if words.is_empty() {
        scope.argument_count(option, "an expression");
        return None;
    }
    let text = words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ");
    let drawn = |fault: Fault, make: fn(Span, String) -> Diagnostic| {
        let text = format!("plugin/{directive}: {}", fault.text);
        let mut diagnostic = make(place(words, &fault.at), text);
        diagnostic.label = fault.label;
        diagnostic.help = fault.help;
        diagnostic
    };
    match compile(&text) {
        Ok(compiled) => {
            for remark in compiled.remarks {
                scope.findings.warn(drawn(remark, Diagnostic::warning));
            }
            Some(compiled.expression)
        }
        Err(fault) => {
            scope.findings.error(drawn(fault, Diagnostic::error));
            None
        }
    }
}

/// Where a part of the words, joined by blanks, stands in the Corefile.
fn place(words: &[Word], part: &Range<usize>) -> Span {
    let mut start = 0;
    let mut found: Option<Span> = None;
    for word in words {
        let end = start + word.text.len();
        if part.start < end && part.end > start {
            let own = place_in(word, &(part.start.max(start) - start..part.end.min(end) - start));
            found = Some(found.map_or(own, |span| span.to(own)));
        }
        start = end + 1;
    }
    found.unwrap_or(words[words.len() - 1].span)
}

/// A part of one word. What had escapes or variables in it is marked as a whole.
fn place_in(word: &Word, part: &Range<usize>) -> Span {
    let written = (word.span.end - word.span.start) as usize;
    let quote = match written.checked_sub(word.text.len()) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return word.span,
    };
    let at = |offset: usize| word.span.start + u32::try_from(quote + offset).expect("an expression is short");
    Span {
        start: at(part.start),
        end: at(part.end),
        ..word.span
    }
}
