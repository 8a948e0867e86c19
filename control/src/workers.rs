//! How many workers there are, and which way to the kernel they take.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use anyhow::bail;
use nodens_engine::io::{PortKind, probe_uring};
use rustix::process::{Pid, Resource, Rlimit, getpriority_process, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{
    CapabilitySet, CpuSet, capabilities, gettid, sched_getaffinity, sched_setaffinity, set_capabilities,
};

use crate::args::Io;
use crate::cgroup::cpu_quota;
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

/// The least of the affinity mask, the CPU quota of the cgroup, and what was asked for; at least one. A quota that costs
/// workers is said.
pub fn count(wanted: Option<usize>) -> usize {
    // Of a machine with more CPUs than a mask of ours holds, the standard library knows how many.
    let cores = mask().map_or_else(|| available_parallelism().map_or(1, usize::from), |own| own.len());
    let wanted = wanted.unwrap_or(cores).min(cores);
    let Some(quota) = cpu_quota(Path::new("/")) else {
        return wanted.max(1);
    };
    // Half a CPU is worth one worker, not two throttled ones.
    let count = wanted.min(quota.ceil() as usize).max(1);
    if count < wanted {
        let s = if count == 1 { "" } else { "s" };
        output::info(&format!("the quota of the cgroup is {quota} CPUs: {count} worker{s}"));
    }
    count
}

/// The core that each worker has for itself: where the process was given some cores of the machine alone (a cpuset, an
/// affinity mask) and there is a worker for each of them. On a shared machine the scheduler knows better, and under a
/// quota a core is ours for a part of the time only.
pub fn own_cores(workers: usize) -> Option<Vec<usize>> {
    let own = mask()?;
    let all = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let alone = own.len() == workers && own.len() < count_of(all.trim())?;
    (alone && cpu_quota(Path::new("/")).is_none()).then_some(own)
}

/// The cores that the process may use.
fn mask() -> Option<Vec<usize>> {
    let mask = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&core| mask.is_set(core)).collect())
}

/// How many numbers a list such as `0-3,8` holds.
fn count_of(list: &str) -> Option<usize> {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    });
    ranges.sum()
}

/// Workers that have a core for themselves.
static PINNED: Mutex<Vec<Pinned>> = Mutex::new(Vec::new());

/// Keeps the calling thread on one core. Where that fails it runs as well, only less evenly; [`look_at_cores`] tries again.
pub fn stay_on(core: usize) {
    let pinned = Pinned {
        thread: gettid(),
        core,
        is_there: stay(None, core),
    };
    PINNED.lock().unwrap_or_else(PoisonError::into_inner).push(pinned);
}

/// Says which workers lost their core, because it went offline, and puts them back when it returns. The kernel has moved
/// them to another one meanwhile.
pub fn look_at_cores() {
    for pinned in &mut *PINNED.lock().unwrap_or_else(PoisonError::into_inner) {
        // Where the core is gone, both the mask and the call say so.
        let is_there = is_only(Some(pinned.thread), pinned.core) || stay(Some(pinned.thread), pinned.core);
        if is_there == pinned.is_there {
            continue;
        }
        pinned.is_there = is_there;
        let core = pinned.core;
        if is_there {
            output::info(&format!("core {core} is back, and its worker with it"));
        } else {
            output::warning(&format!(
                "core {core} is gone: its worker goes on wherever there is room"
            ));
        }
    }
}

/// Workers that are on their own core, and those that should be.
pub fn pinned() -> (usize, usize) {
    let all = PINNED.lock().unwrap_or_else(PoisonError::into_inner);
    (all.iter().filter(|pinned| pinned.is_there).count(), all.len())
}

struct Pinned {
    thread: Pid,
    core: usize,
    is_there: bool,
}

fn is_only(thread: Option<Pid>, core: usize) -> bool {
    sched_getaffinity(thread).is_ok_and(|mask| mask.is_set(core) && mask.count() == 1)
}

fn stay(thread: Option<Pid>, core: usize) -> bool {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(thread, &only).is_ok()
}

/// How much nicer than a worker a thread of the control plane is, by setpriority(2): where both want a core, a worker has three
/// quarters of it.
pub const STEP_BACK: i32 = 5;

/// The calling thread lets workers go first, being so much nicer. A change of data takes milliseconds of a core at most, but a list of a whole cluster
/// takes seconds, and no answer is to wait for it.
pub fn step_back(nicer: i32) {
    let thread = Some(gettid());
    if let Ok(own) = getpriority_process(thread) {
        // Else it stays as it is.
        let _ = setpriority_process(thread, own + nicer);
    }
}

/// Go raises the limit of open files to the most that the process may have, and people count on it: connections are
/// limited by numbers of our own.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Else it stays as it is, and a connection that finds none is counted.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Takes up the right to ports below 1024 where the process may. A container's file has it as one that may be taken up: one that
/// is in force from the start would make the start fail where the container is not granted it. Threads made later have it too.
pub fn take_up_low_ports() {
    // Else they stay as they are, and a port that is denied says what is missing.
    if let Ok(mut sets) = capabilities(None) {
        sets.effective |= sets.permitted & CapabilitySet::NET_BIND_SERVICE;
        let _ = set_capabilities(None, sets);
    }
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
    fn a_worker_stays_on_its_core() {
        let core = mask().unwrap()[0];
        std::thread::spawn(move || {
            stay_on(core);
            assert!(is_only(None, core));
            look_at_cores();
            assert_eq!(pinned(), (1, 1));
        })
        .join()
        .unwrap();
        // A thread that has ended is on no core.
        look_at_cores();
        assert_eq!(pinned(), (0, 1));
    }

    #[test]
    fn there_is_always_a_worker() {
        assert_eq!(count(Some(1)), 1);
        assert!(count(None) >= 1);
    }
}
