use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nodens_sources::etcd::{Entry, LEASE_REQUESTS_PER_SEC, LeaseId, LeaseState, Message, Settings, Status, run};
use nodens_sources::{Change, Level, Log};
use nodens_wire::NameBuf;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a consumer holds of one zone.
#[derive(Default)]
pub(crate) struct Zone {
    pub(crate) keys: BTreeMap<String, Entry>,
    reading: Option<BTreeMap<String, Entry>>,
    pub(crate) synced: Option<i64>,
    pub(crate) lost: Option<String>,
    /// Revision and number of changes of each event outside full reads.
    pub(crate) events: Vec<(i64, usize)>,
    pub(crate) pages: usize,
}

#[derive(Default)]
pub(crate) struct View {
    pub(crate) zones: Vec<Zone>,
    pub(crate) leases: HashMap<LeaseId, LeaseState>,
    pub(crate) log: Vec<String>,
}

/// A running source.
pub(crate) struct Follower {
    view: Arc<Mutex<View>>,
    pub(crate) status: Arc<Status>,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

pub(crate) fn settings(endpoints: &[&str], zones: &[&str]) -> Settings {
    Settings {
        endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
        credentials: None,
        tls: None,
        path: "skydns".to_owned(),
        zones: zones.iter().map(|zone| NameBuf::from_text(zone).unwrap()).collect(),
        min_lease_ttl: 30,
        max_lease_ttl: 86_400,
        lease_requests_per_sec: LEASE_REQUESTS_PER_SEC,
    }
}

impl Follower {
    pub(crate) fn of(endpoint: &str) -> Self {
        Self::start(settings(&[endpoint], &["cedar.example."]))
    }

    pub(crate) fn start(settings: Settings) -> Self {
        let zones = settings.zones.iter().map(|_| Zone::default()).collect();
        let view = Arc::new(Mutex::new(View {
            zones,
            ..View::default()
        }));
        let status = Arc::new(Status::default());
        let cancel = CancellationToken::new();
        let (sender, mut receiver) = mpsc::channel(64);
        let said = Arc::clone(&view);
        let log: Log = Arc::new(move |level: Level, text: &str| {
            said.lock().unwrap().log.push(format!("{level:?} {text}"));
        });
        let task = tokio::spawn(run(settings, sender, Arc::clone(&status), log, cancel.clone()));
        let taken = Arc::clone(&view);
        tokio::spawn(async move {
            while let Some(message) = receiver.recv().await {
                taken.lock().unwrap().take(message);
            }
        });
        Self {
            view,
            status,
            cancel,
            task,
        }
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap()
    }

    /// Waits; gives how long that took.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, done: impl Fn(&View) -> bool) -> impl Future<Output = Duration> {
        let start = Instant::now();
        let caller = std::panic::Location::caller();
        async move {
            while !done(&self.view()) {
                let log = || self.view().log.join("\n");
                assert!(
                    start.elapsed() < PATIENCE,
                    "{caller}: waited in vain for {what}\n{}",
                    log()
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            start.elapsed()
        }
    }

    pub(crate) async fn synced(&self) {
        self.until("the first read", |view| {
            view.zones.iter().all(|zone| zone.synced.is_some())
        })
        .await;
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.view().zones[0].keys.contains_key(key)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl View {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.zones[0].keys.contains_key(key)
    }

    fn take(&mut self, message: Message) {
        let event = match message {
            Message::Lease(update) if update.state == LeaseState::Gone => {
                self.leases.remove(&update.lease);
                return;
            }
            Message::Lease(update) => {
                self.leases.insert(update.lease, update.state);
                return;
            }
            Message::Event(event) => event,
        };
        let zone = &mut self.zones[event.zone];
        let read = zone.reading.is_some() || event.changes.first() == Some(&Change::Reset);
        zone.pages += usize::from(read);
        if !read {
            zone.events.push((event.revision, event.changes.len()));
        }
        for change in event.changes {
            match change {
                Change::Reset => zone.reading = Some(BTreeMap::new()),
                Change::Upsert { key, value } => {
                    let key = String::from_utf8(key.into()).unwrap();
                    zone.reading.as_mut().unwrap_or(&mut zone.keys).insert(key, value);
                }
                Change::Remove { key } => {
                    zone.keys.remove(std::str::from_utf8(&key).unwrap());
                }
                Change::Synced { revision } => {
                    if let Some(read) = zone.reading.take() {
                        zone.keys = read;
                    }
                    zone.synced = Some(revision);
                    zone.lost = None;
                }
                Change::Lost { reason } => zone.lost = Some(reason),
            }
        }
    }
}
