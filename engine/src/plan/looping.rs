//! The `loop` step: it waits for a question that this server has sent to itself.

use std::net::SocketAddr;
use std::sync::Arc;

use nodens_wire::{Name, Rcode, Rtype};

use super::{Flow, StepName, Visit};
use crate::answer::Answer;
use crate::forward::Canary;

#[inline(never)]
pub(super) fn enter<'z>(canary: &'z Arc<Canary>, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let is_it =
        visit.asked.rtype == Rtype::HINFO && Name::from_wire(visit.asked.folded).is_ok_and(|name| canary.is(name));
    if !is_it {
        return Flow::Next;
    }
    let client = SocketAddr::new(visit.client.address(), visit.client.port());
    if visit.is_first() && canary.arrives(client) {
        // It would go round for ever.
        answer.by = Some(StepName::Loop);
        answer.rcode = Rcode::SERVFAIL;
        return Flow::Answered;
    }
    // Of two that are merged only one would arrive.
    visit.cache = None;
    visit.merge = None;
    visit.canary = Some(canary);
    Flow::Next
}
