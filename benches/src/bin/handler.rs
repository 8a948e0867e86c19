//! The handler alone, a given number of times: what instruction counters and profilers look at.
//!
//! `handler KIND SERVICES BATCHES` with KIND one of [`Kind::ALL`]; batches of 32.

use std::process::ExitCode;

use nodens_benches::{Kind, Rooms, World, queries};

const BATCH: usize = 32;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, services, batches] = &words[..] else {
        return usage();
    };
    let Some(&(_, kind)) = Kind::ALL.iter().find(|(name, _)| name == kind) else {
        return usage();
    };
    let (Ok(services), Ok(batches)) = (services.parse(), batches.parse()) else {
        return usage();
    };
    let mut world = World::for_kind(kind, services);
    let mut rooms = Rooms::default();
    let queries = queries(kind, services, BATCH * 1024);
    let mut bytes = 0;
    for start in (0..queries.len()).step_by(BATCH).cycle().take(batches) {
        bytes += world.answer(&queries, start, BATCH, &mut rooms);
    }
    println!("{bytes} bytes of replies");
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let kinds = Kind::ALL.map(|(name, _)| name).join("|");
    eprintln!("usage: handler {kinds} SERVICES BATCHES");
    ExitCode::from(2)
}
