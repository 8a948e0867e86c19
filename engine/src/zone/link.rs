//! What ties names of a record zone together: the addresses an answer carries for the names it points to, and the
//! zone's own AUTHORITY records.

use std::sync::Arc;

use nodens_wire::rdata::{self, Field};
use nodens_wire::{Name, NameBuf, Rtype, Section};

use super::absolute::absolute;
use super::records::{Authority, Node, RecordZone};
use super::rrset::RrSet;
use crate::encode::{PreparedBuf, Template, ToRender};

/// Types whose answers bring the addresses of their targets.
pub(crate) fn has_targets(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::MX | Rtype::SRV | Rtype::NS | Rtype::SVCB | Rtype::HTTPS)
}

/// The name that such a record points to, in wire form.
pub(crate) fn target(rtype: Rtype, rdata: &[u8]) -> Option<Name<'_>> {
    let mut rest = rdata;
    for field in rdata::layout(rtype) {
        match field {
            Field::Fixed(len) => rest = rest.get(usize::from(*len)..)?,
            Field::Name { .. } => return Name::split_wire(rest).ok().map(|(name, _)| name),
            _ => return None,
        }
    }
    None
}

/// The names inside the zone that a set points to, as folded labels relative to the apex.
pub(super) fn targets(zone: &RecordZone, set: &RrSet) -> Vec<Box<[u8]>> {
    if !has_targets(set.rtype) {
        return Vec::new();
    }
    let names = set
        .iter()
        .filter_map(|(_, rdata)| target(set.rtype, rdata).map(|name| name.to_buf().folded()));
    names
        .filter_map(|name: NameBuf| name.as_name().strip(zone.apex()).map(Box::from))
        .collect()
}

/// The A and AAAA sets of the names inside the zone that a set points to, each name once.
pub(crate) fn addresses<'z>(zone: &'z RecordZone, set: &'z RrSet, mut each: impl FnMut(&'z [u8], &'z RrSet)) {
    if !has_targets(set.rtype) {
        return;
    }
    for rdata in set.iter_unrepeated() {
        let Some(name) = target(set.rtype, rdata) else { continue };
        let Some(labels) = name.strip(zone.apex()) else {
            continue;
        };
        let mut folded = [0; 255];
        let folded = &mut folded[..labels.len()];
        nodens_wire::label::fold_into(labels, folded);
        let Some(node) = zone.node(folded) else { continue };
        for rtype in [Rtype::A, Rtype::AAAA] {
            if let Some(addresses) = node.set(rtype) {
                each(name.as_bytes(), addresses);
            }
        }
    }
}

/// The answer of a set as bytes; `None` where it is not the same for every question.
pub(super) fn answer(zone: &RecordZone, node: &Node, set: &RrSet) -> Option<Arc<PreparedBuf<1>>> {
    let owner = absolute(node.labels(), zone.apex())?;
    let mut records = ToRender::new(owner.as_name());
    for (ttl, rdata) in set.iter() {
        records.add(Section::Answer, owner.as_name(), set.rtype, ttl, rdata);
    }
    addresses(zone, set, |name, addresses| {
        let Ok(name) = Name::from_wire(name) else { return };
        for (ttl, rdata) in addresses.iter() {
            records.add(Section::Additional, name, addresses.rtype, ttl, rdata);
        }
    });
    Some(Arc::new(PreparedBuf::of([Some(&records)])))
}

/// The zone's SOA and NS as they stand in AUTHORITY.
pub(super) fn authority(zone: &RecordZone) -> Authority {
    let template = |rtype| {
        let set = zone.node(b"")?.set(rtype)?;
        let mut records = ToRender::new(zone.apex());
        for (ttl, rdata) in set.iter() {
            records.add(Section::Authority, zone.apex(), rtype, ttl, rdata);
        }
        Template::of(&records)
    };
    Authority {
        soa: template(Rtype::SOA),
        ns: template(Rtype::NS),
    }
}
