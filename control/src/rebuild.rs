//! What an etcd source says becomes new versions of its zones.
//!
//! ```text
//!   Message ──> changes of one revision ──> Editor: changed paths ──> publish
//!               pages of a full read ─────> merged in key order, published at their end
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use nodens_engine::services::{
    Editor, Extra, Host, Lease, PRIORITY_DEFAULT, STUB_SERVERS_MAX, STUB_ZONES_MAX, Service, ServiceTree, stub_refusal,
};
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::Zone;
use nodens_sources::Change;
use nodens_sources::etcd::{self, Entry, Event, LeaseId, LeaseState, LeaseUpdate, Message, Status};
use nodens_wire::NameBuf;
use tokio::sync::mpsc;

use crate::output;
use crate::publish::Publisher;

/// One zone of an etcd stanza.
#[derive(Debug)]
pub struct EtcdZone {
    /// Where it is published.
    pub id: ZoneId,
    /// The key of the zone's own name; the others are below it.
    pub own_key: Vec<u8>,
    /// The version that is being served.
    pub tree: ServiceTree,
    /// It has been read once.
    pub synced: Arc<AtomicBool>,
}

/// The zones of one etcd stanza, kept up to date.
#[derive(Debug)]
pub struct Rebuild {
    zones: Vec<State>,
    leases: HashMap<LeaseId, Arc<Lease>>,
    lease_bounds: (u32, u32),
    publisher: Arc<Publisher>,
    status: Arc<Status>,
}

#[derive(Debug)]
struct State {
    zone: EtcdZone,
    /// A full read in its middle.
    reading: Option<Reading>,
}

/// A full read, folded into the keys that are there: both come in key order, so what the read passes over is gone.
#[derive(Debug)]
struct Reading {
    editor: Editor,
    /// The last key that was read.
    last: Option<Box<[u8]>>,
    changed: bool,
}

impl Rebuild {
    /// For the zones of a stanza, in the order of its settings.
    pub fn new(zones: Vec<EtcdZone>, lease_bounds: (u32, u32), publisher: Arc<Publisher>, status: Arc<Status>) -> Self {
        let zones = zones.into_iter().map(|zone| State { zone, reading: None }).collect();
        Self {
            zones,
            leases: HashMap::new(),
            lease_bounds,
            publisher,
            status,
        }
    }

    /// Applies messages until the source ends.
    pub async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            self.apply(message);
            if self.publisher.sweep() {
                // A worker was in the middle of a batch; batches are short.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Applies one message; what it changes is published.
    pub fn apply(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.event(event),
            Message::Lease(update) => self.lease(update),
        }
    }

    fn event(&mut self, event: Event) {
        let Some(at) = (event.zone < self.zones.len()).then_some(event.zone) else {
            return;
        };
        let mut editor: Option<Editor> = None;
        let mut changed = false;
        let (mut bad, mut odd) = (Vec::new(), Vec::new());
        for change in event.changes {
            match change {
                Change::Reset => {
                    let state = &mut self.zones[at];
                    state.reading = Some(Reading {
                        editor: state.zone.tree.edit(),
                        last: None,
                        changed: false,
                    });
                }
                Change::Upsert { key, value } => {
                    let Some(key) = relative(&self.zones[at].zone.own_key, &key).map(Box::<[u8]>::from) else {
                        continue;
                    };
                    if let Err(error) = &value.value {
                        bad.push(format!("{}: {error}", shown(&self.zones[at].zone.own_key, &key)));
                    }
                    if matches!(&value.value, Ok(value) if value.host == etcd::Host::Unencodable) {
                        odd.push(format!(
                            "{}: its host is neither an address nor fit for a DNS name",
                            shown(&self.zones[at].zone.own_key, &key)
                        ));
                    }
                    let service = self.service(&key, value);
                    // Stub zones stand below the first zone.
                    if at == 0
                        && let Some(reason) = stub_refusal(&service, |zone| self.is_own(zone))
                    {
                        let key = shown(&self.zones[at].zone.own_key, &key);
                        odd.push(format!("{key}: no server of a stub zone: {reason}"));
                    }
                    let state = &mut self.zones[at];
                    if let Some(reading) = &mut state.reading {
                        reading.pass_to(Some(&key));
                        changed |= reading.put(service);
                    } else {
                        let editor = editor.get_or_insert_with(|| state.zone.tree.edit());
                        changed |= put(editor, service);
                    }
                }
                Change::Remove { key } => {
                    let state = &mut self.zones[at];
                    let Some(key) = relative(&state.zone.own_key, &key) else {
                        continue;
                    };
                    let editor = match &mut state.reading {
                        Some(reading) => &mut reading.editor,
                        None => editor.get_or_insert_with(|| state.zone.tree.edit()),
                    };
                    changed |= editor.remove(key);
                }
                Change::Synced { .. } => {
                    let state = &mut self.zones[at];
                    if let Some(mut reading) = state.reading.take() {
                        reading.pass_to(None);
                        reading.editor.set_synced();
                        let first = !state.zone.tree.is_synced();
                        if reading.changed || first {
                            editor = Some(reading.editor);
                            changed = true;
                        }
                    }
                }
                // The source has said why; what it said before goes on being served.
                Change::Lost { .. } => {}
            }
        }
        if let Some(editor) = editor.filter(|_| changed) {
            self.publish(at, editor);
        }
        self.forget_leases();
        report("left out, since the value is no SkyDNS service", &bad);
        report("not used as it stands", &odd);
    }

    fn is_own(&self, zone: &NameBuf) -> bool {
        self.zones.iter().any(|state| *zone == state.zone.tree.apex())
    }

    fn publish(&mut self, at: usize, editor: Editor) {
        let zone = &mut self.zones[at].zone;
        let left_out = zone.tree.stubs_left_out();
        zone.tree = editor.finish(unix_secs());
        if at == 0 && zone.tree.stubs_left_out() > left_out {
            output::warning(&format!(
                "plugin/etcd: {} servers of stub zones are left out: {STUB_ZONES_MAX} zones with {STUB_SERVERS_MAX} servers each \
                 are the most",
                zone.tree.stubs_left_out()
            ));
        }
        self.publisher.zone(zone.id, Zone::Services(zone.tree.clone()));
        zone.synced.store(zone.tree.is_synced(), Ordering::Release);
        let bad: usize = self.zones.iter().map(|state| state.zone.tree.bad_keys()).sum();
        self.status.set_bad_keys(i64::try_from(bad).unwrap_or(i64::MAX));
    }

    fn lease(&mut self, update: LeaseUpdate) {
        let lease = self.lease_of(update.lease);
        match update.state {
            LeaseState::Minimum => lease.set_minimum(),
            LeaseState::Until(end) => {
                let left = end.saturating_duration_since(std::time::Instant::now());
                lease.set_until(nodens_engine::io::now().after(left));
            }
            LeaseState::None => lease.set_none(),
            LeaseState::Gone => {
                self.leases.remove(&update.lease);
            }
        }
    }

    fn lease_of(&mut self, id: LeaseId) -> Arc<Lease> {
        let (min, max) = self.lease_bounds;
        Arc::clone(self.leases.entry(id).or_insert_with(|| Arc::new(Lease::new(min, max))))
    }

    /// Drops the leases that no service hangs on.
    fn forget_leases(&mut self) {
        if self.leases.len() > 1024 {
            self.leases.retain(|_, lease| Arc::strong_count(lease) > 1);
        }
    }

    /// A decoded value as the engine answers it.
    fn service(&mut self, key: &[u8], entry: Entry) -> Service {
        let Ok(value) = entry.value else {
            return Service::unparsable(key);
        };
        let host = match &value.host {
            etcd::Host::None | etcd::Host::Unencodable => Host::None,
            etcd::Host::V4(address) => Host::V4(*address),
            etcd::Host::V6(address) => Host::V6(*address),
            etcd::Host::Name(name) => Host::Name(name.as_bytes().into()),
        };
        let usual = match &host {
            Host::V4(address) => value.host_text == address.to_string(),
            Host::V6(address) => value.host_text == address.to_string(),
            Host::Name(_) | Host::None => true,
        };
        let extra = Extra {
            host_text: (!usual).then(|| value.host_text.clone().into()),
            text: value.text.into_bytes().into(),
            group: value.group.into(),
            mail: value.mail,
            targetstrip: u16::try_from(value.targetstrip.clamp(0, 255)).unwrap_or_default(),
            weight: value.weight,
            lease: entry.lease.map(|id| self.lease_of(id)),
        };
        // 0 counts as unset; other numbers wrap into 16 bits, as CoreDNS's do.
        let wrapped = |number: i64| (number & 0xFFFF) as u16;
        Service {
            key: key.into(),
            host,
            port: (value.port != -1).then(|| wrapped(value.port)),
            priority: if value.priority == 0 {
                PRIORITY_DEFAULT
            } else {
                wrapped(value.priority)
            },
            ttl_secs: value.ttl,
            bad: false,
            extra: (extra != Extra::default()).then(|| Box::new(extra)),
        }
    }
}

impl Reading {
    /// Takes out the keys between the last one read and `next`, or all behind it.
    fn pass_to(&mut self, next: Option<&[u8]>) {
        let mut passed = Vec::new();
        self.editor
            .keys()
            .scan(self.last.as_deref().unwrap_or_default(), |service| {
                if next.is_some_and(|next| *service.key >= *next) {
                    return std::ops::ControlFlow::Break(());
                }
                if self.last.as_deref() != Some(&service.key) {
                    passed.push(service.key.clone());
                }
                std::ops::ControlFlow::Continue(())
            });
        for key in passed {
            self.changed |= self.editor.remove(&key);
        }
    }

    fn put(&mut self, service: Service) -> bool {
        self.last = Some(service.key.clone());
        let changed = put(&mut self.editor, service);
        self.changed |= changed;
        changed
    }
}

/// Puts a service if it differs from the one that is there: a serial must not move without a change.
fn put(editor: &mut Editor, service: Service) -> bool {
    let same = editor.keys().get(&service.key).is_some_and(|old| **old == service);
    if !same {
        editor.put(service);
    }
    !same
}

/// Values of one revision that are named; the others are only counted.
const REPORTED_MAX: usize = 5;

/// One line for the values of a revision of which the same is said.
fn report(what: &str, bad: &[String]) {
    if bad.is_empty() {
        return;
    }
    let named = bad
        .iter()
        .take(REPORTED_MAX)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("; ");
    let more = bad.len().saturating_sub(REPORTED_MAX);
    let more = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    output::warning(&format!("plugin/etcd: {what}: {named}{more}"));
}

/// A whole key, fit for a log.
fn shown(own: &[u8], key: &[u8]) -> String {
    let slash = if key.is_empty() || own.ends_with(b"/") { "" } else { "/" };
    format!("{}{slash}{}", own.escape_ascii(), key.escape_ascii())
}

/// A key relative to the zone's own; `None` for one that only begins with the same letters.
fn relative<'k>(own: &[u8], key: &'k [u8]) -> Option<&'k [u8]> {
    let rest = key.strip_prefix(own)?;
    match rest {
        [] => Some(rest),
        // The root of the key space is `/` itself.
        _ if own == b"/" => Some(rest),
        // The key `P/` is not `P`: it has an empty component, which no name can reach.
        [b'/'] => Some(rest),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Seconds since 1970.
pub fn unix_secs() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The serial of a zone before its first change: the time of the start.
pub fn start_serial() -> u32 {
    (unix_secs() & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_relative_on_component_borders() {
        let check = |own: &str, key: &str, expected: Option<&str>| {
            assert_eq!(
                relative(own.as_bytes(), key.as_bytes()),
                expected.map(str::as_bytes),
                "{own} {key}"
            );
        };
        check("/skydns/example", "/skydns/example", Some(""));
        check("/skydns/example", "/skydns/example/web/x1", Some("web/x1"));
        check("/skydns/example", "/skydns/example/", Some("/"));
        check("/skydns/example", "/skydns/example1/web", None);
        check("/", "/web", Some("web"));
    }
}
