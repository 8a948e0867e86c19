//! Everything but the listening UDP sockets, which is the same under every port: streams, upstream sockets, the
//! waker, and the epoll set that watches them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use socket2::Socket;

use super::accept::Acceptors;
use super::batch::UdpListener;
use super::readiness::{Patience, Readiness, Source};
use super::stream::Streams;
use super::upstream::Upstreams;
use super::{Counters, Effect, Handler, ListenerId, READ_MAX, SharedSocket, Waker};
use crate::time::Instant;

/// Room for the largest datagram of an upstream.
const BUFFER_LEN: usize = 64 << 10;

pub(super) struct Watched {
    pub(super) readiness: Readiness,
    acceptors: Acceptors,
    streams: Streams,
    upstreams: Upstreams,
    buffer: Box<[u8]>,
    counters: Arc<Counters>,
}

impl Watched {
    pub(super) fn new(waker: &Waker, counters: &Arc<Counters>) -> io::Result<Self> {
        Ok(Self {
            readiness: Readiness::new(waker)?,
            acceptors: Acceptors::default(),
            streams: Streams::new(Arc::clone(counters)),
            upstreams: Upstreams::new(),
            buffer: vec![0; BUFFER_LEN].into(),
            counters: Arc::clone(counters),
        })
    }

    pub(super) fn add_udp(&self, at: usize, listener: &UdpListener) -> io::Result<()> {
        self.readiness
            .add(&listener.socket, Source::Udp(at as u32), EventFlags::IN)
    }

    pub(super) fn add_tcp(&mut self, id: ListenerId, socket: Socket) -> io::Result<()> {
        self.acceptors.add(&self.readiness, id, socket)
    }

    /// Retires the listening sockets at this address, and the streams of the listener if it has no others.
    pub(super) fn retire(&mut self, id: ListenerId, address: SocketAddr) {
        self.acceptors.retire(|own, bound| own == id && bound == address);
        if !self.acceptors.serves(id) {
            self.streams.drain(Some(id));
        }
    }

    /// Retires all listening sockets and drains all streams.
    pub(super) fn drain(&mut self) {
        self.acceptors.retire(|_, _| true);
        self.streams.drain(None);
    }

    pub(super) fn share(&self) -> impl Iterator<Item = io::Result<SharedSocket>> + '_ {
        self.acceptors.share()
    }

    /// Closes all listening sockets as they are, and drains all streams.
    pub(super) fn release(&mut self) {
        self.acceptors.release(&self.readiness);
        self.streams.drain(None);
    }

    /// Whether something that was retired may still hold what has to be handed over.
    pub(super) fn is_draining(&self) -> bool {
        self.acceptors.is_draining() || self.streams.is_draining()
    }

    /// Whether nothing here can bring anything.
    pub(super) fn is_idle(&self) -> bool {
        self.acceptors.is_empty() && self.streams.is_empty()
    }

    /// Asks the kernel who is ready, and tells `udp` which UDP listeners are. Returns whether there may be more.
    pub(super) fn poll(&mut self, patience: Patience, mut udp: impl FnMut(usize)) -> io::Result<bool> {
        let more = self.readiness.poll(patience)?;
        for (source, flags) in self.readiness.events() {
            match source {
                Source::Udp(at) => udp(at as usize),
                Source::Acceptor(at) => self.acceptors.event(at),
                Source::Stream { at, generation } => self.streams.event(at, generation, flags),
                Source::Upstream(id) => self.upstreams.event(id),
                // That the wait ended is all it was for.
                Source::Waker => {}
            }
        }
        Ok(more)
    }

    /// Whether there is something to do without the kernel.
    pub(super) fn busy(&self) -> bool {
        self.streams.busy() || self.upstreams.busy() || self.acceptors.busy()
    }

    /// When there will be something to do without the kernel.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match (self.streams.deadline(), self.acceptors.deadline()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Writes what the engine gave to streams since the last time.
    pub(super) fn flush(&mut self) {
        self.streams.flush(&self.readiness);
    }

    pub(super) fn serve(&mut self, handler: &mut impl Handler) -> usize {
        let Self {
            readiness,
            acceptors,
            streams,
            upstreams,
            buffer,
            counters,
        } = self;
        let mut events = 0;
        acceptors.serve(readiness, counters, |accepted| {
            events += 1;
            streams.accept(readiness, accepted, handler);
        });
        events += streams.serve(readiness, handler, &mut buffer[..READ_MAX]);
        events + upstreams.serve(handler, buffer)
    }

    /// Carries out an effect on anything but a UDP listener.
    pub(super) fn apply(&mut self, effect: Effect, bytes: &[u8]) {
        match effect {
            Effect::WriteStream { stream } => self.streams.write(stream, bytes),
            Effect::CloseStream { stream } => self.streams.close(stream),
            Effect::PauseStream { stream, paused } => self.streams.pause(stream, paused),
            Effect::OpenStream { stream, to, from } => self.streams.open(&self.readiness, stream, to, from),
            Effect::OpenUpstream { upstream, to, from } => self.upstreams.open(&self.readiness, upstream, to, from),
            Effect::SendUpstream { upstream } => self.upstreams.send(upstream, bytes, &self.counters),
            Effect::RetireUpstream { upstream } => self.upstreams.retire(upstream),
            Effect::Send { .. } => {}
        }
    }
}
