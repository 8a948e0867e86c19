//! How many workers there are, and which way to the kernel they take.

use std::fs;
use std::thread::available_parallelism;

use anyhow::bail;
use nodens_engine::io::{PortKind, probe_uring};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::args::Io;
use crate::corefile::Diagnostic;
use crate::corefile::settings::{MultiSocket, ServerBlock};
use crate::output;

/// The port for a choice. Where the kernel denies what was not asked for by name, that is said once.
///
/// # Errors
/// The kernel denies what was asked for by name.
pub fn choose_port(choice: Io) -> anyhow::Result<PortKind> {
    match choice {
        Io::Mmsg => Ok(PortKind::Mmsg),
        Io::Uring => match probe_uring() {
            Ok(()) => Ok(PortKind::Uring),
            Err(denied) => bail!("--io=uring: {denied}"),
        },
        Io::Auto => Ok(match probe_uring() {
            // A worker that finds no locked memory left for its ring still takes the other way.
            Ok(()) => PortKind::Auto,
            Err(denied) => {
                output::info(&format!("{denied}; using recvmmsg and sendmmsg"));
                PortKind::Mmsg
            }
        }),
    }
}

/// The least of the affinity mask, the CPU quota of the cgroup, and what was asked for; at least one.
pub fn count(wanted: Option<usize>) -> usize {
    // The mask and the quota: the standard library looks at both.
    let cores = available_parallelism().map_or(1, usize::from);
    cores
        .min(quota().unwrap_or(usize::MAX))
        .min(wanted.unwrap_or(usize::MAX))
        .max(1)
}

/// The core that each worker has for itself: where the process was given some cores of the machine alone (a cpuset, an
/// affinity mask) and there is a worker for each of them. On a shared machine the scheduler knows better.
pub fn own_cores(workers: usize) -> Option<Vec<usize>> {
    let mask = sched_getaffinity(None).ok()?;
    let own: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| mask.is_set(core)).collect();
    let all = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    (own.len() == workers && own.len() < count_of(all.trim())?).then_some(own)
}

/// How many numbers a list such as `0-3,8` holds.
fn count_of(list: &str) -> Option<usize> {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    });
    ranges.sum()
}

/// Keeps the calling thread on one core. Where that fails it runs as well, only less evenly.
pub fn stay_on(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only);
}

/// Whole CPUs of this cgroup's quota, rounded up: half a CPU is worth one worker, not two throttled ones.
fn quota() -> Option<usize> {
    let text = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
    Some(quota.div_ceil(period.max(1)))
}

/// What `multisocket` asks for and does not get: every worker has a socket of its own on every address, and there are
/// no others.
pub fn sockets_not_made(blocks: &[ServerBlock], workers: usize) -> impl Iterator<Item = Diagnostic> {
    let asked = blocks.iter().filter_map(|block| block.multisocket);
    asked.filter_map(move |MultiSocket { count, span }| {
        let count = count.filter(|&count| usize::from(count) > workers)?;
        let text = format!(
            "plugin/multisocket: each address has as many sockets as there are workers, which are {workers}, and not {count}"
        );
        Some(Diagnostic::warning(span, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_counted() {
        assert_eq!(count_of("0-3,8"), Some(5));
        assert_eq!(count_of("0"), Some(1));
        assert_eq!(count_of("3-1"), None);
        assert_eq!(count_of(""), None);
    }

    #[test]
    fn there_is_always_a_worker() {
        assert_eq!(count(Some(1)), 1);
        assert!(count(None) >= 1);
    }
}
