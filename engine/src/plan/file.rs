//! The steps that answer from record zones: `file`, `auto`, `secondary`.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use nodens_wire::{Opcode, Rcode};

use super::{Flow, Source, StepName, Visit, ZoneMap, falls_through};
use crate::answer::Answer;
use crate::respond::{Outcome, respond};
use crate::snapshot::{Data, ZoneId};
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
    /// Those of the zones that say which others there are. A zone above counts before its namesake in a catalog, and an
    /// earlier catalog before a later one.
    pub catalogs: Box<[Catalog]>,
    /// As in [`Source`].
    pub fallthrough: Option<ZoneMap<()>>,
}

/// A zone that comes from other servers.
#[derive(Debug)]
pub struct Copied {
    /// Where it is.
    pub data: ZoneId,
    /// Who may say that there is a new version.
    pub primaries: Primaries,
}

/// What a catalog zone (RFC 9432) brings: which zones there are is data.
#[derive(Debug)]
pub struct Catalog {
    /// Where all of them are.
    pub members: ZoneId,
    /// Who may say that there is a new version of one.
    pub primaries: Primaries,
}

/// The servers that zones come from.
#[derive(Debug)]
pub struct Primaries {
    /// Where they send NOTIFY from.
    pub addresses: Box<[IpAddr]>,
    /// Told of each.
    pub notified: Arc<dyn Notified>,
}

/// Who hears of NOTIFYs. It must neither wait nor grow.
pub trait Notified: Debug + Send + Sync {
    /// A primary says that there is a new version of this zone, a folded name in wire form.
    fn accepted(&self, zone: &[u8]);
    /// Somebody who is no primary of the zone sent one.
    fn refused(&self, address: IpAddr);
}

impl Secondary {
    /// The zone that holds a folded name, and how many bytes of the name stand in front of the zone's.
    fn held<'z>(&self, visit: &Visit<'_, 'z>) -> Option<(usize, &'z RecordZone)> {
        let mut found = held(visit, &self.zones, |zone| zone.data);
        for catalog in &self.catalogs {
            let member = members(visit.data.zone(catalog.members)).and_then(|zones| zones.find(visit.asked.folded));
            if let Some((at, _)) = member
                && found.is_none_or(|(other, _)| at < other)
            {
                found = member;
            }
        }
        found
    }

    /// Where exactly this zone is.
    pub(super) fn exact(&self, data: &Data, zone: &[u8]) -> Option<ZoneId> {
        if let Some(copied) = self.zones.exact(zone) {
            return Some(copied.data);
        }
        let mut members = self.catalogs.iter().map(|catalog| catalog.members);
        members.find(|&members| data.zone(members).is_some_and(|all| all.records(zone).is_some()))
    }

    /// The primaries of exactly this zone.
    fn primaries(&self, visit: &Visit<'_, '_>, zone: &[u8]) -> Option<&Primaries> {
        if let Some(copied) = self.zones.exact(zone) {
            return Some(&copied.primaries);
        }
        let members = self.exact(visit.data, zone)?;
        let catalog = self.catalogs.iter().find(|catalog| catalog.members == members)?;
        Some(&catalog.primaries)
    }
}

/// The zones that are published together.
fn members(published: Option<&Zone>) -> Option<&ZoneMap<RecordZone>> {
    match published? {
        Zone::Several(zones) => Some(zones),
        _ => None,
    }
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
    let found = members(visit.data.zone(auto.data)).and_then(|zones| zones.find(visit.asked.folded));
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
    let Some((at, zone)) = secondary.held(visit) else {
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
    let zone = visit.asked.folded;
    let Some(primaries) = secondary.primaries(visit, zone) else {
        return match secondary.held(visit) {
            Some(_) => refuse(answer),
            None => outside(is_last, answer),
        };
    };
    let client = visit.client.address();
    if !primaries.addresses.contains(&client) {
        primaries.notified.refused(client);
        return refuse(answer);
    }
    primaries.notified.accepted(zone);
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
