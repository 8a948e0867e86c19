//! The cache: one slab for all workers and server blocks, bounded in bytes.
//!
//! ```text
//!   hash of a key ── low bits ──> set: tags ── the same 16 bits ──> slot ──> entry: head, name, bytes
//!
//!   sets in use   0 1 2 3 ... n-1 | not in use, memory that was never touched
//!                     └── fills ──> n takes half of the entries of one set (linear hashing), until all are in use
//! ```
//!
//! A reader copies an entry out under the sequence lock of its set, without a lock, an allocation or, for an entry that
//! is used often, a write. A writer locks one set, and what it does there is bounded by the size of the set. Who has to
//! make room is decided within the set: what is of no use any more, then what SIEVE names, so that names which are
//! asked for once pass through without hurting those that are used. A key that falls into a crowded set, by chance or by
//! design, costs hit ratio, never time.
//!
//! Who finds a set locked waits for as long as a change takes. If that is not enough, the one who changes it is off its core, and
//! what was to be stored is put aside (`late`).
//!
//! An entry too large for a set is kept in parts, each with a hash of its own; where one is gone, all are.

mod blocks;
mod entry;
pub mod flight;
mod late;
pub mod rules;
mod set;
mod settings;
#[cfg(test)]
mod tests;

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use zerocopy::FromZeros as _;

use crate::time::Instant;
use blocks::{Blocks, Table};
use entry::{Record, Slot, Wanted, words_taken};
use late::Late;
use set::{LOCK_TRIES, Locked, Read, Set, Shape, Slots};

pub use blocks::Block;
pub use entry::{Found, Key, Kind, New};
pub use late::{LATE_BYTES_MAX, LATE_MAX};
pub use settings::{Bounds, Prefetch, Settings, Stale, StaleRefresh};

/// Most bytes of one entry: a message.
pub const BYTES_MAX: usize = 65_535;
/// The smallest slab: an entry of [`BYTES_MAX`] fits beside others.
pub const SIZE_MIN: usize = 1 << 20;
/// Sets that are in use at once, so that few workers meet in one.
const SETS_MIN: usize = 32;
/// A set has at least so many bytes, and less than twice as many.
const SET_BYTES_MIN: usize = 6 << 10;
/// A cache line; sets begin on one.
const LINE_WORDS: usize = 8;
/// How often a reader looks again, where a set is just being changed, before it counts as a miss.
const READ_TRIES: usize = 512;
/// How often one insert that finds no room has another set put to use.
const GROWTHS_MAX: usize = 16;
/// How many of the entries that were put aside are stored by one insert or miss.
const LATE_AT_ONCE: usize = 4;
/// How many sets are searched for an entry of a block that has too many.
const PROBES_MAX: usize = 16;

/// What became of an entry that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is there.
    Yes,
    /// A failure that found an answer in its place, which stays.
    Kept,
    /// Its block has as many entries as it may, and none of them was found to go.
    Full,
    /// Its block is gone.
    Retired,
    /// More than [`BYTES_MAX`].
    Long,
    /// Others were changing its set for too long: it is put aside, and stored soon.
    Later,
    /// The same, and there was no room to put it aside.
    Busy,
}

/// Whether an entry is new, or was put aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    AtOnce,
    Late,
}

/// What the cache has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that it may take at most.
    pub bytes_max: usize,
    /// Bytes of the sets in use.
    pub bytes: usize,
    /// Entries that made room while they were of use.
    pub evicted: u64,
    /// Entries that made room when they were of no use any more.
    pub expired: u64,
    /// Look-ups that took an entry for missing, and entries that were not stored, since others were changing its set.
    pub busy: u64,
    /// Look-ups that found an entry without one of its parts.
    pub incomplete: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Cache {
    words: Vec<AtomicU64>,
    /// Where the first set begins in `words`.
    begin: usize,
    shape: Shape,
    /// Sets in use, from [`SETS_MIN`] to `sets_max`.
    sets: AtomicUsize,
    /// A power of two.
    sets_max: usize,
    blocks: Blocks,
    /// The number of the next entry in parts.
    numbers: AtomicU64,
    /// Where the next search for an entry of a full block begins.
    cursor: AtomicUsize,
    late: Late,
    evicted: AtomicU64,
    expired: AtomicU64,
    busy: AtomicU64,
    incomplete: AtomicU64,
}

impl Cache {
    /// A cache of so many bytes, at least [`SIZE_MIN`], all told. The memory is reserved, and taken as it fills.
    ///
    /// # Panics
    /// The address space is exhausted.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let words = (bytes.max(SIZE_MIN) - LATE_MAX * LATE_BYTES_MAX) / 8;
        let usable = words - LINE_WORDS;
        // A power of two, so that all sets have as many keys when all are in use.
        let sets_max = 1 << (usable * 8 / SET_BYTES_MIN).ilog2();
        let set_words = usable / sets_max / LINE_WORDS * LINE_WORDS;
        let words = AtomicU64::new_vec_zeroed(words).expect("address space");
        let address = words.as_ptr().addr();
        Self {
            begin: address.next_multiple_of(LINE_WORDS * 8).wrapping_sub(address) / 8,
            words,
            shape: Shape::new(set_words),
            sets: AtomicUsize::new(SETS_MIN),
            sets_max,
            blocks: Blocks::default(),
            numbers: AtomicU64::new(1),
            cursor: AtomicUsize::new(0),
            late: Late::default(),
            evicted: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            incomplete: AtomicU64::new(0),
        }
    }

    /// A number for a block, and its counters.
    pub fn open(&self) -> Arc<Block> {
        self.blocks.open()
    }

    /// Has all entries of a block go, those first that are in the way. Its number must not be asked for any more.
    pub fn retire(&self, block: u32) {
        self.blocks.retire(block);
    }

    /// What the cache has come to.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            bytes_max: self.words.len() * 8 + LATE_MAX * LATE_BYTES_MAX,
            bytes: self.sets.load(Ordering::Relaxed) * self.shape.words * 8,
            evicted: load(&self.evicted),
            expired: load(&self.expired),
            busy: load(&self.busy),
            incomplete: load(&self.incomplete),
        }
    }

    /// Reads the cache line that a look-up of this hash needs first, so that the look-ups of a batch wait for memory
    /// together.
    #[inline]
    pub fn touch(&self, hash: u64) {
        self.set(self.index(hash)).touch();
    }

    /// After [`touch`](Self::touch), the line that is needed next.
    #[inline]
    pub fn touch_entry(&self, hash: u64) {
        self.set(self.index(hash)).touch_entry(hash);
    }

    /// Copies an entry into `out`, which is otherwise empty. `pick` is given what is there under the key, success and
    /// denial, and chooses; it may be called several times, and with what is not so.
    #[inline]
    pub fn get(
        &self,
        hash: u64,
        key: &Key<'_>,
        out: &mut Vec<u8>,
        pick: impl Fn(Option<&Found>, Option<&Found>) -> Option<Kind>,
    ) -> Option<Found> {
        let found = self.look_up(hash, key, out, &pick);
        if found.is_some() || self.late.is_empty() {
            return found;
        }
        self.store_late();
        self.look_up(hash, key, out, pick)
    }

    fn look_up(
        &self,
        hash: u64,
        key: &Key<'_>,
        out: &mut Vec<u8>,
        pick: impl Fn(Option<&Found>, Option<&Found>) -> Option<Kind>,
    ) -> Option<Found> {
        let wanted = Wanted::new(hash, key);
        let (found, split) = self.read(hash, |set| {
            out.clear();
            let (mut success, mut denial) = (None, None);
            set.find(&wanted, |seen| {
                let place = match seen.slot.kind() {
                    Kind::Success => &mut success,
                    Kind::Denial => &mut denial,
                };
                *place = Some((seen, seen.slot.found(seen.words)));
            });
            let found = |of: &Option<_>| of.as_ref().map(|(_, found)| *found);
            let chosen = match pick(found(&success).as_ref(), found(&denial).as_ref())? {
                Kind::Success => success,
                Kind::Denial => denial,
            };
            let (seen, found) = chosen?;
            seen.slot.copy(seen.words, out);
            Some((seen.at, (found, seen.slot.split(seen.words))))
        })?;
        if let Some((number, len)) = split
            && !self.gather(hash, key.block, found.kind, number, len, out)
        {
            self.incomplete.fetch_add(1, Ordering::Relaxed);
            out.clear();
            return None;
        }
        Some(found)
    }

    /// Appends the parts of an entry to its first bytes.
    #[cold]
    fn gather(&self, hash: u64, block: u32, kind: Kind, number: u64, len: usize, out: &mut Vec<u8>) -> bool {
        let mut place = 0;
        while out.len() < len {
            let hash = part_hash(hash, kind, place);
            let wanted = Wanted::part(hash, block, place, Some(number));
            let begin = out.len();
            let read = self.read(hash, |set| {
                out.truncate(begin);
                let mut at = None;
                set.find(&wanted, |seen| {
                    out.truncate(begin);
                    seen.slot.copy(seen.words, out);
                    at = Some(seen.at);
                });
                Some((at?, ()))
            });
            if read.is_none() || out.len() == begin {
                return false;
            }
            place += 1;
        }
        out.len() == len
    }

    /// Has `reader` look into the set of a hash until it saw one version of it. What it gives is a slot, which counts
    /// as used then, and what it saw there.
    #[inline]
    fn read<T>(&self, hash: u64, mut reader: impl FnMut(&Set<'_>) -> Option<(usize, T)>) -> Option<T> {
        for _ in 0..READ_TRIES {
            let index = self.index(hash);
            let set = self.set(index);
            match set.read(&mut reader) {
                Read::Done(Some((at, seen))) => {
                    set.visit(at);
                    return Some(seen);
                }
                Read::Done(None) if self.index(hash) == index => return None,
                // It may have moved to a set that was put to use meanwhile.
                Read::Done(None) => {}
                Read::Busy => spin_loop(),
            }
        }
        self.busy.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Stores an entry in the place of the one with the same key and kind; a success takes the place of a denial too.
    pub fn insert(&self, hash: u64, key: &Key<'_>, new: &New<'_>, now: Instant) -> Stored {
        if !self.late.is_empty() {
            self.store_late();
        }
        match self.store(hash, key, new, now, When::AtOnce) {
            Stored::Busy => self.put_aside(late::Entry::new(hash, key, new, now)),
            stored => stored,
        }
    }

    /// Has an entry wait for its set, if there is room for one that waits.
    #[cold]
    fn put_aside(&self, entry: Option<late::Entry>) -> Stored {
        if entry.is_some_and(|entry| self.late.put(entry)) {
            return Stored::Later;
        }
        self.busy.fetch_add(1, Ordering::Relaxed);
        Stored::Busy
    }

    /// Stores entries that were put aside, as far as their sets are free now.
    #[cold]
    fn store_late(&self) {
        for _ in 0..LATE_AT_ONCE {
            let Some(entry) = self.late.take() else { return };
            if self.store(entry.hash, &entry.key(), &entry.to_store(), entry.now, When::Late) == Stored::Busy {
                self.put_aside(Some(entry));
                return;
            }
        }
    }

    fn store(&self, hash: u64, key: &Key<'_>, new: &New<'_>, now: Instant, when: When) -> Stored {
        if new.bytes.len() > BYTES_MAX {
            return Stored::Long;
        }
        let blocks = self.blocks.load();
        let Some(block) = blocks::get(&blocks, key.block).filter(|block| !block.is_retired()) else {
            return Stored::Retired;
        };
        let words_max = self.shape.entry_words_max();
        let mut record = if words_taken(key.name.len(), new.bytes.len(), false) <= words_max {
            Record::new(hash, key, new, now, None)
        } else {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let first = (words_max - words_taken(key.name.len(), 0, true)) * 8;
            let record = Record::new(hash, key, new, now, Some((number, first)));
            let part_max = (words_max - words_taken(0, 0, false)) * 8;
            for (place, bytes) in new.bytes[first..].chunks(part_max).enumerate() {
                let hash = part_hash(hash, new.kind, place);
                let mut part = record.part(hash, number, place, bytes);
                let whose = Wanted::part(hash, key.block, place, None);
                let stored = self.place(&blocks, &mut part, &whose, now, (when, false));
                if stored != Stored::Yes {
                    return stored;
                }
            }
            record
        };
        let is_over = block.reserve(new.kind, new.entries_max);
        let stored = self.place(&blocks, &mut record, &Wanted::new(hash, key), now, (when, is_over));
        match stored {
            Stored::Yes => block.count_insert(new.kind),
            Stored::Full => {
                block.release(new.kind);
                block.count_refused(new.kind);
            }
            _ => block.release(new.kind),
        }
        stored
    }

    fn place(
        &self,
        blocks: &Table,
        record: &mut Record<'_>,
        wanted: &Wanted<'_>,
        stored_at: Instant,
        (when, mut is_over): (When, bool),
    ) -> Stored {
        let now = entry::secs(stored_at);
        let tries = match when {
            When::AtOnce => LOCK_TRIES,
            When::Late => 1,
        };
        let mut growths = 0;
        loop {
            let Some(mut set) = self.lock(wanted.hash, tries) else {
                return Stored::Busy;
            };
            let slot = record.slot();
            let (mut replaced, mut is_kept, mut is_known) = (0, false, false);
            set.find(wanted, |seen| {
                // What was learned since is truer.
                is_kept |= when == When::Late && seen.slot.found(seen.words).stored_at > stored_at;
                if slot.kind() == Kind::Denial && seen.slot.kind() == Kind::Success {
                    return;
                }
                let may_go = !slot.is_failure() || seen.slot.is_failure() || seen.slot.gone_at <= now;
                is_kept |= !may_go;
                is_known |= seen.slot.kind() == slot.kind();
                replaced |= 1 << seen.at;
                record.inherit(&seen.slot, seen.words);
            });
            if is_kept {
                return Stored::Kept;
            }
            let mut evicted = 0;
            if is_over && !is_known {
                let among = among(&set, &slot, replaced);
                if let Some(at) = oldest(&mut set, among, now) {
                    evicted = 1 << at;
                } else {
                    drop(set);
                    if !self.make_way(blocks, &slot, now) {
                        return Stored::Full;
                    }
                    is_over = false;
                    continue;
                }
            }
            let len = slot.len;
            let mut gone: Slots = replaced | evicted;
            if !set.has_room(len, gone) {
                let is_gone = |slot: &Slot| slot.gone_at <= now || blocks::is_retired(blocks, slot.block);
                gone |= slots(&set, is_gone);
                if !set.has_room(len, gone) {
                    if growths < GROWTHS_MAX && self.may_grow() {
                        drop(set);
                        self.grow();
                        growths += 1;
                        continue;
                    }
                    set.evict(len, &mut gone);
                }
            }
            for (at, slot) in set.slots().filter(|(at, _)| gone >> at & 1 == 1) {
                let is_replaced = replaced >> at & 1 == 1;
                self.forget(blocks, &slot, now, is_replaced);
            }
            set.remove(gone);
            set.append(record, replaced != 0);
            let is_filling = set.is_filling();
            drop(set);
            if is_filling && self.may_grow() {
                self.grow();
            }
            return Stored::Yes;
        }
    }

    /// Has an entry of the same block and kind go, wherever one is found.
    fn make_way(&self, blocks: &Table, slot: &Slot, now: u32) -> bool {
        for _ in 0..PROBES_MAX {
            let index = self.cursor.fetch_add(1, Ordering::Relaxed) % self.sets.load(Ordering::Acquire);
            let Some(mut set) = self.set(index).lock(LOCK_TRIES) else {
                continue;
            };
            let among = among(&set, slot, 0);
            if let Some(at) = oldest(&mut set, among, now) {
                if let Some((_, slot)) = set.slots().nth(at) {
                    self.forget(blocks, &slot, now, false);
                }
                set.remove(1 << at);
                return true;
            }
        }
        false
    }

    /// Counts an entry that is no more.
    fn forget(&self, blocks: &Table, slot: &Slot, now: u32, is_replaced: bool) {
        let is_expired = slot.gone_at <= now || blocks::is_retired(blocks, slot.block);
        let was_of_use = !is_replaced && !is_expired;
        blocks::forget(blocks, slot, was_of_use);
        if was_of_use {
            self.evicted.fetch_add(1, Ordering::Relaxed);
        } else if !is_replaced {
            self.expired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes an entry.
    pub fn remove(&self, hash: u64, key: &Key<'_>, kind: Kind) {
        let Some((mut set, at)) = self.locate(hash, key, kind) else {
            return;
        };
        if let Some((_, slot)) = set.slots().nth(at) {
            blocks::forget(&self.blocks.load(), &slot, false);
        }
        set.remove(1 << at);
    }

    /// Notes a hit: so many there were, and this is the last one. It gives up where others change the set, so that a
    /// hit never waits.
    pub fn count_hit(&self, hash: u64, key: &Key<'_>, kind: Kind, hits: u16, now: Instant) {
        if let Some((mut set, at)) = self.locate(hash, key, kind) {
            set.update(at, |slot, used| {
                slot.hits = hits;
                *used = *used & 0xffff_ffff | u64::from(entry::ticks(now)) << 32;
            });
        }
    }

    /// Has an entry not be asked for anew before `until`.
    pub fn retry_at(&self, hash: u64, key: &Key<'_>, kind: Kind, until: Instant) {
        if let Some((mut set, at)) = self.locate(hash, key, kind) {
            set.update(at, |_, used| *used = *used >> 32 << 32 | u64::from(entry::ticks(until)));
        }
    }

    fn locate(&self, hash: u64, key: &Key<'_>, kind: Kind) -> Option<(Locked<'_>, usize)> {
        let set = self.lock(hash, LOCK_TRIES)?;
        let mut found = None;
        set.find(&Wanted::new(hash, key), |seen| {
            if seen.slot.kind() == kind {
                found = Some(seen.at);
            }
        });
        Some((set, found?))
    }

    /// The set of a hash, locked.
    fn lock(&self, hash: u64, tries: usize) -> Option<Locked<'_>> {
        loop {
            let index = self.index(hash);
            let set = self.set(index).lock(tries)?;
            // A set that was put to use meanwhile may have taken the hash over.
            if self.index(hash) == index {
                return Some(set);
            }
        }
    }

    fn may_grow(&self) -> bool {
        self.sets.load(Ordering::Relaxed) < self.sets_max
    }

    /// Puts one more set to use: it takes, from the one set that stands for it until now, the entries whose hash names
    /// it.
    fn grow(&self) {
        let sets = self.sets.load(Ordering::Acquire);
        if sets >= self.sets_max {
            return;
        }
        let bit = sets.ilog2();
        let Some(mut from) = self.set(sets - (1 << bit)).lock(LOCK_TRIES) else {
            return;
        };
        if self.sets.load(Ordering::Acquire) != sets {
            return;
        }
        let Some(mut to) = self.set(sets).lock(LOCK_TRIES) else {
            return;
        };
        from.split(bit, &mut to);
        drop(to);
        self.sets.store(sets + 1, Ordering::Release);
    }

    #[inline]
    fn index(&self, hash: u64) -> usize {
        let sets = self.sets.load(Ordering::Acquire);
        let mask = sets.next_power_of_two() - 1;
        let index = hash as usize & mask;
        if index < sets { index } else { index & mask >> 1 }
    }

    #[inline]
    fn set(&self, index: usize) -> Set<'_> {
        let begin = self.begin + index * self.shape.words;
        Set::new(&self.words[begin..begin + self.shape.words], &self.shape)
    }
}

/// The slots that hold for.
fn slots(set: &Locked<'_>, holds: impl Fn(&Slot) -> bool) -> Slots {
    let those = set.slots().filter(|(_, slot)| holds(slot));
    those.fold(0, |slots, (at, _)| slots | 1 << at)
}

/// The entries that count with this one, without some.
fn among(set: &Locked<'_>, slot: &Slot, without: Slots) -> Slots {
    slots(set, |other| {
        other.block == slot.block && other.counted() == slot.counted()
    }) & !without
}

/// Who of some goes first.
fn oldest(set: &mut Locked<'_>, among: Slots, now: u32) -> Option<usize> {
    let gone = slots(set, |slot| slot.gone_at <= now) & among;
    set.oldest(if gone == 0 { among } else { gone })
}

/// Where a part of an entry stands.
fn part_hash(hash: u64, kind: Kind, place: usize) -> u64 {
    let place = (place as u64 + 1) << 1 | kind as u64;
    let mixed = (hash ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}
