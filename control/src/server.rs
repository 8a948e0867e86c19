//! The running server, which can be given another configuration.
//!
//! ```text
//!   Corefile ──> prepare: compile, begin new sources, bind new sockets ──> Prepared      nothing changed yet;
//!                                                                              │          dropped, nothing was
//!                ┌─────────────────────────────────────────────────────────────┘
//!                └──> use_it: drain what goes ──> swap ──> serve what is new ──> let go of what nobody reads
//! ```
//!
//! The start is the same: the first configuration is given to a server that serves nothing.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nodens_engine::snapshot::{Published, ZoneId};
use nodens_engine::worker::Command;
use nodens_engine::zone::trie::NameHash;
use tokio::sync::Notify;

use crate::admin::{self, CacheMetrics, PluginEnabled, Readiness, Shown};
use crate::args::Options;
use crate::certificates::Followed;
use crate::compile::{Address, Compiled, compile};
use crate::corefile::settings::{Corefile, Monitor};
use crate::corefile::{Colour, Refused};
use crate::crew::Crew;
use crate::endpoints::{self, Admin, Endpoints};
use crate::facts::Facts;
use crate::faults;
use crate::hooks::Hooks;
use crate::listeners::{self, Bound, Place};
use crate::loops::Loops;
use crate::numbers::Numbers;
use crate::output;
use crate::pages;
use crate::publish::Publisher;
use crate::querylog::{Settings, Writer};
use crate::random::random;
use crate::sources::{self, Means, Source};
use crate::takeover::{Heir, Inherited};
use crate::workers::{choose_port, count, sockets_not_made};

/// How long the server waits for workers and tasks to let go of what was replaced. Batches are short, so this is only
/// for the case that it is never.
const LET_GO_MAX: Duration = Duration::from_secs(5);

/// The running server.
#[derive(Debug)]
pub struct Server {
    crew: Crew,
    means: Means,
    numbers: Numbers,
    places: Vec<Place>,
    sources: Vec<Source>,
    certificates: Vec<Followed>,
    endpoints: Endpoints,
    admin: Admin,
    writer: Option<Writer>,
    loops: Loops,
    hooks: Hooks,
    lameduck: Duration,
    in_use: Option<Corefile>,
    /// What is odd about a configuration is said once.
    says_warnings: bool,
    /// The first configuration takes over what another process serves.
    takes_over: bool,
}

/// A configuration that could be used: all that it needs is there.
#[derive(Debug)]
pub struct Prepared {
    corefile: Corefile,
    compiled: Compiled,
    numbers: Numbers,
    /// Those that do not run already.
    sources: Vec<Source>,
    bound: Bound,
    endpoints: endpoints::Next,
    inherited: Inherited,
}

impl Prepared {
    /// `zone:port`, one for each zone of each address.
    pub fn start_lines(&self) -> &[String] {
        &self.compiled.start_lines
    }
}

impl Server {
    /// A server that serves nothing yet. To be called within the runtime.
    ///
    /// # Errors
    /// Its threads cannot be had.
    pub fn start(options: &Options) -> anyhow::Result<Self> {
        let hash = NameHash::new(random());
        let published = Arc::new(Published::default());
        let kind = choose_port(options.io)?;
        let crew = Crew::start(kind, count(options.workers.map(usize::from)), &hash, &published)?;
        let facts = Arc::new(Facts::new(crew.ports.clone()));
        tokio::spawn(Arc::clone(&facts).follow());
        tokio::spawn(pages::follow());
        let metrics = admin::Metrics {
            facts,
            build: build(),
            workers: crew.stats.clone(),
            ports: crew.ports.clone(),
            published: Arc::clone(&published),
            ..admin::Metrics::default()
        };
        let means = Means {
            hash,
            publisher: Arc::new(Publisher::new(published)),
            hosts: Arc::clone(&metrics.hosts),
        };
        let readiness = Readiness::new(Vec::new(), Monitor::UntilReady, output::log("plugin/ready"));
        Ok(Self {
            crew,
            means,
            numbers: Numbers::default(),
            places: Vec::new(),
            sources: Vec::new(),
            certificates: Vec::new(),
            endpoints: Endpoints::default(),
            admin: Admin {
                metrics: Arc::new(metrics),
                readiness: Arc::new(readiness),
            },
            writer: None,
            loops: Loops::default(),
            hooks: Hooks::default(),
            lameduck: Duration::ZERO,
            in_use: None,
            says_warnings: true,
            takes_over: options.take_over,
        })
    }

    /// What the endpoints show.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The commands that the configuration names.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// How long a final stop waits while everything goes on.
    pub fn lameduck(&self) -> Duration {
        self.lameduck
    }

    /// Whether a worker has ended, which none should.
    pub fn is_broken(&self) -> bool {
        self.crew.is_broken()
    }

    /// Gets all that a configuration needs; what runs is left as it is. A configuration that replaces another one waits
    /// for its new sources, within limits.
    ///
    /// # Errors
    /// All that is wrong with it, drawn.
    pub async fn prepare(&self, corefile: Corefile) -> anyhow::Result<Prepared> {
        let mut numbers = self.numbers.next();
        let running: HashSet<ZoneId> = self.sources.iter().flat_map(Source::zones).copied().collect();
        let means = self.means.clone();
        // Reading and parsing files takes a while; signals are heard meanwhile.
        let begun = tokio::task::spawn_blocking(move || {
            let (compiled, errors) = compile(&corefile.blocks, &means.hash, &mut numbers);
            if !errors.is_empty() {
                return Err(corefile.refused(faults::beside(errors, compiled)));
            }
            let runs = |zones: &[ZoneId]| zones.iter().all(|zone| running.contains(zone));
            match sources::begin(&compiled, &means, runs) {
                Ok(sources) => Ok((corefile, compiled, numbers, sources)),
                Err(found) => {
                    let new: Vec<_> = numbers.used_zones().filter(|zone| !running.contains(zone)).collect();
                    means.publisher.forget(&new);
                    Err(corefile.refused(found))
                }
            }
        });
        let begun = begun.await.context("the configuration could not be read")?;
        let (corefile, compiled, numbers, sources) = begun.map_err(shown)?;
        if self.takes_over || !self.places.is_empty() {
            sources::synced(&sources).await;
        }
        let places = listeners::places(&compiled.listeners);
        let mut inherited = Inherited::default();
        if self.takes_over {
            let named = places.iter().filter(|place| place.is_named());
            inherited = Inherited::ask(named.map(|place| place.address)).context("cannot take over")?;
        }
        let bound = listeners::bind(places, &self.places, self.crew.size(), &mut inherited);
        let endpoints = self.endpoints.bind(&corefile, &mut inherited);
        match (bound, endpoints) {
            (Ok(bound), Ok(endpoints)) => Ok(Prepared {
                corefile,
                compiled,
                numbers,
                sources,
                bound,
                endpoints,
                inherited,
            }),
            (bound, endpoints) => {
                let zones: Vec<_> = sources.iter().flat_map(Source::zones).copied().collect();
                wait_until(&sources.into_iter().map(Source::end).collect::<Vec<_>>()).await;
                self.means.publisher.forget(&zones);
                let mut found = bound.err().unwrap_or_default();
                for error in endpoints.err().into_iter().flat_map(|found| found.errors) {
                    found.error(error);
                }
                Err(shown(corefile.refused(found)))
            }
        }
    }

    /// Uses a configuration in place of the one in use, and gives it back. Nothing here fails: what may was done before.
    pub async fn use_it(&mut self, prepared: Prepared) -> Corefile {
        let Prepared {
            corefile,
            compiled,
            numbers,
            sources,
            bound,
            endpoints,
            inherited,
        } = prepared;
        if self.says_warnings {
            self.warn(&corefile, &compiled);
        }
        self.in_use = Some(corefile.clone());
        self.count(&numbers);
        self.log(&corefile, &compiled, &numbers);

        // 1. What goes: what stands in its sockets is answered as before.
        if !bound.retired.is_empty() {
            let retire = || Command::Retire(bound.retired.clone());
            self.tell(std::iter::repeat_with(retire));
        }
        // 2. The swap.
        self.certificates = Followed::all(compiled.certificates, &self.certificates);
        self.means.publisher.config(compiled.config);
        // 3. What comes.
        if bound.sockets.iter().any(|sockets| !sockets.is_empty()) {
            self.tell(bound.sockets.into_iter().map(Command::Listen));
        }
        self.places = bound.places;
        let used: HashSet<ZoneId> = numbers.used_zones().collect();
        let all = std::mem::take(&mut self.sources).into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = all.partition(|own| own.zones().iter().all(|zone| used.contains(zone)));
        // Who reloads wants to see what stands in the files.
        kept.iter().for_each(Source::look);
        kept.iter().for_each(|own| own.serve_as(&compiled.clusters));
        self.sources = kept;
        self.sources.extend(sources);
        self.numbers = numbers;
        self.show(&corefile, &compiled.listeners, compiled.plugins, compiled.caches);
        self.endpoints.change(endpoints, &self.admin);
        let addresses = compiled.listeners.iter().map(|address| address.socket);
        self.admin
            .metrics
            .facts
            .listen(addresses.chain(self.endpoints.addresses()));
        let lameduck = corefile
            .blocks
            .iter()
            .filter_map(|block| Some(block.health.as_ref()?.lameduck));
        self.lameduck = lameduck.max().unwrap_or_default();
        self.hooks = Hooks::of(&corefile);
        self.loops = Loops::start(compiled.loops, &self.numbers.stanzas);
        self.takes_over = false;
        inherited.leave();

        // 4. What nobody reads any more.
        wait_until(&gone.into_iter().map(Source::end).collect::<Vec<_>>()).await;
        wait_until(&[|| !self.means.publisher.is_config_read()]).await;
        let gone = self.numbers.let_go();
        self.means.publisher.forget(&gone.zones);
        for port in &self.crew.ports {
            port.forget(&gone.listeners);
        }
        corefile
    }

    /// Told when zones were found that are to be counted by name.
    pub fn zones_changed(&self) -> Arc<Notify> {
        self.numbers.zones_changed()
    }

    /// Uses the configuration in use once more: there are other zones to be counted by name.
    pub async fn use_again(&mut self) {
        let Some(corefile) = self.in_use.clone() else { return };
        match self.prepare(corefile).await {
            Ok(prepared) => {
                self.says_warnings = false;
                self.use_it(prepared).await;
                self.says_warnings = true;
            }
            Err(error) => output::warning(&format!("plugin/auto: zones are not counted by their names: {error}")),
        }
    }

    fn warn(&self, corefile: &Corefile, compiled: &Compiled) {
        let sockets = sockets_not_made(&corefile.blocks, self.crew.size());
        for warning in corefile.warnings.iter().cloned().chain(sockets) {
            output::warning(&warning.headline(&corefile.sources));
        }
        for notice in &compiled.notices {
            output::warning(notice);
        }
    }

    /// Where other processes meet this one.
    pub fn meeting_places(&self) -> Vec<SocketAddr> {
        let named = self.places.iter().filter(|place| place.is_named());
        named.map(|place| place.address).collect()
    }

    /// Gives copies of all sockets to a process that wants to take over.
    ///
    /// # Errors
    /// They cannot be had, or it does not take them.
    pub fn give(&self, heir: &Heir) -> std::io::Result<()> {
        heir.give(self.crew.share()?, self.endpoints.share()?)
    }

    /// Leaves the sockets to another process, answers what has come by streams, and ends.
    pub fn release(self) {
        drop(self.endpoints);
        self.crew.release();
    }

    /// Answers what stands in the sockets and streams, and ends.
    pub fn drain(self) {
        self.crew.drain();
    }

    fn tell(&self, commands: impl IntoIterator<Item = Command>) {
        if let Err(error) = self.crew.tell(commands) {
            output::error(&format!("not every worker follows the new configuration: {error}"));
        }
    }

    /// Makes the counters that a configuration has and the one before had not.
    fn count(&self, numbers: &Numbers) {
        for stats in &self.crew.stats {
            stats.series.grow(numbers.series_len());
            // Nobody counts there since the configuration that did is gone.
            numbers.new_series().for_each(|at| stats.series.clear(at as usize));
        }
    }

    /// Gives the log its formats, and the workers a log where there was none.
    fn log(&mut self, corefile: &Corefile, compiled: &Compiled, numbers: &Numbers) {
        let mut plans = compiled.config.plans.iter();
        if self.writer.is_none() && plans.any(|plan| plan.errors.is_some() || !plan.log.is_empty()) {
            match Writer::start(self.crew.size()) {
                Ok((writer, queues)) => {
                    self.tell(queues.into_iter().map(Command::Log));
                    self.writer = Some(writer);
                }
                Err(error) => output::error(&format!("queries are not logged, since no thread can be had: {error}")),
            }
        }
        if let Some(writer) = &self.writer {
            writer.use_settings(Settings {
                formats: numbers.all_formats(),
                consolidate: numbers.all_consolidate(),
                has_debug: corefile.blocks.iter().any(|block| block.debug),
            });
        }
    }

    /// Has the endpoints show what is in use now.
    fn show(&self, corefile: &Corefile, listeners: &[Address], plugins: Vec<PluginEnabled>, caches: Vec<CacheMetrics>) {
        let Admin { metrics, readiness } = &self.admin;
        let listeners = listeners.iter().map(|address| (address.id, address.label.clone()));
        metrics.shown.store(Arc::new(Shown {
            listeners: listeners.collect(),
            series: self.numbers.series_labels(),
            plugins,
            caches,
            cache: self.numbers.caches.slab(),
            etcd: self.sources.iter().filter_map(|source| source.etcd.clone()).collect(),
            kubernetes: self
                .sources
                .iter()
                .filter_map(|source| source.kubernetes.clone())
                .collect(),
            stanzas: self.numbers.stanzas.all().cloned().collect(),
            templates: self.numbers.templates.all().cloned().collect(),
        }));
        let mut monitors = corefile
            .blocks
            .iter()
            .filter_map(|block| Some(block.ready.as_ref()?.monitor));
        let reporters = self.sources.iter().filter_map(|source| source.reporter.clone());
        // The setting of the block that comes last counts for all.
        readiness.ask_of(reporters.collect(), monitors.next_back().unwrap_or(Monitor::UntilReady));
    }
}

/// Waits until all of it holds, for a bounded time; other tasks go on meanwhile.
async fn wait_until(all: &[impl Fn() -> bool]) {
    const LOOK_EVERY: Duration = Duration::from_millis(1);
    let holds = async {
        while !all.iter().all(|one| one()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let _ = tokio::time::timeout(LET_GO_MAX, holds).await;
}

/// All that is wrong, drawn.
fn shown(refused: Refused) -> anyhow::Error {
    anyhow::anyhow!(refused.render(Colour::Off))
}

fn build() -> admin::Build {
    admin::Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: env!("NODENS_COMMIT").to_owned(),
        compiler: env!("NODENS_COMPILER").to_owned(),
    }
}
