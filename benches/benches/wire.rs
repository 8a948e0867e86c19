//! Names, queries and replies as bytes: what every answer pays before anything is looked up.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use nodens_wire::{Builder, Compressor, Flags, NameBuf, Owner, Query, Rclass, Rcode, Rtype, Section, edns, label};

const QNAME: &str = "kubernetes.default.svc.cedar";
const REPLY_MAX: usize = 1232;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text).expect("a name")
}

/// A query as a stub resolver sends it, with or without an OPT that holds a cookie.
fn packet(options: Option<&[u8]>) -> Vec<u8> {
    let mut names = Compressor::new();
    let mut buf = vec![0; 512];
    let mut query = Builder::new(&mut buf, 512, &mut names);
    query.header(7, Flags::default().with_rd(true));
    query
        .question(name(QNAME).as_name(), Rtype::A, Rclass::IN)
        .expect("there is room");
    if let Some(cookie) = options {
        query
            .opt(1232, Rcode::NOERROR, false, [(edns::COOKIE, cookie)])
            .expect("there is room");
    }
    let len = query.finish();
    buf.truncate(len);
    buf
}

fn query(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/query");
    let (plain, opt) = (packet(None), packet(Some(b"8 bytes.")));
    group.bench_function("parse", |b| b.iter(|| Query::parse(black_box(&plain)).is_ok()));
    group.bench_function("parse-opt", |b| b.iter(|| Query::parse(black_box(&opt)).is_ok()));
}

fn names(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/name");
    let qname = name("Kubernetes.Default.svc.cedar");
    let folded = qname.clone().folded();
    let mut room = [0; 255];
    group.bench_function("fold", |b| {
        b.iter(|| label::fold_into(black_box(qname.as_bytes()), black_box(&mut room)))
    });
    group.bench_function("eq", |b| {
        b.iter(|| black_box(qname.as_name()) == black_box(folded.as_name()))
    });
}

/// Starts a reply to `query`, lets `records` fill it, and gives its length.
fn reply(query: &Query<'_>, buf: &mut [u8], names: &mut Compressor, records: impl FnOnce(&mut Builder<'_>)) -> usize {
    let mut reply = Builder::new(buf, REPLY_MAX, names);
    reply.header(query.id, query.flags.reply().with_aa(true));
    reply.question_raw(query.question()).expect("there is room");
    records(&mut reply);
    reply.finish()
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/build");
    let packet = packet(None);
    let query = Query::parse(&packet).expect("a query");
    let (mut buf, mut names) = ([0; REPLY_MAX], Compressor::new());

    let address = [192, 0, 2, 1];
    group.bench_function("a", |b| {
        b.iter(|| {
            reply(&query, black_box(&mut buf), &mut names, |reply| {
                let rdata = &black_box(&address)[..];
                reply
                    .record_wire(Section::Answer, Owner::Question, Rtype::A, Rclass::IN, 5, rdata)
                    .expect("there is room");
            })
        });
    });

    let zone = name("svc.cedar");
    let soa = [
        name("ns.dns.cedar").as_bytes(),
        name("hostmaster.cedar").as_bytes(),
        &[0; 20],
    ]
    .concat();
    group.bench_function("soa", |b| {
        b.iter(|| {
            reply(&query, black_box(&mut buf), &mut names, |reply| {
                let owner = Owner::Name(zone.as_name());
                reply
                    .record_wire(Section::Authority, owner, Rtype::SOA, Rclass::IN, 5, black_box(&soa))
                    .expect("there is room");
            })
        });
    });

    let hosts: Vec<NameBuf> = (0..10)
        .map(|i| name(&format!("pod-{i}.web.default.svc.cedar")))
        .collect();
    let services: Vec<Vec<u8>> = hosts.iter().map(|host| [&[0; 6], host.as_bytes()].concat()).collect();
    group.bench_function("srv10", |b| {
        b.iter(|| {
            reply(&query, black_box(&mut buf), &mut names, |reply| {
                for rdata in &services {
                    reply
                        .record_wire(Section::Answer, Owner::Question, Rtype::SRV, Rclass::IN, 5, rdata)
                        .expect("there is room");
                }
                for host in &hosts {
                    let owner = Owner::Name(host.as_name());
                    reply
                        .record_wire(Section::Additional, owner, Rtype::A, Rclass::IN, 5, &address)
                        .expect("there is room");
                }
            })
        });
    });
}

criterion_group!(benches, query, names, build);
criterion_main!(benches);
