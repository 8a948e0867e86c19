//! What one change costs is the same at any size: as many allocations, and as many bytes.

use allocation_counter::{AllocationInfo, measure};
use nodens_engine::zone::{RecordZone, RecordZoneBuilder, RrSet};
use nodens_tests::folding::{Folding, Value};
use nodens_tests::seed::Seeded;
use nodens_tests::served::{hash, name, soa};
use nodens_wire::Rtype;

const ZONE: &str = "cedar.example.";
const SMALL: usize = 1_000;
const LARGE: usize = 100_000;
/// Changes that are measured together.
const CHANGES: usize = 256;

fn key(i: usize) -> String {
    format!("ns/svc-{i:06}")
}

fn value(i: usize) -> Value {
    (
        format!(r#"{{"host":"10.0.{}.{}","port":80}}"#, i / 256 % 256, i % 256),
        None,
    )
}

/// All services below one name, then single keys put anew.
fn services(size: usize) -> AllocationInfo {
    let all: Vec<(String, Value)> = (0..size).map(|i| (key(i), value(i))).collect();
    let mut folding = Folding::new(ZONE);
    folding.read(all.iter().map(|(key, value)| (key, value)));
    let mut seeded = Seeded::new(1);
    let mut change = |folding: &mut Folding| {
        let changed = [(key(seeded.below(size)), Some(value(seeded.below(60_000))))];
        folding.revision(&changed);
    };
    change(&mut folding);
    measure(|| (0..CHANGES).for_each(|_| change(&mut folding)))
}

fn records(size: usize) -> AllocationInfo {
    let mut builder = RecordZoneBuilder::new(RecordZone::unloaded(name(ZONE).as_name(), hash()));
    let apex = name(ZONE);
    builder
        .set(apex.as_name(), vec![RrSet::new(Rtype::SOA, [(60, &soa(ZONE)[..])])])
        .unwrap();
    let put = |builder: &mut RecordZoneBuilder, i: usize, last: u8| {
        let owner = name(&format!("svc-{i:06}.ns.{ZONE}"));
        builder
            .set(
                owner.as_name(),
                vec![RrSet::new(Rtype::A, [(60, &[10, 0, 0, last][..])])],
            )
            .unwrap();
    };
    for i in 0..size {
        put(&mut builder, i, 1);
    }
    let mut served = builder.finish();
    let mut seeded = Seeded::new(1);
    measure(|| {
        for round in 0..CHANGES {
            put(&mut builder, seeded.below(size), 2 + round as u8 % 200);
            served = builder.finish();
        }
        assert!(served.is_loaded());
    })
}

fn check(what: &str, of: fn(usize) -> AllocationInfo) {
    let (small, large) = (of(SMALL), of(LARGE));
    let each = |total: u64| total as f64 / CHANGES as f64;
    for (size, info) in [(SMALL, small), (LARGE, large)] {
        println!(
            "{what}, {size}: {:.1} allocations, {:.0} bytes a change",
            each(info.count_total),
            each(info.bytes_total)
        );
    }
    assert!(small.count_total > 0);
    assert!(
        large.count_total <= 2 * small.count_total,
        "{what}: {small:?} {large:?}"
    );
    assert!(
        large.bytes_total <= 2 * small.bytes_total,
        "{what}: {small:?} {large:?}"
    );
    // Whatever a change replaces is freed.
    let grown = each(large.bytes_current.unsigned_abs());
    assert!(grown < 64.0, "{what}: {grown} bytes a change are kept");
}

#[test]
fn one_changed_service() {
    check("services", services);
}

#[test]
fn one_changed_record() {
    check("records", records);
}
