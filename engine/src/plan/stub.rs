//! The `stubzones` of `etcd`: zones whose servers stand in etcd.

use std::sync::Arc;

use nodens_wire::{Rcode, edns};

use super::{Flow, Plan, Source, StepName, Visit};
use crate::answer::{Answer, Reason};
use crate::edns::{UDP_SIZE, offered};
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
    let ask = Ask {
        stanza: Arc::clone(stanza),
        name: visit.asked.name.to_buf(),
        rtype: visit.asked.rtype,
        rclass: visit.asked.rclass,
        flags: query.flags,
        dnssec_ok: visit.client.dnssec_ok(),
        udp_size: offered(query).max(UDP_SIZE).min(plan.udp_size.unwrap_or(u16::MAX)),
        options: [visit.options, &MARKER].concat().into(),
        // Whose servers they are may change at any time.
        merge: None,
        patience: None,
        cancel: None,
        canary: None,
    };
    match visit.ask(ask) {
        None => return Flow::Waits,
        Some(Said::Reply { bytes, .. }) => Reply::new(bytes).answer(|ttl| ttl, answer),
        Some(Said::Failed(failed)) => {
            answer.rcode = failed.rcode();
            answer.extras.error = failed.ede();
            answer.reason = Some(Reason::Upstream(Arc::clone(failed)));
        }
    }
    Flow::Answered
}
