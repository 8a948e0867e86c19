//! Buffers that the kernel picks from while it receives.
//!
//! A slot is either the kernel's or ours. The kernel's become ours by a completion that names them ([`BufRing::take`]),
//! ours become the kernel's by [`BufRing::give`] and the next [`BufRing::publish`].
//!
//! ```text
//!   slot   | out header | address | control message |   datagram   | gap |
//!          0           16        44     (0 or 40)                      stride, no power of two
//! ```

use std::alloc::{self, Layout};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::DATAGRAM_ROOM;
use super::batch::Received;
use super::control::CONTROL_ROOM;
use super::peer::{PEER_ROOM, Peer};

/// The kernel wants the ring on a page of its own.
const PAGE: usize = 4096;

/// A multiple of the cache line that is no multiple of 1024, so that the slots' heads spread over all cache sets.
const STRIDE: usize = (size_of::<OutHeader>() + PEER_ROOM + CONTROL_ROOM + DATAGRAM_ROOM).next_multiple_of(64);

const PEER_AT: usize = size_of::<OutHeader>();
const CONTROL_AT: usize = PEER_AT + PEER_ROOM;

/// Most slots of a ring; the kernel's limit.
const SLOTS_MAX: u16 = 1 << 15;

const _: () = assert!(!STRIDE.is_power_of_two() && !STRIDE.is_multiple_of(1024));

/// What the kernel writes in front of a datagram (`io_uring_recvmsg_out`).
#[derive(Clone, Copy)]
#[repr(C)]
struct OutHeader {
    peer_len: u32,
    control_len: u32,
    datagram_len: u32,
    flags: u32,
}

/// A slot that is ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot(u16);

/// The ring of slots.
pub(super) struct BufRing {
    entries: NonNull<BufRingEntry>,
    slots: NonNull<u8>,
    len: u16,
    /// Where the next slot is given back; the kernel sees it when published.
    tail: u16,
    /// By slot: it is ours.
    ours: Box<[bool]>,
}

impl BufRing {
    /// All slots are the kernel's once the ring is registered.
    ///
    /// # Panics
    /// If `len` is not a power of two up to 32,768.
    pub(super) fn new(len: u16) -> Self {
        assert!(len.is_power_of_two() && len <= SLOTS_MAX);
        let mut ring = Self {
            entries: zeroed(entries_layout(len)).cast(),
            slots: zeroed(slots_layout(len)),
            len,
            tail: 0,
            ours: vec![true; len.into()].into(),
        };
        for at in 0..len {
            ring.give(Slot(at));
        }
        ring.publish();
        ring
    }

    /// Where the ring starts; for the kernel. It may write there and into the kernel's slots from its registration
    /// until it is unregistered, so the ring must outlive that.
    pub(super) fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    pub(super) fn len(&self) -> u16 {
        self.len
    }

    /// A completion named the slot: the kernel is done with it.
    ///
    /// # Panics
    /// If it is ours already, so that no bug can make it both.
    pub(super) fn take(&mut self, at: u16) -> Slot {
        let ours = &mut self.ours[usize::from(at)];
        assert!(!*ours, "a slot is lent to the kernel or to us, never both");
        *ours = true;
        Slot(at)
    }

    /// The kernel may have the slot again, after the next [`BufRing::publish`].
    pub(super) fn give(&mut self, slot: Slot) {
        let Slot(at) = slot;
        self.ours[usize::from(at)] = false;
        let address = self.slot(at).as_ptr() as u64;
        let entry = self
            .entries
            .as_ptr()
            .wrapping_add(usize::from(self.tail & (self.len - 1)));
        // SAFETY: masked, so within the ring. The kernel reads an entry only after the tail passed it. Field by
        // field, since the tail itself overlays a field of the first entry that none of these setters writes.
        let entry = unsafe { &mut *entry };
        entry.set_addr(address);
        entry.set_len(STRIDE as u32);
        entry.set_bid(at);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was given.
    pub(super) fn publish(&mut self) {
        // SAFETY: the address is that of the first entry, which is initialised.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the tail is aligned, lives as long as the ring, and the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// What the kernel received into a slot of ours: `len` bytes in all, with room for `control_room` bytes of control
    /// messages. `None` if they are not even a whole header.
    pub(super) fn received(&self, slot: &Slot, len: usize, control_room: usize) -> Option<Received<'_>> {
        let bytes = self.bytes(slot).get(..len)?;
        let datagram = bytes.get(CONTROL_AT + control_room..)?;
        let header = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        let datagram_len = header(offset_of!(OutHeader, datagram_len)) as usize;
        let control_len = header(offset_of!(OutHeader, control_len)) as usize;
        // SAFETY: `bytes` holds the whole address, at a multiple of 4, and any bytes are a `Peer`.
        let peer = unsafe { &*bytes[PEER_AT..CONTROL_AT].as_ptr().cast::<Peer>() };
        Some(Received {
            query: &datagram[..datagram_len.min(datagram.len()).min(DATAGRAM_ROOM)],
            cut: header(offset_of!(OutHeader, flags)) & libc::MSG_TRUNC.cast_unsigned() != 0
                || datagram.len() > DATAGRAM_ROOM,
            peer,
            control: &bytes[CONTROL_AT..][..control_len.min(control_room)],
        })
    }

    fn bytes(&self, slot: &Slot) -> &[u8] {
        // SAFETY: the slot's memory is ours as long as the `Slot` exists, was zeroed at first, and nobody writes to it
        // meanwhile. The kernel's slots must not be looked at, hence no slice of all of them.
        unsafe { std::slice::from_raw_parts(self.slot(slot.0).as_ptr(), STRIDE) }
    }

    fn slot(&self, at: u16) -> NonNull<u8> {
        debug_assert!(at < self.len, "a slot of this ring");
        // SAFETY: below the number of slots, as only `take` makes slots and looks them up first.
        unsafe { self.slots.add(usize::from(at) * STRIDE) }
    }
}

impl Drop for BufRing {
    fn drop(&mut self) {
        // SAFETY: from `zeroed` with the same layout, freed once; whoever registered it unregistered it before.
        unsafe { alloc::dealloc(self.entries.as_ptr().cast(), entries_layout(self.len)) };
        // SAFETY: as above.
        unsafe { alloc::dealloc(self.slots.as_ptr(), slots_layout(self.len)) };
    }
}

fn entries_layout(len: u16) -> Layout {
    layout(usize::from(len) * size_of::<BufRingEntry>())
}

fn slots_layout(len: u16) -> Layout {
    layout(usize::from(len) * STRIDE)
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, PAGE).expect("at most 32,768 slots fit into the address space")
}

fn zeroed(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here is empty.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// Writes into a slot of the kernel's as the kernel would.
    fn receive(ring: &BufRing, at: u16, header: OutHeader, peer: SocketAddr, control: &[u8], datagram: &[u8]) -> usize {
        let mut bytes = Vec::new();
        for field in [header.peer_len, header.control_len, header.datagram_len, header.flags] {
            bytes.extend_from_slice(&field.to_ne_bytes());
        }
        let peer = Peer::from_socket_addr(peer);
        // SAFETY: a `Peer` is plain bytes.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts((&raw const peer).cast::<u8>(), PEER_ROOM) });
        bytes.extend_from_slice(control);
        bytes.extend_from_slice(datagram);
        let len = bytes.len().min(STRIDE);
        // SAFETY: no more than fits into the slot, which nobody else looks at.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), ring.slot(at).as_ptr(), len) };
        len
    }

    fn entry(ring: &BufRing, at: usize) -> &BufRingEntry {
        // SAFETY: tests ask for entries of the ring only.
        unsafe { &*ring.entries.as_ptr().wrapping_add(at) }
    }

    fn published(ring: &BufRing) -> u16 {
        // SAFETY: the first entry exists.
        let tail = unsafe { BufRingEntry::tail(ring.entries.as_ptr()) };
        // SAFETY: it is a field of that entry.
        unsafe { *tail }
    }

    #[test]
    fn every_slot_is_the_kernels_at_first() {
        let ring = BufRing::new(8);
        assert_eq!(published(&ring), 8);
        for at in 0..8 {
            assert_eq!(entry(&ring, at.into()).bid(), at);
            assert_eq!(entry(&ring, at.into()).addr(), ring.slot(at).as_ptr() as u64);
        }
    }

    #[test]
    fn slots_come_back_in_the_order_given_and_only_when_published() {
        let mut ring = BufRing::new(4);
        let (two, one) = (ring.take(2), ring.take(1));
        ring.give(two);
        ring.give(one);
        assert_eq!(published(&ring), 4);
        ring.publish();
        assert_eq!(published(&ring), 6);
        assert_eq!([entry(&ring, 0).bid(), entry(&ring, 1).bid()], [2, 1]);
    }

    #[test]
    fn the_tail_wraps_around() {
        let mut ring = BufRing::new(2);
        for round in 0..70_000u32 {
            let slot = ring.take((round % 2) as u16);
            ring.give(slot);
        }
        ring.publish();
        assert_eq!(published(&ring), (70_002u32 % 65_536) as u16);
    }

    #[test]
    #[should_panic(expected = "never both")]
    fn a_slot_cannot_be_taken_twice() {
        let mut ring = BufRing::new(2);
        let _slot = ring.take(0);
        let _again = ring.take(0);
    }

    #[test]
    fn a_datagram_is_found_behind_its_headers() {
        let mut ring = BufRing::new(2);
        let peer = "[2001:db8::1]:4242".parse().unwrap();
        for (control, flags) in [(vec![], 0), (vec![7; CONTROL_ROOM], libc::MSG_TRUNC)] {
            let header = OutHeader {
                peer_len: 28,
                control_len: 16,
                datagram_len: 5,
                flags: flags.cast_unsigned(),
            };
            let len = receive(&ring, 1, header, peer, &control, b"query");
            let slot = ring.take(1);
            let received = ring.received(&slot, len, control.len()).unwrap();
            assert_eq!(received.query, b"query");
            assert_eq!(received.peer.to_socket_addr(), peer);
            assert_eq!(received.cut, flags != 0);
            assert_eq!(received.control, &control[..control.len().min(16)]);
            ring.give(slot);
        }
    }

    #[test]
    fn lengths_that_lie_stay_within_the_slot() {
        let mut ring = BufRing::new(2);
        let peer = "192.0.2.1:53".parse().unwrap();
        let header = OutHeader {
            peer_len: u32::MAX,
            control_len: u32::MAX,
            datagram_len: u32::MAX,
            flags: 0,
        };
        let len = receive(&ring, 0, header, peer, &[], b"query");
        let slot = ring.take(0);
        assert_eq!(ring.received(&slot, len, 0).unwrap().query, b"query");
        assert!(ring.received(&slot, CONTROL_AT - 1, 0).is_none());
        assert!(ring.received(&slot, STRIDE + 1, 0).is_none());
    }
}
