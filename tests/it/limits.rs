//! Every limit of the engine: what holds at it, and what happens one past it.

use std::time::Duration;

use crossbeam::sync::Parker;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use nodens_engine::io::{DATAGRAM_ROOM, Effect, StreamEvent, StreamId};
use nodens_engine::log::{LogReader, QUEUE_MAX};
use nodens_engine::responder::EFFECTS_MAX;
use nodens_engine::services::{GATHERED_MAX, Service, VISITED_MAX};
use nodens_engine::stream::{FIRST_QUERY, IDLE, REPLIES_LEN_MAX, STREAMS_MAX};
use nodens_engine::zone::Zone;
use nodens_tests::served::{
    Served, alias, etcd, file, framed, log_all, name, packet, plan, records, service, soa, text_service, tree,
    unframed, v4,
};
use nodens_wire::Rtype;

const ZONE: &str = "cedar.example.";
const OTHER: &str = "oak.example.";

fn count(message: &Message, rtype: RecordType) -> usize {
    message
        .answers
        .iter()
        .filter(|record| record.record_type() == rtype)
        .count()
}

fn limited(served: &Served) -> u64 {
    served.stats.gather_limited.get()
}

/// So many services below `many`, all with one address: a message holds the answer, whatever their number.
fn alike(services: usize) -> impl Iterator<Item = Service> {
    (0..services).map(|i| service(&format!("many/x{i:05}"), v4(1)))
}

#[test]
fn an_answer_gathers_so_many_services() {
    let mut served = Served::services(ZONE, alike(GATHERED_MAX));
    assert!(!served.ask("many.cedar.example. A").metadata.truncation);
    assert_eq!(limited(&served), 0);

    let more = service("many/y", v4(2));
    let mut served = Served::services(ZONE, alike(GATHERED_MAX).chain([more]));
    for question in ["many.cedar.example. A", "cedar.example. A", "*.cedar.example. A"] {
        let before = limited(&served);
        let cut = served.ask(question);
        assert!(cut.metadata.truncation, "{question}");
        assert_eq!(limited(&served), before + 1, "{question}");
        let whole = served.ask_over_stream(question);
        assert!(
            !whole.metadata.truncation,
            "over a stream goes what was gathered: {question}"
        );
        assert_eq!(count(&whole, RecordType::A), 1, "{question}");
        assert_eq!(limited(&served), before + 2, "{question}");
    }
}

#[test]
fn an_answer_visits_so_many_keys() {
    // Those without an address are visited and not gathered; the one with an address is the last.
    let nothing = |keys: usize| (0..keys).map(|i| text_service(&format!("many/x{i:05}")));
    let mut served = Served::services(ZONE, nothing(VISITED_MAX - 1).chain([service("many/y", v4(2))]));
    for question in ["many.cedar.example. A", "*.cedar.example. A"] {
        let reply = served.ask(question);
        assert!(
            !reply.metadata.truncation && count(&reply, RecordType::A) == 1,
            "{question}"
        );
    }
    assert_eq!(limited(&served), 0);

    let mut editor = match served.data.zone(nodens_engine::snapshot::ZoneId(0)) {
        Some(Zone::Services(tree)) => tree.edit(),
        _ => panic!("the zone is one of services"),
    };
    editor.put(text_service("many/x"));
    served.publish(0, Zone::Services(editor.finish(1_700_000_001)));
    for question in ["many.cedar.example. A", "*.cedar.example. A"] {
        let before = limited(&served);
        assert!(served.ask(question).metadata.truncation, "{question}");
        let whole = served.ask_over_stream(question);
        assert!(!whole.metadata.truncation && whole.answers.is_empty(), "{question}");
        assert_eq!(whole.metadata.response_code, ResponseCode::NoError, "{question}");
        assert_eq!(limited(&served), before + 2, "{question}");
    }
}

/// Aliases `a0` to `a{n-1}` in one zone of services, and an address behind the last.
fn chained_services(aliases: usize) -> Served {
    let chain = (0..aliases).map(|i| service(&format!("a{i}"), alias(&format!("a{}.cedar.example", i + 1))));
    Served::services(ZONE, chain.chain([service(&format!("a{aliases}"), v4(1))]))
}

#[test]
fn eleven_aliases_of_a_service_zone_resolve() {
    let reply = chained_services(11).ask("a0.cedar.example. A");
    assert_eq!(
        (count(&reply, RecordType::CNAME), count(&reply, RecordType::A)),
        (11, 1)
    );
    let reply = chained_services(12).ask("a0.cedar.example. A");
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    assert!(reply.answers.is_empty(), "an alias that leads nowhere is not shown");
    assert!(!reply.metadata.truncation);
}

fn chained_records(aliases: usize) -> Served {
    let owners: Vec<String> = (0..=aliases).map(|i| format!("a{i}.{ZONE}")).collect();
    let chain = owners
        .windows(2)
        .map(|pair| (&*pair[0], Rtype::CNAME, name(&pair[1]).as_bytes().to_vec()));
    let ends = [
        (ZONE, Rtype::SOA, soa(ZONE)),
        (&*owners[aliases], Rtype::A, vec![192, 0, 2, 1]),
    ];
    let zone = records(ZONE, chain.chain(ends));
    Served::new(vec![(ZONE, plan(file(ZONE, 0)))], vec![Zone::Records(zone)], None)
}

#[test]
fn ten_aliases_of_a_record_zone_end_an_answer() {
    let reply = chained_records(9).ask("a0.cedar.example. A");
    assert_eq!((count(&reply, RecordType::CNAME), count(&reply, RecordType::A)), (9, 1));
    let reply = chained_records(10).ask("a0.cedar.example. A");
    assert_eq!(
        (count(&reply, RecordType::CNAME), count(&reply, RecordType::A)),
        (10, 0)
    );
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
}

fn two_zones(services: impl Iterator<Item = (usize, Service)>) -> Served {
    let mut zones = [Vec::new(), Vec::new()];
    for (at, service) in services {
        zones[at].push(service);
    }
    let [one, other] = zones;
    Served::new(
        vec![(ZONE, plan(etcd(ZONE, 0))), (OTHER, plan(etcd(OTHER, 1)))],
        vec![Zone::Services(tree(ZONE, one)), Zone::Services(tree(OTHER, other))],
        None,
    )
}

/// Aliases that lead from one zone to the other and back, each through the plans again.
fn across(hops: usize) -> Served {
    let zone = |i: usize| [ZONE, OTHER][i % 2];
    let hop = |i: usize| {
        (
            i % 2,
            service(&format!("a{i}"), alias(&format!("a{}.{}", i + 1, zone(i + 1)))),
        )
    };
    two_zones(
        (0..hops)
            .map(hop)
            .chain([(hops % 2, service(&format!("a{hops}"), v4(1)))]),
    )
}

#[test]
fn a_query_goes_through_the_plans_eight_times_more() {
    let reply = across(8).ask("a0.cedar.example. A");
    assert_eq!((count(&reply, RecordType::CNAME), count(&reply, RecordType::A)), (8, 1));
    // One more, and it gets what was found.
    let mut served = across(9);
    let reply = served.ask("a0.cedar.example. A");
    assert_eq!((count(&reply, RecordType::CNAME), count(&reply, RecordType::A)), (9, 0));
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
}

#[test]
fn aliases_side_by_side_share_the_eight() {
    let served = |aliases: usize| {
        let targets = (0..aliases).map(|i| (1, service(&format!("t{i}"), v4(i as u32))));
        let many = (0..aliases).map(|i| (0, service(&format!("many/x{i}"), alias(&format!("t{i}.{OTHER}")))));
        two_zones(targets.chain(many))
    };
    let mut at = served(8);
    let reply = at.ask("many.cedar.example. A");
    assert_eq!((count(&reply, RecordType::CNAME), count(&reply, RecordType::A)), (8, 8));
    assert!(!reply.metadata.truncation && limited(&at) == 0);
    let mut past = served(9);
    let reply = past.ask("many.cedar.example. A");
    assert_eq!((count(&reply, RecordType::CNAME), count(&reply, RecordType::A)), (9, 8));
    assert!(
        reply.metadata.truncation && limited(&past) == 1,
        "the client may ask for the rest one by one"
    );
}

/// A loop over two zones ends too.
#[test]
fn aliases_in_a_circle_end() {
    let one = (0, service("a", alias("a.oak.example")));
    let other = (1, service("a", alias("a.cedar.example")));
    let mut served = two_zones([one, other].into_iter());
    let reply = served.ask("a.cedar.example. A");
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    assert!(reply.answers.len() <= 9, "{:?}", reply.answers);
}

#[test]
fn addresses_of_targets_elsewhere_are_sought_so_often() {
    let served = |targets: usize| {
        let there = (0..targets).map(|i| (1, service(&format!("t{i:02}"), v4(i as u32))));
        let many = (0..targets).map(|i| (0, service(&format!("many/x{i:02}"), alias(&format!("t{i:02}.{OTHER}")))));
        two_zones(there.chain(many))
    };
    // Two look-ups for each, A and AAAA.
    for (targets, found) in [(32, 32), (33, 32)] {
        let reply = served(targets).ask("many.cedar.example. SRV");
        assert_eq!((reply.answers.len(), reply.additionals.len()), (targets, found));
        assert!(!reply.metadata.truncation, "ADDITIONAL data is nobody's need");
    }
}

#[test]
fn one_connection_too_many_closes_the_one_idle_longest() {
    let mut served = Served::services(ZONE, [service("web", v4(1))]);
    for i in 0..STREAMS_MAX as u64 {
        served.clock.now = served.clock.now.after(Duration::from_micros(1));
        served.open(StreamId(i));
    }
    assert!(served.effects().is_empty());
    // The first one to come has asked since.
    let reply = served.feed(StreamId(0), &framed(&packet(1, "web.cedar.example. A", None)));
    assert_eq!(unframed(&reply).len(), 1);
    served.open(StreamId(STREAMS_MAX as u64));
    let closed = served.effects();
    assert_eq!(closed, [(Effect::CloseStream { stream: StreamId(1) }, Vec::new())]);
    assert_eq!(served.stats.streams_limited.get(), 1);
    // It is gone: what still comes from it is not answered.
    assert!(
        served
            .feed(StreamId(1), &framed(&packet(1, "web.cedar.example. A", None)))
            .is_empty()
    );
    for i in 0..=STREAMS_MAX as u64 {
        served.event(StreamEvent::Closed {
            stream: StreamId(i),
            error: None,
        });
    }
    assert_eq!(served.responder.poll_timeout(), None, "nothing is left behind");
}

#[test]
fn connections_have_their_time() {
    let mut served = Served::services(ZONE, [service("web", v4(1))]);
    let stream = StreamId(1);
    let close = [(Effect::CloseStream { stream }, Vec::new())];
    let query = framed(&packet(1, "web.cedar.example. A", None));
    let nearly = |limit: Duration| limit - Duration::from_nanos(1);

    served.open(stream);
    served.pass(nearly(FIRST_QUERY));
    // Part of a query is none.
    assert!(served.feed(stream, &query[..5]).is_empty());
    assert!(served.effects().is_empty());
    served.pass(Duration::from_nanos(1));
    assert_eq!(served.effects(), close, "no query in time");

    served.open(stream);
    served.pass(nearly(FIRST_QUERY));
    for _ in 0..3 {
        assert_eq!(unframed(&served.feed(stream, &query)).len(), 1);
        served.pass(nearly(IDLE));
        assert!(served.effects().is_empty());
    }
    served.pass(Duration::from_nanos(1));
    assert_eq!(served.effects(), close, "idle for too long");
    assert_eq!(served.responder.poll_timeout(), None);
}

#[test]
fn pipelined_queries_are_answered_in_one_go_however_they_are_cut() {
    let mut served = Served::services(ZONE, [service("web", v4(1))]);
    let all: Vec<u8> = (0..1000)
        .flat_map(|id| framed(&packet(id, "web.cedar.example. A", None)))
        .collect();
    served.open(StreamId(1));
    let whole = served.feed(StreamId(1), &all);
    let ids: Vec<u16> = unframed(&whole)
        .iter()
        .map(|reply| u16::from_be_bytes([reply[0], reply[1]]))
        .collect();
    assert!(ids.into_iter().eq(0..1000), "in the order in which they were asked");
    for (stream, size) in (2..).zip([1, 2, 3, 37, 1000]) {
        served.open(StreamId(stream));
        let parts = all
            .chunks(size)
            .flat_map(|part| served.feed(StreamId(stream), part))
            .collect::<Vec<u8>>();
        assert_eq!(parts, whole, "in parts of {size}");
    }
    assert!(served.effects().is_empty());
}

/// A name with 3,000 addresses: 48 KB over a stream.
fn heavy() -> Served {
    Served::services(ZONE, (0..3000).map(|i| service(&format!("many/x{i:04}"), v4(i))))
}

#[test]
fn a_reader_who_does_not_read_pauses_its_queries() {
    const ASKED: u16 = 20;
    let mut served = heavy();
    let stream = StreamId(1);
    served.open(stream);
    let all: Vec<u8> = (0..ASKED)
        .flat_map(|id| framed(&packet(id, "many.cedar.example. A", None)))
        .collect();
    let mut written = served.feed(stream, &all);
    assert!(written.len() > REPLIES_LEN_MAX && written.len() < REPLIES_LEN_MAX + 65_538);
    assert_eq!(
        served.effects(),
        [(Effect::PauseStream { stream, paused: true }, Vec::new())]
    );
    // The client will send no more; it is still told all of it.
    served.event(StreamEvent::HalfClosed { stream });
    assert!(served.effects().is_empty());
    let mut turns = 0;
    loop {
        served.event(StreamEvent::Writable { stream });
        let effects = served.effects();
        turns += 1;
        assert!(effects.len() >= 2 && turns < 10);
        let (write, bytes) = &effects[0];
        let (then, rest) = (effects[1].0, &effects[2..]);
        let close = [(Effect::CloseStream { stream }, Vec::new())];
        let (pause, go_on) = (
            Effect::PauseStream { stream, paused: true },
            Effect::PauseStream { stream, paused: false },
        );
        // Effects are carried out in order, so the write comes first whether or not there is more.
        let (write, bytes, then) = if *write == pause {
            (&effects[1].0, &effects[1].1, pause)
        } else {
            (write, bytes, then)
        };
        assert_eq!(*write, Effect::WriteStream { stream });
        assert!(bytes.len() < REPLIES_LEN_MAX + 65_538);
        written.extend_from_slice(bytes);
        if then == go_on {
            assert_eq!(rest, close);
            break;
        }
        assert_eq!(then, pause);
    }
    assert_eq!(unframed(&written).len(), usize::from(ASKED));
    assert!(turns >= 3);
}

#[test]
fn a_full_log_loses_lines_and_counts_them() {
    let (mut reader, mut queues) = LogReader::new(1, Parker::new().unparker());
    let mut block = plan(etcd(ZONE, 0));
    block.log = [log_all()].into();
    let zone = Zone::Services(tree(ZONE, [service("web", v4(1))]));
    let mut served = Served::new(vec![(ZONE, block)], vec![zone], queues.pop());
    for _ in 0..QUEUE_MAX {
        served.exchange(&packet(1, "web.cedar.example. A", None), 512);
    }
    assert_eq!(served.stats.log_dropped.get(), 0);
    assert!(
        !served
            .exchange(&packet(1, "web.cedar.example. A", None), 512)
            .is_empty(),
        "the answer is not lost"
    );
    assert_eq!(served.stats.log_dropped.get(), 1);
    assert_eq!(reader.take().count(), QUEUE_MAX);
}

#[test]
fn full_effects_lose_datagrams_and_never_a_close() {
    let mut served = Served::services(ZONE, (0..200).map(|i| service(&format!("many/x{i}"), v4(i))));
    let query = packet(1, "many.cedar.example. A", Some(u16::MAX));
    for _ in 0..EFFECTS_MAX {
        assert!(
            served.exchange(&query, DATAGRAM_ROOM).is_empty(),
            "the reply is longer than its room"
        );
    }
    assert_eq!(served.stats.effects_dropped.get(), 0);
    served.exchange(&query, DATAGRAM_ROOM);
    assert_eq!(served.stats.effects_dropped.get(), 1);
    served.open(StreamId(1));
    served.pass(FIRST_QUERY);
    let effects = served.effects();
    assert_eq!(effects.len(), EFFECTS_MAX + 1);
    assert_eq!(effects[EFFECTS_MAX].0, Effect::CloseStream { stream: StreamId(1) });
    let first = Message::from_vec(&effects[0].1).unwrap();
    assert_eq!((first.answers.len(), first.metadata.truncation), (200, false));
}

#[test]
fn a_cache_takes_no_memory_before_it_is_used() {
    const SIZE: usize = 1 << 30;
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let before = resident();
    let cache = nodens_engine::cache::Cache::new(SIZE);
    assert_eq!(cache.figures().bytes_max, SIZE);
    // Other tests run meanwhile.
    assert!(resident() < before + SIZE / 2);
}
