//! The `hosts` step.

use nodens_wire::{Rcode, Rtype};

use super::{Flow, Hosts, StepName, Visit};
use crate::answer::{Answer, Bytes, Owner, Pick};
use crate::zone::{Node, RecordZone, Zone};
use nodens_wire::Section;

#[inline(never)]
pub(super) fn enter<'z>(hosts: &Hosts, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let Some(Zone::Records(zone)) = visit.data.zone(hosts.data) else {
        return Flow::Next;
    };
    let asked = visit.asked;
    let inside = hosts.zones.contains(asked.folded);
    if !inside && asked.rtype != Rtype::PTR {
        return Flow::Next;
    }
    let labels = &asked.folded[..asked.folded.len() - 1];
    let own = visit.node(zone, labels);
    if asked.rtype == Rtype::PTR {
        return match own.filter(|node| node.set(Rtype::PTR).is_some()) {
            Some(node) => found(node, visit, answer),
            None => Flow::Next,
        };
    }
    let covers = hosts
        .fallthrough
        .as_ref()
        .is_some_and(|zones| zones.contains(asked.folded));
    if hosts.fallthrough_unsupported && covers && !matches!(asked.rtype, Rtype::A | Rtype::AAAA) {
        return Flow::Next;
    }
    let has = |node: &&'z Node, rtype| node.set(rtype).is_some();
    let is_address = matches!(asked.rtype, Rtype::A | Rtype::AAAA);
    if let Some(node) = own.filter(|node| is_address && has(node, asked.rtype)) {
        return found(node, visit, answer);
    }
    let star = wildcard(zone, labels);
    // Each family by itself: a wildcard stands in where the name has no address of that family.
    if let Some(node) = star.filter(|node| is_address && has(node, asked.rtype)) {
        return found(node, visit, answer);
    }
    let is_known = |node: &&'z Node| has(node, Rtype::A) || has(node, Rtype::AAAA);
    if own.as_ref().is_some_and(is_known) || star.as_ref().is_some_and(is_known) {
        answer.aa = true;
        answer.by = Some(StepName::Hosts);
        return Flow::Answered;
    }
    if covers {
        return Flow::Next;
    }
    answer.rcode = Rcode::SERVFAIL;
    Flow::Answered
}

/// The entry `*.` in place of the first label, and of no more than one.
fn wildcard<'z>(zone: &'z RecordZone, labels: &[u8]) -> Option<&'z Node> {
    let above = labels.get(1 + usize::from(*labels.first()?)..)?;
    let mut star = [0; 257];
    let star = &mut star[..2 + above.len()];
    star[..2].copy_from_slice(b"\x01*");
    star[2..].copy_from_slice(above);
    zone.node(star)
}

fn found<'z>(node: &'z Node, visit: &Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    answer.aa = true;
    answer.by = Some(StepName::Hosts);
    let rtype = visit.asked.rtype;
    if let Some(prepared) = node.prepared(rtype)
        && visit.asked.may_copy
        && (prepared.is_single() || !visit.shuffles)
    {
        answer.rendered = Some(prepared);
        return Flow::Answered;
    }
    for (ttl, rdata) in node.set(rtype).into_iter().flat_map(crate::zone::RrSet::iter) {
        answer.pick(
            Section::Answer,
            Pick {
                owner: Owner::Question,
                rtype,
                ttl,
                rdata: Bytes::Zone(rdata),
            },
        );
    }
    Flow::Answered
}
