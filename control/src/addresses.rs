//! Where a block listens: what `bind` names, or every address.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use nodens_engine::io::{interface_addresses, wildcard};

use crate::corefile::Diagnostic;
use crate::corefile::settings::{BindPlace, BindTarget, ServerBlock};

/// Where a block listens: the address, and whether it was asked for by `bind`.
pub(crate) struct Place {
    pub(crate) address: IpAddr,
    pub(crate) scope: u32,
    pub(crate) is_bound: bool,
}

impl Place {
    /// With a port.
    pub(crate) fn socket(&self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V4(address) => SocketAddr::from((address, port)),
            IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, self.scope).into(),
        }
    }
}

/// The places of a block.
pub(crate) fn places(block: &ServerBlock, notices: &mut Vec<String>, errors: &mut Vec<Diagnostic>) -> Vec<Place> {
    if block.bind.is_empty() {
        let (address, notice) = wildcard();
        if let Some(notice) = notice.map(str::to_owned).filter(|notice| !notices.contains(notice)) {
            notices.push(notice);
        }
        return vec![Place {
            address,
            scope: 0,
            is_bound: false,
        }];
    }
    let mut places: Vec<Place> = Vec::new();
    for bind in &block.bind {
        let mut all = |targets: &[BindTarget]| -> Vec<SocketAddr> {
            targets.iter().flat_map(|target| addresses(target, errors)).collect()
        };
        let (except, include) = (all(&bind.except), all(&bind.include));
        for socket in include {
            let scope = if let SocketAddr::V6(socket) = socket {
                socket.scope_id()
            } else {
                0
            };
            let is_known = places
                .iter()
                .any(|place| place.address == socket.ip() && place.scope == scope);
            if !except.contains(&socket) && !is_known {
                places.push(Place {
                    address: socket.ip(),
                    scope,
                    is_bound: true,
                });
            }
        }
    }
    places
}

/// The addresses of a word of `bind`, with port 0.
fn addresses(target: &BindTarget, errors: &mut Vec<Diagnostic>) -> Vec<SocketAddr> {
    match &target.place {
        BindPlace::Address(IpAddr::V6(address), Some(scope)) => {
            let number = scope.parse().ok().or_else(|| {
                let own = interface_addresses(scope).ok().flatten()?;
                own.iter().find_map(|own| match own {
                    SocketAddr::V6(own) if own.scope_id() != 0 => Some(own.scope_id()),
                    _ => None,
                })
            });
            vec![SocketAddrV6::new(*address, 0, 0, number.unwrap_or_default()).into()]
        }
        BindPlace::Address(address, _) => vec![SocketAddr::from((*address, 0))],
        BindPlace::Interface(name) => match interface_addresses(name) {
            Ok(Some(addresses)) => addresses,
            Ok(None) | Err(_) => {
                let text = format!("plugin/bind: not a valid IP address or interface name: \"{name}\"");
                errors.push(
                    Diagnostic::error(target.span, text)
                        .label("no address, and no interface of this host")
                        .help("`ip address` lists the interfaces and addresses that can stand here"),
                );
                Vec::new()
            }
        },
    }
}
