//! `multisocket [NUMBER]`

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;
use crate::corefile::settings::MultiSocket;

const SOCKETS_MAX: i64 = 1024;

/// Reads the directive.
pub(super) fn multisocket(line: &Line, scope: &mut Scope<'_>) -> Option<MultiSocket> {
    scope.no_block(line);
    let word = match line.args.as_slice() {
        [] => {
            let span = line.name.span;
            return Some(MultiSocket { count: None, span });
        }
        [word] => word,
        _ => {
            scope.argument_count(line, "one number at most");
            return None;
        }
    };
    let text = match word.text.parse::<i64>() {
        Ok(count) if count < 1 => format!("plugin/multisocket: num sockets can not be zero or negative: {count}"),
        Ok(count) => {
            if let Some(count) = u16::try_from(count)
                .ok()
                .filter(|&count| i64::from(count) <= SOCKETS_MAX)
            {
                let (count, span) = (Some(count), word.span);
                return Some(MultiSocket { count, span });
            }
            format!("plugin/multisocket: num sockets exceeds maximum ({SOCKETS_MAX}): {count}")
        }
        Err(_) => format!("plugin/multisocket: invalid num sockets: {:?} is no number", word.text),
    };
    scope
        .findings
        .error(Diagnostic::error(word.span, text).label(format!("expected a number from 1 to {SOCKETS_MAX}")));
    None
}
