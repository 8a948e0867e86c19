//! `forward FROM TO... { ... }`

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nodens_wire::{NameBuf, Rcode};

use super::number::{duration, int, uint};
use super::scope::Scope;
use super::{tls, upstreams};
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::duration::go_text;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Attempts, Forward, Policy, Probe, Upstream};
use crate::corefile::source::Span;
use crate::corefile::zone;

/// Words that name upstreams, files counted once.
const TO_MAX: usize = 15;
const EXPIRE_DEFAULT: Duration = Duration::from_secs(10);
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
const PROBE_EVERY_DEFAULT: Duration = Duration::from_millis(500);
const MAX_FAILS_DEFAULT: u32 = 2;

const OPTIONS: [&str; 21] = [
    "except",
    "force_tcp",
    "prefer_udp",
    "expire",
    "max_age",
    "max_idle_conns",
    "read_timeout",
    "max_fails",
    "max_connect_attempts",
    "health_check",
    "policy",
    "max_concurrent",
    "tls",
    "tls_servername",
    "doh_method",
    "next",
    "next_on_nodata",
    "failover",
    "failfast_all_unhealthy_upstreams",
    "source_address",
    "resolver",
];
const POLICIES: [(&str, Policy); 3] = [
    ("random", Policy::Random),
    ("round_robin", Policy::RoundRobin),
    ("sequential", Policy::Sequential),
];

/// Reads a stanza.
pub(super) fn forward(line: &Line, scope: &mut Scope<'_>) -> Option<Forward> {
    let mut forward = stanza(line, "forward", scope)?;
    for option in scope.options(line) {
        read(option, &mut forward, scope);
    }
    check(&forward, line, scope);
    Some(forward)
}

/// `FROM TO...`, with everything else at its default.
pub(super) fn stanza(line: &Line, directive: &'static str, scope: &mut Scope<'_>) -> Option<Forward> {
    let (from, to) = match line.args.split_first() {
        Some((from, to)) if !to.is_empty() => (from, to),
        _ => {
            scope.argument_count(line, "a zone, and the servers that are asked for its names");
            return None;
        }
    };
    let from = from_zone(from, directive, scope);
    if to.len() > TO_MAX {
        let text = format!("plugin/{directive}: more than {TO_MAX} TOs configured: {}", to.len());
        let error = Diagnostic::error(to[TO_MAX].span, text);
        scope
            .findings
            .error(error.help("put the servers into a file like /etc/resolv.conf, and name that"));
        return None;
    }
    let to = upstreams::all(to, directive, scope);
    Some(plain(from?, to, line.name.span))
}

/// Servers that are asked for the names of a zone, with everything else at its default.
pub(super) fn plain(from: NameBuf, to: Vec<Upstream>, span: Span) -> Forward {
    Forward {
        from,
        except: Vec::new(),
        to,
        policy: Policy::Random,
        force_tcp: false,
        prefer_udp: false,
        expire: EXPIRE_DEFAULT,
        max_age: None,
        idle_max: None,
        read_timeout: READ_TIMEOUT_DEFAULT,
        max_fails: MAX_FAILS_DEFAULT,
        attempts: Attempts::TwiceEach,
        probe: Probe {
            every: PROBE_EVERY_DEFAULT,
            name: NameBuf::root(),
            recursion: true,
        },
        concurrent_max: None,
        tls: None,
        tls_server_name: None,
        next: Vec::new(),
        next_on_nodata: false,
        failover: Vec::new(),
        failfast: false,
        source: None,
        resolver: Vec::new(),
        span,
    }
}

fn from_zone(word: &Word, directive: &str, scope: &mut Scope<'_>) -> Option<NameBuf> {
    let mut zones = match zone::of_directive(&word.text) {
        Ok(zones) => zones.into_iter(),
        Err(why) => {
            let text = format!("plugin/{directive}: unable to normalize '{}'", word.text);
            let error = Diagnostic::error(word.span, text).label(why.to_string());
            scope.findings.error(error.help("write a zone, or `.` for all names"));
            return None;
        }
    };
    let first = zones.next()?;
    if zones.next().is_some() {
        let text = format!(
            "Unsupported CIDR notation: '{}' expands to multiple zones. Using only '{first}'.",
            word.text
        );
        let warning = Diagnostic::warning(word.span, format!("plugin/{directive}: {text}"));
        scope
            .findings
            .warn(warning.help("write a stanza for each of them, or a net that ends at a label"));
    }
    Some(first)
}

fn read(option: &Line, forward: &mut Forward, scope: &mut Scope<'_>) {
    match &*option.name.text {
        "except" => except(option, &mut forward.except, scope),
        "force_tcp" => forward.force_tcp = flag(option, scope),
        "prefer_udp" => forward.prefer_udp = flag(option, scope),
        "next_on_nodata" => forward.next_on_nodata = flag(option, scope),
        "failfast_all_unhealthy_upstreams" => forward.failfast = flag(option, scope),
        "expire" => set(&mut forward.expire, time(option, scope)),
        "max_age" => set(
            &mut forward.max_age,
            time(option, scope).map(|age| Some(age).filter(|age| !age.is_zero())),
        ),
        "read_timeout" => read_timeout(option, forward, scope),
        "max_idle_conns" => set(&mut forward.idle_max, count(option, scope)),
        "max_concurrent" => set(&mut forward.concurrent_max, count(option, scope)),
        "max_fails" => set(&mut forward.max_fails, unsigned(option, scope)),
        "max_connect_attempts" => {
            let attempts = unsigned(option, scope).map(|attempts| match attempts {
                0 => Attempts::Unlimited,
                _ => Attempts::Of(attempts),
            });
            set(&mut forward.attempts, attempts);
        }
        "health_check" => health_check(option, &mut forward.probe, scope),
        "policy" => set(&mut forward.policy, policy(option, &POLICIES, scope)),
        "tls" => set(&mut forward.tls, tls::client(option, scope).map(Some)),
        "tls_servername" => {
            let name = scope.one_arg(option).map(|word| Some(word.text.to_string()));
            set(&mut forward.tls_server_name, name);
        }
        "doh_method" => doh_method(option, scope),
        "next" => forward.next.extend(rcodes(option, scope)),
        "failover" => failover(option, forward, scope),
        "source_address" => {
            let Some(word) = scope.one_arg(option) else { return };
            forward.source = word.text.parse::<IpAddr>().ok();
            if forward.source.is_none() {
                let error = Diagnostic::error(word.span, format!("plugin/forward: invalid IP address: {}", word.text));
                scope
                    .findings
                    .error(error.label("expected an address of this host, without a port"));
            }
        }
        "resolver" => resolver(option, forward, scope),
        _ => scope.unknown_option(option, &OPTIONS),
    }
}

fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}

fn flag(option: &Line, scope: &mut Scope<'_>) -> bool {
    scope.no_args(option);
    true
}

/// Adds the zones of an `except` line.
pub(super) fn except(option: &Line, zones: &mut Vec<NameBuf>, scope: &mut Scope<'_>) {
    if option.args.is_empty() {
        scope.argument_count(option, "at least one name");
    }
    zones.extend(scope.named_zones(&option.args));
}

fn time(option: &Line, scope: &mut Scope<'_>) -> Option<Duration> {
    let word = scope.one_arg(option)?;
    let negative = |below| format!("{} can't be negative: -{}", option.name.text, go_text(below));
    duration(word, "forward", negative, scope)
}

fn read_timeout(option: &Line, forward: &mut Forward, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    let not_positive = |time: &str| format!("read_timeout must be positive: {time}");
    let negative = |below| not_positive(&format!("-{}", go_text(below)));
    match duration(word, "forward", negative, scope) {
        Some(Duration::ZERO) => {
            let text = format!("plugin/forward: {}", not_positive("0s"));
            let error = Diagnostic::error(word.span, text);
            scope.findings.error(error.label("expected a duration such as `2s`"));
        }
        time => set(&mut forward.read_timeout, time),
    }
}

/// A number of which zero means that there is no bound.
fn count(option: &Line, scope: &mut Scope<'_>) -> Option<Option<u64>> {
    let word = scope.one_arg(option)?;
    let number = int(word, "forward", scope)?;
    if number < 0 {
        let text = format!("plugin/forward: {} can't be negative: {number}", option.name.text);
        let error = Diagnostic::error(word.span, text);
        scope.findings.error(error.label("expected a number; 0 for no bound"));
        return None;
    }
    Some(Some(number.unsigned_abs()).filter(|number| *number > 0))
}

fn unsigned(option: &Line, scope: &mut Scope<'_>) -> Option<u32> {
    let word = scope.one_arg(option)?;
    uint(word, "forward", scope)
}

fn health_check(option: &Line, probe: &mut Probe, scope: &mut Scope<'_>) {
    let Some((every, mut words)) = option.args.split_first() else {
        return scope.argument_count(option, "a duration such as `500ms`");
    };
    let negative = |below: Duration| format!("health_check can't be negative: -{}", below.as_nanos());
    set(&mut probe.every, duration(every, "forward", negative, scope));
    while let Some((word, rest)) = words.split_first() {
        words = rest;
        match &*word.text {
            "no_rec" => probe.recursion = false,
            "domain" => {
                let Some((name, rest)) = words.split_first() else {
                    return scope.argument_count(option, "a name behind `domain`");
                };
                words = rest;
                let Ok(domain) = NameBuf::from_text(&name.text) else {
                    let text = format!("plugin/forward: health_check: invalid domain name {}", name.text);
                    let error = Diagnostic::error(name.span, text);
                    scope
                        .findings
                        .error(error.label("expected a name such as `example.org`"));
                    continue;
                };
                probe.name = domain.folded();
            }
            other => {
                let text = format!("plugin/forward: health_check: unknown option {other}");
                scope.unknown(word.span, text, other, &["no_rec", "domain"]);
            }
        }
    }
}

/// Reads a policy out of those that a directive has.
pub(super) fn policy(option: &Line, known: &[(&str, Policy)], scope: &mut Scope<'_>) -> Option<Policy> {
    let word = scope.one_arg(option)?;
    let found = known.iter().find(|(name, _)| *name == &*word.text);
    if found.is_none() {
        let text = format!("unknown policy '{}'", word.text);
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        scope.unknown(word.span, text, &word.text, &names);
    }
    found.map(|(_, policy)| *policy)
}

/// Has no effect until there are upstreams over HTTPS.
fn doh_method(option: &Line, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    if !matches!(&*word.text.to_ascii_uppercase(), "GET" | "POST") {
        let text = "plugin/forward: doh_method must be either POST or GET".to_owned();
        scope.unknown(word.span, text, &word.text, &["GET", "POST"]);
    }
}

fn rcodes(option: &Line, scope: &mut Scope<'_>) -> Vec<Rcode> {
    if option.args.is_empty() {
        scope.argument_count(option, "at least one rcode");
    }
    let mut rcodes = Vec::new();
    for word in &option.args {
        match Rcode::from_mnemonic(&word.text) {
            Some(rcode) => rcodes.push(rcode),
            None => {
                let text = format!("plugin/forward: {} is not a valid rcode", word.text);
                let error = Diagnostic::error(word.span, text);
                let names = (0..=u16::from(u8::MAX)).filter_map(|number| Rcode(number).mnemonic());
                let known: Vec<String> = names.map(str::to_ascii_lowercase).collect();
                let near = nearest(&word.text, known.iter().map(String::as_str));
                scope.findings.error(match near {
                    Some(near) => error.help(format!("did you mean `{}`?", near.to_ascii_uppercase())),
                    None => error.label("expected the name of an rcode, such as `SERVFAIL`"),
                });
            }
        }
    }
    rcodes
}

fn failover(option: &Line, forward: &mut Forward, scope: &mut Scope<'_>) {
    let rcodes = rcodes(option, scope);
    if rcodes.contains(&Rcode::NOERROR) {
        let is_it = |word: &&Word| Rcode::from_mnemonic(&word.text) == Some(Rcode::NOERROR);
        let span = option
            .args
            .iter()
            .find(is_it)
            .map_or(option.name.span, |word| word.span);
        let error = Diagnostic::error(span, "plugin/forward: NoError cannot be used in failover");
        scope
            .findings
            .error(error.help("take it out; for empty answers there is `next_on_nodata`"));
    }
    forward.failover.extend(rcodes);
}

fn resolver(option: &Line, forward: &mut Forward, scope: &mut Scope<'_>) {
    if option.args.is_empty() {
        scope.argument_count(option, "at least one address");
    }
    for word in &option.args {
        let text = &*word.text;
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let alone = bare.unwrap_or(text).parse().map(|address| SocketAddr::new(address, 53));
        match alone.or_else(|_| text.parse::<SocketAddr>()) {
            Ok(address) if address.port() > 0 => forward.resolver.push(address),
            _ => {
                let text = format!("plugin/forward: resolver must be an IP address or IP:port: {text:?}");
                let error = Diagnostic::error(word.span, text);
                scope
                    .findings
                    .error(error.label("expected an address such as `192.0.2.1` or `192.0.2.1:5300`"));
            }
        }
    }
}

/// What options say of one another.
fn check(forward: &Forward, line: &Line, scope: &mut Scope<'_>) {
    let place_of = |name: &str| -> Span {
        let options = line.options().iter().rev();
        let mut named = options.filter(|option| &*option.name.text == name);
        named.next().map_or(line.name.span, |option| option.span())
    };
    if let Some(age) = forward.max_age
        && age < forward.expire
    {
        let text = format!(
            "plugin/forward: max_age ({}) must not be less than expire ({})",
            go_text(age),
            go_text(forward.expire)
        );
        let error = Diagnostic::error(place_of("max_age"), text);
        scope.findings.error(error.help("raise `max_age`, or lower `expire`"));
    }
    if let Some(name) = &forward.tls_server_name {
        let both = forward.to.iter().find_map(|to| Some((to, to.server_name.as_ref()?)));
        if let Some((to, own)) = both {
            let word = line.args.iter().find(|word| word.span == to.span);
            let shown = word.map_or("", |word| &word.text);
            let text = format!(
                "plugin/forward: both forward ('{name}') and proxy level ('{own}') TLS servernames are set for \
                 upstream proxy '{shown}'"
            );
            let error = Diagnostic::error(to.span, text).related(place_of("tls_servername"), "the other one");
            scope.findings.error(error.help("keep one of the two"));
        }
    }
}
