//! Streams to upstreams, TCP or TLS: few of them, shared by many questions at once and told apart by id (RFC 7766).
//!
//! Nothing is written before a connection stands, so that what waits can still go elsewhere. All bytes leave by
//! effects: what is sealed first must be sent first.

use std::mem;
use std::time::Duration;

use hashbrown::HashMap;
use rand::RngExt as _;

use super::ask::{Carrier, Ended, TaskKey};
use super::forwarder::Forwarder;
use super::outgoing::FRAME_LEN;
use super::table::Key;
use super::upstream::Transport;
use super::{CONNECTIONS_FEW, CONNECTIONS_MAX, Failure, Proto, Settings};
use crate::io::{Effect, SocketError, StreamEvent};
use crate::stream::split_frame;
use crate::time::Instant;
use crate::tls::{self, Talk, TlsBroken, TlsClient};

/// Time until a connection stands, TLS included: two upstreams can be tried in what a query has.
pub(super) const CONNECT: Duration = Duration::from_secs(2);
/// Questions in flight by one connection before another is opened.
const PIPELINE: usize = 32;
/// Replies after which a connection has shown that it takes more than one question.
const PROVEN: u32 = 8;

/// How the streams of a stanza are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    expire: Duration,
    max_age: Option<Duration>,
    idle_max: usize,
}

impl Habits {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            expire: settings.expire,
            max_age: settings.max_age,
            idle_max: settings.idle_max.unwrap_or(usize::MAX),
        }
    }
}

/// The connections to one upstream.
#[derive(Debug)]
pub(super) struct Lines {
    connections: Vec<Key>,
    /// Questions in flight by one connection before another is opened: one, if the upstream closes after a reply.
    pipeline: usize,
}

impl Lines {
    pub(super) const fn new() -> Self {
        Self {
            connections: Vec::new(),
            pipeline: PIPELINE,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    pool: Key,
    is_probe: bool,
    /// It stands, and messages can be written.
    is_ready: bool,
    /// For what is in flight by it, and nothing else.
    is_retiring: bool,
    opened: Instant,
    /// When it was last written to or read from.
    used: Instant,
    ids: HashMap<u16, TaskKey, foldhash::fast::RandomState>,
    /// What came and is no whole message yet: never more than one message and one read.
    inbox: Vec<u8>,
    answered: u32,
    tls: Option<Box<TlsClient>>,
}

impl Connection {
    fn waiting(&self) -> Vec<TaskKey> {
        let mut waiting: Vec<_> = self.ids.values().copied().collect();
        // The table's order is nobody's business.
        waiting.sort_unstable();
        waiting
    }

    fn is_idle(&self) -> bool {
        self.is_ready && self.ids.is_empty()
    }
}

impl Forwarder {
    /// Gives a task's message to a connection of this pool; by when something must have come of it.
    pub(super) fn send_by_stream(
        &mut self,
        now: Instant,
        task: TaskKey,
        pool: Key,
        read: Duration,
    ) -> (Carrier, Instant) {
        let key = if self.is_probe(task) {
            self.open_connection(now, pool, true)
        } else {
            self.pick_connection(now, pool)
        };
        let connection = self.connections.get_mut(key).expect("picked just now");
        let id = loop {
            let id = self.random.random();
            if !connection.ids.contains_key(&id) {
                break id;
            }
        };
        connection.ids.insert(id, task);
        connection.used = now;
        let (is_ready, opened) = (connection.is_ready, connection.opened);
        if let Some(task) = self.tasks.get_mut(task) {
            task.framed.set_id(id);
        }
        if is_ready {
            self.write_frame(key, task);
        }
        let until = if is_ready {
            now.after(read)
        } else {
            opened.after(CONNECT)
        };
        (Carrier::Connection(key, id), until)
    }

    /// The one with the fewest questions in flight, or a new one where they have many.
    fn pick_connection(&mut self, now: Instant, key: Key) -> Key {
        self.tidy_connections(now, key);
        let pool = self.pools.get(key).expect("a task's pool");
        let measures = &pool.upstream.measures;
        let proto = match pool.upstream.transport {
            Transport::Plain => Proto::Tcp,
            Transport::Tls { .. } => Proto::TcpTls,
        };
        let lines = &pool.lines;
        let usable = lines.connections.iter().filter_map(|key| {
            let connection = self.connections.get(*key)?;
            (!connection.is_retiring && !connection.is_probe).then_some((connection.ids.len(), *key))
        });
        let count_max = if lines.pipeline == 1 {
            CONNECTIONS_MAX
        } else {
            CONNECTIONS_FEW
        };
        let least = usable.min_by_key(|(in_flight, _)| *in_flight);
        match least {
            Some((in_flight, key)) if in_flight < lines.pipeline || lines.connections.len() >= count_max => {
                measures.count_socket(proto, true);
                key
            }
            _ => {
                measures.count_socket(proto, false);
                self.open_connection(now, key, false)
            }
        }
    }

    fn open_connection(&mut self, now: Instant, key: Key, is_probe: bool) -> Key {
        let pool = self.pools.get_mut(key).expect("a task's pool");
        let connection = self.connections.insert(Connection {
            pool: key,
            is_probe,
            is_ready: false,
            is_retiring: false,
            opened: now,
            used: now,
            ids: HashMap::default(),
            inbox: Vec::new(),
            answered: 0,
            tls: None,
        });
        pool.lines.connections.push(connection);
        let open = Effect::OpenStream {
            stream: connection.stream(),
            to: pool.upstream.address(),
            from: pool.from,
        };
        self.effects.push(open, &[]);
        self.keep_house(now);
        connection
    }

    /// Something happened on a connection of our own.
    pub fn stream(&mut self, now: Instant, event: StreamEvent<'_>) {
        let key = |forwarder: &Self, stream| forwarder.connections.of_stream(stream);
        match event {
            StreamEvent::Opened { stream, .. } => {
                if let Some(key) = key(self, stream) {
                    self.opened(now, key);
                }
            }
            StreamEvent::Readable { stream, bytes, .. } => {
                if let Some(key) = key(self, stream) {
                    self.read(now, key, bytes);
                }
            }
            StreamEvent::Writable { .. } => {}
            StreamEvent::HalfClosed { stream } => {
                if let Some(key) = key(self, stream) {
                    self.break_connection(now, key, &Failure::Ended);
                }
            }
            StreamEvent::Closed { stream, error } => {
                if let Some(key) = key(self, stream) {
                    let how = error.map_or(Failure::Ended, Failure::Read);
                    self.connection_ended(now, key, &how);
                }
            }
        }
    }

    fn opened(&mut self, now: Instant, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let pool = self.pools.get(connection.pool).expect("a connection's pool");
        let Transport::Tls { config, name } = &pool.upstream.transport else {
            return self.ready(now, key);
        };
        match TlsClient::new(config.clone(), name.clone()) {
            Ok(tls) => connection.tls = Some(Box::new(tls)),
            Err(error) => {
                let how = Failure::Tls(error.to_string().into());
                return self.break_connection(now, key, &how);
            }
        }
        // It has the first word.
        self.read(now, key, &[]);
    }

    /// Messages can be written: those that wait are.
    fn ready(&mut self, now: Instant, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.is_ready = true;
        for task in connection.waiting() {
            self.write_frame(key, task);
            let read = self.read_timeout(task);
            self.set_due(task, Some(now.after(read)));
        }
    }

    fn write_frame(&mut self, key: Key, task: TaskKey) {
        let (Some(task), Some(connection)) = (self.tasks.get(task), self.connections.get_mut(key)) else {
            return;
        };
        let write = Effect::WriteStream { stream: key.stream() };
        match &mut connection.tls {
            None => self.effects.push(write, task.framed.frame()),
            // A connection that broke is told by what it reads.
            Some(tls) => self.effects.push_with(write, |out| {
                let _ = tls.seal(task.framed.frame(), out);
            }),
        }
    }

    fn read(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.used = now;
        let mut inbox = mem::take(&mut connection.inbox);
        let mut talk = Ok(Talk::GoesOn);
        let mut is_agreed = false;
        match &mut connection.tls {
            None => inbox.extend_from_slice(bytes),
            Some(tls) => {
                let write = Effect::WriteStream { stream: key.stream() };
                self.effects
                    .push_with(write, |out| talk = tls.open(bytes, &mut inbox, out));
                is_agreed = !connection.is_ready && !tls.is_handshaking();
            }
        }
        if is_agreed && talk.is_ok() {
            self.ready(now, key);
        }
        let mut at = 0;
        while let Some((message, len)) = split_frame(&inbox[at..]) {
            self.message(now, key, message);
            at += FRAME_LEN + len;
        }
        inbox.drain(..at);
        match (talk, self.connections.get_mut(key)) {
            (_, None) => {}
            (Ok(Talk::GoesOn), Some(connection)) => {
                // Most connections have nothing left over, so the memory goes back.
                connection.inbox = if inbox.is_empty() { Vec::new() } else { inbox };
            }
            (Ok(Talk::HasEnded), Some(_)) => self.break_connection(now, key, &Failure::Ended),
            (Err(TlsBroken), Some(connection)) => {
                let error = connection.tls.as_ref().and_then(|tls| tls.error());
                let text = error.map_or_else(|| "broken".to_owned(), tls::words);
                self.break_connection(now, key, &Failure::Tls(text.into()));
            }
        }
    }

    fn message(&mut self, now: Instant, key: Key, message: &[u8]) {
        let id = message.first_chunk().map(|id| u16::from_be_bytes(*id));
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let task = id.and_then(|id| connection.ids.get(&id).copied());
        connection.answered = connection.answered.saturating_add(u32::from(task.is_some()));
        if connection.answered == PROVEN
            && let Some(pool) = self.pools.get_mut(connection.pool)
        {
            pool.lines.pipeline = PIPELINE;
        }
        if !task.is_some_and(|task| self.heard(now, task, message)) {
            self.stats.forward.unasked.add(1);
        }
    }

    /// A task waits at this connection no more.
    pub(super) fn release_connection(&mut self, key: Key, id: u16, ended: Ended) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.ids.remove(&id);
        // What was not answered in time may be stuck, with all that is behind it.
        connection.is_retiring |= ended == Ended::GivenUp && connection.is_ready;
        if !connection.ids.is_empty() || !connection.is_ready && !connection.is_probe {
            return;
        }
        let Some(pool) = self.pools.get(connection.pool) else {
            return;
        };
        let is_idle = |key: &&Key| self.connections.get(**key).is_some_and(Connection::is_idle);
        let idle = pool.lines.connections.iter().filter(is_idle).count();
        if connection_is_over(self.connections.get(key)) || idle > pool.habits.idle_max {
            self.close_connection(key);
        }
    }

    /// Takes out a connection, and has it closed.
    fn close_connection(&mut self, key: Key) -> Option<Connection> {
        let mut connection = self.take_connection(key)?;
        let stream = key.stream();
        if let Some(tls) = connection.tls.as_mut().filter(|_| connection.is_ready) {
            // It is the end either way.
            self.effects.push_with(Effect::WriteStream { stream }, |out| {
                let _ = tls.end(out);
            });
        }
        self.effects.push(Effect::CloseStream { stream }, &[]);
        Some(connection)
    }

    fn take_connection(&mut self, key: Key) -> Option<Connection> {
        let connection = self.connections.remove(key)?;
        if let Some(pool) = self.pools.get_mut(connection.pool) {
            pool.lines.connections.retain(|other| *other != key);
        }
        Some(connection)
    }

    /// Ends a connection that is of no use any more.
    fn break_connection(&mut self, now: Instant, key: Key, how: &Failure) {
        if let Some(connection) = self.close_connection(key) {
            self.go_on_without(now, &connection, how);
        }
    }

    /// A connection is gone.
    fn connection_ended(&mut self, now: Instant, key: Key, how: &Failure) {
        if let Some(connection) = self.take_connection(key) {
            self.go_on_without(now, &connection, how);
        }
    }

    /// What was in flight by a connection that ended: asked again if it had answered others, else failed.
    fn go_on_without(&mut self, now: Instant, connection: &Connection, how: &Failure) {
        let waiting = connection.waiting();
        if connection.is_ready && connection.answered > 0 {
            if !waiting.is_empty()
                && let Some(pool) = self.pools.get_mut(connection.pool)
            {
                pool.lines.pipeline = 1;
            }
            return waiting
                .into_iter()
                .for_each(|task| self.move_on(now, task, how.clone()));
        }
        let how = match how {
            Failure::Read(error) if !connection.is_ready => Failure::Dial(*error),
            how => how.clone(),
        };
        let is_starved = how == Failure::Dial(SocketError::Exhausted);
        if is_starved {
            self.starve(now);
        }
        for task in waiting {
            if is_starved {
                self.move_on(now, task, how.clone());
            } else {
                self.fail(now, task, how.clone());
            }
        }
    }

    /// The time of a task that waits at a connection is over.
    pub(super) fn connection_late(&mut self, now: Instant, key: Key, task: TaskKey) {
        match self.connections.get(key) {
            Some(connection) if connection.is_ready => self.fail(now, task, Failure::TimedOut),
            Some(connection) if now >= connection.opened.after(CONNECT) => {
                self.break_connection(now, key, &Failure::DialTimedOut);
            }
            _ => self.fail(now, task, Failure::DialTimedOut),
        }
    }

    /// Closes the connections of a pool that are not to be used again.
    pub(super) fn tidy_connections(&mut self, now: Instant, key: Key) {
        let Some(pool) = self.pools.get(key) else { return };
        let Habits { expire, max_age, .. } = pool.habits;
        let mut over = Vec::new();
        for key in &pool.lines.connections {
            let Some(connection) = self.connections.get_mut(*key) else {
                continue;
            };
            connection.is_retiring |= max_age.is_some_and(|age| now.since(connection.opened) >= age);
            let is_stale = connection.is_retiring || now.since(connection.used) >= expire;
            // One that nobody waits for any more does not stand in time either.
            let is_stuck = !connection.is_ready && now >= connection.opened.after(CONNECT);
            if connection.ids.is_empty() && (connection.is_ready && is_stale || is_stuck) {
                over.push(*key);
            }
        }
        for key in over {
            self.close_connection(key);
        }
    }

    pub(super) fn is_connected(&self, key: Key) -> bool {
        self.connections.get(key).is_some_and(|connection| connection.is_ready)
    }

    /// The tasks that wait at the connections of a pool.
    pub(super) fn waiting_at_connections(&self, pool: Key) -> Vec<TaskKey> {
        let lines = self.pools.get(pool).map(|pool| &pool.lines.connections);
        let own = lines.into_iter().flatten();
        own.filter_map(|key| self.connections.get(*key))
            .flat_map(Connection::waiting)
            .collect()
    }
}

fn connection_is_over(connection: Option<&Connection>) -> bool {
    connection.is_some_and(|connection| connection.is_retiring || connection.is_probe)
}
