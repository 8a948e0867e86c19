//! Medians, ratios to the floor, and the record of a run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::latency::Times;
use crate::measure::Sample;
use crate::options::Options;
use crate::scene::Scene;
use crate::servers::Kind;
use crate::workload::{Mix, NAMES, shape};

/// All rounds of one server with one mix at one rate.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) scene: Scene,
    pub(crate) transport: &'static str,
    pub(crate) mix: Mix,
    pub(crate) rate: u32,
    pub(crate) samples: Vec<Sample>,
}

impl Cell {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }

    /// Over all rounds, since ticks are coarse.
    fn user_per_query(&self) -> f64 {
        self.sum(|s| s.usage.user_us) / self.sum(|s| s.completed)
    }

    fn sum(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).sum()
    }

    fn same_load(&self, other: &Self) -> bool {
        self.scene == other.scene && (self.transport, self.mix, self.rate) == (other.transport, other.mix, other.rate)
    }

    fn word(&self) -> &'static str {
        self.scene.word(self.mix)
    }
}

/// All rounds of one way to an answer, at one rate.
#[derive(Debug)]
pub(crate) struct Delay {
    /// Through which server; `None` asks the one behind them itself.
    pub(crate) kind: Option<Kind>,
    pub(crate) rate: u32,
    pub(crate) runs: Vec<Times>,
}

impl Delay {
    fn p50(&self) -> f64 {
        median(self.runs.iter().map(|run| run.p50).collect())
    }

    fn p99(&self) -> f64 {
        median(self.runs.iter().map(|run| run.p99).collect())
    }
}

/// What a run has found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) cells: Vec<Cell>,
    pub(crate) delays: Vec<Delay>,
    pub(crate) memory: Vec<(Scene, Kind, f64)>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => f64::midpoint(values[len / 2 - 1], values[len / 2]),
    }
}

fn rate_text(rate: u32) -> String {
    if rate == 0 { "full".to_owned() } else { rate.to_string() }
}

/// One cell in one line, while the run goes on.
pub(crate) fn line(cell: &Cell) -> String {
    format!(
        "{} {:>4} {:>6} {:<12} {:6.2} us CPU a query, {:7.0} a second",
        cell.transport,
        cell.word(),
        rate_text(cell.rate),
        cell.kind.name(),
        cell.median(Sample::cpu_per_query),
        cell.median(|s| s.qps)
    )
}

/// The cheaper floor under the same load.
fn floor<'c>(cells: &'c [Cell], of: &Cell) -> Option<&'c Cell> {
    cells
        .iter()
        .filter(|cell| cell.scene.is_floor(cell.kind) && cell.same_load(of))
        .min_by(|a, b| {
            a.median(Sample::cpu_per_query)
                .total_cmp(&b.median(Sample::cpu_per_query))
        })
}

/// Median over the rounds of this server's CPU a query through the other's in the same round.
fn ratio(cell: &Cell, other: Option<&Cell>) -> String {
    let Some(other) = other else { return "-".to_owned() };
    let rounds = cell.samples.iter().zip(&other.samples);
    let ratio = median(
        rounds
            .map(|(own, other)| own.cpu_per_query() / other.cpu_per_query())
            .collect(),
    );
    format!("{ratio:.2}")
}

/// Everything as text.
pub(crate) fn write(report: &Report, options: &Options) -> String {
    let mut text = heading(options);
    let mut previous: Option<&Cell> = None;
    for cell in &report.cells {
        if previous.is_none_or(|previous| !previous.same_load(cell)) {
            text.push_str(
                "\nnet  what   rate  server        cpu us  ratio  user us  user-floor  queries/s  latency us  queries/wait  lost %",
            );
            for rival in cell.scene.rivals() {
                text.push_str(&format!("  /{:<8}", rival.name()));
            }
            text.push('\n');
        }
        previous = Some(cell);
        text.push_str(&row(cell, &report.cells));
    }
    text.push_str(&delays(&report.delays));
    text.push_str("\nmemory after the load, MB (shared pages divided among their users)\n");
    for (scene, kind, megabytes) in &report.memory {
        text.push_str(&format!("  {:<9} {:<12} {megabytes:6.1}\n", scene.name(), kind.name()));
    }
    text
}

fn row(cell: &Cell, cells: &[Cell]) -> String {
    // None speaks TLS.
    let floor = floor(cells, cell);
    let above = floor.map(|floor| cell.user_per_query() - floor.user_per_query());
    let above = above.map_or_else(|| "-".to_owned(), |above| format!("{above:.2}"));
    let lost = cell.sum(|s| s.lost) / (cell.sum(|s| s.lost) + cell.sum(|s| s.completed)) * 100.0;
    let waits = cell.sum(|s| s.completed) / cell.sum(|s| s.usage.waits).max(1.0);
    let mut row = format!(
        "{}  {:<4} {:>6}  {:<12} {:7.2} {:>6} {:8.2} {above:>11} {:10.0} {:11.0} {:13.1} {:7.3}",
        cell.transport,
        cell.word(),
        rate_text(cell.rate),
        cell.kind.name(),
        cell.median(Sample::cpu_per_query),
        ratio(cell, floor),
        cell.user_per_query(),
        cell.median(|s| s.qps),
        cell.median(|s| s.latency_us),
        waits,
        lost
    );
    for rival in cell.scene.rivals() {
        let rival = cells.iter().find(|other| other.kind == *rival && other.same_load(cell));
        row.push_str(&format!("  {:>9}", ratio(cell, rival)));
    }
    row.push('\n');
    row
}

/// What a way through a server adds to that without one, and how that compares with what the relay adds.
fn delays(delays: &[Delay]) -> String {
    let mut text = String::new();
    let mut direct: Option<&Delay> = None;
    for delay in delays {
        if delay.kind.is_none() {
            text.push_str("\nmisses a second  by way of       p50 us   p99 us  added p50  added p99  /relay p50  /relay p99    lost\n");
            direct = Some(delay);
        }
        let relay = delays
            .iter()
            .find(|other| other.kind == Some(Kind::Relay) && other.rate == delay.rate);
        let added = |of: fn(&Delay) -> f64, delay: &Delay| of(delay) - direct.map_or(0.0, of);
        let ratio = |of: fn(&Delay) -> f64| match relay {
            Some(relay) if delay.kind.is_some() => format!("{:.2}", added(of, delay) / added(of, relay)),
            _ => "-".to_owned(),
        };
        text.push_str(&format!(
            "{:<16} {:<12} {:9.1} {:8.1} {:10.1} {:10.1} {:>11} {:>11} {:7}\n",
            delay.rate,
            delay.kind.map_or("nobody", Kind::name),
            delay.p50(),
            delay.p99(),
            added(Delay::p50, delay),
            added(Delay::p99, delay),
            ratio(Delay::p50),
            ratio(Delay::p99),
            delay.runs.iter().map(|run| run.lost).sum::<usize>(),
        ));
    }
    text
}

fn heading(options: &Options) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} names with A and SRV each, random; {} rounds of {} s, medians",
        NAMES, options.rounds, options.secs
    );
    let _ = writeln!(
        text,
        "dnsperf -c 8 -q 200 and the server that others ask on core {}, the servers on core {}, one thread each",
        options.client_core, options.server_core
    );
    let _ = writeln!(
        text,
        "ratio: CPU a query through that of the floor (the cheaper echo, or the relay), same round; user-floor: user time above the floor's"
    );
    let _ = writeln!(
        text,
        "hit: dnsdist with a packet cache; miss: dnsdist without one, TTL 0 for unbound and dnsmasq; ftcp: a miss asked over TCP"
    );
    let shape = shape();
    let _ = writeln!(
        text,
        "cluster: {} Services, every {}th headless with {} addresses (head), IPv4, so aaaa is NODATA; path: the five names of a search path",
        shape.services, shape.headless_every, shape.endpoints
    );
    let _ = writeln!(text, "machine: {}", machine());
    let _ = writeln!(text, "kernel:  {}", said("uname", &["-r"]));
    let _ = writeln!(
        text,
        "commit:  {}",
        said(
            "git",
            &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]
        )
    );
    let _ = writeln!(text, "date:    {}", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]));
    text
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
        .unwrap_or_default()
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    let cores = info.lines().filter(|line| line.starts_with("processor")).count();
    format!("{model}, {cores} cores")
}

/// Writes the report to `record/<machine>/<date>.txt`.
pub(crate) fn record(report: &str, options: &Options) -> Result<Option<PathBuf>> {
    let Some(folder) = &options.record else { return Ok(None) };
    let slug: String = machine()
        .to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    let folder = folder.join(slug);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}.txt", said("date", &["-u", "+%Y-%m-%d-%H%M"])));
    std::fs::write(&path, report)?;
    Ok(Some(path))
}
