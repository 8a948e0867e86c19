//! One thread: wait, load, serve; nothing else.
//!
//! The order matters. The snapshot is loaded after the wait and let go before the next one, so that what comes after
//! a quiet spell is not answered from a snapshot as old as the spell, and a sleeping worker pins no memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::io::{self as port, AnyPort, Datagram, Handler, Port, StreamEvent, UpstreamDatagram};
use crate::responder::{Now, Responder};
use crate::snapshot::Published;
use crate::time::Clock;

/// Serves until `stop` is set and the port's waker woken; then once more what stands in the sockets' buffers.
///
/// # Errors
/// The port cannot go on.
pub fn run(port: &mut AnyPort, responder: &mut Responder, published: &Published, stop: &AtomicBool) -> io::Result<()> {
    run_on(port, port::read_clock, responder, published, stop)
}

/// The same over any port and clock: the simulation's too.
///
/// # Errors
/// The port cannot go on.
pub fn run_on<P: Port>(
    port: &mut P,
    read_clock: impl Fn() -> Clock,
    responder: &mut Responder,
    published: &Published,
    stop: &AtomicBool,
) -> io::Result<()> {
    loop {
        port.wait(responder.poll_timeout())?;
        let last = stop.load(Ordering::Acquire);
        while serve(port, &read_clock, responder, published)? > 0 && last {}
        if last {
            return Ok(());
        }
    }
}

fn serve<P: Port>(
    port: &mut P,
    read_clock: impl Fn() -> Clock,
    responder: &mut Responder,
    published: &Published,
) -> io::Result<usize> {
    let clock = read_clock();
    let (config, data) = published.load();
    let now = Now {
        clock,
        config: &config,
        data: &data,
    };
    responder.timeout(clock.now);
    let served = port.serve(&mut Serving { responder, now })?;
    while let Some((effect, bytes)) = responder.poll_effect() {
        port.apply(effect, &bytes)?;
    }
    Ok(served)
}

/// The responder with the moment at which it is asked.
struct Serving<'a, 'z> {
    responder: &'a mut Responder,
    now: Now<'z>,
}

impl Handler for Serving<'_, '_> {
    fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
        self.responder.datagrams(&self.now, batch);
    }

    fn stream(&mut self, event: StreamEvent<'_>) {
        self.responder.stream(&self.now, event);
    }

    fn upstream(&mut self, reply: UpstreamDatagram<'_>) {
        self.responder.upstream(&self.now, reply);
    }
}

/// What ends a worker.
#[derive(Clone, Debug)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    waker: port::Waker,
}

impl Stop {
    /// For the worker whose port has this waker.
    #[must_use]
    pub fn new(waker: port::Waker) -> Self {
        Self {
            flag: Arc::default(),
            waker,
        }
    }

    /// The worker finishes what stands in its sockets' buffers and ends.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// To be given to [`run`].
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}
