//! `/metrics`: sums over the workers' counters, taken when somebody asks.
//!
//! Names and labels of `coredns_*` are CoreDNS's; labels stand in alphabetical order as there. Series of queries
//! appear with their first query, those without labels are there from the start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use axum::Router;
use axum::http::header;
use axum::routing::any;
use nodens_engine::cache::Cache;
use nodens_engine::forward::Stanza;
use nodens_engine::io::{CounterValues, Counters, ListenerId};
use nodens_engine::snapshot::Published;
use nodens_engine::stats::{Series, WorkerStats};
use nodens_sources::etcd::Status;
use nodens_sources::kubernetes as source;

use super::health::HealthMetrics;
use super::http::{self, HttpMetrics};
use super::process;
use super::text::{Kind, Page};
use crate::facts::Facts;

mod caches;
mod kubernetes;
mod queries;
mod templates;
mod upstreams;

pub use caches::CacheMetrics;
pub use templates::{RecordLabels, RecordMetrics};

const NS_PER_SEC: f64 = 1e9;

/// Shows the page at `/metrics` until it is dropped.
///
/// # Errors
/// The runtime cannot take the listener.
pub async fn serve_metrics(listener: TcpListener, metrics: Arc<Metrics>) -> io::Result<()> {
    let http = Arc::clone(&metrics.http);
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let answer = move || async move { (content_type, metrics.page()) };
    http::serve(listener, Router::new().route("/metrics", any(answer)), http).await
}

/// What the page shows; one for the process, whatever the number of listeners.
#[derive(Debug, Default)]
pub struct Metrics {
    /// The program.
    pub build: Build,
    /// What each worker counts.
    pub workers: Vec<Arc<WorkerStats>>,
    /// What each worker's port counts.
    pub ports: Vec<Arc<Counters>>,
    /// What comes from the configuration in use.
    pub shown: ArcSwap<Shown>,
    /// The data that they answer from.
    pub published: Arc<Published>,
    /// The hosts files.
    pub hosts: Arc<HostsMetrics>,
    /// Of requests to our own `/health`.
    pub health: Arc<HealthMetrics>,
    /// Of all HTTP listeners.
    pub http: Arc<HttpMetrics>,
    /// Of changes of the configuration.
    pub reload: ReloadMetrics,
    /// What the kernel gave and denied.
    pub facts: Arc<Facts>,
}

/// What was tried of new configurations. One writer.
#[derive(Debug, Default)]
pub struct ReloadMetrics {
    /// How many were not taken.
    pub failed: AtomicU64,
    /// The fingerprint of the one tried last.
    pub version: ArcSwap<String>,
}

/// What the labels of a configuration are. Never changed: another configuration has another one.
#[derive(Debug, Default)]
pub struct Shown {
    /// The `server` label of each listener, by [`ListenerId`]; several may share one.
    pub listeners: Vec<(ListenerId, String)>,
    /// The labels of each series of the workers, by index; those of earlier configurations are still there.
    pub series: Vec<SeriesLabels>,
    /// What each block uses.
    pub plugins: Vec<PluginEnabled>,
    /// The stanzas of `etcd`.
    pub etcd: Vec<EtcdMetrics>,
    /// The stanzas of `kubernetes`.
    pub kubernetes: Vec<Arc<source::Status>>,
    /// The stanzas of `forward` and `proxy`.
    pub stanzas: Vec<Arc<Stanza>>,
    /// The `cache` directives.
    pub caches: Vec<CacheMetrics>,
    /// What they keep answers in.
    pub cache: Option<Arc<Cache>>,
    /// The records that `template` writes.
    pub templates: Vec<RecordMetrics>,
}

/// The program, as `coredns_build_info` names it.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// `0.1.0`
    pub version: String,
    /// The commit, or nothing.
    pub revision: String,
    /// The compiler; the label is called `goversion`.
    pub compiler: String,
}

/// Where a query was counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesLabels {
    /// `dns://:53`
    pub server: String,
    /// With its final dot; `dropped` for queries that reach no plan.
    pub zone: String,
    /// Empty without `view`.
    pub view: String,
}

/// A plugin of a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginEnabled {
    /// `dns://:53`
    pub server: String,
    /// With its final dot.
    pub zone: String,
    /// Empty without `view`.
    pub view: String,
    /// The directive.
    pub name: &'static str,
}

/// One stanza of `etcd`.
#[derive(Clone, Debug)]
pub struct EtcdMetrics {
    /// As configured; stanzas of one path share their series.
    pub path: String,
    /// What the source says.
    pub status: Arc<Status>,
}

/// What was read of hosts files. Any number of writers.
#[derive(Debug, Default)]
pub struct HostsMetrics {
    files: Mutex<BTreeMap<String, u64>>,
    /// When the file read last was changed, in seconds since 1970, as the bits of an `f64`.
    modified: AtomicU64,
}

impl HostsMetrics {
    /// A file was read; `entries` has those written in the Corefile too. `modified` is none when there is no file.
    pub fn loaded(&self, file: &str, entries: usize, modified: Option<SystemTime>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(file.to_owned(), entries as u64);
        if let Some(since) = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok()) {
            self.modified.store(since.as_secs_f64().to_bits(), Ordering::Relaxed);
        }
    }

    fn show(&self, page: &mut Page) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = page.family(
            "coredns_hosts_entries",
            Kind::Gauge,
            "Entries of a hosts file and of its block in the Corefile.",
        );
        for (file, count) in &*files {
            entries.sample(&[("hostsfile", file)], count);
        }
        page.single(
            "coredns_hosts_reload_timestamp_seconds",
            Kind::Gauge,
            "When the hosts file that was read last had been changed, in seconds since 1970.",
            f64::from_bits(self.modified.load(Ordering::Relaxed)),
        );
    }
}

impl Metrics {
    /// The page, in the text format 0.0.4.
    pub fn page(&self) -> String {
        let shown = self.shown.load();
        let mut page = Page::default();
        self.program(&shown, &mut page);
        queries::show(self, &shown, &mut page);
        templates::failures(&shown, &mut page);
        self.hosts.show(&mut page);
        self.health.show(&mut page);
        etcd(&shown, &mut page);
        kubernetes::all(&shown, &mut page);
        upstreams::all(self, &shown, &mut page);
        caches::all(self, &shown, &mut page);
        self.workers(&shown, &mut page);
        self.ports(&shown, &mut page);
        self.facts.show(&mut page);
        self.endpoints(&mut page);
        process::show(&mut page);
        page.finish()
    }

    fn program(&self, shown: &Shown, page: &mut Page) {
        page.family("coredns_build_info", Kind::Gauge, "The program; always 1.")
            .sample(
                &[
                    ("goversion", &self.build.compiler),
                    ("revision", &self.build.revision),
                    ("version", &self.build.version),
                ],
                1,
            );
        page.single(
            "coredns_panics_total",
            Kind::Counter,
            "Panics while answering; each cost one packet.",
            self.panics(),
        );
        page.single(
            "coredns_reload_failed_total",
            Kind::Counter,
            "New configurations that were not taken.",
            self.reload.failed.load(Ordering::Relaxed),
        );
        let version = self.reload.version.load();
        let mut info = page.family(
            "coredns_reload_version_info",
            Kind::Gauge,
            "The configuration that was tried last; always 1.",
        );
        if !version.is_empty() {
            info.sample(&[("hash", "sha512"), ("value", &version)], 1);
        }
        let mut plugins: Vec<&PluginEnabled> = shown.plugins.iter().collect();
        plugins.sort_unstable();
        plugins.dedup();
        let mut enabled = page.family(
            "coredns_plugin_enabled",
            Kind::Gauge,
            "A plugin that handles queries of a server and zone; always 1.",
        );
        for PluginEnabled {
            server,
            zone,
            view,
            name,
        } in plugins
        {
            enabled.sample(&[("name", name), ("server", server), ("view", view), ("zone", zone)], 1);
        }
    }

    fn panics(&self) -> u64 {
        self.workers.iter().map(|worker| worker.panics.get()).sum()
    }

    fn workers(&self, shown: &Shown, page: &mut Page) {
        let mut by_server = |name, help, value: fn(&Series) -> u64| {
            let mut family = page.family(name, Kind::Counter, help);
            let servers: BTreeSet<&String> = shown.listeners.iter().map(|(_, server)| server).collect();
            for server in servers {
                let own = shown
                    .series
                    .iter()
                    .enumerate()
                    .filter(|(_, labels)| labels.server == *server);
                let sum: u64 = own
                    .flat_map(|(at, _)| self.workers.iter().filter_map(move |worker| worker.series.get(at)))
                    .map(value)
                    .sum();
                family.sample(&[("server", server)], sum);
            }
        };
        by_server("nodens_panics_total", "Panics while answering.", |series| {
            series.panics.get()
        });
        by_server(
            "nodens_gather_limited_total",
            "Answers that had to stop before all of their records were gathered.",
            |series| series.limited.get(),
        );
        by_server(
            "coredns_autopath_success_total",
            "Names that autopath found behind another suffix.",
            |series| series.autopath.get(),
        );
        by_server(
            "coredns_dns64_requests_translated_total",
            "Answers with addresses that dns64 made.",
            |series| series.translated.get(),
        );
        let mut single = |name, help, value| self.of_workers(name, help, value, page);
        single(
            "nodens_log_dropped_total",
            "Lines for the log that found the queue full.",
            |worker| worker.log_dropped.get(),
        );
        single(
            "coredns_local_localhost_requests_total",
            "Queries for names of the machine itself that local answered.",
            |worker| worker.localhost.get(),
        );
        single(
            "nodens_streams_limited_total",
            "Connections refused or closed because there were too many.",
            |worker| worker.streams_limited.get(),
        );
        single(
            "nodens_messages_ignored_total",
            "Messages without a reply: shorter than a header, or replies themselves.",
            |worker| worker.ignored.get(),
        );
        single(
            "nodens_messages_refused_total",
            "Messages that no server block saw: answered with FORMERR or NOTIMP.",
            |worker| worker.refused.get(),
        );
        single(
            "nodens_transfers_total",
            "Whole zones that clients began to be given.",
            |worker| worker.transfers.get(),
        );
        single(
            "nodens_transfers_incremental_total",
            "Those of them that were only what had changed since the version that the client had.",
            |worker| worker.transfers_incremental.get(),
        );
        single(
            "nodens_transfers_limited_total",
            "Whole zones refused, since too many were on their way.",
            |worker| worker.transfers_limited.get(),
        );
        single(
            "nodens_tls_handshakes_total",
            "TLS handshakes that came to their end.",
            |worker| worker.tls_handshakes.get(),
        );
        single(
            "nodens_tls_handshakes_failed_total",
            "TLS handshakes that began and broke, were given up or took too long.",
            |worker| worker.tls_handshakes_failed.get(),
        );
        single(
            "nodens_effects_dropped_total",
            "Writes and closes that found their queue full.",
            |worker| worker.effects_dropped.get(),
        );
    }

    /// What all workers have counted of something.
    fn of_workers(&self, name: &'static str, help: &'static str, value: fn(&WorkerStats) -> u64, page: &mut Page) {
        let sum: u64 = self.workers.iter().map(|worker| value(worker)).sum();
        page.single(name, Kind::Counter, help, sum);
    }

    fn ports(&self, shown: &Shown, page: &mut Page) {
        let servers: HashMap<ListenerId, &str> = shown.listeners.iter().map(|(id, server)| (*id, &**server)).collect();
        let mut drops: BTreeMap<&str, u64> = servers.values().map(|server| (*server, 0)).collect();
        for (listener, count) in self.ports.iter().flat_map(|port| port.kernel_drops()) {
            if let Some(server) = servers.get(&listener) {
                *drops.entry(server).or_default() += count;
            }
        }
        let mut dropped = page.family(
            "nodens_kernel_drops_total",
            Kind::Counter,
            "Datagrams that the kernel dropped because the socket's buffer was full.",
        );
        for (server, count) in drops {
            dropped.sample(&[("server", server)], count);
        }
        let ports: Vec<CounterValues> = self.ports.iter().map(|port| port.read()).collect();
        for (name, help, value) in PORT_COUNTERS {
            let sum: u64 = ports.iter().map(|&port| value(port)).sum();
            page.single(name, Kind::Counter, help, sum);
        }
    }

    fn endpoints(&self, page: &mut Page) {
        page.single(
            "nodens_http_connections_limited_total",
            Kind::Counter,
            "HTTP connections ended because there were too many.",
            self.http.limited.load(Ordering::Relaxed),
        );
        page.single(
            "nodens_http_connections_overrun_total",
            Kind::Counter,
            "HTTP connections ended because they took too long or sent too much.",
            self.http.overrun.load(Ordering::Relaxed),
        );
    }
}

/// Of several stanzas with one path, the worst standing shows, and the sum of what can be added.
fn etcd(shown: &Shown, page: &mut Page) {
    let mut paths: BTreeMap<&str, Standing> = BTreeMap::new();
    for EtcdMetrics { path, status } in &shown.etcd {
        let standing = Standing::of(status);
        paths
            .entry(path)
            .and_modify(|all| all.add(&standing))
            .or_insert(standing);
    }
    let mut family = |name, kind, help, value: fn(&Standing) -> i64| {
        let mut family = page.family(name, kind, help);
        for (path, standing) in &paths {
            family.sample(&[("path", path)], value(standing));
        }
    };
    family(
        "nodens_etcd_connected",
        Kind::Gauge,
        "Whether etcd is connected and lets us in.",
        |standing| standing.connected.into(),
    );
    family(
        "nodens_etcd_revision",
        Kind::Gauge,
        "The etcd revision up to which changes are known.",
        |standing| standing.revision,
    );
    family("nodens_etcd_keys", Kind::Gauge, "Keys held.", |standing| standing.keys);
    family(
        "nodens_etcd_bad_keys",
        Kind::Gauge,
        "Keys left out because their value does not parse.",
        |standing| standing.bad_keys,
    );
    family(
        "nodens_etcd_resyncs_total",
        Kind::Counter,
        "Times that a zone was read as a whole after its first time.",
        |standing| standing.resyncs,
    );
}

type PortCounter = fn(CounterValues) -> u64;

/// Sums over the workers' ports.
const PORT_COUNTERS: [(&str, &str, PortCounter); 14] = [
    (
        "nodens_port_waits_total",
        "Times a worker asked the kernel to wait.",
        |port| port.waits,
    ),
    ("nodens_port_batches_total", "Batches of datagrams.", |port| {
        port.batches
    }),
    ("nodens_udp_datagrams_total", "Datagrams received.", |port| {
        port.datagrams
    }),
    (
        "nodens_udp_datagrams_cut_total",
        "Datagrams that were longer than the room for a query.",
        |port| port.datagrams_cut,
    ),
    ("nodens_udp_replies_total", "Datagrams that the kernel took.", |port| {
        port.replies
    }),
    (
        "nodens_udp_send_errors_total",
        "Datagrams that the kernel did not take.",
        |port| port.send_errors,
    ),
    (
        "nodens_udp_receive_errors_total",
        "Errors while receiving datagrams.",
        |port| port.receive_errors,
    ),
    (
        "nodens_udp_buffers_exhausted_total",
        "Times that receiving stopped because all buffers were in use.",
        |port| port.buffers_exhausted,
    ),
    (
        "nodens_port_completions_overflowed_total",
        "Completions that did not fit into the queue at once.",
        |port| port.completions_overflowed,
    ),
    ("nodens_stream_accepts_total", "Connections accepted.", |port| {
        port.accepts
    }),
    ("nodens_stream_accept_errors_total", "Failures to accept.", |port| {
        port.accept_errors
    }),
    (
        "nodens_stream_accepts_starved_total",
        "Times that accepting rested for want of file descriptors or memory.",
        |port| port.accepts_starved,
    ),
    (
        "nodens_streams_overrun_total",
        "Connections closed because their client did not read what it asked for.",
        |port| port.streams_overrun,
    ),
    (
        "nodens_stream_errors_total",
        "Connections that ended with an error.",
        |port| port.stream_errors,
    ),
];

/// How the stanzas of one path stand.
#[derive(Debug)]
struct Standing {
    /// All of them are.
    connected: bool,
    /// Of the one that is behind.
    revision: i64,
    keys: i64,
    bad_keys: i64,
    resyncs: i64,
}

impl Standing {
    fn of(status: &Status) -> Self {
        Self {
            connected: status.connected(),
            revision: status.revision(),
            keys: status.keys(),
            bad_keys: status.bad_keys(),
            resyncs: i64::try_from(status.resyncs()).unwrap_or(i64::MAX),
        }
    }

    fn add(&mut self, other: &Self) {
        self.connected &= other.connected;
        self.revision = self.revision.min(other.revision);
        self.keys += other.keys;
        self.bad_keys += other.bad_keys;
        self.resyncs = self.resyncs.saturating_add(other.resyncs);
    }
}

#[cfg(test)]
mod tests;
