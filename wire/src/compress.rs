//! Which names of a message under construction a later name can point to.
//!
//! Each entry is a suffix that has been written, found by a hash of its labels. The labels of a name that were written
//! in one go are a run; behind it stands the root or a pointer to an older entry, so comparing takes a step for every
//! run:
//!
//! ```text
//!   at 12   3 w w w 7 e x a m p l e 3 o r g 0        entries 12, 16, 24   runs of 16, 12, 4   then the root
//!   at 29   2 n s 1 a 0xc0 0x10                      entries 29, 32       runs of  5, 2       then entry 16
//! ```

use arrayvec::ArrayVec;

use crate::name::LABELS_MAX;
use crate::name::label::{eq_folded, fold_word, word_of_rest};

/// Most suffixes that are remembered of one message; names written later are still compressed against those.
pub const SUFFIXES_MAX: usize = 64;

/// Twice as many as entries, so that rows of taken slots stay short. A power of two.
const SLOTS: usize = 128;
const SLOT_MASK: u8 = (SLOTS - 1) as u8;

/// Offsets that a pointer can hold (RFC 1035 §4.1.4).
pub(crate) const POINTER_LIMIT: usize = 0x4000;

/// The suffix table, made once and used for message after message.
#[derive(Clone, Debug)]
pub struct Compressor {
    /// Open addressing. A slot is taken when its generation is the current one.
    slots: [Slot; SLOTS],
    /// The slots of this message in the order they were taken, so that the last can be given back first.
    taken: ArrayVec<u8, SUFFIXES_MAX>,
    /// Those of the name that was looked for last. Here, since a kilobyte is not to be moved about.
    suffixes: ArrayVec<Suffix, LABELS_MAX>,
    /// Never that of an unused slot, which is 0.
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    hash: u32,
    /// Where the suffix starts in the message.
    at: u16,
    /// How many of its bytes stand there in one run.
    run_len: u8,
    /// The slot of the suffix that the run's pointer leads to, or [`TO_ROOT`].
    behind: u8,
}

const UNUSED: Slot = Slot {
    generation: 0,
    hash: 0,
    at: 0,
    run_len: 0,
    behind: TO_ROOT,
};

/// Behind the run stands the root.
const TO_ROOT: u8 = u8::MAX;

/// A suffix that stands in the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// Where.
    pub(crate) at: u16,
    /// Labels of the name in front of the suffix.
    pub(crate) labels: usize,
    /// Bytes of the name in front of the suffix.
    pub(crate) len: usize,
    slot: u8,
}

impl Compressor {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            slots: [UNUSED; SLOTS],
            taken: ArrayVec::new_const(),
            suffixes: ArrayVec::new_const(),
            generation: 1,
        }
    }

    /// Forgets everything, for a new message. Costs a few instructions but once in four thousand million times.
    #[inline]
    pub fn clear(&mut self) {
        self.taken.clear();
        self.generation = match self.generation.checked_add(1) {
            Some(next) => next,
            None => {
                self.slots = [UNUSED; SLOTS];
                1
            }
        };
    }

    /// How many suffixes are remembered.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// The longest suffix of a name that stands in the message. The root alone never counts.
    pub(crate) fn find(&mut self, message: &[u8], name: &[u8]) -> Option<Known> {
        read_suffixes(name, &mut self.suffixes);
        self.suffixes.iter().enumerate().find_map(|(labels, suffix)| {
            let len = usize::from(suffix.start);
            let (slot, at) = self.entry(message, name.get(len..)?, suffix.hash)?;
            Some(Known { at, labels, len, slot })
        })
    }

    /// Remembers the suffixes of the name that was looked for last and is now written at `at`, but for those that were
    /// `known`; `run_len` of its bytes stand there before the root or the pointer to what was known. What cannot be
    /// pointed to, or finds the table full, is left out.
    pub(crate) fn insert(&mut self, at: usize, run_len: usize, known: Option<Known>) {
        let new = known.map_or(self.suffixes.len(), |known| known.labels);
        let behind = match known {
            Some(known) if known.len == run_len => known.slot,
            _ => TO_ROOT,
        };
        for suffix in self.suffixes.iter().take(new).rev() {
            let start = usize::from(suffix.start);
            let at = at.wrapping_add(start);
            let place = self.free(suffix.hash);
            if at >= POINTER_LIMIT || self.taken.try_push(place).is_err() {
                continue;
            }
            if let Some(slot) = self.slots.get_mut(usize::from(place)) {
                let run_len = run_len.wrapping_sub(start) as u8;
                *slot = Slot {
                    generation: self.generation,
                    hash: suffix.hash,
                    at: at as u16,
                    run_len,
                    behind,
                };
            }
        }
    }

    /// Remembers all suffixes of a name that is written at `at`, the first of the message.
    pub(crate) fn insert_first(&mut self, name: &[u8], at: usize) {
        read_suffixes(name, &mut self.suffixes);
        self.insert(at, name.len().saturating_sub(1), None);
    }

    /// Forgets all but the first `len` suffixes.
    pub(crate) fn truncate(&mut self, len: usize) {
        // Last in, first out: no entry that stays was pushed along by one that goes.
        while self.taken.len() > len {
            let place = self.taken.pop().map(usize::from);
            if let Some(slot) = place.and_then(|place| self.slots.get_mut(place)) {
                *slot = UNUSED;
            }
        }
    }

    /// The slot of a suffix, and where it stands.
    #[inline]
    fn entry(&self, message: &[u8], suffix: &[u8], hash: u32) -> Option<(u8, u16)> {
        let mut place = home(hash);
        // There are more slots than entries, so a free one comes.
        loop {
            let slot = self.taken_slot(place)?;
            if slot.hash == hash && self.is_written(message, *slot, suffix) {
                return Some((place, slot.at));
            }
            place = place.wrapping_add(1) & SLOT_MASK;
        }
    }

    #[inline]
    fn taken_slot(&self, place: u8) -> Option<&Slot> {
        self.slots
            .get(usize::from(place))
            .filter(|slot| slot.generation == self.generation)
    }

    fn free(&self, hash: u32) -> u8 {
        let mut place = home(hash);
        while self.taken_slot(place).is_some() {
            place = place.wrapping_add(1) & SLOT_MASK;
        }
        place
    }

    /// Whether `suffix` is what stands at `slot`. Each step leads to an older entry, so this ends.
    fn is_written(&self, message: &[u8], mut slot: Slot, mut suffix: &[u8]) -> bool {
        loop {
            let at = usize::from(slot.at);
            let Some((front, rest)) = suffix.split_at_checked(slot.run_len.into()) else {
                return false;
            };
            let run = message.get(at..at.wrapping_add(front.len()));
            if !run.is_some_and(|run| eq_folded(run, front)) {
                return false;
            }
            if slot.behind == TO_ROOT {
                return matches!(rest, [0]);
            }
            let Some(next) = self.taken_slot(slot.behind) else {
                return false;
            };
            (slot, suffix) = (*next, rest);
        }
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

/// The suffix of a name that starts with a label.
#[derive(Clone, Copy, Debug)]
struct Suffix {
    hash: u32,
    /// Where in the name it starts.
    start: u8,
}

/// The suffixes of a name in wire form, the longest first and the root left out.
fn read_suffixes(name: &[u8], suffixes: &mut ArrayVec<Suffix, LABELS_MAX>) {
    suffixes.clear();
    let mut at = 0_usize;
    while let Some(&len @ 1..) = name.get(at) {
        if suffixes
            .try_push(Suffix {
                hash: 0,
                start: at as u8,
            })
            .is_err()
        {
            break;
        }
        at = at.wrapping_add(1).wrapping_add(len.into());
    }
    let (mut mixed, mut end) = (0, at);
    for suffix in suffixes.iter_mut().rev() {
        let start = usize::from(suffix.start);
        mixed = mix(mixed, name, start, end);
        suffix.hash = (mixed >> 32) as u32;
        end = start;
    }
}

/// Mixes the bytes from `at` to `end` into a hash without letter case, eight at a time.
#[inline]
fn mix(mut mixed: u64, name: &[u8], mut at: usize, end: usize) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    while at < end {
        let rest = name.get(at..).unwrap_or_default();
        let word = rest
            .first_chunk()
            .map_or_else(|| word_of_rest(rest), |word| u64::from_le_bytes(*word));
        // Shifts out what is behind the end, at most seven bytes of the eight.
        let surplus = 8_usize.saturating_sub(end.wrapping_sub(at)) as u32;
        let word = fold_word(word.wrapping_shl(surplus.wrapping_mul(u8::BITS)));
        mixed = (mixed ^ word).wrapping_mul(ODD);
        mixed ^= mixed >> 32;
        at = at.wrapping_add(8);
    }
    mixed
}

/// The slot to look at first.
#[inline]
const fn home(hash: u32) -> u8 {
    hash as u8 & SLOT_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    struct Table {
        names: Compressor,
        message: Vec<u8>,
    }

    impl Table {
        fn new() -> Self {
            Self {
                names: Compressor::new(),
                message: Vec::from([0; 12]),
            }
        }

        fn find(&mut self, name: &[u8]) -> Option<(u16, usize)> {
            self.names
                .find(&self.message, name)
                .map(|known| (known.at, known.labels))
        }

        fn add(&mut self, name: &[u8]) -> usize {
            let at = self.message.len();
            let known = self.names.find(&self.message, name);
            let run_len = known.map_or(name.len() - 1, |known| known.len);
            self.message.extend_from_slice(&name[..run_len]);
            match known {
                Some(known) => self.message.extend_from_slice(&(0xc000 | known.at).to_be_bytes()),
                None => self.message.push(0),
            }
            self.names.insert(at, run_len, known);
            at
        }
    }

    #[test]
    fn the_longest_suffix_is_found() {
        let mut table = Table::new();
        assert_eq!(table.add(b"\x03www\x07example\x03org\0"), 12);
        assert_eq!(table.add(b"\x02ns\x01a\x07EXAMPLE\x03org\0"), 29);
        assert_eq!(table.message.len(), 36);
        assert_eq!(table.find(b"\x03WWW\x07example\x03org\0"), Some((12, 0)));
        assert_eq!(table.find(b"\x01x\x02Ns\x01A\x07example\x03ORG\0"), Some((29, 1)));
        assert_eq!(table.find(b"\x01x\x01a\x07example\x03org\0"), Some((32, 1)));
        assert_eq!(table.find(b"\x01x\x07example\x03org\0"), Some((16, 1)));
        assert_eq!(table.find(b"\x01x\x03org\0"), Some((24, 1)));
        assert_eq!(table.find(b"\x07example\0"), None);
        assert_eq!(table.find(b"\0"), None);
        table.names.clear();
        assert_eq!(table.find(b"\x03org\0"), None);
    }

    #[test]
    fn an_equal_hash_is_not_enough() {
        let mut table = Table::new();
        table.add(b"\x03www\x03org\0");
        let other = b"\x03ftp\x03net\0";
        let hash_of = |name: &[u8]| {
            let mut suffixes = ArrayVec::new();
            read_suffixes(name, &mut suffixes);
            suffixes[0].hash
        };
        let hash = hash_of(b"\x03www\x03org\0");
        assert_ne!(hash, hash_of(other));
        assert_eq!(table.names.entry(&table.message, other, hash), None);
        // It finds a slot of its own behind the one with its hash.
        let at = table.message.len();
        table.message.extend_from_slice(other);
        table.names.suffixes.clear();
        table.names.suffixes.push(Suffix { hash, start: 0 });
        table.names.insert(at, 8, None);
        let found = table.names.entry(&table.message, other, hash);
        assert_eq!(found, Some((home(hash).wrapping_add(1) & SLOT_MASK, at as u16)));
        assert_eq!(table.find(b"\x03www\x03org\0"), Some((12, 0)));
    }

    #[test]
    fn sixty_four_suffixes_and_no_more_each_given_back() {
        let mut table = Table::new();
        for round in 0..3 {
            let names: Vec<[u8; 4]> = (0..=SUFFIXES_MAX as u8).map(|i| [2, b'0' + round, i, 0]).collect();
            let starts: Vec<usize> = names.iter().map(|name| table.add(name)).collect();
            assert_eq!(table.names.len(), SUFFIXES_MAX);
            assert_eq!(table.find(&names[SUFFIXES_MAX]), None);
            table.names.truncate(10);
            for (i, name) in names.iter().enumerate() {
                assert_eq!(table.find(name), (i < 10).then_some((starts[i] as u16, 0)));
            }
            table.names.truncate(0);
            assert_eq!(table.find(&names[0]), None);
        }
    }

    #[test]
    fn what_a_pointer_cannot_reach_is_not_remembered() {
        let mut table = Table::new();
        table.message.resize(POINTER_LIMIT - 4, 0);
        table.add(b"\x03www\x03org\0");
        assert_eq!(table.find(b"\x03org\0"), None);
        assert_eq!(table.find(b"\x03www\x03org\0"), Some((0x3ffc, 0)));
    }

    #[test]
    fn the_generation_wraps() {
        let mut table = Table::new();
        table.names.generation = u32::MAX;
        table.add(b"\x03org\0");
        assert_eq!(table.find(b"\x03org\0"), Some((12, 0)));
        table.names.clear();
        assert_eq!(table.names.generation, 1);
        assert_eq!(table.find(b"\x03org\0"), None);
    }
}
