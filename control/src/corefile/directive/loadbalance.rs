//! `loadbalance [round_robin] { prefer CIDR... }`, `loadbalance weighted FILE { reload DURATION }`

use std::time::Duration;

use ipnet::IpNet;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_duration;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{LoadBalance, Weighted};

const RELOAD_DEFAULT: Duration = Duration::from_secs(30);

/// Reads the directive.
pub(super) fn loadbalance(line: &Line, scope: &mut Scope<'_>) -> Option<LoadBalance> {
    match line.args.as_slice() {
        [] => {}
        [policy, rest @ ..] => match &*policy.text {
            "round_robin" => {
                if let Some(extra) = rest.first() {
                    scope.error(extra.span, "plugin/loadbalance: unknown property for round_robin");
                }
            }
            "weighted" => return weighted(line, policy, rest, scope),
            word => {
                let text = format!("plugin/loadbalance: unknown policy: {word}");
                scope.unknown(policy.span, text, word, &["round_robin", "weighted"]);
            }
        },
    }
    let mut prefer = Vec::new();
    for option in scope.options(line) {
        if &*option.name.text != "prefer" {
            scope.unknown_option(option, &["prefer"]);
            continue;
        }
        if option.args.is_empty() {
            scope.argument_count(option, "at least one net");
        }
        for word in &option.args {
            match word.text.parse::<IpNet>() {
                Ok(net) => prefer.push(net.trunc()),
                Err(_) => {
                    let text = format!(
                        "plugin/loadbalance: invalid CIDR {0:?}: invalid CIDR address: {0}",
                        word.text
                    );
                    scope
                        .findings
                        .error(Diagnostic::error(word.span, text).label("expected a net such as `192.0.2.0/24`"));
                }
            }
        }
    }
    Some(LoadBalance::RoundRobin { prefer })
}

fn weighted(line: &Line, policy: &Word, files: &[Word], scope: &mut Scope<'_>) -> Option<LoadBalance> {
    let mut reload = RELOAD_DEFAULT;
    for option in scope.options(line) {
        if &*option.name.text != "reload" {
            scope.unknown_option(option, &["reload"]);
            continue;
        }
        match option.args.as_slice() {
            [] => scope.error(option.name.span, "plugin/loadbalance: reload duration value is missing"),
            [word] => match go_duration(&word.text) {
                Ok(every) => reload = every,
                Err(_) => {
                    let text = format!("plugin/loadbalance: invalid reload duration '{}'", word.text);
                    let error = Diagnostic::error(word.span, text);
                    scope
                        .findings
                        .error(error.label("expected a duration such as `30s`, or `0` for never"));
                }
            },
            [_, extra, ..] => scope.error(extra.span, "plugin/loadbalance: unexpected argument"),
        }
    }
    match files {
        [file] => Some(LoadBalance::Weighted(Weighted {
            file: scope.path(file),
            file_span: file.span,
            reload,
        })),
        [] => {
            scope.error(policy.span, "plugin/loadbalance: missing weight file argument");
            None
        }
        [_, extra, ..] => {
            scope.error(extra.span, "plugin/loadbalance: unexpected argument(s)");
            None
        }
    }
}
