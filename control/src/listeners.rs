//! The addresses that are listened on, and the sockets of each worker there.

use std::net::SocketAddr;

use nodens_engine::io::{self as port, BindError, ListenerId, ListenerSockets, Transport};

use crate::compile::Address;
use crate::corefile::{Diagnostic, Findings, Span};
use crate::takeover::Inherited;

/// Most addresses of the host that get a socket of their own beside a wildcard's.
const OWN_ADDRESSES_MAX: usize = 16;

/// An address where each worker has sockets.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose queries come by them.
    pub listener: ListenerId,
    /// The address.
    pub address: SocketAddr,
    /// Where the Corefile asks for it; nowhere for an address of the host beside a wildcard.
    span: Option<Span>,
    transports: &'static [Transport],
}

impl Place {
    fn is(&self, other: &Self) -> bool {
        (self.listener, self.address) == (other.listener, other.address)
    }

    /// Where other processes meet this one.
    pub fn is_named(&self) -> bool {
        self.span.is_some()
    }

    /// Whether datagrams for one could come by the other.
    fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (self.address, other.address);
        one.port() == other.port()
            && (one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified())
    }
}

/// The places of a configuration. Beside a wildcard stands one for each address that the host has now: the kernel
/// prefers its sockets, and they cost no control message, which names the address, with every query and reply.
/// Addresses that come later are served by the wildcard.
pub fn places(listeners: &[Address]) -> Vec<Place> {
    let mut places = Vec::new();
    for listener in listeners {
        let Address { id, socket, span, .. } = listener;
        let transports = listener.transports();
        places.push(Place {
            listener: *id,
            address: *socket,
            span: Some(*span),
            transports,
        });
        // Streams name their own address, so the wildcard's socket does for all.
        if !socket.ip().is_unspecified() || !transports.contains(&Transport::Udp) {
            continue;
        }
        let mut local = port::local_addresses().unwrap_or_default();
        local.retain(|local| socket.is_ipv6() || local.is_ipv4());
        for mut address in local.into_iter().take(OWN_ADDRESSES_MAX) {
            address.set_port(socket.port());
            if !listeners.iter().any(|other| other.socket == address) {
                places.push(Place {
                    listener: *id,
                    address,
                    span: None,
                    transports: &[Transport::Udp],
                });
            }
        }
    }
    places
}

/// Sockets that are bound and not served yet.
#[derive(Debug, Default)]
pub struct Bound {
    /// All places of the configuration that have sockets.
    pub places: Vec<Place>,
    /// The new sockets of each worker.
    pub sockets: Vec<Vec<ListenerSockets>>,
    /// What was listened on and is not any more.
    pub retired: Vec<(ListenerId, SocketAddr)>,
}

/// Binds what is wanted and not there, for so many workers.
///
/// # Errors
/// All addresses that are taken or cannot be bound.
pub fn bind(wanted: Vec<Place>, there: &[Place], workers: usize, inherited: &mut Inherited) -> Result<Bound, Findings> {
    let mut found = Findings::default();
    let (old, new): (Vec<_>, Vec<_>) = wanted
        .into_iter()
        .partition(|place| there.iter().any(|other| other.is(place)));
    for place in new.iter().filter(|place| place.span.is_some()) {
        // Sockets of our own would count as somebody else's.
        if !there.iter().any(|other| other.overlaps(place)) && !inherited.holds_port(place.address.port()) {
            for &transport in place.transports {
                if let Err(error) = port::probe_taken(place.address, transport) {
                    found.error(failed(place, &error));
                }
            }
        }
    }
    if !found.errors.is_empty() {
        return Err(found);
    }
    let retired = there.iter().filter(|place| !old.iter().any(|other| other.is(place)));
    let mut bound = Bound {
        retired: retired.map(|place| (place.listener, place.address)).collect(),
        places: old,
        sockets: (0..workers).map(|_| Vec::new()).collect(),
    };
    for place in new {
        match sockets(&place, workers, inherited) {
            Ok(sockets) => {
                for (own, sockets) in bound.sockets.iter_mut().zip(sockets) {
                    own.extend(sockets);
                }
                bound.places.push(place);
            }
            // One that cannot be bound, because it is going away, is the wildcard's.
            Err(_) if place.span.is_none() => {}
            Err(error) => found.error(failed(&place, &error)),
        }
    }
    if found.errors.is_empty() { Ok(bound) } else { Err(found) }
}

/// The sockets of each worker at a place: those that were inherited, so that each of them is served, and new ones.
fn sockets(place: &Place, workers: usize, inherited: &mut Inherited) -> Result<Vec<Vec<ListenerSockets>>, BindError> {
    let mut all: Vec<Vec<ListenerSockets>> = (0..workers).map(|_| Vec::new()).collect();
    for &transport in place.transports {
        let mut sockets = inherited.dns(place.address, transport);
        while sockets.len() < workers {
            sockets.push(match transport {
                Transport::Udp => port::bind_udp(place.address)?,
                Transport::Tcp => port::bind_tcp(place.address)?,
            });
        }
        for (socket, at) in sockets.into_iter().zip((0..workers).cycle()) {
            let (udp, tcp) = match transport {
                Transport::Udp => (Some(socket), None),
                Transport::Tcp => (None, Some(socket)),
            };
            let listener = place.listener;
            all[at].push(ListenerSockets { listener, udp, tcp });
        }
    }
    Ok(all)
}

fn failed(place: &Place, error: &BindError) -> Diagnostic {
    let text = error.to_string();
    let finding = match place.span {
        Some(span) => Diagnostic::setup(span, text),
        None => Diagnostic::placeless(text),
    };
    finding.help("`bind ADDRESS` in a block says where it listens, `:PORT` behind a zone on which port")
}
