//! `acl [ZONES...] { ACTION [type QTYPE...] [net SOURCE...] }`

use std::net::IpAddr;

use ipnet::IpNet;
use nodens_wire::Rtype;

use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Acl, AclAction, AclLine};

const ACTIONS: [&str; 4] = ["allow", "block", "filter", "drop"];

/// Reads a stanza.
pub(super) fn acl(line: &Line, scope: &mut Scope<'_>) -> Acl {
    let zones = scope.zones(&line.args);
    let lines = scope.options(line).map(|option| rule(option, scope)).collect();
    Acl { zones, lines }
}

fn rule(line: &Line, scope: &mut Scope<'_>) -> AclLine {
    let action = match &*line.name.text.to_ascii_lowercase() {
        "allow" => AclAction::Allow,
        "filter" => AclAction::Filter,
        "drop" => AclAction::Drop,
        word => {
            if word != "block" {
                let text = format!(
                    "plugin/acl: unexpected token \"{}\"; expect 'allow', 'block', 'filter' or 'drop'",
                    line.name.text
                );
                scope.unknown(line.name.span, text, word, &ACTIONS);
            }
            AclAction::Block
        }
    };
    let (mut types, mut nets) = (None, None);
    let mut words = line.args.as_slice();
    while let Some((section, rest)) = words.split_first() {
        let len = rest.iter().take_while(|word| !is_section(&word.text)).count();
        let (tokens, behind) = rest.split_at(len);
        words = behind;
        if !is_section(&section.text) {
            let text = format!("plugin/acl: unexpected token \"{}\"; expect 'type | net'", section.text);
            let error = Diagnostic::error(section.span, text);
            scope.findings.error(match nearest(&section.text, ["type", "net"]) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("a line is an action, then `type` with types, `net` with nets, or both"),
            });
        } else if tokens.is_empty() {
            let name = section.text.to_ascii_lowercase();
            scope.error(
                section.span,
                format!("plugin/acl: no token specified in \"{name}\" section"),
            );
        } else if section.text.eq_ignore_ascii_case("type") {
            add(&mut types, tokens, |word| qtype(word, scope));
        } else {
            add(&mut nets, tokens, |word| net(word, scope));
        }
    }
    // `*` and a section left out are for all.
    AclLine {
        action,
        types: types.flatten(),
        nets: nets.flatten(),
    }
}

fn is_section(word: &str) -> bool {
    word.eq_ignore_ascii_case("type") || word.eq_ignore_ascii_case("net")
}

/// Adds the words of a section to those before; one `*` makes all of it everything.
fn add<T>(all: &mut Option<Option<Vec<T>>>, words: &[Word], mut read: impl FnMut(&Word) -> Option<T>) {
    let some = all.get_or_insert_with(|| Some(Vec::new()));
    for word in words {
        if &*word.text == "*" {
            *some = None;
            return;
        }
        let read = read(word);
        if let Some(some) = some {
            some.extend(read);
        }
    }
}

fn qtype(word: &Word, scope: &mut Scope<'_>) -> Option<Rtype> {
    let rtype = word.text.parse::<Rtype>().ok();
    let named = rtype.filter(|rtype| rtype.mnemonic() == Some(&*word.text));
    if named.is_none() {
        let text = format!("plugin/acl: unexpected token \"{}\"; expect legal QTYPE", word.text);
        let error = Diagnostic::error(word.span, text);
        scope.findings.error(match rtype.and_then(Rtype::mnemonic) {
            Some(mnemonic) => error.help(format!("did you mean `{mnemonic}`?")),
            None => error.label("expected a type such as `A` or `TXT`, or `*` for all"),
        });
    }
    named
}

fn net(word: &Word, scope: &mut Scope<'_>) -> Option<IpNet> {
    let address = || word.text.parse::<IpAddr>().map(IpNet::from);
    let net = word.text.parse::<IpNet>().or_else(|_| address()).ok();
    if net.is_none() {
        let text = format!("plugin/acl: illegal CIDR notation \"{}\"", word.text);
        let error = Diagnostic::error(word.span, text);
        scope
            .findings
            .error(error.label("expected an address, a net such as `192.0.2.0/24`, or `*` for all"));
    }
    net
}
