//! `dns64 [PREFIX] { prefix PREFIX; translate_all; allow_ipv4 }`

use std::net::Ipv6Addr;

use nodens_engine::plan::dns64::{Dns64, Prefix};

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;

/// Reads a stanza, which adds to those in front of it.
pub(super) fn dns64(line: &Line, earlier: Option<Dns64>, scope: &mut Scope<'_>) -> Dns64 {
    let mut dns64 = earlier.unwrap_or(Dns64 {
        prefix: Prefix::WELL_KNOWN,
        translates_all: false,
        allows_v4: false,
    });
    match line.args.as_slice() {
        [] => {}
        [word] => dns64.prefix = prefix(word, scope).unwrap_or(dns64.prefix),
        _ => scope.argument_count(line, "a prefix at most"),
    }
    for option in scope.options(line) {
        match &*option.name.text {
            "prefix" => {
                let word = scope.one_arg(option);
                dns64.prefix = word.and_then(|word| prefix(word, scope)).unwrap_or(dns64.prefix);
            }
            "translate_all" => {
                scope.no_args(option);
                dns64.translates_all = true;
            }
            "allow_ipv4" => {
                scope.no_args(option);
                dns64.allows_v4 = true;
            }
            _ => scope.unknown_option(option, &["prefix", "translate_all", "allow_ipv4"]),
        }
    }
    dns64
}

fn prefix(word: &Word, scope: &mut Scope<'_>) -> Option<Prefix> {
    let net = word.text.split_once('/').and_then(|(address, bits)| {
        let bits: u8 = bits.parse().ok()?;
        Some((address.parse::<Ipv6Addr>().ok()?, bits))
    });
    let (text, prefix) = match net {
        Some((net, bits)) => (format!("invalid prefix length {:?}", word.text), Prefix::new(net, bits)),
        None => (format!("invalid CIDR address: {}", word.text), None),
    };
    if prefix.is_none() {
        let error = Diagnostic::error(word.span, format!("plugin/dns64: {text}"));
        scope
            .findings
            .error(error.label("expected a net of IPv6 of 32 to 96 bits, a multiple of 8, such as `64:ff9b::/96`"));
    }
    prefix
}
