//! What is known of a cluster: services, where they are ready, namespaces and pods, in the form in which they are answered.
//!
//! The third kind of zone. Names follow the DNS schema of clusters (`web.default.svc.cluster.local`), so they need not be
//! stored: a name says which service it belongs to, and which of its endpoints or ports. What is stored is the services.
//! Several zones, reverse ones too, show the same data.
//!
//! ```text
//!   services (hash trie)     "web.default" ──> addresses, ports, slices of endpoints
//!   addresses (B+ tree)      10.244.1.5 web.default, 10.96.0.20 ...      in order, so that half a reverse name exists too
//!   namespaces, pods         what exists
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `objects` | services, slices, endpoints |
//! | `entry` | a service with its slices, and what is worked out ahead |
//! | `editor` | changes become a new version |
//! | `view` | how a stanza shows it |
//! | `schema` | what a name below a zone means |
//! | `find` | what there is at it |
//! | `metadata` | the same for `log` and conditions |
//! | `answer` | the records of that |
//! | `reverse` | names of addresses |
//! | `pod` | what is kept of a pod behind its address |
//! | `external` | the same services as they are reached from outside |
//! | `servers` | by which names this server is known there |
//! | `whole`, `outgoing` | every record of a zone, and how they leave |
//! | `history` | what changed lately, for those who have an older version |

mod answer;
mod editor;
mod entry;
mod external;
mod find;
mod history;
mod metadata;
mod objects;
mod outgoing;
pub(crate) mod pod;
mod reverse;
mod schema;
mod servers;
mod soa;
#[cfg(test)]
mod tests;
mod view;
mod whole;

use std::sync::Arc;

pub use answer::{ALIASES_MAX, ENDPOINTS_MAX};
pub(crate) use answer::{Look, Outcome};
pub use editor::{Editor, Of};
pub(crate) use entry::Entry;
pub use history::HISTORY_MAX;
use history::History;
pub(crate) use metadata::of_name;
pub use objects::{Address, Endpoint, External, Kind, Place, Port, Service, Slice};
pub(crate) use outgoing::Outgoing;
pub use pod::PodLabels;
use reverse::Reversed;
pub(crate) use schema::service_at;
pub use soa::{Apex, Authority};
pub use view::{ExternalView, Pods, Shown, View, Zoned};
pub(crate) use whole::Shows;

use crate::plan::Held;
use crate::zone::keys::Keys;
use crate::zone::small::Small;
use crate::zone::soa::Soa;
use crate::zone::trie::{Keyed, NameHash, Spot, Trie};

/// One version of what is known of a cluster. See the module.
#[derive(Clone, Debug)]
pub struct Cluster {
    hash: NameHash,
    synced: bool,
    serial: u32,
    zones: Arc<[Apex]>,
    /// One for each of the zones.
    soas: Arc<[Soa]>,
    namespaces: Trie<Namespace>,
    services: Trie<Entry>,
    /// Services of a set of clusters.
    imports: Trie<Entry>,
    addresses: Keys<Reversed>,
    pods: Keys<Reversed>,
    /// Where somebody may have whole zones.
    history: Option<History>,
}

/// A namespace that exists.
#[derive(Debug)]
struct Namespace(Small<38>);

impl Keyed for Namespace {
    fn key(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Cluster {
    /// Nothing has been read yet. `zones` are those that show it, each by its place in this list.
    #[must_use]
    pub fn unsynced(zones: Vec<Apex>, serial: u32, hash: NameHash) -> Self {
        let soas = zones.iter().map(|zone| zone.soa(serial)).collect();
        Self {
            hash,
            synced: false,
            serial,
            zones: zones.into(),
            soas,
            namespaces: Trie::default(),
            services: Trie::default(),
            imports: Trie::default(),
            addresses: Keys::default(),
            pods: Keys::default(),
            history: None,
        }
    }

    /// Whether it is kept from now on what changes, for those who have had a whole zone.
    #[must_use]
    pub fn with_history(mut self, is_kept: bool) -> Self {
        let history = self.history.take();
        self.history = is_kept.then(|| history.unwrap_or_default());
        self
    }

    /// The SOA of the zone at a place: its TTL and rdata.
    pub(crate) fn soa(&self, shown: Shown) -> Option<(u32, &[u8])> {
        let soa = self.soas.get(usize::from(shown.place))?;
        Some((soa.ttl, &soa.rdata))
    }

    /// Everything has been read once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Of the last change.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// A new version is made of this.
    #[must_use]
    pub fn edit(&self) -> Editor {
        Editor::new(self.clone())
    }

    /// How many services there are, with or without endpoints.
    #[must_use]
    pub fn services_len(&self) -> usize {
        self.services.len()
    }

    /// See [`Trie::touch`].
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> Spot<'_, Entry> {
        self.services.touch(hash)
    }

    /// The namespace of a label in wire form exists.
    fn has_namespace(&self, label: &[u8]) -> bool {
        self.namespaces.get(self.hash.of(label), label).is_some()
    }

    /// The service of these labels, if it may be shown: its own and its namespace's, folded and in wire form. `held` is what
    /// the first pass over a batch found at them.
    fn shown<'z>(
        &'z self,
        view: &View,
        of: Of,
        labels: &[u8],
        held: Option<&Held<'z>>,
    ) -> Option<(&'z Entry, &'z Service)> {
        let entry = match held {
            Some(Held::Nothing) => return None,
            Some(&Held::Service(entry)) if entry.is(labels) => entry,
            _ => self.service(of, labels)?,
        };
        let service = entry.service.as_deref()?;
        self.shows(view, entry.namespace()).then_some((entry, service))
    }

    fn entries(&self, of: Of) -> &Trie<Entry> {
        match of {
            Of::Cluster => &self.services,
            Of::Clusterset => &self.imports,
        }
    }

    /// The same, though it is hidden.
    fn service(&self, of: Of, labels: &[u8]) -> Option<&Entry> {
        self.entries(of)
            .get(self.hash.of(labels), labels)
            .map(|entry| &**entry)
            .filter(|entry| entry.service.is_some())
    }
}
