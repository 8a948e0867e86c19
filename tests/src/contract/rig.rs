//! A port with a handler that writes down what it is handed and does what a rule wants done.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::io::{
    Counters, Datagram, Effect, Handler, ListenerId, ListenerSockets, Peer, Port, SocketError, StreamEvent, StreamId,
    UpstreamDatagram, UpstreamId, Waker, bind_tcp, bind_udp, now,
};

use super::Open;

/// How long anything may take before a rule counts as broken.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Long enough to see that nothing comes.
pub(super) const SILENCE: Duration = Duration::from_millis(50);

/// A datagram as it was handed over.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) query: Vec<u8>,
    pub(super) cut: bool,
    pub(super) peer: Peer,
    pub(super) listener: ListenerId,
    pub(super) local: Option<IpAddr>,
}

/// A stream event as it was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Opened {
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    },
    Readable(Vec<u8>),
    Writable,
    HalfClosed,
    Closed,
}

/// What the handler answers datagrams with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Echo,
    Nothing,
}

pub(super) type OnBytes = fn(bytes: &[u8], reply: &mut Vec<u8>);

pub(super) struct Recorder {
    pub(super) reply: Reply,
    pub(super) on_bytes: OnBytes,
    pub(super) datagrams: Vec<Seen>,
    pub(super) batches: Vec<usize>,
    pub(super) streams: Vec<(StreamId, Event)>,
    /// What streams ended with.
    pub(super) errors: Vec<(StreamId, SocketError)>,
    pub(super) upstreams: Vec<(UpstreamId, Vec<u8>, Option<SocketError>)>,
    /// What it says of upstream sockets: that more is waited for.
    pub(super) waits: bool,
    effects: VecDeque<(Effect, Vec<u8>)>,
}

impl Handler for Recorder {
    fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
        self.batches.push(batch.len());
        for datagram in batch {
            self.datagrams.push(Seen {
                query: datagram.query.to_vec(),
                cut: datagram.cut,
                peer: *datagram.peer,
                listener: datagram.listener,
                local: datagram.local,
            });
            assert_eq!(datagram.reply_len, 0, "no reply unless the handler writes one");
            if self.reply == Reply::Echo {
                datagram.reply[..datagram.query.len()].copy_from_slice(datagram.query);
                datagram.reply_len = datagram.query.len();
            }
        }
    }

    fn stream(&mut self, event: StreamEvent<'_>) {
        let seen = match event {
            StreamEvent::Opened {
                stream,
                listener,
                peer,
                local,
            } => (stream, Event::Opened { listener, peer, local }),
            StreamEvent::Readable { stream, bytes, reply } => {
                assert!(reply.is_empty(), "the buffer for answers starts empty");
                (self.on_bytes)(bytes, reply);
                (stream, Event::Readable(bytes.to_vec()))
            }
            StreamEvent::Writable { stream } => (stream, Event::Writable),
            StreamEvent::HalfClosed { stream } => (stream, Event::HalfClosed),
            StreamEvent::Closed { stream, error } => {
                self.errors.extend(error.map(|error| (stream, error)));
                (stream, Event::Closed)
            }
        };
        let closed = (seen.0, Event::Closed);
        assert!(!self.streams.contains(&closed), "nothing is heard of a closed stream");
        self.streams.push(seen);
    }

    fn upstream(&mut self, reply: UpstreamDatagram<'_>) -> bool {
        let UpstreamDatagram { upstream, bytes, error } = reply;
        assert!(error.is_none() || bytes.is_empty(), "an error has no bytes");
        self.upstreams.push((upstream, bytes.to_vec(), error));
        self.waits
    }
}

impl Recorder {
    /// The ids of the streams that were opened, in that order.
    pub(super) fn opened(&self) -> Vec<StreamId> {
        let opened = self
            .streams
            .iter()
            .filter(|(_, event)| matches!(event, Event::Opened { .. }));
        opened.map(|(stream, _)| *stream).collect()
    }

    pub(super) fn count(&self, id: StreamId, wanted: &Event) -> usize {
        self.streams
            .iter()
            .filter(|(stream, event)| *stream == id && event == wanted)
            .count()
    }

    /// All bytes of a stream.
    pub(super) fn bytes(&self, id: StreamId) -> Vec<u8> {
        let mut all = Vec::new();
        for (stream, event) in &self.streams {
            if let Event::Readable(bytes) = event
                && *stream == id
            {
                all.extend_from_slice(bytes);
            }
        }
        all
    }
}

pub(super) struct Rig<P> {
    pub(super) port: P,
    pub(super) handler: Recorder,
    pub(super) waker: Waker,
    pub(super) counters: Arc<Counters>,
    /// Where the first listener's UDP and TCP sockets are.
    pub(super) udp: SocketAddr,
    pub(super) tcp: SocketAddr,
}

impl<P: Port> Rig<P> {
    /// Listens on `address`, UDP and TCP each on a port of its own.
    pub(super) fn on(open: Open<P>, address: &str) -> Self {
        Self::on_each(open, &[address])
    }

    /// One listener an address, numbered from 0.
    pub(super) fn on_each(open: Open<P>, addresses: &[&str]) -> Self {
        let mut sockets = Vec::new();
        for (listener, address) in addresses.iter().enumerate() {
            let address = SocketAddr::new(address.parse().unwrap(), 0);
            sockets.push(ListenerSockets {
                listener: ListenerId(listener as u16),
                udp: Some(bind_udp(address).unwrap()),
                tcp: Some(bind_tcp(address).unwrap()),
            });
        }
        Self::with(open, sockets)
    }

    pub(super) fn with(open: Open<P>, sockets: Vec<ListenerSockets>) -> Self {
        let address = |socket: &socket2::Socket| socket.local_addr().unwrap().as_socket().unwrap();
        let udp = address(sockets[0].udp.as_ref().unwrap());
        let tcp = address(sockets[0].tcp.as_ref().unwrap());
        let waker = Waker::new().unwrap();
        let counters = Arc::new(Counters::new());
        let port = open(sockets, &waker, &counters).unwrap();
        let handler = Recorder {
            reply: Reply::Echo,
            on_bytes: |bytes, reply| reply.extend_from_slice(bytes),
            datagrams: Vec::new(),
            batches: Vec::new(),
            streams: Vec::new(),
            errors: Vec::new(),
            upstreams: Vec::new(),
            waits: true,
            effects: VecDeque::new(),
        };
        Self {
            port,
            handler,
            waker,
            counters,
            udp,
            tcp,
        }
    }

    /// To be applied after the next serving.
    pub(super) fn then(&mut self, effect: Effect, bytes: &[u8]) {
        self.handler.effects.push_back((effect, bytes.to_vec()));
    }

    /// To be applied now.
    pub(super) fn apply(&mut self, effect: Effect, bytes: &[u8]) {
        self.port.apply(effect, bytes).unwrap();
    }

    /// The same, for one that leaves with the next wait.
    pub(super) fn send(&mut self, effect: Effect, bytes: &[u8]) {
        self.apply(effect, bytes);
        self.turn(Duration::ZERO);
    }

    /// What the worker does over and over.
    pub(super) fn turn(&mut self, patience: Duration) -> usize {
        self.port.wait(Some(now().after(patience))).unwrap();
        let events = self.port.serve(&mut self.handler).unwrap();
        while let Some((effect, bytes)) = self.handler.effects.pop_front() {
            self.apply(effect, &bytes);
        }
        events
    }

    /// Turns until it holds.
    #[track_caller]
    pub(super) fn until(&mut self, holds: impl Fn(&Recorder) -> bool) {
        let end = now().after(PATIENCE);
        while !holds(&self.handler) {
            assert!(now() < end, "it never came; streams: {:.2000?}", self.handler.streams);
            self.turn(Duration::from_millis(100));
        }
    }

    /// Turns until nothing has come for a while.
    pub(super) fn settle(&mut self) {
        let mut quiet = now().after(SILENCE);
        while now() < quiet {
            if self.turn(SILENCE / 5) > 0 {
                quiet = now().after(SILENCE);
            }
        }
    }

    /// A client of the UDP socket.
    pub(super) fn client(&self) -> UdpSocket {
        client(self.udp)
    }

    /// A client of the TCP socket, and its stream once it is open.
    pub(super) fn connect(&mut self) -> (TcpStream, StreamId) {
        let before = self.handler.opened().len();
        let client = TcpStream::connect(self.tcp).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        self.until(|handler| handler.opened().len() > before);
        let stream = *self.handler.opened().last().unwrap();
        (client, stream)
    }
}

/// Connected, so that only replies from the address it asks reach it.
pub(super) fn client(server: SocketAddr) -> UdpSocket {
    let local = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let client = UdpSocket::bind(local).unwrap();
    client.connect(server).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// What the client receives next.
pub(super) fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let len = client.recv(&mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

/// Nothing comes for a while.
pub(super) fn hears_nothing(client: &UdpSocket) -> bool {
    client.set_read_timeout(Some(SILENCE)).unwrap();
    let silent = client.recv(&mut [0; 1]).is_err();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    silent
}
