//! The servers as processes, from start to end.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::Result;
use crate::commands::{self, Ports, Stage};
use crate::measure::{family, memory_mb};
use crate::options::Options;
use crate::workload::{Mix, NAMES, SEARCHED};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    EchoUring,
    EchoMmsg,
    NodensUring,
    NodensMmsg,
    /// nodens over an etcd with the same names.
    NodensEtcd,
    Knot,
    Nsd,
    Gdnsd,
    Dnsdist,
    Unbound,
    Dnsmasq,
    /// What a server that asks another one does at least.
    Relay,
}

#[derive(Debug)]
pub(crate) struct NoSuchServer(String);

impl fmt::Display for NoSuchServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no server that this program knows", self.0)
    }
}

impl std::error::Error for NoSuchServer {}

impl FromStr for Kind {
    type Err = NoSuchServer;

    fn from_str(text: &str) -> Result<Self, NoSuchServer> {
        let mut all = Self::USUAL.into_iter().chain([Self::NodensEtcd]);
        all.find(|kind| kind.name() == text)
            .ok_or_else(|| NoSuchServer(text.to_owned()))
    }
}

impl Kind {
    pub(crate) const USUAL: [Self; 11] = [
        Self::EchoUring,
        Self::EchoMmsg,
        Self::Relay,
        Self::NodensUring,
        Self::NodensMmsg,
        Self::Knot,
        Self::Nsd,
        Self::Gdnsd,
        Self::Dnsdist,
        Self::Unbound,
        Self::Dnsmasq,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::EchoUring => "echo-uring",
            Self::EchoMmsg => "echo-mmsg",
            Self::NodensUring => "nodens-uring",
            Self::NodensMmsg => "nodens-mmsg",
            Self::NodensEtcd => "nodens-etcd",
            Self::Knot => "knot",
            Self::Nsd => "nsd",
            Self::Gdnsd => "gdnsd",
            Self::Dnsdist => "dnsdist",
            Self::Unbound => "unbound",
            Self::Dnsmasq => "dnsmasq",
            Self::Relay => "relay",
        }
    }

    pub(crate) fn needs_uring(self) -> bool {
        matches!(self, Self::EchoUring | Self::NodensUring)
    }
}

/// A server that runs, and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    ports: Ports,
    /// It and what it started.
    pub(crate) pids: Vec<u32>,
    child: Ending,
    /// What had to be started for it.
    _behind: Option<Ending>,
}

/// A port that is free for UDP and TCP on all addresses.
pub(crate) fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = UdpSocket::bind("0.0.0.0:0")?.local_addr()?.port();
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}

impl Server {
    /// Starts a server, and waits until it answers.
    pub(crate) fn start(kind: Kind, stage: &Stage<'_>) -> Result<Self> {
        let ports = Ports {
            plain: free_port()?,
            tls: free_port()?,
        };
        let folder = stage.workload.folder.join(kind.name());
        std::fs::create_dir_all(&folder)?;
        let (command, behind) = stage.command(kind, &folder, ports)?;
        Self::launch(kind, ports, command, behind, &folder, |server| {
            let mix = stage.scene.first_mix();
            mix.ask(0, server.port()).is_ok_and(|reply| mix.is_right(0, &reply))
        })
    }

    /// Starts a floor; the replies of an echo have `size` bytes.
    pub(crate) fn start_floor(kind: Kind, transport: &str, size: usize, stage: &Stage<'_>) -> Result<Self> {
        let port = free_port()?;
        let command = stage.floor(kind, transport, size, port);
        let ports = Ports { plain: port, tls: port };
        Self::launch(kind, ports, command, None, &stage.workload.folder, |server| {
            if transport == "udp" {
                Mix::A.ask(0, server.port()).is_ok()
            } else {
                TcpStream::connect(("127.0.0.1", server.port())).is_ok()
            }
        })
    }

    /// Starts the process and waits for it to be ready; what it complained about is in the error.
    fn launch(
        kind: Kind,
        ports: Ports,
        mut command: Command,
        behind: Option<Child>,
        folder: &Path,
        ready: impl Fn(&Self) -> bool,
    ) -> Result<Self> {
        let log = folder.join(format!("{}.log", kind.name()));
        let child = command
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", kind.name()))?;
        let mut server = Self {
            kind,
            ports,
            pids: Vec::new(),
            child: Ending(child),
            _behind: behind.map(Ending),
        };
        match server.wait_until(ready) {
            Ok(()) => Ok(server),
            Err(error) => Err(format!("{error}\n{}", std::fs::read_to_string(log).unwrap_or_default()).into()),
        }
    }

    fn wait_until(&mut self, ready: impl Fn(&Self) -> bool) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(20);
        while !ready(self) {
            if let Some(status) = self.child.0.try_wait()? {
                return Err(format!("{} ended: {status}", self.kind.name()).into());
            }
            if Instant::now() > end {
                return Err(format!("{} does not answer", self.kind.name()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.pids = family(self.child.0.id());
        Ok(())
    }

    /// Asks a few questions of the mix twice and looks at the replies. Where another server is asked, the second is equal to
    /// the first if it was kept, and only then.
    pub(crate) fn check(&self, mix: Mix, stage: &Stage<'_>) -> Result<()> {
        for number in [0, 1, NAMES / 2, NAMES - 1] {
            let reply = mix.ask(number, self.port())?;
            let again = mix.ask(number, self.port())?;
            let address = |reply: &[u8]| reply.last_chunk::<4>().copied();
            let is_kept = address(&reply) == address(&again);
            let is_as_it_should = stage.scene.upstream_ttl().is_none() || is_kept == stage.scene.keeps();
            if !mix.is_right(number, &reply) || !is_as_it_should {
                return Err(format!(
                    "{} answers {} wrong: {reply:02x?}, then {again:02x?}",
                    self.kind.name(),
                    mix.question(number).0
                )
                .into());
            }
        }
        Ok(())
    }

    /// Bytes of its replies to questions of the mix: all are the same length, or the mean of the names of a search path counts.
    pub(crate) fn reply_size(&self, mix: Mix) -> Result<usize> {
        let mut bytes = 0;
        for number in 0..SEARCHED {
            bytes += mix.ask(NAMES / 2 + number, self.port())?.len();
        }
        Ok(bytes / SEARCHED as usize)
    }

    pub(crate) fn port(&self) -> u16 {
        self.ports.plain
    }

    pub(crate) fn port_for(&self, transport: &str) -> u16 {
        if transport == "dot" {
            self.ports.tls
        } else {
            self.ports.plain
        }
    }

    pub(crate) fn memory_mb(&self) -> f64 {
        memory_mb(&self.pids)
    }
}

/// The server that others ask, or the API server that they read, on the client's core.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) port: u16,
    _child: Ending,
}

impl Upstream {
    pub(crate) fn start(ttl: u32, options: &Options) -> Result<Self> {
        let port = free_port()?;
        let child = Ending(commands::upstream(port, ttl, options).spawn()?);
        let end = Instant::now() + Duration::from_secs(10);
        while Mix::A.ask(0, port).is_err() {
            if Instant::now() > end {
                return Err("the server that is asked does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { port, _child: child })
    }

    /// The API server of a cluster that is made up.
    pub(crate) fn cluster(options: &Options) -> Result<Self> {
        let mut child = Ending(commands::cluster(options).spawn()?);
        let out = child.0.stdout.take().ok_or("no output of the API server")?;
        // It lives as long as its input.
        let mut url = String::new();
        BufReader::new(out).read_line(&mut url)?;
        let port = url.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.ok_or_else(|| format!("the API server says {url:?}"))?;
        Ok(Self { port, _child: child })
    }
}

/// A process that ends when this is dropped: by TERM, so that it can end its own children; by KILL when that does not help.
#[derive(Debug)]
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        // Errors mean that it is gone already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        for _ in 0..60 {
            if matches!(self.0.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
