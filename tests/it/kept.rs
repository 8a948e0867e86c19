//! A hit of the cache, against the answer that was kept: the same but for id, TTL, the letter case of the question, and the flags
//! that follow the client.
//!
//! `SEED=7 cargo test -p nodens-tests kept` runs one seed.

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{CNAME, MX, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use nodens_engine::cache::{self, Bounds, SIZE_MIN, Settings};
use nodens_engine::forward::Stanza;
use nodens_engine::io::{Effect, UpstreamDatagram, UpstreamId};
use nodens_engine::plan::{Cache, Forward, Plan, Step, ZoneMap};
use nodens_engine::responder::Now;
use nodens_tests::seed::Seeded;
use nodens_tests::served::{Served, hash, map, packet, read};
use nodens_tests::sim::asking::settings;
use nodens_tests::world::random;

const ROUNDS: u32 = 300;
const TTL_MAX: u32 = 40;
const ROOM: usize = 4096;

fn served() -> Served {
    let bounds = Bounds {
        entries_max: 10_000,
        ttl_min_secs: 0,
        ttl_max_secs: 3600,
    };
    let slab = Arc::new(cache::Cache::new(SIZE_MIN));
    let cache = Cache {
        settings: Settings {
            zones: map(hash(), ".", ()),
            success: bounds,
            denial: bounds,
            prefetch: None,
            stale: None,
            servfail: Duration::from_secs(5),
            disable_success: ZoneMap::new(hash()),
            disable_denial: ZoneMap::new(hash()),
            keep_ttl: false,
        },
        block: slab.open(),
        servers: 0,
    };
    let forward = Forward {
        stanzas: [Arc::new(Stanza::new(settings(1)))].into(),
        is_proxy: false,
    };
    let plan = Plan {
        steps: [Step::Cache(Box::new(cache)), Step::Forward(forward)]
            .into_iter()
            .collect(),
        ..Plan::default()
    };
    let mut served = Served::new(vec![(".", plan)], Vec::new(), None);
    served.config.cache = Some(slab);
    served
}

/// A question under one key, with the flags and the letter case of some client.
#[derive(Clone, Copy, Debug)]
struct Key {
    number: u32,
    rtype: RecordType,
    dnssec_ok: bool,
    checking_disabled: bool,
}

impl Key {
    fn name(&self) -> Name {
        Name::from_ascii(format!("name-{}.cedar.example.", self.number)).unwrap()
    }

    fn ask(&self, seeded: &mut Seeded) -> Vec<u8> {
        let rtype = self.rtype;
        let text = format!("{} {rtype}", self.name());
        let mut message = Message::from_vec(&packet(seeded.next() as u16, &text, None)).unwrap();
        let metadata = &mut message.metadata;
        metadata.recursion_desired = seeded.once_in(2);
        metadata.authentic_data = seeded.once_in(2);
        metadata.checking_disabled = self.checking_disabled;
        let mut edns = Edns::new();
        edns.set_max_payload(ROOM as u16);
        edns.set_dnssec_ok(self.dnssec_ok);
        message.set_edns(edns);
        let mut packet = message.to_vec().unwrap();
        for byte in &mut packet[13..13 + "name-".len()] {
            if byte.is_ascii_alphabetic() && seeded.once_in(2) {
                *byte ^= 0x20;
            }
        }
        packet
    }
}

/// Whether it is to be kept, and what was said.
fn say(query: &Message, seeded: &mut Seeded) -> (bool, Message) {
    let question = query.queries[0].clone();
    let mut reply = query.clone();
    reply.metadata.message_type = MessageType::Response;
    reply.metadata.authoritative = seeded.once_in(2);
    reply.metadata.recursion_available = seeded.once_in(2);
    reply.metadata.authentic_data = seeded.once_in(2);
    reply.metadata.truncation = seeded.once_in(12);
    let soa = |seeded: &mut Seeded| {
        let names = ["ns1.cedar.example.", "admin.cedar.example."].map(|name| Name::from_ascii(name).unwrap());
        let [primary, mailbox] = names;
        let data = SOA::new(primary, mailbox, 7, 1, 2, 3, ttl(seeded));
        Record::from_rdata(
            Name::from_ascii("cedar.example.").unwrap(),
            ttl(seeded),
            RData::SOA(data),
        )
    };
    let is_known = match seeded.below(8) {
        0 => {
            reply.metadata.response_code = ResponseCode::NXDomain;
            reply.add_authority(soa(seeded));
            true
        }
        1 => {
            reply.add_authority(soa(seeded));
            true
        }
        2 => {
            reply.metadata.response_code = ResponseCode::ServFail;
            true
        }
        3 => {
            reply.metadata.response_code = *seeded.pick(&[ResponseCode::NXDomain, ResponseCode::Refused]);
            false
        }
        _ => {
            let mut owner = question.name().clone();
            for number in 0..seeded.below(4) {
                let target = Name::from_ascii(format!("alias-{number}.oak.example.")).unwrap();
                reply.add_answer(Record::from_rdata(
                    owner,
                    ttl(seeded),
                    RData::CNAME(CNAME(target.clone())),
                ));
                owner = target;
            }
            for number in 0..1 + seeded.below(5) as u8 {
                reply.add_answer(Record::from_rdata(
                    owner.clone(),
                    ttl(seeded),
                    data(question.query_type(), number),
                ));
            }
            if seeded.once_in(2) {
                let target = Name::from_ascii("alias-0.oak.example.").unwrap();
                reply.add_additional(Record::from_rdata(target, ttl(seeded), data(RecordType::A, 9)));
            }
            true
        }
    };
    (is_known && !reply.metadata.truncation, reply)
}

fn ttl(seeded: &mut Seeded) -> u32 {
    1 + seeded.below(TTL_MAX as usize) as u32
}

fn data(rtype: RecordType, number: u8) -> RData {
    let target = Name::from_ascii(format!("Target-{number}.cedar.example.")).unwrap();
    match rtype {
        RecordType::TXT => RData::TXT(TXT::new(vec![format!("text {number}"); 3])),
        RecordType::MX => RData::MX(MX::new(number.into(), target)),
        RecordType::SRV => RData::SRV(SRV::new(1, 2, number.into(), target)),
        _ => RData::A(std::net::Ipv4Addr::new(192, 0, 2, number).into()),
    }
}

/// What a client asks, and what becomes of it.
struct World {
    served: Served,
    /// The socket to the upstream.
    socket: Option<UpstreamId>,
}

impl World {
    /// The answer, if there is one without an upstream; else what the upstream is asked.
    fn ask(&mut self, packet: &[u8]) -> Result<Box<Message>, Box<Message>> {
        let reply = self.served.exchange(packet, ROOM);
        if !reply.is_empty() {
            return Ok(Box::new(read("a hit", &reply)));
        }
        let mut asked = None;
        for (effect, bytes) in self.served.effects() {
            if let Effect::SendUpstream { upstream } = effect {
                self.socket = Some(upstream);
                asked = Some(Box::new(read("a question", &bytes)));
            }
        }
        Err(asked.expect("a question to the upstream"))
    }

    fn tell(&mut self, reply: &Message) -> Message {
        let now = Now {
            clock: self.served.clock,
            config: &self.served.config,
            data: &self.served.data,
        };
        self.served.responder.upstream(
            &now,
            &UpstreamDatagram {
                upstream: self.socket.expect("it was asked"),
                bytes: &reply.to_vec().unwrap(),
                error: None,
            },
        );
        self.served.responder.timeout(&now);
        let effects = self.served.effects();
        let mut sent = effects
            .iter()
            .filter(|(effect, _)| matches!(effect, Effect::Send { .. }));
        let (Some((_, bytes)), None) = (sent.next(), sent.next()) else {
            panic!("one answer: {effects:?}");
        };
        read("an answer", bytes)
    }
}

fn run(seed: u64) {
    let mut seeded = Seeded::new(seed);
    let mut world = World {
        served: served(),
        socket: None,
    };
    for number in 0..ROUNDS {
        let key = Key {
            number,
            rtype: *seeded.pick(&[RecordType::A, RecordType::TXT, RecordType::MX, RecordType::SRV]),
            dnssec_ok: seeded.once_in(2),
            checking_disabled: seeded.once_in(2),
        };
        let asked = world.ask(&key.ask(&mut seeded)).expect_err("nothing is kept");
        let (is_kept, said) = say(&asked, &mut seeded);
        let first = world.tell(&said);
        let records = |message: &Message| -> Vec<Record> {
            let sections = [&message.answers, &message.authorities, &message.additionals];
            sections.into_iter().flatten().cloned().collect()
        };
        let ttl = match records(&first).first() {
            Some(record) => record.ttl,
            None => 5,
        };
        // Until it is over, in steps of any length.
        let mut passed = Duration::ZERO;
        loop {
            let packet = key.ask(&mut seeded);
            let query = read("a query", &packet);
            let context = format!("SEED={seed} {key:?} after {passed:?}:\n{said}\n{query}");
            let secs = passed.as_secs() as u32;
            let hit = match world.ask(&packet) {
                Err(again) => {
                    assert!(!is_kept || secs >= ttl, "it was kept. {context}");
                    // It is over, and somebody has to answer.
                    world.tell(&say(&again, &mut seeded).1);
                    break;
                }
                Ok(hit) => hit,
            };
            let context = format!("{context}\n{hit}");
            assert!(is_kept && secs < ttl, "it was not kept. {context}");
            assert_eq!(hit.metadata.id, query.metadata.id, "{context}");
            assert_eq!(
                hit.queries[0].name().to_string(),
                query.queries[0].name().to_string(),
                "{context}"
            );
            let (had, client) = (&first.metadata, &query.metadata);
            let mut expected = *had;
            expected.id = client.id;
            expected.recursion_desired = client.recursion_desired;
            expected.checking_disabled = client.checking_disabled;
            // RFC 6840 §5.8.
            let wants_ad = key.dnssec_ok || client.authentic_data;
            expected.authentic_data = said.metadata.authentic_data && wants_ad;
            assert_eq!(hit.metadata, expected, "{context}");
            let aged: Vec<Record> = records(&first)
                .into_iter()
                .map(|mut record| {
                    record.ttl = ttl - secs;
                    record
                })
                .collect();
            assert_eq!(records(&hit), aged, "{context}");
            assert!(records(&hit).iter().all(|record| record.ttl == ttl - secs), "{context}");
            let step = Duration::from_millis(seeded.below(9000) as u64);
            passed += step;
            world.served.pass(step);
        }
    }
}

#[test]
fn a_hit_is_what_was_said() {
    let seed = std::env::var("SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds: Vec<u64> = match seed {
        Some(seed) => vec![seed],
        None => (1..=4)
            .chain(std::iter::repeat_with(|| random() % 1_000_000).take(2))
            .collect(),
    };
    seeds.into_iter().for_each(run);
}
