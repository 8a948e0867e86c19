//! The cache as a data structure: what a hit, a miss and an entry cost, alone and beside another thread.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use nodens_engine::cache::{Cache, Key, Kind, New, Stored};
use nodens_engine::time::Instant;
use nodens_wire::{NameBuf, Rclass, Rtype};

const SIZE: usize = 64 << 20;
/// Bytes of a usual answer.
const ANSWER: [u8; 120] = [7; 120];
const NOW: Instant = Instant(1_000_000_000);

/// A cache, and names that are in it.
struct World {
    cache: Cache,
    block: u32,
    names: Vec<(u64, NameBuf)>,
}

fn name(number: u64) -> (u64, NameBuf) {
    let name = NameBuf::from_text(&format!("host-{number}.cedar.example.")).expect("a name");
    (nodens_benches::hash().of(name.as_bytes()), name)
}

fn world(names: u64) -> World {
    let cache = Cache::new(SIZE);
    let block = cache.open().number();
    let names = (0..names).map(name).collect();
    let world = World { cache, block, names };
    for (hash, name) in &world.names {
        world.insert(*hash, name);
    }
    world
}

impl World {
    fn key<'n>(&self, name: &'n NameBuf) -> Key<'n> {
        Key {
            block: self.block,
            name: name.as_bytes(),
            rtype: Rtype::A,
            rclass: Rclass::IN,
            dnssec_ok: false,
            checking_disabled: false,
        }
    }

    fn insert(&self, hash: u64, name: &NameBuf) -> Stored {
        let new = New {
            kind: Kind::Success,
            is_failure: false,
            ttl_secs: 30,
            useful_secs: 3600,
            entries_max: usize::MAX,
            bytes: &ANSWER,
        };
        self.cache.insert(hash, &self.key(name), &new, NOW)
    }

    fn get(&self, hash: u64, name: &NameBuf, out: &mut Vec<u8>) -> bool {
        let pick = |success: Option<&_>, denial: Option<&_>| match (denial, success) {
            (Some(_), _) => Some(Kind::Denial),
            (None, Some(_)) => Some(Kind::Success),
            (None, None) => None,
        };
        self.cache.get(hash, &self.key(name), out, pick).is_some()
    }
}

/// Numbers without order.
fn scattered(len: usize) -> impl FnMut() -> usize {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % len
    }
}

fn reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("cache");
    for names in [1, 1_000, 100_000] {
        let world = world(names);
        let (mut next, mut out) = (scattered(world.names.len()), Vec::new());
        group.bench_function(format!("hit/{names}"), |b| {
            b.iter(|| {
                let (hash, name) = &world.names[next()];
                assert!(world.get(*hash, name, &mut out));
                black_box(out.last());
            });
        });
        // A batch touches all that it will read before it reads.
        group.bench_function(format!("hit-of-32/{names}"), |b| {
            b.iter(|| {
                let batch: [usize; 32] = std::array::from_fn(|_| next());
                batch.iter().for_each(|&at| world.cache.touch(world.names[at].0));
                batch.iter().for_each(|&at| world.cache.touch_entry(world.names[at].0));
                for at in batch {
                    let (hash, name) = &world.names[at];
                    assert!(world.get(*hash, name, &mut out));
                }
            });
        });
        let (hash, absent) = name(u64::MAX);
        group.bench_function(format!("miss/{names}"), |b| {
            let mut turn = hash;
            b.iter(|| {
                turn = turn.rotate_left(7) ^ 1;
                black_box(world.get(turn, &absent, &mut out))
            });
        });
    }
}

fn inserts(c: &mut Criterion) {
    let mut group = c.benchmark_group("cache");
    let full = world(400_000);
    let mut number = 400_000;
    group.bench_function("insert/full", |b| {
        let fresh = || {
            number += 1;
            name(number)
        };
        b.iter_batched(fresh, |(hash, name)| full.insert(hash, &name), BatchSize::SmallInput);
    });
    let some = world(10_000);
    let mut next = scattered(some.names.len());
    group.bench_function("insert/known", |b| {
        b.iter(|| {
            let (hash, name) = &some.names[next()];
            some.insert(*hash, name)
        });
    });
}

/// A reader on this core, a writer of random names on another, which never rests.
fn beside_a_writer(c: &mut Criterion) {
    let world = world(100_000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1_000_000;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                let (hash, name) = name(number);
                world.insert(hash, &name);
            }
        });
        let (mut next, mut out) = (scattered(1_000), Vec::new());
        let mut group = c.benchmark_group("cache");
        group.bench_function("hit-beside-a-writer/1000", |b| {
            b.iter(|| {
                let (hash, name) = &world.names[next()];
                black_box(world.get(*hash, name, &mut out))
            });
        });
        group.finish();
        done.store(true, Ordering::Relaxed);
    });
    assert!(world.cache.figures().bytes <= SIZE);
}

criterion_group!(benches, reads, inserts, beside_a_writer);
criterion_main!(benches);
