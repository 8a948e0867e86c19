//! One question on its way through the upstreams of a stanza.
//!
//! ```text
//!   advance ──> choose ──> exchange ──> heard ──> TC and prefer_udp: the same upstream over TCP
//!      ^                      │           ├─────> an rcode of `failover`: the next upstream
//!      └──────── fail <───────┘           └─────> done
//! ```

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;

use super::forwarder::Forwarder;
use super::outgoing::Framed;
use super::probe::{self, Probe};
use super::reply::{self, Reading, Reply};
use super::stanza::{InFlight, Order};
use super::table::Key;
use super::upstream::{Proto, Transport};
use super::{BUDGET, Canary, Checking, Failed, Failure, Stanza, Upstream};
use crate::reply::Reply as Kept;
use crate::time::Instant;

pub(super) type TaskKey = Key;

/// Times that one question may be asked anew without a failed attempt: since its socket was left, or a connection ended
/// that had answered others.
const MOVES_MAX: u8 = 4;
/// Moves to another socket; a further one is to TCP.
const FLIGHTS_MAX: u8 = 2;

/// Something that waits for an upstream.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) framed: Framed,
    pub(super) purpose: Purpose,
    pub(super) exchange: Option<Exchange>,
    /// Where it stands among the deadlines.
    pub(super) due: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Purpose {
    Ask(Ask),
    Probe(Probe),
}

/// What is in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) pool: Key,
    pub(super) carrier: Carrier,
    pub(super) sent: Instant,
}

/// By what, and under which id.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier {
    Socket(Key, u16),
    Connection(Key, u16),
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Heard,
    /// Nothing came, or not in time.
    GivenUp,
    /// Nobody wants to know any more.
    Cancelled,
}

/// A question of a client.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) ticket: u64,
    pub(super) hold: InFlight,
    started: Instant,
    is_stream: bool,
    /// It is to be told where it goes.
    canary: Option<Arc<Canary>>,
    /// The upstreams, and how many of them had their turn in this pass.
    order: Order,
    at: usize,
    /// Whom the exchange is with.
    upstream: u16,
    failed: u32,
    /// All were down, and this one is the last attempt.
    is_last: bool,
    failovers: usize,
    moves: u8,
    flights: u8,
    /// A reply that is better than none.
    kept: Option<Reply>,
    error: Option<Failed>,
}

impl Ask {
    pub(super) fn new(
        ticket: u64,
        hold: InFlight,
        started: Instant,
        is_stream: bool,
        order: Order,
        canary: Option<&Arc<Canary>>,
    ) -> Self {
        Self {
            ticket,
            hold,
            started,
            is_stream,
            canary: canary.cloned(),
            order,
            at: 0,
            upstream: 0,
            failed: 0,
            is_last: false,
            failovers: 0,
            moves: 0,
            flights: 0,
            kept: None,
            error: None,
        }
    }

    fn stanza(&self) -> &Arc<Stanza> {
        self.hold.stanza()
    }

    fn upstream(&self) -> &Arc<Upstream> {
        &self.stanza().settings().upstreams[usize::from(self.upstream)]
    }

    fn proto(&self) -> Proto {
        match (&self.upstream().transport, self.is_stream) {
            (Transport::Tls { .. }, _) => Proto::TcpTls,
            (Transport::Plain, true) => Proto::Tcp,
            (Transport::Plain, false) => Proto::Udp,
        }
    }

    /// The attempt that is under way has failed.
    fn count_failure(&mut self, how: Failure) {
        self.failed += 1;
        self.error = Some(Failed::Attempt {
            to: self.upstream().address(),
            proto: self.proto(),
            how,
        });
    }

    /// Whether there is time and an attempt left, after so many that failed.
    fn may_try(&self, now: Instant, failed: u32) -> bool {
        let attempts_max = self.stanza().settings().attempts_max;
        let is_left = attempts_max.is_none_or(|max| failed < max) && !self.order.is_empty();
        is_left && !self.is_last && now.since(self.started) < BUDGET
    }

    /// The next upstream in the order that is not down; one that is silent comes after all others.
    fn choose(&mut self, now: Instant) -> Option<u16> {
        if self.at == self.order.len() {
            self.at = 0;
        }
        self.choose_from_here(now).or_else(|| {
            // The others of this pass are down; those before may be tried again.
            self.at = 0;
            self.choose_from_here(now)
        })
    }

    fn choose_from_here(&mut self, now: Instant) -> Option<u16> {
        let settings = self.hold.stanza().settings();
        let health = |at: u16| &settings.upstreams[usize::from(at)].health;
        let is_up = |at: &u16| !health(*at).is_down(&settings.checking, now);
        let is_good = |at: &u16| is_up(at) && health(*at).silent_since(&settings.checking, now).is_none();
        let left = &mut self.order[self.at..];
        let found = left.iter().position(is_good).or_else(|| left.iter().position(is_up))?;
        left[..=found].rotate_right(1);
        let chosen = left[0];
        self.at += 1;
        Some(chosen)
    }

    /// An upstream that is avoided although nobody probes it: who did has gone with an older configuration.
    fn unwatched(&self) -> Option<(Arc<Stanza>, Arc<Upstream>)> {
        let settings = self.stanza().settings();
        if !matches!(settings.checking, Checking::Probes { .. }) {
            return None;
        }
        let upstream = settings
            .upstreams
            .iter()
            .find(|upstream| upstream.health.lacks_probe())?;
        Some((Arc::clone(self.stanza()), Arc::clone(upstream)))
    }

    /// Whether there is an upstream that answers, as far as is known.
    fn has_better(&self, now: Instant) -> bool {
        let settings = self.stanza().settings();
        self.order.iter().any(|at| {
            let Upstream { health, .. } = &*settings.upstreams[usize::from(*at)];
            !health.is_down(&settings.checking, now) && health.silent_since(&settings.checking, now).is_none()
        })
    }
}

impl Forwarder {
    fn ask_mut(&mut self, task: TaskKey) -> Option<&mut Ask> {
        match &mut self.tasks.get_mut(task)?.purpose {
            Purpose::Ask(ask) => Some(ask),
            Purpose::Probe(_) => None,
        }
    }

    /// Tries the next upstream, or gives up.
    pub(super) fn advance(&mut self, now: Instant, task: TaskKey) {
        let Self {
            tasks, random, stats, ..
        } = self;
        let Some(Task {
            purpose: Purpose::Ask(ask),
            ..
        }) = tasks.get_mut(task)
        else {
            return;
        };
        if !ask.may_try(now, ask.failed) {
            return self.give_up(task);
        }
        if let Some((stanza, upstream)) = ask.unwatched() {
            self.begin_probe(now, &stanza, &upstream);
            return self.advance(now, task);
        }
        ask.upstream = match ask.choose(now) {
            Some(chosen) => chosen,
            None => {
                stats.forward.healthcheck_broken.add(1);
                if ask.stanza().settings().failfast {
                    return self.give_up(task);
                }
                ask.is_last = true;
                ask.order[random.random_range(0..ask.order.len())]
            }
        };
        self.exchange(now, task);
    }

    /// Asks the upstream that was chosen.
    fn exchange(&mut self, now: Instant, task: TaskKey) {
        let Some(ask) = self.ask_mut(task) else { return };
        let (stanza, upstream) = (Arc::clone(ask.stanza()), Arc::clone(ask.upstream()));
        let (proto, end) = (ask.proto(), ask.started.after(BUDGET));
        if let Some(canary) = &ask.canary {
            canary.goes_to(&upstream);
        }
        let read = stanza.settings().read_timeout;
        let pool = self.pool(&upstream, stanza.settings());
        upstream.begins();
        let (carrier, until) = match proto {
            Proto::Udp => (self.send_datagram(now, task, pool), now.after(read)),
            Proto::Tcp | Proto::TcpTls => self.send_by_stream(now, task, pool, read),
        };
        // A connection is not waited for longer than the query may take; a reply to what was sent is.
        let until = if self.is_sent(carrier) { until } else { until.min(end) };
        self.hold(task, now, pool, carrier, until);
    }

    fn is_sent(&self, carrier: Carrier) -> bool {
        match carrier {
            Carrier::Socket(..) => true,
            Carrier::Connection(key, _) => self.is_connected(key),
        }
    }

    /// How long a task waits for a reply.
    pub(super) fn read_timeout(&self, task: TaskKey) -> Duration {
        match self.tasks.get(task).map(|task| &task.purpose) {
            Some(Purpose::Ask(ask)) => ask.stanza().settings().read_timeout,
            Some(Purpose::Probe(_)) | None => probe::READ,
        }
    }

    /// The time of a task is over.
    pub(super) fn late(&mut self, now: Instant, task: TaskKey) {
        match self.tasks.get(task).and_then(|task| task.exchange) {
            None => self.send_probe(now, task),
            Some(Exchange {
                carrier: Carrier::Socket(..),
                ..
            }) => self.fail(now, task, Failure::TimedOut),
            Some(Exchange {
                carrier: Carrier::Connection(key, _),
                ..
            }) => self.connection_late(now, key, task),
        }
    }

    /// From now on something is in flight for a task.
    pub(super) fn hold(&mut self, task: TaskKey, now: Instant, pool: Key, carrier: Carrier, until: Instant) {
        if let Some(state) = self.tasks.get_mut(task) {
            state.exchange = Some(Exchange {
                pool,
                carrier,
                sent: now,
            });
        }
        self.set_due(task, Some(until));
    }

    /// Nothing is in flight for the task any more.
    pub(super) fn detach(&mut self, task: TaskKey, ended: Ended) -> Option<Exchange> {
        let state = self.tasks.get_mut(task)?;
        let exchange = state.exchange.take()?;
        let until = state.due.unwrap_or_default();
        self.set_due(task, None);
        if !self.is_probe(task)
            && let Some(pool) = self.pools.get(exchange.pool)
        {
            pool.upstream.ended();
        }
        match exchange.carrier {
            Carrier::Socket(socket, id) => self.release_socket(socket, id, ended, until),
            Carrier::Connection(connection, id) => self.release_connection(connection, id, ended),
        }
        Some(exchange)
    }

    /// A message with the id of a task came. Returns whether it was for it.
    pub(super) fn heard(&mut self, now: Instant, task: TaskKey, bytes: &[u8]) -> bool {
        let Some(Task { framed, purpose, .. }) = self.tasks.get(task) else {
            return false;
        };
        let ask = match purpose {
            Purpose::Probe(_) => return self.probe_heard(now, task, bytes),
            Purpose::Ask(ask) => ask,
        };
        match reply::read(bytes, framed.question(), &mut self.room, &mut self.kept) {
            Reading::Foreign => return false,
            Reading::Whole { is_edns_unknown: true } if framed.has_opt() => self.ask_without_opt(now, task),
            Reading::Broken if ask.proto() != Proto::Udp => self.fail(now, task, Failure::Undecodable),
            Reading::Broken | Reading::Whole { .. } => self.succeed(now, task),
        }
        true
    }

    /// The upstream does not know EDNS, and can be asked without (RFC 6891 §7).
    fn ask_without_opt(&mut self, now: Instant, task: TaskKey) {
        self.detach(task, Ended::Heard);
        if let Some(state) = self.tasks.get_mut(task) {
            state.framed.drop_opt();
        }
        self.exchange(now, task);
    }

    /// What the upstream said is in `kept`.
    fn succeed(&mut self, now: Instant, task: TaskKey) {
        let Some(exchange) = self.detach(task, Ended::Heard) else {
            return;
        };
        let (rcode, is_truncated) = {
            let reply = Kept::new(&self.kept);
            (reply.rcode(), reply.flags().tc())
        };
        let bytes = self.kept[..].into();
        let Some(ask) = self.ask_mut(task) else { return };
        let upstream = ask.upstream();
        upstream.health.heard();
        upstream.measures.count_reply(rcode, now.since(exchange.sent));
        let from = upstream.address();
        let reply = Reply { bytes, from };
        let settings = ask.stanza().settings();
        if is_truncated && settings.prefer_udp && ask.proto() == Proto::Udp {
            ask.is_stream = true;
            ask.kept = Some(reply);
            return self.exchange(now, task);
        }
        if settings.failover.contains(&rcode) && ask.failovers + 1 < ask.order.len() && !ask.is_last {
            ask.failovers += 1;
            ask.kept = Some(reply);
            return self.advance(now, task);
        }
        self.finish(task, Ok(reply));
    }

    /// An attempt failed.
    pub(super) fn fail(&mut self, now: Instant, task: TaskKey, how: Failure) {
        if self.is_probe(task) {
            return self.probe_failed(now, task, &how);
        }
        self.detach(task, Ended::GivenUp);
        let Some(ask) = self.ask_mut(task) else { return };
        let (upstream, stanza) = (Arc::clone(ask.upstream()), Arc::clone(ask.stanza()));
        ask.count_failure(how.clone());
        let mut is_news = false;
        if !how.is_local() {
            match stanza.settings().checking {
                Checking::Never => {}
                Checking::Probes { .. } => {
                    is_news = how.is_silence() && upstream.health.silent(now);
                    self.begin_probe(now, &stanza, &upstream);
                }
                Checking::Failures { timeout, .. } if !how.is_silence() => {
                    upstream.health.count_failure(timeout, now);
                }
                Checking::Failures { fails_max, .. } => {
                    is_news = fails_max > 0 && upstream.health.silent(now);
                }
            }
        }
        self.advance(now, task);
        if is_news {
            self.desert(&upstream);
        }
    }

    /// An upstream has fallen silent. What is in flight to it goes to another one that is not, as if its time were over.
    fn desert(&mut self, upstream: &Arc<Upstream>) {
        let Some(pool) = self.pool_of(upstream) else { return };
        let mut waiting = self.waiting_at_sockets(pool);
        waiting.extend(self.waiting_at_connections(pool));
        self.deserted.add(waiting.into_iter().map(|task| (task, pool)));
    }

    /// A question that may still be in flight to an upstream that fell silent is asked of another one, if there is one.
    pub(super) fn ask_another(&mut self, now: Instant, task: TaskKey, silent: Key) {
        let exchange = self.tasks.get(task).and_then(|task| task.exchange);
        // It may have had its answer, or moved.
        if exchange.is_none_or(|exchange| exchange.pool != silent) {
            return;
        }
        let Some(ask) = self.ask_mut(task) else { return };
        if ask.has_better(now) && ask.may_try(now, ask.failed + 1) {
            ask.count_failure(Failure::TimedOut);
            self.detach(task, Ended::GivenUp);
            self.advance(now, task);
        }
    }

    /// The question is asked once more, of the same upstream and at no cost, but not for ever.
    pub(super) fn move_on(&mut self, now: Instant, task: TaskKey, how: Failure) {
        match self.ask_mut(task) {
            Some(ask) if ask.moves < MOVES_MAX => {
                ask.moves += 1;
                self.detach(task, Ended::GivenUp);
                self.exchange(now, task);
            }
            _ => self.fail(now, task, how),
        }
    }

    /// Somebody guesses at the socket that a reply is due at.
    pub(super) fn flee(&mut self, now: Instant, task: TaskKey) {
        let Some(ask) = self.ask_mut(task) else {
            // A probe tells nobody anything; it is over soon.
            return;
        };
        ask.flights += 1;
        ask.is_stream |= ask.flights > FLIGHTS_MAX;
        self.detach(task, Ended::GivenUp);
        self.exchange(now, task);
    }

    fn give_up(&mut self, task: TaskKey) {
        let Some(ask) = self.ask_mut(task) else { return };
        let outcome = match ask.kept.take() {
            Some(kept) => Ok(kept),
            None => Err(ask.error.take().unwrap_or(Failed::NoHealthy)),
        };
        self.finish(task, outcome);
    }

    /// The question is over.
    fn finish(&mut self, task: TaskKey, outcome: Result<Reply, Failed>) {
        if let Some(ticket) = self.forget(task) {
            self.done.push_back((ticket, outcome));
        }
    }

    /// Takes out a question that nothing is in flight for.
    pub(super) fn forget(&mut self, task: TaskKey) -> Option<u64> {
        self.set_due(task, None);
        match self.tasks.remove(task)?.purpose {
            Purpose::Ask(ask) => {
                self.asks -= 1;
                self.tickets.remove(&ask.ticket);
                Some(ask.ticket)
            }
            Purpose::Probe(_) => None,
        }
    }
}
