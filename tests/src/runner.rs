//! A case against the binary: its world is set up, its questions are asked, everything is ended.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

use crate::ask::{self, Way, converse, exchange, exchange_all, from_hex, question};
use crate::case::{ApiServer, Ask, Case, Step, TcpStreamAsk, Transport};
use crate::cluster::turn::{self, Turn};
use crate::etcd::Etcd;
use crate::process::{Process, signal_named};
use crate::records::{Line, check_section, wanted_line};
use crate::scripted::ScriptedServer;
use crate::tls::TlsClient;
use crate::world::World;
use crate::{Mismatch, authority, expect, mismatch, page};

/// How long a reply that depends on a source's data may take to become right, and a page in any case.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a question may lie in a scripted server's socket before it counts.
const UNSEEN_MAX: Duration = Duration::from_secs(1);
/// Where a scripted server `at` an address listens.
const DNS_PORT: u16 = 53;
/// The ports of `needs: default-ports`, which one scenario at a time may have.
const DEFAULT_PORTS: [u16; 4] = [2379, 8080, 8181, 9153];
static DEFAULT_PORTS_TAKEN: Mutex<()> = Mutex::new(());

/// Which server runs, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The binary.
    pub server: PathBuf,
    /// Arguments before the case's own.
    pub extra: Vec<String>,
    /// Whether folders of failed scenarios stay.
    pub keep: bool,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All as it says.
    Passed,
    /// This machine lacks what it needs.
    Skipped(String),
    /// The first difference.
    Failed(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("ok"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// The servers that the cases of one thread share, each started when the first case asks for it, and emptied for each.
#[derive(Default)]
pub struct Shared {
    etcd: Option<Etcd>,
    cluster: Option<Turn>,
}

/// An IPv4 address of this host that others reach it by.
fn local_address() -> Option<IpAddr> {
    let addresses = nodens_engine::io::local_addresses().ok()?;
    addresses
        .iter()
        .map(SocketAddr::ip)
        .find(|ip| ip.is_ipv4() && !ip.is_loopback())
}

/// Runs one case.
pub fn run(case: &Case, setup: &Setup, shared: &mut Shared) -> Verdict {
    let wants_default_ports = case.needs.has("default-ports");
    let _alone = wants_default_ports.then(|| DEFAULT_PORTS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner));
    let mut needs = case.needs.as_slice().iter();
    if let Some(need) = needs.find(|need| !matches!(need.as_str(), "default-ports" | "local-address" | "mcs-crds")) {
        return Verdict::Failed(format!("`needs: {need}` means nothing here"));
    }
    if wants_default_ports {
        let taken = DEFAULT_PORTS
            .iter()
            .find(|&&port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        if let Some(port) = taken {
            return Verdict::Skipped(format!("port {port} is taken"));
        }
    }
    let mut world = match World::new() {
        Ok(world) => world,
        Err(error) => return Verdict::Failed(format!("no folder: {error}")),
    };
    if case.needs.has("local-address") {
        let Some(address) = local_address() else {
            return Verdict::Skipped("this host has no address but loopback's".to_owned());
        };
        world.set("LOCALIP", address.to_string());
    }
    let upstreams = match start_upstreams(case, &world) {
        Ok(upstreams) => upstreams,
        Err(verdict) => return verdict,
    };
    let outcome = Run::start(case, setup, &mut world, upstreams, shared).and_then(|mut run| run.all());
    match outcome {
        Ok(()) => Verdict::Passed,
        Err(Mismatch(why)) if setup.keep => Verdict::Failed(format!("{why}\n  kept {}", world.keep().display())),
        Err(Mismatch(why)) => Verdict::Failed(why),
    }
}

type Upstreams = BTreeMap<String, ScriptedServer>;

/// The scripted servers of a case. Without the right to listen on port 53 it is skipped.
fn start_upstreams(case: &Case, world: &World) -> Result<Upstreams, Verdict> {
    let mut upstreams = Upstreams::new();
    for (name, script) in &case.upstreams {
        let address = match &script.at {
            None => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, world.port(name)))),
            Some(word) => world.address(word).map(|host| SocketAddr::new(host, DNS_PORT)),
        };
        let address = address.map_err(Verdict::Failed)?;
        match ScriptedServer::start(address, script) {
            Ok(server) => drop(upstreams.insert(name.clone(), server)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(Verdict::Skipped(format!("{address}: {error}")));
            }
            Err(error) => return Err(Verdict::Failed(format!("{name} at {address}: {error}"))),
        }
    }
    Ok(upstreams)
}

struct Run<'r> {
    case: &'r Case,
    world: &'r World,
    etcd: Option<&'r mut Etcd>,
    cluster: Option<&'r mut Turn>,
    upstreams: Upstreams,
    server: Process,
}

fn failed(error: impl fmt::Display) -> Mismatch {
    Mismatch(error.to_string())
}

fn asks_over_tls(case: &Case) -> bool {
    case.all_queries().any(|ask| ask.transport == Some(Transport::Tls))
}

fn way<'t>(ask: &Ask, client: Option<&'t TlsClient>) -> Way<'t> {
    match (client, ask.transport) {
        (Some(client), _) => Way::Tls(client),
        (None, Some(Transport::Tcp)) => Way::Tcp,
        (None, _) => Way::Udp,
    }
}

/// All text of a case in which placeholders count.
fn texts(case: &Case) -> String {
    let mut all = vec![case.corefile.clone()];
    all.extend(case.files.values().cloned());
    all.extend(case.env.values().map(Value::to_string));
    all.extend(case.args.iter().flatten().map(Value::to_string));
    all.join("\n")
}

impl<'r> Run<'r> {
    fn start(
        case: &'r Case,
        setup: &Setup,
        world: &'r mut World,
        upstreams: Upstreams,
        shared: &'r mut Shared,
    ) -> Result<Self, Mismatch> {
        let text = texts(case);
        let etcd = if !case.etcd.is_empty() || text.contains("{ETCD") {
            Some(prepare_etcd(case, world, &mut shared.etcd).map_err(Mismatch)?)
        } else {
            None
        };
        let cluster = if needs_cluster(case) {
            Some(prepare_cluster(case, world, &mut shared.cluster).map_err(Mismatch)?)
        } else {
            None
        };
        let files = match &etcd {
            Some(etcd) if !etcd.files().is_empty() => etcd.files().clone(),
            _ if needs_certificates(&text) || asks_over_tls(case) => {
                authority::make(&world.folder().join("certs")).map_err(failed)?
            }
            _ => authority::Files::new(),
        };
        for (word, path) in files {
            world.set(word, path.display().to_string());
        }
        let world: &'r World = world;
        for (name, text) in &case.files {
            world.write(name, Some(text)).map_err(failed)?;
        }
        world.write("Corefile", Some(&case.corefile)).map_err(failed)?;
        let mut command = Command::new(&setup.server);
        command.current_dir(world.folder()).args(&setup.extra);
        match &case.args {
            Some(args) => drop(command.args(args.iter().map(|arg| world.fill(&scalar(arg))))),
            None => drop(command.args(["-conf", "Corefile"])),
        }
        command.envs(case.env.iter().map(|(name, value)| (name, world.fill(&scalar(value)))));
        let server = Process::start(&mut command, world.folder().join("log")).map_err(failed)?;
        Ok(Self {
            case,
            world,
            etcd,
            cluster,
            upstreams,
            server,
        })
    }

    fn all(&mut self) -> Result<(), Mismatch> {
        if self.case.config_error.is_some() {
            return self.refusal();
        }
        self.wait_ready()?;
        self.queries(&self.case.queries)?;
        for step in &self.case.steps {
            self.step(step)?;
        }
        self.end()
    }

    /// Until the server listens; a connection over TCP tells without asking anything.
    fn wait_ready(&mut self) -> Result<(), Mismatch> {
        let port = self.world.port("PORT");
        let hosts = ["127.0.0.1", "::1", "127.0.0.2"].map(|host| host.parse::<IpAddr>().expect("an address"));
        let end = Instant::now() + Duration::from_secs(15);
        while Instant::now() < end {
            if self.server.status().is_some() {
                if self.case.exit.is_some() {
                    return Ok(());
                }
                mismatch!("the server stopped: {}", self.server.log_end());
            }
            let listens = |host: &IpAddr| {
                TcpStream::connect_timeout(&SocketAddr::new(*host, port), Duration::from_millis(300)).is_ok()
            };
            if hosts.iter().any(listens) {
                // The other sockets of the process follow within moments.
                sleep(Duration::from_millis(100));
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        mismatch!("the server does not listen: {}", self.server.log_end())
    }

    fn refusal(&mut self) -> Result<(), Mismatch> {
        let Some(status) = self.server.wait(Duration::from_secs(8)) else {
            mismatch!("the server starts, though its configuration is wrong");
        };
        if status.success() {
            mismatch!("the server ends with status 0 on a wrong configuration");
        }
        let names_line = Regex::new(r"Corefile:\d+").expect("a valid pattern");
        if !names_line.is_match(&self.server.log()) {
            mismatch!("the complaint names no line (Corefile:N): {}", self.server.log_end());
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Mismatch> {
        if let Some(wanted) = &self.case.exit {
            let limit = Duration::from_secs_f64(self.case.exit_within.unwrap_or(5.0));
            let limit = if wanted == "running" {
                Duration::from_secs(1)
            } else {
                limit
            };
            let got = match self.server.wait(limit) {
                Some(status) => status
                    .code()
                    .map_or_else(|| Value::from(status.to_string()), Value::from),
                None => Value::from("running"),
            };
            if got != *wanted {
                mismatch!("exit status {got}, not {wanted}: {}", self.server.log_end());
            }
        }
        for pattern in &self.case.log_match {
            let regex = Regex::new(&format!("(?m){pattern}")).map_err(failed)?;
            if !self.log_comes_to(|log| regex.is_match(log)) {
                mismatch!("nothing in the log matches {pattern:?}: {}", self.server.log_end());
            }
        }
        for text in &self.case.log_contains {
            if !self.log_comes_to(|log| log.contains(text.as_str())) {
                mismatch!("the log lacks {text:?}: {}", self.server.log_end());
            }
        }
        let log = self.server.log();
        for text in &self.case.log_lacks {
            if log.contains(text.as_str()) {
                mismatch!("the log has {text:?}");
            }
        }
        Ok(())
    }

    /// Whether the log is as it should be in the end: it may be written a moment after the reply.
    fn log_comes_to(&self, is_so: impl Fn(&str) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(5);
        while !is_so(&self.server.log()) {
            if Instant::now() > end {
                return false;
            }
            sleep(Duration::from_millis(20));
        }
        true
    }

    fn step(&mut self, step: &Step) -> Result<(), Mismatch> {
        if let Some(etcd) = self.etcd.as_deref_mut() {
            etcd.put_values(&step.etcd_put, |text| self.world.fill(text));
            for key in step.etcd_delete.as_slice() {
                etcd.delete(key);
            }
        } else if !step.etcd_put.is_empty() || !step.etcd_delete.as_slice().is_empty() {
            mismatch!("keys change, but the scenario has no etcd");
        }
        if let Some(cluster) = self.cluster.as_deref_mut() {
            cluster.apply(&step.apply).map_err(Mismatch)?;
            for what in step.delete.as_slice() {
                cluster.delete(what).map_err(Mismatch)?;
            }
            match step.apiserver {
                Some(ApiServer::Start) => cluster.launch().map_err(Mismatch)?,
                Some(ApiServer::Stop | ApiServer::Stopped) => cluster.stop(),
                None => {}
            }
        } else if !step.apply.is_empty() || !step.delete.as_slice().is_empty() || step.apiserver.is_some() {
            mismatch!("objects change, but the scenario has no API server");
        }
        if let Some(name) = &step.stop_upstream {
            self.upstream(name)?.stop();
        }
        if let Some(name) = &step.start_upstream {
            self.upstream(name)?.resume().map_err(failed)?;
        }
        self.act(&step.write, step.signal.as_deref())?;
        sleep(Duration::from_secs_f64(step.sleep));
        self.queries(&step.queries)
    }

    fn upstream(&mut self, name: &str) -> Result<&mut ScriptedServer, Mismatch> {
        self.upstreams
            .get_mut(name)
            .ok_or_else(|| Mismatch(format!("no upstream {name}")))
    }

    fn act(&mut self, files: &BTreeMap<String, Option<String>>, signal: Option<&str>) -> Result<(), Mismatch> {
        for (name, text) in files {
            self.world.write(name, text.as_deref()).map_err(failed)?;
        }
        if let Some(name) = signal {
            let signal = signal_named(name).ok_or_else(|| Mismatch(format!("signal {name}")))?;
            self.server.signal(signal).map_err(failed)?;
        }
        Ok(())
    }

    /// Asks in order. What comes through a watch, and pages, are asked again until they agree or time is over.
    fn queries(&mut self, queries: &[Ask]) -> Result<(), Mismatch> {
        for ask in queries {
            sleep(Duration::from_secs_f64(ask.sleep_before));
            self.act(&ask.write, ask.signal.as_deref())?;
            let within = Duration::from_secs_f64(ask.within.unwrap_or(0.0));
            let patience = match (&ask.http, &self.etcd, &self.cluster) {
                (Some(_), ..) => PATIENCE.max(within),
                // Asked twice, a question would count twice.
                _ if !self.upstreams.is_empty() => Duration::ZERO,
                (None, _, Some(_)) => PATIENCE.max(within),
                (None, Some(_), None) => PATIENCE,
                (None, None, None) => Duration::ZERO,
            };
            let end = Instant::now() + patience;
            while let Err(Mismatch(why)) = self.query(ask) {
                if Instant::now() >= end {
                    let what = ask
                        .ask
                        .as_deref()
                        .or(ask.raw.as_deref())
                        .or(ask.http.as_deref())
                        .unwrap_or("tcp_stream");
                    mismatch!("{what}: {why}");
                }
                sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    fn query(&self, ask: &Ask) -> Result<(), Mismatch> {
        if let Some(stream) = &ask.tcp_stream {
            return self.stream(stream, self.address_of(ask)?);
        }
        if let Some(path) = &ask.http {
            return self.fetch(ask, path);
        }
        if ask.ask.is_some() || ask.raw.is_some() {
            self.ask(ask)?;
        }
        sleep(Duration::from_secs_f64(ask.wait_after));
        self.seen(ask)
    }

    fn ask(&self, ask: &Ask) -> Result<(), Mismatch> {
        let begun = Instant::now();
        if ask.parallel.is_some_and(|count| count > 1) {
            self.at_once(ask)?;
        } else if let Some(rotates) = ask.rotates {
            self.in_turn(ask, rotates)?;
        } else if let Some(leads) = &ask.leads {
            self.leaders(ask, leads)?;
        } else {
            self.once(ask)?;
        }
        let took = begun.elapsed().as_secs_f64();
        let most = ask.within.filter(|_| self.cluster.is_none());
        if most.is_some_and(|most| took > most) || ask.not_before.is_some_and(|least| took < least) {
            mismatch!("took {took:.2} s");
        }
        Ok(())
    }

    fn seen(&self, ask: &Ask) -> Result<(), Mismatch> {
        for (name, &wanted) in &ask.upstream_seen {
            let Some(server) = self.upstreams.get(name) else {
                mismatch!("no upstream {name}");
            };
            let end = Instant::now() + UNSEEN_MAX;
            while server.seen() < wanted && Instant::now() < end {
                sleep(Duration::from_millis(10));
            }
            if server.seen() != wanted {
                mismatch!("{name} has seen {} questions, not {wanted}", server.seen());
            }
        }
        Ok(())
    }

    fn address_of(&self, ask: &Ask) -> Result<SocketAddr, Mismatch> {
        let port = match &ask.port {
            None => self.world.port("PORT"),
            Some(Value::String(name)) => self.world.port(name),
            Some(number) => number
                .as_u64()
                .and_then(|n| u16::try_from(n).ok())
                .ok_or_else(|| Mismatch(format!("port {number}")))?,
        };
        let host = self
            .world
            .address(ask.to.as_deref().unwrap_or("127.0.0.1"))
            .map_err(Mismatch)?;
        Ok(SocketAddr::new(host, port))
    }

    fn send(&self, ask: &Ask) -> Result<(Vec<u8>, Vec<Vec<u8>>), Mismatch> {
        let packet = ask::packet(ask).map_err(Mismatch)?;
        let silent = ask.no_reply || ask.reply.as_deref() == Some("none");
        let timeout = Duration::from_secs_f64(ask.timeout.unwrap_or(if silent { 1.5 } else { 8.0 }));
        let from = ask
            .from
            .as_deref()
            .map(|text| self.world.address(text))
            .transpose()
            .map_err(Mismatch)?;
        let to = self.address_of(ask)?;
        let client = self.tls_client(ask)?;
        let replies = exchange_all(&packet, to, from, way(ask, client.as_ref()), timeout);
        Ok((packet, replies))
    }

    fn tls_client(&self, ask: &Ask) -> Result<Option<TlsClient>, Mismatch> {
        if ask.transport != Some(Transport::Tls) {
            return Ok(None);
        }
        let file = |word: &str| PathBuf::from(self.world.fill(&format!("{{{word}}}")));
        let identity = ask
            .tls
            .cert
            .as_deref()
            .map(|cert| (file(cert), file(&cert.replace("CERT", "KEY"))));
        let client = TlsClient::new(
            &file(ask.tls.ca.as_deref().unwrap_or("CA")),
            identity.as_ref().map(|(cert, key)| (&**cert, &**key)),
            ask.tls.name.as_deref().unwrap_or("localhost"),
            ask.tls.version.as_ref().map(scalar).as_deref(),
        );
        client.map(Some).map_err(failed)
    }

    fn once(&self, ask: &Ask) -> Result<Vec<Line>, Mismatch> {
        let (sent, reply) = self.send(ask)?;
        expect::check(&sent, &reply, ask)
    }

    /// Sixty times: each address must lead the addresses once, or always the same one; what is no address stands first.
    fn in_turn(&self, ask: &Ask, rotates: bool) -> Result<(), Mismatch> {
        let wanted = ask.answer.as_deref().unwrap_or_default();
        let (addresses, before): (Vec<&String>, Vec<&String>) =
            wanted.iter().partition(|l| is_address(&wanted_line(l)));
        let before: Vec<String> = before.into_iter().cloned().collect();
        let mut expected: Vec<String> = addresses
            .into_iter()
            .filter_map(|line| wanted_line(line).pop())
            .collect();
        let mut first = Vec::new();
        for _ in 0..60 {
            let mut answer = self.once(ask)?;
            let rest = answer.split_off(before.len().min(answer.len()));
            check_section("answer", &answer, &before, true, false)?;
            first.extend(rest.first().and_then(|line| line.last().cloned()));
        }
        first.sort();
        first.dedup();
        expected.sort();
        if if rotates { first != expected } else { first.len() != 1 } {
            mismatch!("first addresses over 60 replies: {first:?}");
        }
        Ok(())
    }

    /// Two hundred times: how often each address is the first one of the answer.
    fn leaders(&self, ask: &Ask, leads: &BTreeMap<String, (usize, usize)>) -> Result<(), Mismatch> {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..200 {
            let answer = self.once(ask)?;
            if let Some(address) = answer.iter().find(|line| is_address(line)).and_then(|line| line.last()) {
                *count.entry(address.clone()).or_default() += 1;
            }
        }
        for (address, (least, most)) in leads {
            let got = count.get(address).copied().unwrap_or(0);
            if !(*least..=*most).contains(&got) {
                mismatch!("{address} leads {got} of 200 replies, not {least} to {most}");
            }
        }
        Ok(())
    }

    fn at_once(&self, ask: &Ask) -> Result<(), Mismatch> {
        let packet = ask::packet(ask).map_err(Mismatch)?;
        let to = self.address_of(ask)?;
        let timeout = Duration::from_secs_f64(ask.timeout.unwrap_or(8.0));
        let client = self.tls_client(ask)?;
        let way = way(ask, client.as_ref());
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        std::thread::scope(|scope| {
            let one = || exchange(&packet, to, None, way, timeout);
            let asked: Vec<_> = (0..ask.parallel.unwrap_or(1)).map(|_| scope.spawn(one)).collect();
            for thread in asked {
                let reply = thread.join().ok().flatten();
                let code = reply.map_or_else(|| "none".to_owned(), |reply| expect::short_rcode(&reply));
                *codes.entry(code).or_default() += 1;
            }
        });
        match &ask.rcodes {
            Some(wanted) if *wanted != codes => mismatch!("rcodes {codes:?}, not {wanted:?}"),
            _ => Ok(()),
        }
    }

    fn fetch(&self, ask: &Ask, path: &str) -> Result<(), Mismatch> {
        let timeout = Duration::from_secs_f64(ask.timeout.unwrap_or(8.0));
        let (status, text) =
            ask::get(self.address_of(ask)?, path, timeout).map_err(|e| Mismatch(format!("no HTTP reply: {e}")))?;
        let start = text.get(..300).unwrap_or(&text);
        let wanted = ask.status.unwrap_or(200);
        if status != wanted {
            mismatch!("HTTP status {status}, not {wanted}: {start}");
        }
        for (patterns, must) in [(&ask.contains, true), (&ask.not_contains, false)] {
            for pattern in patterns {
                let regex = Regex::new(&format!("(?m){}", self.world.fill(pattern))).map_err(failed)?;
                if regex.is_match(&text) != must {
                    mismatch!("the page {} {pattern:?}: {start}", if must { "lacks" } else { "has" });
                }
            }
        }
        let metrics = ask
            .metrics
            .iter()
            .map(|(series, count)| (self.world.fill(series), count.clone()))
            .collect();
        page::check(&text, &metrics, &ask.metric_labels)
    }

    fn stream(&self, spec: &TcpStreamAsk, to: SocketAddr) -> Result<(), Mismatch> {
        let mut packets = Vec::new();
        for raw in &spec.send_raw {
            packets.push(from_hex(raw).map_err(Mismatch)?);
        }
        for text in &spec.send {
            packets.push(question(text).map_err(Mismatch)?.to_vec().map_err(failed)?);
        }
        let seen = converse(&packets, to, spec.closed_between.map(|(_, latest)| latest)).map_err(failed)?;
        if seen.replies.len() != spec.replies {
            mismatch!("{} replies on the connection, not {}", seen.replies.len(), spec.replies);
        }
        if seen
            .replies
            .iter()
            .any(|reply| !packets.iter().any(|packet| packet.get(..2) == reply.get(..2)))
        {
            mismatch!("a reply with an id that was not sent");
        }
        if let Some((earliest, latest)) = spec.closed_between
            && !seen
                .closed_after
                .is_some_and(|after| (earliest..=latest).contains(&after))
        {
            mismatch!(
                "closed after {:?} s, not within {earliest} to {latest}",
                seen.closed_after
            );
        }
        Ok(())
    }
}

fn prepare_etcd<'r>(case: &Case, world: &mut World, shared: &'r mut Option<Etcd>) -> Result<&'r mut Etcd, String> {
    let special = case.etcd_tls.is_some() || case.etcd_auth.is_some() || case.etcd_port.is_some();
    if special {
        // In the place of the shared one, which the next case starts anew.
        *shared = Some(Etcd::start_special(case.etcd_tls, case.etcd_port)?);
    } else if shared.as_ref().is_none_or(Etcd::is_special) {
        *shared = Some(Etcd::start()?);
    }
    let etcd = shared.as_mut().expect("just set");
    if !special {
        etcd.empty();
    }
    world.set("ETCD", etcd.url());
    world.set("ETCDPORT", etcd.port().to_string());
    etcd.put_values(&case.etcd, |text| world.fill(text));
    if let Some(auth) = &case.etcd_auth {
        etcd.guard(auth);
    }
    Ok(etcd)
}

/// Whether it is about objects of Kubernetes: such cases have to follow each other.
pub fn needs_cluster(case: &Case) -> bool {
    let texts = texts(case);
    !case.manifests.is_empty() || texts.contains("{KUBECONFIG}") || texts.contains("{APISERVER}")
}

fn prepare_cluster<'r>(case: &Case, world: &mut World, shared: &'r mut Option<Turn>) -> Result<&'r mut Turn, String> {
    match shared {
        Some(cluster) => cluster.empty()?,
        None => *shared = Some(turn::take()?),
    }
    let cluster = shared.as_mut().expect("just set");
    world.set("KUBECONFIG", cluster.kubeconfig().display().to_string());
    world.set("APISERVER", cluster.url());
    world.set("APISERVERCA", cluster.file("ca.pem").display().to_string());
    if case.needs.has("mcs-crds") {
        cluster.add_service_imports()?;
    }
    cluster.apply(&world.fill(&case.manifests))?;
    if case.apiserver == Some(ApiServer::Stopped) {
        cluster.stop();
    }
    Ok(cluster)
}

fn needs_certificates(text: &str) -> bool {
    ["CA", "CERT", "KEY"].iter().any(|word| {
        ["", "OTHER", "SERVER"]
            .iter()
            .any(|kind| text.contains(&format!("{{{kind}{word}}}")))
    })
}

fn is_address(line: &Line) -> bool {
    line.get(3).is_some_and(|rtype| rtype == "A" || rtype == "AAAA")
}

/// A YAML scalar as the text that it stands for.
fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
