//! What happens on the connections of clients: the responder's part between what a port reports and single messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::answer::Answer;
use crate::io::{Effect, Peer, StreamEvent, StreamId};
use crate::responder::{Now, Origin, Responder, append};
use crate::stream::{REPLIES_LEN_MAX, Stream, StreamLimits, split_frame};
use crate::tls::{Talk, Tls, TlsBroken};
use crate::transfer::Progress;

/// Memory for messages under TLS that is kept; a read seldom needs more.
const BUFFER_KEPT: usize = 2 * REPLIES_LEN_MAX;

/// What becomes of a connection that was read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Close,
}

impl Responder {
    /// Something happened on a connection: a client's, or one of our own to another server.
    pub fn stream(&mut self, now: &Now<'_>, event: StreamEvent<'_>) {
        if event.stream().is_ours() {
            self.forwarder.stream(now.clock.now, event);
        } else {
            self.client_stream(now, event);
        }
        self.go_on(now);
    }

    fn client_stream(&mut self, now: &Now<'_>, event: StreamEvent<'_>) {
        match event {
            StreamEvent::Opened {
                stream,
                listener,
                peer,
                local,
            } => {
                let settings = now.config.listeners.get(usize::from(listener.0));
                let limits = settings.map_or_else(StreamLimits::default, |listener| listener.streams);
                let tls = match settings.and_then(|listener| listener.tls.as_deref()).map(Tls::new) {
                    Some(Ok(tls)) => Some(Box::new(tls)),
                    None => None,
                    Some(Err(TlsBroken)) => {
                        self.stats.tls_handshakes_failed.add(1);
                        return self.effect(Effect::CloseStream { stream }, &[]);
                    }
                };
                let origin = (listener, Peer::from_socket_addr(peer), local.ip());
                if let Some((idle, state)) = self.streams.opened(now.clock.now, stream, origin, limits, tls) {
                    self.stats.streams_limited.add(1);
                    self.close(idle, Some(state));
                }
            }
            StreamEvent::Readable { stream, bytes, reply } => {
                let then = self.read(now, stream, bytes, reply);
                self.close_if_done(stream, then);
            }
            StreamEvent::Writable { stream } => {
                let paused = self
                    .streams
                    .get_mut(stream)
                    .is_some_and(|state| std::mem::take(&mut state.is_paused));
                if paused {
                    let mut reply = Vec::new();
                    let then = self.read(now, stream, &[], &mut reply);
                    self.effect(Effect::WriteStream { stream }, &reply);
                    let still = self.streams.get_mut(stream).is_some_and(|state| state.is_paused);
                    if then == Then::GoOn && !still {
                        self.effect(Effect::PauseStream { stream, paused: false }, &[]);
                    }
                    self.close_if_done(stream, then);
                }
            }
            StreamEvent::HalfClosed { stream } => {
                if let Some(state) = self.streams.get_mut(stream) {
                    state.is_half_closed = true;
                }
                self.close_if_done(stream, Then::GoOn);
            }
            StreamEvent::Closed { stream, .. } => {
                if self.streams.remove(stream).is_some_and(|state| is_half_way(&state)) {
                    self.stats.tls_handshakes_failed.add(1);
                }
            }
        }
    }

    /// Writes the answer to a query that has waited; none at all for one that was dropped.
    pub(crate) fn write_late(&mut self, now: &Now<'_>, stream: StreamId, message: &[u8]) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.asking -= 1;
        let idle = now.clock.now.after(state.patience());
        let mut tls = state.tls.take();
        let mut then = Then::GoOn;
        if !message.is_empty() {
            let mut reply = Vec::with_capacity(2 + message.len());
            append(&mut reply, message);
            if let Some(tls) = &mut tls {
                let mut sealed = Vec::new();
                let is_sealed = self.guarded(|| tls.seal(&reply, &mut sealed));
                if is_sealed.is_err() {
                    then = Then::Close;
                }
                reply = sealed;
            }
            self.effect(Effect::WriteStream { stream }, &reply);
        }
        if let Some(state) = self.streams.get_mut(stream) {
            state.tls = tls;
        }
        self.streams.extend(stream, idle);
        self.close_if_done(stream, then);
    }

    /// Closes a connection that has had its queries, or whose client sends no more and has been answered.
    fn close_if_done(&mut self, stream: StreamId, then: Then) {
        let is_done = |state: &mut Stream| state.is_half_closed && !state.is_paused && state.asking == 0;
        if then == Then::Close || self.streams.get_mut(stream).is_some_and(is_done) {
            let state = self.streams.remove(stream);
            self.close(stream, state);
        }
    }

    /// Closes a connection from our side.
    fn close(&mut self, stream: StreamId, state: Option<Stream>) {
        if let Some(mut state) = state {
            self.stats.tls_handshakes_failed.add(u64::from(is_half_way(&state)));
            if let Some(tls) = &mut state.tls {
                let mut goodbye = Vec::new();
                // It is the end either way.
                let _ = self.guarded(|| tls.end(&mut goodbye));
                self.effect(Effect::WriteStream { stream }, &goodbye);
            }
        }
        self.effect(Effect::CloseStream { stream }, &[]);
    }

    /// Answers what has come, and puts the answers under TLS where the connection has it.
    fn read(&mut self, now: &Now<'_>, stream: StreamId, bytes: &[u8], reply: &mut Vec<u8>) -> Then {
        let Some(mut tls) = self.streams.get_mut(stream).and_then(|state| state.tls.take()) else {
            return self.messages(now, stream, bytes, reply);
        };
        let mut opened = std::mem::take(&mut self.work.opened);
        let mut answers = std::mem::take(&mut self.work.answers);
        let was_handshaking = tls.is_handshaking();
        let result = self.guarded(|| tls.open(bytes, &mut opened, reply)).and_then(|client| {
            let then = self.messages(now, stream, &opened, &mut answers);
            self.guarded(|| tls.seal(&answers, reply))?;
            Ok((client, then))
        });
        if was_handshaking && !tls.is_handshaking() {
            self.stats.tls_handshakes.add(1);
        }
        for buffer in [&mut opened, &mut answers] {
            buffer.clear();
            buffer.shrink_to(BUFFER_KEPT);
        }
        (self.work.opened, self.work.answers) = (opened, answers);
        let Some(state) = self.streams.get_mut(stream) else {
            return Then::GoOn;
        };
        match result {
            Ok((client, then)) => {
                state.tls = Some(tls);
                state.is_half_closed |= client == Talk::HasEnded;
                then
            }
            Err(TlsBroken) => {
                self.stats.tls_handshakes_failed.add(u64::from(tls.is_handshaking()));
                Then::Close
            }
        }
    }

    /// What hostile bytes may do to TLS costs a connection and not the worker.
    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, TlsBroken>) -> Result<T, TlsBroken> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            self.stats.panics.add(1);
            Err(TlsBroken)
        })
    }

    /// Answers all whole messages that have come, until their answers are enough for one write.
    fn messages(&mut self, now: &Now<'_>, stream: StreamId, bytes: &[u8], reply: &mut Vec<u8>) -> Then {
        let Some(state) = self.streams.get_mut(stream) else {
            return Then::GoOn;
        };
        let (peer, limits, mut queries) = (state.peer, state.limits, state.queries);
        let origin = Origin {
            listener: state.listener,
            peer: &peer,
            local: Some(state.local),
            stream: Some(stream),
            is_encrypted: state.is_encrypted,
            keepalive: u16::try_from(limits.idle.as_millis() / 100).unwrap_or(u16::MAX),
        };
        let mut rest = bytes;
        let mut came = false;
        let mut full = false;
        let mut stuck = false;
        let mut transfer = state.transfer.take();
        let whole_before = state.is_between_messages();
        let mut waiting = None;
        if !whole_before || state.is_paused {
            state.push(bytes);
            waiting = Some(state.take_pending());
            rest = &[];
        }
        let mut answer = Answer::new(std::mem::take(&mut self.memory));
        let mut source = waiting.as_deref().unwrap_or(rest);
        loop {
            if let Some(zone) = &mut transfer {
                came = true;
                match self.part(zone, reply) {
                    Progress::Last(_) => transfer = None,
                    // One message a turn: other clients must not wait for a whole zone.
                    Progress::More(_) => full = true,
                    Progress::Stuck => stuck = true,
                }
            }
            if full || stuck || queries >= limits.queries_max {
                break;
            }
            let Some((message, len)) = split_frame(source) else {
                break;
            };
            if reply.len() >= REPLIES_LEN_MAX {
                full = true;
                break;
            }
            came = true;
            queries += 1;
            transfer = self.message(now, origin, message, reply, &mut answer);
            source = &source[2 + len..];
        }
        self.memory = answer.into_memory();
        let Some(state) = self.streams.get_mut(stream) else {
            return Then::GoOn;
        };
        state.queries = queries;
        if stuck || (queries >= limits.queries_max && transfer.is_none()) {
            // It takes no more, but what waits for other servers is still answered.
            state.is_half_closed = true;
            return if state.asking > 0 && !stuck {
                Then::GoOn
            } else {
                Then::Close
            };
        }
        state.push(source);
        state.transfer = transfer;
        state.is_paused |= full;
        if full {
            self.effect(Effect::PauseStream { stream, paused: true }, &[]);
            self.streams.extend(stream, now.clock.now.after(limits.write));
        } else if came {
            let idle = now.clock.now.after(state.patience());
            self.streams.extend(stream, idle);
        }
        Then::GoOn
    }

    /// Time has passed: closes connections that have been silent too long, and asks other servers again.
    pub fn timeout(&mut self, now: &Now<'_>) {
        while let Some((stream, state)) = self.streams.expire(now.clock.now) {
            self.close(stream, Some(state));
        }
        self.lose_patience(now);
        self.forwarder.timeout(now.clock.now);
        self.go_on(now);
    }
}

/// The client began a handshake that has not ended.
fn is_half_way(state: &Stream) -> bool {
    state.tls.as_ref().is_some_and(|tls| tls.is_half_way())
}
