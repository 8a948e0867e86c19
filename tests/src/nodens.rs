//! The server under test as a process that can be asked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::Message;

use crate::ask::{self, Way, exchange, question};
use crate::page;
use crate::process::{Process, nodens};
use crate::records::{Line, line_of, rcode_text};
use crate::world::World;

/// How long a reply may take; more is no reply.
const REPLY_WITHIN: Duration = Duration::from_secs(2);

/// A running server; `{PORT}` and `{METRICS}` of its Corefile are its ports.
pub struct Nodens {
    world: World,
    process: Process,
}

/// A reply in the words of the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `NOERROR` and so on; `none`: no reply came.
    pub rcode: String,
    /// TC.
    pub truncated: bool,
    /// The answer section.
    pub answers: Vec<Line>,
    /// Bytes.
    pub len: usize,
}

impl Reply {
    fn none() -> Self {
        Self {
            rcode: "none".to_owned(),
            truncated: false,
            answers: Vec::new(),
            len: 0,
        }
    }

    /// The last word of each answer, sorted: addresses and targets.
    pub fn values(&self) -> Vec<&str> {
        let mut values: Vec<&str> = self
            .answers
            .iter()
            .filter_map(|line| line.last())
            .map(String::as_str)
            .collect();
        values.sort_unstable();
        values
    }
}

/// Runs the binary, or a program whose words stand before it and that runs it.
fn spawn(world: &World, words: &[&str], args: &[&str], log: &str) -> Process {
    let binary = nodens().unwrap_or_else(|error| panic!("{error}"));
    let mut words = words.iter().map(OsStr::new).chain([binary.as_os_str()]);
    let mut command = Command::new(words.next().expect("at least the binary"));
    command
        .current_dir(world.folder())
        .args(words)
        .args(args)
        .args(["-conf", "Corefile"]);
    Process::start(&mut command, world.folder().join(log)).expect("the server starts")
}

impl Nodens {
    /// Starts it with one worker, and waits until it listens.
    ///
    /// # Panics
    /// It is not built or does not start; the message has its output.
    pub fn start(corefile: &str) -> Self {
        Self::start_with(corefile, &["--workers", "1"])
    }

    /// Starts it with these arguments.
    ///
    /// # Panics
    /// It is not built or does not start; the message has its output.
    pub fn start_with(corefile: &str, args: &[&str]) -> Self {
        Self::start_behind(&[], corefile, args)
    }

    /// Starts it with these arguments behind the words of a program that runs another, as `prlimit --nofile=40`.
    ///
    /// # Panics
    /// It is not built or does not start; the message has its output.
    pub fn start_behind(words: &[&str], corefile: &str, args: &[&str]) -> Self {
        let world = World::new().expect("a folder");
        // For servers that another user runs.
        std::fs::set_permissions(world.folder(), Permissions::from_mode(0o755)).expect("a folder of our own");
        world.write("Corefile", Some(corefile)).expect("a file");
        let process = spawn(&world, words, args, "log");
        let mut server = Self { world, process };
        let end = Instant::now() + Duration::from_secs(15);
        while std::net::TcpStream::connect(server.address("PORT")).is_err() {
            assert!(
                server.process.status().is_none(),
                "the server ended: {}",
                server.process.log_end()
            );
            assert!(
                Instant::now() < end,
                "the server does not listen: {}",
                server.process.log_end()
            );
            sleep(Duration::from_millis(10));
        }
        server
    }

    /// Starts another process with these arguments that takes over, and waits until the one before has ended.
    ///
    /// # Panics
    /// It does not start, or the one before does not end with status 0.
    pub fn take_over(&mut self, args: &[&str]) {
        let log = format!("log.{}", self.process.id());
        let new = spawn(&self.world, &[], &[args, &["-take-over"]].concat(), &log);
        let mut old = std::mem::replace(&mut self.process, new);
        let status = old.wait(Duration::from_secs(20));
        assert!(
            status.is_some_and(|status| status.success()),
            "{status:?}: {}\n{}",
            old.log_end(),
            self.process.log_end()
        );
    }

    /// Writes a file of its folder.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        self.world.write(name, Some(text)).expect("a file");
    }

    /// Writes the file `zone` of cedar.example with 60,001 names in each part, `host-PART-NUMBER`, and waits until it is served.
    ///
    /// # Panics
    /// It is not served in time.
    pub fn serve_large_zone(&self, parts: u32) {
        let names: String = (1..=parts)
            .map(|part| format!("$GENERATE 0-60000 host-{part}-$ A 192.0.2.1\n"))
            .collect();
        let zone = format!("@ SOA ns admin 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{names}");
        self.write("zone", &zone);
        self.wait_for("ns.cedar.example A", Duration::from_secs(90), |reply| {
            reply.values() == ["192.0.2.1"]
        });
    }

    /// Where the port of that name is.
    pub fn address(&self, port: &str) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.world.port(port)).into()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Asks `NAME TYPE` over UDP.
    ///
    /// # Panics
    /// The reply is no DNS message.
    pub fn ask(&self, text: &str) -> Reply {
        self.ask_over(text, Way::Udp)
    }

    /// Asks `NAME TYPE`.
    ///
    /// # Panics
    /// The reply is no DNS message.
    pub fn ask_over(&self, text: &str, way: Way<'_>) -> Reply {
        self.ask_at(Ipv4Addr::LOCALHOST.into(), text, way)
    }

    /// Asks `NAME TYPE` at another address than that of loopback.
    ///
    /// # Panics
    /// The reply is no DNS message.
    pub fn ask_at(&self, address: IpAddr, text: &str, way: Way<'_>) -> Reply {
        reply_of(SocketAddr::new(address, self.world.port("PORT")), text, way)
    }

    /// Asks again until the reply is right; how long that took.
    ///
    /// # Panics
    /// It is not right in time.
    pub fn wait_for(&self, text: &str, limit: Duration, right: impl Fn(&Reply) -> bool) -> Duration {
        self.wait_for_at(self.address("PORT"), text, limit, right)
    }

    /// The same of another server, which hangs on this one.
    ///
    /// # Panics
    /// It is not right in time.
    pub fn wait_for_at(
        &self,
        server: SocketAddr,
        text: &str,
        limit: Duration,
        right: impl Fn(&Reply) -> bool,
    ) -> Duration {
        let begun = Instant::now();
        loop {
            let reply = reply_of(server, text, Way::Udp);
            if right(&reply) {
                return begun.elapsed();
            }
            assert!(
                begun.elapsed() < limit,
                "{text}: still {reply:?} after {limit:?}\n{}",
                self.process.log_end()
            );
            // Finely at first, so that what is measured is not the sleep.
            let waited = begun.elapsed();
            sleep((waited / 20).clamp(Duration::from_micros(200), Duration::from_millis(50)));
        }
    }

    /// The sum of a metric's series.
    ///
    /// # Panics
    /// The page does not come.
    pub fn metric(&self, name: &str) -> f64 {
        page::total(&self.metrics(), name)
    }

    /// The sum of a metric's series with this label.
    ///
    /// # Panics
    /// The page does not come.
    pub fn metric_with(&self, name: &str, label: &str, value: &str) -> f64 {
        let labels = BTreeMap::from([(label.to_owned(), value.to_owned())]);
        page::sum(&page::parse(&self.metrics()), name, &labels)
    }

    /// The page; its listener opens a moment after those of DNS.
    ///
    /// # Panics
    /// It does not come.
    pub fn metrics(&self) -> String {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            match ask::get(self.address("METRICS"), "/metrics", Duration::from_secs(5)) {
                Ok((status, text)) => {
                    assert_eq!(status, 200, "{text}");
                    return text;
                }
                Err(error) => assert!(Instant::now() < end, "the metrics page: {error}"),
            }
            sleep(Duration::from_millis(10));
        }
    }
}

fn reply_of(server: SocketAddr, text: &str, way: Way<'_>) -> Reply {
    let packet = question(text)
        .and_then(|m| m.to_vec().map_err(|e| e.to_string()))
        .expect("a question");
    let Some(wire) = exchange(&packet, server, None, way, REPLY_WITHIN) else {
        return Reply::none();
    };
    let message = Message::from_vec(&wire).expect("a DNS message");
    Reply {
        rcode: rcode_text(u16::from(message.metadata.response_code)),
        truncated: message.metadata.truncation,
        answers: message.answers.iter().map(line_of).collect(),
        len: wire.len(),
    }
}
