//! Listening sockets that come and go while a port serves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use nodens_engine::io::{Effect, ListenerId, ListenerSockets, Sockets, Transport, bind_tcp, bind_udp, probe_taken};
use socket2::Socket;

use super::Open;
use super::rig::{Event, Rig, SILENCE, client, hears_nothing, receive};

const SECOND: ListenerId = ListenerId(1);

/// Both sockets of another listener, and where they are.
fn another() -> (ListenerSockets, SocketAddr, SocketAddr) {
    let any = "127.0.0.1:0".parse().unwrap();
    let (udp, tcp) = (bind_udp(any).unwrap(), bind_tcp(any).unwrap());
    let address = |socket: &Socket| socket.local_addr().unwrap().as_socket().unwrap();
    let places = (address(&udp), address(&tcp));
    let sockets = ListenerSockets {
        listener: SECOND,
        udp: Some(udp),
        tcp: Some(tcp),
    };
    (sockets, places.0, places.1)
}

/// Turns until nothing that was retired holds anything.
fn drained<P: Sockets>(rig: &mut Rig<P>) {
    rig.settle();
    assert!(!rig.port.is_draining(), "something is still draining");
}

pub(super) fn one_is_added<P: Sockets>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.settle();
    let (sockets, udp, tcp) = another();
    rig.port.listen(sockets).unwrap();
    for server in [udp, rig.udp] {
        let client = client(server);
        client.send(b"query").unwrap();
        rig.until(|handler| !handler.datagrams.is_empty());
        let seen = rig.handler.datagrams.pop().unwrap();
        assert_eq!(seen.listener, if server == udp { SECOND } else { ListenerId(0) });
        assert_eq!(receive(&client), b"query");
    }
    rig.tcp = tcp;
    let (_client, _) = rig.connect();
    let opened = rig
        .handler
        .streams
        .iter()
        .any(|(_, event)| matches!(event, Event::Opened { listener: SECOND, local, .. } if *local == tcp));
    assert!(opened, "{:?}", rig.handler.streams);
}

pub(super) fn what_a_retired_one_holds_is_answered<P: Sockets>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (sockets, udp, tcp) = another();
    rig.port.listen(sockets).unwrap();
    rig.settle();
    let clients: Vec<UdpSocket> = (0..100).map(|_| client(udp)).collect();
    for client in &clients {
        client.send(b"before").unwrap();
    }
    let first = rig.tcp;
    rig.tcp = tcp;
    let (mut stream, id) = rig.connect();
    stream.write_all(b"before").unwrap();
    rig.port.retire(SECOND, udp);
    rig.port.retire(SECOND, tcp);
    assert!(rig.port.is_draining());
    // A datagram from now on finds nobody, and a connection is refused.
    let late = UdpSocket::bind("127.0.0.1:0").unwrap();
    late.send_to(b"late", udp).unwrap();
    for client in &clients {
        rig.turn(SILENCE);
        rig.until(|handler| handler.datagrams.len() >= clients.len());
        assert_eq!(receive(client), b"before");
    }
    rig.until(|handler| handler.count(id, &Event::HalfClosed) + handler.count(id, &Event::Closed) > 0);
    assert_eq!(rig.handler.bytes(id), b"before", "what had come is handed over");
    rig.apply(Effect::CloseStream { stream: id }, b"");
    drained(&mut rig);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"before");
    assert!(rig.handler.datagrams.iter().all(|seen| seen.query != b"late"));
    // Answers to what it held may still have left by it.
    rig.port.close_drained();
    for transport in [Transport::Udp, Transport::Tcp] {
        let address = if transport == Transport::Udp { udp } else { tcp };
        probe_taken(address, transport).expect("the address is free");
    }
    // The other listener has noticed nothing.
    rig.tcp = first;
    let other = rig.client();
    other.send(b"after").unwrap();
    rig.settle();
    assert_eq!(receive(&other), b"after");
    rig.connect();
    assert!(!rig.port.is_idle());
}

pub(super) fn a_drained_port_ends<P: Sockets>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut stream, id) = rig.connect();
    let client = rig.client();
    client.send(b"query").unwrap();
    stream.write_all(b"query").unwrap();
    rig.port.drain();
    rig.until(|handler| !handler.datagrams.is_empty() && handler.count(id, &Event::HalfClosed) == 1);
    assert_eq!(
        (receive(&client), rig.handler.bytes(id)),
        (b"query".to_vec(), b"query".to_vec())
    );
    assert!(TcpStream::connect(rig.tcp).is_err(), "nobody listens");
    rig.apply(Effect::CloseStream { stream: id }, b"");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"query");
    drop(stream);
    drained(&mut rig);
    assert!(rig.port.is_idle(), "nothing can come any more");
}

pub(super) fn copies_serve_on_when_it_is_released<P: Sockets>(open: Open<P>) {
    let mut old = Rig::on(open, "127.0.0.1");
    let (udp, tcp) = (old.udp, old.tcp);
    let mut sockets = ListenerSockets {
        listener: ListenerId(0),
        udp: None,
        tcp: None,
    };
    for copy in old.port.share().unwrap() {
        let socket = Some(Socket::from(copy.socket));
        match copy.transport {
            Transport::Udp => (assert_eq!(copy.address, udp), sockets.udp = socket),
            Transport::Tcp => (assert_eq!(copy.address, tcp), sockets.tcp = socket),
        };
    }
    let (mut stream, id) = old.connect();
    stream.write_all(b"query").unwrap();
    let mut new = Rig::with(open, vec![sockets]);
    old.port.release();
    // What comes now, and what is still in the sockets, is the other's.
    let client = client(udp);
    client.send(b"query").unwrap();
    old.until(|handler| handler.count(id, &Event::HalfClosed) == 1);
    assert_eq!(old.handler.bytes(id), b"query", "streams are its own to the end");
    assert!(old.handler.datagrams.is_empty() && hears_nothing(&client));
    new.until(|handler| !handler.datagrams.is_empty());
    assert_eq!(receive(&client), b"query");
    new.connect();
    old.apply(Effect::CloseStream { stream: id }, b"");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"query");
    drop(stream);
    drained(&mut old);
    assert!(old.port.is_idle() && !new.port.is_idle());
}
