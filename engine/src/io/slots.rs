//! Receiving up to a batch of datagrams by one `recvmmsg`, and answering it.

use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::{io, ptr};

use rustix::io::Errno;

use super::batch::{Received, Replies, UdpListener, empty_message};
use super::control::CONTROL_ROOM;
use super::counters::Cells;
use super::peer::PEER_ROOM;
use super::{BATCH_MAX, DATAGRAM_ROOM, Handler, Peer};

/// Where one datagram is received. The size is no power of two, lest all slots fall on the same cache sets.
#[repr(C, align(64))]
struct Slot {
    peer: Peer,
    control: [u8; CONTROL_ROOM],
    query: [u8; DATAGRAM_ROOM],
}

/// The slots of one batch and the messages that point to them; set up once, and after a batch only what the kernel
/// changed is set back.
pub(super) struct Slots {
    // Both own what they point to. The messages point into the slots and the vectors, so none of it is ever moved.
    slots: NonNull<Slot>,
    vectors: NonNull<libc::iovec>,
    messages: Box<[libc::mmsghdr]>,
    used: usize,
}

impl Slots {
    pub(super) fn new() -> Self {
        let empty = || Slot {
            peer: Peer::UNSET,
            control: [0; CONTROL_ROOM],
            query: [0; DATAGRAM_ROOM],
        };
        let slots: Box<[Slot]> = (0..BATCH_MAX).map(|_| empty()).collect();
        let slots = leak(slots);
        let slot = |at| slots.as_ptr().wrapping_add(at);
        let vector = |at| {
            // SAFETY: `at` is below the number of slots. No reference, as the kernel is to write there.
            let query = unsafe { &raw mut (*slot(at)).query };
            libc::iovec {
                iov_base: query.cast(),
                iov_len: DATAGRAM_ROOM,
            }
        };
        let vectors = leak((0..BATCH_MAX).map(vector).collect());
        let message = |at| {
            let mut message = empty_message();
            // SAFETY: as above.
            message.msg_hdr.msg_name = unsafe { &raw mut (*slot(at)).peer }.cast();
            // SAFETY: as above.
            message.msg_hdr.msg_control = unsafe { &raw mut (*slot(at)).control }.cast();
            message.msg_hdr.msg_iov = vectors.as_ptr().wrapping_add(at);
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        Self {
            slots,
            vectors,
            messages: (0..BATCH_MAX).map(message).collect(),
            used: BATCH_MAX,
        }
    }

    /// Receives up to a batch from a socket, hands it over and sends the replies; 0 if there is nothing.
    pub(super) fn serve(
        &mut self,
        listener: &UdpListener,
        replies: &mut Replies,
        handler: &mut impl Handler,
        cells: &Cells,
    ) -> usize {
        let len = self.receive(listener, cells);
        if len == 0 {
            return 0;
        }
        replies.answer(listener, self.received(len), handler, cells)
    }

    /// Takes up to a batch; 0 if there is nothing.
    fn receive(&mut self, listener: &UdpListener, cells: &Cells) -> usize {
        for message in &mut self.messages[..self.used] {
            message.msg_hdr.msg_namelen = PEER_ROOM as libc::socklen_t;
            message.msg_hdr.msg_controllen = CONTROL_ROOM as _;
        }
        self.used = 0;
        // SAFETY: every message points to a slot of its own and to one vector, which describes the slot's room, and
        // the lengths were just set. `&mut self` means that no datagram of an earlier batch is looked at any more. No
        // safe wrapper exists.
        let received = unsafe {
            libc::recvmmsg(
                listener.socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                BATCH_MAX as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        if let Ok(received) = usize::try_from(received) {
            self.used = received;
            return received;
        }
        if !matches!(
            Errno::from_io_error(&io::Error::last_os_error()),
            Some(Errno::AGAIN | Errno::INTR)
        ) {
            cells.receive_errors.add(1);
        }
        0
    }

    /// The datagrams of the last batch.
    fn received(&self, len: usize) -> impl Iterator<Item = Received<'_>> {
        self.messages[..len.min(self.used)]
            .iter()
            .enumerate()
            .map(|(at, message)| {
                // SAFETY: `at` is below the number of slots, and nothing writes to them while `self` is borrowed.
                let slot = unsafe { &*self.slots.as_ptr().wrapping_add(at) };
                let len = (message.msg_len as usize).min(DATAGRAM_ROOM);
                #[allow(clippy::unnecessary_cast, reason = "the C libraries differ in the type")]
                let control_len = message.msg_hdr.msg_controllen as usize;
                Received {
                    query: &slot.query[..len],
                    cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                    peer: &slot.peer,
                    control: &slot.control[..control_len.min(CONTROL_ROOM)],
                }
            })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        free(self.slots);
        free(self.vectors);
    }
}

/// Takes the memory of a batch's array out of the compiler's view: the kernel reads and writes it by address.
fn leak<T>(array: Box<[T]>) -> NonNull<T> {
    assert_eq!(array.len(), BATCH_MAX);
    NonNull::from(Box::leak(array)).cast()
}

fn free<T>(array: NonNull<T>) {
    let array = ptr::slice_from_raw_parts_mut(array.as_ptr(), BATCH_MAX);
    // SAFETY: only `Slots` calls it, once for each array that `leak` gave it, which asserted the length.
    drop(unsafe { Box::from_raw(array) });
}
