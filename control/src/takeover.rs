//! A new process in place of an old one, with nothing lost: it gets copies of the old one's sockets.
//!
//! ```text
//!   new process                                     old process
//!   connects to @nodens/ADDRESS  ──────────────>    whose user is it? ours, or root
//!                                <──────────────    its listening sockets, a message an address, then "end"
//!   begins its sources, serves by the same sockets
//!   "leave"                      ──────────────>    stops reading, answers what it has taken, ends
//! ```
//!
//! No socket is ever closed by both, so what waits in one is answered by whoever looks next. An old process that says
//! nothing costs a time-out; a new one that dies before its "leave" costs nothing. The sockets that they meet by are
//! abstract: named after the addresses, in the network namespace.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nodens_engine::io::{SharedSocket, Transport};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::corefile::settings::HttpAddress;
use crate::output;

/// How long one side waits for a message of the other, or for room to send.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a new process may take to begin its sources.
const LEAVE_MAX: Duration = Duration::from_secs(60);

/// Descriptors in one message; the kernel takes 253.
const DESCRIPTORS_MAX: usize = 64;

/// Sockets that a process takes over, at most.
const SOCKETS_MAX: usize = 16_384;

const MESSAGE_MAX: usize = 512;

/// How often, and how far apart, a name is tried that another process still has.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(100);

/// The name of the meeting place for an address.
pub fn name(address: SocketAddr) -> String {
    format!("\0nodens/{address}")
}

/// What a socket of an old process is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Use {
    Dns(SocketAddr, Transport),
    /// `HOST PORT` of an HTTP endpoint.
    Http(String),
}

impl Use {
    fn http(address: &HttpAddress) -> Self {
        Self::Http(format!("{} {}", address.host.to_ascii_lowercase(), address.port))
    }

    fn text(&self) -> String {
        match self {
            Self::Dns(address, Transport::Udp) => format!("udp {address}"),
            Self::Dns(address, Transport::Tcp) => format!("tcp {address}"),
            Self::Http(address) => format!("http {address}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, address) = text.split_once(' ')?;
        match kind {
            "udp" => Some(Self::Dns(address.parse().ok()?, Transport::Udp)),
            "tcp" => Some(Self::Dns(address.parse().ok()?, Transport::Tcp)),
            "http" => Some(Self::Http(address.to_owned())),
            _ => None,
        }
    }
}

/// The sockets of an old process.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<(Use, OwnedFd)>,
    old: Vec<Socket>,
}

impl Inherited {
    /// Asks every process that listens on one of these addresses. Where there is none, nothing is inherited.
    ///
    /// # Errors
    /// A process is there and gives nothing.
    pub fn ask(addresses: impl IntoIterator<Item = SocketAddr>) -> io::Result<Self> {
        let mut inherited = Self::default();
        let mut asked = Vec::new();
        for address in addresses {
            let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            if socket.connect(&SockAddr::unix(name(address))?).is_err() {
                continue;
            }
            let process = rustix::net::sockopt::socket_peercred(&socket)?.pid;
            if asked.contains(&process) {
                continue;
            }
            asked.push(process);
            let silent = |error: io::Error| {
                let process = process.as_raw_nonzero();
                io::Error::new(
                    error.kind(),
                    format!("process {process}, which listens on {address}: {error}"),
                )
            };
            inherited.take(&socket).map_err(silent)?;
            inherited.old.push(socket);
        }
        Ok(inherited)
    }

    fn take(&mut self, socket: &Socket) -> io::Result<()> {
        send(socket, "take-over", &[])?;
        loop {
            let (text, descriptors) = receive(socket)?;
            if text == "end" {
                return Ok(());
            }
            let what = Use::parse(&text).ok_or_else(|| io::Error::other("it does not speak our language"))?;
            if self.sockets.len() + descriptors.len() > SOCKETS_MAX {
                return Err(io::Error::other("it has too many sockets"));
            }
            let own = descriptors.into_iter().map(|socket| (what.clone(), socket));
            self.sockets.extend(own);
        }
    }

    /// Whether a process is there that listens on this port.
    pub fn holds_port(&self, port: u16) -> bool {
        self.sockets
            .iter()
            .any(|(what, _)| matches!(what, Use::Dns(address, _) if address.port() == port))
    }

    /// The sockets of an address.
    pub fn dns(&mut self, address: SocketAddr, transport: Transport) -> Vec<Socket> {
        let own = self.remove(&Use::Dns(address, transport));
        own.into_iter().map(Socket::from).collect()
    }

    /// The socket of an HTTP endpoint.
    pub fn http(&mut self, address: &HttpAddress) -> Option<std::net::TcpListener> {
        Some(self.remove(&Use::http(address)).pop()?.into())
    }

    fn remove(&mut self, wanted: &Use) -> Vec<OwnedFd> {
        let all = std::mem::take(&mut self.sockets);
        let (own, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(what, _)| what == wanted);
        self.sockets = rest;
        own.into_iter().map(|(_, socket)| socket).collect()
    }

    /// Tells the old processes that they are not needed any more.
    pub fn leave(&self) {
        for old in &self.old {
            if let Err(error) = send(old, "leave", &[]) {
                output::warning(&format!("the process before this one ended by itself: {error}"));
            }
        }
    }
}

/// A process that wants to take over.
#[derive(Debug)]
pub struct Heir(Socket);

impl Heir {
    /// Gives it copies of all sockets.
    ///
    /// # Errors
    /// It does not take them.
    pub fn give(&self, sockets: Vec<SharedSocket>, http: Vec<(HttpAddress, std::net::TcpListener)>) -> io::Result<()> {
        let (text, _) = receive(&self.0)?;
        if text != "take-over" {
            return Err(io::Error::other("it does not speak our language"));
        }
        let dns = sockets
            .into_iter()
            .map(|own| (Use::Dns(own.address, own.transport), own.socket));
        let http = http
            .into_iter()
            .map(|(address, listener)| (Use::http(&address), listener.into()));
        let mut groups: Vec<(Use, Vec<OwnedFd>)> = Vec::new();
        for (what, socket) in dns.chain(http) {
            match groups.iter_mut().find(|(own, _)| *own == what) {
                Some((_, sockets)) => sockets.push(socket),
                None => groups.push((what, vec![socket])),
            }
        }
        for (what, sockets) in &groups {
            for sockets in sockets.chunks(DESCRIPTORS_MAX) {
                send(&self.0, &what.text(), sockets)?;
            }
        }
        send(&self.0, "end", &[])
    }

    /// Waits until it serves; false when it gave up. Blocks.
    pub fn serves(&self) -> bool {
        let patient = self.0.set_read_timeout(Some(LEAVE_MAX));
        patient.is_ok() && receive(&self.0).is_ok_and(|(text, _)| text == "leave")
    }
}

/// Where heirs come in: a meeting place for each address.
#[derive(Debug)]
pub struct Doors {
    open: Vec<(SocketAddr, AbortHandle)>,
    heirs: mpsc::Sender<Heir>,
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.open.iter().for_each(|(_, door)| door.abort());
    }
}

impl Doors {
    /// No door yet; who comes in is heard of by the receiver.
    pub fn new() -> (Self, mpsc::Receiver<Heir>) {
        let (heirs, came) = mpsc::channel(1);
        let open = Vec::new();
        (Self { open, heirs }, came)
    }

    /// A door for each of these addresses, and no others.
    pub fn open(&mut self, addresses: &[SocketAddr]) {
        self.open.retain(|(address, door)| {
            let stays = addresses.contains(address);
            if !stays {
                door.abort();
            }
            stays
        });
        for &address in addresses {
            if !self.open.iter().any(|(own, _)| *own == address) {
                let door = tokio::spawn(door(address, self.heirs.clone()));
                self.open.push((address, door.abort_handle()));
            }
        }
    }
}

async fn door(address: SocketAddr, heirs: mpsc::Sender<Heir>) {
    // The process before this one may still have the name.
    let mut tries = 0;
    let socket = loop {
        match bind(address) {
            Ok(socket) => break socket,
            Err(error) if tries == TRIES => {
                return output::warning(&format!("no other process can take over {address}: {error}"));
            }
            Err(_) => tries += 1,
        }
        tokio::time::sleep(RETRY).await;
    };
    loop {
        let accepted = socket.accept().await.and_then(|(heir, _)| heir.into_std());
        // Who is gone already, or is somebody else, is not let in.
        let Ok(heir) = accepted.and_then(|heir| admit(OwnedFd::from(heir).into())) else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        if heirs.send(Heir(heir)).await.is_err() {
            return;
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(name(address))?)?;
    socket.listen(1)?;
    UnixListener::from_std(OwnedFd::from(socket).into())
}

/// Of the same user, or root.
fn admit(heir: Socket) -> io::Result<Socket> {
    let user = rustix::net::sockopt::socket_peercred(&heir)?.uid;
    if !user.is_root() && user != rustix::process::geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    heir.set_nonblocking(false)?;
    heir.set_read_timeout(Some(PATIENCE))?;
    heir.set_write_timeout(Some(PATIENCE))?;
    Ok(heir)
}

fn send(socket: &Socket, text: &str, descriptors: &[OwnedFd]) -> io::Result<()> {
    let descriptors: Vec<_> = descriptors.iter().map(|own| own.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let data = [IoSlice::new(text.as_bytes())];
    rustix::net::sendmsg(socket, &data, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(socket: &Socket) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut bytes = [0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let data = &mut [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(socket, data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(own) = message {
            descriptors.extend(own);
        }
    }
    Ok((
        String::from_utf8_lossy(&bytes[..received.bytes]).into_owned(),
        descriptors,
    ))
}
