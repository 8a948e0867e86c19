//! One source: its link, its zones, its leases, and what they hand over.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{Client, LeaseTimeToLiveOptions};
use futures_util::future::join_all;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::follow::Follower;
use super::lease::{Answer, LeaseUpdate, Leases};
use super::link::{Link, Up};
use super::step::{Failure, Step};
use super::watch::{CALL_MAX, failure};
use super::{Entry, Event, Message, Settings, Status, keys_of_zone};
use crate::{Change, Log};

/// The wait after a question about a lease that did not get through.
const LEASE_RETRY: Duration = Duration::from_millis(500);

/// Reads and follows all zones until `cancel`; or until nobody receives any more.
pub async fn run(
    settings: Settings,
    messages: mpsc::Sender<Message>,
    status: Arc<Status>,
    log: Log,
    cancel: CancellationToken,
) {
    let settings = Arc::new(settings);
    let link = Link::new(Arc::clone(&settings), Arc::clone(&status), Arc::clone(&log));
    let leases = Leases::new(
        settings.min_lease_ttl,
        settings.max_lease_ttl,
        settings.lease_requests_per_sec,
    );
    let source = Source {
        link,
        status,
        log,
        messages,
        leases: Mutex::new(leases),
        leases_changed: Notify::new(),
        closed: CancellationToken::new(),
    };
    let zones = settings.zones.iter().enumerate().map(|(zone, name)| {
        let step = Step::new(zone, keys_of_zone(&settings.path, name.as_name()));
        Follower::new(&source, step, name.to_string()).follow()
    });
    let work = async { tokio::join!(source.link.keep(), source.ask_leases(), join_all(zones)) };
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = source.closed.cancelled() => {}
        _ = work => {}
    }
    source.status.set_connected(false);
}

pub(super) struct Source {
    pub(super) link: Link,
    pub(super) status: Arc<Status>,
    pub(super) log: Log,
    messages: mpsc::Sender<Message>,
    /// Locked until what it said is handed over, so that no news of a lease comes before the key that names it.
    leases: Mutex<Leases>,
    leases_changed: Notify,
    /// Nobody receives any more.
    closed: CancellationToken,
}

impl Source {
    pub(super) async fn hand_over(&self, event: Event) {
        let mut news = Vec::new();
        let mut leases = self.leases.lock().await;
        note(&mut leases, &event, &mut news);
        self.send(Message::Event(event)).await;
        for update in news {
            self.send(Message::Lease(update)).await;
        }
        drop(leases);
        self.leases_changed.notify_one();
    }

    async fn send(&self, message: Message) {
        if self.messages.send(message).await.is_err() {
            self.closed.cancel();
        }
    }

    /// Asks about leases, one after the other, for ever.
    async fn ask_leases(&self) {
        let mut up = self.link.subscribe();
        loop {
            let client = match &*up.borrow_and_update() {
                Up::Client { client, .. } => Some(Arc::clone(client)),
                Up::NotYet | Up::Down { .. } => None,
            };
            let Some(client) = client else {
                // The sender lives as long as we do.
                let _ = up.changed().await;
                continue;
            };
            let next = self.leases.lock().await.next_ask();
            let due = async {
                match next {
                    Some(at) => sleep_until(at.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = up.changed() => continue,
                () = due => {}
                () = self.leases_changed.notified() => continue,
            }
            if self.ask_lease(&client).await == Some(Answer::Unsent) {
                sleep(LEASE_RETRY).await;
            }
        }
    }

    async fn ask_lease(&self, client: &Client) -> Option<Answer> {
        let asked_at = Instant::now();
        let lease = self.leases.lock().await.ask(asked_at)?;
        self.status.count_request();
        let options = LeaseTimeToLiveOptions::new();
        let reply = timeout(CALL_MAX, client.lease_client().time_to_live(lease.0, Some(options))).await;
        let answer = match reply.map(|reply| reply.map_err(|error| failure(&error))) {
            Ok(Ok(reply)) => Answer::Ttl {
                remaining: reply.ttl(),
                granted: reply.granted_ttl(),
            },
            Ok(Err(Failure::Denied | Failure::Refused(_))) => Answer::Refused,
            Ok(Err(_)) | Err(_) => Answer::Unsent,
        };
        let mut leases = self.leases.lock().await;
        if let Some(update) = leases.answered(asked_at, lease, answer) {
            self.send(Message::Lease(update)).await;
        }
        Some(answer)
    }
}

/// Tells the leases what an event means for them.
fn note(leases: &mut Leases, event: &Event, news: &mut Vec<LeaseUpdate>) {
    let now = Instant::now();
    for change in &event.changes {
        match change {
            Change::Reset => leases.begin(event.zone),
            Change::Upsert {
                key,
                value: Entry { value, lease },
            } => {
                // A value that does not parse is not answered with.
                let ttl = value.as_ref().map(|service| service.ttl);
                leases.put(
                    now,
                    event.zone,
                    key,
                    lease.filter(|_| ttl.is_ok()),
                    ttl.unwrap_or(0),
                    news,
                );
            }
            Change::Remove { key } => leases.remove(event.zone, key, news),
            Change::Synced { .. } => leases.end(event.zone, news),
            Change::Lost { .. } => {}
        }
    }
}
