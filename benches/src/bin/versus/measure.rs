//! What a process and its children have used, and one run of dnsperf against it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::options::Options;
use crate::servers::Server;

/// Clock ticks a second of `/proc/PID/stat`; the same on every Linux.
const TICKS: f64 = 100.0;

/// Totals since a process began, its descendants included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Time on a CPU, exact.
    pub(crate) cpu_us: f64,
    /// User time; the kernel scales sampled ticks to the exact total, so it needs long runs.
    pub(crate) user_us: f64,
    /// Times that a thread gave up its CPU, which is once for each wait.
    pub(crate) waits: f64,
}

impl std::ops::Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu_us: self.cpu_us - before.cpu_us,
            user_us: self.user_us - before.user_us,
            waits: self.waits - before.waits,
        }
    }
}

/// One server under load for some seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) usage: Usage,
    pub(crate) completed: f64,
    pub(crate) lost: f64,
    pub(crate) qps: f64,
    pub(crate) latency_us: f64,
}

impl Sample {
    pub(crate) fn cpu_per_query(&self) -> f64 {
        self.usage.cpu_us / self.completed
    }
}

/// A process and all that it started.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(parent) = stat_fields(pid).and_then(|fields| fields.get(1)?.parse().ok()) {
            parents.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(parents.get(&pid).into_iter().flatten());
        next += 1;
    }
    found
}

/// The fields of `/proc/PID/stat` behind the name, which may hold blanks; the first is the state.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(')')?;
    Some(behind.split_whitespace().map(str::to_owned).collect())
}

pub(crate) fn usage(pids: &[u32]) -> Usage {
    let mut sum = Usage::default();
    for &pid in pids {
        let user_ticks = stat_fields(pid)
            .and_then(|fields| fields.get(11)?.parse::<f64>().ok())
            .unwrap_or(0.0);
        sum.user_us += user_ticks / TICKS * 1e6;
        for task in fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let on_cpu_ns = read("schedstat")
                .split_whitespace()
                .next()
                .and_then(|ns| ns.parse::<f64>().ok());
            sum.cpu_us += on_cpu_ns.unwrap_or(0.0) / 1e3;
            sum.waits += number_after(&read("status"), "\nvoluntary_ctxt_switches:").unwrap_or(0.0);
        }
    }
    sum
}

/// Memory of these processes, shared pages divided among their users, in megabytes.
pub(crate) fn memory_mb(pids: &[u32]) -> f64 {
    let of = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .ok()
            .and_then(|text| number_after(&text, "\nPss:"))
    };
    pids.iter().filter_map(of).sum::<f64>() / 1024.0
}

fn number_after(text: &str, mark: &str) -> Option<f64> {
    let (_, behind) = text.split_once(mark)?;
    behind.split_whitespace().next()?.trim_end_matches('%').parse().ok()
}

/// Loads a server with dnsperf from the client's core.
pub(crate) fn load(
    server: &Server,
    transport: &str,
    queries: PathBuf,
    rate: u32,
    secs: u32,
    options: &Options,
) -> Result<Sample> {
    let mut command = Command::new("taskset");
    command
        .args([
            "-c",
            &options.client_core.to_string(),
            "dnsperf",
            "-m",
            transport,
            "-s",
            "127.0.0.1",
        ])
        .args([
            "-p",
            &server.port_for(transport).to_string(),
            "-c",
            "8",
            "-q",
            "200",
            "-T",
            "1",
            "-t",
            "1",
        ])
        .args(["-l", &secs.to_string(), "-d"])
        .arg(queries);
    if rate > 0 {
        command.args(["-Q", &rate.to_string()]);
    }
    let before = usage(&server.pids);
    let output = command.output()?;
    let usage = usage(&server.pids) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |mark: &str| {
        let failed = || {
            format!(
                "{}: dnsperf says no `{mark}`:\n{text}{}",
                server.kind.name(),
                String::from_utf8_lossy(&output.stderr)
            )
        };
        number_after(&text, mark).ok_or_else(failed)
    };
    let sample = Sample {
        usage,
        completed: value("Queries completed:")?,
        lost: value("Queries lost:")?,
        qps: value("Queries per second:")?,
        latency_us: value("Average Latency (s):")? * 1e6,
    };
    if sample.completed == 0.0 {
        return Err(format!("{} answers nothing over {transport}", server.kind.name()).into());
    }
    Ok(sample)
}
