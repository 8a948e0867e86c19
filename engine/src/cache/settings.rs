//! What `cache` says of one block.

use std::time::Duration;

use super::Kind;
use crate::plan::ZoneMap;

/// One block's `cache`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names outside are not kept.
    pub zones: ZoneMap<()>,
    /// Of answers.
    pub success: Bounds,
    /// Of NXDOMAIN and NODATA.
    pub denial: Bounds,
    /// Often asked answers are fetched anew before they expire.
    pub prefetch: Option<Prefetch>,
    /// Expired answers are used.
    pub stale: Option<Stale>,
    /// How long a failure is kept; zero: not at all.
    pub servfail: Duration,
    /// Answers for names below these are not kept.
    pub disable_success: ZoneMap<()>,
    /// The same for denials.
    pub disable_denial: ZoneMap<()>,
    /// A hit shows the TTL as it was when the answer came.
    pub keep_ttl: bool,
}

/// Bounds of one kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Entries, at most.
    pub entries_max: usize,
    /// Shortest time that an answer is kept.
    pub ttl_min_secs: u32,
    /// Longest time; goes before the shortest.
    pub ttl_max_secs: u32,
}

/// When an answer is fetched before it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// After so many hits.
    pub amount: u64,
    /// Hits that lie further apart begin a new count.
    pub within: Duration,
    /// When so much of its TTL is left, of a hundred.
    pub percentage: u8,
}

/// What becomes of an answer that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// It is used for so long.
    pub up_to: Duration,
    /// Whether the upstream is asked first.
    pub refresh: StaleRefresh,
    /// The TTL that is shown; none for zero, or with `keep_ttl` for that of the answer.
    pub ttl_secs: Option<u32>,
    /// After a refresh that failed no other is tried for so long.
    pub recheck: Duration,
    /// Only a positive answer takes the place of a positive one.
    pub prefer_positive: bool,
}

/// When an expired answer is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleRefresh {
    /// Behind the stale answer.
    Immediate,
    /// Before it, for so long; none: as long as the upstream takes.
    Verify(Option<Duration>),
}

impl Settings {
    /// The bounds of a kind.
    #[must_use]
    pub fn bounds(&self, kind: Kind) -> &Bounds {
        match kind {
            Kind::Success => &self.success,
            Kind::Denial => &self.denial,
        }
    }

    /// Whether questions for a folded name are looked up at all.
    #[must_use]
    pub fn covers(&self, name: &[u8]) -> bool {
        self.zones.find(name).is_some()
    }

    /// Whether entries of a kind are kept for a folded name.
    #[must_use]
    pub fn keeps(&self, kind: Kind, name: &[u8]) -> bool {
        let disabled = match kind {
            Kind::Success => &self.disable_success,
            Kind::Denial => &self.disable_denial,
        };
        self.covers(name) && disabled.find(name).is_none()
    }
}
