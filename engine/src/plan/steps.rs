//! The steps of a plan, with what can be said of them before any question comes.

use std::ops::Deref;

use nodens_wire::NameBuf;

use super::{Acl, Step, Templates};
use crate::snapshot::ZoneId;

/// Steps in the order of [`Step`].
#[derive(Debug, Default)]
pub struct Steps {
    all: Box<[Step]>,
    /// The first of those that want to see every question.
    pub(super) watcher: Option<u16>,
    /// How many stand before the first that may know a name.
    pub(super) before_sources: u16,
    /// Behind the cache nothing is known but by asking other servers, so what is kept can be looked at as soon as it is reached.
    pub(super) asks_behind_cache: bool,
    /// An order may be changed on the way up.
    pub(super) shuffles: bool,
    /// It is, wherever `loadbalance` stands.
    pub(super) reorders: bool,
    /// Any answer may be changed there.
    pub(super) changes: bool,
    /// The first that may know a name, where it serves one zone.
    pub(super) lone: Option<Lone>,
}

/// A step that serves one zone.
#[derive(Debug)]
pub(super) struct Lone {
    pub(super) step: u16,
    pub(super) apex: NameBuf,
    pub(super) zone: ZoneId,
}

impl Lone {
    fn of(step: &Step, at: u16) -> Option<Self> {
        let (apex, &zone) = match step {
            Step::File(source) => source.zones.only(),
            Step::Etcd(source) if source.stubs.is_none() => source.zones.only(),
            _ => None,
        }?;
        let apex = apex.clone();
        Some(Self { step: at, apex, zone })
    }
}

impl Steps {
    /// Where clients are turned away, if anywhere.
    pub fn acl_mut(&mut self) -> Option<&mut Acl> {
        self.all.iter_mut().find_map(|step| match step {
            Step::Acl(acl) => Some(acl),
            _ => None,
        })
    }

    /// Where records are written, if anywhere.
    pub fn templates_mut(&mut self) -> Option<&mut Templates> {
        self.all.iter_mut().find_map(|step| match step {
            Step::Template(templates) => Some(templates),
            _ => None,
        })
    }
}

impl Deref for Steps {
    type Target = [Step];

    fn deref(&self) -> &[Step] {
        &self.all
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        let all: Box<[Step]> = steps.into_iter().collect();
        let is_source = |step: &Step| {
            matches!(
                step,
                Step::Hosts(_)
                    | Step::K8sExternal(_)
                    | Step::Kubernetes(_)
                    | Step::File(_)
                    | Step::Auto(_)
                    | Step::Secondary(_)
                    | Step::Etcd(_)
            )
        };
        let passes_on = |step: &Step| {
            matches!(
                step,
                Step::LoadBalance(_) | Step::Minimal | Step::Loop(_) | Step::Forward(_) | Step::Whoami
            ) || is_source(step)
        };
        let mut behind_cache = all.iter().skip_while(|step| !matches!(step, Step::Cache(_))).skip(1);
        let next = behind_cache.find(|step| !matches!(step, Step::Header(_) | Step::Minimal | Step::Loop(_)));
        let first_to_shuffle = all
            .iter()
            .find(|step| !matches!(step, Step::Local(_) | Step::Any | Step::Chaos(_)));
        let before_sources = all.iter().position(is_source).unwrap_or(all.len());
        Self {
            lone: all
                .get(before_sources)
                .and_then(|step| Lone::of(step, before_sources as u16)),
            reorders: all.iter().any(|step| matches!(step, Step::LoadBalance(_))),
            changes: all
                .iter()
                .any(|step| matches!(step, Step::Header(_) | Step::Minimal | Step::Cache(_))),
            watcher: all.iter().position(|step| !passes_on(step)).map(|at| at as u16),
            before_sources: before_sources as u16,
            asks_behind_cache: matches!(next, Some(Step::Forward(_))),
            shuffles: matches!(first_to_shuffle, Some(Step::LoadBalance(_))),
            all,
        }
    }
}

impl<const N: usize> From<[Step; N]> for Steps {
    fn from(steps: [Step; N]) -> Self {
        steps.into_iter().collect()
    }
}
