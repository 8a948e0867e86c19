//! A service with its slices.

use std::collections::HashSet;
use std::sync::Arc;

use nodens_wire::label;

use super::objects::{Address, Place, Service, Slice};
use crate::zone::small::Small;
use crate::zone::trie::Keyed;

/// Names up to this length stand in their entry.
const NAME_INLINE: usize = 38;

/// A service, or slices that wait for theirs.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The labels of service and namespace, folded and in wire form.
    key: Small<NAME_INLINE>,
    pub(super) service: Option<Arc<Service>>,
    pub(super) slices: Box<[Arc<Slice>]>,
    /// The addresses of all endpoints, each once.
    pub(super) v4: Box<[[u8; 4]]>,
    pub(super) v6: Box<[[u8; 16]]>,
    /// Some endpoints share a label.
    pub(super) shares_labels: bool,
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }
}

impl Entry {
    pub(super) fn new(key: &[u8], service: Option<Arc<Service>>, slices: Box<[Arc<Slice>]>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        let endpoints: usize = slices.iter().map(|slice| slice.endpoints.len()).sum();
        let mut seen = HashSet::with_capacity(endpoints);
        let mut labels = HashSet::with_capacity(endpoints);
        let mut shares_labels = false;
        for (slice, endpoint) in slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().map(move |endpoint| (slice, endpoint)))
        {
            shares_labels |= !labels.insert((endpoint.label(), &slice.cluster));
            if let Place::Address(address) = endpoint.place
                && seen.insert(address)
            {
                match address {
                    Address::V4(octets) => v4.push(octets),
                    Address::V6(octets) => v6.push(octets),
                }
            }
        }
        Self {
            key: key.into(),
            service,
            slices,
            v4: v4.into(),
            v6: v6.into(),
            shares_labels,
        }
    }

    /// Whether it is the entry of these labels.
    #[inline]
    pub(super) fn is(&self, labels: &[u8]) -> bool {
        label::eq(self.key(), labels)
    }

    /// The labels of service and namespace.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    /// Has its cache lines brought in.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box((self.key().len(), self.v4.len()));
    }

    /// There is an endpoint that is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.slices.iter().any(|slice| !slice.endpoints.is_empty())
    }

    /// The label of the namespace, in wire form.
    pub(super) fn namespace(&self) -> &[u8] {
        let key = self.key.as_bytes();
        &key[1 + usize::from(key[0])..]
    }
}
