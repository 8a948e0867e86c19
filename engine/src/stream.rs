//! DNS over a stream, without the stream: framing, pipelining, limits and time-outs (RFC 7766).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use bytes::BytesMut;
use hashbrown::HashMap;

use crate::io::{ListenerId, Peer, StreamId};
use crate::time::Instant;
use crate::tls::Tls;
use crate::transfer::Transfer;

/// Connections of one worker. One more, and the one that has been idle longest is closed.
pub const STREAMS_MAX: usize = 2048;
/// Unless the listener says otherwise, the first query must have come in this time.
pub const FIRST_QUERY: Duration = Duration::from_secs(3);
/// The next one in this.
pub const IDLE: Duration = Duration::from_secs(10);
/// And answers that are waiting for their reader must have been taken in this.
pub const WRITE: Duration = Duration::from_secs(5);
/// A connection that waits for other servers stays this long at least.
const ANSWER: Duration = Duration::from_secs(60);
/// Bytes of answers to one read; what is asked beyond waits until they have been taken.
pub const REPLIES_LEN_MAX: usize = 64 * 1024;

/// What a listener grants each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Time for the first query, and for the handshake before it.
    pub first_query: Duration,
    /// Time for each one after it.
    pub idle: Duration,
    /// Time to take the answers that others wait behind.
    pub write: Duration,
    /// Queries until it is closed.
    pub queries_max: u64,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            first_query: FIRST_QUERY,
            idle: IDLE,
            write: WRITE,
            queries_max: u64::MAX,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) listener: ListenerId,
    pub(crate) peer: Peer,
    pub(crate) local: IpAddr,
    /// What stands between its bytes and its messages, unless they are the same. Not here while it is in use.
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) is_encrypted: bool,
    pub(crate) limits: StreamLimits,
    /// Queries that have come.
    pub(crate) queries: u64,
    /// What has come and is not a whole message yet, or waits for room for its answer.
    pending: BytesMut,
    /// When the next whole message must have come, or the answers have been taken.
    deadline: Instant,
    /// Where it stands in [`Streams::due`]: not behind `deadline`, but it may be before it.
    noted: Instant,
    /// The client does not read; its messages wait.
    pub(crate) is_paused: bool,
    /// A zone on its way to the client; what was asked behind it waits.
    pub(crate) transfer: Option<Box<Transfer>>,
    /// Its queries that wait for other servers.
    pub(crate) asking: usize,
    /// The client will send no more.
    pub(crate) is_half_closed: bool,
}

impl Stream {
    /// How long it may stay silent: as long as its client is granted, and while it owes answers.
    pub(crate) fn patience(&self) -> Duration {
        if self.asking > 0 {
            self.limits.idle.max(ANSWER)
        } else {
            self.limits.idle
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    pub(crate) fn is_between_messages(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes all that waits.
    pub(crate) fn take_pending(&mut self) -> BytesMut {
        self.pending.split()
    }
}

/// The first whole message of `bytes`, without its length, and the length.
pub(crate) fn split_frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let len = usize::from(u16::from_be_bytes(*len));
    Some((rest.get(..len)?, len))
}

/// The connections of a worker.
#[derive(Debug)]
pub(crate) struct Streams {
    open: HashMap<StreamId, Stream, foldhash::fast::RandomState>,
    /// Each of them once, by a moment at which its deadline has to be looked at. Most deadlines only move back, with
    /// every query, so a stream is noted anew when its moment has come and not with each query.
    due: BTreeSet<(Instant, StreamId)>,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            open: HashMap::default(),
            due: BTreeSet::new(),
        }
    }

    /// A new connection; returns one that has to go for it, where there are too many.
    pub(crate) fn opened(
        &mut self,
        now: Instant,
        id: StreamId,
        (listener, peer, local): (ListenerId, Peer, IpAddr),
        limits: StreamLimits,
        tls: Option<Box<Tls>>,
    ) -> Option<(StreamId, Stream)> {
        let full = self.open.len() >= STREAMS_MAX;
        // The earliest deadline is that of the one idle longest.
        let idle = full.then(|| self.soonest()).flatten();
        let idle = idle.and_then(|(_, id)| Some((id, self.remove(id)?)));
        let deadline = now.after(limits.first_query);
        let stream = Stream {
            listener,
            peer,
            local,
            is_encrypted: tls.is_some(),
            tls,
            limits,
            queries: 0,
            pending: BytesMut::new(),
            deadline,
            noted: deadline,
            is_paused: false,
            transfer: None,
            asking: 0,
            is_half_closed: false,
        };
        self.open.insert(id, stream);
        self.due.insert((deadline, id));
        idle
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.open.get_mut(&id)
    }

    /// Connections that a zone is on its way over.
    pub(crate) fn transferring(&self) -> usize {
        self.open.values().filter(|stream| stream.transfer.is_some()).count()
    }

    /// From now on another deadline counts.
    pub(crate) fn extend(&mut self, id: StreamId, deadline: Instant) {
        let Some(stream) = self.open.get_mut(&id) else { return };
        stream.deadline = deadline;
        if deadline < stream.noted {
            note(&mut self.due, id, stream);
        }
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.open.remove(&id)?;
        self.due.remove(&(stream.noted, id));
        Some(stream)
    }

    /// When to look for connections whose time is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(noted, _)| *noted)
    }

    /// Takes out one connection whose time is over.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<(StreamId, Stream)> {
        if self.deadline()? > now {
            return None;
        }
        let (deadline, id) = self.soonest()?;
        (deadline <= now)
            .then(|| self.remove(id))
            .flatten()
            .map(|stream| (id, stream))
    }

    /// The stream with the earliest deadline.
    fn soonest(&mut self) -> Option<(Instant, StreamId)> {
        loop {
            let (noted, id) = *self.due.first()?;
            let stream = self.open.get_mut(&id).expect("what is due is open");
            if stream.deadline == noted {
                return Some((noted, id));
            }
            note(&mut self.due, id, stream);
        }
    }
}

/// Notes a stream at its deadline.
fn note(due: &mut BTreeSet<(Instant, StreamId)>, id: StreamId, stream: &mut Stream) {
    due.remove(&(stream.noted, id));
    stream.noted = stream.deadline;
    due.insert((stream.noted, id));
}
