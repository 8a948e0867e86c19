//! Settings become plans, listeners and sources. Nothing is bound and nobody is contacted here.

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nodens_engine::forward::Stanza;
use nodens_engine::io::{ListenerId, Transport};
use nodens_engine::log::{Classes, LogRule};
use nodens_engine::plan::rewrite::Rewrite;
use nodens_engine::plan::view::View;
use nodens_engine::plan::{
    Auto, Cache, Catalog, Clients, Copied, External, Forward, Hosts, Kubernetes, LoadBalance, Local, Plan, Primaries,
    Secondary, Source, Step, Templates, Transfer, ZoneMap,
};
use nodens_engine::snapshot::{Choice, Config, Listener, Route, ZoneId};
use nodens_engine::stream::StreamLimits;
use nodens_engine::tls::TlsSettings;
use nodens_engine::zone::trie::NameHash;
use nodens_sources::tls::Tls;
use nodens_sources::{etcd, secondary};
use nodens_wire::NameBuf;

use crate::addresses;
use crate::admin::{CacheMetrics, PluginEnabled, SeriesLabels};
use crate::auto::AutoSource;
use crate::caches;
use crate::certificates::{self, Certificates};
use crate::corefile::settings::{self, Key, PathSetting, Scheme, ServerBlock};
use crate::corefile::{Diagnostic, Span, is_preferred};
use crate::forward::StanzaKey;
use crate::kubernetes::{self, ClusterSource, Secondaries, Showing, Terms};
use crate::loops::Probed;
use crate::members::MemberSettings;
use crate::notify::Notify;
use crate::numbers::{Numbers, SourceKey};
use crate::outside;
use crate::plugins;
use crate::resolve;
use crate::secondary::SecondarySource;
use crate::steps;
use crate::templates;

/// A configuration, ready to be started.
#[derive(Debug)]
pub struct Compiled {
    /// What the workers read.
    pub config: Config,
    /// The addresses.
    pub listeners: Vec<Address>,
    /// `etcd` stanzas.
    pub etcd: Vec<EtcdSource>,
    /// `kubernetes` stanzas.
    pub clusters: Vec<ClusterSource>,
    /// Zones of `file` stanzas.
    pub files: Vec<FileSource>,
    /// `auto` stanzas.
    pub auto: Vec<AutoSource>,
    /// Zones of `secondary` stanzas.
    pub secondary: Vec<SecondarySource>,
    /// `hosts` directives.
    pub hosts: Vec<HostsSource>,
    /// `tls` directives.
    pub certificates: Vec<Certificates>,
    /// `loadbalance weighted` directives.
    pub weights: Vec<WeightsSource>,
    /// `loop` directives.
    pub loops: Vec<Probed>,
    /// What is shown of `cache` directives.
    pub caches: Vec<CacheMetrics>,
    /// What handles queries, for each server and zone.
    pub plugins: Vec<PluginEnabled>,
    /// `zone:port`, one for each zone of each address, in file order; a warning in front of what is no name of hosts.
    pub start_lines: Vec<String>,
    /// Things to be said once.
    pub notices: Vec<String>,
}

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its number.
    pub id: ListenerId,
    /// The address.
    pub socket: SocketAddr,
    /// `dns://127.0.0.1:53`, as metrics name it; without an address where there is no `bind`.
    pub label: String,
    /// What is spoken there.
    pub scheme: Scheme,
    /// Where it is asked for.
    pub span: Span,
}

impl Address {
    /// What it listens on.
    pub fn transports(&self) -> &'static [Transport] {
        match self.scheme {
            Scheme::Dns => &[Transport::Udp, Transport::Tcp],
            Scheme::Tls => &[Transport::Tcp],
        }
    }
}

/// An `etcd` stanza.
#[derive(Clone, Debug)]
pub struct EtcdSource {
    /// What the source is told.
    pub settings: etcd::Settings,
    /// Where its zones are published, in the order of the settings.
    pub zones: Vec<ZoneId>,
}

/// A zone of a `file` stanza.
#[derive(Clone, Debug)]
pub struct FileSource {
    /// Where it is published.
    pub id: ZoneId,
    /// Its name.
    pub zone: NameBuf,
    /// The stanza.
    pub settings: settings::File,
    /// Who is told of a new version.
    pub notify: Option<Notify>,
}

/// A `loadbalance weighted`.
#[derive(Clone, Debug)]
pub struct WeightsSource {
    /// Where its weights are published.
    pub id: ZoneId,
    /// The directive.
    pub settings: settings::Weighted,
}

/// A `hosts` directive.
#[derive(Clone, Debug)]
pub struct HostsSource {
    /// Where it is published.
    pub id: ZoneId,
    /// The directive.
    pub settings: settings::Hosts,
}

/// Compiles a configuration; what it shares with the one before has the same numbers.
///
/// Behind it stands all that is wrong with it; it is not to be used where that is anything.
pub fn compile(blocks: &[ServerBlock], hash: &NameHash, numbers: &mut Numbers) -> (Compiled, Vec<Diagnostic>) {
    let mut compiler = Compiler {
        hash,
        numbers,
        out: Compiled {
            config: Config::default(),
            listeners: Vec::new(),
            etcd: Vec::new(),
            clusters: Vec::new(),
            files: Vec::new(),
            auto: Vec::new(),
            secondary: Vec::new(),
            hosts: Vec::new(),
            certificates: Vec::new(),
            weights: Vec::new(),
            loops: Vec::new(),
            caches: Vec::new(),
            plugins: Vec::new(),
            start_lines: Vec::new(),
            notices: Vec::new(),
        },
        errors: Vec::new(),
    };
    compiler.numbers.caches.resize(blocks);
    compiler.out.config.cache = compiler.numbers.caches.slab();
    for block in blocks {
        compiler.block(block);
    }
    compiler.tell_plain();
    (compiler.out, compiler.errors)
}

struct Compiler<'a> {
    hash: &'a NameHash,
    numbers: &'a mut Numbers,
    out: Compiled,
    errors: Vec<Diagnostic>,
}

impl Compiler<'_> {
    fn block(&mut self, block: &ServerBlock) {
        let plan = self.plan(block);
        let plan_at = self.out.config.plans.len() as u32;
        let plugins = plugins::of(block);
        self.out.config.plans.push(plan);
        let places = addresses::places(block, &mut self.out.notices, &mut self.errors);
        let tls = block.tls.as_ref().and_then(|tls| self.tls(tls));
        let acl_zones = steps::acl_zones(block);
        let mut acl_counters = Vec::new();
        let mut routes = Vec::new();
        for key in &block.keys {
            for place in &places {
                let socket = place.socket(key.port);
                let host = match place.address {
                    _ if !place.is_bound => String::new(),
                    IpAddr::V4(address) => address.to_string(),
                    IpAddr::V6(address) => format!("[{address}]"),
                };
                let label = format!("{}://{host}:{}", key.scheme.as_str(), key.port);
                let Some(listener) = self.listener(key, socket, &label) else {
                    return;
                };
                let series = SeriesLabels {
                    server: label,
                    zone: key.zone.to_string(),
                    view: block.view.as_ref().map(|view| view.name.clone()).unwrap_or_default(),
                };
                self.out
                    .plugins
                    .extend(plugins.iter().map(|&name| plugins::enabled(&series, name)));
                let labels = series.clone();
                let of_acl = acl_zones.iter().map(|zone| {
                    self.numbers.series(SeriesLabels {
                        zone: zone.to_string(),
                        ..series.clone()
                    })
                });
                let of_acl = of_acl.collect();
                let route = Route {
                    plan: plan_at,
                    series: self.numbers.series(series),
                };
                routes.push((&key.zone, labels, route.series));
                acl_counters.push((route.series, of_acl));
                self.route(usize::from(listener.0), key, route, block.view.is_some());
                let listener = &mut self.out.config.listeners[usize::from(listener.0)];
                listener.any_class |= block.chaos.is_some() || !block.forward.is_empty() || !block.proxy.is_empty();
                listener.debug |= block.debug;
                steps::grant(&mut listener.streams, &block.timeouts);
                if key.scheme == Scheme::Tls
                    && let Some(tls) = &tls
                {
                    listener.tls = Some(Arc::clone(tls));
                }
                let on = if place.is_bound {
                    format!(" on {}", place.address)
                } else {
                    String::new()
                };
                if !is_preferred(key.zone.as_name()) {
                    let text = key.zone.to_string();
                    let line = format!("Warning: Domain {text:?} does not follow RFC1035 preferred syntax");
                    self.out.start_lines.push(line);
                }
                self.out
                    .start_lines
                    .push(format!("{}{}:{}{on}", key.scheme.prefix(), key.zone, key.port));
            }
        }
        for step in self.out.config.plans[plan_at as usize].steps.iter() {
            if let (Step::Cache(own), Some(cache)) = (step, &block.cache) {
                let zones: Vec<_> = cache.zones.iter().map(NameBuf::to_string).collect();
                let series: Vec<_> = routes
                    .iter()
                    .map(|(_, labels, series)| (labels.clone(), *series))
                    .collect();
                self.out
                    .caches
                    .extend(CacheMetrics::of(&own.block, &zones.join(","), &series));
            }
        }
        let canary = self.out.config.plans[plan_at as usize]
            .steps
            .iter()
            .find_map(|step| match step {
                Step::Loop(canary) => Some(Arc::clone(canary)),
                _ => None,
            });
        let plain = block.keys.iter().find(|key| key.scheme == Scheme::Dns);
        if let (Some(canary), Some(key), Some(place)) = (canary, plain, places.first()) {
            let probed = Probed::new(canary, key.zone.clone(), place.socket(key.port), place.is_bound);
            self.out.loops.push(probed);
        }
        let counts = block.auto.is_some() && block.prometheus.is_some();
        let own = self.out.auto.last().filter(|_| counts);
        if let Some(names) = own.map(|auto| auto.names.all()) {
            self.out.config.plans[plan_at as usize].counted = Some(self.counted(&names, &routes));
        }
        if let Some(acl) = self.out.config.plans[plan_at as usize].steps.acl_mut() {
            acl.counters = acl_counters.into();
        }
        if let Some(step) = self.out.config.plans[plan_at as usize].steps.templates_mut() {
            templates::count(step, &routes, self.numbers);
        }
    }

    /// The series of zones that were found below those of a block's routes.
    fn counted(&mut self, found: &[NameBuf], routes: &[(&NameBuf, SeriesLabels, u32)]) -> ZoneMap<Box<[(u32, u32)]>> {
        let mut zones = self.map();
        for zone in found {
            let below = routes
                .iter()
                .filter(|(own, ..)| zone.as_name().is_within(own.as_name()));
            let own: Box<[_]> = below
                .map(|(_, labels, series)| {
                    let zone = zone.to_string();
                    (*series, self.numbers.series(SeriesLabels { zone, ..labels.clone() }))
                })
                .collect();
            zones.entry(zone, || own);
        }
        zones
    }

    /// Has a block serve a zone: alone, or behind those of the same zone that have a view.
    fn route(&mut self, listener: usize, key: &Key, route: Route, has_view: bool) {
        let choice = self.out.config.listeners[listener]
            .routes
            .entry(&key.zone, || Choice::Views {
                port: key.port,
                blocks: Vec::new(),
            });
        match choice {
            // Behind a block for every question none has its turn.
            Choice::Block(_) => {}
            Choice::Views { blocks, .. } if has_view || !blocks.is_empty() => blocks.push(route),
            Choice::Views { .. } => *choice = Choice::Block(route),
        }
    }

    fn tls(&mut self, settings: &settings::Tls) -> Option<Arc<TlsSettings>> {
        match Certificates::load(settings) {
            Ok(certificates) => {
                let shared = certificates.shared();
                self.out.certificates.push(certificates);
                Some(shared)
            }
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    /// Who writes `tls://` wants to know where there is none.
    fn tell_plain(&mut self) {
        for address in self
            .out
            .listeners
            .iter()
            .filter(|address| address.scheme == Scheme::Tls)
        {
            if self.out.config.listeners[usize::from(address.id.0)].tls.is_none() {
                let text = "no block there has `tls`, so plain DNS over TCP is spoken";
                self.out.notices.push(format!("{}: {text}", address.label));
            }
        }
    }

    /// The listener of a key, made if it is the first that stands there; none when there are too many.
    fn listener(&mut self, key: &Key, socket: SocketAddr, label: &str) -> Option<ListenerId> {
        let Some(id) = self.numbers.listener(key.scheme, socket) else {
            let text = "too many addresses to listen on: 65,535 is the most";
            self.errors.push(Diagnostic::setup(key.span, text));
            return None;
        };
        if self.out.listeners.iter().any(|address| address.id == id) {
            return Some(id);
        }
        if let Some(other) = self.out.listeners.iter().find(|address| address.socket == socket) {
            let (scheme, zone) = (key.scheme.as_str(), &key.zone);
            let text = format!(
                "cannot serve {scheme}://{zone}:{} - {} is served there",
                key.port, other.label
            );
            let error = Diagnostic::setup(key.span, text).related(other.span, "also listens there");
            self.errors
                .push(error.help("a connection cannot tell which one it is for; give one of them another port"));
            return None;
        }
        let dropped = SeriesLabels {
            server: label.to_owned(),
            zone: "dropped".to_owned(),
            view: String::new(),
        };
        let dropped = self.numbers.series(dropped);
        let at = usize::from(id.0);
        // Numbers that are not in use have a listener that serves nothing.
        while self.out.config.listeners.len() <= at {
            let routes = self.map();
            self.out.config.listeners.push(Listener {
                port: 0,
                routes,
                dropped: u32::MAX,
                any_class: false,
                debug: false,
                streams: StreamLimits::default(),
                tls: None,
            });
        }
        self.out.config.listeners[at].dropped = dropped;
        self.out.config.listeners[at].port = socket.port();
        self.out.listeners.push(Address {
            id,
            socket,
            label: label.to_owned(),
            scheme: key.scheme,
            span: key.span,
        });
        Some(id)
    }

    fn map<T>(&self) -> ZoneMap<T> {
        ZoneMap::new(self.hash.clone())
    }

    fn set(&self, zones: &[NameBuf]) -> ZoneMap<()> {
        ZoneMap::set(zones, self.hash)
    }

    /// The steps of a block, in the order of execution.
    fn plan(&mut self, block: &ServerBlock) -> Plan {
        let mut steps = Vec::new();
        let cluster = block.kubernetes.as_ref().map(|stanza| self.cluster(block, stanza));
        if let Some(settings::Local { localhost_prefix }) = block.local {
            steps.push(Step::Local(Local { localhost_prefix }));
        }
        if let Some(dns64) = block.dns64 {
            steps.push(Step::Dns64(dns64));
        }
        if block.any {
            steps.push(Step::Any);
        }
        if let Some(chaos) = &block.chaos {
            steps.push(Step::Chaos(steps::chaos(chaos)));
        }
        if let Some(balance) = &block.loadbalance {
            steps.push(Step::LoadBalance(match balance {
                settings::LoadBalance::RoundRobin { prefer } => LoadBalance::RoundRobin {
                    prefer: prefer.iter().map(steps::cidr).collect(),
                },
                settings::LoadBalance::Weighted(weighted) => LoadBalance::Weighted(self.weights(weighted)),
            }));
        }
        if !block.rewrite.is_empty() {
            steps.push(Step::Rewrite(Rewrite {
                rules: block.rewrite.as_slice().into(),
            }));
        }
        let id = cluster.as_ref().map(|(_, inside)| inside.data);
        steps.extend(steps::autopath(block, id, self.hash).map(Step::Autopath));
        if !block.acl.is_empty() {
            steps.push(Step::Acl(steps::acl(block, self.hash)));
        }
        if let Some(cache) = &block.cache
            && let Some(own) = self.numbers.caches.block(block, cache)
        {
            steps.push(Step::Cache(Box::new(Cache {
                settings: caches::settings(cache, self.hash),
                block: own,
                servers: 0,
            })));
        }
        if let Some(header) = block.header {
            steps.push(Step::Header(steps::header(header)));
        }
        if block.minimal {
            steps.push(Step::Minimal);
        }
        if !block.template.is_empty() {
            steps.push(Step::Template(Templates {
                stanzas: block.template.as_slice().into(),
                read: steps::template_record,
                counted: self.map(),
                failing: Box::default(),
            }));
        }
        if !block.transfer.is_empty() {
            let mut stanzas = self.map();
            for stanza in &block.transfer {
                for zone in &stanza.zones {
                    stanzas.entry(zone, || Clients {
                        everybody: stanza.everybody,
                        addresses: stanza.to.iter().map(SocketAddr::ip).collect(),
                    });
                }
            }
            steps.push(Step::Transfer(Transfer { stanzas }));
        }
        if let Some(hosts) = &block.hosts {
            steps.push(Step::Hosts(Hosts {
                data: self.hosts(hosts),
                zones: self.set(&hosts.zones),
                fallthrough: hosts.fallthrough.as_deref().map(|zones| self.set(zones)),
                fallthrough_unsupported: hosts.fallthrough_unsupported,
            }));
        }
        if let Some((outside, inside)) = cluster {
            steps.extend(outside.map(|step| Step::K8sExternal(Box::new(step))));
            steps.push(Step::Kubernetes(inside));
        }
        if let Some(first) = block.file.first() {
            let mut zones = self.map();
            for file in &block.file {
                for zone in &file.zones {
                    let mut made = None;
                    let notify = Notify::of(&block.transfer, zone);
                    zones.entry(zone, || *made.insert(self.file_zone(zone, file, notify.clone())));
                    if let Some(id) = made {
                        self.out.files.push(FileSource {
                            id,
                            zone: zone.clone(),
                            settings: file.clone(),
                            notify,
                        });
                    }
                }
            }
            let fallthrough = first.fallthrough.as_deref().map(|zones| self.set(zones));
            steps.push(Step::File(Source {
                zones,
                fallthrough,
                outside: None,
                stubs: None,
            }));
        }
        if let Some(auto) = &block.auto {
            let key = SourceKey::Auto {
                folder: auto.directory.clone(),
                pattern: auto.pattern.as_str().to_owned(),
                template: auto.template.clone(),
                reload: auto.reload,
                transfer: block.transfer.clone(),
            };
            let id = self.numbers.zones(key, 1)[0];
            self.out.auto.push(AutoSource {
                id,
                settings: auto.clone(),
                names: self.numbers.auto_names(id),
                transfer: block.transfer.clone(),
            });
            let zones = self.set(&auto.zones);
            steps.push(Step::Auto(Auto { zones, data: id }));
        }
        if !block.secondary.is_empty() {
            let step = self.secondary(block);
            steps.push(Step::Secondary(step));
        }
        for etcd in &block.etcd {
            let step = self.etcd(block, etcd);
            steps.push(Step::Etcd(step));
        }
        if block.detects_loops.is_some() {
            steps.push(Step::Loop(Arc::default()));
        }
        if !block.forward.is_empty() {
            let stanzas = block.forward.iter().filter_map(|stanza| self.forward(stanza)).collect();
            steps.push(Step::Forward(Forward {
                stanzas,
                is_proxy: false,
            }));
        }
        if !block.proxy.is_empty() {
            let mut proxies: Vec<_> = block.proxy.iter().collect();
            proxies.sort_by_key(|proxy| Reverse(proxy.forward.from.as_name().len()));
            let stanza = |proxy| self.stanza(StanzaKey::of_proxy(proxy));
            steps.push(Step::Forward(Forward {
                stanzas: proxies.into_iter().map(stanza).collect(),
                is_proxy: true,
            }));
        }
        if block.whoami {
            steps.push(Step::Whoami);
        }
        Plan {
            steps: steps.into_iter().collect(),
            metrics: block.prometheus.is_some(),
            errors: block.errors.as_ref().map(|errors| {
                let block = self.out.config.plans.len() as u32;
                self.numbers.consolidate(errors.consolidate.clone(), block)
            }),
            log: block.log.iter().map(|rule| self.log_rule(rule, block)).collect(),
            view: block.view.as_ref().map(|view| View {
                name: view.name.as_str().into(),
                conditions: view.conditions.as_slice().into(),
            }),
            metadata: block.metadata.as_deref().map(|zones| self.set(zones)),
            udp_size: block.bufsize,
            nsid: block.nsid.as_ref().map(steps::nsid),
            counted: None,
            cancel: block.cancel,
        }
    }

    fn file_zone(&mut self, zone: &NameBuf, settings: &settings::File, notify: Option<Notify>) -> ZoneId {
        let key = SourceKey::File {
            zone: zone.clone(),
            file: settings.db_file.clone(),
            word: settings.db_file_word.clone(),
            reload: settings.reload,
            by_mtime: settings.reload_by_mtime,
            notify,
        };
        self.numbers.zones(key, 1)[0]
    }

    fn secondary(&mut self, block: &ServerBlock) -> Secondary {
        let mut zones = self.map();
        let mut catalogs = Vec::new();
        for stanza in &block.secondary {
            for zone in &stanza.zones {
                if zones.exact(zone.as_bytes()).is_some() {
                    continue;
                }
                let settings = secondary::Settings {
                    zone: zone.clone(),
                    primaries: stanza.primaries.clone(),
                };
                let notify = Notify::of(&block.transfer, zone);
                let member_settings = MemberSettings::of(block, stanza);
                let key = SourceKey::Secondary(settings.clone(), notify.clone(), member_settings.clone());
                let ids = self.numbers.zones(key, 1 + usize::from(member_settings.is_some()));
                let source = SecondarySource {
                    id: ids[0],
                    settings,
                    notified: self.numbers.notified(ids[0]),
                    notify,
                    members: ids.get(1).copied().zip(member_settings),
                };
                let primaries = || Primaries {
                    addresses: stanza.primaries.iter().map(SocketAddr::ip).collect(),
                    notified: Arc::clone(&source.notified) as _,
                };
                zones.entry(zone, || Copied {
                    data: source.id,
                    primaries: primaries(),
                });
                catalogs.extend(source.members.iter().map(|&(members, _)| Catalog {
                    members,
                    primaries: primaries(),
                }));
                self.out.secondary.push(source);
            }
        }
        let fallthrough = block.secondary.first().and_then(|stanza| stanza.fallthrough.as_deref());
        Secondary {
            zones,
            catalogs: catalogs.into(),
            fallthrough: fallthrough.map(|zones| self.set(zones)),
        }
    }

    fn weights(&mut self, settings: &settings::Weighted) -> ZoneId {
        let key = SourceKey::Weights {
            file: settings.file.clone(),
            reload: settings.reload,
        };
        let id = self.numbers.zones(key, 1)[0];
        self.out.weights.push(WeightsSource {
            id,
            settings: settings.clone(),
        });
        id
    }

    fn hosts(&mut self, settings: &settings::Hosts) -> ZoneId {
        let key = SourceKey::Hosts {
            file: settings.file.clone(),
            zones: settings.zones.clone(),
            inline: settings.inline.iter().map(|host| host.text.clone()).collect(),
            ttl_secs: settings.ttl_secs,
            no_reverse: settings.no_reverse,
            reload: settings.reload,
        };
        let id = self.numbers.zones(key, 1)[0];
        self.out.hosts.push(HostsSource {
            id,
            settings: settings.clone(),
        });
        id
    }

    fn etcd(&mut self, block: &ServerBlock, stanza: &settings::Etcd) -> Source {
        let settings = etcd::Settings {
            endpoints: stanza.endpoints.iter().map(|endpoint| endpoint.url.clone()).collect(),
            credentials: stanza
                .credentials
                .as_ref()
                .map(|own| (own.user.clone(), own.password.clone())),
            tls: stanza.tls.as_ref().and_then(|tls| self.client_tls("etcd", tls)),
            path: stanza.path.clone(),
            zones: stanza.zones.clone(),
            min_lease_ttl: stanza.min_lease_ttl_secs,
            max_lease_ttl: stanza.max_lease_ttl_secs,
            lease_requests_per_sec: etcd::LEASE_REQUESTS_PER_SEC,
        };
        let ids = self
            .numbers
            .zones(SourceKey::Etcd(settings.clone()), stanza.zones.len());
        let mut zones = self.map();
        for (zone, &id) in stanza.zones.iter().zip(&ids) {
            zones.entry(zone, || id);
        }
        let servers = stanza.upstream.as_ref().and_then(|servers| self.forward(servers));
        let first = ids.first().copied();
        self.out.etcd.push(EtcdSource { settings, zones: ids });
        Source {
            zones,
            fallthrough: stanza.fallthrough.as_deref().map(|zones| self.set(zones)),
            outside: servers.map(|servers| Box::new(outside::plan(block, stanza, servers, self.numbers, self.hash))),
            stubs: first.filter(|_| stanza.stub_zones),
        }
    }

    /// The steps that answer from the cluster of a block.
    fn cluster(&mut self, block: &ServerBlock, stanza: &settings::Kubernetes) -> (Option<External>, Kubernetes) {
        let settings = stanza.source.clone();
        let zones = kubernetes::apexes(stanza, block.k8s_external.as_ref());
        let names = zones.iter().map(|zone| (zone.name.clone(), zone.authority.clone()));
        let key = SourceKey::Kubernetes(settings.clone(), names.collect());
        let id = self.numbers.zones(key, 1)[0];
        let (outside, inside) = kubernetes::steps(block, stanza, id, self.hash);
        let secondaries = Secondaries::of(&block.transfer, &zones);
        let showing = Showing {
            zones,
            view: Arc::clone(&inside.view),
            external: outside.as_ref().map(|step| Arc::clone(&step.external)),
        };
        self.out.clusters.push(ClusterSource {
            id,
            terms: Terms {
                showing,
                secondaries,
                keeps_pod_names: settings.pods && block.metadata.is_some(),
            },
            settings,
            patience: stanza.startup_timeout,
            span: stanza.server_span,
            files: stanza.files.clone(),
        });
        (outside, inside)
    }

    fn forward(&mut self, stanza: &settings::Forward) -> Option<Arc<Stanza>> {
        let tls = match &stanza.tls {
            Some(files) => Some(self.client_tls("forward", files)?),
            None => None,
        };
        let mut stanza = stanza.clone();
        stanza.to = match resolve::upstreams(&stanza) {
            Ok(all) => all,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        };
        Some(self.stanza(StanzaKey::of_forward(&stanza, tls)))
    }

    fn stanza(&mut self, key: StanzaKey) -> Arc<Stanza> {
        self.numbers.stanzas.get(key, |key| Arc::new(key.stanza()))
    }

    /// What the files of a `tls` option hold.
    fn client_tls(&mut self, directive: &str, tls: &settings::ClientTls) -> Option<Tls> {
        let identity = tls.identity.iter().flat_map(|(cert, key)| [cert, key]);
        let words: Vec<&PathSetting> = identity.chain(&tls.authority).collect();
        let errors = match certificates::read(&words) {
            Ok(tls) => return Some(tls),
            Err(errors) => errors,
        };
        self.errors.extend(errors.into_iter().map(|(span, error)| {
            let help = "the files are, in this order: certificate, key, authority; or one authority alone";
            Diagnostic::error(span.unwrap_or(tls.span), format!("plugin/{directive}: {error}")).help(help)
        }));
        None
    }

    fn log_rule(&mut self, rule: &settings::LogRule, block: &ServerBlock) -> LogRule {
        let format = rule.format.clone();
        let labels = format.cluster_labels().map(Arc::from).collect();
        let number = self.numbers.format(match &block.view {
            Some(view) => format.with_view(&view.name),
            None => format,
        });
        let settings::LogClasses { success, denial, error } = rule.classes;
        LogRule {
            zones: self.set(&rule.names),
            classes: Classes { success, denial, error },
            format: number,
            labels,
        }
    }
}
