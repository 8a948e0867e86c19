//! The SkyDNS kind of zone: services by key, and for each name that exists what is needed to answer it at once.
//!
//! ```text
//!   names (hash trie)                     keys (B+ tree, byte order)
//!   "web" ──> Few [web/x1, web/x2]   ┌──> ... web/x1 web/x2 www ...
//!   "x1.web" ──> One, rendered       │
//!   ""    ──> Many ── range of keys ─┘
//! ```
//!
//! A change replaces the path to one key, and the entries of the names above it that hold few services. Names with
//! many have nothing in them that could change.

use std::ops::ControlFlow;
use std::sync::Arc;

use nodens_wire::{Name, NameBuf, label};

use super::component;
use super::render::{self, Lone};
use super::service::Service;
use super::stubs::{self, Stubs};
use crate::forward::Stanza;
use crate::zone::keys::Keys;
use crate::zone::small::Small;
use crate::zone::soa::{Soa, next_serial};
use crate::zone::trie::{Keyed, NameHash, Spot, Trie};

/// Services that an entry holds itself; a name with more is answered from the range of its keys.
pub const FEW_MAX: usize = 8;

/// Names up to this length stand in their entry.
const NAME_INLINE: usize = 38;

/// A name that exists.
///
/// The fields that every answer reads come first and lie side by side, prepared bytes included.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    name: Small<NAME_INLINE>,
    /// The answers of a name with one service that needs no look-up and no clock.
    pub(crate) lone: Option<Lone>,
    pub(crate) below: Below,
}

impl Entry {
    /// Whether it is the entry of this name.
    #[inline]
    pub(crate) fn is(&self, labels: &[u8]) -> bool {
        label::eq(self.name.as_bytes(), labels)
    }

    /// Has its cache lines brought in, all at once.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.name.as_bytes().len());
        if let Some(lone) = &self.lone {
            lone.touch();
        }
    }
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

/// The services at a name and below it, in key order.
#[derive(Clone, Debug)]
pub(crate) enum Below {
    One(Arc<Service>),
    Few(Box<[Arc<Service>]>),
    /// More than [`FEW_MAX`].
    Many,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ServiceTree {
    apex: NameBuf,
    hash: NameHash,
    synced: bool,
    serial: u32,
    keys: Keys<Service>,
    names: Trie<Entry>,
    bad: usize,
    pub(crate) soa: Arc<Soa>,
    /// What is made of the keys below `dns/stub`.
    pub(crate) stubs: Option<Arc<Stubs>>,
}

impl ServiceTree {
    /// A zone of which nothing has been read yet.
    #[must_use]
    pub fn unsynced(apex: Name<'_>, serial: u32, hash: NameHash) -> Self {
        let apex = apex.to_buf().folded();
        let soa = Arc::new(render::soa(apex.as_name(), serial));
        Self {
            apex,
            hash,
            synced: false,
            serial,
            keys: Keys::default(),
            names: Trie::default(),
            bad: 0,
            soa,
            stubs: None,
        }
    }

    /// The zone's name, in lower case.
    #[must_use]
    pub fn apex(&self) -> Name<'_> {
        self.apex.as_name()
    }

    /// All of the zone has been read at least once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// SOA serial.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The services by key.
    #[must_use]
    pub fn keys(&self) -> &Keys<Service> {
        &self.keys
    }

    /// Keys whose value does not parse.
    #[must_use]
    pub fn bad_keys(&self) -> usize {
        self.bad
    }

    /// Names that exist.
    #[must_use]
    pub fn names_len(&self) -> usize {
        self.names.len()
    }

    /// Whom it has questions for stub zones sent to.
    pub fn stub_stanzas(&self) -> impl Iterator<Item = &Stanza> {
        self.stubs.iter().flat_map(|stubs| stubs.stanzas())
    }

    /// The entry of a name; its hash is that of `labels`, which are folded and relative to the apex.
    #[inline]
    pub(crate) fn entry(&self, hash: u64, labels: &[u8]) -> Option<&Entry> {
        self.names.get(hash, labels).map(|entry| &**entry)
    }

    #[inline]
    pub(crate) fn hash_of(&self, labels: &[u8]) -> u64 {
        self.hash.of(labels)
    }

    /// See [`Trie::touch`].
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> Spot<'_, Entry> {
        self.names.touch(hash)
    }

    /// Begins a change. The tree itself stays as it is.
    #[must_use]
    pub fn edit(&self) -> Editor {
        Editor {
            tree: self.clone(),
            stubs_changed: false,
        }
    }
}

/// A tree that is being changed.
#[derive(Debug)]
pub struct Editor {
    tree: ServiceTree,
    stubs_changed: bool,
}

impl Editor {
    /// Puts a service at its key.
    pub fn put(&mut self, service: Service) {
        let service = Arc::new(service);
        self.tree.bad += usize::from(service.bad);
        if let Some(old) = self.tree.keys.insert(Arc::clone(&service)) {
            self.tree.bad -= usize::from(old.bad);
        }
        self.refresh_path(&service.key);
    }

    /// Takes out the service at a key; tells whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some(old) = self.tree.keys.remove(key) else {
            return false;
        };
        self.tree.bad -= usize::from(old.bad);
        self.refresh_path(key);
        true
    }

    /// The services so far.
    #[must_use]
    pub fn keys(&self) -> &Keys<Service> {
        &self.tree.keys
    }

    /// All has been read.
    pub fn set_synced(&mut self) {
        self.tree.synced = true;
    }

    /// The new version. Its serial is `unix_secs`, or one more than the last where that is greater (RFC 1982 order).
    #[must_use]
    pub fn finish(mut self, unix_secs: u64) -> ServiceTree {
        self.tree.serial = next_serial(self.tree.serial, unix_secs);
        self.tree.soa = Arc::new(render::soa(self.tree.apex.as_name(), self.tree.serial));
        if self.stubs_changed {
            self.tree.stubs = Stubs::of(&self.tree.keys, self.tree.stubs.as_deref(), &self.tree.hash);
        }
        self.tree
    }

    /// The entries of the apex, of the key's name, and of all names between them.
    fn refresh_path(&mut self, key: &[u8]) {
        self.stubs_changed |= stubs::is_for(key);
        let mut name = Vec::with_capacity(64);
        self.refresh(b"", &name);
        let mut at = 0;
        while at < key.len() {
            let end = key[at..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(key.len(), |len| at + len);
            let Some(label) = component::label(&key[at..end]) else {
                return;
            };
            if 1 + label.len() + name.len() + self.tree.apex.as_bytes().len() > 255 {
                return;
            }
            name.splice(0..0, std::iter::once(label.len() as u8).chain(label.iter().copied()));
            self.refresh(&key[..end], &name);
            at = end + 1;
        }
    }

    /// Makes the entry of one name anew from the keys at and below `prefix`.
    fn refresh(&mut self, prefix: &[u8], name: &[u8]) {
        let mut few = arrayvec::ArrayVec::<&Arc<Service>, { FEW_MAX + 1 }>::new();
        self.tree.keys.scan_below(prefix, |service| {
            few.push(service);
            if few.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let hash = self.tree.hash.of(name);
        let below = match &few[..] {
            [] => return self.tree.names.remove(hash, name),
            [one] => Below::One(Arc::clone(one)),
            few if few.len() <= FEW_MAX => Below::Few(few.iter().map(|&service| Arc::clone(service)).collect()),
            _ => {
                if let Some(entry) = self.tree.names.get(hash, name)
                    && matches!(entry.below, Below::Many)
                {
                    return;
                }
                Below::Many
            }
        };
        let lone = match &below {
            Below::One(service) => render::lone(&self.tree, service, name),
            _ => None,
        };
        self.tree.names.insert(
            hash,
            Arc::new(Entry {
                name: name.into(),
                below,
                lone,
            }),
        );
    }
}
