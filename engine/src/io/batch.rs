//! A UDP socket that a port serves, and the replies to one batch of its datagrams.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::{mem, ptr};

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use socket2::Socket;

use super::control::{Control, PacketInfo, destination};
use super::counters::Cells;
use super::{BATCH_MAX, DATAGRAM_ROOM, Datagram, Handler, ListenerId, Peer, SharedSocket, Transport};

/// How long a full send buffer may hold up a worker before replies are given up, once a batch.
const SEND_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// A port that nobody sends from (RFC 863).
const DISCARD: u16 = 9;

/// A socket for datagrams and what is to be known about it.
pub(super) struct UdpListener {
    pub(super) id: ListenerId,
    pub(super) socket: Arc<OwnedFd>,
    pub(super) info: PacketInfo,
    /// Where it is bound.
    pub(super) bound: SocketAddr,
    /// The address it is bound to; `None` for a wildcard.
    pub(super) own: Option<IpAddr>,
    /// It is closed once nothing stands in it.
    pub(super) retired: bool,
    /// It is closed as it is: another process takes what stands in it.
    pub(super) released: bool,
}

impl UdpListener {
    pub(super) fn new(id: ListenerId, socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let bound = socket.local_addr()?.as_socket().ok_or(Errno::AFNOSUPPORT)?;
        let info = match bound.ip() {
            ip if !ip.is_unspecified() => PacketInfo::None,
            IpAddr::V4(_) => PacketInfo::Ipv4,
            IpAddr::V6(_) => PacketInfo::Ipv6,
        };
        Ok(Self {
            id,
            socket: Arc::new(socket.into()),
            info,
            bound,
            own: (info == PacketInfo::None).then(|| bound.ip()),
            retired: false,
            released: false,
        })
    }

    pub(super) fn share(&self) -> io::Result<SharedSocket> {
        Ok(SharedSocket {
            address: self.bound,
            transport: Transport::Udp,
            socket: self.socket.try_clone()?,
        })
    }

    /// Lets nothing new in. A socket that is connected takes datagrams of its peer alone, and keeps those that it has;
    /// nobody sends from the peer that is chosen here, the discard port of the same host.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        let nobody = self.own.unwrap_or_else(|| match self.bound {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
        // Where the kernel refuses, only what comes between the last look and the end is lost.
        let _ = rustix::net::connect(&self.socket, &SocketAddr::new(nobody, DISCARD));
    }

    /// The socket of a listener by which a reply leaves: the one bound to the address it leaves from, else the
    /// wildcard's, which can take any, else whichever there is.
    pub(super) fn leaving<'l>(
        all: impl Iterator<Item = &'l Self> + Clone,
        id: ListenerId,
        local: Option<IpAddr>,
    ) -> Option<&'l Self> {
        let mut own = all.filter(|socket| socket.id == id);
        let (mut exact, mut wildcard) = (own.clone(), own.clone());
        exact
            .find(|socket| socket.own == local)
            .or_else(|| wildcard.find(|socket| socket.own.is_none()))
            .or_else(|| own.next())
    }
}

/// Sends messages by one socket. That they do not arrive is no error: it is UDP.
fn send_messages(socket: &OwnedFd, messages: &mut [libc::mmsghdr], cells: &Cells) {
    let mut next = 0;
    let mut waited = false;
    while next < messages.len() {
        let rest = &mut messages[next..];
        // SAFETY: `address_message` filled the messages with pointers to an address, bytes and a control message
        // that all outlive this call, and their lengths. No safe wrapper sends several at once to addresses in
        // the kernel's form.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                rest.as_mut_ptr(),
                rest.len() as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent > 0 {
            cells.replies.add(sent.cast_unsigned().into());
            next += sent.cast_unsigned() as usize;
            continue;
        }
        match Errno::from_io_error(&io::Error::last_os_error()) {
            Some(Errno::INTR) => {}
            Some(Errno::AGAIN | Errno::NOBUFS) if !waited => {
                waited = true;
                let writable = PollFd::new(socket, PollFlags::OUT);
                // Whatever it says, the next attempt shows.
                let _ = rustix::event::poll(&mut [writable], Some(&SEND_PATIENCE));
            }
            Some(Errno::AGAIN | Errno::NOBUFS) => {
                cells.send_errors.add(rest.len() as u64);
                return;
            }
            // This client cannot be reached (no route, port 0, a firewall's rule); the others can.
            _ => {
                cells.send_errors.add(1);
                next += 1;
            }
        }
    }
}

/// Replies of any length that are not those to the batch at hand: kept until the worker waits, to leave together.
#[derive(Default)]
pub(super) struct LateReplies {
    /// All of them leave by this socket.
    socket: Option<Arc<OwnedFd>>,
    bytes: Vec<u8>,
    replies: ArrayVec<LateReply, BATCH_MAX>,
}

struct LateReply {
    peer: Peer,
    control: Option<(Control, usize)>,
    start: usize,
    end: usize,
}

/// Bytes that late replies may gather before they leave.
const LATE_BYTES_MAX: usize = 64 << 10;

impl LateReplies {
    pub(super) fn push(
        &mut self,
        listener: &UdpListener,
        peer: &Peer,
        local: Option<IpAddr>,
        bytes: &[u8],
        cells: &Cells,
    ) {
        let is_same = |own: &Arc<OwnedFd>| Arc::ptr_eq(own, &listener.socket);
        if !self.socket.as_ref().is_some_and(is_same) || self.replies.is_full() || self.bytes.len() > LATE_BYTES_MAX {
            self.send(cells);
            self.socket = Some(Arc::clone(&listener.socket));
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.replies.push(LateReply {
            peer: *peer,
            control: local.and_then(|local| Control::leaving_from(local, listener.info)),
            start,
            end: self.bytes.len(),
        });
    }

    /// Sends those that there are.
    pub(super) fn send(&mut self, cells: &Cells) {
        let Some(socket) = self.socket.take() else { return };
        let mut data = ArrayVec::<libc::iovec, BATCH_MAX>::new();
        data.extend(self.replies.iter().map(|reply| libc::iovec {
            iov_base: self.bytes[reply.start..reply.end].as_ptr().cast_mut().cast(),
            iov_len: reply.end - reply.start,
        }));
        let mut messages = ArrayVec::<libc::mmsghdr, BATCH_MAX>::new();
        for (reply, data) in self.replies.iter().zip(&mut data) {
            messages.push(address_message(&reply.peer, data, reply.control.as_ref()));
        }
        send_messages(&socket, &mut messages, cells);
        self.replies.clear();
        self.bytes.clear();
        self.bytes.shrink_to(LATE_BYTES_MAX);
    }
}

/// A message to `peer` in `data`. The pointers in it live as long as what they were made of.
fn address_message(peer: &Peer, data: &mut libc::iovec, control: Option<&(Control, usize)>) -> libc::mmsghdr {
    let mut message = empty_message();
    let header = &mut message.msg_hdr;
    header.msg_name = ptr::from_ref(peer).cast_mut().cast();
    header.msg_namelen = peer.len();
    header.msg_iov = data;
    header.msg_iovlen = 1;
    if let Some((control, len)) = control {
        header.msg_control = ptr::from_ref(control).cast_mut().cast();
        header.msg_controllen = *len as _;
    }
    message
}

/// All zero: no address, no bytes.
pub(super) fn empty_message() -> libc::mmsghdr {
    // SAFETY: null pointers and zero lengths are a valid message. The C libraries differ in hidden padding fields, so
    // it cannot be written out.
    unsafe { mem::zeroed() }
}

/// A datagram where it was received.
pub(super) struct Received<'r> {
    pub(super) query: &'r [u8],
    pub(super) cut: bool,
    pub(super) peer: &'r Peer,
    pub(super) control: &'r [u8],
}

/// Room for one reply. The last 64 bytes keep the rooms from falling on the same cache sets.
#[repr(C, align(64))]
struct Room {
    bytes: [u8; DATAGRAM_ROOM],
    _gap: [u8; 64],
}

/// The rooms for the replies to one batch, and what it takes to send them by one system call.
pub(super) struct Replies {
    rooms: Box<[Room]>,
    envelopes: Box<[Envelope]>,
    messages: Box<[libc::mmsghdr]>,
}

/// What a message points to.
#[derive(Clone, Copy)]
struct Envelope {
    data: libc::iovec,
    control: Option<(Control, usize)>,
}

impl Replies {
    pub(super) fn new() -> Self {
        let rooms = (0..BATCH_MAX)
            .map(|_| Room {
                bytes: [0; DATAGRAM_ROOM],
                _gap: [0; 64],
            })
            .collect();
        let envelope = Envelope {
            data: libc::iovec {
                iov_base: ptr::null_mut(),
                iov_len: 0,
            },
            control: None,
        };
        let messages = (0..BATCH_MAX).map(|_| empty_message()).collect();
        Self {
            rooms,
            envelopes: vec![envelope; BATCH_MAX].into(),
            messages,
        }
    }

    /// Has the handler answer a batch of datagrams that came by a socket, and sends the replies; returns how many came.
    pub(super) fn answer<'r>(
        &mut self,
        listener: &UdpListener,
        received: impl Iterator<Item = Received<'r>>,
        handler: &mut impl Handler,
        cells: &Cells,
    ) -> usize {
        let mut batch = ArrayVec::<Datagram<'_>, BATCH_MAX>::new();
        for (received, room) in received.zip(&mut self.rooms) {
            let Received {
                query,
                cut,
                peer,
                control,
            } = received;
            cells.datagrams_cut.add(cut.into());
            let local = if listener.info == PacketInfo::None {
                listener.own
            } else {
                destination(control)
            };
            batch.push(Datagram {
                query,
                cut,
                reply: &mut room.bytes,
                reply_len: 0,
                peer,
                listener: listener.id,
                local,
            });
        }
        cells.batches.add(1);
        cells.datagrams.add(batch.len() as u64);
        handler.datagrams(&mut batch);
        let outgoing = Outgoing {
            envelopes: &mut self.envelopes,
            messages: &mut self.messages,
        };
        outgoing.send(listener, &mut batch, cells);
        batch.len()
    }
}

/// Sends the replies of a batch.
struct Outgoing<'r> {
    envelopes: &'r mut [Envelope],
    messages: &'r mut [libc::mmsghdr],
}

impl Outgoing<'_> {
    fn send(self, listener: &UdpListener, batch: &mut [Datagram<'_>], cells: &Cells) {
        let replies = batch.iter_mut().filter(|datagram| datagram.reply_len > 0);
        let mut len = 0;
        for ((datagram, envelope), message) in replies.zip(self.envelopes.iter_mut()).zip(self.messages.iter_mut()) {
            let reply = &mut datagram.reply[..datagram.reply_len];
            envelope.data = libc::iovec {
                iov_base: reply.as_mut_ptr().cast(),
                iov_len: reply.len(),
            };
            envelope.control = match listener.info {
                PacketInfo::None => None,
                info => datagram.local.and_then(|local| Control::leaving_from(local, info)),
            };
            *message = address_message(datagram.peer, &mut envelope.data, envelope.control.as_ref());
            len += 1;
        }
        if len > 0 {
            send_messages(&listener.socket, &mut self.messages[..len], cells);
        }
    }
}
