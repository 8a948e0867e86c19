//! What the kernel says of this process, under the names that every client library of Prometheus uses.
//!
//! Where `/proc` does not say it, the metric is left out.

use std::fs;
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

use super::text::{Kind, Page};

/// Adds all of them; a dozen short reads of `/proc`.
pub(super) fn show(page: &mut Page) {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    if let Some(times) = read("/proc/self/stat").as_deref().and_then(Times::parse) {
        page.single(
            "process_cpu_seconds_total",
            Kind::Counter,
            "CPU time spent in user and kernel mode.",
            times.cpu_ticks as f64 / ticks,
        );
        if let Some(boot) = boot_secs() {
            page.single(
                "process_start_time_seconds",
                Kind::Gauge,
                "When the process started, in seconds since 1970.",
                boot as f64 + times.start_ticks as f64 / ticks,
            );
        }
    }
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        // One of them is the listing itself.
        let open = entries.count().saturating_sub(1);
        page.single("process_open_fds", Kind::Gauge, "Open file descriptors.", open);
    }
    let most = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    page.single(
        "process_max_fds",
        Kind::Gauge,
        "File descriptors that may be open at a time.",
        most(Resource::Nofile),
    );
    page.single(
        "process_virtual_memory_max_bytes",
        Kind::Gauge,
        "Most virtual memory that may be reserved.",
        most(Resource::As),
    );
    memory(page);
    if let Some((received, sent)) = read("/proc/self/net/netstat").as_deref().and_then(octets) {
        page.single(
            "process_network_receive_bytes_total",
            Kind::Counter,
            "Bytes received over IP in the network namespace of the process.",
            received,
        );
        page.single(
            "process_network_transmit_bytes_total",
            Kind::Counter,
            "Bytes sent over IP in the network namespace of the process.",
            sent,
        );
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        page.single(
            "go_goroutines",
            Kind::Gauge,
            "Live tasks of the control plane (the name is that of CoreDNS).",
            runtime.metrics().num_alive_tasks(),
        );
    }
}

fn memory(page: &mut Page) {
    let Some(status) = read("/proc/self/status") else {
        return;
    };
    for (name, field, unit, help) in [
        (
            "process_virtual_memory_bytes",
            "VmSize",
            1024,
            "Reserved virtual memory.",
        ),
        ("process_resident_memory_bytes", "VmRSS", 1024, "Memory in use."),
        ("go_threads", "Threads", 1, "Threads (the name is that of CoreDNS)."),
        (
            "go_memstats_alloc_bytes",
            "RssAnon",
            1024,
            "Memory in use that is no file's: heap, stacks, packet buffers (the name is that of CoreDNS).",
        ),
        (
            "go_memstats_heap_inuse_bytes",
            "RssAnon",
            1024,
            "The same as go_memstats_alloc_bytes (the name is that of CoreDNS).",
        ),
    ] {
        if let Some(value) = number(&status, field) {
            page.single(name, Kind::Gauge, help, value * unit);
        }
    }
}

/// Bytes of this process in memory.
pub(crate) fn resident() -> Option<u64> {
    Some(number(&read("/proc/self/status")?, "VmRSS")? * 1024)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Of `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    cpu_ticks: u64,
    /// Since boot.
    start_ticks: u64,
}

impl Times {
    fn parse(stat: &str) -> Option<Self> {
        // The second field is the program's name, which may hold blanks and parentheses; the third comes next.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
        })
    }
}

/// When the machine booted, in seconds since 1970. Read once: the file is long on large machines.
fn boot_secs() -> Option<u64> {
    static BOOT: OnceLock<Option<u64>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let stat = read("/proc/stat")?;
        stat.lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse()
            .ok()
    })
}

/// The number behind `FIELD:` in `/proc/self/status`.
fn number(status: &str, field: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes in and out in `/proc/self/net/netstat`, which has a line of names and a line of values for each protocol.
fn octets(netstat: &str) -> Option<(u64, u64)> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let names: Vec<&str> = lines.next()?.split(' ').collect();
    let values: Vec<&str> = lines.next()?.split(' ').collect();
    let value = |name| {
        let at = names.iter().position(|found| *found == name)?;
        values.get(at)?.parse().ok()
    };
    Some((value("InOctets")?, value("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_any_name() {
        let stat =
            "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 25 17 0 0 20 0 3 0 8800 1000000 500 18446744073709551615";
        let expected = Times {
            cpu_ticks: 42,
            start_ticks: 8800,
        };
        assert_eq!(Times::parse(stat), Some(expected));
        assert_eq!(Times::parse("7 (a) S 1 7"), None);
    }

    #[test]
    fn fields_of_the_status() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nRssAnon:\t       4 kB\nThreads:\t3\n";
        assert_eq!(number(status, "VmSize"), Some(2048));
        assert_eq!(number(status, "Threads"), Some(3));
        assert_eq!(number(status, "Vm"), None);
    }

    #[test]
    fn octets_are_found_by_name() {
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 3 4 5\n";
        assert_eq!(octets(netstat), Some((4, 5)));
        assert_eq!(octets("IpExt: InOctets\n"), None);
    }

    #[test]
    fn this_process_shows_all_of_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let page = runtime.block_on(async {
            let mut page = Page::default();
            show(&mut page);
            page.finish()
        });
        let value = |name: &str| -> f64 {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} in {page}")).parse().unwrap()
        };
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds");
        assert!((-2.0..36_000.0).contains(&age), "{age}");
        assert!(value("process_cpu_seconds_total") < 36_000.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_virtual_memory_max_bytes") > value("process_virtual_memory_bytes"));
        assert!(value("process_resident_memory_bytes") >= value("go_memstats_alloc_bytes"));
        assert!(value("go_memstats_alloc_bytes") > 4096.0);
        assert!(value("go_memstats_heap_inuse_bytes") > 4096.0);
        assert!(value("go_threads") >= 2.0);
        assert_eq!(value("go_goroutines"), 0.0);
        value("process_network_receive_bytes_total");
        value("process_network_transmit_bytes_total");
    }
}
