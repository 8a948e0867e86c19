//! A made-up cluster: half of its services have an address of their own, the others ten endpoints.

use std::sync::Arc;

use nodens_engine::cluster::{
    Address, Apex, Authority, Cluster, Endpoint, Kind, Of, Place, Pods, Port, Service, Shown, Slice, View, Zoned,
};
use nodens_engine::plan::{Kubernetes, ZoneMap};
use nodens_engine::snapshot::ZoneId;
use nodens_wire::{Name, NameBuf};

use crate::hash;

/// The domain of the cluster.
pub(crate) const DOMAIN: &str = "cluster.local.";
const NAMESPACES: u32 = 100;
const ENDPOINTS: u32 = 10;

/// The name of a service.
pub(crate) fn name(i: u32, kind: &str) -> String {
    format!("{kind}-{i}.namespace-{}.svc.{DOMAIN}", i % NAMESPACES)
}

fn labels(text: &str) -> Box<[u8]> {
    let name = NameBuf::from_text(text).expect("a name");
    name.as_name().strip(Name::ROOT).unwrap_or_default().into()
}

/// So many services of each kind, and the step that answers for them.
pub(crate) fn cluster(zone: &NameBuf, services: u32) -> (Kubernetes, Cluster) {
    let apex = Apex {
        name: zone.clone(),
        soa_ttl: 5,
        minimum: 5,
        authority: Authority::Dns,
    };
    let mut editor = Cluster::unsynced(vec![apex], 1, hash()).edit();
    for i in 0..NAMESPACES {
        editor.namespace(&labels(&format!("namespace-{i}")), true);
    }
    let ports = || {
        Box::from([Port {
            name: b"http"[..].into(),
            protocol: b"tcp"[..].into(),
            number: 8080,
        }])
    };
    let service = |kind| Service {
        kind,
        ports: ports(),
        external: Box::default(),
    };
    for i in 0..services {
        let [_, a, b, c] = i.to_be_bytes();
        let namespace = i % NAMESPACES;
        let own = labels(&format!("svc-{i}.namespace-{namespace}"));
        let addresses = Kind::Addresses([Address::V4([10, a, b, c])].into());
        editor.service(Of::Cluster, &own, Some(service(addresses)));
        let headless = labels(&format!("pods-{i}.namespace-{namespace}"));
        editor.service(Of::Cluster, &headless, Some(service(Kind::Endpoints)));
        let endpoint = |at: u32| Endpoint {
            place: Place::Address(Address::V4((0x0b00_0000 + i * ENDPOINTS + at).to_be_bytes())),
            label: None,
            zone: None,
        };
        let endpoints = (0..ENDPOINTS).map(endpoint).collect();
        let slice = Slice::new(b"slice", b"", ports(), Box::default(), endpoints);
        editor.put_slice(Of::Cluster, &headless, slice);
    }
    editor.synced();
    let mut zones = ZoneMap::new(hash());
    zones.entry(zone, || Shown {
        place: 0,
        kind: Zoned::Forward,
    });
    let view = View {
        ttl: 5,
        namespaces: None,
        pods: Pods::Disabled,
        ignore_empty_services: false,
        zonal: false,
        primary: zone.clone(),
        own: Vec::new(),
    };
    let step = Kubernetes {
        data: ZoneId(0),
        zones,
        fallthrough: None,
        view: Arc::new(view),
        pod_labels: Box::default(),
    };
    (step, editor.finish(1_700_000_000))
}
