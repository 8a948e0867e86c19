//! How many requests may be made in a time; pure, time is an argument.

use std::time::{Duration, Instant};

use super::Limits;

/// A bucket of requests: full after a quiet time, filled up one by one.
#[derive(Debug)]
pub(super) struct Bucket {
    every: Duration,
    burst: u32,
    /// When the bucket would be full again.
    full_at: Option<Instant>,
}

impl Bucket {
    /// None where there is no limit.
    pub(super) fn new(limits: &Limits) -> Option<Self> {
        Some(Self {
            every: limits.every?,
            burst: limits.burst.max(1),
            full_at: None,
        })
    }

    /// How long a request that comes now has to wait; it has its turn then.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        // Past the end of time there is no turn.
        let Some(next) = full_at.checked_add(self.every) else {
            return Duration::MAX;
        };
        self.full_at = Some(next);
        let room = self.every.saturating_mul(self.burst);
        next.duration_since(now).saturating_sub(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_by_one() {
        let limits = Limits {
            every: Some(Duration::from_millis(200)),
            burst: 3,
            inflight: None,
        };
        let mut bucket = Bucket::new(&limits).unwrap();
        let start = Instant::now();
        let mut take = |millis| bucket.take(start + Duration::from_millis(millis)).as_millis();
        assert_eq!([take(0), take(0), take(0), take(0), take(0)], [0, 0, 0, 200, 400]);
        assert_eq!(
            [take(500), take(5_000), take(5_000), take(5_000), take(5_000)],
            [100, 0, 0, 0, 200]
        );
    }

    #[test]
    fn without_a_rate_there_is_no_limit_and_the_slowest_rate_has_an_end() {
        assert!(Bucket::new(&Limits::default()).is_none());
        let limits = Limits {
            every: Some(Duration::MAX),
            ..Limits::default()
        };
        let mut bucket = Bucket::new(&limits).unwrap();
        assert_eq!(bucket.take(Instant::now()), Duration::MAX);
    }
}
