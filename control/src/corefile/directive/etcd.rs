//! `etcd [ZONES...] { ... }`

use nodens_wire::{NameBuf, Rcode};

use super::scope::Scope;
use super::{forward, tls, upstreams};
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Credentials, Endpoint, Etcd, Forward, UpstreamPlace};

const OPTIONS: [&str; 10] = [
    "path",
    "endpoint",
    "credentials",
    "tls",
    "fallthrough",
    "min-lease-ttl",
    "max-lease-ttl",
    "stubzones",
    "upstream",
    "debug",
];
const MIN_LEASE_TTL_DEFAULT: u32 = 30;
const MAX_LEASE_TTL_DEFAULT: u32 = 86_400;

/// Reads a stanza.
pub(super) fn etcd(line: &Line, scope: &mut Scope<'_>) -> Etcd {
    let mut etcd = Etcd {
        zones: scope.zones(&line.args),
        path: "skydns".to_owned(),
        endpoints: vec![Endpoint {
            url: "http://localhost:2379".to_owned(),
            span: line.name.span,
        }],
        credentials: None,
        tls: None,
        fallthrough: None,
        stub_zones: false,
        upstream: None,
        min_lease_ttl_secs: MIN_LEASE_TTL_DEFAULT,
        max_lease_ttl_secs: MAX_LEASE_TTL_DEFAULT,
        span: line.name.span,
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "path" => {
                if let Some(word) = scope.one_arg(option) {
                    etcd.path = word.text.trim_matches('/').to_owned();
                }
            }
            "endpoint" => endpoints(option, &mut etcd, scope),
            "credentials" => credentials(option, &mut etcd, scope),
            "tls" => etcd.tls = tls::client(option, scope).or_else(|| etcd.tls.take()),
            "fallthrough" => etcd.fallthrough = Some(scope.fallthrough(option)),
            "min-lease-ttl" => lease_ttl(option, &mut etcd.min_lease_ttl_secs, MIN_LEASE_TTL_DEFAULT, scope),
            "max-lease-ttl" => lease_ttl(option, &mut etcd.max_lease_ttl_secs, MAX_LEASE_TTL_DEFAULT, scope),
            "debug" => {}
            "stubzones" => {
                scope.no_args(option);
                etcd.stub_zones = true;
            }
            "upstream" => etcd.upstream = upstream(option, scope),
            name => {
                let text = format!("plugin/etcd: unknown property '{name}'");
                scope.unknown(option.name.span, text, name, &OPTIONS);
            }
        }
    }
    etcd
}

/// Who is asked for targets outside the zones; none where no server is named.
fn upstream(option: &Line, scope: &mut Scope<'_>) -> Option<Forward> {
    let mut to = upstreams::all(&option.args, "etcd", scope);
    to.retain(|server| {
        let UpstreamPlace::Host { name, .. } = &server.place else {
            return true;
        };
        let text = format!("plugin/etcd: not an IP address or file: {name:?}");
        let error = Diagnostic::error(server.span, text).label("expected an address such as `192.0.2.1:53`");
        scope
            .findings
            .error(error.help("write the server's address, or the path of a file like /etc/resolv.conf"));
        false
    });
    (!to.is_empty()).then(|| Forward {
        prefer_udp: true,
        failover: vec![Rcode::REFUSED],
        ..forward::plain(NameBuf::root(), to, option.name.span)
    })
}

fn endpoints(option: &Line, etcd: &mut Etcd, scope: &mut Scope<'_>) {
    if option.args.is_empty() {
        scope.argument_count(option, "at least one endpoint");
        return;
    }
    for word in &option.args {
        let scheme = word.text.split_once("://").map(|(scheme, _)| scheme);
        if !matches!(scheme, None | Some("http" | "https")) {
            let text = format!("invalid endpoint: {}", word.text);
            scope
                .findings
                .error(Diagnostic::error(word.span, text).label("expected http:// or https://"));
        }
    }
    let endpoint = |word: &Word| Endpoint {
        url: word.text.to_string(),
        span: word.span,
    };
    etcd.endpoints = option.args.iter().map(endpoint).collect();
}

fn credentials(option: &Line, etcd: &mut Etcd, scope: &mut Scope<'_>) {
    match option.args.as_slice() {
        [] => scope.argument_count(option, "a user and a password"),
        [user, password] => {
            etcd.credentials = (!user.text.is_empty() && !password.text.is_empty()).then(|| Credentials {
                user: user.text.to_string(),
                password: password.text.to_string(),
            });
        }
        _ => scope.error(
            option.name.span,
            "credentials requires 2 arguments, username and password",
        ),
    }
}

fn lease_ttl(option: &Line, setting: &mut u32, default: u32, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    match duration::seconds(&word.text) {
        Ok(0) => *setting = default,
        Ok(seconds) => *setting = seconds,
        Err(error) => {
            let text = format!("invalid {} value: {}", option.name.text, word.text);
            let diagnostic = Diagnostic::error(word.span, text).label(error.to_string());
            scope
                .findings
                .error(diagnostic.help("write seconds or a duration, `30`, `30s` or `5m`"));
        }
    }
}
