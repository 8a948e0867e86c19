//! The simulation: fixed seeds, a few new ones, and the rules of a port as far as a simulated one has them.
//!
//! `make sim SEED=7` runs one seed; `STEPS=100000` makes it longer.

use std::net::SocketAddr;

use nodens_tests::sim::{resolving, simulate};
use nodens_tests::world::random;

/// Steps of an ordinary run.
const STEPS: u64 = 1500;
const FIXED: u64 = 6;
const FRESH: usize = 3;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn each_seed(fixed: u64, mut run: impl FnMut(u64, u64)) {
    let fresh = std::iter::repeat_with(|| random() % 1_000_000).take(FRESH);
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (1..=fixed).chain(fresh).collect(),
    };
    for seed in seeds {
        run(seed, number("STEPS").unwrap_or(STEPS));
    }
}

#[test]
fn seeds() {
    each_seed(FIXED, |seed, steps| {
        println!("seed {seed}: {:?}", simulate(seed, steps))
    });
}

/// A cache in front of servers that are slow, silent, lying, truncating, closing.
#[test]
fn resolving_seeds() {
    each_seed(FIXED, |seed, steps| {
        println!("seed {seed}: {:?}", resolving::simulate(seed, steps));
    });
}

/// The same seed is the same story.
#[test]
fn a_seed_says_it_all() {
    assert_eq!(simulate(42, 300), simulate(42, 300));
    assert_eq!(resolving::simulate(42, 300), resolving::simulate(42, 300));
}

mod port {
    use std::time::Duration;

    use nodens_engine::io::{
        BATCH_MAX, DATAGRAM_ROOM, Datagram, Effect, Handler, ListenerId, Peer, Port, StreamEvent, StreamId,
        UpstreamDatagram, UpstreamId,
    };
    use nodens_tests::sim::servers::Manner;
    use nodens_tests::sim::{Network, SimPort, VirtualClock};

    use super::SocketAddr;

    #[derive(Debug, PartialEq, Eq)]
    enum Event {
        Opened,
        Readable(Vec<u8>),
        Writable,
        HalfClosed,
        Closed,
    }

    #[derive(Default)]
    struct Recorder {
        silent: bool,
        batches: Vec<usize>,
        queries: Vec<(Vec<u8>, bool)>,
        events: Vec<(StreamId, Event)>,
        replies: Vec<(UpstreamId, usize)>,
    }

    impl Handler for Recorder {
        fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
            self.batches.push(batch.len());
            for datagram in batch {
                assert_eq!(datagram.reply_len, 0);
                self.queries.push((datagram.query.to_vec(), datagram.cut));
                if !self.silent {
                    datagram.reply[..datagram.query.len()].copy_from_slice(datagram.query);
                    datagram.reply_len = datagram.query.len();
                }
            }
        }

        fn stream(&mut self, event: StreamEvent<'_>) {
            let seen = match event {
                StreamEvent::Opened { stream, .. } => (stream, Event::Opened),
                StreamEvent::Readable { stream, bytes, reply } => {
                    assert!(reply.is_empty());
                    reply.extend_from_slice(bytes);
                    (stream, Event::Readable(bytes.to_vec()))
                }
                StreamEvent::Writable { stream } => (stream, Event::Writable),
                StreamEvent::HalfClosed { stream } => (stream, Event::HalfClosed),
                StreamEvent::Closed { stream, .. } => (stream, Event::Closed),
            };
            assert!(
                !self.events.contains(&(seen.0, Event::Closed)),
                "nothing is heard of a closed stream"
            );
            self.events.push(seen);
        }

        fn upstream(&mut self, reply: UpstreamDatagram<'_>) -> bool {
            self.replies.push((reply.upstream, reply.bytes.len()));
            true
        }
    }

    struct Rig {
        clock: VirtualClock,
        network: Network,
        port: SimPort,
        handler: Recorder,
    }

    impl Rig {
        fn new() -> Self {
            let clock = VirtualClock::default();
            let network = Network::new(1, clock.clone());
            Self {
                port: network.port(),
                clock,
                network,
                handler: Recorder::default(),
            }
        }

        fn turn(&mut self) -> usize {
            let deadline = self.clock.after(Duration::from_secs(1));
            self.port.wait(Some(deadline)).unwrap();
            self.port.serve(&mut self.handler).unwrap()
        }

        fn settle(&mut self) {
            while self.turn() > 0 {}
        }

        fn connect(&mut self) -> StreamId {
            let stream = self.network.connect(client(1));
            self.settle();
            stream
        }

        fn apply(&mut self, effect: Effect, bytes: &[u8]) {
            self.port.apply(effect, bytes).unwrap();
        }

        fn events(&mut self, stream: StreamId) -> Vec<Event> {
            let of = std::mem::take(&mut self.handler.events);
            of.into_iter()
                .filter(|(other, _)| *other == stream)
                .map(|(_, event)| event)
                .collect()
        }
    }

    fn client(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 1000 + number))
    }

    #[test]
    fn many_datagrams_come_in_batches_and_each_is_answered() {
        let mut rig = Rig::new();
        let count = 3 * BATCH_MAX as u16 + 5;
        for number in 0..count {
            rig.network.send(client(number), &number.to_be_bytes());
        }
        // All are there when the server looks.
        rig.clock.jump(rig.clock.after(Duration::from_secs(1)));
        rig.settle();
        assert_eq!(rig.handler.batches, [BATCH_MAX, BATCH_MAX, BATCH_MAX, 5]);
        let mut sent = rig.network.take_sent();
        sent.sort();
        assert!(
            sent.into_iter()
                .eq((0..count).map(|number| (client(number), number.to_be_bytes().to_vec())))
        );
    }

    #[test]
    fn no_reply_sends_nothing_and_an_effect_sends_anything() {
        let mut rig = Rig::new();
        rig.handler.silent = true;
        rig.network.send(client(1), b"query");
        rig.settle();
        assert!(rig.network.take_sent().is_empty());
        let long = vec![7; 60_000];
        let peer = Peer::from_socket_addr(client(1));
        rig.apply(
            Effect::Send {
                listener: ListenerId(0),
                peer,
                local: None,
            },
            &long,
        );
        assert_eq!(rig.network.take_sent(), [(client(1), long)]);
    }

    #[test]
    fn an_oversized_query_is_cut_and_marked() {
        let mut rig = Rig::new();
        for (len, cut) in [
            (DATAGRAM_ROOM, false),
            (DATAGRAM_ROOM + 1, true),
            (9000, true),
            (0, false),
        ] {
            rig.network.send(client(1), &vec![1; len]);
            rig.settle();
            assert_eq!(rig.handler.queries.pop(), Some((vec![1; len.min(DATAGRAM_ROOM)], cut)));
        }
    }

    #[test]
    fn a_deadline_and_a_wake_up_end_a_wait() {
        let mut rig = Rig::new();
        let deadline = rig.clock.after(Duration::from_secs(40));
        rig.port.wait(Some(deadline)).unwrap();
        assert_eq!(rig.clock.now(), deadline);
        rig.port.wait(Some(nodens_engine::time::Instant(1))).unwrap();
        assert_eq!(rig.clock.now(), deadline, "time does not go back");
        rig.network.wake();
        rig.port.wait(None).unwrap();
        assert_eq!(rig.port.serve(&mut rig.handler).unwrap(), 0);
        assert!(
            rig.port.wait(None).is_err(),
            "it says so where a real one would sleep for ever"
        );
    }

    #[test]
    fn a_stream_opens_answers_and_closes() {
        let mut rig = Rig::new();
        let stream = rig.connect();
        assert_eq!(rig.events(stream), [Event::Opened]);
        for part in [&b"one"[..], b"two"] {
            rig.network.write(stream, part);
        }
        rig.settle();
        let written: Vec<u8> = rig
            .network
            .take_written()
            .into_iter()
            .flat_map(|(_, bytes)| bytes)
            .collect();
        assert_eq!(written, b"onetwo", "bytes keep their order");
        rig.events(stream);
        rig.network.end(stream);
        rig.settle();
        assert_eq!(rig.events(stream), [Event::HalfClosed]);
        rig.apply(Effect::WriteStream { stream }, b"last");
        rig.apply(Effect::CloseStream { stream }, b"");
        rig.settle();
        assert_eq!(rig.events(stream), [Event::Closed]);
        assert_eq!(rig.network.take_written(), [(stream, b"last".to_vec())]);
        // Nothing is heard of it again, and effects on it do nothing.
        rig.network.write(stream, b"more");
        for effect in [
            Effect::WriteStream { stream },
            Effect::CloseStream { stream },
            Effect::PauseStream { stream, paused: true },
        ] {
            rig.apply(effect, b"x");
        }
        rig.settle();
        assert!(rig.events(stream).is_empty() && rig.network.streams() == 0);
    }

    #[test]
    fn a_slow_reader_gets_everything() {
        let mut rig = Rig::new();
        let stream = rig.connect();
        rig.events(stream);
        let all: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
        rig.apply(Effect::WriteStream { stream }, &all);
        rig.apply(Effect::CloseStream { stream }, b"");
        let mut reads = 0;
        while rig.network.streams() > 0 {
            rig.settle();
            assert!(rig.events(stream).is_empty(), "it is not closed before all is written");
            rig.network.read(stream);
            reads += 1;
        }
        rig.settle();
        assert_eq!(rig.events(stream), [Event::Closed]);
        assert_eq!((reads, rig.network.take_written()), (4, vec![(stream, all)]));
    }

    #[test]
    fn told_twice_to_close_it_closes_at_once() {
        let mut rig = Rig::new();
        let stream = rig.connect();
        rig.events(stream);
        rig.apply(Effect::WriteStream { stream }, &vec![0; 300_000]);
        rig.apply(Effect::CloseStream { stream }, b"");
        rig.settle();
        assert!(rig.events(stream).is_empty());
        rig.apply(Effect::CloseStream { stream }, b"");
        rig.settle();
        assert_eq!(rig.events(stream), [Event::Closed]);
    }

    #[test]
    fn a_paused_stream_is_left_alone_and_asked_for_by_writable() {
        let mut rig = Rig::new();
        let stream = rig.connect();
        rig.events(stream);
        rig.apply(Effect::PauseStream { stream, paused: true }, b"");
        rig.network.write(stream, b"later");
        rig.turn();
        rig.turn();
        let events = rig.events(stream);
        assert!(!events.is_empty() && events.iter().all(|event| *event == Event::Writable));
        rig.apply(Effect::PauseStream { stream, paused: false }, b"");
        rig.settle();
        assert_eq!(rig.events(stream), [Event::Readable(b"later".to_vec())]);
    }

    #[test]
    fn a_reset_ends_one_stream() {
        let mut rig = Rig::new();
        let (one, other) = (rig.connect(), rig.connect());
        rig.handler.events.clear();
        rig.network.reset(one);
        rig.settle();
        assert_eq!(rig.handler.events, [(one, Event::Closed)]);
        rig.network.write(other, b"still here");
        rig.settle();
        assert_eq!(rig.network.take_written(), [(other, b"still here".to_vec())]);
    }

    #[test]
    fn other_servers_are_asked() {
        const QUESTION: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let mut rig = Rig::new();
        let to = SocketAddr::from(([192, 0, 2, 1], 53));
        rig.network.servers().set(to, Manner::Answers);
        let (upstream, stream) = (UpstreamId(3), StreamId::ours(4));
        let effects = [
            Effect::OpenUpstream {
                upstream,
                to,
                from: None,
            },
            Effect::SendUpstream { upstream },
            Effect::OpenStream { stream, to, from: None },
        ];
        for effect in effects {
            rig.port.apply(effect, QUESTION).unwrap();
        }
        while rig.network.next_at().is_some() {
            rig.turn();
        }
        // An address.
        assert_eq!(rig.handler.replies, [(upstream, QUESTION.len() + 16)]);
        assert_eq!(rig.handler.events, [(stream, Event::Opened)]);
        rig.port.apply(Effect::RetireUpstream { upstream }, &[]).unwrap();
        rig.port.apply(Effect::CloseStream { stream }, &[]).unwrap();
        rig.turn();
        assert_eq!(rig.handler.events, [(stream, Event::Opened), (stream, Event::Closed)]);
        let (sockets, streams, _) = rig.network.servers().open();
        assert_eq!((sockets, streams), (0, 0));
    }
}
