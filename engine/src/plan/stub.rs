//! The `stubzones` of `etcd`: zones whose servers stand in etcd.

use nodens_wire::{Rcode, edns};

use super::{Flow, Plan, Source, StepName, Visit, cache};
use crate::answer::{Answer, Reason};
use crate::reply::Reply;
use crate::services::Servers;
use crate::waiting::Said;
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
pub(super) fn servers<'z>(source: &Source, visit: &Visit<'_, 'z>) -> Option<&'z Servers> {
    let Some(Zone::Services(tree)) = visit.data.zone(source.stubs?) else {
        return None;
    };
    tree.stubs.as_ref()?.find(visit.asked.folded, &source.zones)
}

#[inline(never)]
pub(super) fn enter<'z>(servers: &Servers, plan: &Plan, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let query = visit.client.query;
    let marked = query.opt.as_ref().and_then(|opt| opt.option(edns::STUB));
    if marked == Some(&STUBBED[..]) {
        answer.by = Some(StepName::Etcd);
        answer.rcode = Rcode::REFUSED;
        answer.reason = Some(Reason::StubCycle);
        return Flow::Answered;
    }
    // The keys may name others at any time: what these have said is not for the questions to those.
    if cache::look_up(servers.number, visit, answer) == Flow::Kept {
        return Flow::Kept;
    }
    let options = [visit.options, &MARKER].concat();
    let Some(said) = visit.ask(&servers.stanza, plan, &options, None) else {
        return Flow::Waits;
    };
    answer.by = Some(StepName::Etcd);
    match said {
        Said::Reply { bytes, from } => {
            answer.rclass = visit.asked.rclass;
            answer.extras.is_shared = from.is_none();
            Reply::new(bytes).answer(|ttl| ttl, answer);
        }
        Said::Failed(failed) => answer.fail(failed),
    }
    Flow::Answered
}
