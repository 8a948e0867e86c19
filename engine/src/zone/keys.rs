//! Values in the byte order of their keys: a persistent B+ tree whose nodes hold at most 16 children.
//!
//! A change copies one node of each level, and with it a pointer to each of its children, whose count lies in a cache line
//! of its own: that is what a change costs at 100,000 keys, and why nodes are small and share their first keys.
//!
//! Order is what SkyDNS answers are made of: records come in key order, the first key decides the group, and all that
//! lies below a name is one range. It is also what tells whether any address of a cluster begins as a reverse name does.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::shared::bring;
use super::trie::Keyed;

/// Most children of a node.
const NODE_MAX: usize = 16;
/// A node with fewer is joined with its neighbour.
const NODE_MIN: usize = 4;

#[derive(Debug)]
enum Node<T> {
    Leaf(Vec<Arc<T>>),
    Inner(Inner<T>),
}

#[derive(Debug)]
struct Inner<T> {
    nodes: Vec<Arc<Node<T>>>,
    /// For each of them a value: no key of the node is smaller than this one's. They seldom change.
    firsts: Arc<Vec<Arc<T>>>,
}

/// Values by key.
#[derive(Debug)]
pub struct Keys<T> {
    root: Arc<Node<T>>,
    len: usize,
}

// Derived, they would ask it of the values too.
impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(values) => {
                bring(values);
                Self::Leaf(values.clone())
            }
            Self::Inner(inner) => Self::Inner(inner.clone()),
        }
    }
}

impl<T> Clone for Inner<T> {
    fn clone(&self) -> Self {
        bring(&self.nodes);
        Self {
            nodes: self.nodes.clone(),
            firsts: Arc::clone(&self.firsts),
        }
    }
}

impl<T> Clone for Keys<T> {
    fn clone(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
            len: self.len,
        }
    }
}

impl<T> Default for Keys<T> {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl<T> Node<T> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(values) => values.len(),
            Self::Inner(inner) => inner.nodes.len(),
        }
    }

    fn first(&self) -> Option<&Arc<T>> {
        match self {
            Self::Leaf(values) => values.first(),
            Self::Inner(inner) => inner.firsts.first(),
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Leaf(values) => Self::Leaf(split_off(values, at)),
            Self::Inner(inner) => Self::Inner(Inner {
                nodes: split_off(&mut inner.nodes, at),
                firsts: Arc::new(split_off(Arc::make_mut(&mut inner.firsts), at)),
            }),
        }
    }

    fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Leaf(values), Self::Leaf(more)) => values.extend(more.iter().cloned()),
            (Self::Inner(inner), Self::Inner(more)) => {
                inner.nodes.extend(more.nodes.iter().cloned());
                Arc::make_mut(&mut inner.firsts).extend(more.firsts.iter().cloned());
            }
            _ => unreachable!("neighbours stand at one height"),
        }
    }
}

impl<T> Inner<T> {
    fn of(nodes: impl IntoIterator<Item = Arc<Node<T>>>) -> Self {
        let (firsts, nodes): (Vec<_>, Vec<_>) = nodes
            .into_iter()
            .filter_map(|node| Some((Arc::clone(node.first()?), node)))
            .unzip();
        Self {
            nodes,
            firsts: Arc::new(firsts),
        }
    }

    fn remove(&mut self, at: usize) -> Arc<Node<T>> {
        Arc::make_mut(&mut self.firsts).remove(at);
        self.nodes.remove(at)
    }
}

fn split_off<T>(values: &mut Vec<T>, at: usize) -> Vec<T> {
    let right = values.split_off(at);
    values.shrink_to_fit();
    right
}

/// Longest prefix, with its `/`, that needs no memory of its own: a name's path has 4 bytes for each of its 255.
const PREFIX_MAX: usize = 1025;

impl<T: Keyed> Inner<T> {
    /// Which child holds `key`, or would.
    fn child_for(&self, key: &[u8]) -> usize {
        self.firsts
            .partition_point(|first| first.key() <= key)
            .saturating_sub(1)
    }
}

impl<T: Keyed> Keys<T> {
    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No key at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at exactly this key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Arc<T>> {
        let mut node = &self.root;
        loop {
            match &**node {
                Node::Inner(inner) => node = &inner.nodes[inner.child_for(key)],
                Node::Leaf(values) => {
                    return values
                        .binary_search_by(|value| value.key().cmp(key))
                        .ok()
                        .map(|at| &values[at]);
                }
            }
        }
    }

    /// Puts a value at its key; returns the one that stood there.
    pub fn insert(&mut self, value: Arc<T>) -> Option<Arc<T>> {
        let (old, split) = insert(Arc::make_mut(&mut self.root), value);
        if let Some(right) = split {
            let left = std::mem::take(self);
            self.len = left.len;
            self.root = Arc::new(Node::Inner(Inner::of([left.root, right])));
        }
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes out the value at this key.
    pub fn remove(&mut self, key: &[u8]) -> Option<Arc<T>> {
        // Look first: a miss must not copy the path.
        self.get(key)?;
        let old = remove(Arc::make_mut(&mut self.root), key);
        self.len -= usize::from(old.is_some());
        if let Node::Inner(inner) = &*self.root
            && let [only] = &inner.nodes[..]
        {
            self.root = Arc::clone(only);
        }
        old
    }

    /// Visits the values whose key is `from` or greater, in order, until told to stop.
    pub fn scan<'z>(&'z self, from: &[u8], mut visit: impl FnMut(&'z Arc<T>) -> ControlFlow<()>) {
        let _ = scan(&self.root, from, &mut visit);
    }

    /// Visits what stands at `prefix` itself and then all that lies below it, in key order.
    pub fn scan_below<'z>(&'z self, prefix: &[u8], mut visit: impl FnMut(&'z Arc<T>) -> ControlFlow<()>) {
        if prefix.is_empty() {
            return self.scan(b"", visit);
        }
        if let Some(own) = self.get(prefix)
            && visit(own).is_break()
        {
            return;
        }
        // A question's path always fits; answering it allocates nothing.
        let mut short = ArrayVec::<u8, PREFIX_MAX>::new();
        let long;
        let from = if short.try_extend_from_slice(prefix).is_ok() && short.try_push(b'/').is_ok() {
            &short[..]
        } else {
            long = [prefix, b"/"].concat();
            &long[..]
        };
        self.scan(from, |value| {
            if value.key().starts_with(from) {
                visit(value)
            } else {
                ControlFlow::Break(())
            }
        });
    }
}

/// Puts the value into the node; returns what it replaced, and the right half if the node had to be split.
fn insert<T: Keyed>(node: &mut Node<T>, value: Arc<T>) -> (Option<Arc<T>>, Option<Arc<Node<T>>>) {
    let old = match node {
        Node::Leaf(values) => match values.binary_search_by(|other| other.key().cmp(value.key())) {
            Ok(at) => Some(std::mem::replace(&mut values[at], value)),
            Err(at) => {
                values.insert(at, value);
                None
            }
        },
        Node::Inner(inner) => {
            let at = inner.child_for(value.key());
            // An equal one takes the place of the old, which would be kept for nothing.
            if value.key() <= inner.firsts[at].key() {
                Arc::make_mut(&mut inner.firsts)[at] = Arc::clone(&value);
            }
            let (old, split) = insert(Arc::make_mut(&mut inner.nodes[at]), value);
            if let Some(right) = split
                && let Some(first) = right.first()
            {
                Arc::make_mut(&mut inner.firsts).insert(at + 1, Arc::clone(first));
                inner.nodes.insert(at + 1, right);
            }
            old
        }
    };
    // A node that fills up from the left, as a sorted read does, is cut near its end and so left nearly full.
    let split = (node.len() > NODE_MAX).then(|| Arc::new(node.split_off(NODE_MAX - NODE_MIN)));
    (old, split)
}

fn remove<T: Keyed>(node: &mut Node<T>, key: &[u8]) -> Option<Arc<T>> {
    match node {
        Node::Leaf(values) => values
            .binary_search_by(|other| other.key().cmp(key))
            .ok()
            .map(|at| values.remove(at)),
        Node::Inner(inner) => {
            let at = inner.child_for(key);
            let old = remove(Arc::make_mut(&mut inner.nodes[at]), key);
            let len = inner.nodes[at].len();
            if len == 0 {
                inner.remove(at);
            } else if len < NODE_MIN {
                join(inner, at);
            }
            old
        }
    }
}

/// Joins a child that has become small with its neighbour, where both fit in one node.
fn join<T>(inner: &mut Inner<T>, at: usize) {
    let left = if at + 1 < inner.nodes.len() {
        at
    } else {
        at.saturating_sub(1)
    };
    let Some(right) = inner.nodes.get(left + 1) else { return };
    if inner.nodes[left].len() + right.len() <= NODE_MAX {
        let right = inner.remove(left + 1);
        Arc::make_mut(&mut inner.nodes[left]).append(&right);
    }
}

fn scan<'z, T: Keyed>(
    node: &'z Node<T>,
    from: &[u8],
    visit: &mut impl FnMut(&'z Arc<T>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match node {
        Node::Leaf(values) => {
            let at = values.partition_point(|value| value.key() < from);
            values[at..].iter().try_for_each(visit)
        }
        Node::Inner(inner) => {
            let at = inner.child_for(from);
            inner.nodes[at..].iter().try_for_each(|node| scan(node, from, visit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::Service;
    use std::collections::BTreeMap;

    fn service(key: &str) -> Arc<Service> {
        Arc::new(Service::unparsable(key.as_bytes()))
    }

    fn all(keys: &Keys<Service>) -> Vec<String> {
        let mut found = Vec::new();
        keys.scan(b"", |service| {
            found.push(String::from_utf8_lossy(&service.key).into_owned());
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn agrees_with_a_sorted_map_whatever_comes_and_goes() {
        let mut keys = Keys::default();
        let mut model = BTreeMap::new();
        let mut state = 12345_u64;
        for round in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = format!("a{}/x{}", (state >> 40) % 300, (state >> 50) % 9);
            // First it grows, then it shrinks to nothing.
            if (state >> 33).is_multiple_of(3) || round > 12_000 {
                let key = model
                    .keys()
                    .nth((state >> 35) as usize % model.len().max(1))
                    .cloned()
                    .unwrap_or(key);
                assert_eq!(keys.remove(key.as_bytes()).is_some(), model.remove(&key).is_some());
            } else {
                assert_eq!(keys.insert(service(&key)).is_some(), model.insert(key, ()).is_some());
            }
            assert_eq!(keys.len(), model.len());
        }
        assert_eq!(all(&keys), model.into_keys().collect::<Vec<_>>());
    }

    #[test]
    fn below_a_name_is_its_own_key_and_a_range() {
        let mut keys = Keys::default();
        for key in ["web", "web-2", "web/x1", "web/x2/deep", "web0", "we", "webs/x"] {
            keys.insert(service(key));
        }
        let below = |prefix: &str| {
            let mut found = Vec::new();
            keys.scan_below(prefix.as_bytes(), |service| {
                found.push(String::from_utf8_lossy(&service.key).into_owned());
                ControlFlow::Continue(())
            });
            found
        };
        assert_eq!(below("web"), ["web", "web/x1", "web/x2/deep"]);
        assert_eq!(below("webs"), ["webs/x"]);
        assert_eq!(below("w"), Vec::<String>::new());
        assert_eq!(
            below(""),
            ["we", "web", "web-2", "web/x1", "web/x2/deep", "web0", "webs/x"]
        );
    }

    #[test]
    fn an_old_version_keeps_what_it_had() {
        let mut keys = Keys::default();
        for i in 0..10_000 {
            keys.insert(service(&format!("svc-{i}")));
        }
        let old = keys.clone();
        for i in 0..10_000 {
            keys.remove(format!("svc-{i}").as_bytes());
        }
        assert_eq!((old.len(), keys.len()), (10_000, 0));
        assert_eq!(all(&old).len(), 10_000);
        assert!(all(&keys).is_empty());
    }
}
