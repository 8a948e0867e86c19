//! What is counted of Kubernetes API servers and what they say, under CoreDNS's names and our own.

use std::collections::BTreeMap;

use nodens_sources::kubernetes::{Histogram, Programmed, Requests, Standing};

use super::super::text::{Family, Kind, Labels, Page};
use super::Shown;

/// All of it; stanzas of one API server share their series.
pub(super) fn all(shown: &Shown, page: &mut Page) {
    if shown.kubernetes.is_empty() {
        return;
    }
    programming(shown, page);
    requests(shown, page);
    let connected = shown.kubernetes.iter().filter(|status| status.connected()).count();
    page.single(
        "nodens_kubernetes_connected",
        Kind::Gauge,
        "Stanzas of kubernetes whose API server answers.",
        connected,
    );
    let synced = shown.kubernetes.iter().filter(|status| status.synced()).count();
    page.single(
        "nodens_kubernetes_synced",
        Kind::Gauge,
        "Stanzas of kubernetes that have been read once.",
        synced,
    );
    let mut kinds: BTreeMap<&'static str, Standing> = BTreeMap::new();
    for (kind, standing) in shown.kubernetes.iter().flat_map(|status| status.kinds()) {
        let entry = kinds.entry(kind.label());
        entry.and_modify(|all| all.add(&standing)).or_insert(standing);
    }
    let mut family = |name, kind, help, value: fn(&Standing) -> u64| {
        let mut family = page.family(name, kind, help);
        for (label, standing) in &kinds {
            family.sample(&[("kind", label)], value(standing));
        }
    };
    family(
        "nodens_kubernetes_objects",
        Kind::Gauge,
        "Objects that are known.",
        |standing| standing.objects as u64,
    );
    family(
        "nodens_kubernetes_bad_objects",
        Kind::Gauge,
        "Objects of which a part could not be understood and is left out.",
        |standing| standing.bad as u64,
    );
    family(
        "nodens_kubernetes_resyncs_total",
        Kind::Counter,
        "Lists of all objects after the first.",
        |standing| standing.resyncs,
    );
    family(
        "nodens_kubernetes_watch_restarts_total",
        Kind::Counter,
        "Watches after the first.",
        |standing| standing.restarts,
    );
    family(
        "nodens_kubernetes_silence_seconds",
        Kind::Gauge,
        "Since the API server last said anything.",
        |standing| standing.silence.as_secs(),
    );
}

fn programming(shown: &Shown, page: &mut Page) {
    let mut family = page.family(
        "coredns_kubernetes_dns_programming_duration_seconds",
        Kind::Histogram,
        "Time from a change of endpoints to the answer that shows it.",
    );
    for services in [Programmed::ClusterIp, Programmed::Headless] {
        let mut all = shown.kubernetes.iter().map(|status| status.programming(services));
        let Some(mut sum) = all.next() else { continue };
        for more in all {
            sum.add(&more);
        }
        if sum.count() > 0 {
            histogram(&mut family, &[("service_kind", services.label())], &sum);
        }
    }
}

fn requests(shown: &Shown, page: &mut Page) {
    let mut hosts: BTreeMap<Box<str>, Requests> = BTreeMap::new();
    for (host, requests) in shown.kubernetes.iter().flat_map(|status| status.requests()) {
        hosts.entry(host).or_default().add(&requests);
    }
    let mut family = page.family(
        "coredns_kubernetes_rest_client_request_duration_seconds",
        Kind::Histogram,
        "Time from a request to the API server to the head of its answer.",
    );
    for (host, requests) in &hosts {
        histogram(&mut family, &[("host", host), ("verb", "GET")], &requests.durations);
    }
    let mut family = page.family(
        "coredns_kubernetes_rest_client_rate_limiter_duration_seconds",
        Kind::Histogram,
        "Time that requests to the API server waited for their turn.",
    );
    for (host, requests) in &hosts {
        histogram(&mut family, &[("host", host), ("verb", "GET")], &requests.waits);
    }
    let mut family = page.family(
        "coredns_kubernetes_rest_client_requests_total",
        Kind::Counter,
        "Requests to the API server, by what it answered.",
    );
    for (host, requests) in &hosts {
        for (code, count) in &requests.codes {
            family.sample(&[("code", code), ("host", host), ("method", "GET")], count);
        }
    }
}

fn histogram<const N: usize>(family: &mut Family<'_>, labels: Labels<'_>, own: &Histogram<N>) {
    family.histogram(labels, own.bounds(), &own.counts(), own.sum());
}
