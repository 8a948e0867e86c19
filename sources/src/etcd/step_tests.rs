use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// An etcd in memory: a log of changes, as far as it is not compacted.
#[derive(Debug)]
struct Log {
    cluster: u64,
    term: u64,
    /// Revision, key, and the value or nothing.
    log: Vec<(i64, String, Option<String>)>,
    revision: i64,
    compacted: i64,
}

type Keys = BTreeMap<String, (String, i64)>;

impl Log {
    fn new() -> Self {
        Self {
            cluster: 1,
            term: 5,
            log: Vec::new(),
            revision: 1,
            compacted: 0,
        }
    }

    /// One transaction.
    fn change(&mut self, changes: &[(&str, Option<&str>)]) {
        let held = self.at(self.revision);
        let real: Vec<_> = changes
            .iter()
            .filter(|(key, value)| value.is_some() || held.contains_key(*key))
            .collect();
        if real.is_empty() {
            return;
        }
        self.revision += 1;
        for (key, value) in real {
            self.log
                .push((self.revision, (*key).to_owned(), value.map(str::to_owned)));
        }
    }

    fn at(&self, revision: i64) -> Keys {
        let mut keys = Keys::new();
        for (_, key, value) in self.log.iter().filter(|(at, ..)| *at <= revision) {
            match value {
                Some(value) => {
                    let version = keys.get(key).map_or(1, |(_, version)| version + 1);
                    keys.insert(key.clone(), (value.clone(), version));
                }
                None => drop(keys.remove(key)),
            }
        }
        keys
    }

    fn ask(&self, request: &Request, denied: &[&str], take: impl FnOnce(Response<'_>) -> Outcome) -> Outcome {
        let Request::Range {
            start,
            end,
            limit,
            revision,
            keys_only,
        } = request
        else {
            panic!("a watch is no range")
        };
        let failed = |failure| Response::Failed { range: 0, failure };
        let start = String::from_utf8(start.clone()).unwrap();
        let end = String::from_utf8(end.clone()).unwrap();
        if denied.contains(&start.as_str()) {
            return take(failed(Failure::Denied));
        }
        if *revision > self.revision {
            return take(failed(Failure::Future));
        }
        if *revision != 0 && *revision < self.compacted {
            return take(failed(Failure::Compacted));
        }
        let held = self.at(if *revision == 0 { self.revision } else { *revision });
        let inside = |key: &str| {
            if end.is_empty() {
                key == start
            } else {
                key >= start.as_str() && key < end.as_str()
            }
        };
        let all: Vec<_> = held.iter().filter(|(key, _)| inside(key)).collect();
        let limit = usize::try_from(*limit).unwrap();
        let keys = all.iter().take(limit).map(|(key, (value, version))| KeyValue {
            key: key.as_bytes(),
            value: if *keys_only { b"" } else { value.as_bytes() },
            lease: 0,
            version: *version,
            revision: 1,
        });
        take(Response::Range {
            head: Head {
                cluster: self.cluster,
                term: self.term,
                revision: self.revision,
            },
            keys: keys.collect(),
            more: all.len() > limit,
        })
    }

    /// What a watch from `from` on tells of the range, up to `upto`, in responses of `batch` revisions.
    fn tell(
        &self,
        range: usize,
        watched: &WatchRange,
        upto: i64,
        batch: i64,
        mut take: impl FnMut(Response<'_>) -> Outcome,
    ) -> Vec<Event> {
        if watched.from < self.compacted {
            return take(Response::Failed {
                range,
                failure: Failure::Compacted,
            })
            .events;
        }
        let inside = |key: &str| {
            let key = key.as_bytes();
            if watched.end.is_empty() {
                key == watched.start
            } else {
                key >= &watched.start[..] && key < &watched.end[..]
            }
        };
        let mut told = Vec::new();
        let mut from = watched.from;
        while from <= upto {
            let mut versions = self.at(from - 1);
            let events: Vec<_> = self
                .log
                .iter()
                .filter(|(at, key, _)| (from..from + batch).contains(at) && *at <= upto && inside(key))
                .map(|(at, key, value)| match value {
                    Some(value) => {
                        let version = versions.get(key).map_or(1, |(_, version)| version + 1);
                        versions.insert(key.clone(), (value.clone(), version));
                        WatchEvent::Put(KeyValue {
                            key: key.as_bytes(),
                            value: value.as_bytes(),
                            lease: 0,
                            version,
                            revision: *at,
                        })
                    }
                    None => {
                        versions.remove(key);
                        WatchEvent::Delete {
                            key: key.as_bytes(),
                            revision: *at,
                        }
                    }
                })
                .collect();
            if !events.is_empty() {
                told.extend(
                    take(Response::Events {
                        range,
                        cluster: self.cluster,
                        revision: self.revision,
                        events,
                    })
                    .events,
                );
            }
            from += batch;
        }
        told
    }
}

/// What a consumer makes of the events.
#[derive(Default)]
struct Consumer {
    shown: BTreeMap<String, String>,
    reading: Option<BTreeMap<String, String>>,
    last: String,
    synced: Option<i64>,
}

impl Consumer {
    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            for change in event.changes {
                match change {
                    Change::Reset => {
                        self.reading = Some(BTreeMap::new());
                        self.last.clear();
                    }
                    Change::Upsert { key, value } => {
                        let key = String::from_utf8(key.into()).unwrap();
                        let text = value.value.unwrap().text;
                        match &mut self.reading {
                            Some(reading) => {
                                assert!(key > self.last, "{key} behind {}", self.last);
                                self.last.clone_from(&key);
                                reading.insert(key, text);
                            }
                            None => drop(self.shown.insert(key, text)),
                        }
                    }
                    Change::Remove { key } => {
                        assert!(self.reading.is_none());
                        self.shown.remove(std::str::from_utf8(&key).unwrap());
                    }
                    Change::Synced { revision } => {
                        if let Some(read) = self.reading.take() {
                            self.shown = read;
                        }
                        self.synced = Some(revision);
                    }
                    Change::Lost { .. } => self.synced = None,
                }
            }
        }
    }
}

fn value(text: &str) -> String {
    format!(r#"{{"text":"{text}"}}"#)
}

fn step() -> Step {
    Step::new(0, b"/s/cedar".to_vec())
}

/// Asks until a watch is wanted.
fn read(step: &mut Step, log: &Log, denied: &[&str], consumer: &mut Consumer) {
    for _ in 0..1_000 {
        let request = step.request();
        if let Request::Watch { .. } = request {
            return;
        }
        let outcome = log.ask(&request, denied, |response| step.apply(response));
        assert_eq!(outcome.then, Then::Ask);
        consumer.take(outcome.events);
    }
    panic!("the read has no end");
}

fn ranges(step: &Step) -> Vec<WatchRange> {
    match step.request() {
        Request::Watch { ranges } => ranges,
        Request::Range { .. } => Vec::new(),
    }
}

#[test]
fn pages_are_pinned_to_the_first_and_end_in_synced() {
    let mut log = Log::new();
    let text = value("x");
    for n in 0..5 * PAGE_KEYS {
        log.log.push((2, format!("/s/cedar/{n:04}"), Some(text.clone())));
    }
    log.log.push((2, "/s/cedar".to_owned(), Some(text.clone())));
    log.log.push((2, "/s/cedar-x/a".to_owned(), Some(text.clone())));
    log.log.push((2, "/s/cedar1".to_owned(), Some(text)));
    log.revision = 2;
    let mut step = step();
    let mut consumer = Consumer::default();
    let mut revisions = Vec::new();
    let mut pages = 0;
    while let request @ Request::Range { revision, .. } = step.request() {
        revisions.push(revision);
        let outcome = log.ask(&request, &[], |response| step.apply(response));
        pages += outcome.events.len();
        consumer.take(outcome.events);
        log.change(&[("/s/cedar/later", Some("{}"))]);
    }
    assert_eq!(revisions, [0, 2, 2, 2, 2, 2]);
    assert_eq!(pages, 6);
    assert_eq!(
        (consumer.shown.len(), consumer.synced, step.keys()),
        (10_001, Some(2), 10_001)
    );
    assert_eq!(
        ranges(&step),
        [WatchRange {
            start: b"/s/cedar".into(),
            end: b"/s/cedar0".into(),
            from: 3
        }]
    );
}

#[test]
fn one_event_for_each_revision_and_siblings_stay_out() {
    let mut log = Log::new();
    let (mut step, mut consumer) = (step(), Consumer::default());
    read(&mut step, &log, &[], &mut consumer);
    let text = value("x");
    log.change(&[
        ("/s/cedar", Some(&text)),
        ("/s/cedar/a", Some(&text)),
        ("/s/cedar/b", Some(&text)),
    ]);
    log.change(&[("/s/cedar-x/a", Some(&text)), ("/s/cedar1", Some(&text))]);
    log.change(&[("/s/cedar/a", None), ("/s/cedar/b", Some(&text))]);
    let watched = ranges(&step);
    let events = log.tell(0, &watched[0], 9, 9, |response| step.apply(response));
    let shape: Vec<_> = events
        .iter()
        .map(|event| (event.revision, event.changes.len()))
        .collect();
    assert_eq!(shape, [(2, 3), (4, 2)]);
    assert_eq!(step.keys(), 2);
    // Told again, nothing comes of it.
    assert_eq!(log.tell(0, &watched[0], 9, 9, |response| step.apply(response)), []);
    assert_eq!((step.revision(), step.keys()), (4, 2));
}

#[test]
fn progress_moves_the_revision() {
    let (mut log, mut step, mut consumer) = (Log::new(), step(), Consumer::default());
    read(&mut step, &log, &[], &mut consumer);
    log.revision = 50;
    let progress = |revision| Response::Events {
        range: 0,
        cluster: 1,
        revision,
        events: Vec::new(),
    };
    assert_eq!(
        step.apply(progress(50)),
        Outcome {
            events: Vec::new(),
            then: Then::Continue
        }
    );
    assert_eq!(step.apply(progress(40)).events, []);
    assert_eq!(ranges(&step)[0].from, 51);
}

#[test]
fn after_a_loss_the_log_is_checked_then_followed() {
    let (mut log, mut step, mut consumer) = (Log::new(), step(), Consumer::default());
    read(&mut step, &log, &[], &mut consumer);
    let lost = step.lose("cut").unwrap();
    assert_eq!(
        lost.changes,
        [Change::Lost {
            reason: "cut".to_owned()
        }]
    );
    assert_eq!(step.lose("cut"), None);
    log.change(&[("/s/cedar/a", Some(&value("x")))]);
    let check = step.request();
    assert!(
        matches!(
            check,
            Request::Range {
                revision: 1,
                limit: 1,
                keys_only: true,
                ..
            }
        ),
        "{check:?}"
    );
    read(&mut step, &log, &[], &mut consumer);
    assert_eq!(step.reads(), 1);
    let synced = step.apply(Response::Watching).events;
    assert_eq!(synced[0].changes, [Change::Synced { revision: 1 }]);
    let watched = ranges(&step);
    consumer.take(log.tell(0, &watched[0], 9, 1, |response| step.apply(response)));
    assert_eq!(consumer.shown.len(), 1);
}

#[test]
fn compaction_another_cluster_and_a_log_set_back_lead_to_a_full_read() {
    let start = || {
        let (mut log, mut step, mut consumer) = (Log::new(), step(), Consumer::default());
        log.change(&[("/s/cedar/a", Some(&value("x")))]);
        read(&mut step, &log, &[], &mut consumer);
        step.lose("cut");
        (log, step, consumer)
    };
    let (mut log, mut step, mut consumer) = start();
    log.change(&[("/s/cedar/a", None)]);
    log.compacted = log.revision;
    read(&mut step, &log, &[], &mut consumer);
    assert_eq!((step.reads(), consumer.shown.len()), (2, 0));

    let (mut log, mut step, mut consumer) = start();
    log.cluster = 2;
    read(&mut step, &log, &[], &mut consumer);
    assert_eq!(step.reads(), 2);

    // Restored under its old name, and written to since.
    let (mut log, mut step, mut consumer) = start();
    log.term = 2;
    read(&mut step, &log, &[], &mut consumer);
    assert_eq!(step.reads(), 2);

    let (mut log, mut step, mut consumer) = start();
    log.term = 6;
    read(&mut step, &log, &[], &mut consumer);
    assert_eq!(step.reads(), 1);

    let (_, mut step, mut consumer) = start();
    read(&mut step, &Log::new(), &[], &mut consumer);
    assert_eq!((step.reads(), consumer.shown.len(), consumer.synced), (2, 0, Some(1)));

    let (log, mut step, mut consumer) = start();
    read(&mut step, &log, &[], &mut consumer);
    let canceled = step.apply(Response::Failed {
        range: 0,
        failure: Failure::Compacted,
    });
    assert_eq!(
        canceled,
        Outcome {
            events: Vec::new(),
            then: Then::Ask
        }
    );
    assert!(matches!(step.request(), Request::Range { revision: 0, .. }));
}

#[test]
fn compaction_between_pages_begins_anew() {
    let mut log = Log::new();
    for n in 0..3 * PAGE_KEYS {
        log.log.push((2, format!("/s/cedar/{n:04}"), Some(value("x"))));
    }
    log.revision = 2;
    let (mut step, mut consumer) = (step(), Consumer::default());
    for _ in 0..2 {
        let outcome = log.ask(&step.request(), &[], |response| step.apply(response));
        consumer.take(outcome.events);
    }
    log.change(&[("/s/cedar/0000", None)]);
    log.compacted = 3;
    read(&mut step, &log, &[], &mut consumer);
    assert_eq!((consumer.shown.len(), step.keys(), step.reads()), (5_999, 5_999, 1));
}

#[test]
fn a_role_may_cover_less_than_the_whole_range() {
    let text = value("x");
    let watch_denied = |step: &mut Step| {
        step.apply(Response::Failed {
            range: 0,
            failure: Failure::Denied,
        })
    };
    // Own key and what is below it, but nothing between the two.
    let (mut log, mut parts, mut consumer) = (Log::new(), step(), Consumer::default());
    log.change(&[("/s/cedar", Some(&text)), ("/s/cedar/a", Some(&text))]);
    read(&mut parts, &log, &[], &mut consumer);
    assert_eq!(
        watch_denied(&mut parts),
        Outcome {
            events: Vec::new(),
            then: Then::Ask
        }
    );
    let watched = ranges(&parts);
    assert_eq!(watched.len(), 2);
    log.change(&[("/s/cedar", Some(&value("y"))), ("/s/cedar/b", Some(&text))]);
    for (range, watched) in watched.iter().enumerate() {
        consumer.take(log.tell(range, watched, 9, 9, |response| parts.apply(response)));
    }
    assert_eq!((consumer.shown.len(), consumer.shown["/s/cedar"].as_str()), (3, "y"));

    // Only what is below it.
    let (mut below, mut consumer) = (step(), Consumer::default());
    read(&mut below, &log, &["/s/cedar"], &mut consumer);
    assert!(below.own_denied());
    assert_eq!(ranges(&below).len(), 1);
    assert_eq!((consumer.shown.len(), consumer.synced), (2, Some(3)));

    // Nothing.
    let mut nothing = step();
    nothing.apply(Response::Failed {
        range: 0,
        failure: Failure::Denied,
    });
    let denied = nothing.apply(Response::Failed {
        range: 0,
        failure: Failure::Denied,
    });
    assert_eq!(denied.then, Then::Wait);
    let reason = "permission denied on the keys below /s/cedar/".to_owned();
    assert_eq!(denied.events[0].changes, [Change::Lost { reason }]);
    read(&mut nothing, &log, &[], &mut Consumer::default());
}

#[test]
fn pages_too_large_are_halved() {
    let mut step = step();
    step.apply(Response::Range {
        head: Head {
            cluster: 1,
            term: 1,
            revision: 5,
        },
        keys: Vec::new(),
        more: false,
    });
    let mut limits = Vec::new();
    loop {
        let Request::Range { limit, revision, .. } = step.request() else {
            panic!("no watch yet")
        };
        assert_eq!(revision, if limits.last() == Some(&1) { 0 } else { 5 });
        limits.push(limit);
        if step
            .apply(Response::Failed {
                range: 0,
                failure: Failure::TooLarge,
            })
            .then
            == Then::Wait
        {
            break;
        }
    }
    assert_eq!(limits, [2000, 1000, 500, 250, 125, 62, 31, 15, 7, 3, 1]);
}

#[test]
fn the_root_zone_of_an_empty_path_has_no_own_key() {
    let mut step = Step::new(0, b"/".to_vec());
    let Request::Range { start, end, .. } = step.request() else {
        panic!("no range")
    };
    assert_eq!((start.as_slice(), end.as_slice()), (b"/".as_slice(), b"0".as_slice()));
    step.apply(Response::Range {
        head: Head {
            cluster: 1,
            term: 1,
            revision: 5,
        },
        keys: Vec::new(),
        more: false,
    });
    assert_eq!(ranges(&step)[0].start, b"/");
}

#[derive(Clone, Debug)]
enum Move {
    Change(Vec<(usize, Option<u8>)>),
    Tell { revisions: i64, batch: i64 },
    Cut,
    Compact,
    Restore,
    Ask(usize),
}

const KEYS: [&str; 7] = [
    "/s/cedar",
    "/s/cedar/a",
    "/s/cedar/a/x",
    "/s/cedar/b",
    "/s/cedar-x/a",
    "/s/cedar0",
    "/s/ceda",
];

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let change = proptest::collection::btree_map(0..KEYS.len(), proptest::option::of(0..3_u8), 1..4)
        .prop_map(|changes| Move::Change(changes.into_iter().collect()));
    let one = prop_oneof![
        6 => change,
        4 => (1..5_i64, 1..3_i64).prop_map(|(revisions, batch)| Move::Tell { revisions, batch }),
        1 => Just(Move::Cut),
        1 => Just(Move::Compact),
        1 => Just(Move::Restore),
        3 => (1..4_usize).prop_map(Move::Ask),
    ];
    proptest::collection::vec(one, 0..60)
}

proptest! {
    /// Whatever happens on the way, the consumer ends with what etcd holds.
    #[test]
    fn every_way_ends_with_the_same_keys(moves in moves(), split in any::<bool>()) {
        let (mut log, mut step, mut consumer) = (Log::new(), step(), Consumer::default());
        let texts: Vec<String> = (0..3).map(|n| value(&n.to_string())).collect();
        let ask = |step: &mut Step, log: &Log, consumer: &mut Consumer| {
            let request = step.request();
            if let Request::Range { .. } = request {
                consumer.take(log.ask(&request, &[], |response| step.apply(response)).events);
                return;
            }
            if split && ranges(step).len() == 1 {
                consumer.take(step.apply(Response::Failed { range: 0, failure: Failure::Denied }).events);
            }
            consumer.take(step.apply(Response::Watching).events);
        };
        let tell = |step: &mut Step, log: &Log, consumer: &mut Consumer, upto, batch| {
            for (range, watched) in ranges(step).iter().enumerate() {
                consumer.take(log.tell(range, watched, upto, batch, |response| step.apply(response)));
            }
        };
        for step_by in moves {
            match step_by {
                Move::Change(changes) => {
                    let changes: Vec<_> = changes
                        .iter()
                        .map(|(key, text)| (KEYS[*key], text.map(|text| texts[usize::from(text)].as_str())))
                        .collect();
                    log.change(&changes);
                }
                Move::Tell { revisions, batch } => {
                    let upto = (step.revision() + revisions).min(log.revision);
                    tell(&mut step, &log, &mut consumer, upto, batch);
                }
                Move::Cut => consumer.take(step.lose("cut").into_iter().collect()),
                Move::Compact => log.compacted = log.revision,
                Move::Restore => {
                    log.cluster += 1;
                    log.log.retain(|(at, ..)| *at < 3);
                    log.revision = log.revision.min(2);
                    log.compacted = 0;
                    consumer.take(step.lose("restored").into_iter().collect());
                }
                Move::Ask(times) => (0..times).for_each(|_| ask(&mut step, &log, &mut consumer)),
            }
        }
        for _ in 0..10 {
            ask(&mut step, &log, &mut consumer);
            tell(&mut step, &log, &mut consumer, log.revision, 2);
        }
        let held = log.at(log.revision);
        let in_zone: BTreeMap<String, String> = held
            .into_iter()
            .filter(|(key, _)| key == "/s/cedar" || key.starts_with("/s/cedar/"))
            .map(|(key, (value, _))| (key, Service::parse(value.as_bytes()).unwrap().text))
            .collect();
        prop_assert_eq!(step.keys(), in_zone.len() as i64);
        prop_assert_eq!(consumer.shown, in_zone);
        prop_assert!(consumer.synced.is_some());
    }
}
