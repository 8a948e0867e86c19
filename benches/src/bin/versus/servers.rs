//! The servers: their configurations, each with one thread, minimal replies and no log of queries.

use std::fmt;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::Result;
use crate::measure::{family, memory_mb};
use crate::options::Options;
use crate::workload::{Mix, NAMES, Workload, ZONE};

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
    /// Over TLS alone, in front of a nodens on the client's core whose replies it keeps.
    Dnsdist,
    /// Over TLS alone.
    Unbound,
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
    pub(crate) const USUAL: [Self; 9] = [
        Self::EchoUring,
        Self::EchoMmsg,
        Self::NodensUring,
        Self::NodensMmsg,
        Self::Knot,
        Self::Nsd,
        Self::Gdnsd,
        Self::Dnsdist,
        Self::Unbound,
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
        }
    }

    pub(crate) fn is_echo(self) -> bool {
        matches!(self, Self::EchoUring | Self::EchoMmsg)
    }

    pub(crate) fn needs_uring(self) -> bool {
        matches!(self, Self::EchoUring | Self::NodensUring)
    }

    /// Streams are the same under both back ends, so of the echo one is enough, and of nodens under TLS.
    pub(crate) fn takes_part(self, transport: &str) -> bool {
        match self {
            Self::Dnsdist | Self::Unbound => transport == "dot",
            Self::NodensUring | Self::NodensEtcd => true,
            Self::EchoUring => transport == "udp",
            Self::EchoMmsg | Self::NodensMmsg | Self::Knot | Self::Nsd | Self::Gdnsd => transport != "dot",
        }
    }
}

/// A server that runs, and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    tls_port: u16,
    /// It and what it started.
    pub(crate) pids: Vec<u32>,
    child: Child,
    behind: Option<Child>,
}

/// A port that is free for UDP and TCP on all addresses.
fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = UdpSocket::bind("0.0.0.0:0")?.local_addr()?.port();
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}

/// A program on a core; it ends with this one, even if this one is killed.
fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "TERM", "taskset", "-c", &core.to_string()])
        .arg(program);
    // Debian keeps servers where the path of an ordinary user does not lead.
    command.env(
        "PATH",
        format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()),
    );
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Server {
    /// Starts a server over the zone, and waits until it answers.
    pub(crate) fn start(kind: Kind, workload: &Workload, options: &Options) -> Result<Self> {
        let (port, tls_port) = (free_port()?, free_port()?);
        let folder = workload.folder.join(kind.name());
        std::fs::create_dir_all(&folder)?;
        let mut behind = None;
        let command = match kind {
            Kind::NodensUring => nodens("uring", &folder, (port, tls_port), &file_source(workload), options)?,
            Kind::NodensMmsg => nodens("mmsg", &folder, (port, tls_port), &file_source(workload), options)?,
            Kind::NodensEtcd => {
                let etcd_port = free_port()?;
                behind = Some(start_etcd(&folder, etcd_port, options)?);
                fill_etcd(etcd_port)?;
                let source = format!("etcd {ZONE} {{\n        endpoint http://127.0.0.1:{etcd_port}\n    }}");
                nodens("auto", &folder, (port, tls_port), &source, options)?
            }
            Kind::Knot => knot(workload, &folder, port, options)?,
            Kind::Nsd => nsd(workload, &folder, port, options)?,
            Kind::Gdnsd => gdnsd(workload, &folder, port, options)?,
            Kind::Unbound => unbound(workload, &folder, (port, tls_port), options)?,
            Kind::Dnsdist => {
                let source = file_source(workload);
                let back = (free_port()?, free_port()?);
                let own = options.on_client_core();
                behind = Some(nodens("auto", &folder, back, &source, &own)?.spawn()?);
                dnsdist(&folder, (port, tls_port), back.0, options)?
            }
            Kind::EchoUring | Kind::EchoMmsg => return Err("an echo has no zone".into()),
        };
        Self::launch(kind, (port, tls_port), command, behind, &folder, |server| {
            Mix::A.ask(0, server.port).is_ok_and(|reply| Mix::A.is_right(&reply))
        })
    }

    /// Starts an echo with replies of `size` bytes.
    pub(crate) fn start_echo(
        kind: Kind,
        transport: &str,
        size: usize,
        workload: &Workload,
        options: &Options,
    ) -> Result<Self> {
        let port = free_port()?;
        let io = if kind == Kind::EchoUring { "uring" } else { "mmsg" };
        let mut command = pinned(options.server_core, &options.binaries.join("echo"));
        command.args([
            "--io",
            io,
            &format!("--{transport}"),
            &format!("127.0.0.1:{port}"),
            "--size",
            &size.to_string(),
        ]);
        Self::launch(kind, (port, port), command, None, &workload.folder, |server| {
            if transport == "udp" {
                Mix::A.ask(0, server.port).is_ok()
            } else {
                TcpStream::connect(("127.0.0.1", server.port)).is_ok()
            }
        })
    }

    /// Starts the process and waits for it to be ready; what it complained about is in the error.
    fn launch(
        kind: Kind,
        (port, tls_port): (u16, u16),
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
            port,
            tls_port,
            pids: Vec::new(),
            child,
            behind,
        };
        match server.wait_until(ready) {
            Ok(()) => Ok(server),
            Err(error) => Err(format!("{error}\n{}", std::fs::read_to_string(log).unwrap_or_default()).into()),
        }
    }

    fn wait_until(&mut self, ready: impl Fn(&Self) -> bool) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(20);
        while !ready(self) {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended: {status}", self.kind.name()).into());
            }
            if Instant::now() > end {
                return Err(format!("{} does not answer", self.kind.name()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.pids = family(self.child.id());
        Ok(())
    }

    /// Asks a few questions of the mix and looks at the replies.
    pub(crate) fn check(&self, mix: Mix) -> Result<()> {
        for number in [0, 1, NAMES / 2, NAMES - 1] {
            let reply = mix.ask(number, self.port)?;
            if !mix.is_right(&reply) {
                return Err(format!(
                    "{} answers {} wrong: {reply:02x?}",
                    self.kind.name(),
                    mix.question(number).0
                )
                .into());
            }
        }
        Ok(())
    }

    /// Bytes of its reply to a question of the mix; all are the same length.
    pub(crate) fn reply_size(&self, mix: Mix) -> Result<usize> {
        Ok(mix.ask(NAMES / 2, self.port)?.len())
    }

    pub(crate) fn port_for(&self, transport: &str) -> u16 {
        if transport == "dot" { self.tls_port } else { self.port }
    }

    pub(crate) fn memory_mb(&self) -> f64 {
        memory_mb(&self.pids)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
        if let Some(mut behind) = self.behind.take() {
            end(&mut behind);
        }
    }
}

/// TERM, so that a server can end its own children; KILL when that does not help.
fn end(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    // Errors mean that it is gone already.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    for _ in 0..60 {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn file_source(workload: &Workload) -> String {
    format!("file {}", workload.zone().display())
}

/// As operators run it: counted, errors logged, answers shuffled, on all addresses.
fn nodens(io: &str, folder: &Path, (port, tls_port): (u16, u16), source: &str, options: &Options) -> Result<Command> {
    let metrics = free_port()?;
    let (cert, key) = certificate(folder)?;
    let corefile = format!(
        "{ZONE}:{port} tls://{ZONE}:{tls_port} {{\n    tls {cert} {key}\n    prometheus 127.0.0.1:{metrics}\n    errors\n    loadbalance\n    {source}\n}}\n"
    );
    std::fs::write(folder.join("Corefile"), corefile)?;
    let mut command = pinned(options.server_core, &options.binaries.join("nodens"));
    command
        .args(["--io", io, "--workers", "1", "-conf", "Corefile"])
        .current_dir(folder);
    Ok(command)
}

fn knot(workload: &Workload, folder: &Path, port: u16, options: &Options) -> Result<Command> {
    let (path, zone) = (folder.display(), workload.zone());
    let config = format!(
        "server:\n    rundir: \"{path}\"\n    listen: 127.0.0.1@{port}\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\n\
         log:\n  - target: stderr\n    any: error\n\
         database:\n    storage: \"{path}\"\n\
         template:\n  - id: default\n    storage: \"{path}\"\n    zonefile-sync: -1\n    journal-content: none\n\
         zone:\n  - domain: {ZONE}\n    file: \"{}\"\n",
        zone.display()
    );
    std::fs::write(folder.join("knot.conf"), config)?;
    let mut command = pinned(options.server_core, Path::new("knotd"));
    command.arg("-c").arg(folder.join("knot.conf"));
    Ok(command)
}

fn nsd(workload: &Workload, folder: &Path, port: u16, options: &Options) -> Result<Command> {
    let path = folder.display();
    // The rate limit of Debian's build would drop what a single client asks.
    let config = format!(
        "server:\n  server-count: 1\n  ip-address: 127.0.0.1@{port}\n  do-ip6: no\n  username: \"\"\n  chroot: \"\"\n  database: \"\"\n  \
         zonesdir: \"{path}\"\n  zonelistfile: \"{path}/zones.list\"\n  pidfile: \"{path}/pid\"\n  xfrdfile: \"{path}/xfrd.state\"\n  \
         xfrdir: \"{path}\"\n  logfile: \"{path}/nsd.log\"\n  verbosity: 0\n  minimal-responses: yes\n  rrl-ratelimit: 0\n  \
         rrl-whitelist-ratelimit: 0\n  tcp-count: 200\n\
         remote-control:\n  control-enable: no\n\
         zone:\n  name: {ZONE}\n  zonefile: \"{}\"\n",
        workload.zone().display()
    );
    std::fs::write(folder.join("nsd.conf"), config)?;
    let mut command = pinned(options.server_core, Path::new("nsd"));
    command.arg("-d").arg("-c").arg(folder.join("nsd.conf"));
    Ok(command)
}

fn gdnsd(workload: &Workload, folder: &Path, port: u16, options: &Options) -> Result<Command> {
    let path = folder.display();
    for name in ["zones", "run", "state"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    std::fs::copy(workload.zone(), folder.join("zones").join(ZONE))?;
    let config = format!(
        "options => {{\n  listen => [ 127.0.0.1:{port} ]\n  udp_threads => 1\n  tcp_threads => 1\n  run_dir => \"{path}/run\"\n  \
         state_dir => \"{path}/state\"\n}}\n"
    );
    std::fs::write(folder.join("config"), config)?;
    let mut command = pinned(options.server_core, Path::new("gdnsd"));
    command.arg("-c").arg(folder).arg("start");
    Ok(command)
}

/// A certificate for a server, and its key: the same kind for all.
fn certificate(folder: &Path) -> Result<(String, String)> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, own.cert.pem())?;
    std::fs::write(&key, own.signing_key.serialize_pem())?;
    Ok((cert.display().to_string(), key.display().to_string()))
}

fn unbound(workload: &Workload, folder: &Path, (port, tls_port): (u16, u16), options: &Options) -> Result<Command> {
    let (cert, key) = certificate(folder)?;
    let config = format!(
        "server:\n  num-threads: 1\n  interface: 127.0.0.1@{port}\n  interface: 127.0.0.1@{tls_port}\n  tls-port: {tls_port}\n  \
         tls-service-key: \"{key}\"\n  tls-service-pem: \"{cert}\"\n  username: \"\"\n  chroot: \"\"\n  directory: \"{}\"\n  \
         pidfile: \"\"\n  use-syslog: no\n  verbosity: 0\n  incoming-num-tcp: 200\n  minimal-responses: yes\n  module-config: \
         \"iterator\"\n\
         remote-control:\n  control-enable: no\n\
         auth-zone:\n  name: {ZONE}\n  zonefile: \"{}\"\n  for-downstream: yes\n  for-upstream: no\n",
        folder.display(),
        workload.zone().display()
    );
    std::fs::write(folder.join("unbound.conf"), config)?;
    let mut command = pinned(options.server_core, Path::new("unbound"));
    command.arg("-d").arg("-c").arg(folder.join("unbound.conf"));
    Ok(command)
}

fn dnsdist(folder: &Path, (port, tls_port): (u16, u16), back: u16, options: &Options) -> Result<Command> {
    let (cert, key) = certificate(folder)?;
    let config = format!(
        "setLocal('127.0.0.1:{port}')\naddTLSLocal('127.0.0.1:{tls_port}', '{cert}', '{key}')\nsetMaxTCPClientThreads(1)\n\
         newServer('127.0.0.1:{back}'):setUp()\n\
         local cache = newPacketCache(100000)\ngetPool(''):setCache(cache)\nsetSecurityPollSuffix('')\n"
    );
    std::fs::write(folder.join("dnsdist.conf"), config)?;
    let mut command = pinned(options.server_core, Path::new("dnsdist"));
    command
        .args(["--supervised", "--disable-syslog", "-C"])
        .arg(folder.join("dnsdist.conf"));
    Ok(command)
}

fn start_etcd(folder: &Path, port: u16, options: &Options) -> Result<Child> {
    let url = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = pinned(options.client_core, Path::new("etcd"));
    command
        .arg("--data-dir")
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stderr(std::fs::File::create(folder.join("etcd.log"))?);
    Ok(command.spawn().map_err(|error| format!("etcd: {error}"))?)
}

/// Puts all services with `etcdctl`, a hundred to a transaction.
fn fill_etcd(port: u16) -> Result<()> {
    let services: Vec<(String, String)> = Workload::services().collect();
    for part in services.chunks(100) {
        let puts: String = part
            .iter()
            .map(|(key, value)| format!("put {key} '{value}'\n"))
            .collect();
        let text = format!("\n{puts}\n\n");
        let path: PathBuf = std::env::temp_dir().join(format!("nodens-versus-{}-txn", std::process::id()));
        std::fs::write(&path, text)?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let output = Command::new("etcdctl")
            .args(["--endpoints", &endpoint, "txn"])
            .env("ETCDCTL_API", "3")
            .stdin(std::fs::File::open(&path)?)
            .output()?;
        std::fs::remove_file(&path)?;
        if !output.status.success() {
            return Err(format!("etcdctl: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    Ok(())
}
