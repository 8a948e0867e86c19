//! How each server is started: its configuration with one thread, minimal replies and no log of queries, and its command.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::options::Options;
use crate::scene::Scene;
use crate::servers::{Kind, free_port};
use crate::workload::{DOMAIN, Workload, ZONE, shape};

/// What a server is started for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) scene: Scene,
    pub(crate) workload: &'a Workload,
    pub(crate) options: &'a Options,
    /// The port of the server that is asked, or of the API server, where the scene has one.
    pub(crate) upstream: u16,
}

/// Where a server listens: for UDP and TCP, and for TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: u16,
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

impl Stage<'_> {
    /// The server's command, and what had to be started for it before.
    pub(crate) fn command(&self, kind: Kind, folder: &Path, ports: Ports) -> Result<(Command, Option<Child>)> {
        let alone = |command: Result<Command>| Ok((command?, None));
        match (self.scene, kind) {
            (_, Kind::EchoUring | Kind::EchoMmsg | Kind::Relay) => Err("a floor needs to know the transport".into()),
            (_, Kind::NodensUring) => alone(self.nodens("uring", folder, ports)),
            (_, Kind::NodensMmsg) => alone(self.nodens("mmsg", folder, ports)),
            (_, Kind::NodensEtcd) => {
                let etcd_port = free_port()?;
                let etcd = start_etcd(folder, etcd_port, self.options)?;
                fill_etcd(etcd_port)?;
                let source = format!("etcd {ZONE} {{\n        endpoint http://127.0.0.1:{etcd_port}\n    }}");
                Ok((nodens("auto", folder, ports, ZONE, &source, self.options)?, Some(etcd)))
            }
            (_, Kind::Knot) => alone(knot(self.workload, folder, ports.plain, self.options)),
            (_, Kind::Nsd) => alone(nsd(self.workload, folder, ports.plain, self.options)),
            (_, Kind::Gdnsd) => alone(gdnsd(self.workload, folder, ports.plain, self.options)),
            (_, Kind::Unbound) => alone(self.unbound(folder, ports)),
            (Scene::Zone, Kind::Dnsdist) => {
                // In front of a nodens on the client's core, whose replies it keeps.
                let back = Ports {
                    plain: free_port()?,
                    tls: free_port()?,
                };
                let own = self.options.on_client_core();
                let stage = Stage { options: &own, ..*self };
                let behind = stage.nodens("auto", folder, back)?.spawn()?;
                Ok((self.dnsdist(folder, ports, back.plain, true)?, Some(behind)))
            }
            (scene, Kind::Dnsdist) => alone(self.dnsdist(folder, ports, self.upstream, scene.keeps())),
            (_, Kind::Dnsmasq) => Ok((self.dnsmasq(ports.plain), None)),
        }
    }

    /// A floor: an echo with replies of `size` bytes, or a relay.
    pub(crate) fn floor(&self, kind: Kind, transport: &str, size: usize, port: u16) -> Command {
        let at = format!("127.0.0.1:{port}");
        let own = |name: &str| pinned(self.options.server_core, &self.options.binaries.join(name));
        if kind == Kind::Relay {
            let mut command = own("relay");
            let asks_over_tcp = transport == "tcp" || self.scene == Scene::ForceTcp;
            let to = if asks_over_tcp { "--to-tcp" } else { "--to" };
            command.args([
                &format!("--{transport}"),
                &at,
                to,
                &format!("127.0.0.1:{}", self.upstream),
            ]);
            return command;
        }
        let mut command = own("echo");
        let io = if kind == Kind::EchoUring { "uring" } else { "mmsg" };
        command.args(["--io", io, &format!("--{transport}"), &at, "--size", &size.to_string()]);
        command
    }

    fn nodens(&self, io: &str, folder: &Path, ports: Ports) -> Result<Command> {
        let (zone, source) = match self.scene {
            Scene::Zone => (ZONE, format!("file {}", self.workload.zone().display())),
            Scene::Cluster => (
                ".",
                format!(
                    "kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n        endpoint http://127.0.0.1:{}\n        pods insecure\n        \
                     fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }}\n    file {} {ZONE}",
                    self.upstream,
                    self.workload.zone().display()
                ),
            ),
            scene => {
                let mut source = String::new();
                if scene.keeps() {
                    source.push_str("cache\n    ");
                }
                write!(source, "forward . 127.0.0.1:{}", self.upstream)?;
                if scene == Scene::ForceTcp {
                    source.push_str(" {\n        force_tcp\n    }");
                }
                (".", source)
            }
        };
        nodens(io, folder, ports, zone, &source, self.options)
    }

    fn unbound(&self, folder: &Path, Ports { plain, tls }: Ports) -> Result<Command> {
        let (cert, key) = certificate(folder)?;
        let source = match self.scene {
            Scene::Zone => format!(
                "auth-zone:\n  name: {ZONE}\n  zonefile: \"{}\"\n  for-downstream: yes\n  for-upstream: no\n",
                self.workload.zone().display()
            ),
            _ => format!(
                "forward-zone:\n  name: \".\"\n  forward-addr: 127.0.0.1@{}\n",
                self.upstream
            ),
        };
        // Its manual's advice for a busy server; what is not validated needs the iterator alone.
        let tcp = if self.scene == Scene::ForceTcp { "yes" } else { "no" };
        let config = format!(
            "server:\n  num-threads: 1\n  interface: 127.0.0.1@{plain}\n  interface: 127.0.0.1@{tls}\n  tls-port: {tls}\n  \
             tls-service-key: \"{key}\"\n  tls-service-pem: \"{cert}\"\n  username: \"\"\n  chroot: \"\"\n  directory: \"{}\"\n  \
             pidfile: \"\"\n  use-syslog: no\n  verbosity: 0\n  incoming-num-tcp: 200\n  minimal-responses: yes\n  module-config: \
             \"iterator\"\n  do-ip6: no\n  do-not-query-localhost: no\n  outgoing-range: 8192\n  num-queries-per-thread: 4096\n  \
             msg-cache-size: 64m\n  rrset-cache-size: 128m\n  so-rcvbuf: 8m\n  so-sndbuf: 8m\n  tcp-upstream: {tcp}\n\
             remote-control:\n  control-enable: no\n\
             {source}",
            folder.display(),
        );
        std::fs::write(folder.join("unbound.conf"), config)?;
        let mut command = pinned(self.options.server_core, Path::new("unbound"));
        command.arg("-d").arg("-c").arg(folder.join("unbound.conf"));
        Ok(command)
    }

    fn dnsdist(&self, folder: &Path, Ports { plain, tls }: Ports, back: u16, keeps: bool) -> Result<Command> {
        let (cert, key) = certificate(folder)?;
        let tcp = if self.scene == Scene::ForceTcp {
            ", tcpOnly=true"
        } else {
            ""
        };
        let mut config = format!(
            "setUDPMultipleMessagesVectorSize(64)\nsetRingBuffersSize(1, 1)\nsetMaxUDPOutstanding(65535)\nsetMaxTCPClientThreads(1)\n\
             setLocal('127.0.0.1:{plain}')\naddTLSLocal('127.0.0.1:{tls}', '{cert}', '{key}')\n\
             newServer({{address='127.0.0.1:{back}'{tcp}}}):setUp()\nsetSecurityPollSuffix('')\n"
        );
        if keeps {
            config.push_str("local cache = newPacketCache(100000)\ngetPool(''):setCache(cache)\n");
        }
        std::fs::write(folder.join("dnsdist.conf"), config)?;
        let mut command = pinned(self.options.server_core, Path::new("dnsdist"));
        command
            .args(["--supervised", "--disable-syslog", "-C"])
            .arg(folder.join("dnsdist.conf"));
        Ok(command)
    }

    fn dnsmasq(&self, port: u16) -> Command {
        let entries = if self.scene.keeps() { 100_000 } else { 0 };
        let mut command = pinned(self.options.server_core, Path::new("dnsmasq"));
        command
            .args([
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--pid-file=",
                "--user=",
            ])
            .args([
                "--no-resolv",
                "--no-hosts",
                "--listen-address=127.0.0.1",
                "--bind-interfaces",
            ])
            .args(["--dns-forward-max=10000", "--log-facility=-"])
            .arg(format!("--port={port}"))
            .arg(format!("--server=127.0.0.1#{}", self.upstream))
            .arg(format!("--cache-size={entries}"));
        command
    }
}

/// The server that others ask: each question gets an address, the next one each time. It stands on the client's core.
pub(crate) fn upstream(port: u16, ttl: u32, options: &Options) -> Command {
    let mut command = pinned(options.client_core, &options.binaries.join("echo"));
    let at = format!("127.0.0.1:{port}");
    command.args(["--udp", &at, "--tcp", &at, "--ttl", &ttl.to_string()]);
    command
}

/// The API server, which says its URL first and ends with its input. It stands on the client's core.
pub(crate) fn cluster(options: &Options) -> Command {
    let mut command = pinned(options.client_core, &options.binaries.join("cluster"));
    command
        .args(["serve", "--services", &shape().services.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// As operators run it: counted, errors logged, answers shuffled, on all addresses.
fn nodens(io: &str, folder: &Path, ports: Ports, zone: &str, source: &str, options: &Options) -> Result<Command> {
    let Ports { plain, tls } = ports;
    let metrics = free_port()?;
    let (cert, key) = certificate(folder)?;
    let corefile = format!(
        "{zone}:{plain} tls://{zone}:{tls} {{\n    tls {cert} {key}\n    prometheus 127.0.0.1:{metrics}\n    errors\n    loadbalance\n    {source}\n}}\n"
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
            // In double quotes: of a value in single ones etcdctl 3.4 takes a letter.
            .map(|(key, value)| format!("put {key} {value:?}\n"))
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
