//! One zone, for ever: asks what [`step`](super::step) wants and feeds it the replies.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use etcd_client::{Client, GetOptions};
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};

use super::link::Up;
use super::run::Source;
use super::step::{Failure, Head, Outcome, Request, Response, Step, Then, WatchRange};
use super::watch::{CALL_MAX, MESSAGE_MAX, Watch, failure, key_value};
use crate::quiet::Quiet;
use crate::{Change, Level, backoff};

pub(super) struct Follower<'s> {
    source: &'s Source,
    step: Step,
    /// Its name, for the log.
    zone: String,
    quiet: Quiet,
    up: Receiver<Up>,
}

impl<'s> Follower<'s> {
    pub(super) fn new(source: &'s Source, step: Step, zone: String) -> Self {
        Self {
            source,
            step,
            zone,
            quiet: Quiet::default(),
            up: source.link.subscribe(),
        }
    }

    pub(super) async fn follow(mut self) {
        let seed = RandomState::new().hash_one(&self.zone);
        let mut used = 0;
        let mut waits = 0;
        loop {
            let current = self.up.borrow_and_update().clone();
            match current {
                Up::Client { generation, client } if generation > used => {
                    let reads = self.step.reads();
                    let then = self.drive(generation, &client).await;
                    if then == Then::Reconnect {
                        used = generation;
                        self.source
                            .link
                            .report(generation, self.step.lost().unwrap_or_default());
                        continue;
                    }
                    // The same client is good for another try, if it is still there.
                    waits = if self.step.reads() > reads { 0 } else { waits + 1 };
                    sleep(backoff::delay(waits, seed, backoff::DELAY_REFUSED_MAX)).await;
                    continue;
                }
                Up::Down { reason } => {
                    if let Some(event) = self.step.lose(&reason) {
                        self.source.hand_over(event).await;
                    }
                }
                Up::NotYet | Up::Client { .. } => {}
            }
            // The sender lives as long as we do.
            let _ = self.up.changed().await;
        }
    }

    /// Asks and watches on this client as long as it is of use.
    async fn drive(&mut self, generation: u64, client: &Client) -> Then {
        loop {
            let then = match self.step.request() {
                Request::Range {
                    start,
                    end,
                    limit,
                    revision,
                    keys_only,
                } => {
                    let mut options = GetOptions::new().with_limit(limit).with_revision(revision);
                    if !end.is_empty() {
                        options = options.with_range(end);
                    }
                    if keys_only {
                        options = options.with_keys_only();
                    }
                    self.ask(client, start, options).await
                }
                Request::Watch { ranges } => self.watch(generation, client, &ranges).await,
            };
            match then {
                Then::Continue | Then::Ask => {}
                Then::Wait | Then::Reconnect => return then,
            }
        }
    }

    async fn ask(&mut self, client: &Client, start: Vec<u8>, options: GetOptions) -> Then {
        self.source.status.count_request();
        let mut kv = client.kv_client().max_decoding_message_size(MESSAGE_MAX);
        let reply = match timeout(CALL_MAX, kv.get(start, Some(options))).await {
            Err(_) => Err(Failure::Broken("no answer in time".to_owned())),
            Ok(reply) => reply.map_err(|error| failure(&error)),
        };
        let response = match &reply {
            Err(failure) => Response::Failed {
                range: 0,
                failure: failure.clone(),
            },
            Ok(reply) => {
                let header = reply.header();
                Response::Range {
                    head: header.map_or_else(Head::default, |header| Head {
                        cluster: header.cluster_id(),
                        term: header.raft_term(),
                        revision: header.revision(),
                    }),
                    keys: reply.kvs().iter().map(key_value).collect(),
                    more: reply.more(),
                }
            }
        };
        self.take(response).await
    }

    /// Watches until step has something else to ask, or the client is of no use.
    async fn watch(&mut self, generation: u64, client: &Client, ranges: &[WatchRange]) -> Then {
        self.source.status.count_request();
        let mut watch = match Watch::open(client, ranges).await {
            Ok(watch) => watch,
            Err(failure) => return self.take(Response::Failed { range: 0, failure }).await,
        };
        loop {
            let message = tokio::select! {
                message = watch.next() => message,
                // Others found it of no use: all go on together on the next one.
                reason = replaced(&mut self.up, generation) => Err(Failure::Broken(reason)),
            };
            let response = match &message {
                Ok(message) => message.response(),
                Err(failure) => Response::Failed {
                    range: 0,
                    failure: failure.clone(),
                },
            };
            if response == Response::Watching {
                self.quiet.clear();
            }
            match self.take(response).await {
                Then::Continue => {}
                then => return then,
            }
        }
    }

    /// Feeds a reply to step and hands over what comes of it.
    ///
    /// Must not be dropped half way: step would have gone on, and the consumer not.
    async fn take(&mut self, response: Response<'_>) -> Then {
        let Self {
            source,
            step,
            zone,
            quiet,
            ..
        } = self;
        let (reads, keys, own_denied) = (step.reads(), step.keys(), step.own_denied());
        let Outcome { events, then } = step.apply(response);
        source.status.add_keys(step.keys() - keys);
        // A cluster that was restored begins with a lower revision.
        source.status.see_revision(step.revision(), step.reads() > reads);
        if reads > 0 && step.reads() > reads {
            source.status.count_resync();
            (source.log)(Level::Info, &format!("zone {zone} read again"));
        }
        if step.own_denied() && !own_denied && quiet.says("own key", Instant::now()) {
            let text = format!("zone {zone}: no permission for the zone's own key, only for those below it");
            (source.log)(Level::Warning, &text);
        }
        for event in events {
            match event.changes.as_slice() {
                // Of a connection that broke, the link speaks for all.
                [Change::Lost { reason }] if then == Then::Wait => {
                    let text = format!("zone {zone}: {reason}");
                    source.status.set_error(&text);
                    if quiet.says(reason, Instant::now()) {
                        (source.log)(Level::Warning, &text);
                    }
                }
                [.., Change::Synced { .. }] => source.status.clear_error_of(zone),
                _ => {}
            }
            source.hand_over(event).await;
        }
        then
    }
}

/// Waits until the client of this generation is no longer the one to use; gives the reason.
async fn replaced(up: &mut Receiver<Up>, generation: u64) -> String {
    loop {
        match &*up.borrow_and_update() {
            Up::Client {
                generation: current, ..
            } if *current == generation => {}
            Up::Down { reason } => return reason.to_string(),
            Up::Client { .. } | Up::NotYet => return "the connection was made anew".to_owned(),
        }
        // The sender lives as long as we do.
        let _ = up.changed().await;
    }
}
