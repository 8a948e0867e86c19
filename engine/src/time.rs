//! Time as the engine sees it: a number it is told, never a clock it reads.

use std::time::Duration;

/// A moment on the monotonic clock, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The moment `duration` later; stops at the end of time instead of wrapping.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What a worker reads once a batch: the monotonic clock for deadlines and durations, the wall clock for what
/// was stamped by others. Every latency, TTL and log line of the batch comes from this one reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Monotonic.
    pub now: Instant,
    /// Seconds since 1970, for SOA serials and log lines.
    pub unix_secs: u64,
}
