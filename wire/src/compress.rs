//! Which names of a message under construction a later name can point to.
//!
//! Each entry is a suffix that has been written: its first label, and the entry of the suffix behind that label. A
//! name is looked up from its last label on, so one label is compared at each step and no name as a whole:
//!
//! ```text
//!   written   3 w w w 7 e x a m p l e 3 o r g 0            entries   30: "org"      behind it nothing
//!   at        12      16              24 28                          16: "example"  behind it 24
//!                                                                    12: "www"      behind it 16
//! ```

use arrayvec::ArrayVec;

use crate::name::label::{eq_folded, folded_words};

/// Most suffixes that are remembered of one message; names written later are still compressed against those.
pub const SUFFIXES_MAX: usize = 64;

/// Twice as many as entries, so that runs of taken slots stay short. A power of two.
const SLOTS: usize = 128;
const SLOT_MASK: u8 = (SLOTS - 1) as u8;

/// Offsets that a pointer can hold (RFC 1035 §4.1.4).
pub(crate) const POINTER_LIMIT: usize = 0x4000;

/// The entry behind the last label of a name; a real one is behind the header and never 0.
pub(crate) const ROOT: u16 = 0;

/// The suffix table, made once and used for message after message.
#[derive(Clone, Debug)]
pub struct Compressor {
    /// Open addressing. A slot is taken when its generation is the current one.
    slots: [Slot; SLOTS],
    /// The slots of this message in the order they were taken, so that the last can be given back first.
    taken: ArrayVec<u8, SUFFIXES_MAX>,
    /// Never that of an unused slot, which is 0.
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    /// Where the suffix starts in the message.
    at: u16,
    /// The entry of the suffix behind its first label, or [`ROOT`].
    behind: u16,
}

/// The answer to a look-up.
pub(crate) enum Found {
    /// The suffix starts here.
    At(u16),
    /// It is not there; this slot is the one for it.
    Free(u8),
}

const UNUSED: Slot = Slot {
    generation: 0,
    at: 0,
    behind: 0,
};

impl Compressor {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            slots: [UNUSED; SLOTS],
            taken: ArrayVec::new_const(),
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
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Looks for `label`, its length byte in front, with the suffix `behind` it.
    pub(crate) fn find(&self, message: &[u8], label: &[u8], behind: u16) -> Found {
        let mut place = hash(label, behind);
        // There are more slots than entries, so a free one comes.
        for _ in 0..SLOTS {
            let Some(slot) = self.slots.get(usize::from(place)) else {
                break;
            };
            if slot.generation != self.generation {
                break;
            }
            let at = usize::from(slot.at);
            let written = message.get(at..at.wrapping_add(label.len()));
            if slot.behind == behind && written.is_some_and(|written| eq_folded(written, label)) {
                return Found::At(slot.at);
            }
            place = place.wrapping_add(1) & SLOT_MASK;
        }
        Found::Free(place)
    }

    /// Remembers a suffix in the slot that [`Compressor::find`] named. Gives the entry, or none when it cannot be
    /// pointed to or the table is full; then what stands before it cannot be remembered either.
    pub(crate) fn insert(&mut self, place: u8, at: usize, behind: u16) -> Option<u16> {
        if at >= POINTER_LIMIT {
            return None;
        }
        let slot = self.slots.get_mut(usize::from(place))?;
        self.taken.try_push(place).ok()?;
        *slot = Slot {
            generation: self.generation,
            at: at as u16,
            behind,
        };
        Some(at as u16)
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
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn hash(label: &[u8], behind: u16) -> u8 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = folded_words(label).fold(u64::from(behind), |mixed, word| {
        let product = (mixed ^ word).wrapping_mul(ODD);
        product ^ (product >> 32)
    });
    mixed as u8 & SLOT_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn add(names: &mut Compressor, message: &mut Vec<u8>, label: &[u8], behind: u16) -> Option<u16> {
        let at = message.len();
        message.extend_from_slice(label);
        match names.find(message, label, behind) {
            Found::At(_) => panic!("{label:?} is there"),
            Found::Free(place) => names.insert(place, at, behind),
        }
    }

    fn find(names: &Compressor, message: &[u8], label: &[u8], behind: u16) -> Option<u16> {
        match names.find(message, label, behind) {
            Found::At(at) => Some(at),
            Found::Free(_) => None,
        }
    }

    #[test]
    fn a_suffix_is_a_label_and_what_is_behind_it() {
        let (mut names, mut message) = (Compressor::new(), Vec::from([0; 12]));
        let org = add(&mut names, &mut message, b"\x03org", ROOT).unwrap();
        let example = add(&mut names, &mut message, b"\x07example", org).unwrap();
        assert_eq!(find(&names, &message, b"\x07EXAMPLE", org), Some(example));
        assert_eq!(find(&names, &message, b"\x07example", ROOT), None);
        assert_eq!(find(&names, &message, b"\x03org", ROOT), Some(org));
        names.clear();
        assert_eq!(find(&names, &message, b"\x03org", ROOT), None);
    }

    #[test]
    fn sixty_four_suffixes_and_no_more_each_given_back() {
        let (mut names, mut message) = (Compressor::new(), Vec::from([0; 12]));
        for round in 0..3 {
            let labels: Vec<[u8; 3]> = (0..=SUFFIXES_MAX as u8).map(|i| [2, b'0' + round, i]).collect();
            let entries: Vec<_> = labels
                .iter()
                .map(|label| add(&mut names, &mut message, label, ROOT))
                .collect();
            assert!(entries[..SUFFIXES_MAX].iter().all(Option::is_some));
            assert_eq!(entries[SUFFIXES_MAX], None);
            names.truncate(10);
            for (i, label) in labels.iter().enumerate() {
                assert_eq!(find(&names, &message, label, ROOT), entries[i].filter(|_| i < 10));
            }
            names.truncate(0);
            assert_eq!(find(&names, &message, &labels[0], ROOT), None);
        }
    }

    #[test]
    fn what_a_pointer_cannot_reach_is_not_remembered() {
        let mut names = Compressor::new();
        assert_eq!(names.insert(0, POINTER_LIMIT, ROOT), None);
        assert_eq!(names.insert(0, POINTER_LIMIT - 1, ROOT), Some(0x3fff));
    }

    #[test]
    fn the_generation_wraps() {
        let (mut names, mut message) = (Compressor::new(), Vec::from([0; 12]));
        names.generation = u32::MAX;
        let org = add(&mut names, &mut message, b"\x03org", ROOT);
        assert!(org.is_some());
        names.clear();
        assert_eq!(names.generation, 1);
        assert_eq!(find(&names, &message, b"\x03org", ROOT), None);
    }
}
