//! Which of some zones a name lies in: the longest, on label borders.
//!
//! Most blocks serve a handful of zones, and comparing a name with each costs less than hashing it; past
//! [`COMPARED_MAX`] zones a table takes over.

use hashbrown::HashTable;
use nodens_wire::{NameBuf, label};

use crate::zone::trie::NameHash;

/// Most zones that are compared one by one.
const COMPARED_MAX: usize = 8;

/// Zones by name, each with a value of its own.
#[derive(Clone, Debug)]
pub struct ZoneMap<T> {
    hash: NameHash,
    zones: Vec<(NameBuf, T)>,
    at: HashTable<u32>,
    /// Bit `n` is set where a zone's name has `n` bytes, so that most suffixes cost one test.
    lengths: [u64; 4],
}

impl ZoneMap<()> {
    /// These zones, of which nothing is said but that they are there.
    #[must_use]
    pub fn set<'a>(zones: impl IntoIterator<Item = &'a NameBuf>, hash: &NameHash) -> Self {
        let mut set = Self::new(hash.clone());
        for zone in zones {
            set.entry(zone, || ());
        }
        set
    }
}

impl<T> ZoneMap<T> {
    /// An empty map.
    #[must_use]
    pub fn new(hash: NameHash) -> Self {
        Self {
            hash,
            zones: Vec::new(),
            at: HashTable::new(),
            lengths: [0; 4],
        }
    }

    /// The value of a zone, made if there is none yet. Names are folded.
    pub fn entry(&mut self, zone: &NameBuf, make: impl FnOnce() -> T) -> &mut T {
        let zone = zone.clone().folded();
        let hash = self.hash.of(zone.as_bytes());
        let found = self
            .at
            .find(hash, |&at| self.zones[at as usize].0.as_bytes() == zone.as_bytes())
            .copied();
        let at = found.unwrap_or_else(|| {
            let len = zone.as_bytes().len();
            self.lengths[len / 64] |= 1 << (len % 64);
            let at = self.zones.len() as u32;
            self.zones.push((zone, make()));
            let (hasher, zones) = (&self.hash, &self.zones);
            self.at
                .insert_unique(hash, at, |&at| hasher.of(zones[at as usize].0.as_bytes()));
            at
        });
        &mut self.zones[at as usize].1
    }

    /// The longest zone that holds a folded name in wire form, and how many of the name's bytes stand in front of it.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<(usize, &T)> {
        self.find_from(name, 0)
    }

    /// The same for zones no longer than the name without its first `from` bytes.
    #[must_use]
    #[inline(always)]
    pub fn find_from(&self, name: &[u8], from: usize) -> Option<(usize, &T)> {
        let [(zone, value)] = &self.zones[..] else {
            return self.find_longest(name, from);
        };
        // Nearly every block serves one zone: only the suffix of its length can be it.
        let start = name.len().checked_sub(zone.as_bytes().len())?;
        let mut at = from;
        while at < start {
            at += 1 + usize::from(name[at]);
        }
        (at == start && label::eq(&name[at..], zone.as_bytes())).then_some((at, value))
    }

    fn find_longest(&self, name: &[u8], mut at: usize) -> Option<(usize, &T)> {
        loop {
            let rest = name.get(at..)?;
            let len = rest.len();
            if len < 256
                && self.lengths[len / 64] >> (len % 64) & 1 == 1
                && let Some(value) = self.exact(rest)
            {
                return Some((at, value));
            }
            match rest.first() {
                None | Some(0) => return None,
                Some(&len) => at += 1 + usize::from(len),
            }
        }
    }

    /// The same for a name that lies in a zone behind its first `known` bytes: mostly that zone is the only one here too,
    /// and then one comparison tells.
    #[must_use]
    #[inline]
    pub(crate) fn find_near(&self, name: &[u8], known: usize) -> Option<(usize, &T)> {
        match &self.zones[..] {
            [(zone, value)] if label::eq(&name[known..], zone.as_bytes()) => Some((known, value)),
            _ => self.find(name),
        }
    }

    /// The zone, where there is but one.
    pub(super) fn only(&self) -> Option<(&NameBuf, &T)> {
        match &self.zones[..] {
            [(zone, value)] => Some((zone, value)),
            _ => None,
        }
    }

    /// The value of exactly this zone.
    #[must_use]
    #[inline]
    pub fn exact(&self, zone: &[u8]) -> Option<&T> {
        if self.zones.len() <= COMPARED_MAX {
            return self
                .zones
                .iter()
                .find(|(own, _)| own.as_bytes() == zone)
                .map(|(_, value)| value);
        }
        let hash = self.hash.of(zone);
        let at = self.at.find(hash, |&at| self.zones[at as usize].0.as_bytes() == zone)?;
        Some(&self.zones[*at as usize].1)
    }

    /// Whether a zone holds the name.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// All zones with their values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&NameBuf, &T)> {
        self.zones.iter().map(|(zone, value)| (zone, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_zone_on_a_label_border_wins() {
        let mut map = ZoneMap::new(NameHash::new(3));
        for zone in ["cedar.example.", "deep.cedar.example.", "example."] {
            map.entry(&NameBuf::from_text(zone).unwrap(), || zone);
        }
        let check = |name: &str, expected: Option<(usize, &str)>| {
            let name = NameBuf::from_text(name).unwrap();
            assert_eq!(map.find(name.as_bytes()).map(|(at, zone)| (at, *zone)), expected);
        };
        check("a.deep.cedar.example.", Some((2, "deep.cedar.example.")));
        check("deep.cedar.example.", Some((0, "deep.cedar.example.")));
        check("adeep.cedar.example.", Some((6, "cedar.example.")));
        check("xcedar.example.", Some((7, "example.")));
        check("test.", None);
        check(".", None);
    }

    #[test]
    fn another_zone_of_the_same_length_is_another_zone() {
        let mut map = ZoneMap::new(NameHash::new(3));
        map.entry(&NameBuf::from_text("elm.example.").unwrap(), || ());
        let check = |name: &str, known, expected| {
            let name = NameBuf::from_text(name).unwrap();
            assert_eq!(map.find_near(name.as_bytes(), known).is_some(), expected, "{name}");
        };
        check("www.elm.example.", 4, true);
        check("www.oak.example.", 4, false);
        check("www.elm.example.", 8, true);
    }

    #[test]
    fn many_zones_are_found_as_few_are() {
        let mut map = ZoneMap::new(NameHash::new(3));
        for i in 0..100 {
            map.entry(&NameBuf::from_text(&format!("z{i}.example.")).unwrap(), || i);
        }
        for i in 0..100 {
            let name = NameBuf::from_text(&format!("www.z{i}.example.")).unwrap();
            assert_eq!(map.find(name.as_bytes()), Some((4, &i)));
        }
        assert_eq!(
            map.find(NameBuf::from_text("www.z100.example.").unwrap().as_bytes()),
            None
        );
    }

    #[test]
    fn the_root_holds_every_name() {
        let mut map = ZoneMap::new(NameHash::new(3));
        map.entry(&NameBuf::root(), || ());
        assert_eq!(
            map.find(NameBuf::from_text("a.b").unwrap().as_bytes())
                .map(|found| found.0),
            Some(4)
        );
        assert!(map.contains(b"\0"));
    }
}
