//! What one worker asks of other servers: the way in and the way out.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use nodens_wire::MESSAGE_LEN_MAX;
use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;

use super::ask::{Ask, Ended, Purpose, Task, TaskKey};
use super::connections::{Connection, Habits, Lines};
use super::outgoing::Framed;
use super::sockets::{Slots, Socket};
use super::stanza::InFlight;
use super::table::{Key, Table};
use super::{ASKS_MAX, Failed, Outgoing, Reply, Settings, Stanza, Upstream};
use crate::effects::Effects;
use crate::io::Effect;
use crate::stats::WorkerStats;
use crate::time::Instant;

/// Time between two looks at what is idle, while anything is open.
const HOUSEKEEPING: Duration = Duration::from_secs(5);

/// The sockets to one upstream.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) upstream: Arc<Upstream>,
    pub(super) from: Option<IpAddr>,
    pub(super) habits: Habits,
    pub(super) sockets: Slots,
    pub(super) lines: Lines,
}

/// See the module.
#[derive(Debug)]
pub struct Forwarder {
    pub(super) random: ChaCha8Rng,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) tasks: Table<Task>,
    /// Tasks that are no probes.
    pub(super) asks: usize,
    pub(super) tickets: HashMap<u64, TaskKey, foldhash::fast::RandomState>,
    due: BTreeSet<(Instant, TaskKey)>,
    pub(super) deserted: Deserted,
    pub(super) pools: Table<Pool>,
    /// By the address of an upstream in memory, which its pool keeps.
    by_upstream: HashMap<usize, Key, foldhash::fast::RandomState>,
    pub(super) sockets: Table<Socket>,
    pub(super) connections: Table<Connection>,
    /// Nothing is opened before that can be done without.
    pub(super) starved_until: Instant,
    housekeeping: Option<Instant>,
    pub(super) effects: Effects,
    pub(super) done: VecDeque<(u64, Result<Reply, Failed>)>,
    /// Room for what of a reply is unpacked, and its kept form.
    pub(super) room: Box<[u8]>,
    pub(super) kept: Vec<u8>,
}

/// What is held at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Questions and probes.
    pub tasks: usize,
    /// UDP sockets.
    pub sockets: usize,
    /// Streams.
    pub connections: usize,
    /// Upstreams with a socket or a connection.
    pub upstreams: usize,
}

/// Tasks whose upstream has fallen silent, and its pool. They go to another one over a quarter of a second: thousands at once
/// would be in the way of what comes meanwhile, here and there.
#[derive(Debug, Default)]
pub(super) struct Deserted {
    tasks: VecDeque<(TaskKey, Key)>,
    /// How many go in a step, and when the next one is.
    a_step: usize,
    next: Instant,
}

impl Deserted {
    const STEP: Duration = Duration::from_millis(1);
    const STEPS: usize = 256;
    /// A step is for as many at least.
    const FEW: usize = 32;

    /// So many more; those that are too many have time-outs of their own.
    pub(super) fn add(&mut self, tasks: impl Iterator<Item = (TaskKey, Key)>) {
        self.tasks.extend(tasks);
        self.tasks.truncate(ASKS_MAX);
        self.a_step = self.tasks.len().div_ceil(Self::STEPS).max(Self::FEW);
    }

    /// How many go now.
    fn begin_step(&mut self, now: Instant) -> usize {
        if self.tasks.is_empty() || now < self.next {
            return 0;
        }
        self.next = now.after(Self::STEP);
        self.a_step.min(self.tasks.len())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.tasks.is_empty()).then_some(self.next)
    }
}

impl Forwarder {
    /// A forwarder that has asked nothing. Ids and ports are as hard to foresee as the seed.
    #[must_use]
    pub fn new(seed: [u8; 32], stats: Arc<WorkerStats>) -> Self {
        Self {
            random: ChaCha8Rng::from_seed(seed),
            stats,
            tasks: Table::new(),
            asks: 0,
            tickets: HashMap::default(),
            due: BTreeSet::new(),
            deserted: Deserted::default(),
            pools: Table::new(),
            by_upstream: HashMap::default(),
            sockets: Table::new(),
            connections: Table::new(),
            starved_until: Instant::default(),
            housekeeping: None,
            effects: Effects::default(),
            done: VecDeque::new(),
            room: vec![0; MESSAGE_LEN_MAX].into(),
            kept: Vec::new(),
        }
    }

    /// Asks the upstreams of a stanza. The outcome comes once by [`Forwarder::poll_done`] under this ticket, which no
    /// other question in flight has.
    pub fn ask(&mut self, now: Instant, stanza: &Arc<Stanza>, question: &Outgoing<'_>, ticket: u64) {
        if self.asks >= ASKS_MAX {
            self.stats.forward.limited.add(1);
            self.done.push_back((ticket, Err(Failed::Crowded)));
            return;
        }
        let hold = match InFlight::begin(stanza) {
            Ok(hold) => hold,
            Err(max) => {
                self.stats.forward.rejected.add(1);
                self.done.push_back((ticket, Err(Failed::Concurrent { max })));
                return;
            }
        };
        let settings = stanza.settings();
        let is_stream = settings.force_tcp || question.client_is_stream && !settings.prefer_udp;
        let order = stanza.order(&mut self.random);
        let task = self.tasks.insert(Task {
            framed: Framed::new(question),
            purpose: Purpose::Ask(Ask::new(
                ticket,
                hold,
                question.since,
                is_stream,
                order,
                question.canary,
            )),
            exchange: None,
            due: None,
        });
        self.asks += 1;
        let before = self.tickets.insert(ticket, task);
        debug_assert!(before.is_none(), "a ticket is good for one question");
        self.advance(now, task);
    }

    /// Nobody waits for the outcome any more, and it will not come.
    pub fn cancel(&mut self, ticket: u64) {
        match self.tickets.get(&ticket) {
            Some(&task) => {
                self.detach(task, Ended::Cancelled);
                self.forget(task);
            }
            None => self.done.retain(|(done, _)| *done != ticket),
        }
    }

    /// The time may have come for something.
    pub fn timeout(&mut self, now: Instant) {
        while let Some((at, task)) = self.due.first().copied()
            && at <= now
        {
            self.set_due(task, None);
            self.late(now, task);
        }
        for _ in 0..self.deserted.begin_step(now) {
            if let Some((task, silent)) = self.deserted.tasks.pop_front() {
                self.ask_another(now, task, silent);
            }
        }
        if self.housekeeping.is_some_and(|at| at <= now) {
            self.housekeeping = None;
            self.tidy(now);
        }
    }

    /// When to call [`Forwarder::timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, _)| *at);
        let step = self.deserted.poll_timeout();
        due.into_iter().chain(step).chain(self.housekeeping).min()
    }

    /// A question that is over.
    pub fn poll_done(&mut self) -> Option<(u64, Result<Reply, Failed>)> {
        self.done.pop_front()
    }

    /// What is to be carried out next. Few come of one call of another function: those of one question for each datagram
    /// or timer, and where an upstream falls silent those of the questions in flight to it.
    pub fn poll_effect(&mut self) -> Option<(Effect, &[u8])> {
        self.effects.pop()
    }

    /// What is held at the moment.
    #[must_use]
    pub fn in_use(&self) -> InUse {
        InUse {
            tasks: self.tasks.len(),
            sockets: self.sockets.len(),
            connections: self.connections.len(),
            upstreams: self.pools.len(),
        }
    }

    pub(super) fn set_due(&mut self, task: TaskKey, due: Option<Instant>) {
        let Some(state) = self.tasks.get_mut(task) else { return };
        if let Some(before) = std::mem::replace(&mut state.due, due) {
            self.due.remove(&(before, task));
        }
        if let Some(due) = due {
            self.due.insert((due, task));
        }
    }

    pub(super) fn pool_of(&self, upstream: &Arc<Upstream>) -> Option<Key> {
        self.by_upstream.get(&Arc::as_ptr(upstream).addr()).copied()
    }

    /// What is open to an upstream of a stanza.
    pub(super) fn pool(&mut self, upstream: &Arc<Upstream>, settings: &Settings) -> Key {
        if let Some(pool) = self.pool_of(upstream) {
            return pool;
        }
        let pool = self.pools.insert(Pool {
            upstream: Arc::clone(upstream),
            from: settings.source_address,
            habits: Habits::of(settings),
            sockets: Slots::new(),
            lines: Lines::new(),
        });
        self.by_upstream.insert(Arc::as_ptr(upstream).addr(), pool);
        pool
    }

    /// Something is open that will have to be closed.
    pub(super) fn keep_house(&mut self, now: Instant) {
        self.housekeeping.get_or_insert_with(|| now.after(HOUSEKEEPING));
    }

    /// Closes what was idle for too long.
    fn tidy(&mut self, now: Instant) {
        let pools: Vec<Key> = self.pools.iter().map(|(key, _)| key).collect();
        for key in pools {
            self.tidy_sockets(now, key);
            self.tidy_connections(now, key);
            let is_empty = |pool: &Pool| pool.sockets.is_empty() && pool.lines.is_empty();
            if self.pools.get(key).is_some_and(is_empty)
                && let Some(pool) = self.pools.remove(key)
            {
                self.by_upstream.remove(&Arc::as_ptr(&pool.upstream).addr());
            }
        }
        if self.pools.len() > 0 {
            self.keep_house(now);
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        for (_, task) in self.tasks.iter() {
            match &task.purpose {
                Purpose::Probe(probe) => probe.release(),
                Purpose::Ask(_) => {}
            }
        }
        for (_, task) in self.tasks.iter() {
            if let (Some(exchange), Purpose::Ask(_)) = (&task.exchange, &task.purpose)
                && let Some(pool) = self.pools.get(exchange.pool)
            {
                pool.upstream.ended();
            }
        }
    }
}
