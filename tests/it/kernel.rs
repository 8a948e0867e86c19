//! What a kernel denies, takes away or gives later: the server goes on, says it once, and counts it.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nodens_engine::io::use_huge_pages;
use nodens_tests::ask::{self, Way, question};
use nodens_tests::netns::{self, run};
use nodens_tests::nodens::Nodens;
use nodens_tests::process::{Process, nodens};
use nodens_tests::world::free_port;
use rustix::fs::{XattrFlags, setxattr};
use rustix::process::Signal;

const COREFILE: &str = "\
cedar.example:{PORT} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{METRICS}
    whoami
}
";

/// The same on every address of the host.
const EVERYWHERE: &str = "\
cedar.example:{PORT} {
    prometheus 127.0.0.1:{METRICS}
    whoami
}
";

/// Who runs a server that is not root's.
const NOBODY: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--bounding-set=-all",
    "--inh-caps=-all",
];

/// `confined` with the filter that fails these calls with an error number.
fn without(calls: &[&str], errno: i32) -> [String; 2] {
    let calls: Vec<_> = calls
        .iter()
        .map(|call| format!("{{\"syscall\": \"{call}\"}}"))
        .collect();
    confined("allow", &format!("{{\"errno\": {errno}}}"), &calls.join(", "))
}

fn confined(mismatch: &str, matched: &str, rules: &str) -> [String; 2] {
    let mismatch = if mismatch.starts_with('{') {
        mismatch.to_owned()
    } else {
        format!("\"{mismatch}\"")
    };
    let matched = if matched.starts_with('{') {
        matched.to_owned()
    } else {
        format!("\"{matched}\"")
    };
    let filter = format!(
        "{{\"main\": {{\"mismatch_action\": {mismatch}, \"match_action\": {matched}, \"filter\": [{rules}]}}}}"
    );
    [env!("CARGO_BIN_EXE_confined").to_owned(), filter]
}

const URING: [&str; 3] = ["io_uring_setup", "io_uring_enter", "io_uring_register"];
const EPERM: i32 = 1;
const EAFNOSUPPORT: i32 = 97;

fn start_behind<S: AsRef<str>>(words: &[S], corefile: &str, args: &[&str]) -> Nodens {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    Nodens::start_behind(&words, corefile, args)
}

#[track_caller]
fn answers(server: &Nodens) {
    for way in [Way::Udp, Way::Tcp] {
        let reply = server.ask_over("cedar.example A", way);
        assert_eq!(reply.rcode, "NOERROR", "{way:?}");
    }
}

/// Waits until a text is in the output, and fails unless it is there once.
#[track_caller]
fn said_once(server: &mut Nodens, text: &str) {
    let end = Instant::now() + Duration::from_secs(5);
    while !server.process().log().contains(text) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = server.process().log();
    assert_eq!(log.matches(text).count(), 1, "{text:?} in:\n{log}");
}

/// How many workers have a ring, and how many do without; `page` is told apart by label.
fn workers(server: &Nodens) -> (f64, f64) {
    (
        server.metric_with("nodens_workers", "io", "uring"),
        server.metric_with("nodens_workers", "io", "mmsg"),
    )
}

#[test]
fn a_seccomp_filter_that_forbids_io_uring() {
    let filter = without(&URING, EPERM);
    let mut server = start_behind(&filter, COREFILE, &["--workers", "2"]);
    answers(&server);
    assert_eq!(workers(&server), (0.0, 2.0));
    said_once(&mut server, "a seccomp filter forbids io_uring");

    let asked_for = Command::new(&filter[0])
        .arg(&filter[1])
        .arg(nodens().unwrap())
        .args(["--io", "uring", "-conf", "/dev/null"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&asked_for.stderr);
    assert!(asked_for.status.code() == Some(1) && text.contains("seccomp"), "{text}");
}

/// Allows what the unit of systemd allows, and nothing else.
#[test]
fn the_filter_of_the_unit_lets_the_server_work() {
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/nodens.service")).unwrap();
    let mut allowed = Vec::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let denies = line.starts_with('~');
        for word in line.trim_start_matches('~').split(' ') {
            let Some(calls) = calls_of(word) else {
                println!("skipped: systemd-analyze does not know {word}");
                return;
            };
            if denies {
                allowed.retain(|call| !calls.contains(call));
            } else {
                allowed.extend(calls);
            }
        }
    }
    // systemd sets the filter up before it starts the program; here that is one more call.
    allowed.push("execve".to_owned());
    allowed.retain(|call| is_known(call));
    let rules: Vec<_> = allowed
        .iter()
        .map(|call| format!("{{\"syscall\": \"{call}\"}}"))
        .collect();
    let filter = confined(&format!("{{\"errno\": {EPERM}}}"), "allow", &rules.join(", "));
    for io in ["auto", "mmsg"] {
        let mut server = start_behind(&filter, COREFILE, &["--workers", "2", "--io", io]);
        answers(&server);
        let log = server.process().log();
        assert!(!log.contains("WARNING") && !log.contains("seccomp"), "{log}");
        while !hears_term(&mut server) {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.process().signal(Signal::TERM).unwrap();
        let status = server.process().wait(Duration::from_secs(5)).expect("it ends");
        assert_eq!(status.code(), Some(0));
    }
}

/// Whether it has a handler for SIGTERM; it answers before.
fn hears_term(server: &mut Nodens) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process().id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (Signal::TERM.as_raw() - 1)) != 0
}

/// The calls of a group of systemd's, or the one of that name.
fn calls_of(word: &str) -> Option<Vec<String>> {
    if !word.starts_with('@') {
        return Some(vec![word.to_owned()]);
    }
    let output = Command::new("systemd-analyze")
        .args(["syscall-filter", word])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    let words = text.lines().skip(1).map(str::trim);
    let parts = words
        .filter(|word| !word.is_empty() && !word.starts_with('#'))
        .map(calls_of);
    Some(parts.collect::<Option<Vec<_>>>()?.concat())
}

/// Whether this architecture has the call: other ones are in systemd's groups too.
fn is_known(call: &str) -> bool {
    let [program, filter] = without(&[call], EPERM);
    Command::new(program)
        .args([&filter, "true"])
        .output()
        .is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stderr);
            !text.starts_with("the filter:")
        })
}

#[test]
fn no_locked_memory() {
    let words: Vec<&str> = ["prlimit", "--memlock=0:0"].into_iter().chain(NOBODY).collect();
    if !may_become_nobody() {
        return;
    }
    let server = start_behind(&words, COREFILE, &["--workers", "2"]);
    answers(&server);
    let (uring, mmsg) = workers(&server);
    assert_eq!(uring + mmsg, 2.0, "either way, as the kernel counts");
}

fn may_become_nobody() -> bool {
    let may = Command::new(NOBODY[0])
        .args(&NOBODY[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !may {
        println!("skipped: setpriv may not change the user");
    }
    may
}

#[test]
fn port_53_with_one_right_alone() {
    netns::inside(|| {
        if !may_become_nobody() {
            return;
        }
        let corefile = "cedar.example:53 cedar.example:{PORT} {\n    bind 127.0.0.1\n    whoami\n}\n";
        let mut words = NOBODY.to_vec();
        words[4] = "--bounding-set=-all,+net_bind_service";
        words[5] = "--inh-caps=-all,+net_bind_service";
        words.push("--ambient-caps=-all,+net_bind_service");
        let mut server = start_behind(&words, corefile, &["--workers", "2"]);
        answers(&server);
        let reply = TcpStream::connect((Ipv4Addr::LOCALHOST, 53));
        assert!(reply.is_ok(), "{reply:?}");
        let status = fs::read_to_string(format!("/proc/{}/status", server.process().id())).unwrap();
        assert!(
            status.contains("\nUid:\t65534\t") && status.contains("\nCapEff:\t0000000000000400\n"),
            "{status}"
        );
    });
}

/// As in a container: the right is not in force from the start, but in the file as one that may be taken up.
#[test]
fn port_53_with_the_right_in_the_file() {
    netns::inside(|| {
        if !may_become_nobody() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("nodens");
        fs::copy(nodens().unwrap(), &binary).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // `struct vfs_cap_data`, second revision: permitted is bit 10, inheritable is empty, nothing is effective.
        let right = [0, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if let Err(error) = setxattr(&binary, "security.capability", &right, XattrFlags::empty()) {
            println!("skipped: {}: {error}", binary.display());
            return;
        }
        let start = |bounding: &str, port: u16| {
            let mut words = NOBODY.to_vec();
            words[4] = bounding;
            fs::write(
                folder.path().join("Corefile"),
                format!("cedar.example:{port} {{\n    bind 127.0.0.1\n    whoami\n}}\n"),
            )
            .unwrap();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg(&binary).args(["-workers", "2", "-conf"]);
            Process::start(command.arg(folder.path().join("Corefile")), folder.path().join("log")).unwrap()
        };
        let says = |process: &mut Process, text: &str| {
            let end = Instant::now() + Duration::from_secs(10);
            while !process.log().contains(text) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(process.log().contains(text), "{text:?} in:\n{}", process.log());
        };
        let mut server = start("--bounding-set=-all,+net_bind_service", 53);
        says(&mut server, "cedar.example.:53 on 127.0.0.1");
        server.stop();
        // Where it is not granted the start fails for the port alone, and says why.
        let mut server = start("--bounding-set=-all", 53);
        says(&mut server, "CAP_NET_BIND_SERVICE");
        assert_eq!(
            server.wait(Duration::from_secs(5)).and_then(|status| status.code()),
            Some(1)
        );
        let mut server = start("--bounding-set=-all", 1053);
        says(&mut server, "cedar.example.:1053 on 127.0.0.1");
    });
}

#[test]
fn no_ipv6() {
    netns::inside(|| {
        run("sysctl -q -w net.ipv6.conf.all.disable_ipv6=1");
        let mut server = Nodens::start(EVERYWHERE);
        answers(&server);
        said_once(&mut server, "this host has no IPv6");
    });
    // A kernel without it.
    let rules =
        "{\"syscall\": \"socket\", \"args\": [{\"index\": 0, \"type\": \"dword\", \"op\": \"eq\", \"val\": 10}]}";
    let filter = confined("allow", &format!("{{\"errno\": {EAFNOSUPPORT}}}"), rules);
    let mut server = start_behind(&filter, EVERYWHERE, &[]);
    answers(&server);
    said_once(&mut server, "this host has no IPv6");
}

#[test]
fn an_address_that_comes_later() {
    netns::inside(|| {
        let corefile = COREFILE.replace("bind 127.0.0.1", "bind 127.0.0.1 192.0.2.7 2001:db8::7");
        let mut server = Nodens::start_with(&corefile, &["--workers", "2"]);
        answers(&server);
        assert_eq!(server.metric("nodens_listen_addresses_absent"), 2.0);
        for (address, command) in [
            ("192.0.2.7", "ip address add 192.0.2.7/32 dev lo"),
            ("2001:db8::7", "ip address add 2001:db8::7/128 dev lo nodad"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            run(command);
            for way in [Way::Udp, Way::Tcp] {
                let reply = server.ask_at(address, "cedar.example A", way);
                assert_eq!(reply.rcode, "NOERROR", "{address} {way:?}");
            }
            let place = SocketAddr::new(address, server.address("PORT").port());
            said_once(
                &mut server,
                &format!("no interface of this host has the address of {place}"),
            );
            said_once(&mut server, &format!("the address of {place} has come"));
        }
        assert_eq!(server.metric("nodens_listen_addresses_absent"), 0.0);
        answers(&server);
    });
}

#[test]
fn an_endpoint_whose_address_comes_later() {
    netns::inside(|| {
        let late = "elm.example:{PORT} {
            bind 127.0.0.1
            health 192.0.2.7:{HEALTH}
            ready 192.0.2.7:{READY}
            prometheus 192.0.2.7:{LATE}
            }
            ";
        let corefile = format!("{COREFILE}{late}");
        let mut server = Nodens::start(&corefile);
        answers(&server);
        assert_eq!(server.metric("nodens_listen_addresses_absent"), 3.0);
        let places = ["HEALTH", "READY", "LATE"].map(|word| {
            let port = server.address(word).port();
            SocketAddr::from(([192, 0, 2, 7], port))
        });
        std::thread::sleep(Duration::from_millis(2500));
        let log = server.process().log();
        assert!(!log.contains("Local health request"), "nobody else is asked\n{log}");
        run("ip address add 192.0.2.7/32 dev lo");
        let texts = [("/health", "OK"), ("/ready", "OK"), ("/metrics", "coredns_build_info")];
        for (place, (path, text)) in places.into_iter().zip(texts) {
            let (status, page) = ask::get(place, path, Duration::from_secs(5)).unwrap();
            assert!(status == 200 && page.contains(text), "{path}: {status} {page}");
            let said = format!("no interface of this host has the address of {place}");
            said_once(&mut server, &said);
            said_once(&mut server, &format!("the address of {place} has come"));
        }
        assert_eq!(server.metric("nodens_listen_addresses_absent"), 0.0);
    });
}

#[test]
fn an_endpoint_whose_port_is_taken() {
    let taken = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [health, ready] = taken.each_ref().map(|listener| listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Corefile");
    fs::write(
        &path,
        format!(".:{0} {{\n    health {health}\n    ready {ready}\n}}\n", free_port()),
    )
    .unwrap();
    let refused = Command::new(nodens().unwrap())
        .arg("-conf")
        .arg(&path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    for line in [2, 3] {
        assert!(text.contains(&format!("Corefile:{line} - plugin/")), "{text}");
    }
    assert_eq!(text.matches("= help: ").count(), 2, "{text}");
}

#[test]
fn no_file_descriptor_left() {
    const LIMIT: usize = 48;
    let limit = format!("--nofile={LIMIT}:{LIMIT}");
    let mut server = start_behind(&["prlimit", &limit], COREFILE, &["--workers", "1"]);
    // The page needs one too.
    let cpu = cpu_ticks(&mut server);
    let clients: Vec<_> = (0..LIMIT)
        .map(|_| TcpStream::connect(server.address("PORT")).unwrap())
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert_eq!(server.ask("cedar.example A").rcode, "NOERROR");
        std::thread::sleep(Duration::from_millis(50));
    }
    let spent = cpu_ticks(&mut server) - cpu;
    assert!(spent < 50, "it spins: {spent} ticks of 10 ms in 2 s");
    said_once(&mut server, "no file descriptor or memory left for a connection");
    drop(clients);
    let end = Instant::now() + Duration::from_secs(5);
    while server.ask_over("cedar.example A", Way::Tcp).rcode != "NOERROR" {
        assert!(Instant::now() < end, "{}", server.process().log_end());
    }
    assert!(server.metric("nodens_stream_accepts_starved_total") >= 1.0);
}

/// What the process has used of the CPU.
fn cpu_ticks(server: &mut Nodens) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.process().id())).unwrap();
    let (_, behind_name) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = behind_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_full_disk_under_the_log() {
    let corefile = COREFILE.replace("whoami", "whoami\n    log");
    let mut server = start_behind(
        &["sh", "-c", "exec \"$@\" > /dev/full", "sh"],
        &corefile,
        &["--workers", "1"],
    );
    for _ in 0..100 {
        assert_eq!(server.ask("cedar.example A").rcode, "NOERROR");
    }
    said_once(&mut server, "lines for the log are lost");
    let end = Instant::now() + Duration::from_secs(5);
    while server.metric("nodens_log_lost_total") < 100.0 {
        assert!(Instant::now() < end, "{}", server.metric("nodens_log_lost_total"));
    }
}

#[test]
fn a_log_that_nobody_reads() {
    // A pipe that is open on both ends takes 64 KB and no more.
    let corefile = COREFILE.replace("whoami", "whoami\n    log");
    let mut server = start_behind(
        &["sh", "-c", "mkfifo pipe && exec \"$@\" 1<>pipe", "sh"],
        &corefile,
        &["--workers", "1"],
    );
    // What the control plane says of it is 20 KB each time.
    let broken = format!("cedar.example:0 {{\n{}}}\n", "    frobnicate\n".repeat(100));
    server.write("Corefile", &broken);
    let end = Instant::now() + Duration::from_secs(60);
    while server.metric("nodens_log_lost_total") == 0.0 {
        assert!(Instant::now() < end, "nothing is lost");
        server.process().signal(Signal::USR1).unwrap();
        answers(&server);
    }
    said_once(&mut server, "lines for the log are lost");
    // Nothing waits for a reader, and neither does the end.
    server.write("Corefile", &corefile.replace("cedar.example", "elm.example"));
    server.process().signal(Signal::USR1).unwrap();
    server.wait_for("elm.example A", Duration::from_secs(10), |reply| {
        reply.rcode == "NOERROR"
    });
    for _ in 0..100 {
        assert_eq!(server.ask("elm.example A").rcode, "NOERROR");
    }
    server.process().signal(Signal::TERM).unwrap();
    let status = server.process().wait(Duration::from_secs(8));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn more_datagrams_at_once_than_buffers() {
    // One receive does not take so many at a time, but those of many addresses share the buffers.
    let addresses: [_; 20] = std::array::from_fn(|at| Ipv4Addr::new(127, 0, 0, 1 + at as u8));
    let words = addresses.map(|address| address.to_string());
    let mut server = Nodens::start(&COREFILE.replace("bind 127.0.0.1", &format!("bind {}", words.join(" "))));
    if workers(&server).0 == 0.0 {
        println!("skipped: no io_uring");
        return;
    }
    let port = server.address("PORT").port();
    let clients = addresses.map(|address| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect((address, port)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client
    });
    let sent = || clients.iter().flat_map(|client| std::iter::repeat_n(client, 50));
    let query = question("cedar.example A").unwrap().to_vec().unwrap();
    let mut dry = 0.0;
    for _ in 0..20 {
        server.process().signal(Signal::STOP).unwrap();
        for client in sent() {
            client.send(&query).unwrap();
        }
        server.process().signal(Signal::CONT).unwrap();
        for client in sent() {
            client.recv(&mut [0; 512]).expect("each one is answered");
        }
        dry = server.metric("nodens_udp_buffers_exhausted_total");
        if dry > 0.0 {
            break;
        }
    }
    assert!(dry > 0.0);
    said_once(&mut server, "io_uring had no buffer left for a moment");
}

/// A folder for a cgroup of our own, removed at the end.
struct Cgroup(PathBuf);

impl Cgroup {
    /// With a quota of 100m; none where that may not be made.
    fn with_quota() -> Option<Self> {
        let name = format!("nodens-test-{}", std::process::id());
        for (hierarchy, settings) in [
            (
                "/sys/fs/cgroup/cpu",
                &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "10000")][..],
            ),
            ("/sys/fs/cgroup", &[("cpu.max", "10000 100000")]),
        ] {
            let folder = Path::new(hierarchy).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let own = Self(folder);
            // Opened without creating: outside a hierarchy of cgroups the file would be one of ours.
            let write = |(file, text): &(&str, &str)| {
                let file = fs::OpenOptions::new().write(true).open(own.0.join(file));
                file.and_then(|mut file| file.write_all(text.as_bytes()))
            };
            if settings.iter().try_for_each(write).is_ok() {
                return Some(own);
            }
        }
        None
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes leave it a moment after their end.
        let end = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_quota_of_100m() {
    let Some(cgroup) = Cgroup::with_quota() else {
        println!("skipped: no cgroup with a quota can be made");
        return;
    };
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.0.display());
    // On one core of several it would stay, were it not for the quota.
    let words = ["sh", "-c", &join, "sh", "taskset", "-c", "0"];
    let mut server = start_behind(&words, COREFILE, &[]);
    let (uring, mmsg) = workers(&server);
    assert_eq!((uring + mmsg, server.metric("nodens_workers_pinned")), (1.0, 0.0));
    answers(&server);
    server.process().stop();
    let mut server = start_behind(&words[..4], COREFILE, &[]);
    if std::thread::available_parallelism().unwrap().get() > 1 {
        said_once(&mut server, "the quota of the cgroup is 0.1 CPUs: 1 worker");
    }
    let (uring, mmsg) = workers(&server);
    assert_eq!(uring + mmsg, 1.0);
    server.process().stop();
}

/// Facts of the whole machine: `MACHINE=1` changes them for a moment, which others feel.
fn may_change_the_machine() -> bool {
    let may = std::env::var_os("MACHINE").is_some();
    if !may {
        println!("skipped: MACHINE=1 changes the machine for a moment");
    }
    may
}

/// A file of the kernel with another text, until it is dropped.
struct Changed {
    file: &'static str,
    before: String,
}

impl Changed {
    fn new(file: &'static str, text: &str) -> Option<Self> {
        let before = fs::read_to_string(file).ok()?;
        fs::write(file, text).ok()?;
        Some(Self { file, before })
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        fs::write(self.file, &self.before).expect("what could be written can be written again");
    }
}

#[test]
fn io_uring_switched_off() {
    if !may_change_the_machine() {
        return;
    }
    let _off = Changed::new("/proc/sys/kernel/io_uring_disabled", "2").expect("the sysctl");
    let mut server = Nodens::start(COREFILE);
    answers(&server);
    said_once(
        &mut server,
        "io_uring is switched off by the sysctl kernel.io_uring_disabled=2",
    );
    assert_eq!(workers(&server), (0.0, 1.0));
}

#[test]
fn a_core_that_goes_offline() {
    if !may_change_the_machine() {
        return;
    }
    let mut server = start_behind(&["taskset", "-c", "1"], COREFILE, &[]);
    let cores = |server: &Nodens| ["pinned", "displaced"].map(|what| server.metric(&format!("nodens_workers_{what}")));
    assert_eq!(cores(&server), [1.0, 0.0]);
    let offline = Changed::new("/sys/devices/system/cpu/cpu1/online", "0").expect("a second core");
    answers(&server);
    said_once(&mut server, "core 1 is gone");
    assert_eq!(cores(&server), [0.0, 1.0]);
    drop(offline);
    said_once(&mut server, "core 1 is back");
    assert_eq!(cores(&server), [1.0, 0.0]);
    answers(&server);
}

/// A zone of 50 MB is moved to pages of 2 MB where the kernel has them, and answers as before.
#[test]
fn large_data_is_moved_to_huge_pages() {
    let server = Nodens::start(
        "cedar.example:{PORT} {\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{METRICS}\n    file zone {\n        reload 1s\n    }\n}\n",
    );
    server.serve_large_zone(4);
    // Older kernels cannot, and some have it switched off.
    let large = vec![1_u8; 64 << 20];
    let has_huge_pages = use_huge_pages().is_ok_and(|bytes| bytes > 0);
    drop(large);
    let end = Instant::now() + Duration::from_secs(if has_huge_pages { 20 } else { 3 });
    while server.metric("nodens_huge_pages_bytes") == 0.0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("{} bytes", server.metric("nodens_huge_pages_bytes"));
    assert_eq!(server.metric("nodens_huge_pages_bytes") > 0.0, has_huge_pages);
    server.wait_for("host-4-59999.cedar.example A", Duration::from_secs(5), |reply| {
        reply.values() == ["192.0.2.1"]
    });
}
