//! Zones: what a source holds, in the form in which it is answered.
//!
//! There are three kinds. A [`RecordZone`] has record sets by name (files, hosts), and a hit is a look-up and a copy. A
//! [`ServiceTree`] has SkyDNS services by key, whose answers depend on the level that is asked. A
//! [`Cluster`] has the services of a cluster, whose names need not be stored. All are immutable; a change makes a new version that shares all but the changed paths.

pub(crate) mod absolute;
mod builder;
pub(crate) mod keys;
pub(crate) mod link;
mod lookup;
mod records;
mod rrset;
mod shared;
pub(crate) mod small;
pub(crate) mod soa;
pub mod trie;
mod weights;

pub use builder::{Collector, OutOfZone, RecordZoneBuilder};
pub use keys::Keys;
pub use lookup::Found;
pub use records::{Node, RecordZone};
pub use rrset::RrSet;
pub use weights::Weights;

use crate::cluster::Cluster;
use crate::plan::ZoneMap;
use crate::services::ServiceTree;

/// A zone of either kind, or what is published as one.
#[derive(Clone, Debug)]
pub enum Zone {
    /// Record sets by name.
    Records(RecordZone),
    /// SkyDNS services by key.
    Services(ServiceTree),
    /// Services of a cluster.
    Cluster(Box<Cluster>),
    /// Record zones that come and go, by name.
    Several(ZoneMap<RecordZone>),
    /// Weights of addresses.
    Weights(Weights),
}

impl Zone {
    /// The record zone of this name, folded and in wire form, where that is what it holds.
    #[must_use]
    pub fn records(&self, apex: &[u8]) -> Option<&RecordZone> {
        match self {
            Self::Records(zone) => Some(zone),
            Self::Several(zones) => zones.exact(apex),
            Self::Services(_) | Self::Cluster(_) | Self::Weights(_) => None,
        }
    }
}
