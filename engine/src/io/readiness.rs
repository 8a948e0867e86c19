//! One epoll set: who is ready. Edge-triggered throughout, so that nothing is registered twice and a socket that was
//! drained costs nothing until something comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::clock::now;
use super::{UpstreamId, Waker};
use crate::time::Instant;

/// Most events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Another thread wants the worker.
    Waker,
    /// A UDP listener, by its place in the port.
    Udp(u32),
    /// A TCP listener, by its place in the port.
    Acceptor(u32),
    /// A stream, by its place and how often that place was used before (its lower 28 bits).
    Stream {
        /// Its place.
        at: u32,
        /// Tells it from those that had the place before.
        generation: u32,
    },
    /// An upstream socket.
    Upstream(UpstreamId),
}

/// Bits of a stream's generation that an event carries.
pub(super) const GENERATION_MASK: u32 = (1 << 28) - 1;

impl Source {
    fn pack(self) -> u64 {
        let (kind, middle, low) = match self {
            Self::Waker => (0, 0, 0),
            Self::Udp(at) => (1, 0, at),
            Self::Acceptor(at) => (2, 0, at),
            Self::Stream { at, generation } => (3, generation & GENERATION_MASK, at),
            Self::Upstream(UpstreamId(id)) => (4, 0, id),
        };
        (kind << 60) | (u64::from(middle) << 32) | u64::from(low)
    }

    fn unpack(data: u64) -> Self {
        let low = data as u32;
        match data >> 60 {
            1 => Self::Udp(low),
            2 => Self::Acceptor(low),
            3 => Self::Stream {
                at: low,
                generation: (data >> 32) as u32 & GENERATION_MASK,
            },
            4 => Self::Upstream(UpstreamId(low)),
            _ => Self::Waker,
        }
    }
}

/// How long to wait for readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Only look.
    None,
    /// Until then.
    Until(Instant),
    /// Until something happens.
    Endless,
}

impl Patience {
    /// Until the earlier of two deadlines.
    pub(super) fn until(one: Option<Instant>, other: Option<Instant>) -> Self {
        match one.into_iter().chain(other).min() {
            Some(deadline) => Self::Until(deadline),
            None => Self::Endless,
        }
    }

    /// As a duration from now on; `None` is endless.
    pub(super) fn timeout(self) -> Option<Timespec> {
        let left = match self {
            Self::Endless => return None,
            Self::None => std::time::Duration::ZERO,
            Self::Until(deadline) => deadline.since(now()),
        };
        Some(Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        })
    }
}

/// The epoll set and what it last said.
pub(super) struct Readiness {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Readiness {
    pub(super) fn new(waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let this = Self {
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
        };
        // Edge-triggered, so that its counter need never be read.
        this.add(waker, Source::Waker, EventFlags::IN)?;
        Ok(this)
    }

    pub(super) fn add(&self, socket: impl AsFd, source: Source, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(source.pack()),
            flags | EventFlags::ET,
        )?)
    }

    pub(super) fn modify(&self, socket: impl AsFd, source: Source, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            socket,
            EventData::new_u64(source.pack()),
            flags | EventFlags::ET,
        )?)
    }

    /// Forgets a socket that is about to be closed: another process may hold it too, and then closing it ends nothing.
    pub(super) fn remove(&self, socket: impl AsFd) {
        // One that is not there is as good as forgotten.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Asks the kernel. Returns whether there may be more events than were taken.
    pub(super) fn poll(&mut self, patience: Patience) -> io::Result<bool> {
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            patience.timeout().as_ref(),
        ) {
            Ok(_) => Ok(self.events.len() == self.events.capacity()),
            // A signal's handler ran; whoever cares looks at its own flag.
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What the last [`Readiness::poll`] brought.
    pub(super) fn events(&self) -> impl Iterator<Item = (Source, EventFlags)> + '_ {
        self.events
            .iter()
            .map(|event| (Source::unpack(event.data.u64()), event.flags))
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sources_survive_packing() {
        for source in [
            Source::Waker,
            Source::Udp(7),
            Source::Acceptor(u32::MAX),
            Source::Stream {
                at: 5,
                generation: GENERATION_MASK,
            },
            Source::Upstream(UpstreamId(u32::MAX)),
        ] {
            assert_eq!(Source::unpack(source.pack()), source);
        }
    }

    #[test]
    fn every_wake_up_is_one_event() {
        let waker = Waker::new().unwrap();
        let mut readiness = Readiness::new(&waker).unwrap();
        for _ in 0..3 {
            waker.wake();
            readiness.poll(Patience::Endless).unwrap();
            assert_eq!(readiness.events().count(), 1);
            readiness.poll(Patience::None).unwrap();
            assert_eq!(readiness.events().count(), 0);
        }
    }

    #[test]
    fn a_deadline_that_passed_does_not_block() {
        let mut readiness = Readiness::new(&Waker::new().unwrap()).unwrap();
        readiness.poll(Patience::Until(Instant(1))).unwrap();
        let start = now();
        readiness
            .poll(Patience::Until(start.after(Duration::from_millis(20))))
            .unwrap();
        assert!(now().since(start) >= Duration::from_millis(20));
    }
}
