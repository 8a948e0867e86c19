//! Entries whose set another thread stood still in: they wait, a few at a time, until somebody stores them.
//!
//! A thread that is taken off its core while it changes a set holds it for milliseconds, far longer than a worker may wait. What
//! others were about to store there is put aside, and whoever next stores something, or misses something, tries again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::entry::{Key, New};
use crate::time::Instant;

/// Most entries that wait.
pub const LATE_MAX: usize = 32;
/// Most bytes of one of them, its name among them.
pub const LATE_BYTES_MAX: usize = 512;

/// What is to be stored, copied.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) hash: u64,
    pub(super) now: Instant,
    key: Key<'static>,
    new: New<'static>,
    /// The name, and the bytes behind it.
    bytes: Box<[u8]>,
    name_len: usize,
}

impl Entry {
    /// Nothing, where it is too large.
    pub(super) fn new(hash: u64, key: &Key<'_>, new: &New<'_>, now: Instant) -> Option<Self> {
        (key.name.len() + new.bytes.len() <= LATE_BYTES_MAX).then(|| Self {
            hash,
            now,
            key: Key { name: &[], ..*key },
            new: New { bytes: &[], ..*new },
            bytes: [key.name, new.bytes].concat().into(),
            name_len: key.name.len(),
        })
    }

    pub(super) fn key(&self) -> Key<'_> {
        Key {
            name: &self.bytes[..self.name_len],
            ..self.key
        }
    }

    pub(super) fn to_store(&self) -> New<'_> {
        New {
            bytes: &self.bytes[self.name_len..],
            ..self.new
        }
    }
}

/// Those that wait.
#[derive(Debug)]
pub(super) struct Late {
    /// Each has a lock of its own, so that a thread that stands still holds up one alone.
    places: [Mutex<Option<Entry>>; LATE_MAX],
    /// So many wait, for those who need not know it better.
    len: AtomicUsize,
}

impl Default for Late {
    fn default() -> Self {
        Self {
            places: [const { Mutex::new(None) }; LATE_MAX],
            len: AtomicUsize::new(0),
        }
    }
}

impl Late {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Puts one aside; whether there was room. It never waits.
    pub(super) fn put(&self, entry: Entry) -> bool {
        let Some(mut place) = self.places().find(|place| place.is_none()) else {
            return false;
        };
        *place = Some(entry);
        self.len.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// One of them. It never waits.
    pub(super) fn take(&self) -> Option<Entry> {
        let entry = self.places().find_map(|mut place| place.take())?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(entry)
    }

    /// The places that nobody looks at just now.
    fn places(&self) -> impl Iterator<Item = MutexGuard<'_, Option<Entry>>> {
        self.places.iter().filter_map(|place| match place.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(place)) => Some(place.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }
}
