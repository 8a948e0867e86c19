//! What a worker counts, for others to read.
//!
//! Each worker has its own counters on its own cache lines and is their only writer, so counting is a load, an add
//! and a store; whoever scrapes sums over the workers.

use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::utils::CachePadded;
use nodens_wire::{Rclass, Rcode, Rtype};

use crate::plan::StepName;

/// A number that only goes up, with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; to be called by one thread alone.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets of message sizes, in bytes.
pub const SIZE_BOUNDS: [u64; 14] = [
    0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16_000, 32_000, 48_000, 64_000,
];
/// Upper bounds of the buckets of durations, in nanoseconds: 0.25 ms, doubled up to 8.192 s.
pub const TIME_BOUNDS: [u64; 16] = {
    let mut bounds = [250_000; 16];
    bounds[1] = 500_000;
    let mut i = 2;
    while i < 16 {
        bounds[i] = 1_000_000 << (i - 2);
        i += 1;
    }
    bounds
};

/// Counts by upper bound, the last one without, and their sum.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// How many fell into each bucket.
    pub buckets: [Counter; N],
    /// The sum of all values.
    pub sum: Counter,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            sum: Counter::default(),
        }
    }
}

impl<const N: usize> Histogram<N> {
    fn clear(&self) {
        self.buckets.iter().for_each(Counter::clear);
        self.sum.clear();
    }

    #[inline]
    fn observe(&self, bounds: &[u64], value: u64) {
        let bucket = bounds.iter().position(|&bound| value <= bound).unwrap_or(bounds.len());
        self.buckets[bucket].add(1);
        self.sum.add(value);
    }
}

/// Types with a label of their own in `coredns_dns_requests_total`.
pub const TYPES: [(Rtype, &str); 18] = [
    (Rtype::A, "A"),
    (Rtype::AAAA, "AAAA"),
    (Rtype::CNAME, "CNAME"),
    (Rtype::DNSKEY, "DNSKEY"),
    (Rtype::DS, "DS"),
    (Rtype::MX, "MX"),
    (Rtype::NSEC3, "NSEC3"),
    (Rtype::NSEC, "NSEC"),
    (Rtype::NS, "NS"),
    (Rtype::PTR, "PTR"),
    (Rtype::RRSIG, "RRSIG"),
    (Rtype::SOA, "SOA"),
    (Rtype::SRV, "SRV"),
    (Rtype::TXT, "TXT"),
    (Rtype::HTTPS, "HTTPS"),
    (Rtype::SVCB, "SVCB"),
    (Rtype::IXFR, "IXFR"),
    (Rtype::AXFR, "AXFR"),
];
/// `ANY` and everything else come behind [`TYPES`].
pub const TYPE_LABELS: usize = TYPES.len() + 2;

/// The index of each low type code.
const LOW_TYPES: [u8; 66] = {
    let mut table = [TYPES.len() as u8 + 1; 66];
    let mut i = 0;
    while i < TYPES.len() {
        let code = TYPES[i].0.0 as usize;
        if code < table.len() {
            table[code] = i as u8;
        }
        i += 1;
    }
    table
};

fn type_index(rtype: Rtype) -> usize {
    match LOW_TYPES.get(usize::from(rtype.0)) {
        Some(&index) => usize::from(index),
        None if rtype == Rtype::ANY => TYPES.len(),
        None => TYPES
            .iter()
            .position(|(known, _)| *known == rtype)
            .unwrap_or(TYPES.len() + 1),
    }
}

/// Classes with a label of their own; all others stand behind them.
pub const CLASSES: [(Rclass, &str); 5] = [
    (Rclass::IN, "IN"),
    (Rclass::CH, "CH"),
    (Rclass::HS, "HS"),
    (Rclass::NONE, "NONE"),
    (Rclass::ANY, "ANY"),
];

/// Something for each class and type that has a label, and for the others together.
#[derive(Debug, Default)]
pub struct ByQuestion<T>([[T; TYPE_LABELS]; CLASSES.len() + 1]);

impl<T> ByQuestion<T> {
    /// That of a class and type.
    #[must_use]
    pub fn of(&self, rclass: Rclass, rtype: Rtype) -> &T {
        let class = CLASSES.iter().position(|(known, _)| *known == rclass);
        &self.0[class.unwrap_or(CLASSES.len())][type_index(rtype)]
    }

    /// All of them, with the labels of class and type.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, &T)> {
        let classes = CLASSES.iter().map(|(_, label)| *label).chain(["other"]);
        classes.zip(&self.0).flat_map(|(class, by_type)| {
            let types = TYPES.iter().map(|(_, label)| *label).chain(["ANY", "other"]);
            types.zip(by_type).map(move |(rtype, own)| (class, rtype, own))
        })
    }
}

/// Rcodes up to this one are counted by number, all others together.
pub const RCODES: usize = 25;
/// Steps that may have answered, and the server itself behind them.
pub const PLUGINS: usize = StepName::ALL.len() + 1;

/// What is counted for each server, zone and view.
#[derive(Debug, Default)]
pub struct Series {
    /// By protocol (UDP, TCP), family (IPv4, IPv6) and type.
    pub requests: [[[Counter; TYPE_LABELS]; 2]; 2],
    /// By protocol.
    pub request_size: [Histogram<15>; 2],
    /// By protocol.
    pub response_size: [Histogram<15>; 2],
    /// In nanoseconds.
    pub duration: Histogram<17>,
    /// Queries with DO.
    pub dnssec_ok: Counter,
    /// By rcode, and by who answered.
    pub responses: [[Counter; PLUGINS]; RCODES],
    /// What `acl` did, by action. Questions that it let pass are counted with the route's zone, those that it did not
    /// with the zone of its stanza.
    pub acl: [Counter; 4],
    /// Panics while answering; counted with the queries that no plan has seen, so once for each server.
    pub panics: Counter,
    /// Answers that a limit cut short; counted likewise.
    pub limited: Counter,
    /// What `cache` did.
    pub cache: CacheCounters,
    /// Names that `autopath` found behind another suffix.
    pub autopath: Counter,
    /// Answers of `dns64`.
    pub translated: Counter,
    /// Questions that a `template` of the zone matched.
    pub templates: ByQuestion<Counter>,
}

/// What the `cache` of a block counts.
#[derive(Debug, Default)]
pub struct CacheCounters {
    /// Questions that were looked up.
    pub requests: Counter,
    /// Those that were answered: with data, and with denials and failures.
    pub hits: [Counter; 2],
    /// Those that were not.
    pub misses: Counter,
    /// Entries that were asked for anew behind an answer.
    pub prefetches: Counter,
    /// Answers that had expired.
    pub stale: Counter,
}

impl CacheCounters {
    fn clear(&self) {
        let Self {
            requests,
            hits: [success, denial],
            misses,
            prefetches,
            stale,
        } = self;
        for counter in [requests, success, denial, misses, prefetches, stale] {
            counter.clear();
        }
    }
}

/// One query, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    pub(crate) is_stream: bool,
    pub(crate) is_v6: bool,
    pub(crate) rtype: Rtype,
    pub(crate) dnssec_ok: bool,
    pub(crate) query_len: usize,
    pub(crate) reply_plain_len: usize,
    pub(crate) rcode: Rcode,
    pub(crate) by: Option<StepName>,
    pub(crate) duration: Duration,
}

impl Series {
    fn clear(&self) {
        let Self {
            requests,
            request_size,
            response_size,
            duration,
            dnssec_ok,
            responses,
            acl,
            panics,
            limited,
            cache,
            autopath,
            translated,
            templates,
        } = self;
        requests.iter().flatten().flatten().for_each(Counter::clear);
        request_size.iter().chain(response_size).for_each(Histogram::clear);
        duration.clear();
        responses.iter().flatten().chain(acl).for_each(Counter::clear);
        [dnssec_ok, panics, limited, autopath, translated]
            .into_iter()
            .for_each(Counter::clear);
        templates.iter().for_each(|(.., matches)| matches.clear());
        cache.clear();
    }

    pub(crate) fn count(&self, seen: &Observed) {
        let proto = usize::from(seen.is_stream);
        self.requests[proto][usize::from(seen.is_v6)][type_index(seen.rtype)].add(1);
        self.request_size[proto].observe(&SIZE_BOUNDS, seen.query_len as u64);
        self.response_size[proto].observe(&SIZE_BOUNDS, seen.reply_plain_len as u64);
        self.duration.observe(
            &TIME_BOUNDS,
            u64::try_from(seen.duration.as_nanos()).unwrap_or(u64::MAX),
        );
        self.dnssec_ok.add(u64::from(seen.dnssec_ok));
        let by = seen.by.map_or(PLUGINS - 1, |step| step as usize);
        self.responses[usize::from(seen.rcode.0).min(RCODES - 1)][by].add(1);
    }
}

/// All that one worker counts.
#[derive(Debug, Default)]
pub struct WorkerStats {
    /// By `Route::series`.
    pub series: SeriesTable,
    /// Queries that could not wait for another server, since too many did or they had asked too much.
    pub waiting_limited: Counter,
    /// Panics while answering; each cost one packet.
    pub panics: CachePadded<Counter>,
    /// Answers that a limit cut short.
    pub gather_limited: Counter,
    /// Names of the machine itself that `local` answered.
    pub localhost: Counter,
    /// Log lines that found the queue full.
    pub log_dropped: Counter,
    /// Connections refused or closed for a limit.
    pub streams_limited: Counter,
    /// Zones that were asked for and begun to be handed out.
    pub transfers: Counter,
    /// Those of them that are what has changed since the version that the client has.
    pub transfers_incremental: Counter,
    /// Transfers refused, since too many were under way.
    pub transfers_limited: Counter,
    /// TLS handshakes that came to their end.
    pub tls_handshakes: Counter,
    /// TLS handshakes that began and broke, were given up or took too long.
    pub tls_handshakes_failed: Counter,
    /// Messages that get no reply: shorter than a header, or replies themselves.
    pub ignored: Counter,
    /// Messages that no plan saw: answered with FORMERR or NOTIMP.
    pub refused: Counter,
    /// Effects that found their queue full.
    pub effects_dropped: Counter,
    /// What was asked of other servers.
    pub forward: ForwardStats,
}

/// What is counted where other servers are asked, but for what [`Upstream`](crate::forward::Upstream) counts of each.
#[derive(Debug, Default)]
pub struct ForwardStats {
    /// Times that all upstreams of a stanza were down.
    pub healthcheck_broken: Counter,
    /// Questions refused, since their stanza had as many in flight as it may.
    pub rejected: Counter,
    /// Questions that found the worker with as many in flight as it can have.
    pub limited: Counter,
    /// Times that a socket was shared or not opened for want of descriptors.
    pub sockets_limited: Counter,
    /// Datagrams that nobody asked for: another id, another question, no reply.
    pub unasked: Counter,
    /// Replies that came when nobody waited any more.
    pub late: Counter,
}

impl WorkerStats {
    /// Counters for so many servers, zones and views.
    #[must_use]
    pub fn new(series: usize) -> Self {
        Self {
            series: SeriesTable::new(series),
            ..Self::default()
        }
    }
}

/// Series in the first chunk of a table; each further one has twice as many as the one before.
const CHUNK_MIN: usize = 16;
/// Chunks of a table: together more series than memory holds.
const CHUNKS: usize = 28;

/// Series by number. It grows while the worker counts: what is there is never moved, so neither side takes a lock.
#[derive(Debug)]
pub struct SeriesTable {
    chunks: [OnceLock<Box<[CachePadded<Series>]>>; CHUNKS],
}

/// The chunk of a series, and its place there.
const fn place(at: usize) -> (usize, usize) {
    // Chunks double, so with the first one's length added the highest bit is a chunk's length, and the rest a place in it.
    let from_min = at + CHUNK_MIN;
    let bit = from_min.ilog2();
    ((bit - CHUNK_MIN.ilog2()) as usize, from_min - (1 << bit))
}

impl SeriesTable {
    /// A table with so many series.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let table = Self::default();
        table.grow(len);
        table
    }

    /// Makes series up to this number. Any thread may call it.
    pub fn grow(&self, len: usize) {
        let Some(last) = len.checked_sub(1) else { return };
        for (chunk, len) in self.chunks.iter().zip((0..=place(last).0).map(|at| CHUNK_MIN << at)) {
            chunk.get_or_init(|| (0..len).map(|_| CachePadded::default()).collect());
        }
    }

    /// One series, if the table has grown so far.
    #[must_use]
    #[inline]
    pub fn get(&self, at: usize) -> Option<&Series> {
        let (chunk, at) = place(at);
        Some(self.chunks.get(chunk)?.get()?.get(at)?)
    }

    /// Has one count from 0 again; to be called when nobody counts there.
    pub fn clear(&self, at: usize) {
        if let Some(series) = self.get(at) {
            series.clear();
        }
    }

    /// Those that were made.
    pub fn iter(&self) -> impl Iterator<Item = &Series> {
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks.flat_map(|chunk| chunk.iter().map(|series| &**series))
    }
}

impl Default for SeriesTable {
    fn default() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
        }
    }
}

impl Index<usize> for SeriesTable {
    type Output = Series;

    fn index(&self, at: usize) -> &Series {
        self.get(at).expect("a series that was made")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_and_keeps_its_counts() {
        let table = SeriesTable::new(1);
        assert_eq!(table.iter().count(), CHUNK_MIN);
        table[0].panics.add(7);
        assert!(table.get(CHUNK_MIN).is_none());
        table.grow(10 * CHUNK_MIN);
        for at in 1..10 * CHUNK_MIN {
            assert_eq!(table[at].panics.get(), 0, "{at}");
            table[at].panics.add(at as u64);
        }
        let all: Vec<u64> = table.iter().map(|series| series.panics.get()).collect();
        assert_eq!(all[..3], [7, 1, 2]);
        assert!((3..10 * CHUNK_MIN).all(|at| all[at] == at as u64));
        assert!(table.get(usize::MAX / 2).is_none());
    }
}
