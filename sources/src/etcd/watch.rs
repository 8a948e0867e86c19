//! The I/O around [`step`](super::step) and [`lease`](super::lease): calls with deadlines, watches, what goes out.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{
    Client, Error, EventType, GetOptions, LeaseTimeToLiveOptions, SortOrder, SortTarget, WatchOptions, WatchResponse,
    WatchStream,
};
use futures_util::future::join_all;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::lease::{Answer, LeaseUpdate, Leases};
use super::link::{Link, Up, code, code_of, reason};
use super::quiet::Quiet;
use super::step::{Failure, KeyValue, Outcome, Request, Response, Step, Then, WatchEvent, WatchRange};
use super::{Entry, Event, Level, Log, Message, Settings, Status, keys_of_zone};
use crate::{Change, backoff};

/// For one call, answer included.
const CALL_MAX: Duration = Duration::from_secs(5);
/// A reply may be this large; a page that is larger is asked for again in halves.
const MESSAGE_MAX: usize = 64 << 20;
/// A watch that says nothing is asked for a sign of life after this long, and given up after twice this long.
const SILENCE_MAX: Duration = Duration::from_secs(60);
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
        source.follow(step, name.to_string())
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

struct Source {
    link: Link,
    status: Arc<Status>,
    log: Log,
    messages: mpsc::Sender<Message>,
    /// Locked until what it said is handed over, so that no news of a lease comes before the key that names it.
    leases: Mutex<Leases>,
    leases_changed: Notify,
    /// Nobody receives any more.
    closed: CancellationToken,
}

/// Why a zone left its client.
enum Left {
    Broken(String),
    Wait,
}

impl Source {
    /// One zone, for ever.
    async fn follow(&self, mut step: Step, zone: String) {
        let mut up = self.link.subscribe();
        let mut quiet = Quiet::default();
        let mut used = 0;
        let mut waits = 0;
        loop {
            let current = up.borrow_and_update().clone();
            match current {
                Up::Client { generation, client } if generation > used => {
                    let synced = step.reads();
                    match self.drive(&mut step, &client, &zone, &mut quiet).await {
                        Left::Broken(reason) => {
                            used = generation;
                            self.link.report(generation, &reason);
                        }
                        Left::Wait => {
                            waits = if step.reads() > synced { 0 } else { waits + 1 };
                            let seed = zone.len() as u64;
                            sleep(backoff::delay(waits, seed, backoff::DELAY_REFUSED_MAX)).await;
                            // The same client is good for another try, if it is still there.
                            continue;
                        }
                    }
                }
                Up::Down { reason } => self.hand_over(step.lose(&reason)).await,
                Up::NotYet | Up::Client { .. } => {}
            }
            // The sender lives as long as we do.
            let _ = up.changed().await;
        }
    }

    /// Asks and watches on this client until it is of no use.
    async fn drive(&self, step: &mut Step, client: &Client, zone: &str, quiet: &mut Quiet) -> Left {
        loop {
            let then = match step.request() {
                Request::Range {
                    start,
                    end,
                    limit,
                    revision,
                    keys_only,
                } => {
                    let mut options = GetOptions::new().with_limit(limit).with_revision(revision);
                    if !end.is_empty() {
                        options = options.with_range(end).with_sort(SortTarget::Key, SortOrder::Ascend);
                    }
                    if keys_only {
                        options = options.with_keys_only();
                    }
                    self.status.count_request();
                    let mut kv = client.kv_client().max_decoding_message_size(MESSAGE_MAX);
                    let reply = timeout(CALL_MAX, kv.get(start, Some(options))).await;
                    let response = match &reply {
                        Err(_) => failed(0, Failure::Broken("no answer in time".to_owned())),
                        Ok(Err(error)) => failed(0, failure(error)),
                        Ok(Ok(reply)) => {
                            let header = reply.header();
                            Response::Range {
                                cluster: header.map_or(0, |header| header.cluster_id()),
                                revision: header.map_or(0, |header| header.revision()),
                                keys: reply.kvs().iter().map(key_value).collect(),
                                more: reply.more(),
                            }
                        }
                    };
                    let broken = broken_reason(&response);
                    self.take(step, response, broken, zone, quiet).await
                }
                Request::Watch { ranges } => self.watch(step, client, &ranges, zone, quiet).await,
            };
            match then {
                Ok(Then::Continue | Then::Ask) => {}
                Ok(Then::Wait) => return Left::Wait,
                Ok(Then::Reconnect) => return Left::Broken("the connection broke".to_owned()),
                Err(reason) => return Left::Broken(reason),
            }
        }
    }

    /// Watches until step has something else to ask, or the stream is of no use.
    async fn watch(
        &self,
        step: &mut Step,
        client: &Client,
        ranges: &[WatchRange],
        zone: &str,
        quiet: &mut Quiet,
    ) -> Result<Then, String> {
        let mut watch = match self.open(client, ranges).await {
            Ok(watch) => watch,
            Err(failure) => {
                let response = failed(0, failure);
                let broken = broken_reason(&response);
                return self.take(step, response, broken, zone, quiet).await;
            }
        };
        loop {
            let (range, message) = match watch.message(ranges).await {
                Ok(message) => message,
                Err(failure) => {
                    let response = failed(0, failure);
                    let broken = broken_reason(&response);
                    return self.take(step, response, broken, zone, quiet).await;
                }
            };
            let response = if message.canceled() {
                failed(range, canceled(&message))
            } else if message.created() {
                if watch.ids.len() < ranges.len() {
                    continue;
                }
                quiet.clear();
                Response::Watching
            } else {
                let header = message.header();
                Response::Events {
                    range,
                    cluster: header.map_or(0, |header| header.cluster_id()),
                    revision: header.map_or(0, |header| header.revision()),
                    events: message.events().iter().filter_map(watch_event).collect(),
                }
            };
            let broken = broken_reason(&response);
            match self.take(step, response, broken, zone, quiet).await? {
                Then::Continue => {}
                then => return Ok(then),
            }
        }
    }

    async fn open(&self, client: &Client, ranges: &[WatchRange]) -> Result<Watch, Failure> {
        let Some(first) = ranges.first() else {
            return pending().await;
        };
        self.status.count_request();
        let mut watch = client.watch_client().max_decoding_message_size(MESSAGE_MAX);
        // etcd answers the call only once it has read the first request, so this may not take long.
        let stream = timeout(CALL_MAX, watch.watch(first.start.clone(), Some(options(first)))).await;
        let stream = stream.map_err(|_| Failure::Broken("no answer to a watch in time".to_owned()))?;
        Ok(Watch {
            stream: stream.map_err(|error| failure(&error))?,
            ids: Vec::new(),
        })
    }

    /// Feeds a reply to step and hands over what comes of it.
    async fn take(
        &self,
        step: &mut Step,
        response: Response<'_>,
        broken: Option<String>,
        zone: &str,
        quiet: &mut Quiet,
    ) -> Result<Then, String> {
        let (reads, own_denied) = (step.reads(), step.own_denied());
        let keys = step.keys();
        let Outcome { events, then } = step.apply(response);
        self.status.add_keys(step.keys() - keys);
        // A cluster that was restored begins with a lower revision.
        self.status.see_revision(step.revision(), step.reads() > reads);
        if reads > 0 && step.reads() > reads {
            self.status.count_resync();
            (self.log)(Level::Info, &format!("zone {zone} read again"));
        }
        if step.own_denied() && !own_denied && quiet.says("own", Instant::now()) {
            let text = format!("zone {zone}: no permission for the zone's own key, only for those below it");
            (self.log)(Level::Warning, &text);
        }
        for event in events {
            match event.changes.as_slice() {
                [Change::Lost { reason }] if then == Then::Wait => {
                    let text = format!("zone {zone}: {reason}");
                    self.status.set_error(&text);
                    if quiet.says(reason, Instant::now()) {
                        (self.log)(Level::Warning, &text);
                    }
                }
                [.., Change::Synced { .. }] => self.status.clear_error_of(zone),
                _ => {}
            }
            self.hand_over(Some(event)).await;
        }
        broken.map_or(Ok(then), Err)
    }

    async fn hand_over(&self, event: Option<Event>) {
        let Some(event) = event else { return };
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
                let _ = up.changed().await;
                continue;
            };
            let next = self.leases.lock().await.next_ask();
            let wait = async {
                match next {
                    Some(at) => sleep_until(at.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = up.changed() => continue,
                () = wait => {}
                () = self.leases_changed.notified() => continue,
            }
            let asked_at = Instant::now();
            let Some(lease) = self.leases.lock().await.ask(asked_at) else {
                continue;
            };
            self.status.count_request();
            let options = LeaseTimeToLiveOptions::new();
            let reply = timeout(CALL_MAX, client.lease_client().time_to_live(lease.0, Some(options))).await;
            let answer = match reply {
                Ok(Ok(reply)) => Answer::Ttl {
                    remaining: reply.ttl(),
                    granted: reply.granted_ttl(),
                },
                Ok(Err(error)) if matches!(failure(&error), Failure::Denied | Failure::Refused(_)) => Answer::Refused,
                Ok(Err(_)) | Err(_) => Answer::Unsent,
            };
            let mut leases = self.leases.lock().await;
            if let Some(update) = leases.answered(asked_at, lease, answer) {
                self.send(Message::Lease(update)).await;
            }
            drop(leases);
            if answer == Answer::Unsent {
                sleep(LEASE_RETRY).await;
            }
        }
    }
}

/// One stream of watches.
struct Watch {
    stream: WatchStream,
    /// What etcd calls the ranges, in their order, as far as they are made.
    ids: Vec<i64>,
}

impl Watch {
    /// The next message that matters, and the index of its range.
    async fn message(&mut self, ranges: &[WatchRange]) -> Result<(usize, WatchResponse), Failure> {
        let broken = |reason: &str| Failure::Broken(reason.to_owned());
        let mut asked = false;
        loop {
            let patience = if self.ids.len() < ranges.len() {
                CALL_MAX
            } else {
                SILENCE_MAX
            };
            let message = match timeout(patience, self.stream.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Err(broken("the watch ended")),
                Ok(Err(error)) => return Err(failure(&error)),
                Err(_) if asked || self.ids.len() < ranges.len() => return Err(broken("the watch fell silent")),
                Err(_) => {
                    asked = true;
                    self.stream.request_progress().await.map_err(|error| failure(&error))?;
                    continue;
                }
            };
            asked = false;
            if message.created() {
                let range = self.ids.len();
                self.ids.push(message.watch_id());
                if let Some(next) = ranges.get(self.ids.len()).filter(|_| !message.canceled()) {
                    let start = next.start.clone();
                    let sent = self.stream.watch(start, Some(options(next))).await;
                    sent.map_err(|error| failure(&error))?;
                }
                return Ok((range, message));
            }
            // A reply to our own request for progress names no watch. It is a sign of life but moves no revision: some
            // versions send it before events that are older.
            if let Some(range) = self.ids.iter().position(|&id| id == message.watch_id()) {
                return Ok((range, message));
            }
        }
    }
}

fn options(range: &WatchRange) -> WatchOptions {
    let options = WatchOptions::new()
        .with_start_revision(range.from)
        .with_progress_notify();
    if range.end.is_empty() {
        options
    } else {
        options.with_range(range.end.clone())
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

fn failed(range: usize, failure: Failure) -> Response<'static> {
    Response::Failed { range, failure }
}

fn broken_reason(response: &Response<'_>) -> Option<String> {
    match response {
        Response::Failed {
            failure: Failure::Broken(reason),
            ..
        } => Some(reason.clone()),
        _ => None,
    }
}

fn key_value(kv: &etcd_client::KeyValue) -> KeyValue<'_> {
    KeyValue {
        key: kv.key(),
        value: kv.value(),
        lease: kv.lease(),
        version: kv.version(),
        revision: kv.mod_revision(),
    }
}

fn watch_event(event: &etcd_client::Event) -> Option<WatchEvent<'_>> {
    let kv = event.kv()?;
    Some(match event.event_type() {
        EventType::Put => WatchEvent::Put(key_value(kv)),
        EventType::Delete => WatchEvent::Delete {
            key: kv.key(),
            revision: kv.mod_revision(),
        },
    })
}

fn failure(error: &Error) -> Failure {
    let text = reason(error);
    match code_of(error) {
        Some(code::PERMISSION_DENIED) => Failure::Denied,
        Some(code::OUT_OF_RANGE) if text.contains("compacted") => Failure::Compacted,
        Some(code::OUT_OF_RANGE) if text.contains("future revision") => Failure::Future,
        // The client itself says so of a reply beyond its limit.
        Some(code::OUT_OF_RANGE) if text.contains("too large") => Failure::TooLarge,
        Some(code::OUT_OF_RANGE) => Failure::Refused(text),
        // We have no login and one is wanted: a new connection would not help.
        Some(code::INVALID_ARGUMENT) if text.contains("user name is empty") => Failure::Refused(text),
        // A login that is no longer valid, a member without leader, a dead connection: all are mended by a new one.
        _ => Failure::Broken(text),
    }
}

/// Why etcd ended a watch: it gives a revision or a text, no code.
fn canceled(message: &WatchResponse) -> Failure {
    let reason = message.cancel_reason();
    if message.compact_revision() > 0 || reason.contains("compacted") {
        Failure::Compacted
    } else if reason.contains("permission denied") {
        Failure::Denied
    } else {
        let reason = if reason.is_empty() {
            "etcd ended the watch"
        } else {
            reason
        };
        Failure::Broken(reason.to_owned())
    }
}
