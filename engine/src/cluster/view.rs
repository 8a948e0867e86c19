//! How a stanza shows a cluster.

use nodens_wire::NameBuf;

use super::objects::Address;

/// What answers names of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    /// There are none.
    #[default]
    Disabled,
    /// The name itself: whatever address it spells.
    Insecure,
    /// A pod that exists.
    Verified,
}

/// What `kubernetes` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Of records, in seconds.
    pub ttl: u32,
    /// Only these namespaces: labels, folded and in wire form.
    pub namespaces: Option<Vec<Box<[u8]>>>,
    /// Names of pods.
    pub pods: Pods,
    /// A service whose endpoints are not ready is not there.
    pub ignore_empty_services: bool,
    /// Endpoints can be asked for by topology zone.
    pub zonal: bool,
    /// Below which zone addresses have their names.
    pub primary: NameBuf,
    /// Where this server can be reached.
    pub own: Vec<Address>,
}

/// What `k8s_external` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalView {
    /// Of addresses, in seconds.
    pub ttl: u32,
    /// The label below which the zone names its servers, in wire form.
    pub apex: Box<[u8]>,
    /// Endpoints of services that cannot be reached from outside are shown.
    pub headless: bool,
    /// Below which zone addresses have their names.
    pub primary: NameBuf,
}

/// What kind of zone shows a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zoned {
    /// Names of services and pods.
    Forward,
    /// The same, of the services of a set of clusters.
    Clusterset,
    /// Names of addresses.
    Reverse,
}

/// A zone that shows a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its place among the zones of the data.
    pub place: u16,
    /// Its kind.
    pub kind: Zoned,
}

impl View {
    /// Whether names of a namespace may be shown, if it exists.
    pub(super) fn exposes(&self, namespace: &[u8]) -> bool {
        self.namespaces
            .as_ref()
            .is_none_or(|exposed| exposed.iter().any(|label| **label == *namespace))
    }
}
