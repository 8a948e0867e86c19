//! The `etcd` step.

use super::{Flow, Plan, Source, Visit, falls_through, stub};
use crate::answer::Answer;
use crate::services::answer::{Outcome, respond};
use crate::zone::Zone;

pub(super) fn enter<'z>(source: &Source, plan: &Plan, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    if source.stubs.is_some()
        && let Some(servers) = stub::servers(source, visit)
    {
        return stub::enter(servers, plan, visit, answer);
    }
    let Some((at, zone)) = visit.zone(&source.zones, |zone| *zone) else {
        return Flow::Next;
    };
    let Some(Zone::Services(tree)) = visit.data.zone(zone) else {
        return Flow::Next;
    };
    let labels = &visit.asked.folded[..at];
    let entry = visit.entry(tree, labels);
    match respond(
        tree,
        visit.asked,
        labels,
        entry,
        visit.clock.now,
        visit.services,
        answer,
    ) {
        Outcome::NameError if falls_through(source.fallthrough.as_ref(), visit.asked.folded) => {
            answer.clear();
            Flow::Next
        }
        Outcome::NameError | Outcome::Answered => Flow::Answered,
    }
}
