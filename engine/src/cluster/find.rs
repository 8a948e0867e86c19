//! What there is at a name below a zone, whatever is asked about it.

use std::ops::ControlFlow;

use super::Cluster;
use super::editor::Of;
use super::entry::Entry;
use super::objects::{Address, Endpoint, Kind, Place, Port, Service, Slice};
use super::reverse::{self, Rank, Reverse, Side};
use super::schema::{Meaning, Part, PortName};
use super::view::{Pods, View};
use crate::plan::Held;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a, 'z> {
    /// No such name.
    Missing,
    /// The name exists, and nothing stands at it.
    Empty,
    /// The zone itself.
    Apex,
    /// The version of the schema.
    Version,
    /// The name server of the zone.
    NameServer,
    /// Addresses and ports of a service's own.
    Service {
        entry: &'z Entry,
        service: &'z Service,
        addresses: &'z [Address],
        port: Option<PortName<'a>>,
    },
    /// Endpoints of a service.
    Endpoints {
        entry: &'z Entry,
        which: Which<'a>,
        port: Option<PortName<'a>>,
    },
    /// Another name for something else, in wire form.
    Alias(&'z [u8]),
    /// A pod: its label and its namespace, without and with its length.
    Pod {
        address: Address,
        label: &'a [u8],
        namespace: &'a [u8],
    },
    /// Whoever has this address.
    Address(Address),
}

/// Which endpoints of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which<'a> {
    /// All.
    All,
    /// Those of this label, and of this cluster.
    Labelled { label: &'a [u8], cluster: &'a [u8] },
    /// Those in the topology zone of these labels.
    In(&'a [u8]),
}

impl PortName<'_> {
    pub(super) fn is(&self, port: &Port) -> bool {
        (self.name.is_empty() || *self.name == *port.name)
            && (self.protocol.is_empty() || *self.protocol == *port.protocol)
    }
}

/// Whether some port is meant; without a name all are.
pub(super) fn has_port(ports: &[Port], port: Option<PortName<'_>>) -> bool {
    port.is_none_or(|port| ports.iter().any(|other| port.is(other)))
}

/// Two labels name a port that is there.
fn names_port(ports: &[Port], part: Part<'_>) -> bool {
    part.port().is_some_and(|port| has_port(ports, Some(port)))
}

/// Two labels are an endpoint and its cluster, not a port.
fn is_of_cluster(of: Of, part: Part<'_>) -> bool {
    of == Of::Clusterset && matches!(part, Part::Two(label, cluster) if label[0] != b'_' && cluster[0] != b'_')
}

/// Whether some port that has a name is of the protocol that a label spells.
fn has_protocol(ports: &[Port], label: &[u8]) -> bool {
    let protocol = label.strip_prefix(b"_").unwrap_or(label);
    ports
        .iter()
        .any(|port| !port.name.is_empty() && *port.protocol == *protocol)
}

impl Entry {
    /// The endpoints that are meant, with their slices; of slices with such a port only.
    pub(super) fn select<'s, 'q>(
        &'s self,
        which: Which<'q>,
        port: Option<PortName<'q>>,
    ) -> impl Iterator<Item = (&'s Slice, &'s Endpoint)> + use<'s, 'q> {
        self.slices
            .iter()
            .map(|slice| &**slice)
            .filter(move |slice| has_port(&slice.ports, port))
            .flat_map(move |slice| {
                let labelled = match which {
                    Which::Labelled { label, cluster } => (*cluster == *slice.cluster).then(|| slice.labelled(label)),
                    Which::All | Which::In(_) => None,
                };
                let others = match which {
                    Which::Labelled { .. } => None,
                    Which::All | Which::In(_) => Some(slice.endpoints.iter()),
                };
                labelled
                    .into_iter()
                    .flatten()
                    .chain(others.into_iter().flatten().filter(move |endpoint| match which {
                        Which::In(zone) => slice.is_in(endpoint, zone),
                        Which::All | Which::Labelled { .. } => true,
                    }))
                    .map(move |endpoint| (slice, endpoint))
            })
    }

    fn has(&self, which: Which<'_>, port: Option<PortName<'_>>) -> bool {
        self.select(which, port).next().is_some()
    }

    /// The name that stands for the endpoints that are meant, where one of them is a name.
    pub(super) fn alias<'z>(&'z self, which: Which<'_>) -> Option<&'z [u8]> {
        self.slices.iter().find_map(|slice| {
            // Slices of names are rare, and all of one kind.
            let first = slice.endpoints.first()?;
            let Place::Name(_) = first.place else { return None };
            let meant = match which {
                Which::Labelled { label, .. } => slice.endpoints.iter().find(|endpoint| *endpoint.label() == *label)?,
                Which::All | Which::In(_) => first,
            };
            match &meant.place {
                Place::Name(name) => Some(&**name),
                Place::Address(_) => None,
            }
        })
    }
}

impl Cluster {
    /// What there is at a name below a zone of services and pods; `held` is what the first pass found there.
    pub(super) fn find<'a, 'z>(
        &'z self,
        view: &View,
        of: Of,
        meaning: Meaning<'a>,
        held: Option<&Held<'z>>,
    ) -> Found<'a, 'z> {
        match meaning {
            Meaning::Apex => Found::Apex,
            Meaning::Always => Found::Empty,
            Meaning::Version => Found::Version,
            Meaning::NameServer => Found::NameServer,
            Meaning::Services(namespace) if self.shows(view, namespace) => Found::Empty,
            Meaning::Pods(namespace) if view.pods != Pods::Disabled && self.shows(view, namespace) => Found::Empty,
            Meaning::Service { labels, part } => self.find_service(view, of, labels, part, held),
            Meaning::Pod { label, namespace } => self.find_pod(view, label, namespace),
            Meaning::Nothing | Meaning::Services(_) | Meaning::Pods(_) => Found::Missing,
        }
    }

    /// A namespace exists and is not hidden.
    pub(super) fn shows(&self, view: &View, namespace: &[u8]) -> bool {
        view.exposes(namespace) && self.has_namespace(namespace)
    }

    fn find_service<'a, 'z>(
        &'z self,
        view: &View,
        of: Of,
        labels: &[u8],
        part: Part<'a>,
        held: Option<&Held<'z>>,
    ) -> Found<'a, 'z> {
        let Some((entry, service)) = self.shown(view, of, labels, held) else {
            return Found::Missing;
        };
        match &service.kind {
            Kind::Nothing => Found::Missing,
            Kind::Alias(target) if part == Part::Whole => Found::Alias(target),
            Kind::Alias(_) => Found::Missing,
            Kind::Addresses(_) if view.ignore_empty_services && !entry.is_ready() => Found::Missing,
            Kind::Addresses(addresses) => {
                let whole = |port| Found::Service {
                    entry,
                    service,
                    addresses,
                    port,
                };
                match part {
                    // A service of a set of clusters has no port that stands for those it does not name.
                    Part::Whole if of == Of::Clusterset && service.ports.is_empty() => Found::Missing,
                    Part::Whole => whole(None),
                    Part::Two(..) if !is_of_cluster(of, part) && names_port(&service.ports, part) => whole(part.port()),
                    Part::One(label) if has_protocol(&service.ports, label) => Found::Empty,
                    Part::Zoned(_) => Found::Missing,
                    part => endpoints(entry, of, part, false),
                }
            }
            Kind::Endpoints => endpoints(entry, of, part, view.zonal && of == Of::Cluster),
        }
    }

    fn find_pod<'a, 'z>(&'z self, view: &View, label: &'a [u8], namespace: &'a [u8]) -> Found<'a, 'z> {
        if view.pods == Pods::Disabled || !self.shows(view, namespace) {
            return Found::Missing;
        }
        let Some(address) = Address::of_pod(label) else {
            return Found::Missing;
        };
        let is_there = match view.pods {
            Pods::Disabled => false,
            Pods::Insecure => true,
            Pods::Verified => address.is_usual(label) && self.has_pod(&address, namespace),
        };
        if is_there {
            Found::Pod {
                address,
                label,
                namespace,
            }
        } else {
            Found::Missing
        }
    }

    fn has_pod(&self, address: &Address, namespace: &[u8]) -> bool {
        let mut found = false;
        reverse::each(&self.pods, Side::Inside, address, |pod| {
            found = pod.namespace() == namespace;
            if found {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        found
    }

    /// The namespace of a pod with this address, as a label in wire form.
    pub(crate) fn namespace_of(&self, address: &Address) -> Option<&[u8]> {
        let mut namespace = None;
        reverse::each(&self.pods, Side::Inside, address, |pod| {
            namespace = Some(pod.namespace());
            ControlFlow::Break(())
        });
        namespace
    }

    /// The name of a pod with this address, where names are kept.
    pub(crate) fn pod_name_of(&self, address: &Address) -> Option<&[u8]> {
        let mut name = None;
        reverse::each(&self.pods, Side::Inside, address, |pod| {
            name = pod.labels().get(pod.namespace().len()..);
            ControlFlow::Break(())
        });
        name.filter(|name| !name.is_empty())
    }

    /// What there is at a name below a reverse zone.
    pub(super) fn find_reverse<'z>(&'z self, view: &View, side: Side, folded: &[u8]) -> Found<'static, 'z> {
        match reverse::parse(folded) {
            Some(Reverse::Address(address)) if self.has_address(view, side, &address) => Found::Address(address),
            Some(begins @ Reverse::Begins { .. }) if begins.exists(&self.addresses, side) => Found::Empty,
            _ => Found::Missing,
        }
    }

    fn has_address(&self, view: &View, side: Side, address: &Address) -> bool {
        let mut found = false;
        self.each_of(view, side, address, |_, _| {
            found = true;
            ControlFlow::Break(())
        });
        found
    }

    /// Those who have an address and may be shown, a service's own first.
    pub(super) fn each_of<'z>(
        &'z self,
        view: &View,
        side: Side,
        address: &Address,
        mut visit: impl FnMut(Rank, &'z Entry) -> ControlFlow<()>,
    ) {
        reverse::each(&self.addresses, side, address, |reversed| {
            match self.shown(view, Of::Cluster, reversed.labels(), None) {
                Some((entry, _)) => visit(reversed.rank(), entry),
                None => ControlFlow::Continue(()),
            }
        });
    }
}

/// What there is of a service's endpoints.
pub(super) fn endpoints<'a, 'z>(entry: &'z Entry, of: Of, part: Part<'a>, zonal: bool) -> Found<'a, 'z> {
    let meant = |which, port| {
        if !entry.has(which, port) {
            Found::Missing
        } else if let Some(alias) = entry.alias(which) {
            Found::Alias(alias)
        } else {
            Found::Endpoints { entry, which, port }
        }
    };
    match part {
        Part::Whole => meant(Which::All, None),
        Part::One(b"_zone") if zonal => Found::Empty,
        Part::Two(b"pin" | b"prefer", b"_zone") if zonal => Found::Empty,
        Part::One(label) => {
            let is_cluster = of == Of::Clusterset && entry.slices.iter().any(|slice| *slice.cluster == *label);
            let found = meant(Which::Labelled { label, cluster: b"" }, None);
            let is_headless = matches!(
                entry.service.as_deref(),
                Some(Service {
                    kind: Kind::Endpoints,
                    ..
                })
            );
            let protocol = || is_headless && entry.slices.iter().any(|slice| has_protocol(&slice.ports, label));
            match found {
                Found::Missing if is_cluster || entry.is_ready() && protocol() => Found::Empty,
                found => found,
            }
        }
        Part::Two(label, cluster) if is_of_cluster(of, part) => meant(Which::Labelled { label, cluster }, None),
        // Only the endpoints of a headless service have names by port.
        Part::Two(..)
            if entry
                .service
                .as_deref()
                .is_some_and(|service| service.kind == Kind::Endpoints) =>
        {
            meant(Which::All, part.port())
        }
        Part::Zoned(topology) if zonal => {
            let which = if topology.prefers && !entry.has(Which::In(topology.zone), None) {
                Which::All
            } else {
                Which::In(topology.zone)
            };
            Found::Endpoints {
                entry,
                which,
                port: None,
            }
        }
        Part::Two(..) | Part::Zoned(_) | Part::Beyond => Found::Missing,
    }
}
