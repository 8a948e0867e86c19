//! An etcd in memory, and the source that follows it over connections that break: `etcd::step` decides, `rebuild` folds,
//! the clock is virtual.

use std::collections::BTreeMap;
use std::time::Duration;

use nodens_engine::time::Instant;
use nodens_sources::Change;
use nodens_sources::etcd::step::{
    Failure, Head, KeyValue, Outcome, Request, Response, Step, Then, WatchEvent, WatchRange,
};
use nodens_sources::etcd::{Event, Message, keys_of_zone};

use super::VirtualClock;
use crate::folding::{Folding, PATH};
use crate::seed::Seeded;
use crate::served::name;

/// Whole keys and values.
pub type Keys = BTreeMap<String, String>;

/// A log of changes, and the state of the keys at its end.
#[derive(Debug)]
struct Log {
    changes: Vec<(i64, String, Option<String>)>,
    revision: i64,
    /// Nothing before this revision can be asked for.
    compacted: i64,
}

impl Log {
    fn at(&self, revision: i64) -> BTreeMap<&str, (&str, i64)> {
        let mut keys = BTreeMap::new();
        for (at, key, value) in &self.changes {
            if *at > revision {
                break;
            }
            match value {
                Some(value) => {
                    let version = keys.get(&**key).map_or(1_i64, |(_, version)| *version + 1);
                    keys.insert(&**key, (&**value, version));
                }
                None => _ = keys.remove(&**key),
            }
        }
        keys
    }

    fn range(&self, request: &Request, take: impl FnOnce(Response<'_>) -> Outcome) -> Outcome {
        let Request::Range {
            start,
            end,
            limit,
            revision,
            keys_only,
        } = request
        else {
            unreachable!("a watch is answered by events")
        };
        let failed = |failure| Response::Failed { range: 0, failure };
        if *revision > self.revision {
            return take(failed(Failure::Future));
        }
        if *revision != 0 && *revision < self.compacted {
            return take(failed(Failure::Compacted));
        }
        let held = self.at(if *revision == 0 { self.revision } else { *revision });
        let all: Vec<_> = held
            .into_iter()
            .filter(|(key, _)| inside(key.as_bytes(), start, end))
            .collect();
        let limit = usize::try_from(*limit).unwrap_or(0);
        let keys = all.iter().take(limit).map(|(key, (value, version))| KeyValue {
            key: key.as_bytes(),
            value: if *keys_only { b"" } else { value.as_bytes() },
            lease: 0,
            version: *version,
            revision: 1,
        });
        take(Response::Range {
            head: Head {
                cluster: 1,
                term: 1,
                revision: self.revision,
            },
            keys: keys.collect(),
            more: all.len() > limit,
        })
    }

    /// What a watch tells of the revisions from `from` up to `upto`.
    fn told(&self, watched: &WatchRange, from: i64, upto: i64) -> Vec<WatchEvent<'_>> {
        let held = self.at(from - 1);
        let new = self
            .changes
            .iter()
            .filter(|(at, key, _)| (from..=upto).contains(at) && inside(key.as_bytes(), &watched.start, &watched.end));
        let mut versions: BTreeMap<&str, i64> = held.into_iter().map(|(key, (_, version))| (key, version)).collect();
        new.map(|(revision, key, value)| {
            let (key, revision) = (&**key, *revision);
            let version = versions.get(key).copied().unwrap_or(0) + 1;
            match value {
                Some(value) => {
                    versions.insert(key, version);
                    let (key, value) = (key.as_bytes(), value.as_bytes());
                    WatchEvent::Put(KeyValue {
                        key,
                        value,
                        lease: 0,
                        version,
                        revision,
                    })
                }
                None => {
                    versions.remove(key);
                    WatchEvent::Delete {
                        key: key.as_bytes(),
                        revision,
                    }
                }
            }
        })
        .collect()
    }
}

fn inside(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    if end.is_empty() {
        key == start
    } else {
        key >= start && key < end
    }
}

#[derive(Debug)]
enum Doing {
    /// No connection before then.
    Down(Instant),
    /// The answer comes then.
    Asking(Instant, Request),
    /// The next look at what has changed; the first revision that each range has not been told.
    Watching(Instant, Vec<(WatchRange, i64)>),
}

/// One zone of an etcd, followed.
#[derive(Debug)]
pub struct Source {
    clock: VirtualClock,
    seeded: Seeded,
    log: Log,
    step: Step,
    folding: Folding,
    doing: Doing,
    /// Connections break, in a thousand acts.
    breaks: usize,
    own: String,
    reading: bool,
    shown: Option<i64>,
}

impl Source {
    /// An empty etcd that has not been asked yet.
    pub fn new(seed: u64, clock: VirtualClock, zone: &str) -> Self {
        let own = keys_of_zone(PATH, name(zone).as_name());
        Self {
            doing: Doing::Down(clock.now()),
            clock,
            seeded: Seeded::new(seed),
            log: Log {
                changes: Vec::new(),
                revision: 1,
                compacted: 0,
            },
            step: Step::new(0, own.clone()),
            folding: Folding::new(zone),
            breaks: 20,
            own: String::from_utf8_lossy(&own).into_owned(),
            reading: false,
            shown: None,
        }
    }

    /// Puts and deletes keys, relative to the zone's, in one transaction.
    pub fn change(&mut self, changes: &[(String, Option<String>)]) {
        let held = self.log.at(self.log.revision);
        let whole = |key: &str| format!("{}/{key}", self.own);
        let real: Vec<_> = changes
            .iter()
            .map(|(key, value)| (whole(key), value.clone()))
            .filter(|(key, value)| value.is_some() || held.contains_key(&**key))
            .collect();
        if real.is_empty() {
            return;
        }
        self.log.revision += 1;
        let revision = self.log.revision;
        self.log
            .changes
            .extend(real.into_iter().map(|(key, value)| (revision, key, value)));
    }

    /// Forgets the log up to some revision.
    pub fn compact(&mut self) {
        let back = self.seeded.below(4) as i64;
        self.log.compacted = self.log.compacted.max(self.log.revision - back);
    }

    /// From now on connections hold.
    pub fn calm(&mut self) {
        self.breaks = 0;
    }

    /// The connection breaks now.
    pub fn cut(&mut self) {
        let event = self.step.lose("connection reset");
        self.fold(event.into_iter().collect());
        self.down();
    }

    /// The zone as it is published, and where.
    pub fn folding(&self) -> &Folding {
        &self.folding
    }

    /// The keys of the last published version, relative to the zone's; nothing while it has not been read.
    pub fn shown(&self) -> Option<Keys> {
        let prefix = self.own.len() + 1;
        let held = self.log.at(self.shown?);
        Some(
            held.into_iter()
                .map(|(key, (value, _))| (key[prefix..].to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// All that changed is published.
    pub fn is_level(&self) -> bool {
        self.shown.is_some_and(|shown| {
            let newest = self.log.changes.last().map_or(1, |(revision, ..)| *revision);
            shown >= newest && !self.reading && matches!(self.doing, Doing::Watching(..))
        })
    }

    /// When it will act next.
    pub fn next_at(&self) -> Instant {
        match &self.doing {
            Doing::Down(at) | Doing::Asking(at, _) | Doing::Watching(at, _) => *at,
        }
    }

    /// Does what is due.
    pub fn act(&mut self) {
        if self.breaks > 0 && self.seeded.below(1000) < self.breaks {
            return self.cut();
        }
        match std::mem::replace(&mut self.doing, Doing::Down(self.clock.now())) {
            Doing::Down(_) => self.ask(),
            Doing::Asking(_, Request::Watch { ranges }) => {
                let outcome = self.step.apply(Response::Watching);
                let ranges = ranges.into_iter().map(|range| (range.from, range));
                let watched = ranges.map(|(from, range)| (range, from)).collect();
                self.go_on(outcome, Some(watched));
            }
            Doing::Asking(_, request) => {
                let step = &mut self.step;
                let outcome = self.log.range(&request, |response| step.apply(response));
                self.go_on(outcome, None);
            }
            Doing::Watching(_, watched) => self.tell(watched),
        }
    }

    fn tell(&mut self, mut watched: Vec<(WatchRange, i64)>) {
        for (at, (range, from)) in watched.iter_mut().enumerate() {
            let upto = (*from + self.seeded.below(4) as i64).min(self.log.revision);
            let response = if *from < self.log.compacted {
                Response::Failed {
                    range: at,
                    failure: Failure::Compacted,
                }
            } else {
                let events = self.log.told(range, *from, upto);
                let revision = if events.is_empty() { upto } else { self.log.revision };
                if events.is_empty() && upto < *from {
                    continue;
                }
                Response::Events {
                    range: at,
                    cluster: 1,
                    revision,
                    events,
                }
            };
            let outcome = self.step.apply(response);
            *from = upto + 1;
            if outcome.then != Then::Continue {
                return self.go_on(outcome, None);
            }
            self.fold(outcome.events);
        }
        self.doing = Doing::Watching(self.soon(), watched);
    }

    fn go_on(&mut self, outcome: Outcome, watched: Option<Vec<(WatchRange, i64)>>) {
        self.fold(outcome.events);
        match (outcome.then, watched) {
            (Then::Continue, Some(watched)) => self.doing = Doing::Watching(self.soon(), watched),
            (Then::Continue | Then::Ask, _) => self.ask(),
            (Then::Wait | Then::Reconnect, _) => self.down(),
        }
    }

    fn ask(&mut self) {
        self.doing = Doing::Asking(self.soon(), self.step.request());
    }

    fn down(&mut self) {
        let millis = 100 + self.seeded.below(2000) as u64;
        self.doing = Doing::Down(self.clock.after(Duration::from_millis(millis)));
    }

    fn soon(&mut self) -> Instant {
        let micros = 500 + self.seeded.below(5000) as u64;
        self.clock.after(Duration::from_micros(micros))
    }

    /// Folds events, and keeps what should be published now.
    fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            for change in &event.changes {
                match change {
                    Change::Reset => self.reading = true,
                    Change::Synced { revision } => {
                        self.reading = false;
                        self.shown = Some(*revision);
                    }
                    Change::Upsert { .. } | Change::Remove { .. } if !self.reading => self.shown = Some(event.revision),
                    _ => {}
                }
            }
            self.folding.apply(Message::Event(event));
        }
    }
}
