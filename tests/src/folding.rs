//! A zone of etcd as the control plane folds it: what a source would say goes in, what is published comes out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nodens::publish::Publisher;
use nodens::rebuild::{EtcdZone, Rebuild};
use nodens_engine::services::ServiceTree;
use nodens_engine::snapshot::{Data, Published, ZoneId};
use nodens_engine::zone::Zone;
use nodens_sources::Change;
use nodens_sources::etcd::{Entry, Event, LeaseId, Message, Service, Status, keys_of_zone};

use crate::served::{hash, name};

/// The `path` of all sources here.
pub const PATH: &str = "skydns";

/// A value and its lease.
pub type Value = (String, Option<LeaseId>);

/// One zone, published under number 0.
#[derive(Debug)]
pub struct Folding {
    rebuild: Rebuild,
    publisher: Arc<Publisher>,
    published: Arc<Published>,
    own: Vec<u8>,
    revision: i64,
}

impl Folding {
    /// A zone of which nothing has been read.
    pub fn new(zone: &str) -> Self {
        let apex = name(zone);
        let own = keys_of_zone(PATH, apex.as_name());
        let published = Arc::new(Published::default());
        let publisher = Arc::new(Publisher::new(Arc::clone(&published)));
        let tree = ServiceTree::unsynced(apex.as_name(), 1, hash());
        publisher.zone(ZoneId(0), Zone::Services(tree.clone()));
        let zone = EtcdZone {
            id: ZoneId(0),
            own_key: own.clone(),
            tree,
            synced: Arc::new(AtomicBool::new(false)),
        };
        let rebuild = Rebuild::new(
            vec![zone],
            (30, 86_400),
            Arc::clone(&publisher),
            Arc::new(Status::default()),
        );
        Self {
            rebuild,
            publisher,
            published,
            own,
            revision: 1,
        }
    }

    /// Whatever a source says.
    pub fn apply(&mut self, message: Message) {
        self.rebuild.apply(message);
    }

    /// A read begins.
    pub fn reset(&mut self) {
        self.say(vec![Change::Reset]);
    }

    /// Part of a read, keys relative to the zone's and ascending.
    pub fn page(&mut self, page: &[(&String, &Value)]) {
        let changes = page.iter().map(|(key, value)| self.upsert(key, value)).collect();
        self.say(changes);
    }

    /// The read is over.
    pub fn synced(&mut self) {
        self.say(vec![Change::Synced {
            revision: self.revision,
        }]);
    }

    /// A whole read.
    pub fn read<'a>(&mut self, keys: impl Iterator<Item = (&'a String, &'a Value)>) {
        self.reset();
        self.page(&keys.collect::<Vec<_>>());
        self.synced();
    }

    /// All that one revision changed; no value is a deletion.
    pub fn revision(&mut self, changes: &[(String, Option<Value>)]) {
        self.revision += 1;
        let change = |(key, value): &(String, Option<Value>)| match value {
            Some(value) => self.upsert(key, value),
            None => Change::Remove { key: self.key(key) },
        };
        let changes = changes.iter().map(change).collect();
        self.say(changes);
    }

    /// The source is out of reach.
    pub fn lost(&mut self, reason: &str) {
        self.say(vec![Change::Lost {
            reason: reason.to_owned(),
        }]);
    }

    /// Who publishes.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// What a worker loads from.
    pub fn snapshots(&self) -> &Arc<Published> {
        &self.published
    }

    /// What workers would load now.
    pub fn published(&self) -> Arc<Data> {
        Arc::clone(&self.published.load().1)
    }

    /// The zone in it.
    ///
    /// # Panics
    /// It is not there.
    pub fn tree(&self) -> ServiceTree {
        match self.published().zone(ZoneId(0)) {
            Some(Zone::Services(tree)) => tree.clone(),
            _ => panic!("the zone is one of services"),
        }
    }

    /// The keys in it, relative to the zone's, ascending.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.tree().keys().scan(b"", |service| {
            keys.push(String::from_utf8_lossy(&service.key).into_owned());
            std::ops::ControlFlow::Continue(())
        });
        keys
    }

    fn key(&self, relative: &str) -> Box<[u8]> {
        if relative.is_empty() {
            self.own.clone().into()
        } else {
            [&self.own, &b"/"[..], relative.as_bytes()].concat().into()
        }
    }

    fn upsert(&self, key: &str, (value, lease): &Value) -> Change<Entry> {
        let value = Entry {
            value: Service::parse(value.as_bytes()),
            lease: *lease,
        };
        Change::Upsert {
            key: self.key(key),
            value,
        }
    }

    fn say(&mut self, changes: Vec<Change<Entry>>) {
        self.apply(Message::Event(Event {
            zone: 0,
            changes,
            revision: self.revision,
        }));
    }
}
