//! Zones of other servers: what a source fetched becomes a version of the zone.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use nodens_engine::plan::Strangers;
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{RecordZone, Zone};
use nodens_sources::secondary::{self, Event};
use nodens_sources::{Level, Log};
use nodens_wire::NameBuf;
use tokio::sync::{Notify, mpsc};

use crate::files::zone_of;
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
}

/// What a worker wakes when a primary says that there is something new, and tells when somebody else does.
#[derive(Debug, Default)]
pub struct Notified {
    asked: Arc<Notify>,
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

impl Wake for Notified {
    fn wake(self: Arc<Self>) {
        self.asked.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.asked.notify_one();
    }
}

impl Strangers for Notified {
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

/// Publishes the zone as not fetched yet.
pub fn start(source: &SecondarySource, hash: &NameHash, publisher: &Publisher) {
    publisher.zone(source.id, Zone::Records(unloaded(source, hash)));
}

/// Keeps the zone as new as its primaries', for ever.
pub async fn follow(source: SecondarySource, hash: NameHash, publisher: Arc<Publisher>, synced: Arc<AtomicBool>) {
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let log = output::log("plugin/secondary");
    let settings = source.settings.clone();
    let telling = source.notified.tell_dropped(&source.settings.zone, DROPPED_EVERY, &log);
    let fetching = secondary::run(settings, random(), source.notified.asked(), sender, Arc::clone(&log));
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
    tokio::join!(fetching, building, telling);
}

fn unloaded(source: &SecondarySource, hash: &NameHash) -> RecordZone {
    RecordZone::unloaded(source.settings.zone.as_name(), hash.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
