//! DNS servers that play what a case wrote for them, over UDP and TCP.
//!
//! ```text
//!   script   what the case says         answer   from a packet to the messages that go back
//!   here     a thread for each datagram, since answers may wait
//! ```

mod answer;
mod script;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;

use answer::Player;
pub use script::{Behave, Bits, RcodeAfter, Script, SlowAfter, ZoneAfter};

use crate::listening::{After, Answers, Listening};

/// A server on an address of its own; what it has seen stays when it is stopped and started again.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    player: Arc<Player>,
    listening: Option<Listening>,
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
            listening: None,
        };
        server.resume()?;
        Ok(server)
    }

    /// Listens again; nothing if it does.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn resume(&mut self) -> io::Result<()> {
        if self.listening.is_none() {
            let behave = self.player.behave();
            let udp = (!behave.no_udp).then(|| UdpSocket::bind(self.address));
            let tcp = (!behave.no_tcp).then(|| TcpListener::bind(self.address));
            self.listening = Some(Listening::on(udp.transpose()?, tcp.transpose()?, &self.player)?);
        }
        Ok(())
    }

    /// Closes all its sockets.
    pub fn stop(&mut self) {
        self.listening = None;
    }

    /// How many questions it has had so far, probes (`. NS`) apart.
    pub fn seen(&self) -> usize {
        self.player.seen()
    }
}

impl Answers for Player {
    fn datagram(self: &Arc<Self>, packet: &[u8], socket: &Arc<UdpSocket>, client: SocketAddr) {
        let (player, packet) = (Arc::clone(self), packet.to_vec());
        // An answer that waits must not hold the port of a server that was stopped.
        let socket = Arc::downgrade(socket);
        thread::spawn(move || {
            let messages = player.answer(&packet, false);
            let messages = messages.expect("a script's answers can be written");
            if let Some(socket) = socket.upgrade() {
                for message in messages {
                    // A client that is gone does not want it.
                    let _ = socket.send_to(&message, client);
                }
            }
        });
    }

    fn question(&self, packet: &[u8]) -> io::Result<(Vec<Vec<u8>>, After)> {
        let messages = self.answer(packet, true).map_err(io::Error::other)?;
        let after = if self.behave().close_tcp {
            After::Ends
        } else {
            After::GoesOn
        };
        Ok((messages, after))
    }
}
