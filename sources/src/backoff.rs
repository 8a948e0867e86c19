//! How long to wait before the next attempt: exponential, with jitter, pure.

use std::time::Duration;

/// The wait before the second attempt, before jitter.
pub const DELAY_MIN: Duration = Duration::from_millis(100);

/// The longest wait while etcd is away, so that its return is noticed within seconds.
pub const DELAY_AWAY_MAX: Duration = Duration::from_millis(1_500);

/// The longest wait when etcd answers but refuses: each try costs it a password hash.
pub const DELAY_REFUSED_MAX: Duration = Duration::from_secs(5);

/// The wait after `attempt` failures in a row, between half of the doubled step and all of it; never above `max`.
///
/// `seed` sets replicas apart: the same seed and attempt give the same delay.
#[must_use]
pub fn delay(attempt: u32, seed: u64, max: Duration) -> Duration {
    let doublings = attempt.min(16);
    let step = DELAY_MIN.saturating_mul(1 << doublings).min(max);
    let half = step / 2;
    let half_nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(scatter(seed, attempt) % half_nanos.saturating_add(1))
}

/// SplitMix64: spreads a seed and a number over all 64 bits.
pub(crate) fn scatter(seed: u64, attempt: u32) -> u64 {
    let mut mixed = seed.wrapping_add(u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_between_half_a_step_and_the_whole() {
        for seed in [0, 1, 42, u64::MAX] {
            for attempt in 0..100 {
                let step = DELAY_MIN.saturating_mul(1 << attempt.min(16)).min(DELAY_AWAY_MAX);
                let waited = delay(attempt, seed, DELAY_AWAY_MAX);
                assert!(waited >= step / 2 && waited <= step, "{attempt} {seed}: {waited:?}");
            }
        }
    }

    #[test]
    fn seeds_are_set_apart_and_repeat() {
        let of = |seed| delay(5, seed, DELAY_REFUSED_MAX);
        assert_eq!(of(1), of(1));
        let distinct: std::collections::HashSet<_> = (0..100).map(of).collect();
        assert!(distinct.len() > 90);
    }

    #[test]
    fn huge_attempt_numbers_are_capped() {
        assert!(delay(u32::MAX, 7, DELAY_REFUSED_MAX) <= DELAY_REFUSED_MAX);
        assert_eq!(delay(3, 7, Duration::ZERO), Duration::ZERO);
    }
}
