//! The zones that a catalog zone names (RFC 9432): each fetched by itself, all published as one set.
//!
//! ```text
//!   records of the catalog ── become_those_of ──> one task a member: secondary::run ──> build ──> fetched ──> Publisher
//! ```

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use nodens_engine::plan::ZoneMap;
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{RecordZone, Zone};
use nodens_sources::secondary::{self, Calls, Settings};
use nodens_sources::{Level, Log, Record};
use nodens_wire::NameBuf;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use crate::corefile::settings::{self, ServerBlock, Transfer};
use crate::notify;
use crate::publish::Publisher;
use crate::random::random;
use crate::secondary::{Notified, SecondarySource, built};

/// Members of one catalog that are fetched or asked for at once; the others wait.
pub const FETCHES_MAX: usize = 16;
/// Members that have been fetched and wait to be published.
const FETCHED_MAX: usize = 64;

/// What becomes of the zones that a catalog names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberSettings {
    /// What lies elsewhere is left out, unless nothing stands here.
    pub within: Vec<NameBuf>,
    /// Zones that the Corefile names: they are fetched for it.
    pub taken: Vec<NameBuf>,
    /// Who is told of new versions.
    pub transfer: Vec<Transfer>,
}

impl MemberSettings {
    /// Those of a stanza, if its zones are catalogs.
    pub fn of(block: &ServerBlock, stanza: &settings::Secondary) -> Option<Self> {
        Some(Self {
            within: stanza.catalog.clone()?,
            taken: block.secondary.iter().flat_map(|stanza| stanza.zones.clone()).collect(),
            transfer: block.transfer.clone(),
        })
    }
}

/// The zones that a catalog names now. Dropped, none is followed any more.
pub(crate) struct Members {
    catalog: NameBuf,
    primaries: Vec<SocketAddr>,
    /// Where they are published.
    id: ZoneId,
    settings: MemberSettings,
    notified: Arc<Notified>,
    hash: NameHash,
    publisher: Arc<Publisher>,
    log: Log,
    followed: BTreeMap<NameBuf, Followed>,
    /// Counts members: what one of them fetched that is gone since does not count.
    generation: u64,
    turns: Arc<Semaphore>,
    sender: mpsc::Sender<Fetched>,
    fetched: mpsc::Receiver<Fetched>,
}

/// A member.
struct Followed {
    /// What stands for it in the catalog.
    label: Box<[u8]>,
    generation: u64,
    notified: Arc<Notify>,
    zone: RecordZone,
    _task: AbortOnDropHandle<()>,
}

/// A version of a member, or that it has expired.
struct Fetched {
    name: NameBuf,
    generation: u64,
    zone: RecordZone,
}

impl Members {
    /// None yet, of a zone that is a catalog.
    pub(crate) fn new(
        source: &SecondarySource,
        hash: &NameHash,
        publisher: &Arc<Publisher>,
        log: &Log,
    ) -> Option<Self> {
        let (id, settings) = source.members.clone()?;
        let (sender, fetched) = mpsc::channel(FETCHED_MAX);
        Some(Self {
            catalog: source.settings.zone.clone(),
            primaries: source.settings.primaries.clone(),
            id,
            settings,
            notified: Arc::clone(&source.notified),
            hash: hash.clone(),
            publisher: Arc::clone(publisher),
            log: Arc::clone(log),
            followed: BTreeMap::new(),
            generation: 0,
            turns: Arc::new(Semaphore::new(FETCHES_MAX)),
            sender,
            fetched,
        })
    }

    /// Each has been fetched.
    pub(crate) fn are_loaded(&self) -> bool {
        self.followed.values().all(|member| member.zone.is_loaded())
    }

    /// Takes a new version of the catalog. A broken one changes nothing.
    pub(crate) fn become_those_of(&mut self, records: &[Record]) {
        let Self {
            catalog,
            log,
            followed,
            settings,
            ..
        } = &mut *self;
        let mut named = match secondary::members(catalog.as_name(), records, &settings.within) {
            Ok(named) => named,
            Err(why) => {
                let text = format!("catalog {catalog} is broken, its zones stay as they were: {why}");
                return log(Level::Warning, &text);
            }
        };
        for taken in &settings.taken {
            named.remove(taken);
        }
        followed.retain(|name, member| {
            let stays = named.get(name) == Some(&member.label);
            if !stays {
                log(Level::Info, &format!("Deleting zone `{name}' of catalog {catalog}"));
            }
            stays
        });
        for (name, label) in named {
            if !self.followed.contains_key(&name) {
                (self.log)(
                    Level::Info,
                    &format!("Inserting zone `{name}' of catalog {}", self.catalog),
                );
                let member = self.follow(&name, label);
                self.followed.insert(name, member);
            }
        }
        let wakers = self.followed.iter();
        let wakers = wakers.map(|(name, member)| (name.as_bytes().into(), Arc::clone(&member.notified)));
        self.notified.set_members(wakers.collect::<HashMap<_, _>>());
        self.publish();
    }

    fn follow(&mut self, name: &NameBuf, label: Box<[u8]>) -> Followed {
        self.generation += 1;
        let notified = Arc::new(Notify::new());
        let settings = Settings {
            zone: name.clone(),
            primaries: self.primaries.clone(),
        };
        let calls = Calls {
            notified: Arc::clone(&notified),
            turns: Arc::clone(&self.turns),
        };
        let (events, mut received) = mpsc::channel(1);
        let fetching = secondary::run(settings, random(), calls, events, Arc::clone(&self.log));
        let (name, generation, hash, sender) = (name.clone(), self.generation, self.hash.clone(), self.sender.clone());
        let zone = RecordZone::unloaded(name.as_name(), hash.clone());
        let building = async move {
            while let Some(event) = received.recv().await {
                let Some(zone) = built(event, &name, &hash).await else {
                    continue;
                };
                let fetched = Fetched {
                    name: name.clone(),
                    generation,
                    zone,
                };
                if sender.send(fetched).await.is_err() {
                    break;
                }
            }
        };
        let task = async move {
            tokio::join!(fetching, building);
        };
        Followed {
            label,
            generation,
            notified,
            zone,
            _task: AbortOnDropHandle::new(tokio::spawn(task)),
        }
    }

    /// Waits for the next version of a member, and publishes it with all that have come meanwhile.
    pub(crate) async fn fetched(&mut self) {
        // One sender is here.
        let Some(first) = self.fetched.recv().await else { return };
        let mut new: Vec<notify::Notify> = self.take(first).into_iter().collect();
        while let Ok(next) = self.fetched.try_recv() {
            new.extend(self.take(next));
        }
        self.publish();
        new.iter().for_each(notify::Notify::send);
    }

    /// Tells who is to hear of it.
    fn take(&mut self, fetched: Fetched) -> Option<notify::Notify> {
        let member = self.followed.get_mut(&fetched.name)?;
        if member.generation != fetched.generation {
            return None;
        }
        member.zone = fetched.zone;
        let notify = || notify::Notify::of(&self.settings.transfer, &fetched.name);
        member.zone.is_loaded().then(notify)?
    }

    fn publish(&self) {
        let mut zones = ZoneMap::new(self.hash.clone());
        for (name, member) in &self.followed {
            zones.entry(name, || member.zone.clone());
        }
        self.publisher.zone(self.id, Zone::Several(zones));
    }
}
