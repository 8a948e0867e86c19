//! Builds a zone, asks one question, prints the reply; no sockets.
//!
//! `cargo run -p nodens-engine --example answer_one -- www.cedar.example. A`

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use nodens_engine::io::{DATAGRAM_ROOM, Datagram, ListenerId, Peer};
use nodens_engine::plan::{Plan, Source, Step, ZoneMap};
use nodens_engine::responder::{Now, Responder};
use nodens_engine::snapshot::{Choice, Config, Data, Listener, Route, ZoneId};
use nodens_engine::stats::WorkerStats;
use nodens_engine::stream::StreamLimits;
use nodens_engine::time::{Clock, Instant};
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{RecordZone, RecordZoneBuilder, RrSet, Zone};
use nodens_wire::rdata::{Text, unpack};
use nodens_wire::{Builder, Compressor, Flags, Message, NameBuf, Rclass, Rtype};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let asked = NameBuf::from_text(&words.next().unwrap_or_else(|| "www.cedar.example.".to_owned()))?;
    let rtype: Rtype = words
        .next()
        .as_deref()
        .unwrap_or("A")
        .parse()
        .map_err(|_| "no such type")?;

    // The data: one zone, compiled.
    let apex = NameBuf::from_text("cedar.example.")?;
    let hash = NameHash::new(1);
    let mut builder = RecordZoneBuilder::new(RecordZone::unloaded(apex.as_name(), hash.clone()));
    let soa = [apex.as_bytes(), apex.as_bytes(), &[0, 0, 0, 60].repeat(5)].concat();
    let addresses: [&[u8]; 2] = [&[192, 0, 2, 1], &[192, 0, 2, 2]];
    let www = NameBuf::from_text("www.cedar.example.")?;
    builder
        .set(apex.as_name(), vec![RrSet::new(Rtype::SOA, [(3600, &soa[..])])])
        .and_then(|()| {
            let set = RrSet::new(Rtype::A, addresses.map(|address| (300, address)));
            builder.set(www.as_name(), vec![set])
        })
        .map_err(|_| "outside the zone")?;
    let data = Data::default().with(ZoneId(0), Zone::Records(builder.finish()));

    // The configuration: one listener, one server block, one step.
    let mut zones = ZoneMap::new(hash.clone());
    zones.entry(&apex, || ZoneId(0));
    let mut routes = ZoneMap::new(hash.clone());
    routes.entry(&apex, || Choice::Block(Route { plan: 0, series: 0 }));
    let step = Step::File(Source {
        zones,
        fallthrough: None,
        outside: None,
        stubs: None,
    });
    let config = Config {
        cache: None,
        listeners: vec![Listener {
            port: 53,
            routes,
            dropped: 0,
            any_class: false,
            debug: false,
            streams: StreamLimits::default(),
            tls: None,
        }],
        plans: vec![Plan {
            steps: [step].into(),
            ..Plan::default()
        }],
    };

    // A query, and room for its reply.
    let mut names = Compressor::new();
    let mut packet = [0; 512];
    let mut out = Builder::new(&mut packet, 512, &mut names);
    out.header(1, Flags::default().with_rd(true));
    out.question(asked.as_name(), rtype, Rclass::IN)
        .map_err(|_| "the question is too long")?;
    let len = out.finish();
    let mut room = [0; DATAGRAM_ROOM];
    let peer = Peer::from_socket_addr(SocketAddr::from(([127, 0, 0, 1], 40_000)));
    let mut batch = [Datagram {
        query: &packet[..len],
        cut: false,
        reply: &mut room,
        reply_len: 0,
        peer: &peer,
        listener: ListenerId(0),
        local: None,
    }];

    let mut responder = Responder::new([1; 32], hash, Arc::new(WorkerStats::new(1)), None);
    let clock = Clock {
        now: Instant(0),
        unix_secs: 0,
    };
    responder.datagrams(
        &Now {
            clock,
            config: &config,
            data: &data,
        },
        &mut batch,
    );

    let len = batch[0].reply_len;
    let reply = Message::parse(&room[..len]).map_err(|_| "no reply")?;
    println!("{} for {asked} {rtype}", reply.header.flags().rcode());
    for record in reply.records().flatten() {
        let mut rdata = [0; 512];
        let rdata = unpack(
            record.rtype,
            reply.as_bytes(),
            record.rdata_at,
            record.rdata.len(),
            &mut rdata,
        )?;
        let (owner, rtype) = (record.owner.to_buf(), record.rtype);
        println!("{owner} {} {rtype} {}", record.ttl, Text { rtype, rdata });
    }
    Ok(())
}
