//! The `stubzones` of `etcd`: zones whose servers stand in etcd.

use std::sync::Arc;

use nodens_wire::{Rcode, edns};

use super::{Flow, Plan, Source, StepName, Visit};
use crate::answer::{Answer, Reason};
use crate::forward::Stanza;
use crate::reply::Reply;
use crate::waiting::{Ask, Said};
use crate::zone::Zone;

/// What a question carries that was sent on by a stub zone; a second one sends it back.
const MARKER: [u8; 5] = [
    (edns::STUB >> 8) as u8,
    (edns::STUB & 0xff) as u8,
    0,
    STUBBED.len() as u8,
    STUBBED[0],
];
const STUBBED: [u8; 1] = [1];

/// The servers of the stub zone that holds the name.
pub(super) fn stanza<'z>(source: &Source, visit: &Visit<'_, 'z>) -> Option<&'z Arc<Stanza>> {
    let Some(Zone::Services(tree)) = visit.data.zone(source.stubs?) else {
        return None;
    };
    tree.stubs.as_ref()?.find(visit.asked.folded, &source.zones)
}

#[inline(never)]
pub(super) fn enter(stanza: &Arc<Stanza>, plan: &Plan, visit: &mut Visit<'_, '_>, answer: &mut Answer<'_>) -> Flow {
    answer.by = Some(StepName::Etcd);
    let query = visit.client.query;
    let marked = query.opt.as_ref().and_then(|opt| opt.option(edns::STUB));
    if marked == Some(&STUBBED[..]) {
        answer.rcode = Rcode::REFUSED;
        answer.reason = Some(Reason::StubCycle);
        return Flow::Answered;
    }
    // Whose servers they are may change at any time, so nothing is kept.
    let ask = Ask {
        options: [visit.options, &MARKER].concat().into(),
        ..visit.asks(stanza, plan)
    };
    match visit.ask(ask) {
        None => return Flow::Waits,
        Some(Said::Reply { bytes, .. }) => Reply::new(bytes).answer(|ttl| ttl, answer),
        Some(Said::Failed(failed)) => answer.fail(failed),
    }
    Flow::Answered
}
