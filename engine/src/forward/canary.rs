//! A question that nobody else can ask: if it comes a second time, what is forwarded comes back.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodens_wire::{Name, NameBuf};

use super::Upstream;

/// The question, and what became of it. All workers share one.
#[derive(Debug, Default)]
pub struct Canary {
    is_out: AtomicBool,
    flight: Mutex<Flight>,
}

#[derive(Debug, Default)]
struct Flight {
    /// In lower case.
    name: Option<NameBuf>,
    arrivals: u32,
    /// Whom it was sent to last.
    upstream: Option<Arc<Upstream>>,
    returned: Option<Returned>,
}

/// How it came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// From whom.
    pub client: SocketAddr,
    /// The upstream that it was sent to, which is taken out.
    pub upstream: Option<SocketAddr>,
}

impl Canary {
    /// Waits for a question for this name, and no longer for another one.
    pub fn fly(&self, name: NameBuf) {
        *self.lock() = Flight {
            name: Some(name.folded()),
            ..Flight::default()
        };
        self.is_out.store(true, Ordering::Release);
    }

    /// No question is waited for any more.
    pub fn land(&self) {
        self.is_out.store(false, Ordering::Relaxed);
    }

    /// How it came back, if it did.
    #[must_use]
    pub fn returned(&self) -> Option<Returned> {
        self.lock().returned
    }

    /// Whether a name in lower case is the one that is waited for.
    pub(crate) fn is(&self, name: Name<'_>) -> bool {
        self.is_out.load(Ordering::Acquire) && self.lock().name.as_ref().is_some_and(|own| own.as_name() == name)
    }

    /// It arrives; returns whether it has come back.
    pub(crate) fn arrives(&self, client: SocketAddr) -> bool {
        let mut flight = self.lock();
        flight.arrivals += 1;
        if flight.arrivals == 2 {
            let upstream = flight.upstream.take();
            if let Some(upstream) = &upstream {
                upstream.take_out();
            }
            flight.returned = Some(Returned {
                client,
                upstream: upstream.map(|upstream| upstream.address()),
            });
        }
        flight.arrivals > 1
    }

    /// It is sent to an upstream.
    pub(super) fn goes_to(&self, upstream: &Arc<Upstream>) {
        self.lock().upstream = Some(Arc::clone(upstream));
    }

    fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Transport;

    #[test]
    fn what_comes_back_takes_out_whom_it_was_sent_to_last() {
        let name = |text| NameBuf::from_text(text).unwrap();
        let upstream = |last| Arc::new(Upstream::new(([192, 0, 2, last], 53).into(), Transport::Plain));
        let (first, second) = (upstream(1), upstream(2));
        let client = SocketAddr::from(([192, 0, 2, 9], 1053));
        let canary = Canary::default();
        assert!(!canary.is(name("1.2.").as_name()));
        canary.fly(name("1.2.Cedar.example."));
        assert!(canary.is(name("1.2.cedar.example.").as_name()) && !canary.is(name("1.3.cedar.example.").as_name()));

        assert!(!canary.arrives(client));
        assert_eq!(canary.returned(), None);
        canary.goes_to(&first);
        canary.goes_to(&second);
        assert!(canary.arrives(client));
        let returned = Returned {
            client,
            upstream: Some(second.address()),
        };
        assert_eq!(canary.returned(), Some(returned));
        assert!(second.is_out() && !first.is_out());

        // A third arrival ends as the second did, and takes nobody else out.
        canary.goes_to(&first);
        assert!(canary.arrives(client) && !first.is_out());
        assert_eq!(canary.returned(), Some(returned));

        canary.fly(name("1.3.cedar.example."));
        assert_eq!(canary.returned(), None);
        assert!(!canary.arrives(client));
        canary.land();
        assert!(!canary.is(name("1.3.cedar.example.").as_name()));

        second.put_back();
        assert!(!second.is_out());
    }
}
