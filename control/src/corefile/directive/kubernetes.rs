//! `kubernetes [ZONES...] { ... }`

use std::time::Duration;

use nodens_sources::kubernetes::{Limits, Server, Settings, TlsFiles};
use nodens_wire::NameBuf;

use super::scope::Scope;
use super::{number, selector};
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::{DurationError, go_duration};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Kubernetes, PathSetting, PodNames};
use crate::corefile::source::Span;
use crate::corefile::zone::is_reverse;

const OPTIONS: [&str; 18] = [
    "endpoint",
    "tls",
    "kubeconfig",
    "apiserver_qps",
    "apiserver_burst",
    "apiserver_max_inflight",
    "namespaces",
    "namespace_labels",
    "labels",
    "pods",
    "endpoint_pod_names",
    "ttl",
    "noendpoints",
    "fallthrough",
    "ignore",
    "multicluster",
    "zonal",
    "startup_timeout",
];
const TTL_DEFAULT: u32 = 5;
pub(super) const TTL_MAX: u32 = 3_600;
const BURST_DEFAULT: u32 = 10;
const STARTUP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Reads the directive.
pub(super) fn kubernetes(line: &Line, scope: &mut Scope<'_>) -> Option<Kubernetes> {
    let zones = scope.zones(&line.args);
    let primary = primary(line, &zones, scope);
    let mut said = Said::default();
    let mut kubernetes = Kubernetes {
        primary: primary.unwrap_or_default(),
        zones,
        source: Settings {
            server: Server::InCluster,
            labels: None,
            namespace_labels: None,
            endpoints: true,
            pods: false,
            pod_labels: Vec::new(),
            multicluster: false,
            endpoint_pod_names: false,
            zonal: false,
            limits: Limits {
                burst: BURST_DEFAULT,
                ..Limits::default()
            },
        },
        server_span: line.name.span,
        files: Vec::new(),
        namespaces: None,
        pods: PodNames::Disabled,
        ttl_secs: TTL_DEFAULT,
        fallthrough: None,
        ignore_empty_service: false,
        multicluster: Vec::new(),
        startup_timeout: STARTUP_TIMEOUT_DEFAULT,
        span: line.name.span,
    };
    for option in scope.options(line) {
        read(option, &mut kubernetes, &mut said, scope);
    }
    together(&kubernetes, &said, scope);
    server(&mut kubernetes, said);
    kubernetes.source.pods = kubernetes.pods == PodNames::Verified;
    kubernetes.source.multicluster = !kubernetes.multicluster.is_empty();
    Some(kubernetes)
}

/// Options that only mean something together with others.
#[derive(Default)]
struct Said {
    endpoint: Option<(String, Span)>,
    tls: Option<([PathSetting; 3], Span)>,
    kubeconfig: Option<(PathSetting, Option<String>)>,
    noendpoints: Option<Span>,
    zonal: Option<Span>,
    namespaces: Option<Span>,
    namespace_labels: Option<Span>,
}

fn read(option: &Line, kubernetes: &mut Kubernetes, said: &mut Said, scope: &mut Scope<'_>) {
    let span = option.name.span;
    let source = &mut kubernetes.source;
    match &*option.name.text {
        "endpoint" => said.endpoint = endpoint(option, scope).or_else(|| said.endpoint.take()),
        "tls" => match option.args.as_slice() {
            [cert, key, ca] => said.tls = Some(([cert, key, ca].map(|word| file(word, scope)), span)),
            _ => scope.argument_count(option, "a certificate, its key, and an authority"),
        },
        "kubeconfig" => match option.args.as_slice() {
            [] => scope.argument_count(option, "a file, and perhaps a context"),
            [path, context @ ..] => {
                if context.len() > 1 {
                    scope.argument_count(option, "a file, and perhaps a context");
                }
                let context = context.first().map(|word| word.text.to_string());
                said.kubeconfig = Some((file(path, scope), context));
            }
        },
        "apiserver_qps" => {
            if let Some(every) = qps(option, scope) {
                source.limits.every = every;
            }
        }
        "apiserver_burst" => {
            if let Some(burst) = count(option, scope) {
                source.limits.burst = if burst == 0 { BURST_DEFAULT } else { burst };
            }
        }
        "apiserver_max_inflight" => {
            if let Some(most) = count(option, scope) {
                source.limits.inflight = (most > 0).then_some(most);
            }
        }
        "namespaces" => {
            if option.args.is_empty() {
                scope.argument_count(option, "at least one namespace");
            }
            let names = option.args.iter().map(|word| word.text.to_string());
            kubernetes.namespaces.get_or_insert_default().extend(names);
            said.namespaces = Some(span);
        }
        "namespace_labels" => {
            source.namespace_labels = selector::selector(option, "namespace_label", scope);
            said.namespace_labels = Some(span);
        }
        "labels" => source.labels = selector::selector(option, "label", scope),
        "pods" => pods(option, &mut kubernetes.pods, scope),
        "endpoint_pod_names" => {
            scope.no_args(option);
            source.endpoint_pod_names = true;
        }
        "ttl" => {
            if let Some(secs) = ttl(option, scope) {
                kubernetes.ttl_secs = secs;
            }
        }
        "noendpoints" => {
            scope.no_args(option);
            source.endpoints = false;
            said.noendpoints = Some(span);
        }
        "fallthrough" => kubernetes.fallthrough = Some(scope.fallthrough(option)),
        "ignore" => match option.args.first() {
            None => {}
            Some(word) if &*word.text == "empty_service" => kubernetes.ignore_empty_service = true,
            Some(word) => {
                let text = format!("unable to parse ignore value: '{}'", word.text);
                scope.unknown(word.span, text, &word.text, &["empty_service"]);
            }
        },
        "multicluster" => kubernetes.multicluster = multicluster(option, &kubernetes.zones, scope),
        "zonal" => {
            scope.no_args(option);
            source.zonal = true;
            said.zonal = Some(span);
        }
        "startup_timeout" => startup_timeout(option, &mut kubernetes.startup_timeout, scope),
        "upstream" => {
            let text = "plugin/kubernetes: `upstream` has no effect: the server resolves such names itself";
            scope
                .findings
                .warn(Diagnostic::warning(span, text).help("leave the line out"));
        }
        _ => unknown(option, scope),
    }
}

/// The first zone that is no reverse zone.
fn primary(line: &Line, zones: &[NameBuf], scope: &mut Scope<'_>) -> Option<NameBuf> {
    let Some(primary) = zones.iter().find(|zone| !is_reverse(zone.as_name())) else {
        let error = Diagnostic::error(line.span(), "non-reverse zone name must be used");
        scope
            .findings
            .error(error.help("name the cluster's domain in front of them, such as `cluster.local`"));
        return None;
    };
    Some(primary.clone())
}

fn endpoint(option: &Line, scope: &mut Scope<'_>) -> Option<(String, Span)> {
    let Some((first, others)) = option.args.split_first() else {
        scope.argument_count(option, "the URL of an API server");
        return None;
    };
    if let Some(other) = others.first() {
        let text = format!(
            "Multiple endpoints have been deprecated, only the first specified endpoint '{}' is used",
            first.text
        );
        scope
            .findings
            .warn(Diagnostic::warning(other.span, format!("plugin/kubernetes: {text}")));
    }
    let (scheme, host) = first.text.split_once("://").unwrap_or(("http", &first.text));
    if !matches!(scheme, "http" | "https") || host.is_empty() || host.contains(char::is_whitespace) {
        let error = Diagnostic::error(first.span, format!("invalid endpoint: {}", first.text));
        scope
            .findings
            .error(error.label("expected a URL such as `https://192.0.2.1:6443`"));
    }
    Some((first.text.to_string(), first.span))
}

fn file(word: &Word, scope: &Scope<'_>) -> PathSetting {
    PathSetting {
        path: scope.path(word),
        span: word.span,
    }
}

/// The time from one request to the next; none for no limit.
fn qps(option: &Line, scope: &mut Scope<'_>) -> Option<Option<Duration>> {
    let word = scope.one_arg(option)?;
    let fail = |text: &str, scope: &mut Scope<'_>| {
        let error = Diagnostic::error(word.span, format!("{text}: {}", word.text));
        scope
            .findings
            .error(error.label("expected requests a second, such as `5` or `0.5`"));
    };
    match word.text.parse::<f64>() {
        Ok(qps) if qps < 0.0 => fail("apiserver_qps must be >= 0", scope),
        Ok(0.0) => return Some(None),
        Ok(qps) if qps.is_finite() => {
            // Slower than the longest time there is is as slow as that.
            return Some(Some(Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::MAX)));
        }
        Ok(_) | Err(_) => fail("apiserver_qps is no number", scope),
    }
    None
}

fn count(option: &Line, scope: &mut Scope<'_>) -> Option<u32> {
    let word = scope.one_arg(option)?;
    let number = number::int(word, "kubernetes", scope)?;
    let count = u32::try_from(number.min(u32::MAX.into())).ok();
    if count.is_none() {
        let text = format!("{} must be >= 0: {}", option.name.text, word.text);
        scope.error(word.span, text);
    }
    count
}

fn pods(option: &Line, setting: &mut PodNames, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    match &*word.text {
        "disabled" => *setting = PodNames::Disabled,
        "insecure" => *setting = PodNames::Insecure,
        "verified" => *setting = PodNames::Verified,
        other => {
            let text = format!("wrong value for pods: {other},  must be one of: disabled, verified, insecure");
            scope.unknown(word.span, text, other, &["disabled", "verified", "insecure"]);
        }
    }
}

/// Seconds up to an hour; words behind them do not matter.
pub(super) fn ttl(option: &Line, scope: &mut Scope<'_>) -> Option<u32> {
    let Some(word) = option.args.first() else {
        scope.argument_count(option, "seconds");
        return None;
    };
    let Ok(seconds) = word.text.parse::<i64>() else {
        let error = Diagnostic::error(word.span, format!("ttl is no number: {}", word.text));
        scope
            .findings
            .error(error.label(format!("expected 0 to {TTL_MAX}, without a unit")));
        return None;
    };
    let secs = u32::try_from(seconds).ok().filter(|secs| *secs <= TTL_MAX);
    if secs.is_none() {
        let error = Diagnostic::error(word.span, format!("ttl must be in range [0, {TTL_MAX}]: {seconds}"));
        scope
            .findings
            .error(error.label(format!("expected 0 to {TTL_MAX} seconds")));
    }
    secs
}

fn multicluster(option: &Line, zones: &[NameBuf], scope: &mut Scope<'_>) -> Vec<NameBuf> {
    let named = scope.named_zones(&option.args);
    for zone in named.iter().filter(|zone| !zones.contains(zone)) {
        let own: Vec<String> = zones.iter().map(ToString::to_string).collect();
        let text = format!(
            "is not authoritative for the multicluster zone {zone} (authoritative zones: [{}])",
            own.join(" ")
        );
        let error = Diagnostic::error(option.span(), text);
        scope
            .findings
            .error(error.help("name the zone behind `kubernetes`, too"));
    }
    named
}

fn startup_timeout(option: &Line, setting: &mut Duration, scope: &mut Scope<'_>) {
    let Some(word) = option.args.first() else {
        scope.argument_count(option, "a duration such as `5s`");
        return;
    };
    match go_duration(&word.text) {
        Ok(timeout) => *setting = timeout,
        Err(DurationError::Negative(_)) => *setting = Duration::ZERO,
        Err(error) => {
            let text = format!("failed to parse startup_timeout: {}, {error}", word.text);
            let error = Diagnostic::error(word.span, text);
            scope.findings.error(error.label("expected a duration such as `5s`"));
        }
    }
}

/// Options that older releases had get a word on what takes their place.
fn unknown(option: &Line, scope: &mut Scope<'_>) {
    let help = match &*option.name.text {
        "cidrs" | "cidr" => "write the net behind `kubernetes`, as a zone",
        "federation" => "federations are gone from Kubernetes: leave the line out",
        "autopath" => "write `autopath @kubernetes` beside `kubernetes`, not in it",
        "resyncperiod" => "leave the line out: changes are told as they happen",
        "transfer" => "write `transfer { to ... }` beside `kubernetes`, not in it",
        _ => return scope.unknown_option(option, &OPTIONS),
    };
    let error = Diagnostic::error(option.name.span, format!("unknown property '{}'", option.name.text));
    scope.findings.error(error.help(help));
}

/// Reports options that do not go together.
fn together(kubernetes: &Kubernetes, said: &Said, scope: &mut Scope<'_>) {
    if let (Some(span), Some(other)) = (said.namespace_labels, said.namespaces) {
        let text = "namespaces and namespace_labels cannot both be set";
        let error = Diagnostic::error(span.max(other), text).related(span.min(other), "the other one");
        scope.findings.error(error.help("leave one of them out"));
    }
    if let (Some(zonal), Some(noendpoints)) = (said.zonal, said.noendpoints) {
        let text = "zonal requires the endpoint cache; remove noendpoints";
        let error = Diagnostic::error(zonal, text);
        let error = error.related(noendpoints, "taken away here");
        scope.findings.error(error.help("take one of the two out"));
    }
    let mut without_effect = |span: Span, text: &str| {
        let text = format!("plugin/kubernetes: {text}");
        scope.findings.warn(Diagnostic::warning(span, text));
    };
    match (&said.kubeconfig, &said.endpoint, &said.tls) {
        (Some(_), endpoint, tls) => {
            let endpoint = endpoint.iter().map(|(_, span)| (*span, "endpoint"));
            let tls = tls.iter().map(|(_, span)| (*span, "tls"));
            for (span, option) in endpoint.chain(tls) {
                without_effect(span, &format!("`{option}` has no effect beside `kubeconfig`"));
            }
        }
        (None, None, Some((_, span))) => without_effect(*span, "`tls` has no effect without `endpoint`"),
        (None, ..) => {}
    }
    if kubernetes.ignore_empty_service
        && let Some(span) = said.noendpoints
    {
        without_effect(span, "with `ignore empty_service` no service has a name");
    }
}

/// A `kubeconfig` counts before an `endpoint`.
fn server(kubernetes: &mut Kubernetes, said: Said) {
    if let Some((file, context)) = said.kubeconfig {
        kubernetes.server_span = file.span;
        kubernetes.source.server = Server::Kubeconfig {
            file: file.path.clone(),
            context,
        };
        kubernetes.files = vec![file];
    } else if let Some((url, span)) = said.endpoint {
        kubernetes.server_span = span;
        let files = said.tls.map(|(files, _)| files);
        let tls = files.as_ref().map(|[cert, key, ca]| TlsFiles {
            cert: cert.path.clone(),
            key: key.path.clone(),
            ca: ca.path.clone(),
        });
        kubernetes.source.server = Server::Endpoint { url, tls };
        kubernetes.files = files.map(Vec::from).unwrap_or_default();
    }
}
