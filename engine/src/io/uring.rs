//! The port over io_uring: one ring a worker, one multishot receive a UDP socket, one completion a datagram.
//!
//! Replies leave by one `sendmmsg` a batch. A submission for each, with the address in it and no completion on success,
//! costs the same or a little more (`echo` at 20,000 and 100,000 queries a second and at full rate: 1.00, 1.00, 1.04),
//! and needs the buffers longer. All else is readiness: the ring watches the epoll set.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::{io, mem, ptr};

use arrayvec::ArrayVec;
use io_uring::types::{Fd, Timespec};
use io_uring::{cqueue, opcode};
use rustix::io::Errno;

use super::accept::free_place;
use super::batch::{LateReplies, Replies, UdpListener};
use super::bufring::{BufRing, Slot};
use super::control::{CONTROL_ROOM, PacketInfo};
use super::counters::Cells;
use super::peer::PEER_ROOM;
use super::readiness::Patience;
use super::ring::{BUFFERS, Ring, UringDenied};
use super::slots::Slots;
use super::watched::Watched;
use super::{BATCH_MAX, Counters, Effect, Handler, ListenerId, ListenerSockets, Port, SharedSocket, Sockets};
use crate::time::Instant;

/// Buffers of a ring, and what is tried where memory is short. Bursts wait in the sockets; more buffers than a few
/// batches would only take cache from the answers.
const BUFFERS_LEN: [u16; 2] = [256, 64];

/// Entries of the submission queue. It holds what ended and is armed anew; more enter the kernel in between.
const ENTRIES: u32 = 64;

/// Receives of one socket that may fail in a row before the worker gives up.
const FAILURES_MAX: u32 = 1000;

/// Marks the completions of the epoll set; others carry the place of their socket.
const WATCH: u64 = u64::MAX;

/// Marks the completions of what ends a receive.
const CANCEL: u64 = u64::MAX - 1;

/// The port over io_uring.
pub struct UringPort {
    // Before the sockets and headers, which its requests speak of.
    ring: Ring,
    /// Places of sockets that are closed are used again.
    udp: Vec<Option<Receiver>>,
    /// Sockets that hold nothing any more, by which answers to what they held may still leave.
    drained: Vec<UdpListener>,
    replies: Replies,
    late: LateReplies,
    /// For what is left in sockets that were retired; made when there is one.
    slots: Option<Slots>,
    watched: Watched,
    counters: Arc<Counters>,
    /// The ring watches the epoll set.
    watching: bool,
    /// The epoll set has events.
    ready: bool,
    /// `serve` has something to go by.
    looked: bool,
}

/// A socket and its receive.
struct Receiver {
    listener: UdpListener,
    /// The kernel copies it when the receive is armed; boxed, so that a list that grows does not move it.
    header: Box<libc::msghdr>,
    armed: bool,
    failures: u32,
}

impl Receiver {
    fn control_room(&self) -> usize {
        if self.listener.info == PacketInfo::None {
            0
        } else {
            CONTROL_ROOM
        }
    }
}

impl UringPort {
    /// A ring with as many buffers as the user's locked memory allows. It takes no socket yet, so that another port may
    /// have them if the kernel denies it.
    pub(super) fn ring() -> Result<Ring, UringDenied> {
        let [large, small] = BUFFERS_LEN;
        match Ring::new(ENTRIES, large) {
            Err(denied) if Errno::from_io_error(&denied.source) == Some(Errno::NOMEM) => Ring::new(ENTRIES, small),
            result => result,
        }
    }

    pub(super) fn open(
        ring: Ring,
        watched: Watched,
        sockets: Vec<ListenerSockets>,
        counters: &Arc<Counters>,
    ) -> io::Result<Self> {
        let mut port = Self {
            ring,
            udp: Vec::new(),
            replies: Replies::new(),
            late: LateReplies::default(),
            drained: Vec::new(),
            slots: None,
            watched,
            counters: Arc::clone(counters),
            watching: false,
            ready: false,
            looked: false,
        };
        sockets.into_iter().try_for_each(|sockets| port.listen(sockets))?;
        Ok(port)
    }

    /// Sends what was kept to leave together.
    fn flush(&mut self) {
        self.late.send(&self.counters.cells);
        self.watched.flush();
    }

    /// Queues whatever has ended since.
    fn arm(&mut self) -> io::Result<()> {
        for (at, receiver) in self.udp.iter_mut().enumerate() {
            if let Some(receiver) = receiver.as_mut().filter(|receiver| receiver.wants_arming()) {
                let socket = receiver.listener.socket.as_raw_fd();
                arm_receive(&mut self.ring, socket, at, &receiver.header)?;
                receiver.armed = true;
            }
        }
        if !mem::replace(&mut self.watching, true) {
            let set = Fd(self.watched.readiness.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(set, libc::POLLIN as u32)
                .multi(true)
                .build()
                .user_data(WATCH);
            // SAFETY: it points to nothing.
            unsafe { self.ring.push(&entry) }?;
        }
        Ok(())
    }

    /// Enters the kernel if that brings anything.
    fn look(&mut self) -> io::Result<()> {
        let pending = self.ring.pending();
        if pending.overflow {
            self.counters.cells.completions_overflowed.add(1);
        }
        if pending.work || pending.overflow {
            self.ring.enter(0, None)?;
        }
        Ok(())
    }
}

impl Port for UringPort {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.flush();
        self.arm()?;
        self.looked = true;
        if self.ready || self.watched.busy() || self.is_left() || !self.ring.parts().0.is_empty() {
            return self.look();
        }
        self.counters.cells.waits.add(1);
        let timeout = Patience::until(deadline, self.watched.deadline()).timeout();
        let timeout = timeout.map(|left| Timespec::new().sec(left.tv_sec as u64).nsec(left.tv_nsec as u32));
        self.ring.enter(1, timeout)
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        if !mem::take(&mut self.looked) {
            self.flush();
            self.arm()?;
            self.look()?;
        }
        let Self {
            ring,
            udp,
            replies,
            watching,
            ready,
            counters,
            ..
        } = self;
        let cells = &counters.cells;
        let (mut completions, buffers) = ring.parts();
        let mut events = 0;
        let mut batch = Pending::default();
        for completion in &mut completions {
            let more = cqueue::more(completion.flags());
            match completion.user_data() {
                WATCH => {
                    *watching = more;
                    *ready = true;
                    continue;
                }
                // That the receive has ended is said by its own completion.
                CANCEL => continue,
                _ => {}
            }
            let at = completion.user_data() as usize;
            if at != batch.at || batch.slots.is_full() {
                events += batch.serve(udp, buffers, replies, handler, cells);
                batch.at = at;
            }
            // A place is free only after the last completion of its receive.
            let Some(Some(receiver)) = udp.get_mut(at) else {
                continue;
            };
            receiver.armed = more;
            match (
                cqueue::buffer_select(completion.flags()),
                usize::try_from(completion.result()),
            ) {
                (Some(slot), Ok(len)) => {
                    receiver.failures = 0;
                    batch.slots.push((buffers.take(slot), len));
                }
                (Some(slot), Err(_)) => {
                    let slot = buffers.take(slot);
                    buffers.give(slot);
                    receiver.fail(completion.result(), cells)?;
                }
                (None, _) => receiver.fail(completion.result(), cells)?,
            }
        }
        drop(completions);
        events += batch.serve(udp, buffers, replies, handler, cells);
        if self.is_left() {
            events += self.serve_left(handler);
        }
        if mem::take(&mut self.ready) {
            // Datagrams never come this way.
            self.ready = self.watched.poll(Patience::None, |_| {})?;
        }
        Ok(events + self.watched.serve(handler))
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        if let Effect::Send { listener, peer, local } = effect {
            let sockets = self.udp.iter().flatten().map(|receiver| &receiver.listener);
            let sockets = sockets.chain(&self.drained);
            if let Some(socket) = UdpListener::leaving(sockets, listener, local) {
                self.late.push(socket, &peer, local, bytes, &self.counters.cells);
            }
        } else {
            self.watched.apply(effect, bytes);
        }
        Ok(())
    }
}

impl UringPort {
    /// Whether a socket that was retired has no receive any more: what is left in it is taken without the ring.
    fn is_left(&self) -> bool {
        self.udp.iter().flatten().any(Receiver::is_left)
    }

    fn serve_left(&mut self, handler: &mut impl Handler) -> usize {
        let slots = self.slots.get_or_insert_with(Slots::new);
        let mut events = 0;
        for place in &mut self.udp {
            let Some(receiver) = place.as_ref().filter(|receiver| receiver.is_left()) else {
                continue;
            };
            let cells = &self.counters.cells;
            let len = if receiver.listener.released {
                0
            } else {
                slots.serve(&receiver.listener, &mut self.replies, handler, cells)
            };
            events += len;
            if len == 0
                && let Some(receiver) = place.take()
            {
                self.counters.settle(&receiver.listener.socket);
                self.drained.push(receiver.listener);
            }
        }
        if !self.udp.iter().flatten().any(|receiver| receiver.listener.retired) {
            self.slots = None;
        }
        events
    }

    fn retire_all(&mut self, which: impl Fn(&UdpListener) -> bool) {
        self.end_receives(|listener| {
            let is_it = which(listener);
            if is_it {
                listener.retire();
            }
            is_it
        });
    }

    /// Ends the receives of the sockets that `which` is true of.
    fn end_receives(&mut self, which: impl Fn(&mut UdpListener) -> bool) {
        for (at, receiver) in self.udp.iter_mut().enumerate() {
            let Some(receiver) = receiver else { continue };
            if which(&mut receiver.listener) && receiver.armed {
                let entry = opcode::AsyncCancel::new(at as u64).build().user_data(CANCEL);
                // SAFETY: it points to nothing.
                if unsafe { self.ring.push(&entry) }.is_err() {
                    // The port cannot go on, which the next wait will say.
                    return;
                }
            }
        }
    }
}

impl Sockets for UringPort {
    fn listen(&mut self, sockets: ListenerSockets) -> io::Result<()> {
        let ListenerSockets { listener, udp, tcp } = sockets;
        if let Some(socket) = udp {
            let listener = UdpListener::new(listener, socket)?;
            let header = Box::new(header(listener.info));
            self.counters.watch(listener.id, &listener.socket);
            let at = free_place(&mut self.udp);
            self.udp[at] = Some(Receiver {
                listener,
                header,
                armed: false,
                failures: 0,
            });
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
        let udp = self.udp.iter().flatten().map(|receiver| receiver.listener.share());
        udp.chain(self.watched.share()).collect()
    }

    fn release(&mut self) {
        self.end_receives(|listener| {
            listener.retired = true;
            listener.released = true;
            true
        });
        self.watched.release();
    }

    fn is_draining(&self) -> bool {
        self.udp.iter().flatten().any(|receiver| receiver.listener.retired) || self.watched.is_draining()
    }

    fn close_drained(&mut self) {
        self.drained.clear();
    }

    fn is_idle(&self) -> bool {
        self.udp.iter().flatten().next().is_none() && self.watched.is_idle()
    }
}

impl Drop for UringPort {
    fn drop(&mut self) {
        self.late.send(&self.counters.cells);
        for receiver in self.udp.iter().flatten() {
            self.counters.settle(&receiver.listener.socket);
        }
    }
}

impl Receiver {
    fn wants_arming(&self) -> bool {
        !self.armed && !self.listener.retired
    }

    fn is_left(&self) -> bool {
        !self.armed && self.listener.retired
    }

    /// A receive ended with an error; it is armed anew with the next wait, when all buffers are back.
    fn fail(&mut self, result: i32, cells: &Cells) -> io::Result<()> {
        let error = io::Error::from_raw_os_error(result.checked_neg().unwrap_or(0));
        if self.listener.retired {
            // It was told to end.
            return Ok(());
        }
        if Errno::from_io_error(&error) == Some(Errno::NOBUFS) {
            cells.buffers_exhausted.add(1);
            return Ok(());
        }
        cells.receive_errors.add(1);
        self.failures += 1;
        if self.failures > FAILURES_MAX {
            Err(error)
        } else {
            Ok(())
        }
    }
}

/// Datagrams of one socket that are not handed over yet.
#[derive(Default)]
struct Pending {
    at: usize,
    slots: ArrayVec<(Slot, usize), BATCH_MAX>,
}

impl Pending {
    /// Hands them over, sends the replies and gives the buffers back.
    fn serve(
        &mut self,
        udp: &[Option<Receiver>],
        buffers: &mut BufRing,
        replies: &mut Replies,
        handler: &mut impl Handler,
        cells: &Cells,
    ) -> usize {
        if self.slots.is_empty() {
            return 0;
        }
        let Some(receiver) = &udp[self.at] else { return 0 };
        let listener = &receiver.listener;
        let control_room = receiver.control_room();
        let received = self.slots.iter().filter_map(|(slot, len)| {
            let received = buffers.received(slot, *len, control_room);
            cells.receive_errors.add(received.is_none().into());
            received
        });
        let len = replies.answer(listener, received, handler, cells);
        for (slot, _) in self.slots.drain(..) {
            buffers.give(slot);
        }
        buffers.publish();
        len
    }
}

/// Tells whether a ring can do what the port needs, by doing it once.
///
/// # Errors
/// The kernel denies a part of it.
pub fn probe_uring() -> Result<(), UringDenied> {
    let denied = |step| move |source| UringDenied { step, source };
    let (client, server) = UnixDatagram::pair().map_err(denied("make a pair of sockets"))?;
    let mut ring = Ring::new(ENTRIES, 8)?;
    let header = Box::new(header(PacketInfo::None));
    let step = "receive many datagrams by one request";
    arm_receive(&mut ring, server.as_raw_fd(), 0, &header).map_err(denied(step))?;
    for _ in 0..2 {
        client.send(b"query").map_err(denied("send to itself"))?;
        ring.enter(1, Some(Timespec::new().sec(1))).map_err(denied(step))?;
        let (mut completions, buffers) = ring.parts();
        let completion = completions.next().ok_or_else(|| UringDenied {
            step,
            source: Errno::TIME.into(),
        })?;
        let Ok(len) = usize::try_from(completion.result()) else {
            return Err(UringDenied {
                step,
                source: io::Error::from_raw_os_error(-completion.result()),
            });
        };
        let slot = cqueue::buffer_select(completion.flags()).map(|slot| buffers.take(slot));
        let query = slot
            .as_ref()
            .and_then(|slot| buffers.received(slot, len, 0))
            .map(|received| received.query);
        if query != Some(b"query") || !cqueue::more(completion.flags()) {
            return Err(UringDenied {
                step,
                source: Errno::INVAL.into(),
            });
        }
    }
    Ok(())
}

fn arm_receive(ring: &mut Ring, socket: RawFd, at: usize, header: &libc::msghdr) -> io::Result<()> {
    let entry = opcode::RecvMsgMulti::new(Fd(socket), ptr::from_ref(header), BUFFERS)
        .build()
        .user_data(at as u64);
    // SAFETY: the header is boxed and dropped after the ring, and the kernel copies it when the entry is submitted.
    unsafe { ring.push(&entry) }
}

/// The shape of what is received: how much room addresses and control messages have in a slot.
fn header(info: PacketInfo) -> libc::msghdr {
    let mut header = super::batch::empty_message().msg_hdr;
    header.msg_namelen = PEER_ROOM as libc::socklen_t;
    if info != PacketInfo::None {
        header.msg_controllen = CONTROL_ROOM as _;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::super::{Datagram, ListenerId, StreamEvent, UpstreamDatagram, Waker, bind_udp};
    use super::*;
    use std::net::UdpSocket;

    fn opened(sockets: Vec<ListenerSockets>, counters: &Arc<Counters>) -> Result<UringPort, UringDenied> {
        let watched = Watched::new(&Waker::new().unwrap(), counters).unwrap();
        let ring = UringPort::ring()?;
        Ok(UringPort::open(ring, watched, sockets, counters).unwrap())
    }

    #[test]
    fn the_probe_says_what_opening_would() {
        assert_eq!(
            probe_uring().is_ok(),
            opened(Vec::new(), &Arc::new(Counters::new())).is_ok()
        );
    }

    struct Count(usize);

    impl Handler for Count {
        fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
            self.0 += batch.len();
        }

        fn stream(&mut self, _: StreamEvent<'_>) {}

        fn upstream(&mut self, _: UpstreamDatagram<'_>) -> bool {
            true
        }
    }

    #[test]
    fn a_full_completion_queue_loses_nothing() {
        if let Err(denied) = probe_uring() {
            println!("skipped: {denied}");
            return;
        }
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
        client.connect(udp.local_addr().unwrap().as_socket().unwrap()).unwrap();
        let counters = Arc::new(Counters::new());
        let socket = ListenerSockets {
            listener: ListenerId(0),
            udp: Some(udp),
            tcp: None,
        };
        let mut port = opened(vec![socket], &counters).unwrap();
        let mut seen = Count(0);
        port.serve(&mut seen).unwrap();
        client.send(b"query").unwrap();
        // Each of them says that the epoll set has events, which costs a look and no more.
        let room = usize::from(BUFFERS_LEN[0]) * 4;
        for _ in 0..2 * room {
            let entry = opcode::Nop::new().build().user_data(WATCH);
            // SAFETY: it points to nothing.
            unsafe { port.ring.push(&entry) }.unwrap();
        }
        for _ in 0..10 {
            port.wait(Some(crate::io::now())).unwrap();
            port.serve(&mut seen).unwrap();
        }
        assert!(counters.read().completions_overflowed > 0, "{:?}", counters.read());
        for sent in 1..=50 {
            assert_eq!(seen.0, sent);
            client.send(b"query").unwrap();
            port.wait(Some(crate::io::now().after(std::time::Duration::from_secs(5))))
                .unwrap();
            port.serve(&mut seen).unwrap();
        }
    }

    #[test]
    fn receives_that_ran_out_of_buffers_go_on() {
        if let Err(denied) = probe_uring() {
            println!("skipped: {denied}");
            return;
        }
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for _ in 0..20 {
            let udp = bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
            addresses.push(udp.local_addr().unwrap().as_socket().unwrap());
            sockets.push(ListenerSockets {
                listener: ListenerId(0),
                udp: Some(udp),
                tcp: None,
            });
        }
        let counters = Arc::new(Counters::new());
        let mut port = opened(sockets, &counters).unwrap();
        let mut seen = Count(0);
        port.serve(&mut seen).unwrap();
        for round in 1..=3 {
            for address in addresses.iter().cycle().take(20 * 50) {
                client.send_to(b"query", address).unwrap();
            }
            while seen.0 < round * 20 * 50 {
                port.wait(Some(crate::io::now().after(std::time::Duration::from_secs(5))))
                    .unwrap();
                assert!(port.serve(&mut seen).unwrap() > 0 || counters.read().buffers_exhausted > 0);
            }
        }
        assert!(counters.read().buffers_exhausted > 0, "{:?}", counters.read());
        assert_eq!(counters.read().receive_errors, 0);
        assert_eq!(port.ring.parts().1.len(), BUFFERS_LEN[0]);
    }
}
