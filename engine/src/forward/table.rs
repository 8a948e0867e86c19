//! Entries by keys that are not given out twice: what comes late for one that is gone finds nothing.

use crate::io::{StreamId, UpstreamId};

/// Where an entry stands, and how often that place was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    at: u32,
    generation: u32,
}

/// Bits of an [`UpstreamId`] that say the place; the others are the generation's lowest. There are never as many sockets:
/// past [`SOCKETS_MAX`](super::SOCKETS_MAX) an upstream gets one, and one for its probe.
const PLACE_BITS: u32 = 16;

impl Key {
    /// The key as a socket's id.
    pub(super) fn upstream(self) -> UpstreamId {
        UpstreamId(self.generation << PLACE_BITS | self.at)
    }

    /// The key as a stream's id.
    pub(super) fn stream(self) -> StreamId {
        StreamId::ours(u64::from(self.generation) << 32 | u64::from(self.at))
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

/// The entries.
#[derive(Debug)]
pub(super) struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, entry: T) -> Key {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                entry: None,
            });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.entry = Some(entry);
        Key {
            at,
            generation: place.generation,
        }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.at as usize)?;
        place.entry.as_ref().filter(|_| place.generation == key.generation)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.at as usize)?;
        place.entry.as_mut().filter(|_| place.generation == key.generation)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.at as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.at);
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, at)| {
            let key = Key {
                at,
                generation: place.generation,
            };
            place.entry.as_ref().map(|entry| (key, entry))
        })
    }

    /// The entry whose key makes this id.
    pub(super) fn of_upstream(&self, id: UpstreamId) -> Option<Key> {
        self.at(id.0 & ((1 << PLACE_BITS) - 1))
            .filter(|key| key.upstream() == id)
    }

    /// The entry whose key makes this id.
    pub(super) fn of_stream(&self, id: StreamId) -> Option<Key> {
        self.at(id.0 as u32).filter(|key| key.stream() == id)
    }

    fn at(&self, at: u32) -> Option<Key> {
        let place = self.places.get(at as usize)?;
        place.entry.as_ref().map(|_| Key {
            at,
            generation: place.generation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_for_one_entry() {
        let mut table = Table::new();
        let (first, second) = (table.insert('a'), table.insert('b'));
        assert_eq!(table.remove(first), Some('a'));
        let third = table.insert('c');
        assert_eq!((first.at, table.len()), (third.at, 2));
        assert_eq!((table.get(first), table.get(third)), (None, Some(&'c')));
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.of_upstream(third.upstream()), Some(third));
        assert_eq!(table.of_upstream(first.upstream()), None);
        assert_eq!(table.of_stream(second.stream()), Some(second));
        assert_eq!(table.of_stream(first.stream()), None);
        assert!(table.iter().map(|(_, entry)| *entry).eq(['c', 'b']));
    }
}
