//! A forwarder on a virtual clock, and the servers that it asks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::forward::{Failed, Forwarder, Outgoing, Reply, Settings, Stanza, Transport, Upstream};
use nodens_engine::io::{Datagram, Handler, StreamEvent, UpstreamDatagram};
use nodens_engine::stats::WorkerStats;
use nodens_engine::time::Instant;
use nodens_wire::{Flags, NameBuf, Rclass, Rtype};

use super::VirtualClock;
use super::servers::{Servers, Told};

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reply, or why there is none.
    pub result: Result<Reply, Failed>,
    /// The time that it took.
    pub took: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Asking {
    /// The time.
    pub clock: VirtualClock,
    /// Who is asked.
    pub servers: Servers,
    /// Who asks.
    pub forwarder: Forwarder,
    /// What was counted.
    pub stats: Arc<WorkerStats>,
    tickets: u64,
    asked: BTreeMap<u64, Instant>,
    outcomes: BTreeMap<u64, Outcome>,
}

/// The address of the n-th server.
pub fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 53))
}

/// The settings of a stanza for all names that asks the first `n` servers.
pub fn settings(n: u8) -> Settings {
    let upstream = |n| Arc::new(Upstream::new(address(n), Transport::Plain));
    Settings::new(NameBuf::root(), (1..=n).map(upstream).collect())
}

impl Asking {
    /// Nothing is asked yet.
    pub fn new(seed: u64) -> Self {
        let clock = VirtualClock::default();
        let stats = Arc::new(WorkerStats::new(1));
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            servers: Servers::new(seed, clock.clone()),
            forwarder: Forwarder::new(bytes, Arc::clone(&stats)),
            clock,
            stats,
            tickets: 0,
            asked: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        }
    }

    /// Asks for the address of a name, as a client of UDP or TCP would have it asked; returns the ticket.
    ///
    /// # Panics
    /// The text is no name.
    pub fn ask_by(&mut self, stanza: &Arc<Stanza>, name: &str, client_is_stream: bool) -> u64 {
        let name = NameBuf::from_text(name).expect("a name");
        self.tickets += 1;
        let now = self.clock.now();
        let question = Outgoing {
            name: name.as_name(),
            rtype: Rtype::A,
            rclass: Rclass::IN,
            flags: Flags::default().with_rd(true),
            dnssec_ok: false,
            udp_size: 1232,
            options: &[],
            client_is_stream,
            since: now,
            canary: None,
        };
        self.asked.insert(self.tickets, now);
        self.forwarder.ask(now, stanza, &question, self.tickets);
        self.settle();
        self.tickets
    }

    /// The same for a client of UDP.
    pub fn ask(&mut self, stanza: &Arc<Stanza>, name: &str) -> u64 {
        self.ask_by(stanza, name, false)
    }

    /// Asks, and lets time pass until that is over.
    ///
    /// # Panics
    /// It is never over.
    pub fn outcome(&mut self, stanza: &Arc<Stanza>, name: &str) -> Outcome {
        let ticket = self.ask(stanza, name);
        self.until(ticket)
    }

    /// Lets time pass until a question is over.
    ///
    /// # Panics
    /// It is never over.
    pub fn until(&mut self, ticket: u64) -> Outcome {
        loop {
            if let Some(outcome) = self.outcomes.remove(&ticket) {
                return outcome;
            }
            assert!(self.step(None), "a question that nothing will end");
        }
    }

    /// Lets time pass, so much of it.
    pub fn pass(&mut self, time: Duration) {
        let end = self.clock.after(time);
        while self.step(Some(end)) {}
        self.clock.jump(end);
    }

    /// Lets time pass until nothing is left to be done.
    pub fn rest(&mut self) {
        while self.step(None) {}
    }

    /// Nobody waits for it any more.
    pub fn cancel(&mut self, ticket: u64) {
        self.forwarder.cancel(ticket);
        self.asked.remove(&ticket);
        self.settle();
    }

    /// The questions that are over and were not taken.
    pub fn take_outcomes(&mut self) -> BTreeMap<u64, Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Questions that are not over.
    pub fn open(&self) -> usize {
        self.asked.len()
    }

    /// Goes to the next thing that comes to pass, unless that is later; whether there is one.
    pub fn step(&mut self, end: Option<Instant>) -> bool {
        let next = self
            .servers
            .next_at()
            .into_iter()
            .chain(self.forwarder.poll_timeout())
            .min();
        let Some(next) = next.filter(|next| end.is_none_or(|end| *next <= end)) else {
            return false;
        };
        self.clock.jump(next);
        let now = self.clock.now();
        self.forwarder.timeout(now);
        self.settle();
        while let Some(told) = self.servers.take() {
            self.hand(&told);
            self.settle();
        }
        true
    }

    /// A datagram by one of the sockets, whoever sent it.
    pub fn hand(&mut self, told: &Told) {
        let now = self.clock.now();
        let forwarder = &mut self.forwarder;
        told.hand(&mut Alone { forwarder, now });
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((effect, bytes)) = self.forwarder.poll_effect() {
            assert!(self.servers.apply(effect, bytes), "{effect:?}");
        }
        while let Some((ticket, result)) = self.forwarder.poll_done() {
            let asked = self.asked.remove(&ticket).expect("a question ends once");
            let took = self.clock.now().since(asked);
            self.outcomes.insert(ticket, Outcome { result, took });
        }
    }
}

/// The forwarder alone, with the moment at which it is told.
struct Alone<'a> {
    forwarder: &'a mut Forwarder,
    now: Instant,
}

impl Handler for Alone<'_> {
    fn datagrams(&mut self, _: &mut [Datagram<'_>]) {}

    fn stream(&mut self, event: StreamEvent<'_>) {
        self.forwarder.stream(self.now, event);
    }

    fn upstream(&mut self, reply: UpstreamDatagram<'_>) -> bool {
        self.forwarder.datagram(self.now, &reply)
    }
}
