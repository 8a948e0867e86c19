//! Client connections by readiness, the same under every port: bytes in, all their answers out in one write.
//!
//! ```text
//!   Connecting ──> Open ──close──> Closing ──all written──> Lingering ──client's end, or time──> gone
//!   (ours only)                    writes the rest          discards what still comes
//! ```
//!
//! Closing a socket with unread bytes makes the kernel send a reset, which can overtake the last answers. So a stream
//! is shut down first and its socket kept until the client has closed too, for a bounded time.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::accept::Accepted;
use super::clock::now;
use super::readiness::{GENERATION_MASK, Readiness, Source};
use super::{
    Counters, Handler, ListenerId, PENDING_MAX, PENDING_PAUSE, STREAMS_MAX, SocketError, StreamEvent, StreamId,
};
use crate::time::Instant;

/// How long a stream may take to write its rest and see its client's end, once it was told to close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Streams that are closed for the engine and whose sockets linger; the oldest gives way.
const LINGERING_MAX: usize = 1024;

/// A buffer for answers that grew past this is not kept.
const REPLY_KEPT: usize = 256 << 10;

/// Bit of a [`StreamId`] that the engine gave out.
const OURS: u64 = 1 << 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    Closing,
    Lingering,
}

struct Stream {
    socket: OwnedFd,
    id: StreamId,
    listener: ListenerId,
    phase: Phase,
    /// What the kernel has not taken yet, from `written` on.
    pending: Vec<u8>,
    written: usize,
    /// Bytes, an end or an error may be there to read.
    readable: bool,
    /// The client will send no more once everything is read.
    ending: bool,
    /// The end was read and reported.
    ended: bool,
    /// Both directions are dead.
    broken: bool,
    /// What ended it.
    error: Option<SocketError>,
    /// Registered for room to write: a write fell short, or it is our own connection.
    watched: bool,
    /// There may be room to write again.
    writable: bool,
    /// What has come is still read; then the stream counts as half closed.
    draining: bool,
    /// The engine was told that it is half closed, although its client may send more.
    drained: bool,
    /// The engine wants no bytes.
    paused: bool,
    /// The engine is to be told when nothing is pending.
    tell_written: bool,
    /// In the list of those that are looked at next.
    queued: bool,
}

impl Stream {
    fn new(socket: OwnedFd, id: StreamId, listener: ListenerId, phase: Phase) -> Self {
        Self {
            socket,
            id,
            listener,
            phase,
            pending: Vec::new(),
            written: 0,
            readable: false,
            ending: false,
            ended: false,
            broken: false,
            error: None,
            watched: phase == Phase::Connecting,
            writable: false,
            draining: false,
            drained: false,
            paused: false,
            tell_written: false,
            queued: false,
        }
    }

    /// From now on it is read to its end for now, and then counts as half closed.
    fn drain(&mut self) {
        if matches!(self.phase, Phase::Open) && !self.ended {
            self.draining = true;
            self.readable = true;
        }
    }

    fn pending_len(&self) -> usize {
        self.pending.len() - self.written
    }

    /// Whether its bytes are wanted now.
    fn takes_bytes(&self) -> bool {
        let open = self.phase == Phase::Open && !self.ended && !self.drained;
        open && !self.paused && self.pending_len() < PENDING_PAUSE
    }

    /// Writes until the kernel takes no more; whether everything is written.
    fn flush(&mut self) -> Result<bool, Errno> {
        while self.written < self.pending.len() {
            match write(&self.socket, &self.pending[self.written..]) {
                Ok(len) => self.written += len,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        // Most streams never have anything pending, so the memory goes back.
        self.pending = Vec::new();
        self.written = 0;
        Ok(true)
    }
}

/// What is to be done with a stream after it was looked at.
enum Next {
    /// Wait for the kernel.
    Rest,
    /// Look again in the next round.
    Again,
    /// All is written and it was told to close.
    Finish,
    /// Close it now; the engine is to know.
    Drop,
}

struct Place {
    generation: u32,
    stream: Option<Stream>,
}

/// Every stream of a port.
pub(super) struct Streams {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Streams with an id of the engine's own.
    ours: HashMap<StreamId, u32, foldhash::fast::RandomState>,
    /// Looked at in the next round.
    queue: VecDeque<(u32, u32)>,
    /// Got bytes outside of a round; written before the port waits.
    unwritten: Vec<(u32, u32)>,
    /// Closed outside of a round; reported in the next one.
    gone: VecDeque<(StreamId, Option<SocketError>)>,
    /// Closing or lingering, in the order of their deadlines.
    closing: VecDeque<(Instant, u32, u32)>,
    reply: Vec<u8>,
    counters: Arc<Counters>,
}

impl Streams {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            ours: HashMap::default(),
            queue: VecDeque::new(),
            unwritten: Vec::new(),
            gone: VecDeque::new(),
            closing: VecDeque::new(),
            reply: Vec::new(),
            counters,
        }
    }

    /// Whether there is something to do without the kernel.
    pub(super) fn busy(&self) -> bool {
        !self.queue.is_empty() || !self.gone.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.closing.front().map(|(deadline, ..)| *deadline)
    }

    /// Takes a new connection in and tells the engine.
    pub(super) fn accept(&mut self, readiness: &Readiness, accepted: Accepted, handler: &mut impl Handler) {
        let Accepted {
            socket,
            listener,
            peer,
            local,
            draining,
        } = accepted;
        let Some(stream) = self.insert(readiness, socket, listener, None) else {
            self.counters.cells.accept_errors.add(1);
            return;
        };
        handler.stream(StreamEvent::Opened {
            stream,
            listener,
            peer,
            local,
        });
        if draining && let Some((at, _)) = self.find(stream) {
            self.drain_at(at);
        }
    }

    /// Drains the streams of a listener, or those of all clients.
    pub(super) fn drain(&mut self, listener: Option<ListenerId>) {
        for at in 0..self.places.len() as u32 {
            let stream = self.places[at as usize].stream.as_ref();
            let is_meant = |stream: &Stream| match listener {
                Some(listener) => stream.listener == listener,
                None => !stream.id.is_ours(),
            };
            if stream.is_some_and(is_meant) {
                self.drain_at(at);
            }
        }
    }

    fn drain_at(&mut self, at: u32) {
        let place = &mut self.places[at as usize];
        if let Some(stream) = &mut place.stream {
            stream.drain();
            enqueue(&mut self.queue, stream, at, place.generation);
        }
    }

    /// Whether a stream is being drained.
    pub(super) fn is_draining(&self) -> bool {
        let mut streams = self.places.iter().filter_map(|place| place.stream.as_ref());
        streams.any(|stream| stream.draining && stream.phase == Phase::Open)
    }

    /// Whether no client has one.
    pub(super) fn is_empty(&self) -> bool {
        let mut streams = self.places.iter().filter_map(|place| place.stream.as_ref());
        self.gone.is_empty() && streams.all(|stream| stream.id.is_ours())
    }

    /// Connects to another server; a failure is reported as a stream that closed.
    pub(super) fn open(&mut self, readiness: &Readiness, id: StreamId, to: SocketAddr, from: Option<IpAddr>) {
        debug_assert!(id.is_ours(), "an id of the engine's own has the top bit");
        let opened = connect(to, from)
            .map_err(|error| SocketError::from(&error))
            .and_then(|socket| {
                self.insert(readiness, socket, ListenerId::NONE, Some(id))
                    .ok_or(SocketError::Exhausted)
            });
        if let Err(error) = opened {
            self.gone.push_back((id, Some(error)));
        }
    }

    fn insert(
        &mut self,
        readiness: &Readiness,
        socket: OwnedFd,
        listener: ListenerId,
        ours: Option<StreamId>,
    ) -> Option<StreamId> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.places.len() < STREAMS_MAX => {
                self.places.push(Place {
                    generation: 0,
                    stream: None,
                });
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        let place = &mut self.places[at as usize];
        let source = Source::Stream {
            at,
            generation: place.generation,
        };
        let mut flags = EventFlags::IN | EventFlags::RDHUP;
        if ours.is_some() {
            flags |= EventFlags::OUT;
        }
        if readiness.add(&socket, source, flags).is_err() {
            self.free.push(at);
            return None;
        }
        let (id, phase) = match ours {
            Some(id) => {
                self.ours.insert(id, at);
                (id, Phase::Connecting)
            }
            None => (
                StreamId((u64::from(place.generation) << 32) | u64::from(at)),
                Phase::Open,
            ),
        };
        place.stream = Some(Stream::new(socket, id, listener, phase));
        Some(id)
    }

    pub(super) fn event(&mut self, at: u32, generation: u32, flags: EventFlags) {
        let Some(place) = self.places.get_mut(at as usize) else {
            return;
        };
        let Some(stream) = &mut place.stream else { return };
        if place.generation & GENERATION_MASK != generation {
            return;
        }
        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        stream.readable |= flags.intersects(EventFlags::IN | end);
        stream.ending |= flags.intersects(end);
        stream.broken |= flags.intersects(EventFlags::HUP | EventFlags::ERR);
        stream.writable |= flags.contains(EventFlags::OUT);
        enqueue(&mut self.queue, stream, at, place.generation);
    }

    /// Appends to what a stream has to write. It leaves with everything else that the engine has for it.
    pub(super) fn write(&mut self, id: StreamId, bytes: &[u8]) {
        let Some((at, generation)) = self.find(id) else { return };
        let Some(stream) = &mut self.places[at as usize].stream else {
            return;
        };
        if !matches!(stream.phase, Phase::Connecting | Phase::Open) || bytes.is_empty() {
            return;
        }
        if stream.pending.is_empty() && stream.phase == Phase::Open {
            self.unwritten.push((at, generation));
        }
        stream.pending.extend_from_slice(bytes);
        if stream.pending_len() > PENDING_MAX {
            self.counters.cells.streams_overrun.add(1);
            self.remove(at);
            self.gone.push_back((id, None));
        }
    }

    /// Writes what [`Streams::write`] brought.
    pub(super) fn flush(&mut self, readiness: &Readiness) {
        let mut unwritten = mem::take(&mut self.unwritten);
        for (at, generation) in unwritten.drain(..) {
            let place = &mut self.places[at as usize];
            if place.generation != generation {
                continue;
            }
            let Some(stream) = &mut place.stream else { continue };
            match stream.flush() {
                Ok(true) if stream.phase == Phase::Closing => self.finish(at),
                Ok(true) => {
                    stream.tell_written = stream.paused;
                    if stream.paused || stream.readable {
                        enqueue(&mut self.queue, stream, at, generation);
                    }
                }
                Ok(false) => watch(readiness, stream, at, generation),
                Err(error) => self.fail(at, error.into()),
            }
        }
        self.unwritten = unwritten;
    }

    /// Writes the rest, then closes; told twice, it closes at once.
    pub(super) fn close(&mut self, id: StreamId) {
        let Some((at, generation)) = self.find(id) else { return };
        let Some(stream) = &mut self.places[at as usize].stream else {
            return;
        };
        match stream.phase {
            Phase::Open => {
                stream.phase = Phase::Closing;
                if stream.pending.is_empty() {
                    self.finish(at);
                }
                if self.places[at as usize].generation == generation {
                    self.closing.push_back((now().after(CLOSE_PATIENCE), at, generation));
                }
            }
            Phase::Connecting | Phase::Closing => {
                self.remove(at);
                self.gone.push_back((id, None));
            }
            // Told already that it is gone.
            Phase::Lingering => {}
        }
    }

    pub(super) fn pause(&mut self, id: StreamId, paused: bool) {
        let Some((at, generation)) = self.find(id) else { return };
        let Some(stream) = &mut self.places[at as usize].stream else {
            return;
        };
        stream.paused = paused;
        stream.tell_written = paused && stream.pending.is_empty();
        enqueue(&mut self.queue, stream, at, generation);
    }

    /// Reports and does everything that waits, one read for each stream that has bytes.
    pub(super) fn serve(&mut self, readiness: &Readiness, handler: &mut impl Handler, buffer: &mut [u8]) -> usize {
        let mut events = self.gone.len();
        for (stream, error) in self.gone.drain(..) {
            handler.stream(StreamEvent::Closed { stream, error });
        }
        for _ in 0..self.queue.len() {
            let Some((at, generation)) = self.queue.pop_front() else {
                break;
            };
            let place = &mut self.places[at as usize];
            if place.generation != generation {
                continue;
            }
            let Some(stream) = &mut place.stream else { continue };
            stream.queued = false;
            let next = look(stream, handler, buffer, &mut self.reply, &self.counters, &mut events);
            if !stream.pending.is_empty() {
                watch(readiness, stream, at, generation);
            }
            match next {
                Next::Rest => {}
                Next::Again => enqueue(&mut self.queue, stream, at, generation),
                Next::Finish => self.finish(at),
                Next::Drop => {
                    if let Some(stream) = self.remove(at)
                        && stream.phase != Phase::Lingering
                    {
                        events += 1;
                        handler.stream(StreamEvent::Closed {
                            stream: stream.id,
                            error: stream.error,
                        });
                    }
                }
            }
        }
        if self.reply.capacity() > REPLY_KEPT {
            self.reply = Vec::new();
        }
        self.expire();
        events
    }

    /// Ends those that were told to close and took too long.
    fn expire(&mut self) {
        let Some(first) = self.deadline() else { return };
        let now = now();
        if now < first && self.closing.len() <= LINGERING_MAX {
            return;
        }
        while let Some((deadline, at, generation)) = self.closing.pop_front() {
            if deadline > now && self.closing.len() < LINGERING_MAX {
                self.closing.push_front((deadline, at, generation));
                return;
            }
            if self.places[at as usize].generation != generation {
                continue;
            }
            if let Some(stream) = self.remove(at)
                && stream.phase == Phase::Closing
            {
                self.counters.cells.streams_overrun.add(1);
                self.gone.push_back((stream.id, None));
            }
        }
    }

    /// Everything is written: says so to the client, and to the engine that the stream is gone.
    fn finish(&mut self, at: u32) {
        let Place {
            generation,
            stream: Some(stream),
        } = &mut self.places[at as usize]
        else {
            return;
        };
        let generation = *generation;
        self.gone.push_back((stream.id, None));
        stream.phase = Phase::Lingering;
        let done = stream.ended || stream.broken || rustix::net::shutdown(&stream.socket, Shutdown::Write).is_err();
        if done {
            self.remove(at);
            return;
        }
        self.ours.remove(&stream.id);
        enqueue(&mut self.queue, stream, at, generation);
    }

    /// Ends a stream that the network broke, outside of a round.
    fn fail(&mut self, at: u32, error: SocketError) {
        self.counters.cells.stream_errors.add(1);
        if let Some(stream) = self.remove(at) {
            self.gone.push_back((stream.id, Some(error)));
        }
    }

    fn remove(&mut self, at: u32) -> Option<Stream> {
        let place = &mut self.places[at as usize];
        let stream = place.stream.take()?;
        // An id that would come again is as good as used up.
        place.generation += 1;
        if u64::from(place.generation) << 32 < OURS {
            self.free.push(at);
        }
        if stream.id.0 & OURS != 0 {
            self.ours.remove(&stream.id);
        }
        Some(stream)
    }

    fn find(&self, id: StreamId) -> Option<(u32, u32)> {
        let at = if id.0 & OURS != 0 {
            *self.ours.get(&id)?
        } else {
            id.0 as u32
        };
        let place = self.places.get(at as usize)?;
        let stream = place.stream.as_ref()?;
        (stream.id == id).then_some((at, place.generation))
    }
}

fn enqueue(queue: &mut VecDeque<(u32, u32)>, stream: &mut Stream, at: u32, generation: u32) {
    if !stream.queued {
        stream.queued = true;
        queue.push_back((at, generation));
    }
}

/// From now on the kernel tells when there is room to write.
fn watch(readiness: &Readiness, stream: &mut Stream, at: u32, generation: u32) {
    if stream.watched {
        return;
    }
    stream.watched = true;
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
    // It can only fail for want of memory; the stream then ends when its time is up.
    let _ = readiness.modify(&stream.socket, Source::Stream { at, generation }, flags);
}

/// One look at a stream: writes what is pending, reads once, lets the engine answer, writes that.
fn look(
    stream: &mut Stream,
    handler: &mut impl Handler,
    buffer: &mut [u8],
    reply: &mut Vec<u8>,
    counters: &Counters,
    events: &mut usize,
) -> Next {
    if stream.phase == Phase::Connecting && !connected(stream, handler, events) {
        return if stream.broken { Next::Drop } else { Next::Rest };
    }
    if stream.phase == Phase::Lingering {
        return discard(stream, buffer);
    }
    let writable = mem::take(&mut stream.writable);
    if writable && !stream.pending.is_empty() {
        match stream.flush() {
            Ok(true) => stream.tell_written = true,
            Ok(false) => {}
            Err(error) => return failed(stream, error, counters),
        }
    }
    if stream.pending.is_empty() {
        if stream.phase == Phase::Closing {
            return Next::Finish;
        }
        if mem::take(&mut stream.tell_written) {
            *events += 1;
            handler.stream(StreamEvent::Writable { stream: stream.id });
        }
    }
    if stream.readable && stream.takes_bytes() {
        return read(stream, handler, buffer, reply, counters, events);
    }
    if !stream.broken {
        return Next::Rest;
    }
    match rustix::net::sockopt::socket_error(&stream.socket).and_then(|result| result) {
        Ok(()) => counters.cells.stream_errors.add(1),
        Err(error) => return failed(stream, error, counters),
    }
    Next::Drop
}

fn read(
    stream: &mut Stream,
    handler: &mut impl Handler,
    buffer: &mut [u8],
    reply: &mut Vec<u8>,
    counters: &Counters,
    events: &mut usize,
) -> Next {
    match rustix::net::recv(&stream.socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => {
            stream.readable = false;
            stream.ended = true;
            *events += 1;
            handler.stream(StreamEvent::HalfClosed { stream: stream.id });
            Next::Rest
        }
        Ok((len, _)) => {
            *events += 1;
            reply.clear();
            handler.stream(StreamEvent::Readable {
                stream: stream.id,
                bytes: &buffer[..len],
                reply,
            });
            // Less than asked for means that there is no more now (epoll(7)); only the end may still be there.
            stream.readable = len == buffer.len() || stream.ending || stream.draining;
            if !reply.is_empty()
                && let Err(next) = answer(stream, reply, counters)
            {
                return next;
            }
            if stream.readable && stream.takes_bytes() {
                Next::Again
            } else {
                Next::Rest
            }
        }
        Err(Errno::AGAIN) => {
            stream.readable = false;
            if mem::take(&mut stream.draining) {
                stream.drained = true;
                *events += 1;
                handler.stream(StreamEvent::HalfClosed { stream: stream.id });
            }
            Next::Rest
        }
        Err(Errno::INTR) => Next::Again,
        Err(error) => failed(stream, error, counters),
    }
}

/// Writes the answers, and keeps what the kernel does not take.
fn answer(stream: &mut Stream, reply: &[u8], counters: &Counters) -> Result<(), Next> {
    let mut taken = 0;
    if stream.pending.is_empty() {
        taken = match write(&stream.socket, reply) {
            Ok(len) => len,
            Err(Errno::AGAIN) => 0,
            Err(error) => return Err(failed(stream, error, counters)),
        };
    }
    if taken < reply.len() {
        stream.pending.extend_from_slice(&reply[taken..]);
        if stream.pending_len() > PENDING_MAX {
            counters.cells.streams_overrun.add(1);
            return Err(Next::Drop);
        }
    }
    Ok(())
}

/// Whether our own connection stands now; `broken` is set if it never will.
fn connected(stream: &mut Stream, handler: &mut impl Handler, events: &mut usize) -> bool {
    if !stream.writable && !stream.broken {
        return false;
    }
    let addresses = rustix::net::sockopt::socket_error(&stream.socket)
        .and_then(|result| result)
        .and_then(|()| {
            Ok((
                rustix::net::getpeername(&stream.socket)?,
                rustix::net::getsockname(&stream.socket)?,
            ))
        });
    let (peer, local) = match addresses {
        Ok(addresses) => addresses,
        Err(error) => {
            stream.broken = true;
            stream.error = Some(error.into());
            return false;
        }
    };
    let (Some(Ok(peer)), Ok(local)) = (peer.map(SocketAddr::try_from), SocketAddr::try_from(local)) else {
        stream.broken = true;
        return false;
    };
    stream.phase = Phase::Open;
    *events += 1;
    handler.stream(StreamEvent::Opened {
        stream: stream.id,
        listener: ListenerId::NONE,
        peer,
        local,
    });
    true
}

/// Reads what nobody wants any more, until the client's end.
fn discard(stream: &mut Stream, buffer: &mut [u8]) -> Next {
    match rustix::net::recv(&stream.socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Next::Drop,
        Ok(_) | Err(Errno::INTR) => Next::Again,
        Err(Errno::AGAIN) => Next::Rest,
        Err(_) => Next::Drop,
    }
}

fn failed(stream: &mut Stream, error: Errno, counters: &Counters) -> Next {
    counters.cells.stream_errors.add(1);
    stream.error = Some(error.into());
    Next::Drop
}

fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if let Some(from) = from {
        socket.bind(&SockAddr::from(SocketAddr::new(from, 0)))?;
    }
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&SockAddr::from(to)) {
        Ok(()) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Waker;
    use std::net::TcpListener;

    #[test]
    fn our_own_streams_hold_up_no_end() {
        let readiness = Readiness::new(&Waker::new().unwrap()).unwrap();
        let mut streams = Streams::new(Arc::new(Counters::new()));
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = StreamId::ours(1);
        streams.open(&readiness, stream, server.local_addr().unwrap(), None);
        streams.drain(None);
        assert!(streams.find(stream).is_some() && !streams.is_draining() && streams.is_empty());
    }
}
