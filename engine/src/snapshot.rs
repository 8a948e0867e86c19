//! What a worker reads: the configuration and the data, both immutable, each behind one pointer.
//!
//! A worker loads both once a batch and lets go before it blocks, so it never answers from before its sleep and pins
//! no old version. Whoever publishes keeps what it replaced until nobody reads it any more, and frees it there.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::cache::Cache;
use crate::plan::{Plan, ZoneMap};
use crate::stream::StreamLimits;
use crate::tls::TlsSettings;
use crate::zone::Zone;

/// Where a zone stands in [`Data`]. A number is not given to another zone while a configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZoneId(pub u32);

/// The zones.
#[derive(Clone, Debug, Default)]
pub struct Data {
    zones: Vec<Option<Arc<Zone>>>,
}

impl Data {
    /// A zone, if it is there.
    #[must_use]
    #[inline]
    pub fn zone(&self, id: ZoneId) -> Option<&Zone> {
        self.zones.get(id.0 as usize)?.as_deref()
    }

    /// All that are there.
    pub fn zones(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter_map(Option::as_deref)
    }

    /// One of them, to be kept beyond a batch.
    #[must_use]
    pub fn shared(&self, id: ZoneId) -> Option<&Arc<Zone>> {
        self.zones.get(id.0 as usize)?.as_ref()
    }

    /// The same data with one zone in another version.
    #[must_use]
    pub fn with(&self, id: ZoneId, zone: Zone) -> Self {
        let mut zones = self.zones.clone();
        let at = id.0 as usize;
        if zones.len() <= at {
            zones.resize(at + 1, None);
        }
        zones[at] = Some(Arc::new(zone));
        Self { zones }
    }

    /// The same data without some zones.
    #[must_use]
    pub fn without(&self, ids: &[ZoneId]) -> Self {
        let mut zones = self.zones.clone();
        for id in ids {
            if let Some(zone) = zones.get_mut(id.0 as usize) {
                *zone = None;
            }
        }
        Self { zones }
    }
}

/// A zone of a server block, as the listener's routes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index into [`Config::plans`].
    pub plan: u32,
    /// Index into the workers' counters: one for each server, zone and view.
    pub series: u32,
}

/// Who serves a zone of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One block, for every question.
    Block(Route),
    /// Some blocks, of which the first whose view holds serves the question.
    Views {
        /// The listener's port.
        port: u16,
        /// In the order of the Corefile.
        blocks: Vec<Route>,
    },
}

/// One address and port, and the server blocks that share it.
#[derive(Debug)]
pub struct Listener {
    /// The longest zone that holds a name decides.
    pub routes: ZoneMap<Choice>,
    /// Its port.
    pub port: u16,
    /// Counters of queries that reach no plan.
    pub dropped: u32,
    /// Classes other than IN reach the plans.
    pub any_class: bool,
    /// A panic while answering is not caught: whoever debugs wants to see it.
    pub debug: bool,
    /// What its connections are granted.
    pub streams: StreamLimits,
    /// Its connections are under TLS.
    pub tls: Option<Arc<TlsSettings>>,
}

/// All that the Corefile says to a worker.
#[derive(Debug, Default)]
pub struct Config {
    /// By `ListenerId`.
    pub listeners: Vec<Listener>,
    /// By [`Route::plan`].
    pub plans: Vec<Plan>,
    /// What `cache` keeps, of all blocks.
    pub cache: Option<Arc<Cache>>,
}

/// What is published.
#[derive(Debug, Default)]
pub struct Published {
    config: ArcSwap<Config>,
    data: ArcSwap<Data>,
}

impl Published {
    /// Both, as they are now. Drop them before blocking.
    #[must_use]
    pub fn load(&self) -> (Guard<Arc<Config>>, Guard<Arc<Data>>) {
        // The configuration first: its zones are published before it is.
        let config = self.config.load();
        (config, self.data.load())
    }

    /// Puts another configuration in place; returns the old one, to be kept until nobody reads it.
    pub fn swap_config(&self, config: Arc<Config>) -> Arc<Config> {
        self.config.swap(config)
    }

    /// Puts other data in place; returns the old, to be kept until nobody reads it.
    pub fn swap_data(&self, data: Arc<Data>) -> Arc<Data> {
        self.data.swap(data)
    }
}
