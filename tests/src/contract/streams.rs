//! Rules of streams.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use nodens_engine::io::{Effect, ListenerId, PENDING_MAX, PENDING_PAUSE, Port, SocketError, StreamId};

use super::Open;
use super::rig::{Event, PATIENCE, Rig, SILENCE};

fn read_exactly(client: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

/// Reads to the end while the port serves; `None` for a reset.
fn read_to_end<P: Port>(rig: &mut Rig<P>, client: &mut TcpStream) -> Option<Vec<u8>> {
    client.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    let mut buffer = vec![0; 65_536];
    let end = nodens_engine::io::now().after(PATIENCE);
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return Some(all),
            Ok(len) => all.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(
                    nodens_engine::io::now() < end,
                    "the end never came, {} bytes did",
                    all.len()
                );
                rig.turn(SILENCE / 10);
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn close(stream: StreamId) -> Effect {
    Effect::CloseStream { stream }
}

pub(super) fn open_answer_close<P: Port>(open: Open<P>) {
    for address in ["127.0.0.1", "::1"] {
        let mut rig = Rig::on(open, address);
        let (mut client, stream) = rig.connect();
        let opened = Event::Opened {
            listener: ListenerId(0),
            peer: client.local_addr().unwrap(),
            local: rig.tcp,
        };
        assert_eq!(rig.handler.streams, [(stream, opened)]);
        for query in [b"one".as_slice(), b"two", &[3; 5000]] {
            client.write_all(query).unwrap();
            let before = rig.handler.bytes(stream).len();
            rig.until(|handler| handler.bytes(stream).len() == before + query.len());
            assert_eq!(read_exactly(&mut client, query.len()), query);
        }
        drop(client);
        rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
        rig.apply(close(stream), &[]);
        rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
        // An id is never used again.
        let (_client, other) = rig.connect();
        assert_ne!(stream, other);
        assert_eq!(rig.counters.read().accepts, 2);
    }
}

pub(super) fn pipelined<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut client, stream) = rig.connect();
    let queries = pattern(3000);
    client.write_all(&queries).unwrap();
    rig.until(|handler| handler.bytes(stream) == queries);
    assert_eq!(
        rig.handler.count(stream, &Event::Readable(queries.clone())),
        1,
        "in one piece"
    );
    // Loopback keeps what is written at once together.
    let mut buffer = [0; 4096];
    assert_eq!(client.read(&mut buffer).unwrap(), queries.len());
    assert_eq!(buffer[..queries.len()], queries);
}

pub(super) fn partial_frames<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut client, stream) = rig.connect();
    let query = pattern(40);
    for (at, byte) in query.iter().enumerate() {
        client.write_all(&[*byte]).unwrap();
        rig.until(|handler| handler.bytes(stream) == query[..=at]);
    }
    assert_eq!(read_exactly(&mut client, query.len()), query);
}

pub(super) fn more_than_one_read<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.on_bytes = |_, _| {};
    let (mut client, stream) = rig.connect();
    let bytes = pattern(700_000);
    client.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match client.write(&bytes[sent..]) {
            Ok(len) => sent += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                rig.turn(SILENCE);
            }
            Err(error) => panic!("{error}"),
        }
    }
    // The end right behind the bytes must not hide them.
    client.shutdown(Shutdown::Write).unwrap();
    rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
    assert!(rig.handler.bytes(stream) == bytes);
}

pub(super) fn half_closed<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.on_bytes = |_, _| {};
    let (mut client, stream) = rig.connect();
    client.write_all(b"query").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
    assert_eq!(rig.handler.bytes(stream), b"query");
    rig.settle();
    assert_eq!(
        rig.handler.count(stream, &Event::Closed),
        0,
        "open until the engine closes it"
    );
    rig.apply(Effect::WriteStream { stream }, b"late reply");
    rig.apply(close(stream), &[]);
    assert_eq!(read_to_end(&mut rig, &mut client).unwrap(), b"late reply");
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
}

pub(super) fn reset<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut staying, _) = rig.connect();
    let (mut client, stream) = rig.connect();
    client.write_all(b"query").unwrap();
    rig.until(|handler| handler.bytes(stream) == b"query");
    // Closing with the reply unread is a reset.
    client.peek(&mut [0; 1]).unwrap();
    drop(client);
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
    // So it is in the middle of writing.
    let (mut client, stream) = rig.connect();
    rig.apply(Effect::WriteStream { stream }, &vec![1; PENDING_MAX]);
    rig.turn(SILENCE);
    client.read_exact(&mut [0; 1]).unwrap();
    drop(client);
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
    assert_eq!(rig.counters.read().stream_errors, 2);
    staying.write_all(b"still here").unwrap();
    rig.settle();
    assert_eq!(read_exactly(&mut staying, 10), b"still here");
}

pub(super) fn slow_reader<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    // More than the kernel takes for one connection on loopback, less than the port keeps.
    rig.handler.on_bytes = |bytes, reply| {
        for _ in bytes {
            reply.extend_from_slice(&pattern(1_000_000));
        }
    };
    let (mut client, stream) = rig.connect();
    let mut sent = 0;
    while rig.counters.read().streams_overrun == 0 && sent < 64 {
        client.write_all(b"x").unwrap();
        sent += 1;
        rig.settle();
        if rig.handler.bytes(stream).len() < sent {
            // Its own bytes are left in the kernel while it does not read.
            break;
        }
    }
    assert!(rig.handler.bytes(stream).len() < sent, "the stream is held back");
    rig.handler.on_bytes = |_, _| {};
    let answered = rig.handler.bytes(stream).len();
    client.shutdown(Shutdown::Write).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    let mut buffer = vec![0; 20_000];
    while all.len() < answered * 1_000_000 {
        match client.read(&mut buffer) {
            Ok(0) => panic!("closed after {} bytes", all.len()),
            Ok(len) => all.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                rig.turn(SILENCE);
            }
            Err(error) => panic!("{error}"),
        }
    }
    let expected = pattern(1_000_000);
    assert!(
        all.chunks(1_000_000).all(|chunk| chunk == expected),
        "in order and whole"
    );
    rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
    assert!(rig.handler.count(stream, &Event::Writable) > 0);
    assert_eq!(rig.handler.bytes(stream).len(), sent, "and read on once it has read");
    assert_eq!(rig.counters.read().streams_overrun, 0);
}

pub(super) fn never_reads<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.on_bytes = |_, reply| reply.resize(PENDING_MAX * 4, 1);
    let (mut client, stream) = rig.connect();
    client.write_all(b"query").unwrap();
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
    // The same by effects.
    let (_client, stream) = rig.connect();
    for _ in 0..20 {
        rig.apply(Effect::WriteStream { stream }, &vec![1; 1 << 20]);
    }
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
    assert_eq!(rig.counters.read().streams_overrun, 2);
}

pub(super) fn paused<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut client, stream) = rig.connect();
    rig.apply(Effect::PauseStream { stream, paused: true }, &[]);
    client.write_all(b"query").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    rig.settle();
    assert_eq!(rig.handler.bytes(stream), b"");
    assert_eq!(rig.handler.count(stream, &Event::HalfClosed), 0);
    rig.apply(Effect::PauseStream { stream, paused: false }, &[]);
    rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
    assert_eq!(rig.handler.bytes(stream), b"query");
    rig.apply(close(stream), &[]);
    assert_eq!(read_to_end(&mut rig, &mut client).unwrap(), b"query");
    // A paused stream that breaks is not forgotten.
    let (mut client, stream) = rig.connect();
    client.write_all(b"query").unwrap();
    rig.until(|handler| handler.bytes(stream) == b"query");
    rig.apply(Effect::PauseStream { stream, paused: true }, &[]);
    client.peek(&mut [0; 1]).unwrap();
    drop(client);
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
}

pub(super) fn paced<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut client, stream) = rig.connect();
    client.set_nonblocking(true).unwrap();
    rig.apply(Effect::PauseStream { stream, paused: true }, &[]);
    // Whether the kernel takes a piece at once or not, each is followed by one event.
    let (small, large) = (pattern(1000), pattern(PENDING_PAUSE * 8));
    let mut expected = Vec::new();
    let mut all = Vec::new();
    let mut buffer = vec![0; 65_536];
    for (round, piece) in [&small, &large, &small, &large, &small].into_iter().enumerate() {
        let end = nodens_engine::io::now().after(PATIENCE);
        while rig.handler.count(stream, &Event::Writable) < round + 1 {
            assert!(nodens_engine::io::now() < end, "no event in round {round}");
            rig.turn(SILENCE / 10);
            if let Ok(len) = client.read(&mut buffer) {
                all.extend_from_slice(&buffer[..len]);
            }
        }
        rig.settle();
        assert_eq!(
            rig.handler.count(stream, &Event::Writable),
            round + 1,
            "one and no more"
        );
        rig.apply(Effect::WriteStream { stream }, piece);
        expected.extend_from_slice(piece);
    }
    rig.apply(close(stream), &[]);
    all.extend_from_slice(&read_to_end(&mut rig, &mut client).unwrap());
    assert!(all == expected);
}

pub(super) fn writes_keep_order<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut client, stream) = rig.connect();
    client.write_all(b"query").unwrap();
    let mut expected = b"query".to_vec();
    rig.until(|handler| !handler.bytes(stream).is_empty());
    for number in 0..100u8 {
        rig.then(Effect::WriteStream { stream }, &[number; 30]);
        expected.extend_from_slice(&[number; 30]);
    }
    rig.then(close(stream), &[]);
    // Too late.
    rig.then(Effect::WriteStream { stream }, b"lost");
    rig.waker.wake();
    assert_eq!(read_to_end(&mut rig, &mut client).unwrap(), expected);
}

pub(super) fn closing_loses_nothing<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.on_bytes = |_, _| {};
    let (mut client, stream) = rig.connect();
    client.write_all(b"query").unwrap();
    rig.until(|handler| handler.bytes(stream) == b"query");
    // On its way when the stream closes, and more after that.
    client.write_all(b"unread").unwrap();
    let reply = pattern(200_000);
    rig.apply(Effect::WriteStream { stream }, &reply);
    rig.apply(close(stream), &[]);
    rig.settle();
    assert_eq!(rig.handler.count(stream, &Event::Closed), 1);
    client.write_all(b"still unread").unwrap();
    rig.settle();
    assert!(read_to_end(&mut rig, &mut client).is_some_and(|bytes| bytes == reply));
}

pub(super) fn closed_twice<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (mut client, stream) = rig.connect();
    rig.apply(Effect::WriteStream { stream }, &vec![1; PENDING_MAX]);
    rig.apply(Effect::WriteStream { stream }, &[]);
    rig.apply(close(stream), &[]);
    rig.turn(SILENCE);
    rig.apply(close(stream), &[]);
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
    let read = read_to_end(&mut rig, &mut client).map_or(0, |bytes| bytes.len());
    assert!(read <= PENDING_MAX);
}

pub(super) fn gone_is_harmless<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let (client, stream) = rig.connect();
    drop(client);
    rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
    rig.apply(close(stream), &[]);
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
    for stream in [stream, StreamId(12_345_678_901), StreamId(u64::MAX)] {
        rig.apply(Effect::WriteStream { stream }, b"lost");
        rig.apply(Effect::PauseStream { stream, paused: true }, &[]);
        rig.apply(close(stream), &[]);
    }
    rig.settle();
    // Its place has a new owner that none of it reaches.
    let (mut client, other) = rig.connect();
    rig.apply(Effect::WriteStream { stream }, b"lost");
    rig.apply(close(stream), &[]);
    client.write_all(b"query").unwrap();
    rig.until(|handler| handler.bytes(other) == b"query");
    assert_eq!(read_exactly(&mut client, 5), b"query");
}

pub(super) fn many_clients<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    for _ in 0..3 {
        let mut clients: Vec<_> = (0..150).map(|_| TcpStream::connect(rig.tcp).unwrap()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.write_all(&number.to_be_bytes()).unwrap();
        }
        rig.settle();
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(read_exactly(client, 8), number.to_be_bytes());
        }
        drop(clients);
        rig.settle();
        for stream in rig.handler.opened() {
            if rig.handler.count(stream, &Event::Closed) == 0 {
                rig.apply(close(stream), &[]);
            }
        }
        rig.settle();
    }
    let ids = rig.handler.opened();
    assert_eq!(ids.len(), 450);
    assert!(ids.iter().all(|id| rig.handler.count(*id, &Event::Closed) == 1));
}

pub(super) fn addresses_of_a_wildcard<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "::");
    for address in ["127.0.0.2", "::1"] {
        let address = SocketAddr::new(address.parse().unwrap(), rig.tcp.port());
        let client = TcpStream::connect(address).unwrap();
        let opened = Event::Opened {
            listener: ListenerId(0),
            peer: client.local_addr().unwrap(),
            local: address,
        };
        rig.until(|handler| handler.streams.iter().any(|(_, event)| *event == opened));
    }
}

pub(super) fn ours_connect<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.handler.on_bytes = |_, _| {};
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let stream = StreamId::ours(5);
    rig.apply(Effect::OpenStream { stream, to, from: None }, &[]);
    // Written before it stands.
    rig.apply(Effect::WriteStream { stream }, b"question");
    let (mut peer, from) = server.accept().unwrap();
    rig.until(|handler| handler.opened() == [stream]);
    let opened = Event::Opened {
        listener: ListenerId::NONE,
        peer: to,
        local: from,
    };
    assert_eq!(rig.handler.streams[0], (stream, opened));
    rig.settle();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(read_exactly(&mut peer, 8), b"question");
    peer.write_all(b"answer").unwrap();
    rig.until(|handler| handler.bytes(stream) == b"answer");
    rig.apply(Effect::WriteStream { stream }, b"next");
    rig.settle();
    assert_eq!(read_exactly(&mut peer, 4), b"next");
    drop(peer);
    rig.until(|handler| handler.count(stream, &Event::HalfClosed) == 1);
    rig.apply(close(stream), &[]);
    rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
}

pub(super) fn ours_refused<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (number, to) in [refusing, "[fe80::1]:53".parse().unwrap()].into_iter().enumerate() {
        let stream = StreamId::ours(number as u64);
        rig.apply(Effect::OpenStream { stream, to, from: None }, &[]);
        rig.apply(Effect::WriteStream { stream }, b"question");
        rig.until(|handler| handler.count(stream, &Event::Closed) == 1);
        assert_eq!(rig.handler.errors[number].0, stream);
    }
    assert_eq!(rig.handler.errors[0].1, SocketError::Refused);
    assert_eq!(rig.handler.opened(), []);
}
