//! The cache takes its memory once, as it fills, and a hit takes none.

use allocation_counter::measure;
use nodens_engine::cache::{Cache, Found, Key, Kind, New, Stored};
use nodens_engine::time::Instant;
use nodens_tests::served::{hash, name};
use nodens_wire::{NameBuf, Rclass, Rtype};

const SIZE: usize = 64 << 20;
const NOW: Instant = Instant(1_000_000_000);

fn key(block: u32, name: &NameBuf) -> Key<'_> {
    Key {
        block,
        name: name.as_bytes(),
        rtype: Rtype::A,
        rclass: Rclass::IN,
        dnssec_ok: false,
        checking_disabled: false,
    }
}

fn insert(cache: &Cache, block: u32, name: &NameBuf, bytes: &[u8]) -> Stored {
    let new = New {
        kind: Kind::Success,
        is_failure: false,
        ttl_secs: 30,
        useful_secs: 30,
        entries_max: usize::MAX,
        bytes,
    };
    cache.insert(hash().of(name.as_bytes()), &key(block, name), &new, NOW)
}

fn get(cache: &Cache, block: u32, name: &NameBuf, out: &mut Vec<u8>) -> Option<Found> {
    let hash = hash().of(name.as_bytes());
    cache.get(hash, &key(block, name), out, |success, _| {
        success.map(|found| found.kind)
    })
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_slab_is_reserved_at_once_and_taken_as_it_fills() {
    let before = resident();
    let mut cache = None;
    let counted = measure(|| cache = Some(Cache::new(16 * SIZE)));
    assert!(counted.bytes_total <= 16 * SIZE as u64 + 4096, "{counted:?}");
    // Other tests of this binary run meanwhile.
    assert!(resident() < before + 4 * SIZE);
    assert_eq!(cache.map(|cache| cache.figures().bytes_max), Some(16 * SIZE));
}

#[test]
fn entries_and_hits() {
    let cache = Cache::new(SIZE);
    let block = cache.open().number();
    let names: Vec<_> = (0..20_000).map(|i| name(&format!("host-{i}.cedar.example."))).collect();
    let (small, large) = ([7; 120], [7; 20_000]);
    let bytes = |at: usize| if at.is_multiple_of(100) { &large[..] } else { &small[..] };
    assert_eq!(insert(&cache, block, &names[0], &large), Stored::Yes);
    let counted = measure(|| {
        for (at, name) in names.iter().enumerate() {
            assert_eq!(insert(&cache, block, name, bytes(at)), Stored::Yes);
        }
    });
    assert_eq!(counted.count_total, 0, "entries: {counted:?}");
    let mut out = Vec::with_capacity(large.len() + 8);
    let counted = measure(|| {
        for (at, name) in names.iter().enumerate() {
            assert!(get(&cache, block, name, &mut out).is_some());
            assert_eq!(out.len(), bytes(at).len());
        }
    });
    assert_eq!(counted.count_total, 0, "hits: {counted:?}");
}
