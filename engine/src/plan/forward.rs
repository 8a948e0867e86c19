//! The `forward` step: other servers answer.

use std::sync::Arc;

use super::{Flow, Plan, StepName, Visit, cache};
use crate::answer::Answer;
use crate::forward::Stanza;
use crate::reply::Reply;
use crate::waiting::Said;

/// The stanzas of `forward` in a block in file order, or those of `proxy`.
#[derive(Debug)]
pub struct Forward {
    /// The first that is for the name is asked: of a `proxy` they are sorted, the longest zones first.
    pub stanzas: Box<[Arc<Stanza>]>,
    /// It was written as `proxy`.
    pub is_proxy: bool,
}

impl Forward {
    pub(super) fn name(&self) -> StepName {
        if self.is_proxy {
            StepName::Proxy
        } else {
            StepName::Forward
        }
    }
}

#[inline(never)]
pub(super) fn enter<'z>(forward: &'z Forward, plan: &Plan, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let mut stanzas = forward.stanzas.iter().peekable();
    while let Some(stanza) = stanzas.next() {
        if !stanza.matches(visit.asked.name) {
            continue;
        }
        if cache::look_up(0, visit, answer) == Flow::Kept {
            return Flow::Kept;
        }
        let Some(said) = visit.ask(stanza, plan, visit.options, visit.canary) else {
            return Flow::Waits;
        };
        answer.by = Some(forward.name());
        match said {
            Said::Failed(failed) => {
                answer.fail(failed);
                return Flow::Answered;
            }
            Said::Reply { bytes, from } => {
                let reply = Reply::new(bytes);
                if !forward.is_proxy
                    && stanzas.peek().is_some()
                    && stanza.goes_on_after(reply.rcode(), reply.is_nodata())
                {
                    answer.by = None;
                    continue;
                }
                answer.rclass = visit.asked.rclass;
                answer.extras.is_shared = from.is_none();
                answer.extras.upstream = *from;
                reply.answer(|ttl| ttl, answer);
                return Flow::Answered;
            }
        }
    }
    // Whoever answers now, it is none of these.
    visit.merge = None;
    Flow::Next
}
