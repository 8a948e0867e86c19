//! What changed lately, version by version, so that a secondary is told the differences alone (RFC 1995).
//!
//! It is kept only where someone may transfer a zone. What a change holds on to is the service as it was before; its
//! slices are shared with the versions around it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::editor::Of;
use super::entry::Entry;
use crate::zone::keys::Keys;
use crate::zone::trie::Keyed;

/// What is kept, in endpoints: those of the services before they changed, one more for each service, and
/// `VERSION_WEIGHT` for each version. What is older is forgotten, and who asks from there gets the whole zone.
pub const HISTORY_MAX: usize = 65_536;
const VERSION_WEIGHT: usize = 16;

/// A service at some time.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) entry: Arc<Entry>,
    /// Its namespace existed.
    pub(super) is_shown: bool,
}

/// A service that is not what it was; where there was or is none, that side is empty.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    pub(super) of: Of,
    pub(super) old: Option<Version>,
    pub(super) new: Option<Version>,
}

impl Changed {
    fn weight(&self) -> usize {
        let endpoints = |version: &Version| -> usize {
            let slices = version.entry.slices.iter();
            slices.map(|slice| slice.endpoints.len()).sum()
        };
        1 + self.old.as_ref().map_or(0, endpoints)
    }

    /// Both sides, as far as there are any.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Entry> {
        self.old.iter().chain(&self.new).map(|version| &*version.entry)
    }

    fn key(&self) -> &[u8] {
        self.versions().next().map_or(&[], Entry::key)
    }

    /// What could be seen of it before, and what can be now.
    pub(super) fn shown(&self) -> [Option<&Entry>; 2] {
        let shown = |version: &'_ Option<Version>| version.as_ref().is_some_and(|version| version.is_shown);
        let [old, new] = [&self.old, &self.new].map(|version| shown(version).then_some(version.as_ref()).flatten());
        [old, new].map(|version| version.map(|version| &*version.entry))
    }
}

/// What one version changed.
#[derive(Debug)]
struct Delta {
    /// Its number, in the order of bytes.
    number: [u8; 8],
    /// The serial before it.
    from: u32,
    changes: Box<[Changed]>,
    weight: usize,
}

impl Keyed for Delta {
    fn key(&self) -> &[u8] {
        &self.number
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    deltas: Keys<Delta>,
    /// The number of the oldest that is kept, and of the next one.
    first: u64,
    next: u64,
    weight: usize,
}

impl History {
    /// Adds the version that came after `from`.
    pub(super) fn push(&mut self, from: u32, changes: Vec<Changed>) {
        let weight = VERSION_WEIGHT + changes.iter().map(Changed::weight).sum::<usize>();
        self.weight += weight;
        self.deltas.insert(Arc::new(Delta {
            number: self.next.to_be_bytes(),
            from,
            changes: changes.into(),
            weight,
        }));
        self.next += 1;
        while self.weight > HISTORY_MAX {
            let oldest = self.deltas.remove(&self.first.to_be_bytes());
            self.weight -= oldest.map_or(self.weight, |oldest| oldest.weight);
            self.first += 1;
        }
    }

    /// How services differ from what they were at a serial, by their keys; `None` where that is not known any more.
    pub(super) fn since(&self, serial: u32) -> Option<Vec<Changed>> {
        let mut from = None;
        self.deltas.scan(&[], |delta| {
            if delta.from == serial {
                from = Some(delta.number);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let mut all: BTreeMap<(Of, &[u8]), Changed> = BTreeMap::new();
        self.deltas.scan(&from?, |delta| {
            for change in &delta.changes {
                all.entry((change.of, change.key()))
                    .and_modify(|earlier| earlier.new.clone_from(&change.new))
                    .or_insert_with(|| change.clone());
            }
            ControlFlow::Continue(())
        });
        Some(all.into_values().collect())
    }
}
