//! nodens and a large cluster: its memory, how soon a change is seen, and what changes and lists cost those who ask meanwhile.
//!
//! ```text
//! scale [made-up|real] [--secs N] [--rate N] [--services N] [--endpoints N] [--namespaces N] [--headless-every N] [--pods N]
//! ```
//!
//! `made-up` makes the objects itself and serves them, `real` writes them into an API server. With `--pods`, Pods are read too. The rate of
//! the load is that of questions, half of what the server was found to answer if it is not given.

mod bed;
mod load;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use nodens_benches::cluster::{Kind, Shape, drain};

use bed::{Bed, Cluster};
use load::{Figures, ask_evenly, half_of_most, visible_after};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const USAGE: &str = "usage: scale [made-up|real] [--secs N] [--rate N] [--services N] [--endpoints N] [--namespaces N] [--headless-every N] [--pods N]";
/// Single changes that are timed.
const CHANGES: u32 = 400;
/// Changes a second of the churn.
const CHURN: u32 = 1_000;
/// Forced lists whose memory counts.
const LISTS: u32 = 3;

struct Options {
    is_real: bool,
    shape: Shape,
    secs: u64,
    rate: Option<u32>,
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (is_real, words) = match words.split_first() {
        Some((first, rest)) if first == "made-up" || first == "real" => (first == "real", rest),
        _ => (false, &words[..]),
    };
    let mut options = Options {
        is_real,
        shape: Shape::default(),
        secs: 60,
        rate: None,
    };
    for pair in words.chunks(2) {
        let [option, value] = pair else {
            return Err(USAGE.into());
        };
        let value: u32 = value.parse().map_err(|_| format!("{value} is no number"))?;
        match option.as_str() {
            "--secs" => options.secs = value.into(),
            "--rate" => options.rate = Some(value),
            "--services" => options.shape.services = value,
            "--endpoints" => options.shape.endpoints = value,
            "--namespaces" => options.shape.namespaces = value,
            "--headless-every" => options.shape.headless_every = value,
            "--pods" => options.shape.pods = value,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<()> {
    let shape = &options.shape;
    println!(
        "{} cluster: {} Services with {} endpoints, {} Pods; load {}",
        if options.is_real { "real" } else { "made-up" },
        shape.services,
        shape.services * shape.endpoints,
        shape.pods,
        std::fs::read_to_string("/proc/loadavg")?.trim_end()
    );
    let begun = Instant::now();
    let cluster = Cluster::start(options.is_real, shape)?;
    println!("made in {:.1} s\n", begun.elapsed().as_secs_f64());
    println!("| what | figure | bound |\n| --- | --- | --- |");
    memory(options, &cluster)?;
    changes(options, &cluster)?;
    lists(options, &cluster)?;
    if !options.is_real {
        churn(options, &cluster)?;
    }
    Ok(())
}

fn row(what: &str, figure: &str, bound: &str) {
    println!("| {what} | {figure} | {bound} |");
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn memory(options: &Options, cluster: &Cluster) -> Result<()> {
    let none = Shape {
        services: 0,
        namespaces: 1,
        pods: 0,
        ..options.shape
    };
    let empty = Bed::start(&Cluster::start(false, &none)?, &none)?.settled()?;
    let mut bed = Bed::start(cluster, &options.shape)?;
    let took = bed.synced_after()?;
    let settled = bed.settled()?;
    let first = bed.most()?;
    for _ in 0..LISTS {
        bed.list_again(cluster)?;
    }
    let again = bed.settled()?;
    let most = bed.most()?;
    row("empty server", &format!("{:.1} MB", mb(empty)), "");
    row(
        "over it, settled",
        &format!("{:.1} MB", mb(settled.saturating_sub(empty))),
        "45, aim 28",
    );
    row(
        "over it, settled after lists",
        &format!("{:.1} MB", mb(again.saturating_sub(empty))),
        "",
    );
    let over = |bytes: u64| format!("{:.2} ({:.1} MB)", bytes as f64 / settled.max(again) as f64, mb(bytes));
    row("highest over settled, first list", &over(first), "1.30, aim 1.15");
    row("highest over settled, lists again", &over(most), "1.30, aim 1.15");
    row(
        "from the first request to serving",
        &format!("{:.2} s", took.as_secs_f64()),
        "3 s",
    );
    Ok(())
}

fn changes(options: &Options, cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, &options.shape)?;
    bed.settled()?;
    let found = visible_after(bed.address(), &options.shape, CHANGES, |service| {
        cluster.change(service)
    })?;
    row("a question alone", &found.alone.to_string(), "");
    if options.is_real {
        row(
            "from the API write's return to its answer",
            &found.visible.to_string(),
            "p50 1800 us, p99 4200",
        );
    } else {
        row("from a change to its answer, all told", &found.visible.to_string(), "");
    }
    Ok(())
}

/// What a list of everything costs those who ask.
fn lists(options: &Options, cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, &options.shape)?;
    bed.settled()?;
    let rate = rate(options, &bed);
    let time = Duration::from_secs(options.secs.min(10));
    let idle = ask_evenly(bed.address(), &options.shape, rate, time);
    let during = thread::scope(|scope| {
        let asking = scope.spawn(|| ask_evenly(bed.address(), &options.shape, rate, time));
        let listed = (0..LISTS).try_for_each(|_| bed.list_again(cluster));
        let during = asking.join().map_err(|_| "the load panicked")?;
        listed.map(|()| during)
    })?;
    row(&format!("{rate} questions a second, idle"), &idle.to_string(), "");
    row(
        "lists again meanwhile",
        &during.to_string(),
        &against(&idle, &during, "1.50"),
    );
    Ok(())
}

/// What changes cost those who ask, against the same changes read by somebody else.
fn churn(options: &Options, cluster: &Cluster) -> Result<()> {
    let time = Duration::from_secs(options.secs);
    let under = |bed: &Bed, rate: u32| -> Result<Figures> {
        thread::scope(|scope| {
            let asking = scope.spawn(|| ask_evenly(bed.address(), &options.shape, rate, time));
            cluster.change_many(CHURN, time)?;
            Ok(asking.join().map_err(|_| "the load panicked")?)
        })
    };
    let mut bed = Bed::start(cluster, &options.shape)?;
    bed.settled()?;
    let rate = rate(options, &bed);
    let served = under(&bed, rate)?;
    drop(bed);

    let mut quiet = Bed::start(&Cluster::start(false, &options.shape)?, &options.shape)?;
    quiet.settled()?;
    let host = cluster.host()?;
    for kind in Kind::ALL {
        let host = host.clone();
        // It ends with the process.
        thread::spawn(move || drain(&host, kind));
    }
    let sink = under(&quiet, rate)?;
    row(
        &format!("{rate} questions a second, {CHURN} changes a second into a sink"),
        &sink.to_string(),
        "",
    );
    row(
        "the same changes served",
        &served.to_string(),
        &against(&sink, &served, "1.30"),
    );
    Ok(())
}

fn rate(options: &Options, bed: &Bed) -> u32 {
    options
        .rate
        .unwrap_or_else(|| half_of_most(bed.address(), &options.shape))
}

fn against(before: &Figures, after: &Figures, bound: &str) -> String {
    format!(
        "p99.9 {:.2} (at most {bound}), questions {:.3} (at least 0.95)",
        after.p999.as_secs_f64() / before.p999.as_secs_f64(),
        after.answered as f64 / before.answered as f64
    )
}
