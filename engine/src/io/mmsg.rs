//! The port over system calls: epoll tells that datagrams are there, `recvmmsg` takes up to a batch of them and
//! `sendmmsg` sends the replies. Works everywhere, in containers too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{io, mem};

use super::accept::free_place;
use super::batch::{LateReplies, Replies, UdpListener};
use super::readiness::Patience;
use super::slots::Slots;
use super::watched::Watched;
use super::{BATCH_MAX, Counters, Effect, Handler, ListenerId, ListenerSockets, Port, SharedSocket, Sockets};
use crate::time::Instant;

/// Full batches of datagrams served before the other sockets are looked at again.
const UNLOOKED_MAX: u32 = 8;

/// The port over `recvmmsg` and `sendmmsg`.
pub struct MmsgPort {
    /// Places of sockets that are closed are used again.
    udp: Vec<Option<UdpListener>>,
    /// By listener: datagrams may be there.
    ready: Vec<bool>,
    /// Sockets that hold nothing any more, by which answers to what they held may still leave.
    drained: Vec<UdpListener>,
    slots: Slots,
    replies: Replies,
    late: LateReplies,
    watched: Watched,
    counters: Arc<Counters>,
    /// `serve` has something to go by.
    looked: bool,
    /// Rounds since the other sockets were looked at.
    unlooked: u32,
    /// The kernel had more events than it gave.
    more: bool,
}

impl MmsgPort {
    pub(super) fn open(watched: Watched, sockets: Vec<ListenerSockets>, counters: &Arc<Counters>) -> io::Result<Self> {
        let mut port = Self {
            udp: Vec::new(),
            ready: Vec::new(),
            drained: Vec::new(),
            slots: Slots::new(),
            replies: Replies::new(),
            late: LateReplies::default(),
            watched,
            counters: Arc::clone(counters),
            looked: false,
            unlooked: 0,
            more: false,
        };
        sockets.into_iter().try_for_each(|sockets| port.listen(sockets))?;
        Ok(port)
    }

    /// Sends what was kept to leave together.
    fn flush(&mut self) {
        self.late.send(&self.counters.cells);
        self.watched.flush();
    }

    /// Takes out what was retired and holds nothing any more.
    fn take_drained(&mut self) {
        for (place, ready) in self.udp.iter_mut().zip(&self.ready) {
            if let Some(listener) = place.take_if(|listener| listener.retired && !ready) {
                self.watched.readiness.remove(&listener.socket);
                self.counters.settle(&listener.socket);
                self.drained.push(listener);
            }
        }
    }

    fn retire_all(&mut self, which: impl Fn(&UdpListener) -> bool) {
        for (place, ready) in self.udp.iter_mut().zip(&mut self.ready) {
            if let Some(listener) = place.as_mut().filter(|listener| which(listener)) {
                listener.retire();
                *ready = true;
            }
        }
    }

    /// Asks who is ready, unless a listener surely is and the others were looked at lately.
    fn look(&mut self, patience: Patience) -> io::Result<()> {
        let ready = &mut self.ready;
        self.more = self.watched.poll(patience, |at| ready[at] = true)?;
        self.looked = true;
        self.unlooked = 0;
        Ok(())
    }
}

impl Port for MmsgPort {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.flush();
        if self.ready.contains(&true) && self.unlooked < UNLOOKED_MAX {
            self.unlooked += 1;
            self.looked = true;
            return Ok(());
        }
        if self.more || self.ready.contains(&true) || self.watched.busy() {
            return self.look(Patience::None);
        }
        self.counters.cells.waits.add(1);
        self.look(Patience::until(deadline, self.watched.deadline()))
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        if !mem::take(&mut self.looked) {
            self.flush();
            self.look(Patience::None)?;
            self.looked = false;
        }
        let mut events = 0;
        let mut retired = false;
        let all = self.udp.iter().zip(&mut self.ready).filter(|(_, ready)| **ready);
        for (place, ready) in all {
            let Some(listener) = place else { continue };
            let len = self
                .slots
                .serve(listener, &mut self.replies, handler, &self.counters.cells);
            // A short batch drained the socket; the next datagram makes it ready anew, unless there is to be none.
            *ready = len == BATCH_MAX || (listener.retired && len > 0);
            retired |= listener.retired;
            events += len;
        }
        if retired {
            self.take_drained();
        }
        Ok(events + self.watched.serve(handler))
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        if let Effect::Send { listener, peer, local } = effect {
            let sockets = self.udp.iter().flatten().chain(&self.drained);
            if let Some(socket) = UdpListener::leaving(sockets, listener, local) {
                self.late.push(socket, &peer, local, bytes, &self.counters.cells);
            }
        } else {
            self.watched.apply(effect, bytes);
        }
        Ok(())
    }
}

impl Sockets for MmsgPort {
    fn listen(&mut self, sockets: ListenerSockets) -> io::Result<()> {
        let ListenerSockets { listener, udp, tcp } = sockets;
        if let Some(socket) = udp {
            let listener = UdpListener::new(listener, socket)?;
            let at = free_place(&mut self.udp);
            self.ready.resize(self.udp.len(), false);
            self.watched.add_udp(at, &listener)?;
            self.counters.watch(listener.id, &listener.socket);
            self.ready[at] = false;
            self.udp[at] = Some(listener);
        }
        match tcp {
            Some(socket) => self.watched.add_tcp(listener, socket),
            None => Ok(()),
        }
    }

    fn retire(&mut self, listener: ListenerId, address: SocketAddr) {
        self.retire_all(|own| own.id == listener && own.bound == address);
        self.watched.retire(listener, address);
    }

    fn drain(&mut self) {
        self.retire_all(|_| true);
        self.watched.drain();
    }

    fn share(&self) -> io::Result<Vec<SharedSocket>> {
        let udp = self.udp.iter().flatten().map(UdpListener::share);
        udp.chain(self.watched.share()).collect()
    }

    fn release(&mut self) {
        for listener in self.udp.drain(..).flatten() {
            self.watched.readiness.remove(&listener.socket);
            self.counters.settle(&listener.socket);
            self.drained.push(listener);
        }
        self.ready.clear();
        self.watched.release();
    }

    fn is_draining(&self) -> bool {
        self.udp.iter().flatten().any(|listener| listener.retired) || self.watched.is_draining()
    }

    fn close_drained(&mut self) {
        self.drained.clear();
    }

    fn is_idle(&self) -> bool {
        self.udp.iter().flatten().next().is_none() && self.watched.is_idle()
    }
}

impl Drop for MmsgPort {
    fn drop(&mut self) {
        self.late.send(&self.counters.cells);
        for listener in self.udp.iter().flatten() {
            self.counters.settle(&listener.socket);
        }
    }
}
