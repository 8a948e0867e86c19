//! What the `cache` of each block counts.

use std::sync::Arc;

use nodens_engine::cache::{Block, Cache, Kind};
use nodens_engine::stats::CacheCounters;

use super::super::text::{Kind as Type, Page};
use super::{Metrics, SeriesLabels, Shown};

/// One of the counters.
type Counted = fn(&CacheCounters) -> u64;

const KINDS: [(Kind, &str); 2] = [(Kind::Success, "success"), (Kind::Denial, "denial")];

/// The `cache` of a block, on one of its servers.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    /// `dns://:53`
    pub server: String,
    /// Empty without `view`.
    pub view: String,
    /// The zones of the directive, with commas between them.
    pub zones: String,
    /// Of the queries to that server.
    pub series: Vec<u32>,
    /// What the block has in the cache.
    pub block: Arc<Block>,
}

/// All of it.
pub(super) fn all(metrics: &Metrics, shown: &Shown, page: &mut Page) {
    plain(metrics, shown, page);
    let mut hits = page.family(
        "coredns_cache_hits_total",
        Type::Counter,
        "Questions answered from the cache.",
    );
    for own in &shown.caches {
        for (at, (_, kind)) in KINDS.iter().enumerate() {
            let count = own.sum(metrics, |cache| cache.hits[at].get());
            if count > 0 {
                hits.sample(&own.labels_of(kind), count);
            }
        }
    }
    let mut entries = page.family("coredns_cache_entries", Type::Gauge, "Entries in the cache.");
    for own in &shown.caches {
        for (kind, name) in KINDS {
            entries.sample(&own.labels_of(name), own.block.entries(kind));
        }
    }
    let mut evictions = page.family(
        "coredns_cache_evictions_total",
        Type::Counter,
        "Entries that made room while they were of use.",
    );
    for own in &shown.caches {
        for (kind, name) in KINDS {
            if own.block.evictions(kind) > 0 {
                evictions.sample(&own.labels_of(name), own.block.evictions(kind));
            }
        }
    }
    if let Some(slab) = &shown.cache {
        slab_figures(slab, page);
    }
}

fn plain(metrics: &Metrics, shown: &Shown, page: &mut Page) {
    let families: [(_, _, Counted); 4] = [
        (
            "coredns_cache_requests_total",
            "Questions that were looked up.",
            |cache| cache.requests.get(),
        ),
        (
            "coredns_cache_misses_total",
            "Questions that were not in the cache.",
            |cache| cache.misses.get(),
        ),
        (
            "coredns_cache_prefetch_total",
            "Entries that were asked for anew behind an answer.",
            |cache| cache.prefetches.get(),
        ),
        (
            "coredns_cache_served_stale_total",
            "Answers that had expired.",
            |cache| cache.stale.get(),
        ),
    ];
    for (name, help, value) in families {
        let mut family = page.family(name, Type::Counter, help);
        for own in &shown.caches {
            let count = own.sum(metrics, value);
            if count > 0 {
                family.sample(
                    &[("server", &own.server), ("view", &own.view), ("zones", &own.zones)],
                    count,
                );
            }
        }
    }
}

fn slab_figures(slab: &Cache, page: &mut Page) {
    let figures = slab.figures();
    page.single(
        "nodens_cache_size_bytes",
        Type::Gauge,
        "Bytes that the cache may take.",
        figures.bytes_max,
    );
    page.single(
        "nodens_cache_used_bytes",
        Type::Gauge,
        "Bytes of it in use.",
        figures.bytes,
    );
    page.single(
        "nodens_cache_expired_total",
        Type::Counter,
        "Entries that made room when they were of no use any more.",
        figures.expired,
    );
    page.single(
        "nodens_cache_busy_total",
        Type::Counter,
        "Look-ups and inserts given up, since others were changing the place.",
        figures.busy,
    );
}

impl CacheMetrics {
    /// One for each server of a block.
    pub fn of(block: &Arc<Block>, zones: &str, series: &[(SeriesLabels, u32)]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (labels, number) in series {
            match all.iter_mut().find(|own| own.server == labels.server) {
                Some(own) => own.series.push(*number),
                None => all.push(Self {
                    server: labels.server.clone(),
                    view: labels.view.clone(),
                    zones: zones.to_owned(),
                    series: vec![*number],
                    block: Arc::clone(block),
                }),
            }
        }
        all
    }

    fn sum(&self, metrics: &Metrics, value: impl Fn(&CacheCounters) -> u64) -> u64 {
        let series = self.series.iter().flat_map(|&at| {
            let workers = metrics.workers.iter();
            workers.filter_map(move |worker| worker.series.get(at as usize))
        });
        series.map(|series| value(&series.cache)).sum()
    }

    fn labels_of<'l>(&'l self, kind: &'l str) -> [(&'static str, &'l str); 4] {
        [
            ("server", &self.server),
            ("type", kind),
            ("view", &self.view),
            ("zones", &self.zones),
        ]
    }
}
