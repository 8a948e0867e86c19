//! How many workers there are, and which way to the kernel they take.

use std::fs;
use std::thread::available_parallelism;

use anyhow::bail;
use nodens_engine::io::{PortKind, probe_uring};

use crate::args::Io;
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
            Ok(()) => PortKind::Uring,
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

/// Whole CPUs of this cgroup's quota, rounded up: half a CPU is worth one worker, not two throttled ones.
fn quota() -> Option<usize> {
    let text = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
    Some(quota.div_ceil(period.max(1)))
}
