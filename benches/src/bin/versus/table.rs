//! Medians, ratios to the floor, and the record of a run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::measure::Sample;
use crate::options::Options;
use crate::servers::Kind;
use crate::workload::{Mix, NAMES};

/// All rounds of one server with one mix at one rate.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
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
        (self.transport, self.mix, self.rate) == (other.transport, other.mix, other.rate)
    }
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
        "{} {:>3} {:>6} {:<12} {:6.2} us CPU a query, {:7.0} a second",
        cell.transport,
        cell.mix.name(),
        rate_text(cell.rate),
        cell.kind.name(),
        cell.median(Sample::cpu_per_query),
        cell.median(|s| s.qps)
    )
}

/// The cheaper echo under the same load.
fn floor<'c>(cells: &'c [Cell], of: &Cell) -> Option<&'c Cell> {
    cells
        .iter()
        .filter(|cell| cell.kind.is_echo() && cell.same_load(of))
        .min_by(|a, b| {
            a.median(Sample::cpu_per_query)
                .total_cmp(&b.median(Sample::cpu_per_query))
        })
}

/// Median over the rounds of this server's CPU a query through the floor's in the same round.
fn ratio(cell: &Cell, floor: &Cell) -> f64 {
    let rounds = cell.samples.iter().zip(&floor.samples);
    median(
        rounds
            .map(|(own, echo)| own.cpu_per_query() / echo.cpu_per_query())
            .collect(),
    )
}

/// Everything as text.
pub(crate) fn report(cells: &[Cell], memory: &[(Kind, f64)], options: &Options) -> String {
    let mut text = heading(options);
    let head = "net  mix    rate  server        cpu us  ratio  user us  user-echo  queries/s  latency us  queries/wait  lost %";
    let mut previous: Option<&Cell> = None;
    for cell in cells {
        if previous.is_none_or(|previous| !previous.same_load(cell)) {
            text.push_str(&format!("\n{head}\n"));
        }
        previous = Some(cell);
        let floor = floor(cells, cell);
        // No echo speaks TLS.
        let ratio = floor.map_or_else(|| "-".to_owned(), |floor| format!("{:.2}", ratio(cell, floor)));
        let above = floor.map(|floor| cell.user_per_query() - floor.user_per_query());
        let above = above.map_or_else(|| "-".to_owned(), |above| format!("{above:.2}"));
        let lost = cell.sum(|s| s.lost) / (cell.sum(|s| s.lost) + cell.sum(|s| s.completed)) * 100.0;
        let waits = cell.sum(|s| s.completed) / cell.sum(|s| s.usage.waits).max(1.0);
        let row = format!(
            "{}  {:<4} {:>6}  {:<12} {:7.2} {ratio:>6} {:8.2} {above:>10} {:10.0} {:11.0} {:13.1} {:7.3}\n",
            cell.transport,
            cell.mix.name(),
            rate_text(cell.rate),
            cell.kind.name(),
            cell.median(Sample::cpu_per_query),
            cell.user_per_query(),
            cell.median(|s| s.qps),
            cell.median(|s| s.latency_us),
            waits,
            lost
        );
        text.push_str(&row);
    }
    text.push_str("\nmemory after the load, MB (shared pages divided among their users)\n");
    for (kind, megabytes) in memory {
        text.push_str(&format!("  {:<12} {megabytes:6.1}\n", kind.name()));
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
        "dnsperf -c 8 -q 200 on core {}, the servers on core {}, one thread each",
        options.client_core, options.server_core
    );
    let _ = writeln!(
        text,
        "ratio: CPU a query through that of the cheaper echo, same round; user-echo: user time above that echo's"
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
