//! The `transfer` step: who may have a whole zone (RFC 5936, RFC 1995).

use std::net::IpAddr;

use nodens_wire::{Message, Query, Rcode, Rtype, Section, rdata};

use super::{Flow, Plan, Step, StepName, Visit, ZoneMap};
use crate::answer::{Answer, Bytes, Owner, Pick, Reason};
use crate::snapshot::{Data, ZoneId};

/// The `transfer` step.
#[derive(Debug)]
pub struct Transfer {
    /// The longest zone that holds the name decides.
    pub stanzas: ZoneMap<Clients>,
}

/// Who may transfer.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// `*`: everybody.
    pub everybody: bool,
    /// These addresses.
    pub addresses: Vec<IpAddr>,
}

impl Clients {
    fn allows(&self, client: IpAddr) -> bool {
        self.everybody || self.addresses.contains(&client)
    }
}

#[inline(never)]
pub(super) fn enter<'z>(transfer: &Transfer, plan: &Plan, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let asked = visit.asked;
    // An alias on the way does not make it a question for another zone.
    if !matches!(asked.rtype, Rtype::AXFR | Rtype::IXFR) || asked.name != visit.client.query.qname {
        return Flow::Next;
    }
    if !visit.client.origin.is_stream() {
        answer.rcode = Rcode::REFUSED;
        return Flow::Answered;
    }
    let Some((_, clients)) = transfer.stanzas.find(asked.folded) else {
        return Flow::Next;
    };
    if !clients.allows(visit.client.address()) {
        answer.by = Some(StepName::Transfer);
        answer.rcode = Rcode::REFUSED;
        return Flow::Answered;
    }
    let mut serial = None;
    if asked.rtype == Rtype::IXFR {
        serial = held_serial(visit.client.query);
        if serial.is_none() {
            answer.rcode = Rcode::SERVFAIL;
            return Flow::Answered;
        }
    }
    let Some((id, name)) = plan
        .steps
        .iter()
        .find_map(|step| source(step, visit.data, asked.folded))
    else {
        return Flow::Next;
    };
    let soa = visit
        .data
        .zone(id)
        .and_then(|zone| zone.records(asked.folded)?.node(b"")?.set(Rtype::SOA)?.first());
    let Some((ttl, soa)) = soa else {
        answer.rcode = Rcode::SERVFAIL;
        answer.reason = Some(Reason::Unsynced(name));
        return Flow::Answered;
    };
    answer.by = Some(StepName::Transfer);
    if serial.is_some() && serial == rdata::Soa::parse(soa).ok().map(|soa| soa.serial) {
        // RFC 1995 §2: nothing newer, so the SOA alone.
        answer.pick(
            Section::Answer,
            Pick {
                owner: Owner::Question,
                rtype: Rtype::SOA,
                ttl,
                rdata: Bytes::Zone(soa),
            },
        );
        return Flow::Answered;
    }
    answer.aa = true;
    answer.transfer = Some(id);
    Flow::Answered
}

/// The zone of a step whose apex is this very name.
fn source(step: &Step, data: &Data, name: &[u8]) -> Option<(ZoneId, StepName)> {
    let id = match step {
        Step::File(source) => *source.zones.exact(name)?,
        Step::Auto(auto) if auto.zones.contains(name) => {
            data.zone(auto.data)?.records(name)?;
            auto.data
        }
        Step::Secondary(secondary) => secondary.zones.exact(name)?.data,
        _ => return None,
    };
    Some((id, step.name()))
}

/// The serial that an IXFR client has: AUTHORITY holds one SOA and nothing else (RFC 1995 §3).
fn held_serial(query: &Query<'_>) -> Option<u32> {
    let message = Message::parse(query.packet()).ok()?;
    let mut authority = message
        .records()
        .filter_map(Result::ok)
        .filter(|record| record.section == Section::Authority);
    let soa = authority.next().filter(|record| record.rtype == Rtype::SOA)?;
    let numbers = soa.rdata.len().checked_sub(20)?;
    let serial = soa.rdata.get(numbers..numbers + 4)?;
    Some(u32::from_be_bytes(serial.try_into().ok()?))
}
