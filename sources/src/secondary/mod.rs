//! Zones that come from other servers, by transfer (RFC 5936), and are kept as new as theirs (RFC 1034 §4.3.5).
//!
//! ```text
//!   Step: what to do when ──> run ──> SOA question, AXFR over TCP ──> Collect: messages -> records ──> Event
//!    ^                         │ answers, time, NOTIFY
//!    └─────────────────────────┘
//! ```

mod catalog;
mod collect;
mod run;
mod step;

use std::net::SocketAddr;

use nodens_wire::NameBuf;

use crate::Record;

pub use catalog::{MEMBERS_MAX, Members, members};
pub use collect::ZONE_BYTES_MAX;
pub use run::{Calls, run};

/// A zone and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// In lower case.
    pub zone: NameBuf,
    /// Tried in this order.
    pub primaries: Vec<SocketAddr>,
}

/// What becomes of the zone.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole new version.
    Fetched(Vec<Record>),
    /// Nobody can say any more whether the last version holds.
    Expired,
}
