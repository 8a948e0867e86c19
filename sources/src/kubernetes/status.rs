//! Counters and standing of one source, read by metrics and readiness.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::kind::Kind;

/// Upper bounds of the time from a change to what is served, in seconds: 0.001 doubled up to nineteen times.
pub const PROGRAMMING_BOUNDS: [f64; 20] = {
    let mut bounds = [0.001; 20];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2.0;
        at += 1;
    }
    bounds
};

/// Upper bounds of requests to the API server, in seconds: those that Prometheus has where none are given.
pub const REQUEST_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Counters by answer code: the API server's, and one for no answer.
const CODES_MAX: usize = 64;

/// Which Services a change was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// With addresses of their own.
    ClusterIp,
    /// Headless ones.
    Headless,
}

impl Programmed {
    /// As the metric has it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster_ip",
            Self::Headless => "headless_with_selector",
        }
    }
}

/// Durations, counted by their upper bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<const N: usize> {
    bounds: [f64; N],
    /// Each bound's own, without those of the lower ones.
    counts: [u64; N],
    count: u64,
    sum: f64,
}

impl<const N: usize> Histogram<N> {
    const fn new(bounds: [f64; N]) -> Self {
        Self {
            bounds,
            counts: [0; N],
            count: 0,
            sum: 0.0,
        }
    }

    fn observe(&mut self, duration: Duration) {
        let secs = duration.as_secs_f64();
        if let Some(at) = self.bounds.iter().position(|bound| secs <= *bound) {
            self.counts[at] += 1;
        }
        self.count += 1;
        self.sum += secs;
    }

    /// The upper bounds, in seconds.
    #[must_use]
    pub fn bounds(&self) -> [f64; N] {
        self.bounds
    }

    /// How many lie at or below each bound and above the one before it, and behind them how many lie above all.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        let above = self.count - self.counts.iter().sum::<u64>();
        self.counts.into_iter().chain([above]).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, in seconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in self.counts.iter_mut().zip(other.counts) {
            *own += more;
        }
        self.count += other.count;
        self.sum += other.sum;
    }
}

/// What was asked of one API server. All of it is GET.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Until the head of the answer.
    pub durations: Histogram<11>,
    /// The wait for a turn.
    pub waits: Histogram<11>,
    /// By the code of the answer; `<error>` where there was none.
    pub codes: BTreeMap<Box<str>, u64>,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            durations: Histogram::new(REQUEST_BOUNDS),
            waits: Histogram::new(REQUEST_BOUNDS),
            codes: BTreeMap::new(),
        }
    }
}

impl Requests {
    /// Adds those of another source that asks the same server.
    pub fn add(&mut self, other: &Self) {
        self.durations.add(&other.durations);
        self.waits.add(&other.waits);
        for (code, count) in &other.codes {
            *self.codes.entry(code.clone()).or_default() += count;
        }
    }
}

/// Counters and standing of one source, read by metrics and readiness.
#[derive(Debug)]
pub struct Status {
    begun: Instant,
    synced: AtomicBool,
    kinds: [OfKind; Kind::ALL.len()],
    requests: Mutex<BTreeMap<Box<str>, Requests>>,
    programmed: Mutex<[Histogram<20>; 2]>,
}

/// Of one kind of objects.
#[derive(Debug, Default)]
struct OfKind {
    is_watched: AtomicBool,
    follows: AtomicBool,
    objects: AtomicUsize,
    bad: AtomicUsize,
    resyncs: AtomicU64,
    restarts: AtomicU64,
    /// Milliseconds after the start; none before the first word.
    heard: AtomicU64,
}

/// How one kind of objects stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The API server answers.
    pub follows: bool,
    /// Objects that are known.
    pub objects: usize,
    /// Those of them of which a part had to be left out.
    pub bad: usize,
    /// Lists after the first.
    pub resyncs: u64,
    /// Watches after the first.
    pub restarts: u64,
    /// Since the API server last said anything of it; since the start where it never did.
    pub silence: Duration,
}

impl Standing {
    /// Adds those of another source: both answer, and the longer silence counts.
    pub fn add(&mut self, other: &Self) {
        self.follows &= other.follows;
        self.objects += other.objects;
        self.bad += other.bad;
        self.resyncs += other.resyncs;
        self.restarts += other.restarts;
        self.silence = self.silence.max(other.silence);
    }
}

impl Default for Status {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            synced: AtomicBool::new(false),
            kinds: Default::default(),
            requests: Mutex::default(),
            programmed: Mutex::new([const { Histogram::new(PROGRAMMING_BOUNDS) }; 2]),
        }
    }
}

impl Status {
    /// Whether the API server answers for every kind.
    #[must_use]
    pub fn connected(&self) -> bool {
        let mut watched = self.kinds.iter().filter(|kind| kind.is_watched.load(Ordering::Relaxed));
        watched.all(|kind| kind.follows.load(Ordering::Relaxed))
    }

    /// Whether every kind has been listed once.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Each kind that is watched.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, Standing)> {
        let now = self.millis();
        let watched = move |(kind, of): (Kind, &OfKind)| {
            of.is_watched.load(Ordering::Relaxed).then(|| {
                let silent = now.saturating_sub(of.heard.load(Ordering::Relaxed));
                let standing = Standing {
                    follows: of.follows.load(Ordering::Relaxed),
                    objects: of.objects.load(Ordering::Relaxed),
                    bad: of.bad.load(Ordering::Relaxed),
                    resyncs: of.resyncs.load(Ordering::Relaxed),
                    restarts: of.restarts.load(Ordering::Relaxed),
                    silence: Duration::from_millis(silent),
                };
                (kind, standing)
            })
        };
        Kind::ALL.into_iter().zip(&self.kinds).filter_map(watched)
    }

    /// What was asked, by the host and port of the API server.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<Box<str>, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a change of an EndpointSlice is served so long after it was made.
    pub fn programmed(&self, services: Programmed, duration: Duration) {
        let mut all = self.programmed.lock().unwrap_or_else(PoisonError::into_inner);
        all[services as usize].observe(duration);
    }

    /// What was noted of them.
    #[must_use]
    pub fn programming(&self, services: Programmed) -> Histogram<20> {
        let all = self.programmed.lock().unwrap_or_else(PoisonError::into_inner);
        all[services as usize].clone()
    }

    pub(super) fn set_synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }

    pub(super) fn watches(&self, kind: Kind) {
        self.of(kind).is_watched.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_follows(&self, kind: Kind, follows: bool) {
        self.of(kind).follows.store(follows, Ordering::Relaxed);
    }

    pub(super) fn set_objects(&self, kind: Kind, objects: usize, bad: usize) {
        self.of(kind).objects.store(objects, Ordering::Relaxed);
        self.of(kind).bad.store(bad, Ordering::Relaxed);
    }

    pub(super) fn count_resync(&self, kind: Kind) {
        self.of(kind).resyncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_restart(&self, kind: Kind) {
        self.of(kind).restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn hear(&self, kind: Kind) {
        self.of(kind).heard.store(self.millis(), Ordering::Relaxed);
    }

    pub(super) fn count_request(&self, host: &str, code: &str, waited: Duration, took: Duration) {
        let mut hosts = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if !hosts.contains_key(host) {
            hosts.insert(host.into(), Requests::default());
        }
        let Some(requests) = hosts.get_mut(host) else { return };
        requests.waits.observe(waited);
        requests.durations.observe(took);
        if let Some(count) = requests.codes.get_mut(code) {
            *count += 1;
        } else if requests.codes.len() < CODES_MAX {
            requests.codes.insert(code.into(), 1);
        }
    }

    fn of(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize]
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_coredns() {
        let texts = PROGRAMMING_BOUNDS.map(|bound| bound.to_string());
        assert_eq!(
            (&*texts[0], &*texts[1], &*texts[10], &*texts[19]),
            ("0.001", "0.002", "1.024", "524.288")
        );
    }

    #[test]
    fn durations_lie_at_or_below_their_bounds() {
        let status = Status::default();
        for millis in [0, 1, 2, 3, 524_288, 600_000] {
            status.programmed(Programmed::Headless, Duration::from_millis(millis));
        }
        assert_eq!(status.programming(Programmed::ClusterIp).count(), 0);
        let found = status.programming(Programmed::Headless);
        let counts = found.counts();
        assert_eq!(
            (&counts[..3], &counts[19..], found.count()),
            (&[2, 1, 1][..], &[1, 1][..], 6)
        );
        assert!((found.sum() - 1_124.294).abs() < 1e-6);
    }

    #[test]
    fn answers_are_counted_by_code_up_to_a_limit() {
        let status = Status::default();
        for code in 0..=CODES_MAX {
            status.count_request("a:443", &code.to_string(), Duration::ZERO, Duration::from_millis(7));
        }
        status.count_request("a:443", "0", Duration::ZERO, Duration::ZERO);
        let mut all = status.requests();
        let found = all.remove("a:443").unwrap();
        assert_eq!((found.codes.len(), found.codes["0"]), (CODES_MAX, 2));
        assert_eq!(found.durations.count(), CODES_MAX as u64 + 2);
        let mut twice = found.clone();
        twice.add(&found);
        assert_eq!((twice.codes["0"], twice.waits.count()), (4, 2 * (CODES_MAX as u64 + 2)));
    }

    #[test]
    fn a_source_is_connected_if_all_its_kinds_are() {
        let status = Status::default();
        status.watches(Kind::Services);
        status.watches(Kind::Pods);
        status.set_follows(Kind::Services, true);
        assert!(!status.connected());
        status.set_follows(Kind::Pods, true);
        assert!(status.connected());
        let kinds: Vec<Kind> = status.kinds().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [Kind::Services, Kind::Pods]);
    }
}
