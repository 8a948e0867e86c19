//! What becomes of queries that need another server: the responder's part between the walk through a plan and the forwarder.

use std::sync::Arc;

use nodens_wire::{Message, Query};

use crate::answer::Answer;
use crate::forward::{self, Failed, Outgoing};
use crate::io::{Effect, UpstreamDatagram};
use crate::reply;
use crate::responder::{Asking, Now, Responder};
use crate::waiting::{Ask, Asker, Said, Ticket, Told, Waiting};

impl Responder {
    /// A query that has just come waits for another server.
    #[cold]
    pub(crate) fn wait(&mut self, now: &Now<'_>, asking: &Asking<'_, '_>, ask: Box<Ask>) {
        let asker = Asker::of(&asking.origin);
        if let Some(state) = asker.stream.and_then(|stream| self.streams.get_mut(stream)) {
            state.asking += 1;
        }
        let waiting = Box::new(Waiting {
            message: asking.query.packet().into(),
            asker,
            since: asking.since,
            told: Told::default(),
            ask,
        });
        self.ask_for(now, waiting);
    }

    /// Asks what a query wants to know. Where too many wait, or it has asked too much, it is told that nobody answers.
    fn ask_for(&mut self, now: &Now<'_>, mut waiting: Box<Waiting>) {
        while waiting.told.is_full() || self.waiting.is_full() {
            self.stats.waiting_limited.add(1);
            let said = Said::Failed(Arc::new(Failed::Crowded));
            waiting.told.push(&waiting.ask, said);
            match self.answer_again(now, &waiting) {
                None => return,
                Some(ask) => waiting.ask = ask,
            }
        }
        let (ask, client_is_stream) = (waiting.ask.clone(), waiting.asker.stream.is_some());
        let ticket = self.waiting.enter(waiting);
        let Ask {
            stanza,
            name,
            rtype,
            rclass,
            flags,
            dnssec_ok,
            udp_size,
        } = &*ask;
        let question = Outgoing {
            name: name.as_name(),
            rtype: *rtype,
            rclass: *rclass,
            flags: *flags,
            dnssec_ok: *dnssec_ok,
            udp_size: *udp_size,
            options: &[],
            client_is_stream,
        };
        self.forwarder.ask(now.clock.now, stanza, &question, ticket.0);
    }

    /// Queries wait for other servers.
    #[must_use]
    pub(crate) fn owes_answers(&self) -> bool {
        self.waiting.len() > 0
    }

    /// Another server replied over UDP.
    pub fn upstream(&mut self, now: &Now<'_>, reply: &UpstreamDatagram<'_>) {
        self.forwarder.datagram(now.clock.now, reply);
        self.go_on(now);
    }

    /// Queries that have been told what they asked go on.
    pub(crate) fn go_on(&mut self, now: &Now<'_>) {
        while let Some((ticket, result)) = self.forwarder.poll_done() {
            let Some(mut waiting) = self.waiting.leave(Ticket(ticket)) else {
                continue;
            };
            let said = self.said(result);
            waiting.told.push(&waiting.ask, said);
            if let Some(ask) = self.answer_again(now, &waiting) {
                waiting.ask = ask;
                self.ask_for(now, waiting);
            }
        }
    }

    fn said(&mut self, result: Result<forward::Reply, Failed>) -> Said {
        let reply = match result {
            Ok(reply) => reply,
            Err(failed) => return Said::Failed(Arc::new(failed)),
        };
        let mut kept = Vec::with_capacity(2 * reply.message.len());
        let read =
            Message::parse(&reply.message).and_then(|message| reply::keep(&message, &mut self.work.rdata, &mut kept));
        match read {
            Ok(()) => Said::Reply(kept.into()),
            // The forwarder has read it to its end, so there is no such reply.
            Err(_) => Said::Failed(Arc::new(Failed::Crowded)),
        }
    }

    /// A query goes through its plan again, knowing more; what it wants to know now, if that does not make its answer.
    fn answer_again(&mut self, now: &Now<'_>, waiting: &Waiting) -> Option<Box<Ask>> {
        let asker = &waiting.asker;
        if let Some(stream) = asker.stream {
            // Its client may be gone.
            self.streams.get_mut(stream)?;
        }
        let origin = asker.origin();
        let mut row = [0; 256];
        // It was read before.
        let query = Query::parse(&waiting.message).ok()?;
        let mut asking = Asking::new(query, origin, &mut row, now);
        asking.told = &waiting.told;
        asking.since = waiting.since;
        self.place(now, &mut asking);
        let mut room = self.take_message();
        let mut answer = Answer::new(std::mem::take(&mut self.memory));
        let result = self.respond(now, &asking, &mut room, &mut answer);
        // A zone that came while it waited is asked for again.
        let is_transfer = answer.transfer.is_some();
        self.memory = answer.into_memory();
        if let Ok(len) = result
            && !is_transfer
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
