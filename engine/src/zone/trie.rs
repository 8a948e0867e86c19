//! A persistent hash trie: names to values, with structural sharing.
//!
//! ```text
//!   root fork (16 ways) -> forks (4 bits of the hash a level) -> flat blocks of up to 32 (hash, value), by hash
//! ```
//!
//! One change copies one block and the forks above it, at any size. A look-up reads hot forks, then one or two cache
//! lines of a block, then the value; `Trie::touch` reads the block's lines ahead, so that a batch of look-ups
//! overlaps its misses (bench `respond/etcd`).

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::shared::bring;
use crate::cache::Key;

/// Most entries of one block. Only entries whose whole hashes agree may pass it.
pub const BLOCK_MAX: usize = 32;
const WAYS: usize = 16;
const BITS: u32 = 4;

/// The hash that all tries of a process share. Seeded at random in the server, by a constant in tests.
#[derive(Clone, Debug)]
pub struct NameHash(FixedState);

impl NameHash {
    /// A hash for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// The hash of folded labels in wire form, without the zone's own.
    #[must_use]
    #[inline]
    pub fn of(&self, labels: &[u8]) -> u64 {
        self.0.hash_one(labels)
    }

    /// The hash of what an answer is kept under.
    #[must_use]
    #[inline]
    pub fn of_key(&self, key: &Key<'_>) -> u64 {
        let bits = u64::from(key.dnssec_ok) | u64::from(key.checking_disabled) << 1;
        let about = bits << 32 | u64::from(key.rtype.0) << 16 | u64::from(key.rclass.0);
        self.0.hash_one((key.name, about, key.block))
    }
}

/// Where a value stands in one version of a trie: to go on from there later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    hash: u64,
    /// How many values with the same hash stand before it.
    among: usize,
}

impl Place {
    /// Behind every value.
    pub const END: Self = Self {
        hash: u64::MAX,
        among: usize::MAX,
    };
}

/// What is found by its key, and knows it.
pub trait Keyed {
    /// In a trie mostly folded labels in wire form, relative to the zone.
    fn key(&self) -> &[u8];

    /// Whether it is what stands at this key. Some stand at several.
    #[inline]
    fn is(&self, key: &[u8]) -> bool {
        self.key() == key
    }
}

#[derive(Debug)]
struct Entry<T> {
    hash: u64,
    value: Arc<T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            hash: self.hash,
            value: Arc::clone(&self.value),
        }
    }
}

#[derive(Debug)]
enum Branch<T> {
    /// Sorted by hash.
    Block(Arc<[Entry<T>]>),
    Fork(Arc<[Self; WAYS]>),
}

impl<T> Clone for Branch<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Block(block) => Self::Block(Arc::clone(block)),
            Self::Fork(fork) => Self::Fork(Arc::clone(fork)),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Trie<T> {
    root: Branch<T>,
    len: usize,
}

impl<T> Clone for Trie<T> {
    fn clone(&self) -> Self {
        Self {
            root: self.root.clone(),
            len: self.len,
        }
    }
}

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self {
            root: Branch::Block(Arc::from([])),
            len: 0,
        }
    }
}

fn way(hash: u64, depth: u32) -> usize {
    // The shift stays below 64: a fork is never made deeper than the hash has bits.
    ((hash << (depth * BITS)) >> (64 - BITS)) as usize
}

/// Where an entry with this hash would stand in a block whose entries share the first `depth` ways.
#[inline]
fn guess(len: usize, hash: u64, depth: u32) -> usize {
    // Hashes are uniform, so the rest of the hash, as a fraction, points near the entry.
    let rest = hash.checked_shl(depth * BITS).unwrap_or(0);
    ((u128::from(rest) * len as u128) >> 64) as usize
}

/// How many entries [`guess`] is off by, mostly.
const GUESS_OFF: usize = 2;

/// Where a value would stand.
#[derive(Debug)]
pub(crate) struct Spot<'z, T> {
    block: &'z [Entry<T>],
    at: usize,
}

impl<'z, T> Spot<'z, T> {
    /// The first value with this hash: nearly always the right one, but its key has not been looked at.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<&'z Arc<T>> {
        let Self { block, mut at } = *self;
        while block.get(at)?.hash < hash {
            at += 1;
        }
        while at > 0 && block[at - 1].hash >= hash {
            at -= 1;
        }
        (block[at].hash == hash).then_some(&block[at].value)
    }
}

impl<T: Keyed> Trie<T> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No value at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn block(&self, hash: u64) -> (&[Entry<T>], u32) {
        let mut branch = &self.root;
        let mut depth = 0;
        loop {
            match branch {
                Branch::Block(block) => return (block, depth),
                Branch::Fork(fork) => {
                    branch = &fork[way(hash, depth)];
                    depth += 1;
                }
            }
        }
    }

    /// Reads the cache lines where a value of this hash would stand, so that [`Spot::candidate`] finds them in the cache.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> Spot<'_, T> {
        let (block, depth) = self.block(hash);
        let at = guess(block.len(), hash, depth);
        // A line holds four entries, and the guess is seldom off by more: a scan that has to wait for its next line does so
        // behind a branch that nobody can foresee, so that nothing overlaps.
        for near in [at.saturating_sub(GUESS_OFF), at + GUESS_OFF] {
            if let Some(entry) = block.get(near) {
                std::hint::black_box(entry.hash);
            }
        }
        Spot { block, at }
    }

    /// The value for `key`, whose hash is `hash`.
    #[must_use]
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&Arc<T>> {
        let (block, depth) = self.block(hash);
        let candidate = Spot {
            block,
            at: guess(block.len(), hash, depth),
        }
        .candidate(hash)?;
        if candidate.is(key) {
            Some(candidate)
        } else {
            self.get_slow(hash, key)
        }
    }

    /// Two keys of one hash are rarer than anything else that happens here, but possible.
    #[cold]
    fn get_slow(&self, hash: u64, key: &[u8]) -> Option<&Arc<T>> {
        let (block, _) = self.block(hash);
        block
            .iter()
            .find(|entry| entry.hash == hash && entry.value.is(key))
            .map(|entry| &entry.value)
    }

    /// Puts a value in the place of the one with its key, or beside the others.
    pub fn insert(&mut self, hash: u64, value: Arc<T>) {
        let is_new = insert(&mut self.root, 0, Entry { hash, value }, |old, new| {
            old.key() == new.key()
        });
        self.len += usize::from(is_new);
    }

    /// The same at one of the keys of a value that has several.
    pub fn insert_at(&mut self, hash: u64, key: &[u8], value: Arc<T>) {
        let is_new = insert(&mut self.root, 0, Entry { hash, value }, |old, _| old.is(key));
        self.len += usize::from(is_new);
    }

    /// Takes out the value with this key.
    pub fn remove(&mut self, hash: u64, key: &[u8]) {
        if remove(&mut self.root, 0, hash, key) {
            self.len -= 1;
        }
    }

    /// Every value, in the order of the hashes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.iter_from(Place::default()).map(|(_, value)| value)
    }

    /// The values from a place on, each with the place where it stands.
    pub fn iter_from(&self, place: Place) -> impl Iterator<Item = (Place, &Arc<T>)> {
        let mut stack = Vec::new();
        let mut branch = &self.root;
        while let Branch::Fork(fork) = branch {
            let at = way(place.hash, stack.len() as u32);
            stack.push((branch, at + 1));
            branch = &fork[at];
        }
        if let Branch::Block(block) = branch {
            let first = block.partition_point(|entry| entry.hash < place.hash);
            stack.push((branch, first.saturating_add(place.among)));
        }
        let mut last = Place {
            among: place.among.wrapping_sub(1),
            ..place
        };
        std::iter::from_fn(move || {
            loop {
                let (branch, at) = stack.pop()?;
                match branch {
                    Branch::Block(block) => {
                        if let Some(entry) = block.get(at) {
                            stack.push((branch, at + 1));
                            let among = if entry.hash == last.hash {
                                last.among.wrapping_add(1)
                            } else {
                                0
                            };
                            last = Place {
                                hash: entry.hash,
                                among,
                            };
                            return Some((last, &entry.value));
                        }
                    }
                    Branch::Fork(fork) => {
                        if let Some(child) = fork.get(at) {
                            stack.push((branch, at + 1));
                            stack.push((child, 0));
                        }
                    }
                }
            }
        })
    }
}

/// A fork that may be changed: itself, or a copy where an old version has it too.
fn own<T>(fork: &mut Arc<[Branch<T>; WAYS]>) -> &mut [Branch<T>; WAYS] {
    if Arc::get_mut(fork).is_none() {
        for child in &**fork {
            match child {
                Branch::Block(block) => bring([block]),
                Branch::Fork(fork) => bring([fork]),
            }
        }
    }
    Arc::make_mut(fork)
}

fn insert<T>(branch: &mut Branch<T>, depth: u32, new: Entry<T>, replaces: impl Fn(&T, &T) -> bool) -> bool {
    match branch {
        Branch::Fork(fork) => insert(&mut own(fork)[way(new.hash, depth)], depth + 1, new, replaces),
        Branch::Block(block) => {
            let from = block.partition_point(|entry| entry.hash < new.hash);
            let same = block[from..].iter().take_while(|entry| entry.hash == new.hash);
            let found = same.clone().position(|entry| replaces(&entry.value, &new.value));
            let is_new = found.is_none();
            if let (Some(offset), Some(entries)) = (found, Arc::get_mut(block)) {
                entries[from + offset] = new;
                return false;
            }
            bring(block.iter().map(|entry| &entry.value));
            let at = from + found.unwrap_or(0);
            let rest = &block[at + usize::from(!is_new)..];
            *block = block[..at]
                .iter()
                .cloned()
                .chain([new])
                .chain(rest.iter().cloned())
                .collect();
            if block.len() > BLOCK_MAX && depth < 64 / BITS {
                *branch = split(block, depth);
            }
            is_new
        }
    }
}

fn split<T>(block: &[Entry<T>], depth: u32) -> Branch<T> {
    let mut rest = block;
    Branch::Fork(Arc::new(std::array::from_fn(|at| {
        let (here, behind) = rest.split_at(rest.partition_point(|entry| way(entry.hash, depth) <= at));
        rest = behind;
        Branch::Block(here.into())
    })))
}

fn remove<T: Keyed>(branch: &mut Branch<T>, depth: u32, hash: u64, key: &[u8]) -> bool {
    match branch {
        Branch::Block(block) => {
            let Some(at) = block.iter().position(|entry| entry.hash == hash && entry.value.is(key)) else {
                return false;
            };
            *block = block
                .iter()
                .enumerate()
                .filter(|&(i, _)| i != at)
                .map(|(_, entry)| entry.clone())
                .collect();
            true
        }
        Branch::Fork(fork) => {
            let removed = remove(&mut own(fork)[way(hash, depth)], depth + 1, hash, key);
            if removed && let Some(block) = joined(fork) {
                *branch = Branch::Block(block);
            }
            removed
        }
    }
}

/// The children of a fork as one block, where they are blocks and few enough. Half a block leaves room, so that a
/// name that comes and goes at the border does not split and join each time.
fn joined<T>(fork: &[Branch<T>; WAYS]) -> Option<Arc<[Entry<T>]>> {
    let mut len = 0;
    for child in fork {
        let Branch::Block(block) = child else { return None };
        len += block.len();
        if len > BLOCK_MAX / 2 {
            return None;
        }
    }
    let blocks = fork.iter().filter_map(|child| match child {
        Branch::Block(block) => Some(block),
        Branch::Fork(_) => None,
    });
    Some(blocks.flat_map(|block| block.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Word(Vec<u8>, u32);

    impl Keyed for Word {
        fn key(&self) -> &[u8] {
            &self.0
        }
    }

    fn word(i: u32) -> Vec<u8> {
        format!("svc-{i}").into_bytes()
    }

    #[test]
    fn holds_what_was_put_and_nothing_else() {
        let hash = NameHash::new(7);
        let mut trie = Trie::default();
        for i in 0..20_000 {
            trie.insert(hash.of(&word(i)), Arc::new(Word(word(i), i)));
        }
        assert_eq!(trie.len(), 20_000);
        assert_eq!(trie.iter().count(), 20_000);
        for i in 0..20_000 {
            assert_eq!(trie.get(hash.of(&word(i)), &word(i)).map(|w| w.1), Some(i));
        }
        for i in 20_000..30_000 {
            assert!(trie.get(hash.of(&word(i)), &word(i)).is_none());
        }
    }

    #[test]
    fn a_walk_goes_on_where_it_stopped() {
        let hash = NameHash::new(7);
        let mut trie = Trie::default();
        for i in 0..3000 {
            // Some of one hash, among them the least and the greatest.
            let at = match i % 100 {
                0 => 0,
                1 => u64::MAX,
                2 => 42,
                _ => hash.of(&word(i)),
            };
            trie.insert(at, Arc::new(Word(word(i), i)));
        }
        let all: Vec<u32> = trie.iter().map(|word| word.1).collect();
        let places: Vec<Place> = trie.iter_from(Place::default()).map(|(place, _)| place).collect();
        assert_eq!(all.len(), 3000);
        for (at, place) in places.iter().enumerate() {
            let rest = trie.iter_from(*place).take(2).map(|(place, word)| (place, word.1));
            let expected = places[at..].iter().copied().zip(all[at..].iter().copied()).take(2);
            assert!(rest.eq(expected), "{at}");
        }
        assert!(trie.iter_from(Place::END).next().is_none());
    }

    #[test]
    fn an_old_version_does_not_see_what_came_later() {
        let hash = NameHash::new(7);
        let mut trie = Trie::default();
        for i in 0..1000 {
            trie.insert(hash.of(&word(i)), Arc::new(Word(word(i), i)));
        }
        let old = trie.clone();
        trie.insert(hash.of(&word(5)), Arc::new(Word(word(5), 99)));
        trie.remove(hash.of(&word(6)), &word(6));
        assert_eq!(old.get(hash.of(&word(5)), &word(5)).map(|w| w.1), Some(5));
        assert!(old.get(hash.of(&word(6)), &word(6)).is_some());
        assert_eq!(trie.get(hash.of(&word(5)), &word(5)).map(|w| w.1), Some(99));
        assert_eq!((old.len(), trie.len()), (1000, 999));
    }

    #[test]
    fn shrinks_back_to_one_block() {
        let hash = NameHash::new(1);
        let mut trie = Trie::default();
        for i in 0..5000 {
            trie.insert(hash.of(&word(i)), Arc::new(Word(word(i), i)));
        }
        for i in 10..5000 {
            trie.remove(hash.of(&word(i)), &word(i));
        }
        assert_eq!(trie.len(), 10);
        assert!(matches!(trie.root, Branch::Block(_)));
    }

    #[test]
    fn equal_hashes_stand_side_by_side() {
        let mut trie = Trie::default();
        for i in 0..200 {
            trie.insert(42, Arc::new(Word(word(i), i)));
        }
        assert_eq!(trie.len(), 200);
        for i in 0..200 {
            assert_eq!(trie.get(42, &word(i)).map(|w| w.1), Some(i));
        }
        trie.remove(42, &word(3));
        assert!(trie.get(42, &word(3)).is_none());
    }
}
