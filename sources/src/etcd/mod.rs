//! SkyDNS data in etcd v3: read once, then followed by watch; a query never causes a request.
//!
//! ```text
//!   link ── a client on one healthy endpoint, logged in
//!     │
//!   follow ─ per zone: asks what step wants, feeds it the reply ──> Message::Event
//!     │            step: pages, revisions, compaction; pure
//!   run ──── one asker for all leases, paced ─────────────────────> Message::Lease
//!                  lease: which lease to ask when; pure
//! ```

mod follow;
pub mod keys;
pub mod lease;
mod link;
mod run;
pub mod service;
pub mod step;
mod watch;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use nodens_wire::NameBuf;

pub use keys::keys_of_zone;
pub use lease::{LeaseId, LeaseState, LeaseUpdate};
pub use run::run;
pub use service::{BadValue, Host, Service};

use crate::Change;
use crate::tls::Tls;

/// Requests for the remaining time of leases, all together, in a second, unless configured otherwise.
pub const LEASE_REQUESTS_PER_SEC: u32 = 100;

/// What an `etcd` stanza says about its source. Equal settings mean that a running source can live on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// As written: `http://`, `https://` or no scheme; the first one's decides for all.
    pub endpoints: Vec<String>,
    /// User and password. Either one empty means none.
    pub credentials: Option<(String, String)>,
    /// What the `tls` option gave; `None` if it was absent.
    pub tls: Option<Tls>,
    /// The prefix of all keys; slashes at its ends do not matter.
    pub path: String,
    /// Each zone is read and watched for itself, so that a role needs to cover no more than these.
    pub zones: Vec<NameBuf>,
    /// Seconds. A lease never counts for less.
    pub min_lease_ttl: u32,
    /// Seconds. A lease never counts for more.
    pub max_lease_ttl: u32,
    /// See [`LEASE_REQUESTS_PER_SEC`]; 0 counts as 1.
    pub lease_requests_per_sec: u32,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password must not reach a log.
        f.debug_struct("Settings")
            .field("endpoints", &self.endpoints)
            .field("user", &self.credentials.as_ref().map(|(user, _)| user))
            .field("tls", &self.tls.is_some())
            .field("path", &self.path)
            .field("zones", &self.zones.len())
            .field("min_lease_ttl", &self.min_lease_ttl)
            .field("max_lease_ttl", &self.max_lease_ttl)
            .field("lease_requests_per_sec", &self.lease_requests_per_sec)
            .finish()
    }
}

/// What one key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// A value that does not parse is a state of its own: a name that has nothing else is a server failure.
    pub value: Result<Service, BadValue>,
    /// The lease that the key hangs on.
    pub lease: Option<LeaseId>,
}

/// What has to be applied in one step: all changes of one etcd revision, or one page of a full read.
///
/// Pages may be folded in one by one, but nothing of a full read may show before its `Synced`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Index into [`Settings::zones`].
    pub zone: usize,
    /// In order; keys ascend within a page.
    pub changes: Vec<Change<Entry>>,
    /// The etcd revision that this stands for; 0 while none is known.
    pub revision: i64,
}

/// What a running source hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Keys changed, or the zone's standing did.
    Event(Event),
    /// What is known of a lease changed. Comes after the first event that names the lease.
    Lease(LeaseUpdate),
}

/// Counters and standing of one source, read by metrics and readiness.
#[derive(Debug, Default)]
pub struct Status {
    connected: AtomicBool,
    revision: AtomicI64,
    keys: AtomicI64,
    bad_keys: AtomicI64,
    resyncs: AtomicU64,
    requests: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Status {
    /// Whether a client is logged in at an endpoint.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// The highest etcd revision applied or announced.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Keys held, all zones together; a key that lies in two of them counts twice.
    #[must_use]
    pub fn keys(&self) -> i64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Keys whose value does not parse: filled by whoever holds the keys.
    #[must_use]
    pub fn bad_keys(&self) -> i64 {
        self.bad_keys.load(Ordering::Relaxed)
    }

    /// Set by the consumer, who alone knows which bad key replaced which.
    pub fn set_bad_keys(&self, keys: i64) {
        self.bad_keys.store(keys, Ordering::Relaxed);
    }

    /// Full reads after a zone's first.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.resyncs.load(Ordering::Relaxed)
    }

    /// Calls made to etcd, of every kind.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Why the source is not connected or not all its zones are followed; `None` when all is well.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().ok().and_then(|error| error.clone())
    }

    fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    fn see_revision(&self, revision: i64, set_back: bool) {
        if set_back {
            self.revision.store(revision, Ordering::Relaxed);
        } else {
            self.revision.fetch_max(revision, Ordering::Relaxed);
        }
    }

    fn add_keys(&self, keys: i64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }

    fn count_resync(&self) {
        self.resyncs.fetch_add(1, Ordering::Relaxed);
    }

    fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn set_error(&self, reason: &str) {
        if let Ok(mut error) = self.last_error.lock() {
            *error = Some(reason.to_owned());
        }
    }

    /// What was said of one zone; another one's trouble stays.
    fn clear_error_of(&self, zone: &str) {
        if let Ok(mut error) = self.last_error.lock()
            && error
                .as_ref()
                .is_some_and(|text| text.starts_with(&format!("zone {zone}: ")))
        {
            *error = None;
        }
    }

    fn clear_error(&self) {
        if let Ok(mut error) = self.last_error.lock() {
            *error = None;
        }
    }
}
