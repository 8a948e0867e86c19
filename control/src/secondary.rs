//! Zones of other servers: what a source fetched becomes a version of the zone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{RecordZone, Zone};
use nodens_sources::secondary::{self, Event};
use tokio::sync::{Notify, mpsc};

use crate::files::zone_of;
use crate::notify;
use crate::output;
use crate::publish::Publisher;
use crate::random::random;

/// Versions that wait to be built.
const EVENTS_MAX: usize = 1;

/// A zone of a `secondary` stanza.
#[derive(Clone, Debug)]
pub struct SecondarySource {
    /// Where it is published.
    pub id: ZoneId,
    /// The zone and its primaries.
    pub settings: secondary::Settings,
    /// Told by workers that a primary has a new version.
    pub notified: Arc<Notified>,
    /// Who is told then.
    pub notify: Option<notify::Notify>,
}

/// What a worker wakes when a primary says that there is something new.
#[derive(Debug, Default)]
pub struct Notified(Arc<Notify>);

impl Notified {
    /// What the source waits for.
    pub fn asked(&self) -> Arc<Notify> {
        Arc::clone(&self.0)
    }
}

impl Wake for Notified {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// Publishes the zone as not fetched yet.
pub fn start(source: &SecondarySource, hash: &NameHash, publisher: &Publisher) {
    publisher.zone(source.id, Zone::Records(unloaded(source, hash)));
}

/// Keeps the zone as new as its primaries', for ever.
pub async fn follow(source: SecondarySource, hash: NameHash, publisher: Arc<Publisher>, synced: Arc<AtomicBool>) {
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let log = output::log("plugin/secondary");
    let settings = source.settings.clone();
    let fetching = secondary::run(settings, random(), source.notified.asked(), sender, log);
    let building = async {
        while let Some(event) = events.recv().await {
            let zone = match event {
                Event::Expired => unloaded(&source, &hash),
                Event::Fetched(records) => {
                    let empty = unloaded(&source, &hash);
                    // A large zone takes a while; other tasks go on meanwhile.
                    let built = tokio::task::spawn_blocking(move || zone_of(empty, &records));
                    let Ok(zone) = built.await else {
                        output::error("plugin/secondary: a zone could not be built; it stays as it was");
                        continue;
                    };
                    zone
                }
            };
            let is_new = zone.is_loaded();
            publisher.zone(source.id, Zone::Records(zone));
            if is_new {
                synced.store(true, Ordering::Release);
                source.notify.iter().for_each(notify::Notify::send);
            }
        }
    };
    tokio::join!(fetching, building);
}

fn unloaded(source: &SecondarySource, hash: &NameHash) -> RecordZone {
    RecordZone::unloaded(source.settings.zone.as_name(), hash.clone())
}
