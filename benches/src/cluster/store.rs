//! All objects of a cluster as they are now, and the events that led there.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Shape, object};

/// Events kept for watches that begin behind the present; older versions are too old.
const EVENTS_MAX: usize = 200_000;
/// Snapshots kept for lists of which the next page is still to be asked for.
const SNAPSHOTS_MAX: usize = 16;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Namespaces.
    Namespace,
    /// Services.
    Service,
    /// EndpointSlices.
    Slice,
    /// Pods.
    Pod,
}

impl Kind {
    /// In the order in which they have to be made.
    pub const ALL: [Self; 4] = [Self::Namespace, Self::Service, Self::Slice, Self::Pod];

    /// What objects of this kind say of themselves.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::Slice => "EndpointSlice",
            Self::Pod => "Pod",
        }
    }

    /// Their API version.
    #[must_use]
    pub fn api(self) -> &'static str {
        match self {
            Self::Slice => "discovery.k8s.io/v1",
            Self::Namespace | Self::Service | Self::Pod => "v1",
        }
    }

    /// Where all of them are.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Namespace => "/api/v1/namespaces",
            Self::Service => "/api/v1/services",
            Self::Slice => "/apis/discovery.k8s.io/v1/endpointslices",
            Self::Pod => "/api/v1/pods",
        }
    }

    pub(super) fn count(self, shape: &Shape) -> u32 {
        match self {
            Self::Namespace => shape.namespaces,
            Self::Service | Self::Slice => shape.services,
            Self::Pod => shape.pods,
        }
    }

    /// One object, without the opening brace.
    pub(super) fn object(self, shape: &Shape, number: u32, version: u64) -> String {
        match self {
            Self::Namespace => object::namespace(shape, number, version),
            Self::Service => object::service(shape, number, version),
            Self::Slice => object::slice(shape, number, version, 0, "2026-11-01T08:00:00Z"),
            Self::Pod => object::pod(shape, number, version),
        }
    }

    /// One object that says what it is, without the opening brace.
    pub(super) fn whole(self, object: &str) -> String {
        format!(r#""kind":"{}","apiVersion":"{}",{object}"#, self.name(), self.api())
    }
}

type Objects = Vec<Arc<str>>;

#[derive(Debug, Default)]
struct Collection {
    objects: Objects,
    /// Version and line of each event, the newest last.
    events: VecDeque<(u64, Arc<str>)>,
    snapshots: VecDeque<(u64, Arc<Objects>)>,
}

#[derive(Debug)]
struct State {
    version: u64,
    /// A version before which events are forgotten.
    since: u64,
    collections: [Collection; 4],
    /// How often each slice has changed.
    changes: Vec<u32>,
}

/// A cluster that can be listed, watched and changed.
#[derive(Debug)]
pub struct Store {
    shape: Shape,
    state: Mutex<State>,
    changed: Condvar,
}

/// What a watch may read next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Lines up to a version. None in a while, if empty.
    Events(Vec<Arc<str>>, u64),
    /// What came after that version is not known any more.
    TooOld,
}

impl Store {
    /// A new cluster, each object with a version of its own.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let mut version = 0;
        let collections = Kind::ALL.map(|kind| {
            let objects = (0..kind.count(&shape)).map(|number| {
                version += 1;
                kind.object(&shape, number, version).into()
            });
            Collection {
                objects: objects.collect(),
                ..Collection::default()
            }
        });
        let state = State {
            version,
            since: version,
            collections,
            changes: vec![0; shape.services as usize],
        };
        Self {
            shape,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// How large it is.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All objects of a kind as they are now, and the version of that.
    pub(super) fn snapshot(&self, kind: Kind) -> (Arc<Objects>, u64) {
        let mut state = self.state();
        let version = state.version;
        let collection = &mut state.collections[kind as usize];
        if let Some((at, objects)) = collection.snapshots.back()
            && *at == version
        {
            return (Arc::clone(objects), version);
        }
        let objects = Arc::new(collection.objects.clone());
        collection.snapshots.push_back((version, Arc::clone(&objects)));
        if collection.snapshots.len() > SNAPSHOTS_MAX {
            collection.snapshots.pop_front();
        }
        (objects, version)
    }

    /// A snapshot that was made before, while it is kept.
    pub(super) fn snapshot_of(&self, kind: Kind, version: u64) -> Option<Arc<Objects>> {
        let state = self.state();
        let mut kept = state.collections[kind as usize].snapshots.iter();
        kept.find(|(at, _)| *at == version)
            .map(|(_, objects)| Arc::clone(objects))
    }

    /// What happened after a version; waits for it as long as `patience`.
    pub(super) fn news(&self, kind: Kind, after: u64, patience: Duration) -> News {
        let has_none = |state: &mut State| {
            if after < state.since {
                return false;
            }
            let newest = state.collections[kind as usize].events.back();
            newest.is_none_or(|(at, _)| *at <= after)
        };
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), patience, has_none)
            .unwrap_or_else(PoisonError::into_inner);
        if after < state.since {
            return News::TooOld;
        }
        let events = &state.collections[kind as usize].events;
        let from = events.partition_point(|(at, _)| *at <= after);
        let lines = events.range(from..).map(|(_, line)| Arc::clone(line)).collect();
        News::Events(lines, state.version.max(after))
    }

    /// Gives one endpoint of a Service another address, as of now.
    pub fn change_endpoint(&self, service: u32) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let Some(changes) = state.changes.get_mut(service as usize) else {
            return;
        };
        *changes += 1;
        let object = object::slice(&self.shape, service, version, *changes, &now());
        self.store(state, Kind::Slice, service, object);
    }

    /// Says of a Service that it is as it was: a new version of it.
    pub fn touch_service(&self, service: u32) {
        let mut state = self.state();
        state.version += 1;
        let object = object::service(&self.shape, service, state.version);
        self.store(state, Kind::Service, service, object);
    }

    /// Forgets all events: every watch is told that its version is too old.
    pub fn expire(&self) {
        let mut state = self.state();
        state.version += 1;
        state.since = state.version;
        for collection in &mut state.collections {
            collection.events.clear();
        }
        drop(state);
        self.changed.notify_all();
    }

    fn store(&self, mut state: MutexGuard<'_, State>, kind: Kind, number: u32, object: String) {
        let line = format!(r#"{{"type":"MODIFIED","object":{{{}}}"#, kind.whole(&object)) + "\n";
        let version = state.version;
        let collection = &mut state.collections[kind as usize];
        collection.objects[number as usize] = object.into();
        collection.events.push_back((version, line.into()));
        if collection.events.len() > EVENTS_MAX
            && let Some((forgotten, _)) = collection.events.pop_front()
        {
            state.since = forgotten;
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// The present time as RFC 3339 has it.
pub(super) fn now() -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, secs) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    // Days since 1970 as a date: Howard Hinnant's civil_from_days, for days after 0000-03-01.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        secs / 3_600,
        secs / 60 % 60,
        secs % 60,
        time.subsec_micros()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Shape {
        Shape {
            namespaces: 2,
            services: 4,
            endpoints: 3,
            headless_every: 2,
            pods: 12,
        }
    }

    #[test]
    fn every_object_is_json() {
        let store = Store::new(small());
        for kind in Kind::ALL {
            let (objects, version) = store.snapshot(kind);
            assert_eq!((objects.len() as u32, version), (kind.count(&small()), 22));
            for object in objects.iter() {
                let value: serde_json::Value = serde_json::from_str(&format!("{{{}", kind.whole(object))).unwrap();
                assert_eq!(value["kind"], kind.name());
            }
        }
    }

    #[test]
    fn changes_are_told_in_order() {
        let store = Store::new(small());
        let (before, version) = store.snapshot(Kind::Slice);
        store.change_endpoint(1);
        store.change_endpoint(1);
        store.touch_service(3);
        assert_eq!(store.snapshot_of(Kind::Slice, version), Some(before));
        let News::Events(lines, at) = store.news(Kind::Slice, version, Duration::ZERO) else {
            panic!("too old");
        };
        assert_eq!((lines.len(), at), (2, version + 3));
        let event: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
        let addresses: Vec<_> = (0..3)
            .map(|at| event["object"]["endpoints"][at]["addresses"][0].as_str().unwrap())
            .collect();
        // Two of the three have changed once.
        assert_eq!(addresses, ["10.144.0.3", "10.144.0.4", "10.128.0.5"]);
        assert_eq!(store.news(Kind::Slice, 3, Duration::ZERO), News::TooOld);
        assert_eq!(store.news(Kind::Pod, at, Duration::ZERO), News::Events(Vec::new(), at));
        store.expire();
        assert_eq!(store.news(Kind::Pod, at, Duration::from_secs(60)), News::TooOld);
    }

    #[test]
    fn times_are_of_this_century() {
        let text = now();
        assert!(
            text.starts_with("20") && text.len() == "2026-11-01T08:00:00.000000Z".len(),
            "{text}"
        );
    }
}
