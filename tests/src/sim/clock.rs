//! A clock that moves when it is told to.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use nodens_engine::time::{Clock, Instant};

/// The one clock of a simulation; clones are the same clock.
#[derive(Clone, Debug)]
pub struct VirtualClock(Rc<Cell<Instant>>);

impl Default for VirtualClock {
    fn default() -> Self {
        Self(Rc::new(Cell::new(Instant(1_000_000_000))))
    }
}

impl VirtualClock {
    /// Now.
    pub fn now(&self) -> Instant {
        self.0.get()
    }

    /// The moment that lies so far ahead.
    pub fn after(&self, time: Duration) -> Instant {
        self.now().after(time)
    }

    /// Jumps ahead; never back.
    pub fn jump(&self, to: Instant) {
        self.0.set(self.now().max(to));
    }

    /// As a worker reads it.
    pub fn read(&self) -> Clock {
        Clock {
            now: self.now(),
            unix_secs: 1_700_000_000 + self.now().0 / 1_000_000_000,
        }
    }
}
