use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nodens_wire::{Rclass, Rtype};
use rand::rngs::ChaCha8Rng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use super::*;
use crate::zone::trie::NameHash;

const MANY: usize = usize::MAX;

fn name(number: u64) -> Vec<u8> {
    let label = format!("name-{number}");
    let mut name = vec![label.len() as u8];
    name.extend_from_slice(label.as_bytes());
    name.extend_from_slice(b"\x07example\x00");
    name
}

fn key(block: u32, name: &[u8]) -> Key<'_> {
    Key {
        block,
        name,
        rtype: Rtype::A,
        rclass: Rclass::IN,
        dnssec_ok: false,
        checking_disabled: false,
    }
}

fn hash(name: &[u8]) -> u64 {
    NameHash::new(7).of(name)
}

fn new(bytes: &[u8]) -> New<'_> {
    New {
        kind: Kind::Success,
        is_failure: false,
        ttl_secs: 60,
        useful_secs: 60,
        entries_max: MANY,
        bytes,
    }
}

const NOW: Instant = Instant(5_000_000_000);

fn after(secs: u64) -> Instant {
    NOW.after(Duration::from_secs(secs))
}

struct Fixture {
    cache: Cache,
    block: Arc<Block>,
    out: Vec<u8>,
}

impl Fixture {
    fn new(bytes: usize) -> Self {
        let cache = Cache::new(bytes);
        let block = cache.open();
        let out = Vec::new();
        Self { cache, block, out }
    }

    fn insert(&self, number: u64, new: &New<'_>, now: Instant) -> Stored {
        let name = name(number);
        self.cache
            .insert(hash(&name), &key(self.block.number(), &name), new, now)
    }

    fn get(&mut self, number: u64, kind: Kind) -> Option<Found> {
        let name = name(number);
        let key = key(self.block.number(), &name);
        self.cache.get(hash(&name), &key, &mut self.out, |_, _| Some(kind))
    }

    fn has(&mut self, number: u64) -> bool {
        self.get(number, Kind::Success).is_some()
    }
}

#[test]
fn what_was_stored_is_found_under_its_key_alone() {
    let Fixture { cache, block, mut out } = Fixture::new(SIZE_MIN);
    let name = name(1);
    let hash = hash(&name);
    let mine = Key {
        dnssec_ok: true,
        ..key(block.number(), &name)
    };
    assert_eq!(cache.insert(hash, &mine, &new(b"an answer"), NOW), Stored::Yes);
    let mut get = |key: &Key<'_>, kind| {
        let found = cache.get(hash, key, &mut out, |_, _| Some(kind));
        found.map(|found| (found, out.clone()))
    };
    let (found, bytes) = get(&mine, Kind::Success).unwrap();
    assert_eq!(bytes, b"an answer");
    let expected = Found {
        kind: Kind::Success,
        is_failure: false,
        stored_at: NOW,
        ttl_secs: 60,
        hits: 0,
        last_hit: Instant(0),
        retry_at: Instant(0),
    };
    assert_eq!(found, expected);

    // All with the same hash, as a collision would have it.
    let other_name = self::name(2);
    let others = [
        Key { block: 77, ..mine },
        Key {
            name: &other_name,
            ..mine
        },
        Key {
            name: &name[..3],
            ..mine
        },
        Key {
            rtype: Rtype::AAAA,
            ..mine
        },
        Key {
            rclass: Rclass::CH,
            ..mine
        },
        Key {
            dnssec_ok: false,
            ..mine
        },
        Key {
            checking_disabled: true,
            ..mine
        },
    ];
    for other in others {
        assert_eq!(get(&other, Kind::Success), None, "{other:?}");
    }
    assert_eq!(get(&mine, Kind::Denial), None);
}

#[test]
fn success_and_denial_stand_beside_each_other_and_who_reads_chooses() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let denial = New {
        kind: Kind::Denial,
        ..new(b"no")
    };
    fixture.insert(1, &new(b"yes"), NOW);
    fixture.insert(1, &denial, NOW);
    assert!(fixture.get(1, Kind::Success).is_some());
    assert_eq!(fixture.out, b"yes");
    assert!(fixture.get(1, Kind::Denial).is_some());
    assert_eq!(fixture.out, b"no");
    assert_eq!(fixture.block.entries(Kind::Denial), 1);
    // What is there again is not denied any more.
    fixture.insert(1, &new(b"yes again"), NOW);
    assert!(fixture.get(1, Kind::Denial).is_none());
    assert!(fixture.has(1));
    assert_eq!(fixture.out, b"yes again");
    assert_eq!(
        [Kind::Success, Kind::Denial].map(|kind| fixture.block.entries(kind)),
        [1, 0]
    );
}

#[test]
fn a_failure_takes_no_answer_s_place() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let denial = New {
        kind: Kind::Denial,
        ..new(b"no")
    };
    let failure = New {
        is_failure: true,
        bytes: b"failed",
        ..denial
    };
    fixture.insert(1, &new(b"yes"), NOW);
    assert_eq!(fixture.insert(1, &failure, NOW), Stored::Yes);
    assert!(fixture.has(1));
    assert!(fixture.get(1, Kind::Denial).unwrap().is_failure);
    assert_eq!(fixture.insert(1, &denial, NOW), Stored::Yes);
    assert_eq!(fixture.insert(1, &failure, after(59)), Stored::Kept);
    assert!(!fixture.get(1, Kind::Denial).unwrap().is_failure);
    // When it is of no use any more, it may go.
    assert_eq!(fixture.insert(1, &failure, after(61)), Stored::Yes);
    assert_eq!(
        [Kind::Success, Kind::Denial].map(|kind| fixture.block.entries(kind)),
        [1, 1]
    );
}

#[test]
fn bytes_of_every_length_come_back() {
    let mut fixture = Fixture::new(4 << 20);
    let bytes: Vec<u8> = (0..BYTES_MAX + 1).map(|at| (at * 31 % 251) as u8).collect();
    let lens = (0..64)
        .chain((1..32).map(|i| i * 2111))
        .chain([BYTES_MAX - 1, BYTES_MAX]);
    for len in lens {
        assert_eq!(fixture.insert(1, &new(&bytes[..len]), NOW), Stored::Yes, "{len}");
        assert!(fixture.has(1), "{len}");
        assert_eq!(fixture.out, &bytes[..len]);
    }
    assert_eq!(fixture.insert(1, &new(&bytes), NOW), Stored::Long);
    assert_eq!(fixture.block.entries(Kind::Success), 1);
}

#[test]
fn hits_are_kept_through_a_refresh() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let name = name(1);
    let key = key(fixture.block.number(), &name);
    fixture.insert(1, &new(b"one"), NOW);
    fixture.cache.count_hit(hash(&name), &key, Kind::Success, 4, after(1));
    fixture.cache.retry_at(hash(&name), &key, Kind::Success, after(9));
    let found = fixture.get(1, Kind::Success).unwrap();
    assert_eq!((found.hits, found.last_hit, found.retry_at), (4, after(1), after(9)));
    fixture.insert(1, &new(b"two"), after(2));
    let found = fixture.get(1, Kind::Success).unwrap();
    assert_eq!((found.hits, found.last_hit, found.retry_at), (4, after(1), Instant(0)));
    assert_eq!(fixture.out, b"two");
    fixture.cache.remove(hash(&name), &key, Kind::Success);
    assert!(!fixture.has(1));
    assert_eq!(fixture.block.entries(Kind::Success), 0);
}

#[test]
fn what_is_of_no_use_goes_first() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let bytes = [7; 200];
    // Half of the slab: old, in use for longer. The other half: newer, of no use soon.
    for number in 0..1500 {
        fixture.insert(
            number,
            &New {
                useful_secs: 600,
                ..new(&bytes)
            },
            NOW,
        );
    }
    for number in 10_000..11_300 {
        fixture.insert(
            number,
            &New {
                useful_secs: 5,
                ..new(&bytes)
            },
            after(1),
        );
    }
    for number in 20_000..20_700 {
        fixture.insert(
            number,
            &New {
                useful_secs: 600,
                ..new(&bytes)
            },
            after(60),
        );
    }
    let left = (0..1500).filter(|&number| fixture.has(number)).count();
    // Now and then a set has more keys than fit without any that are of no use.
    assert!(left > 1450, "{left} of 1500");
    assert!(fixture.cache.figures().expired > 500);
}

#[test]
fn a_retired_block_makes_room_first_and_its_number_is_not_given_again() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let (old, bytes) = (fixture.cache.open(), [7; 200]);
    for number in 0..1200 {
        fixture.insert(number, &new(&bytes), NOW);
        let name = name(number);
        fixture
            .cache
            .insert(hash(&name), &key(old.number(), &name), &new(&bytes), NOW);
    }
    fixture.cache.retire(old.number());
    let stored = fixture.cache.insert(1, &key(old.number(), b"\0"), &new(b""), NOW);
    assert_eq!(stored, Stored::Retired);
    for number in 2000..3000 {
        fixture.insert(number, &new(&bytes), NOW);
    }
    let left = (0..1200).filter(|&number| fixture.has(number)).count();
    assert!(left > 1160, "{left} of 1200");
    assert!(old.entries(Kind::Success) < 1000);
    assert!(fixture.cache.open().number() > old.number());
}

#[test]
fn a_block_has_no_more_entries_than_it_may() {
    let mut fixture = Fixture::new(4 << 20);
    let other = fixture.cache.open();
    let few = New {
        entries_max: 1000,
        ..new(b"bytes")
    };
    let denial = New {
        kind: Kind::Denial,
        entries_max: 100,
        ..few
    };
    for number in 0..5000 {
        fixture.insert(number, &few, NOW);
        fixture.insert(number + 100_000, &denial, NOW);
        let name = name(number);
        let stored = fixture
            .cache
            .insert(hash(&name), &key(other.number(), &name), &new(b""), NOW);
        assert_eq!(stored, Stored::Yes);
        assert!(fixture.block.entries(Kind::Success) <= 1000 && fixture.block.entries(Kind::Denial) <= 100);
    }
    assert_eq!(fixture.block.entries(Kind::Success), 1000);
    assert_eq!((0..5000).filter(|&number| fixture.has(number)).count(), 1000);
    assert!(fixture.block.entries(Kind::Denial) >= 90);
    assert_eq!(other.entries(Kind::Success), 5000);
    // One that is known needs no other's place.
    let known = (0..5000).find(|&number| fixture.has(number)).unwrap();
    let evictions = fixture.block.evictions(Kind::Success);
    assert_eq!(fixture.insert(known, &few, NOW), Stored::Yes);
    assert_eq!(fixture.block.evictions(Kind::Success), evictions);
}

#[test]
fn keys_of_one_hash_cost_each_other_their_place_and_nothing_more() {
    let fixture = Fixture::new(SIZE_MIN);
    for number in 0..10_000 {
        let name = name(number);
        let stored = fixture
            .cache
            .insert(42, &key(fixture.block.number(), &name), &new(&[1; 100]), NOW);
        assert_eq!(stored, Stored::Yes);
    }
    assert!(fixture.block.entries(Kind::Success) < 100);
    let last = name(9_999);
    let mut out = Vec::new();
    let found = fixture
        .cache
        .get(42, &key(fixture.block.number(), &last), &mut out, |_, _| {
            Some(Kind::Success)
        });
    assert!(found.is_some());
}

/// Every entry in the slab, as a count of each block and kind.
fn census(cache: &Cache) -> HashMap<(u32, Kind), usize> {
    let mut census = HashMap::new();
    for index in 0..cache.sets.load(Ordering::Relaxed) {
        let set = cache.set(index).lock(LOCK_TRIES).unwrap();
        for (_, slot) in set.slots() {
            if let Some(kind) = slot.counted() {
                *census.entry((slot.block, kind)).or_insert(0) += 1;
            }
        }
    }
    census
}

fn same_as_a_map(seed: u64, bytes: usize, keys: u64, operations: usize) {
    let cache = Cache::new(bytes);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut map = HashMap::<_, (Vec<u8>, Instant, u32)>::new();
    let mut blocks = [cache.open(), cache.open(), cache.open()];
    let (mut now, mut out, mut bytes) = (NOW, Vec::new(), vec![0; BYTES_MAX]);
    let (mut hits, mut misses) = (0_u64, 0_u64);
    for _ in 0..operations {
        let (which, number) = (random.random_range(0..3), random.random_range(0..keys));
        let (dnssec_ok, is_denial) = (random.random_ratio(1, 4), random.random_ratio(1, 3));
        let kind = if is_denial { Kind::Denial } else { Kind::Success };
        let block = blocks[which].number();
        let name = name(number);
        let key = Key {
            dnssec_ok,
            ..key(block, &name)
        };
        // Now and then keys share a hash.
        let hash = if number % 50 == 0 { 99 } else { hash(&name) };
        let of = |kind| (block, number, dnssec_ok, kind);
        match random.random_range(0..1000) {
            0..450 => {
                let found = cache.get(hash, &key, &mut out, |_, _| Some(kind));
                match (found, map.get(&of(kind))) {
                    (Some(found), Some((bytes, at, ttl))) => {
                        hits += 1;
                        assert_eq!((found.kind, found.stored_at, found.ttl_secs), (kind, *at, *ttl));
                        assert_eq!(&out, bytes);
                    }
                    (None, expected) => misses += u64::from(expected.is_some()),
                    (Some(found), None) => panic!("{found:?} was never stored"),
                }
            }
            450..930 => {
                let len = match random.random_range(0..1000) {
                    0..2 => random.random_range(0..=BYTES_MAX),
                    2..50 => random.random_range(0..4000),
                    _ => random.random_range(20..300),
                };
                telling(number, random.next_u64(), len, &mut bytes);
                let ttl_secs = random.random_range(0..100);
                let new = New {
                    kind,
                    is_failure: false,
                    ttl_secs,
                    useful_secs: ttl_secs + 10,
                    entries_max: if which == 0 { 300 } else { MANY },
                    bytes: &bytes[..len],
                };
                match cache.insert(hash, &key, &new, now) {
                    Stored::Yes => {
                        if kind == Kind::Success {
                            map.remove(&of(Kind::Denial));
                        }
                        map.insert(of(kind), (bytes[..len].to_vec(), now, ttl_secs));
                    }
                    Stored::Full => assert_eq!(which, 0),
                    other => panic!("{other:?}"),
                }
                assert!(which != 0 || blocks[0].entries(kind) <= 300);
            }
            930..970 => {
                cache.remove(hash, &key, kind);
                map.remove(&of(kind));
            }
            970..999 => now = now.after(Duration::from_millis(random.random_range(0..200))),
            _ if random.random_ratio(1, 20) => {
                cache.retire(block);
                map.retain(|of, _| of.0 != block);
                blocks[which] = cache.open();
            }
            _ => {}
        }
    }
    let census = census(&cache);
    for block in &blocks {
        for kind in [Kind::Success, Kind::Denial] {
            let counted = census.get(&(block.number(), kind)).copied().unwrap_or(0);
            assert_eq!(block.entries(kind), counted);
        }
    }
    let figures = cache.figures();
    assert!(figures.bytes <= figures.bytes_max);
    assert_eq!((figures.busy, hits > 0), (0, true));
    // Nothing is lost but what had to make room.
    if figures.evicted + figures.expired + figures.incomplete == 0 {
        assert_eq!(misses, 0);
    }
}

/// A fifth where the code is not optimized.
const EACH: usize = if cfg!(debug_assertions) { 1 } else { 5 };

#[test]
fn a_million_operations_end_as_with_a_map() {
    same_as_a_map(1, SIZE_MIN, 20_000, 100_000 * EACH);
    same_as_a_map(2, 64 << 20, 300, 20_000 * EACH);
    same_as_a_map(3, 8 << 20, 20_000, 80_000 * EACH);
}

/// Hits of a hundred look-ups: names as they are asked for, by rank, and between them names that come once. In the
/// cache, and in a list of the names used last that has as many bytes.
fn hit_ratios(scans: u32, bytes: usize) -> (f64, f64) {
    const NAMES: usize = 20_000;
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let weights = (1..=NAMES).map(|rank| 1.0 / rank as f64);
    let mut sum = 0.0;
    let below: Vec<f64> = weights
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    let mut fixture = Fixture::new(bytes);
    let answer = [7; 150];
    let entry = words_taken(name(10_000).len(), answer.len(), false) * 8 + 18;
    let lru_max = fixture.cache.figures().bytes_max / entry;
    let (mut used, mut order) = (HashMap::new(), std::collections::BTreeMap::new());
    let (mut asked, mut hits, mut lru_hits) = (0, 0, 0);
    for tick in 0..30_000 * EACH as u64 * u64::from(scans + 1) {
        let is_scan = tick % u64::from(scans + 1) != 0;
        let number = if is_scan {
            1_000_000 + tick
        } else {
            let at = random.random_range(0.0..sum);
            below.partition_point(|&below| below <= at) as u64
        };
        let is_counted = !is_scan && tick > 20_000;
        let is_hit = fixture.has(number);
        if !is_hit {
            fixture.insert(number, &new(&answer), NOW);
        }
        let before = used.insert(number, tick);
        if let Some(before) = before {
            order.remove(&before);
        }
        order.insert(tick, number);
        if order.len() > lru_max {
            let (_, oldest) = order.pop_first().unwrap();
            used.remove(&oldest);
        }
        asked += u32::from(is_counted);
        hits += u32::from(is_counted && is_hit);
        lru_hits += u32::from(is_counted && before.is_some());
    }
    let ratio = |hits: u32| f64::from(hits) * 100.0 / f64::from(asked);
    (ratio(hits), ratio(lru_hits))
}

#[test]
fn a_scan_does_not_drive_out_what_is_used() {
    let check = |scans, at_least: f64, more_than_lru: f64| {
        let (ours, lru) = hit_ratios(scans, SIZE_MIN);
        assert!(
            ours >= at_least && ours >= lru + more_than_lru,
            "{scans} scans a name: {ours} of a hundred, LRU {lru}"
        );
    };
    check(0, 70.0, 0.0);
    check(1, 68.0, 4.0);
    check(4, 60.0, 8.0);
}

/// The bytes of an answer that its first eight tell of.
fn telling(number: u64, random: u64, len: usize, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend_from_slice(&number.to_ne_bytes());
    bytes.extend_from_slice(&random.to_ne_bytes());
    let mut word = random;
    while bytes.len() < len {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9) ^ number;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.truncate(len);
}

#[test]
fn readers_never_see_half_an_answer() {
    let cache = Cache::new(SIZE_MIN);
    let block = cache.open().number();
    let (done, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (cache, done, hits) = (&cache, &done, &hits);
        let readers = (0..2_u64).map(|seed| {
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                while !done.load(Ordering::Relaxed) {
                    let number = random.random_range(0..400_u64);
                    let name = name(number);
                    let found = cache.get(hash(&name), &key(block, &name), &mut out, |_, _| Some(Kind::Success));
                    if let Some(found) = found {
                        let random = u64::from_ne_bytes(out[8..16].try_into().unwrap());
                        telling(number, random, out.len(), &mut expected);
                        assert_eq!(out, expected);
                        assert_eq!(found.ttl_secs, random as u32);
                        hits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        let writers = (10..12_u64).map(|seed| {
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut bytes = Vec::new();
                for _ in 0..60_000 {
                    // Many names that nobody reads push the others about.
                    let number = random.random_range(0..6000_u64) % 3000;
                    let mark = random.next_u64();
                    let len = match mark % 300 {
                        0 => 24_000,
                        1..10 => 3000,
                        other => 16 + other as usize,
                    };
                    telling(number, mark, len, &mut bytes);
                    let new = New {
                        ttl_secs: mark as u32,
                        ..new(&bytes)
                    };
                    let name = name(number);
                    cache.insert(hash(&name), &key(block, &name), &new, NOW);
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(hits.into_inner() > 1000);
    let counted = census(&cache).values().sum::<usize>();
    assert_eq!(
        counted,
        blocks::get(&cache.blocks.load(), block).unwrap().entries(Kind::Success)
    );
}

#[test]
fn what_workers_store_at_once_is_kept_or_counted() {
    const EACH_STORES: u64 = 3000;
    const THREADS: u64 = 6;
    let mut fixture = Fixture::new(32 << 20);
    let (cache, block) = (&fixture.cache, fixture.block.number());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in thread * EACH_STORES..(thread + 1) * EACH_STORES {
                    let name = name(number);
                    cache.insert(hash(&name), &key(block, &name), &new(&[3; 150]), NOW);
                }
            });
        }
    });
    let all = 0..THREADS * EACH_STORES;
    let missing = all.filter(|&number| !fixture.has(number)).count() as u64;
    let figures = fixture.cache.figures();
    assert_eq!(missing, figures.evicted + figures.busy);
    assert!(fixture.cache.late.is_empty());
}

/// What a thread that stands still in the middle of a change keeps others from, while `meanwhile` runs.
fn stand_still(cache: &Cache, number: u64, meanwhile: impl FnOnce()) {
    let set = cache.set(cache.index(hash(&name(number)))).lock(1).unwrap();
    meanwhile();
    drop(set);
}

#[test]
fn what_finds_its_set_locked_is_stored_soon() {
    let mut fixture = Fixture::new(SIZE_MIN);
    stand_still(&fixture.cache, 1, || {
        assert_eq!(fixture.insert(1, &new(b"late"), NOW), Stored::Later);
        // Who comes by meanwhile leaves it where it is.
        let other = (2..).find(|&other| fixture.cache.index(hash(&name(other))) != fixture.cache.index(hash(&name(1))));
        assert_eq!(fixture.insert(other.unwrap(), &new(b"other"), NOW), Stored::Yes);
        assert!(!fixture.cache.late.is_empty());
    });
    // The look-up itself brings it.
    let found = fixture.get(1, Kind::Success).unwrap();
    assert_eq!((found.stored_at, found.ttl_secs), (NOW, 60));
    assert_eq!(fixture.out, b"late");
    assert_eq!(fixture.block.entries(Kind::Success), 2);
    let figures = fixture.cache.figures();
    assert!(fixture.cache.late.is_empty() && figures.busy == 0, "{figures:?}");
}

#[test]
fn what_was_put_aside_takes_no_newer_one_s_place() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let denial = New {
        kind: Kind::Denial,
        ..new(b"no")
    };
    for (older, newer) in [(new(b"old"), new(b"new")), (denial, new(b"yes")), (new(b"yes"), denial)] {
        stand_still(&fixture.cache, 1, || {
            assert_eq!(fixture.insert(1, &older, NOW), Stored::Later);
        });
        let entry = fixture.cache.late.take().unwrap();
        fixture.insert(1, &newer, after(1));
        assert!(fixture.cache.late.put(entry));
        fixture.cache.store_late();
        assert_eq!(fixture.get(1, newer.kind).unwrap().stored_at, after(1));
        assert_eq!(fixture.out, newer.bytes);
        if older.kind != newer.kind {
            assert!(fixture.get(1, older.kind).is_none());
        }
        let name = name(1);
        let key = key(fixture.block.number(), &name);
        fixture.cache.remove(hash(&name), &key, newer.kind);
        assert_eq!(
            fixture.block.entries(Kind::Success) + fixture.block.entries(Kind::Denial),
            0
        );
    }
}

#[test]
fn few_and_small_ones_are_put_aside() {
    let mut fixture = Fixture::new(SIZE_MIN);
    let fits = LATE_BYTES_MAX - name(1).len();
    let bytes = vec![7; fits + 1];
    stand_still(&fixture.cache, 1, || {
        assert_eq!(fixture.insert(1, &new(&bytes), NOW), Stored::Busy);
        for _ in 0..LATE_MAX {
            assert_eq!(fixture.insert(1, &new(&bytes[..fits]), NOW), Stored::Later);
        }
        assert_eq!(fixture.insert(1, &new(b""), NOW), Stored::Busy);
        assert_eq!(fixture.cache.figures().busy, 2);
    });
    assert!(fixture.has(1));
    while !fixture.cache.late.is_empty() {
        fixture.cache.store_late();
    }
    assert_eq!(fixture.block.entries(Kind::Success), 1);
    // A block that is gone has nothing left to be stored.
    stand_still(&fixture.cache, 2, || {
        assert_eq!(fixture.insert(2, &new(b""), NOW), Stored::Later)
    });
    fixture.cache.retire(fixture.block.number());
    assert!(!fixture.has(2) && fixture.cache.late.is_empty());
}
