//! Questions in flight: equal ones of all workers go to the upstream once.
//!
//! ```text
//!   first   claim ── Mine(token) ── asks the upstream ── lands ──┐
//!   others  claim ── Wait ······································ └─> inbox of each worker, and its waker
//! ```
//!
//! A token that is dropped without a landing, because its query was given up, has those that wait claim anew. A lock is
//! taken with a miss only, and held for one step in a table.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam::queue::SegQueue;
use crossbeam::utils::CachePadded;
use hashbrown::HashTable;
use nodens_wire::{Rclass, Rtype};

use super::Key;

/// Questions in flight; one more is asked without being merged.
pub const FLIGHTS_MAX: usize = 16_384;
/// Queries of one worker that wait for others; one more is asked without being merged.
pub const WAITING_MAX: usize = 32_768;
const SHARDS: usize = 16;

/// Ends the wait of a worker, from any thread.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// What a claim came to.
#[derive(Debug)]
pub enum Claim {
    /// Nobody else asks. Whoever gets this looks into the cache once more: the answer may have come in between.
    Mine(Token),
    /// Somebody asks. News will stand in the worker's inbox.
    Wait,
    /// There is no room to wait or to be waited for: ask, and tell nobody.
    Alone,
}

/// What those that wait are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// What the upstream said, in its kept form.
    Reply(Arc<[u8]>),
    /// It answers one client alone, as a truncated reply does: ask, and tell nobody.
    Ask,
    /// The one that asked is gone: claim anew.
    Again,
}

/// News for a query that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// What its worker calls it.
    pub ticket: u64,
    /// What there is.
    pub news: News,
}

struct Flight {
    hash: u64,
    /// Of its token.
    number: u64,
    block: u32,
    rtype: Rtype,
    rclass: Rclass,
    bits: (bool, bool),
    name: Box<[u8]>,
    waiting: Vec<(u16, u64)>,
}

impl Flight {
    fn is(&self, hash: u64, key: &Key<'_>) -> bool {
        self.hash == hash
            && self.block == key.block
            && self.rtype == key.rtype
            && self.rclass == key.rclass
            && self.bits == (key.dnssec_ok, key.checking_disabled)
            && *self.name == *key.name
    }
}

struct Worker {
    /// As long as `waiting` at most.
    inbox: SegQueue<Landed>,
    /// Queries that wait, and news that were not taken yet.
    waiting: AtomicUsize,
    wake: Wake,
}

/// All questions in flight, and those that wait for them.
pub struct Flights {
    shards: [CachePadded<Mutex<HashTable<Flight>>>; SHARDS],
    workers: Box<[Worker]>,
    numbers: AtomicU64,
    merged: AtomicU64,
    alone: AtomicU64,
}

impl std::fmt::Debug for Flights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flights")
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl Flights {
    /// For workers that are woken so, in the order of their numbers.
    #[must_use]
    pub fn new(wakes: impl IntoIterator<Item = Wake>) -> Arc<Self> {
        let worker = |wake| Worker {
            inbox: SegQueue::new(),
            waiting: AtomicUsize::new(0),
            wake,
        };
        Arc::new(Self {
            shards: std::array::from_fn(|_| CachePadded::default()),
            workers: wakes.into_iter().map(worker).collect(),
            numbers: AtomicU64::new(0),
            merged: AtomicU64::new(0),
            alone: AtomicU64::new(0),
        })
    }

    /// Questions in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Queries that waited for another's answer.
    #[must_use]
    pub fn merged(&self) -> u64 {
        self.merged.load(Ordering::Relaxed)
    }

    /// Queries that were not merged for want of room.
    #[must_use]
    pub fn alone(&self) -> u64 {
        self.alone.load(Ordering::Relaxed)
    }

    /// Claims a question for a query that its worker calls `ticket`.
    ///
    /// # Panics
    /// There is no such worker.
    pub fn claim(self: &Arc<Self>, hash: u64, key: &Key<'_>, worker: u16, ticket: u64) -> Claim {
        let mut flights = self.shard(hash);
        if let Some(flight) = flights.find_mut(hash, |flight| flight.is(hash, key)) {
            let waiting = &self.workers[usize::from(worker)].waiting;
            // Who waits has one place in the inbox, so this bounds both.
            if waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
                flight.waiting.push((worker, ticket));
                self.merged.fetch_add(1, Ordering::Relaxed);
                return Claim::Wait;
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        } else if flights.len() < FLIGHTS_MAX / SHARDS {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let flight = Flight {
                hash,
                number,
                block: key.block,
                rtype: key.rtype,
                rclass: key.rclass,
                bits: (key.dnssec_ok, key.checking_disabled),
                name: key.name.into(),
                waiting: Vec::new(),
            };
            flights.insert_unique(hash, flight, |flight| flight.hash);
            return Claim::Mine(Token {
                flights: Arc::clone(self),
                hash,
                number,
                worker,
            });
        }
        self.alone.fetch_add(1, Ordering::Relaxed);
        Claim::Alone
    }

    /// Takes the news for a worker, oldest first. To be called before the worker blocks: what it landed itself does not
    /// wake it.
    pub fn take(&self, worker: u16) -> impl Iterator<Item = Landed> {
        let worker = &self.workers[usize::from(worker)];
        std::iter::from_fn(|| {
            let landed = worker.inbox.pop()?;
            worker.waiting.fetch_sub(1, Ordering::Relaxed);
            Some(landed)
        })
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Flight>> {
        // The table takes its places from the low bits.
        lock(&self.shards[(hash >> 40) as usize % SHARDS])
    }

    fn land(&self, token: &Token, news: &News) {
        let mut flights = self.shard(token.hash);
        let is_it = |flight: &Flight| flight.number == token.number;
        let Ok(flight) = flights.find_entry(token.hash, is_it) else {
            return;
        };
        let (Flight { waiting, .. }, _) = flight.remove();
        drop(flights);
        for &(worker, ticket) in &waiting {
            self.workers[usize::from(worker)].inbox.push(Landed {
                ticket,
                news: news.clone(),
            });
        }
        for (number, worker) in self.workers.iter().enumerate() {
            let waits = || waiting.iter().any(|&(worker, _)| usize::from(worker) == number);
            if number != usize::from(token.worker) && waits() {
                (worker.wake)();
            }
        }
    }
}

fn lock(shard: &Mutex<HashTable<Flight>>) -> MutexGuard<'_, HashTable<Flight>> {
    // A panic costs its packet; the table is whole between any two steps.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to ask a question, and the duty to tell what came of it.
#[derive(Debug)]
pub struct Token {
    flights: Arc<Flights>,
    hash: u64,
    number: u64,
    worker: u16,
}

impl Token {
    /// Tells all that wait. Whoever asks from now on claims anew, so an answer that is kept must stand in the cache before.
    pub fn land(self, news: &News) {
        self.flights.land(&self, news);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // Nobody is told twice: what has landed is not in flight any more.
        self.flights.land(self, &News::Again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &[u8]) -> Key<'_> {
        Key {
            block: 1,
            name,
            rtype: Rtype::A,
            rclass: Rclass::IN,
            dnssec_ok: false,
            checking_disabled: false,
        }
    }

    /// Flights of so many workers, and how often each was woken.
    fn flights(workers: usize) -> (Arc<Flights>, Arc<[AtomicUsize]>) {
        let woken: Arc<[AtomicUsize]> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        let wake = |worker: usize| {
            let woken = Arc::clone(&woken);
            Box::new(move || {
                woken[worker].fetch_add(1, Ordering::Relaxed);
            }) as Wake
        };
        (Flights::new((0..workers).map(wake)), woken)
    }

    fn mine(claim: Claim) -> Token {
        match claim {
            Claim::Mine(token) => token,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_asks_and_all_are_told() {
        let (flights, woken) = flights(3);
        let key = key(b"\x01a\0");
        let token = mine(flights.claim(7, &key, 0, 1));
        for (worker, ticket) in [(0, 2), (1, 3), (1, 4)] {
            assert!(matches!(flights.claim(7, &key, worker, ticket), Claim::Wait));
        }
        // Another question, though its hash is the same.
        let other = Key {
            rtype: Rtype::AAAA,
            ..key
        };
        let _other = mine(flights.claim(7, &other, 2, 5));
        let reply = News::Reply(Arc::from(*b"reply"));
        token.land(&reply);
        let take = |worker| flights.take(worker).collect::<Vec<_>>();
        let told = |tickets: &[u64]| {
            let landed = |&ticket: &u64| Landed {
                ticket,
                news: reply.clone(),
            };
            tickets.iter().map(landed).collect::<Vec<_>>()
        };
        assert_eq!([take(0), take(1), take(2)], [told(&[2]), told(&[3, 4]), told(&[])]);
        assert_eq!([0, 1, 2].map(|worker| woken[worker].load(Ordering::Relaxed)), [0, 1, 0]);
        assert_eq!((flights.in_flight(), flights.merged(), flights.alone()), (1, 3, 0));
        // It is nobody's now.
        mine(flights.claim(7, &key, 2, 6));
    }

    #[test]
    fn who_goes_without_an_answer_leaves_the_question_to_those_that_wait() {
        let (flights, woken) = flights(2);
        let key = key(b"\x01a\0");
        let token = mine(flights.claim(7, &key, 0, 1));
        assert!(matches!(flights.claim(7, &key, 1, 2), Claim::Wait));
        assert!(matches!(flights.claim(7, &key, 1, 3), Claim::Wait));
        drop(token);
        assert_eq!(woken[1].load(Ordering::Relaxed), 1);
        let landed: Vec<_> = flights.take(1).collect();
        assert!(landed.iter().all(|landed| landed.news == News::Again));
        let token = mine(flights.claim(7, &key, 1, landed[0].ticket));
        assert!(matches!(flights.claim(7, &key, 1, landed[1].ticket), Claim::Wait));
        token.land(&News::Ask);
        assert_eq!(
            flights.take(1).map(|landed| landed.news).collect::<Vec<_>>(),
            [News::Ask]
        );
    }

    #[test]
    fn at_the_limits_a_question_is_not_merged() {
        let (flights, _) = flights(2);
        let name = |number: usize| [&[4][..], &(number as u32).to_be_bytes(), &[0]].concat();
        let hash = |number: usize| (number as u64) << 40 | number as u64;
        let claim = |number: usize, worker, ticket| flights.claim(hash(number), &key(&name(number)), worker, ticket);
        let mut tokens: Vec<_> = (0..FLIGHTS_MAX).map(|number| mine(claim(number, 0, 0))).collect();
        assert!(matches!(claim(FLIGHTS_MAX, 0, 0), Claim::Alone));
        assert_eq!((flights.in_flight(), flights.alone()), (FLIGHTS_MAX, 1));
        drop(tokens.pop());
        tokens.push(mine(claim(FLIGHTS_MAX - 1, 0, 0)));

        for ticket in 0..WAITING_MAX {
            assert!(matches!(claim(ticket % 10, 1, ticket as u64), Claim::Wait));
        }
        assert!(matches!(claim(3, 1, 0), Claim::Alone));
        assert!(matches!(claim(3, 0, 0), Claim::Wait));
        drop(tokens);
        assert_eq!(flights.in_flight(), 0);
        // News that were not taken yet hold their places.
        let _token = mine(claim(3, 0, 0));
        assert!(matches!(claim(3, 1, 0), Claim::Alone));
        assert_eq!(flights.take(1).count(), WAITING_MAX);
        assert!(matches!(claim(3, 1, 0), Claim::Wait));
    }

    #[test]
    fn workers_that_ask_one_thing_at_once_ask_it_in_turn() {
        const WORKERS: u16 = 4;
        const ROUNDS: u64 = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
        let (flights, _) = flights(WORKERS.into());
        let (asking, asked, told) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (flights, asking, asked, told) = (&flights, &asking, &asked, &told);
                scope.spawn(move || {
                    let key = key(b"\x03hot\0");
                    let mut ticket = 0;
                    while ticket < ROUNDS {
                        match flights.claim(1, &key, worker, ticket) {
                            Claim::Mine(token) => {
                                assert_eq!(asking.fetch_add(1, Ordering::SeqCst), 0);
                                asked.fetch_add(1, Ordering::Relaxed);
                                asking.fetch_sub(1, Ordering::SeqCst);
                                // One in seven is given up.
                                if ticket % 7 != 0 {
                                    token.land(&News::Reply(Arc::from(ticket.to_be_bytes())));
                                }
                            }
                            Claim::Wait => loop {
                                if let Some(landed) = flights.take(worker).next() {
                                    assert_eq!(landed.ticket, ticket);
                                    told.fetch_add(1, Ordering::Relaxed);
                                    break;
                                }
                                std::thread::yield_now();
                            },
                            Claim::Alone => panic!("there is room for all"),
                        }
                        ticket += 1;
                    }
                });
            }
        });
        assert_eq!(asked.into_inner() + told.into_inner(), u64::from(WORKERS) * ROUNDS);
        assert_eq!(flights.in_flight(), 0);
    }
}
