//! Replies that nobody asked for: by guess, late, or too many.

use std::time::Duration;

use nodens_engine::forward::{GUESSES_MAX, POOL_SOCKETS, Policy, SOCKET_RUN};
use nodens_engine::io::UpstreamId;
use nodens_tests::seed::Seeded;
use nodens_tests::sim::asking::address;
use nodens_tests::sim::servers::{Manner, Told};

use super::{SECOND, asking, check_answered, check_nothing_is_left, stanza};

/// What an attacker would have believed: the right question, an address of his own, and an id that he guesses.
fn forged(name: &[u8], id: u16) -> Vec<u8> {
    let mut forged = id.to_be_bytes().to_vec();
    forged.extend_from_slice(b"\x81\x80\0\x01\0\x01\0\0\0\0");
    forged.extend_from_slice(name);
    forged.extend_from_slice(b"\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04\x06\x06\x06\x06");
    forged
}

/// He does not know the port, nor the id: of his guesses a few reach a socket.
#[test]
fn a_million_guesses_from_outside() {
    let (mut asking, stanza) = (asking(&[Manner::Slow(SECOND)]), stanza(1, |_| ()));
    let mut seeded = Seeded::new(7);
    let mut tickets = Vec::new();
    for i in 0..100 {
        tickets.push(asking.ask(&stanza, &format!("n{i:02}.example")));
    }
    let ports = 28_232;
    let sockets = asking.servers.sockets();
    for guess in 0..1_000_000 {
        let name = format!("\x03n{:02}\x07example\0", guess % 100);
        let told = forged(name.as_bytes(), seeded.next() as u16);
        // Each socket has one of the ports; what is sent to the others reaches nobody.
        let port = seeded.below(ports);
        let socket = sockets.get(port).copied().unwrap_or(UpstreamId(u32::MAX - port as u32));
        asking.hand(&Told::Datagram(socket, told));
    }
    for ticket in tickets {
        let outcome = asking.until(ticket);
        assert!(!outcome.result.unwrap().bytes.ends_with(&[6, 6, 6, 6]));
    }
    check_nothing_is_left(&mut asking, &stanza);
}

/// Even one who always finds the port gets few guesses before the question goes elsewhere, and then over TCP.
#[test]
fn a_million_guesses_at_the_right_port() {
    let (mut asking, stanza) = (asking(&[Manner::Slow(SECOND)]), stanza(1, |_| ()));
    let mut seeded = Seeded::new(9);
    let ticket = asking.ask(&stanza, "a.example");
    let name = b"\x01a\x07example\0";
    for guess in 0..1_000_000 {
        let sockets = asking.servers.sockets();
        let Some(socket) = sockets.last() else {
            assert!((GUESSES_MAX..=4 * GUESSES_MAX).contains(&guess), "{guess}");
            break;
        };
        asking.hand(&Told::Datagram(*socket, forged(name, seeded.next() as u16)));
    }
    assert_eq!(asking.servers.sockets(), []);
    assert_eq!(asking.servers.asked(address(1)).opened, 1);
    let outcome = asking.until(ticket);
    check_answered(&outcome, 1, SECOND);
    assert!(!outcome.result.unwrap().bytes.ends_with(&[6, 6, 6, 6]));
    check_nothing_is_left(&mut asking, &stanza);
}

/// Replies that come too late are no guesses.
#[test]
fn a_slow_upstream_is_no_attacker() {
    let (mut asking, stanza) = (
        asking(&[Manner::Slow(Duration::from_millis(2100))]),
        stanza(1, |settings| settings.attempts_max = Some(1)),
    );
    for i in 0..2000 {
        asking.ask(&stanza, &format!("n{i}.example"));
        asking.pass(Duration::from_millis(5));
    }
    asking.pass(5 * SECOND);
    assert_eq!(asking.take_outcomes().len(), 2000);
    assert_eq!(asking.stats.forward.unasked.get(), 0);
    assert!(asking.stats.forward.late.get() > 1900);
    let (_, _, most) = asking.servers.open();
    assert!(most <= 140, "{most}");
}

/// Ids and sockets: no two questions look alike, and a port does not stay for long.
#[test]
fn ids_and_ports() {
    let (mut asking, stanza) = (
        asking(&[Manner::Answers]),
        stanza(1, |settings| settings.policy = Policy::Random),
    );
    let mut ids = [0u32; 16];
    let mut drawn = Vec::new();
    for i in 0..1000 * usize::from(SOCKET_RUN) {
        check_answered(&asking.outcome(&stanza, &format!("n{i}.example")), 1, Duration::ZERO);
        let asked = asking.servers.asked(address(1));
        for (bit, count) in ids.iter_mut().enumerate() {
            *count += u32::from(asked.id >> bit & 1);
        }
        if i % usize::from(SOCKET_RUN) == 0 {
            drawn.push(asked.socket);
        }
        assert_eq!(drawn.last(), Some(&asked.socket), "query {i} of a row");
    }
    let half = 500 * u32::from(SOCKET_RUN);
    assert!(ids.iter().all(|count| count.abs_diff(half) < half / 20), "{ids:?}");
    // As often as it is drawn by chance, a socket follows itself.
    let stays = drawn.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((5..30).contains(&stays), "{stays}");
    let first = asking.servers.sockets();
    assert_eq!(first.len(), POOL_SOCKETS);
    for _ in 0..80 {
        asking.outcome(&stanza, "again.example");
        asking.pass(SECOND / 2);
    }
    let later = asking.servers.sockets();
    assert!(first.iter().all(|socket| !later.contains(socket)));
    check_nothing_is_left(&mut asking, &stanza);
}

#[test]
fn a_port_serves_a_thousand_questions() {
    let (mut asking, stanza) = (asking(&[Manner::Answers]), stanza(1, |_| ()));
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..64 * 1500 {
        asking.ask(&stanza, "a.example");
        if i % 50 == 0 {
            asking.pass(Duration::from_millis(2));
            seen.extend(asking.servers.sockets());
            asking.take_outcomes();
        }
    }
    assert!((100..=130).contains(&seen.len()), "{}", seen.len());
    check_nothing_is_left(&mut asking, &stanza);
}
