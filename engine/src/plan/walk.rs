//! The cursor: down through the steps until one answers, again for each name that leaves its zone, and up.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use nodens_wire::{Name, NameBuf, Opcode, Query, Rclass, Rcode, label};
use rand::rngs::ChaCha8Rng;

use super::{
    Asked, Cache, Flow, Held, Plan, Probe, Step, ZoneMap, acl, any, cache, chaos, etcd, file, forward, header, hosts,
    kubernetes, loadbalance, local, looping, minimal, nested, outside, route, templates, transfer, whoami,
};
use crate::answer::{Answer, Pending, Purpose, Reason};
use crate::cache::Cache as Slab;
use crate::cluster::Shown;
use crate::edns;
use crate::forward::{Canary, Stanza};
use crate::responder::{Now, Origin};
use crate::services::answer::Scratch;
use crate::services::{Entry, ServiceTree};
use crate::snapshot::{Config, Data, Listener, ZoneId};
use crate::stats::{Series, WorkerStats};
use crate::time::Clock;
use crate::waiting::{Ask, Matter, Merge, Said, Told};
use crate::zone::trie::{Keyed as _, NameHash};
use crate::zone::{Node, RecordZone};

/// How often one query goes through a plan again for aliases.
const ALIASES_MAX: u8 = 8;
/// How often it does for ADDITIONAL.
const ADDITIONAL_MAX: u8 = 64;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// From where.
    pub(crate) origin: &'a Origin<'a>,
    /// What came.
    pub(crate) query: &'a Query<'a>,
}

impl Client<'_> {
    pub(crate) fn opcode(&self) -> Opcode {
        self.query.flags.opcode()
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.origin.peer.ip()
    }

    pub(crate) fn port(&self) -> u16 {
        self.origin.peer.port()
    }

    pub(crate) fn dnssec_ok(&self) -> bool {
        self.query.opt.as_ref().is_some_and(|opt| opt.dnssec_ok)
    }

    /// What the client can take: 512 without an OPT, 65,535 over TCP.
    pub(crate) fn bufsize(&self) -> u16 {
        if self.origin.is_stream() {
            u16::MAX
        } else {
            edns::offered(self.query)
        }
    }
}

/// What is the same for every step of a query's way.
pub(crate) struct Setting<'a, 'z> {
    pub(crate) client: &'a Client<'a>,
    pub(crate) clock: Clock,
    pub(crate) data: &'z Data,
    config: &'z Config,
    listener: &'z Listener,
    pub(crate) stats: &'a WorkerStats,
    pub(crate) hash: &'a NameHash,
    /// What other servers have said to this query.
    pub(super) told: &'a Told,
}

/// What a step sees.
pub(crate) struct Visit<'a, 'z> {
    setting: &'a Setting<'a, 'z>,
    pub(crate) asked: &'a Asked<'a>,
    pub(crate) services: &'a mut Scratch,
    pub(crate) random: &'a mut ChaCha8Rng,
    /// Records may change places on the way up.
    pub(crate) shuffles: bool,
    /// What is to be asked of another server before it can go on.
    wants: &'a mut Option<Arc<Ask>>,
    /// The cache that the question has come by, until it is looked up there.
    pub(super) cache: Option<(&'z Cache, &'z Slab)>,
    /// Room for what the cache gives.
    pub(super) kept: &'a mut Vec<u8>,
    /// Where the cache keeps what another server will say, if it does.
    pub(super) merge: Option<Merge>,
    /// How long that is waited for, where there is an old answer.
    pub(super) patience: Option<Duration>,
    /// The question is the one of `loop`.
    pub(super) canary: Option<&'z Arc<Canary>>,
    /// What the cache shows is to be made new.
    pub(super) refreshes: &'a mut bool,
    /// EDNS options in wire form that go to the servers that are asked.
    pub(super) options: &'a [u8],
    /// What the first pass found for this step.
    probe: Option<&'a Probe<'z>>,
    /// How many names led to the question.
    depth: u8,
}

impl Setting<'_, '_> {
    /// Of the listener.
    pub(super) fn port(&self) -> u16 {
        self.listener.port
    }
}

impl<'a, 'z> Deref for Visit<'a, 'z> {
    type Target = Setting<'a, 'z>;

    #[inline]
    fn deref(&self) -> &Setting<'a, 'z> {
        self.setting
    }
}

impl<'a, 'z> Visit<'a, 'z> {
    /// The query comes by for the first time, so what happens to it is counted.
    #[inline]
    pub(super) fn is_first(&self) -> bool {
        self.told.is_nothing()
    }

    /// What a stanza's servers said where this question is passed on to them with these EDNS options, and the cache has been
    /// looked at; nothing where they have not been asked yet: then the step says [`Flow::Waits`].
    pub(super) fn ask(
        &mut self,
        stanza: &Arc<Stanza>,
        plan: &Plan,
        options: &[u8],
        canary: Option<&Arc<Canary>>,
    ) -> Option<&'a Said> {
        let query = self.client.query;
        let Asked {
            name, rtype, rclass, ..
        } = *self.asked;
        let matter = Matter {
            stanza,
            name,
            rtype,
            rclass,
            // RFC 6840 §5.7: what is kept is to say whether signatures were checked.
            flags: match self.merge {
                Some(_) => query.flags.with_ad(true),
                None => query.flags,
            },
            dnssec_ok: self.client.dnssec_ok(),
            options,
        };
        let said = self.told.of(&matter);
        if said.is_none() {
            let udp_size = edns::offered(query).max(edns::UDP_SIZE);
            *self.wants = Some(Arc::new(Ask {
                stanza: Arc::clone(stanza),
                name: name.to_buf(),
                rtype,
                rclass,
                flags: matter.flags,
                dnssec_ok: matter.dnssec_ok,
                udp_size: udp_size.min(plan.udp_size.unwrap_or(u16::MAX)),
                options: options.into(),
                // Nothing by which the cache tells questions apart says what their options are.
                merge: self
                    .merge
                    .or_else(|| self.ring(&matter))
                    .filter(|_| self.options.is_empty()),
                patience: self.patience,
                cancel: None,
                canary: canary.cloned(),
            }));
        }
        said
    }

    /// What an alias leads to is asked once at a time, also where no cache keeps it: two servers with aliases that lead to one
    /// another would else go on asking as fast as they can, and twice as often at every turn.
    fn ring(&self, matter: &Matter<'_>) -> Option<Merge> {
        let is_alias = self.depth > 0 && self.canary.is_none();
        is_alias.then(|| {
            // No block has such a number. What is asked with other flags is another question.
            let block = u32::MAX - u32::from(matter.flags.0);
            let key = matter.key(block, self.asked.folded);
            let stanza = Arc::as_ptr(matter.stanza).addr() as u64;
            Merge {
                hash: self.hash.of_key(&key) ^ stanza.rotate_left(32),
                block,
            }
        })
    }

    /// The zone of this step that holds the name, and how many bytes of it stand in front of the zone's.
    #[inline]
    pub(super) fn zone<T>(&self, zones: &ZoneMap<T>, id: impl FnOnce(&T) -> ZoneId) -> Option<(usize, ZoneId)> {
        match self.probe {
            Some(probe) => Some((probe.len, probe.zone)),
            None => zones.find(self.asked.folded).map(|(at, zone)| (at, id(zone))),
        }
    }

    /// The hash of the name's first `len` bytes.
    #[inline]
    pub(super) fn hash(&self, len: usize, make: impl FnOnce() -> u64) -> u64 {
        match self.probe {
            Some(probe) if probe.len == len => probe.hash,
            _ => make(),
        }
    }

    /// The zone of this step that shows a cluster to the name, and how many bytes of it stand in front of the zone's.
    #[inline]
    pub(super) fn shown(&self, zones: &ZoneMap<Shown>) -> Option<(usize, Shown)> {
        match self.probe.and_then(|probe| Some((probe.len, probe.shown?))) {
            None => zones.find(self.asked.folded).map(|(at, shown)| (at, *shown)),
            shown => shown,
        }
    }

    /// What the first pass found at the name.
    #[inline]
    pub(super) fn held(&self) -> Option<&'a Held<'z>> {
        self.probe.map(|probe| &probe.held)
    }

    /// The entry of the name in a service tree.
    #[inline]
    pub(super) fn entry(&self, tree: &'z ServiceTree, labels: &[u8]) -> Option<&'z Entry> {
        match self.held() {
            Some(Held::Nothing) => None,
            Some(&Held::Entry(entry)) if entry.is(labels) => Some(entry),
            _ => tree.entry(self.hash(labels.len(), || tree.hash_of(labels)), labels),
        }
    }

    /// The node of the name in a record zone.
    #[inline]
    pub(super) fn node(&self, zone: &'z RecordZone, labels: &[u8]) -> Option<&'z Node> {
        match self.held() {
            Some(Held::Nothing) => None,
            Some(&Held::Node(node)) if label::eq(node.labels(), labels) => Some(node),
            _ => zone.node_at(self.hash(labels.len(), || zone.hash_of(labels)), labels),
        }
    }
}

/// What a worker lends to a walk.
pub(crate) struct Tools<'a> {
    pub(crate) stats: &'a WorkerStats,
    pub(crate) services: &'a mut Scratch,
    pub(crate) random: &'a mut ChaCha8Rng,
    pub(crate) hash: &'a NameHash,
    /// Room for what the cache gives.
    pub(crate) kept: &'a mut Vec<u8>,
    /// Room for EDNS options.
    pub(crate) options: &'a mut Vec<u8>,
}

/// How far a question came.
struct Passed {
    /// The step that answered, or that had those behind it answer another question.
    entered: usize,
    merge: Option<Merge>,
}

/// One query's way through the plans.
pub(crate) struct Walk<'a, 'z> {
    pub(super) setting: Setting<'a, 'z>,
    services: &'a mut Scratch,
    random: &'a mut ChaCha8Rng,
    pub(super) wants: Option<Arc<Ask>>,
    /// Room for what the cache gives.
    kept: &'a mut Vec<u8>,
    refreshes: bool,
    /// EDNS options in wire form that go to the servers that are asked.
    pub(super) options: &'a mut Vec<u8>,
    aliases_left: u8,
    additional_left: u8,
    /// The names of the questions that are being answered, the client's first: one that comes again is a loop.
    trail: ArrayVec<NameBuf, { ALIASES_MAX as usize + 1 }>,
}

impl<'a, 'z> Walk<'a, 'z> {
    pub(crate) fn new(
        now: &Now<'z>,
        listener: &'z Listener,
        client: &'a Client<'a>,
        told: &'a Told,
        tools: Tools<'a>,
    ) -> Self {
        let Tools {
            stats,
            services,
            random,
            hash,
            kept,
            options,
        } = tools;
        options.clear();
        let (aliases_left, additional_left) = (ALIASES_MAX, ADDITIONAL_MAX);
        Self {
            setting: Setting {
                client,
                clock: now.clock,
                data: now.data,
                config: now.config,
                listener,
                stats,
                hash,
                told,
            },
            services,
            random,
            wants: None,
            kept,
            refreshes: false,
            options,
            aliases_left,
            additional_left,
            trail: ArrayVec::new(),
        }
    }

    /// What has to be asked of another server first, and there is no answer until then; or whether what was shown out of the
    /// cache is to be made new.
    pub(crate) fn end(&mut self, plan: &Plan) -> Result<bool, Arc<Ask>> {
        match self.wants.take() {
            None => Ok(self.refreshes),
            Some(mut ask) => {
                if plan.cancel.is_some() {
                    Arc::make_mut(&mut ask).cancel = plan.cancel;
                }
                Err(ask)
            }
        }
    }

    /// Answers one question by a plan. `depth` counts the questions it was asked for.
    pub(crate) fn answer(
        &mut self,
        plan: &'z Plan,
        asked: &Asked<'_>,
        probe: Option<&Probe<'z>>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        self.from(plan, 0, asked, probe, depth, answer);
    }

    /// The same, by the steps from `begin` on.
    pub(super) fn from(
        &mut self,
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        probe: Option<&Probe<'z>>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        let Passed { entered, merge } = self.down(plan, begin, asked, probe, depth, answer);
        if answer.next_pending().is_some() {
            self.resolve(asked, plan.steps.get(entered), depth, answer);
        }
        if self.wants.is_some() {
            return;
        }
        if plan.steps.changes || (plan.steps.reorders && loadbalance::may_change(answer)) {
            self.up(&plan.steps[begin..entered], merge, asked, answer);
        }
    }

    /// Leaves the steps that were passed, the last first.
    #[inline(never)]
    fn up(&mut self, passed: &'z [Step], merge: Option<Merge>, asked: &Asked<'_>, answer: &mut Answer<'z>) {
        for step in passed.iter().rev() {
            match step {
                Step::LoadBalance(balance) => {
                    loadbalance::leave(balance, asked, self.setting.data, self.random, answer)
                }
                Step::Header(step) => header::leave(step, answer),
                Step::Minimal => minimal::leave(asked, self.setting.client, answer),
                Step::Cache(step) => {
                    if let Some(slab) = &self.setting.config.cache {
                        let leaving = cache::Leaving {
                            slab,
                            kept: self.kept,
                            merge,
                            client: self.setting.client,
                            clock: self.setting.clock,
                            mode: self.setting.told.mode,
                            series: self.setting.stats.series.get(asked.series as usize),
                        };
                        cache::leave(step, asked, leaving, answer);
                    }
                }
                _ => {}
            }
        }
    }

    /// Looks up what the answer of a step still wants.
    #[inline(never)]
    fn resolve(&mut self, asked: &Asked<'_>, by: Option<&'z Step>, depth: u8, answer: &mut Answer<'z>) {
        while self.wants.is_none()
            && let Some(pending) = answer.next_pending()
        {
            let came = self.again(asked, &pending, by, depth, answer);
            answer.resolved(came);
        }
    }

    /// Enters steps until one answers; tells how many were passed on the way.
    fn down(
        &mut self,
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        probe: Option<&Probe<'z>>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) -> Passed {
        let uncopied = OnceCell::new();
        let mut visit = Visit {
            setting: &self.setting,
            asked,
            services: self.services,
            random: self.random,
            shuffles: plan.steps.shuffles,
            wants: &mut self.wants,
            cache: None,
            kept: self.kept,
            merge: None,
            patience: None,
            canary: None,
            refreshes: &mut self.refreshes,
            options: self.options,
            probe: None,
            depth,
        };
        // The first pass looked for the first step that may know the name: those before it would pass.
        let start = probe.map_or(begin, |probe| usize::from(probe.begin));
        let mut cached_at = start;
        for (step, at) in plan.steps[start..].iter().zip(start..) {
            visit.probe = probe.filter(|probe| at == usize::from(probe.step));
            let flow = match step {
                Step::Cache(step) => {
                    cached_at = at;
                    visit.cache = self.setting.config.cache.as_deref().map(|slab| (&**step, slab));
                    // The TTLs of what comes from behind it are changed on the way up.
                    visit.asked = uncopied.get_or_init(|| Asked {
                        may_copy: false,
                        ..*asked
                    });
                    match plan.steps.asks_behind_cache {
                        true => cache::look_up(0, &mut visit, answer),
                        false => Flow::Next,
                    }
                }
                Step::Rewrite(_) | Step::Autopath(_) | Step::Dns64(_) => {
                    let Some(nested) = nested::of(step, plan, asked, &visit) else {
                        continue;
                    };
                    let merge = visit.merge;
                    self.nest(nested, plan, at + 1, asked, depth, answer);
                    return Passed { entered: at, merge };
                }
                step => enter(step, plan, at, &mut visit, answer),
            };
            if flow != Flow::Next {
                if let Some((cache, _)) = visit.cache {
                    cache::pass(cache, &visit);
                }
                return Passed {
                    entered: if flow == Flow::Kept { cached_at } else { at },
                    merge: visit.merge,
                };
            }
        }
        if let Some((cache, _)) = visit.cache {
            cache::pass(cache, &visit);
        }
        let merge = visit.merge;
        // A question that runs off the end of the plan.
        answer.rcode = Rcode::SERVFAIL;
        answer.reason = Some(Reason::NoNext(plan.last()));
        Passed {
            entered: plan.steps.len(),
            merge,
        }
    }

    /// Another server has to be asked before there is an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.wants.is_some()
    }

    /// The counters of the route that a question came by.
    pub(super) fn series(&self, asked: &Asked<'_>) -> Option<&Series> {
        self.setting.stats.series.get(asked.series as usize)
    }

    /// Asks for a name that an alias or a target led to, starting again from the choice of the server block, unless the step
    /// that led there has somebody to ask.
    pub(super) fn again(
        &mut self,
        asked: &Asked<'_>,
        wanted: &Pending<'z>,
        by: Option<&'z Step>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) -> usize {
        let is_alias = matches!(
            wanted.purpose,
            Purpose::Alias | Purpose::AliasWithRcode | Purpose::OtherTarget
        );
        let left = if is_alias {
            &mut self.aliases_left
        } else {
            &mut self.additional_left
        };
        if *left == 0 || depth == ALIASES_MAX {
            answer.limited |= is_alias && depth < ALIASES_MAX;
            return 0;
        }
        *left -= 1;
        let Ok(name) = Name::from_wire(answer.bytes(wanted.target)).map(Name::to_buf) else {
            return 0;
        };
        let folded: NameBuf = name.clone().folded();
        if self.trail.is_empty() {
            self.trail.push(asked.name.to_buf());
        }
        if is_alias && self.trail.contains(&folded) {
            return 0;
        }
        let outer = answer.begin_inner();
        let plan = match outside::plan(by, folded.as_bytes()) {
            Some(plan) => Some((plan, asked.series)),
            None => {
                let found = route(
                    self.setting.config,
                    self.setting.listener,
                    folded.as_bytes(),
                    wanted.rtype,
                    self.setting.client,
                    self.setting.data,
                );
                found.map(|(_, route)| (&self.setting.config.plans[route.plan as usize], route.series))
            }
        };
        match plan {
            Some((plan, series)) if !plan.is_empty() => {
                let folded_name = folded.clone();
                let (name, folded) = (name.as_name(), folded.as_bytes());
                let asked = Asked {
                    name,
                    folded,
                    rtype: wanted.rtype,
                    rclass: Rclass::IN,
                    series,
                    may_copy: false,
                };
                self.trail.push(folded_name);
                self.answer(plan, &asked, None, depth + 1, answer);
                self.trail.pop();
            }
            _ => answer.rcode = Rcode::REFUSED,
        }
        answer.end_inner(outer, wanted)
    }
}

/// Enters one step. The loop around it is kept apart: what steps need would be made ready there for every query.
#[inline(never)]
fn enter<'z>(step: &'z Step, plan: &'z Plan, at: usize, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let is_last = at + 1 == plan.steps.len();
    match step {
        // Those that the loop itself enters, and those that only see the way up.
        Step::LoadBalance(_) | Step::Minimal | Step::Cache(_) => Flow::Next,
        Step::Rewrite(_) | Step::Autopath(_) | Step::Dns64(_) => Flow::Next,
        Step::Local(step) => local::enter(*step, visit, visit.stats, answer),
        Step::Any => any::enter(visit.asked, answer),
        Step::Chaos(step) => chaos::enter(step, visit.asked, visit.random, answer),
        Step::Acl(step) => acl::enter(step, visit, visit.stats, answer),
        Step::Header(step) => {
            header::enter(step, answer);
            Flow::Next
        }
        Step::Template(step) => templates::enter(step, plan, visit, answer),
        Step::Transfer(step) => transfer::enter(step, plan, visit, answer),
        Step::Hosts(step) => hosts::enter(step, visit, answer),
        Step::K8sExternal(step) => kubernetes::enter_external(step, visit, answer),
        Step::Kubernetes(step) => kubernetes::enter(step, visit, answer),
        Step::File(source) => file::enter(source, is_last, visit, answer),
        Step::Auto(auto) => file::enter_auto(auto, is_last, visit, answer),
        Step::Secondary(secondary) => file::enter_secondary(secondary, is_last, visit, answer),
        Step::Etcd(source) => etcd::enter(source, plan, visit, answer),
        Step::Loop(canary) => looping::enter(canary, visit, answer),
        Step::Forward(step) => forward::enter(step, plan, visit, answer),
        Step::Whoami => whoami::enter(visit, answer),
    }
}
