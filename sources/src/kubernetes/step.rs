//! The way of one kind of objects: what to ask the API server next, and what a reply changes; no I/O.
//!
//! ```text
//!             ┌── list: one stream where the server has it, else pages ──> told one by one
//!   start ──> │     │ its end: what was not named is told to be gone
//!             │     v
//!             │   watch from its version ──> told as it comes
//!             │     │ ended, broken, refused: watch from the last version heard
//!   410 ──────┘ <───┘
//! ```
//!
//! Of each object a name, a hash of what it says and a mark are kept: a list that says what is known tells nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::decode::{Object, removal};
use super::kind::Kind;
use super::{Change, ObjectKey};

/// A stream of all objects that ends by itself after this long, without having said that it is whole, never will.
const STREAM_LIVED: Duration = Duration::from_secs(20);
/// A watch that ends sooner without a word is not asked for again at once.
const WATCH_LIVED: Duration = Duration::from_secs(1);

/// What to ask the API server next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// All objects as one stream, which is a watch.
    Stream,
    /// All objects in pages; the first one without a token.
    Page { token: Option<String> },
    /// What changes from a version on.
    Watch { version: String },
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// One object, of a stream or a watch.
    Changed { object: Object, version: String },
    /// One that is gone.
    Deleted { key: ObjectKey, version: String },
    /// All up to this version was said.
    Bookmark { version: String, whole: bool },
    /// One page of a list.
    Page {
        objects: Vec<Object>,
        version: String,
        token: Option<String>,
    },
    /// The stream or watch came to its end.
    Ended { lived: Duration },
    /// There is no answer, or none any more.
    Failed(Failure),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The version, or the token of a page, is too old or of another history.
    Expired,
    /// The server does not know the parameters of the request.
    Unsupported(String),
    /// We are not known to the server.
    Unknown(String),
    /// It may not be read by us.
    Denied(String),
    /// The server has no such resource.
    Missing(String),
    /// Another answer.
    Refused(String),
    /// No answer at all.
    Broken(String),
    /// Nothing more of an answer that has begun.
    Silent,
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// With the next event of the stream or watch.
    Continue,
    /// With the next request.
    Ask,
    /// With the next request after a while.
    Wait,
}

/// The state of one kind.
#[derive(Debug)]
pub(super) struct Step {
    kind: Kind,
    hasher: RandomState,
    /// By `namespace/name`.
    known: HashMap<Box<str>, Known>,
    /// The key that is looked for.
    wanted: String,
    phase: Phase,
    /// The server has streams of all objects.
    streams: bool,
    lists: u64,
    bad: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    List {
        token: Option<String>,
    },
    /// `heard`: something was said since it was asked for.
    Watch {
        version: String,
        heard: bool,
    },
}

/// What is kept of an object: two marks, and as much of the hash of what it says as is left.
#[derive(Clone, Copy, Debug)]
struct Known(u64);

impl Known {
    /// It was named since the list began.
    const NAMED: u64 = 1;
    /// A part of it had to be left out.
    const BAD: u64 = 2;
    const HASH: u64 = !3;

    fn has(self, mark: u64) -> bool {
        self.0 & mark != 0
    }

    fn says(self, hash: u64) -> bool {
        (self.0 ^ hash) & Self::HASH == 0
    }
}

impl Step {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            hasher: RandomState::new(),
            known: HashMap::new(),
            wanted: String::new(),
            phase: Phase::List { token: None },
            streams: true,
            lists: 0,
            bad: 0,
        }
    }

    /// What to ask now.
    pub(super) fn request(&self) -> Request {
        match &self.phase {
            Phase::List { .. } if self.streams => Request::Stream,
            Phase::List { token } => Request::Page { token: token.clone() },
            Phase::Watch { version, .. } => Request::Watch {
                version: version.clone(),
            },
        }
    }

    /// Takes the reply to [`Self::request`], or an event of its stream; adds what changes.
    pub(super) fn apply(&mut self, response: Response, changes: &mut Vec<Change>) -> Then {
        match response {
            Response::Changed { object, version } => {
                self.upsert(object, changes);
                self.hear(version)
            }
            Response::Deleted { key, version } => {
                self.remove(key, changes);
                self.hear(version)
            }
            Response::Bookmark { version, whole } if self.is_listing() => {
                if whole {
                    self.end_list(version, changes);
                    return Then::Ask;
                }
                Then::Continue
            }
            Response::Bookmark { version, .. } => self.hear(version),
            Response::Page {
                objects,
                version,
                token,
            } => {
                for object in objects {
                    self.upsert(object, changes);
                }
                match token {
                    Some(token) => self.phase = Phase::List { token: Some(token) },
                    None => self.end_list(version, changes),
                }
                Then::Ask
            }
            Response::Ended { lived } => self.ended(lived),
            Response::Failed(failure) => self.failed(&failure),
        }
    }

    /// Objects that something was told of and that are not gone.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Those of them of which a part had to be left out.
    pub(super) fn bad(&self) -> usize {
        self.bad
    }

    /// Lists that came to their end.
    pub(super) fn lists(&self) -> u64 {
        self.lists
    }

    /// What is there is still being told.
    pub(super) fn is_listing(&self) -> bool {
        matches!(self.phase, Phase::List { .. })
    }

    fn hear(&mut self, heard: String) -> Then {
        if let Phase::Watch {
            version,
            heard: is_heard,
        } = &mut self.phase
        {
            *version = heard;
            *is_heard = true;
        }
        Then::Continue
    }

    fn ended(&mut self, lived: Duration) -> Then {
        match &mut self.phase {
            Phase::List { .. } => {
                self.streams &= lived < STREAM_LIVED;
                self.list_anew();
                Then::Wait
            }
            Phase::Watch { heard, .. } => {
                let is_well = *heard || lived >= WATCH_LIVED;
                *heard = false;
                if is_well { Then::Ask } else { Then::Wait }
            }
        }
    }

    fn failed(&mut self, failure: &Failure) -> Then {
        match (failure, &mut self.phase) {
            // Some servers never say that a stream is whole.
            (Failure::Unsupported(_) | Failure::Silent, Phase::List { .. }) if self.streams => {
                self.streams = false;
                self.list_anew();
                return Then::Ask;
            }
            (Failure::Expired, _) | (_, Phase::List { .. }) => self.list_anew(),
            (_, Phase::Watch { heard, .. }) => *heard = false,
        }
        Then::Wait
    }

    fn list_anew(&mut self) {
        self.phase = Phase::List { token: None };
        self.known.values_mut().for_each(|known| known.0 &= !Known::NAMED);
    }

    fn end_list(&mut self, version: String, changes: &mut Vec<Change>) {
        let Self { kind, known, bad, .. } = self;
        known.retain(|key, known| {
            let stays = known.has(Known::NAMED);
            if stays {
                known.0 &= !Known::NAMED;
            } else {
                *bad -= usize::from(known.has(Known::BAD));
                changes.push(removal(*kind, object_key(key)));
            }
            stays
        });
        self.lists += 1;
        self.phase = Phase::Watch { version, heard: false };
    }

    fn upsert(&mut self, object: Object, changes: &mut Vec<Change>) {
        let Object { key, value, ends, bad } = object;
        self.want(&key);
        if self.kind == Kind::Pods && ends {
            // It keeps the address it has until it is gone, and gets none.
            if let Some(known) = self.known.get_mut(&*self.wanted) {
                known.0 |= Known::NAMED;
            }
            return;
        }
        let Some(value) = value else {
            self.forget(key, changes);
            return;
        };
        let hash = self.hasher.hash_one(&value);
        let marks = Known::NAMED | if bad.is_some() { Known::BAD } else { 0 };
        let now = Known(hash & Known::HASH | marks);
        let before = match self.known.get_mut(&*self.wanted) {
            Some(known) => Some(std::mem::replace(known, now)),
            None => self.known.insert(self.wanted.as_str().into(), now),
        };
        self.bad += usize::from(now.has(Known::BAD));
        self.bad -= usize::from(before.is_some_and(|known| known.has(Known::BAD)));
        if before.is_none_or(|known| !known.says(hash)) {
            changes.push(value.change(self.kind, key));
        }
    }

    fn remove(&mut self, key: ObjectKey, changes: &mut Vec<Change>) {
        self.want(&key);
        self.forget(key, changes);
    }

    fn forget(&mut self, key: ObjectKey, changes: &mut Vec<Change>) {
        if let Some(known) = self.known.remove(&*self.wanted) {
            self.bad -= usize::from(known.has(Known::BAD));
            changes.push(removal(self.kind, key));
        }
    }

    fn want(&mut self, key: &ObjectKey) {
        self.wanted.clear();
        self.wanted.push_str(&key.namespace);
        self.wanted.push('/');
        self.wanted.push_str(&key.name);
    }
}

fn object_key(text: &str) -> ObjectKey {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    ObjectKey {
        namespace: namespace.into(),
        name: name.into(),
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
