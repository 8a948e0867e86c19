//! What becomes of queries that need another server: the responder's part between the walk through a plan and the forwarder.
//!
//! ```text
//!   walk ── wants ──> claim ── the first ──> forwarder ── reply ──> walk again ──> answer, kept in the cache
//!                       └───── the others ───── wait ──────┘ the same reply
//! ```

use std::sync::Arc;

use nodens_wire::{Flags, Query};

use crate::answer::Answer;
use crate::cache::flight::{Claim, News};
use crate::cache::{Found, Kind, rules};
use crate::forward::{self, Failed, Outgoing};
use crate::io::{Effect, UpstreamDatagram};
use crate::reply::{self, Reply};
use crate::responder::{Asking, Now, Responder};
use crate::time::Instant;
use crate::waiting::{Ask, Asker, Merge, Mode, Said, Ticket, Told, Waiting};

impl Responder {
    /// A query that has just come waits for another server.
    #[cold]
    pub(crate) fn wait(&mut self, now: &Now<'_>, asking: &Asking<'_, '_>, ask: Arc<Ask>) {
        let waiting = Self::waiting(asking, Mode::Asked, ask);
        if let Some(state) = waiting.asker.stream.and_then(|stream| self.streams.get_mut(stream)) {
            state.asking += 1;
        }
        self.ask_for(now, waiting);
    }

    /// What was shown to the asker is made new behind him.
    #[cold]
    pub(crate) fn refresh(&mut self, now: &Now<'_>, asking: &Asking<'_, '_>) {
        if self.waiting.is_full() {
            self.stats.waiting_limited.add(1);
            return;
        }
        let told = Told::new(Mode::Refresh);
        let asker = Asker::of(&asking.origin);
        if let Some(ask) = self.walk_again(now, asking.query.packet(), &asker, &told, asking.since) {
            self.ask_for(now, Self::waiting(asking, Mode::Refresh, ask));
        }
    }

    fn waiting(asking: &Asking<'_, '_>, mode: Mode, ask: Arc<Ask>) -> Box<Waiting> {
        Box::new(Waiting {
            message: asking.query.packet().into(),
            asker: Asker::of(&asking.origin),
            since: asking.since,
            told: Told::new(mode),
            ask,
            token: None,
            is_looked_up: false,
        })
    }

    /// Asks what a query wants to know. Where too many wait, or it has asked too much or for too long, it is told that
    /// nobody answers.
    fn ask_for(&mut self, now: &Now<'_>, mut waiting: Box<Waiting>) {
        loop {
            let failed = if waiting.is_cancelled(now.clock.now) {
                Failed::Cancelled
            } else if waiting.is_overdue(now.clock.now) {
                self.stats.waiting_limited.add(1);
                Failed::Overdue
            } else if waiting.told.is_full() || self.waiting.is_full() {
                self.stats.waiting_limited.add(1);
                Failed::Crowded
            } else {
                break;
            };
            waiting.hear(Said::Failed(Arc::new(failed)));
            match self.answer_again(now, &waiting) {
                None => return,
                Some(ask) => waiting.ask = ask,
            }
        }
        let (merge, mode, cancelled_at) = (waiting.ask.merge, waiting.told.mode, waiting.cancelled_at());
        let patience = waiting.ask.patience.filter(|_| mode == Mode::Asked);
        let late_at = patience.map(|patience| now.clock.now.after(patience));
        let was_looked_up = std::mem::replace(&mut waiting.is_looked_up, true);
        let ticket = self.waiting.enter(waiting);
        if let Some(at) = late_at.into_iter().chain(cancelled_at).min() {
            self.waiting.expect(ticket, at);
        }
        match merge.map(|merge| self.claim(ticket, merge)) {
            Some(Claim::Wait) if mode == Mode::Refresh => {
                // Somebody else makes it new.
                self.waiting.leave(ticket);
            }
            Some(Claim::Wait) => {}
            Some(Claim::Mine(token)) => {
                // The answer may have come since it was looked for.
                if !was_looked_up && self.is_kept(now, ticket, merge) {
                    drop(token);
                    if let Some(mut waiting) = self.waiting.leave(ticket) {
                        waiting.told.walks_again();
                        self.walk_on(now, waiting);
                    }
                    return;
                }
                if let Some(waiting) = self.waiting.get_mut(ticket) {
                    waiting.token = Some(token);
                }
                self.ask(now, ticket);
            }
            Some(Claim::Alone) | None => self.ask(now, ticket),
        }
    }

    fn ask(&mut self, now: &Now<'_>, ticket: Ticket) {
        let Some(waiting) = self.waiting.get_mut(ticket) else {
            return;
        };
        let Ask {
            stanza,
            name,
            rtype,
            rclass,
            flags,
            dnssec_ok,
            udp_size,
            options,
            canary,
            ..
        } = &*waiting.ask;
        let question = Outgoing {
            name: name.as_name(),
            rtype: *rtype,
            rclass: *rclass,
            flags: *flags,
            dnssec_ok: *dnssec_ok,
            udp_size: *udp_size,
            options,
            client_is_stream: waiting.asker.stream.is_some(),
            since: waiting.since,
            canary: canary.as_ref(),
        };
        self.forwarder.ask(now.clock.now, stanza, &question, ticket.0);
    }

    fn claim(&mut self, ticket: Ticket, merge: Merge) -> Claim {
        let (Some((flights, worker)), Some(waiting)) = (&self.flights, self.waiting.get_mut(ticket)) else {
            return Claim::Alone;
        };
        let folded = waiting.ask.name.clone().folded();
        flights.claim(
            merge.hash,
            &waiting.ask.key(merge, folded.as_bytes()),
            *worker,
            ticket.0,
        )
    }

    /// Whether a fresh answer is in the cache now.
    fn is_kept(&mut self, now: &Now<'_>, ticket: Ticket, merge: Option<Merge>) -> bool {
        let (Some(slab), Some(merge), Some(waiting)) = (&now.config.cache, merge, self.waiting.get_mut(ticket)) else {
            return false;
        };
        let folded = waiting.ask.name.clone().folded();
        let key = waiting.ask.key(merge, folded.as_bytes());
        let is_fresh = |found: &Found| rules::fresh_secs(found, now.clock.now).is_some();
        let found = slab.get(merge.hash, &key, &mut self.work.rdata, |success, denial| {
            let success = success.filter(|found| is_fresh(found)).map(|_| Kind::Success);
            success.or_else(|| denial.filter(|found| is_fresh(found)).map(|_| Kind::Denial))
        });
        found.is_some()
    }

    /// Queries wait for other servers.
    pub(crate) fn owes_answers(&self) -> bool {
        self.waiting.len() > 0
    }

    /// Another server replied over UDP. Returns whether more is waited for by that socket.
    pub fn upstream(&mut self, now: &Now<'_>, reply: &UpstreamDatagram<'_>) -> bool {
        let more = self.forwarder.datagram(now.clock.now, reply);
        self.go_on(now);
        more
    }

    /// Queries that have been told what they asked go on.
    pub(crate) fn go_on(&mut self, now: &Now<'_>) {
        while self.end_asks(now) | self.take_news(now) {}
    }

    fn end_asks(&mut self, now: &Now<'_>) -> bool {
        let mut came = false;
        while let Some((ticket, result)) = self.forwarder.poll_done() {
            came = true;
            let Some(mut waiting) = self.waiting.leave(Ticket(ticket)) else {
                continue;
            };
            let said = match result {
                Ok(forward::Reply { bytes, from }) => Said::Reply {
                    bytes,
                    from: Some(from),
                },
                Err(failed) => Said::Failed(Arc::new(failed)),
            };
            waiting.hear(said.clone());
            let token = waiting.token.take();
            self.walk_on(now, waiting);
            if let Some(token) = token {
                token.land(&news(&said));
            }
        }
        came
    }

    /// What others were told that this worker's queries wait for.
    fn take_news(&mut self, now: &Now<'_>) -> bool {
        let Some((flights, worker)) = self.flights.clone() else {
            return false;
        };
        let mut came = false;
        for landed in flights.take(worker) {
            came = true;
            let Some(mut waiting) = self.waiting.leave(Ticket(landed.ticket)) else {
                continue;
            };
            match landed.news {
                News::Reply(bytes) => {
                    let said = Said::Reply { bytes, from: None };
                    waiting.hear(said);
                    self.walk_on(now, waiting);
                }
                News::Ask => {
                    Arc::make_mut(&mut waiting.ask).merge = None;
                    self.ask_for(now, waiting);
                }
                News::Again => self.ask_for(now, waiting),
            }
        }
        came
    }

    /// Those that have waited long enough are given an old answer, and what they asked for is still awaited; or they are
    /// given up.
    pub(crate) fn lose_patience(&mut self, now: &Now<'_>) {
        while let Some(ticket) = self.waiting.take_due(now.clock.now) {
            let Some(waiting) = self.waiting.get_mut(ticket) else {
                continue;
            };
            if waiting.is_cancelled(now.clock.now) {
                self.give_up(now, ticket);
                continue;
            }
            let asker = waiting.asker;
            let message = waiting.message.clone();
            let late = std::mem::take(&mut waiting.told).into_mode(Mode::Late);
            let since = waiting.since;
            let wants = self.walk_again(now, &message, &asker, &late, since);
            if let Some(waiting) = self.waiting.get_mut(ticket) {
                waiting.told = late.into_mode(match wants {
                    None => Mode::Refresh,
                    Some(_) => Mode::Asked,
                });
                if let Some(at) = waiting.cancelled_at() {
                    self.waiting.expect(ticket, at);
                }
            }
        }
    }

    /// A query has waited longer than `cancel` lets it.
    fn give_up(&mut self, now: &Now<'_>, ticket: Ticket) {
        self.forwarder.cancel(ticket.0);
        if let Some(mut waiting) = self.waiting.leave(ticket) {
            // Others that wait for the same ask anew.
            waiting.token = None;
            waiting.hear(Said::Failed(Arc::new(Failed::Cancelled)));
            self.walk_on(now, waiting);
        }
    }

    /// A query that knows more walks through its plan again, and asks what it wants to know now.
    fn walk_on(&mut self, now: &Now<'_>, mut waiting: Box<Waiting>) {
        if let Some(ask) = self.answer_again(now, &waiting) {
            if ask != waiting.ask {
                waiting.is_looked_up = false;
            }
            waiting.ask = ask;
            self.ask_for(now, waiting);
        }
    }

    fn answer_again(&mut self, now: &Now<'_>, waiting: &Waiting) -> Option<Arc<Ask>> {
        let Waiting {
            message,
            asker,
            told,
            since,
            ..
        } = waiting;
        self.walk_again(now, message, asker, told, *since)
    }

    /// A query walks through its plan again; what it wants to know now, if that does not make its answer.
    fn walk_again(
        &mut self,
        now: &Now<'_>,
        message: &[u8],
        asker: &Asker,
        told: &Told,
        since: Instant,
    ) -> Option<Arc<Ask>> {
        let is_awaited = told.mode != Mode::Refresh;
        if let Some(stream) = asker.stream.filter(|_| is_awaited) {
            // Its client may be gone.
            self.streams.get_mut(stream)?;
        }
        let origin = asker.origin();
        let mut row = [0; 256];
        // It was read before.
        let query = Query::parse(message).ok()?;
        let mut asking = Asking::new(query, origin, &mut row, now);
        asking.told = told;
        asking.since = since;
        self.place(now, &mut asking);
        let mut room = self.take_message();
        let mut answer = Answer::new(std::mem::take(&mut self.memory));
        let result = self.respond(now, &asking, &mut room, &mut answer);
        // A zone that came while it waited is asked for again.
        let is_transfer = answer.transfer.is_some();
        self.memory = answer.into_memory();
        if let Ok(len) = result
            && !is_transfer
            && is_awaited
        {
            self.deliver(now, asker, &room[..len]);
        }
        self.work.message = room;
        result.err()
    }

    /// Sends a late answer; an empty one ends the waiting.
    fn deliver(&mut self, now: &Now<'_>, asker: &Asker, reply: &[u8]) {
        match asker.stream {
            Some(stream) => self.write_late(now, stream, reply),
            None if reply.is_empty() => {}
            None => {
                let (listener, peer, local) = asker.datagram();
                self.effect(Effect::Send { listener, peer, local }, reply);
            }
        }
    }
}

/// What others are told that asked the same.
fn news(said: &Said) -> News {
    match said {
        Said::Reply { bytes, .. } if Reply::new(bytes).flags().tc() => News::Ask,
        Said::Reply { bytes, .. } => News::Reply(Arc::clone(bytes)),
        Said::Failed(failed) => {
            let mut kept = Vec::new();
            reply::keep_bare(failed.rcode(), Flags(0), &mut kept);
            News::Reply(kept.into())
        }
    }
}
