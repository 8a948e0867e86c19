//! A server that is asked: where it is, how it fares, and what was counted of it. All workers share one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nodens_wire::Rcode;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::Checking;
use crate::stats::{RCODES, TIME_BOUNDS};
use crate::time::Instant;

/// How its messages are carried.
#[derive(Clone, Debug)]
pub enum Transport {
    /// By UDP, or by TCP as it comes.
    Plain,
    /// By TLS over TCP.
    Tls {
        /// Whom to trust and what to show; tickets for resumption are kept in it.
        config: Arc<ClientConfig>,
        /// The name that its certificate has to have.
        name: ServerName<'static>,
    },
}

/// What a query went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// One datagram each way.
    Udp,
    /// A stream.
    Tcp,
    /// A stream under TLS.
    TcpTls,
}

/// A server that is asked.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    pub(super) transport: Transport,
    pub(super) health: Health,
    /// What was counted.
    pub measures: Measures,
    in_flight: AtomicUsize,
    /// It is not to be asked, whatever it says.
    is_out: AtomicBool,
}

impl Upstream {
    /// An upstream of which nothing bad is known.
    #[must_use]
    pub fn new(address: SocketAddr, transport: Transport) -> Self {
        Self {
            address,
            transport,
            health: Health::default(),
            measures: Measures::default(),
            in_flight: AtomicUsize::new(0),
            is_out: AtomicBool::new(false),
        }
    }

    /// Has no new question go there any more, since they come back from it.
    pub fn take_out(&self) {
        self.is_out.store(true, Ordering::Relaxed);
    }

    /// Has questions go there again: they may no longer come back.
    pub fn put_back(&self) {
        self.is_out.store(false, Ordering::Relaxed);
    }

    /// Whether it is taken out.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn begins(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How it fares.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Failed probes in a row, or failures that are not forgotten.
    fails: AtomicU32,
    /// When the last of them was.
    failed_at: AtomicU64,
    /// When it was silent for the first time since it was heard; 0 if it was not.
    silent_since: AtomicU64,
    /// Somebody probes it.
    is_checked: AtomicBool,
}

impl Health {
    /// Whether it is not to be asked.
    pub(super) fn is_down(&self, checking: &Checking, now: Instant) -> bool {
        let fails = self.fails.load(Ordering::Relaxed);
        match checking {
            Checking::Never => false,
            Checking::Probes { fails_max, .. } => fails > *fails_max,
            Checking::Failures { fails_max, timeout } => {
                *fails_max > 0 && fails >= *fails_max && !self.is_forgotten(*timeout, now)
            }
        }
    }

    fn is_forgotten(&self, timeout: Duration, now: Instant) -> bool {
        now.since(Instant(self.failed_at.load(Ordering::Relaxed))) >= timeout
    }

    /// A query failed, other than by a time-out, and nobody probes.
    pub(super) fn count_failure(&self, timeout: Duration, now: Instant) {
        if self.is_forgotten(timeout, now) {
            self.fails.store(0, Ordering::Relaxed);
        }
        self.fails.fetch_add(1, Ordering::Relaxed);
        self.failed_at.store(now.0, Ordering::Relaxed);
    }

    /// A probe failed.
    pub(super) fn count_probe(&self) {
        self.fails.fetch_add(1, Ordering::Relaxed);
    }

    /// A query was not answered in time. Returns whether that is news.
    pub(super) fn silent(&self, now: Instant) -> bool {
        let since = &self.silent_since;
        since
            .compare_exchange(0, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// When it was silent for the first time since it was heard. Without probes that is forgotten, as failures are.
    pub(super) fn silent_since(&self, checking: &Checking, now: Instant) -> Option<Instant> {
        let since = Instant(self.silent_since.load(Ordering::Relaxed));
        if since.0 == 0 {
            return None;
        }
        if let Checking::Failures { timeout, .. } = checking
            && now.since(since) >= *timeout
        {
            self.silent_since.store(0, Ordering::Relaxed);
            return None;
        }
        Some(since)
    }

    /// It was heard.
    pub(super) fn heard(&self) {
        // Most of the time nothing changes, and other workers read the same line.
        if self.silent_since.load(Ordering::Relaxed) != 0 {
            self.silent_since.store(0, Ordering::Relaxed);
        }
        if self.fails.load(Ordering::Relaxed) != 0 {
            self.fails.store(0, Ordering::Relaxed);
        }
    }

    /// Whether something is wrong with it and nobody probes it.
    pub(super) fn lacks_probe(&self) -> bool {
        let is_well = self.fails.load(Ordering::Relaxed) == 0 && self.silent_since.load(Ordering::Relaxed) == 0;
        !is_well && !self.is_checked.load(Ordering::Relaxed)
    }

    /// Whether the caller is the one to probe it.
    pub(super) fn begin_checking(&self) -> bool {
        !self.is_checked.swap(true, Ordering::Relaxed)
    }

    pub(super) fn end_checking(&self) {
        self.is_checked.store(false, Ordering::Relaxed);
    }
}

/// Times that queries took, in buckets with the bounds of [`TIME_BOUNDS`] and one without.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; TIME_BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Durations {
    /// How many fell into each bucket.
    pub fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed))
    }

    /// Their sum, in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().sum()
    }

    fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = TIME_BOUNDS.partition_point(|bound| *bound < nanos);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// What was counted of an upstream.
#[derive(Debug)]
pub struct Measures {
    /// Of exchanges that brought a reply, by its rcode; those from [`RCODES`] on stand with the last.
    pub durations: [Durations; RCODES],
    healthcheck_failures: AtomicU64,
    /// By [`Proto`].
    reused: [AtomicU64; 3],
    opened: [AtomicU64; 3],
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            durations: std::array::from_fn(|_| Durations::default()),
            healthcheck_failures: AtomicU64::default(),
            reused: Default::default(),
            opened: Default::default(),
        }
    }
}

impl Measures {
    /// Probes that failed.
    #[must_use]
    pub fn healthcheck_failures(&self) -> u64 {
        self.healthcheck_failures.load(Ordering::Relaxed)
    }

    /// Queries that found a socket, and those that one had to be opened for.
    #[must_use]
    pub fn sockets(&self, proto: Proto) -> (u64, u64) {
        let at = proto as usize;
        (
            self.reused[at].load(Ordering::Relaxed),
            self.opened[at].load(Ordering::Relaxed),
        )
    }

    pub(super) fn count_reply(&self, rcode: Rcode, duration: Duration) {
        self.durations[usize::from(rcode.0).min(RCODES - 1)].observe(duration);
    }

    pub(super) fn count_probe_failure(&self) {
        self.healthcheck_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_socket(&self, proto: Proto, is_reused: bool) {
        let counts = if is_reused { &self.reused } else { &self.opened };
        counts[proto as usize].fetch_add(1, Ordering::Relaxed);
    }
}
