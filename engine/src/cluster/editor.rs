//! Changes become a new version of what is known of a cluster.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::entry::Entry;
use super::history::{Changed, History, Version};
use super::objects::{Address, External, Kind, Service, Slice};
use super::pod::{self, PodLabels};
use super::reverse::{Rank, Reversed, Side};
use super::{Apex, Cluster, Namespace};
use crate::zone::soa::next_serial;
use crate::zone::trie::Keyed as _;

/// Whose services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// This cluster's.
    Cluster,
    /// Those of a set of clusters.
    Clusterset,
}

/// A version that is being changed. Names are folded labels in wire form; a service's are its own and its namespace's.
#[derive(Debug)]
pub struct Editor {
    cluster: Cluster,
    /// Services that have been given other data and wait for [`Editor::finish`].
    staged: BTreeMap<(Of, Box<[u8]>), Staged>,
    /// Namespaces that came or went, and whether they were there before.
    namespaces: BTreeMap<Box<[u8]>, bool>,
    /// What is to be told of this version, where that is kept.
    changes: Changes,
    changed: bool,
    /// What has not changed is shown in another way too.
    is_shown_anew: bool,
    was_synced: bool,
}

/// Services before and after.
type Changes = BTreeMap<(Of, Box<[u8]>), [Option<Arc<Entry>>; 2]>;

#[derive(Debug, Default)]
struct Staged {
    service: Option<Arc<Service>>,
    slices: Vec<Arc<Slice>>,
}

impl Editor {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self {
            was_synced: cluster.synced,
            cluster,
            staged: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            changes: BTreeMap::new(),
            changed: false,
            is_shown_anew: false,
        }
    }

    fn staged(&mut self, of: Of, labels: &[u8]) -> &mut Staged {
        let cluster = &self.cluster;
        self.staged.entry((of, labels.into())).or_insert_with(|| {
            match cluster.entries(of).get(cluster.hash.of(labels), labels) {
                Some(entry) => Staged {
                    service: entry.service.clone(),
                    slices: entry.slices.to_vec(),
                },
                None => Staged::default(),
            }
        })
    }

    /// A service as it is now, or that it is gone. Its slices stay until they are gone themselves.
    pub fn service(&mut self, of: Of, labels: &[u8], service: Option<Service>) {
        self.staged(of, labels).service = service.map(Arc::new);
    }

    /// A slice of a service as it is now.
    pub fn put_slice(&mut self, of: Of, labels: &[u8], slice: Slice) {
        let slices = &mut self.staged(of, labels).slices;
        match slices.iter_mut().find(|old| old.id == slice.id) {
            Some(old) => *old = Arc::new(slice),
            None => slices.push(Arc::new(slice)),
        }
    }

    /// A slice does not belong to the service any more.
    pub fn remove_slice(&mut self, of: Of, labels: &[u8], id: &[u8]) {
        self.staged(of, labels).slices.retain(|slice| *slice.id != *id);
    }

    /// Whether a namespace exists.
    pub fn namespace(&mut self, label: &[u8], exists: bool) {
        let hash = self.cluster.hash.of(label);
        let existed = self.cluster.has_namespace(label);
        self.namespaces.entry(label.into()).or_insert(existed);
        if exists {
            self.cluster.namespaces.insert(hash, Arc::new(Namespace(label.into())));
        } else {
            self.cluster.namespaces.remove(hash, label);
        }
        self.changed = true;
    }

    /// That a namespace has a pod with this address, and what its labels say; none where it has it no more. Behind the
    /// namespace its name as text may stand, to be told. Tells whether such a pod was there.
    pub fn pod(&mut self, address: &Address, owner: &[u8], labels: Option<&PodLabels>) -> bool {
        let reversed = |owner: &[u8]| Reversed::new(Side::Inside, address, Rank::Endpoint, owner);
        let own = reversed(owner);
        let pods = &mut self.cluster.pods;
        let mut known = None;
        pods.scan(own.key(), |pod| {
            known = Some(Arc::clone(pod));
            ControlFlow::Break(())
        });
        let known = known.filter(|pod| pod::is_of(pod.key(), own.key()));
        let new = labels.map(|labels| reversed(&[owner, labels.as_bytes()].concat()));
        if known.as_ref().map(|pod| pod.key()) != new.as_ref().map(Reversed::key) {
            if let Some(known) = &known {
                pods.remove(known.key());
            }
            if let Some(new) = new {
                pods.insert(Arc::new(new));
            }
            self.changed = true;
        }
        known.is_some()
    }

    /// All is shown in another way from now on, in the same zones, whose SOAs may be others. Who has them is told all of it.
    pub fn show_anew(&mut self, zones: Vec<Apex>) {
        self.cluster.zones = zones.into();
        self.is_shown_anew = true;
        self.changed = true;
    }

    /// Everything has been read once.
    pub fn synced(&mut self) {
        self.cluster.synced = true;
        self.changed = true;
    }

    /// Whether a service has no address of its own; nothing where it is not there.
    #[must_use]
    pub fn is_headless(&mut self, of: Of, labels: &[u8]) -> Option<bool> {
        let service = self.staged(of, labels).service.as_ref()?;
        Some(service.kind == Kind::Endpoints)
    }

    /// All changes become a new version, with a serial of this time.
    #[must_use]
    pub fn finish(mut self, unix_secs: u64) -> Cluster {
        for ((of, labels), staged) in std::mem::take(&mut self.staged) {
            self.place(of, labels, staged);
        }
        if self.changed {
            self.remember();
            let cluster = &mut self.cluster;
            cluster.serial = next_serial(cluster.serial, unix_secs);
            cluster.soas = cluster.zones.iter().map(|zone| zone.soa(cluster.serial)).collect();
        }
        self.cluster
    }

    fn place(&mut self, of: Of, labels: Box<[u8]>, staged: Staged) {
        let hash = self.cluster.hash.of(&labels);
        let entries = match of {
            Of::Cluster => &mut self.cluster.services,
            Of::Clusterset => &mut self.cluster.imports,
        };
        let old = entries.get(hash, &labels).cloned();
        let Staged { service, slices } = staged;
        let new =
            (service.is_some() || !slices.is_empty()).then(|| Arc::new(Entry::new(&labels, service, slices.into())));
        match &new {
            Some(new) => entries.insert(hash, Arc::clone(new)),
            None => entries.remove(hash, &labels),
        }
        self.changed = true;
        // What other clusters have is not asked for by address.
        if of == Of::Cluster {
            self.readdress(&labels, old.as_deref(), new.as_deref());
        }
        if self.cluster.history.is_some() {
            self.changes.insert((of, labels), [old, new]);
        }
    }

    /// Notes what this version changes for those who have the last one.
    fn remember(&mut self) {
        // Nobody was given a zone before everything had been read.
        if self.cluster.history.is_none() || !self.was_synced {
            return;
        }
        if self.is_shown_anew {
            self.cluster.history = Some(History::default());
            return;
        }
        let mut changes = std::mem::take(&mut self.changes);
        let exists = |label: &[u8]| self.cluster.has_namespace(label);
        // The services of a namespace come and go with it.
        self.namespaces.retain(|label, existed| *existed != exists(label));
        if !self.namespaces.is_empty() {
            for of in [Of::Cluster, Of::Clusterset] {
                let entries = self.cluster.entries(of).iter();
                for entry in entries.filter(|entry| self.namespaces.contains_key(entry.namespace())) {
                    let unchanged = || [Some(Arc::clone(entry)), Some(Arc::clone(entry))];
                    changes.entry((of, entry.key().into())).or_insert_with(unchanged);
                }
            }
        }
        let existed = |label: &[u8]| self.namespaces.get(label).copied().unwrap_or_else(|| exists(label));
        let version = |entry: Option<Arc<Entry>>, is_shown: &dyn Fn(&[u8]) -> bool| {
            let entry = entry.filter(|entry| entry.service.is_some())?;
            let is_shown = is_shown(entry.namespace());
            Some(Version { entry, is_shown })
        };
        let changes = changes.into_iter().map(|((of, _), [old, new])| Changed {
            of,
            old: version(old, &existed),
            new: version(new, &exists),
        });
        let changes = changes
            .filter(|change| change.old.is_some() || change.new.is_some())
            .collect();
        let from = self.cluster.serial;
        if let Some(history) = &mut self.cluster.history {
            history.push(from, changes);
        }
    }

    fn readdress(&mut self, labels: &[u8], old: Option<&Entry>, new: Option<&Entry>) {
        let (old, new) = (
            old.map(addresses).unwrap_or_default(),
            new.map(addresses).unwrap_or_default(),
        );
        for (side, rank, address) in old.difference(&new) {
            let gone = Reversed::new(*side, address, *rank, labels);
            self.cluster.addresses.remove(gone.key());
        }
        for (side, rank, address) in new.difference(&old) {
            let came = Reversed::new(*side, address, *rank, labels);
            self.cluster.addresses.insert(Arc::new(came));
        }
    }
}

/// The addresses by which a service can be asked for.
fn addresses(entry: &Entry) -> HashSet<(Side, Rank, Address)> {
    let Some(service) = &entry.service else {
        return HashSet::new();
    };
    let own = match &service.kind {
        Kind::Addresses(addresses) => &**addresses,
        _ => &[],
    };
    let own = own.iter().map(|address| (Side::Inside, Rank::Service, *address));
    let v4 = entry.v4.iter().map(|octets| Address::V4(*octets));
    let v6 = entry.v6.iter().map(|octets| Address::V6(*octets));
    let endpoints = v4.chain(v6).map(|address| (Side::Inside, Rank::Endpoint, address));
    let outside = service.external.iter().filter_map(External::address);
    let outside = outside.map(|address| (Side::Outside, Rank::Service, *address));
    own.chain(endpoints).chain(outside).collect()
}
