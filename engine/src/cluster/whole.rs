//! Every record that a zone has of a cluster, service by service: what a secondary is given.
//!
//! Names of pods and of addresses, `dns-version` and names by topology zone are not among them. A service with many
//! endpoints comes in parts, one for each of its slices.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrayvec::ArrayVec;
use nodens_wire::Rtype;

use super::Cluster;
use super::answer::{fixed, weight};
use super::editor::Of;
use super::entry::Entry;
use super::find::Which;
use super::objects::{Address, Endpoint, External, Kind, Place, Port, Service, Slice};
use super::view::{ExternalView, Shown, View, Zoned};
use crate::encode::Part;

/// Takes records until it has no more room.
pub(super) type Emit<'e> = dyn FnMut(&Part<'_>) -> ControlFlow<()> + 'e;

/// Bytes of a name.
type NameBytes = ArrayVec<u8, 255>;

/// A zone of a cluster, and how it shows it.
#[derive(Clone, Debug)]
pub(crate) struct Shows {
    /// The zone.
    pub(crate) shown: Shown,
    /// What `kubernetes` says,
    pub(crate) view: Arc<View>,
    /// and `k8s_external`, where it is a zone of that.
    pub(crate) external: Option<Arc<ExternalView>>,
}

impl Shows {
    /// Whose services it shows.
    pub(super) fn of(&self) -> Of {
        match self.shown.kind {
            Zoned::Clusterset => Of::Clusterset,
            Zoned::Forward | Zoned::Reverse => Of::Cluster,
        }
    }

    /// What stands between a service and the zone.
    fn behind(&self) -> &'static [u8] {
        match &self.external {
            Some(_) => b"",
            None => b"\x03svc",
        }
    }

    /// Of addresses, in seconds.
    fn ttl(&self) -> u32 {
        self.external.as_ref().map_or(self.view.ttl, |external| external.ttl)
    }

    /// How many parts a service comes in.
    pub(super) fn parts(&self, entry: &Entry) -> usize {
        let is_whole = match (entry.service.as_deref(), &self.external) {
            (Some(service), Some(_)) => !service.external.is_empty(),
            (Some(service), None) => service.kind != Kind::Endpoints || entry.alias(Which::All).is_some(),
            (None, _) => true,
        };
        if is_whole { 1 } else { entry.slices.len() }
    }
}

/// The records of a zone with this name, each handed to `emit`.
pub(super) struct Records<'a, 'e> {
    pub(super) shows: &'a Shows,
    pub(super) cluster: &'a Cluster,
    /// In wire form.
    pub(super) apex: &'a [u8],
    pub(super) emit: &'a mut Emit<'e>,
}

impl Records<'_, '_> {
    fn emit(&mut self, labels: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> ControlFlow<()> {
        (self.emit)(&Part {
            labels,
            rtype,
            ttl,
            rdata,
        })
    }

    fn addresses<'i>(
        &mut self,
        labels: &[u8],
        ttl: u32,
        mut addresses: impl Iterator<Item = &'i Address>,
    ) -> ControlFlow<()> {
        addresses.try_for_each(|address| self.emit(labels, address.rtype(), ttl, address.octets()))
    }

    /// Labels put together; none where they are too long for a name.
    fn labels(&self, parts: &[&[u8]]) -> Option<NameBytes> {
        let mut labels = NameBytes::new();
        for part in parts {
            labels.try_extend_from_slice(part).ok()?;
        }
        (labels.len() + self.apex.len() <= labels.capacity()).then_some(labels)
    }

    /// SRV that leads to a name in the zone.
    fn srv(&mut self, labels: &[u8], weight: u16, port: u16, target: &[u8]) -> ControlFlow<()> {
        let mut rdata = ArrayVec::<u8, 261>::new();
        for part in [&fixed(weight, port)[..], target, self.apex] {
            // The target was found short enough.
            let _ = rdata.try_extend_from_slice(part);
        }
        self.emit(labels, Rtype::SRV, self.shows.view.ttl, &rdata)
    }

    /// `_port._protocol` in front of a name; none where the port has no name.
    fn port_labels(&self, port: &Port, name: &[u8]) -> Option<NameBytes> {
        if port.name.is_empty() {
            return None;
        }
        let len = |label: &[u8]| u8::try_from(label.len() + 1).ok().filter(|len| *len < 64);
        let (name_len, protocol_len) = (len(&port.name)?, len(&port.protocol)?);
        self.labels(&[
            &[name_len, b'_'],
            &port.name,
            &[protocol_len, b'_'],
            &port.protocol,
            name,
        ])
    }

    /// The SOA, as of a serial.
    pub(super) fn soa(&mut self, serial: u32) -> ControlFlow<()> {
        let apex = self.cluster.zones.get(usize::from(self.shows.shown.place));
        match apex.map(|apex| apex.soa(serial)) {
            Some(soa) => self.emit(b"", Rtype::SOA, soa.ttl, &soa.rdata),
            None => ControlFlow::Continue(()),
        }
    }

    /// The name servers, and their addresses.
    pub(super) fn servers(&mut self) -> ControlFlow<()> {
        let shows = self.shows;
        let (cluster, view) = (self.cluster, &*shows.view);
        let (servers, ttl) = match &shows.external {
            Some(external) => {
                let labels = [b"\x03ns1", &*external.apex].concat();
                (vec![(labels, cluster.server_addresses_outside(view))], external.ttl)
            }
            // CoreDNS gives these addresses a TTL of 0.
            None => (cluster.name_servers(view), 0),
        };
        let mut rdata = Vec::new();
        let mut told = HashSet::new();
        for (labels, _) in &servers {
            if let Some(name) = self.labels(&[labels])
                && told.insert(name.clone())
            {
                rdata.clear();
                rdata.extend_from_slice(&name);
                rdata.extend_from_slice(self.apex);
                self.emit(b"", Rtype::NS, shows.ttl(), &rdata)?;
            }
        }
        let mut told = HashSet::new();
        for (labels, addresses) in &servers {
            if let Some(name) = self.labels(&[labels]) {
                let new = addresses
                    .iter()
                    .copied()
                    .filter(|address| told.insert((labels, **address)));
                self.addresses(&name, ttl, new)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// A part of a service.
    pub(super) fn service(&mut self, entry: &Entry, part: usize) -> ControlFlow<()> {
        let (Some(service), Some(name)) = (
            entry.service.as_deref(),
            self.labels(&[entry.key(), self.shows.behind()]),
        ) else {
            return ControlFlow::Continue(());
        };
        let shows = self.shows;
        if let Some(external) = &shows.external {
            return self.outside(external, entry, service, &name, part);
        }
        match &service.kind {
            Kind::Addresses(addresses) => {
                self.addresses(&name, shows.ttl(), addresses.iter())?;
                for port in &service.ports {
                    self.srv(&name, 100, port.number, &name)?;
                    if let Some(labels) = self.port_labels(port, &name) {
                        self.srv(&labels, 100, port.number, &name)?;
                    }
                }
                ControlFlow::Continue(())
            }
            Kind::Alias(target) => self.emit(&name, Rtype::CNAME, shows.view.ttl, target),
            Kind::Endpoints => self.headless(entry, &name, part),
            Kind::Nothing => ControlFlow::Continue(()),
        }
    }

    /// Everything of a service.
    fn all(&mut self, entry: &Entry) -> ControlFlow<()> {
        (0..self.shows.parts(entry)).try_for_each(|part| self.service(entry, part))
    }

    fn headless(&mut self, entry: &Entry, name: &[u8], part: usize) -> ControlFlow<()> {
        if let Some(alias) = entry.alias(Which::All) {
            return self.names(entry, name, alias);
        }
        let Some(slice) = entry.slices.get(part) else {
            return ControlFlow::Continue(());
        };
        let ttl = self.shows.ttl();
        let weight = weight(slice.endpoints.len());
        let ports: Vec<_> = slice
            .ports
            .iter()
            .filter_map(|port| Some((port.number, self.port_labels(port, name)?)))
            .collect();
        for endpoint in &slice.endpoints {
            let Some(address) = endpoint.address() else { continue };
            self.addresses(name, ttl, std::iter::once(address))?;
            if let Some(own) = self.endpoint(endpoint, name) {
                self.addresses(&own, ttl, std::iter::once(address))?;
                for (number, labels) in &ports {
                    self.srv(labels, weight, *number, &own)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The name of an endpoint in front of its service's. CoreDNS leaves the cluster out here.
    fn endpoint(&self, endpoint: &Endpoint, service: &[u8]) -> Option<NameBytes> {
        self.labels(&[&endpoint.labels(b"")?, service])
    }

    /// Endpoints that are names: aliases, one for each name.
    fn names(&mut self, entry: &Entry, name: &[u8], alias: &[u8]) -> ControlFlow<()> {
        let ttl = self.shows.view.ttl;
        self.emit(name, Rtype::CNAME, ttl, alias)?;
        let mut told = HashSet::new();
        for endpoint in entry.slices.iter().flat_map(|slice| slice.endpoints.iter()) {
            if let Place::Name(target) = &endpoint.place
                && !endpoint.label().is_empty()
                && let Some(own) = self.endpoint(endpoint, name)
                && told.insert(own.clone())
            {
                self.emit(&own, Rtype::CNAME, ttl, target)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// A service as it is reached from outside.
    fn outside(
        &mut self,
        external: &ExternalView,
        entry: &Entry,
        service: &Service,
        name: &[u8],
        part: usize,
    ) -> ControlFlow<()> {
        if service.external.is_empty() {
            return match (&service.kind, entry.slices.get(part)) {
                (Kind::Endpoints, Some(_)) if external.headless => self.headless(entry, name, part),
                (Kind::Addresses(_), Some(slice)) if external.headless => self.endpoints(slice, name),
                _ => ControlFlow::Continue(()),
            };
        }
        let ttl = self.shows.view.ttl;
        let names: Vec<&[u8]> = service
            .external
            .iter()
            .filter_map(|reached| match reached {
                External::Name(name) => Some(&**name),
                External::Address(_) => None,
            })
            .collect();
        let has_addresses = names.len() < service.external.len();
        // A name that has an alias has nothing else.
        match names.first() {
            Some(alias) => self.emit(name, Rtype::CNAME, ttl, alias)?,
            None => {
                self.addresses(
                    name,
                    external.ttl,
                    service.external.iter().filter_map(External::address),
                )?;
                let weight = weight(service.ports.len() * service.external.len());
                let mut told = HashSet::new();
                for port in service.ports.iter().filter(|port| told.insert(port.number)) {
                    self.srv(name, weight, port.number, name)?;
                }
            }
        }
        let weight = weight(service.external.len());
        for port in &service.ports {
            let Some(labels) = self.port_labels(port, name) else {
                continue;
            };
            if has_addresses {
                self.srv(&labels, weight, port.number, name)?;
            }
            for target in &names {
                let rdata = [&fixed(weight, port.number), *target].concat();
                self.emit(&labels, Rtype::SRV, ttl, &rdata)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The addresses of endpoints alone.
    fn endpoints(&mut self, slice: &Slice, name: &[u8]) -> ControlFlow<()> {
        for endpoint in &slice.endpoints {
            if let (Some(address), Some(own)) = (endpoint.address(), self.endpoint(endpoint, name)) {
                self.addresses(&own, self.shows.ttl(), std::iter::once(address))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// What `of` has and `other` has not, each record once.
    pub(super) fn difference(&mut self, of: Option<&Entry>, other: Option<&Entry>) -> ControlFlow<()> {
        let mut seen = HashSet::new();
        let cluster = self.cluster;
        if let Some(other) = other {
            // Nothing stops it.
            let _ = self
                .with(&mut |part| {
                    seen.insert(identity(cluster, part));
                    ControlFlow::Continue(())
                })
                .all(other);
        }
        let Some(of) = of else { return ControlFlow::Continue(()) };
        let Records { shows, apex, emit, .. } = self;
        Records {
            shows,
            cluster,
            apex,
            emit: &mut |part| match seen.insert(identity(cluster, part)) {
                true => emit(part),
                false => ControlFlow::Continue(()),
            },
        }
        .all(of)
    }

    fn with<'b, 'f>(&'b self, emit: &'b mut Emit<'f>) -> Records<'b, 'f> {
        Records {
            shows: self.shows,
            cluster: self.cluster,
            apex: self.apex,
            emit,
        }
    }
}

/// What tells records of one version apart.
fn identity(cluster: &Cluster, part: &Part<'_>) -> u64 {
    let mut bytes = ArrayVec::<u8, 528>::new();
    let (rtype, ttl) = (part.rtype.0.to_be_bytes(), part.ttl.to_be_bytes());
    for field in [part.labels, &rtype, &ttl, part.rdata] {
        // Names have 255 bytes at most.
        let _ = bytes.try_extend_from_slice(field);
    }
    cluster.hash.of(&bytes)
}
