//! One stream of watches, and what etcd's replies mean to [`step`](super::step).

use std::time::Duration;

use etcd_client::{Client, Error, EventType, WatchOptions, WatchResponse, WatchStream};
use tokio::time::timeout;

use super::link::{code, code_of, reason};
use super::step::{Failure, KeyValue, Response, WatchEvent, WatchRange};

/// For one call, answer included.
pub(super) const CALL_MAX: Duration = Duration::from_secs(5);
/// A reply may be this large; a page that is larger is asked for again in halves.
pub(super) const MESSAGE_MAX: usize = 16 << 20;
/// A watch that says nothing is asked for a sign of life after this long, and given up after twice this long.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One stream of watches.
pub(super) struct Watch {
    stream: WatchStream,
    ranges: Vec<WatchRange>,
    /// What etcd calls the ranges, in their order, as far as they are made.
    ids: Vec<i64>,
    /// A sign of life was asked for.
    asked: bool,
}

/// What a watch says.
pub(super) enum Told {
    /// All ranges are watched.
    Watching,
    /// Of one range.
    Of { range: usize, message: WatchResponse },
}

impl Watch {
    /// Asks for the first range; the others follow, each when the one before it is made.
    pub(super) async fn open(client: &Client, ranges: &[WatchRange]) -> Result<Self, Failure> {
        let first = ranges
            .first()
            .ok_or_else(|| Failure::Refused("nothing to watch".to_owned()))?;
        let mut watch = client.watch_client().max_decoding_message_size(MESSAGE_MAX);
        let stream = timeout(CALL_MAX, watch.watch(first.start.clone(), Some(options(first)))).await;
        let stream = stream.map_err(|_| Failure::Broken("no answer to a watch in time".to_owned()))?;
        Ok(Self {
            stream: stream.map_err(|error| failure(&error))?,
            ranges: ranges.to_vec(),
            ids: Vec::new(),
            asked: false,
        })
    }

    /// The next thing said that matters. After an error the stream is of no use.
    pub(super) async fn next(&mut self) -> Result<Told, Failure> {
        loop {
            let made = self.ids.len() == self.ranges.len();
            let message = match timeout(if made { SILENCE_MAX } else { CALL_MAX }, self.stream.message()).await {
                Ok(message) => message.map_err(|error| failure(&error))?,
                Err(_) if made && !self.asked => {
                    self.asked = true;
                    self.stream.request_progress().await.map_err(|error| failure(&error))?;
                    continue;
                }
                Err(_) => return Err(Failure::Broken("the watch fell silent".to_owned())),
            };
            let message = message.ok_or_else(|| Failure::Broken("etcd ended the watch".to_owned()))?;
            self.asked = false;
            if message.created() {
                let range = self.ids.len();
                self.ids.push(message.watch_id());
                if message.canceled() {
                    return Ok(Told::Of { range, message });
                }
                match self.ranges.get(self.ids.len()) {
                    Some(next) => {
                        let sent = self.stream.watch(next.start.clone(), Some(options(next))).await;
                        sent.map_err(|error| failure(&error))?;
                    }
                    None => return Ok(Told::Watching),
                }
            } else if let Some(range) = self.ids.iter().position(|&id| id == message.watch_id()) {
                return Ok(Told::Of { range, message });
            }
            // A reply to our own request for progress names no watch. It is a sign of life but moves no revision: some
            // versions send it before events that are older.
        }
    }
}

impl Told {
    pub(super) fn response(&self) -> Response<'_> {
        match self {
            Self::Watching => Response::Watching,
            Self::Of { range, message } if message.canceled() => Response::Failed {
                range: *range,
                failure: canceled(message),
            },
            Self::Of { range, message } => {
                let header = message.header();
                Response::Events {
                    range: *range,
                    cluster: header.map_or(0, |header| header.cluster_id()),
                    revision: header.map_or(0, |header| header.revision()),
                    events: message.events().iter().filter_map(watch_event).collect(),
                }
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

pub(super) fn key_value(kv: &etcd_client::KeyValue) -> KeyValue<'_> {
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

pub(super) fn failure(error: &Error) -> Failure {
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
