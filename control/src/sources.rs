//! What fills zones, as the running server keeps it: begun, followed, asked to look again, ended.
//!
//! A kind of source is a function here that begins it and a line in [`begin`]; its settings are a
//! [`SourceKey`](crate::numbers::SourceKey). It publishes from the task given to `Source::follow` alone, so that nothing
//! is published once that task has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nodens_engine::cluster::Cluster;
use nodens_engine::services::ServiceTree;
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::Zone;
use nodens_engine::zone::trie::NameHash;
use nodens_sources::{etcd, kubernetes};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::{EtcdMetrics, HostsMetrics, Reporter};
use crate::auto::{AutoSource, AutoZones};
use crate::cluster::ClusterRebuild;
use crate::compile::{Compiled, EtcdSource, FileSource, HostsSource, WeightsSource};
use crate::corefile::Findings;
use crate::files::{FileZone, HostsFile};
use crate::kubernetes::{ClusterSource, Terms};
use crate::output;
use crate::publish::Publisher;
use crate::rebuild::{EtcdZone, Rebuild, start_serial};
use crate::secondary::{self, SecondarySource};
use crate::weights::WeightFile;

/// How long a new configuration waits for sources that have not been read yet, where they do not say it themselves.
const SYNC_MAX: Duration = Duration::from_secs(5);
/// Messages of an etcd source that wait to be applied.
const MESSAGES_MAX: usize = 4;

/// What all sources are begun with.
#[derive(Clone, Debug)]
pub struct Means {
    /// Of names.
    pub hash: NameHash,
    /// Where zones are published.
    pub publisher: Arc<Publisher>,
    /// What is counted of hosts files.
    pub hosts: Arc<HostsMetrics>,
}

/// A source that has been begun. Dropped, it ends.
#[derive(Debug)]
pub struct Source {
    zones: Vec<ZoneId>,
    /// Each of its zones: whether it has been read.
    synced: Vec<Arc<AtomicBool>>,
    /// How long a new configuration waits for that.
    patience: Duration,
    /// It is to look at its files now.
    asked: Arc<Notify>,
    task: JoinHandle<()>,
    /// Shown of a stanza of `etcd`.
    pub etcd: Option<EtcdMetrics>,
    /// Shown of a stanza of `kubernetes`.
    pub kubernetes: Option<Arc<kubernetes::Status>>,
    /// Of a stanza of `kubernetes`: how it is served.
    terms: Option<watch::Sender<Terms>>,
    /// Asked by `ready`.
    pub reporter: Option<Arc<Reporter>>,
}

impl Source {
    /// One that is true to its files or server as long as `task` runs.
    fn follow(zones: Vec<ZoneId>, asked: Arc<Notify>, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            zones,
            synced: Vec::new(),
            patience: SYNC_MAX,
            asked,
            task: tokio::spawn(task),
            etcd: None,
            kubernetes: None,
            terms: None,
            reporter: None,
        }
    }

    /// One whose zones begin unsynced: `task` says of each when it has been read, and `ready` asks for it under this name.
    fn synced_later(
        zones: Vec<ZoneId>,
        synced: Vec<Arc<AtomicBool>>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let own = synced.clone();
        let reporter = Reporter::new(name, move || own.iter().all(|zone| zone.load(Ordering::Acquire)));
        let mut begun = Self::follow(zones, Arc::default(), task);
        begun.synced = synced;
        begun.reporter = Some(Arc::new(reporter));
        begun
    }

    /// The zones that it fills.
    pub fn zones(&self) -> &[ZoneId] {
        &self.zones
    }

    /// Each of its zones has been read.
    pub fn is_synced(&self) -> bool {
        self.synced.iter().all(|zone| zone.load(Ordering::Acquire))
    }

    /// Serves its zones, if they are those of one of these stanzas, as that says from now on.
    pub fn serve_as(&self, clusters: &[ClusterSource]) {
        let own = clusters.iter().find(|cluster| self.zones == [cluster.id]);
        if let (Some(cluster), Some(terms)) = (own, &self.terms) {
            terms.send_if_modified(|own| {
                let is_news = *own != cluster.terms;
                own.clone_from(&cluster.terms);
                is_news
            });
        }
    }

    /// Has it look now at what it looks at every now and then.
    pub fn look(&self) {
        self.asked.notify_one();
    }

    /// Ends it; what is returned publishes nothing more once it is finished.
    pub fn end(self) -> impl Fn() -> bool {
        self.task.abort();
        let task = self.task.abort_handle();
        move || task.is_finished()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins the sources of a configuration, but those that `runs` is true of. Those of files have been read then; nothing
/// that was asked for in vain is left running.
///
/// # Errors
/// What keeps the configuration from being used.
pub fn begin(compiled: &Compiled, means: &Means, runs: impl Fn(&[ZoneId]) -> bool) -> Result<Vec<Source>, Findings> {
    let mut sources = Vec::new();
    let mut found = Findings::default();
    let mut last = None;
    for source in compiled.files.iter().filter(|source| !runs(&[source.id])) {
        match file(source, means) {
            Ok(source) => sources.push(source),
            // The zones of one stanza have one file.
            Err(_) if last == Some(source.settings.db_file_span) => {}
            Err(wrong) => {
                last = Some(source.settings.db_file_span);
                found.add(wrong);
            }
        }
    }
    for source in compiled.weights.iter().filter(|source| !runs(&[source.id])) {
        match weights(source, means) {
            Ok(source) => sources.push(source),
            Err(wrong) => found.add(wrong),
        }
    }
    let new = compiled.auto.iter().filter(|source| !runs(&[source.id]));
    sources.extend(new.map(|source| auto(source, means)));
    let new = compiled.secondary.iter().filter(|source| !runs(&source.zones()));
    sources.extend(new.map(|source| copied(source, means)));
    let new = compiled.hosts.iter().filter(|source| !runs(&[source.id]));
    sources.extend(new.map(|source| hosts(source, means)));
    let new = compiled.etcd.iter().filter(|source| !runs(&source.zones));
    sources.extend(new.map(|source| etcd(source, means)));
    let new = compiled.clusters.iter().filter(|source| !runs(&[source.id]));
    for source in new {
        let errors = source.check();
        if errors.is_empty() {
            sources.push(cluster(source, means));
        }
        errors.into_iter().for_each(|error| found.error(error));
    }
    for certificates in &compiled.certificates {
        if let Err(error) = certificates.open_keys() {
            found.error(error);
        }
    }
    if found.errors.is_empty() {
        Ok(sources)
    } else {
        Err(found)
    }
}

fn file(source: &FileSource, means: &Means) -> Result<Source, Findings> {
    let mut zone = FileZone::new(source.clone(), means.hash.clone());
    zone.start(&means.publisher)?;
    let asked = Arc::new(Notify::new());
    let task = zone.follow(Arc::clone(&means.publisher), Arc::clone(&asked));
    Ok(Source::follow(vec![source.id], asked, task))
}

fn auto(source: &AutoSource, means: &Means) -> Source {
    let mut zones = AutoZones::new(source.clone(), means.hash.clone());
    zones.start(&means.publisher);
    let asked = Arc::new(Notify::new());
    let task = zones.follow(Arc::clone(&means.publisher), Arc::clone(&asked));
    Source::follow(vec![source.id], asked, task)
}

/// It begins without a version.
fn copied(source: &SecondarySource, means: &Means) -> Source {
    secondary::start(source, &means.hash, &means.publisher);
    let synced = Arc::new(AtomicBool::new(false));
    let publisher = Arc::clone(&means.publisher);
    let task = secondary::follow(source.clone(), means.hash.clone(), publisher, Arc::clone(&synced));
    let mut begun = Source::follow(source.zones(), source.notified.asked(), task);
    begun.synced = vec![synced];
    begun
}

fn weights(source: &WeightsSource, means: &Means) -> Result<Source, Findings> {
    let mut file = WeightFile::new(source.clone(), means.hash.clone());
    file.start(&means.publisher)?;
    let asked = Arc::new(Notify::new());
    let task = file.follow(Arc::clone(&means.publisher), Arc::clone(&asked));
    Ok(Source::follow(vec![source.id], asked, task))
}

fn hosts(source: &HostsSource, means: &Means) -> Source {
    let metrics = Arc::clone(&means.hosts);
    let news = Arc::new(move |file: &str, entries, modified| metrics.loaded(file, entries, modified));
    let mut hosts = HostsFile::new(source.clone(), means.hash.clone(), news);
    hosts.start(&means.publisher);
    let asked = Arc::new(Notify::new());
    let task = hosts.follow(Arc::clone(&means.publisher), Arc::clone(&asked));
    Source::follow(vec![source.id], asked, task)
}

/// Its zones begin unsynced.
fn etcd(source: &EtcdSource, means: &Means) -> Source {
    let EtcdSource { settings, zones } = source;
    let serial = start_serial();
    let trees: Vec<EtcdZone> = settings
        .zones
        .iter()
        .zip(zones)
        .map(|(zone, &id)| {
            let tree = ServiceTree::unsynced(zone.as_name(), serial, means.hash.clone());
            means.publisher.zone(id, Zone::Services(tree.clone()));
            EtcdZone {
                id,
                own_key: etcd::keys_of_zone(&settings.path, zone.as_name()),
                tree,
                synced: Arc::default(),
            }
        })
        .collect();
    let synced: Vec<_> = trees.iter().map(|zone| Arc::clone(&zone.synced)).collect();
    let status = Arc::new(etcd::Status::default());
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    let bounds = (settings.min_lease_ttl, settings.max_lease_ttl);
    let rebuild = Rebuild::new(trees, bounds, Arc::clone(&means.publisher), Arc::clone(&status));
    let log = output::log("plugin/etcd");
    let reading = etcd::run(
        settings.clone(),
        sender,
        Arc::clone(&status),
        log,
        CancellationToken::new(),
    );
    let task = async move {
        tokio::join!(reading, rebuild.run(receiver));
    };
    let mut source = Source::synced_later(zones.clone(), synced, "etcd", task);
    source.etcd = Some(EtcdMetrics {
        path: settings.path.clone(),
        status,
    });
    source
}

/// Its zones begin unsynced.
fn cluster(source: &ClusterSource, means: &Means) -> Source {
    let ClusterSource {
        id,
        settings,
        terms,
        patience,
        ..
    } = source;
    let unsynced = Cluster::unsynced(terms.showing.zones.clone(), start_serial(), means.hash.clone());
    means.publisher.zone(*id, Zone::Cluster(Box::new(unsynced.clone())));
    let synced = Arc::new(AtomicBool::new(false));
    let status = Arc::new(kubernetes::Status::default());
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    let publisher = Arc::clone(&means.publisher);
    let (terms, receiving) = watch::channel(terms.clone());
    let rebuild = ClusterRebuild::new(
        *id,
        unsynced,
        Arc::clone(&synced),
        publisher,
        Arc::clone(&status),
        receiving,
    );
    let log = output::log("plugin/kubernetes");
    let reading = kubernetes::run(
        settings.clone(),
        sender,
        Arc::clone(&status),
        log,
        CancellationToken::new(),
    );
    let task = async move {
        tokio::join!(reading, rebuild.run(receiver));
    };
    let mut source = Source::synced_later(vec![*id], vec![synced], "kubernetes", task);
    source.kubernetes = Some(status);
    source.terms = Some(terms);
    source.patience = *patience;
    source
}

/// Waits until all have been read, for each no longer than its patience.
pub async fn synced(sources: &[Source]) {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    let waits = |source: &Source| !source.is_synced() && begun.elapsed() < source.patience;
    // What has not been read by then answers SERVFAIL until it is.
    while sources.iter().any(waits) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
