//! Every bound of a forwarder, at it and past it.

use std::time::Duration;

use nodens_engine::forward::{
    ASKS_MAX, CONNECTIONS_FEW, CONNECTIONS_MAX, Failed, POOL_SOCKETS, Policy, SOCKETS_MAX, Settings,
};
use nodens_engine::io::SocketError;
use nodens_tests::sim::asking::address;
use nodens_tests::sim::servers::Manner;
use nodens_wire::Rcode;

use super::{SECOND, asking, check_failed, check_nothing_is_left, stanza};

#[test]
fn questions_in_flight() {
    let (mut asking, stanza) = (asking(&[Manner::Slow(SECOND)]), stanza(1, |_| ()));
    for _ in 0..ASKS_MAX {
        asking.ask(&stanza, "a.example");
    }
    assert_eq!((asking.open(), asking.stats.forward.limited.get()), (ASKS_MAX, 0));
    let (sockets, _, _) = asking.servers.open();
    assert!(sockets <= 2 * POOL_SOCKETS, "{sockets}");
    let ticket = asking.ask(&stanza, "b.example");
    let outcome = asking.until(ticket);
    assert_eq!(outcome.result, Err(Failed::Crowded));
    assert_eq!(outcome.result.unwrap_err().rcode(), Rcode::SERVFAIL);
    assert_eq!(asking.stats.forward.limited.get(), 1);
    asking.pass(2 * SECOND);
    let outcomes = asking.take_outcomes();
    assert_eq!(outcomes.len(), ASKS_MAX);
    assert!(outcomes.values().all(|outcome| outcome.result.is_ok()));
    check_nothing_is_left(&mut asking, &stanza);
}

/// With few descriptors, sockets are shared; without any, a question fails and says why, and no upstream is blamed.
#[test]
fn descriptors() {
    for descriptors in [1, 3, 40] {
        let (mut asking, stanza) = (asking(&[Manner::Answers; 2]), stanza(2, |_| ()));
        asking.servers.limit_descriptors(descriptors);
        for i in 0..3000 {
            asking.ask_by(&stanza, &format!("n{i}.example"), i % 10 == 9 && descriptors > 3);
            asking.pass(Duration::from_millis(3));
        }
        asking.pass(SECOND);
        let outcomes = asking.take_outcomes();
        assert_eq!(outcomes.len(), 3000);
        let failed: Vec<_> = outcomes
            .values()
            .filter_map(|outcome| outcome.result.as_ref().err())
            .collect();
        assert!(failed.is_empty(), "{descriptors}: {} {:?}", failed.len(), failed[0]);
        assert!(asking.stats.forward.sockets_limited.get() > 0);
        for upstream in &stanza.settings().upstreams {
            assert_eq!(upstream.measures.healthcheck_failures(), 0);
        }
        check_nothing_is_left(&mut asking, &stanza);
    }
    for force_tcp in [false, true] {
        let change = |settings: &mut Settings| settings.force_tcp = force_tcp;
        let (mut asking, stanza) = (asking(&[Manner::Answers]), stanza(1, change));
        asking.servers.limit_descriptors(0);
        let outcome = asking.outcome(&stanza, "a.example");
        let net = if force_tcp { "tcp" } else { "udp" };
        check_failed(
            &outcome,
            &format!("dial {net} 192.0.2.1:53: socket: {}", SocketError::Exhausted),
            Duration::ZERO,
        );
        assert_eq!(asking.servers.asked(address(1)).probes, 0);
        asking.servers.limit_descriptors(100);
        assert!(asking.outcome(&stanza, "b.example").result.is_ok());
        check_nothing_is_left(&mut asking, &stanza);
    }
}

/// An upstream that resets everything costs as many attempts as are allowed, not a second of work.
#[test]
fn attempts() {
    let (mut asking, stanza) = (
        asking(&[Manner::Refusing; 3]),
        stanza(3, |settings| settings.attempts_max = Some(4)),
    );
    assert!(asking.outcome(&stanza, "a.example").result.is_err());
    let asked: usize = (1..=3)
        .map(|n| asking.servers.asked(address(n)))
        .map(|asked| asked.udp - asked.probes)
        .sum();
    assert_eq!(asked, 4);
}

/// With as many upstreams as there are sockets for and more, sockets are shared.
#[test]
fn sockets_of_a_worker() {
    const UPSTREAMS: u8 = 250;
    let mut asking = asking(&[Manner::Slow(SECOND); UPSTREAMS as usize]);
    let stanza = stanza(UPSTREAMS, |settings| settings.policy = Policy::Random);
    let mut asked = 0;
    // Each row of queries opens one at most; it takes many rows to draw them all.
    while asking.stats.forward.sockets_limited.get() == 0 {
        asked += 1;
        assert!(asked < 20 * ASKS_MAX, "the limit is never met");
        if asked % ASKS_MAX == 0 {
            asking.pass(2 * SECOND);
        }
        asking.ask(&stanza, "a.example");
    }
    let (sockets, _, _) = asking.servers.open();
    assert!(
        (SOCKETS_MAX..SOCKETS_MAX + usize::from(UPSTREAMS)).contains(&sockets),
        "{sockets}"
    );
    asking.pass(2 * SECOND);
    let outcomes = asking.take_outcomes();
    assert!(outcomes.len() == asked && outcomes.values().all(|outcome| outcome.result.is_ok()));
    check_nothing_is_left(&mut asking, &stanza);
}

/// An upstream that closes after each reply gets more connections than others, and no more than that.
#[test]
fn connections_to_one_that_closes() {
    let (mut asking, stanza) = (
        asking(&[Manner::Closing(1)]),
        stanza(1, |settings| settings.force_tcp = true),
    );
    for i in 0..120 {
        asking.ask(&stanza, &format!("n{i}.example"));
    }
    asking.pass(SECOND);
    let outcomes = asking.take_outcomes();
    assert!(outcomes.len() == 120 && outcomes.values().all(|outcome| outcome.result.is_ok()));
    let (_, _, most) = asking.servers.open();
    assert!((CONNECTIONS_FEW..=CONNECTIONS_MAX).contains(&most), "{most}");
    check_nothing_is_left(&mut asking, &stanza);
}
