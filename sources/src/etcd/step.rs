//! One zone's way through etcd: what to ask next, and what a reply changes; no I/O.
//!
//! ```text
//!             ┌── read: own key, then pages below it, all at the first reply's revision
//!   start ──> │     │ last page: Synced
//!             │     v
//!             │   follow: watch from the next revision ──> one Event for each revision
//!             │     │ connection lost
//!             │     v
//!             └── check: is the log behind our revision whole, the cluster the same? ──> follow
//!   no, or compacted meanwhile: read again, old data standing
//! ```

use super::service::Service;
use super::{Entry, Event, LeaseId, keys};
use crate::Change;

/// Keys asked for in one page: few enough that a page does not show in the memory in use.
pub const PAGE_KEYS: i64 = 2_000;

/// What to ask etcd next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Keys of a range, ascending.
    Range {
        /// First key.
        start: Vec<u8>,
        /// The key behind the last; empty for `start` alone.
        end: Vec<u8>,
        /// At most so many keys.
        limit: i64,
        /// As of this revision; 0 is the newest.
        revision: i64,
        /// Leave the values out.
        keys_only: bool,
    },
    /// Watch these on one stream.
    Watch {
        /// One or two.
        ranges: Vec<WatchRange>,
    },
}

/// One watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRange {
    /// First key.
    pub start: Vec<u8>,
    /// The key behind the last; empty for `start` alone.
    pub end: Vec<u8>,
    /// The first revision that is of interest.
    pub from: i64,
}

/// A key as etcd tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValue<'r> {
    /// Whole.
    pub key: &'r [u8],
    /// What it holds.
    pub value: &'r [u8],
    /// 0 is none.
    pub lease: i64,
    /// 1 when the key was just made.
    pub version: i64,
    /// The revision of its last change.
    pub revision: i64,
}

/// A change as a watch tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEvent<'r> {
    /// Put.
    Put(KeyValue<'r>),
    /// Deleted, or its lease expired.
    Delete {
        /// Whole.
        key: &'r [u8],
        /// The revision of the deletion.
        revision: i64,
    },
}

/// Who sent a reply, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The cluster.
    pub cluster: u64,
    /// Of its leader's election. A cluster that was restored under its old name begins with a lower one.
    pub term: u64,
    /// Its newest revision.
    pub revision: i64,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response<'r> {
    /// To a range.
    Range {
        /// Who answered, and when.
        head: Head,
        /// Ascending.
        keys: Vec<KeyValue<'r>>,
        /// The limit cut the range.
        more: bool,
    },
    /// All ranges of the request are watched.
    Watching,
    /// Of the watch with this index. Without events it says that all up to `revision` was told.
    Events {
        /// Index into the request's ranges.
        range: usize,
        /// Which cluster answered.
        cluster: u64,
        /// The newest revision when this was sent.
        revision: i64,
        /// In order of their revisions; no revision is split over two responses.
        events: Vec<WatchEvent<'r>>,
    },
    /// The request failed, or the watch with this index (0 for other requests) ended.
    Failed {
        /// Index into the request's ranges.
        range: usize,
        /// How.
        failure: Failure,
    },
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The user may not read this range.
    Denied,
    /// The revision asked for is no longer there.
    Compacted,
    /// The revision asked for is not there yet: the log was set back.
    Future,
    /// The reply is larger than we take.
    TooLarge,
    /// etcd answered with another error.
    Refused(String),
    /// The connection is of no use any more.
    Broken(String),
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// With the next request, or the next message of the watch.
    Continue,
    /// With the next request, dropping the watch if there is one.
    Ask,
    /// With the next request after a while.
    Wait,
    /// With the next request on a new connection.
    Reconnect,
}

/// What a reply led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// To be handed over, in order.
    pub events: Vec<Event>,
    /// How to go on.
    pub then: Then,
}

/// The state of one zone.
#[derive(Debug)]
pub struct Step {
    zone: usize,
    own: Vec<u8>,
    prefix: Vec<u8>,
    end: Vec<u8>,
    /// Of the last reply; only its cluster and term count.
    head: Option<Head>,
    phase: Phase,
    /// Own key and what is below as two ranges: a role may cover both, but not what lies between them.
    split: bool,
    /// Nothing is known of the own key where a role covers only what is below it.
    own_denied: bool,
    /// What was said last, if it was a loss.
    lost: Option<String>,
    keys: i64,
    reads: u64,
}

#[derive(Debug)]
enum Phase {
    Read {
        pinned: Option<i64>,
        at: Place,
        limit: i64,
        keys: i64,
    },
    Check {
        applied: [i64; 2],
    },
    Follow {
        applied: [i64; 2],
    },
}

#[derive(Debug)]
enum Place {
    Own,
    Below { from: Vec<u8> },
}

impl Step {
    /// Nothing read yet. `own` is the key of the zone's own name.
    #[must_use]
    pub fn new(zone: usize, own: Vec<u8>) -> Self {
        let prefix = keys::below(&own);
        let end = keys::behind(&prefix);
        let mut step = Self {
            zone,
            own,
            prefix,
            end,
            head: None,
            phase: Phase::Check { applied: [0; 2] },
            split: false,
            own_denied: false,
            lost: None,
            keys: 0,
            reads: 0,
        };
        step.read_anew();
        step
    }

    /// What to ask now.
    #[must_use]
    pub fn request(&self) -> Request {
        match &self.phase {
            Phase::Read { pinned, at, limit, .. } => {
                let (start, end) = match at {
                    Place::Own => (self.own.clone(), Vec::new()),
                    Place::Below { from } => (from.clone(), self.end.clone()),
                };
                Request::Range {
                    start,
                    end,
                    limit: *limit,
                    revision: pinned.unwrap_or(0),
                    keys_only: false,
                }
            }
            Phase::Check { applied } => Request::Range {
                start: self.prefix.clone(),
                end: self.end.clone(),
                limit: 1,
                revision: self.oldest(*applied),
                keys_only: true,
            },
            Phase::Follow { applied } => {
                let whole = |start: &[u8], end: &[u8], applied| WatchRange {
                    start: start.to_vec(),
                    end: end.to_vec(),
                    from: applied + 1,
                };
                let mut ranges = Vec::new();
                if !self.split {
                    ranges.push(whole(&self.own, &self.end, applied[0]));
                } else {
                    ranges.push(whole(&self.prefix, &self.end, applied[0]));
                    if self.has_own() {
                        ranges.push(whole(&self.own, &[], applied[1]));
                    }
                }
                Request::Watch { ranges }
            }
        }
    }

    /// Takes the reply to [`Self::request`], or a message of the watch.
    pub fn apply(&mut self, response: Response<'_>) -> Outcome {
        match response {
            Response::Range { head, keys, more } => match self.phase {
                Phase::Read { .. } => self.page(head, &keys, more),
                Phase::Check { applied } => self.checked(applied, head),
                Phase::Follow { .. } => continued(),
            },
            Response::Watching => {
                let Phase::Follow { applied } = self.phase else {
                    return continued();
                };
                let events = match self.lost.take() {
                    Some(_) => vec![self.event(vec![Change::Synced { revision: applied[0] }], applied[0])],
                    None => Vec::new(),
                };
                Outcome {
                    events,
                    then: Then::Continue,
                }
            }
            Response::Events {
                range,
                cluster,
                revision,
                events,
            } => self.told(range, cluster, revision, &events),
            Response::Failed { range, failure } => self.failed(range, failure),
        }
    }

    /// The connection is lost, or could not be made.
    pub fn lose(&mut self, reason: &str) -> Option<Event> {
        match self.phase {
            Phase::Read { .. } => self.read_anew(),
            Phase::Check { applied } | Phase::Follow { applied } => self.phase = Phase::Check { applied },
        }
        if self.lost.as_deref() == Some(reason) {
            return None;
        }
        self.lost = Some(reason.to_owned());
        let revision = match self.phase {
            Phase::Check { applied } => applied[0],
            _ => 0,
        };
        Some(self.event(
            vec![Change::Lost {
                reason: reason.to_owned(),
            }],
            revision,
        ))
    }

    /// Why the zone is not followed, as said last.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Keys of the zone, as of the last full read or event.
    #[must_use]
    pub fn keys(&self) -> i64 {
        self.keys
    }

    /// Up to where everything was told; 0 before the first full read.
    #[must_use]
    pub fn revision(&self) -> i64 {
        match self.phase {
            Phase::Read { .. } => 0,
            Phase::Check { applied } | Phase::Follow { applied } => self.oldest(applied),
        }
    }

    /// Full reads that came to their end.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Whether the zone's own key is out of reach while what is below it is not.
    #[must_use]
    pub fn own_denied(&self) -> bool {
        self.own_denied
    }

    fn page(&mut self, head: Head, found: &[KeyValue<'_>], more: bool) -> Outcome {
        let goes_on = self.goes_on(head);
        let Phase::Read {
            pinned,
            at,
            limit,
            keys,
        } = &mut self.phase
        else {
            return continued();
        };
        let (limit, first) = (*limit, pinned.is_none());
        let pinned = *pinned.get_or_insert(head.revision);
        if !first && !goes_on {
            self.read_anew();
            return asked();
        }
        self.head = Some(head);
        let keys = *keys + found.len() as i64;
        let next = match at {
            Place::Own => Some(Place::Below {
                from: self.prefix.clone(),
            }),
            Place::Below { .. } => found.last().filter(|_| more).map(|last| {
                let mut from = last.key.to_vec();
                from.push(0);
                Place::Below { from }
            }),
        };
        let mut changes = Vec::with_capacity(found.len() + 2);
        if first {
            changes.push(Change::Reset);
        }
        changes.extend(found.iter().map(upsert));
        match next {
            Some(at) => {
                self.phase = Phase::Read {
                    pinned: Some(pinned),
                    at,
                    limit,
                    keys,
                }
            }
            None => {
                changes.push(Change::Synced { revision: pinned });
                self.lost = None;
                self.keys = keys;
                self.reads += 1;
                self.phase = Phase::Follow { applied: [pinned; 2] };
            }
        }
        let events = if changes.is_empty() {
            Vec::new()
        } else {
            vec![self.event(changes, pinned)]
        };
        Outcome {
            events,
            then: Then::Ask,
        }
    }

    fn checked(&mut self, applied: [i64; 2], head: Head) -> Outcome {
        if self.goes_on(head) && head.revision >= applied[0].max(applied[1]) {
            self.head = Some(head);
            self.phase = Phase::Follow { applied };
        } else {
            self.read_anew();
        }
        asked()
    }

    /// Whether `head` is of the history that we know.
    fn goes_on(&self, head: Head) -> bool {
        self.head
            .is_some_and(|known| known.cluster == head.cluster && known.term <= head.term)
    }

    fn told(&mut self, range: usize, cluster: u64, revision: i64, told: &[WatchEvent<'_>]) -> Outcome {
        let Phase::Follow { mut applied } = self.phase else {
            return continued();
        };
        if self.head.is_none_or(|head| head.cluster != cluster) {
            self.read_anew();
            return asked();
        }
        let range = range.min(1);
        let mut events = Vec::new();
        for of_one in told.chunk_by(|one, next| one.revision() == next.revision()) {
            let revision = of_one.first().map_or(0, WatchEvent::revision);
            if revision <= applied[range] {
                continue;
            }
            applied[range] = revision;
            let changes: Vec<_> = of_one.iter().filter_map(|event| self.change(event)).collect();
            if !changes.is_empty() {
                events.push(self.event(changes, revision));
            }
        }
        if told.is_empty() {
            applied[range] = applied[range].max(revision);
        }
        self.phase = Phase::Follow { applied };
        Outcome {
            events,
            then: Then::Continue,
        }
    }

    fn change(&mut self, event: &WatchEvent<'_>) -> Option<Change<Entry>> {
        match event {
            // The range from the own key to the end of what is below it also holds siblings, `cedar-x` for `cedar`.
            WatchEvent::Put(kv) if self.in_zone(kv.key) => {
                self.keys += i64::from(kv.version == 1);
                Some(upsert(kv))
            }
            WatchEvent::Delete { key, .. } if self.in_zone(key) => {
                self.keys -= 1;
                Some(Change::Remove { key: (*key).into() })
            }
            _ => None,
        }
    }

    fn failed(&mut self, range: usize, failure: Failure) -> Outcome {
        match failure {
            Failure::Compacted | Failure::Future => {
                self.read_anew();
                asked()
            }
            Failure::TooLarge => match &mut self.phase {
                Phase::Read { limit, .. } if *limit > 1 => {
                    *limit /= 2;
                    asked()
                }
                Phase::Read { .. } => self.wait("a single value is larger than a message may be"),
                Phase::Check { .. } | Phase::Follow { .. } => {
                    self.read_anew();
                    asked()
                }
            },
            Failure::Denied => self.denied(range),
            Failure::Refused(reason) => self.wait(&reason),
            Failure::Broken(reason) => {
                let events = self.lose(&reason).into_iter().collect();
                Outcome {
                    events,
                    then: Then::Reconnect,
                }
            }
        }
    }

    fn denied(&mut self, range: usize) -> Outcome {
        match &mut self.phase {
            Phase::Read {
                at: at @ Place::Own, ..
            } => {
                *at = Place::Below {
                    from: self.prefix.clone(),
                };
                self.own_denied = true;
                self.split = true;
                asked()
            }
            Phase::Follow { applied } if !self.split => {
                applied[1] = applied[0];
                self.split = true;
                asked()
            }
            Phase::Follow { .. } if range == 1 => {
                self.own_denied = true;
                asked()
            }
            Phase::Read { .. } | Phase::Check { .. } | Phase::Follow { .. } => {
                let prefix = String::from_utf8_lossy(&self.prefix).into_owned();
                let outcome = self.wait(&format!("permission denied on the keys below {prefix}"));
                self.read_anew();
                outcome
            }
        }
    }

    fn wait(&mut self, reason: &str) -> Outcome {
        let events = self.lose(reason).into_iter().collect();
        Outcome {
            events,
            then: Then::Wait,
        }
    }

    fn read_anew(&mut self) {
        self.own_denied = false;
        let at = if self.own == self.prefix {
            Place::Below {
                from: self.prefix.clone(),
            }
        } else {
            Place::Own
        };
        self.phase = Phase::Read {
            pinned: None,
            at,
            limit: PAGE_KEYS,
            keys: 0,
        };
    }

    fn in_zone(&self, key: &[u8]) -> bool {
        key == self.own || key.starts_with(&self.prefix)
    }

    fn has_own(&self) -> bool {
        self.own != self.prefix && !self.own_denied
    }

    fn oldest(&self, applied: [i64; 2]) -> i64 {
        if self.split && self.has_own() {
            applied[0].min(applied[1])
        } else {
            applied[0]
        }
    }

    fn event(&self, changes: Vec<Change<Entry>>, revision: i64) -> Event {
        Event {
            zone: self.zone,
            changes,
            revision,
        }
    }
}

impl WatchEvent<'_> {
    fn revision(&self) -> i64 {
        match self {
            Self::Put(kv) => kv.revision,
            Self::Delete { revision, .. } => *revision,
        }
    }
}

fn upsert(kv: &KeyValue<'_>) -> Change<Entry> {
    let lease = (kv.lease != 0).then_some(LeaseId(kv.lease));
    Change::Upsert {
        key: kv.key.into(),
        value: Entry {
            value: Service::parse(kv.value),
            lease,
        },
    }
}

fn continued() -> Outcome {
    Outcome {
        events: Vec::new(),
        then: Then::Continue,
    }
}

fn asked() -> Outcome {
    Outcome {
        events: Vec::new(),
        then: Then::Ask,
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
