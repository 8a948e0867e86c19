//! Numbers that the engine knows things by, the same for equal things over reloads.
//!
//! ```text
//!   configuration in use ── Numbers ── next() ──> Numbers of the new one: what is equal keeps its number
//!                                                       │ in use
//!                                                       └─ let_go() ──> numbers of what is gone, free again
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::cluster::Authority;
use nodens_engine::io::ListenerId;
use nodens_engine::snapshot::ZoneId;
use nodens_sources::{etcd, kubernetes, secondary};
use nodens_wire::NameBuf;

use crate::admin::SeriesLabels;
use crate::auto::AutoNames;
use crate::caches::Caches;
use crate::corefile::log_format::LogFormat;
use crate::corefile::settings::{Consolidate, Scheme, Transfer};
use crate::forward::Stanzas;
use crate::members::MemberSettings;
use crate::notify::Notify;
use crate::secondary::Notified;
use crate::templates::Failed;

/// Series that no configuration names any more and that are still shown; the ones gone longest make room.
pub const SERIES_KEPT: usize = 1024;

/// Settings of a source that decide what it brings: a source with equal ones lives on. What only says where the words
/// stand is not among them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceKey {
    /// An `etcd` stanza.
    Etcd(etcd::Settings),
    /// A `kubernetes` stanza, and the zones that show it.
    Kubernetes(kubernetes::Settings, Vec<(NameBuf, Authority)>),
    /// A zone of a `file` stanza.
    File {
        /// The zone.
        zone: NameBuf,
        /// Its file.
        file: PathBuf,
        /// As the Corefile names it; errors repeat it.
        word: String,
        /// How often the file is looked at.
        reload: Duration,
        /// Whether its serial counts.
        by_mtime: bool,
        /// Who is told of a new version.
        notify: Option<Notify>,
    },
    /// An `auto` stanza.
    Auto {
        /// Its folder.
        folder: PathBuf,
        /// What names of files are zones.
        pattern: String,
        /// Which zones.
        template: String,
        /// How often it is walked.
        reload: Duration,
        /// Who is told of new versions.
        transfer: Vec<Transfer>,
    },
    /// A zone of a `secondary` stanza, who is told of new versions, and what becomes of its members where it is a catalog.
    Secondary(secondary::Settings, Option<Notify>, Option<MemberSettings>),
    /// A `loadbalance weighted`.
    Weights {
        /// The file.
        file: PathBuf,
        /// How often the file is looked at.
        reload: Duration,
    },
    /// A `hosts` directive.
    Hosts {
        /// The file.
        file: PathBuf,
        /// Names outside are left out.
        zones: Vec<NameBuf>,
        /// The lines in the Corefile.
        inline: Vec<String>,
        /// Of all records.
        ttl_secs: u32,
        /// Without PTR.
        no_reverse: bool,
        /// How often the file is looked at.
        reload: Duration,
    },
}

/// Who has which number. One generation a configuration.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    generation: u64,
    listeners: Table<(Scheme, SocketAddr)>,
    series: Table<SeriesLabels>,
    formats: Table<LogFormat>,
    /// By the rules themselves, and by the block, since each gathers its own errors.
    consolidate: Table<(Vec<Consolidate>, u32)>,
    /// By source, which of several equal ones, and which of its zones.
    zones: Table<(Arc<SourceKey>, u32, u32)>,
    /// What `auto` stanzas have found.
    auto_names: HashMap<ZoneId, Arc<AutoNames>>,
    /// Told when they find other zones.
    zones_changed: Arc<tokio::sync::Notify>,
    /// Whom workers tell that a primary has a new version of a zone.
    notified: HashMap<ZoneId, Arc<Notified>>,
    /// How many sources of this generation have these settings.
    claimed: HashMap<Arc<SourceKey>, u32>,
    /// Stanzas of `forward` and `proxy`.
    pub stanzas: Stanzas,
    /// The cache.
    pub caches: Caches,
    /// What went wrong with records of `template`.
    pub templates: Failed,
}

/// What is gone, and whose numbers are free again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Listeners.
    pub listeners: Vec<ListenerId>,
    /// Zones.
    pub zones: Vec<ZoneId>,
}

impl Numbers {
    /// Those of the next configuration; what it does not ask for will be gone.
    pub fn next(&self) -> Self {
        let mut next = self.clone();
        next.generation += 1;
        next.claimed.clear();
        next.stanzas = self.stanzas.next();
        next.caches = self.caches.next();
        next.templates = self.templates.next();
        let kept = next.series.unused_since(self.generation, SERIES_KEPT);
        next.series.forget_before(kept);
        next
    }

    /// The number of a listener; none when 65,535 addresses are listened on.
    pub fn listener(&mut self, scheme: Scheme, address: SocketAddr) -> Option<ListenerId> {
        let number = self.listeners.number((scheme, address), self.generation);
        let id = ListenerId(u16::try_from(number).ok()?);
        (id != ListenerId::NONE).then_some(id)
    }

    /// The number of the counters with these labels.
    pub fn series(&mut self, labels: SeriesLabels) -> u32 {
        self.series.number(labels, self.generation)
    }

    /// The number of a format of query lines.
    pub fn format(&mut self, format: LogFormat) -> u32 {
        self.formats.number(format, self.generation)
    }

    /// The number of the rules by which errors of a block are gathered.
    pub fn consolidate(&mut self, rules: Vec<Consolidate>, block: u32) -> u32 {
        self.consolidate.number((rules, block), self.generation)
    }

    /// Where a source publishes its zones, so many of them.
    pub fn zones(&mut self, source: SourceKey, len: usize) -> Vec<ZoneId> {
        let source = Arc::new(source);
        let claimed = self.claimed.entry(Arc::clone(&source)).or_default();
        let which = *claimed;
        *claimed += 1;
        let zones = (0..len as u32).map(|zone| {
            let key = (Arc::clone(&source), which, zone);
            ZoneId(self.zones.number(key, self.generation))
        });
        zones.collect()
    }

    /// Where an `auto` stanza says which zones it has found.
    pub fn auto_names(&mut self, zones: ZoneId) -> Arc<AutoNames> {
        let changed = &self.zones_changed;
        let names = self.auto_names.entry(zones);
        Arc::clone(names.or_insert_with(|| Arc::new(AutoNames::new(Arc::clone(changed)))))
    }

    /// Told when an `auto` stanza finds other zones: they are counted by name.
    pub fn zones_changed(&self) -> Arc<tokio::sync::Notify> {
        Arc::clone(&self.zones_changed)
    }

    /// Whom workers tell that there is a new version of a zone.
    pub fn notified(&mut self, zone: ZoneId) -> Arc<Notified> {
        Arc::clone(self.notified.entry(zone).or_default())
    }

    /// The zones of this configuration.
    pub fn used_zones(&self) -> impl Iterator<Item = ZoneId> + '_ {
        let all = self.zones.entries.iter().zip(0..);
        all.filter(|(entry, _)| entry.as_ref().is_some_and(|entry| entry.used == self.generation))
            .map(|(_, at)| ZoneId(at))
    }

    /// One more than the highest number of a series.
    pub fn series_len(&self) -> usize {
        self.series.entries.len()
    }

    /// The labels of all series, by number.
    pub fn series_labels(&self) -> Vec<SeriesLabels> {
        let nothing = || SeriesLabels {
            server: String::new(),
            zone: String::new(),
            view: String::new(),
        };
        let all = self.series.entries.iter();
        all.map(|entry| entry.as_ref().map_or_else(nothing, |entry| entry.key.clone()))
            .collect()
    }

    /// The series whose numbers belonged to others before, or to none.
    pub fn new_series(&self) -> impl Iterator<Item = u32> + '_ {
        self.series.born_in(self.generation)
    }

    /// All formats, by number.
    pub fn all_formats(&self) -> HashMap<u32, LogFormat> {
        let all = self.formats.entries.iter().zip(0..);
        all.filter_map(|(entry, number)| Some((number, entry.as_ref()?.key.clone())))
            .collect()
    }

    /// All rules by which errors are gathered, by number.
    pub fn all_consolidate(&self) -> HashMap<u32, Vec<Consolidate>> {
        let all = self.consolidate.entries.iter().zip(0..);
        all.filter_map(|(entry, number)| Some((number, entry.as_ref()?.key.0.clone())))
            .collect()
    }

    /// Frees the numbers of what this configuration did not ask for; to be called when nobody reads the one before.
    pub fn let_go(&mut self) -> Gone {
        // Lines that were left for the log before may still wait to be written.
        self.formats.forget_before(self.generation.saturating_sub(1));
        self.consolidate.forget_before(self.generation.saturating_sub(1));
        self.caches.let_go();
        let listeners = self.listeners.forget_before(self.generation);
        let zones = self.zones.forget_before(self.generation);
        for &zone in &zones {
            self.notified.remove(&ZoneId(zone));
            self.auto_names.remove(&ZoneId(zone));
        }
        Gone {
            listeners: listeners.into_iter().map(|number| ListenerId(number as u16)).collect(),
            zones: zones.into_iter().map(ZoneId).collect(),
        }
    }
}

/// Things by number; equal ones have one.
#[derive(Clone, Debug)]
struct Table<K> {
    entries: Vec<Option<Entry<K>>>,
    at: HashMap<K, u32>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Entry<K> {
    key: K,
    born: u64,
    /// The last generation that asked for it.
    used: u64,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            at: HashMap::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn number(&mut self, key: K, generation: u64) -> u32 {
        if let Some(&at) = self.at.get(&key) {
            if let Some(entry) = &mut self.entries[at as usize] {
                entry.used = generation;
            }
            return at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        self.at.insert(key.clone(), at);
        self.entries[at as usize] = Some(Entry {
            key,
            born: generation,
            used: generation,
        });
        at
    }

    fn born_in(&self, generation: u64) -> impl Iterator<Item = u32> + '_ {
        let all = self.entries.iter().zip(0..);
        all.filter(move |(entry, _)| entry.as_ref().is_some_and(|entry| entry.born == generation))
            .map(|(_, at)| at)
    }

    /// Frees what was last used before a generation.
    fn forget_before(&mut self, generation: u64) -> Vec<u32> {
        let mut gone = Vec::new();
        for (place, at) in self.entries.iter_mut().zip(0..) {
            if let Some(entry) = place.as_ref().filter(|entry| entry.used < generation) {
                self.at.remove(&entry.key);
                *place = None;
                gone.push(at);
            }
        }
        self.free.extend(gone.iter().rev());
        gone
    }

    /// The generation before which things may be forgotten, so that of those not used in `current` at most `kept` stay.
    fn unused_since(&self, current: u64, kept: usize) -> u64 {
        let unused = self.entries.iter().flatten().map(|entry| entry.used);
        let mut unused: Vec<u64> = unused.filter(|&used| used < current).collect();
        unused.sort_unstable();
        match unused.len().checked_sub(kept + 1) {
            Some(last) => unused[last] + 1,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(file: &str) -> SourceKey {
        SourceKey::Hosts {
            file: file.into(),
            zones: Vec::new(),
            inline: Vec::new(),
            ttl_secs: 3600,
            no_reverse: false,
            reload: Duration::ZERO,
        }
    }

    fn labels(zone: usize) -> SeriesLabels {
        SeriesLabels {
            server: "dns://:53".to_owned(),
            zone: format!("z{zone}."),
            view: String::new(),
        }
    }

    #[test]
    fn equal_things_keep_their_numbers() {
        let mut first = Numbers::default().next();
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(first.listener(Scheme::Dns, address(53)), Some(ListenerId(0)));
        assert_eq!(first.listener(Scheme::Dns, address(54)), Some(ListenerId(1)));
        assert_eq!(first.zones(hosts("a"), 1), [ZoneId(0)]);
        assert_eq!(first.zones(hosts("b"), 2), [ZoneId(1), ZoneId(2)]);
        // An equal one beside it is another source.
        assert_eq!(first.zones(hosts("a"), 1), [ZoneId(3)]);
        assert_eq!(first.let_go(), Gone::default());

        let mut second = first.next();
        assert_eq!(second.listener(Scheme::Dns, address(54)), Some(ListenerId(1)));
        assert_eq!(second.zones(hosts("c"), 1), [ZoneId(4)]);
        assert_eq!(second.zones(hosts("a"), 1), [ZoneId(0)]);
        let gone = second.let_go();
        assert_eq!(gone.listeners, [ListenerId(0)]);
        assert_eq!(gone.zones, [ZoneId(1), ZoneId(2), ZoneId(3)]);

        // What is gone comes back as something else, lowest number first.
        let mut third = second.next();
        assert_eq!(third.listener(Scheme::Dns, address(55)), Some(ListenerId(0)));
        assert_eq!(third.zones(hosts("b"), 1), [ZoneId(1)]);
        // One that is given up changed nothing.
        assert_eq!(second.next().zones(hosts("d"), 1), [ZoneId(1)]);
    }

    #[test]
    fn series_outlive_their_configuration_up_to_a_limit() {
        let mut numbers = Numbers::default().next();
        assert_eq!(numbers.series(labels(0)), 0);
        for generation in 1..=SERIES_KEPT + 1 {
            numbers.let_go();
            numbers = numbers.next();
            assert_eq!(numbers.series(labels(generation)), generation as u32);
            assert_eq!(numbers.new_series().collect::<Vec<_>>(), [generation as u32]);
        }
        assert_eq!(numbers.series(labels(0)), 0, "the oldest of those that are kept");
        // One more than are kept, and the one gone longest makes room.
        let mut next = numbers.next();
        assert_eq!(next.series(labels(0)), 0);
        next = next.next();
        assert_eq!(next.series(labels(9_999)), 1);
        assert_eq!(next.new_series().collect::<Vec<_>>(), [1]);
        assert_eq!(next.series_labels()[1], labels(9_999));
    }
}
