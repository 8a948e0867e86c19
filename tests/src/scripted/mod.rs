//! DNS servers that play what a case wrote for them, over UDP and TCP.
//!
//! ```text
//!   script   what the case says         answer   from a packet to the messages that go back
//!   here     sockets and threads: one for each socket, one for each datagram and connection, since answers may wait
//! ```

mod answer;
mod script;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use answer::Player;
pub use script::{Behave, Bits, RcodeAfter, Script, SlowAfter, ZoneAfter};

use crate::ask::framed;

/// How often threads look whether they are over.
const TICK: Duration = Duration::from_millis(5);

/// A server on an address of its own; what it has seen stays when it is stopped and started again.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    player: Arc<Player>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

impl ScriptedServer {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The address cannot be had, or the script holds what is no record.
    pub fn start(address: SocketAddr, script: &Script) -> io::Result<Self> {
        let player = Player::new(script).map_err(io::Error::other)?;
        let mut server = Self {
            address,
            player: Arc::new(player),
            running: None,
        };
        server.resume()?;
        Ok(server)
    }

    /// Listens again; nothing if it does.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn resume(&mut self) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        if !self.player.behave().no_udp {
            let socket = UdpSocket::bind(self.address)?;
            socket.set_read_timeout(Some(TICK))?;
            let (shared, player) = (Arc::clone(&shared), Arc::clone(&self.player));
            threads.push(thread::spawn(move || datagrams(Arc::new(socket), &shared, &player)));
        }
        if !self.player.behave().no_tcp {
            let listener = TcpListener::bind(self.address)?;
            listener.set_nonblocking(true)?;
            let (shared, player) = (Arc::clone(&shared), Arc::clone(&self.player));
            threads.push(thread::spawn(move || connections(&listener, &shared, &player)));
        }
        self.running = Some(Running { shared, threads });
        Ok(())
    }

    /// Closes all its sockets.
    pub fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.shared.is_over.store(true, Ordering::SeqCst);
        for thread in running.threads {
            // One that panicked has said so already.
            let _ = thread.join();
        }
        let open = &running.shared.connections;
        for stream in open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The other side may have been first.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How many questions it has had so far, probes (`. NS`) apart.
    pub fn seen(&self) -> usize {
        self.player.seen()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn datagrams(socket: Arc<UdpSocket>, shared: &Shared, player: &Arc<Player>) {
    let mut room = vec![0; 65_535];
    while !shared.is_over.load(Ordering::SeqCst) {
        // The end of the wait, or an ICMP error that an earlier answer brought.
        let Ok((len, client)) = socket.recv_from(&mut room) else {
            continue;
        };
        let packet = room[..len].to_vec();
        let player = Arc::clone(player);
        // An answer that waits must not hold the port of a server that was stopped.
        let socket = Arc::downgrade(&socket);
        thread::spawn(move || {
            let messages = player
                .answer(&packet, false)
                .expect("a script's answers can be written");
            if let Some(socket) = socket.upgrade() {
                for message in messages {
                    // A client that is gone does not want it.
                    let _ = socket.send_to(&message, client);
                }
            }
        });
    }
}

fn connections(listener: &TcpListener, shared: &Shared, player: &Arc<Player>) {
    while !shared.is_over.load(Ordering::SeqCst) {
        let accepted = listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(false)?;
            Ok((stream.try_clone()?, stream))
        });
        let Ok((known, stream)) = accepted else {
            thread::sleep(TICK);
            continue;
        };
        let open = &shared.connections;
        open.lock().unwrap_or_else(PoisonError::into_inner).push(known);
        let player = Arc::clone(player);
        thread::spawn(move || {
            // Either side may end it at any time. The clone above would keep it open.
            let _ = converse(&stream, &player);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn converse(mut stream: &TcpStream, player: &Player) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut packet = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut packet)?;
        for message in player.answer(&packet, true).map_err(io::Error::other)? {
            stream.write_all(&framed(&message))?;
        }
        if player.behave().close_tcp {
            return Ok(());
        }
    }
}
