//! Listening TCP sockets: taking connections without ever getting stuck.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::Socket;

use super::clock::now;
use super::readiness::{Readiness, Source};
use super::{Counters, ListenerId, SharedSocket, Transport};
use crate::time::Instant;

/// Connections taken from one socket before the others have their turn.
const ACCEPTS_MAX: usize = 64;

/// Rest after the kernel had no file descriptor or memory for a connection. It stays in the backlog meanwhile.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// A listening socket.
struct Acceptor {
    id: ListenerId,
    socket: OwnedFd,
    /// Where it listens.
    bound: SocketAddr,
    /// The address of every connection, unless it is bound to a wildcard.
    local: Option<SocketAddr>,
    ready: bool,
    /// It is closed once nothing waits in it.
    retired: bool,
}

/// A connection just taken.
pub(super) struct Accepted {
    pub(super) socket: OwnedFd,
    pub(super) listener: ListenerId,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Its listener is going: it is drained as it comes.
    pub(super) draining: bool,
}

/// Every listening socket of a port.
#[derive(Default)]
pub(super) struct Acceptors {
    /// Places of sockets that are closed are used again.
    list: Vec<Option<Acceptor>>,
    resume_at: Option<Instant>,
}

impl Acceptors {
    pub(super) fn add(&mut self, readiness: &Readiness, id: ListenerId, socket: Socket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let bound = socket.local_addr()?.as_socket().ok_or(Errno::AFNOSUPPORT)?;
        let at = free_place(&mut self.list);
        readiness.add(&socket, Source::Acceptor(at as u32), EventFlags::IN)?;
        self.list[at] = Some(Acceptor {
            id,
            socket: socket.into(),
            bound,
            local: (!bound.ip().is_unspecified()).then_some(bound),
            ready: false,
            retired: false,
        });
        Ok(())
    }

    /// Closes the sockets that `which` is true of, once what waits in them was taken.
    pub(super) fn retire(&mut self, which: impl Fn(ListenerId, SocketAddr) -> bool) {
        let all = self.list.iter_mut().flatten();
        for acceptor in all.filter(|acceptor| which(acceptor.id, acceptor.bound)) {
            acceptor.retired = true;
            acceptor.ready = true;
        }
    }

    pub(super) fn share(&self) -> impl Iterator<Item = io::Result<SharedSocket>> + '_ {
        self.list.iter().flatten().map(|acceptor| {
            Ok(SharedSocket {
                address: acceptor.bound,
                transport: Transport::Tcp,
                socket: acceptor.socket.try_clone()?,
            })
        })
    }

    /// Closes all of them, whatever waits in them.
    pub(super) fn release(&mut self, readiness: &Readiness) {
        for acceptor in self.list.drain(..).flatten() {
            readiness.remove(&acceptor.socket);
        }
    }

    /// Whether a listener has a socket that stays.
    pub(super) fn serves(&self, id: ListenerId) -> bool {
        let mut all = self.list.iter().flatten();
        all.any(|acceptor| acceptor.id == id && !acceptor.retired)
    }

    /// Whether a socket that was retired is still open.
    pub(super) fn is_draining(&self) -> bool {
        self.list.iter().flatten().any(|acceptor| acceptor.retired)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.iter().flatten().next().is_none()
    }

    pub(super) fn event(&mut self, at: u32) {
        if let Some(Some(acceptor)) = self.list.get_mut(at as usize) {
            acceptor.ready = true;
        }
    }

    pub(super) fn busy(&self) -> bool {
        self.resume_at.is_none() && self.list.iter().flatten().any(|acceptor| acceptor.ready)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.resume_at
    }

    /// Takes what waits, up to a limit; `take` is called for each.
    pub(super) fn serve(&mut self, readiness: &Readiness, counters: &Counters, mut take: impl FnMut(Accepted)) {
        if let Some(resume_at) = self.resume_at {
            if now() < resume_at {
                return;
            }
            self.resume_at = None;
        }
        for place in &mut self.list {
            let Some(acceptor) = place.as_mut().filter(|acceptor| acceptor.ready) else {
                continue;
            };
            for _ in 0..ACCEPTS_MAX {
                match acceptor.accept() {
                    Ok(accepted) => {
                        counters.cells.accepts.add(1);
                        take(accepted);
                    }
                    Err(Errno::AGAIN) => {
                        acceptor.ready = false;
                        if acceptor.retired {
                            readiness.remove(&acceptor.socket);
                            *place = None;
                        }
                        break;
                    }
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        counters.cells.accepts_starved.add(1);
                        self.resume_at = Some(now().after(ACCEPT_REST));
                        return;
                    }
                    Err(Errno::INTR) => {}
                    // The network's errors of this one connection (accept(2)); it is gone, the next one may be fine.
                    Err(_) => counters.cells.accept_errors.add(1),
                }
            }
        }
    }
}

impl Acceptor {
    fn accept(&self) -> Result<Accepted, Errno> {
        let (socket, peer) = rustix::net::acceptfrom_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        // A connection that lost its addresses was reset already.
        let peer = peer
            .and_then(|peer| SocketAddr::try_from(peer).ok())
            .ok_or(Errno::CONNABORTED)?;
        let local = match self.local {
            Some(local) => local,
            None => SocketAddr::try_from(rustix::net::getsockname(&socket)?).map_err(|_| Errno::CONNABORTED)?,
        };
        Ok(Accepted {
            socket,
            listener: self.id,
            peer: canonical(peer),
            local: canonical(local),
            draining: self.retired,
        })
    }
}

/// A place of a list that is free, made if there is none.
pub(super) fn free_place<T>(list: &mut Vec<Option<T>>) -> usize {
    list.iter().position(Option::is_none).unwrap_or_else(|| {
        list.push(None);
        list.len() - 1
    })
}

/// With an IPv4-mapped address as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => SocketAddr::new(v6.ip().to_canonical(), v6.port()),
        _ => address,
    }
}
