//! Choosing a port and opening it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use socket2::Socket;

use super::counters::Way;
use super::watched::Watched;
use super::{Counters, Effect, Handler, ListenerId, MmsgPort, Port, SharedSocket, Sockets, UringPort, Waker};
use crate::time::Instant;

/// Which way to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// io_uring; see [`probe_uring`](super::probe_uring).
    Uring,
    /// `recvmmsg` and `sendmmsg`.
    Mmsg,
    /// io_uring, or `recvmmsg` where the kernel denies it to this worker: the locked memory of the user may be used up
    /// by the workers before it.
    Auto,
}

/// The sockets of one listener that one worker serves.
#[derive(Debug)]
pub struct ListenerSockets {
    /// Which listener.
    pub listener: ListenerId,
    /// From [`bind_udp`](super::bind_udp).
    pub udp: Option<Socket>,
    /// From [`bind_tcp`](super::bind_tcp).
    pub tcp: Option<Socket>,
}

/// Opens a port on the calling thread, which must be the one that serves it.
///
/// # Errors
/// The kernel denies what the port needs.
pub fn open(
    kind: PortKind,
    sockets: Vec<ListenerSockets>,
    waker: &Waker,
    counters: &Arc<Counters>,
) -> io::Result<AnyPort> {
    let watched = Watched::new(waker, counters)?;
    let mut denied = None;
    let port = match (kind != PortKind::Mmsg).then(UringPort::ring) {
        Some(Ok(ring)) => UringPort::open(ring, watched, sockets, counters).map(AnyPort::Uring)?,
        Some(Err(denied)) if kind == PortKind::Uring => return Err(io::Error::other(denied)),
        ring => {
            denied = ring.and_then(Result::err);
            MmsgPort::open(watched, sockets, counters).map(AnyPort::Mmsg)?
        }
    };
    let kind = port.kind();
    // Counters that several ports share, as tests do, keep the first.
    let _ = counters.way.set(Way { kind, denied });
    Ok(port)
}

/// A port of any kind; one jump a call, none a datagram.
pub enum AnyPort {
    /// See [`PortKind::Uring`].
    Uring(UringPort),
    /// See [`PortKind::Mmsg`].
    Mmsg(MmsgPort),
}

impl AnyPort {
    /// What it is, once [`PortKind::Auto`] was decided.
    #[must_use]
    pub fn kind(&self) -> PortKind {
        match self {
            Self::Uring(_) => PortKind::Uring,
            Self::Mmsg(_) => PortKind::Mmsg,
        }
    }
}

impl Port for AnyPort {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        match self {
            Self::Uring(port) => port.wait(deadline),
            Self::Mmsg(port) => port.wait(deadline),
        }
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        match self {
            Self::Uring(port) => port.serve(handler),
            Self::Mmsg(port) => port.serve(handler),
        }
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Uring(port) => port.apply(effect, bytes),
            Self::Mmsg(port) => port.apply(effect, bytes),
        }
    }
}

impl Sockets for AnyPort {
    fn listen(&mut self, sockets: ListenerSockets) -> io::Result<()> {
        match self {
            Self::Uring(port) => port.listen(sockets),
            Self::Mmsg(port) => port.listen(sockets),
        }
    }

    fn retire(&mut self, listener: ListenerId, address: SocketAddr) {
        match self {
            Self::Uring(port) => port.retire(listener, address),
            Self::Mmsg(port) => port.retire(listener, address),
        }
    }

    fn drain(&mut self) {
        match self {
            Self::Uring(port) => port.drain(),
            Self::Mmsg(port) => port.drain(),
        }
    }

    fn share(&self) -> io::Result<Vec<SharedSocket>> {
        match self {
            Self::Uring(port) => port.share(),
            Self::Mmsg(port) => port.share(),
        }
    }

    fn release(&mut self) {
        match self {
            Self::Uring(port) => port.release(),
            Self::Mmsg(port) => port.release(),
        }
    }

    fn is_draining(&self) -> bool {
        match self {
            Self::Uring(port) => port.is_draining(),
            Self::Mmsg(port) => port.is_draining(),
        }
    }

    fn close_drained(&mut self) {
        match self {
            Self::Uring(port) => port.close_drained(),
            Self::Mmsg(port) => port.close_drained(),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Self::Uring(port) => port.is_idle(),
            Self::Mmsg(port) => port.is_idle(),
        }
    }
}
