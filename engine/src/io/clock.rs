//! The two clocks, read by the worker once a batch.

use crate::time::{Clock, Instant};

/// The monotonic clock; what a deadline given to [`Port::wait`](super::Port::wait) is compared with.
#[must_use]
pub fn now() -> Instant {
    let (secs, nanos) = read(libc::CLOCK_MONOTONIC);
    Instant(secs * 1_000_000_000 + nanos)
}

/// Both clocks. The wall clock is the coarse one, a few milliseconds behind: it only ever shows seconds.
#[must_use]
pub fn read_clock() -> Clock {
    Clock {
        now: now(),
        unix_secs: read(libc::CLOCK_REALTIME_COARSE).0,
    }
}

fn read(clock: libc::clockid_t) -> (u64, u64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result and both clocks exist on every Linux. The standard library hides
    // the number that a deadline needs.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_and_agree() {
        let first = now();
        let clock = read_clock();
        assert!(clock.now >= first);
        let std = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert!(clock.unix_secs.abs_diff(std) <= 1);
    }
}
