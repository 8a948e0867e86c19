//! API objects to the few facts that names depend on; pure.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::kind::Kind;
use super::raw::{Labels, Raw, RawEndpoint, RawPort};
use super::{Change, Endpoint, EndpointAddress, External, ObjectKey, Pod, Port, Service, ServiceKind, Settings, Slice};

/// The name of a Pod is a label if it is shorter than this.
const POD_NAME_LEN_END: usize = 64;

/// How endpoints and Pods are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules<'s> {
    pub(super) endpoint_pod_names: bool,
    pub(super) zonal: bool,
    pub(super) pod_labels: &'s [Box<str>],
}

impl<'s> Rules<'s> {
    pub(super) fn of(settings: &'s Settings) -> Self {
        Self {
            endpoint_pod_names: settings.endpoint_pod_names,
            zonal: settings.zonal,
            pod_labels: &settings.pod_labels,
        }
    }
}

/// What an object says, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Namespace,
    Service(Service),
    Slice(Slice),
    Pod(Pod),
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Namespace => {}
            Self::Service(service) => service.hash(state),
            // When it changed is no part of what it says.
            Self::Slice(slice) => (&slice.service, &slice.cluster, &slice.ports, &slice.endpoints).hash(state),
            Self::Pod(pod) => pod.hash(state),
        }
    }
}

impl Value {
    /// How it is told.
    pub(super) fn change(self, kind: Kind, key: ObjectKey) -> Change {
        match (self, kind) {
            (Self::Namespace, _) => Change::Namespace(key.name, true),
            (Self::Service(service), Kind::Imports) => Change::Import(key, Some(service)),
            (Self::Service(service), _) => Change::Service(key, Some(service)),
            (Self::Slice(slice), Kind::ImportedSlices) => Change::ImportedSlice(key, Some(slice)),
            (Self::Slice(slice), _) => Change::Slice(key, Some(slice)),
            (Self::Pod(pod), _) => Change::Pod(key, Some(pod)),
        }
    }
}

/// How it is told that an object is gone.
pub(super) fn removal(kind: Kind, key: ObjectKey) -> Change {
    match kind {
        Kind::Namespaces => Change::Namespace(key.name, false),
        Kind::Services => Change::Service(key, None),
        Kind::Slices => Change::Slice(key, None),
        Kind::Pods => Change::Pod(key, None),
        Kind::Imports => Change::Import(key, None),
        Kind::ImportedSlices => Change::ImportedSlice(key, None),
    }
}

/// An object as it was listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: ObjectKey,
    /// None where it has nothing to say: it is then as good as gone.
    pub(super) value: Option<Value>,
    /// It is being deleted.
    pub(super) ends: bool,
    /// The first of its parts that had to be left out, and why.
    pub(super) bad: Option<String>,
}

/// Decodes an object; what cannot be understood is left out.
pub(super) fn decode(kind: Kind, rules: Rules<'_>, raw: Raw) -> Object {
    let mut bad = None;
    let ends = raw.metadata.deletion_timestamp.is_some();
    let key = key(&raw);
    let value = match kind {
        Kind::Namespaces => Some(Value::Namespace),
        Kind::Services => Some(Value::Service(service(&raw, &mut bad))),
        Kind::Imports => Some(Value::Service(import(&raw, &mut bad))),
        Kind::Slices | Kind::ImportedSlices => slice(kind, rules, &raw, &mut bad).map(Value::Slice),
        Kind::Pods => pod(rules, &raw, &mut bad).map(Value::Pod),
    };
    Object { key, value, ends, bad }
}

pub(super) fn key(raw: &Raw) -> ObjectKey {
    ObjectKey {
        namespace: raw.metadata.namespace.as_str().into(),
        name: raw.metadata.name.as_str().into(),
    }
}

fn note(bad: &mut Option<String>, what: &str, found: impl Display) {
    bad.get_or_insert_with(|| format!("{what}: {found}"));
}

fn service(raw: &Raw, bad: &mut Option<String>) -> Service {
    let spec = &raw.spec;
    let listed = spec.cluster_ips.as_deref().unwrap_or_default();
    let ips = if listed.is_empty() {
        spec.cluster_ip.as_slice()
    } else {
        listed
    };
    let kind = if spec.kind.as_deref() == Some("ExternalName") {
        ServiceKind::ExternalName(spec.external_name.as_deref().unwrap_or_default().into())
    } else if ips.first().is_some_and(|ip| ip == "None") {
        ServiceKind::Headless
    } else {
        ServiceKind::ClusterIps(addresses("spec.clusterIPs", ips, bad))
    };
    let own = spec.external_ips.as_deref().unwrap_or_default();
    let own = addresses("spec.externalIPs", own, bad);
    let mut external: Vec<External> = own.into_iter().map(External::Address).collect();
    for ingress in raw.status.load_balancer.ingress.as_deref().unwrap_or_default() {
        let text = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        match (text(&ingress.ip), text(&ingress.hostname)) {
            (Some(ip), _) => {
                let ip = addresses("status.loadBalancer.ingress", &[ip], bad);
                external.extend(ip.into_iter().map(External::Address));
            }
            (None, Some(hostname)) => external.push(External::Hostname(hostname.into())),
            (None, None) => {}
        }
    }
    Service {
        kind,
        ports: ports(spec.ports.as_deref(), bad),
        external: external.into(),
    }
}

fn import(raw: &Raw, bad: &mut Option<String>) -> Service {
    let kind = match raw.spec.kind.as_deref() {
        Some("Headless") => ServiceKind::Headless,
        _ => ServiceKind::ClusterIps(addresses("spec.ips", raw.spec.ips.as_deref().unwrap_or_default(), bad)),
    };
    Service {
        kind,
        ports: ports(raw.spec.ports.as_deref(), bad),
        external: Box::default(),
    }
}

fn slice(kind: Kind, rules: Rules<'_>, raw: &Raw, bad: &mut Option<String>) -> Option<Slice> {
    let labels: Labels = labels(raw, bad)?;
    let (service, cluster) = match kind {
        Kind::ImportedSlices => (&labels.imported, labels.cluster.as_deref().unwrap_or_default()),
        _ => (&labels.service, ""),
    };
    let service = service.as_deref().filter(|service| !service.is_empty())?;
    let changed = raw.metadata.annotations.as_ref().and_then(|all| all.changed.as_deref());
    let changed = changed.and_then(|text| match text.parse::<Timestamp>() {
        Ok(time) => Some(SystemTime::from(time)),
        Err(_) => {
            note(bad, "annotation endpoints.kubernetes.io/last-change-trigger-time", text);
            None
        }
    });
    let mut endpoints = Vec::new();
    for endpoint in raw.endpoints.as_deref().unwrap_or_default() {
        let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        if ready != Some(false) {
            for text in endpoint.addresses.as_deref().unwrap_or_default() {
                endpoints.extend(self::endpoint(&raw.address_type, rules, endpoint, text, bad));
            }
        }
    }
    Some(Slice {
        service: service.into(),
        cluster: cluster.into(),
        ports: ports(raw.ports.as_deref(), bad),
        endpoints: endpoints.into(),
        changed,
    })
}

fn endpoint(
    address_type: &str,
    rules: Rules<'_>,
    raw: &RawEndpoint,
    text: &str,
    bad: &mut Option<String>,
) -> Option<Endpoint> {
    let named = |name: &Option<String>| -> Option<Box<str>> {
        let name = name.as_deref().filter(|name| !name.is_empty())?;
        Some(name.into())
    };
    let pod = || {
        let target = raw.target_ref.as_ref().filter(|_| rules.endpoint_pod_names)?;
        named(&target.name).filter(|name| name.len() < POD_NAME_LEN_END)
    };
    let mut label: Option<Box<str>> = named(&raw.hostname).or_else(pod);
    let address = match address_type {
        "FQDN" if !text.is_empty() => EndpointAddress::Name(text.into()),
        "IPv4" | "IPv6" => {
            let ip = text
                .parse::<IpAddr>()
                .ok()
                .filter(|ip| ip.is_ipv4() == (address_type == "IPv4"));
            let Some(ip) = ip else {
                note(bad, "endpoints.addresses", text);
                return None;
            };
            // The label is made from the text as it is written.
            if label.is_none() && ip.to_string() != text {
                label = Some(dashed(text));
            }
            EndpointAddress::Ip(ip)
        }
        _ => {
            note(bad, "addressType", address_type);
            return None;
        }
    };
    let zone = named(&raw.zone).filter(|_| rules.zonal);
    Some(Endpoint {
        address,
        label,
        zone: zone.map(|zone: Box<str>| zone.to_ascii_lowercase().into()),
    })
}

fn dashed(text: &str) -> Box<str> {
    let mut label = text.replace(['.', ':'], "-");
    if label.ends_with('-') {
        label.push('0');
    }
    label.into()
}

/// The labels of an object, as far as they count.
fn labels<L: DeserializeOwned>(raw: &Raw, bad: &mut Option<String>) -> Option<L> {
    match serde_json::from_str(raw.metadata.labels.as_ref()?.get()) {
        Ok(labels) => Some(labels),
        Err(error) => {
            note(bad, "metadata.labels", error);
            None
        }
    }
}

fn pod(rules: Rules<'_>, raw: &Raw, bad: &mut Option<String>) -> Option<Pod> {
    let listed = raw.status.pod_ips.as_deref().unwrap_or_default();
    let listed: Vec<String> = listed.iter().map(|one| one.ip.clone()).collect();
    let texts = if listed.is_empty() {
        raw.status.pod_ip.as_slice()
    } else {
        &listed
    };
    let addresses = addresses("status.podIPs", texts, bad);
    if addresses.is_empty() {
        return None;
    }
    let mut found: HashMap<String, Box<str>> = HashMap::new();
    if !rules.pod_labels.is_empty() {
        found = labels(raw, bad).unwrap_or_default();
    }
    let labels = rules.pod_labels.iter().map(|key| found.remove(&**key));
    Some(Pod {
        addresses,
        labels: labels.collect(),
    })
}

fn addresses(field: &str, texts: &[String], bad: &mut Option<String>) -> Box<[IpAddr]> {
    let mut found = Vec::with_capacity(texts.len());
    for text in texts.iter().filter(|text| !text.is_empty()) {
        match text.parse() {
            Ok(address) => found.push(address),
            Err(_) => note(bad, field, text),
        }
    }
    found.into()
}

/// A port without a number stands for all numbers, which no record can say.
fn ports(raw: Option<&[RawPort]>, bad: &mut Option<String>) -> Box<[Port]> {
    let mut found = Vec::new();
    for port in raw.unwrap_or_default() {
        let Some(number) = port.port else { continue };
        let Ok(number) = u16::try_from(number) else {
            note(bad, "ports.port", number);
            continue;
        };
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        found.push(Port {
            name: port.name.as_deref().unwrap_or_default().into(),
            protocol: protocol.to_ascii_lowercase().into(),
            number,
        });
    }
    found.into()
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
