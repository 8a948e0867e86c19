//! One question by UDP, and its answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use nodens_wire::{Builder, Compressor, Flags, Header, Name, Rclass, Rcode, Rtype};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::random::random;

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Asks a server from a new socket: another port, and no answer to an earlier question.
///
/// # Errors
/// No answer came in time, or the network failed.
pub async fn exchange(
    name: Name<'_>,
    rtype: Rtype,
    flags: Flags,
    server: SocketAddr,
    source: IpAddr,
) -> io::Result<Rcode> {
    let question = Question::new(name, rtype, flags);
    let socket = UdpSocket::bind((source, 0)).await?;
    socket.connect(server).await?;
    socket.send(question.bytes()).await?;
    let mut reply = [0; 512];
    let answered = timeout(ANSWER_TIME, async {
        loop {
            let len = socket.recv(&mut reply).await?;
            if let Some(header) = Header::of(&reply[..len]).filter(|_| question.is_answered_by(&reply[..len])) {
                return Ok(header.flags().rcode());
            }
        }
    });
    answered
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")))
}

/// A message with one question, and an id that nobody can guess.
#[derive(Debug)]
pub struct Question {
    id: u16,
    bytes: Vec<u8>,
}

impl Question {
    /// For a name and type.
    pub fn new(name: Name<'_>, rtype: Rtype, flags: Flags) -> Self {
        let id = random() as u16;
        let (mut bytes, mut names) = (vec![0; 512], Compressor::new());
        let mut message = Builder::new(&mut bytes, 512, &mut names);
        message.header(id, flags);
        // A name and twelve bytes fit.
        let _ = message.question(name, rtype, Rclass::IN);
        let len = message.finish();
        bytes.truncate(len);
        Self { id, bytes }
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether another message is the reply: who does not see the question cannot know its id.
    pub fn is_answered_by(&self, reply: &[u8]) -> bool {
        Header::of(reply).is_some_and(|header| header.id.get() == self.id && header.flags().qr())
    }
}

/// The address to ask a server from, where any will do.
pub fn any_source(server: SocketAddr) -> IpAddr {
    if server.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }
}
