//! A client that asks evenly, whatever comes back, and says of each question what became of it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nodens_wire::{Message, NameBuf, Rtype, edns};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::upstream::address_of;

/// Sockets that the questions go by in turn: each has its ids, and every worker its share.
const SOCKETS: usize = 8;
/// After the last question.
const PATIENCE: Duration = Duration::from_secs(7);
/// Time between two looks at what is due.
const STEP: Duration = Duration::from_millis(1);

/// What became of a question.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// When it was sent, from the beginning of the load on.
    pub at: Duration,
    /// How long its answer took, if one came.
    pub took: Option<Duration>,
    /// Of the answer.
    pub rcode: u8,
    /// It holds the address of that name, as an [`Upstream`](crate::upstream::Upstream) gives it.
    pub is_right: bool,
    /// TC: there is more than it holds.
    pub is_cut: bool,
    /// Its extended error (RFC 8914).
    pub error: Option<u16>,
}

impl Asked {
    /// NOERROR with the right address.
    pub fn is_answered(&self) -> bool {
        self.took.is_some() && self.rcode == 0 && self.is_right
    }
}

/// How much, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Questions a second.
    pub rate: u32,
    /// The time in which they are sent.
    pub time: Duration,
}

impl Load {
    /// Asks `A` of the name that each question's number is given, over UDP with EDNS.
    ///
    /// # Panics
    /// A name is none, or a reply is no message.
    pub fn ask(self, server: SocketAddr, name: impl Fn(u32) -> String) -> Vec<Asked> {
        let sockets: Vec<UdpSocket> = (0..SOCKETS).map(|_| client(server)).collect();
        let total = (f64::from(self.rate) * self.time.as_secs_f64()) as u32;
        let mut all: Vec<Asked> = Vec::with_capacity(total as usize);
        // The last question under each id of each socket.
        let mut numbers = vec![u32::MAX; SOCKETS << 16];
        let mut open = 0_u32;
        let mut reply = [0; 4096];
        let begun = Instant::now();
        while all.len() < total as usize || (open > 0 && begun.elapsed() < self.time + PATIENCE) {
            let due = (begun.elapsed().as_secs_f64() * f64::from(self.rate)) as u32;
            for number in all.len() as u32..due.min(total) {
                let (socket, id) = place(number);
                numbers[socket << 16 | usize::from(id)] = number;
                all.push(Asked {
                    at: begun.elapsed(),
                    took: None,
                    rcode: 0,
                    is_right: false,
                    is_cut: false,
                    error: None,
                });
                open += 1;
                // A full buffer is a datagram lost.
                let _ = sockets[socket].send(&question(id, &name(number)));
            }
            wait(&sockets);
            for (at, socket) in sockets.iter().enumerate() {
                while let Ok(len) = socket.recv(&mut reply) {
                    let message = Message::parse(&reply[..len]).expect("a reply");
                    let number = numbers[at << 16 | usize::from(message.header.id)];
                    let Some(asked) = all.get_mut(number as usize).filter(|asked| asked.took.is_none()) else {
                        continue;
                    };
                    open -= 1;
                    asked.took = Some(begun.elapsed() - asked.at);
                    read(&message, asked);
                }
            }
        }
        all
    }
}

/// The time within which this share of the answered questions have their answer, in hundredths.
pub fn percentile<'a>(asked: impl IntoIterator<Item = &'a Asked>, hundredths: usize) -> Duration {
    let mut took: Vec<Duration> = asked.into_iter().filter_map(|asked| asked.took).collect();
    took.sort_unstable();
    took.get(took.len() * hundredths / 100).copied().unwrap_or_default()
}

/// Gives a socket a receive buffer that outlasts a pause of this process: as large as the user may ask for.
pub fn roomy(socket: &UdpSocket) {
    const BYTES: usize = 8 << 20;
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, BYTES).is_err() {
        // The kernel cuts it to what it grants to everybody.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, BYTES);
    }
}

fn client(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(server).expect("an address");
    socket.set_nonblocking(true).expect("a socket that does not block");
    roomy(&socket);
    socket
}

/// By which socket a question goes, and under which id.
fn place(number: u32) -> (usize, u16) {
    (number as usize % SOCKETS, (number as usize / SOCKETS) as u16)
}

fn wait(sockets: &[UdpSocket]) {
    let mut polled: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
        .collect();
    let step = Timespec {
        tv_sec: 0,
        tv_nsec: STEP.subsec_nanos().into(),
    };
    // Whatever it says, the sockets are looked at.
    let _ = rustix::event::poll(&mut polled, Some(&step));
}

fn question(id: u16, name: &str) -> Vec<u8> {
    let name = NameBuf::from_text(name).expect("a name");
    let mut packet = id.to_be_bytes().to_vec();
    // RD, one question, one additional record: an OPT for 1,232 bytes.
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    packet.extend(name.as_bytes());
    packet.extend([0, 1, 0, 1]);
    packet.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
    packet
}

fn read(message: &Message<'_>, asked: &mut Asked) {
    asked.rcode = message.header.flags().rcode().0 as u8;
    asked.is_cut = message.header.flags().tc();
    let address = message.question.map(|asked| address_of(asked.name.as_bytes()).octets());
    let mut records = message.records().flatten();
    asked.is_right =
        records.any(|record| record.rtype == Rtype::A && address.is_some_and(|address| record.rdata == address));
    let opt = message.opt();
    let error = opt.as_ref().and_then(|opt| opt.option(edns::EDE));
    asked.error = error
        .and_then(|error| error.first_chunk())
        .map(|code| u16::from_be_bytes(*code));
}
