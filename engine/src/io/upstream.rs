//! Connected UDP sockets to other servers.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::readiness::{Readiness, Source};
use super::{Counters, Handler, SocketError, UpstreamDatagram, UpstreamId};

/// Replies taken from one socket before the others have their turn.
const REPLIES_MAX: usize = 32;

/// Every upstream socket of a port.
pub(super) struct Upstreams {
    // Keyed by numbers that the engine itself gives out, so a plain hash will do.
    sockets: HashMap<UpstreamId, Upstream, foldhash::fast::RandomState>,
    ready: VecDeque<UpstreamId>,
    failed: VecDeque<(UpstreamId, SocketError)>,
}

struct Upstream {
    socket: Socket,
    queued: bool,
}

impl Upstreams {
    pub(super) fn new() -> Self {
        Self {
            sockets: HashMap::default(),
            ready: VecDeque::new(),
            failed: VecDeque::new(),
        }
    }

    /// A failure is reported like one of the network.
    pub(super) fn open(&mut self, readiness: &Readiness, id: UpstreamId, to: SocketAddr, from: Option<IpAddr>) {
        match connect(readiness, id, to, from) {
            Ok(socket) => {
                self.sockets.insert(id, Upstream { socket, queued: false });
            }
            Err(error) => self.failed.push_back((id, (&error).into())),
        }
    }

    pub(super) fn send(&mut self, id: UpstreamId, bytes: &[u8], counters: &Counters) {
        let Some(upstream) = self.sockets.get(&id) else { return };
        loop {
            match rustix::net::send(&upstream.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => return,
                Err(Errno::INTR) => {}
                // Lost like a packet on its way; the engine's own time-out covers both.
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    counters.cells.send_errors.add(1);
                    return;
                }
                // What an earlier datagram met (refused, unreachable) is reported by the next call of any kind.
                Err(error) => {
                    counters.cells.send_errors.add(1);
                    self.failed.push_back((id, error.into()));
                    return;
                }
            }
        }
    }

    pub(super) fn retire(&mut self, id: UpstreamId) {
        self.sockets.remove(&id);
    }

    pub(super) fn event(&mut self, id: UpstreamId) {
        if let Some(upstream) = self.sockets.get_mut(&id)
            && !upstream.queued
        {
            upstream.queued = true;
            self.ready.push_back(id);
        }
    }

    pub(super) fn busy(&self) -> bool {
        !self.ready.is_empty() || !self.failed.is_empty()
    }

    pub(super) fn serve(&mut self, handler: &mut impl Handler, buffer: &mut [u8]) -> usize {
        let mut events = 0;
        for (upstream, error) in self.failed.drain(..) {
            handler.upstream(UpstreamDatagram {
                upstream,
                bytes: &[],
                error: Some(error),
            });
            events += 1;
        }
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(upstream) = self.sockets.get_mut(&id) else {
                continue;
            };
            upstream.queued = false;
            let (count, drained) = receive(upstream, id, handler, buffer);
            events += count;
            if !drained {
                self.event(id);
            }
        }
        events
    }
}

fn connect(readiness: &Readiness, id: UpstreamId, to: SocketAddr, from: Option<IpAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    // The kernel chooses the port at random either way; without an address of its own, one that reaches this server is
    // enough.
    if let Some(from) = from {
        socket.bind(&SockAddr::from(SocketAddr::new(from, 0)))?;
    }
    socket.connect(&SockAddr::from(to))?;
    readiness.add(&socket, Source::Upstream(id), EventFlags::IN)?;
    Ok(socket)
}

/// Hands over what is there. Returns how much it was and whether that was all that anybody waits for.
fn receive(upstream: &Upstream, id: UpstreamId, handler: &mut impl Handler, buffer: &mut [u8]) -> (usize, bool) {
    for count in 0..REPLIES_MAX {
        match rustix::net::recv(&upstream.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((len, _)) => {
                let reply = UpstreamDatagram {
                    upstream: id,
                    bytes: &buffer[..len],
                    error: None,
                };
                // Whatever comes later is a new edge, so that there is no need to look whether the socket is empty.
                if !handler.upstream(reply) {
                    return (count + 1, true);
                }
            }
            Err(Errno::AGAIN) => return (count, true),
            Err(Errno::INTR) => return (count, false),
            // Reading it cleared the error; replies may still be there.
            Err(error) => {
                handler.upstream(UpstreamDatagram {
                    upstream: id,
                    bytes: &[],
                    error: Some(error.into()),
                });
            }
        }
    }
    (REPLIES_MAX, false)
}
