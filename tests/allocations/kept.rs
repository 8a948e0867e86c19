//! What is kept of a service: the names between it and the zone cost next to nothing.

use allocation_counter::{AllocationInfo, measure};
use nodens_tests::folding::{Folding, Value};

const SERVICES: usize = 10_000;
/// Names between a deep key and one that is not.
const BETWEEN: f64 = 3.0;

/// What is kept once all services have been read.
fn kept(key: impl Fn(usize) -> String) -> AllocationInfo {
    let value = |i: usize| -> Value { (format!(r#"{{"host":"10.0.{}.{}","port":80}}"#, i / 250, i % 250), None) };
    let mut all: Vec<(String, Value)> = (0..SERVICES).map(|i| (key(i), value(i))).collect();
    all.sort();
    let mut folding = Folding::new("cedar.example.");
    measure(|| folding.read(all.iter().map(|(key, value)| (key, value))))
}

#[test]
fn names_between() {
    let each = |what: &str, info: AllocationInfo| {
        let [count, bytes] = [info.count_current, info.bytes_current].map(|total| total as f64 / SERVICES as f64);
        println!("{what}: {count:.1} allocations, {bytes:.0} bytes a service");
        (count, bytes)
    };
    let (count, bytes) = each("flat", kept(|i| format!("ns-{}/svc-{i}", i % 100)));
    assert!(count < 4.0 && bytes < 350.0);
    let deep = kept(|i| format!("ns-{}/svc-{i}/x/y/host", i % 100));
    let pairs = kept(|i| format!("ns-{}/svc-{}/x/y/host-{i}", i % 100, i / 2));
    for (what, info) in [("deep", deep), ("deep, in pairs", pairs)] {
        let (deep_count, deep_bytes) = each(what, info);
        // A place in the table, and a part of the key.
        assert!(deep_count - count < 0.1);
        assert!((deep_bytes - bytes) / BETWEEN < 24.0);
    }
}
