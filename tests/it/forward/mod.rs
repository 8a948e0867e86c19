//! Asking other servers: what becomes of questions, of what is open, and of lies.

mod attacks; // replies that nobody asked for
mod limits; // every bound, at it and past it
mod seeds; // questions and faults by seed
mod streams; // TCP and TLS

use std::sync::Arc;
use std::time::Duration;

use nodens_engine::forward::{Checking, InUse, Policy, Proto, Settings, Stanza};
use nodens_tests::sim::asking::{Asking, Outcome, address, settings};
use nodens_tests::sim::servers::Manner;
use nodens_wire::{Rcode, Section};

const SECOND: Duration = Duration::from_secs(1);

fn stanza(n: u8, change: impl FnOnce(&mut Settings)) -> Arc<Stanza> {
    let mut settings = settings(n);
    settings.policy = Policy::Sequential;
    change(&mut settings);
    Arc::new(Stanza::new(settings))
}

/// One forwarder, and a server for each manner.
fn asking(manners: &[Manner]) -> Asking {
    let mut asking = Asking::new(1);
    for (n, manner) in (1..).zip(manners) {
        asking.servers.set(address(n), *manner);
    }
    asking
}

#[track_caller]
fn check_answered(outcome: &Outcome, from: u8, took: Duration) {
    let reply = outcome.result.as_ref().expect("a reply");
    assert_eq!((reply.said().rcode(), reply.from), (Rcode::NOERROR, address(from)));
    let slack = Duration::from_millis(20);
    assert!(outcome.took >= took && outcome.took < took + slack, "{outcome:?}");
}

#[track_caller]
fn check_failed(outcome: &Outcome, text: &str, took: Duration) {
    assert_eq!(outcome.result.as_ref().unwrap_err().to_string(), text);
    let slack = Duration::from_millis(20);
    assert!(outcome.took >= took && outcome.took < took + slack, "{outcome:?}");
}

/// Nothing is left of what was asked, a while after.
#[track_caller]
fn check_nothing_is_left(asking: &mut Asking, stanza: &Arc<Stanza>) {
    asking.rest();
    assert_eq!(asking.forwarder.in_use(), InUse::default());
    let (sockets, streams, _) = asking.servers.open();
    assert_eq!((sockets, streams, asking.open(), stanza.in_flight()), (0, 0, 0, 0));
    assert_eq!(asking.forwarder.poll_timeout(), None, "an idle forwarder wakes nobody");
}

#[test]
fn a_question_is_answered() {
    for by_stream in [false, true] {
        let (mut asking, stanza) = (asking(&[Manner::Answers]), stanza(1, |_| ()));
        let ticket = asking.ask_by(&stanza, "WwW.cedar.example", by_stream);
        assert_eq!(stanza.in_flight(), 1);
        let outcome = asking.until(ticket);
        check_answered(&outcome, 1, Duration::ZERO);
        let asked = asking.servers.asked(address(1));
        assert_eq!((asked.udp, asked.stream), if by_stream { (0, 1) } else { (1, 0) });
        let measures = &stanza.settings().upstreams[0].measures;
        assert_eq!(measures.durations[0].count(), 1);
        let proto = if by_stream { Proto::Tcp } else { Proto::Udp };
        assert_eq!(measures.sockets(proto), (0, 1));
        check_nothing_is_left(&mut asking, &stanza);
    }
}

#[test]
fn policies() {
    let first = |policy, n| {
        let (mut asking, stanza) = (
            asking(&[Manner::Answers; 3]),
            stanza(3, |settings| settings.policy = policy),
        );
        let mut counts = [0; 3];
        let mut order = Vec::new();
        for i in 0..n {
            let reply = asking.outcome(&stanza, &format!("n{i}.example")).result.unwrap();
            let at = (1..=3).position(|at| address(at) == reply.from).unwrap();
            counts[at] += 1;
            order.push(at);
        }
        (counts, order)
    };
    assert_eq!(first(Policy::Sequential, 5).0, [5, 0, 0]);
    assert_eq!(first(Policy::RoundRobin, 5).1, [1, 2, 0, 1, 2]);
    assert!(
        first(Policy::Random, 300)
            .0
            .iter()
            .all(|count| (70..130).contains(count))
    );
    assert!(
        first(Policy::LeastConn, 300)
            .0
            .iter()
            .all(|count| (70..130).contains(count))
    );
}

#[test]
fn the_fewest_in_flight_are_asked() {
    let mut asking = asking(&[Manner::Slow(SECOND), Manner::Slow(SECOND), Manner::Slow(SECOND)]);
    let stanza = stanza(3, |settings| settings.policy = Policy::LeastConn);
    for i in 0..30 {
        asking.ask(&stanza, &format!("n{i}.example"));
    }
    for n in 1..=3 {
        assert_eq!(asking.servers.asked(address(n)).udp, 10);
    }
    asking.rest();
    assert_eq!(asking.take_outcomes().len(), 30);
}

#[test]
fn silence() {
    let (mut asking, stanza) = (asking(&[Manner::Silent]), stanza(1, |_| ()));
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(&outcome, "read udp ->192.0.2.1:53: i/o timeout", 4 * SECOND);
    assert_eq!(outcome.result.unwrap_err().ede(), Some(22));

    let (mut asking, stanza) = (self::asking(&[Manner::Silent; 2]), self::stanza(2, |_| ()));
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(&outcome, "read udp ->192.0.2.1:53: i/o timeout", 6 * SECOND);
    // A stanza that is gone is not probed for.
    drop(stanza);
    asking.rest();
    assert_eq!(asking.forwarder.in_use(), InUse::default());
}

#[test]
fn refusal() {
    for (force_tcp, text) in [
        (false, "read udp ->192.0.2.1:53: read: connection refused"),
        (true, "dial tcp 192.0.2.1:53: connect: connection refused"),
    ] {
        let mut asking = asking(&[Manner::Refusing]);
        let stanza = stanza(1, |settings| settings.force_tcp = force_tcp);
        let outcome = asking.outcome(&stanza, "a.example");
        check_failed(&outcome, text, Duration::ZERO);
        let asked = asking.servers.asked(address(1));
        let asked = if force_tcp { asked.opened } else { asked.udp };
        assert_eq!(asked, 3, "two attempts and a probe");
    }
}

#[test]
fn lies_are_not_believed() {
    for by_stream in [false, true] {
        let (mut asking, stanza) = (asking(&[Manner::Lying]), stanza(1, |_| ()));
        let ticket = asking.ask_by(&stanza, "a.example", by_stream);
        check_answered(&asking.until(ticket), 1, Duration::ZERO);
        assert!(asking.stats.forward.unasked.get() >= 1);
        check_nothing_is_left(&mut asking, &stanza);
    }
}

#[test]
fn truncated_replies() {
    // As they are, or fetched again.
    for (prefer_udp, by_stream) in [(false, false), (true, false), (true, true)] {
        let mut asking = asking(&[Manner::Truncating]);
        let stanza = stanza(1, |settings| settings.prefer_udp = prefer_udp);
        let ticket = asking.ask_by(&stanza, "a.example", by_stream);
        let reply = asking.until(ticket).result.unwrap();
        let asked = asking.servers.asked(address(1));
        assert_eq!((asked.udp, asked.stream), (1, usize::from(prefer_udp)));
        assert_eq!(
            (reply.said().flags().tc(), reply.said().count(Section::Answer)),
            (!prefer_udp, u16::from(prefer_udp))
        );
        assert!(!reply.said().is_nodata());
        check_nothing_is_left(&mut asking, &stanza);
    }
    // A reply that was cut in the middle says so without a record.
    let (mut asking, stanza) = (asking(&[Manner::Cutting]), stanza(1, |_| ()));
    let reply = asking.outcome(&stanza, "a.example").result.unwrap();
    assert!(reply.said().flags().tc());
    let sections = [Section::Answer, Section::Authority, Section::Additional];
    assert_eq!(sections.map(|section| reply.said().count(section)), [0; 3]);
    assert!(reply.said().is_whole());
}

#[test]
fn a_truncated_reply_is_better_than_none() {
    let mut asking = asking(&[Manner::Truncating]);
    let stanza = stanza(1, |settings| settings.prefer_udp = true);
    let ticket = asking.ask(&stanza, "a.example");
    // Over TCP nobody answers any more.
    while asking.servers.asked(address(1)).opened == 0 {
        asking.step(None);
    }
    asking.servers.set(address(1), Manner::Silent);
    let outcome = asking.until(ticket);
    assert!(outcome.result.unwrap().said().flags().tc());
}

#[test]
fn failover_and_what_a_plan_wants_to_know() {
    let failover = |settings: &mut Settings| settings.failover = [Rcode::REFUSED, Rcode::SERVFAIL].into();
    let refused = Manner::Says(Rcode::REFUSED);
    let (mut asking, stanza) = (asking(&[refused, Manner::Answers]), stanza(2, failover));
    check_answered(&asking.outcome(&stanza, "a.example"), 2, Duration::ZERO);
    // The last one's reply is used.
    let servfail = Manner::Says(Rcode::SERVFAIL);
    let (mut asking, stanza) = (self::asking(&[refused, servfail]), self::stanza(2, failover));
    let reply = asking.outcome(&stanza, "a.example").result.unwrap();
    assert_eq!((reply.said().rcode(), reply.from), (Rcode::SERVFAIL, address(2)));
    // Or the one there is.
    let (mut asking, stanza) = (self::asking(&[refused, Manner::Refusing]), self::stanza(2, failover));
    assert_eq!(
        asking.outcome(&stanza, "a.example").result.unwrap().said().rcode(),
        Rcode::REFUSED
    );
    // Without the option the first reply is the one.
    let (mut asking, stanza) = (self::asking(&[refused, Manner::Answers]), self::stanza(2, |_| ()));
    assert_eq!(
        asking.outcome(&stanza, "a.example").result.unwrap().said().rcode(),
        Rcode::REFUSED
    );

    let next = |settings: &mut Settings| {
        settings.next = [Rcode::NXDOMAIN].into();
        settings.next_on_nodata = true;
    };
    let (mut asking, stanza) = (self::asking(&[Manner::Empty]), self::stanza(1, next));
    let reply = asking.outcome(&stanza, "a.example").result.unwrap();
    let said = reply.said();
    assert!(said.is_nodata() && stanza.goes_on_after(said.rcode(), said.is_nodata()));
    assert!(stanza.goes_on_after(Rcode::NXDOMAIN, false) && !stanza.goes_on_after(Rcode::SERVFAIL, false));
}

#[test]
fn too_many_at_once_are_refused() {
    let mut asking = asking(&[Manner::Slow(SECOND)]);
    let stanza = stanza(1, |settings| settings.concurrent_max = Some(2));
    let tickets: Vec<u64> = (0..3).map(|i| asking.ask(&stanza, &format!("n{i}.example"))).collect();
    let refused = asking.until(tickets[2]);
    check_failed(&refused, "concurrent queries exceeded maximum 2", Duration::ZERO);
    assert_eq!(refused.result.unwrap_err().rcode(), Rcode::REFUSED);
    assert_eq!(asking.stats.forward.rejected.get(), 1);
    check_answered(&asking.until(tickets[0]), 1, SECOND);
    check_answered(&asking.until(tickets[1]), 1, SECOND);
    let outcome = asking.outcome(&stanza, "again.example");
    check_answered(&outcome, 1, SECOND);
    check_nothing_is_left(&mut asking, &stanza);
}

#[test]
fn nobody_waits_any_more() {
    for by_stream in [false, true] {
        let (mut asking, stanza) = (asking(&[Manner::Slow(SECOND)]), stanza(1, |_| ()));
        let ticket = asking.ask_by(&stanza, "a.example", by_stream);
        let other = asking.ask_by(&stanza, "b.example", by_stream);
        asking.cancel(ticket);
        assert_eq!(stanza.in_flight(), 1);
        check_answered(&asking.until(other), 1, SECOND);
        assert!(asking.take_outcomes().is_empty());
        check_nothing_is_left(&mut asking, &stanza);
    }
}

/// A dead upstream costs one query its time-out, and no query its answer.
#[test]
fn one_of_three_dies() {
    for manner in [Manner::Silent, Manner::Refusing, Manner::Away] {
        for policy in [Policy::Random, Policy::RoundRobin, Policy::Sequential] {
            for by_stream in [false, true] {
                let mut asking = asking(&[Manner::Answers; 3]);
                let stanza = stanza(3, |settings| settings.policy = policy);
                let mut times = Vec::new();
                let begin = asking.clock.now();
                for i in 0..1200 {
                    if i == 200 {
                        asking.servers.set(address(1), manner);
                        asking.servers.end_streams(address(1));
                    }
                    asking.ask_by(&stanza, &format!("n{i}.example"), by_stream);
                    asking.pass(Duration::from_millis(5));
                    for outcome in asking.take_outcomes().into_values() {
                        let reply = outcome.result.unwrap();
                        assert_eq!(reply.said().rcode(), Rcode::NOERROR);
                        times.push((asking.clock.now().since(begin), outcome.took));
                    }
                }
                asking.pass(3 * SECOND);
                let slow = |&&(_, took): &&(Duration, Duration)| took > Duration::from_millis(50);
                let died = SECOND;
                let late = times
                    .iter()
                    .filter(slow)
                    .filter(|(at, _)| *at > died + 2 * SECOND + Duration::from_millis(50));
                assert_eq!(late.count(), 0, "{manner:?} {policy:?} {by_stream}");
                assert!(times.iter().all(|(_, took)| *took < 5 * SECOND / 2));
                // It comes back.
                asking.servers.set(address(1), Manner::Answers);
                asking.pass(4 * SECOND);
                let before = asking.servers.asked(address(1));
                for i in 0..30 {
                    asking.ask(&stanza, &format!("m{i}.example"));
                    asking.pass(Duration::from_millis(5));
                }
                assert!(asking.servers.asked(address(1)).udp > before.udp);
                check_nothing_is_left(&mut asking, &stanza);
            }
        }
    }
}

#[test]
fn all_are_down() {
    // Until the third probe has failed they are asked, then any one of them.
    let (mut asking, stanza) = (asking(&[Manner::Silent; 2]), stanza(2, |_| ()));
    asking.outcome(&stanza, "a.example");
    asking.pass(2 * SECOND);
    let broken = asking.stats.forward.healthcheck_broken.get();
    let outcome = asking.outcome(&stanza, "b.example");
    assert!(outcome.result.is_err() && outcome.took < 2 * SECOND + SECOND / 10);
    assert_eq!(asking.stats.forward.healthcheck_broken.get(), broken + 1);
    assert!(stanza.settings().upstreams[0].measures.healthcheck_failures() > 2);
    // One that answers again is found by a probe.
    asking.servers.set(address(2), Manner::Answers);
    asking.pass(2 * SECOND);
    check_answered(&asking.outcome(&stanza, "c.example"), 2, Duration::ZERO);

    let (mut asking, stanza) = (
        self::asking(&[Manner::Silent]),
        self::stanza(1, |settings| settings.failfast = true),
    );
    asking.outcome(&stanza, "a.example");
    asking.pass(3 * SECOND);
    let asked = asking.servers.asked(address(1));
    check_failed(
        &asking.outcome(&stanza, "b.example"),
        "no healthy proxies",
        Duration::ZERO,
    );
    assert_eq!(asking.servers.asked(address(1)), asked);
}

#[test]
fn without_probes() {
    let (mut asking, stanza) = (
        asking(&[Manner::Silent, Manner::Answers]),
        stanza(2, |settings| settings.checking = Checking::Never),
    );
    for i in 0..3 {
        check_answered(&asking.outcome(&stanza, &format!("n{i}.example")), 2, 2 * SECOND);
    }
    assert_eq!(asking.servers.asked(address(1)).probes, 0);
    check_nothing_is_left(&mut asking, &stanza);
    // As the old proxy counted.
    let (mut asking, stanza) = (
        self::asking(&[Manner::Refusing]),
        self::stanza(1, |settings| {
            settings.failfast = true;
            settings.checking = Checking::Failures {
                fails_max: 3,
                timeout: 5 * SECOND,
            };
        }),
    );
    asking.outcome(&stanza, "a.example");
    asking.outcome(&stanza, "b.example");
    asking.servers.set(address(1), Manner::Answers);
    check_failed(
        &asking.outcome(&stanza, "c.example"),
        "no healthy proxies",
        Duration::ZERO,
    );
    asking.pass(5 * SECOND);
    check_answered(&asking.outcome(&stanza, "d.example"), 1, Duration::ZERO);
    check_nothing_is_left(&mut asking, &stanza);
}

#[test]
fn an_upstream_without_edns() {
    for repeats in [true, false] {
        let (mut asking, stanza) = (asking(&[Manner::Old { repeats }]), stanza(1, |_| ()));
        check_answered(&asking.outcome(&stanza, "a.example"), 1, Duration::ZERO);
        assert_eq!(asking.servers.asked(address(1)).udp, 2);
        check_nothing_is_left(&mut asking, &stanza);
    }
    // One that knows it means what it says.
    let (mut asking, stanza) = (asking(&[Manner::Says(Rcode::FORMERR)]), stanza(1, |_| ()));
    let reply = asking.outcome(&stanza, "a.example").result.unwrap();
    assert_eq!(
        (reply.said().rcode(), asking.servers.asked(address(1)).udp),
        (Rcode::FORMERR, 1)
    );
}

/// It understands a question without EDNS no better: the client hears what it says.
#[test]
fn an_upstream_that_refuses_without_the_question() {
    let (mut asking, stanza) = (asking(&[Manner::Bare]), stanza(1, |_| ()));
    let reply = asking.outcome(&stanza, "a.example").result.unwrap();
    assert_eq!(
        (reply.said().rcode(), asking.servers.asked(address(1)).udp),
        (Rcode::FORMERR, 2)
    );
    check_nothing_is_left(&mut asking, &stanza);
}

/// The first of two answers late. It is asked once, not again and again.
#[test]
fn a_slow_upstream_comes_last() {
    let manners = [Manner::Slow(Duration::from_millis(2300)), Manner::Answers];
    let (mut asking, stanza) = (asking(&manners), stanza(2, |_| ()));
    check_answered(&asking.outcome(&stanza, "a.example"), 2, 2 * SECOND);
    asking.pass(SECOND);
    for i in 0..20 {
        check_answered(&asking.outcome(&stanza, &format!("n{i}.example")), 2, Duration::ZERO);
        asking.pass(SECOND / 2);
    }
}

/// A lost datagram is no silence: with the next reply the upstream is back.
#[test]
fn one_lost_datagram() {
    let (mut asking, stanza) = (asking(&[Manner::Silent, Manner::Answers]), stanza(2, |_| ()));
    let lost = asking.ask(&stanza, "lost.example");
    asking.servers.set(address(1), Manner::Slow(SECOND / 2));
    asking.pass(Duration::from_millis(1900));
    let other = asking.ask(&stanza, "other.example");
    // At two seconds both go to the second; then the first one's reply comes.
    check_answered(&asking.until(lost), 2, 2 * SECOND);
    check_answered(&asking.until(other), 2, SECOND / 10);
    asking.pass(SECOND / 2);
    check_answered(&asking.outcome(&stanza, "a.example"), 1, SECOND / 2);
}

/// A configuration that is gone takes its probes with it; the next one has its own.
#[test]
fn upstreams_outlive_their_stanza() {
    let (mut asking, first) = (asking(&[Manner::Silent, Manner::Answers]), stanza(2, |_| ()));
    asking.outcome(&first, "a.example");
    asking.pass(5 * SECOND);
    let second = Arc::new(Stanza::new(first.settings().clone()));
    drop(first);
    asking.pass(2 * SECOND);
    check_answered(&asking.outcome(&second, "b.example"), 2, Duration::ZERO);
    asking.servers.set(address(1), Manner::Answers);
    asking.pass(2 * SECOND);
    check_answered(&asking.outcome(&second, "c.example"), 1, Duration::ZERO);
    check_nothing_is_left(&mut asking, &second);
}

/// Questions that come back from an upstream do not go there again.
#[test]
fn an_upstream_that_was_taken_out() {
    let (mut asking, stanza) = (asking(&[Manner::Answers; 2]), stanza(2, |_| ()));
    stanza.settings().upstreams[0].take_out();
    check_answered(&asking.outcome(&stanza, "a.example"), 2, Duration::ZERO);
    stanza.settings().upstreams[1].take_out();
    check_failed(
        &asking.outcome(&stanza, "b.example"),
        "no healthy proxies",
        Duration::ZERO,
    );
    assert_eq!(
        (
            asking.servers.asked(address(1)).udp,
            asking.servers.asked(address(2)).udp
        ),
        (0, 1)
    );
    check_nothing_is_left(&mut asking, &stanza);
}

/// With one attempt allowed, a question is not taken from an upstream that may still answer it.
#[test]
fn the_only_attempt_is_waited_for() {
    let (mut asking, stanza) = (
        asking(&[Manner::Silent, Manner::Answers]),
        stanza(2, |settings| settings.attempts_max = Some(1)),
    );
    let lost = asking.ask(&stanza, "lost.example");
    asking.servers.set(address(1), Manner::Slow(SECOND));
    asking.pass(3 * SECOND / 2);
    let other = asking.ask(&stanza, "other.example");
    check_failed(&asking.until(lost), "read udp ->192.0.2.1:53: i/o timeout", 2 * SECOND);
    check_answered(&asking.until(other), 1, SECOND);
}
