//! The `file` step.

use nodens_wire::{Opcode, Rcode};

use super::{Flow, Source, Visit};
use crate::answer::Answer;
use crate::respond::{Outcome, respond};
use crate::zone::Zone;

/// `is_last`: a name outside the zones has nowhere else to go.
pub(super) fn enter<'z>(source: &Source, is_last: bool, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let found = visit.zone(source);
    let Some((at, Zone::Records(zone))) = found.and_then(|(at, id)| Some((at, visit.data.zone(id)?))) else {
        if !is_last {
            return Flow::Next;
        }
        answer.rcode = Rcode::REFUSED;
        return Flow::Answered;
    };
    // A zone that comes from a file has nobody to be notified by (RFC 8906 §3.1.4: say so).
    if visit.client.opcode() == Opcode::NOTIFY {
        answer.rcode = Rcode::REFUSED;
        return Flow::Answered;
    }
    let node = visit.node(zone, &visit.asked.folded[..at]);
    match respond(zone, &visit.asked, at, node, visit.shuffles, answer) {
        Outcome::NotThere if source.falls_through(visit.asked.folded) => {
            answer.clear();
            Flow::Next
        }
        Outcome::NotThere | Outcome::Answered => Flow::Answered,
    }
}
