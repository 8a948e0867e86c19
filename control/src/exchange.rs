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
    let (mut room, mut names) = ([0; 512], Compressor::new());
    let id = random() as u16;
    let mut message = Builder::new(&mut room, 512, &mut names);
    message.header(id, flags);
    // A name and twelve bytes fit.
    let _ = message.question(name, rtype, Rclass::IN);
    let len = message.finish();
    let socket = UdpSocket::bind((source, 0)).await?;
    socket.connect(server).await?;
    socket.send(&room[..len]).await?;
    let mut reply = [0; 512];
    let answered = timeout(ANSWER_TIME, async {
        loop {
            let len = socket.recv(&mut reply).await?;
            if let Some(header) = Header::of(&reply[..len])
                && header.id.get() == id
                && header.flags().qr()
            {
                return Ok(header.flags().rcode());
            }
        }
    });
    answered
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")))
}

/// The address to ask a server from, where any will do.
pub fn any_source(server: SocketAddr) -> IpAddr {
    if server.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }
}
