//! `transfer [ZONES...] { to ADDRESS...; source ADDRESS }`

use std::net::{IpAddr, SocketAddr};

use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::Transfer;

const OPTIONS: [&str; 2] = ["to", "source"];

/// Reads a stanza.
pub(super) fn transfer(line: &Line, scope: &mut Scope<'_>) -> Transfer {
    let mut transfer = Transfer {
        zones: scope.zones(&line.args),
        everybody: false,
        to: Vec::new(),
        source: None,
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "to" => to(option, &mut transfer, scope),
            "source" => source(option, &mut transfer, scope),
            word => {
                let error = Diagnostic::error(
                    option.name.span,
                    format!("plugin/transfer: unknown property \"{word}\""),
                );
                scope.findings.error(match nearest(word, OPTIONS) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.label("expected `to` or `source`"),
                });
            }
        }
    }
    let named = line.options().iter().any(|option| &*option.name.text == "to");
    if !named {
        let error = Diagnostic::error(line.name.span, "plugin/transfer: 'to' is required");
        scope
            .findings
            .error(error.help("add a line `to *`, or `to` with the addresses that may have the zone"));
    }
    transfer
}

fn to(option: &Line, transfer: &mut Transfer, scope: &mut Scope<'_>) {
    if option.args.is_empty() {
        scope.argument_count(option, "`*` or an address");
    }
    for word in &option.args {
        if &*word.text == "*" {
            transfer.everybody = true;
        } else {
            transfer.to.extend(server(word, "transfer", scope));
        }
    }
}

/// `IP[:PORT]`; the port is 53 if there is none.
pub(super) fn server(word: &Word, directive: &str, scope: &mut Scope<'_>) -> Option<SocketAddr> {
    let text = &*word.text;
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let address = text
        .parse()
        .ok()
        .or_else(|| Some(SocketAddr::new(bare.parse().ok()?, 53)));
    if address.is_none() {
        let error = Diagnostic::error(
            word.span,
            format!("plugin/{directive}: must specify an IP address: `{text}'"),
        );
        scope
            .findings
            .error(error.label("expected an address such as `192.0.2.1`, `192.0.2.1:5300` or `[2001:db8::1]:53`"));
    }
    address
}

fn source(option: &Line, transfer: &mut Transfer, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    if transfer.source.is_some() {
        scope.error(option.name.span, "plugin/transfer: source already specified");
        return;
    }
    transfer.source = word.text.parse::<IpAddr>().ok();
    if transfer.source.is_none() {
        let text = format!("plugin/transfer: invalid source address \"{}\"", word.text);
        let error = Diagnostic::error(word.span, text);
        scope
            .findings
            .error(error.label("expected an address of this host, without a port"));
    }
}
