//! Other servers by seed: what a forwarder asks, with all their manners.
//!
//! A server decides what to say when it is asked; what it says is on its way for a while. Nothing of it reaches a socket
//! that was closed meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::io::{
    Effect, Handler, ListenerId, SocketError, StreamEvent, StreamId, UpstreamDatagram, UpstreamId,
};
use nodens_engine::time::Instant;
use nodens_wire::{Header, Query, Rcode, Rtype};
use rustls::{ServerConfig, ServerConnection};

use super::VirtualClock;
use crate::seed::Seeded;

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Answers at once.
    Answers,
    /// Answers after a while.
    Slow(Duration),
    /// Takes everything, connections too, and says nothing.
    Silent,
    /// Nobody listens there.
    Refusing,
    /// Nobody is there at all.
    Away,
    /// Sends what is no reply to the question, then the reply.
    Lying,
    /// Over UDP its replies are cut, and say so.
    Truncating,
    /// Over UDP its replies are cut, and do not say so.
    Cutting,
    /// Answers with this rcode.
    Says(Rcode),
    /// Answers without a record.
    Empty,
    /// Knows nothing of EDNS, and says so with or without the question.
    Old {
        /// With.
        repeats: bool,
    },
    /// Refuses with a header alone, whatever it is asked.
    Bare,
    /// Over TCP it closes after so many replies.
    Closing(usize),
    /// Over TCP it resets when it is asked.
    Resetting,
}

/// What a server knows of a question: an rcode, and at most one record of ANSWER and one of AUTHORITY, in wire form.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The rcode.
    pub rcode: Rcode,
    /// The answer.
    pub answer: Vec<u8>,
    /// The SOA of a denial.
    pub authority: Vec<u8>,
}

impl Known {
    /// An address of the name that was asked for.
    pub fn address(ttl_secs: u32, address: [u8; 4]) -> Self {
        let answer = [
            b"\xc0\x0c\0\x01\0\x01",
            &ttl_secs.to_be_bytes()[..],
            b"\0\x04",
            &address,
        ]
        .concat();
        Self {
            answer,
            ..Self::default()
        }
    }
}

/// What all servers know, told with the question and the moment at which the reply leaves.
pub type Knows = Box<dyn FnMut(&Query<'_>, Instant) -> Known>;

/// What liars say.
pub const LIE: [u8; 4] = [203, 0, 113, 66];

/// What reaches the sockets of the one who asks.
#[derive(Debug)]
pub enum Told {
    /// A datagram.
    Datagram(UpstreamId, Vec<u8>),
    /// A socket failed.
    Failed(UpstreamId, SocketError),
    /// A connection stands.
    Opened(StreamId, SocketAddr),
    /// Bytes of a stream.
    Bytes(StreamId, Vec<u8>),
    /// The server has closed its side.
    Ended(StreamId),
    /// A stream is gone.
    Closed(StreamId, Option<SocketError>),
}

impl Told {
    /// Tells it to whom a port serves.
    ///
    /// # Panics
    /// The handler writes where it is read, and not by effects, which keep their order.
    pub fn hand(&self, handler: &mut impl Handler) {
        let datagram = |upstream, bytes, error| UpstreamDatagram { upstream, bytes, error };
        let mut reply = Vec::new();
        match self {
            // The network's queues are its own: whether more is waited for is all one to it.
            Self::Datagram(upstream, bytes) => _ = handler.upstream(datagram(*upstream, bytes, None)),
            Self::Failed(upstream, error) => _ = handler.upstream(datagram(*upstream, &[], Some(*error))),
            Self::Opened(stream, peer) => handler.stream(StreamEvent::Opened {
                stream: *stream,
                listener: ListenerId::NONE,
                peer: *peer,
                local: SocketAddr::from(([127, 0, 0, 1], 40_000)),
            }),
            Self::Bytes(stream, bytes) => handler.stream(StreamEvent::Readable {
                stream: *stream,
                bytes,
                reply: &mut reply,
            }),
            Self::Ended(stream) => handler.stream(StreamEvent::HalfClosed { stream: *stream }),
            Self::Closed(stream, error) => handler.stream(StreamEvent::Closed {
                stream: *stream,
                error: *error,
            }),
        }
        assert!(reply.is_empty(), "a forwarder writes by effects alone");
    }

    fn socket(&self) -> Result<UpstreamId, StreamId> {
        match self {
            Self::Datagram(upstream, _) | Self::Failed(upstream, _) => Ok(*upstream),
            Self::Opened(stream, _) | Self::Bytes(stream, _) | Self::Ended(stream) | Self::Closed(stream, _) => {
                Err(*stream)
            }
        }
    }
}

#[derive(Debug)]
struct Server {
    manner: Manner,
    tls: Option<Arc<ServerConfig>>,
    asked: Asked,
}

/// How often a server was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// By UDP.
    pub udp: usize,
    /// By a stream.
    pub stream: usize,
    /// Probes among them.
    pub probes: usize,
    /// Streams that were opened.
    pub opened: usize,
    /// The id of the last datagram.
    pub id: u16,
    /// The socket that it came by.
    pub socket: Option<UpstreamId>,
}

#[derive(Debug)]
struct Stream {
    to: SocketAddr,
    inbox: Vec<u8>,
    tls: Option<Box<ServerConnection>>,
    answered: usize,
    is_over: bool,
}

/// What their replies say: one address for every name, unless they know better.
#[derive(Default)]
struct Contents(Option<Knows>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Contents").field(&self.0.is_some()).finish()
    }
}

/// All of them.
#[derive(Debug)]
pub struct Servers {
    contents: Contents,
    clock: VirtualClock,
    seeded: Seeded,
    servers: BTreeMap<SocketAddr, Server>,
    sockets: BTreeMap<UpstreamId, SocketAddr>,
    streams: BTreeMap<StreamId, Stream>,
    due: BTreeMap<(Instant, u64), Told>,
    numbers: u64,
    descriptors: usize,
    /// Most sockets that were open at once.
    most: usize,
}

impl Servers {
    /// None yet.
    pub fn new(seed: u64, clock: VirtualClock) -> Self {
        Self {
            contents: Contents::default(),
            clock,
            seeded: Seeded::new(seed),
            servers: BTreeMap::new(),
            sockets: BTreeMap::new(),
            streams: BTreeMap::new(),
            due: BTreeMap::new(),
            numbers: 0,
            descriptors: usize::MAX,
            most: 0,
        }
    }

    /// A server at this address, or another manner for the one that is there.
    pub fn set(&mut self, address: SocketAddr, manner: Manner) {
        self.servers
            .entry(address)
            .and_modify(|server| server.manner = manner)
            .or_insert_with(|| Server {
                manner,
                tls: None,
                asked: Asked::default(),
            });
    }

    /// What all of them know from now on.
    pub fn know(&mut self, knows: Knows) {
        self.contents = Contents(Some(knows));
    }

    /// The streams of a server speak TLS.
    ///
    /// # Panics
    /// There is no server at that address.
    pub fn use_tls(&mut self, address: SocketAddr, config: Arc<ServerConfig>) {
        self.servers.get_mut(&address).expect("a server").tls = Some(config);
    }

    /// How often it was asked.
    pub fn asked(&self, address: SocketAddr) -> Asked {
        self.servers
            .get(&address)
            .map_or_else(Asked::default, |server| server.asked)
    }

    /// From now on no more than so many sockets can be open.
    pub fn limit_descriptors(&mut self, descriptors: usize) {
        self.descriptors = descriptors;
    }

    /// The UDP sockets that are open.
    pub fn sockets(&self) -> Vec<UpstreamId> {
        self.sockets.keys().copied().collect()
    }

    /// UDP sockets and streams that are open, and the most that were.
    pub fn open(&self) -> (usize, usize, usize) {
        (self.sockets.len(), self.streams.len(), self.most)
    }

    /// All streams to a server end, as if it was started anew.
    pub fn end_streams(&mut self, address: SocketAddr) {
        let own = self.streams.iter_mut().filter(|(_, stream)| stream.to == address);
        let ended: Vec<StreamId> = own
            .map(|(id, stream)| {
                stream.is_over = true;
                *id
            })
            .collect();
        for id in ended {
            self.tell(Duration::ZERO, Told::Ended(id));
        }
    }

    /// When something reaches a socket.
    pub fn next_at(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// What has reached a socket by now.
    pub fn take(&mut self) -> Option<Told> {
        loop {
            let entry = self.due.first_entry()?;
            if entry.key().0 > self.clock.now() {
                return None;
            }
            let told = entry.remove();
            let is_open = match told.socket() {
                // The failure of one that could not be opened.
                Ok(socket) => self.sockets.contains_key(&socket) || matches!(told, Told::Failed(..)),
                Err(_) if matches!(told, Told::Closed(..)) => true,
                Err(stream) => self.streams.contains_key(&stream),
            };
            if let Told::Closed(stream, _) = told {
                self.streams.remove(&stream);
            }
            if is_open {
                return Some(told);
            }
        }
    }

    fn tell(&mut self, after: Duration, told: Told) {
        let latency = Duration::from_micros(100 + self.seeded.below(400) as u64);
        let mut at = self.clock.after(after + latency);
        if let Err(stream) = told.socket() {
            // The bytes of a stream keep their order.
            let others = self.due.iter().filter(|(_, other)| other.socket() == Err(stream));
            at = others.map(|((at, _), _)| *at).fold(at, Instant::max);
        }
        self.numbers += 1;
        self.due.insert((at, self.numbers), told);
    }

    /// Carries out an effect; whether it was about a socket of one who asks.
    pub fn apply(&mut self, effect: Effect, bytes: &[u8]) -> bool {
        match effect {
            Effect::OpenUpstream { upstream, to, .. } => {
                if self.is_full() {
                    self.tell(Duration::ZERO, Told::Failed(upstream, SocketError::Exhausted));
                } else {
                    let before = self.sockets.insert(upstream, to);
                    assert_eq!(before, None, "an id that is in use");
                    self.count();
                }
            }
            Effect::SendUpstream { upstream } => self.datagram(upstream, bytes),
            Effect::RetireUpstream { upstream } => drop(self.sockets.remove(&upstream)),
            Effect::OpenStream { stream, to, .. } => self.connect(stream, to),
            Effect::WriteStream { stream } if self.streams.contains_key(&stream) => self.bytes(stream, bytes),
            Effect::CloseStream { stream } if self.streams.contains_key(&stream) => {
                self.streams.remove(&stream);
                self.tell(Duration::ZERO, Told::Closed(stream, None));
            }
            _ => return false,
        }
        true
    }

    fn is_full(&self) -> bool {
        self.sockets.len() + self.streams.len() >= self.descriptors
    }

    fn count(&mut self) {
        self.most = self.most.max(self.sockets.len() + self.streams.len());
    }

    fn datagram(&mut self, socket: UpstreamId, bytes: &[u8]) {
        let Some(to) = self.sockets.get(&socket) else { return };
        let Some(server) = self.servers.get_mut(to) else { return };
        server.asked.udp += 1;
        server.asked.id = u16::from_be_bytes(*bytes.first_chunk().expect("a message"));
        server.asked.socket = Some(socket);
        server.asked.probes += usize::from(is_probe(bytes));
        let manner = server.manner;
        let after = match manner {
            Manner::Slow(after) => after,
            _ => Duration::ZERO,
        };
        let leaves = self.clock.after(after);
        let mut reply = |manner| self.contents.reply(bytes, manner, leaves);
        let said = match manner {
            Manner::Silent | Manner::Away => return,
            Manner::Refusing => return self.tell(Duration::ZERO, Told::Failed(socket, SocketError::Refused)),
            Manner::Truncating => {
                let mut cut = reply(Manner::Empty);
                cut[2] |= 2;
                cut
            }
            Manner::Cutting => {
                let mut cut = reply(manner);
                cut.truncate(cut.len() - 3);
                cut
            }
            Manner::Old { repeats } if !is_plain(bytes) => {
                let mut refusal = reply(Manner::Says(Rcode::FORMERR));
                refusal.truncate(refusal.len() - if repeats { OPT.len() } else { refusal.len() - 12 });
                refusal[5] = u8::from(repeats);
                refusal[11] = 0;
                refusal
            }
            Manner::Bare => {
                let mut refusal = reply(Manner::Says(Rcode::FORMERR))[..12].to_vec();
                refusal[4..].fill(0);
                refusal
            }
            Manner::Lying => {
                let lie = lie(bytes);
                let mut wrong_id = lie.clone();
                wrong_id[1] ^= 1;
                let mut wrong_question = lie.clone();
                wrong_question[13] ^= 1;
                let mut no_reply = lie.clone();
                no_reply[2] &= 0x7f;
                let right = reply(manner);
                for junk in [wrong_id, wrong_question, no_reply, lie[..11].to_vec(), Vec::new()] {
                    self.tell(Duration::ZERO, Told::Datagram(socket, junk));
                }
                return self.tell(Duration::from_millis(1), Told::Datagram(socket, right));
            }
            _ => reply(manner),
        };
        self.tell(after, Told::Datagram(socket, said));
    }

    fn connect(&mut self, id: StreamId, to: SocketAddr) {
        if self.is_full() {
            return self.tell(Duration::ZERO, Told::Closed(id, Some(SocketError::Exhausted)));
        }
        let server = self.servers.get_mut(&to);
        let tls = server.as_ref().and_then(|server| server.tls.clone());
        let before = self.streams.insert(
            id,
            Stream {
                to,
                inbox: Vec::new(),
                tls: tls.map(|config| Box::new(ServerConnection::new(config).expect("a server's settings"))),
                answered: 0,
                is_over: false,
            },
        );
        assert!(before.is_none(), "an id that is in use");
        let manner = server.map_or(Manner::Away, |server| {
            server.asked.opened += 1;
            server.manner
        });
        self.count();
        match manner {
            Manner::Away => {}
            Manner::Refusing => self.tell(Duration::ZERO, Told::Closed(id, Some(SocketError::Refused))),
            _ => self.tell(Duration::ZERO, Told::Opened(id, to)),
        }
    }

    fn bytes(&mut self, id: StreamId, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_over) else {
            return;
        };
        let Some(server) = self.servers.get_mut(&stream.to) else {
            return;
        };
        if matches!(server.manner, Manner::Silent | Manner::Away) {
            return;
        }
        let mut written = Vec::new();
        let mut is_broken = false;
        match &mut stream.tls {
            None => stream.inbox.extend_from_slice(bytes),
            Some(tls) => {
                let mut left = bytes;
                while !left.is_empty() && !is_broken {
                    tls.read_tls(&mut left).expect("a slice can be read");
                    is_broken = tls.process_new_packets().is_err();
                    // What is there is read; an end is no error here.
                    let _ = tls.reader().read_to_end(&mut stream.inbox);
                }
            }
        }
        let (mut after, mut says) = (Duration::ZERO, VecDeque::new());
        while let Some(message) = take_frame(&mut stream.inbox) {
            server.asked.stream += 1;
            server.asked.probes += usize::from(is_probe(&message));
            if let Manner::Closing(max) = server.manner
                && stream.answered >= max
            {
                stream.is_over = true;
                break;
            }
            if server.manner == Manner::Resetting {
                stream.is_over = true;
                is_broken = true;
                break;
            }
            if let Manner::Slow(slow) = server.manner {
                after = slow;
            }
            stream.answered += 1;
            let leaves = self.clock.after(after);
            says.push_back(self.contents.reply(&message, server.manner, leaves));
            if server.manner == Manner::Lying {
                let mut wrong = lie(&message);
                wrong[0] ^= 1;
                says.push_front(wrong);
            }
        }
        if let Manner::Closing(max) = server.manner {
            stream.is_over |= stream.answered >= max;
        }
        for message in says {
            let frame = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
            match &mut stream.tls {
                None => written.extend_from_slice(&frame),
                Some(tls) => tls.writer().write_all(&frame).expect("memory takes it"),
            }
        }
        while let Some(tls) = stream.tls.as_mut().filter(|tls| tls.wants_write()) {
            tls.write_tls(&mut written).expect("memory takes it");
        }
        let (is_reset, is_over) = (is_broken && stream.tls.is_none(), stream.is_over || is_broken);
        // Replies come in pieces of any size.
        while !written.is_empty() {
            let len = 1 + self.seeded.below(written.len());
            let piece: Vec<u8> = written.drain(..len).collect();
            self.tell(after, Told::Bytes(id, piece));
        }
        if is_reset {
            self.tell(after, Told::Closed(id, Some(SocketError::Reset)));
        } else if is_over {
            self.tell(after, Told::Ended(id));
        }
    }
}

fn take_frame(inbox: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(*inbox.first_chunk()?));
    let message = inbox.get(2..2 + len)?.to_vec();
    inbox.drain(..2 + len);
    Some(message)
}

/// Of a server that takes 1,232 bytes.
const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";

fn is_plain(message: &[u8]) -> bool {
    Query::parse(message).is_ok_and(|query| query.opt.is_none())
}

fn is_probe(message: &[u8]) -> bool {
    Query::parse(message).is_ok_and(|query| query.rtype == Rtype::NS && query.opt.is_none())
}

/// What would answer a question, were it true.
fn lie(message: &[u8]) -> Vec<u8> {
    said(message, &Known::address(60, LIE))
}

impl Contents {
    /// What is known, or what the manner wants.
    fn reply(&mut self, message: &[u8], manner: Manner, leaves: Instant) -> Vec<u8> {
        let query = Query::parse(message).expect("a forwarder asks properly");
        let known = match (manner, &mut self.0) {
            (Manner::Says(rcode), _) if rcode != Rcode::NOERROR => Known {
                rcode,
                ..Known::default()
            },
            (Manner::Empty, _) => Known::default(),
            (_, Some(knows)) => knows(&query, leaves),
            (_, None) => Known::address(60, [192, 0, 2, 7]),
        };
        said(message, &known)
    }
}

fn said(message: &[u8], known: &Known) -> Vec<u8> {
    let query = Query::parse(message).expect("a forwarder asks properly");
    let mut reply = message[..12 + query.question_len].to_vec();
    let flags = query.flags.reply().with_ra(true).with_rcode(known.rcode);
    reply[2..4].copy_from_slice(&flags.0.to_be_bytes());
    let count = |records: &[u8]| u8::from(!records.is_empty());
    let counts = [0, 1, 0, count(&known.answer), 0, count(&known.authority), 0, 0];
    reply[4..12].copy_from_slice(&counts);
    reply.extend_from_slice(&known.answer);
    reply.extend_from_slice(&known.authority);
    if query.opt.is_some() {
        reply[11] = 1;
        reply.extend_from_slice(OPT);
    }
    assert!(Header::of(&reply).is_some());
    reply
}
