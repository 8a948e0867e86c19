//! One source: its client, a follower for each kind of objects, and what they hand over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::follow::Follower;
use super::kind::Kind;
use super::link::Link;
use super::{CHANGES_MAX, Change, Message, Settings, Status};
use crate::{Level, Log};

/// Reads and follows all kinds until `cancel`; or until nobody receives any more.
pub async fn run(
    settings: Settings,
    messages: mpsc::Sender<Message>,
    status: Arc<Status>,
    log: Log,
    cancel: CancellationToken,
) {
    let kinds: Vec<Kind> = Kind::of(&settings).collect();
    for &kind in &kinds {
        status.watches(kind);
    }
    let source = Source {
        link: Link::new(&settings, Arc::clone(&status)),
        unlisted: AtomicUsize::new(kinds.len()),
        begun: Instant::now(),
        closed: CancellationToken::new(),
        settings,
        status,
        log,
        messages,
    };
    let work = join_all(kinds.into_iter().map(|kind| Follower::new(&source, kind).follow()));
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = source.closed.cancelled() => {}
        _ = work => {}
    }
}

pub(super) struct Source {
    pub(super) settings: Settings,
    pub(super) link: Link,
    pub(super) status: Arc<Status>,
    pub(super) log: Log,
    messages: mpsc::Sender<Message>,
    /// Kinds that have not been listed yet.
    unlisted: AtomicUsize,
    begun: Instant,
    /// Nobody receives any more.
    closed: CancellationToken,
}

impl Source {
    /// Hands over what changed, and leaves nothing of it.
    pub(super) async fn hand_over(&self, changes: &mut Vec<Change>) {
        while !changes.is_empty() {
            let rest = changes.split_off(changes.len().min(CHANGES_MAX));
            self.send(Message::Changes(std::mem::replace(changes, rest))).await;
        }
    }

    /// A kind has been listed for the first time, and all of it handed over.
    pub(super) async fn listed(&self) {
        if self.unlisted.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.send(Message::Synced).await;
        self.status.set_synced();
        let objects: Vec<String> = self
            .status
            .kinds()
            .map(|(kind, standing)| format!("{} {}", standing.objects, kind.resource().0))
            .collect();
        let took = self.begun.elapsed().as_millis();
        (self.log)(Level::Info, &format!("in sync after {took} ms: {}", objects.join(", ")));
    }

    async fn send(&self, message: Message) {
        if self.messages.send(message).await.is_err() {
            self.closed.cancel();
        }
    }
}
