//! Ending a worker's wait from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;

/// Ends the [`wait`](super::Port::wait) of the port it was given to; a wake-up that comes while the port is busy ends
/// the next wait. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    /// One for one port.
    ///
    /// # Errors
    /// No file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Ends the wait.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then the port has not yet seen the 2^64 wake-ups before.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
