//! A cache and a forwarder in front of servers of all manners, all from one seed.
//!
//! Each reply of a server carries a number of its own: in the address that it gives, or in the serial of its SOA. So of every
//! answer that a client gets it is known who said it, to which question, when, and for how long.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, Record};
use nodens_engine::cache::flight::{Flights, Wake};
use nodens_engine::cache::{self, Block, Bounds, Kind, Prefetch, SIZE_MIN, Settings, Stale, StaleRefresh};
use nodens_engine::forward::{Policy, Stanza};
use nodens_engine::io::{Effect, Handler, Port, StreamId};
use nodens_engine::plan::{Cache, Forward, Plan, Step, ZoneMap};
use nodens_engine::responder::Responder;
use nodens_engine::snapshot::{Config, Published};
use nodens_engine::stats::{Counter, WorkerStats};
use nodens_engine::time::Instant;
use nodens_engine::worker::{self, Turn};
use nodens_wire::{Query, Rcode, edns};

use super::asking::{address, settings};
use super::servers::{Known, Manner};
use super::{Network, SimPort, VirtualClock, check};
use crate::seed::Seeded;
use crate::served::{config, framed, hash, map, packet};

const SERVERS: u8 = 4;
/// Names that are asked for, each for two types.
const NAMES: usize = 40;
/// How long a question may take: the forwarder's budget, and its last attempt.
const TIME: Duration = Duration::from_secs(7);
/// The way to the server and back.
const WAY: Duration = Duration::from_millis(10);
/// When servers answer again, so long after everything is well.
const RECOVERY: Duration = Duration::from_secs(30);
/// Sockets and connections are closed by then.
const IDLE: Duration = Duration::from_secs(60);

/// What a simulation saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Times the worker woke.
    pub steps: u64,
    /// Queries.
    pub asked: u64,
    /// Answers as a server gave them, and those that had expired.
    pub answered: u64,
    /// The latter.
    pub stale: u64,
    /// Answers that say that they are cut.
    pub cut: u64,
    /// SERVFAIL.
    pub failed: u64,
    /// Queries that were answered from the cache.
    pub hits: u64,
    /// Entries that made room.
    pub evicted: u64,
}

/// A reply of a server.
#[derive(Debug)]
struct Said {
    name: Vec<u8>,
    is_v4: bool,
    leaves: Instant,
    ttl_secs: u32,
    rcode: ResponseCode,
    /// When it was first shown to a client while it was fresh, with which TTL.
    shown: Option<(Instant, u32)>,
}

type Book = Rc<RefCell<Vec<Said>>>;

/// What there is of a name is in its number: an address, no such name, and for the other type no such data.
fn know(book: &Book, query: &Query<'_>, leaves: Instant) -> Known {
    let name = query.qname.to_buf().folded();
    let digits = name.as_bytes().iter().filter(|byte| byte.is_ascii_digit());
    let number = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    let is_v4 = query.rtype == nodens_wire::Rtype::A;
    let has_data = is_v4 && number % 4 != 3;
    let ttl_secs = number * 7 % 23;
    let mut book = book.borrow_mut();
    let own = book.len() as u32;
    let rcode = if number % 4 == 3 {
        ResponseCode::NXDomain
    } else {
        ResponseCode::NoError
    };
    book.push(Said {
        name: name.as_bytes().to_vec(),
        is_v4,
        leaves,
        ttl_secs,
        rcode,
        shown: None,
    });
    if has_data {
        let [_, a, b, c] = own.to_be_bytes();
        return Known::address(ttl_secs, [10, a, b, c]);
    }
    let numbers = [own, 7200, 1800, 86_400, ttl_secs].map(u32::to_be_bytes).concat();
    let head = [b"\0\0\x06\0\x01", &ttl_secs.to_be_bytes()[..], b"\0\x16\0\0"].concat();
    Known {
        rcode: if rcode == ResponseCode::NXDomain {
            Rcode::NXDOMAIN
        } else {
            Rcode::NOERROR
        },
        authority: [head, numbers].concat(),
        ..Known::default()
    }
}

fn manner(seeded: &mut Seeded) -> Manner {
    *seeded.pick(&[
        Manner::Answers,
        Manner::Answers,
        Manner::Answers,
        Manner::Slow(Duration::from_millis(300)),
        Manner::Slow(Duration::from_millis(2500)),
        Manner::Silent,
        Manner::Refusing,
        Manner::Away,
        Manner::Lying,
        Manner::Truncating,
        Manner::Cutting,
        Manner::Says(Rcode::SERVFAIL),
        Manner::Old { repeats: true },
        Manner::Old { repeats: false },
        Manner::Closing(0),
        Manner::Closing(2),
        Manner::Resetting,
    ])
}

/// Any `cache` that shows TTLs as they fall.
fn cache_settings(seeded: &mut Seeded) -> Settings {
    let bounds = |seeded: &mut Seeded| Bounds {
        entries_max: *seeded.pick(&[5, 20, 10_000]),
        ttl_min_secs: 0,
        ttl_max_secs: 3600,
    };
    Settings {
        zones: map(hash(), ".", ()),
        success: bounds(seeded),
        denial: bounds(seeded),
        prefetch: seeded.once_in(2).then_some(Prefetch {
            amount: 2,
            within: Duration::from_secs(60),
            percentage: 30,
        }),
        stale: seeded.once_in(2).then(|| Stale {
            up_to: Duration::from_secs(10),
            refresh: *seeded.pick(&[
                StaleRefresh::Immediate,
                StaleRefresh::Verify(None),
                StaleRefresh::Verify(Some(Duration::from_millis(200))),
            ]),
            ttl_secs: *seeded.pick(&[None, Some(30)]),
            recheck: Duration::from_secs(seeded.below(3) as u64),
            prefer_positive: seeded.once_in(2),
        }),
        servfail: Duration::from_secs(seeded.below(6) as u64),
        disable_success: ZoneMap::new(hash()),
        disable_denial: ZoneMap::new(hash()),
        keep_ttl: false,
    }
}

fn stanza(seeded: &mut Seeded) -> Arc<Stanza> {
    let mut settings = settings(SERVERS);
    settings.policy = *seeded.pick(&[Policy::Random, Policy::RoundRobin, Policy::Sequential]);
    settings.force_tcp = seeded.once_in(4);
    settings.prefer_udp = seeded.once_in(3);
    Arc::new(Stanza::new(settings))
}

/// Runs so many steps of the world of this seed, then has all servers answer and lets it come to rest.
///
/// # Panics
/// Something did not hold; says how to see it again.
pub fn simulate(seed: u64, steps: u64) -> Report {
    let clock = VirtualClock::default();
    let stats = Arc::new(WorkerStats::new(2));
    let mut bytes = [3; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut responder = Responder::new(bytes, hash(), Arc::clone(&stats), None);
    let mut outside = Outside::new(seed, steps, &clock, stats);
    let network = outside.network.clone();
    // It is one worker, which looks at what it has landed before it sleeps.
    let flights = Flights::new([Box::new(|| {}) as Wake]);
    responder.merge_with(Arc::clone(&flights), 0);
    let published = Published::default();
    published.swap_config(Arc::new(outside.config()));
    let turn = |outside: &mut Outside, _: &mut Responder| {
        if outside.stopped { Turn::End } else { Turn::Next(None) }
    };
    let ran = worker::run_on(&mut outside, || clock.read(), &mut responder, &published, turn);
    let mut wrong = outside.wrong.take();
    if let Err(error) = ran {
        wrong.get_or_insert_with(|| error.to_string());
    }
    if wrong.is_none() {
        let (sockets, streams, _) = network.servers().open();
        let left = [sockets, streams, network.streams(), flights.in_flight()];
        if left != [0; 4] {
            wrong = Some(format!(
                "sockets, streams to servers and of clients, and questions are left: {left:?}"
            ));
        }
    }
    check(wrong, seed, outside.report.steps, &clock);
    outside.report
}

/// A query that is not answered.
#[derive(Clone, Debug)]
struct Asked {
    packet: Vec<u8>,
    at: Instant,
    /// Everything was well when it was asked.
    is_calm: bool,
}

/// All that is not the worker.
struct Outside {
    port: SimPort,
    network: Network,
    clock: VirtualClock,
    seeded: Seeded,
    stats: Arc<WorkerStats>,
    slab: Arc<cache::Cache>,
    block: Arc<Block>,
    settings: Settings,
    stanza: Arc<Stanza>,
    book: Book,
    datagrams: BTreeMap<SocketAddr, Asked>,
    streams: BTreeMap<StreamId, (Asked, Vec<u8>)>,
    clients: u32,
    next: Instant,
    steps: u64,
    report: Report,
    /// When all servers began to answer.
    well: Option<Instant>,
    stopped: bool,
    wrong: Option<String>,
}

impl Outside {
    fn new(seed: u64, steps: u64, clock: &VirtualClock, stats: Arc<WorkerStats>) -> Self {
        let network = Network::new(seed, clock.clone());
        let mut seeded = Seeded::new(seed ^ 0xcac4e);
        let book = Book::default();
        let own = Rc::clone(&book);
        network
            .servers()
            .know(Box::new(move |query, leaves| know(&own, query, leaves)));
        for n in 1..=SERVERS {
            network.servers().set(address(n), manner(&mut seeded));
        }
        let slab = Arc::new(cache::Cache::new(SIZE_MIN));
        Self {
            port: network.port(),
            network,
            clock: clock.clone(),
            stats,
            block: slab.open(),
            slab,
            settings: cache_settings(&mut seeded),
            stanza: stanza(&mut seeded),
            seeded,
            book,
            datagrams: BTreeMap::new(),
            streams: BTreeMap::new(),
            clients: 0,
            next: clock.now(),
            steps,
            report: Report::default(),
            well: None,
            stopped: false,
            wrong: None,
        }
    }

    fn config(&self) -> Config {
        let cache = Cache {
            settings: self.settings.clone(),
            block: Arc::clone(&self.block),
            servers: 0,
        };
        let forward = Forward {
            stanzas: [Arc::clone(&self.stanza)].into(),
            is_proxy: false,
        };
        let plan = Plan {
            steps: [Step::Cache(Box::new(cache)), Step::Forward(forward)]
                .into_iter()
                .collect(),
            metrics: true,
            ..Plan::default()
        };
        Config {
            cache: Some(Arc::clone(&self.slab)),
            ..config(vec![(".", plan)])
        }
    }

    /// Something happens among the clients or the servers.
    fn act(&mut self) {
        let millis = if self.seeded.once_in(20) { 8000 } else { 60 };
        self.next = self
            .clock
            .after(Duration::from_micros(1 + self.seeded.below(millis * 1000) as u64));
        if let Some(well) = self.well {
            // Everybody asks once more, and nobody after that.
            if self.clock.now() >= well.after(RECOVERY) {
                for number in 0..NAMES {
                    self.ask(number);
                }
                self.next = Instant(u64::MAX);
            }
            return;
        }
        match self.seeded.below(30) {
            0 => {
                let n = 1 + self.seeded.below(SERVERS.into()) as u8;
                let manner = manner(&mut self.seeded);
                self.network.servers().set(address(n), manner);
            }
            1 => {
                let n = 1 + self.seeded.below(SERVERS.into()) as u8;
                self.network.servers().end_streams(address(n));
            }
            2 if self.seeded.once_in(3) => {
                // What befalls all of them at once.
                let manner = manner(&mut self.seeded);
                for n in 1..=SERVERS {
                    self.network.servers().set(address(n), manner);
                }
            }
            _ => {
                // Some names at once, which are asked for once.
                let number = self.seeded.below(NAMES);
                for _ in 0..1 + self.seeded.below(4) {
                    self.ask(number);
                }
            }
        }
        if self.report.steps >= self.steps {
            self.well = Some(self.clock.now());
            for n in 1..=SERVERS {
                self.network.servers().set(address(n), Manner::Answers);
            }
        }
    }

    fn ask(&mut self, number: usize) {
        self.clients += 1;
        self.report.asked += 1;
        let rtype = if self.seeded.once_in(4) { "AAAA" } else { "A" };
        let size = *self.seeded.pick(&[512, 1232, 4096]);
        let id = self.seeded.next() as u16;
        let mut packet = packet(id, &format!("n{number}.cedar.example. {rtype}"), Some(size));
        // Letter case comes back as it was.
        for byte in &mut packet[12..30] {
            if byte.is_ascii_alphabetic() && self.seeded.once_in(3) {
                *byte ^= 0x20;
            }
        }
        let [a, b, c, d] = self.clients.to_be_bytes();
        let client = SocketAddr::from(([10, a, b, c], 1024 + u16::from(d)));
        let asked = Asked {
            packet,
            at: self.clock.now(),
            is_calm: self.well.is_some(),
        };
        if self.seeded.once_in(4) {
            let stream = self.network.connect(client);
            self.network.write(stream, &framed(&asked.packet));
            self.streams.insert(stream, (asked, Vec::new()));
        } else {
            self.network.send(client, &asked.packet);
            self.datagrams.insert(client, asked);
        }
    }

    /// All that must hold after a turn of the worker.
    fn check(&mut self) -> Result<(), String> {
        for (client, reply) in self.network.take_sent() {
            let asked = self.datagrams.remove(&client).ok_or("a second answer")?;
            self.answer(&asked, &reply, false)?;
        }
        for (stream, bytes) in self.network.take_written() {
            let (asked, heard) = self.streams.get_mut(&stream).ok_or("a second answer")?;
            heard.extend_from_slice(&bytes);
            let len = heard
                .first_chunk()
                .map_or(0, |len| usize::from(u16::from_be_bytes(*len)));
            if heard.len() >= 2 + len {
                let (asked, reply) = (asked.clone(), heard[2..].to_vec());
                self.answer(&asked, &reply, true)?;
                self.streams.remove(&stream);
                self.network.end(stream);
            }
        }
        let late = |asked: &Asked| self.clock.now() > asked.at.after(TIME + WAY);
        let streams = self.streams.values().map(|(asked, _)| asked);
        if let Some(asked) = self.datagrams.values().chain(streams).find(|asked| late(asked)) {
            return Err(format!("no answer to {asked:?}"));
        }
        let figures = self.slab.figures();
        let entries = [Kind::Success, Kind::Denial].map(|kind| (kind, self.block.entries(kind)));
        let is_over = |(kind, entries)| entries > self.settings.bounds(kind).entries_max;
        if figures.bytes > figures.bytes_max || figures.bytes_max > SIZE_MIN || entries.into_iter().any(is_over) {
            return Err(format!("over its bound: {figures:?}, {entries:?}"));
        }
        let counted = &self.stats.series[0].cache;
        let [requests, success, denial, misses] =
            [&counted.requests, &counted.hits[0], &counted.hits[1], &counted.misses].map(Counter::get);
        if requests != success + denial + misses {
            return Err(format!("{counted:?}"));
        }
        self.report.hits = success + denial;
        self.report.evicted = figures.evicted;
        let stats = &self.stats;
        if stats.panics.get() + stats.effects_dropped.get() > 0 {
            return Err("a panic was caught, or a limit met".to_owned());
        }
        Ok(())
    }

    /// It is what a server said to this question, for no longer than it said.
    fn answer(&mut self, asked: &Asked, reply: &[u8], is_stream: bool) -> Result<(), String> {
        let now = self.clock.now();
        let wrong = |what: String| Err(format!("{what}: {asked:?}, {reply:02x?}"));
        let query = Query::parse(&asked.packet).expect("a query of ours");
        let question = 12..12 + query.question_len;
        if reply[..2] != asked.packet[..2] || reply.get(question.clone()) != asked.packet.get(question) {
            return wrong("another question".to_owned());
        }
        let message = Message::from_vec(reply).map_err(|error| format!("{error}: {reply:02x?}"))?;
        let mut records = message.answers.iter().chain(&message.authorities);
        let record = match (records.next(), records.next()) {
            (_, Some(_)) => return wrong("more than was said".to_owned()),
            (None, None) if message.metadata.truncation && !is_stream => {
                self.report.cut += 1;
                return Ok(());
            }
            (None, None) if message.metadata.response_code == ResponseCode::ServFail && !asked.is_calm => {
                self.report.failed += 1;
                return Ok(());
            }
            (None, None) => return wrong("nothing".to_owned()),
            (Some(record), None) => record,
        };
        let mut book = self.book.borrow_mut();
        let Some(said) = serial(record).and_then(|serial| book.get_mut(serial as usize)) else {
            return wrong("nobody said that".to_owned());
        };
        let name = query.qname.to_buf().folded();
        let is_v4 = query.rtype == nodens_wire::Rtype::A;
        let is_about =
            (&*said.name, said.is_v4, said.rcode) == (name.as_bytes(), is_v4, message.metadata.response_code);
        if !is_about || message.metadata.truncation {
            return wrong(format!("it was said as {said:?}"));
        }
        let opt = message.edns.as_ref().map(|_| query_opt(reply)).unwrap_or_default();
        let is_stale = matches!(
            opt.as_deref()
                .and_then(|error| error.first_chunk())
                .map(|code| u16::from_be_bytes(*code)),
            Some(edns::ede::STALE_ANSWER | edns::ede::STALE_NXDOMAIN)
        );
        let up_to = match (is_stale, self.settings.stale) {
            (false, _) => Duration::ZERO,
            (true, Some(stale)) if record.ttl == stale.ttl_secs.unwrap_or(0) => stale.up_to,
            (true, _) => return wrong("stale".to_owned()),
        };
        let lived = Duration::from_secs(said.ttl_secs.into()) + up_to;
        if now > said.leaves.after(lived + TIME + WAY) {
            return wrong(format!("it is over: {said:?}"));
        }
        self.report.answered += 1;
        self.report.stale += u64::from(is_stale);
        if is_stale {
            return Ok(());
        }
        let (first, ttl) = *said.shown.get_or_insert((now, record.ttl));
        let passed = now.since(first).as_secs() as u32;
        if record.ttl == 0 && now > first.after(WAY) {
            return wrong(format!("a TTL of zero: {said:?}"));
        }
        if record.ttl > said.ttl_secs || !(passed..=passed + 1).contains(&ttl.wrapping_sub(record.ttl)) {
            return wrong(format!("TTL {} after {passed} s, it was {ttl}: {said:?}", record.ttl));
        }
        Ok(())
    }
}

/// The number in it.
fn serial(record: &Record) -> Option<u32> {
    match &record.data {
        RData::A(address) if address.octets()[0] == 10 => Some(u32::from(address.0) & 0xff_ffff),
        RData::SOA(soa) => Some(soa.serial),
        _ => None,
    }
}

/// The extended error of a reply.
fn query_opt(reply: &[u8]) -> Option<Vec<u8>> {
    let message = nodens_wire::Message::parse(reply).ok()?;
    Some(message.opt()?.option(edns::EDE)?.to_vec())
}

impl Port for Outside {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.report.steps += 1;
        if let Err(wrong) = self.check() {
            self.wrong = Some(wrong);
            self.stopped = true;
            return Ok(());
        }
        let over = self.well.map(|well| well.after(RECOVERY + TIME + IDLE));
        loop {
            let worker = self.network.next_at().into_iter().chain(deadline).min();
            if over.is_some_and(|over| worker.is_none_or(|worker| worker > over) && self.next > over) {
                self.stopped = true;
                return Ok(());
            }
            if worker.is_some_and(|worker| worker < self.next) {
                return self.port.wait(deadline);
            }
            self.clock.jump(self.next);
            self.act();
        }
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        self.port.serve(handler)
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        self.port.apply(effect, bytes)
    }
}
