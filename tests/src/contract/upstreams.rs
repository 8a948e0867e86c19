//! Rules of the sockets to other servers.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use nodens_engine::io::{Effect, Port, SocketError, StreamId, UpstreamId};

use super::Open;
use super::rig::{PATIENCE, Rig};

fn server() -> (UdpSocket, SocketAddr) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = server.local_addr().unwrap();
    (server, address)
}

fn opens(upstream: UpstreamId, to: SocketAddr) -> Effect {
    Effect::OpenUpstream {
        upstream,
        to,
        from: None,
    }
}

/// Opens a socket to a server, and sends a question.
fn asks<P: Port>(rig: &mut Rig<P>, upstream: UpstreamId, to: SocketAddr) {
    rig.apply(opens(upstream, to), &[]);
    rig.apply(Effect::SendUpstream { upstream }, b"question");
}

fn receive(server: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 512];
    let (len, from) = server.recv_from(&mut buffer).unwrap();
    (buffer[..len].to_vec(), from)
}

pub(super) fn ask_and_hear<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (server, to) = server();
    let upstream = UpstreamId(9);
    asks(&mut rig, upstream, to);
    let (question, from) = receive(&server);
    assert_eq!(question, b"question");
    // Bytes from anybody else are not heard.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"forged", from).unwrap();
    server.send_to(b"reply", from).unwrap();
    server.send_to(&[5; 9000], from).unwrap();
    rig.until(|handler| handler.upstreams.len() == 2);
    assert_eq!(
        rig.handler.upstreams,
        [(upstream, b"reply".to_vec(), None), (upstream, vec![5; 9000], None)]
    );
}

pub(super) fn failures_are_reported<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (refusing, to) = server();
    drop(refusing);
    let upstream = UpstreamId(1);
    asks(&mut rig, upstream, to);
    rig.until(|handler| !handler.upstreams.is_empty());
    assert_eq!(
        rig.handler.upstreams[0],
        (upstream, Vec::new(), Some(SocketError::Refused))
    );
    // A socket that cannot even be made says the same.
    let upstream = UpstreamId(2);
    let to = "[fe80::1]:53".parse().unwrap();
    rig.apply(opens(upstream, to), &[]);
    rig.until(|handler| {
        let last = handler.upstreams.last();
        last.is_some_and(|(id, _, error)| *id == upstream && error.is_some())
    });
}

pub(super) fn ports_differ<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (server, to) = server();
    let mut ports = HashSet::new();
    for number in 0..20 {
        let upstream = UpstreamId(number);
        asks(&mut rig, upstream, to);
        ports.insert(receive(&server).1.port());
    }
    assert_eq!(ports.len(), 20);
    let mut sorted: Vec<_> = ports.into_iter().collect();
    sorted.sort_unstable();
    let counted_up = sorted.windows(2).all(|pair| pair[1] - pair[0] <= 2);
    assert!(!counted_up, "ports that count up can be guessed: {sorted:?}");
}

pub(super) fn retired_are_silent<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (server, to) = server();
    let upstream = UpstreamId(3);
    asks(&mut rig, upstream, to);
    let (_, from) = receive(&server);
    server.send_to(b"late", from).unwrap();
    rig.apply(Effect::RetireUpstream { upstream }, &[]);
    // Whatever is done with it afterwards is as harmless as a second retirement.
    rig.apply(Effect::SendUpstream { upstream }, b"question");
    rig.apply(Effect::RetireUpstream { upstream }, &[]);
    rig.settle();
    assert_eq!(rig.handler.upstreams, []);
}

/// What replies of one byte have said.
fn numbers<P: Port>(rig: &Rig<P>) -> Vec<u8> {
    rig.handler.upstreams.iter().map(|(_, bytes, _)| bytes[0]).collect()
}

pub(super) fn many_replies<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (server, to) = server();
    let upstream = UpstreamId(4);
    asks(&mut rig, upstream, to);
    let (_, from) = receive(&server);
    for number in 0..100u8 {
        server.send_to(&[number], from).unwrap();
    }
    rig.until(|handler| handler.upstreams.len() == 100);
    assert_eq!(numbers(&rig), (0..100).collect::<Vec<_>>());
}

pub(super) fn nobody_waits<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (server, to) = server();
    let upstream = UpstreamId(6);
    asks(&mut rig, upstream, to);
    let (_, from) = receive(&server);
    rig.handler.waits = false;
    for number in 0..3u8 {
        server.send_to(&[number], from).unwrap();
    }
    rig.until(|handler| !handler.upstreams.is_empty());
    rig.handler.waits = true;
    server.send_to(&[3], from).unwrap();
    rig.until(|handler| handler.upstreams.len() == 4);
    assert_eq!(numbers(&rig), [0, 1, 2, 3]);
}

pub(super) fn a_source_address_is_kept<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (server, to) = server();
    let from = Some(IpAddr::from([127, 0, 0, 9]));
    let upstream = UpstreamId(5);
    rig.apply(Effect::OpenUpstream { upstream, to, from }, &[]);
    rig.apply(Effect::SendUpstream { upstream }, b"question");
    assert_eq!(Some(receive(&server).1.ip()), from);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let stream = StreamId::ours(1);
    rig.apply(Effect::OpenStream { stream, to, from }, &[]);
    assert_eq!(Some(listener.accept().unwrap().1.ip()), from);
    // One that this host does not have is an error of the socket.
    let from = Some(IpAddr::from([192, 0, 2, 1]));
    let upstream = UpstreamId(6);
    rig.apply(Effect::OpenUpstream { upstream, to, from }, &[]);
    let failed = (upstream, Vec::new(), Some(SocketError::NoSuchAddress));
    rig.until(|handler| handler.upstreams.contains(&failed));
    let stream = StreamId::ours(2);
    rig.apply(Effect::OpenStream { stream, to, from }, &[]);
    rig.until(|handler| handler.errors.contains(&(stream, SocketError::NoSuchAddress)));
}
