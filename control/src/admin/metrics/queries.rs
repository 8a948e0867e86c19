//! The metrics of queries, by server, zone and view.

use std::collections::BTreeMap;

use nodens_engine::plan::{AclAction, StepName};
use nodens_engine::stats::{Counter, Histogram, RCODES, SIZE_BOUNDS, Series, TIME_BOUNDS, TYPES};
use nodens_wire::Rcode;

use super::super::text::{Kind, Page};
use super::{Metrics, NS_PER_SEC, SeriesLabels, Shown, templates};

const PROTOCOLS: [&str; 2] = ["udp", "tcp"];
const FAMILIES: [&str; 2] = ["1", "2"];

/// The histogram of a protocol, by its place in [`PROTOCOLS`].
type BySize = fn(&Series, usize) -> &Histogram<15>;

/// Adds all of them.
pub(super) fn show(metrics: &Metrics, shown: &Shown, page: &mut Page) {
    let mut groups: BTreeMap<&SeriesLabels, Vec<&Series>> = BTreeMap::new();
    for (at, labels) in shown.series.iter().enumerate() {
        let group = groups.entry(labels).or_default();
        group.extend(metrics.workers.iter().filter_map(|worker| worker.series.get(at)));
    }
    let groups: Vec<Group<'_>> = groups
        .into_iter()
        .map(|(labels, series)| Group { labels, series })
        .collect();
    requests(&groups, page);
    durations(&groups, page);
    sizes(&groups, page);
    dnssec(&groups, page);
    responses(&groups, page);
    acl(&groups, page);
    templates::matches(&groups, page);
}

/// The counters that make up the series of one server, zone and view.
pub(super) struct Group<'a> {
    pub(super) labels: &'a SeriesLabels,
    /// Of every worker.
    pub(super) series: Vec<&'a Series>,
}

impl Group<'_> {
    fn sum(&self, counter: impl Fn(&Series) -> &Counter) -> u64 {
        self.series.iter().map(|series| counter(series).get()).sum()
    }

    /// Counts by bucket, and the sum of the values; none as long as there is no value.
    fn histogram<const N: usize>(&self, histogram: impl Fn(&Series) -> &Histogram<N>) -> Option<([u64; N], u64)> {
        let counts = std::array::from_fn(|at| self.sum(|series| &histogram(series).buckets[at]));
        let sum = self.sum(|series| &histogram(series).sum);
        counts.iter().any(|&count| count > 0).then_some((counts, sum))
    }
}

fn requests(groups: &[Group<'_>], page: &mut Page) {
    let types = TYPES.iter().map(|(_, label)| *label).chain(["ANY", "other"]);
    let types: Vec<&str> = types.collect();
    let mut family = page.family("coredns_dns_requests_total", Kind::Counter, "Queries received.");
    for group in groups {
        let SeriesLabels { server, zone, view } = group.labels;
        for (proto_at, proto) in PROTOCOLS.iter().enumerate() {
            for (family_at, ip) in FAMILIES.iter().enumerate() {
                for (type_at, rtype) in types.iter().enumerate() {
                    let count = group.sum(|series| &series.requests[proto_at][family_at][type_at]);
                    if count > 0 {
                        let labels = [
                            ("family", *ip),
                            ("proto", *proto),
                            ("server", &**server),
                            ("type", *rtype),
                            ("view", &**view),
                            ("zone", &**zone),
                        ];
                        family.sample(&labels, count);
                    }
                }
            }
        }
    }
}

fn durations(groups: &[Group<'_>], page: &mut Page) {
    let mut family = page.family(
        "coredns_dns_request_duration_seconds",
        Kind::Histogram,
        "Time from a query to its reply.",
    );
    for group in groups {
        let SeriesLabels { server, zone, view } = group.labels;
        if let Some((counts, sum)) = group.histogram(|series| &series.duration) {
            let bounds = TIME_BOUNDS.iter().map(|&bound| bound as f64 / NS_PER_SEC);
            let labels = [("server", &**server), ("view", &**view), ("zone", &**zone)];
            family.histogram(&labels, bounds, &counts, sum as f64 / NS_PER_SEC);
        }
    }
}

fn sizes(groups: &[Group<'_>], page: &mut Page) {
    let families: [(_, _, BySize); 2] = [
        (
            "coredns_dns_request_size_bytes",
            "Size of the queries.",
            |series, proto| &series.request_size[proto],
        ),
        (
            "coredns_dns_response_size_bytes",
            "Size of the replies before compression and truncation.",
            |series, proto| &series.response_size[proto],
        ),
    ];
    for (name, help, histogram) in families {
        let mut family = page.family(name, Kind::Histogram, help);
        for group in groups {
            let SeriesLabels { server, zone, view } = group.labels;
            for (at, proto) in PROTOCOLS.iter().enumerate() {
                if let Some((counts, sum)) = group.histogram(|series| histogram(series, at)) {
                    let bounds = SIZE_BOUNDS.iter().map(|&bound| bound as f64);
                    let labels = [
                        ("proto", *proto),
                        ("server", &**server),
                        ("view", &**view),
                        ("zone", &**zone),
                    ];
                    family.histogram(&labels, bounds, &counts, sum as f64);
                }
            }
        }
    }
}

fn dnssec(groups: &[Group<'_>], page: &mut Page) {
    let mut family = page.family(
        "coredns_dns_do_requests_total",
        Kind::Counter,
        "Queries with the DO bit.",
    );
    for group in groups {
        let SeriesLabels { server, zone, view } = group.labels;
        let count = group.sum(|series| &series.dnssec_ok);
        if count > 0 {
            family.sample(&[("server", server), ("view", view), ("zone", zone)], count);
        }
    }
}

fn responses(groups: &[Group<'_>], page: &mut Page) {
    // What the server itself wrote has no plugin.
    let plugins: Vec<&str> = StepName::ALL.iter().map(|step| step.as_str()).chain([""]).collect();
    // All that have no number of their own stand together.
    let rcodes = (0u16..).take(RCODES - 1).map(|number| Rcode(number).to_string());
    let rcodes: Vec<String> = rcodes.chain(["other".to_owned()]).collect();
    let mut family = page.family(
        "coredns_dns_responses_total",
        Kind::Counter,
        "Replies, by rcode and by the plugin that wrote them.",
    );
    for group in groups {
        let SeriesLabels { server, zone, view } = group.labels;
        for (rcode_at, rcode) in rcodes.iter().enumerate() {
            for (plugin_at, plugin) in plugins.iter().enumerate() {
                let count = group.sum(|series| &series.responses[rcode_at][plugin_at]);
                if count > 0 {
                    let labels = [
                        ("plugin", *plugin),
                        ("rcode", &**rcode),
                        ("server", &**server),
                        ("view", &**view),
                        ("zone", &**zone),
                    ];
                    family.sample(&labels, count);
                }
            }
        }
    }
}

fn acl(groups: &[Group<'_>], page: &mut Page) {
    let turned_away = [
        (
            AclAction::Block,
            "coredns_acl_blocked_requests_total",
            "Queries that acl refused.",
        ),
        (
            AclAction::Filter,
            "coredns_acl_filtered_requests_total",
            "Queries that acl gave an empty answer.",
        ),
        (
            AclAction::Drop,
            "coredns_acl_dropped_requests_total",
            "Queries that acl gave no reply.",
        ),
    ];
    for (action, name, help) in turned_away {
        let mut family = page.family(name, Kind::Counter, help);
        for group in groups {
            let SeriesLabels { server, zone, view } = group.labels;
            let count = group.sum(|series| &series.acl[action as usize]);
            if count > 0 {
                family.sample(&[("server", server), ("view", view), ("zone", zone)], count);
            }
        }
    }
    let mut allowed: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for group in groups {
        let SeriesLabels { server, view, .. } = group.labels;
        let count = group.sum(|series| &series.acl[AclAction::Allow as usize]);
        *allowed.entry((server, view)).or_default() += count;
    }
    let name = "coredns_acl_allowed_requests_total";
    let mut family = page.family(name, Kind::Counter, "Queries that acl let pass.");
    for ((server, view), count) in allowed {
        if count > 0 {
            family.sample(&[("server", server), ("view", view)], count);
        }
    }
}
