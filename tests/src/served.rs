//! A responder over made-up zones, without sockets: several server blocks, counted as a worker counts, over datagrams
//! and over streams.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::op::{Edns, Message};
use nodens_engine::cluster::{Pods, Shown, View, Zoned};
use nodens_engine::io::{Datagram, Effect, ListenerId, Peer, StreamEvent, StreamId};
use nodens_engine::log::{Classes, LogQueue, LogRule};
use nodens_engine::plan::{Hosts, Kubernetes, LoadBalance, Plan, Source, Step, ZoneMap};
use nodens_engine::responder::{Now, Responder};
use nodens_engine::services::{Editor, Extra, Host, Service, ServiceTree};
use nodens_engine::snapshot::{Choice, Config, Data, Listener, Route, ZoneId};
use nodens_engine::stats::WorkerStats;
use nodens_engine::stream::StreamLimits;
use nodens_engine::time::{Clock, Instant};
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{Collector, RecordZone, RecordZoneBuilder, Zone};
use nodens_wire::{NameBuf, Rtype};

use crate::ask::question;

/// Room that a client without limits offers.
const ROOM: usize = 65_535;

/// The hash of all zones here.
pub fn hash() -> NameHash {
    NameHash::new(0x7e57)
}

/// A name that a test is sure of.
///
/// # Panics
/// It is none.
pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text).expect("a name")
}

/// A map of one zone.
pub fn map<T>(hash: NameHash, zone: &str, value: T) -> ZoneMap<T> {
    let mut zones = ZoneMap::new(hash);
    zones.entry(&name(zone), || value);
    zones
}

/// A step that answers one zone from etcd.
pub fn etcd(apex: &str, id: u32) -> Step {
    Step::Etcd(Source {
        zones: map(hash(), apex, ZoneId(id)),
        fallthrough: None,
        outside: None,
        stubs: None,
    })
}

/// A step that answers one zone from a file.
pub fn file(apex: &str, id: u32) -> Step {
    Step::File(Source {
        zones: map(hash(), apex, ZoneId(id)),
        fallthrough: None,
        outside: None,
        stubs: None,
    })
}

/// A step that answers one zone from a cluster whose pods are looked for.
pub fn kubernetes(apex: &str, id: u32, ignore_empty_services: bool) -> Step {
    let shown = Shown {
        place: 0,
        kind: Zoned::Forward,
    };
    Step::Kubernetes(Kubernetes {
        data: ZoneId(id),
        zones: map(hash(), apex, shown),
        fallthrough: None,
        view: Arc::new(View {
            ttl: 5,
            namespaces: None,
            pods: Pods::Verified,
            ignore_empty_services,
            zonal: false,
            primary: name(apex),
            own: Vec::new(),
        }),
        pod_labels: Box::default(),
    })
}

/// A step that answers names of a zone from a hosts file.
pub fn hosts(zone: &str, id: u32) -> Step {
    Step::Hosts(Hosts {
        data: ZoneId(id),
        zones: map(hash(), zone, ()),
        fallthrough: None,
        fallthrough_unsupported: false,
    })
}

/// A server block as a real one: counted, addresses shuffled.
pub fn plan(step: Step) -> Plan {
    Plan {
        steps: [Step::LoadBalance(LoadBalance::default()), step].into(),
        metrics: true,
        errors: Some(0),
        ..Plan::default()
    }
}

/// The rule that logs every query.
pub fn log_all() -> LogRule {
    let classes = Classes {
        success: true,
        denial: true,
        error: true,
    };
    LogRule {
        zones: map(hash(), ".", ()),
        classes,
        format: 0,
        labels: Box::default(),
    }
}

/// One listener with these server blocks; block `n` counts into series `n`, what reaches none into the one behind.
pub fn config(blocks: Vec<(&str, Plan)>) -> Config {
    let mut routes = ZoneMap::new(hash());
    let dropped = blocks.len() as u32;
    let mut plans = Vec::new();
    for ((apex, plan), at) in blocks.into_iter().zip(0..) {
        routes.entry(&name(apex), || Choice::Block(Route { plan: at, series: at }));
        plans.push(plan);
    }
    Config {
        cache: None,
        listeners: vec![Listener {
            port: 53,
            routes,
            dropped,
            any_class: false,
            debug: false,
            streams: StreamLimits::default(),
            tls: None,
        }],
        plans,
    }
}

/// A service at a key, with nothing but a host.
pub fn service(key: &str, host: Host) -> Service {
    Service {
        key: key.as_bytes().into(),
        host,
        port: Some(80),
        priority: 10,
        bad: false,
        ..Service::unparsable(b"")
    }
}

/// A service that only has a text: its name exists, its addresses do not.
pub fn text_service(key: &str) -> Service {
    let extra = Extra {
        text: b"t".as_slice().into(),
        ..Extra::default()
    };
    Service {
        extra: Some(Box::new(extra)),
        ..service(key, Host::None)
    }
}

/// An address for number `i`.
pub fn v4(i: u32) -> Host {
    let [_, a, b, c] = i.to_be_bytes();
    Host::V4(Ipv4Addr::new(10, a, b, c))
}

/// A host that is a name.
pub fn alias(target: &str) -> Host {
    Host::Name(name(target).as_bytes().into())
}

/// A zone of services that has been read.
pub fn tree(apex: &str, services: impl IntoIterator<Item = Service>) -> ServiceTree {
    let mut editor: Editor = ServiceTree::unsynced(name(apex).as_name(), 1, hash()).edit();
    for service in services {
        editor.put(service);
    }
    editor.set_synced();
    editor.finish(1_700_000_000)
}

/// A zone of records: owner, type and rdata in wire form, all with a TTL of an hour.
///
/// # Panics
/// An owner lies outside.
pub fn records<'a>(apex: &str, records: impl IntoIterator<Item = (&'a str, Rtype, Vec<u8>)>) -> RecordZone {
    let mut collector = Collector::default();
    for (owner, rtype, rdata) in records {
        collector.add(&name(owner), rtype, 3600, &rdata, false);
    }
    let mut builder = RecordZoneBuilder::new(RecordZone::unloaded(name(apex).as_name(), hash()));
    for (owner, sets) in collector.into_sets() {
        builder.set(owner.as_name(), sets).expect("in the zone");
    }
    builder.finish()
}

/// The rdata of an SOA.
pub fn soa(apex: &str) -> Vec<u8> {
    let names = [name(&format!("ns1.{apex}")), name(&format!("hostmaster.{apex}"))];
    let numbers = [7_u32, 7200, 1800, 86_400, 60].into_iter().flat_map(u32::to_be_bytes);
    [
        names[0].as_bytes().to_vec(),
        names[1].as_bytes().to_vec(),
        numbers.collect(),
    ]
    .concat()
}

/// The packet of `NAME TYPE`, with an OPT of that size if there is one.
///
/// # Panics
/// The text is no question.
pub fn packet(id: u16, text: &str, size: Option<u16>) -> Vec<u8> {
    let mut message = question(text).expect("a question");
    message.metadata.id = id;
    if let Some(size) = size {
        let mut edns = Edns::new();
        edns.set_max_payload(size);
        message.set_edns(edns);
    }
    message.to_vec().expect("a packet")
}

/// A message as it stands in a stream.
pub fn framed(packet: &[u8]) -> Vec<u8> {
    [&(packet.len() as u16).to_be_bytes(), packet].concat()
}

/// The messages of a stream.
///
/// # Panics
/// The last one is not whole.
pub fn unframed(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let (message, behind) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
        messages.push(message.to_vec());
        bytes = behind;
    }
    assert!(bytes.is_empty(), "a stream ends with a whole message");
    messages
}

/// A responder and what it answers from.
#[derive(Debug)]
pub struct Served {
    /// The responder.
    pub responder: Responder,
    /// What it counts.
    pub stats: Arc<WorkerStats>,
    /// The blocks.
    pub config: Config,
    /// The zones.
    pub data: Data,
    /// What it is told of the time.
    pub clock: Clock,
    peer: Peer,
}

impl Served {
    /// Server blocks, and the zones that their steps name.
    pub fn new(blocks: Vec<(&str, Plan)>, zones: Vec<Zone>, log: Option<LogQueue>) -> Self {
        let stats = Arc::new(WorkerStats::new(blocks.len() + 1));
        let data = (0..)
            .zip(zones)
            .fold(Data::default(), |data, (id, zone)| data.with(ZoneId(id), zone));
        Self {
            responder: Responder::new([1; 32], hash(), Arc::clone(&stats), log),
            stats,
            config: config(blocks),
            data,
            clock: Clock {
                now: Instant(1_000_000_000),
                unix_secs: 1_700_000_000,
            },
            peer: Peer::from_socket_addr(client()),
        }
    }

    /// One service tree, and nothing else.
    pub fn services(apex: &str, services: impl IntoIterator<Item = Service>) -> Self {
        Self::new(
            vec![(apex, plan(etcd(apex, 0)))],
            vec![Zone::Services(tree(apex, services))],
            None,
        )
    }

    /// Puts another version of a zone in place.
    pub fn publish(&mut self, id: u32, zone: Zone) {
        self.data = self.data.with(ZoneId(id), zone);
    }

    /// Answers up to a batch of packets, each into its room; returns how long each reply is.
    pub fn batch(&mut self, packets: &[Vec<u8>], rooms: &mut [Vec<u8>], lens: &mut [usize]) {
        let now = Now {
            clock: self.clock,
            config: &self.config,
            data: &self.data,
        };
        let mut batch: arrayvec::ArrayVec<Datagram<'_>, { nodens_engine::io::BATCH_MAX }> = packets
            .iter()
            .zip(rooms)
            .map(|(query, reply)| Datagram {
                query,
                cut: false,
                reply,
                reply_len: 0,
                peer: &self.peer,
                listener: ListenerId(0),
                local: None,
            })
            .collect();
        self.responder.datagrams(&now, &mut batch);
        for (datagram, len) in batch.iter().zip(lens) {
            *len = datagram.reply_len;
        }
    }

    /// Sends a datagram to a server with room for `room` bytes; the reply, or nothing where there is none in place.
    pub fn exchange(&mut self, packet: &[u8], room: usize) -> Vec<u8> {
        let mut rooms = [vec![0; room]];
        let mut len = [0];
        self.batch(&[packet.to_vec()], &mut rooms, &mut len);
        let [mut reply] = rooms;
        reply.truncate(len[0]);
        reply
    }

    /// Asks `NAME TYPE` in a datagram that has room for any reply.
    ///
    /// # Panics
    /// The text is no question, or the reply no DNS message.
    pub fn ask(&mut self, text: &str) -> Message {
        let reply = self.exchange(&packet(7, text, Some(u16::MAX)), ROOM);
        read(text, &reply)
    }

    /// Asks `NAME TYPE` over a new connection that is closed afterwards.
    ///
    /// # Panics
    /// As [`Served::ask`].
    pub fn ask_over_stream(&mut self, text: &str) -> Message {
        let stream = StreamId(u64::MAX >> 1);
        self.open(stream);
        let reply = self.feed(stream, &framed(&packet(7, text, None)));
        self.event(StreamEvent::Closed { stream, error: None });
        let messages = unframed(&reply);
        assert_eq!(messages.len(), 1, "{text}");
        read(text, &messages[0])
    }

    /// Opens a stream.
    pub fn open(&mut self, stream: StreamId) {
        let local = SocketAddr::from(([127, 0, 0, 1], 53));
        self.event(StreamEvent::Opened {
            stream,
            listener: ListenerId(0),
            peer: client(),
            local,
        });
    }

    /// Hands over bytes of a stream; what is answered at once.
    pub fn feed(&mut self, stream: StreamId, bytes: &[u8]) -> Vec<u8> {
        let mut reply = Vec::new();
        self.event(StreamEvent::Readable {
            stream,
            bytes,
            reply: &mut reply,
        });
        reply
    }

    /// Tells the responder something of a stream.
    pub fn event(&mut self, event: StreamEvent<'_>) {
        let now = Now {
            clock: self.clock,
            config: &self.config,
            data: &self.data,
        };
        self.responder.stream(&now, event);
    }

    /// All that is to be done.
    pub fn effects(&mut self) -> Vec<(Effect, Vec<u8>)> {
        let mut effects = Vec::new();
        while let Some((effect, bytes)) = self.responder.poll_effect() {
            effects.push((effect, bytes.to_vec()));
        }
        effects
    }

    /// Lets time pass, and tells the responder.
    pub fn pass(&mut self, time: std::time::Duration) {
        self.clock.now = self.clock.now.after(time);
        let now = Now {
            clock: self.clock,
            config: &self.config,
            data: &self.data,
        };
        self.responder.timeout(&now);
    }
}

fn client() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000))
}

/// The message of a reply to `text`.
///
/// # Panics
/// It is none.
pub fn read(text: &str, reply: &[u8]) -> Message {
    Message::from_vec(reply).unwrap_or_else(|error| panic!("{text}: {error}: {reply:02x?}"))
}
