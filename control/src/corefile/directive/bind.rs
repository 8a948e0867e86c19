//! `bind ADDRESS|INTERFACE... { except ADDRESS|INTERFACE... }`

use super::scope::Scope;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Bind, BindPlace, BindTarget};
use crate::corefile::zone;

/// Reads a stanza. Whether a word that is no address names an interface is found out when the server listens.
pub(super) fn bind(line: &Line, scope: &mut Scope<'_>) -> Option<Bind> {
    let mut except = Vec::new();
    for option in scope.options(line) {
        if &*option.name.text != "except" {
            let text = format!("invalid option \"{}\"", option.name.text);
            scope.unknown(option.name.span, text, &option.name.text, &["except"]);
        } else if option.args.is_empty() {
            let text = "at least one address or interface must be given to except subdirective";
            scope.error(option.name.span, format!("plugin/bind: {text}"));
        }
        except.extend(option.args.iter().map(target));
    }
    if line.args.is_empty() {
        scope.error(
            line.name.span,
            "plugin/bind: at least one address or interface name is expected",
        );
        return None;
    }
    Some(Bind {
        include: line.args.iter().map(target).collect(),
        except,
        span: line.name.span,
    })
}

fn target(word: &Word) -> BindTarget {
    let place = match zone::address(&word.text) {
        Some((address, scope)) => BindPlace::Address(address, scope),
        None => BindPlace::Interface(word.text.to_string()),
    };
    BindTarget { place, span: word.span }
}
