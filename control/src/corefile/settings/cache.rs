//! What `cache` says: what is kept of answers, and for how long.

use std::time::Duration;

use nodens_wire::NameBuf;

use crate::corefile::source::Span;

/// `cache`
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Names outside are not kept.
    pub zones: Vec<NameBuf>,
    /// Of answers.
    pub success: CacheKind,
    /// Of NXDOMAIN and NODATA.
    pub denial: CacheKind,
    /// Often asked answers are fetched anew before they expire.
    pub prefetch: Option<Prefetch>,
    /// Expired answers are used.
    pub stale: Option<ServeStale>,
    /// How long a failure is kept; zero: not at all.
    pub servfail: Duration,
    /// Answers for names below these are not kept.
    pub disable_success: Vec<NameBuf>,
    /// The same for denials.
    pub disable_denial: Vec<NameBuf>,
    /// A hit shows the TTL as it was when the answer came.
    pub keep_ttl: bool,
    /// Bytes that the cache of all blocks may take; the largest of all blocks counts.
    pub size: Option<u64>,
    /// The directive's name.
    pub span: Span,
}

/// Bounds for one kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKind {
    /// Entries, at most; what CoreDNS makes of the number that is written.
    pub entries_max: u64,
    /// Longest time an answer is kept, in seconds; above zero.
    pub ttl_max_secs: u32,
    /// Shortest time, in seconds; `ttl_max_secs` goes before it.
    pub ttl_min_secs: u32,
}

/// `prefetch`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefetch {
    /// Hits after which an answer counts as often asked; above zero.
    pub amount: u64,
    /// Hits that lie further apart than this begin a new count.
    pub within: Duration,
    /// It is fetched when so much of its TTL is left; 10 to 90.
    pub percentage: u8,
}

/// `serve_stale`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServeStale {
    /// How long an expired answer is used; above zero.
    pub up_to: Duration,
    /// Whether the upstream is asked first.
    pub refresh: StaleRefresh,
    /// The TTL that is shown; none for zero, or with `keepttl` for that of the answer.
    pub response_ttl_secs: Option<u32>,
    /// After a refresh that failed no other is tried for so long.
    pub recheck: Duration,
    /// Only a positive answer takes the place of a positive one.
    pub prefer_positive: bool,
}

/// When an expired answer is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleRefresh {
    /// Behind the stale answer.
    Immediate,
    /// Before it, for so long; none: as long as the upstream takes.
    Verify(Option<Duration>),
}
