//! The sans-io core: packets, time and snapshot in; replies and effects out.
//!
//! ```text
//!   batch ── pass 1: parse, fold, route, hash, touch ──> pass 2: walk the plan, encode ──> replies in their room
//!   stream bytes ── frames ──> the same ──> replies appended, one write
//! ```
//!
//! It owns no socket, reads no clock and spawns nothing, so the same code runs under every port, in the simulation and
//! in the fuzzer.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use arrayvec::ArrayVec;
use nodens_wire::{
    Compressor, Flags, Name, NameBuf, Opcode, Query, Rclass, Rcode, Refusal, Rtype, carries_opt, edns, label,
};
use rand::rngs::ChaCha8Rng;
use rand::{Rng as _, SeedableRng as _};

use crate::answer::{Answer, Memory, Reason};
use crate::cache::flight::Flights;
use crate::edns::{ReplyOpt, UDP_SIZE, reply_opt, udp_limit};
use crate::effects::Effects;
use crate::encode::{self, Written};
use crate::forward::Forwarder;
use crate::io::{BATCH_MAX, Datagram, Effect, ListenerId, Peer, StreamId};
use crate::log::{LogEntry, LogLine, LogQueue, ReplyKind};
use crate::plan::{Asked, Client, Held, Plan, Probe, Tools, Walk, route};
use crate::services::answer::Scratch;
use crate::snapshot::{Config, Data, Listener};
use crate::stats::{Observed, Series, WorkerStats};
use crate::stream::Streams;
use crate::time::{Clock, Instant};
use crate::transfer::{Progress, TRANSFERS_MAX, Transfer};
use crate::waiting::{Ask, Mode, NOTHING, Told, WaitingRoom};
use crate::zone::Zone;
use crate::zone::trie::NameHash;

/// Effects that wait to be carried out; one more is dropped and counted.
pub const EFFECTS_MAX: usize = 16_384;
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
    pub(crate) hash: NameHash,
    pub(crate) random: ChaCha8Rng,
    pub(crate) stats: Arc<WorkerStats>,
    log: Option<LogQueue>,
    pub(crate) streams: Streams,
    pub(crate) waiting: WaitingRoom,
    pub(crate) forwarder: Forwarder,
    /// Equal questions of all workers, and which of them this one is.
    pub(crate) flights: Option<(Arc<Flights>, u16)>,
    /// What was just shown out of the cache is to be made new.
    refreshes: bool,
    effects: Effects,
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
    pub(crate) message: Vec<u8>,
    /// Room for rdata that are unpacked.
    pub(crate) rdata: Vec<u8>,
    /// Room for what the cache gives, and for what it may keep.
    pub(crate) kept: Vec<u8>,
    /// Room for EDNS options.
    options: Vec<u8>,
    /// What came under TLS, and the answers before they are sealed.
    pub(crate) opened: Vec<u8>,
    pub(crate) answers: Vec<u8>,
}

/// Reads the cache lines that the answers of a batch will need, one level at a time: each level waits for memory, and
/// the queries of the batch wait for it together (bench `respond/etcd`).
fn bring<'z>(data: &'z Data, batch: &mut [(Asking<'_, 'z>, &mut Datagram<'_>)]) {
    for probe in batch.iter_mut().filter_map(|(asking, _)| asking.probe.as_mut()) {
        probe.held = match data.zone(probe.zone) {
            Some(Zone::Services(tree)) => Held::NearEntry(tree.touch(probe.hash)),
            Some(Zone::Records(zone)) => Held::NearNode(zone.touch(probe.hash)),
            Some(Zone::Cluster(cluster)) if probe.key != (0, 0) => Held::NearService(cluster.touch(probe.hash)),
            Some(Zone::Cluster(_) | Zone::Several(_) | Zone::Weights(_)) | None => continue,
        };
    }
    for probe in batch.iter_mut().filter_map(|(asking, _)| asking.probe.as_mut()) {
        probe.held = match &probe.held {
            Held::NearEntry(spot) => spot
                .candidate(probe.hash)
                .map_or(Held::Nothing, |entry| Held::Entry(entry)),
            Held::NearNode(spot) => spot
                .candidate(probe.hash)
                .map_or(Held::Nothing, |node| Held::Node(node)),
            Held::NearService(spot) => spot
                .candidate(probe.hash)
                .map_or(Held::Nothing, |entry| Held::Service(entry)),
            _ => continue,
        };
    }
    for probe in batch.iter().filter_map(|(asking, _)| asking.probe.as_ref()) {
        match probe.held {
            Held::Entry(entry) => entry.touch(),
            Held::Node(node) => node.touch(),
            Held::Service(entry) => entry.touch(),
            _ => {}
        }
    }
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) listener: ListenerId,
    pub(crate) peer: &'a Peer,
    pub(crate) local: Option<IpAddr>,
    /// The connection, unless it came over UDP.
    pub(crate) stream: Option<StreamId>,
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
            stream: None,
            is_encrypted: false,
            keepalive: 0,
        }
    }

    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    #[inline]
    pub(crate) fn client<'b>(&'b self, query: &'b Query<'b>) -> Client<'b> {
        Client { origin: self, query }
    }
}

impl Responder {
    /// A responder with its own counters. `seed` feeds all that is random in it; `hash` is the one of the zones.
    #[must_use]
    pub fn new(seed: [u8; 32], hash: NameHash, stats: Arc<WorkerStats>, log: Option<LogQueue>) -> Self {
        let mut random = ChaCha8Rng::from_seed(seed);
        let mut forward_seed = [0; 32];
        random.fill_bytes(&mut forward_seed);
        let forwarder = Forwarder::new(forward_seed, Arc::clone(&stats));
        Self {
            hash,
            random,
            stats,
            log,
            streams: Streams::new(),
            waiting: WaitingRoom::default(),
            forwarder,
            flights: None,
            refreshes: false,
            effects: Effects::default(),
            memory: Memory::default(),
            work: Work {
                names: Compressor::new(),
                services: Scratch::default(),
                message: Vec::new(),
                rdata: Vec::new(),
                kept: Vec::new(),
                options: Vec::new(),
                opened: Vec::new(),
                answers: Vec::new(),
            },
            folded: vec![[0; 256]; BATCH_MAX],
        }
    }

    /// Asks what other workers ask too only once; this one has that number among them.
    pub fn merge_with(&mut self, flights: Arc<Flights>, worker: u16) {
        self.flights = Some((flights, worker));
    }

    /// Leaves lines for the log in this queue from now on.
    pub fn log_to(&mut self, log: LogQueue) {
        self.log = Some(log);
    }

    /// Answers a batch of up to [`BATCH_MAX`] datagrams, each in its room.
    pub fn datagrams(&mut self, now: &Now<'_>, batch: &mut [Datagram<'_>]) {
        let mut folded = std::mem::take(&mut self.folded);
        let mut seen = ArrayVec::<(Asking<'_, '_>, &mut Datagram<'_>), BATCH_MAX>::new();
        for (datagram, row) in batch.iter_mut().zip(&mut folded) {
            match Query::parse(datagram.query) {
                Err(refusal) => datagram.reply_len = refuse(datagram.query, refusal, datagram.reply, &self.stats),
                Ok(query) => seen.push((Asking::new(query, Origin::of(datagram), row, now), datagram)),
            }
        }
        for (asking, _) in &mut seen {
            self.place(now, asking);
        }
        bring(now.data, &mut seen);
        let mut answer = Answer::new(std::mem::take(&mut self.memory));
        for (asking, datagram) in &mut seen {
            datagram.reply_len = self.answer_or_wait(now, asking, datagram.reply, &mut answer);
        }
        drop(seen);
        self.memory = answer.into_memory();
        self.folded = folded;
        self.go_on(now);
    }

    /// The first pass over a query: whose it is, and where its name would stand.
    #[inline(always)]
    pub(crate) fn place<'z>(&self, now: &Now<'z>, asking: &mut Asking<'_, 'z>) {
        let Asking {
            query, folded, origin, ..
        } = asking;
        asking.listener = now.config.listeners.get(usize::from(origin.listener.0));
        let Some(listener) = asking.listener else { return };
        let Some((at, route)) = route(
            now.config,
            listener,
            folded,
            query.rtype,
            &origin.client(query),
            now.data,
        ) else {
            return;
        };
        let plan = &now.config.plans[route.plan as usize];
        asking.plan = Some((plan, route.series));
        asking.probe = plan.first_zone(folded, at);
        if let Some(probe) = &mut asking.probe {
            probe.hash = self.hash.of(probe.key(folded));
        }
    }

    /// Answers one query that has just come into `room`; returns the bytes of the reply, 0 where it left by an effect or
    /// will come later.
    #[inline]
    fn answer_or_wait<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        room: &mut [u8],
        answer: &mut Answer<'z>,
    ) -> usize {
        match self.respond(now, asking, room, answer) {
            Ok(len) => {
                if std::mem::take(&mut self.refreshes) {
                    self.refresh(now, asking);
                }
                len
            }
            Err(ask) => {
                self.wait(now, asking, ask);
                0
            }
        }
    }

    /// Answers one query into `room`; returns the bytes of the reply, 0 where it left by an effect, or what has to be asked
    /// of another server first.
    pub(crate) fn respond<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        room: &mut [u8],
        answer: &mut Answer<'z>,
    ) -> Result<usize, Arc<Ask>> {
        let written = catch_unwind(AssertUnwindSafe(|| self.answer_into(now, asking, room, answer)));
        let written = written.unwrap_or_else(|panic| {
            if asking.listener.is_some_and(|listener| listener.debug) {
                resume_unwind(panic);
            }
            // One bad packet must not stop a node's DNS.
            self.stats.panics.add(1);
            if let Some(series) = self.dropped(asking) {
                series.panics.add(1);
            }
            self.work.services = Scratch::default();
            answer.reset();
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(Reason::Panic);
            Ok(self.write_anew(asking, room, answer))
        })?;
        let mut len = written.len as usize;
        if !written.whole && asking.limit() > room.len() {
            len = 0;
            let mut message = self.take_message();
            let larger = self.write_anew(asking, &mut message, answer);
            let Origin {
                listener, peer, local, ..
            } = asking.origin;
            self.effect(
                Effect::Send {
                    listener,
                    peer: *peer,
                    local,
                },
                &message[..larger.len as usize],
            );
            self.work.message = message;
        }
        // Nobody has asked what is only made new.
        if asking.told.mode != Mode::Refresh {
            self.observe(now, asking, answer, &written);
        }
        Ok(len)
    }

    fn answer_into<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        room: &mut [u8],
        answer: &mut Answer<'z>,
    ) -> Result<Written, Arc<Ask>> {
        let mut may_copy = true;
        loop {
            let written = self.attempt(now, asking, may_copy, room, answer)?;
            if written.whole || !may_copy || answer.rendered.is_none() {
                return Ok(written);
            }
            // Prepared bytes fit whole or not at all; single records can be cut.
            may_copy = false;
        }
    }

    #[inline(always)]
    fn attempt<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        may_copy: bool,
        room: &mut [u8],
        answer: &mut Answer<'z>,
    ) -> Result<Written, Arc<Ask>> {
        answer.reset();
        self.decide(now, asking, may_copy, answer)?;
        if answer.extras.is_dropped {
            return Ok(Written {
                whole: true,
                ..Written::default()
            });
        }
        Ok(self.write(asking, room, answer))
    }

    /// Finds the answer: refusals in their order, then the plan.
    #[inline]
    fn decide<'z>(
        &mut self,
        now: &Now<'z>,
        asking: &Asking<'_, 'z>,
        may_copy: bool,
        answer: &mut Answer<'z>,
    ) -> Result<(), Arc<Ask>> {
        let query = &asking.query;
        let Some(listener) = asking.listener else {
            answer.rcode = Rcode::REFUSED;
            return Ok(());
        };
        if query.rclass != Rclass::IN && !listener.any_class {
            answer.rcode = Rcode::REFUSED;
            return Ok(());
        }
        if query.opt.as_ref().is_some_and(|opt| opt.version != edns::VERSION) {
            answer.rcode = Rcode::BADVERS;
            return Ok(());
        }
        let Some((plan, series)) = asking.plan.filter(|(plan, _)| !plan.is_empty()) else {
            answer.rcode = Rcode::REFUSED;
            return Ok(());
        };
        let client = asking.origin.client(query);
        let mut walk = Walk::new(
            now,
            listener,
            &client,
            asking.told,
            Tools {
                stats: &self.stats,
                services: &mut self.work.services,
                random: &mut self.random,
                hash: &self.hash,
                kept: &mut self.work.kept,
                options: &mut self.work.options,
            },
        );
        let asked = Asked {
            name: query.qname,
            folded: asking.folded,
            rtype: query.rtype,
            rclass: query.rclass,
            series,
            may_copy,
        };
        walk.answer(plan, &asked, asking.probe.as_ref(), 0, answer);
        self.refreshes |= walk.end(plan)?;
        if answer.transfer.is_some() {
            self.limit_transfers(answer);
        }
        Ok(())
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

    /// What is written once more, or after a panic.
    #[cold]
    fn write_anew(&mut self, asking: &Asking<'_, '_>, room: &mut [u8], answer: &Answer<'_>) -> Written {
        self.write(asking, room, answer)
    }

    #[inline(always)]
    fn write(&mut self, asking: &Asking<'_, '_>, room: &mut [u8], answer: &Answer<'_>) -> Written {
        let opt = asking.opt(answer);
        // Over a stream there is room for all that was gathered; TC would only bring the client back.
        let cut = (answer.limited && !asking.origin.is_stream()) || answer.extras.tc;
        encode::write(
            &asking.query,
            answer,
            cut,
            opt.as_ref(),
            asking.limit(),
            room,
            &mut self.work.names,
        )
    }

    /// The counters of a server that belong to none of its zones.
    fn dropped(&self, asking: &Asking<'_, '_>) -> Option<&Series> {
        self.stats.series.get(asking.listener?.dropped as usize)
    }

    /// Counts and logs one query and its reply.
    fn observe(&mut self, now: &Now<'_>, asking: &Asking<'_, '_>, answer: &mut Answer<'_>, written: &Written) {
        let Asking { query, origin, .. } = asking;
        if answer.limited {
            self.stats.gather_limited.add(1);
            if let Some(series) = self.dropped(asking) {
                series.limited.add(1);
            }
        }
        if answer.rcode == Rcode::BADVERS {
            return;
        }
        let any_class = || asking.listener.is_some_and(|listener| listener.any_class);
        let plan = asking.plan.filter(|_| query.rclass == Rclass::IN || any_class());
        let series = match plan {
            Some((plan, series)) if plan.metrics && answer.reason.is_none() => Some(plan.series(asking.folded, series)),
            Some((plan, series)) if !plan.is_empty() && answer.reason != Some(Reason::Panic) => {
                plan.metrics.then(|| plan.series(asking.folded, series))
            }
            // What no plan has seen is counted whether or not one counts.
            _ => asking.listener.map(|listener| listener.dropped),
        };
        if let Some(series) = series.and_then(|series| self.stats.series.get(series as usize)) {
            series.count(&Observed {
                is_stream: origin.is_stream(),
                is_v6: !origin.peer.is_ipv4(),
                rtype: query.rtype,
                dnssec_ok: query.opt.as_ref().is_some_and(|opt| opt.dnssec_ok),
                query_len: query.len,
                reply_plain_len: if answer.by.is_some() {
                    written.plain_len as usize
                } else {
                    0
                },
                rcode: answer.rcode,
                by: answer.by,
                duration: now.clock.now.since(asking.since),
            });
        }
        if let Some((plan, _)) = plan
            && (!plan.log.is_empty() || (plan.errors.is_some() && answer.reason.is_some()))
        {
            self.log(now, plan, asking, answer, written);
        }
    }

    #[cold]
    fn log(&mut self, now: &Now<'_>, plan: &Plan, asking: &Asking<'_, '_>, answer: &mut Answer<'_>, written: &Written) {
        let Some(log) = &self.log else { return };
        let Asking {
            query, folded, origin, ..
        } = asking;
        let client = origin.client(query);
        let entry = LogEntry {
            line: LogLine::Error(plan.errors.unwrap_or_default()),
            reason: answer.reason.take(),
            remote: origin.peer.to_socket_addr(),
            local: origin.local,
            is_stream: origin.is_stream(),
            id: query.id,
            opcode: query.flags.opcode(),
            name: Name::from_wire(folded).map_or_else(|_| NameBuf::root(), Name::to_buf),
            rtype: query.rtype,
            rclass: query.rclass,
            size: query.len,
            dnssec_ok: client.dnssec_ok(),
            bufsize: u16::try_from(asking.limit()).unwrap_or(u16::MAX),
            rcode: (!answer.extras.is_dropped).then_some(answer.rcode),
            kind: kind(query, answer),
            has_metadata: plan.has_metadata(folded),
            known: Vec::new(),
            upstream: answer.extras.upstream,
            flags: Flags(written.flags),
            reply_size: written.plain_len as usize,
            duration_nanos: now.clock.now.0.saturating_sub(asking.since.0),
        };
        // The first rule that covers the name decides, also about not logging.
        if let Some(rule) = plan.log.iter().find(|rule| rule.zones.contains(folded))
            && rule.classes.want(entry.kind)
        {
            let query_line = LogEntry {
                line: LogLine::Query(rule.format),
                known: known(plan, &rule.labels, &client, now.data),
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
        let len = match Query::parse(message) {
            Err(refusal) => refuse(message, refusal, &mut room, &self.stats),
            Ok(query) => {
                let mut asking = Asking::new(query, origin, &mut row, now);
                self.place(now, &mut asking);
                let len = self.answer_or_wait(now, &asking, &mut room, answer);
                if let Some(wanted) = answer.transfer.take()
                    && let Some(zone) = now.data.shared(wanted.data)
                    && let Ok(apex) = Name::from_wire(asking.folded)
                {
                    let (zone, opt) = (Arc::clone(zone), asking.opt(answer));
                    let begun = Transfer::new(zone, *wanted, apex.to_buf(), &query, opt);
                    self.stats.transfers_incremental.add(u64::from(begun.is_incremental()));
                    transfer = Some(Box::new(begun));
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

    pub(crate) fn take_message(&mut self) -> Vec<u8> {
        let mut message = std::mem::take(&mut self.work.message);
        message.resize(MESSAGE_LEN_MAX, 0);
        message
    }

    /// When [`Responder::timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = self.streams.deadline().into_iter().chain(self.waiting.deadline());
        own.chain(self.forwarder.poll_timeout()).min()
    }

    /// The next thing to be done, and the bytes it speaks of.
    pub fn poll_effect(&mut self) -> Option<(Effect, &[u8])> {
        if self.effects.is_done() {
            return self.forwarder.poll_effect();
        }
        self.effects.pop()
    }

    pub(crate) fn effect(&mut self, effect: Effect, bytes: &[u8]) {
        // A connection that is to be closed must not be forgotten; a datagram may be.
        let may_drop = matches!(effect, Effect::Send { .. });
        if may_drop && self.effects.len() >= EFFECTS_MAX {
            self.stats.effects_dropped.add(1);
            return;
        }
        self.effects.push(effect, bytes);
    }
}

/// Puts a message behind others, with its length in front (RFC 1035 §4.2.2).
pub(crate) fn append(reply: &mut Vec<u8>, message: &[u8]) {
    reply.extend_from_slice(&(message.len() as u16).to_be_bytes());
    reply.extend_from_slice(message);
}

/// One query on its way to an answer.
pub(crate) struct Asking<'a, 'z> {
    pub(crate) query: Query<'a>,
    /// Its name in lower case.
    folded: &'a [u8],
    pub(crate) origin: Origin<'a>,
    listener: Option<&'z Listener>,
    /// The plan of the block that holds the name, and the counters of the route there.
    plan: Option<(&'z Plan, u32)>,
    probe: Option<Probe<'z>>,
    /// What other servers have said to it.
    pub(crate) told: &'a Told,
    /// When it came.
    pub(crate) since: Instant,
}

impl<'a> Asking<'a, '_> {
    #[inline]
    pub(crate) fn new(query: Query<'a>, origin: Origin<'a>, row: &'a mut [u8; 256], now: &Now<'_>) -> Self {
        let folded = &mut row[..query.qname.len()];
        label::fold_into(query.qname.as_bytes(), folded);
        Self {
            query,
            folded,
            origin,
            listener: None,
            plan: None,
            probe: None,
            told: &NOTHING,
            since: now.clock.now,
        }
    }

    /// Most bytes that the client takes.
    fn limit(&self) -> usize {
        if self.origin.is_stream() {
            MESSAGE_LEN_MAX
        } else {
            udp_limit(&self.query, self.plan.map(|(plan, _)| plan))
        }
    }

    /// The OPT of its reply, for one with an OPT.
    #[inline(always)]
    fn opt(&self, answer: &Answer<'_>) -> Option<ReplyOpt> {
        let plan = self.plan.map(|(plan, _)| plan);
        let theirs = self.query.opt.as_ref()?;
        Some(reply_opt(theirs, plan, &self.origin, answer))
    }
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

/// What is known of a query by labels, as far as it is.
fn known(plan: &Plan, labels: &[Arc<str>], client: &Client<'_>, data: &Data) -> Vec<(Arc<str>, String)> {
    let known = labels.iter().filter_map(|label| {
        let mut text = String::new();
        let is_known = plan.metadata(label, client, data, &mut text).unwrap_or_default();
        is_known.then(|| (Arc::clone(label), text))
    });
    known.collect()
}
