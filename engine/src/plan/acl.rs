//! The `acl` step: who may ask what.

use nodens_wire::{Rcode, Rtype, edns};

use super::{Flow, Nets, StepName, Visit, ZoneMap};
use crate::answer::Answer;
use crate::stats::WorkerStats;

/// The stanzas of `acl`, in the order of the file.
#[derive(Debug)]
pub struct Acl {
    /// The first that decides, decides.
    pub stanzas: Box<[AclStanza]>,
    /// The counters of each route to the block, and for each those of the stanzas' zones.
    pub counters: Box<[(u32, Box<[u32]>)]>,
}

/// One stanza.
#[derive(Debug)]
pub struct AclStanza {
    /// It is for names in these zones, which are numbered as their counters are.
    pub zones: ZoneMap<u32>,
    /// The first that fits decides.
    pub lines: Box<[AclLine]>,
}

/// One line.
#[derive(Debug)]
pub struct AclLine {
    /// What happens to questions that it fits.
    pub action: AclAction,
    /// Sorted; `None` for all.
    pub types: Option<Box<[Rtype]>>,
    /// Clients; `None` for all.
    pub nets: Option<Nets>,
}

/// What happens to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AclAction {
    /// REFUSED.
    Block,
    /// An empty answer.
    Filter,
    /// No reply.
    Drop,
    /// It goes on, and no later stanza is looked at.
    Allow,
}

#[inline(never)]
pub(super) fn enter<'z>(acl: &Acl, visit: &Visit<'_, 'z>, stats: &WorkerStats, answer: &mut Answer<'z>) -> Flow {
    let (action, zone) = acl.decide(visit).unwrap_or((AclAction::Allow, 0));
    let series = match action {
        AclAction::Allow => Some(visit.asked.series),
        _ => acl.counter(visit.asked.series, zone),
    };
    if visit.is_first()
        && let Some(series) = series.and_then(|series| stats.series.get(series as usize))
    {
        series.acl[action as usize].add(1);
    }
    match action {
        AclAction::Allow => return Flow::Next,
        AclAction::Drop => {
            answer.extras.is_dropped = true;
            return Flow::Answered;
        }
        AclAction::Block => {
            answer.rcode = Rcode::REFUSED;
            answer.extras.error = Some(edns::ede::BLOCKED);
        }
        AclAction::Filter => answer.extras.error = Some(edns::ede::FILTERED),
    }
    answer.by = Some(StepName::Acl);
    Flow::Answered
}

impl Acl {
    fn counter(&self, route: u32, zone: u32) -> Option<u32> {
        let (_, zones) = self.counters.iter().find(|(own, _)| *own == route)?;
        zones.get(zone as usize).copied()
    }

    /// The action of the line that decides, and the zone of its stanza.
    fn decide(&self, visit: &Visit<'_, '_>) -> Option<(AclAction, u32)> {
        let client = visit.client.address();
        self.stanzas.iter().find_map(|stanza| {
            let (_, &zone) = stanza.zones.find(visit.asked.folded)?;
            let fits = |line: &&AclLine| {
                line.types
                    .as_ref()
                    .is_none_or(|types| types.binary_search(&visit.asked.rtype).is_ok())
                    && line.nets.as_ref().is_none_or(|nets| nets.hold(client))
            };
            let line = stanza.lines.iter().find(fits)?;
            Some((line.action, zone))
        })
    }
}
