//! The handler alone: a batch of queries in, a batch of replies out.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nodens_benches::{Kind, Rooms, World, queries};
use nodens_engine::io::use_huge_pages;

const BATCH: usize = 32;

fn respond(c: &mut Criterion) {
    for services in [1_000, 100_000] {
        let mut world = World::new(services);
        // As the server does with what it has read.
        let _ = use_huge_pages();
        let mut rooms = Rooms::default();
        for (kind, name) in [(Kind::A, "a"), (Kind::Srv, "srv"), (Kind::NxDomain, "nxdomain")] {
            let queries = queries(kind, services, BATCH * 4096);
            let mut starts = (0..queries.len()).step_by(BATCH).cycle();
            let mut group = c.benchmark_group(format!("respond/etcd/{name}"));
            group.throughput(Throughput::Elements(BATCH as u64));
            group.bench_function(format!("{services}"), |b| {
                b.iter(|| world.answer(&queries, starts.next().expect("it never ends"), BATCH, &mut rooms));
            });
            group.finish();
        }
    }
}

criterion_group!(benches, respond);
criterion_main!(benches);
