//! A server that others ask, fast enough for a load, that fails as it is told while it runs. What cases script is in
//! [`scripted`](crate::scripted).

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nodens_wire::{Query, Rtype};

use crate::load::roomy;
use crate::served::framed;

/// How often threads look whether they are over.
const TICK: Duration = Duration::from_millis(10);

/// What it does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mood {
    /// Answers each name with its address.
    Answers,
    /// Says nothing.
    Silent,
    /// Says SERVFAIL.
    Fails,
    /// A datagram says that there is more than it holds.
    Truncates,
    /// A connection ends without an answer.
    Closes,
}

impl Mood {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Answers, Self::Silent, Self::Fails, Self::Truncates, Self::Closes];
}

/// The server; it ends when it is dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    ttl: u32,
    mood: AtomicU8,
    /// Questions but those of probes, and those answered.
    seen: AtomicU64,
    is_over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Upstream {
    /// Listens for UDP and TCP on a port of loopback; its answers have this TTL.
    ///
    /// # Panics
    /// No port is free.
    pub fn start(ttl: u32) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, crate::world::free_port()));
        let shared = Shared {
            ttl,
            mood: AtomicU8::new(Mood::Answers as u8),
            seen: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            open: Mutex::default(),
        };
        let mut server = Self {
            address,
            shared: Arc::new(shared),
            threads: Vec::new(),
        };
        server.resume();
        server
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it behaves from now on.
    pub fn set_mood(&self, mood: Mood) {
        self.shared.mood.store(mood as u8, Ordering::Relaxed);
    }

    /// Questions that it has had, probes apart.
    pub fn seen(&self) -> u64 {
        self.shared.seen.load(Ordering::Relaxed)
    }

    /// Closes all its sockets: what is asked of it is refused.
    pub fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has said so already.
            let _ = thread.join();
        }
        let open = &self.shared.open;
        for stream in open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The other side may have been first.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Listens again.
    ///
    /// # Panics
    /// Somebody else has the port.
    pub fn resume(&mut self) {
        self.shared.is_over.store(false, Ordering::Relaxed);
        let socket = UdpSocket::bind(self.address).expect("a port of our own");
        roomy(&socket);
        socket.set_read_timeout(Some(TICK)).expect("a time-out");
        let listener = TcpListener::bind(self.address).expect("a port of our own");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let (for_udp, for_tcp) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        self.threads = vec![
            thread::spawn(move || datagrams(&socket, &for_udp)),
            thread::spawn(move || connections(&listener, &for_tcp)),
        ];
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop();
    }
}

fn datagrams(socket: &UdpSocket, shared: &Shared) {
    let mut room = [0; 4096];
    while !shared.is_over.load(Ordering::Relaxed) {
        // The end of the wait, or an ICMP error that an earlier answer brought.
        let Ok((len, client)) = socket.recv_from(&mut room) else {
            continue;
        };
        if let Some(reply) = shared.answer(&room[..len], false) {
            // A client that is gone does not want it.
            let _ = socket.send_to(&reply, client);
        }
    }
}

fn connections(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let accepted = listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            Ok((stream.try_clone()?, stream))
        });
        let Ok((known, stream)) = accepted else {
            thread::sleep(TICK);
            continue;
        };
        {
            let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that have ended need no end.
            open.retain(|stream| stream.peer_addr().is_ok());
            open.push(known);
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // Either side may end it at any time. The clone above would keep it open.
            let _ = converse(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn converse(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut packet = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut packet)?;
        match shared.answer(&packet, true) {
            Some(reply) => stream.write_all(&framed(&reply))?,
            None if shared.mood() == Mood::Closes => return Ok(()),
            None => {}
        }
    }
}

impl Shared {
    fn mood(&self) -> Mood {
        Mood::ALL[usize::from(self.mood.load(Ordering::Relaxed))]
    }

    fn answer(&self, packet: &[u8], is_stream: bool) -> Option<Vec<u8>> {
        let query = Query::parse(packet).ok()?;
        if query.rtype != Rtype::NS {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
        let (mut rcode, mut truncated) = (0, 0);
        match self.mood() {
            Mood::Answers => {}
            Mood::Silent => return None,
            Mood::Closes if is_stream => return None,
            Mood::Fails => rcode = 2,
            Mood::Truncates if !is_stream => truncated = 2,
            Mood::Closes | Mood::Truncates => {}
        }
        let has_address = query.rtype == Rtype::A && rcode | truncated == 0;
        let mut reply = packet[..2].to_vec();
        // A reply from who recurses, RD as it came, one question, and an answer or none.
        reply.extend([
            packet[2] & 1 | 0x80 | truncated,
            0x80 | rcode,
            0,
            1,
            0,
            u8::from(has_address),
            0,
            0,
            0,
            0,
        ]);
        reply.extend(query.question());
        if has_address {
            reply.extend([0xc0, 12, 0, 1, 0, 1]);
            reply.extend(self.ttl.to_be_bytes());
            reply.extend([0, 4]);
            reply.extend(address_of(query.qname.as_bytes()).octets());
        }
        Some(reply)
    }
}

/// The address of a name in wire form: another one for each.
pub fn address_of(name: &[u8]) -> Ipv4Addr {
    // FNV-1a.
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    Ipv4Addr::from(hash)
}
