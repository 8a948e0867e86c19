//! A worker, its clients and an etcd on one clock, all from one seed.
//!
//! The worker is the real one: [`worker::run_on`] over a port whose wait lets the rest of the world go on. What is
//! published meanwhile has to show in the first answer after it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::io::{Effect, Handler, PENDING_MAX, Port, StreamId};
use nodens_engine::responder::Responder;
use nodens_engine::stats::{Counter, Series, WorkerStats};
use nodens_engine::stream::{FIRST_QUERY, IDLE};
use nodens_engine::time::Instant;
use nodens_engine::worker::{self, Turn};
use nodens_wire::{Query, Refusal};

use super::clients::{HEAVY, Question, Talk, ZONE, random_key, value};
use super::etcd::{Keys, Source};
use super::{Fate, Fault, Network, Rates, SimPort, VirtualClock, check};
use crate::seed::Seeded;
use crate::served::{config, etcd, hash, plan};

/// Connections at a time.
const TALKS_MAX: usize = 20;
/// How long everything may take to come to rest.
const REST: Duration = Duration::from_secs(120);
const RATES: Rates = Rates {
    drop: 20,
    duplicate: 20,
    truncate: 20,
    reorder: 200,
    drop_reply: 20,
};

/// What a simulation saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Times the worker woke.
    pub steps: u64,
    /// Queries by datagram, and over streams.
    pub datagrams: u64,
    /// Answers over streams.
    pub answers: u64,
    /// Queries that the network lost.
    pub dropped: u64,
    /// Versions that were published.
    pub changes: u64,
    /// Connections.
    pub streams: u64,
    /// Virtual time.
    pub nanos: u64,
}

/// Runs so many steps of the world of this seed, then lets it come to rest.
///
/// # Panics
/// Something did not hold; says how to see it again.
pub fn simulate(seed: u64, steps: u64) -> Report {
    let clock = VirtualClock::default();
    let stats = Arc::new(WorkerStats::new(2));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut responder = Responder::new(bytes, hash(), Arc::clone(&stats), None);
    let mut outside = Outside::new(seed, steps, &clock, stats);
    let published = Arc::clone(outside.source.folding().snapshots());
    published.swap_config(Arc::new(config(vec![(ZONE, plan(etcd(ZONE, 0)))])));
    let turn = |outside: &mut Outside, _: &mut Responder| {
        if outside.stopped { Turn::End } else { Turn::Next(None) }
    };
    let ran = worker::run_on(&mut outside, || clock.read(), &mut responder, &published, turn);
    let mut wrong = outside.wrong.take();
    if let Err(error) = ran {
        wrong.get_or_insert_with(|| error.to_string());
    }
    if responder.poll_effect().is_some() || responder.poll_timeout().is_some() {
        wrong.get_or_insert_with(|| "the responder keeps effects or streams".to_owned());
    }
    check(wrong, seed, outside.report.steps, &clock);
    outside.report
}

/// A query by datagram that is on its way.
#[derive(Debug)]
struct Asked {
    packet: Vec<u8>,
    /// Nothing where the bytes are no question of ours.
    question: Option<Question>,
}

/// All that is not the worker.
struct Outside {
    port: Fault<SimPort>,
    network: Network,
    clock: VirtualClock,
    source: Source,
    seeded: Seeded,
    stats: Arc<WorkerStats>,
    stopped: bool,
    steps: u64,
    report: Report,
    asked: BTreeMap<SocketAddr, Asked>,
    clients: u32,
    talks: BTreeMap<StreamId, Talk>,
    next: Instant,
    /// Queries that must have been counted.
    counted: u64,
    numbers: u32,
    /// When the world began to come to rest.
    resting: Option<Instant>,
    wrong: Option<String>,
}

impl Outside {
    fn new(seed: u64, steps: u64, clock: &VirtualClock, stats: Arc<WorkerStats>) -> Self {
        let network = Network::new(seed, clock.clone());
        let mut source = Source::new(seed, clock.clone(), ZONE);
        let heavy: Vec<_> = (0..HEAVY)
            .map(|i| (format!("heavy/x{i}"), Some(value(i as u32))))
            .collect();
        source.change(&heavy);
        Self {
            port: Fault::new(network.port(), seed, RATES),
            network,
            clock: clock.clone(),
            source,
            seeded: Seeded::new(seed ^ 0x5eed),
            stats,
            stopped: false,
            steps,
            report: Report::default(),
            asked: BTreeMap::new(),
            clients: 0,
            talks: BTreeMap::new(),
            next: clock.now(),
            counted: 0,
            numbers: HEAVY as u32,
            resting: None,
            wrong: None,
        }
    }

    /// Something happens among the clients or in etcd.
    fn act(&mut self) {
        let millis = if self.seeded.once_in(200) { 4000 } else { 4 };
        let micros = 1 + self.seeded.below(millis * 1000) as u64;
        self.next = self.clock.after(Duration::from_micros(micros));
        for talk in self.talks.values_mut() {
            talk.go_on(&self.network);
        }
        if self.resting.is_some() {
            return;
        }
        match self.seeded.below(100) {
            0..=59 => (0..=self.seeded.below(100)).for_each(|_| self.ask()),
            60..=84 => self.change(),
            85..=94 if self.talks.len() < TALKS_MAX => self.connect(),
            95..=97 => self.source.compact(),
            98 => self.source.cut(),
            _ => {}
        }
    }

    fn client(&mut self) -> SocketAddr {
        self.clients += 1;
        let [a, b, c, d] = self.clients.to_be_bytes();
        SocketAddr::from(([10, a, b, c], 1024 + u16::from(d)))
    }

    fn ask(&mut self) {
        let client = self.client();
        let (packet, question) = if self.seeded.once_in(40) {
            let noise = (0..self.seeded.below(60)).map(|_| self.seeded.next() as u8).collect();
            (noise, None)
        } else {
            let question = Question::random(&mut self.seeded);
            (question.packet(false), Some(question))
        };
        self.network.send(client, &packet);
        self.asked.insert(client, Asked { packet, question });
        self.report.datagrams += 1;
    }

    fn change(&mut self) {
        let mut changes = BTreeMap::new();
        for _ in 0..1 + self.seeded.below(3) {
            let is_put = !self.seeded.once_in(4);
            self.numbers += u32::from(is_put);
            let number = self.numbers;
            changes.insert(random_key(&mut self.seeded), is_put.then(|| value(number)));
        }
        self.source.change(&changes.into_iter().collect::<Vec<_>>());
        self.report.changes += 1;
    }

    fn connect(&mut self) {
        let client = self.client();
        let stream = self.network.connect(client);
        let now = self.clock.now();
        self.talks.insert(stream, Talk::new(stream, now, &mut self.seeded));
        self.report.streams += 1;
    }

    /// All that must hold after a turn of the worker.
    fn check(&mut self) -> Result<(), String> {
        let shown = self.source.shown();
        self.check_datagrams(shown.as_ref())?;
        self.check_streams(shown.as_ref())?;
        let total = |of: fn(&Series) -> u64| self.stats.series.iter().map(of).sum::<u64>();
        let sum = |counters: &[Counter]| counters.iter().map(Counter::get).sum::<u64>();
        let requests = total(|series| series.requests.iter().flatten().flatten().map(Counter::get).sum());
        let responses = total(|series| series.responses.iter().flatten().map(Counter::get).sum());
        let durations = self
            .stats
            .series
            .iter()
            .map(|series| sum(&series.duration.buckets))
            .sum::<u64>();
        let counts = [requests, responses, durations];
        if counts != [self.counted; 3] {
            return Err(format!("{counts:?} are counted, {} were answered", self.counted));
        }
        let stats = &self.stats;
        let never = [
            &*stats.panics,
            &stats.gather_limited,
            &stats.effects_dropped,
            &stats.streams_limited,
        ];
        if never.iter().any(|counter| counter.get() > 0) {
            return Err("a limit was met, or a panic caught".to_owned());
        }
        // A worker that waits holds no version, so each is freed at the next publish.
        if self.source.folding().publisher().sweep() {
            return Err("a sleeping worker pins an old version".to_owned());
        }
        if self.network.pending_max() > PENDING_MAX || self.network.streams() > self.talks.len() {
            return Err("streams grow".to_owned());
        }
        Ok(())
    }

    /// Each query that came was answered once, from the version that is published, or the network lost it.
    fn check_datagrams(&mut self, shown: Option<&Keys>) -> Result<(), String> {
        let mut wanted: BTreeMap<SocketAddr, (i64, bool)> = BTreeMap::new();
        for fate in self.port.take_fates() {
            let (client, len) = match fate {
                Fate::Handed(client) => (client, usize::MAX),
                Fate::Truncated(client, len) => (client, len),
                Fate::Dropped(client) => {
                    self.report.dropped += 1;
                    wanted.entry(client).or_default();
                    continue;
                }
                Fate::ReplyDropped(client) => {
                    self.report.dropped += 1;
                    wanted.entry(client).or_default().0 -= 1;
                    continue;
                }
            };
            let asked = self
                .asked
                .get(&client)
                .ok_or_else(|| format!("{client} has been answered before"))?;
            let packet = &asked.packet[..len.min(asked.packet.len())];
            let want = wanted.entry(client).or_default();
            match Query::parse(packet) {
                Ok(query) => {
                    want.0 += 1;
                    self.counted += u64::from(query.opt.is_none_or(|opt| opt.version == 0));
                }
                Err(Refusal::Ignore) => {}
                Err(_) => {
                    want.0 += 1;
                    want.1 = true;
                }
            }
        }
        for (client, reply) in self.network.take_sent() {
            let want = wanted
                .get_mut(&client)
                .ok_or_else(|| format!("a reply to {client}, who did not ask now"))?;
            want.0 -= 1;
            let question = self.asked.get(&client).and_then(|asked| asked.question.as_ref());
            let is_refused = want.1 && reply.get(3).is_some_and(|flags| matches!(flags & 15, 1 | 4));
            if let Some(question) = question.filter(|_| !is_refused) {
                question.check(&reply, shown, false)?;
            }
        }
        for (client, (missing, _)) in wanted {
            let asked = self.asked.remove(&client);
            if missing != 0 {
                return Err(format!("{missing} replies are missing: {client}, {asked:?}"));
            }
        }
        Ok(())
    }

    fn check_streams(&mut self, shown: Option<&Keys>) -> Result<(), String> {
        let now = self.clock.now();
        for (stream, bytes) in self.network.take_written() {
            let talk = self.talks.get_mut(&stream).ok_or("bytes for a stream that is gone")?;
            let before = talk.answered;
            talk.hear(&bytes, now, shown)?;
            self.counted += talk.answered - before;
            self.report.answers += talk.answered - before;
        }
        for (stream, at) in self.network.take_closed() {
            if let Some(talk) = self.talks.remove(&stream) {
                talk.closed(at, FIRST_QUERY, IDLE)?;
            }
        }
        let slack = Duration::from_millis(10);
        self.talks.values().try_for_each(|talk| {
            let limit = if talk.answered == 0 { FIRST_QUERY } else { IDLE };
            talk.check_time(now, limit + slack)
        })
    }

    /// Begins to come to rest after the last step; says whether all has.
    fn is_at_rest(&mut self) -> Result<bool, String> {
        let Some(since) = self.resting else {
            if self.report.steps >= self.steps {
                self.resting = Some(self.clock.now());
                self.port.set_rates(Rates::default());
                self.source.calm();
            }
            return Ok(false);
        };
        let idle = self.network.next_at().is_none() && self.talks.is_empty() && self.asked.is_empty();
        if !(idle && self.source.is_level()) {
            let late = self.clock.now() > since.after(REST);
            return if late {
                Err(format!("no rest: {:?} {:?}", self.talks, self.asked))
            } else {
                Ok(false)
            };
        }
        let (keys, shown) = (self.source.folding().keys(), self.source.shown().unwrap_or_default());
        if !keys.iter().eq(shown.keys()) {
            return Err(format!("the zone holds {keys:?}"));
        }
        Ok(true)
    }
}

impl Port for Outside {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.report.steps += 1;
        let rest = self.check().and_then(|()| self.is_at_rest());
        self.report.nanos = self.clock.now().0;
        if rest != Ok(false) {
            self.wrong = rest.err();
            self.stopped = true;
            return Ok(());
        }
        loop {
            let (source, next) = (self.source.next_at(), self.next);
            let worker = self.network.next_at().into_iter().chain(deadline).min();
            let first = source.min(next);
            if worker.is_some_and(|worker| worker < first) {
                return self.port.wait(deadline);
            }
            self.clock.jump(first);
            if source <= next {
                self.source.act();
            } else {
                self.act();
            }
            if self.resting.is_some() && self.source.is_level() {
                // Nothing may be left that would wake the worker.
                self.network.wake();
                return self.port.wait(deadline);
            }
        }
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        self.port.serve(handler)
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        self.port.apply(effect, bytes)
    }
}
