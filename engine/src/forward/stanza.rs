//! One `forward` or `proxy` of a Corefile: whom to ask about which names, in which order, and for how long.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nodens_wire::{Name, NameBuf, Rcode};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom as _;
use smallvec::SmallVec;

use super::Upstream;

/// Which upstream is asked first, and which next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In any order.
    Random,
    /// Each query begins with the next one; the others follow as they are written.
    RoundRobin,
    /// As they are written.
    Sequential,
    /// The one with the fewest questions in flight, all workers counted.
    LeastConn,
}

/// How it is found out that an upstream is down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one a stanza")]
pub enum Checking {
    /// Not at all (`max_fails 0`).
    Never,
    /// By probes that begin with a failure and end with a reply.
    Probes {
        /// More failed probes than this in a row and it is down.
        fails_max: u32,
        /// Time between two of them.
        interval: Duration,
        /// The name asked about.
        domain: NameBuf,
        /// Whether they want recursion.
        recursion: bool,
    },
    /// By failures of queries that were not forgotten yet; a time-out is none. As the old `proxy` did it.
    Failures {
        /// As many and it is down.
        fails_max: u32,
        /// A failure is forgotten after this.
        timeout: Duration,
    },
}

/// What is written in a stanza.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The names that are asked about: this one and all below.
    pub from: NameBuf,
    /// But not these and those below.
    pub except: Box<[NameBuf]>,
    /// Whom to ask. Each belongs to one stanza alone.
    pub upstreams: Box<[Arc<Upstream>]>,
    /// In which order.
    pub policy: Policy,
    /// Over TCP whatever the client came by.
    pub force_tcp: bool,
    /// Over UDP whatever the client came by, and again over TCP where the reply was cut.
    pub prefer_udp: bool,
    /// A stream that was idle for longer is not used again.
    pub expire: Duration,
    /// Nor is one that is older.
    pub max_age: Option<Duration>,
    /// Idle streams that one worker keeps to one upstream.
    pub idle_max: Option<usize>,
    /// How long one upstream may take for a reply.
    pub read_timeout: Duration,
    /// Failed attempts of one query; `None` counts none.
    pub attempts_max: Option<u32>,
    /// Who is down.
    pub checking: Checking,
    /// Queries in flight, over all workers; one more is refused.
    pub concurrent_max: Option<usize>,
    /// After a reply with one of these, the next upstream is asked.
    pub failover: Box<[Rcode]>,
    /// After a reply with one of these, the next stanza is asked.
    pub next: Box<[Rcode]>,
    /// And after one without an answer.
    pub next_on_nodata: bool,
    /// With all upstreams down, none is tried.
    pub failfast: bool,
    /// The address that all sockets come from.
    pub source_address: Option<IpAddr>,
}

impl Settings {
    /// A stanza without options.
    #[must_use]
    pub fn new(from: NameBuf, upstreams: Box<[Arc<Upstream>]>) -> Self {
        Self {
            from,
            except: Box::default(),
            attempts_max: Some(2 * upstreams.len() as u32),
            upstreams,
            policy: Policy::Random,
            force_tcp: false,
            prefer_udp: false,
            expire: Duration::from_secs(10),
            max_age: None,
            idle_max: None,
            read_timeout: Duration::from_secs(2),
            checking: Checking::Probes {
                fails_max: 2,
                interval: Duration::from_millis(500),
                domain: NameBuf::root(),
                recursion: true,
            },
            concurrent_max: None,
            failover: Box::default(),
            next: Box::default(),
            next_on_nodata: false,
            failfast: false,
            source_address: None,
        }
    }
}

/// Upstreams by their numbers; most stanzas have few.
pub(super) type Order = SmallVec<[u16; 8]>;

/// A stanza, with what all workers have to know of each other.
#[derive(Debug)]
pub struct Stanza {
    settings: Settings,
    /// Queries that `round_robin` has counted.
    turn: AtomicUsize,
    in_flight: AtomicUsize,
}

impl Stanza {
    /// A stanza that has asked nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            turn: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
        }
    }

    /// What is written in it.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether it is about this name.
    #[must_use]
    pub fn matches(&self, name: Name<'_>) -> bool {
        let Settings { from, except, .. } = &self.settings;
        let from = from.as_name();
        name.is_within(from)
            && (name.len() == from.len() || !except.iter().any(|except| name.is_within(except.as_name())))
    }

    /// Whether such a reply is a reason to go on with the next stanza, if there is one.
    #[must_use]
    pub fn goes_on_after(&self, rcode: Rcode, is_nodata: bool) -> bool {
        self.settings.next.contains(&rcode) || self.settings.next_on_nodata && is_nodata
    }

    /// Queries in flight, over all workers.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The upstreams in the order of the policy, without those that were taken out.
    pub(super) fn order(&self, random: &mut ChaCha8Rng) -> Order {
        let numbered = (0..).zip(&self.settings.upstreams);
        let mut order: Order = numbered
            .filter_map(|(at, upstream)| (!upstream.is_out()).then_some(at))
            .collect();
        if order.len() < 2 {
            return order;
        }
        match self.settings.policy {
            Policy::Sequential => {}
            Policy::Random => order.shuffle(random),
            Policy::RoundRobin => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
                let first = turn % order.len();
                order[..=first].rotate_right(1);
            }
            Policy::LeastConn => {
                order.shuffle(random);
                order.sort_by_cached_key(|&at| self.settings.upstreams[usize::from(at)].in_flight());
            }
        }
        order
    }
}

/// One query in flight of a stanza.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Stanza>);

impl InFlight {
    /// Unless there are as many as there may be.
    pub(super) fn begin(stanza: &Arc<Stanza>) -> Result<Self, usize> {
        let this = Self(Arc::clone(stanza));
        let before = stanza.in_flight.fetch_add(1, Ordering::Relaxed);
        match stanza.settings.concurrent_max {
            Some(max) if before >= max => Err(max),
            _ => Ok(this),
        }
    }

    pub(super) fn stanza(&self) -> &Arc<Stanza> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
