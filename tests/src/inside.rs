//! The engine without sockets: one zone, one plan, a question in and a reply out.

use std::net::SocketAddr;
use std::sync::Arc;

use hickory_proto::op::{Edns, Message};
use nodens_engine::io::{Datagram, ListenerId, Peer};
use nodens_engine::plan::{Plan, Source, Step, ZoneMap};
use nodens_engine::responder::{Now, Responder};
use nodens_engine::snapshot::{Config, Data, Listener, Route, ZoneId};
use nodens_engine::stats::WorkerStats;
use nodens_engine::time::{Clock, Instant};
use nodens_engine::zone::Zone;
use nodens_engine::zone::trie::NameHash;
use nodens_wire::NameBuf;

use crate::ask::question;

/// The hash of all zones here.
pub fn hash() -> NameHash {
    NameHash::new(0x7e57)
}

/// A responder and what it answers from.
#[derive(Debug)]
pub struct Inside {
    responder: Responder,
    config: Config,
    data: Data,
}

impl Inside {
    /// Serves one zone, and nothing else.
    ///
    /// # Panics
    /// `apex` is no name.
    pub fn new(apex: &str, zone: Zone) -> Self {
        let apex = NameBuf::from_text(apex).expect("a name");
        let mut zones = ZoneMap::new(hash());
        zones.entry(&apex, || ZoneId(0));
        let source = Source {
            zones,
            fallthrough: None,
        };
        let step = match zone {
            Zone::Records(_) => Step::File(source),
            Zone::Services(_) => Step::Etcd(source),
        };
        let mut routes = ZoneMap::new(hash());
        routes.entry(&apex, || Route { plan: 0, series: 0 });
        let listener = Listener {
            routes,
            dropped: 1,
            any_class: false,
        };
        let plan = Plan {
            steps: [step].into(),
            ..Plan::default()
        };
        Self {
            responder: Responder::new(1, hash(), Arc::new(WorkerStats::new(2)), None),
            config: Config {
                listeners: vec![listener],
                plans: vec![plan],
            },
            data: Data::default().with(ZoneId(0), zone),
        }
    }

    /// Puts another version of the zone in place.
    pub fn publish(&mut self, zone: Zone) {
        self.data = self.data.with(ZoneId(0), zone);
    }

    /// Sends a packet; the reply, or nothing where there is none.
    pub fn exchange(&mut self, packet: &[u8]) -> Vec<u8> {
        let clock = Clock {
            now: Instant(1),
            unix_secs: 1_700_000_000,
        };
        let now = Now {
            clock,
            config: &self.config,
            data: &self.data,
        };
        let peer = Peer::from_socket_addr(SocketAddr::from(([127, 0, 0, 1], 40_000)));
        let mut room = vec![0; 65_535];
        let datagram = Datagram {
            query: packet,
            cut: false,
            reply: &mut room,
            reply_len: 0,
            peer: &peer,
            listener: ListenerId(0),
            local: None,
        };
        let mut batch = [datagram];
        self.responder.datagrams(&now, &mut batch);
        let len = batch[0].reply_len;
        room.truncate(len);
        room
    }

    /// Asks `NAME TYPE`, with room for any reply.
    ///
    /// # Panics
    /// The text is no question, or the reply no DNS message.
    pub fn ask(&mut self, text: &str) -> Message {
        let mut message = question(text).expect("a question");
        let mut edns = Edns::new();
        edns.set_max_payload(u16::MAX);
        message.set_edns(edns);
        let reply = self.exchange(&message.to_vec().expect("a packet"));
        Message::from_vec(&reply).unwrap_or_else(|error| panic!("{text}: {error}: {reply:02x?}"))
    }
}
