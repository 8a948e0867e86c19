//! The keys of a service tree in byte order: a persistent B+ tree whose nodes hold at most 64 children.
//!
//! Order is what SkyDNS answers are made of: records come in key order, the first key decides the group, and all that
//! lies below a name is one range.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::service::Service;

/// Most children of a node.
pub(super) const NODE_MAX: usize = 64;
/// A node with fewer is joined with its neighbour.
const NODE_MIN: usize = 16;

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Arc<Service>>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    /// No key of the node is smaller than this one's.
    first: Arc<Service>,
    node: Arc<Node>,
}

/// Services by key.
#[derive(Clone, Debug)]
pub struct Keys {
    root: Arc<Node>,
    len: usize,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(services) => services.len(),
            Self::Inner(children) => children.len(),
        }
    }

    fn first(&self) -> Option<&Arc<Service>> {
        match self {
            Self::Leaf(services) => services.first(),
            Self::Inner(children) => children.first().map(|child| &child.first),
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Leaf(services) => {
                let right = Self::Leaf(services.split_off(at));
                services.shrink_to_fit();
                right
            }
            Self::Inner(children) => {
                let right = Self::Inner(children.split_off(at));
                children.shrink_to_fit();
                right
            }
        }
    }

    fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Leaf(services), Self::Leaf(more)) => services.extend(more.iter().cloned()),
            (Self::Inner(children), Self::Inner(more)) => children.extend(more.iter().cloned()),
            _ => unreachable!("neighbours stand at one height"),
        }
    }
}

/// Longest prefix, with its `/`, that needs no memory of its own: a name's path has 4 bytes for each of its 255.
const PREFIX_MAX: usize = 1025;

/// Which child holds `key`, or would.
fn child_for(children: &[Child], key: &[u8]) -> usize {
    children
        .partition_point(|child| *child.first.key <= *key)
        .saturating_sub(1)
}

impl Keys {
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

    /// The service at exactly this key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Arc<Service>> {
        let mut node = &self.root;
        loop {
            match &**node {
                Node::Inner(children) => node = &children[child_for(children, key)].node,
                Node::Leaf(services) => {
                    return services
                        .binary_search_by(|service| (*service.key).cmp(key))
                        .ok()
                        .map(|at| &services[at]);
                }
            }
        }
    }

    /// Puts a service at its key; returns the one that stood there.
    pub fn insert(&mut self, service: Arc<Service>) -> Option<Arc<Service>> {
        let (old, split) = insert(Arc::make_mut(&mut self.root), service);
        if let Some(right) = split {
            let left = std::mem::take(self);
            self.len = left.len;
            self.root = Arc::new(Node::Inner([left.root, right].into_iter().filter_map(child).collect()));
        }
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes out the service at this key.
    pub fn remove(&mut self, key: &[u8]) -> Option<Arc<Service>> {
        // Look first: a miss must not copy the path.
        self.get(key)?;
        let old = remove(Arc::make_mut(&mut self.root), key);
        self.len -= usize::from(old.is_some());
        if let Node::Inner(children) = &*self.root
            && let [only] = &children[..]
        {
            self.root = Arc::clone(&only.node);
        }
        old
    }

    /// Visits the services whose key is `from` or greater, in order, until told to stop.
    pub fn scan<'z>(&'z self, from: &[u8], mut visit: impl FnMut(&'z Arc<Service>) -> ControlFlow<()>) {
        let _ = scan(&self.root, from, &mut visit);
    }

    /// Visits what stands at `prefix` itself and then all that lies below it, in key order.
    pub fn scan_below<'z>(&'z self, prefix: &[u8], mut visit: impl FnMut(&'z Arc<Service>) -> ControlFlow<()>) {
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
        self.scan(from, |service| {
            if service.key.starts_with(from) {
                visit(service)
            } else {
                ControlFlow::Break(())
            }
        });
    }
}

fn child(node: Arc<Node>) -> Option<Child> {
    let first = Arc::clone(node.first()?);
    Some(Child { first, node })
}

/// Puts the service into the node; returns what it replaced, and the right half if the node had to be split.
fn insert(node: &mut Node, service: Arc<Service>) -> (Option<Arc<Service>>, Option<Arc<Node>>) {
    let old = match node {
        Node::Leaf(services) => match services.binary_search_by(|other| other.key.cmp(&service.key)) {
            Ok(at) => Some(std::mem::replace(&mut services[at], service)),
            Err(at) => {
                services.insert(at, service);
                None
            }
        },
        Node::Inner(children) => {
            let at = child_for(children, &service.key);
            if service.key <= children[at].first.key {
                children[at].first = Arc::clone(&service);
            }
            let (old, split) = insert(Arc::make_mut(&mut children[at].node), service);
            if let Some(right) = split.and_then(child) {
                children.insert(at + 1, right);
            }
            old
        }
    };
    // A node that fills up from the left, as a sorted read does, is cut near its end and so left nearly full.
    let split = (node.len() > NODE_MAX).then(|| Arc::new(node.split_off(NODE_MAX - NODE_MIN)));
    (old, split)
}

fn remove(node: &mut Node, key: &[u8]) -> Option<Arc<Service>> {
    match node {
        Node::Leaf(services) => services
            .binary_search_by(|other| (*other.key).cmp(key))
            .ok()
            .map(|at| services.remove(at)),
        Node::Inner(children) => {
            let at = child_for(children, key);
            let old = remove(Arc::make_mut(&mut children[at].node), key);
            let len = children[at].node.len();
            if len == 0 {
                children.remove(at);
            } else if len < NODE_MIN {
                join(children, at);
            }
            old
        }
    }
}

/// Joins a child that has become small with its neighbour, where both fit in one node.
fn join(children: &mut Vec<Child>, at: usize) {
    let left = if at + 1 < children.len() {
        at
    } else {
        at.saturating_sub(1)
    };
    let Some(right) = children.get(left + 1) else { return };
    if children[left].node.len() + right.node.len() <= NODE_MAX {
        let right = children.remove(left + 1);
        Arc::make_mut(&mut children[left].node).append(&right.node);
    }
}

fn scan<'z>(
    node: &'z Node,
    from: &[u8],
    visit: &mut impl FnMut(&'z Arc<Service>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match node {
        Node::Leaf(services) => {
            let at = services.partition_point(|service| *service.key < *from);
            services[at..].iter().try_for_each(visit)
        }
        Node::Inner(children) => {
            let at = child_for(children, from);
            children[at..]
                .iter()
                .try_for_each(|child| scan(&child.node, from, visit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn service(key: &str) -> Arc<Service> {
        Arc::new(Service::unparsable(key.as_bytes()))
    }

    fn all(keys: &Keys) -> Vec<String> {
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
