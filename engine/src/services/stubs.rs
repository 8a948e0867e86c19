//! Stub zones: services below `dns/stub` of a zone are the servers of other zones.
//!
//! ```text
//!   dns/stub/example/oak/ns1 = {"host":"192.0.2.53","port":5353}     oak.example. is asked of 192.0.2.53:5353
//! ```
//!
//! The table belongs to the version of the tree that it was made of. Who had the same servers before keeps them, with all that
//! is known of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;

use nodens_wire::{Name, NameBuf};

use super::component;
use super::service::{Host, Service};
use crate::forward::{Settings, Stanza, Transport, Upstream};
use crate::plan::ZoneMap;
use crate::zone::keys::Keys;
use crate::zone::trie::NameHash;

/// Stub zones of one zone; those behind it are left out.
pub const STUB_ZONES_MAX: usize = 1024;
/// Servers of one of them; those behind it are left out.
pub const STUB_SERVERS_MAX: usize = 16;

/// Where they stand.
const BELOW: &[u8] = b"dns/stub";
const PORT: u16 = 53;

/// Stub zones, each with its servers.
#[derive(Debug)]
pub(crate) struct Stubs {
    zones: ZoneMap<Arc<Servers>>,
    /// Servers and zones that are left out as too many.
    pub(super) left_out: usize,
}

/// The servers of a stub zone.
#[derive(Debug)]
pub(crate) struct Servers {
    /// Who they are.
    pub(crate) stanza: Arc<Stanza>,
    /// Tells what the cache keeps of them from what it keeps of others: the same addresses, the same number.
    pub(crate) number: u64,
}

/// Whether such a key can be one of a stub zone's.
pub(super) fn is_for(key: &[u8]) -> bool {
    key.strip_prefix(BELOW).is_some_and(|rest| rest.starts_with(b"/"))
}

impl Stubs {
    /// Those of a zone, none for none; `before` are those of the version before.
    pub(super) fn of(keys: &Keys<Service>, before: Option<&Self>, hash: &NameHash) -> Option<Arc<Self>> {
        let mut found: BTreeMap<NameBuf, Vec<SocketAddr>> = BTreeMap::new();
        let mut left_out = 0;
        keys.scan_below(BELOW, |service| {
            if let (Some(zone), Some(server)) = (zone(service), server(service)) {
                if found.len() == STUB_ZONES_MAX && !found.contains_key(&zone) {
                    left_out += 1;
                    return ControlFlow::Continue(());
                }
                let servers = found.entry(zone).or_default();
                if !servers.contains(&server) {
                    match servers.len() < STUB_SERVERS_MAX {
                        true => servers.push(server),
                        false => left_out += 1,
                    }
                }
            }
            ControlFlow::Continue(())
        });
        if found.is_empty() {
            return None;
        }
        let mut zones = ZoneMap::new(hash.clone());
        for (zone, servers) in found {
            let known = before.and_then(|before| before.zones.exact(zone.as_bytes()));
            let known = known.filter(|known| addresses(&known.stanza).eq(servers.iter().copied()));
            zones.entry(&zone, || {
                known.map_or_else(|| Arc::new(Servers::new(&servers, hash)), Arc::clone)
            });
        }
        Some(Arc::new(Self { zones, left_out }))
    }

    /// All of them.
    pub(super) fn stanzas(&self) -> impl Iterator<Item = &Stanza> {
        self.zones.iter().map(|(_, servers)| &*servers.stanza)
    }

    /// Whether one of them holds the name, be it one of the stanza's own zones or not.
    pub(super) fn may_hold(&self, name: Name<'_>) -> bool {
        self.zones.find_from(name.to_buf().folded().as_bytes(), 0).is_some()
    }

    /// The servers of the longest stub zone that holds a folded name; the zones in `own` are none.
    pub(crate) fn find<T>(&self, name: &[u8], own: &ZoneMap<T>) -> Option<&Servers> {
        let mut from = 0;
        loop {
            let (at, servers) = self.zones.find_from(name, from)?;
            if own.exact(&name[at..]).is_none() {
                return Some(servers);
            }
            // A stub zone is never the root.
            from = at + 1 + usize::from(name[at]);
        }
    }
}

impl Servers {
    fn new(addresses: &[SocketAddr], hash: &NameHash) -> Self {
        let upstream = |&server| Arc::new(Upstream::new(server, Transport::Plain));
        let upstreams = addresses.iter().map(upstream).collect();
        let text: String = addresses.iter().map(|address| format!("{address} ")).collect();
        Self {
            stanza: Arc::new(Stanza::new(Settings::new(NameBuf::root(), upstreams))),
            number: hash.of(text.as_bytes()),
        }
    }
}

fn addresses(stanza: &Stanza) -> impl Iterator<Item = SocketAddr> {
    stanza.settings().upstreams.iter().map(|upstream| upstream.address())
}

/// Why the service at a key below `dns/stub` is no server of a stub zone, in words for a log; nothing for all others. `is_own`
/// tells the zones of the stanza, by their folded names.
#[must_use]
pub fn stub_refusal(service: &Service, is_own: impl Fn(&NameBuf) -> bool) -> Option<&'static str> {
    if !is_for(&service.key) || service.bad {
        return None;
    }
    match zone(service) {
        None => Some("no zone stands in its key, which is to end in /REVERSED/ZONE/ANYTHING"),
        Some(zone) if is_own(&zone) => Some("its zone is one of the stanza's own"),
        Some(_) if server(service).is_none() => {
            Some("its host is to be an address, and its port none or one that exists")
        }
        Some(_) => None,
    }
}

/// The zone of a service: its key without what stands in front of it, and without the last component, which only tells the
/// zone's servers apart.
fn zone(service: &Service) -> Option<NameBuf> {
    let path = service.key.strip_prefix(BELOW)?.strip_prefix(b"/")?;
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let end = path.iter().rposition(|&byte| byte == b'/')?;
    let mut name = Vec::new();
    for component in path[..end].rsplit(|&byte| byte == b'/') {
        let before = name.len();
        for label in component::labels(component) {
            let label = label?;
            name.push(label.len() as u8);
            name.extend_from_slice(&label);
        }
        if name.len() == before {
            return None;
        }
    }
    name.push(0);
    Some(Name::from_wire(&name).ok()?.to_buf().folded())
}

/// Names are no servers.
fn server(service: &Service) -> Option<SocketAddr> {
    let address: IpAddr = match service.host {
        Host::V4(address) => address.into(),
        Host::V6(address) => address.into(),
        Host::Name(_) | Host::None => return None,
    };
    let port = match service.port {
        Some(0) => PORT,
        Some(port) => port,
        // As it stands in etcd, -1 is no port.
        None => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::ServiceTree;

    fn put(tree: &ServiceTree, services: &[(&str, Host, u16)]) -> ServiceTree {
        let mut editor = tree.edit();
        for (key, host, port) in services {
            editor.put(Service {
                host: host.clone(),
                port: Some(*port),
                bad: false,
                ..Service::unparsable(key.as_bytes())
            });
        }
        editor.finish(1)
    }

    fn empty() -> ServiceTree {
        let apex = NameBuf::from_text("cedar.example.").unwrap();
        ServiceTree::unsynced(apex.as_name(), 1, NameHash::new(7))
    }

    fn v4(last: u8) -> Host {
        Host::V4([192, 0, 2, last].into())
    }

    #[track_caller]
    fn check(tree: &ServiceTree, own: &[&str], name: &str, expected: &[&str]) {
        let mut zones = ZoneMap::new(NameHash::new(7));
        for zone in own {
            zones.entry(&NameBuf::from_text(zone).unwrap(), || ());
        }
        let name = NameBuf::from_text(name).unwrap();
        let servers = tree
            .stubs
            .as_ref()
            .and_then(|stubs| stubs.find(name.as_bytes(), &zones));
        let found: Vec<_> = servers
            .into_iter()
            .flat_map(|servers| addresses(&servers.stanza))
            .map(|address| address.to_string())
            .collect();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn the_longest_zone_that_is_no_own_one() {
        let name = Host::Name(b"\x02ns\x07example\0".as_slice().into());
        let tree = put(
            &empty(),
            &[
                ("dns/stub/example/oak/ns1", v4(1), 0),
                ("dns/stub/example/oak/ns2/", v4(2), 5353),
                ("dns/stub/example/oak/deep/ns1", v4(3), 0),
                ("dns/stub/example/pine/ns1", name, 0),
                ("dns/stub/ns1", v4(4), 0),
                ("dns/stubborn/ns1", v4(5), 0),
            ],
        );
        check(&tree, &[], "www.oak.example", &["192.0.2.1:53", "192.0.2.2:5353"]);
        check(&tree, &[], "deep.oak.example", &["192.0.2.3:53"]);
        check(
            &tree,
            &["deep.oak.example"],
            "a.deep.oak.example",
            &["192.0.2.1:53", "192.0.2.2:5353"],
        );
        check(&tree, &["oak.example"], "www.oak.example", &[]);
        check(&tree, &[], "www.pine.example", &[]);
        check(&tree, &[], "example", &[]);
    }

    #[test]
    fn those_that_are_no_servers_have_a_reason() {
        let reason = |key: &str, host, port| {
            let service = Service {
                host,
                port,
                bad: false,
                ..Service::unparsable(key.as_bytes())
            };
            stub_refusal(&service, |zone| zone.to_string() == "cedar.example.").map(|text| &text[..8])
        };
        let name = || Host::Name(b"\x02ns\x07example\0".as_slice().into());
        assert_eq!(reason("dns/stub/example/oak/ns1", v4(1), Some(0)), None);
        assert_eq!(reason("dns/stub/example/oak/ns1", name(), Some(0)), Some("its host"));
        assert_eq!(reason("dns/stub/example/oak/ns1", v4(1), None), Some("its host"));
        assert_eq!(reason("dns/stub/example/Cedar/ns1", v4(1), Some(0)), Some("its zone"));
        assert_eq!(reason("dns/stub/ns1", v4(1), Some(0)), Some("no zone "));
        assert_eq!(reason("web/x1", name(), None), None);
    }

    #[test]
    fn servers_that_stay_are_kept_and_the_last_key_ends_it() {
        let tree = put(&empty(), &[("dns/stub/a/x", v4(1), 0), ("dns/stub/b/x", v4(2), 0)]);
        let more = put(&tree, &[("dns/stub/b/y", v4(3), 0)]);
        let of = |tree: &ServiceTree, zone: &[u8]| Arc::clone(tree.stubs.as_ref().unwrap().zones.exact(zone).unwrap());
        assert!(Arc::ptr_eq(&of(&tree, b"\x01a\0"), &of(&more, b"\x01a\0")));
        assert!(!Arc::ptr_eq(&of(&tree, b"\x01b\0"), &of(&more, b"\x01b\0")));
        assert_ne!(of(&tree, b"\x01b\0").number, of(&more, b"\x01b\0").number);
        let mut editor = tree.edit();
        assert!(editor.remove(b"dns/stub/a/x") && editor.remove(b"dns/stub/b/x"));
        assert!(editor.finish(2).stubs.is_none());
    }

    #[test]
    fn no_more_zones_and_servers_than_the_limits() {
        let zones: Vec<_> = (0..=STUB_ZONES_MAX).map(|at| format!("dns/stub/z{at:04}/x")).collect();
        let servers: Vec<_> = (0..=STUB_SERVERS_MAX)
            .map(|at| format!("dns/stub/a/x{at:02}"))
            .collect();
        let all: Vec<_> = servers
            .iter()
            .chain(&zones)
            .zip(0..)
            .map(|(key, at)| (&**key, v4(1), at + 1))
            .collect();
        let tree = put(&empty(), &all);
        let stubs = tree.stubs.as_ref().unwrap();
        assert_eq!(stubs.zones.iter().count(), STUB_ZONES_MAX);
        // The zones z1023 and z1024, since `a` is the first, and a server of `a`.
        assert_eq!(tree.stubs_left_out(), 3);
        assert_eq!(
            addresses(&stubs.zones.exact(b"\x01a\0").unwrap().stanza).count(),
            STUB_SERVERS_MAX
        );
    }
}
