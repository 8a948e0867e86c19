//! A small cluster, in which every kind of name is asked for.

use nodens_engine::cluster::{Address, Apex, Authority, Cluster, Endpoint, Kind, Of, Place, Port, Service, Slice};
use nodens_tests::served::{hash, name};

pub(crate) const DOMAIN: &str = "pond.local.";

/// What is asked, the rcode, and how many records ANSWER has.
pub(crate) const QUESTIONS: [(&str, u8, usize); 9] = [
    ("web.orchard.svc.pond.local. A", 0, 1),
    ("web.orchard.svc.pond.local. AAAA", 0, 0),
    ("_http._tcp.web.orchard.svc.pond.local. SRV", 0, 1),
    ("db.orchard.svc.pond.local. A", 0, 5),
    ("_http._tcp.db.orchard.svc.pond.local. SRV", 0, 5),
    ("10-1-0-3.db.orchard.svc.pond.local. A", 0, 1),
    ("dock.orchard.svc.pond.local. A", 0, 2),
    ("nobody.orchard.svc.pond.local. A", 3, 0),
    ("web.orchard.svc.pond.local.orchard.svc.pond.local. A", 3, 0),
];

fn labels(text: &str) -> Vec<u8> {
    let mut name = name(text).as_bytes().to_vec();
    name.pop();
    name
}

pub(crate) fn orchard() -> Cluster {
    let apex = Apex {
        name: name(DOMAIN),
        soa_ttl: 5,
        minimum: 5,
        authority: Authority::Dns,
    };
    let mut editor = Cluster::unsynced(vec![apex], 1, hash()).edit();
    let port = || Port {
        name: b"http"[..].into(),
        protocol: b"tcp"[..].into(),
        number: 80,
    };
    let target = name("web.orchard.svc.pond.local.");
    let kinds = [
        ("web", Kind::Addresses([Address::V4([10, 96, 0, 20])].into())),
        ("db", Kind::Endpoints),
        ("dock", Kind::Alias(target.as_bytes().into())),
    ];
    for (service, kind) in kinds {
        let service_of = Service {
            kind,
            ports: [port()].into(),
            external: Box::default(),
        };
        editor.service(Of::Cluster, &labels(&format!("{service}.orchard")), Some(service_of));
    }
    let endpoint = |at| Endpoint {
        place: Place::Address(Address::V4([10, 1, 0, at])),
        label: None,
        zone: None,
    };
    let endpoints = (0..5).map(endpoint).collect();
    let slice = Slice::new(b"db", b"", [port()].into(), Box::default(), endpoints);
    editor.put_slice(Of::Cluster, &labels("db.orchard"), slice);
    editor.namespace(&labels("orchard"), true);
    editor.synced();
    editor.finish(1_700_000_000)
}
