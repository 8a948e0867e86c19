//! Zones: what a source holds, in the form in which it is answered.
//!
//! There are two kinds. A [`RecordZone`] has record sets by name (files, hosts), and a hit is a look-up and a copy. A
//! [`ServiceTree`] has SkyDNS services by key, whose answers depend on the level that is asked. Both are immutable;
//! a change makes a new version that shares all but the changed paths.

pub(crate) mod absolute;
mod builder;
pub(crate) mod link;
mod lookup;
mod records;
mod rrset;
pub(crate) mod small;
pub mod trie;

pub use builder::{Collector, OutOfZone, RecordZoneBuilder};
pub use lookup::Found;
pub use records::{Node, RecordZone};
pub use rrset::RrSet;

use nodens_wire::Name;

use crate::services::ServiceTree;

/// A zone of either kind.
#[derive(Clone, Debug)]
pub enum Zone {
    /// Record sets by name.
    Records(RecordZone),
    /// SkyDNS services by key.
    Services(ServiceTree),
}

impl Zone {
    /// The record zone, where it is one.
    #[must_use]
    pub fn records(&self, _apex: Name<'_>) -> Option<&RecordZone> {
        match self {
            Self::Records(zone) => Some(zone),
            Self::Services(_) => None,
        }
    }
}
