//! The cache takes its memory once; an entry takes none, and neither does a hit.

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

#[test]
fn a_slab_is_one_allocation() {
    let counted = measure(|| drop(Cache::new(SIZE)));
    // Beside it, the list of blocks.
    assert!(counted.bytes_total <= SIZE as u64 + 1024, "{counted:?}");
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
    let (mut out, mut hits) = (Vec::with_capacity(large.len() + 8), 0);
    let counted = measure(|| {
        for (at, name) in names.iter().enumerate() {
            if get(&cache, block, name, &mut out).is_some() {
                hits += 1;
                assert_eq!(out.len(), bytes(at).len());
            }
        }
    });
    assert_eq!(counted.count_total, 0, "hits: {counted:?}");
    // A set is now and then full before its turn to be divided comes, and a large entry needs a place in ten.
    assert!(hits > names.len() * 98 / 100, "{hits} of {}", names.len());
}
