//! The steps that answer from a cluster: `kubernetes` and `k8s_external`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Flow, Visit, ZoneMap, falls_through};
use crate::answer::Answer;
use crate::cluster::{Address, ExternalView, Look, Outcome, Shown, View, Zoned, of_name, pod};
use crate::snapshot::{Data, ZoneId};
use crate::zone::Zone;

/// The `kubernetes` step.
#[derive(Debug)]
pub struct Kubernetes {
    /// Where the data is.
    pub data: ZoneId,
    /// The zones that show it.
    pub zones: ZoneMap<Shown>,
    /// As in [`Source`](super::Source).
    pub fallthrough: Option<ZoneMap<()>>,
    /// How they show it.
    pub view: Arc<View>,
    /// The keys of the labels that are kept of pods, in their order.
    pub pod_labels: Box<[Box<str>]>,
}

/// The `k8s_external` step.
#[derive(Debug)]
pub struct External {
    /// Where the data of the `kubernetes` beside it is.
    pub data: ZoneId,
    /// The zones that show it.
    pub zones: ZoneMap<Shown>,
    /// As in [`Source`](super::Source).
    pub fallthrough: Option<ZoneMap<()>>,
    /// How the `kubernetes` beside it shows it,
    pub view: Arc<View>,
    /// and what is different here.
    pub external: Arc<ExternalView>,
}

impl Kubernetes {
    /// Writes what a label says of a question for a folded name; false where that is nothing.
    pub(super) fn metadata(
        &self,
        label: &str,
        name: &[u8],
        client: IpAddr,
        data: &Data,
        out: &mut dyn fmt::Write,
    ) -> Result<bool, fmt::Error> {
        if let Some(fact) = label.strip_prefix("client-") {
            let Some(Zone::Cluster(cluster)) = data.zone(self.data) else {
                return Ok(false);
            };
            let client = Address::from(client);
            let text = match fact {
                "namespace" => cluster.namespace_of(&client).and_then(|label| label.get(1..)),
                "pod-name" => cluster.pod_name_of(&client).map(pod::name),
                _ => fact.strip_prefix("label/").and_then(|key| {
                    let place = self.pod_labels.iter().position(|own| **own == *key)?;
                    pod::label(cluster.pod_name_of(&client)?, place)
                }),
            };
            let Some(text) = text.and_then(|text| std::str::from_utf8(text).ok()) else {
                return Ok(false);
            };
            return out.write_str(text).map(|()| true);
        }
        match self.zones.find(name) {
            Some((at, shown)) => {
                let zonal = self.view.zonal && shown.kind == Zoned::Forward;
                of_name(label, &name[..at], zonal, out)
            }
            None => Ok(false),
        }
    }
}

#[inline(never)]
pub(super) fn enter<'z>(step: &'z Kubernetes, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let outcome = match look(&step.zones, step.data, &step.view, step.view.ttl, visit) {
        Some(mut look) => look.respond(answer),
        None => return Flow::Next,
    };
    flow(outcome, step.fallthrough.as_ref(), visit, answer)
}

#[inline(never)]
pub(super) fn enter_external<'z>(step: &'z External, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let outcome = match look(&step.zones, step.data, &step.view, step.external.ttl, visit) {
        Some(mut look) => look.respond_outside(&step.external, answer),
        None => return Flow::Next,
    };
    flow(outcome, step.fallthrough.as_ref(), visit, answer)
}

/// The question, if its name lies in one of the zones; `ttl` is that of addresses.
fn look<'v, 'z>(
    zones: &ZoneMap<Shown>,
    data: ZoneId,
    view: &'z View,
    ttl: u32,
    visit: &'v mut Visit<'_, 'z>,
) -> Option<Look<'v, 'z>> {
    let (apex_at, shown) = visit.shown(zones)?;
    let Some(Zone::Cluster(cluster)) = visit.data.zone(data) else {
        return None;
    };
    Some(Look {
        cluster,
        view,
        shown,
        asked: visit.asked,
        apex_at,
        held: visit.held(),
        ttl,
        scratch: visit.services,
    })
}

fn flow(outcome: Outcome, fallthrough: Option<&ZoneMap<()>>, visit: &Visit<'_, '_>, answer: &mut Answer<'_>) -> Flow {
    if outcome == Outcome::NameError && falls_through(fallthrough, visit.asked.folded) {
        answer.clear();
        return Flow::Next;
    }
    Flow::Answered
}
