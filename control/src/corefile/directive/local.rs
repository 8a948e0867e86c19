//! `local { localhost_prefix on|off }`

use super::scope::Scope;
use crate::corefile::parser::Line;
use crate::corefile::settings::Local;

/// Reads the directive.
pub(super) fn local(line: &Line, scope: &mut Scope<'_>) -> Option<Local> {
    scope.no_args(line);
    let mut local = Local { localhost_prefix: true };
    for option in scope.options(line) {
        if &*option.name.text != "localhost_prefix" {
            scope.unknown_option(option, &["localhost_prefix"]);
            continue;
        }
        let Some(word) = scope.one_arg(option) else { continue };
        match &*word.text {
            "on" => local.localhost_prefix = true,
            "off" => local.localhost_prefix = false,
            other => {
                let text = format!("plugin/local: localhost_prefix expects 'on' or 'off', got {other:?}");
                scope.unknown(word.span, text, other, &["on", "off"]);
            }
        }
    }
    Some(local)
}
