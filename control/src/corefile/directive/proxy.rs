//! `proxy FROM TO... { ... }`, which CoreDNS had before `forward`.

use std::time::Duration;

use super::forward::{self, except, policy};
use super::number::{duration, int};
use super::scope::Scope;
use super::upstreams::port_number;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_text;
use crate::corefile::parser::Line;
use crate::corefile::settings::{HttpProbe, Policy, Proxy};

const OPTIONS: [&str; 7] = [
    "policy",
    "fail_timeout",
    "max_fails",
    "health_check",
    "except",
    "spray",
    "protocol",
];
const POLICIES: [(&str, Policy); 5] = [
    ("random", Policy::Random),
    ("least_conn", Policy::LeastConnections),
    ("round_robin", Policy::RoundRobin),
    ("sequential", Policy::Sequential),
    ("first", Policy::Sequential),
];
/// Those of the old program, which its documentation had wrong.
const MAX_FAILS_DEFAULT: u32 = 3;
const FAIL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const HTTP_PROBE_EVERY_DEFAULT: Duration = Duration::from_secs(4);

const DEPRECATED: &str = "plugin/proxy: `proxy` is deprecated";

/// Reads a stanza.
pub(super) fn proxy(line: &Line, scope: &mut Scope<'_>) -> Option<Proxy> {
    // Once is enough.
    if scope.findings.warnings.iter().all(|warning| warning.text != DEPRECATED) {
        let warning = Diagnostic::warning(line.name.span, DEPRECATED);
        scope
            .findings
            .warn(warning.help("use `forward`, whose stanzas are asked in file order"));
    }
    let mut forward = forward::stanza(line, "proxy", scope)?;
    forward.max_fails = MAX_FAILS_DEFAULT;
    // Without `spray` nobody is asked when all are down.
    forward.failfast = true;
    let mut proxy = Proxy {
        forward,
        fail_timeout: FAIL_TIMEOUT_DEFAULT,
        http_probe: None,
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "policy" => {
                if let Some(policy) = policy(option, &POLICIES, scope) {
                    proxy.forward.policy = policy;
                }
            }
            "fail_timeout" => {
                let Some(word) = scope.one_arg(option) else { continue };
                let negative = |below| format!("fail_timeout can't be negative: -{}", go_text(below));
                if let Some(time) = duration(word, "proxy", negative, scope) {
                    proxy.fail_timeout = time;
                }
            }
            "max_fails" => max_fails(option, &mut proxy, scope),
            "health_check" => health_check(option, &mut proxy, scope),
            "except" => except(option, &mut proxy.forward.except, scope),
            "spray" => {
                scope.no_args(option);
                proxy.forward.failfast = false;
            }
            "protocol" => protocol(option, &mut proxy, scope),
            "upstream" => {
                let error = Diagnostic::error(option.name.span, "unknown property 'upstream'");
                scope.findings.error(error.help("it is an option of `etcd`"));
            }
            _ => scope.unknown_option(option, &OPTIONS),
        }
    }
    Some(proxy)
}

fn max_fails(option: &Line, proxy: &mut Proxy, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    let Some(number) = int(word, "proxy", scope) else {
        return;
    };
    match u32::try_from(number) {
        Ok(number) => proxy.forward.max_fails = number,
        Err(_) => {
            let error = Diagnostic::error(word.span, format!("plugin/proxy: invalid max_fails: {number}"));
            scope
                .findings
                .error(error.label("expected a number of failures; 0 for never down"));
        }
    }
}

fn health_check(option: &Line, proxy: &mut Proxy, scope: &mut Scope<'_>) {
    let (place, every) = match option.args.as_slice() {
        [place] => (place, None),
        [place, every] => (place, Some(every)),
        _ => return scope.argument_count(option, "a path and a port such as `/health:8080`, and a duration"),
    };
    let parts = place.text.rsplit_once(':');
    let Some((path, port)) = parts.and_then(|(path, port)| Some((path, port_number(port)?))) else {
        let error = Diagnostic::error(
            place.span,
            format!("plugin/proxy: invalid health_check: {}", place.text),
        );
        scope
            .findings
            .error(error.label("expected a path and a port such as `/health:8080`"));
        return;
    };
    let negative = |below| format!("health_check can't be negative: -{}", go_text(below));
    let every = match every {
        Some(word) => duration(word, "proxy", negative, scope),
        None => Some(HTTP_PROBE_EVERY_DEFAULT),
    };
    let Some(every) = every else { return };
    proxy.http_probe = Some(HttpProbe {
        path: format!("/{}", path.trim_start_matches('/')),
        port,
        every,
    });
}

fn protocol(option: &Line, proxy: &mut Proxy, scope: &mut Scope<'_>) {
    let Some((kind, rest)) = option.args.split_first() else {
        return scope.argument_count(option, "`dns`");
    };
    match &*kind.text {
        "dns" => match rest {
            [] => proxy.forward.force_tcp = false,
            [word] if &*word.text == "force_tcp" => proxy.forward.force_tcp = true,
            [word, ..] => {
                let text = "plugin/proxy: only force_tcp allowed as parameter to dns";
                let error = Diagnostic::error(word.span, text);
                scope.findings.error(error.label("expected `force_tcp`, or nothing"));
            }
        },
        kind_text @ ("grpc" | "https_google") => {
            let text = format!("plugin/proxy: nodens does not have the protocol '{kind_text}'");
            let error = Diagnostic::error(kind.span, text);
            let help = "leave the line out to ask over DNS, or use `forward` with `tls://` in front of the addresses";
            scope.findings.error(error.help(help));
        }
        other => {
            let text = format!("plugin/proxy: unknown protocol '{other}'");
            scope.unknown(kind.span, text, other, &["dns"]);
        }
    }
}
