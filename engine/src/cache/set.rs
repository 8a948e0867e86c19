//! One set of the cache: a page of entries that only its own lock changes, and that anybody may read meanwhile.
//!
//! ```text
//!   seq | state | visited 2 | tags, 4 a word | slots, oldest first ... -> free <- ... third | second | first entry
//! ```
//!
//! Entries lie without gaps in the order of their slots, so a removal moves those behind it and nothing is ever
//! fragmented. `seq` is odd while the set is being changed: a reader copies what it finds and believes it only if
//! `seq` was even and stayed the same. All words are atomic, so a reader may see words of two versions, but never
//! undefined ones, and everything it takes from them is checked before it is used.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::entry::{Record, Slot, Wanted};

const SEQ: usize = 0;
const STATE: usize = 1;
const VISITED: usize = 2;
const TAGS: usize = 4;
/// Words of one slot.
const SLOT_WORDS: usize = 2;
/// Most slots of one set: one bit of `visited` for each.
const SLOTS_MAX: usize = 128;
/// How often a lock is tried before it is given up: longer than any holder takes that is not off its core.
pub(super) const LOCK_TRIES: usize = 512;

/// How the words of each set are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Words of a set, at most 2,048.
    pub(super) words: usize,
    slots_max: usize,
    slots_at: usize,
}

impl Shape {
    /// The layout of sets of so many words.
    pub(super) const fn new(words: usize) -> Self {
        // A slot for every 128 bytes: no entry of a usual reply is smaller.
        let slots_max = words / 16 / 4 * 4;
        let slots_max = if slots_max < SLOTS_MAX { slots_max } else { SLOTS_MAX };
        Self {
            words,
            slots_max,
            slots_at: TAGS + slots_max / 4,
        }
    }

    /// Most words of one entry: some fit beside each other.
    pub(super) const fn entry_words_max(&self) -> usize {
        self.words / 4
    }
}

/// A set, to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set<'c> {
    words: &'c [AtomicU64],
    shape: &'c Shape,
}

/// What reading a set came to.
#[derive(Debug)]
pub(super) enum Read<T> {
    /// What the reader made of it, seen in one version of the set.
    Done(T),
    /// The set was being changed.
    Busy,
}

/// An entry as a reader found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'c> {
    pub(super) at: usize,
    pub(super) slot: Slot,
    /// All its words.
    pub(super) words: &'c [AtomicU64],
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Entries.
    count: usize,
    /// Words of all entries.
    used: usize,
    /// The slot at which the search for the next victim begins.
    hand: usize,
}

impl State {
    #[inline]
    fn unpack(word: u64) -> Self {
        Self {
            count: (word & 0xff) as usize,
            used: (word >> 8 & 0xffff) as usize,
            hand: (word >> 24 & 0xff) as usize,
        }
    }

    fn pack(self) -> u64 {
        self.count as u64 | (self.used as u64) << 8 | (self.hand as u64) << 24
    }
}

/// Four times the same 16 bits.
const fn splat(tag: u16) -> u64 {
    tag as u64 * 0x0001_0001_0001_0001
}

#[inline]
fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16
}

impl<'c> Set<'c> {
    pub(super) fn new(words: &'c [AtomicU64], shape: &'c Shape) -> Self {
        Self { words, shape }
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Reads the cache line that a look-up needs first.
    #[inline]
    pub(super) fn touch(&self) {
        std::hint::black_box(self.load(STATE));
    }

    /// Reads the first line of the entry with this hash, if there seems to be one.
    #[inline]
    pub(super) fn touch_entry(&self, hash: u64) {
        self.each_tagged(tag_of(hash), |at| {
            std::hint::black_box(self.load(self.slot(at).at));
        });
    }

    /// Calls `reader` and gives what it made, unless the set was changed meanwhile.
    #[inline]
    pub(super) fn read<T>(&self, reader: impl FnOnce(&Self) -> T) -> Read<T> {
        let seq = self.words[SEQ].load(Ordering::Acquire);
        if seq & 1 == 1 {
            return Read::Busy;
        }
        let made = reader(self);
        // With the writer's release fence: who saw a word of a change sees `seq` changed as well.
        fence(Ordering::Acquire);
        if self.words[SEQ].load(Ordering::Relaxed) == seq {
            Read::Done(made)
        } else {
            Read::Busy
        }
    }

    /// Calls `each` with every entry that has the wanted key, of either kind.
    #[inline]
    pub(super) fn find(&self, wanted: &Wanted<'_>, mut each: impl FnMut(Seen<'c>)) {
        self.each_tagged(tag_of(wanted.hash), |at| {
            let slot = self.slot(at);
            let Some(words) = self.words.get(slot.at..slot.at + slot.len) else {
                return;
            };
            if wanted.is(&slot, words) {
                each(Seen { at, slot, words });
            }
        });
    }

    #[inline]
    fn each_tagged(&self, tag: u16, mut each: impl FnMut(usize)) {
        const LOWEST: u64 = splat(1);
        const HIGHEST: u64 = splat(0x8000);
        let count = State::unpack(self.load(STATE)).count;
        for word in 0..count.div_ceil(4) {
            let unlike = self.load(TAGS + word) ^ splat(tag);
            // The highest bit of each 16 that are zero; now and then of others too, which are compared in full.
            let mut like = unlike.wrapping_sub(LOWEST) & !unlike & HIGHEST;
            while like != 0 {
                let at = word * 4 + like.trailing_zeros() as usize / 16;
                like &= like - 1;
                if at < count {
                    each(at);
                }
            }
        }
    }

    #[inline]
    fn slot(&self, at: usize) -> Slot {
        let word = self.shape.slots_at + at * SLOT_WORDS;
        Slot::unpack(self.load(word), self.load(word + 1))
    }

    /// Notes that the entry of a slot was used. The note may fall on another that took the place just now.
    #[inline]
    pub(super) fn visit(&self, at: usize) {
        let (word, bit) = (VISITED + at / 64, 1 << (at % 64));
        // A hot entry is marked already, and then its line stays with all who read it.
        if self.load(word) & bit == 0 {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Begins a change; `None` where others are at it for so many tries.
    pub(super) fn lock(self, tries: usize) -> Option<Locked<'c>> {
        for _ in 0..tries {
            let seq = self.words[SEQ].load(Ordering::Relaxed);
            if seq & 1 == 0
                && self.words[SEQ]
                    .compare_exchange(seq, seq + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                fence(Ordering::Release);
                return Some(Locked { set: self, seq });
            }
            spin_loop();
        }
        None
    }
}

/// A set that this thread alone changes, until it lets go.
#[derive(Debug)]
pub(super) struct Locked<'c> {
    set: Set<'c>,
    seq: u64,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.set.words[SEQ].store(self.seq + 2, Ordering::Release);
    }
}

/// Slots by number, one bit each.
pub(super) type Slots = u128;

impl Locked<'_> {
    fn store(&mut self, at: usize, word: u64) {
        self.set.words[at].store(word, Ordering::Relaxed);
    }

    fn state(&self) -> State {
        State::unpack(self.set.load(STATE))
    }

    fn visited(&self) -> Slots {
        Slots::from(self.set.load(VISITED)) | Slots::from(self.set.load(VISITED + 1)) << 64
    }

    fn set_visited(&mut self, visited: Slots) {
        self.store(VISITED, visited as u64);
        self.store(VISITED + 1, (visited >> 64) as u64);
    }

    fn set_slot(&mut self, at: usize, slot: &Slot) {
        let [first, second] = slot.pack();
        let word = self.set.shape.slots_at + at * SLOT_WORDS;
        self.store(word, first);
        self.store(word + 1, second);
    }

    fn set_tag(&mut self, at: usize, tag: u16) {
        let (word, shift) = (TAGS + at / 4, at % 4 * 16);
        let others = self.set.load(word) & !(0xffff << shift);
        self.store(word, others | u64::from(tag) << shift);
    }

    fn tag(&self, at: usize) -> u16 {
        (self.set.load(TAGS + at / 4) >> (at % 4 * 16)) as u16
    }

    /// The slots, oldest first.
    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, Slot)> {
        let set = self.set;
        (0..self.state().count).map(move |at| (at, set.slot(at)))
    }

    /// The entries with the wanted key.
    pub(super) fn find(&self, wanted: &Wanted<'_>, each: impl FnMut(Seen<'_>)) {
        self.set.find(wanted, each);
    }

    /// Whether the entry of a slot was used since it was last asked for.
    pub(super) fn is_visited(&self, at: usize) -> bool {
        self.visited() >> at & 1 == 1
    }

    /// Whether so many words would fit once the slots of `gone` are empty.
    pub(super) fn has_room(&self, words: usize, gone: Slots) -> bool {
        let freed: usize = self.of(gone).map(|slot| slot.len + SLOT_WORDS).sum();
        self.fits(words, gone.count_ones() as usize, freed)
    }

    fn of(&self, slots: Slots) -> impl Iterator<Item = Slot> {
        self.slots()
            .filter(move |(at, _)| slots >> at & 1 == 1)
            .map(|(_, slot)| slot)
    }

    fn fits(&self, words: usize, slots_freed: usize, freed: usize) -> bool {
        let State { count, used, .. } = self.state();
        let taken = self.set.shape.slots_at + count * SLOT_WORDS + used;
        count - slots_freed < self.set.shape.slots_max && taken + words + SLOT_WORDS <= self.set.shape.words + freed
    }

    /// Whether less than a quarter of the set is free.
    pub(super) fn is_filling(&self) -> bool {
        !self.fits(self.set.shape.words / 4, 0, 0) || self.state().count > self.set.shape.slots_max / 4 * 3
    }

    /// Adds to `gone` what has to go until so many words fit: SIEVE, for which a hand goes from the oldest entry to
    /// the newest, takes what was not used since it last came by, and begins again behind the newest.
    pub(super) fn evict(&mut self, words: usize, gone: &mut Slots) {
        let State { count, hand, .. } = self.state();
        let mut visited = self.visited();
        let mut freed: usize = self.of(*gone).map(|slot| slot.len + SLOT_WORDS).sum();
        let mut at = hand;
        // Two rounds at most: after the first nothing is marked as used any more.
        for _ in 0..2 * count {
            if self.fits(words, gone.count_ones() as usize, freed) {
                break;
            }
            if at >= count {
                at = 0;
            }
            let bit = 1 << at;
            if visited & bit != 0 {
                visited &= !bit;
            } else if *gone & bit == 0 {
                *gone |= bit;
                freed += self.set.slot(at).len + SLOT_WORDS;
            }
            at += 1;
        }
        self.set_visited(visited);
        self.set_hand(at);
    }

    /// The oldest slot of some that was not used lately. Where all were, they are so no more.
    pub(super) fn oldest(&mut self, among: Slots) -> Option<usize> {
        if among == 0 {
            return None;
        }
        let visited = self.visited();
        let unused = among & !visited;
        if unused != 0 {
            return Some(unused.trailing_zeros() as usize);
        }
        self.set_visited(visited & !among);
        Some(among.trailing_zeros() as usize)
    }

    fn set_hand(&mut self, hand: usize) {
        let state = State { hand, ..self.state() };
        self.store(STATE, state.pack());
    }

    /// Empties slots, and closes the gaps in one pass.
    pub(super) fn remove(&mut self, gone: Slots) {
        if gone == 0 {
            return;
        }
        let State { count, hand, .. } = self.state();
        let visited = self.visited();
        let mut still_visited = 0;
        let (mut to, mut used) = (0, 0);
        for from in 0..count {
            if gone >> from & 1 == 1 {
                continue;
            }
            let mut slot = self.set.slot(from);
            used += slot.len;
            let at = self.set.shape.words - used;
            if at != slot.at {
                // Towards higher words, so from the last one down.
                for word in (0..slot.len).rev() {
                    self.store(at + word, self.set.load(slot.at + word));
                }
                slot.at = at;
            }
            self.set_slot(to, &slot);
            self.set_tag(to, self.tag(from));
            still_visited |= (visited >> from & 1) << to;
            to += 1;
        }
        let before_hand = gone & (1_u128.checked_shl(hand as u32).unwrap_or(0).wrapping_sub(1));
        let hand = hand - before_hand.count_ones() as usize;
        self.set_visited(still_visited);
        self.store(STATE, State { count: to, used, hand }.pack());
    }

    /// Places an entry behind all others. There must be room.
    pub(super) fn append(&mut self, record: &Record<'_>, visited: bool) {
        let at = self.open(record.slot(), tag_of(record.hash()), visited);
        for (at, word) in (at..).zip(record.words()) {
            self.store(at, word);
        }
    }

    /// Makes the newest slot; returns where its words stand.
    fn open(&mut self, mut slot: Slot, tag: u16, visited: bool) -> usize {
        let State { count, used, hand } = self.state();
        let used = used + slot.len;
        slot.at = self.set.shape.words - used;
        self.set_slot(count, &slot);
        self.set_tag(count, tag);
        let bit = 1 << count;
        let others = self.visited() & !bit;
        self.set_visited(if visited { others | bit } else { others });
        let count = count + 1;
        self.store(STATE, State { count, used, hand }.pack());
        slot.at
    }

    /// Moves all entries whose hash has this bit to another set, in their order.
    pub(super) fn split(&mut self, bit: u32, other: &mut Locked<'_>) {
        let mut moved = 0;
        for (at, slot) in self.slots() {
            if self.set.load(slot.at) >> bit & 1 == 0 {
                continue;
            }
            let to = other.open(slot, self.tag(at), self.is_visited(at));
            for word in 0..slot.len {
                other.store(to + word, self.set.load(slot.at + word));
            }
            moved |= 1 << at;
        }
        self.remove(moved);
    }

    /// Changes what is known of an entry beside its bytes.
    pub(super) fn update(&mut self, at: usize, change: impl FnOnce(&mut Slot, &mut u64)) {
        let mut slot = self.set.slot(at);
        let use_at = slot.at + super::entry::USE;
        let mut used = self.set.load(use_at);
        change(&mut slot, &mut used);
        self.set_slot(at, &slot);
        self.store(use_at, used);
    }
}
