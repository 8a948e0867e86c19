//! `secondary [ZONES...] { transfer from ADDRESS...; fallthrough [ZONES...]; catalog [ZONES...] }`

use nodens_wire::NameBuf;

use super::scope::Scope;
use super::transfer::server;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;
use crate::corefile::settings::Secondary;
use crate::corefile::zone;

/// Reads a stanza.
pub(super) fn secondary(line: &Line, scope: &mut Scope<'_>) -> Secondary {
    let mut secondary = Secondary {
        zones: scope.zones(&line.args),
        primaries: Vec::new(),
        fallthrough: None,
        catalog: None,
    };
    let mut named = false;
    for option in scope.options(line) {
        match &*option.name.text {
            "transfer" => {
                named = true;
                from(option, &mut secondary, scope);
            }
            "fallthrough" => secondary.fallthrough = Some(scope.fallthrough(option)),
            "upstream" => {
                let text = "plugin/secondary: `upstream` has no effect: the server resolves such names itself";
                scope
                    .findings
                    .warn(Diagnostic::warning(option.name.span, text).help("leave the line out"));
            }
            "catalog" => secondary.catalog = Some(members(option, scope)),
            _ => scope.unknown_option(option, &["transfer", "fallthrough", "catalog"]),
        }
    }
    if !named {
        let text = "plugin/secondary: secondary zones require a transfer from property";
        let error = Diagnostic::error(line.name.span, text);
        scope
            .findings
            .error(error.help("add a line `transfer from` with the address of a primary"));
    }
    secondary
}

/// Gives the `fallthrough` of the last stanza that has one to all of them.
pub(super) fn share_fallthrough(stanzas: &mut [Secondary]) {
    let last = stanzas.iter().rev().find_map(|stanza| stanza.fallthrough.clone());
    for stanza in stanzas {
        stanza.fallthrough.clone_from(&last);
    }
}

/// Left out, a zone that is none would let all members in.
fn members(option: &Line, scope: &mut Scope<'_>) -> Vec<NameBuf> {
    let mut within = Vec::new();
    for word in &option.args {
        match zone::of_directive(&word.text) {
            Ok(more) => within.extend(more),
            Err(error) => {
                let error = Diagnostic::error(word.span, format!("plugin/secondary: {error}"));
                scope
                    .findings
                    .error(error.label("expected a zone that members may lie in"));
            }
        }
    }
    within
}

fn from(option: &Line, secondary: &mut Secondary, scope: &mut Scope<'_>) {
    let Some((from, addresses)) = option.args.split_first() else {
        scope.argument_count(option, "`from` and an address");
        return;
    };
    if &*from.text != "from" {
        let text = format!("plugin/secondary: unknown property '{}'", from.text);
        scope.unknown(from.span, text, &from.text, &["from"]);
        return;
    }
    if addresses.is_empty() {
        scope.argument_count(option, "the address of a primary");
    }
    for word in addresses {
        if &*word.text == "*" {
            let error = Diagnostic::error(word.span, "plugin/secondary: can't use '*' in transfer from");
            scope.findings.error(error.label("expected the address of a primary"));
        } else {
            secondary.primaries.extend(server(word, "secondary", scope));
        }
    }
}
