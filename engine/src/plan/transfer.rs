//! The `transfer` step: who may have a whole zone (RFC 5936, RFC 1995).

use std::net::IpAddr;
use std::sync::Arc;

use nodens_wire::{Message, Query, Rcode, Rtype, Section, rdata};

use super::{Flow, Plan, Step, StepName, Visit, ZoneMap};
use crate::answer::{Answer, Bytes, Owner, Pick, Reason};
use crate::cluster::{ExternalView, Shown, Shows, View, Zoned};
use crate::snapshot::{Data, ZoneId};
use crate::transfer::Wanted;
use crate::zone::Zone;

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
    let Some((source, name)) = plan
        .steps
        .iter()
        .find_map(|step| Some((source(step, visit.data, asked.folded)?, step.name())))
    else {
        return Flow::Next;
    };
    let Some((ttl, soa)) = source.soa(visit.data, asked.folded) else {
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
    answer.transfer = Some(Box::new(Wanted {
        data: source.data,
        shows: source.shows,
        serial,
    }));
    Flow::Answered
}

/// A zone that can be handed out.
struct Source {
    data: ZoneId,
    /// How it shows the cluster that is there.
    shows: Option<Shows>,
}

impl Source {
    fn records(data: ZoneId) -> Self {
        Self { data, shows: None }
    }

    /// The SOA; none while not everything has been read.
    fn soa<'z>(&self, data: &'z Data, apex: &[u8]) -> Option<(u32, &'z [u8])> {
        match (data.zone(self.data)?, &self.shows) {
            (Zone::Cluster(cluster), Some(shows)) if cluster.is_synced() => cluster.soa(shows.shown),
            (zone, _) => zone.records(apex)?.node(b"")?.set(Rtype::SOA)?.first(),
        }
    }
}

/// The zone of a step whose apex is this very name. One of addresses is not handed out.
fn source(step: &Step, data: &Data, name: &[u8]) -> Option<Source> {
    match step {
        Step::File(source) => source.zones.exact(name).copied().map(Source::records),
        Step::Auto(auto) if auto.zones.contains(name) => {
            data.zone(auto.data)?.records(name)?;
            Some(Source::records(auto.data))
        }
        Step::Secondary(secondary) => secondary.exact(data, name).map(Source::records),
        Step::Kubernetes(step) => {
            let shown = *step.zones.exact(name)?;
            cluster(step.data, shown, Arc::clone(&step.view), None)
        }
        Step::K8sExternal(step) => {
            let shown = *step.zones.exact(name)?;
            let external = Some(Arc::clone(&step.external));
            cluster(step.data, shown, Arc::clone(&step.view), external)
        }
        _ => None,
    }
}

fn cluster(data: ZoneId, shown: Shown, view: Arc<View>, external: Option<Arc<ExternalView>>) -> Option<Source> {
    let shows = Shows { shown, view, external };
    (shown.kind != Zoned::Reverse).then_some(Source {
        data,
        shows: Some(shows),
    })
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
