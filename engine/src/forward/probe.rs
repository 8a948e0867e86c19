//! Probes: whether an upstream that failed answers again. At most one worker probes an upstream at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nodens_wire::Header;

use super::ask::{Ended, Purpose, Task, TaskKey};
use super::forwarder::Forwarder;
use super::outgoing::Framed;
use super::upstream::Transport;
use super::{Checking, Failure, Stanza, Upstream};
use crate::time::Instant;

/// Time for a reply.
pub(super) const READ: Duration = Duration::from_secs(1);
/// Least time between two probes, whatever is written.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A probe, or the time until the next one.
#[derive(Debug)]
pub(super) struct Probe {
    upstream: Arc<Upstream>,
    /// It ends with its stanza.
    stanza: Weak<Stanza>,
    interval: Duration,
}

impl Probe {
    /// Another worker may probe from now on.
    pub(super) fn release(&self) {
        self.upstream.health.end_checking();
    }
}

impl Forwarder {
    pub(super) fn is_probe(&self, task: TaskKey) -> bool {
        let task = self.tasks.get(task);
        task.is_some_and(|task| matches!(task.purpose, Purpose::Probe(_)))
    }

    /// An upstream failed: it is probed, unless somebody does already.
    pub(super) fn begin_probe(&mut self, now: Instant, stanza: &Arc<Stanza>, upstream: &Arc<Upstream>) {
        let settings = stanza.settings();
        let Checking::Probes {
            interval,
            domain,
            recursion,
            ..
        } = &settings.checking
        else {
            return;
        };
        if !upstream.health.begin_checking() {
            return;
        }
        let task = self.tasks.insert(Task {
            framed: Framed::probe(domain.as_name(), *recursion),
            purpose: Purpose::Probe(Probe {
                upstream: Arc::clone(upstream),
                stanza: Arc::downgrade(stanza),
                interval: (*interval).max(INTERVAL_MIN),
            }),
            exchange: None,
            due: None,
        });
        self.send_probe(now, task);
    }

    /// Begins it, or one more after the last has failed.
    pub(super) fn send_probe(&mut self, now: Instant, task: TaskKey) {
        let Some(probe) = self.probe(task) else { return };
        let Some(stanza) = probe.stanza.upgrade() else {
            return self.end_probe(task);
        };
        let upstream = Arc::clone(&probe.upstream);
        let pool = self.pool(&upstream, stanza.settings());
        let by_stream = stanza.settings().force_tcp || matches!(upstream.transport, Transport::Tls { .. });
        let (carrier, until) = if by_stream {
            self.send_by_stream(now, task, pool, READ)
        } else {
            (self.send_datagram(now, task, pool), now.after(READ))
        };
        self.hold(task, now, pool, carrier, until);
    }

    fn probe(&self, task: TaskKey) -> Option<&Probe> {
        match &self.tasks.get(task)?.purpose {
            Purpose::Probe(probe) => Some(probe),
            Purpose::Ask(_) => None,
        }
    }

    /// Whatever it says, it answers.
    pub(super) fn probe_heard(&mut self, now: Instant, task: TaskKey, bytes: &[u8]) -> bool {
        if !Header::of(bytes).is_some_and(|header| header.flags().qr()) {
            return false;
        }
        self.detach(task, Ended::Heard);
        if let Some(probe) = self.probe(task) {
            probe.upstream.health.heard();
        }
        self.end_probe(task);
        self.keep_house(now);
        true
    }

    pub(super) fn probe_failed(&mut self, now: Instant, task: TaskKey, how: &Failure) {
        self.detach(task, Ended::GivenUp);
        let Some(probe) = self.probe(task) else { return };
        if !how.is_local() {
            probe.upstream.health.count_probe();
            probe.upstream.measures.count_probe_failure();
        }
        let next = now.after(probe.interval);
        self.set_due(task, Some(next));
    }

    fn end_probe(&mut self, task: TaskKey) {
        if let Some(probe) = self.probe(task) {
            probe.release();
        }
        self.forget(task);
    }
}
