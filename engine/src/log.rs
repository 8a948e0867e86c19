//! What a query leaves behind for the log: a plain value, handed over without waiting.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;
use crossbeam::sync::Unparker;
use nodens_wire::{Flags, NameBuf, Opcode, Rclass, Rcode, Rtype};

use crate::answer::Reason;
use crate::plan::ZoneMap;

/// Lines that wait for the writer; more are dropped and counted.
pub const QUEUE_MAX: usize = 4096;

/// Which answers a rule of `log` wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// NOERROR with data, and referrals.
    pub success: bool,
    /// NXDOMAIN, and NOERROR without data.
    pub denial: bool,
    /// All else.
    pub error: bool,
}

/// What kind of a reply it was, as CoreDNS sorts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// NOERROR with records, or without any.
    Success,
    /// A referral.
    Delegation,
    /// NOERROR without records but with SOA.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// SERVFAIL, REFUSED, NOTIMP.
    ServerError,
    /// Any other rcode.
    OtherError,
    /// Of a transfer or a NOTIFY.
    Meta,
}

impl ReplyKind {
    /// The value of `log/type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "NOERROR",
            Self::Delegation => "DELEGATION",
            Self::NoData => "NODATA",
            Self::NxDomain => "NXDOMAIN",
            Self::ServerError => "SERVERERROR",
            Self::OtherError => "OTHERERROR",
            Self::Meta => "META",
        }
    }

    /// The value of `log/class`.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Success | Self::Delegation => "success",
            Self::NoData | Self::NxDomain => "denial",
            Self::ServerError | Self::OtherError | Self::Meta => "error",
        }
    }
}

impl Classes {
    /// Whether the class of such a reply is wanted.
    #[must_use]
    pub fn want(self, kind: ReplyKind) -> bool {
        match kind {
            ReplyKind::Success | ReplyKind::Delegation => self.success,
            ReplyKind::NoData | ReplyKind::NxDomain => self.denial,
            ReplyKind::ServerError | ReplyKind::OtherError | ReplyKind::Meta => self.error,
        }
    }
}

/// One `log` rule.
#[derive(Debug)]
pub struct LogRule {
    /// It decides for names in these zones.
    pub zones: ZoneMap<()>,
    /// What it wants.
    pub classes: Classes,
    /// The writer's number for its format,
    pub format: u32,
    /// and the labels there that a step ahead of the answer knows.
    pub labels: Box<[Arc<str>]>,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// A query, by the number of its format.
    Query(u32),
    /// An error, by the number of the rules that gather errors.
    Error(u32),
}

/// A query and its reply, or the reason of a failure.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// What the line is about.
    pub line: LogLine,
    /// Why there is no answer.
    pub reason: Option<Reason>,
    /// The client.
    pub remote: SocketAddr,
    /// The address asked, where it is known.
    pub local: Option<IpAddr>,
    /// TCP.
    pub is_stream: bool,
    /// The query's id.
    pub id: u16,
    /// The query's opcode.
    pub opcode: Opcode,
    /// The name, in lower case.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// Its class.
    pub rclass: Rclass,
    /// Bytes of the query.
    pub size: usize,
    /// DO.
    pub dnssec_ok: bool,
    /// What the client can take: 512 without an OPT, 65,535 over TCP.
    pub bufsize: u16,
    /// How it went; `None` where there is no reply.
    pub rcode: Option<Rcode>,
    /// What that is.
    pub kind: ReplyKind,
    /// The block has metadata for the name.
    pub has_metadata: bool,
    /// What is known by the rule's labels, as far as it is.
    pub known: Vec<(Arc<str>, String)>,
    /// The server that `forward` had the answer from.
    pub upstream: Option<SocketAddr>,
    /// The reply's flags.
    pub flags: Flags,
    /// Bytes of the reply, uncompressed and without OPT.
    pub reply_size: usize,
    /// Nanoseconds from the reading of the clock that the query came with.
    pub duration_nanos: u64,
}

/// Where a worker leaves its log entries.
#[derive(Clone, Debug)]
pub struct LogQueue {
    queue: Arc<ArrayQueue<(u64, LogEntry)>>,
    /// The next entry's place among those of all workers.
    places: Arc<AtomicU64>,
    writer: Unparker,
}

impl LogQueue {
    /// Leaves an entry; false where the queue is full.
    pub(crate) fn push(&self, entry: LogEntry) -> bool {
        let place = self.places.fetch_add(1, Ordering::AcqRel);
        let pushed = self.queue.push((place, entry)).is_ok();
        self.writer.unpark();
        pushed
    }
}

/// Takes what all workers left, in order: who waits for an answer before he asks again finds his questions so in the log,
/// whichever workers took them.
#[derive(Debug)]
pub struct LogReader {
    queues: Vec<LogQueue>,
    places: Arc<AtomicU64>,
    /// Taken, but others that belong before them may have been missed.
    waiting: Vec<(u64, LogEntry)>,
}

impl LogReader {
    /// A reader that sleeps on the other half of `writer`, and a queue for each of so many workers.
    #[must_use]
    pub fn new(workers: usize, writer: &Unparker) -> (Self, Vec<LogQueue>) {
        let places = Arc::new(AtomicU64::new(0));
        let queue = || LogQueue {
            queue: Arc::new(ArrayQueue::new(QUEUE_MAX)),
            places: Arc::clone(&places),
            writer: writer.clone(),
        };
        let queues: Vec<_> = (0..workers).map(|_| queue()).collect();
        let reader = Self {
            queues: queues.clone(),
            places,
            waiting: Vec::new(),
        };
        (reader, queues)
    }

    /// What has been left until now. What comes while the queues are looked through waits for the next call: another that
    /// belongs before it may stand in a queue that was looked through already.
    pub fn take(&mut self) -> impl Iterator<Item = LogEntry> + '_ {
        let until = self.places.load(Ordering::Acquire);
        for queue in &self.queues {
            self.waiting
                .extend(std::iter::from_fn(|| queue.queue.pop()).take(QUEUE_MAX));
        }
        self.waiting.sort_unstable_by_key(|&(place, _)| place);
        let ready = self.waiting.partition_point(|&(place, _)| place < until);
        self.waiting.drain(..ready).map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::sync::Parker;

    use super::*;

    fn entry(id: u16) -> LogEntry {
        LogEntry {
            line: LogLine::Query(0),
            reason: None,
            remote: ([127, 0, 0, 1], 53).into(),
            local: None,
            is_stream: false,
            id,
            opcode: Opcode::QUERY,
            name: NameBuf::root(),
            rtype: Rtype::A,
            rclass: Rclass::IN,
            size: 17,
            dnssec_ok: false,
            bufsize: 512,
            rcode: Some(Rcode::NOERROR),
            kind: ReplyKind::Success,
            has_metadata: false,
            known: Vec::new(),
            upstream: None,
            flags: Flags(0),
            reply_size: 17,
            duration_nanos: 0,
        }
    }

    #[test]
    fn the_entries_of_several_workers_come_in_the_order_of_their_making() {
        let (mut reader, queues) = LogReader::new(3, Parker::new().unparker());
        for id in 0..300 {
            // 0 0 1 1 2 2 0 0 ..., and now and then another.
            let worker = usize::from(id / 2 + u16::from(id % 7 == 0)) % queues.len();
            assert!(queues[worker].push(entry(id)));
        }
        let ids: Vec<_> = reader.take().map(|entry| entry.id).collect();
        assert_eq!(ids, (0..300).collect::<Vec<_>>());
        assert_eq!(reader.take().count(), 0);
    }

    #[test]
    fn what_comes_while_others_are_taken_is_not_taken_before_them() {
        const EACH: u16 = 20_000;
        let (mut reader, queues) = LogReader::new(2, Parker::new().unparker());
        std::thread::scope(|scope| {
            // One asker whose questions go to one worker and then the other.
            scope.spawn(|| {
                for id in 0..EACH {
                    while !queues[usize::from(id % 3 == 0)].push(entry(id)) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < EACH {
                for entry in reader.take() {
                    assert_eq!(entry.id, next);
                    next += 1;
                }
            }
        });
    }
}
