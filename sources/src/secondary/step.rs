//! When to ask for the serial, when for the zone, and when to give it up. No I/O, and the time is an argument.

use std::time::{Duration, Instant};

use nodens_wire::rdata::Soa;

use crate::backoff::scatter;

/// The wait after the first time that nobody gave a zone which is not there yet; doubled each time.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The longest such wait.
const FIRST_DELAY_MAX: Duration = Duration::from_secs(10);
/// A zone is not asked for more often than this, whatever its SOA says, and however often it is notified.
const GAP: Duration = Duration::from_secs(1);
/// Up to so much is added to the times of the SOA, so that many secondaries do not ask at once.
const REFRESH_SPREAD: Duration = Duration::from_secs(5);
const RETRY_SPREAD: Duration = Duration::from_secs(2);

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// Nothing before this.
    Wait(Instant),
    /// Ask the primaries for the serial, one after the other until one answers.
    AskSerial,
    /// Fetch the zone from the first primary that gives it.
    Fetch,
    /// The zone has just become too old to be served.
    Expire,
}

/// What came of a question for the serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This one.
    Serial(u32),
    /// An error, or no SOA: as good as nothing new, as CoreDNS has it.
    Odd,
    /// None at all.
    Nobody,
}

/// Where a zone stands.
#[derive(Debug)]
pub(super) struct Step {
    seed: u64,
    /// What is done at `next`.
    fetches: bool,
    next: Instant,
    /// The last time that a primary was asked.
    asked: Option<Instant>,
    failures: u32,
    held: Option<Held>,
}

/// The version that is served, or was.
#[derive(Clone, Copy, Debug)]
struct Held {
    serial: u32,
    refresh: Duration,
    retry: Duration,
    expire: Duration,
    /// When a primary last said that it is the newest.
    confirmed: Instant,
    is_expired: bool,
}

impl Step {
    /// A zone that has to be fetched.
    pub(super) fn new(now: Instant, seed: u64) -> Self {
        Self {
            seed,
            fetches: true,
            next: now,
            asked: None,
            failures: 0,
            held: None,
        }
    }

    pub(super) fn todo(&self, now: Instant) -> Todo {
        let expires = self
            .held
            .filter(|held| !held.is_expired && self.failures > 0)
            .map(|held| held.confirmed + held.expire);
        if expires.is_some_and(|expires| expires <= now) {
            return Todo::Expire;
        }
        if self.next <= now {
            return if self.fetches { Todo::Fetch } else { Todo::AskSerial };
        }
        Todo::Wait(expires.map_or(self.next, |expires| expires.min(self.next)))
    }

    /// A version was fetched.
    pub(super) fn fetched(&mut self, now: Instant, soa: &Soa<'_>) {
        let at_least = |secs: u32| Duration::from_secs(secs.into()).max(GAP);
        self.held = Some(Held {
            serial: soa.serial,
            refresh: at_least(soa.refresh),
            retry: at_least(soa.retry),
            expire: at_least(soa.expire),
            confirmed: now,
            is_expired: false,
        });
        self.confirmed(now);
    }

    /// No primary gave it; tells how long the wait is.
    pub(super) fn not_fetched(&mut self, now: Instant) -> Duration {
        self.failed(now)
    }

    pub(super) fn answered(&mut self, now: Instant, answer: Answer) {
        self.asked = Some(now);
        match (answer, self.held) {
            (Answer::Serial(serial), Some(held)) if is_greater(serial, held.serial) => {
                self.fetches = true;
                self.next = now;
            }
            (Answer::Nobody, _) => {
                self.failed(now);
            }
            _ => self.confirmed(now),
        }
    }

    /// A primary says that there is something new.
    pub(super) fn notified(&mut self, now: Instant) {
        let soonest = self.asked.map_or(now, |asked| now.max(asked + GAP));
        self.next = self.next.min(soonest);
    }

    /// The zone is not served any more; only a fetch brings it back.
    pub(super) fn expired(&mut self) {
        self.fetches = true;
        if let Some(held) = &mut self.held {
            held.is_expired = true;
        }
    }

    fn confirmed(&mut self, now: Instant) {
        self.failures = 0;
        self.fetches = false;
        self.asked = Some(now);
        if let Some(held) = &mut self.held {
            held.confirmed = now;
            let refresh = held.refresh;
            self.next = now + refresh + self.spread(REFRESH_SPREAD);
        }
    }

    fn failed(&mut self, now: Instant) -> Duration {
        let delay = match &self.held {
            Some(held) => held.retry + self.spread(RETRY_SPREAD),
            None => (FIRST_DELAY * (1 << self.failures.min(16))).min(FIRST_DELAY_MAX),
        };
        self.failures = self.failures.saturating_add(1);
        self.asked = Some(now);
        self.next = now + delay;
        // What is held is asked for again first; a serial that was greater is so then.
        self.fetches = self.held.is_none_or(|held| held.is_expired);
        delay
    }

    fn spread(&mut self, most: Duration) -> Duration {
        self.seed = scatter(self.seed, 1);
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.seed % millis)
    }
}

/// Whether a serial comes behind another (RFC 1982 §3.2).
fn is_greater(one: u32, other: u32) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::Name;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn soa(serial: u32) -> Soa<'static> {
        Soa {
            mname: Name::ROOT,
            rname: Name::ROOT,
            serial,
            refresh: 100,
            retry: 10,
            expire: 60,
            minimum: 1,
        }
    }

    /// The time until there is something to do.
    fn wait(step: &Step, now: Instant) -> Duration {
        match step.todo(now) {
            Todo::Wait(until) => until - now,
            other => panic!("{other:?}"),
        }
    }

    fn served(serial: u32) -> (Step, Instant) {
        let now = Instant::now();
        let mut step = Step::new(now, 7);
        assert_eq!(step.todo(now), Todo::Fetch);
        step.fetched(now, &soa(serial));
        (step, now)
    }

    #[test]
    fn serials_go_round() {
        let check = |one, other, expected| assert_eq!(is_greater(one, other), expected, "{one} {other}");
        check(2, 1, true);
        check(1, 2, false);
        check(1, 1, false);
        check(0, u32::MAX, true);
        check(u32::MAX, 0, false);
        check(1 << 31, 1, true);
        check(1 << 31, 0, false);
    }

    #[test]
    fn the_first_fetch_is_tried_for_ever() {
        let mut now = Instant::now();
        let mut step = Step::new(now, 7);
        for millis in [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000] {
            assert_eq!(step.todo(now), Todo::Fetch);
            assert_eq!(step.not_fetched(now), Duration::from_millis(millis));
            assert_eq!(wait(&step, now), Duration::from_millis(millis));
            now += Duration::from_millis(millis);
        }
    }

    #[test]
    fn the_serial_is_asked_for_when_it_is_time() {
        let (mut step, now) = served(5);
        let refresh = wait(&step, now);
        assert!(refresh >= secs(100) && refresh < secs(105), "{refresh:?}");
        let now = now + refresh;
        assert_eq!(step.todo(now), Todo::AskSerial);
        step.answered(now, Answer::Serial(5));
        assert!(wait(&step, now) >= secs(100));
        step.answered(now, Answer::Odd);
        assert!(wait(&step, now) >= secs(100));
        step.answered(now, Answer::Serial(4));
        assert!(wait(&step, now) >= secs(100));
        step.answered(now, Answer::Serial(6));
        assert_eq!(step.todo(now), Todo::Fetch);
    }

    #[test]
    fn a_zone_that_nobody_confirms_expires_and_comes_back() {
        let (mut step, start) = served(5);
        let mut now = start + wait(&step, start);
        assert_eq!(step.todo(now), Todo::AskSerial);
        // The refresh itself came later than the zone expires: that counts only where it fails.
        step.answered(now, Answer::Nobody);
        assert_eq!(step.todo(now), Todo::Expire);
        step.expired();
        let retry = wait(&step, now);
        assert!(retry >= secs(10) && retry < secs(12), "{retry:?}");
        now += retry;
        assert_eq!(step.todo(now), Todo::Fetch);
        step.not_fetched(now);
        assert!(wait(&step, now) >= secs(10));
        step.fetched(now, &soa(5));
        assert!(wait(&step, now) >= secs(100));
    }

    #[test]
    fn an_answer_in_time_keeps_a_zone() {
        let (mut step, start) = served(5);
        let mut soa = soa(5);
        (soa.refresh, soa.retry, soa.expire) = (1, 1, 20);
        step.fetched(start, &soa);
        let mut now = start + secs(6);
        step.answered(now, Answer::Nobody);
        now += secs(3);
        assert_eq!(step.todo(now), Todo::AskSerial);
        step.answered(now, Answer::Serial(5));
        now += secs(6);
        step.answered(now, Answer::Nobody);
        assert!(wait(&step, now) <= secs(3), "14 of 20 seconds are left");
    }

    #[test]
    fn a_failed_fetch_of_a_newer_one_is_tried_again() {
        let (mut step, now) = served(5);
        step.answered(now, Answer::Serial(6));
        assert_eq!(step.todo(now), Todo::Fetch);
        step.not_fetched(now);
        let retry = wait(&step, now);
        assert!(retry >= secs(10) && retry < secs(12));
        assert_eq!(step.todo(now + retry), Todo::AskSerial);
    }

    #[test]
    fn notified_it_asks_soon_and_not_too_often() {
        let (mut step, now) = served(5);
        step.notified(now);
        assert_eq!(wait(&step, now), GAP, "it has just been fetched");
        let now = now + secs(5);
        step.notified(now);
        assert_eq!(step.todo(now), Todo::AskSerial);
        step.answered(now, Answer::Serial(5));
        step.notified(now);
        step.notified(now);
        assert_eq!(wait(&step, now), GAP);
        // One that has not been fetched yet is fetched.
        let mut step = Step::new(now, 7);
        step.not_fetched(now);
        step.not_fetched(now);
        step.not_fetched(now);
        step.not_fetched(now);
        step.notified(now);
        assert_eq!(wait(&step, now), GAP);
        assert_eq!(step.todo(now + GAP), Todo::Fetch);
    }
}
