//! What must hold for any packet: shared by the fuzz target and the test that replays its corpus.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use nodens_wire::{Message, NameBuf, Opcode, Query, Rclass, Rcode, Refusal, Rtype};

pub use crate::forward::fuzzing::reply;

use crate::io::{BATCH_MAX, DATAGRAM_ROOM, Datagram, Effect, ListenerId, Peer, StreamEvent, StreamId};
use crate::plan::view::{Facts, View};
use crate::plan::{Hosts, LoadBalance, Plan, Source, Step, ZoneMap};
use crate::responder::{Now, Origin, Responder};
use crate::services::{Extra, Host, Service, ServiceTree};
use crate::snapshot::{Choice, Config, Data, Listener, Route, ZoneId};
use crate::stats::{Series, WorkerStats};
use crate::stream::StreamLimits;
use crate::time::{Clock, Instant};
use crate::zone::trie::NameHash;
use crate::zone::{Collector, RecordZone, RecordZoneBuilder, Zone};

/// Server blocks; the counters of what reaches none of them come behind theirs.
const BLOCKS: u32 = 4;

/// A responder over a fixed world: a zone of services, one of records, a hosts file, and one that was never read.
#[derive(Debug)]
pub struct World {
    responder: Responder,
    stats: Arc<WorkerStats>,
    config: Config,
    data: Data,
}

impl Default for World {
    fn default() -> Self {
        let hash = NameHash::new(0xf022);
        let zones = ["cedar.example.", "oak.example.", "home.example.", "elm.example."];
        let unread = ServiceTree::unsynced(name(zones[3]).as_name(), 1, hash.clone());
        let data = Data::default()
            .with(ZoneId(0), Zone::Services(services(zones[0], &hash)))
            .with(ZoneId(1), Zone::Records(records(zones[1], &RECORDS, &hash)))
            .with(ZoneId(2), Zone::Records(records(".", &HOSTS, &hash)))
            .with(ZoneId(3), Zone::Services(unread));
        let source = |zone: &str, id| Source {
            zones: map(&hash, zone, ZoneId(id)),
            fallthrough: None,
            outside: None,
            stubs: None,
        };
        let hosts = Hosts {
            data: ZoneId(2),
            zones: map(&hash, zones[2], ()),
            fallthrough: Some(map(&hash, ".", ())),
            fallthrough_unsupported: true,
        };
        let plans = vec![
            plan([Step::Etcd(source(zones[0], 0))]),
            plan([Step::File(source(zones[1], 1))]),
            plan([Step::Hosts(hosts), Step::Whoami]),
            plan([Step::Etcd(source(zones[3], 3))]),
        ];
        let mut routes = ZoneMap::new(hash.clone());
        for (at, zone) in (0..BLOCKS).zip(zones) {
            routes.entry(&name(zone), || Choice::Block(Route { plan: at, series: at }));
        }
        let listener = Listener {
            port: 53,
            routes,
            dropped: BLOCKS,
            any_class: false,
            debug: false,
            streams: StreamLimits::default(),
            tls: None,
        };
        let stats = Arc::new(WorkerStats::new(BLOCKS as usize + 1));
        Self {
            responder: Responder::new([1; 32], hash, Arc::clone(&stats), None),
            stats,
            config: Config {
                cache: None,
                listeners: vec![listener],
                plans,
            },
            data,
        }
    }
}

impl World {
    /// A packet, as a datagram alone, in a batch, and over a stream.
    pub fn respond(&mut self, packet: &[u8]) {
        let alone = self.datagram(packet);
        self.batch(packet, &alone);
        self.stream(packet);
    }

    /// The reply to one datagram, checked.
    fn datagram(&mut self, packet: &[u8]) -> Vec<u8> {
        let before = self.counted();
        let mut room = vec![0; DATAGRAM_ROOM];
        let len = self.answer(packet, std::slice::from_mut(&mut room))[0];
        room.truncate(len);
        let mut reply = room;
        if let Some((effect, bytes)) = self.responder.poll_effect() {
            assert!(matches!(effect, Effect::Send { .. }) && reply.is_empty() && bytes.len() > DATAGRAM_ROOM);
            reply = bytes.to_vec();
        }
        assert!(self.responder.poll_effect().is_none(), "one query, one reply");
        let limit = match Query::parse(packet) {
            Ok(query) => query.opt.map_or(512, |opt| usize::from(opt.udp_size.max(512))),
            Err(_) => 512,
        };
        assert!(
            reply.len() <= limit,
            "{} bytes for a client that takes {limit}",
            reply.len()
        );
        check(packet, &reply);
        // A query counts once, and what is none does not, nor does one that is told our EDNS version.
        let is_counted = Query::parse(packet)
            .is_ok_and(|query| query.rclass != Rclass::IN || query.opt.is_none_or(|opt| opt.version == 0));
        assert_eq!(self.counted() - before, u64::from(is_counted));
        reply
    }

    /// A batch of the same packet is answered as it is alone, but for the order of its records.
    fn batch(&mut self, packet: &[u8], alone: &[u8]) {
        let mut rooms = vec![vec![0; DATAGRAM_ROOM]; BATCH_MAX];
        let lens = self.answer(packet, &mut rooms);
        for (room, len) in rooms.iter().zip(lens) {
            if len > 0 {
                assert_eq!(len, alone.len());
                check(packet, &room[..len]);
            }
        }
        let mut sent = 0;
        while self.responder.poll_effect().is_some() {
            sent += 1;
        }
        assert!(sent == 0 || sent == BATCH_MAX);
    }

    fn stream(&mut self, packet: &[u8]) {
        let Ok(len) = u16::try_from(packet.len()) else { return };
        let stream = StreamId(1);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
        self.event(StreamEvent::Opened {
            stream,
            listener: ListenerId(0),
            peer: address,
            local: address,
        });
        let framed = [&len.to_be_bytes(), packet].concat();
        let mut replies = Vec::new();
        // Whole, and cut after the first byte of the message.
        for parts in [
            &[&framed[..]][..],
            &[&framed[..framed.len().min(3)], &framed[framed.len().min(3)..]],
        ] {
            let mut reply = Vec::new();
            for bytes in parts {
                self.event(StreamEvent::Readable {
                    stream,
                    bytes,
                    reply: &mut reply,
                });
            }
            if let Some((len, message)) = reply.split_first_chunk::<2>() {
                assert_eq!(usize::from(u16::from_be_bytes(*len)), message.len());
                check(packet, message);
            }
            replies.push(reply.len());
        }
        assert_eq!(replies[0], replies[1], "however it is cut");
        self.event(StreamEvent::Closed { stream, error: None });
        assert!(self.responder.poll_effect().is_none() && self.responder.poll_timeout().is_none());
    }

    fn event(&mut self, event: StreamEvent<'_>) {
        let now = now(&self.config, &self.data);
        self.responder.stream(&now, event);
    }

    /// Answers the packet once for each room.
    fn answer(&mut self, packet: &[u8], rooms: &mut [Vec<u8>]) -> Vec<usize> {
        let peer = Peer::from_socket_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, 4096)));
        let now = now(&self.config, &self.data);
        let datagram = |reply| Datagram {
            query: packet,
            cut: false,
            reply,
            reply_len: 0,
            peer: &peer,
            listener: ListenerId(0),
            local: None,
        };
        let mut batch: Vec<_> = rooms.iter_mut().map(|room| datagram(&mut room[..])).collect();
        self.responder.datagrams(&now, &mut batch);
        batch.iter().map(|datagram| datagram.reply_len).collect()
    }

    /// Queries counted so far. Every one has a request, a reply and a duration.
    fn counted(&self) -> u64 {
        assert_eq!(self.stats.panics.get(), 0, "a panic was caught");
        let total = |series: &Series| {
            let requests: u64 = series.requests.iter().flatten().flatten().map(|n| n.get()).sum();
            let responses: u64 = series.responses.iter().flatten().map(|n| n.get()).sum();
            let durations: u64 = series.duration.buckets.iter().map(|n| n.get()).sum();
            let sizes = |of: &[crate::stats::Histogram<15>; 2]| -> u64 {
                of.iter().flat_map(|one| &one.buckets).map(|n| n.get()).sum()
            };
            assert!(requests == responses && requests == durations);
            assert!(requests == sizes(&series.request_size) && requests == sizes(&series.response_size));
            requests
        };
        self.stats.series.iter().map(total).sum()
    }
}

/// Whether a view of a block with `metadata` is for the question of a packet that 192.0.2.1 sends to 192.0.2.53 over UDP;
/// nothing for what is no query.
#[must_use]
pub fn view_holds(view: &View, packet: &[u8]) -> Option<bool> {
    let query = Query::parse(packet).ok()?;
    let origin = Origin {
        listener: ListenerId(0),
        peer: &Peer::from_socket_addr(SocketAddr::from(([192, 0, 2, 1], 4096))),
        local: Some([192, 0, 2, 53].into()),
        stream: None,
        is_encrypted: false,
        keepalive: 0,
    };
    let name = query.qname.to_buf().folded();
    let plan = Plan {
        view: Some(view.clone()),
        metadata: Some(ZoneMap::set([&NameBuf::root()], &NameHash::new(0))),
        ..Plan::default()
    };
    Some(view.holds(&Facts {
        name: name.as_name(),
        rtype: query.rtype,
        client: &origin.client(&query),
        port: 53,
        plan: Some(&plan),
        data: &Data::default(),
    }))
}

/// What every reply has to be.
fn check(packet: &[u8], reply: &[u8]) {
    let parsed = Query::parse(packet);
    if reply.is_empty() {
        assert!(matches!(parsed, Err(Refusal::Ignore)), "every query is answered");
        return;
    }
    assert!(!matches!(parsed, Err(Refusal::Ignore)));
    let message = Message::parse(reply).expect("a reply is a message");
    assert!(
        message.records().all(|record| record.is_ok()),
        "every record of a reply parses"
    );
    assert_eq!(&reply[..2], &packet[..2], "the id is the query's");
    let flags = message.header.flags();
    assert!(flags.qr());
    match parsed {
        Ok(query) => {
            assert_eq!(
                reply.get(12..12 + query.question_len),
                Some(query.question()),
                "the question is the query's"
            );
            assert_eq!(message.opt().is_some(), query.opt.is_some(), "an OPT answers an OPT");
            let opcode = query.flags.opcode();
            assert_eq!(flags.opcode(), opcode, "the opcode is the query's");
            // Of a NOTIFY it is not copied.
            let rd = opcode == Opcode::QUERY && query.flags.rd();
            assert_eq!(flags.rd(), rd, "RD is the query's");
        }
        Err(Refusal::NotImplemented) => assert_eq!(flags.rcode(), Rcode::NOTIMP),
        Err(_) => assert_eq!(flags.rcode(), Rcode::FORMERR),
    }
}

fn now<'z>(config: &'z Config, data: &'z Data) -> Now<'z> {
    Now {
        clock: Clock {
            now: Instant(1),
            unix_secs: 1_700_000_000,
        },
        config,
        data,
    }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text).expect("a name")
}

fn map<T>(hash: &NameHash, zone: &str, value: T) -> ZoneMap<T> {
    let mut zones = ZoneMap::new(hash.clone());
    zones.entry(&name(zone), || value);
    zones
}

fn plan<const N: usize>(steps: [Step; N]) -> Plan {
    let balance = [Step::LoadBalance(LoadBalance::default())];
    Plan {
        steps: balance.into_iter().chain(steps).collect(),
        metrics: true,
        errors: Some(0),
        ..Plan::default()
    }
}

/// Key, host and text. A host that is no address is a name.
const SERVICES: [(&str, &str, &str); 14] = [
    ("web", "10.0.0.1", ""),
    ("six", "2001:db8::1", ""),
    ("many/1", "10.0.0.1", ""),
    ("many/2", "10.0.0.2", ""),
    ("many/3", "2001:db8::3", ""),
    ("text", "", "some text"),
    ("alias", "web.cedar.example.", ""),
    ("circle", "circle.oak.example.", ""),
    ("away", "www.oak.example.", ""),
    ("deep/a/b/c", "10.0.0.4", ""),
    ("dns/ns/1", "10.0.0.53", ""),
    ("dns/apex", "10.0.0.54", ""),
    ("*/star", "10.0.0.5", ""),
    ("bad", "?", ""),
];

fn services(apex: &str, hash: &NameHash) -> ServiceTree {
    let mut editor = ServiceTree::unsynced(name(apex).as_name(), 1, hash.clone()).edit();
    let big = (0..300_u16).map(|i| (format!("big/{i}"), format!("10.1.{}.{}", i / 256, i % 256), ""));
    let few = SERVICES.map(|(key, host, text)| (key.to_owned(), host.to_owned(), text));
    for (key, host, text) in few.into_iter().chain(big) {
        let bad = host == "?";
        let host = match (host.parse(), host.parse()) {
            _ if bad || host.is_empty() => Host::None,
            (Ok(address), _) => Host::V4(address),
            (_, Ok(address)) => Host::V6(address),
            _ => Host::Name(name(&host).as_bytes().into()),
        };
        let extra = Extra {
            text: text.as_bytes().into(),
            mail: key.starts_with("many"),
            group: if key == "many/1" { "g" } else { "" }.into(),
            ..Extra::default()
        };
        editor.put(Service {
            host,
            port: Some(80),
            priority: 10,
            bad,
            extra: (extra != Extra::default()).then(|| Box::new(extra)),
            ..Service::unparsable(key.as_bytes())
        });
    }
    editor.set_synced();
    editor.finish(1_700_000_000)
}

/// Owner, type, and the rdata: an address, a name, or bytes as they stand.
const RECORDS: [(&str, Rtype, &str); 13] = [
    ("oak.example.", Rtype::NS, "ns1.oak.example."),
    ("ns1.oak.example.", Rtype::A, "10.2.0.53"),
    ("www.oak.example.", Rtype::A, "10.2.0.1"),
    ("www.oak.example.", Rtype::A, "10.2.0.2"),
    ("www.oak.example.", Rtype::TXT, "\x04text"),
    ("oak.example.", Rtype::MX, "www.oak.example."),
    ("*.wild.oak.example.", Rtype::A, "10.2.0.3"),
    ("alias.oak.example.", Rtype::CNAME, "www.oak.example."),
    ("circle.oak.example.", Rtype::CNAME, "circle.cedar.example."),
    ("tree.oak.example.", Rtype::DNAME, "wild.oak.example."),
    ("sub.oak.example.", Rtype::NS, "ns.sub.oak.example."),
    ("ns.sub.oak.example.", Rtype::A, "10.2.0.4"),
    ("a.b.c.oak.example.", Rtype::AAAA, "2001:db8::2"),
];

const HOSTS: [(&str, Rtype, &str); 3] = [
    ("printer.home.example.", Rtype::A, "10.3.0.1"),
    ("*.home.example.", Rtype::AAAA, "2001:db8::3"),
    ("1.0.3.10.in-addr.arpa.", Rtype::PTR, "printer.home.example."),
];

fn records(apex: &str, records: &[(&str, Rtype, &str)], hash: &NameHash) -> RecordZone {
    let mut collector = Collector::default();
    for &(owner, rtype, text) in records {
        let address = match rtype {
            Rtype::A => text.parse().ok().map(|address: Ipv4Addr| address.octets().to_vec()),
            Rtype::AAAA => text
                .parse()
                .ok()
                .map(|address: std::net::Ipv6Addr| address.octets().to_vec()),
            Rtype::TXT => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        let preference: &[u8] = if rtype == Rtype::MX { &[0, 10] } else { &[] };
        let rdata = address.unwrap_or_else(|| [preference, name(text).as_bytes()].concat());
        collector.add(&name(owner), rtype, 60, &rdata, false);
    }
    let soa = [name(apex).as_bytes(), name(apex).as_bytes(), &[0, 0, 0, 9].repeat(5)].concat();
    collector.add(&name(apex), Rtype::SOA, 60, &soa, false);
    let mut builder = RecordZoneBuilder::new(RecordZone::unloaded(name(apex).as_name(), hash.clone()));
    for (owner, sets) in collector.into_sets() {
        builder.set(owner.as_name(), sets).expect("in the zone");
    }
    builder.finish()
}
