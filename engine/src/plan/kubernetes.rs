//! The steps that answer from a cluster: `kubernetes` and `k8s_external`.

use std::sync::Arc;

use nodens_wire::Rcode;

use super::{Flow, Visit, ZoneMap, falls_through};
use crate::answer::Answer;
use crate::cluster::{Cluster, ExternalView, Look, Outcome, Shown, View};
use crate::snapshot::ZoneId;
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
    pub external: ExternalView,
}

#[inline(never)]
pub(super) fn enter<'z>(step: &'z Kubernetes, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let Some((apex_at, &shown)) = step.zones.find(visit.asked.folded) else {
        return Flow::Next;
    };
    let Some(cluster) = data(visit, step.data) else {
        return Flow::Next;
    };
    let outcome = Look {
        cluster,
        view: &step.view,
        shown,
        asked: visit.asked,
        apex_at,
        ttl: step.view.ttl,
        scratch: visit.services,
    }
    .respond(answer);
    flow(outcome, step.fallthrough.as_ref(), visit, answer)
}

#[inline(never)]
pub(super) fn enter_external<'z>(step: &'z External, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let Some((apex_at, &shown)) = step.zones.find(visit.asked.folded) else {
        return Flow::Next;
    };
    let Some(cluster) = data(visit, step.data) else {
        return Flow::Next;
    };
    let outcome = Look {
        cluster,
        view: &step.view,
        shown,
        asked: visit.asked,
        apex_at,
        ttl: step.external.ttl,
        scratch: visit.services,
    }
    .respond_outside(&step.external, answer);
    flow(outcome, step.fallthrough.as_ref(), visit, answer)
}

fn data<'z>(visit: &Visit<'_, 'z>, id: ZoneId) -> Option<&'z Cluster> {
    match visit.data.zone(id)? {
        Zone::Cluster(cluster) => Some(cluster),
        _ => None,
    }
}

fn flow(outcome: Outcome, fallthrough: Option<&ZoneMap<()>>, visit: &Visit<'_, '_>, answer: &mut Answer<'_>) -> Flow {
    if outcome == Outcome::NameError && falls_through(fallthrough, visit.asked.folded) {
        answer.clear();
        return Flow::Next;
    }
    if answer.rcode == Rcode::REFUSED {
        answer.aa = false;
    }
    Flow::Answered
}
