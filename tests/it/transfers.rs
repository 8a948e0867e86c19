//! Zones on their way over streams: turns, limits, and what waits behind them.

use hickory_proto::op::ResponseCode;
use nodens_engine::io::{Effect, StreamEvent, StreamId};
use nodens_engine::plan::{Clients, Plan, Step, Transfer};
use nodens_engine::stream::IDLE;
use nodens_engine::transfer::TRANSFERS_MAX;
use nodens_engine::zone::Zone;
use nodens_tests::served::{Served, file, framed, hash, map, name, packet, read, records, soa, unframed};
use nodens_wire::Rtype;

const ZONE: &str = "cedar.example.";
const NAMES: usize = 10_000;

/// A zone of so many names, which everybody may have.
fn served(names: usize) -> Served {
    let transfer = Step::Transfer(Transfer {
        stanzas: map(
            hash(),
            ZONE,
            Clients {
                everybody: true,
                addresses: Vec::new(),
            },
        ),
    });
    let plan = Plan {
        steps: [transfer, file(ZONE, 0)].into(),
        ..Plan::default()
    };
    Served::new(vec![(ZONE, plan)], vec![zone(names)], None)
}

fn zone(names: usize) -> Zone {
    let hosts: Vec<String> = (0..names).map(|i| format!("host-{i}.cedar.example.")).collect();
    let addresses = hosts.iter().map(|host| (host.as_str(), Rtype::A, vec![192, 0, 2, 1]));
    let apex = [
        (ZONE, Rtype::SOA, soa(ZONE)),
        (ZONE, Rtype::NS, name("ns1.cedar.example.").as_bytes().to_vec()),
    ];
    Zone::Records(records(ZONE, apex.into_iter().chain(addresses)))
}

fn ask(id: u16, text: &str) -> Vec<u8> {
    framed(&packet(id, text, None))
}

/// What a stream that is written to the end says from here on.
fn rest(served: &mut Served, stream: StreamId) -> Vec<u8> {
    let mut written = Vec::new();
    loop {
        served.event(StreamEvent::Writable { stream });
        let effects = served.effects();
        for (effect, bytes) in &effects {
            if *effect == (Effect::WriteStream { stream }) {
                written.extend_from_slice(bytes);
            }
        }
        if effects
            .iter()
            .all(|(effect, _)| *effect != Effect::PauseStream { stream, paused: true })
        {
            return written;
        }
    }
}

/// The ids of the messages, each once for those that follow one another, and their answers.
fn by_id(bytes: &[u8]) -> Vec<(u16, usize)> {
    let mut found: Vec<(u16, usize)> = Vec::new();
    for message in unframed(bytes) {
        let message = read("a transfer", &message);
        match found.last_mut() {
            Some((id, answers)) if *id == message.metadata.id => *answers += message.answers.len(),
            _ => found.push((message.metadata.id, message.answers.len())),
        }
    }
    found
}

#[test]
fn what_was_asked_behind_a_zone_is_answered_behind_it() {
    let mut served = served(NAMES);
    let stream = StreamId(1);
    served.open(stream);
    let questions = [
        ask(1, "host-1.cedar.example. A"),
        ask(2, "cedar.example. AXFR"),
        ask(3, "host-2.cedar.example. A"),
        ask(4, "cedar.example. AXFR"),
    ];
    let mut written = served.feed(stream, &questions.concat());
    assert_eq!(unframed(&written).len(), 2, "one message of the zone a turn");
    // More may be asked meanwhile.
    written.extend(served.feed(stream, &ask(5, "host-3.cedar.example. A")));
    written.extend(rest(&mut served, stream));
    let whole = NAMES + 3;
    assert_eq!(by_id(&written), [(1, 1), (2, whole), (3, 1), (4, whole), (5, 1)]);
    assert_eq!(served.stats.transfers.get(), 2);
}

#[test]
fn a_zone_goes_on_in_the_version_it_began_with() {
    let mut served = served(NAMES);
    let stream = StreamId(1);
    served.open(stream);
    let mut written = served.feed(stream, &ask(1, "cedar.example. AXFR"));
    served.publish(0, zone(5));
    written.extend(rest(&mut served, stream));
    assert_eq!(by_id(&written), [(1, NAMES + 3)]);
    assert_eq!(by_id(&served.feed(stream, &ask(2, "cedar.example. AXFR"))), [(2, 8)]);
}

#[test]
fn so_many_zones_are_on_their_way() {
    let mut served = served(NAMES);
    for i in 0..TRANSFERS_MAX as u64 {
        served.open(StreamId(i));
        assert_eq!(
            unframed(&served.feed(StreamId(i), &ask(1, "cedar.example. AXFR"))).len(),
            1
        );
    }
    assert_eq!(served.stats.transfers_limited.get(), 0);
    let one_more = served.ask_over_stream("cedar.example. AXFR");
    assert_eq!(one_more.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(served.stats.transfers_limited.get(), 1);
    assert_eq!(served.ask_over_stream("host-1.cedar.example. A").answers.len(), 1);

    served.event(StreamEvent::Closed {
        stream: StreamId(7),
        error: None,
    });
    served.open(StreamId(1000));
    assert_eq!(
        by_id(&served.feed(StreamId(1000), &ask(1, "cedar.example. AXFR"))).len(),
        1
    );
    assert_eq!(served.stats.transfers_limited.get(), 1);
}

#[test]
fn who_does_not_read_a_zone_is_closed() {
    let mut served = served(NAMES);
    let stream = StreamId(1);
    served.open(stream);
    served.feed(stream, &ask(1, "cedar.example. AXFR"));
    served.effects();
    served.pass(IDLE);
    assert_eq!(served.effects(), [(Effect::CloseStream { stream }, Vec::new())]);
    assert_eq!(served.responder.poll_timeout(), None, "nothing is left behind");
}
