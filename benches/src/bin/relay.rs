//! The floor of what has to be asked of another server: each query goes on with an id of the relay's own, each reply goes
//! back with the client's. One socket to the other server, up to 64 messages a system call, nothing kept, nothing
//! checked.
//!
//! ```text
//! relay (--udp | --tcp) ADDR:PORT (--to | --to-tcp) ADDR:PORT
//! ```
//!
//! It has its own few system calls and none of the engine's ports, so that it is a floor for those too. IPv4 alone.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::process::ExitCode;

use arrayvec::ArrayVec;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// Messages of one system call.
const BATCH: usize = 64;
/// Bytes of a datagram.
const ROOM: usize = 2048;
/// Bytes of one read of a stream.
const READ: usize = 64 << 10;
/// The length in front of a message in a stream.
const FRAME: usize = 2;

/// What an event is about: one of these, or else a client's stream.
const CLIENTS: u64 = u64::MAX;
const UPSTREAM: u64 = u64::MAX - 1;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let started = match &words[..] {
        [front, at, back, to] => Relay::start((front, at), (back, to)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match started.and_then(Relay::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error}\nusage: relay (--udp | --tcp) ADDR:PORT (--to | --to-tcp) ADDR:PORT");
            ExitCode::FAILURE
        }
    }
}

struct Relay {
    epoll: OwnedFd,
    front: Front,
    upstream: End,
    origins: Origins,
    batch: Batch,
}

/// Where clients come in.
enum Front {
    Datagrams(End),
    Streams {
        listener: TcpListener,
        streams: Vec<Option<End>>,
    },
}

impl Relay {
    fn start((front, at): (&str, &str), (back, to): (&str, &str)) -> io::Result<Self> {
        let parse = |text: &str| text.parse::<SocketAddrV4>().map_err(io::Error::other);
        let (at, to) = (parse(at)?, parse(to)?);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let front = match front {
            "--udp" => {
                let socket = UdpSocket::bind(at)?;
                watch(&epoll, &socket, CLIENTS)?;
                Front::Datagrams(End::datagrams(socket))
            }
            "--tcp" => {
                let listener = TcpListener::bind(at)?;
                watch(&epoll, &listener, CLIENTS)?;
                Front::Streams {
                    listener,
                    streams: Vec::new(),
                }
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let upstream = match back {
            "--to" => {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect(to)?;
                watch(&epoll, &socket, UPSTREAM)?;
                End::datagrams(socket)
            }
            "--to-tcp" => {
                let stream = TcpStream::connect(to)?;
                watch(&epoll, &stream, UPSTREAM)?;
                End::stream(stream)?
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Self {
            epoll,
            front,
            upstream,
            origins: Origins::new(),
            batch: Batch::new(),
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(BATCH);
        loop {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
            for event in &events {
                match event.data.u64() {
                    UPSTREAM => self.replies()?,
                    CLIENTS => match &mut self.front {
                        Front::Datagrams(_) => self.queries(None)?,
                        Front::Streams { listener, streams } => {
                            let (stream, _) = listener.accept()?;
                            watch(&self.epoll, &stream, streams.len() as u64)?;
                            streams.push(Some(End::stream(stream)?));
                        }
                    },
                    stream => self.queries(Some(stream as usize))?,
                }
            }
        }
    }

    /// Passes on what a client's stream holds, or the socket of all.
    fn queries(&mut self, stream: Option<usize>) -> io::Result<()> {
        let client = match (&mut self.front, stream) {
            (Front::Datagrams(socket), _) => socket,
            (Front::Streams { streams, .. }, at) => {
                let place = &mut streams[at.unwrap_or_default()];
                let Some(open) = place else { return Ok(()) };
                if !open.receive(&mut self.batch)? {
                    *place = None;
                    return Ok(());
                }
                return self.pass_on(stream);
            }
        };
        client.receive(&mut self.batch)?;
        self.pass_on(None)
    }

    fn pass_on(&mut self, stream: Option<usize>) -> io::Result<()> {
        let Batch { bytes, messages } = &mut self.batch;
        for message in messages.iter_mut() {
            let origin = Origin {
                peer: message.peer.take(),
                stream,
                id: id_of(bytes, message),
            };
            let id = self.origins.keep(origin);
            set_id(bytes, message, id);
            self.upstream.queue(bytes, message);
        }
        self.upstream.flush(&self.batch)
    }

    /// Passes back what the other server sent.
    fn replies(&mut self) -> io::Result<()> {
        if !self.upstream.receive(&mut self.batch)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Batch { bytes, messages } = &mut self.batch;
        for message in messages.iter_mut() {
            let origin = self.origins.of(id_of(bytes, message));
            set_id(bytes, message, origin.id);
            message.peer = origin.peer;
            if let (Front::Streams { streams, .. }, Some(at)) = (&mut self.front, origin.stream)
                && let Some(stream) = &mut streams[at]
            {
                stream.queue(bytes, message);
            }
        }
        match &mut self.front {
            Front::Datagrams(socket) => socket.flush(&self.batch),
            Front::Streams { streams, .. } => streams
                .iter_mut()
                .flatten()
                .try_for_each(|stream| stream.flush(&self.batch)),
        }
    }
}

fn watch(epoll: &OwnedFd, socket: impl rustix::fd::AsFd, mark: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(mark), EventFlags::IN)?)
}

/// Whose a query is.
#[derive(Clone, Copy, Default)]
struct Origin {
    peer: Option<SockaddrIn>,
    stream: Option<usize>,
    id: u16,
}

/// By the id under which a query was passed on.
struct Origins {
    by_id: Vec<Origin>,
    next: u16,
}

impl Origins {
    fn new() -> Self {
        Self {
            by_id: vec![Origin::default(); 1 << 16],
            next: 0,
        }
    }

    fn keep(&mut self, origin: Origin) -> u16 {
        self.next = self.next.wrapping_add(1);
        self.by_id[usize::from(self.next)] = origin;
        self.next
    }

    fn of(&self, id: u16) -> Origin {
        self.by_id[usize::from(id)]
    }
}

/// What came at once.
struct Batch {
    bytes: Box<[u8]>,
    messages: Vec<Message>,
}

#[derive(Clone)]
struct Message {
    at: Range<usize>,
    peer: Option<SockaddrIn>,
}

impl Batch {
    fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * ROOM].into(),
            messages: Vec::new(),
        }
    }
}

fn id_of(bytes: &[u8], message: &Message) -> u16 {
    u16::from_be_bytes([bytes[message.at.start], bytes[message.at.start + 1]])
}

fn set_id(bytes: &mut [u8], message: &Message, id: u16) {
    bytes[message.at.start..][..2].copy_from_slice(&id.to_be_bytes());
}

/// A socket that messages come and go by.
enum End {
    Datagrams {
        socket: UdpSocket,
        incoming: MultiHeaders<SockaddrIn>,
        outgoing: MultiHeaders<SockaddrIn>,
    },
    Stream {
        stream: TcpStream,
        /// The beginning of a message.
        partial: Vec<u8>,
        unsent: Vec<u8>,
    },
}

impl End {
    fn datagrams(socket: UdpSocket) -> Self {
        Self::Datagrams {
            socket,
            incoming: MultiHeaders::preallocate(BATCH, None),
            outgoing: MultiHeaders::preallocate(BATCH, None),
        }
    }

    fn stream(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Stream {
            stream,
            partial: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// Takes what is there; false at the end of a stream.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let Batch { bytes, messages } = batch;
        messages.clear();
        match self {
            Self::Datagrams { socket, incoming, .. } => {
                let mut parts = bytes.chunks_exact_mut(ROOM);
                let mut rooms: [_; BATCH] =
                    std::array::from_fn(|_| [IoSliceMut::new(parts.next().unwrap_or_default())]);
                let received = recvmmsg(
                    socket.as_raw_fd(),
                    incoming,
                    rooms.iter_mut(),
                    MsgFlags::MSG_DONTWAIT,
                    None,
                );
                // An error is what an earlier datagram met.
                let received = received.into_iter().flatten();
                messages.extend(received.zip(0..).map(|(message, room)| Message {
                    at: room * ROOM..room * ROOM + message.bytes,
                    peer: message.address,
                }));
                messages.retain(|message| message.at.len() >= 12);
            }
            Self::Stream { stream, partial, .. } => {
                bytes[..partial.len()].copy_from_slice(partial);
                let len = match stream.read(&mut bytes[partial.len()..READ]) {
                    Ok(0) | Err(_) => return Ok(false),
                    Ok(len) => partial.len() + len,
                };
                let mut at = 0;
                while let Some(frame) = bytes[at..len].first_chunk::<FRAME>() {
                    let end = at + FRAME + usize::from(u16::from_be_bytes(*frame));
                    if end > len {
                        break;
                    }
                    messages.push(Message {
                        at: at + FRAME..end,
                        peer: None,
                    });
                    at = end;
                }
                partial.clear();
                partial.extend_from_slice(&bytes[at..len]);
            }
        }
        Ok(true)
    }

    /// A message that the next flush sends. Datagrams are sent from where they are.
    fn queue(&mut self, bytes: &[u8], message: &Message) {
        if let Self::Stream { unsent, .. } = self {
            unsent.extend_from_slice(&(message.at.len() as u16).to_be_bytes());
            unsent.extend_from_slice(&bytes[message.at.clone()]);
        }
    }

    fn flush(&mut self, batch: &Batch) -> io::Result<()> {
        let Batch { bytes, messages } = batch;
        match self {
            Self::Datagrams { socket, outgoing, .. } => {
                for messages in messages.chunks(BATCH) {
                    let slices = messages
                        .iter()
                        .map(|message| [IoSlice::new(&bytes[message.at.clone()])]);
                    let slices: ArrayVec<[IoSlice<'_>; 1], BATCH> = slices.collect();
                    let peers: ArrayVec<Option<SockaddrIn>, BATCH> =
                        messages.iter().map(|message| message.peer).collect();
                    // What cannot be sent is lost, as on any network.
                    let _ = sendmmsg(socket.as_raw_fd(), outgoing, &slices, peers, [], MsgFlags::MSG_NOSIGNAL);
                }
            }
            Self::Stream { stream, unsent, .. } => {
                if !unsent.is_empty() {
                    // Blocks where the other side does not read.
                    stream.write_all(unsent)?;
                    unsent.clear();
                }
            }
        }
        Ok(())
    }
}
