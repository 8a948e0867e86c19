//! The only walk through a record zone: RFC 1034 §4.3.2 with the wildcards of RFC 4592.

use nodens_wire::Rtype;

use super::records::{Node, RecordZone};

/// What stands at a name.
#[derive(Clone, Copy, Debug)]
pub enum Found<'z> {
    /// The name exists and has records.
    Exact(&'z Node),
    /// A wildcard covers the name.
    Wildcard(&'z Node),
    /// The name lies at or below a zone cut; `labels_at` bytes of the question's name stand in front of the cut's.
    Cut {
        /// The node with the NS records.
        node: &'z Node,
        /// Bytes in front of its name.
        labels_at: usize,
    },
    /// The name lies below a DNAME.
    Dname {
        /// The node with the DNAME record.
        node: &'z Node,
        /// Bytes in front of its name.
        labels_at: usize,
    },
    /// The name exists, and has no records: an empty non-terminal.
    Empty,
    /// The name does not exist.
    NxDomain,
    /// Nothing has been loaded: nobody knows.
    Unloaded,
}

impl RecordZone {
    /// Looks for folded `labels`, relative to the apex. A question for DS is answered above a cut.
    #[must_use]
    pub fn lookup(&self, labels: &[u8], rtype: Rtype) -> Found<'_> {
        self.found(self.node(labels), labels, rtype)
    }

    /// What it means that `node` stands at these labels, or nothing.
    pub(crate) fn found<'z>(&'z self, node: Option<&'z Node>, labels: &[u8], rtype: Rtype) -> Found<'z> {
        if !self.loaded {
            return Found::Unloaded;
        }
        if !self.barriers.is_empty()
            && let Some(found) = self.lookup_barrier(labels, rtype)
        {
            return found;
        }
        match node {
            Some(node) if node.has_records() => Found::Exact(node),
            // RFC 4592 §2.2.2: an empty non-terminal exists, so no wildcard reaches it.
            Some(_) => Found::Empty,
            None => self.lookup_wildcard(labels),
        }
    }

    /// The cut or DNAME nearest to the apex.
    fn lookup_barrier(&self, labels: &[u8], rtype: Rtype) -> Option<Found<'_>> {
        let mut nearest = None;
        let mut labels_at = 0;
        loop {
            let rest = &labels[labels_at..];
            if let Some(node) = self.barrier(rest) {
                let is_cut = !rest.is_empty() && node.set(Rtype::NS).is_some();
                if labels_at > 0 && node.set(Rtype::DNAME).is_some() {
                    nearest = Some(Found::Dname { node, labels_at });
                } else if is_cut && !(labels_at == 0 && rtype == Rtype::DS) {
                    nearest = Some(Found::Cut { node, labels_at });
                }
            }
            let Some(&len) = rest.first() else { return nearest };
            labels_at += 1 + usize::from(len);
        }
    }

    /// RFC 4592 §3.3.1: the wildcard directly below the closest encloser, and no other.
    fn lookup_wildcard(&self, labels: &[u8]) -> Found<'_> {
        if self.wildcards == 0 {
            return Found::NxDomain;
        }
        let mut at = 0;
        while let Some(&len) = labels.get(at) {
            at += 1 + usize::from(len);
            if self.node(&labels[at..]).is_some() {
                break;
            }
        }
        let mut star = [0; 257];
        let star = &mut star[..2 + labels.len() - at];
        star[..2].copy_from_slice(b"\x01*");
        star[2..].copy_from_slice(&labels[at..]);
        match self.node(star) {
            Some(node) if node.has_records() => Found::Wildcard(node),
            Some(_) => Found::Empty,
            None => Found::NxDomain,
        }
    }
}
