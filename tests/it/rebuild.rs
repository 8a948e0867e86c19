//! A zone changed step by step against the same zone built anew: the same replies, byte for byte, and a serial that moves
//! with a change alone.
//!
//! `SEED=7 cargo test -p nodens-tests rebuild` runs one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodens_engine::plan::{Plan, Step};
use nodens_engine::services::ServiceTree;
use nodens_engine::zone::{Collector, RecordZone, RecordZoneBuilder, RrSet, Zone};
use nodens_sources::etcd::{LeaseId, LeaseState, LeaseUpdate, Message};
use nodens_tests::folding::Folding;
use nodens_tests::seed::Seeded;
use nodens_tests::served::{Served, etcd, file, hash, name, packet, soa};
use nodens_wire::{NameBuf, Rtype};

const ZONE: &str = "cedar.example.";
const SEEDS: u64 = 10;
const TYPES: [&str; 11] = [
    "A", "AAAA", "TXT", "SRV", "MX", "CNAME", "DNAME", "NS", "DS", "SOA", "PTR",
];

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}

/// A world whose replies depend on the data alone: nothing is shuffled.
fn served(step: Step, zone: Zone) -> Served {
    Served::new(
        vec![(
            ZONE,
            Plan {
                steps: [step].into(),
                metrics: true,
                ..Plan::default()
            },
        )],
        vec![zone],
        None,
    )
}

/// The names, all above them in the zone, one below each, and wildcards beside them.
fn around<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut all = BTreeSet::from([ZONE.to_owned()]);
    for name in names {
        let mut name = name.to_owned();
        all.insert(format!("below.{name}"));
        while name != ZONE {
            all.insert(name.clone());
            let above = name.split_once('.').expect("a name of the zone").1.to_owned();
            all.insert(format!("*.{above}"));
            all.insert(format!("nobody.{above}"));
            name = above;
        }
    }
    all
}

/// Asks both for every name and type; tells how many questions that were.
fn compare(seed: u64, one: &mut Served, other: &mut Served, names: &BTreeSet<String>) -> usize {
    for name in names {
        for rtype in TYPES {
            let question = format!("{name} {rtype}");
            for size in [None, Some(u16::MAX)] {
                let query = packet(1, &question, size);
                let (changed, anew) = (one.exchange(&query, 65_535), other.exchange(&query, 65_535));
                assert!(
                    changed == anew,
                    "seed {seed}: {question}\nchanged   {changed:02x?}\nbuilt anew {anew:02x?}"
                );
            }
        }
    }
    names.len() * TYPES.len() * 2
}

// What is in a zone of services.

type Keys = BTreeMap<String, (String, Option<LeaseId>)>;

fn random_value(seeded: &mut Seeded) -> (String, Option<LeaseId>) {
    let host = match seeded.below(6) {
        0..=2 => format!("192.0.2.{}", seeded.below(5)),
        3 => format!("2001:db8::{}", 1 + seeded.below(3)),
        4 => {
            random_key(seeded)
                .rsplit('/')
                .map(|part| format!("{part}."))
                .collect::<String>()
                + ZONE
        }
        _ => String::new(),
    };
    let text = if host.is_empty() || seeded.once_in(5) { "t" } else { "" };
    let group = if seeded.once_in(6) {
        *seeded.pick(&["g1", "g2"])
    } else {
        ""
    };
    let (port, mail) = (seeded.below(3), seeded.once_in(3));
    let value = if seeded.once_in(12) {
        "no JSON".to_owned()
    } else {
        format!(r#"{{"host":"{host}","text":"{text}","group":"{group}","port":{port},"mail":{mail}}}"#)
    };
    (value, seeded.once_in(5).then(|| LeaseId(1 + seeded.below(3) as i64)))
}

fn random_key(seeded: &mut Seeded) -> String {
    let parts: Vec<&str> = (0..=seeded.below(3))
        .map(|_| *seeded.pick(&["a", "b", "web", "x1", "w.b", "*"]))
        .collect();
    if seeded.once_in(12) {
        format!("dns/{}", seeded.pick(&["ns/1", "apex/1"]))
    } else {
        parts.join("/")
    }
}

/// A key, and what it holds now: value and lease, or nothing.
type Edit = (String, Option<(String, Option<LeaseId>)>);

fn change_keys(keys: &mut Keys, seeded: &mut Seeded) -> Vec<Edit> {
    let mut changes = BTreeMap::new();
    for _ in 0..1 + seeded.below(3) {
        let known: Vec<String> = keys.keys().cloned().collect();
        let old = !known.is_empty() && seeded.once_in(2);
        let key = if old {
            seeded.pick(&known).clone()
        } else {
            random_key(seeded)
        };
        let value = if old && seeded.once_in(2) {
            None
        } else {
            Some(random_value(seeded))
        };
        changes.insert(key, value);
    }
    for (key, value) in &changes {
        match value {
            Some(value) => _ = keys.insert(key.clone(), value.clone()),
            None => _ = keys.remove(key),
        }
    }
    changes.into_iter().collect()
}

fn name_of(key: &str) -> String {
    key.rsplit('/')
        .filter(|part| !part.is_empty())
        .map(|part| format!("{part}."))
        .collect::<String>()
        + ZONE
}

/// Both with the same serial, which tells how often each was published.
fn same_serial(one: &ServiceTree, other: &ServiceTree) -> (Zone, Zone) {
    let next = u64::from(one.serial().max(other.serial())) + 1;
    (
        Zone::Services(one.edit().finish(next)),
        Zone::Services(other.edit().finish(next)),
    )
}

#[test]
fn services_changed_key_by_key_answer_as_those_read_anew() {
    let mut asked = 0;
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let (mut keys, mut seen) = (Keys::new(), BTreeSet::new());
        let mut changed = Folding::new(ZONE);
        changed.reset();
        changed.synced();
        for _ in 0..8 {
            for _ in 0..1 + seeded.below(6) {
                let changes = change_keys(&mut keys, &mut seeded);
                seen.extend(changes.iter().map(|(key, _)| name_of(key)));
                changed.revision(&changes);
            }
            let mut anew = Folding::new(ZONE);
            anew.read(keys.iter());
            assert_eq!(changed.tree().names_len(), anew.tree().names_len(), "seed {seed}");
            assert_eq!(changed.tree().bad_keys(), anew.tree().bad_keys(), "seed {seed}");
            let (one, other) = same_serial(&changed.tree(), &anew.tree());
            let (mut one, mut other) = (served(etcd(ZONE, 0), one), served(etcd(ZONE, 0), other));
            asked += compare(seed, &mut one, &mut other, &around(seen.iter().map(String::as_str)));
        }
    }
    println!("{asked} questions to zones of services");
}

/// Full reads over a zone that is there, in pages of any size, broken off and begun anew, leases between the pages.
#[test]
fn a_read_ends_the_same_whatever_came_before() {
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let mut keys = Keys::new();
        let mut folding = Folding::new(ZONE);
        for _ in 0..6 {
            for _ in 0..seeded.below(12) {
                change_keys(&mut keys, &mut seeded);
            }
            let before = folding.published();
            while seeded.once_in(2) {
                // Another state of the zone, read in part and given up.
                let mut other = keys.clone();
                change_keys(&mut other, &mut seeded);
                folding.reset();
                let part: Vec<_> = other.iter().take(seeded.below(other.len() + 1)).collect();
                folding.page(&part);
                if seeded.once_in(2) {
                    folding.lost("connection refused");
                }
            }
            folding.reset();
            let all: Vec<_> = keys.iter().collect();
            let mut rest = &all[..];
            while !rest.is_empty() {
                let (page, behind) = rest.split_at(1 + seeded.below(rest.len()));
                folding.page(page);
                if seeded.once_in(3) {
                    let lease = LeaseId(1 + seeded.below(3) as i64);
                    folding.apply(Message::Lease(LeaseUpdate {
                        lease,
                        state: LeaseState::None,
                    }));
                }
                rest = behind;
            }
            assert!(
                Arc::ptr_eq(&before, &folding.published()),
                "seed {seed}: nothing of a read shows before its end"
            );
            folding.synced();
            let found: Vec<String> = folding.keys();
            assert!(
                found.iter().eq(keys.keys()),
                "seed {seed}: {found:?}\nnot {:?}",
                keys.keys()
            );
            let mut anew = Folding::new(ZONE);
            anew.read(keys.iter());
            for lease in (1..=3).map(LeaseId) {
                for folding in [&mut folding, &mut anew] {
                    folding.apply(Message::Lease(LeaseUpdate {
                        lease,
                        state: LeaseState::None,
                    }));
                }
            }
            let (one, other) = same_serial(&folding.tree(), &anew.tree());
            let (mut one, mut other) = (served(etcd(ZONE, 0), one), served(etcd(ZONE, 0), other));
            let names: Vec<String> = keys.keys().map(|key| name_of(key)).collect();
            compare(seed, &mut one, &mut other, &around(names.iter().map(String::as_str)));
        }
    }
}

#[test]
fn a_serial_moves_with_a_change_and_never_back() {
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let mut keys = Keys::new();
        let mut folding = Folding::new(ZONE);
        folding.reset();
        folding.synced();
        for _ in 0..30 {
            let before = folding.tree().serial();
            let held = keys.clone();
            let known = folding.published();
            let again = seeded.below(3);
            match again {
                // What is there is put again, or taken out where it never was.
                0 => {
                    let mut same: Vec<_> = keys
                        .iter()
                        .map(|(key, value)| (key.clone(), Some(value.clone())))
                        .collect();
                    same.push(("never/was".to_owned(), None));
                    folding.revision(&same);
                }
                1 => folding.read(keys.iter()),
                _ => folding.revision(&change_keys(&mut keys, &mut seeded)),
            }
            let after = folding.tree().serial();
            if keys == held {
                assert_eq!(after, before, "seed {seed}: nothing changed");
                assert!(
                    Arc::ptr_eq(&known, &folding.published()),
                    "seed {seed}: nothing is published"
                );
            } else {
                let ahead = after.wrapping_sub(before);
                assert!(ahead > 0 && ahead < 1 << 31, "seed {seed}: {before} to {after}");
            }
        }
    }
}

/// A clock that is set back, or runs over the end of 32 bits.
#[test]
fn a_serial_goes_ahead_whatever_the_clock_says() {
    let mut tree = ServiceTree::unsynced(name(ZONE).as_name(), 0xffff_fff0, hash());
    for clock in [
        0xffff_fff8,
        0xffff_fff8,
        5,
        0x1_0000_0004,
        0x1_0000_0040,
        0,
        0x1_7000_0000,
        0x1_f000_0000,
        0x1_0000_0000,
    ] {
        let next = tree.edit().finish(clock);
        let ahead = next.serial().wrapping_sub(tree.serial());
        assert!(
            ahead > 0 && ahead < 1 << 31,
            "{clock:x}: {:x} to {:x}",
            tree.serial(),
            next.serial()
        );
        tree = next;
    }
}

// What is in a zone of records.

type Sets = BTreeMap<String, BTreeMap<&'static str, BTreeSet<Vec<u8>>>>;

fn random_owner(seeded: &mut Seeded) -> String {
    let mut owner = ZONE.to_owned();
    for _ in 0..=seeded.below(3) {
        owner = format!("{}.{owner}", seeded.pick(&["a", "b", "mail", "sub", "*"]));
    }
    owner
}

fn random_record(seeded: &mut Seeded) -> (String, &'static str, Vec<u8>) {
    let owner = if seeded.once_in(15) {
        ZONE.to_owned()
    } else {
        random_owner(seeded)
    };
    let target = if seeded.once_in(8) {
        name("www.oak.example.")
    } else {
        name(&random_owner(seeded))
    };
    let short = |number: usize| (number as u16).to_be_bytes();
    let (rtype, rdata) = match seeded.below(10) {
        0..=2 => ("A", vec![192, 0, 2, seeded.below(4) as u8]),
        3 => ("AAAA", [&[0x20; 15], &[seeded.below(3) as u8][..]].concat()),
        4 => ("MX", [&short(seeded.below(2)), target.as_bytes()].concat()),
        5 => ("SRV", [&short(1), &short(0), &short(80), target.as_bytes()].concat()),
        6 => ("NS", target.as_bytes().to_vec()),
        7 => ("TXT", b"\x04text".to_vec()),
        8 if owner != ZONE => ("CNAME", target.as_bytes().to_vec()),
        9 if owner != ZONE => ("DNAME", target.as_bytes().to_vec()),
        _ => ("A", vec![192, 0, 2, 9]),
    };
    (owner, rtype, rdata)
}

/// Puts or takes a record; an alias stands alone, also as a DNAME.
fn change_records(sets: &mut Sets, seeded: &mut Seeded) -> String {
    let known: Vec<String> = sets.keys().filter(|owner| *owner != ZONE).cloned().collect();
    if !known.is_empty() && seeded.once_in(3) {
        let owner = seeded.pick(&known).clone();
        sets.remove(&owner);
        return owner;
    }
    let (owner, rtype, rdata) = random_record(seeded);
    let at = sets.entry(owner.clone()).or_default();
    let alone = |rtype: &str| matches!(rtype, "CNAME" | "DNAME");
    if alone(rtype) || at.keys().any(|other| alone(other)) {
        at.clear();
    }
    at.entry(rtype).or_default().insert(rdata);
    owner
}

fn sets_of(owner: &str, sets: &Sets) -> Vec<RrSet> {
    let mut collector = Collector::default();
    for (rtype, records) in sets.get(owner).into_iter().flatten() {
        for rdata in records {
            let ttl = 60 + rtype.len() as u32;
            collector.add(&name(owner), rtype.parse().expect("a type"), ttl, rdata, false);
        }
    }
    collector.into_sets().flat_map(|(_, sets)| sets).collect()
}

fn builder() -> RecordZoneBuilder {
    RecordZoneBuilder::new(RecordZone::unloaded(name(ZONE).as_name(), hash()))
}

#[test]
fn records_changed_name_by_name_answer_as_those_built_anew() {
    let mut asked = 0;
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let apex = BTreeMap::from([("SOA", BTreeSet::from([soa(ZONE)]))]);
        let mut sets = Sets::from([(ZONE.to_owned(), apex)]);
        let mut changed = builder();
        let apex: NameBuf = name(ZONE);
        changed.set(apex.as_name(), sets_of(ZONE, &sets)).unwrap();
        let mut seen = BTreeSet::from(["ns1.cedar.example.".to_owned()]);
        for _ in 0..8 {
            for _ in 0..1 + seeded.below(8) {
                let owner = change_records(&mut sets, &mut seeded);
                changed.set(name(&owner).as_name(), sets_of(&owner, &sets)).unwrap();
                seen.insert(owner);
                if seeded.once_in(2) {
                    changed.finish();
                }
            }
            let mut anew = builder();
            for owner in sets.keys() {
                anew.set(name(owner).as_name(), sets_of(owner, &sets)).unwrap();
            }
            let (one, other) = (changed.finish(), anew.finish());
            assert_eq!(one.names_len(), other.names_len(), "seed {seed}: {sets:?}");
            let sorted = |zone: &RecordZone| zone.nodes().map(|node| node.labels().to_vec()).collect::<BTreeSet<_>>();
            assert_eq!(sorted(&one), sorted(&other), "seed {seed}");
            let (one, other) = (Zone::Records(one), Zone::Records(other));
            let (mut one, mut other) = (served(file(ZONE, 0), one), served(file(ZONE, 0), other));
            asked += compare(seed, &mut one, &mut other, &around(seen.iter().map(String::as_str)));
        }
    }
    println!("{asked} questions to zones of records");
}

/// A name that goes takes with it what led to it: nothing of many reloads is kept.
#[test]
fn names_that_go_leave_nothing_behind() {
    let mut builder = builder();
    let apex = name(ZONE);
    builder
        .set(apex.as_name(), vec![RrSet::new(Rtype::SOA, [(60, &soa(ZONE)[..])])])
        .unwrap();
    let empty = builder.finish().names_len();
    let one_round = |round: usize, builder: &mut RecordZoneBuilder| {
        let owner = name(&format!("a.b.c{round}.{ZONE}"));
        let target = [&[0, 10], name(&format!("mail{round}.{ZONE}")).as_bytes()].concat();
        builder
            .set(owner.as_name(), vec![RrSet::new(Rtype::MX, [(60, &target[..])])])
            .unwrap();
        assert_eq!(builder.finish().names_len(), empty + 3);
        builder.set(owner.as_name(), Vec::new()).unwrap();
        assert_eq!(builder.finish().names_len(), empty);
    };
    one_round(0, &mut builder);
    let size = format!("{builder:?}").len();
    (1..=9).for_each(|round| one_round(round, &mut builder));
    assert_eq!(format!("{builder:?}").len(), size);
}
