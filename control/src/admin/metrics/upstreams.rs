//! What is counted of the servers that `forward` and `proxy` ask, and those of stub zones, under today's names and under those of dashboards.

use std::collections::BTreeMap;

use nodens_engine::forward::{Proto, Upstream};
use nodens_engine::snapshot::Data;
use nodens_engine::stats::{RCODES, TIME_BOUNDS};
use nodens_engine::zone::Zone;
use nodens_wire::Rcode;

use super::super::text::{Kind, Page};
use super::{Metrics, NS_PER_SEC, Shown};

const PROTOCOLS: [(Proto, &str); 3] = [(Proto::Udp, "udp"), (Proto::Tcp, "tcp"), (Proto::TcpTls, "tcp-tls")];
const BUCKETS: usize = TIME_BOUNDS.len() + 1;

/// Hits or misses.
type OneOf = fn((u64, u64)) -> u64;

/// How the names of a figure and its labels begin.
#[derive(Clone, Copy)]
enum Naming {
    Today,
    Dashboards,
}

/// Of all stanzas that ask one address.
struct Asked {
    to: String,
    durations: Vec<([u64; BUCKETS], u64)>,
    probes_failed: u64,
    sockets: [(u64, u64); 3],
}

/// All of it.
pub(super) fn all(metrics: &Metrics, shown: &Shown, page: &mut Page) {
    let mut single = |name, help, value| metrics.of_workers(name, help, value, page);
    single(
        "coredns_forward_healthcheck_broken_total",
        "Times that all upstreams of a stanza were down.",
        |worker| worker.forward.healthcheck_broken.get(),
    );
    single(
        "coredns_forward_max_concurrent_rejects_total",
        "Queries refused, since their stanza had as many on their way as it may.",
        |worker| worker.forward.rejected.get(),
    );
    single(
        "nodens_forward_limited_total",
        "Queries that could not be asked elsewhere, since the worker had too many on their way.",
        |worker| worker.forward.limited.get() + worker.waiting_limited.get(),
    );
    single(
        "nodens_forward_sockets_limited_total",
        "Times that a socket to an upstream was shared or not opened for want of descriptors.",
        |worker| worker.forward.sockets_limited.get(),
    );
    single(
        "nodens_forward_unasked_total",
        "Datagrams from upstreams that nobody had asked for: another id or question, or no reply.",
        |worker| worker.forward.unasked.get(),
    );
    single(
        "nodens_forward_late_total",
        "Replies of upstreams that came when nobody waited any more.",
        |worker| worker.forward.late.get(),
    );
    let (_, data) = metrics.published.load();
    let asked = asked(shown, &data);
    for naming in [Naming::Today, Naming::Dashboards] {
        durations(&asked, naming, page);
        probes(&asked, naming, page);
        sockets(&asked, naming, page);
    }
    requests(&asked, page);
}

fn asked(shown: &Shown, data: &Data) -> Vec<Asked> {
    let mut by_address: BTreeMap<String, Asked> = BTreeMap::new();
    let of_stub_zones = data.zones().filter_map(|zone| match zone {
        Zone::Services(tree) => Some(tree.stub_stanzas()),
        _ => None,
    });
    let stanzas = shown
        .stanzas
        .iter()
        .map(|stanza| &**stanza)
        .chain(of_stub_zones.flatten());
    let upstreams = stanzas.flat_map(|stanza| &stanza.settings().upstreams);
    for upstream in upstreams {
        let to = upstream.address().to_string();
        let own = by_address.entry(to.clone()).or_insert_with(|| Asked {
            to,
            durations: vec![([0; BUCKETS], 0); RCODES],
            probes_failed: 0,
            sockets: [(0, 0); 3],
        });
        own.add(upstream);
    }
    by_address.into_values().collect()
}

impl Asked {
    fn add(&mut self, upstream: &Upstream) {
        let measures = &upstream.measures;
        for ((counts, nanos), durations) in self.durations.iter_mut().zip(&measures.durations) {
            for (count, more) in counts.iter_mut().zip(durations.buckets()) {
                *count += more;
            }
            *nanos += durations.nanos();
        }
        self.probes_failed += measures.healthcheck_failures();
        for ((hits, misses), (proto, _)) in self.sockets.iter_mut().zip(PROTOCOLS) {
            let (reused, opened) = measures.sockets(proto);
            *hits += reused;
            *misses += opened;
        }
    }

    /// The rcodes of replies that came, each with how many took how long.
    fn answered(&self) -> impl Iterator<Item = (String, &[u64; BUCKETS], u64)> {
        let name = |at: usize| {
            let number = u16::try_from(at).unwrap_or(u16::MAX);
            if at + 1 == RCODES {
                "other".to_owned()
            } else {
                Rcode(number).to_string()
            }
        };
        self.durations
            .iter()
            .enumerate()
            .filter(|(_, (counts, _))| counts.iter().any(|&count| count > 0))
            .map(move |(at, (counts, nanos))| (name(at), counts, *nanos))
    }
}

fn durations(asked: &[Asked], naming: Naming, page: &mut Page) {
    let name = match naming {
        Naming::Today => "coredns_proxy_request_duration_seconds",
        Naming::Dashboards => "coredns_forward_request_duration_seconds",
    };
    let mut family = page.family(
        name,
        Kind::Histogram,
        "Time from a question to an upstream to its reply.",
    );
    for own in asked {
        for (rcode, counts, nanos) in own.answered() {
            let bounds = TIME_BOUNDS.iter().map(|&bound| bound as f64 / NS_PER_SEC);
            let labels = [("proxy_name", "forward"), ("rcode", &*rcode), ("to", &*own.to)];
            family.histogram(naming.labels(&labels), bounds, counts, nanos as f64 / NS_PER_SEC);
        }
    }
}

fn requests(asked: &[Asked], page: &mut Page) {
    let name = "coredns_forward_requests_total";
    let mut family = page.family(name, Kind::Counter, "Questions that an upstream answered.");
    for own in asked {
        let count: u64 = own.answered().map(|(_, counts, _)| counts.iter().sum::<u64>()).sum();
        if count > 0 {
            family.sample(&[("to", &own.to)], count);
        }
    }
    let name = "coredns_forward_responses_total";
    let mut family = page.family(name, Kind::Counter, "Replies of upstreams.");
    for own in asked {
        for (rcode, counts, _) in own.answered() {
            family.sample(&[("rcode", &rcode), ("to", &own.to)], counts.iter().sum::<u64>());
        }
    }
}

fn probes(asked: &[Asked], naming: Naming, page: &mut Page) {
    let name = match naming {
        Naming::Today => "coredns_proxy_healthcheck_failures_total",
        Naming::Dashboards => "coredns_forward_healthcheck_failures_total",
    };
    let mut family = page.family(name, Kind::Counter, "Probes of an upstream that failed.");
    for own in asked.iter().filter(|own| own.probes_failed > 0) {
        family.sample(
            naming.labels(&[("proxy_name", "forward"), ("to", &own.to)]),
            own.probes_failed,
        );
    }
}

fn sockets(asked: &[Asked], naming: Naming, page: &mut Page) {
    let [hits, misses] = match naming {
        Naming::Today => [
            "coredns_proxy_conn_cache_hits_total",
            "coredns_proxy_conn_cache_misses_total",
        ],
        Naming::Dashboards => [
            "coredns_forward_conn_cache_hits_total",
            "coredns_forward_conn_cache_misses_total",
        ],
    };
    let families: [(_, _, OneOf); 2] = [
        (hits, "Questions that found a socket to the upstream.", |(hits, _)| hits),
        (misses, "Questions that a socket was opened for.", |(_, misses)| misses),
    ];
    for (name, help, value) in families {
        let mut family = page.family(name, Kind::Counter, help);
        for own in asked {
            for (&counts, (_, proto)) in own.sockets.iter().zip(PROTOCOLS) {
                if value(counts) > 0 {
                    let labels = [("proto", proto), ("proxy_name", "forward"), ("to", &*own.to)];
                    match naming {
                        Naming::Today => family.sample(&labels, value(counts)),
                        Naming::Dashboards => family.sample(&[labels[0], labels[2]], value(counts)),
                    }
                }
            }
        }
    }
}

impl Naming {
    /// Dashboards know no `proxy_name`, which stands first.
    fn labels<'l>(self, labels: &'l [(&'static str, &'l str)]) -> &'l [(&'static str, &'l str)] {
        match self {
            Self::Today => labels,
            Self::Dashboards => &labels[1..],
        }
    }
}
