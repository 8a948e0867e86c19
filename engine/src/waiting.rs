//! Queries that wait for other servers.
//!
//! A query that needs another server's answer is put here as it came, with what it has been told so far, and gives the
//! worker back. When the answer comes it goes through its plan again from the beginning, and where it asked before it finds
//! what it was told. So no step has to remember where it was, nothing of the old data is pinned, and the answer is made of
//! the data and the configuration of the moment at which it is sent.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nodens_wire::{Flags, Name, NameBuf, Rclass, Rtype};
use smallvec::SmallVec;

use crate::cache::Key;
use crate::cache::flight::Token;
use crate::forward::{BUDGET, Canary, Failed, Stanza};
use crate::io::{ListenerId, Peer, StreamId};
use crate::responder::Origin;
use crate::time::Instant;

/// Queries of one worker that wait. One more is SERVFAIL.
pub const WAITING_MAX: usize = 16_384;
/// What one query may ask other servers. One thing more is SERVFAIL.
pub const TOLD_MAX: usize = 64;

/// What a query asked another server: equal things are asked once.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The stanza that was asked.
    pub(crate) stanza: Arc<Stanza>,
    /// In the letter case in which it is asked.
    pub(crate) name: NameBuf,
    pub(crate) rtype: Rtype,
    pub(crate) rclass: Rclass,
    /// Opcode, RD, CD, AD.
    pub(crate) flags: Flags,
    pub(crate) dnssec_ok: bool,
    pub(crate) udp_size: u16,
    /// EDNS options in wire form.
    pub(crate) options: Box<[u8]>,
    /// Equal questions are asked once; where the cache was looked at, it keeps the answer.
    pub(crate) merge: Option<Merge>,
    /// After this time there is an old answer instead.
    pub(crate) patience: Option<Duration>,
    /// So long after the query came it is given up: the block's word, put in at the end of the walk.
    pub(crate) cancel: Option<Duration>,
    /// It is to be told where the question goes.
    pub(crate) canary: Option<Arc<Canary>>,
}

/// Where the cache keeps the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) hash: u64,
    pub(crate) block: u32,
}

impl Ask {
    /// Under what the cache keeps the answer; `folded` is the name in lower case.
    pub(crate) fn key<'k>(&self, merge: Merge, folded: &'k [u8]) -> Key<'k> {
        self.matter().key(merge.block, folded)
    }

    fn matter(&self) -> Matter<'_> {
        Matter {
            stanza: &self.stanza,
            name: self.name.as_name(),
            rtype: self.rtype,
            rclass: self.rclass,
            flags: self.flags,
            dnssec_ok: self.dnssec_ok,
            options: &self.options,
        }
    }
}

/// What makes two of them equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matter<'a> {
    pub(crate) stanza: &'a Arc<Stanza>,
    pub(crate) name: Name<'a>,
    pub(crate) rtype: Rtype,
    pub(crate) rclass: Rclass,
    pub(crate) flags: Flags,
    pub(crate) dnssec_ok: bool,
    pub(crate) options: &'a [u8],
}

impl Matter<'_> {
    /// Its key in a block; `folded` is the name in lower case.
    pub(crate) fn key<'k>(&self, block: u32, folded: &'k [u8]) -> Key<'k> {
        Key {
            block,
            name: folded,
            rtype: self.rtype,
            rclass: self.rclass,
            dnssec_ok: self.dnssec_ok,
            checking_disabled: self.flags.cd(),
        }
    }
}

impl PartialEq for Matter<'_> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.stanza, other.stanza)
            && (self.rtype, self.rclass, self.flags, self.dnssec_ok)
                == (other.rtype, other.rclass, other.flags, other.dnssec_ok)
            && (self.name, self.options) == (other.name, other.options)
    }
}

impl PartialEq for Ask {
    fn eq(&self, other: &Self) -> bool {
        self.matter() == other.matter()
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The reply, as [`crate::reply`] keeps it.
    Reply {
        bytes: Arc<[u8]>,
        /// Who said it; not known where another query asked for it.
        from: Option<SocketAddr>,
    },
    /// There is none.
    Failed(Arc<Failed>),
}

/// What a walk through the plan is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A client waits.
    #[default]
    Asked,
    /// He waited long enough: an old answer will do.
    Late,
    /// Nobody waits; what is kept is to be made new.
    Refresh,
}

/// What a query was told, in the order in which it asked.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Nearly all ask one thing.
    said: SmallVec<[(Arc<Ask>, Said); 1]>,
    pub(crate) mode: Mode,
    /// The query has gone through its plan before, whatever it was told since.
    has_walked: bool,
}

/// For a query that has not waited.
pub(crate) static NOTHING: Told = Told::new(Mode::Asked);

impl Told {
    /// Nothing yet.
    pub(crate) const fn new(mode: Mode) -> Self {
        Self {
            said: SmallVec::new_const(),
            mode,
            has_walked: false,
        }
    }

    /// The query goes through its plan again without having been told anything: there is something in the cache now.
    pub(crate) fn walks_again(&mut self) {
        self.has_walked = true;
    }

    /// The same, for another walk.
    pub(crate) fn into_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The query has not waited yet: what steps count is counted now, and not again.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.has_walked && self.mode == Mode::Asked
    }

    pub(crate) fn is_full(&self) -> bool {
        self.said.len() >= TOLD_MAX
    }

    pub(crate) fn of(&self, matter: &Matter<'_>) -> Option<&Said> {
        let found = self.said.iter().find(|(asked, _)| asked.matter() == *matter);
        found.map(|(_, said)| said)
    }

    pub(crate) fn push(&mut self, ask: Arc<Ask>, said: Said) {
        self.said.push((ask, said));
        self.has_walked = true;
    }
}

/// Whom the answer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    listener: ListenerId,
    peer: Peer,
    local: Option<IpAddr>,
    pub(crate) stream: Option<StreamId>,
    is_encrypted: bool,
    keepalive: u16,
}

impl Asker {
    pub(crate) fn of(origin: &Origin<'_>) -> Self {
        let Origin {
            listener,
            peer,
            local,
            stream,
            is_encrypted,
            keepalive,
        } = *origin;
        Self {
            listener,
            peer: *peer,
            local,
            stream,
            is_encrypted,
            keepalive,
        }
    }

    /// Where a datagram goes: by which socket, to whom, from which address.
    pub(crate) fn datagram(&self) -> (ListenerId, Peer, Option<IpAddr>) {
        (self.listener, self.peer, self.local)
    }

    pub(crate) fn origin(&self) -> Origin<'_> {
        let Self {
            listener,
            ref peer,
            local,
            stream,
            is_encrypted,
            keepalive,
        } = *self;
        Origin {
            listener,
            peer,
            local,
            stream,
            is_encrypted,
            keepalive,
        }
    }
}

/// Bytes of most queries, and more.
const MESSAGE_FEW: usize = 96;

/// A query that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// As it came.
    pub(crate) message: SmallVec<[u8; MESSAGE_FEW]>,
    pub(crate) asker: Asker,
    /// When it came.
    pub(crate) since: Instant,
    pub(crate) told: Told,
    /// What it waits for.
    pub(crate) ask: Arc<Ask>,
    /// Others wait for the same.
    pub(crate) token: Option<Token>,
    /// It was looked up once more when it was the first to ask.
    pub(crate) is_looked_up: bool,
}

impl Waiting {
    /// It is told what it waits for.
    pub(crate) fn hear(&mut self, said: Said) {
        self.told.push(Arc::clone(&self.ask), said);
    }

    /// One query is to have an answer in the time that one question to other servers may take: where it has asked for so long,
    /// it asks nothing more.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !self.told.said.is_empty() && now.since(self.since) >= BUDGET
    }

    /// When it is given up; what nobody waits for is not.
    pub(crate) fn cancelled_at(&self) -> Option<Instant> {
        let cancel = self.ask.cancel.filter(|_| self.told.mode == Mode::Asked)?;
        Some(self.since.after(cancel))
    }

    /// Whether that time has come.
    pub(crate) fn is_cancelled(&self, now: Instant) -> bool {
        self.cancelled_at().is_some_and(|at| at <= now)
    }
}

/// A place among those that wait, and whose it is: a place that was given to another is not found by an old number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

impl Ticket {
    fn turn(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

#[derive(Debug)]
struct Place {
    /// How often it was taken.
    turn: u32,
    waiting: Option<Box<Waiting>>,
    /// As it stands among those that are due.
    due: Option<Instant>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    places: Vec<Place>,
    free: Vec<u32>,
    /// When the patience of some ends, or the time of others. Each stands there once.
    due: BTreeSet<(Instant, Ticket)>,
}

impl WaitingRoom {
    /// Queries that wait.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= WAITING_MAX
    }

    /// Puts one in. Whoever does has seen that the room is not full.
    pub(crate) fn enter(&mut self, waiting: Box<Waiting>) -> Ticket {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                turn: 0,
                waiting: None,
                due: None,
            });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.turn = place.turn.wrapping_add(1);
        place.waiting = Some(waiting);
        Ticket(u64::from(place.turn) << 32 | u64::from(at))
    }

    /// Has one be [`due`](Self::take_due) at a time, unless it left before.
    pub(crate) fn expect(&mut self, ticket: Ticket, at: Instant) {
        let Some(place) = self.places.get_mut(ticket.place()) else {
            return;
        };
        if let Some(before) = place.due.replace(at) {
            self.due.remove(&(before, ticket));
        }
        self.due.insert((at, ticket));
    }

    /// When the time of the next one comes.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next one whose time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Ticket> {
        self.deadline().filter(|at| *at <= now)?;
        let (_, ticket) = self.due.pop_first()?;
        self.places[ticket.place()].due = None;
        Some(ticket)
    }

    /// One that waits.
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiting> {
        let place = self
            .places
            .get_mut(ticket.place())
            .filter(|place| place.turn == ticket.turn())?;
        place.waiting.as_deref_mut()
    }

    /// Takes one out.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Box<Waiting>> {
        let place = self
            .places
            .get_mut(ticket.place())
            .filter(|place| place.turn == ticket.turn())?;
        let waiting = place.waiting.take()?;
        if let Some(at) = place.due.take() {
            self.due.remove(&(at, ticket));
        }
        self.free.push(ticket.place() as u32);
        Some(waiting)
    }
}
