//! The sockets of a DNS server of a test, until they are closed all at once: a thread for each, and one for each connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::served::framed;

/// How often threads look whether they are over.
const TICK: Duration = Duration::from_millis(5);

/// Who answers what comes by them.
pub trait Answers: Send + Sync + 'static {
    /// A datagram came; what is to be said goes to `client`.
    fn datagram(self: &Arc<Self>, packet: &[u8], socket: &Arc<UdpSocket>, client: SocketAddr);

    /// A question came by a connection: what is to be said, and whether that ends it.
    ///
    /// # Errors
    /// It ends at once.
    fn question(&self, packet: &[u8]) -> io::Result<(Vec<Vec<u8>>, After)>;
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next question is read.
    GoesOn,
    /// It ends.
    Ends,
}

/// See the module.
#[derive(Debug)]
pub struct Listening {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Listening {
    /// Has these sockets served.
    ///
    /// # Errors
    /// They cannot be set up.
    pub fn on(udp: Option<UdpSocket>, tcp: Option<TcpListener>, answers: &Arc<impl Answers>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        if let Some(socket) = udp {
            socket.set_read_timeout(Some(TICK))?;
            let (shared, answers) = (Arc::clone(&shared), Arc::clone(answers));
            threads.push(thread::spawn(move || datagrams(&Arc::new(socket), &shared, &answers)));
        }
        if let Some(listener) = tcp {
            listener.set_nonblocking(true)?;
            let (shared, answers) = (Arc::clone(&shared), Arc::clone(answers));
            threads.push(thread::spawn(move || connections(&listener, &shared, &answers)));
        }
        Ok(Self { shared, threads })
    }
}

/// Closes all of them.
impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
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
}

fn datagrams(socket: &Arc<UdpSocket>, shared: &Shared, answers: &Arc<impl Answers>) {
    let mut room = vec![0; 65_535];
    while !shared.is_over.load(Ordering::SeqCst) {
        // Else it is the end of the wait, or an ICMP error that an earlier answer brought.
        if let Ok((len, client)) = socket.recv_from(&mut room) {
            answers.datagram(&room[..len], socket, client);
        }
    }
}

fn connections(listener: &TcpListener, shared: &Shared, answers: &Arc<impl Answers>) {
    while !shared.is_over.load(Ordering::SeqCst) {
        let accepted = listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            Ok((stream.try_clone()?, stream))
        });
        let Ok((known, stream)) = accepted else {
            thread::sleep(TICK);
            continue;
        };
        let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended need no end.
        open.retain(|stream| stream.peer_addr().is_ok());
        open.push(known);
        drop(open);
        let answers = Arc::clone(answers);
        thread::spawn(move || {
            // Either side may end it at any time. The clone above would keep it open.
            let _ = converse(&stream, &*answers);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn converse(mut stream: &TcpStream, answers: &impl Answers) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut packet = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut packet)?;
        let (messages, after) = answers.question(&packet)?;
        for message in messages {
            stream.write_all(&framed(&message))?;
        }
        if after == After::Ends {
            return Ok(());
        }
    }
}
