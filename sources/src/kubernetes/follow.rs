//! One kind of objects, for ever: asks what [`step`](super::step) wants and feeds it the replies.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, FutureExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING};
use kube::Client;
use tokio::time::{sleep, timeout};

use super::Change;
use super::decode::{self, Object, Rules, decode};
use super::kind::Kind;
use super::raw::{Raw, RawEvent, RawPage, RawStatus};
use super::run::Source;
use super::step::{Failure, Request, Response, Step, Then};
use crate::quiet::Quiet;
use crate::{Level, backoff};

/// Objects of a page.
const PAGE: u32 = 500;
/// The longest line of a stream: etcd refuses objects of more than 1.5 MB.
const LINE_MAX: usize = 16 * 1024 * 1024;
/// The longest page.
const PAGE_MAX: u64 = 256 * 1024 * 1024;
/// Until the head of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(12);
/// Without the head of an answer for so long, the same is asked once more beside it: the server may be slow, or the connection dead.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// From one piece of a list to the next; twice as long after each list that broke off, this often.
const PIECE_MIN: Duration = Duration::from_secs(3);
const PIECE_DOUBLINGS: u32 = 3;
/// How long a watch is asked to last. A connection that died unnoticed is found out at the end of it.
const WATCH: Duration = Duration::from_secs(3);
/// The longest, where a limit of requests makes them dear.
const WATCH_MAX: Duration = Duration::from_secs(300);
/// How much later than asked for a watch may end.
const WATCH_LATE: Duration = Duration::from_secs(1);
/// A limit of requests leaves this many of them to each watch.
const WATCH_TURNS: u32 = 16;

pub(super) struct Follower<'s> {
    source: &'s Source,
    kind: Kind,
    rules: Rules<'s>,
    step: Step,
    quiet: Quiet,
    /// What was decoded and not handed over yet.
    changes: Vec<Change>,
    seed: u64,
    /// Requests so far.
    asked: u32,
    /// Attempts in a row that came to nothing.
    failed: u32,
    /// It was said that something is wrong, and not yet that it is over.
    in_trouble: bool,
}

impl<'s> Follower<'s> {
    pub(super) fn new(source: &'s Source, kind: Kind) -> Self {
        Self {
            source,
            kind,
            rules: Rules::of(&source.settings),
            step: Step::new(kind),
            quiet: Quiet::default(),
            changes: Vec::new(),
            seed: RandomState::new().hash_one(kind),
            asked: 0,
            failed: 0,
            in_trouble: false,
        }
    }

    pub(super) async fn follow(mut self) {
        loop {
            let then = match self.source.link.client().await {
                Ok(client) => self.ask(&client).await,
                Err(error) => {
                    self.say(&error.to_string());
                    Then::Wait
                }
            };
            if then == Then::Wait {
                sleep(backoff::delay(self.failed, self.seed, backoff::DELAY_AWAY_MAX)).await;
                self.failed = self.failed.saturating_add(1);
            }
        }
    }

    /// Makes one request and takes all of its answer.
    async fn ask(&mut self, client: &Client) -> Then {
        self.asked = self.asked.wrapping_add(1);
        let request = self.step.request();
        if self.asked > 1 && matches!(request, Request::Watch { .. }) {
            self.source.status.count_restart(self.kind);
        }
        let turn = self.source.settings.limits.every.unwrap_or_default();
        let watch = turn.saturating_mul(WATCH_TURNS).clamp(WATCH, WATCH_MAX);
        let uri = uri(self.kind, self.source, &request, watch);
        let body = match answer(client, &uri, turn).await {
            Ok(body) => body,
            Err(error) => {
                let failure = error.map_or_else(
                    || Failure::Broken("no answer in time".to_owned()),
                    |error| failure(&error, request == Request::Stream),
                );
                if let Failure::Unknown(_) = failure {
                    self.source.link.forget().await;
                }
                return self.fail(failure).await;
            }
        };
        self.source.status.set_follows(self.kind, true);
        self.source.status.hear(self.kind);
        match request {
            Request::Page { .. } => self.page(body).await,
            Request::Stream => self.events(body, self.piece_max()).await,
            Request::Watch { .. } => self.events(body, watch + WATCH_LATE).await,
        }
    }

    async fn page(&mut self, body: impl AsyncBufRead) -> Then {
        let mut text = Vec::new();
        let mut body = pin!(body.take(PAGE_MAX));
        loop {
            let piece = match timeout(self.piece_max(), body.fill_buf()).await {
                Err(_) => return self.fail(Failure::Silent).await,
                Ok(Err(error)) => return self.fail(Failure::Broken(error.to_string())).await,
                Ok(Ok(piece)) => piece,
            };
            if piece.is_empty() {
                break;
            }
            text.extend_from_slice(piece);
            let len = piece.len();
            body.consume_unpin(len);
        }
        let page: RawPage = match serde_json::from_slice(&text) {
            Ok(page) => page,
            Err(error) => return self.fail(Failure::Broken(format!("a page of no use: {error}"))).await,
        };
        drop(text);
        let objects = page.items.unwrap_or_default();
        let objects: Vec<Object> = objects
            .into_iter()
            .map(|raw| decode(self.kind, self.rules, raw))
            .collect();
        for object in &objects {
            self.tell_bad(object);
        }
        let token = Some(page.metadata.token).filter(|token| !token.is_empty());
        let response = Response::Page {
            objects,
            version: page.metadata.resource_version,
            token,
        };
        let then = self.take(response).await;
        self.flush().await;
        then
    }

    /// Takes events until the stream ends, or is silent for too long.
    async fn events(&mut self, body: impl AsyncBufRead, silence_max: Duration) -> Then {
        let begun = Instant::now();
        let mut body = pin!(body);
        let mut line = Vec::new();
        loop {
            // What has come already is taken before anything is handed over.
            let room = (LINE_MAX + 1).saturating_sub(line.len()) as u64;
            let ready = body.as_mut().take(room).read_until(b'\n', &mut line).now_or_never();
            let read = match ready {
                Some(read) => read,
                None => {
                    self.flush().await;
                    let wait = silence_max.saturating_sub(if self.step.is_listing() {
                        Duration::ZERO
                    } else {
                        begun.elapsed()
                    });
                    let room = (LINE_MAX + 1).saturating_sub(line.len()) as u64;
                    match timeout(wait, body.as_mut().take(room).read_until(b'\n', &mut line)).await {
                        Ok(read) => read,
                        Err(_) => return self.fail(Failure::Silent).await,
                    }
                }
            };
            match read {
                Err(error) => {
                    self.flush().await;
                    return self.fail(Failure::Broken(error.to_string())).await;
                }
                Ok(_) if line.len() > LINE_MAX => {
                    return self
                        .fail(Failure::Broken("an object that is too large".to_owned()))
                        .await;
                }
                Ok(_) if !line.ends_with(b"\n") => {
                    self.flush().await;
                    let lived = begun.elapsed();
                    return self.take(Response::Ended { lived }).await;
                }
                Ok(_) => {}
            }
            self.source.status.hear(self.kind);
            let then = match self.event(&line) {
                Some(Response::Failed(failure)) => return self.fail(failure).await,
                Some(response) => self.take(response).await,
                None => Then::Continue,
            };
            line.clear();
            if then != Then::Continue {
                self.flush().await;
                return then;
            }
            if self.changes.len() >= super::CHANGES_MAX {
                self.flush().await;
            }
        }
    }

    fn event(&mut self, line: &[u8]) -> Option<Response> {
        let broken =
            |error: serde_json::Error| Response::Failed(Failure::Broken(format!("an event of no use: {error}")));
        let event: RawEvent<'_> = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => return Some(broken(error)),
        };
        if event.kind == "ERROR" {
            let status: RawStatus = serde_json::from_str(event.object.get()).unwrap_or_default();
            return Some(Response::Failed(status.failure(self.step.is_listing())));
        }
        let raw: Raw = match serde_json::from_str(event.object.get()) {
            Ok(raw) => raw,
            Err(error) => return Some(broken(error)),
        };
        let version = raw.metadata.resource_version.clone();
        Some(match &*event.kind {
            "ADDED" | "MODIFIED" => {
                let object = decode(self.kind, self.rules, raw);
                self.tell_bad(&object);
                Response::Changed { object, version }
            }
            "DELETED" => Response::Deleted {
                key: decode::key(&raw),
                version,
            },
            "BOOKMARK" => Response::Bookmark {
                version,
                whole: raw
                    .metadata
                    .annotations
                    .is_some_and(|all| all.whole.as_deref() == Some("true")),
            },
            _ => return None,
        })
    }

    /// Gives the step a reply.
    async fn take(&mut self, response: Response) -> Then {
        let lists = self.step.lists();
        let ended = matches!(response, Response::Ended { .. });
        let then = self.step.apply(response, &mut self.changes);
        if !ended && then != Then::Wait && !self.step.is_listing() {
            self.failed = 0;
        }
        if self.step.lists() > lists {
            self.flush().await;
            self.quiet.clear();
            if lists == 0 {
                self.source.listed().await;
            } else {
                self.source.status.count_resync(self.kind);
                self.tell("listed again");
            }
            self.in_trouble = false;
        } else if self.in_trouble && then != Then::Wait && !self.step.is_listing() {
            self.in_trouble = false;
            self.tell("followed again");
        }
        then
    }

    async fn fail(&mut self, failure: Failure) -> Then {
        self.source.status.set_follows(self.kind, false);
        let is_news = !matches!(failure, Failure::Expired | Failure::Unsupported(_));
        if is_news {
            let text = self.failure_text(&failure);
            self.say(&text);
        }
        let then = self.take(Response::Failed(failure)).await;
        self.flush().await;
        then
    }

    fn failure_text(&self, failure: &Failure) -> String {
        let (resource, group) = self.kind.resource();
        let group = if group.is_empty() { "core" } else { group };
        let (text, help) = match failure {
            Failure::Expired => ("too old a version", String::new()),
            Failure::Silent => ("the connection is silent", String::new()),
            Failure::Unknown(text) => (&**text, "; the API server does not take our credentials".to_owned()),
            Failure::Denied(text) => (
                &**text,
                format!("; the ClusterRole needs `list` and `watch` on {resource} (API group {group})"),
            ),
            Failure::Missing(text) => (
                &**text,
                format!("; the API server has no {resource} (API group {group})"),
            ),
            Failure::Unsupported(text) | Failure::Refused(text) | Failure::Broken(text) => (&**text, String::new()),
        };
        let verb = if self.step.is_listing() { "list" } else { "watch" };
        format!(
            "Failed to watch: failed to {verb} {}: {text}{help}",
            self.kind.type_name()
        )
    }

    async fn flush(&mut self) {
        let (objects, bad) = (self.step.len(), self.step.bad());
        self.source.status.set_objects(self.kind, objects, bad);
        self.source.hand_over(&mut self.changes).await;
    }

    fn tell_bad(&mut self, object: &Object) {
        if let Some(bad) = &object.bad {
            let name = match &*object.key.namespace {
                "" => object.key.name.to_string(),
                namespace => format!("{namespace}/{}", object.key.name),
            };
            let text = format!("{} {name}: {bad}; this part is left out", self.kind.label());
            if self.quiet.says(&text, Instant::now()) {
                (self.source.log)(Level::Warning, &text);
            }
        }
    }

    fn say(&mut self, text: &str) {
        if self.quiet.says(text, Instant::now()) {
            (self.source.log)(Level::Error, text);
            self.in_trouble = true;
        }
    }

    fn tell(&self, what: &str) {
        (self.source.log)(Level::Info, &format!("{} {what}", self.kind.type_name()));
    }

    fn piece_max(&self) -> Duration {
        PIECE_MIN * (1 << self.failed.min(PIECE_DOUBLINGS))
    }
}

/// The first answer of several tries; none if there is none in time. `turn` is how long a request may have to wait for its own.
async fn answer(client: &Client, uri: &str, turn: Duration) -> Result<impl AsyncBufRead + use<>, Option<kube::Error>> {
    let ask = || async {
        // A watch of 1.37 and later is compressed event by event, which the client cannot read.
        let head = http::Request::get(uri)
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "identity")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        client.request_stream(head).await
    };
    let wait = turn.saturating_mul(WATCH_TURNS / 2).saturating_add(ASK_AGAIN);
    let mut tries = FuturesUnordered::new();
    for _ in 0..ANSWER_MAX.as_secs() / ASK_AGAIN.as_secs() {
        tries.push(ask());
        if let Ok(Some(answer)) = timeout(wait, tries.next()).await {
            return answer.map_err(Some);
        }
    }
    Err(None)
}

fn uri(kind: Kind, source: &Source, request: &Request, watch: Duration) -> String {
    let begin = format!("{}?", kind.path());
    let behind = begin.len();
    let mut query = form_urlencoded::Serializer::for_suffix(begin, behind);
    if let Some(labels) = kind.label_selector(&source.settings) {
        query.append_pair("labelSelector", &labels);
    }
    if let Some(fields) = kind.field_selector() {
        query.append_pair("fieldSelector", &fields);
    }
    match request {
        Request::Stream => {
            query.append_pair("watch", "1");
            query.append_pair("sendInitialEvents", "true");
            query.append_pair("resourceVersionMatch", "NotOlderThan");
            query.append_pair("allowWatchBookmarks", "true");
        }
        Request::Page { token } => {
            query.append_pair("limit", &PAGE.to_string());
            if let Some(token) = token {
                query.append_pair("continue", token);
            }
        }
        Request::Watch { version } => {
            query.append_pair("watch", "1");
            query.append_pair("resourceVersion", version);
            query.append_pair("allowWatchBookmarks", "true");
            query.append_pair("timeoutSeconds", &watch.as_secs().to_string());
        }
    }
    query.finish()
}

fn failure(error: &kube::Error, is_stream: bool) -> Failure {
    match error {
        kube::Error::Api(status) => RawStatus {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        }
        .failure(is_stream),
        other => Failure::Broken(causes(other)),
    }
}

/// An error with what caused it, each said once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !text.contains(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    text
}

impl RawStatus {
    /// What it means; `is_stream`: of a request for a stream of all objects.
    fn failure(self, is_stream: bool) -> Failure {
        let text = if self.message.is_empty() {
            format!("{} {}", self.code, self.reason)
        } else {
            self.message
        };
        match (self.code, &*self.reason) {
            (410, _) | (_, "Expired" | "Gone") => Failure::Expired,
            // Of a store that was restored from a backup: this version will not come again.
            (504, _) if text.contains("Too large resource version") => Failure::Expired,
            (401, _) => Failure::Unknown(text),
            (403, _) => Failure::Denied(text),
            (404, _) => Failure::Missing(text),
            // Also 500, in the stream itself: what stores the objects cannot say when all are told.
            (400 | 405 | 422 | 500, _) if is_stream => Failure::Unsupported(text),
            _ => Failure::Refused(text),
        }
    }
}
