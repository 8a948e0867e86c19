//! One changed key: a new version of its zone, published, and the old one freed.

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use nodens_benches::{changed, tree};
use nodens_engine::io::use_huge_pages;
use nodens_engine::snapshot::{Data, Published, ZoneId};
use nodens_engine::zone::Zone;

fn rebuild(c: &mut Criterion) {
    for services in [1_000, 100_000] {
        let mut tree = tree(services);
        // As the server does with what it has read.
        let _ = use_huge_pages();
        let published = Published::default();
        let mut data = Data::default();
        let mut i = 0_u32;
        c.bench_function(&format!("rebuild/etcd/{services}"), |b| {
            b.iter(|| {
                i = i.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let mut editor = tree.edit();
                editor.put(changed((i >> 8) % services, i));
                tree = editor.finish(1_700_000_000);
                data = data.with(ZoneId(0), Zone::Services(tree.clone()));
                drop(published.swap_data(Arc::new(data.clone())));
            });
        });
    }
}

criterion_group!(benches, rebuild);
criterion_main!(benches);
