//! Zones of other servers: what a source fetched becomes a version of the zone.

use std::collections::HashMap;
use std::iter;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use nodens_engine::plan::{self, ZoneMap};
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{RecordZone, Zone};
use nodens_sources::secondary::{self, Calls, Event};
use nodens_sources::{Level, Log};
use nodens_wire::NameBuf;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::files::zone_of;
use crate::members::{MemberSettings, Members};
use crate::notify;
use crate::output;
use crate::publish::Publisher;
use crate::random::random;

/// Versions that wait to be built.
const EVENTS_MAX: usize = 1;

/// How long NOTIFYs of strangers are gathered behind a line that told of some.
const DROPPED_EVERY: Duration = Duration::from_secs(60);

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
    /// Where the zones are published that it names, if it is a catalog.
    pub members: Option<(ZoneId, MemberSettings)>,
}

/// What a worker wakes when a primary says that there is something new, and tells when somebody else does.
#[derive(Debug, Default)]
pub struct Notified {
    asked: Arc<Notify>,
    /// The same of each zone that a catalog names, by its name in wire form.
    members: ArcSwap<HashMap<Box<[u8]>, Arc<Notify>>>,
    dropped: Mutex<Dropped>,
    has_dropped: Notify,
}

/// The NOTIFYs of strangers since they were told last.
#[derive(Debug, Default)]
struct Dropped {
    first: Option<IpAddr>,
    others: u64,
}

impl Notified {
    /// What the source waits for.
    pub fn asked(&self) -> Arc<Notify> {
        Arc::clone(&self.asked)
    }

    /// From now on these are the zones of the catalog.
    pub fn set_members(&self, members: HashMap<Box<[u8]>, Arc<Notify>>) {
        self.members.store(Arc::new(members));
    }

    fn dropped(&self) -> MutexGuard<'_, Dropped> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of strangers, a line every now and then however many there are, for ever.
    async fn tell_dropped(&self, zone: &NameBuf, every: Duration, log: &Log) {
        loop {
            self.has_dropped.notified().await;
            let Dropped { first, others } = std::mem::take(&mut *self.dropped());
            let Some(first) = first else { continue };
            let more = match others {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            log(
                Level::Info,
                &format!("Dropping notify from {first} for {zone}{more}: no primary of the zone sends from there"),
            );
            tokio::time::sleep(every).await;
        }
    }
}

impl plan::Notified for Notified {
    fn accepted(&self, zone: &[u8]) {
        match self.members.load().get(zone) {
            Some(member) => member.notify_one(),
            None => self.asked.notify_one(),
        }
    }

    fn refused(&self, address: IpAddr) {
        // Two workers at once have one stranger noted: the line tells that there are some.
        let Ok(mut dropped) = self.dropped.try_lock() else {
            return;
        };
        match dropped.first {
            Some(_) => dropped.others += 1,
            None => {
                dropped.first = Some(address);
                self.has_dropped.notify_one();
            }
        }
    }
}

impl SecondarySource {
    /// Where it publishes.
    pub fn zones(&self) -> Vec<ZoneId> {
        let members = self.members.iter().map(|&(members, _)| members);
        iter::once(self.id).chain(members).collect()
    }
}

/// Publishes the zone as not fetched yet.
pub fn start(source: &SecondarySource, hash: &NameHash, publisher: &Publisher) {
    publisher.zone(
        source.id,
        Zone::Records(RecordZone::unloaded(source.settings.zone.as_name(), hash.clone())),
    );
    if let Some((members, _)) = source.members {
        publisher.zone(members, Zone::Several(ZoneMap::new(hash.clone())));
    }
}

/// Keeps the zone as new as its primaries', for ever.
pub async fn follow(source: SecondarySource, hash: NameHash, publisher: Arc<Publisher>, synced: Arc<AtomicBool>) {
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let log = output::log("plugin/secondary");
    let settings = source.settings.clone();
    let telling = source.notified.tell_dropped(&source.settings.zone, DROPPED_EVERY, &log);
    let calls = Calls {
        notified: source.notified.asked(),
        turns: Arc::new(Semaphore::new(1)),
    };
    let fetching = secondary::run(settings, random(), calls, sender, Arc::clone(&log));
    let mut members = Members::new(&source, &hash, &publisher, &log);
    let building = async {
        let mut is_loaded = false;
        loop {
            tokio::select! {
                event = events.recv() => {
                    let Some(event) = event else { break };
                    if let (Event::Fetched(records), Some(members)) = (&event, &mut members) {
                        members.become_those_of(records);
                    }
                    let Some(zone) = built(event, &source.settings.zone, &hash).await else { continue };
                    let is_new = zone.is_loaded();
                    is_loaded |= is_new;
                    publisher.zone(source.id, Zone::Records(zone));
                    if is_new {
                        source.notify.iter().for_each(notify::Notify::send);
                    }
                }
                () = fetched(&mut members) => {}
            }
            if is_loaded && members.as_ref().is_none_or(Members::are_loaded) {
                synced.store(true, Ordering::Release);
            }
        }
    };
    tokio::join!(fetching, building, telling);
}

/// Waits for a member to be fetched, for ever where there are none.
async fn fetched(members: &mut Option<Members>) {
    match members {
        Some(members) => members.fetched().await,
        None => std::future::pending().await,
    }
}

/// The zone that a fetched version makes; none when it could not be built.
pub async fn built(event: Event, zone: &NameBuf, hash: &NameHash) -> Option<RecordZone> {
    let empty = RecordZone::unloaded(zone.as_name(), hash.clone());
    let Event::Fetched(records) = event else {
        return Some(empty);
    };
    // A large zone takes a while; other tasks go on meanwhile.
    let built = tokio::task::spawn_blocking(move || zone_of(empty, &records)).await;
    if built.is_err() {
        output::error("plugin/secondary: a zone could not be built; it stays as it was");
    }
    built.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nodens_engine::plan::Notified as _;

    use super::*;

    #[tokio::test]
    async fn strangers_get_a_line_every_now_and_then() {
        const EVERY: Duration = Duration::from_millis(300);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&lines);
        let log: Log = Arc::new(move |_, text| own.lock().unwrap().push(text.to_owned()));
        let notified = Arc::new(Notified::default());
        let zone = NameBuf::from_text("cedar.example").unwrap();
        let told = Arc::clone(&notified);
        tokio::spawn(async move { told.tell_dropped(&zone, EVERY, &log).await });
        let begin = Instant::now();
        while begin.elapsed() < 2 * EVERY {
            notified.refused(IpAddr::from([192, 0, 2, 1]));
            notified.refused(IpAddr::from([192, 0, 2, 2]));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let most = begin.elapsed().div_duration_f64(EVERY) as usize + 1;
        let lines = lines.lock().unwrap();
        assert!((2..=most).contains(&lines.len()), "{lines:?}");
        let first = "Dropping notify from 192.0.2.1 for cedar.example., and 1 more: ";
        assert!(lines[0].starts_with(first), "{lines:?}");
    }
}
