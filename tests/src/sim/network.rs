//! A network by seed, and the port at its server's end.
//!
//! ```text
//!   client ── latency ──> due at the server ──> serve ──> handler
//!   client <── sent, written <──────────────── replies, effects
//! ```
//!
//! Datagrams overtake each other, the bytes of a stream do not. A stream's client takes [`WINDOW`] bytes before it has to
//! read some.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use nodens_engine::io::{
    BATCH_MAX, DATAGRAM_ROOM, Datagram, Effect, Handler, ListenerId, PENDING_MAX, PENDING_PAUSE, Peer, Port,
    StreamEvent, StreamId,
};
use nodens_engine::time::Instant;

use super::VirtualClock;
use super::servers::Servers;
use crate::seed::Seeded;

/// Bytes on their way to a stream's client that it has not read.
pub const WINDOW: usize = 64 << 10;
/// Most bytes of one read.
const READ_MAX: usize = 16 << 10;

#[derive(Debug)]
enum Arrival {
    Datagram(SocketAddr, Vec<u8>),
    Connect(StreamId, SocketAddr),
    Bytes(StreamId, Vec<u8>),
    End(StreamId),
    Reset(StreamId),
}

#[derive(Debug, Default)]
struct Stream {
    /// What came and was not handed over.
    inbox: VecDeque<u8>,
    /// The client has ended its side, and the engine knows.
    ended: bool,
    end_told: bool,
    /// What the engine wrote and the network did not take.
    pending: VecDeque<u8>,
    /// On its way to the client, who has not read it.
    unread: usize,
    fell_short: bool,
    paused: bool,
    closing: bool,
    /// The last byte on its way, so that none overtakes another.
    last: Instant,
}

impl Stream {
    fn takes_bytes(&self) -> bool {
        !self.paused && !self.closing && self.pending.len() < PENDING_PAUSE
    }

    fn is_writable(&self) -> bool {
        self.pending.is_empty() && !self.closing && (self.fell_short || self.paused)
    }

    fn is_ready(&self) -> bool {
        let ends = self.ended && !self.end_told && self.inbox.is_empty() && !self.closing;
        self.takes_bytes() && !self.inbox.is_empty() || self.is_writable() || ends
    }
}

#[derive(Debug)]
struct Inner {
    clock: VirtualClock,
    seeded: Seeded,
    numbers: u64,
    due: BTreeMap<(Instant, u64), Arrival>,
    inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    streams: BTreeMap<StreamId, Stream>,
    opened: VecDeque<(StreamId, SocketAddr)>,
    gone: VecDeque<StreamId>,
    woken: bool,
    sent: Vec<(SocketAddr, Vec<u8>)>,
    written: Vec<(StreamId, Vec<u8>)>,
    closed: Vec<(StreamId, Instant)>,
    /// Those that the server asks itself.
    servers: Servers,
}

/// The clients' end.
#[derive(Clone, Debug)]
pub struct Network(Rc<RefCell<Inner>>);

/// The server's end.
#[derive(Debug)]
pub struct SimPort(Network);

/// Where the server is.
pub fn server() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 53))
}

impl Network {
    /// An empty network.
    pub fn new(seed: u64, clock: VirtualClock) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            servers: Servers::new(seed, clock.clone()),
            clock,
            seeded: Seeded::new(seed),
            numbers: 0,
            due: BTreeMap::new(),
            inbox: VecDeque::new(),
            streams: BTreeMap::new(),
            opened: VecDeque::new(),
            gone: VecDeque::new(),
            woken: false,
            sent: Vec::new(),
            written: Vec::new(),
            closed: Vec::new(),
        })))
    }

    /// The port at its other end.
    pub fn port(&self) -> SimPort {
        SimPort(self.clone())
    }

    /// The servers that this one can ask.
    pub fn servers(&self) -> RefMut<'_, Servers> {
        RefMut::map(self.inner(), |inner| &mut inner.servers)
    }

    fn inner(&self) -> RefMut<'_, Inner> {
        self.0.borrow_mut()
    }

    /// Sends a datagram.
    pub fn send(&self, client: SocketAddr, bytes: &[u8]) {
        let at = self.inner().latency();
        self.inner().arrive(at, Arrival::Datagram(client, bytes.to_vec()));
    }

    /// Connects a stream.
    pub fn connect(&self, client: SocketAddr) -> StreamId {
        let mut inner = self.inner();
        inner.numbers += 1;
        let stream = StreamId(inner.numbers);
        let last = inner.latency();
        inner.streams.insert(
            stream,
            Stream {
                last,
                ..Stream::default()
            },
        );
        inner.arrive(last, Arrival::Connect(stream, client));
        stream
    }

    /// Sends bytes of a stream.
    pub fn write(&self, stream: StreamId, bytes: &[u8]) {
        self.on_stream(stream, Arrival::Bytes(stream, bytes.to_vec()));
    }

    /// The client will send no more.
    pub fn end(&self, stream: StreamId) {
        self.on_stream(stream, Arrival::End(stream));
    }

    /// The client is gone.
    pub fn reset(&self, stream: StreamId) {
        self.on_stream(stream, Arrival::Reset(stream));
    }

    fn on_stream(&self, stream: StreamId, arrival: Arrival) {
        let mut inner = self.inner();
        let at = inner.latency();
        let Some(state) = inner.streams.get_mut(&stream) else {
            return;
        };
        state.last = state.last.max(at);
        let at = state.last;
        inner.arrive(at, arrival);
    }

    /// A stream's client reads all that has reached it.
    pub fn read(&self, stream: StreamId) {
        let mut inner = self.inner();
        if let Some(state) = inner.streams.get_mut(&stream) {
            state.unread = 0;
        }
        inner.flush(stream);
    }

    /// Ends the next wait.
    pub fn wake(&self) {
        self.inner().woken = true;
    }

    /// When something comes to pass at the server; now, if something waits there.
    pub fn next_at(&self) -> Option<Instant> {
        let inner = self.inner();
        if inner.is_busy() {
            return Some(inner.clock.now());
        }
        let due = inner.due.keys().next().map(|(at, _)| *at);
        due.into_iter().chain(inner.servers.next_at()).min()
    }

    /// The datagrams that the server sent since the last call.
    pub fn take_sent(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut self.inner().sent)
    }

    /// What the server wrote to streams since the last call, each write by itself.
    pub fn take_written(&self) -> Vec<(StreamId, Vec<u8>)> {
        std::mem::take(&mut self.inner().written)
    }

    /// The streams that were closed since the last call.
    pub fn take_closed(&self) -> Vec<(StreamId, Instant)> {
        std::mem::take(&mut self.inner().closed)
    }

    /// Streams that there are.
    pub fn streams(&self) -> usize {
        self.inner().streams.len()
    }

    /// Most bytes that wait to be written to one stream.
    pub fn pending_max(&self) -> usize {
        self.inner()
            .streams
            .values()
            .map(|stream| stream.pending.len())
            .max()
            .unwrap_or(0)
    }
}

impl Inner {
    fn latency(&mut self) -> Instant {
        let micros = 50 + self.seeded.below(2000) as u64;
        self.clock.after(Duration::from_micros(micros))
    }

    fn arrive(&mut self, at: Instant, arrival: Arrival) {
        self.numbers += 1;
        self.due.insert((at, self.numbers), arrival);
    }

    fn is_busy(&self) -> bool {
        let waits = !self.inbox.is_empty() || !self.opened.is_empty() || !self.gone.is_empty();
        waits || self.streams.values().any(Stream::is_ready)
    }

    /// All that is due has come.
    fn settle(&mut self) {
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > self.clock.now() {
                return;
            }
            match entry.remove() {
                Arrival::Datagram(client, bytes) => self.inbox.push_back((client, bytes)),
                Arrival::Connect(stream, client) => self.opened.push_back((stream, client)),
                Arrival::Bytes(stream, bytes) => {
                    if let Some(state) = self.streams.get_mut(&stream) {
                        state.inbox.extend(bytes);
                    }
                }
                Arrival::End(stream) => {
                    if let Some(state) = self.streams.get_mut(&stream) {
                        state.ended = true;
                    }
                }
                Arrival::Reset(stream) => self.drop_stream(stream),
            }
        }
    }

    fn drop_stream(&mut self, stream: StreamId) {
        if self.streams.remove(&stream).is_some() {
            self.gone.push_back(stream);
            self.closed.push((stream, self.clock.now()));
        }
    }

    /// Gives the network what it takes; a stream that was to be closed is, once all is written.
    fn flush(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        let len = state.pending.len().min(WINDOW - state.unread);
        state.pending.drain(..len);
        state.unread += len;
        state.fell_short |= !state.pending.is_empty();
        if state.closing && state.pending.is_empty() || state.pending.len() > PENDING_MAX {
            self.drop_stream(stream);
        }
    }

    fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        let Some(state) = self.streams.get_mut(&stream).filter(|state| !state.closing) else {
            return;
        };
        if !bytes.is_empty() {
            state.pending.extend(bytes);
            self.written.push((stream, bytes.to_vec()));
            self.flush(stream);
        }
    }
}

impl SimPort {
    /// The other end.
    pub fn network(&self) -> &Network {
        &self.0
    }

    fn datagrams(&mut self, handler: &mut impl Handler) -> usize {
        let mut inner = self.0.inner();
        let len = inner.inbox.len().min(BATCH_MAX);
        let came: Vec<_> = inner.inbox.drain(..len).collect();
        drop(inner);
        if came.is_empty() {
            return 0;
        }
        let peers: Vec<Peer> = came.iter().map(|(client, _)| Peer::from_socket_addr(*client)).collect();
        let mut rooms = vec![[0; DATAGRAM_ROOM]; came.len()];
        let datagram = |((query, peer), reply)| {
            let query: &Vec<u8> = query;
            let reply: &mut [u8; DATAGRAM_ROOM] = reply;
            Datagram {
                query: &query[..query.len().min(DATAGRAM_ROOM)],
                cut: query.len() > DATAGRAM_ROOM,
                reply,
                reply_len: 0,
                peer,
                listener: ListenerId(0),
                local: None,
            }
        };
        let mut batch: Vec<_> = came
            .iter()
            .map(|(_, query)| query)
            .zip(&peers)
            .zip(&mut rooms)
            .map(datagram)
            .collect();
        handler.datagrams(&mut batch);
        let lens: Vec<usize> = batch.iter().map(|datagram| datagram.reply_len).collect();
        for ((client, _), (room, len)) in came.iter().zip(rooms.iter().zip(lens)) {
            if len > 0 {
                self.0.inner().sent.push((*client, room[..len].to_vec()));
            }
        }
        came.len()
    }

    /// One read, or one event, of each stream.
    fn streams(&mut self, handler: &mut impl Handler) -> usize {
        let mut events = 0;
        loop {
            let opened = self.0.inner().opened.pop_front();
            let Some((stream, client)) = opened else { break };
            if self.0.inner().streams.contains_key(&stream) {
                handler.stream(StreamEvent::Opened {
                    stream,
                    listener: ListenerId(0),
                    peer: client,
                    local: server(),
                });
                events += 1;
            } else {
                // It was reset before it was accepted: nobody has heard of it.
                self.0.inner().gone.retain(|gone| *gone != stream);
            }
        }
        let ready: Vec<StreamId> = self
            .0
            .inner()
            .streams
            .iter()
            .filter(|(_, state)| state.is_ready())
            .map(|(stream, _)| *stream)
            .collect();
        for stream in ready {
            events += 1;
            self.one(stream, handler);
        }
        loop {
            let gone = self.0.inner().gone.pop_front();
            let Some(stream) = gone else { return events };
            handler.stream(StreamEvent::Closed { stream, error: None });
            events += 1;
        }
    }

    /// What other servers say.
    fn others(&mut self, handler: &mut impl Handler) -> usize {
        let mut events = 0;
        loop {
            let told = self.0.servers().take();
            let Some(told) = told else { return events };
            told.hand(handler);
            events += 1;
        }
    }

    fn one(&mut self, stream: StreamId, handler: &mut impl Handler) {
        let mut inner = self.0.inner();
        let Some(state) = inner.streams.get_mut(&stream) else {
            return;
        };
        if state.is_writable() {
            state.fell_short = false;
            drop(inner);
            return handler.stream(StreamEvent::Writable { stream });
        }
        let len = state.inbox.len().min(READ_MAX);
        let bytes: Vec<u8> = state.inbox.drain(..len).collect();
        if bytes.is_empty() {
            state.end_told = true;
            drop(inner);
            return handler.stream(StreamEvent::HalfClosed { stream });
        }
        drop(inner);
        let mut reply = Vec::new();
        handler.stream(StreamEvent::Readable {
            stream,
            bytes: &bytes,
            reply: &mut reply,
        });
        self.0.inner().write(stream, &reply);
    }
}

impl Port for SimPort {
    /// Jumps to the next event or the deadline. A wait that nothing would ever end is an error.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let next = self.0.next_at();
        let mut inner = self.0.inner();
        if !std::mem::take(&mut inner.woken) {
            let until = next.into_iter().chain(deadline).min();
            let until = until.ok_or_else(|| io::Error::other("nothing will ever happen again"))?;
            inner.clock.jump(until);
        }
        inner.settle();
        Ok(())
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        self.0.inner().settle();
        Ok(self.datagrams(handler) + self.streams(handler) + self.others(handler))
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.0.inner();
        if inner.servers.apply(effect, bytes) {
            return Ok(());
        }
        match effect {
            Effect::Send { peer, .. } => inner.sent.push((peer.to_socket_addr(), bytes.to_vec())),
            Effect::WriteStream { stream } => inner.write(stream, bytes),
            Effect::CloseStream { stream } => {
                if let Some(state) = inner.streams.get_mut(&stream) {
                    let twice = std::mem::replace(&mut state.closing, true);
                    if twice {
                        inner.drop_stream(stream);
                    } else {
                        inner.flush(stream);
                    }
                }
            }
            Effect::PauseStream { stream, paused } => {
                if let Some(state) = inner.streams.get_mut(&stream) {
                    state.paused = paused;
                }
            }
            Effect::OpenStream { .. }
            | Effect::OpenUpstream { .. }
            | Effect::SendUpstream { .. }
            | Effect::RetireUpstream { .. } => {}
        }
        Ok(())
    }
}
