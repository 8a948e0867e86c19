//! The steps that answer from record zones: `file`, `auto`, `secondary`.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

use nodens_wire::{Opcode, Rcode};

use super::{Flow, Source, StepName, Visit, ZoneMap, falls_through};
use crate::answer::Answer;
use crate::respond::{Outcome, respond};
use crate::snapshot::ZoneId;
use crate::zone::{RecordZone, Zone};

/// The `auto` step: which zones there are is data.
#[derive(Debug)]
pub struct Auto {
    /// Names outside go on to the next step.
    pub zones: ZoneMap<()>,
    /// All zones that were found.
    pub data: ZoneId,
}

/// The `secondary` step.
#[derive(Debug)]
pub struct Secondary {
    /// Each zone, and where it comes from.
    pub zones: ZoneMap<Copied>,
    /// As in [`Source`].
    pub fallthrough: Option<ZoneMap<()>>,
}

/// A zone that comes from other servers.
#[derive(Debug)]
pub struct Copied {
    /// Where it is.
    pub data: ZoneId,
    /// Who may say that there is a new version.
    pub primaries: Box<[IpAddr]>,
    /// Told that somebody said so. It bounds itself: told twice before it looks is told once.
    pub notified: Waker,
    /// Told of others who said so.
    pub strangers: Arc<dyn Strangers>,
}

/// Who hears of NOTIFYs that were refused. It must neither wait nor grow.
pub trait Strangers: Debug + Send + Sync {
    /// Somebody who is no primary of the zone sent one.
    fn refused(&self, address: IpAddr);
}

/// `is_last`: a name outside the zones has nowhere else to go.
pub(super) fn enter<'z>(source: &Source, is_last: bool, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let Some((at, zone)) = held(visit, &source.zones, |zone| *zone) else {
        return outside(is_last, answer);
    };
    // A zone that comes from a file has nobody to be notified by (RFC 8906 §3.1.4: say so).
    if visit.client.opcode() == Opcode::NOTIFY {
        return refuse(answer);
    }
    let inside = Inside {
        step: StepName::File,
        at,
        zone,
        fallthrough: source.fallthrough.as_ref(),
    };
    look_up(&inside, visit, answer)
}

#[inline(never)]
pub(super) fn enter_auto<'z>(auto: &Auto, is_last: bool, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    if !auto.zones.contains(visit.asked.folded) {
        return Flow::Next;
    }
    let found = match visit.data.zone(auto.data) {
        Some(Zone::Several(zones)) => zones.find(visit.asked.folded),
        _ => None,
    };
    let Some((at, zone)) = found else {
        return outside(is_last, answer);
    };
    let inside = Inside {
        step: StepName::Auto,
        at,
        zone,
        fallthrough: None,
    };
    look_up(&inside, visit, answer)
}

#[inline(never)]
pub(super) fn enter_secondary<'z>(
    secondary: &Secondary,
    is_last: bool,
    visit: &mut Visit<'_, 'z>,
    answer: &mut Answer<'z>,
) -> Flow {
    if visit.client.opcode() == Opcode::NOTIFY {
        return notified(secondary, is_last, visit, answer);
    }
    let Some((at, zone)) = held(visit, &secondary.zones, |zone| zone.data) else {
        return outside(is_last, answer);
    };
    let inside = Inside {
        step: StepName::Secondary,
        at,
        zone,
        fallthrough: secondary.fallthrough.as_ref(),
    };
    look_up(&inside, visit, answer)
}

/// A primary says that there is a new version (RFC 1996 §3); from others it means nothing.
fn notified(secondary: &Secondary, is_last: bool, visit: &Visit<'_, '_>, answer: &mut Answer<'_>) -> Flow {
    let Some((at, zone)) = secondary.zones.find(visit.asked.folded) else {
        return outside(is_last, answer);
    };
    if at != 0 {
        return refuse(answer);
    }
    let client = visit.client.address();
    if !zone.primaries.contains(&client) {
        zone.strangers.refused(client);
        return refuse(answer);
    }
    zone.notified.wake_by_ref();
    answer.by = Some(StepName::Secondary);
    answer.aa = true;
    Flow::Answered
}

/// The zone of a step that holds the name, and how many bytes of it stand in front of the zone's.
#[inline]
fn held<'z, T>(
    visit: &Visit<'_, 'z>,
    zones: &ZoneMap<T>,
    id: impl FnOnce(&T) -> ZoneId,
) -> Option<(usize, &'z RecordZone)> {
    let (at, id) = visit.zone(zones, id)?;
    match visit.data.zone(id)? {
        Zone::Records(zone) => Some((at, zone)),
        _ => None,
    }
}

fn outside(is_last: bool, answer: &mut Answer<'_>) -> Flow {
    if is_last { refuse(answer) } else { Flow::Next }
}

fn refuse(answer: &mut Answer<'_>) -> Flow {
    answer.rcode = Rcode::REFUSED;
    Flow::Answered
}

/// A name in a zone of a step.
struct Inside<'a, 'z> {
    step: StepName,
    /// Bytes of the name in front of the zone's.
    at: usize,
    zone: &'z RecordZone,
    fallthrough: Option<&'a ZoneMap<()>>,
}

#[inline]
fn look_up<'z>(inside: &Inside<'_, 'z>, visit: &Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let Inside { step, at, zone, .. } = *inside;
    let node = visit.node(zone, &visit.asked.folded[..at]);
    match respond(zone, step, visit.asked, at, node, visit.shuffles, answer) {
        Outcome::NotThere if falls_through(inside.fallthrough, visit.asked.folded) => {
            answer.clear();
            Flow::Next
        }
        Outcome::NotThere | Outcome::Answered => Flow::Answered,
    }
}
