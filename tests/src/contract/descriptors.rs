//! What happens when the process has no file descriptor left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nodens_engine::io::{Effect, Port, SocketError, StreamId, UpstreamId, now};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Open;
use super::rig::{PATIENCE, Rig, receive};

/// Connections wait until there are descriptors again, datagrams are served meanwhile, and the worker does not spin.
///
/// Lowers the limit of the whole process, so it wants a process of its own.
pub fn accepting_survives_a_want_of_descriptors<P: Port>(open: Open<P>) {
    const FREE: u64 = 4;
    let mut rig = Rig::on(open, "127.0.0.1");
    let udp = rig.client();
    let highest = udp.as_raw_fd() as u64;
    let limit = getrlimit(Resource::Nofile);
    let lowered = Rlimit {
        current: Some(highest + 1 + FREE),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, lowered).unwrap();

    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect(rig.tcp) {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        clients.push(client);
    }
    assert!(!clients.is_empty());
    let end = now().after(Duration::from_millis(350));
    while now() < end {
        udp.send(b"query").unwrap();
        rig.turn(Duration::from_millis(10));
        rig.turn(Duration::from_millis(10));
        assert_eq!(receive(&udp), b"query");
    }
    assert_eq!(rig.handler.opened(), []);
    let errors = rig.counters.read().accepts_starved;
    assert!((1..=6).contains(&errors), "tried about each 100 ms: {errors}");
    // Sockets of our own are refused with the reason.
    let (upstream, stream, to) = (UpstreamId(1), StreamId::ours(1), rig.udp);
    rig.apply(
        Effect::OpenUpstream {
            upstream,
            to,
            from: None,
        },
        &[],
    );
    rig.apply(Effect::SendUpstream { upstream }, b"question");
    rig.apply(Effect::OpenStream { stream, to, from: None }, &[]);
    rig.until(|handler| handler.errors == [(stream, SocketError::Exhausted)]);
    assert_eq!(
        rig.handler.upstreams,
        [(upstream, Vec::new(), Some(SocketError::Exhausted))]
    );

    setrlimit(Resource::Nofile, limit).unwrap();
    rig.until(|handler| handler.opened().len() == clients.len());
    for client in &mut clients {
        client.write_all(b"query").unwrap();
        rig.settle();
        let mut reply = [0; 5];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"query");
    }
}
