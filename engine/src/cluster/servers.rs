//! By which names and addresses this server is known to the cluster that it serves.

use std::ops::ControlFlow;

use super::Cluster;
use super::editor::Of;
use super::entry::Entry;
use super::objects::{Address, Endpoint, External, Kind, Slice};
use super::reverse::{self, Rank, Side};
use super::view::View;

/// A name server: its labels in front of the zone, and its addresses.
pub(super) type Server<'z> = (Vec<u8>, Vec<&'z Address>);

impl Cluster {
    /// The services that this server is an endpoint of, hidden ones too, each with the slice in which it is.
    pub(super) fn own_services<'z>(&'z self, view: &View, mut visit: impl FnMut(&'z Entry, &'z Slice)) {
        let mut seen = Vec::new();
        for own in &view.own {
            reverse::each(&self.addresses, Side::Inside, own, |reversed| {
                let entry = match reversed.rank() {
                    Rank::Endpoint => self.service(Of::Cluster, reversed.labels()),
                    Rank::Service => None,
                };
                let slices = entry
                    .into_iter()
                    .flat_map(|entry| entry.slices.iter().map(move |slice| (entry, &**slice)));
                for (entry, slice) in
                    slices.filter(|(_, slice)| slice.endpoints.iter().any(|at| at.address() == Some(own)))
                {
                    let id = (entry.key(), &*slice.id);
                    if !seen.contains(&id) {
                        seen.push(id);
                        visit(entry, slice);
                    }
                }
                ControlFlow::Continue(())
            });
        }
    }

    /// The name servers of a zone: the services of which this server is an endpoint, else `ns.dns`.
    pub(super) fn name_servers<'z>(&'z self, view: &'z View) -> Vec<Server<'z>> {
        let mut servers: Vec<Server<'z>> = Vec::new();
        self.own_services(view, |entry, slice| {
            let kind = entry.service.as_deref().map(|service| &service.kind);
            if let Some(Kind::Addresses(addresses)) = kind {
                let labels = [entry.key(), b"\x03svc"].concat();
                servers.push((labels, addresses.iter().collect()));
                return;
            }
            for endpoint in &slice.endpoints {
                if let (Some(labels), Some(address)) = (endpoint.labels(&slice.cluster), endpoint.address()) {
                    let labels = [&labels[..], entry.key(), b"\x03svc"].concat();
                    servers.push((labels, vec![address]));
                }
            }
        });
        if servers.is_empty() && !view.own.is_empty() {
            servers.push((b"\x02ns\x03dns".to_vec(), view.own.iter().collect()));
        }
        servers
    }

    /// The addresses of `ns.dns`.
    pub(super) fn server_addresses<'z>(&'z self, view: &'z View) -> Vec<&'z Address> {
        let mut addresses: Vec<&'z Address> = Vec::new();
        self.own_services(view, |entry, slice| {
            match entry.service.as_deref().map(|service| &service.kind) {
                Some(Kind::Addresses(own)) => addresses.extend(own),
                _ => addresses.extend(slice.endpoints.iter().filter_map(Endpoint::address)),
            }
        });
        if addresses.is_empty() {
            addresses.extend(&view.own);
        }
        addresses
    }

    /// Where this server is reached from outside: by the addresses of its services, hidden ones too, else by its own.
    pub(super) fn server_addresses_outside<'z>(&'z self, view: &'z View) -> Vec<&'z Address> {
        let mut addresses = Vec::new();
        self.own_services(view, |entry, _| {
            let external = entry.service.iter().flat_map(|service| &service.external);
            for address in external.filter_map(External::address) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        });
        if addresses.is_empty() {
            addresses.extend(&view.own);
        }
        addresses
    }
}

impl View {
    /// This server is an endpoint of the service, so that the service says how it is known.
    pub(super) fn is_own(&self, entry: &Entry) -> bool {
        self.own.iter().any(|own| match own {
            Address::V4(octets) => entry.v4.contains(octets),
            Address::V6(octets) => entry.v6.contains(octets),
        })
    }
}
