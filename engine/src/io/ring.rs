//! A ring of the kernel's, set up for one thread, and why there may be none.

use std::ptr::NonNull;
use std::{error, fmt, fs, io};

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, Submitter, squeue};
use rustix::io::Errno;

use super::bufring::BufRing;

/// The only buffer group.
pub(super) const BUFFERS: u16 = 0;

/// How long the kernel may take to end everything it has under way when a ring closes.
const CANCEL_PATIENCE: Timespec = Timespec::new().sec(1);

/// Why the kernel denies a ring; its text says how to change that.
#[derive(Debug)]
pub struct UringDenied {
    /// Which step it denied.
    pub step: &'static str,
    /// What the kernel said.
    pub source: io::Error,
}

impl fmt::Display for UringDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, source } = self;
        match Errno::from_io_error(source) {
            Some(Errno::NOSYS) => f.write_str("this kernel has no io_uring, or hides it"),
            Some(Errno::PERM | Errno::ACCESS) => f.write_str(match disabled_by_sysctl() {
                2 => "io_uring is switched off by the sysctl kernel.io_uring_disabled=2",
                1 => "kernel.io_uring_disabled=1 reserves io_uring for CAP_SYS_ADMIN and kernel.io_uring_group",
                _ => {
                    "a seccomp filter forbids io_uring, as container runtimes do by default; a profile that allows \
                     io_uring_setup, io_uring_enter and io_uring_register lets it pass"
                }
            }),
            Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::BADF) => {
                write!(
                    f,
                    "this kernel's io_uring is too old to {step}; Linux 6.1 is the first that can"
                )
            }
            Some(Errno::NOMEM) => f.write_str(
                "no locked memory left for io_uring; raise the limit (`ulimit -l`, LimitMEMLOCK=), which counts all \
                 processes of the user",
            ),
            Some(Errno::MFILE | Errno::NFILE) => {
                f.write_str("no file descriptor left for io_uring; raise the limit of open files (`ulimit -n`)")
            }
            _ => write!(f, "io_uring could not {step}: {source}"),
        }
    }
}

impl error::Error for UringDenied {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}

fn disabled_by_sysctl() -> u8 {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Calls that may bring the last completions of a ring that closes.
const CANCEL_ROUNDS_MAX: u32 = 64;

/// A ring and the buffers registered with it. Belongs to the thread that made it.
pub(super) struct Ring {
    // Remembers the registered descriptor of the ring, and so is kept instead of being made anew for each call.
    // Borrows from `ring`, and is dropped before it.
    submitter: Option<Submitter<'static>>,
    ring: NonNull<IoUring>,
    // Freed only once the kernel forgot them.
    buffers: Option<BufRing>,
    wait_flags: EnterFlags,
}

impl Ring {
    /// With room for so many submissions and buffers.
    pub(super) fn new(entries: u32, buffers: u16) -> Result<Self, UringDenied> {
        let denied = |step| move |source| UringDenied { step, source };
        // A datagram is one completion, so this is room for every buffer and all else several times over.
        let completions = (u32::from(buffers) * 4).max(entries * 2);
        let uring = build(entries, completions).map_err(denied("set up a ring for one thread"))?;
        let wait_flags = if uring.params().is_feature_no_iowait() {
            EnterFlags::NO_IOWAIT
        } else {
            EnterFlags::empty()
        };
        let ring = NonNull::from(Box::leak(Box::new(uring)));
        // SAFETY: from a box, freed only in `drop`, after every borrow is gone; nothing makes it `&mut`. A struct that
        // borrows from itself cannot be written safely.
        let leaked: &'static IoUring = unsafe { ring.as_ref() };
        let mut submitter = leaked.submitter();
        // Saves the look-up of the descriptor with each call, no more.
        let _ = submitter.register_ring_fd();
        let mut this = Self {
            submitter: Some(submitter),
            ring,
            buffers: None,
            wait_flags,
        };
        let buffers = BufRing::new(buffers);
        // SAFETY: the ring of buffers is at this address with this many entries, and `drop` frees it only after the
        // kernel forgot it.
        unsafe {
            this.submitter()
                .register_buf_ring_with_flags(buffers.address(), buffers.len(), BUFFERS, 0)
        }
        .map_err(denied("take a ring of buffers"))?;
        this.buffers = Some(buffers);
        Ok(this)
    }

    /// The parts that are used side by side.
    pub(super) fn parts(&mut self) -> (CompletionQueue<'_>, &mut BufRing) {
        // SAFETY: as in `new`.
        let ring = unsafe { self.ring.as_ref() };
        // SAFETY: `&mut self` is held as long as the queue exists, so there is no other.
        let completions = unsafe { ring.completion_shared() };
        (completions, self.buffers.as_mut().expect("there from `new` to `drop`"))
    }

    /// Queues an entry for the next call into the kernel.
    ///
    /// # Safety
    /// What the entry points to must stay valid until its last completion.
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: as in `new`.
            let ring = unsafe { self.ring.as_ref() };
            // SAFETY: `&mut self` is held as long as the queue exists, so there is no other.
            let mut queue = unsafe { ring.submission_shared() };
            // SAFETY: the caller promises it.
            if unsafe { queue.push(entry) }.is_ok() {
                return Ok(());
            }
            drop(queue);
            self.enter(0, None)?;
        }
    }

    /// Whether the kernel has something that a call would bring, or something to be told.
    pub(super) fn pending(&self) -> Pending {
        // SAFETY: as in `new`.
        let ring = unsafe { self.ring.as_ref() };
        // SAFETY: `&self` is held and the queue goes at once; the one of `push` lives only within `&mut self`.
        let queue = unsafe { ring.submission_shared() };
        Pending {
            work: queue.taskrun() || !queue.is_empty(),
            overflow: queue.cq_overflow(),
        }
    }

    /// Submits what is queued and waits for `want` completions, or until the time is up.
    pub(super) fn enter(&mut self, want: usize, timeout: Option<Timespec>) -> io::Result<()> {
        let submitter = self.submitter();
        let result = match timeout {
            _ if want == 0 => submitter.submit(),
            None => submitter.submit_with_args_and_flags(want, &SubmitArgs::new(), self.wait_flags),
            Some(timeout) => {
                let args = SubmitArgs::new().timespec(&timeout);
                submitter.submit_with_args_and_flags(want, &args, self.wait_flags)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // The time is up; a signal; completions to be taken first. All of them are what serving deals with.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn submitter(&self) -> &Submitter<'static> {
        self.submitter.as_ref().expect("there from `new` to `drop`")
    }
}

/// See [`Ring::pending`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// A call into the kernel would bring or take something.
    pub(super) work: bool,
    /// The kernel holds completions that did not fit.
    pub(super) overflow: bool,
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel takes a closed ring apart in its own time. Until then it would hold the sockets, and datagrams
        // with them, so everything is ended here first.
        let _ = self
            .submitter()
            .register_sync_cancel(Some(CANCEL_PATIENCE), CancelBuilder::any());
        // What was cancelled is let go only when this thread runs the kernel's deferred work.
        for _ in 0..CANCEL_ROUNDS_MAX {
            let idle = !self.pending().work;
            if idle || self.enter(0, None).is_err() {
                break;
            }
        }
        let Some(submitter) = self.submitter.take() else { return };
        if submitter.unregister_buf_ring(BUFFERS).is_err() {
            // The kernel may still write to the buffers; better lost than freed.
            std::mem::forget(self.buffers.take());
        }
        // SAFETY: from `Box::leak` in `new`, freed once, and the one lasting borrow is not used again.
        drop(unsafe { Box::from_raw(self.ring.as_ptr()) });
    }
}

fn build(entries: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions)
        .dontfork();
    // Without the array of indexes since Linux 6.6.
    let lean = builder.clone().setup_no_sqarray().build(entries);
    match lean {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => builder.build(entries),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_denial_names_its_remedy() {
        for (errno, part) in [
            (Errno::NOSYS, "no io_uring"),
            (Errno::PERM, "seccomp"),
            (Errno::INVAL, "6.1"),
            (Errno::NOMEM, "ulimit -l"),
            (Errno::MFILE, "ulimit -n"),
        ] {
            let text = UringDenied {
                step: "take a ring of buffers",
                source: errno.into(),
            }
            .to_string();
            if errno != Errno::PERM || disabled_by_sysctl() == 0 {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
