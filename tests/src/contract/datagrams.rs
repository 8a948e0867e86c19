//! Rules of the listening UDP sockets.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nodens_engine::io::{
    BATCH_MAX, DATAGRAM_ROOM, Effect, ListenerSockets, Peer, Port, Transport, bind_tcp, bind_udp, probe_taken,
};

use super::Open;
use super::rig::{Reply, Rig, client, hears_nothing, receive};

pub(super) fn one_is_answered<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let client = rig.client();
    for query in [b"query".as_slice(), b"", &[7; 512]] {
        client.send(query).unwrap();
        rig.until(|handler| handler.datagrams.last().is_some_and(|seen| seen.query == query));
        if !query.is_empty() {
            assert_eq!(receive(&client), query);
        }
        let seen = rig.handler.datagrams.last().unwrap();
        assert_eq!(seen.peer.to_socket_addr(), client.local_addr().unwrap());
        assert!(seen.peer.is_ipv4());
        assert!(!seen.cut);
        assert_eq!(seen.local, Some(rig.udp.ip()));
    }
}

pub(super) fn no_reply_sends_nothing<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.reply = Reply::Nothing;
    let client = rig.client();
    client.send(b"query").unwrap();
    rig.until(|handler| handler.datagrams.len() == 1);
    assert!(hears_nothing(&client));
}

pub(super) fn many_come_in_batches<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let client = rig.client();
    let count = 3 * BATCH_MAX + 5;
    for number in 0..count {
        client.send(&number.to_be_bytes()).unwrap();
    }
    rig.until(|handler| handler.datagrams.len() == count);
    for number in 0..count {
        assert_eq!(receive(&client), number.to_be_bytes());
    }
    assert!(rig.handler.batches.iter().all(|batch| (1..=BATCH_MAX).contains(batch)));
    assert!(rig.handler.batches.len() < count / 2, "{:?}", rig.handler.batches);
    let counted = rig.counters.read();
    assert_eq!(counted.datagrams, count as u64);
    assert_eq!(counted.replies, count as u64);
    assert_eq!(counted.batches, rig.handler.batches.len() as u64);
    assert!(counted.waits > 0);
}

pub(super) fn oversized_is_cut<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let client = rig.client();
    for (len, cut) in [
        (DATAGRAM_ROOM, false),
        (DATAGRAM_ROOM + 1, true),
        (9000, true),
        (12, false),
    ] {
        let query: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let before = rig.handler.datagrams.len();
        client.send(&query).unwrap();
        rig.until(|handler| handler.datagrams.len() > before);
        let seen = rig.handler.datagrams.last().unwrap();
        assert_eq!((seen.cut, &seen.query[..]), (cut, &query[..len.min(DATAGRAM_ROOM)]));
    }
    assert_eq!(rig.counters.read().datagrams_cut, 2);
}

pub(super) fn long_replies_leave_by_effect<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.reply = Reply::Nothing;
    let client = rig.client();
    client.send(b"query").unwrap();
    rig.until(|handler| handler.datagrams.len() == 1);
    let seen = rig.handler.datagrams[0].clone();
    let long: Vec<u8> = (0..60_000u32).map(|at| at as u8).collect();
    for reply in [&long[..], b"short"] {
        let effect = Effect::Send {
            listener: seen.listener,
            peer: seen.peer,
            local: seen.local,
        };
        rig.send(effect, reply);
        assert_eq!(receive(&client), reply);
    }
}

/// More than a port may keep to leave together, and to two listeners in turn.
pub(super) fn late_replies_leave_with_the_next_wait<P: Port>(open: Open<P>) {
    const REPLIES: usize = 150;
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.reply = Reply::Nothing;
    let clients = [rig.client(), rig.client()];
    for client in &clients {
        client.send(b"query").unwrap();
    }
    rig.until(|handler| handler.datagrams.len() == 2);
    let seen = rig.handler.datagrams.clone();
    for number in 0..REPLIES {
        for seen in &seen {
            let effect = Effect::Send {
                listener: seen.listener,
                peer: seen.peer,
                local: seen.local,
            };
            // Some are so long that few of them leave together.
            let mut reply = vec![0; if number % 15 == 0 { 4000 } else { 8 }];
            reply[..8].copy_from_slice(&number.to_be_bytes());
            rig.apply(effect, &reply);
        }
    }
    let before = rig.counters.read().replies;
    rig.turn(Duration::ZERO);
    assert!(rig.counters.read().replies > before, "the last of them waited for it");
    for client in &clients {
        for number in 0..REPLIES {
            assert_eq!(receive(client)[..8], number.to_be_bytes());
        }
    }
}

pub(super) fn a_burst_is_served_later<P: Port>(open: Open<P>) {
    const BURST: usize = 5000;
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.reply = Reply::Nothing;
    let client = rig.client();
    for _ in 0..2 {
        rig.handler.datagrams.clear();
        let before = rig.counters.kernel_drops()[0].1;
        for number in 0..BURST {
            client.send(&number.to_be_bytes()).unwrap();
        }
        rig.settle();
        let dropped = rig.counters.kernel_drops()[0].1 - before;
        let numbers: HashSet<_> = rig.handler.datagrams.iter().map(|seen| seen.query.clone()).collect();
        assert_eq!(numbers.len(), rig.handler.datagrams.len(), "none comes twice");
        assert_eq!(numbers.len() as u64 + dropped, BURST as u64, "none is lost uncounted");
    }
    // And it goes on as if nothing had been.
    rig.handler.reply = Reply::Echo;
    client.send(b"query").unwrap();
    rig.settle();
    assert_eq!(receive(&client), b"query");
}

/// More at once than a port that shares its buffers among the sockets has buffers.
pub(super) fn a_burst_on_many_sockets<P: Port>(open: Open<P>) {
    const EACH: usize = 100;
    let mut sockets = Vec::new();
    let mut clients = Vec::new();
    for listener in 0..16 {
        let udp = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let tcp = bind_tcp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        clients.push(client(udp.local_addr().unwrap().as_socket().unwrap()));
        sockets.push(ListenerSockets {
            listener: nodens_engine::io::ListenerId(listener),
            udp: Some(udp),
            tcp: Some(tcp),
        });
    }
    let mut rig = Rig::with(open, sockets);
    rig.settle();
    for _ in 0..2 {
        for number in 0..EACH {
            for client in &clients {
                client.send(&number.to_be_bytes()).unwrap();
            }
        }
        rig.settle();
        for client in &clients {
            for number in 0..EACH {
                assert_eq!(receive(client), number.to_be_bytes());
            }
        }
    }
    assert_eq!(rig.counters.read().receive_errors, 0);
}

pub(super) fn drops_are_counted<P: Port>(open: Open<P>) {
    let socket = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let tcp = bind_tcp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = nodens_engine::io::ListenerId(7);
    let mut rig = Rig::with(
        open,
        vec![ListenerSockets {
            listener,
            udp: Some(socket),
            tcp: Some(tcp),
        }],
    );
    let client = rig.client();
    for _ in 0..200 {
        client.send(&[0; 100]).unwrap();
    }
    rig.settle();
    let [(id, dropped)] = rig.counters.kernel_drops()[..] else {
        panic!("one listener")
    };
    assert_eq!(id, listener);
    assert!(dropped > 0);
    assert_eq!(dropped + rig.handler.datagrams.len() as u64, 200);
    drop(rig.port);
    assert_eq!(
        rig.counters.kernel_drops(),
        [(id, dropped)],
        "the count outlives the socket"
    );
}

pub(super) fn replies_leave_from_the_address_asked<P: Port>(open: Open<P>) {
    for wildcard in ["0.0.0.0", "::"] {
        let mut rig = Rig::on(open, wildcard);
        for address in ["127.0.0.1", "127.0.0.2", "127.9.9.9"] {
            let address: IpAddr = address.parse().unwrap();
            // A connected client hears nobody but the address it asked.
            let client = client(SocketAddr::new(address, rig.udp.port()));
            client.send(b"query").unwrap();
            let before = rig.handler.datagrams.len();
            rig.until(|handler| handler.datagrams.len() > before);
            assert_eq!(receive(&client), b"query");
            let seen = rig.handler.datagrams.last().unwrap().clone();
            assert_eq!(seen.local, Some(address));
            assert_eq!(seen.peer.to_socket_addr(), client.local_addr().unwrap());
            assert!(seen.peer.is_ipv4());
            let effect = Effect::Send {
                listener: seen.listener,
                peer: seen.peer,
                local: seen.local,
            };
            rig.send(effect, b"more");
            assert_eq!(receive(&client), b"more");
        }
    }
}

pub(super) fn ipv6_and_its_wildcard<P: Port>(open: Open<P>) {
    for bound in ["::1", "::"] {
        let mut rig = Rig::on(open, bound);
        let client = client(SocketAddr::new("::1".parse().unwrap(), rig.udp.port()));
        client.send(b"query").unwrap();
        rig.until(|handler| handler.datagrams.len() == 1);
        assert_eq!(receive(&client), b"query");
        let seen = &rig.handler.datagrams[0];
        assert_eq!(seen.local, Some("::1".parse().unwrap()));
        assert_eq!(seen.peer.to_socket_addr(), client.local_addr().unwrap());
        assert!(!seen.peer.is_ipv4());
    }
}

/// A wildcard's listener may have sockets of its own for addresses of the host, which know their address without asking.
pub(super) fn a_wildcard_with_sockets_of_its_own<P: Port>(open: Open<P>) {
    let everywhere = bind_udp("[::]:0".parse().unwrap()).unwrap();
    let port = everywhere.local_addr().unwrap().as_socket().unwrap().port();
    let own = bind_udp(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
    let listener = nodens_engine::io::ListenerId(3);
    let sockets = |udp, tcp| ListenerSockets {
        listener,
        udp: Some(udp),
        tcp,
    };
    let tcp = bind_tcp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let mut rig = Rig::with(open, vec![sockets(everywhere, Some(tcp)), sockets(own, None)]);
    for address in ["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"] {
        let address: IpAddr = address.parse().unwrap();
        let client = client(SocketAddr::new(address, port));
        client.send(b"query").unwrap();
        let before = rig.handler.datagrams.len();
        rig.until(|handler| handler.datagrams.len() > before);
        assert_eq!(receive(&client), b"query");
        let seen = rig.handler.datagrams.last().unwrap().clone();
        assert_eq!((seen.listener, seen.local), (listener, Some(address)));
        let effect = Effect::Send {
            listener,
            peer: seen.peer,
            local: seen.local,
        };
        rig.send(effect, b"more");
        assert_eq!(receive(&client), b"more");
    }
}

pub(super) fn listeners_are_told_apart<P: Port>(open: Open<P>) {
    let socket = |address: &str| bind_udp(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    let mut sockets = Vec::new();
    let mut addresses = Vec::new();
    for (listener, address) in ["127.0.0.1", "127.0.0.1", "::", "127.0.0.3"].into_iter().enumerate() {
        let udp = socket(address);
        addresses.push(udp.local_addr().unwrap().as_socket().unwrap());
        let tcp = bind_tcp(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
        sockets.push(ListenerSockets {
            listener: nodens_engine::io::ListenerId(listener as u16 * 10),
            udp: Some(udp),
            tcp: Some(tcp),
        });
    }
    let mut rig = Rig::with(open, sockets);
    let clients: Vec<_> = addresses
        .iter()
        .map(|address| match address.ip().is_unspecified() {
            true => client(SocketAddr::new("::1".parse().unwrap(), address.port())),
            false => client(*address),
        })
        .collect();
    // In turns, so that a port that takes them from one queue has to sort them.
    for _ in 0..5 {
        for (listener, client) in clients.iter().enumerate() {
            client.send(&[listener as u8; 4]).unwrap();
        }
    }
    rig.until(|handler| handler.datagrams.len() == 20);
    for seen in &rig.handler.datagrams {
        assert_eq!(seen.listener.0, u16::from(seen.query[0]) * 10);
    }
    for (listener, client) in clients.iter().enumerate() {
        for _ in 0..5 {
            assert_eq!(receive(client), [listener as u8; 4]);
        }
    }
}

pub(super) fn unreachable_clients_harm_nobody<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    // Nobody is there any more when the reply leaves.
    let gone = rig.client();
    let asking = rig.client();
    gone.send(b"gone").unwrap();
    drop(gone);
    asking.send(b"query").unwrap();
    rig.until(|handler| handler.datagrams.len() == 2);
    assert_eq!(receive(&asking), b"query");
    // No socket has port 0, and none has a family that the listener does not speak.
    for peer in ["127.0.0.1:0", "[::1]:53"] {
        let effect = Effect::Send {
            listener: rig.handler.datagrams[0].listener,
            peer: Peer::from_socket_addr(peer.parse().unwrap()),
            local: None,
        };
        rig.send(effect, b"lost");
    }
    assert_eq!(rig.counters.read().send_errors, 2);
    asking.send(b"again").unwrap();
    rig.until(|handler| handler.datagrams.len() == 3);
    assert_eq!(receive(&asking), b"again");
}

pub(super) fn a_group_shares_its_clients<P: Port>(open: Open<P>) {
    let mut first = Rig::on(open, "127.0.0.1");
    let sockets = ListenerSockets {
        listener: nodens_engine::io::ListenerId(0),
        udp: Some(bind_udp(first.udp).unwrap()),
        tcp: Some(bind_tcp(first.tcp).unwrap()),
    };
    let mut second = Rig::with(open, vec![sockets]);
    let clients: Vec<_> = (0..64).map(|_| first.client()).collect();
    for client in &clients {
        client.send(b"query").unwrap();
    }
    first.settle();
    second.settle();
    for client in &clients {
        assert_eq!(receive(client), b"query");
    }
    let (one, other) = (first.handler.datagrams.len(), second.handler.datagrams.len());
    assert_eq!(one + other, clients.len());
    assert!(one > 0 && other > 0, "{one} and {other}");
}

pub(super) fn a_closed_port_lets_go<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let client = rig.client();
    client.send(b"query").unwrap();
    rig.until(|handler| handler.datagrams.len() == 1);
    probe_taken(rig.udp, Transport::Udp).unwrap_err();
    let (udp, tcp) = (rig.udp, rig.tcp);
    drop(rig);
    probe_taken(udp, Transport::Udp).unwrap();
    probe_taken(tcp, Transport::Tcp).unwrap();
}
