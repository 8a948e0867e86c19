//! Changed record sets become changed paths.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use nodens_wire::{Name, NameBuf, Rtype};

use super::link;
use super::records::{Node, NodeSet, RecordZone};
use super::rrset::RrSet;

/// A zone and what is needed to change it. It lives on the control side, as long as the zone does.
#[derive(Debug)]
pub struct RecordZoneBuilder {
    zone: RecordZone,
    /// Names that have been given other records and wait for [`RecordZoneBuilder::finish`].
    staged: BTreeMap<Box<[u8]>, Vec<RrSet>>,
    /// For each name that records of others point to, whose they are: their answers carry its addresses.
    referrers: HashMap<Box<[u8]>, BTreeSet<Box<[u8]>>>,
}

/// A name that a zone cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfZone;

impl RecordZoneBuilder {
    /// Starts from a zone without records.
    #[must_use]
    pub fn new(zone: RecordZone) -> Self {
        Self {
            zone,
            staged: BTreeMap::new(),
            referrers: HashMap::new(),
        }
    }

    /// Gives a name these record sets in place of all it had; none takes the name away.
    ///
    /// # Errors
    /// The name does not lie in the zone.
    pub fn set(&mut self, owner: Name<'_>, sets: Vec<RrSet>) -> Result<(), OutOfZone> {
        let owner = owner.to_buf().folded();
        let labels = owner.as_name().strip(self.zone.apex()).ok_or(OutOfZone)?;
        self.staged.insert(labels.into(), sets);
        Ok(())
    }

    /// All that was staged becomes a new version of the zone.
    pub fn finish(&mut self) -> RecordZone {
        let staged = std::mem::take(&mut self.staged);
        let mut dirty: BTreeSet<Box<[u8]>> = BTreeSet::new();
        for (labels, sets) in staged {
            dirty.extend(self.referrers.get(&labels).into_iter().flatten().cloned());
            self.replace(&labels, sets);
            dirty.insert(labels);
        }
        for labels in dirty {
            self.render(&labels);
        }
        self.zone.authority = Arc::new(link::authority(&self.zone));
        self.zone.loaded = true;
        self.zone.clone()
    }

    /// The sets of a name without their answers; names above it begin and cease to exist with it.
    fn replace(&mut self, labels: &[u8], sets: Vec<RrSet>) {
        let old = self.zone.node(labels);
        let (existed, children) = (old.is_some(), old.map_or(0, |node| node.children));
        for target in old
            .into_iter()
            .flat_map(Node::sets)
            .flat_map(|set| link::targets(&self.zone, set))
        {
            if let Some(owners) = self.referrers.get_mut(&target) {
                owners.remove(labels);
                if owners.is_empty() {
                    self.referrers.remove(&target);
                }
            }
        }
        for target in sets.iter().flat_map(|set| link::targets(&self.zone, set)) {
            self.referrers.entry(target).or_default().insert(labels.into());
        }
        let exists = !sets.is_empty() || children > 0;
        let sets = sets
            .into_iter()
            .map(|records| NodeSet { records, answer: None })
            .collect();
        if exists {
            self.put(Node {
                name: labels.into(),
                children,
                sets,
            });
        } else {
            self.take_out(labels);
        }
        if existed != exists {
            self.count_child(labels, exists);
        }
    }

    /// Tells the name above that a child came or went; it may itself begin or cease to exist.
    fn count_child(&mut self, labels: &[u8], came: bool) {
        let Some(&len) = labels.first() else { return };
        let above = &labels[1 + usize::from(len)..];
        let old = self.zone.node(above);
        let existed = old.is_some();
        let children = old
            .map_or(0, |node| node.children)
            .saturating_add_signed(if came { 1 } else { -1 });
        let sets: Vec<_> = old.into_iter().flat_map(Node::sets).cloned().collect();
        if children == 0 && sets.is_empty() && !above.is_empty() {
            self.take_out(above);
            self.count_child(above, false);
            return;
        }
        let answers = old.map(|node| node.sets.iter().map(|set| set.answer.clone()).collect::<Vec<_>>());
        let answers = answers.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
        let sets = sets
            .into_iter()
            .zip(answers)
            .map(|(records, answer)| NodeSet { records, answer })
            .collect();
        self.put(Node {
            name: above.into(),
            children,
            sets,
        });
        if !existed {
            self.count_child(above, true);
        }
    }

    /// Makes the answers of a name anew.
    fn render(&mut self, labels: &[u8]) {
        let Some(node) = self.zone.node(labels) else { return };
        let sets = node.sets().map(|set| NodeSet {
            records: set.clone(),
            answer: link::answer(&self.zone, node, set),
        });
        let node = Node {
            name: labels.into(),
            children: node.children,
            sets: sets.collect(),
        };
        self.put(node);
    }

    fn take_out(&mut self, labels: &[u8]) {
        if is_wildcard(labels) && self.zone.node(labels).is_some() {
            self.zone.wildcards -= 1;
        }
        let hash = self.zone.hash_of(labels);
        self.zone.names.remove(hash, labels);
        self.zone.barriers.remove(hash, labels);
    }

    fn put(&mut self, node: Node) {
        // Also one without records: it comes and goes with the names below it, and may be given records meanwhile.
        if is_wildcard(node.labels()) && self.zone.node(node.labels()).is_none() {
            self.zone.wildcards += 1;
        }
        let hash = self.zone.hash_of(node.labels());
        let is_cut = !node.labels().is_empty() && node.set(Rtype::NS).is_some();
        let node = Arc::new(node);
        if is_cut || node.set(Rtype::DNAME).is_some() {
            self.zone.barriers.insert(hash, Arc::clone(&node));
        } else {
            self.zone.barriers.remove(hash, node.labels());
        }
        self.zone.names.insert(hash, node);
    }
}

fn is_wildcard(labels: &[u8]) -> bool {
    labels.starts_with(b"\x01*")
}

/// TTL in seconds and rdata of one record.
type Single = (u32, Box<[u8]>);

/// From so many records on, a set is told from its doubles by a table.
const COMPARED_MAX: usize = 32;

/// The records of one type at one name, in the order in which they came.
#[derive(Debug)]
struct Collected {
    rtype: Rtype,
    records: Vec<Single>,
    /// The rdata of all of them, where there are many.
    known: HashSet<Box<[u8]>>,
}

impl Collected {
    fn has(&mut self, rdata: &[u8]) -> bool {
        if self.records.len() < COMPARED_MAX {
            return self.records.iter().any(|(_, other)| **other == *rdata);
        }
        if self.known.is_empty() {
            self.known = self.records.iter().map(|(_, other)| other.clone()).collect();
        }
        !self.known.insert(rdata.into())
    }
}

/// Collects single records into sets, in the order in which they came.
#[derive(Debug, Default)]
pub struct Collector {
    /// Where each name stands in `names`, by its folded wire form.
    at: HashMap<Box<[u8]>, usize>,
    names: Vec<Vec<Collected>>,
}

impl Collector {
    /// Adds a record. The same rdata twice is one record (RFC 2181 §5), unless `keep_doubles`.
    pub fn add(&mut self, owner: &NameBuf, rtype: Rtype, ttl: u32, rdata: &[u8], keep_doubles: bool) {
        let owner = owner.clone().folded();
        let at = match self.at.get(owner.as_bytes()) {
            Some(&at) => at,
            None => {
                self.at.insert(owner.as_bytes().into(), self.names.len());
                self.names.push(Vec::with_capacity(1));
                self.names.len() - 1
            }
        };
        let sets = &mut self.names[at];
        let at = sets.iter().position(|set| set.rtype == rtype).unwrap_or_else(|| {
            sets.push(Collected {
                rtype,
                records: Vec::with_capacity(1),
                known: HashSet::new(),
            });
            sets.len() - 1
        });
        let set = &mut sets[at];
        if keep_doubles || !set.has(rdata) {
            set.records.push((ttl, rdata.into()));
        }
    }

    /// The sets of each name.
    pub fn into_sets(mut self) -> impl Iterator<Item = (NameBuf, Vec<RrSet>)> {
        let mut names: Vec<_> = self.at.into_iter().collect();
        names.sort_unstable_by_key(|(_, at)| *at);
        names.into_iter().filter_map(move |(owner, at)| {
            let owner = Name::from_wire(&owner).ok()?.to_buf();
            let sets = std::mem::take(&mut self.names[at])
                .into_iter()
                .map(|set| RrSet::new(set.rtype, set.records.iter().map(|(ttl, rdata)| (*ttl, &rdata[..]))));
            Some((owner, sets.collect()))
        })
    }
}
