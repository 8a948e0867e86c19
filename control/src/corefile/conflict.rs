//! Two blocks must not serve the same zone in the same place, nor two kinds of HTTP endpoints at the same address.

use std::collections::HashMap;

use nodens_wire::NameBuf;

use super::diagnostic::Diagnostic;
use super::settings::{BindPlace, BindTarget, EndpointKind, HttpAddress, Scheme, ServerBlock};
use super::source::Span;

/// Finds zones that are served twice at one address and port, and those that one block serves at an address and
/// another everywhere.
///
/// `addresses` gives the addresses of a block, none for the wildcard. [`written_addresses`] knows those that stand in
/// the Corefile; with the addresses of interfaces filled in the check finds more.
pub fn check(blocks: &[ServerBlock], addresses: impl Fn(&ServerBlock) -> Vec<String>) -> Vec<Diagnostic> {
    let mut served: HashMap<(Place<'_>, String), Span> = HashMap::new();
    let mut unbound: HashMap<Place<'_>, Span> = HashMap::new();
    let mut bound: HashMap<Place<'_>, (String, Span)> = HashMap::new();
    let mut errors = Vec::new();
    for block in blocks {
        let mut addresses = addresses(block);
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            addresses.push(String::new());
        }
        for key in &block.keys {
            let place = Place {
                scheme: key.scheme,
                zone: &key.zone,
                port: key.port,
            };
            for address in &addresses {
                // A block with a view shares its zones with others.
                if block.view.is_none() {
                    if let Some(first) = served.get(&(place, address.clone())) {
                        let text = format!("cannot serve {} - it is already defined", place.shown(address));
                        let error = Diagnostic::error(key.span, text).related(*first, "defined here");
                        let is_own = block.keys.iter().any(|own| own.span == *first);
                        errors.push(error.help(if is_own {
                            "name a zone once in a block"
                        } else {
                            "put both blocks into one, or give one a `view`"
                        }));
                        break;
                    }
                    served.insert((place, address.clone()), key.span);
                }
                let other = if address.is_empty() {
                    unbound.insert(place, key.span);
                    bound.get(&place).map(|(address, span)| (place.shown(address), *span))
                } else {
                    bound.entry(place).or_insert_with(|| (address.clone(), key.span));
                    unbound.get(&place).map(|span| (place.shown(""), *span))
                };
                if let Some((other, span)) = other {
                    let text = format!("zone overlap listener capacity with {other}");
                    let error = Diagnostic::error(key.span, format!("cannot serve {} - {text}", place.shown(address)));
                    errors.push(
                        error
                            .related(span, "also served here")
                            .help("`bind` both blocks or neither"),
                    );
                    break;
                }
            }
        }
    }
    errors
}

/// Finds endpoints that cannot listen where one of another kind does. Those of one kind are the same.
pub fn check_endpoints(blocks: &[ServerBlock]) -> Vec<Diagnostic> {
    let mut taken: Vec<(EndpointKind, &HttpAddress)> = Vec::new();
    let mut errors = Vec::new();
    // For port 0 the kernel finds one.
    let endpoints = blocks.iter().flat_map(ServerBlock::endpoints);
    for (kind, address) in endpoints.filter(|(_, address)| address.port != 0) {
        match taken.iter().find(|(_, first)| first.is_same(address)) {
            None => taken.push((kind, address)),
            Some((first, _)) if *first == kind => {}
            Some((first, other)) => {
                let (directive, first) = (kind.as_str(), first.as_str());
                let HttpAddress { host, port, span } = address;
                let text = format!("plugin/{directive}: `{first}` listens on {host}:{port} already");
                let error = Diagnostic::error(*span, text).related(other.span, "here");
                errors.push(error.help("give one of them another port"));
            }
        }
    }
    errors
}

/// The words of a block's `bind` lines, without those that `except` takes away.
pub fn written_addresses(block: &ServerBlock) -> Vec<String> {
    let mut addresses = Vec::new();
    for bind in &block.bind {
        let excluded: Vec<String> = bind.except.iter().map(written).collect();
        addresses.extend(
            bind.include
                .iter()
                .map(written)
                .filter(|address| !excluded.contains(address)),
        );
    }
    addresses
}

fn written(target: &BindTarget) -> String {
    match &target.place {
        BindPlace::Address(address, None) => address.to_string(),
        BindPlace::Address(address, Some(scope)) => format!("{address}%{scope}"),
        BindPlace::Interface(name) => name.clone(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place<'b> {
    scheme: Scheme,
    zone: &'b NameBuf,
    port: u16,
}

impl Place<'_> {
    fn shown(self, address: &str) -> String {
        let on = if address.is_empty() {
            String::new()
        } else {
            format!(" on {address}")
        };
        format!("{}://{}:{}{on}", self.scheme.as_str(), self.zone, self.port)
    }
}
