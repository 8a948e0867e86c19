//! UDP sockets: for each upstream a pool on random ports, renewed often, so that nobody knows where a reply is due.

use hashbrown::HashMap;
use rand::{Rng, RngExt as _};

use super::ask::{Carrier, Ended, TaskKey};
use super::forwarder::Forwarder;
use super::table::Key;
use super::{Failure, GUESSES_MAX, POOL_SOCKETS, Proto, SOCKET_AGE_MAX, SOCKET_QUERIES_MAX, SOCKET_RUN, SOCKETS_MAX};
use crate::io::{Effect, SocketError, UpstreamDatagram};
use crate::time::Instant;

/// Idle sockets that a pool keeps when descriptors are short.
const IDLE_KEPT: usize = 4;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It stands there in its pool.
    Pool(u8),
    /// For what is in flight by it, and nothing else.
    Retiring,
    /// For one probe.
    Probe,
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) pool: Key,
    purpose: Use,
    opened: Instant,
    queries: u32,
    ids: HashMap<u16, Holder, foldhash::fast::RandomState>,
    in_flight: u32,
    /// The id that was answered last. On some ways everything comes twice.
    answered: Option<u16>,
    /// Replies that nobody asked for.
    guesses: u32,
}

/// Whose an id is.
#[derive(Clone, Copy, Debug)]
enum Holder {
    Waits(TaskKey),
    /// He waits no more, and a reply that may still come is no guess. Until then it is even in time.
    Left(Instant),
}

impl Socket {
    fn is_worn(&self, now: Instant) -> bool {
        self.queries >= SOCKET_QUERIES_MAX || now.since(self.opened) >= SOCKET_AGE_MAX
    }

    fn waiting(&self) -> Vec<TaskKey> {
        let waits = |holder: &Holder| match holder {
            Holder::Waits(task) => Some(*task),
            Holder::Left(_) => None,
        };
        let mut waiting: Vec<_> = self.ids.values().filter_map(waits).collect();
        // The table's order is nobody's business.
        waiting.sort_unstable();
        waiting
    }
}

/// The sockets of one upstream.
#[derive(Debug)]
pub(super) struct Slots {
    slots: [Option<Key>; POOL_SOCKETS],
    retiring: usize,
    /// Where queries leave just now, and how many more do.
    at: usize,
    run: u8,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self {
            slots: [None; POOL_SOCKETS],
            retiring: 0,
            at: 0,
            run: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.retiring == 0 && self.slots.iter().all(Option::is_none)
    }

    /// Where the next query leaves. Some in a row leave by one socket, which the kernel's caches then hold, and whose
    /// replies are read together. For one who guesses that changes nothing: he knows neither where a row leaves nor when
    /// it ends, and each guess meets as many of the queries in flight as it would if each had drawn its own socket.
    fn draw(&mut self, random: &mut impl Rng) -> usize {
        if self.run == 0 || self.slots[self.at].is_none() {
            self.at = random.random_range(0..POOL_SOCKETS);
            self.run = SOCKET_RUN;
        }
        self.run -= 1;
        self.at
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        self.slots.iter().copied().flatten()
    }
}

impl Forwarder {
    /// Sends a task's message by a socket of this pool.
    pub(super) fn send_datagram(&mut self, now: Instant, task: TaskKey, pool: Key) -> Carrier {
        let socket = if self.is_probe(task) {
            self.open_socket(now, pool, Use::Probe)
        } else {
            self.pick_socket(now, pool)
        };
        let state = self.sockets.get_mut(socket).expect("picked just now");
        if let Some(pool) = self.pools.get(pool) {
            pool.upstream.measures.count_socket(Proto::Udp, state.queries > 0);
        }
        let id = loop {
            let id = self.random.random();
            if !state.ids.contains_key(&id) {
                break id;
            }
        };
        state.ids.insert(id, Holder::Waits(task));
        state.in_flight += 1;
        state.queries += 1;
        if let Some(task) = self.tasks.get_mut(task) {
            task.framed.set_id(id);
            let upstream = socket.upstream();
            self.effects
                .push(Effect::SendUpstream { upstream }, task.framed.message());
        }
        Carrier::Socket(socket, id)
    }

    /// One of the pool's sockets, a new one if its time has come.
    fn pick_socket(&mut self, now: Instant, key: Key) -> Key {
        let may_open = now >= self.starved_until && self.sockets.len() < SOCKETS_MAX;
        let pool = self.pools.get_mut(key).expect("a task's pool");
        let at = pool.sockets.draw(&mut self.random);
        let (held, retiring) = (pool.sockets.slots[at], pool.sockets.retiring);
        let old = held.and_then(|held| Some((held, self.sockets.get(held)?)));
        match old {
            Some((held, socket)) if !socket.is_worn(now) => return held,
            Some((held, socket)) => {
                if !may_open || socket.in_flight > 0 && retiring >= POOL_SOCKETS {
                    return held;
                }
                self.leave_socket(held);
            }
            None if may_open => {}
            None => {
                // Shared rather than failed.
                self.stats.forward.sockets_limited.add(1);
                let slots = &pool.sockets.slots;
                let others = (1..POOL_SOCKETS).filter_map(|ahead| slots[(at + ahead) % POOL_SOCKETS]);
                if let Some(other) = { others }.next() {
                    return other;
                }
                self.shed_sockets();
            }
        }
        self.open_socket(now, key, Use::Pool(at as u8))
    }

    fn open_socket(&mut self, now: Instant, key: Key, purpose: Use) -> Key {
        let socket = self.sockets.insert(Socket {
            pool: key,
            purpose,
            opened: now,
            queries: 0,
            ids: HashMap::default(),
            in_flight: 0,
            answered: None,
            guesses: 0,
        });
        let pool = self.pools.get_mut(key).expect("a task's pool");
        if let Use::Pool(at) = purpose {
            pool.sockets.slots[usize::from(at)] = Some(socket);
        }
        let open = Effect::OpenUpstream {
            upstream: socket.upstream(),
            to: pool.upstream.address(),
            from: pool.from,
        };
        self.effects.push(open, &[]);
        self.keep_house(now);
        socket
    }

    /// From now on it is used no more; it is closed when nothing is in flight by it.
    fn leave_socket(&mut self, key: Key) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if let Some(pool) = self.pools.get_mut(socket.pool)
            && let Use::Pool(at) = socket.purpose
        {
            pool.sockets.slots[usize::from(at)] = None;
            pool.sockets.retiring += 1;
            socket.purpose = Use::Retiring;
        }
        if socket.in_flight == 0 {
            self.close_socket(key);
        }
    }

    fn close_socket(&mut self, key: Key) {
        let Some(socket) = self.sockets.remove(key) else { return };
        if let Some(pool) = self.pools.get_mut(socket.pool) {
            match socket.purpose {
                Use::Pool(at) => pool.sockets.slots[usize::from(at)] = None,
                Use::Retiring => pool.sockets.retiring -= 1,
                Use::Probe => {}
            }
        }
        let upstream = key.upstream();
        self.effects.push(Effect::RetireUpstream { upstream }, &[]);
    }

    /// A task waits at this socket no more.
    pub(super) fn release_socket(&mut self, key: Key, id: u16, ended: Ended, until: Instant) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.in_flight -= 1;
        match ended {
            Ended::Heard => {
                socket.ids.remove(&id);
                socket.answered = Some(id);
            }
            Ended::GivenUp | Ended::Cancelled => {
                socket.ids.insert(id, Holder::Left(until));
            }
        }
        if socket.in_flight == 0 && !matches!(socket.purpose, Use::Pool(_)) {
            self.close_socket(key);
        }
    }

    /// A datagram of another server, or an error of a socket. Returns whether more is in flight by it.
    pub fn datagram(&mut self, now: Instant, datagram: &UpstreamDatagram<'_>) -> bool {
        let Some(key) = self.sockets.of_upstream(datagram.upstream) else {
            self.stats.forward.late.add(1);
            return false;
        };
        match datagram.error {
            Some(error) => self.socket_failed(now, key, error),
            None => self.said(now, key, datagram.bytes),
        }
        self.sockets.get(key).is_some_and(|socket| socket.in_flight > 0)
    }

    fn said(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let socket = self.sockets.get_mut(key).expect("found just now");
        let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
        match id.and_then(|id| Some((id, *socket.ids.get(&id)?))) {
            None if id.is_some() && id == socket.answered => self.stats.forward.late.add(1),
            None => self.guessed(now, key),
            Some((id, Holder::Left(until))) => {
                socket.ids.remove(&id);
                socket.answered = Some(id);
                if now < until
                    && let Some(pool) = self.pools.get(socket.pool)
                {
                    pool.upstream.health.heard();
                }
                self.stats.forward.late.add(1);
            }
            Some((_, Holder::Waits(task))) => {
                if !self.heard(now, task, bytes) {
                    self.guessed(now, key);
                }
            }
        }
    }

    /// A reply came that nobody asked for. After many, the questions in flight there are asked from elsewhere.
    fn guessed(&mut self, now: Instant, key: Key) {
        self.stats.forward.unasked.add(1);
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.guesses += 1;
        if socket.guesses != GUESSES_MAX {
            return;
        }
        let waiting = socket.waiting();
        self.leave_socket(key);
        for task in waiting {
            self.flee(now, task);
        }
    }

    fn socket_failed(&mut self, now: Instant, key: Key, error: SocketError) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let waiting = socket.waiting();
        if error == SocketError::Exhausted {
            self.starve(now);
            self.leave_socket(key);
            for task in waiting {
                self.move_on(now, task, Failure::Dial(error));
            }
            return;
        }
        if waiting.is_empty() {
            // About a query that waits no more.
            return;
        }
        self.leave_socket(key);
        let failure = match error {
            SocketError::Refused | SocketError::Reset => Failure::Read(error),
            _ => Failure::Dial(error),
        };
        for task in waiting {
            self.fail(now, task, failure.clone());
        }
    }

    /// Descriptors are short: for a while nothing is opened that can be done without.
    pub(super) fn starve(&mut self, now: Instant) {
        self.stats.forward.sockets_limited.add(1);
        self.starved_until = now.after(super::STARVED);
        self.shed_sockets();
    }

    /// Closes what idles, but for a few sockets of each pool.
    fn shed_sockets(&mut self) {
        let mut idle = Vec::new();
        for (_, pool) in self.pools.iter() {
            let unused = pool.sockets.iter().filter(|key| self.is_socket_idle(*key));
            let kept = pool.sockets.iter().filter(|key| !self.is_socket_idle(*key)).count();
            idle.extend(unused.skip(IDLE_KEPT.saturating_sub(kept)));
        }
        for key in idle {
            self.close_socket(key);
        }
    }

    fn is_socket_idle(&self, key: Key) -> bool {
        self.sockets.get(key).is_some_and(|socket| socket.in_flight == 0)
    }

    /// Closes the sockets of a pool whose time is over.
    pub(super) fn tidy_sockets(&mut self, now: Instant, pool: Key) {
        let Some(state) = self.pools.get(pool) else { return };
        let worn = |key: &Key| self.sockets.get(*key).is_some_and(|socket| socket.is_worn(now));
        let old: Vec<Key> = state.sockets.iter().filter(worn).collect();
        for key in old {
            if self.is_socket_idle(key) {
                self.close_socket(key);
            }
        }
    }

    /// The tasks that wait at the sockets of a pool.
    pub(super) fn waiting_at_sockets(&self, pool: Key) -> Vec<TaskKey> {
        let own = self.sockets.iter().filter(|(_, socket)| socket.pool == pool);
        own.flat_map(|(_, socket)| socket.waiting()).collect()
    }
}
