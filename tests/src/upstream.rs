//! A server that others ask, fast enough for a load, that fails as it is told while it runs. What cases script is in
//! [`scripted`](crate::scripted).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use nodens_wire::{Query, Rtype};

use crate::listening::{After, Answers, Listening};
use crate::load::roomy;

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
    own: Arc<Own>,
    listening: Option<Listening>,
}

#[derive(Debug)]
struct Own {
    ttl: u32,
    mood: AtomicU8,
    /// Questions but those of probes, and those answered.
    seen: AtomicU64,
}

impl Upstream {
    /// Listens for UDP and TCP on a port of loopback; its answers have this TTL.
    ///
    /// # Panics
    /// No port is free.
    pub fn start(ttl: u32) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, crate::world::free_port()));
        let own = Own {
            ttl,
            mood: AtomicU8::new(Mood::Answers as u8),
            seen: AtomicU64::new(0),
        };
        let mut server = Self {
            address,
            own: Arc::new(own),
            listening: None,
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
        self.own.mood.store(mood as u8, Ordering::Relaxed);
    }

    /// Questions that it has had, probes apart.
    pub fn seen(&self) -> u64 {
        self.own.seen.load(Ordering::Relaxed)
    }

    /// Closes all its sockets: what is asked of it is refused.
    pub fn stop(&mut self) {
        self.listening = None;
    }

    /// Listens again.
    ///
    /// # Panics
    /// Somebody else has the port.
    pub fn resume(&mut self) {
        let socket = UdpSocket::bind(self.address).expect("a port of our own");
        roomy(&socket);
        let listener = TcpListener::bind(self.address).expect("a port of our own");
        let listening = Listening::on(Some(socket), Some(listener), &self.own);
        self.listening = Some(listening.expect("sockets of our own"));
    }
}

impl Answers for Own {
    fn datagram(self: &Arc<Self>, packet: &[u8], socket: &Arc<UdpSocket>, client: SocketAddr) {
        if let Some(reply) = self.answer(packet, false) {
            // A client that is gone does not want it.
            let _ = socket.send_to(&reply, client);
        }
    }

    fn question(&self, packet: &[u8]) -> io::Result<(Vec<Vec<u8>>, After)> {
        let reply = self.answer(packet, true);
        let after = match &reply {
            None if self.mood() == Mood::Closes => After::Ends,
            _ => After::GoesOn,
        };
        Ok((reply.into_iter().collect(), after))
    }
}

impl Own {
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
