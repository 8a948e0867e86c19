//! The services that answer a name: all at and below it, or those that a pattern with `*` or `any` labels matches.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrayvec::{ArrayString, ArrayVec};
use nodens_wire::label as wire_label;

use super::service::{Host, Service};
use super::tree::{Below, ServiceTree};

/// Most keys that one answer visits.
pub const VISITED_MAX: usize = 65_536;
/// Most services that one answer gathers: more than a message of 64 KB can hold.
pub const GATHERED_MAX: usize = 4_096;

/// What an answer may still do. Shared by all look-ups of the answer, so that aliases do not multiply it.
#[derive(Debug)]
pub(crate) struct Budget {
    visits: usize,
    services: usize,
    /// A limit was met.
    pub(crate) spent: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            visits: VISITED_MAX,
            services: GATHERED_MAX,
            spent: false,
        }
    }
}

impl Budget {
    fn take(counter: &mut usize, spent: &mut bool) -> ControlFlow<()> {
        if *counter == 0 {
            *spent = true;
            return ControlFlow::Break(());
        }
        *counter -= 1;
        ControlFlow::Continue(())
    }

    fn visit(&mut self) -> ControlFlow<()> {
        Self::take(&mut self.visits, &mut self.spent)
    }

    fn keep(&mut self) -> ControlFlow<()> {
        Self::take(&mut self.services, &mut self.spent)
    }
}

/// What was found at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
    /// No key at or below it.
    Missing,
    /// There are keys, whether or not they hold what was asked for.
    Exists,
    /// There are keys, and not one of them parses.
    AllBad,
}

/// Which services count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Those with a host.
    Host,
    /// Those with a host or a text.
    HostOrText,
}

/// A name below the apex as path of components, read from the apex on. `text` holds 4 bytes for each of a name's.
pub(crate) struct Path {
    text: ArrayVec<u8, 1024>,
    /// Where each component ends in `text`; a `/` stands between two.
    ends: ArrayVec<u16, 128>,
}

impl Path {
    /// The path of folded labels in wire form.
    pub(crate) fn of(labels: &[u8]) -> Self {
        let mut starts = ArrayVec::<u8, 128>::new();
        let mut at = 0;
        while at < labels.len() {
            starts.push(at as u8);
            at += 1 + usize::from(labels[at]);
        }
        let mut path = Self {
            text: ArrayVec::new(),
            ends: ArrayVec::new(),
        };
        for &start in starts.iter().rev() {
            let start = usize::from(start);
            if !path.ends.is_empty() {
                path.text.push(b'/');
            }
            let mut text = ArrayString::<256>::new();
            // 63 bytes of four characters at most always fit.
            let _ = wire_label::write_text(&labels[start + 1..][..usize::from(labels[start])], &mut text);
            let _ = path.text.try_extend_from_slice(text.as_bytes());
            path.ends.push(path.text.len() as u16);
        }
        path
    }

    /// The whole of it, as a key relative to the zone's.
    pub(crate) fn key(&self) -> &[u8] {
        &self.text
    }

    fn component(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { usize::from(self.ends[i - 1]) + 1 };
        &self.text[start..usize::from(self.ends[i])]
    }

    fn components(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|i| self.component(i))
    }

    fn matches(&self, service: &Service) -> bool {
        let mut own = service.components();
        self.components().all(|wanted| {
            own.next()
                .is_some_and(|component| is_any(wanted) || component == wanted)
        })
    }
}

fn is_any(label: &[u8]) -> bool {
    label == b"*" || label == b"any"
}

/// Whether one of the labels stands for any other.
#[inline]
pub(crate) fn is_pattern(labels: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&len) = labels.get(at) {
        let end = at + 1 + usize::from(len);
        // Only the length tells most labels apart from the two words.
        if (len == 1 || len == 3) && labels.get(at + 1..end).is_some_and(is_any) {
            return true;
        }
        at = end;
    }
    false
}

/// Appends to `found` the services that answer `labels` (folded, relative to the apex), in key order.
pub(crate) fn gather<'z>(
    tree: &'z ServiceTree,
    labels: &[u8],
    want: Want,
    budget: &mut Budget,
    found: &mut Vec<&'z Service>,
) -> Existence {
    if is_pattern(labels) {
        return gather_pattern(tree, labels, want, budget, found);
    }
    let Some(entry) = tree.entry(tree.hash_of(labels), labels) else {
        return Existence::Missing;
    };
    let mut tally = Tally {
        want,
        seen: false,
        good: false,
    };
    match &entry.below {
        Below::One { service, .. } => _ = tally.add(service, budget, found),
        Below::Few(services) => {
            _ = services
                .iter()
                .try_for_each(|service| tally.add(service, budget, found))
        }
        Below::Many => tree
            .keys()
            .scan_below(Path::of(labels).key(), |service| tally.add(service, budget, found)),
    }
    tally.existence()
}

fn gather_pattern<'z>(
    tree: &'z ServiceTree,
    labels: &[u8],
    want: Want,
    budget: &mut Budget,
    found: &mut Vec<&'z Service>,
) -> Existence {
    let path = Path::of(labels);
    let fixed = path.components().take_while(|component| !is_any(component)).count();
    let above = if fixed == 0 {
        &[][..]
    } else {
        &path.text[..usize::from(path.ends[fixed - 1])]
    };
    // The fixed part is the right end of the labels.
    let skipped = (0..path.ends.len() - fixed).fold(0, |at, _| at + 1 + usize::from(labels[at]));
    let name = &labels[skipped..];
    if tree.entry(tree.hash_of(name), name).is_none() {
        return Existence::Missing;
    }
    let mut tally = Tally {
        want,
        seen: false,
        good: false,
    };
    tree.keys().scan_below(above, |service| {
        if path.matches(service) {
            tally.add(service, budget, found)
        } else {
            budget.visit()
        }
    });
    match tally.existence() {
        Existence::Missing => Existence::Exists,
        other => other,
    }
}

struct Tally {
    want: Want,
    seen: bool,
    good: bool,
}

impl Tally {
    fn add<'z>(
        &mut self,
        service: &'z Arc<Service>,
        budget: &mut Budget,
        found: &mut Vec<&'z Service>,
    ) -> ControlFlow<()> {
        budget.visit()?;
        self.seen = true;
        self.good |= !service.bad;
        let kept = !matches!(service.host, Host::None) || (self.want == Want::HostOrText && !service.text().is_empty());
        if kept {
            budget.keep()?;
            found.push(service);
        }
        ControlFlow::Continue(())
    }

    fn existence(&self) -> Existence {
        match (self.seen, self.good) {
            (false, _) => Existence::Missing,
            (true, true) => Existence::Exists,
            (true, false) => Existence::AllBad,
        }
    }
}

/// Leaves of `services` those of the deciding group: the group of the first key, or of the shortest that is shorter
/// and has one. Where two groups stand on the deciding level, all stay.
pub(crate) fn keep_group<'z>(services: &mut Vec<&'z Service>, from: usize) {
    let list = &services[from..];
    let Some(&first) = list.first() else { return };
    let (mut group, mut level): (&'z str, _) = (first.group(), first.depth());
    let mut walked = list.len();
    for (i, &service) in list.iter().enumerate() {
        let depth = service.depth();
        if depth < level {
            if service.group().is_empty() {
                walked = i + 1;
                break;
            }
            (group, level) = (service.group(), depth);
        }
    }
    if group.is_empty() {
        return;
    }
    let disagrees = |(i, service): (usize, &&Service)| {
        let other = service.group();
        i < walked && service.depth() == level && !other.is_empty() && other != group
    };
    if list.iter().enumerate().any(disagrees) {
        return;
    }
    let mut at = 0;
    services.retain(|service| {
        at += 1;
        at <= from || service.group().is_empty() || service.group() == group
    });
}

#[cfg(test)]
mod tests {
    use super::super::service::Extra;
    use super::*;

    fn grouped(spec: &str) -> Vec<Service> {
        spec.split(' ')
            .map(|word| {
                let (key, group) = word.split_once(':').unwrap_or((word, ""));
                let extra = Extra {
                    group: group.into(),
                    ..Extra::default()
                };
                Service {
                    extra: Some(Box::new(extra)),
                    bad: false,
                    ..Service::unparsable(key.as_bytes())
                }
            })
            .collect()
    }

    #[test]
    fn the_shortest_key_with_a_group_decides() {
        let check = |spec: &str, expected: &str| {
            let services = grouped(spec);
            let mut kept: Vec<&Service> = services.iter().collect();
            keep_group(&mut kept, 0);
            let keys: Vec<_> = kept
                .iter()
                .map(|service| std::str::from_utf8(&service.key).unwrap())
                .collect();
            assert_eq!(keys.join(" "), expected, "{spec}");
        };
        check("a:g1 b/sub:g1 c/sub:g2 d/sub", "a b/sub d/sub");
        check("a:g1 b:g2", "a b");
        check("a b:g2 c/x:g3", "a b c/x");
        check("a/deep:g1 b:g2 c/deep:g2 d/deep", "b c/deep d/deep");
        check("a/deep:g1 b c/deep:g2 d:g2", "a/deep b");
        check("h/a:g1 h/b:g2 h/c/sub:g3", "h/a h/b h/c/sub");
    }

    #[test]
    fn a_path_reads_from_the_apex() {
        let path = Path::of(b"\x02x1\x03w.b\x04east");
        assert_eq!(path.key(), b"east/w\\.b/x1");
        assert!(!is_pattern(b"\x02x1\x04many"));
        assert!(is_pattern(b"\x02x1\x03any"));
        assert!(is_pattern(b"\x01*\x03web"));
    }
}
