//! DNS over a stream, without the stream: framing, pipelining, limits and time-outs (RFC 7766).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::BytesMut;

use crate::io::{ListenerId, Peer, StreamId};
use crate::time::Instant;
use crate::transfer::Transfer;

/// Connections of one worker. One more, and the one that has been idle longest is closed.
pub const STREAMS_MAX: usize = 2048;
/// The first query must have come in this time.
pub const FIRST_QUERY: Duration = Duration::from_secs(3);
/// The next one in this.
pub const IDLE: Duration = Duration::from_secs(10);
/// Bytes of answers to one read; what is asked beyond waits until they have been taken.
pub const REPLIES_LEN_MAX: usize = 256 * 1024;

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) listener: ListenerId,
    pub(crate) peer: Peer,
    pub(crate) local: IpAddr,
    /// What has come and is not a whole message yet, or waits for room for its answer.
    pending: BytesMut,
    /// When the next whole message must have come.
    deadline: Instant,
    /// The client does not read; its messages wait.
    pub(crate) is_paused: bool,
    /// A zone on its way to the client; what was asked behind it waits.
    pub(crate) transfer: Option<Box<Transfer>>,
    /// The client will send no more.
    pub(crate) is_half_closed: bool,
}

impl Stream {
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

    /// A whole message has come.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.deadline = now.after(IDLE);
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
    open: BTreeMap<StreamId, Stream>,
    /// No stream's deadline is earlier. It may lie before all of them: streams only ever move theirs back.
    earliest: Option<Instant>,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            earliest: None,
        }
    }

    /// A new connection; returns one to be closed for it, where there are too many.
    pub(crate) fn opened(
        &mut self,
        now: Instant,
        id: StreamId,
        listener: ListenerId,
        peer: Peer,
        local: IpAddr,
    ) -> Option<StreamId> {
        let full = self.open.len() >= STREAMS_MAX;
        // The earliest deadline is that of the one idle longest.
        let idle = full.then(|| {
            self.open
                .iter()
                .min_by_key(|(id, stream)| (stream.deadline, **id))
                .map(|(id, _)| *id)
        });
        let deadline = now.after(FIRST_QUERY);
        let stream = Stream {
            listener,
            peer,
            local,
            pending: BytesMut::new(),
            deadline,
            is_paused: false,
            transfer: None,
            is_half_closed: false,
        };
        self.open.insert(id, stream);
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        let idle = idle.flatten();
        if let Some(idle) = idle {
            self.open.remove(&idle);
        }
        idle
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.open.get_mut(&id)
    }

    /// Connections that a zone is on its way over.
    pub(crate) fn transferring(&self) -> usize {
        self.open.values().filter(|stream| stream.transfer.is_some()).count()
    }

    pub(crate) fn closed(&mut self, id: StreamId) {
        self.open.remove(&id);
        if self.open.is_empty() {
            self.earliest = None;
        }
    }

    /// When to look for connections whose time is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes out the connections whose time is over.
    pub(crate) fn expire(&mut self, now: Instant, mut each: impl FnMut(StreamId)) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let mut next: Option<Instant> = None;
        self.open.retain(|id, stream| {
            if stream.deadline <= now {
                each(*id);
                return false;
            }
            next = Some(next.map_or(stream.deadline, |next| next.min(stream.deadline)));
            true
        });
        self.earliest = next;
    }
}
