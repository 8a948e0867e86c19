//! Questions and faults by seed: each question ends once, and nothing is left behind.
//!
//! `SEED=7 cargo test -p nodens-tests forward::seeds` runs one seed.

use std::sync::Arc;
use std::time::Duration;

use nodens_engine::forward::{InUse, Policy, Settings, Stanza};
use nodens_tests::seed::Seeded;
use nodens_tests::sim::asking::{Asking, address, settings};
use nodens_tests::sim::servers::Manner;
use nodens_tests::world::random;
use nodens_wire::Rcode;

use super::SECOND;

const STEPS: usize = 3000;
const SERVERS: u8 = 4;

/// Everything at random: who answers and how, what is asked and how, what is cancelled, how many descriptors there are.
fn run(seed: u64) -> String {
    let mut seeded = Seeded::new(seed);
    let mut asking = Asking::new(seed);
    for n in 1..=SERVERS {
        asking.servers.set(address(n), manner(&mut seeded));
    }
    let stanzas: Vec<Arc<Stanza>> = (0..3)
        .map(|_| Arc::new(Stanza::new(any_settings(&mut seeded))))
        .collect();
    let (mut asked, mut cancelled, mut ended) = (0, 0, 0);
    let mut open = Vec::new();
    for step in 0..STEPS {
        match seeded.below(40) {
            0 => {
                let n = 1 + seeded.below(SERVERS.into()) as u8;
                asking.servers.set(address(n), manner(&mut seeded));
            }
            1 => asking
                .servers
                .end_streams(address(1 + seeded.below(SERVERS.into()) as u8)),
            2 if !open.is_empty() => {
                let ticket = open.swap_remove(seeded.below(open.len()));
                asking.cancel(ticket);
                cancelled += 1;
            }
            3 => {
                let descriptors = *seeded.pick(&[5, 50, usize::MAX]);
                asking.servers.limit_descriptors(descriptors);
            }
            _ => {
                let stanza = &stanzas[seeded.below(stanzas.len())];
                open.push(asking.ask_by(stanza, &format!("n{step}.example"), seeded.once_in(3)));
                asked += 1;
            }
        }
        let millis = if seeded.once_in(20) { 400 } else { 4 };
        asking.pass(Duration::from_millis(seeded.below(millis) as u64));
        let outcomes = asking.take_outcomes();
        open.retain(|ticket| !outcomes.contains_key(ticket));
        ended += outcomes.len();
        for outcome in outcomes.values() {
            assert!(outcome.took <= 7 * SECOND, "{outcome:?}");
            if let Ok(reply) = &outcome.result {
                assert!(reply.said().is_whole());
            }
        }
    }
    asking.pass(8 * SECOND);
    ended += asking.take_outcomes().len();
    assert_eq!(
        (asked, asking.open()),
        (ended + cancelled, 0),
        "every question ends once"
    );
    assert!(stanzas.iter().all(|stanza| stanza.in_flight() == 0));
    // Probes end with their stanza, and sockets some time after.
    drop(stanzas);
    asking.rest();
    assert_eq!(asking.forwarder.in_use(), InUse::default());
    let (sockets, streams, most) = asking.servers.open();
    assert_eq!((sockets, streams), (0, 0));
    format!(
        "{asked} asked, {cancelled} cancelled, {most} sockets, {} late, {} unasked",
        asking.stats.forward.late.get(),
        asking.stats.forward.unasked.get()
    )
}

fn manner(seeded: &mut Seeded) -> Manner {
    *seeded.pick(&[
        Manner::Answers,
        Manner::Answers,
        Manner::Answers,
        Manner::Slow(Duration::from_millis(300)),
        Manner::Slow(Duration::from_millis(2500)),
        Manner::Silent,
        Manner::Refusing,
        Manner::Away,
        Manner::Lying,
        Manner::Truncating,
        Manner::Cutting,
        Manner::Says(Rcode::SERVFAIL),
        Manner::Says(Rcode::NXDOMAIN),
        Manner::Empty,
        Manner::Old { repeats: true },
        Manner::Old { repeats: false },
        Manner::Closing(0),
        Manner::Closing(1),
        Manner::Closing(7),
        Manner::Resetting,
    ])
}

fn any_settings(seeded: &mut Seeded) -> Settings {
    let mut settings = settings(1 + seeded.below(SERVERS.into()) as u8);
    settings.policy = *seeded.pick(&[
        Policy::Random,
        Policy::RoundRobin,
        Policy::Sequential,
        Policy::LeastConn,
    ]);
    settings.force_tcp = seeded.once_in(4);
    settings.prefer_udp = seeded.once_in(3);
    settings.failfast = seeded.once_in(4);
    settings.idle_max = seeded.once_in(2).then(|| seeded.below(3));
    settings.max_age = seeded.once_in(2).then_some(20 * SECOND);
    settings.concurrent_max = seeded.once_in(3).then_some(20);
    if seeded.once_in(2) {
        settings.failover = [Rcode::SERVFAIL].into();
    }
    settings
}

#[test]
fn seeds() {
    let seed = std::env::var("SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds: Vec<u64> = match seed {
        Some(seed) => vec![seed],
        None => (1..=6)
            .chain(std::iter::repeat_with(|| random() % 1_000_000).take(2))
            .collect(),
    };
    for seed in seeds {
        println!("seed {seed}");
        println!("{}", run(seed));
    }
}

#[test]
fn a_seed_says_it_all() {
    assert_eq!(run(5), run(5));
}
