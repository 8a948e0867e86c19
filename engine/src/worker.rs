//! One thread: wait, load, serve; nothing else.
//!
//! The order matters. The snapshot is loaded after the wait and let go before the next one, so that what comes after
//! a quiet spell is not answered from a snapshot as old as the spell, and a sleeping worker pins no memory.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

use crate::io::{self as port, AnyPort, Datagram, Handler, ListenerId, ListenerSockets, Port, StreamEvent};
use crate::io::{SharedSocket, Sockets as _, UpstreamDatagram, Waker};
use crate::log::LogQueue;
use crate::responder::{Now, Responder};
use crate::snapshot::Published;
use crate::time::{Clock, Instant};

/// Commands that wait for a worker.
pub const COMMANDS_MAX: usize = 16;

/// How long a worker that is to end may take for what its sockets and streams hold, and for its clients to close.
pub const DRAIN_MAX: Duration = Duration::from_secs(1);

/// How long queries that wait for other servers may keep it from that, and drained sockets from being closed: longer than
/// any of them waits.
pub const ANSWERS_MAX: Duration = Duration::from_secs(6);

/// What a worker is told while it serves.
#[derive(Debug)]
pub enum Command {
    /// Serve these sockets too.
    Listen(Vec<ListenerSockets>),
    /// Close these sockets. It is done when all that stood in them, and in the streams of listeners that have no other
    /// socket for streams, was answered.
    Retire(Vec<(ListenerId, SocketAddr)>),
    /// Leave lines for the log here.
    Log(LogQueue),
    /// Give copies of all listening sockets.
    Share(Sender<Vec<SharedSocket>>),
    /// Answer all that stands in sockets and streams, then end.
    Drain,
    /// Leave the sockets to the process that has copies of them, answer what has come by streams, then end.
    Release,
}

/// A command, and whom to tell that it was carried out.
#[derive(Debug)]
struct Order {
    command: Command,
    done: Sender<io::Result<()>>,
}

/// Where a worker finds its commands.
#[derive(Debug)]
pub struct Orders(Receiver<Order>);

/// Where a worker's commands are given.
#[derive(Clone, Debug)]
pub struct Boss {
    orders: Sender<Order>,
    waker: Waker,
}

impl Boss {
    /// Both ends, for the worker whose port has this waker.
    #[must_use]
    pub fn new(waker: Waker) -> (Self, Orders) {
        let (sender, receiver) = bounded(COMMANDS_MAX);
        (Self { orders: sender, waker }, Orders(receiver))
    }

    /// Gives a command. What is returned hears when it was carried out; nothing, if the worker ended before.
    ///
    /// # Errors
    /// The worker has ended, or does not come to its commands.
    pub fn tell(&self, command: Command) -> io::Result<Receiver<io::Result<()>>> {
        let (done, is_done) = bounded(1);
        self.orders
            .try_send(Order { command, done })
            .map_err(|error| match error {
                TrySendError::Full(_) => io::Error::other("a worker does not come to its commands"),
                TrySendError::Disconnected(_) => io::Error::other("a worker has ended"),
            })?;
        self.waker.wake();
        Ok(is_done)
    }
}

/// Serves until it is told to end.
///
/// # Errors
/// The port cannot go on.
pub fn run(port: &mut AnyPort, responder: &mut Responder, published: &Published, orders: &Orders) -> io::Result<()> {
    let mut at_work = AtWork::default();
    run_on(port, port::read_clock, responder, published, |port, responder| {
        at_work.turn(port, responder, orders)
    })
}

/// What comes after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Another one, which waits no longer than this.
    Next(Option<Instant>),
    /// The end.
    End,
}

/// The same over any port and clock, the simulation's too; `turn` says what comes next.
///
/// # Errors
/// The port cannot go on.
pub fn run_on<P: Port>(
    port: &mut P,
    read_clock: impl Fn() -> Clock,
    responder: &mut Responder,
    published: &Published,
    mut turn: impl FnMut(&mut P, &mut Responder) -> Turn,
) -> io::Result<()> {
    while let Turn::Next(until) = turn(port, responder) {
        port.wait(until.into_iter().chain(responder.poll_timeout()).min())?;
        serve(port, &read_clock, responder, published)?;
    }
    Ok(())
}

fn serve<P: Port>(
    port: &mut P,
    read_clock: impl Fn() -> Clock,
    responder: &mut Responder,
    published: &Published,
) -> io::Result<()> {
    let clock = read_clock();
    let (config, data) = published.load();
    let now = Now {
        clock,
        config: &config,
        data: &data,
    };
    responder.timeout(&now);
    port.serve(&mut Serving { responder, now })?;
    while let Some((effect, bytes)) = responder.poll_effect() {
        port.apply(effect, bytes)?;
    }
    Ok(())
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

    fn upstream(&mut self, reply: UpstreamDatagram<'_>) -> bool {
        self.responder.upstream(&self.now, &reply)
    }
}

/// The commands of a worker that are not done yet.
#[derive(Debug, Default)]
struct AtWork {
    /// Told when nothing is draining any more.
    draining: Vec<Sender<io::Result<()>>>,
    /// Since when sockets are drained that are not closed yet: answers may still have to leave by them.
    drained: Option<Instant>,
    /// Since when the worker is to end, which it does when nothing is left to do.
    ending: Option<Instant>,
}

impl AtWork {
    fn turn(&mut self, port: &mut AnyPort, responder: &mut Responder, orders: &Orders) -> Turn {
        while let Ok(Order { command, done }) = orders.0.try_recv() {
            let result = match command {
                Command::Listen(sockets) => sockets.into_iter().try_for_each(|sockets| port.listen(sockets)),
                Command::Retire(sockets) => {
                    for (listener, address) in sockets {
                        port.retire(listener, address);
                    }
                    self.draining.push(done);
                    continue;
                }
                Command::Log(queue) => {
                    responder.log_to(queue);
                    Ok(())
                }
                // Nobody may be waiting for them.
                Command::Share(copies) => port.share().map(|own| drop(copies.send(own))),
                Command::Drain | Command::Release => {
                    match command {
                        Command::Release => port.release(),
                        _ => port.drain(),
                    }
                    self.ending = Some(port::now());
                    self.draining.push(done);
                    continue;
                }
            };
            // Nobody may be waiting for it.
            let _ = done.send(result);
        }
        let owes_answers = responder.owes_answers();
        if !self.draining.is_empty() && !port.is_draining() {
            self.drained = Some(port::now());
            for done in self.draining.drain(..) {
                let _ = done.send(Ok(()));
            }
        }
        if let Some(since) = self.drained
            && (!owes_answers || port::now() >= since.after(ANSWERS_MAX))
        {
            port.close_drained();
            self.drained = None;
        }
        let patience = if owes_answers { ANSWERS_MAX } else { DRAIN_MAX };
        let end = self.ending.map(|since| since.after(patience));
        match end {
            Some(end) if (port.is_idle() && !owes_answers) || port::now() >= end => Turn::End,
            end => Turn::Next(end),
        }
    }
}
