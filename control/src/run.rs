//! Start order and stop order, each in one visible list.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nodens_engine::io::{self, Counters, ListenerSockets, PortKind, Transport, Waker};
use nodens_engine::responder::Responder;
use nodens_engine::services::ServiceTree;
use nodens_engine::snapshot::Published;
use nodens_engine::stats::WorkerStats;
use nodens_engine::worker::{self, Stop};
use nodens_engine::zone::Zone;
use nodens_engine::zone::trie::NameHash;
use nodens_sources::etcd::{self, Status};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::args::Options;
use crate::compile::{Address, Compiled, EtcdSource, compile};
use crate::corefile::Diagnostic;
use crate::corefile::settings::Corefile;
use crate::endpoints::Endpoints;
use crate::files::{FileZone, HostsFile};
use crate::output;
use crate::publish::Publisher;
use crate::querylog::Writer;
use crate::rebuild::{EtcdZone, Rebuild, start_serial};
use crate::workers::{choose_port, count, own_cores, stay_on};

/// Messages of an etcd source that wait to be applied.
const MESSAGES_MAX: usize = 4;

/// Runs the server until a signal ends it; returns the exit status.
///
/// # Errors
/// The start failed. Everything that was started is stopped again.
pub fn run(corefile: &Corefile, options: &Options) -> anyhow::Result<u8> {
    let hash = NameHash::new(random());
    let compiled = compile(corefile, &hash).map_err(|errors| corefile.refused(&errors))?;
    for warning in &corefile.warnings {
        output::warning(&warning.headline(&corefile.sources));
    }
    for notice in &compiled.notices {
        output::warning(notice);
    }
    let published = Arc::new(Published::default());
    let publisher = Arc::new(Publisher::new(Arc::clone(&published)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("control")
        .build()
        .context("cannot start the control plane")?;
    let cancel = CancellationToken::new();

    // 1. Zones: those of files are read, those of etcd begin unsynced.
    let hosts_metrics = Arc::new(admin::HostsMetrics::default());
    let mut files: Vec<_> = compiled
        .files
        .iter()
        .map(|file| FileZone::new(file.clone(), hash.clone()))
        .collect();
    for (file, source) in files.iter_mut().zip(&compiled.files) {
        file.start(&publisher).map_err(|error| {
            let error = Diagnostic::setup(source.settings.db_file_span, format!("plugin/file: {error}"));
            corefile.refused(&[error])
        })?;
    }
    let mut hosts: Vec<_> = compiled
        .hosts
        .iter()
        .map(|source| {
            let metrics = Arc::clone(&hosts_metrics);
            let news = Arc::new(move |file: &str, entries, modified| metrics.loaded(file, entries, modified));
            HostsFile::new(source.clone(), hash.clone(), news)
        })
        .collect();
    for hosts in &mut hosts {
        hosts.start(&publisher);
    }
    let stanzas: Vec<_> = compiled
        .etcd
        .iter()
        .map(|source| Stanza::new(source.clone(), &hash, &publisher))
        .collect();

    // 2. Sockets: nobody else may hold them.
    let workers = count(options.workers.map(usize::from));
    for address in &compiled.listeners {
        for transport in [Transport::Udp, Transport::Tcp] {
            io::probe_taken(address.socket, transport).map_err(|error| bind_error(&error, address, corefile))?;
        }
    }
    let mut sockets = Vec::new();
    for _ in 0..workers {
        sockets.push(bind(&compiled.listeners).map_err(|(error, address)| bind_error(&error, &address, corefile))?);
    }

    // 3. Workers, which answer from now on.
    let kind = choose_port(options.io)?;
    let stats: Vec<_> = (0..workers)
        .map(|_| Arc::new(WorkerStats::new(compiled.series.len())))
        .collect();
    let ports: Vec<_> = (0..workers).map(|_| Arc::new(Counters::new())).collect();
    let logs = compiled
        .config
        .plans
        .iter()
        .any(|plan| plan.errors || !plan.log.is_empty());
    let (writer, queues) = if logs {
        let (writer, queues) = Writer::start(workers, compiled.formats.clone()).context("cannot start the log")?;
        (Some(writer), queues.into_iter().map(Some).collect())
    } else {
        (None, vec![None; workers])
    };
    let Compiled {
        config,
        listeners,
        series,
        plugins,
        start_lines,
        ..
    } = compiled;
    publisher.config(config);
    let cores = own_cores(workers);
    let mut running = Vec::new();
    for (((sockets, stats), counters), log) in sockets.into_iter().zip(&stats).zip(&ports).zip(queues) {
        let responder = Responder::new(random(), hash.clone(), Arc::clone(stats), log);
        let core = cores.as_ref().and_then(|cores| cores.get(running.len()).copied());
        running.push(start_worker(kind, sockets, responder, &published, counters, core)?);
    }

    // 4. Endpoints for probes and metrics.
    let endpoints = Endpoints::bind(corefile)?;
    let metrics = admin::Metrics {
        build: build(),
        workers: stats,
        ports,
        listeners: listeners.into_iter().map(|address| address.label).collect(),
        series,
        plugins,
        etcd: stanzas.iter().map(Stanza::metrics).collect(),
        hosts: hosts_metrics,
        health: Arc::default(),
        http: Arc::default(),
        reloads_failed: Arc::default(),
    };
    let reporters = stanzas.iter().map(Stanza::reporter).collect();
    let _inside = runtime.enter();
    let readiness = endpoints.serve(metrics, reporters);

    // 5. Sources, which publish as they are read.
    for stanza in stanzas {
        stanza.start(&publisher, &cancel);
    }
    for file in files {
        tokio::spawn(file.follow(Arc::clone(&publisher)));
    }
    for hosts in hosts {
        tokio::spawn(hosts.follow(Arc::clone(&publisher)));
    }

    if !options.quiet {
        announce(&start_lines);
    }
    if let Some(pidfile) = &options.pidfile {
        fs::write(pidfile, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write the pid file {}", pidfile.display()))?;
    }

    // Until a signal, or the end of a worker, which is a failure.
    let lameduck = corefile
        .blocks
        .iter()
        .filter_map(|block| Some(block.health.as_ref()?.lameduck))
        .max();
    let status = runtime.block_on(until_end(&running, lameduck.unwrap_or_default(), &readiness));

    // The other way round: sources, workers, log, endpoints.
    cancel.cancel();
    if let Some(pidfile) = &options.pidfile {
        // It may have been removed by hand.
        let _ = fs::remove_file(pidfile);
    }
    for worker in running {
        worker.stop.stop();
        if worker.thread.join().is_err() {
            output::error("a worker ended by panic");
        }
    }
    drop(writer);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(status)
}

/// An unpredictable number.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn bind_error(error: &io::BindError, address: &Address, corefile: &Corefile) -> anyhow::Error {
    corefile.refused(&[Diagnostic::setup(address.span, error.to_string())])
}

/// Most addresses of the host that get a socket of their own beside a wildcard's.
const OWN_ADDRESSES_MAX: usize = 16;

/// The sockets of one worker. Beside a wildcard stands a socket for each address that the host has now: the kernel
/// prefers it, and it costs no control message, which names the address, with every query and reply. Addresses that
/// come later are served by the wildcard.
fn bind(listeners: &[Address]) -> Result<Vec<ListenerSockets>, (io::BindError, Address)> {
    let mut sockets = Vec::new();
    for (address, at) in listeners.iter().zip(0..) {
        let own = |error| (error, address.clone());
        let listener = io::ListenerId(at);
        sockets.push(ListenerSockets {
            listener,
            udp: Some(io::bind_udp(address.socket).map_err(own)?),
            tcp: Some(io::bind_tcp(address.socket).map_err(own)?),
        });
        if !address.socket.ip().is_unspecified() {
            continue;
        }
        let mut local = io::local_addresses().unwrap_or_default();
        local.retain(|local| address.socket.is_ipv6() || local.is_ipv4());
        for mut local in local.into_iter().take(OWN_ADDRESSES_MAX) {
            local.set_port(address.socket.port());
            let is_listener = listeners.iter().any(|other| other.socket == local);
            // One that cannot be bound, because it is going away, is the wildcard's.
            if let Some(udp) = io::bind_udp(local).ok().filter(|_| !is_listener) {
                sockets.push(ListenerSockets {
                    listener,
                    udp: Some(udp),
                    tcp: None,
                });
            }
        }
    }
    Ok(sockets)
}

/// Tells that its worker has ended, by whatever way.
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A running worker.
struct Running {
    thread: JoinHandle<()>,
    stop: Stop,
    ended: Arc<AtomicBool>,
}

fn start_worker(
    kind: PortKind,
    sockets: Vec<ListenerSockets>,
    mut responder: Responder,
    published: &Arc<Published>,
    counters: &Arc<Counters>,
    core: Option<usize>,
) -> anyhow::Result<Running> {
    let waker = Waker::new().context("cannot start a worker")?;
    let stop = Stop::new(waker.clone());
    let ended = Arc::new(AtomicBool::new(false));
    let (opened, is_open) = std::sync::mpsc::channel();
    let (own_stop, own_ended) = (stop.clone(), Arc::clone(&ended));
    let (published, counters) = (Arc::clone(published), Arc::clone(counters));
    let thread = std::thread::Builder::new().name("worker".into()).spawn(move || {
        let _end = End(own_ended);
        if let Some(core) = core {
            stay_on(core);
        }
        // A ring belongs to the thread that makes it.
        let mut port = match io::open(kind, sockets, &waker, &counters) {
            Ok(port) => port,
            Err(error) => {
                // The other side waits for this.
                let _ = opened.send(Err(error));
                return;
            }
        };
        let _ = opened.send(Ok(()));
        let result = worker::run(&mut port, &mut responder, &published, own_stop.flag());
        if let Err(error) = result {
            output::error(&format!("a worker cannot go on: {error}"));
        }
    })?;
    match is_open.recv() {
        Ok(Ok(())) => Ok(Running { thread, stop, ended }),
        Ok(Err(error)) => Err(error).context("a worker cannot open its sockets"),
        Err(_) => bail!("a worker ended at its start"),
    }
}

/// An etcd stanza before its source is started.
struct Stanza {
    settings: etcd::Settings,
    zones: Vec<EtcdZone>,
    synced: Vec<Arc<AtomicBool>>,
    status: Arc<Status>,
}

impl Stanza {
    /// Publishes its zones as not read yet.
    fn new(source: EtcdSource, hash: &NameHash, publisher: &Publisher) -> Self {
        let serial = start_serial();
        let zones: Vec<_> = source
            .settings
            .zones
            .iter()
            .zip(&source.zones)
            .map(|(zone, &id)| {
                let tree = ServiceTree::unsynced(zone.as_name(), serial, hash.clone());
                publisher.zone(id, Zone::Services(tree.clone()));
                let own_key = etcd::keys_of_zone(&source.settings.path, zone.as_name());
                EtcdZone {
                    id,
                    own_key,
                    tree,
                    synced: Arc::default(),
                }
            })
            .collect();
        let synced = zones.iter().map(|zone| Arc::clone(&zone.synced)).collect();
        Self {
            settings: source.settings,
            zones,
            synced,
            status: Arc::default(),
        }
    }

    fn metrics(&self) -> admin::EtcdMetrics {
        admin::EtcdMetrics {
            path: self.settings.path.clone(),
            status: Arc::clone(&self.status),
        }
    }

    /// Ready when each of its zones has been read.
    fn reporter(&self) -> admin::Reporter {
        let synced = self.synced.clone();
        admin::Reporter::new("etcd", move || synced.iter().all(|zone| zone.load(Ordering::Acquire)))
    }

    fn start(self, publisher: &Arc<Publisher>, cancel: &CancellationToken) {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        let bounds = (self.settings.min_lease_ttl, self.settings.max_lease_ttl);
        let rebuild = Rebuild::new(self.zones, bounds, Arc::clone(publisher), Arc::clone(&self.status));
        tokio::spawn(etcd::run(
            self.settings,
            sender,
            self.status,
            output::log("plugin/etcd"),
            cancel.clone(),
        ));
        tokio::spawn(rebuild.run(receiver));
    }
}

fn build() -> admin::Build {
    admin::Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: env!("NODENS_COMMIT").to_owned(),
        compiler: env!("NODENS_COMPILER").to_owned(),
    }
}

fn announce(start_lines: &[String]) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    for line in start_lines {
        // Nobody may be reading.
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "{}", crate::args::version());
}

/// Waits for the signal that ends the process; returns the exit status.
async fn until_end(workers: &[Running], lameduck: Duration, readiness: &admin::Readiness) -> u8 {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut quit), Ok(mut hangup), Ok(mut reload)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::quit()),
        signal(SignalKind::hangup()),
        signal(SignalKind::user_defined1()),
    ) else {
        output::error("cannot listen for signals");
        return 1;
    };
    let mut look = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = terminate.recv() => {
                output::info("SIGTERM: Shutting down servers then terminating");
                break;
            }
            _ = interrupt.recv() => {
                output::info("SIGINT: Shutting down");
                break;
            }
            _ = quit.recv() => return 0,
            _ = hangup.recv() => {}
            _ = reload.recv() => {
                output::warning("SIGUSR1: a Corefile cannot be reloaded yet; restart to use another one");
            }
            _ = look.tick() => {
                if workers.iter().any(|worker| worker.ended.load(Ordering::Acquire)) {
                    return 1;
                }
            }
        }
    }
    readiness.stop();
    if !lameduck.is_zero() {
        output::info(&format!("plugin/health: Going into lameduck mode for {lameduck:?}"));
        tokio::select! {
            () = tokio::time::sleep(lameduck) => {}
            _ = interrupt.recv() => {
                output::info("SIGINT: Force quit");
                return 2;
            }
        }
    }
    0
}
