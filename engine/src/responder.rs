//! The sans-io core: packets, time and snapshot in; replies and effects out.
//!
//! ```text
//!   batch ── pass 1: parse, fold, route, hash, touch ──> pass 2: walk the plan, encode ──> replies in their room
//!   stream bytes ── frames ──> the same ──> replies appended, one write
//! ```
//!
//! It owns no socket, reads no clock and spawns nothing, so the same code runs under every port, in the simulation and
//! in the fuzzer.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use nodens_wire::{
    Compressor, Flags, Name, NameBuf, Opcode, Query, Rclass, Rcode, Refusal, Rtype, carries_opt, edns, label,
};
use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;

use crate::answer::{Answer, Memory, Reason};
use crate::edns::{UDP_SIZE, reply_opt, udp_limit};
use crate::encode::{self, Written};
use crate::io::{BATCH_MAX, Datagram, Effect, ListenerId, Peer, UpstreamDatagram};
use crate::log::{LogEntry, LogLine, LogQueue, ReplyKind};
use crate::plan::{Asked, Client, Held, Plan, Probe, Walk, route};
use crate::services::Entry;
use crate::services::answer::Scratch;
use crate::snapshot::{Config, Data, Route};
use crate::stats::{Observed, Series, WorkerStats};
use crate::stream::Streams;
use crate::time::{Clock, Instant};
use crate::transfer::{Progress, TRANSFERS_MAX, Transfer};
use crate::zone::trie::{self, NameHash};
use crate::zone::{Node, Zone};

/// Effects that wait to be carried out; one more is dropped and counted.
pub const EFFECTS_MAX: usize = 1024;
const MESSAGE_LEN_MAX: usize = 65_535;

/// What one batch is answered with.
#[derive(Clone, Copy, Debug)]
pub struct Now<'z> {
    /// The one reading of the clock.
    pub clock: Clock,
    /// The configuration.
    pub config: &'z Config,
    /// The data.
    pub data: &'z Data,
}

/// See the module.
#[derive(Debug)]
pub struct Responder {
    hash: NameHash,
    random: ChaCha8Rng,
    pub(crate) stats: Arc<WorkerStats>,
    log: Option<LogQueue>,
    pub(crate) streams: Streams,
    effects: VecDeque<(Effect, Vec<u8>)>,
    pub(crate) memory: Memory,
    pub(crate) work: Work,
    /// The names of a batch in lower case.
    folded: Vec<[u8; 256]>,
}

/// Memory that every answer uses and none keeps.
#[derive(Debug)]
pub(crate) struct Work {
    names: Compressor,
    services: Scratch,
    /// Room for a message of any size.
    message: Vec<u8>,
    /// What came under TLS, and the answers before they are sealed.
    pub(crate) opened: Vec<u8>,
    pub(crate) answers: Vec<u8>,
}

/// A query of a batch, after the first pass.
struct First<'p, 'z> {
    query: Result<Query<'p>, Refusal>,
    route: Option<Route>,
    probe: Option<Probe<'z>>,
}

impl<'p> First<'p, '_> {
    #[inline]
    fn of(packet: &'p [u8]) -> Self {
        Self {
            query: Query::parse(packet),
            route: None,
            probe: None,
        }
    }
}

/// Reads the cache lines that the answers of a batch will need, one level at a time: each level waits for memory, and
/// the queries of the batch wait for it together (bench `respond/etcd`).
fn bring<'z>(data: &'z Data, seen: &mut [First<'_, 'z>]) {
    let mut spots = ArrayVec::<(Spot<'z>, &mut Probe<'z>), BATCH_MAX>::new();
    for first in &mut *seen {
        let Some(probe) = &mut first.probe else { continue };
        match data.zone(probe.zone) {
            Some(Zone::Services(tree)) => spots.push((Spot::Services(tree.touch(probe.hash)), probe)),
            Some(Zone::Records(zone)) => spots.push((Spot::Records(zone.touch(probe.hash)), probe)),
            Some(Zone::Several(_) | Zone::Weights(_)) | None => {}
        }
    }
    for (spot, probe) in spots {
        probe.held = match spot {
            Spot::Services(spot) => spot
                .candidate(probe.hash)
                .map_or(Held::Nothing, |entry| Held::Entry(entry)),
            Spot::Records(spot) => spot
                .candidate(probe.hash)
                .map_or(Held::Nothing, |node| Held::Node(node)),
        };
    }
    for first in seen {
        match first.probe.as_ref().map(|probe| probe.held) {
            Some(Held::Entry(entry)) => entry.touch(),
            Some(Held::Node(node)) => node.touch(),
            Some(Held::Unknown | Held::Nothing) | None => {}
        }
    }
}

/// Where a name would stand in a zone of either kind.
enum Spot<'z> {
    Services(trie::Spot<'z, Entry>),
    Records(trie::Spot<'z, Node>),
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) listener: ListenerId,
    pub(crate) peer: &'a Peer,
    pub(crate) local: Option<IpAddr>,
    pub(crate) is_stream: bool,
    pub(crate) is_encrypted: bool,
    /// How long the connection may stay without a query, in tenths of a second.
    pub(crate) keepalive: u16,
}

impl<'a> Origin<'a> {
    #[inline]
    fn of(datagram: &Datagram<'a>) -> Self {
        Self {
            listener: datagram.listener,
            peer: datagram.peer,
            local: datagram.local,
            is_stream: false,
            is_encrypted: false,
            keepalive: 0,
        }
    }

    #[inline]
    pub(crate) fn client<'b>(&'b self, query: &'b Query<'b>) -> Client<'b> {
        Client { origin: self, query }
    }
}

impl Responder {
    /// A responder with its own counters. `seed` feeds all that is random in it; `hash` is the one of the zones.
    #[must_use]
    pub fn new(seed: u64, hash: NameHash, stats: Arc<WorkerStats>, log: Option<LogQueue>) -> Self {
        Self {
            hash,
            random: ChaCha8Rng::seed_from_u64(seed),
            stats,
            log,
            streams: Streams::new(),
            effects: VecDeque::new(),
            memory: Memory::default(),
            work: Work {
                names: Compressor::new(),
                services: Scratch::default(),
                message: Vec::new(),
                opened: Vec::new(),
                answers: Vec::new(),
            },
            folded: vec![[0; 256]; BATCH_MAX],
        }
    }

    /// Leaves lines for the log in this queue from now on.
    pub fn log_to(&mut self, log: LogQueue) {
        self.log = Some(log);
    }

    /// Answers a batch of up to [`BATCH_MAX`] datagrams, each in its room.
    pub fn datagrams(&mut self, now: &Now<'_>, batch: &mut [Datagram<'_>]) {
        let mut folded = std::mem::take(&mut self.folded);
        let mut seen = ArrayVec::<First<'_, '_>, BATCH_MAX>::new();
        seen.extend(batch.iter().map(|datagram| First::of(datagram.query)));
        for (first, (datagram, row)) in seen.iter_mut().zip(batch.iter().zip(&mut folded)) {
            self.place(now, datagram.listener, || Origin::of(datagram), first, row);
        }
        bring(now.data, &mut seen);
        let mut answer = Answer::new(std::mem::take(&mut self.memory));
        for (first, (datagram, row)) in seen.iter().zip(batch.iter_mut().zip(&folded)) {
            let origin = Origin::of(datagram);
            let reply = &mut *datagram.reply;
            datagram.reply_len = match &first.query {
                Err(refusal) => refuse(datagram.query, *refusal, reply, &self.stats),
                Ok(query) => {
                    let limit = udp_limit(query, plan(now, first.route));
                    let folded = &row[..query.qname.len()];
                    let question = Asking {
                        query,
                        folded,
                        route: first.route,
                        probe: first.probe.as_ref(),
                        origin: &origin,
                        limit,
                    };
                    self.respond(now, &question, reply, &mut answer)
                }
            };
        }
        self.memory = answer.into_memory();
        self.folded = folded;
    }

    /// The first pass over a query: whose it is, and where its name would stand.
    #[inline]
    fn place<'o>(
        &self,
        now: &Now<'_>,
        listener: ListenerId,
        origin: impl Fn() -> Origin<'o>,
        first: &mut First<'_, '_>,
        row: &mut [u8; 256],
    ) {
        let Ok(query) = &first.query else { return };
        let name = &mut row[..query.qname.len()];
        label::fold_into(query.qname.as_bytes(), name);
        let listener = now.config.listeners.get(usize::from(listener.0));
        let found = listener.and_then(|listener| route(now.config, listener, name, query.rtype, query, origin));
        let Some((at, route)) = found else { return };
        first.route = Some(route);
        first.probe = now.config.plans[route.plan as usize].first_zone(name, at);
        if let Some(probe) = &mut first.probe {
            probe.hash = self.hash.of(&name[..probe.len]);
        }
    }

    /// Answers one query into `room`; returns the bytes of the reply, 0 where it left by an effect.
    fn respond<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        room: &mut [u8],
        answer: &mut Answer<'z>,
    ) -> usize {
        let Asking { origin, limit, .. } = *asking;
        let written = catch_unwind(AssertUnwindSafe(|| self.answer_into(now, asking, room, answer)));
        let written = written.unwrap_or_else(|panic| {
            let listener = now.config.listeners.get(usize::from(origin.listener.0));
            if listener.is_some_and(|listener| listener.debug) {
                resume_unwind(panic);
            }
            // One bad packet must not stop a node's DNS.
            self.stats.panics.add(1);
            if let Some(series) = self.dropped(now, asking.origin) {
                series.panics.add(1);
            }
            self.work.services = Scratch::default();
            answer.reset();
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(Reason::Panic);
            self.write(now, asking, room, answer)
        });
        let mut len = written.len;
        if !written.whole && limit > room.len() {
            len = 0;
            let mut message = self.take_message();
            let larger = self.write(now, asking, &mut message, answer);
            let Origin {
                listener, peer, local, ..
            } = *origin;
            self.effect(
                Effect::Send {
                    listener,
                    peer: *peer,
                    local,
                },
                &message[..larger.len],
            );
            self.work.message = message;
        }
        self.observe(now, asking, answer, &written);
        len
    }

    fn answer_into<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        room: &mut [u8],
        answer: &mut Answer<'z>,
    ) -> Written {
        answer.reset();
        self.decide(now, asking, true, answer);
        if answer.extras.is_dropped {
            return Written {
                whole: true,
                ..Written::default()
            };
        }
        let written = self.write(now, asking, room, answer);
        if written.whole || answer.rendered.is_none() {
            return written;
        }
        // Prepared bytes fit whole or not at all; single records can be cut.
        answer.reset();
        self.decide(now, asking, false, answer);
        self.write(now, asking, room, answer)
    }

    /// Finds the answer: refusals in their order, then the plan.
    fn decide<'z>(&mut self, now: &Now<'z>, asking: &Asking<'_, 'z>, may_copy: bool, answer: &mut Answer<'z>) {
        let Asking {
            query,
            folded,
            route,
            probe,
            origin,
            ..
        } = *asking;
        let Some(listener) = now.config.listeners.get(usize::from(origin.listener.0)) else {
            answer.rcode = Rcode::REFUSED;
            return;
        };
        if query.rclass != Rclass::IN && !listener.any_class {
            answer.rcode = Rcode::REFUSED;
            return;
        }
        if query.opt.as_ref().is_some_and(|opt| opt.version != edns::VERSION) {
            answer.rcode = Rcode::BADVERS;
            return;
        }
        let plan = route
            .map(|route| (&now.config.plans[route.plan as usize], route.series))
            .filter(|(plan, _)| !plan.is_empty());
        let Some((plan, series)) = plan else {
            answer.rcode = Rcode::REFUSED;
            return;
        };
        let mut walk = Walk::new(
            now,
            listener,
            origin.client(query),
            &self.stats,
            &mut self.work.services,
            &mut self.random,
        );
        let asked = Asked {
            name: query.qname,
            folded,
            rtype: query.rtype,
            rclass: query.rclass,
            series,
            may_copy,
        };
        walk.answer(plan, &asked, probe, 0, answer);
        if answer.transfer.is_some() {
            self.limit_transfers(answer);
        }
    }

    /// Counts a transfer that is about to begin; one too many is SERVFAIL, so that its client comes again.
    #[cold]
    fn limit_transfers(&mut self, answer: &mut Answer<'_>) {
        if self.streams.transferring() < TRANSFERS_MAX {
            self.stats.transfers.add(1);
            return;
        }
        self.stats.transfers_limited.add(1);
        answer.transfer = None;
        answer.aa = false;
        answer.rcode = Rcode::SERVFAIL;
    }

    fn write(&mut self, now: &Now<'_>, asking: &Asking<'_, '_>, room: &mut [u8], answer: &Answer<'_>) -> Written {
        let opt = asking.query.opt.as_ref();
        let opt = opt.map(|opt| reply_opt(opt, plan(now, asking.route), asking.origin, answer));
        // Over a stream there is room for all that was gathered; TC would only bring the client back.
        let cut = answer.limited && !asking.origin.is_stream;
        encode::write(
            asking.query,
            answer,
            cut,
            opt.as_ref(),
            asking.limit,
            room,
            &mut self.work.names,
        )
    }

    /// The counters of a server that belong to none of its zones.
    fn dropped(&self, now: &Now<'_>, origin: &Origin<'_>) -> Option<&Series> {
        let listener = now.config.listeners.get(usize::from(origin.listener.0))?;
        self.stats.series.get(listener.dropped as usize)
    }

    /// Counts and logs one query and its reply.
    fn observe(&mut self, now: &Now<'_>, asking: &Asking<'_, '_>, answer: &mut Answer<'_>, written: &Written) {
        let Asking {
            query, route, origin, ..
        } = *asking;
        if answer.limited {
            self.stats.gather_limited.add(1);
            if let Some(series) = self.dropped(now, asking.origin) {
                series.limited.add(1);
            }
        }
        if answer.rcode == Rcode::BADVERS {
            return;
        }
        let listener = now.config.listeners.get(usize::from(origin.listener.0));
        let served = query.rclass == Rclass::IN || listener.is_some_and(|listener| listener.any_class);
        let plan = route
            .filter(|_| served)
            .map(|route| (&now.config.plans[route.plan as usize], route.series));
        let series = match plan {
            Some((plan, series)) if plan.metrics && answer.reason.is_none() => Some(plan.series(asking.folded, series)),
            Some((plan, series)) if !plan.is_empty() && answer.reason != Some(Reason::Panic) => {
                plan.metrics.then(|| plan.series(asking.folded, series))
            }
            // What no plan has seen is counted whether or not one counts.
            _ => listener.map(|listener| listener.dropped),
        };
        if let Some(series) = series.and_then(|series| self.stats.series.get(series as usize)) {
            series.count(&Observed {
                is_stream: origin.is_stream,
                is_v6: !origin.peer.is_ipv4(),
                rtype: query.rtype,
                dnssec_ok: query.opt.as_ref().is_some_and(|opt| opt.dnssec_ok),
                query_len: query.len,
                reply_plain_len: if answer.by.is_some() { written.plain_len } else { 0 },
                rcode: answer.rcode,
                by: answer.by,
                duration: Duration::ZERO,
            });
        }
        if let Some((plan, _)) = plan
            && (!plan.log.is_empty() || (plan.errors.is_some() && answer.reason.is_some()))
        {
            self.log(plan, asking, answer, written);
        }
    }

    #[cold]
    fn log(&mut self, plan: &Plan, asking: &Asking<'_, '_>, answer: &mut Answer<'_>, written: &Written) {
        let Some(log) = &self.log else { return };
        let Asking {
            query, folded, origin, ..
        } = *asking;
        let client = origin.client(query);
        let entry = LogEntry {
            line: LogLine::Error(plan.errors.unwrap_or_default()),
            reason: answer.reason.take(),
            remote: origin.peer.to_socket_addr(),
            local: origin.local,
            is_stream: origin.is_stream,
            id: query.id,
            opcode: query.flags.opcode(),
            name: Name::from_wire(folded).map_or_else(|_| NameBuf::root(), Name::to_buf),
            rtype: query.rtype,
            rclass: query.rclass,
            size: query.len,
            dnssec_ok: client.dnssec_ok(),
            bufsize: u16::try_from(asking.limit).unwrap_or(u16::MAX),
            rcode: (!answer.extras.is_dropped).then_some(answer.rcode),
            kind: kind(query, answer),
            has_metadata: plan.metadata.as_ref().is_some_and(|zones| zones.contains(folded)),
            flags: Flags(written.flags),
            reply_size: written.plain_len,
            duration_nanos: 0,
        };
        // The first rule that covers the name decides, also about not logging.
        if let Some(rule) = plan.log.iter().find(|rule| rule.zones.contains(folded))
            && rule.classes.want(entry.kind)
        {
            let query_line = LogEntry {
                line: LogLine::Query(rule.format),
                reason: None,
                ..entry.clone()
            };
            self.stats.log_dropped.add(u64::from(!log.push(query_line)));
        }
        if plan.errors.is_some() && entry.reason.is_some() {
            self.stats.log_dropped.add(u64::from(!log.push(entry)));
        }
    }

    /// The next message of a transfer.
    pub(crate) fn part(&mut self, transfer: &mut Transfer, reply: &mut Vec<u8>) -> Progress {
        let mut room = self.take_message();
        let progress = transfer.write(&mut room, &mut self.work.names);
        if let Progress::More(len) | Progress::Last(len) = progress {
            append(reply, &room[..len]);
        }
        self.work.message = room;
        progress
    }

    /// One message of a stream; its answer goes behind the others. A whole zone is yet to be written.
    pub(crate) fn message<'z>(
        &mut self,
        now: &Now<'z>,
        origin: Origin<'_>,
        message: &[u8],
        reply: &mut Vec<u8>,
        answer: &mut Answer<'z>,
    ) -> Option<Box<Transfer>> {
        let mut row = [0; 256];
        let mut room = self.take_message();
        let mut transfer = None;
        let mut first = First::of(message);
        self.place(now, origin.listener, || origin, &mut first, &mut row);
        let First { query, route, probe } = &first;
        let len = match query {
            Err(refusal) => refuse(message, *refusal, &mut room, &self.stats),
            Ok(query) => {
                let folded = &row[..query.qname.len()];
                let asking = Asking {
                    query,
                    folded,
                    route: *route,
                    probe: probe.as_ref(),
                    origin: &origin,
                    limit: MESSAGE_LEN_MAX,
                };
                let len = self.respond(now, &asking, &mut room, answer);
                if let Some(zone) = answer.transfer.and_then(|id| now.data.shared(id))
                    && let Ok(apex) = Name::from_wire(folded)
                {
                    let opt = query.opt.as_ref();
                    let opt = opt.map(|opt| reply_opt(opt, plan(now, *route), &origin, answer));
                    transfer = Some(Box::new(Transfer::new(Arc::clone(zone), apex.to_buf(), query, opt)));
                }
                len
            }
        };
        if len > 0 && transfer.is_none() {
            append(reply, &room[..len]);
        }
        self.work.message = room;
        transfer
    }

    fn take_message(&mut self) -> Vec<u8> {
        let mut message = std::mem::take(&mut self.work.message);
        message.resize(MESSAGE_LEN_MAX, 0);
        message
    }

    /// Another server replied. No step asks one yet.
    pub fn upstream(&mut self, _now: &Now<'_>, _reply: UpstreamDatagram<'_>) {}

    /// When [`Responder::timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.streams.deadline()
    }

    /// The next thing to be done, and the bytes it speaks of.
    pub fn poll_effect(&mut self) -> Option<(Effect, Vec<u8>)> {
        self.effects.pop_front()
    }

    pub(crate) fn effect(&mut self, effect: Effect, bytes: &[u8]) {
        // A connection that is to be closed must not be forgotten; a datagram may be.
        let may_drop = matches!(effect, Effect::Send { .. });
        if may_drop && self.effects.len() >= EFFECTS_MAX {
            self.stats.effects_dropped.add(1);
            return;
        }
        self.effects.push_back((effect, bytes.to_vec()));
    }
}

/// Puts a message behind others, with its length in front (RFC 1035 §4.2.2).
fn append(reply: &mut Vec<u8>, message: &[u8]) {
    reply.extend_from_slice(&(message.len() as u16).to_be_bytes());
    reply.extend_from_slice(message);
}

/// One query on its way to an answer.
#[derive(Clone, Copy)]
struct Asking<'a, 'z> {
    query: &'a Query<'a>,
    /// Its name in lower case.
    folded: &'a [u8],
    route: Option<Route>,
    probe: Option<&'a Probe<'z>>,
    origin: &'a Origin<'a>,
    /// Most bytes that the client takes.
    limit: usize,
}

fn plan<'z>(now: &Now<'z>, route: Option<Route>) -> Option<&'z Plan> {
    Some(&now.config.plans[route?.plan as usize])
}

/// The short reply to what is no query that could be answered; 0 for none at all.
fn refuse(packet: &[u8], refusal: Refusal, room: &mut [u8], stats: &WorkerStats) -> usize {
    let (rcode, question_len, has_opt) = match refusal {
        Refusal::Ignore => {
            stats.ignored.add(1);
            return 0;
        }
        Refusal::NotImplemented => (Rcode::NOTIMP, 0, carries_opt(packet)),
        Refusal::FormErr { question_len, has_opt } => (Rcode::FORMERR, question_len, has_opt),
    };
    let [id_high, id_low, high, low, ..] = *packet else {
        return 0;
    };
    stats.refused.add(1);
    let theirs = Flags(u16::from_be_bytes([high, low]));
    let opcode = if rcode == Rcode::NOTIMP {
        theirs.opcode()
    } else {
        Opcode::QUERY
    };
    let flags = Flags(0)
        .with_qr(true)
        .with_opcode(opcode)
        .with_rd(theirs.rd())
        .with_cd(theirs.cd())
        .with_rcode(rcode);
    encode::short(
        u16::from_be_bytes([id_high, id_low]),
        flags,
        packet.get(12..12 + question_len).unwrap_or_default(),
        has_opt.then_some(UDP_SIZE),
        room,
    )
}

/// What kind of a reply an answer makes.
fn kind(query: &Query<'_>, answer: &Answer<'_>) -> ReplyKind {
    let has_data = answer.rendered.is_some() || !answer.sections[0].is_empty();
    let in_authority = |rtype| answer.sections[1].iter().any(|pick| pick.rtype == rtype);
    let has_soa = answer.authority.is_some() || in_authority(Rtype::SOA);
    if matches!(query.rtype, Rtype::AXFR | Rtype::IXFR) || query.flags.opcode() == Opcode::NOTIFY {
        return ReplyKind::Meta;
    }
    match answer.rcode {
        _ if answer.extras.is_dropped => ReplyKind::OtherError,
        Rcode::NXDOMAIN if !has_data => ReplyKind::NxDomain,
        Rcode::NOERROR if has_data => ReplyKind::Success,
        Rcode::NOERROR if has_soa => ReplyKind::NoData,
        Rcode::NOERROR if in_authority(Rtype::NS) => ReplyKind::Delegation,
        Rcode::NOERROR => ReplyKind::Success,
        Rcode::SERVFAIL | Rcode::REFUSED | Rcode::NOTIMP => ReplyKind::ServerError,
        _ => ReplyKind::OtherError,
    }
}
