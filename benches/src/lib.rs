//! The workloads that the benchmarks share: worlds of made-up data, and questions for them.

pub mod cluster;
mod made;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use nodens_engine::io::{BATCH_MAX, DATAGRAM_ROOM, Datagram, ListenerId, Peer};
use nodens_engine::plan::{LoadBalance, Plan, Source, Step, ZoneMap};
use nodens_engine::responder::{Now, Responder};
use nodens_engine::services::{Host, Service, ServiceTree};
use nodens_engine::snapshot::{Choice, Config, Data, Listener, Route, ZoneId};
use nodens_engine::stats::WorkerStats;
use nodens_engine::stream::StreamLimits;
use nodens_engine::time::{Clock, Instant};
use nodens_engine::zone::Zone;
use nodens_engine::zone::trie::NameHash;
use nodens_wire::{Builder, Compressor, Flags, NameBuf, Rclass, Rtype};

/// The zone of all workloads.
pub const ZONE: &str = "svc.cedar.example.";

/// The hash of all workloads.
#[must_use]
pub fn hash() -> NameHash {
    NameHash::new(0x6e6f_6465_6e73)
}

/// A service `i` with an address and a port.
#[must_use]
pub fn service(i: u32) -> Service {
    let [_, a, b, c] = i.to_be_bytes();
    Service {
        key: format!("svc-{i}").into_bytes().into(),
        host: Host::V4(Ipv4Addr::new(10, a, b, c)),
        port: Some(8080),
        ..Service::unparsable(b"")
    }
}

/// The service `i` with another address.
#[must_use]
pub fn changed(i: u32, address: u32) -> Service {
    Service {
        host: Host::V4(Ipv4Addr::from(address)),
        bad: false,
        priority: 10,
        ..service(i)
    }
}

/// So many services, all directly below the zone.
#[must_use]
pub fn tree(services: u32) -> ServiceTree {
    let apex = NameBuf::from_text(ZONE).expect("a name");
    let mut editor = ServiceTree::unsynced(apex.as_name(), 1, hash()).edit();
    for i in 0..services {
        editor.put(Service {
            bad: false,
            priority: 10,
            ..service(i)
        });
    }
    editor.set_synced();
    editor.finish(1_700_000_000)
}

/// A responder and what it answers from.
#[derive(Debug)]
pub struct World {
    /// The responder.
    pub responder: Responder,
    /// One listener, one plan: loadbalance, etcd.
    pub config: Config,
    /// One zone.
    pub data: Data,
}

impl World {
    /// A world with so many services in etcd, counted and shuffled as a real one would be.
    #[must_use]
    pub fn new(services: u32) -> Self {
        let zone = NameBuf::from_text(ZONE).expect("a name");
        let mut zones = ZoneMap::new(hash());
        zones.entry(&zone, || ZoneId(0));
        let step = Step::Etcd(Source {
            zones,
            fallthrough: None,
            outside: None,
            stubs: None,
        });
        Self::of(&zone, step, Zone::Services(tree(services)))
    }

    /// The same with the services of a cluster.
    #[must_use]
    pub fn of_cluster(services: u32) -> Self {
        let zone = NameBuf::from_text(made::DOMAIN).expect("a name");
        let (step, data) = made::cluster(&zone, services);
        Self::of(&zone, Step::Kubernetes(step), Zone::Cluster(Box::new(data)))
    }

    /// The world that a question is for.
    #[must_use]
    pub fn for_kind(kind: Kind, services: u32) -> Self {
        if kind.is_of_cluster() {
            Self::of_cluster(services)
        } else {
            Self::new(services)
        }
    }

    fn of(zone: &NameBuf, step: Step, data: Zone) -> Self {
        let plan = Plan {
            steps: [Step::LoadBalance(LoadBalance::default()), step].into(),
            metrics: true,
            errors: Some(0),
            ..Plan::default()
        };
        let mut routes = ZoneMap::new(hash());
        routes.entry(zone, || Choice::Block(Route { plan: 0, series: 0 }));
        let listener = Listener {
            port: 53,
            routes,
            dropped: 1,
            any_class: false,
            debug: false,
            streams: StreamLimits::default(),
            tls: None,
        };
        Self {
            responder: Responder::new([1; 32], hash(), Arc::new(WorkerStats::new(2)), None),
            config: Config {
                cache: None,
                listeners: vec![listener],
                plans: vec![plan],
            },
            data: Data::default().with(ZoneId(0), data),
        }
    }

    /// Answers a batch of queries; returns the bytes of all replies.
    pub fn answer(&mut self, queries: &Queries, from: usize, count: usize, rooms: &mut Rooms) -> usize {
        let clock = Clock {
            now: Instant(1),
            unix_secs: 1_700_000_000,
        };
        let now = Now {
            clock,
            config: &self.config,
            data: &self.data,
        };
        let peer = &rooms.peer;
        let mut batch = batch(queries.slice(from, count), &mut rooms.bytes, peer);
        self.responder.datagrams(&now, &mut batch);
        batch.iter().map(|datagram| datagram.reply_len).sum()
    }
}

fn batch<'p>(
    queries: impl Iterator<Item = &'p [u8]>,
    rooms: &'p mut [[u8; DATAGRAM_ROOM]],
    peer: &'p Peer,
) -> ArrayVec<Datagram<'p>, BATCH_MAX> {
    let datagram = |(query, reply): (&'p [u8], &'p mut [u8; DATAGRAM_ROOM])| Datagram {
        query,
        cut: false,
        reply,
        reply_len: 0,
        peer,
        listener: ListenerId(0),
        local: None,
    };
    queries.zip(rooms).map(datagram).collect()
}

/// Queries side by side, as a port's buffers hold them.
#[derive(Debug, Default)]
pub struct Queries {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Queries {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn push(&mut self, query: &[u8]) {
        self.bytes.extend_from_slice(query);
        self.ends.push(self.bytes.len());
    }

    fn slice(&self, from: usize, count: usize) -> impl Iterator<Item = &[u8]> {
        (from..from + count).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            &self.bytes[start..self.ends[i]]
        })
    }
}

/// Room for the replies of a batch.
#[derive(Debug)]
pub struct Rooms {
    bytes: Vec<[u8; DATAGRAM_ROOM]>,
    peer: Peer,
}

impl Default for Rooms {
    fn default() -> Self {
        Self {
            bytes: vec![[0; DATAGRAM_ROOM]; BATCH_MAX],
            peer: Peer::from_socket_addr(SocketAddr::from(([127, 0, 0, 1], 40_000))),
        }
    }
}

impl Rooms {
    /// The reply to the `i`th query of the last batch, with what stands behind it.
    #[must_use]
    pub fn reply(&self, i: usize) -> &[u8] {
        &self.bytes[i]
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address that is there.
    A,
    /// An SRV record that is there.
    Srv,
    /// A name that is not.
    NxDomain,
    /// The address of a service of a cluster.
    ClusterA,
    /// Its SRV record.
    ClusterSrv,
    /// The ten addresses of a headless service,
    ClusterHeadless,
    /// and its ten SRV records.
    ClusterHeadlessSrv,
    /// A service that is not there.
    ClusterNxDomain,
}

impl Kind {
    /// All of them, by the names that programs know.
    pub const ALL: [(&'static str, Self); 8] = [
        ("a", Self::A),
        ("srv", Self::Srv),
        ("nxdomain", Self::NxDomain),
        ("cluster-a", Self::ClusterA),
        ("cluster-srv", Self::ClusterSrv),
        ("cluster-headless", Self::ClusterHeadless),
        ("cluster-headless-srv", Self::ClusterHeadlessSrv),
        ("cluster-nxdomain", Self::ClusterNxDomain),
    ];

    fn is_of_cluster(self) -> bool {
        !matches!(self, Self::A | Self::Srv | Self::NxDomain)
    }
}

/// So many questions for random names among `services`.
#[must_use]
pub fn queries(kind: Kind, services: u32, count: usize) -> Queries {
    let mut state = 88_172_645_463_325_252_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut queries = Queries::default();
    for number in std::iter::repeat_with(next).take(count) {
        let i = u32::try_from(number % u64::from(services)).unwrap_or_default();
        let (name, rtype) = match kind {
            Kind::A => (format!("svc-{i}.{ZONE}"), Rtype::A),
            Kind::Srv => (format!("Svc-{i}.{ZONE}"), Rtype::SRV),
            Kind::NxDomain => (format!("nosvc-{i}.{ZONE}"), Rtype::A),
            Kind::ClusterA => (made::name(i, "svc"), Rtype::A),
            Kind::ClusterSrv => (format!("_http._tcp.{}", made::name(i, "svc")), Rtype::SRV),
            Kind::ClusterHeadless => (made::name(i, "pods"), Rtype::A),
            Kind::ClusterHeadlessSrv => (format!("_http._tcp.{}", made::name(i, "pods")), Rtype::SRV),
            Kind::ClusterNxDomain => (made::name(i, "nosvc"), Rtype::A),
        };
        queries.push(&query(&name, rtype));
    }
    queries
}

/// A plain query, RD set.
#[must_use]
pub fn query(name: &str, rtype: Rtype) -> Vec<u8> {
    let name = NameBuf::from_text(name).expect("a name");
    let mut names = Compressor::new();
    let mut room = [0; 512];
    let mut out = Builder::new(&mut room, 512, &mut names);
    out.header(7, Flags::default().with_rd(true));
    out.question(name.as_name(), rtype, Rclass::IN)
        .expect("room for a question");
    let len = out.finish();
    room[..len].to_vec()
}
