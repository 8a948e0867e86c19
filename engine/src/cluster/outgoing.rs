//! A zone of a cluster on its way to a client: which of its records come next.
//!
//! ```text
//!   AXFR   SOA, NS, their addresses ──> services by name, some at once ──> SOA
//!   IXFR   SOA, SOA as it was ──> what is gone ──> SOA ──> what came ──> SOA
//! ```
//!
//! Records are made when the message is written in which they stand. What is kept between two messages is the next
//! services, or those that have changed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Cluster;
use super::entry::Entry;
use super::history::Changed;
use super::whole::{Records, Shows};
use crate::encode::PartWriter;

/// Services that are looked for at once. They stand in no order that a zone could be told in, so each time all are looked at.
const SERVICES_AT_ONCE: usize = 1024;

/// What stands at the place that has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Begin,
    Services,
    Removed,
    Between,
    Added,
    End,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Outgoing {
    shows: Shows,
    /// The serial that the client has, and what has changed since.
    since: Option<(u32, Vec<Changed>)>,
    /// The next services by name.
    services: Vec<Arc<Entry>>,
    at: At,
    /// Which service or change, and which part of it,
    item: usize,
    part: usize,
    /// and how many of the records there are written.
    skip: usize,
}

impl Outgoing {
    /// Of a zone of `cluster`, for a client that has the version `serial`, if any.
    pub(crate) fn new(shows: Shows, cluster: &Cluster, serial: Option<u32>) -> Self {
        let since = serial.and_then(|serial| Some((serial, cluster.changes(&shows, serial)?)));
        Self {
            shows,
            since,
            services: Vec::new(),
            at: At::Begin,
            item: 0,
            part: 0,
            skip: 0,
        }
    }

    /// It is what has changed since the version that the client has.
    pub(crate) fn is_incremental(&self) -> bool {
        self.since.is_some()
    }

    /// Fills a message; tells whether it is the last one.
    pub(crate) fn fill(&mut self, cluster: &Cluster, apex: &[u8], message: &mut PartWriter<'_>) -> bool {
        loop {
            let (mut skip, mut written) = (self.skip, 0);
            let flow = self.write(&mut Records {
                shows: &self.shows,
                cluster,
                apex,
                emit: &mut |part| {
                    if skip > 0 {
                        skip -= 1;
                    } else if message.add(part) {
                        written += 1;
                    } else {
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                },
            });
            if flow.is_break() {
                self.skip += written;
                return false;
            }
            self.skip = 0;
            if self.at == At::End {
                return true;
            }
            self.advance(cluster);
        }
    }

    fn write(&self, records: &mut Records<'_, '_>) -> ControlFlow<()> {
        let serial = records.cluster.serial;
        match (self.at, &self.since) {
            (At::Begin, None) => {
                records.soa(serial)?;
                records.servers()
            }
            (At::Begin, Some((before, _))) => {
                records.soa(serial)?;
                records.soa(*before)
            }
            (At::Between | At::End, _) => records.soa(serial),
            (At::Services, _) => records.service(&self.services[self.item], self.part),
            (At::Removed, Some((_, changes))) => {
                let [old, new] = changes[self.item].shown();
                records.difference(old, new)
            }
            (At::Added, Some((_, changes))) => {
                let [old, new] = changes[self.item].shown();
                records.difference(new, old)
            }
            (At::Removed | At::Added, None) => ControlFlow::Continue(()),
        }
    }

    fn advance(&mut self, cluster: &Cluster) {
        let changes = self.since.as_ref().map_or(0, |(_, changes)| changes.len());
        let is_incremental = self.is_incremental();
        match self.at {
            At::Services => {
                self.part += 1;
                if self.part < self.shows.parts(&self.services[self.item]) {
                    return;
                }
                self.part = 0;
                self.item += 1;
                if self.item == self.services.len() {
                    self.look_on(cluster);
                }
            }
            At::Begin if is_incremental => self.at = if changes > 0 { At::Removed } else { At::Between },
            At::Begin => self.look_on(cluster),
            At::Removed | At::Added => {
                self.item += 1;
                if self.item == changes {
                    self.item = 0;
                    self.at = if self.at == At::Removed { At::Between } else { At::End };
                }
            }
            At::Between => self.at = if changes > 0 { At::Added } else { At::End },
            At::End => {}
        }
    }

    /// Finds the services behind those that have been written.
    fn look_on(&mut self, cluster: &Cluster) {
        let last = self.services.pop();
        self.services = cluster.services_behind(&self.shows, last.as_deref());
        self.item = 0;
        self.at = if self.services.is_empty() {
            At::End
        } else {
            At::Services
        };
    }
}

/// A service in the order of names, then of namespaces.
struct ByName(Arc<Entry>);

fn by_name(one: &Entry, other: &Entry) -> Ordering {
    let parts = |entry: &Entry| {
        let namespace = entry.namespace().len();
        let key = entry.key();
        key.len() - namespace
    };
    let (one, other) = (one.key().split_at(parts(one)), other.key().split_at(parts(other)));
    (&one.0[1..], one.1).cmp(&(&other.0[1..], other.1))
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        by_name(&self.0, &other.0)
    }
}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByName {}

impl Cluster {
    /// The next services by name that a zone shows.
    fn services_behind(&self, shows: &Shows, last: Option<&Entry>) -> Vec<Arc<Entry>> {
        let mut next = BinaryHeap::new();
        for entry in self.entries(shows.of()).iter() {
            let is_behind = last.is_none_or(|last| by_name(entry, last).is_gt());
            let is_near = || {
                next.len() < SERVICES_AT_ONCE
                    || next
                        .peek()
                        .is_some_and(|ByName(farthest)| by_name(entry, farthest).is_lt())
            };
            if is_behind && is_near() && entry.service.is_some() && self.shows(&shows.view, entry.namespace()) {
                next.push(ByName(Arc::clone(entry)));
                if next.len() > SERVICES_AT_ONCE {
                    next.pop();
                }
            }
        }
        next.into_sorted_vec().into_iter().map(|ByName(entry)| entry).collect()
    }

    /// What a zone shows otherwise than it did at a serial; `None` where all of it has to be told.
    fn changes(&self, shows: &Shows, serial: u32) -> Option<Vec<Changed>> {
        let mut changes = self.history.as_ref()?.since(serial)?;
        // Who serves the zone may be another one then, and that is not kept.
        if changes
            .iter()
            .flat_map(Changed::versions)
            .any(|entry| shows.view.is_own(entry))
        {
            return None;
        }
        changes.retain(|change| {
            let mut versions = change.versions();
            change.of == shows.of() && versions.all(|entry| shows.view.exposes(entry.namespace()))
        });
        Some(changes)
    }
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
