//! What a port counts. The worker writes, anybody reads.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crossbeam::utils::CachePadded;

use super::{ListenerId, PortKind, UringDenied};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(super) struct Cells {
            $(pub(super) $name: Cell,)*
        }

        /// One reading of a port's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterValues {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Cells {
            fn read(&self) -> CounterValues {
                CounterValues { $($name: self.$name.read(),)* }
            }
        }
    };
}

counters! {
    /// Times the worker asked the kernel to wait; `datagrams` over this is what one wake-up brings.
    waits,
    /// Batches handed over.
    batches,
    /// Datagrams handed over.
    datagrams,
    /// Of these, longer than the room for a query.
    datagrams_cut,
    /// Replies that the kernel took, of either kind.
    replies,
    /// Datagrams that the kernel did not take.
    send_errors,
    /// Errors other than those below while receiving.
    receive_errors,
    /// Times a receive ended because all buffers were in use. The datagrams wait in the socket meanwhile.
    buffers_exhausted,
    /// Completions that did not fit into the completion queue at once.
    completions_overflowed,
    /// Connections accepted.
    accepts,
    /// Failures to accept, most often for want of file descriptors.
    accept_errors,
    /// Times that accepting rested, since there was no file descriptor or memory for a connection.
    accepts_starved,
    /// Connections closed because their client did not read what it asked for.
    streams_overrun,
    /// Connections that ended with an error.
    stream_errors,
}

/// A counter with one writer: adding is a plain load and store.
#[derive(Debug, Default)]
pub(super) struct Cell(AtomicU64);

impl Cell {
    #[inline]
    pub(super) fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one port; shared between its worker and whoever shows them.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) cells: CachePadded<Cells>,
    // Locked when a port opens or closes and when somebody reads the drops; never while packets are served.
    sockets: Mutex<Vec<Drops>>,
    pub(super) way: OnceLock<Way>,
}

/// The way to the kernel that a port took.
#[derive(Debug)]
pub struct Way {
    /// Not [`PortKind::Auto`].
    pub kind: PortKind,
    /// Why it is not io_uring, if that was tried.
    pub denied: Option<UringDenied>,
}

/// The kernel's drop counter of one UDP socket: 32 bits that wrap, read only when somebody asks.
#[derive(Debug)]
struct Drops {
    listener: ListenerId,
    socket: Weak<OwnedFd>,
    last: u32,
    total: u64,
}

impl Counters {
    /// All zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What has been counted until now.
    #[must_use]
    pub fn read(&self) -> CounterValues {
        self.cells.read()
    }

    /// The way that the port took; none before it is open.
    #[must_use]
    pub fn way(&self) -> Option<&Way> {
        self.way.get()
    }

    /// Datagrams that the kernel dropped for want of room in the socket, by listener. Costs a system call a socket.
    #[must_use]
    pub fn kernel_drops(&self) -> Vec<(ListenerId, u64)> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets
            .iter_mut()
            .map(|drops| {
                if let Some(socket) = drops.socket.upgrade() {
                    drops.update(&socket);
                }
                (drops.listener, drops.total)
            })
            .collect()
    }

    /// From now on the drops of this socket count.
    pub(super) fn watch(&self, listener: ListenerId, socket: &Arc<OwnedFd>) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.push(Drops {
            listener,
            socket: Arc::downgrade(socket),
            last: 0,
            total: 0,
        });
    }

    /// The drops of these listeners, whose sockets are closed, do not count any more: others may get their numbers.
    pub fn forget(&self, listeners: &[ListenerId]) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.retain(|drops| !listeners.contains(&drops.listener));
    }

    /// The last reading before a socket closes.
    pub(super) fn settle(&self, socket: &Arc<OwnedFd>) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = Arc::downgrade(socket);
        for drops in sockets.iter_mut().filter(|drops| drops.socket.ptr_eq(&watched)) {
            drops.update(socket);
            drops.socket = Weak::new();
        }
    }
}

impl Drops {
    fn update(&mut self, socket: &OwnedFd) {
        // A socket that cannot be asked keeps its last number.
        if let Ok(count) = socket_drops(socket) {
            self.total += u64::from(count.wrapping_sub(self.last));
            self.last = count;
        }
    }
}

/// The socket's own count of what it dropped.
fn socket_drops(socket: &OwnedFd) -> io::Result<u32> {
    const FIELDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;
    let mut info = [0u32; FIELDS];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` and `len` are valid for writing and `len` says how large `info` is. No safe wrapper knows the
    // option, and the alternative is a control message with every datagram.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info[FIELDS - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn drops_of_the_kernel_count_and_outlive_the_socket() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let owned = Arc::new(OwnedFd::from(socket));
        let counters = Counters::new();
        counters.watch(ListenerId(3), &owned);
        assert_eq!(counters.kernel_drops(), [(ListenerId(3), 0)]);

        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..20_000 {
            client.send_to(&[0; 500], address).unwrap();
        }
        let drops = counters.kernel_drops()[0].1;
        assert!(drops > 0);
        counters.settle(&owned);
        drop(owned);
        assert_eq!(counters.kernel_drops(), [(ListenerId(3), drops)]);
    }
}
