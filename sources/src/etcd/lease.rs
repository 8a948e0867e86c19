//! Which lease to ask about, and when: a lease is asked once, then counted down here; pure, time is an argument.
//!
//! Keep-alives prolong a lease without any watch event, so the count can only be too low, never too high. It is asked
//! again where an answer would begin to change: when the count falls under the `ttl` of one of its keys, under
//! the upper bound, under the lower bound, and when it has run out. A lease that can change no answer costs nothing.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use super::service::TTL_DEFAULT;

/// The wait after a first failed answer; doubled for each further one.
const RETRY_MIN: Duration = Duration::from_secs(30);
/// The longest wait between failed answers.
const RETRY_MAX: Duration = Duration::from_secs(600);
/// Thresholds nearer than this count as crossed: etcd's answers are cut to whole seconds.
const MARGIN: Duration = Duration::from_secs(2);
/// How much later than its count a lease is asked that ran out but whose keys are still there.
const OVERDUE: Duration = Duration::from_secs(1);
/// Ends that differ by no more are the same end, cut differently to whole seconds.
const SAME_END: Duration = Duration::from_millis(1_500);

/// etcd's name for a lease. Not a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// What is known of a lease's remaining time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Counts as the lower bound: not known yet, or granted for no more than that. Every lease begins like this.
    Minimum,
    /// It ends then, unless it is kept alive.
    Until(Instant),
    /// etcd would not say: the keys count as if they had no lease, until it does.
    None,
    /// No key hangs on it any longer; whatever is kept for it can be dropped.
    Gone,
}

impl LeaseState {
    /// Seconds that the lease allows at `now`, within the bounds; `None` if it has no say.
    #[must_use]
    pub fn part(self, now: Instant, min: u32, max: u32) -> Option<u32> {
        match self {
            Self::Minimum => Some(min),
            Self::Until(end) => {
                // Rounded up, so that a lease of 100 seconds that was just asked says 100.
                let left = end.saturating_duration_since(now).as_millis().div_ceil(1_000);
                Some(u32::try_from(left).unwrap_or(u32::MAX).min(max).max(min))
            }
            Self::None | Self::Gone => None,
        }
    }
}

/// The TTL of a record: the lease's part and the `ttl` field, the smaller one where both are there.
#[must_use]
pub fn ttl(part: Option<u32>, field: u32) -> u32 {
    match (part, field) {
        (None, 0) => TTL_DEFAULT,
        (None, field) => field,
        (Some(part), 0) => part,
        (Some(part), field) => part.min(field),
    }
}

/// News of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseUpdate {
    /// Which one.
    pub lease: LeaseId,
    /// What is known now.
    pub state: LeaseState,
}

/// How a question about a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Seconds left, and seconds it was granted for. Nothing left means that etcd does not know it.
    Ttl {
        /// Seconds; zero or less if there is no such lease.
        remaining: i64,
        /// Seconds.
        granted: i64,
    },
    /// etcd answered with an error.
    Refused,
    /// The question did not get through; it stays due.
    Unsent,
}

/// All leases of one source.
pub struct Leases {
    min_secs: u32,
    max_secs: u32,
    spacing: Duration,
    hasher: RandomState,
    /// By hash of zone and key, as the keys themselves are held elsewhere. Two keys of one hash could at worst
    /// let a lease be forgotten early: it would count as the minimum.
    keys: HashMap<u64, KeyLease>,
    leases: HashMap<LeaseId, Lease>,
    due: BTreeSet<(Instant, LeaseId)>,
    /// Nothing is asked before this.
    free_at: Option<Instant>,
    /// Of each zone, the number of its full read; keys not met in it are swept at its end.
    generations: Vec<u32>,
}

struct KeyLease {
    lease: LeaseId,
    ttl: u32,
    zone: u32,
    generation: u32,
}

struct Lease {
    /// The `ttl` fields of its keys, and how many keys have each; never empty.
    ttls: Vec<(u32, u32)>,
    /// When it stands in `due`.
    due: Option<Instant>,
    known: Known,
    said: LeaseState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    /// A question is under way.
    Asked,
    Until(Instant),
    /// Granted for no more than the lower bound.
    Short,
    Refused {
        times: u32,
    },
}

impl Leases {
    /// No leases yet. `per_sec` bounds the questions; 0 counts as 1.
    #[must_use]
    pub fn new(min_secs: u32, max_secs: u32, per_sec: u32) -> Self {
        Self {
            min_secs,
            max_secs,
            spacing: Duration::from_secs(1) / per_sec.max(1),
            hasher: RandomState::new(),
            keys: HashMap::new(),
            leases: HashMap::new(),
            due: BTreeSet::new(),
            free_at: None,
            generations: Vec::new(),
        }
    }

    /// A full read of the zone begins: keys that it does not name until [`Self::end`] are forgotten there.
    pub fn begin(&mut self, zone: usize) {
        if self.generations.len() <= zone {
            self.generations.resize(zone + 1, 0);
        }
        self.generations[zone] = self.generations[zone].wrapping_add(1);
    }

    /// The full read of the zone is over.
    pub fn end(&mut self, zone: usize, news: &mut Vec<LeaseUpdate>) {
        let generation = self.generation(zone);
        let stale = self
            .keys
            .iter()
            .filter(|(_, key)| key.zone == zone_number(zone) && key.generation != generation)
            .map(|(&hash, _)| hash);
        for hash in stale.collect::<Vec<_>>() {
            self.forget(hash, news);
        }
    }

    /// The key was put, with this lease and this `ttl` field.
    pub fn put(
        &mut self,
        now: Instant,
        zone: usize,
        key: &[u8],
        lease: Option<LeaseId>,
        ttl: u32,
        news: &mut Vec<LeaseUpdate>,
    ) {
        let hash = self.hasher.hash_one((zone, key));
        let Some(lease) = lease else {
            self.forget(hash, news);
            return;
        };
        let generation = self.generation(zone);
        if let Some(held) = self
            .keys
            .get_mut(&hash)
            .filter(|held| held.lease == lease && held.ttl == ttl)
        {
            held.generation = generation;
            return;
        }
        // The new hold is taken before the old one is let go, lest the same lease be forgotten in between.
        self.hold(now, lease, ttl);
        self.forget(hash, news);
        self.keys.insert(
            hash,
            KeyLease {
                lease,
                ttl,
                zone: zone_number(zone),
                generation,
            },
        );
    }

    /// The key is gone.
    pub fn remove(&mut self, zone: usize, key: &[u8], news: &mut Vec<LeaseUpdate>) {
        let hash = self.hasher.hash_one((zone, key));
        self.forget(hash, news);
    }

    /// When [`Self::ask`] will have something, if nothing else happens.
    #[must_use]
    pub fn next_ask(&self) -> Option<Instant> {
        let (due, _) = self.due.first()?;
        Some(self.free_at.map_or(*due, |free_at| free_at.max(*due)))
    }

    /// The lease to ask about now, at the pace that is allowed. [`Self::answered`] has to follow.
    pub fn ask(&mut self, now: Instant) -> Option<LeaseId> {
        if self.next_ask()? > now {
            return None;
        }
        let (_, id) = self.due.pop_first()?;
        self.free_at = Some(now + self.spacing);
        let lease = self.leases.get_mut(&id)?;
        lease.due = None;
        // What was counted so far goes on counting in `said` while the question is under way.
        if lease.known == Known::Nothing {
            lease.known = Known::Asked;
        }
        Some(id)
    }

    /// How the question about `id` ended that was sent at `asked_at`.
    pub fn answered(&mut self, asked_at: Instant, id: LeaseId, answer: Answer) -> Option<LeaseUpdate> {
        // Its last key may have gone while the question was under way.
        let lease = self.leases.get_mut(&id)?;
        let (known, due) = match answer {
            Answer::Ttl { remaining, granted } if remaining > 0 => {
                if granted <= i64::from(self.min_secs) {
                    (Known::Short, None)
                } else {
                    let secs = u64::try_from(remaining).unwrap_or(0).min(SECS_MAX);
                    let end = asked_at + Duration::from_secs(secs);
                    let due = next_due(end, asked_at, &lease.ttls, self.min_secs, self.max_secs);
                    (Known::Until(end), Some(due))
                }
            }
            Answer::Unsent => {
                let known = if lease.known == Known::Asked {
                    Known::Nothing
                } else {
                    lease.known
                };
                (known, Some(asked_at + self.spacing))
            }
            Answer::Ttl { .. } | Answer::Refused => {
                let times = if let Known::Refused { times } = lease.known {
                    times
                } else {
                    0
                };
                let wait = RETRY_MIN.saturating_mul(1 << times.min(8)).min(RETRY_MAX);
                (
                    Known::Refused {
                        times: times.saturating_add(1),
                    },
                    Some(asked_at + wait),
                )
            }
        };
        lease.known = known;
        self.schedule(id, due);
        let lease = self.leases.get_mut(&id)?;
        let state = match known {
            Known::Nothing | Known::Asked | Known::Short => LeaseState::Minimum,
            Known::Until(end) => LeaseState::Until(end),
            Known::Refused { .. } => LeaseState::None,
        };
        if answer == Answer::Unsent || same(lease.said, state) {
            return None;
        }
        lease.said = state;
        Some(LeaseUpdate { lease: id, state })
    }

    /// Leases known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether no key has a lease.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    fn generation(&self, zone: usize) -> u32 {
        self.generations.get(zone).copied().unwrap_or(0)
    }

    fn hold(&mut self, now: Instant, id: LeaseId, ttl: u32) {
        let lease = self.leases.entry(id).or_insert_with(|| Lease {
            ttls: Vec::new(),
            due: None,
            known: Known::Nothing,
            said: LeaseState::Minimum,
        });
        if let Some((_, keys)) = lease.ttls.iter_mut().find(|(held, _)| *held == ttl) {
            *keys += 1;
            return;
        }
        lease.ttls.push((ttl, 1));
        let due = match lease.known {
            // A key whose `ttl` is no more than the lower bound answers with it whatever the lease says.
            Known::Nothing if ttl == 0 || ttl > self.min_secs => lease.due.or(Some(now)),
            Known::Until(end) if lease.due.is_some() => {
                Some(next_due(end, now, &lease.ttls, self.min_secs, self.max_secs))
            }
            Known::Nothing | Known::Asked | Known::Until(_) | Known::Short | Known::Refused { .. } => lease.due,
        };
        self.schedule(id, due);
    }

    fn forget(&mut self, hash: u64, news: &mut Vec<LeaseUpdate>) {
        let Some(key) = self.keys.remove(&hash) else { return };
        let Some(lease) = self.leases.get_mut(&key.lease) else {
            return;
        };
        if let Some(at) = lease.ttls.iter().position(|(ttl, _)| *ttl == key.ttl) {
            lease.ttls[at].1 -= 1;
            if lease.ttls[at].1 == 0 {
                lease.ttls.swap_remove(at);
            }
        }
        if lease.ttls.is_empty() {
            self.schedule(key.lease, None);
            self.leases.remove(&key.lease);
            news.push(LeaseUpdate {
                lease: key.lease,
                state: LeaseState::Gone,
            });
        }
    }

    fn schedule(&mut self, id: LeaseId, due: Option<Instant>) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if let Some(due) = lease.due.take() {
            self.due.remove(&(due, id));
        }
        if let Some(due) = due {
            self.due.insert((due, id));
        }
        lease.due = due;
    }
}

/// Longer leases are taken for this long; 68 years, as no clock is to overflow.
const SECS_MAX: u64 = 1 << 31;

/// The next moment at which an answer would begin to change, seen from `now`.
fn next_due(end: Instant, now: Instant, ttls: &[(u32, u32)], min: u32, max: u32) -> Instant {
    let of_keys = ttls.iter().map(|&(ttl, _)| if ttl == 0 { max } else { ttl.min(max) });
    let thresholds = of_keys.filter(|&ttl| ttl > min).chain([min]);
    let crossings = thresholds.filter_map(|secs| end.checked_sub(Duration::from_secs(secs.into())));
    crossings
        .filter(|&crossing| crossing > now + MARGIN)
        .min()
        .unwrap_or(end + OVERDUE)
}

fn same(one: LeaseState, other: LeaseState) -> bool {
    match (one, other) {
        (LeaseState::Until(one), LeaseState::Until(other)) => {
            let apart = if one > other { one - other } else { other - one };
            apart <= SAME_END
        }
        _ => one == other,
    }
}

fn zone_number(zone: usize) -> u32 {
    u32::try_from(zone).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u32 = 30;
    const MAX: u32 = 86_400;

    struct Clock {
        start: Instant,
        leases: Leases,
        news: Vec<LeaseUpdate>,
    }

    impl Clock {
        fn new(per_sec: u32) -> Self {
            Self {
                start: Instant::now(),
                leases: Leases::new(MIN, MAX, per_sec),
                news: Vec::new(),
            }
        }

        fn at(&self, secs: u64) -> Instant {
            self.start + Duration::from_secs(secs)
        }

        fn put(&mut self, secs: u64, key: &str, lease: i64, ttl: u32) {
            let lease = (lease != 0).then_some(LeaseId(lease));
            self.leases
                .put(self.at(secs), 0, key.as_bytes(), lease, ttl, &mut self.news);
        }

        fn answer(&mut self, secs: u64, lease: i64, remaining: i64, granted: i64) -> Option<LeaseState> {
            assert_eq!(self.leases.ask(self.at(secs)), Some(LeaseId(lease)));
            let update = self
                .leases
                .answered(self.at(secs), LeaseId(lease), Answer::Ttl { remaining, granted });
            update.map(|update| update.state)
        }

        /// Seconds from the start until the next question.
        fn next(&self) -> Option<u64> {
            self.leases
                .next_ask()
                .map(|at| at.saturating_duration_since(self.start).as_secs())
        }
    }

    #[test]
    fn ttl_of_a_record() {
        assert_eq!(
            [
                ttl(None, 0),
                ttl(None, 7),
                ttl(Some(60), 0),
                ttl(Some(60), 7),
                ttl(Some(60), 90)
            ],
            [300, 7, 60, 7, 60]
        );
        let now = Instant::now();
        let part = |state: LeaseState| state.part(now, 30, 120);
        let until = |secs| LeaseState::Until(now + Duration::from_secs(secs));
        assert_eq!(
            [part(until(15)), part(until(100)), part(until(500))],
            [Some(30), Some(100), Some(120)]
        );
        assert_eq!(part(LeaseState::Until(now)), Some(30));
        assert_eq!(
            [
                part(LeaseState::Minimum),
                part(LeaseState::None),
                part(LeaseState::Gone)
            ],
            [Some(30), None, None]
        );
        let later = now + Duration::from_millis(300);
        assert_eq!(until(100).part(later, 30, 120), Some(100));
    }

    #[test]
    fn one_question_for_a_lease_then_at_the_lower_bound() {
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 0);
        clock.put(0, "b", 1, 0);
        assert_eq!(clock.next(), Some(0));
        assert_eq!(clock.answer(0, 1, 100, 100), Some(LeaseState::Until(clock.at(100))));
        clock.put(1, "c", 1, 0);
        clock.put(2, "a", 1, 0);
        assert_eq!(clock.next(), Some(70));
        assert_eq!(clock.leases.ask(clock.at(69)), None);
        // It was kept alive meanwhile.
        assert_eq!(clock.answer(70, 1, 90, 100), Some(LeaseState::Until(clock.at(160))));
        assert_eq!(clock.next(), Some(130));
        // It was not: nothing new, and no more questions until it has run out.
        assert_eq!(clock.answer(130, 1, 30, 100), None);
        assert_eq!(clock.next(), Some(161));
        assert_eq!(clock.answer(161, 1, -1, 0), Some(LeaseState::None));
    }

    #[test]
    fn asked_where_an_answer_would_begin_to_change() {
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 600);
        assert_eq!(
            clock.answer(0, 1, 1_000, 1_000),
            Some(LeaseState::Until(clock.at(1_000)))
        );
        assert_eq!(clock.next(), Some(400));
        assert_eq!(clock.answer(400, 1, 600, 1_000), None);
        assert_eq!(clock.next(), Some(970));
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 0);
        clock.answer(0, 1, 100_000, 100_000);
        assert_eq!(clock.next(), Some(100_000 - u64::from(MAX)));
        // A further key with a `ttl` of its own.
        clock.put(0, "b", 1, 90_000);
        assert_eq!(clock.next(), Some(100_000 - u64::from(MAX)));
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 40);
        clock.answer(0, 1, 500, 500);
        assert_eq!(clock.next(), Some(460));
        clock.put(0, "b", 1, 100);
        assert_eq!(clock.next(), Some(400));
    }

    #[test]
    fn a_short_lease_is_asked_once() {
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 0);
        assert_eq!(clock.answer(0, 1, 15, 30), None);
        assert_eq!(clock.next(), None);
        clock.put(1, "b", 1, 100);
        assert_eq!(clock.next(), None);
    }

    #[test]
    fn a_lease_that_changes_no_answer_is_not_asked() {
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 7);
        clock.put(0, "b", 1, 30);
        assert_eq!(clock.next(), None);
        clock.put(5, "a", 1, 31);
        assert_eq!(clock.next(), Some(5));
    }

    #[test]
    fn failed_questions_are_repeated_ever_more_slowly() {
        let mut clock = Clock::new(100);
        clock.put(0, "a", 1, 0);
        let mut at = 0;
        let mut waits = Vec::new();
        for turn in 0..7 {
            assert_eq!(clock.leases.ask(clock.at(at)), Some(LeaseId(1)));
            let update = clock.leases.answered(clock.at(at), LeaseId(1), Answer::Refused);
            assert_eq!(update.is_some(), turn == 0);
            let next = clock.next().unwrap();
            waits.push(next - at);
            at = next;
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
        assert_eq!(
            clock.answer(at, 1, 100, 100),
            Some(LeaseState::Until(clock.at(at + 100)))
        );
    }

    #[test]
    fn a_question_that_did_not_get_through_stays_due() {
        let mut clock = Clock::new(1);
        clock.put(0, "a", 1, 0);
        assert_eq!(clock.leases.ask(clock.at(0)), Some(LeaseId(1)));
        assert_eq!(clock.leases.answered(clock.at(0), LeaseId(1), Answer::Unsent), None);
        assert_eq!(clock.next(), Some(1));
        clock.answer(1, 1, 100, 100);
        assert_eq!(clock.leases.ask(clock.at(71)), Some(LeaseId(1)));
        assert_eq!(clock.leases.answered(clock.at(71), LeaseId(1), Answer::Unsent), None);
        assert_eq!(clock.next(), Some(72));
    }

    #[test]
    fn questions_are_paced() {
        let mut clock = Clock::new(100);
        for lease in 1..=250 {
            clock.put(0, &format!("k{lease}"), lease, 0);
        }
        let mut asked = 0;
        let mut at = clock.start;
        while let Some(next) = clock.leases.next_ask() {
            at = at.max(next);
            let id = clock.leases.ask(at).unwrap();
            clock.leases.answered(
                at,
                id,
                Answer::Ttl {
                    remaining: 10,
                    granted: 10,
                },
            );
            asked += 1;
        }
        assert_eq!(asked, 250);
        assert_eq!(at - clock.start, Duration::from_millis(2_490));
    }

    #[test]
    fn leases_are_forgotten_with_their_last_key() {
        let mut clock = Clock::new(100);
        let gone = |lease| LeaseUpdate {
            lease: LeaseId(lease),
            state: LeaseState::Gone,
        };
        clock.put(0, "a", 1, 0);
        clock.put(0, "b", 1, 0);
        clock.put(0, "b", 2, 0);
        assert_eq!(clock.news, []);
        clock.put(0, "a", 0, 0);
        assert_eq!(clock.news, [gone(1)]);
        clock.leases.remove(0, b"b", &mut clock.news);
        clock.leases.remove(0, b"never there", &mut clock.news);
        assert_eq!(clock.news, [gone(1), gone(2)]);
        assert!(clock.leases.is_empty());
        assert_eq!(clock.next(), None);
        assert_eq!(clock.leases.answered(clock.at(0), LeaseId(2), Answer::Refused), None);
    }

    #[test]
    fn a_full_read_sweeps_what_it_did_not_name() {
        let mut clock = Clock::new(100);
        clock.leases.begin(0);
        clock.put(0, "a", 1, 0);
        clock.put(0, "b", 2, 0);
        clock
            .leases
            .put(clock.start, 1, b"a", Some(LeaseId(3)), 0, &mut Vec::new());
        clock.leases.end(0, &mut clock.news);
        assert_eq!(clock.news, []);
        clock.leases.begin(0);
        clock.put(1, "b", 2, 0);
        clock.leases.end(0, &mut clock.news);
        assert_eq!(
            clock.news,
            [LeaseUpdate {
                lease: LeaseId(1),
                state: LeaseState::Gone
            }]
        );
        assert_eq!(clock.leases.len(), 2);
    }

    #[test]
    fn huge_leases_do_not_overflow() {
        let mut clock = Clock::new(0);
        clock.put(0, "a", 1, 0);
        assert!(matches!(
            clock.answer(0, 1, i64::MAX, i64::MAX),
            Some(LeaseState::Until(_))
        ));
        assert!(clock.next().is_some());
    }
}
