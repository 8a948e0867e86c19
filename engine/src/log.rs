//! What a query leaves behind for the log: a plain value, handed over without waiting.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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
    /// The writer's number for its format.
    pub format: u32,
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
    queue: Arc<ArrayQueue<LogEntry>>,
    writer: Unparker,
}

impl LogQueue {
    /// A queue whose reader sleeps on the other half of `writer`.
    #[must_use]
    pub fn new(writer: Unparker) -> Self {
        Self {
            queue: Arc::new(ArrayQueue::new(QUEUE_MAX)),
            writer,
        }
    }

    /// Leaves an entry; false where the queue is full.
    pub(crate) fn push(&self, entry: LogEntry) -> bool {
        let pushed = self.queue.push(entry).is_ok();
        self.writer.unpark();
        pushed
    }

    /// Takes the oldest entry.
    #[must_use]
    pub fn pop(&self) -> Option<LogEntry> {
        self.queue.pop()
    }
}
