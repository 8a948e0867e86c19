//! The one seam to the outside: a [`Port`] hands over what arrived and carries out what the engine wants done.
//!
//! ```text
//!            kernel                       Port                         engine
//!   UDP  --> ring or recvmmsg  --> serve: a batch of Datagram  --> Handler::datagrams
//!   TCP  --> readiness         --> serve: StreamEvent          --> Handler::stream
//!   UDP  --> upstream sockets  --> serve: UpstreamDatagram     --> Handler::upstream
//!   eventfd, deadline          --> wait returns
//!        <-- replies in the datagrams' room, sent when the handler returns
//!        <-- everything else       <-- apply(Effect)           <-- Responder::poll_effect
//! ```
//!
//! `unsafe` is allowed from here down, and nowhere else.

mod accept;
mod batch;
mod bufring;
mod clock;
mod control;
mod counters;
mod failure;
mod interface;
mod mmsg;
mod nss;
mod open;
mod pages;
mod peer;
mod readiness;
mod ring;
mod slots;
mod socket;
mod stream;
mod upstream;
mod uring;
mod waker;
mod watched;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

pub use clock::{now, read_clock};
pub use counters::{CounterValues, Counters, Way};
pub use failure::SocketError;
pub use interface::{interface_addresses, local_addresses};
pub use mmsg::MmsgPort;
pub use nss::look_up_without_modules;
pub use open::{AnyPort, ListenerSockets, PortKind, open};
pub use pages::use_huge_pages;
pub use peer::Peer;
pub use ring::UringDenied;
pub use socket::{BindError, Transport, bind_tcp, bind_udp, is_local, probe_taken, wildcard};
pub use uring::{UringPort, probe_uring};
pub use waker::Waker;

use crate::time::Instant;

/// Most datagrams handed over at once.
pub const BATCH_MAX: usize = 64;

/// Room for a query, and for a reply written in place. A longer reply leaves by [`Effect::Send`]; a longer query is
/// cut by the kernel and marked so.
pub const DATAGRAM_ROOM: usize = 2048;

/// Most connections of one port. Past it, new ones are closed as they come.
pub const STREAMS_MAX: usize = 1 << 16;

/// Most bytes of a stream handed over in one round: a hundred questions or two, so that nobody waits long for his turn.
pub const READ_MAX: usize = 8 << 10;

/// From this many unwritten bytes on, a stream's own bytes are left in the kernel.
pub const PENDING_PAUSE: usize = 256 << 10;

/// With more unwritten bytes than this a stream is closed: its client asks, but does not read.
pub const PENDING_MAX: usize = 4 << 20;

/// A socket the server listens on; an index into the configuration's listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u16);

impl ListenerId {
    /// The listener of a connection that we opened ourselves.
    pub const NONE: Self = Self(u16::MAX);
}

/// A client's connection, or one of our own. Never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

impl StreamId {
    /// An id for [`Effect::OpenStream`]; apart from those of accepted connections.
    #[must_use]
    pub const fn ours(number: u64) -> Self {
        Self(number | (1 << 63))
    }

    /// Whether it is such an id.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        self.0 >> 63 == 1
    }
}

/// A connected socket to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamId(pub u32);

/// A query, the room for its reply, and where both belong.
#[derive(Debug)]
pub struct Datagram<'p> {
    /// The bytes as they came.
    pub query: &'p [u8],
    /// The datagram was longer than [`DATAGRAM_ROOM`] and `query` holds its beginning.
    pub cut: bool,
    /// Where the reply is written.
    pub reply: &'p mut [u8],
    /// Bytes of `reply` to send; 0 sends nothing.
    pub reply_len: usize,
    /// The client.
    pub peer: &'p Peer,
    /// The socket it came in by.
    pub listener: ListenerId,
    /// The address it was sent to; the reply leaves from it.
    pub local: Option<IpAddr>,
}

/// What happened on a client's connection.
#[derive(Debug)]
pub enum StreamEvent<'p> {
    /// Accepted, or connected. The handler refuses it with [`Effect::CloseStream`].
    Opened {
        /// Which one.
        stream: StreamId,
        /// By which socket; [`ListenerId::NONE`] for a connection of our own.
        listener: ListenerId,
        /// The client.
        peer: SocketAddr,
        /// The address it connected to.
        local: SocketAddr,
    },
    /// Bytes came. All the answers that are ready at once go to `reply` and leave in one write.
    ///
    /// Answers can be thousands of times as long as their questions, and past [`PENDING_MAX`] the stream is closed. So
    /// a handler that has appended plenty keeps the rest of the bytes, pauses the stream and goes on at `Writable`.
    Readable {
        /// Which one.
        stream: StreamId,
        /// What came in this read.
        bytes: &'p [u8],
        /// Where answers are appended.
        reply: &'p mut Vec<u8>,
    },
    /// Everything written so far has been taken by the kernel. Reported after a write that it could not take at once,
    /// and for a paused stream whenever nothing is left to write.
    Writable {
        /// Which one.
        stream: StreamId,
    },
    /// The client will send no more; what is being answered may still be written.
    HalfClosed {
        /// Which one.
        stream: StreamId,
    },
    /// Gone. The id will not be heard of again. Comes once for each stream, also after [`Effect::CloseStream`] and for
    /// one that could not be opened.
    Closed {
        /// Which one.
        stream: StreamId,
        /// What ended it, unless that was one of its two ends.
        error: Option<SocketError>,
    },
}

impl StreamEvent<'_> {
    /// The connection.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        match *self {
            Self::Opened { stream, .. }
            | Self::Readable { stream, .. }
            | Self::Writable { stream }
            | Self::HalfClosed { stream }
            | Self::Closed { stream, .. } => stream,
        }
    }
}

/// A reply from another server.
#[derive(Debug)]
pub struct UpstreamDatagram<'p> {
    /// The socket it came by.
    pub upstream: UpstreamId,
    /// The bytes as they came; none where there is an error.
    pub bytes: &'p [u8],
    /// What the kernel reported of the socket.
    pub error: Option<SocketError>,
}

/// What the engine wants done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Send `bytes` to a client, from `local` where the socket is bound to a wildcard.
    Send {
        /// By this socket.
        listener: ListenerId,
        /// To this client.
        peer: Peer,
        /// From this address.
        local: Option<IpAddr>,
    },
    /// Append `bytes` to what a stream still has to write. Several of these leave in one write, before the next wait.
    WriteStream {
        /// Which one.
        stream: StreamId,
    },
    /// Write what is pending, then close. Told twice, it closes at once.
    CloseStream {
        /// Which one.
        stream: StreamId,
    },
    /// Take no more bytes from this stream until told otherwise: its client does not read what it asked for.
    PauseStream {
        /// Which one.
        stream: StreamId,
        /// Pause or go on.
        paused: bool,
    },
    /// Connect a stream to another server. It may be written to at once.
    OpenStream {
        /// The id it will have; see [`StreamId::ours`].
        stream: StreamId,
        /// The other server.
        to: SocketAddr,
        /// The address to come from, if not any.
        from: Option<IpAddr>,
    },
    /// Make a UDP socket connected to another server, on a random port. A failure is reported as one of the socket.
    OpenUpstream {
        /// The id it will have.
        upstream: UpstreamId,
        /// The other server.
        to: SocketAddr,
        /// The address to come from, if not any.
        from: Option<IpAddr>,
    },
    /// Send `bytes` by an upstream socket.
    SendUpstream {
        /// Which one.
        upstream: UpstreamId,
    },
    /// Close an upstream socket.
    RetireUpstream {
        /// Which one.
        upstream: UpstreamId,
    },
}

/// Who takes what a port hands over.
pub trait Handler {
    /// Up to [`BATCH_MAX`] datagrams; each reply that is there now is written into its room.
    fn datagrams(&mut self, batch: &mut [Datagram<'_>]);
    /// Something happened on a stream.
    fn stream(&mut self, event: StreamEvent<'_>);
    /// Another server replied. Returns whether more is waited for by that socket: if not, what stands there is as well read
    /// when something else comes.
    fn upstream(&mut self, reply: UpstreamDatagram<'_>) -> bool;
}

/// A way to the outside: the kernel by ring or by system calls, or a simulation.
pub trait Port {
    /// May block: until something is ready, the deadline (on the clock of [`now`]), or a wake-up from another thread. It
    /// may also return for no reason.
    ///
    /// # Errors
    /// Only what the worker cannot go on after.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()>;

    /// Hands over what is ready, without blocking, and sends the replies: of each UDP socket up to a batch, of each
    /// stream one read. What is left ends the next wait at once. Returns how many datagrams and stream events there
    /// were.
    ///
    /// # Errors
    /// Only what the worker cannot go on after.
    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize>;

    /// Carries out one effect; `bytes` are those that [`Effect`] speaks of. Datagrams to clients may leave together with the
    /// next [`Port::wait`].
    ///
    /// # Errors
    /// Only what the worker cannot go on after; a client that is gone is no error.
    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()>;
}

/// A copy of a listening socket.
#[derive(Debug)]
pub struct SharedSocket {
    /// Where it is bound.
    pub address: SocketAddr,
    /// What comes by it.
    pub transport: Transport,
    /// Its descriptor.
    pub socket: OwnedFd,
}

/// A port over the kernel's sockets, which come and go while it serves.
pub trait Sockets: Port {
    /// Serves these sockets too.
    ///
    /// # Errors
    /// The kernel does not tell when something comes by one of them.
    fn listen(&mut self, sockets: ListenerSockets) -> io::Result<()>;

    /// Closes the sockets of a listener at this address: at once for what is new, and for good with
    /// [`Sockets::close_drained`] once all that they hold was handed over. If the listener has no other socket for streams, its streams are drained too.
    fn retire(&mut self, listener: ListenerId, address: SocketAddr);

    /// Retires all sockets. What has come by streams is handed over, then each is reported as half closed.
    fn drain(&mut self);

    /// Copies of all listening sockets, for another process.
    ///
    /// # Errors
    /// No file descriptor left.
    fn share(&self) -> io::Result<Vec<SharedSocket>>;

    /// Takes nothing more from any socket, since another process has them too and takes what is left in them. Streams are
    /// drained.
    fn release(&mut self);

    /// Whether something that was retired may still hold what has to be handed over.
    fn is_draining(&self) -> bool;

    /// Closes the UDP sockets that hold nothing any more: all that came by them has been answered.
    fn close_drained(&mut self);

    /// Whether nothing is left that could bring anything.
    fn is_idle(&self) -> bool;
}
