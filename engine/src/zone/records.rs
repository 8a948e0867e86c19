//! The other kind of zone: record sets by name, rendered when the data changes.
//!
//! ```text
//!   names (hash trie)      "www" ──> [A: records + answer as bytes, MX ...]
//!                          "ent" ──> []            an empty non-terminal exists too
//!   barriers (hash trie)   "sub" ──> the same node: NS below the apex or DNAME, looked for on the way down
//! ```

use std::sync::Arc;

use nodens_wire::{Name, NameBuf, Rtype};

use super::rrset::RrSet;
use super::small::Small;
use super::trie::{Keyed, NameHash, Place, Spot, Trie};
use crate::encode::{Prepared, PreparedBuf, Template};

/// Names up to this length stand in their node: with the fields beside it a cache line.
const NAME_INLINE: usize = 38;

/// A name that exists.
#[derive(Debug)]
pub struct Node {
    pub(super) name: Small<NAME_INLINE>,
    /// Names directly below it, empty non-terminals included.
    pub(super) children: u32,
    pub(super) sets: Box<[NodeSet]>,
}

/// A record set and its answer as bytes.
#[derive(Debug)]
pub(super) struct NodeSet {
    pub(super) records: RrSet,
    /// `None` where it does not fit into a message, or for a wildcard, whose owner is not known before the question.
    pub(super) answer: Option<Arc<PreparedBuf<1>>>,
}

impl Keyed for Node {
    fn key(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

impl Node {
    /// The records of one type.
    #[must_use]
    #[inline]
    pub fn set(&self, rtype: Rtype) -> Option<&RrSet> {
        self.sets
            .iter()
            .find(|set| set.records.rtype == rtype)
            .map(|set| &set.records)
    }

    /// The answer of one type as bytes.
    #[inline]
    pub(crate) fn prepared(&self, rtype: Rtype) -> Option<Prepared<'_>> {
        self.sets
            .iter()
            .find(|set| set.records.rtype == rtype)?
            .answer
            .as_ref()?
            .get(0)
    }

    /// Has its cache lines brought in.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.sets.first().map(|set| set.records.rtype));
    }

    /// There are records here.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.sets.is_empty()
    }

    /// All record sets.
    pub fn sets(&self) -> impl Iterator<Item = &RrSet> {
        self.sets.iter().map(|set| &set.records)
    }

    /// Folded labels in wire form, relative to the zone.
    #[must_use]
    pub fn labels(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct RecordZone {
    pub(super) apex: NameBuf,
    pub(super) hash: NameHash,
    pub(super) loaded: bool,
    pub(super) names: Trie<Node>,
    pub(super) barriers: Trie<Node>,
    /// Names whose first label is `*`.
    pub(super) wildcards: usize,
    pub(super) authority: Arc<Authority>,
}

/// What stands in AUTHORITY, ready to copy.
#[derive(Debug, Default)]
pub(super) struct Authority {
    pub(super) soa: Option<Template>,
    pub(super) ns: Option<Template>,
}

impl RecordZone {
    /// A zone of which nothing has been loaded yet.
    #[must_use]
    pub fn unloaded(apex: Name<'_>, hash: NameHash) -> Self {
        Self {
            apex: apex.to_buf().folded(),
            hash,
            loaded: false,
            names: Trie::default(),
            barriers: Trie::default(),
            wildcards: 0,
            authority: Arc::default(),
        }
    }

    /// The zone's name, in lower case.
    #[must_use]
    pub fn apex(&self) -> Name<'_> {
        self.apex.as_name()
    }

    /// Data has been loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// Names that exist.
    #[must_use]
    pub fn names_len(&self) -> usize {
        self.names.len()
    }

    /// Every name that exists, in no order that means anything.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.names.iter().map(|node| &**node)
    }

    /// The same from a place on, each with its place.
    pub(crate) fn nodes_from(&self, place: Place) -> impl Iterator<Item = (Place, &Node)> {
        self.names.iter_from(place).map(|(place, node)| (place, &**node))
    }

    /// The SOA of negative answers.
    pub(crate) fn soa(&self) -> Option<&Template> {
        self.authority.soa.as_ref()
    }

    /// The NS of positive answers.
    pub(crate) fn ns(&self) -> Option<&Template> {
        self.authority.ns.as_ref()
    }

    /// The node of folded labels relative to the apex.
    #[must_use]
    #[inline]
    pub fn node(&self, labels: &[u8]) -> Option<&Node> {
        self.names.get(self.hash.of(labels), labels).map(|node| &**node)
    }

    #[inline]
    pub(crate) fn node_at(&self, hash: u64, labels: &[u8]) -> Option<&Node> {
        self.names.get(hash, labels).map(|node| &**node)
    }

    #[inline]
    pub(super) fn barrier(&self, labels: &[u8]) -> Option<&Node> {
        self.barriers.get(self.hash.of(labels), labels).map(|node| &**node)
    }

    #[inline]
    pub(crate) fn hash_of(&self, labels: &[u8]) -> u64 {
        self.hash.of(labels)
    }

    /// See [`Trie::touch`].
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> Spot<'_, Node> {
        self.names.touch(hash)
    }
}
