//! Queries that wait for other servers and are not told anything: those that are given up, and the one of `loop`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use nodens_engine::forward::{Canary, Policy, Settings, Stanza, Transport, Upstream};
use nodens_engine::io::{Effect, ListenerId};
use nodens_engine::plan::{Forward, Plan, Step};
use nodens_tests::served::{Served, name, packet, read};
use nodens_wire::NameBuf;

const SECOND: Duration = Duration::from_secs(1);

/// An upstream that nobody carries anything to.
fn upstream(last: u8) -> Arc<Upstream> {
    Arc::new(Upstream::new(
        SocketAddr::from(([192, 0, 2, last], 53)),
        Transport::Plain,
    ))
}

fn stanza(upstreams: &[Arc<Upstream>]) -> Arc<Stanza> {
    let settings = Settings::new(NameBuf::root(), upstreams.into());
    Arc::new(Stanza::new(settings))
}

fn forward(stanza: &Arc<Stanza>) -> Step {
    Step::Forward(Forward {
        stanzas: [Arc::clone(stanza)].into(),
        is_proxy: false,
    })
}

fn served(steps: impl IntoIterator<Item = Step>, cancel: Option<Duration>) -> Served {
    let plan = Plan {
        steps: steps.into_iter().collect(),
        cancel,
        ..Plan::default()
    };
    Served::new(vec![(".", plan)], Vec::new(), None)
}

/// Asks, and there is no answer yet.
fn ask(served: &mut Served, text: &str) {
    assert!(served.exchange(&packet(7, text, Some(1232)), 512).is_empty());
}

/// The answers that were sent since.
fn answers(served: &mut Served) -> Vec<Message> {
    let effects = served.effects().into_iter();
    let sent =
        effects.filter(|(effect, _)| matches!(effect, Effect::Send { listener, .. } if *listener == ListenerId(0)));
    sent.map(|(_, bytes)| read("an answer", &bytes)).collect()
}

#[test]
fn a_query_is_given_up_after_the_time_of_cancel() {
    let stanza = stanza(&[upstream(1), upstream(2)]);
    let mut served = served([forward(&stanza)], Some(SECOND));
    ask(&mut served, "a.example A");
    served.pass(SECOND / 2);
    ask(&mut served, "b.example A");
    assert_eq!((answers(&mut served).len(), stanza.in_flight()), (0, 2));
    served.pass(SECOND / 2 - Duration::from_nanos(1));
    assert_eq!(answers(&mut served).len(), 0);
    served.pass(Duration::from_nanos(1));
    let first = answers(&mut served);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].metadata.response_code, ResponseCode::ServFail);
    assert_eq!(first[0].queries[0].name().to_string(), "a.example.");
    // Nothing more is tried for it, and the other one has the rest of its time.
    assert_eq!(stanza.in_flight(), 1);
    served.pass(SECOND / 2);
    assert_eq!((answers(&mut served).len(), stanza.in_flight()), (1, 0));
    served.pass(10 * SECOND);
    assert_eq!(answers(&mut served).len(), 0);
}

#[test]
fn without_cancel_the_forwarder_gives_up() {
    let stanza = stanza(&[upstream(1)]);
    let mut served = served([forward(&stanza)], None);
    ask(&mut served, "a.example A");
    served.pass(SECOND);
    assert_eq!((answers(&mut served).len(), stanza.in_flight()), (0, 1));
}

#[test]
fn a_canary_that_comes_back() {
    let (looping, other) = (upstream(1), upstream(2));
    let mut settings = Settings::new(NameBuf::root(), [Arc::clone(&looping), other].into());
    settings.policy = Policy::Sequential;
    let stanza = Arc::new(Stanza::new(settings));
    let canary = Arc::new(Canary::default());
    let mut served = served([Step::Loop(Arc::clone(&canary)), forward(&stanza)], None);
    canary.fly(name("1.2.example."));
    // Neither another name nor another type.
    for text in ["1.3.example HINFO", "1.2.example A", "1.2.example A"] {
        ask(&mut served, text);
    }
    ask(&mut served, "1.2.example HINFO");
    assert_eq!(canary.returned(), None);
    // In whatever letter case.
    let reply = served.ask("1.2.EXAMPLE HINFO");
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
    let returned = canary.returned().unwrap();
    assert_eq!(returned.upstream, Some(looping.address()));
    assert!(looping.is_out());
    // Later it is a question as any other.
    canary.land();
    ask(&mut served, "1.2.example HINFO");
}
