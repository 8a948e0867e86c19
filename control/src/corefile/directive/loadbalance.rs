//! `loadbalance [round_robin] { prefer CIDR... }`

use ipnet::IpNet;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;
use crate::corefile::settings::LoadBalance;

/// Reads the directive.
pub(super) fn loadbalance(line: &Line, scope: &mut Scope<'_>) -> Option<LoadBalance> {
    match line.args.as_slice() {
        [] => {}
        [policy, rest @ ..] => match &*policy.text {
            "round_robin" => {
                if let Some(extra) = rest.first() {
                    scope.error(extra.span, "plugin/loadbalance: unexpected argument(s)");
                }
            }
            "weighted" => {
                let text = "plugin/loadbalance: nodens does not have the policy 'weighted' yet";
                scope.findings.error(Diagnostic::error(policy.span, text));
                return None;
            }
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
                    let text = format!("plugin/loadbalance: invalid CIDR \"{}\"", word.text);
                    scope
                        .findings
                        .error(Diagnostic::error(word.span, text).label("expected a net such as `192.0.2.0/24`"));
                }
            }
        }
    }
    Some(LoadBalance::RoundRobin { prefer })
}
