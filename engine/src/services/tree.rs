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
//! many have nothing in them that could change. A name below which no more stands than below the next one is another place
//! of that one's entry: names between a service and its zone cost next to nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrayvec::ArrayVec;
use nodens_wire::{Name, NameBuf, Rtype, label};

use super::component;
use super::render::{self, Lone};
use super::service::Service;
use super::stubs::{self, Stubs};
use crate::answer::Answer;
use crate::forward::Stanza;
use crate::zone::keys::Keys;
use crate::zone::small::Small;
use crate::zone::soa::{Soa, next_serial};
use crate::zone::trie::{Keyed, NameHash, Spot, Trie};

/// Services that an entry holds itself; a name with more is answered from the range of its keys.
pub const FEW_MAX: usize = 8;

/// Names up to this length stand in their entry.
const NAME_INLINE: usize = 38;

/// A name that exists, and the names above it below which nothing else does: their entry is one.
///
/// The fields that every answer reads come first and lie side by side, prepared bytes included.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    /// The longest of them.
    name: Small<NAME_INLINE>,
    pub(crate) below: Below,
}

impl Entry {
    /// Has its cache lines brought in, all at once.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.name.len());
        if let Below::One { lone: Some(lone), .. } = &self.below {
            lone.touch();
        }
    }

    /// Puts the answer for one of its names into `answer`, if it was rendered.
    #[inline]
    pub(crate) fn copy<'z>(&'z self, labels: &[u8], rtype: Rtype, answer: &mut Answer<'z>) -> bool {
        let Below::One { lone: Some(lone), .. } = &self.below else {
            return false;
        };
        if self.name.len() != labels.len() {
            return self.copy_above(lone, labels, rtype, answer);
        }
        let Some(prepared) = lone.prepared(rtype) else {
            return false;
        };
        answer.rendered = Some(prepared);
        true
    }

    /// The same for a name above the longest.
    #[inline(never)]
    fn copy_above<'z>(&'z self, lone: &'z Lone, labels: &[u8], rtype: Rtype, answer: &mut Answer<'z>) -> bool {
        answer.rendered = lone.prepared_above(rtype, self.name.len() - labels.len());
        answer.rendered.is_some()
    }
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        self.name.as_bytes()
    }

    #[inline(always)]
    fn is(&self, labels: &[u8]) -> bool {
        let name = self.name.as_bytes();
        label::eq(name, labels) || (name.len() > labels.len() && is_above(labels, name))
    }
}

/// Whether the first name is one above the second.
#[inline(never)]
fn is_above(above: &[u8], name: &[u8]) -> bool {
    let mut rest = name;
    while rest.len() > above.len() {
        rest = &rest[1 + usize::from(rest[0])..];
    }
    rest == above
}

/// The services at a name and below it, in key order.
#[derive(Debug)]
pub(crate) enum Below {
    One {
        service: Arc<Service>,
        /// The answers that need no look-up and no clock.
        lone: Option<Lone>,
    },
    Few(ArrayVec<Arc<Service>, FEW_MAX>),
    /// More than [`FEW_MAX`].
    Many,
}

impl Below {
    /// How many, as far as they are counted.
    fn len(&self) -> usize {
        match self {
            Self::One { .. } => 1,
            Self::Few(services) => services.len(),
            Self::Many => FEW_MAX + 1,
        }
    }
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

    /// Servers of stub zones, and zones, that are more than there may be.
    #[must_use]
    pub fn stubs_left_out(&self) -> usize {
        self.stubs.as_ref().map_or(0, |stubs| stubs.left_out)
    }

    /// A stub zone may have this name: what is asked about it is not always this zone's matter.
    pub(crate) fn is_stubbed(&self, name: Name<'_>) -> bool {
        self.stubs.as_ref().is_some_and(|stubs| stubs.may_hold(name))
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

    /// The entries of the key's name, of all names between it and the apex, and of the apex.
    fn refresh_path(&mut self, key: &[u8]) {
        self.stubs_changed |= stubs::is_for(key);
        let mut name = Vec::with_capacity(64);
        // Where what each name says of the key ends, and how long the name is.
        let mut names = ArrayVec::<_, 128>::new();
        let mut at = 0;
        while at < key.len() {
            let end = key[at..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(key.len(), |len| at + len);
            let Some(label) = component::label(&key[at..end]) else {
                break;
            };
            if 1 + label.len() + name.len() + self.tree.apex.as_bytes().len() > 255 {
                break;
            }
            name.splice(0..0, std::iter::once(label.len() as u8).chain(label.iter().copied()));
            names.push((end, name.len()));
            at = end + 1;
        }
        let mut beneath = None;
        for &(end, len) in names.iter().rev() {
            beneath = self.refresh(&key[..end], &name[name.len() - len..], beneath);
        }
        // What stands at the apex is answered in ways of its own.
        self.refresh(b"", b"", None);
    }

    /// Makes the entry of one name anew from the keys at and below `prefix`, unless the one `beneath` it says the same.
    /// Returns what may be so for the name above.
    fn refresh(&mut self, prefix: &[u8], name: &[u8], beneath: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let mut few = ArrayVec::<&Arc<Service>, { FEW_MAX + 1 }>::new();
        self.tree.keys.scan_below(prefix, |service| {
            few.push(service);
            if few.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let hash = self.tree.hash.of(name);
        if few.is_empty() {
            self.tree.names.remove(hash, name);
            return None;
        }
        if few.is_full()
            && let Some(entry) = self.tree.names.get(hash, name)
            && matches!(entry.below, Below::Many)
        {
            return None;
        }
        let entry = beneath
            .filter(|beneath| beneath.below.len() == few.len())
            .unwrap_or_else(|| {
                let below = match &few[..] {
                    [one] => Below::One {
                        service: Arc::clone(one),
                        lone: render::lone(&self.tree, one, name),
                    },
                    _ if few.is_full() => Below::Many,
                    few => Below::Few(few.iter().map(|&service| Arc::clone(service)).collect()),
                };
                Arc::new(Entry {
                    name: name.into(),
                    below,
                })
            });
        self.tree.names.insert_at(hash, name, Arc::clone(&entry));
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::service::Host;
    use super::*;
    use crate::answer::Memory;

    fn service(key: &str) -> Service {
        Service {
            host: Host::V4(Ipv4Addr::LOCALHOST),
            bad: false,
            ..Service::unparsable(key.as_bytes())
        }
    }

    fn tree() -> ServiceTree {
        let apex = NameBuf::from_text("cedar.example.").unwrap();
        ServiceTree::unsynced(apex.as_name(), 1, NameHash::new(7))
    }

    fn at<'z>(tree: &'z ServiceTree, labels: &[u8]) -> &'z Entry {
        tree.entry(tree.hash_of(labels), labels).unwrap()
    }

    #[test]
    fn names_with_the_same_services_have_one_entry() {
        let mut editor = tree().edit();
        editor.put(service("a/b/c/d"));
        let one = editor.finish(1);
        let mut editor = one.edit();
        editor.put(service("a/b/e/f"));
        let two = editor.finish(2);
        let mut editor = two.edit();
        editor.remove(b"a/b/c/d");
        let other = editor.finish(3);
        let same = |tree, one, other| std::ptr::eq(at(tree, one), at(tree, other));
        let [a, b, c, d] = [
            &b"\x01a"[..],
            b"\x01b\x01a",
            b"\x01c\x01b\x01a",
            b"\x01d\x01c\x01b\x01a",
        ];
        assert!(same(&one, a, d) && same(&one, b, d) && same(&one, c, d) && !same(&one, b"", d));
        assert!(same(&two, a, b) && same(&two, c, d) && !same(&two, b, c));
        assert!(same(&other, a, b) && other.entry(other.hash_of(c), c).is_none());
        assert_eq!([&one, &two, &other].map(ServiceTree::names_len), [5, 7, 5]);
    }

    #[test]
    fn a_name_above_is_one_label_by_label() {
        assert!(is_above(b"\x01a", b"\x01b\x01a"));
        assert!(is_above(b"", b"\x01b\x01a"));
        assert!(!is_above(b"\x01a", b"\x03b\x01a"));
        assert!(!is_above(b"\x01c", b"\x01b\x01a"));
    }

    #[test]
    fn what_is_copied_for_a_name_above_is_what_would_be_rendered_for_it() {
        let mut editor = tree().edit();
        editor.put(service("web/x1"));
        let tree = editor.finish(1);
        let (entry, above) = (at(&tree, b"\x02x1\x03web"), b"\x03web");
        let Below::One { service, .. } = &entry.below else {
            panic!()
        };
        let own = render::lone(&tree, service, above).unwrap();
        let copied = |rtype| {
            let mut answer = Answer::new(Memory::default());
            entry.copy(above, rtype, &mut answer);
            answer.rendered.map(|prepared| format!("{prepared:?}"))
        };
        assert_eq!(
            copied(Rtype::A),
            own.prepared(Rtype::A).map(|prepared| format!("{prepared:?}"))
        );
        assert_eq!(copied(Rtype::SRV), None);
    }
}
