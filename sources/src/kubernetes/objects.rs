//! What is read of a Kubernetes API server: the few fields that names depend on, each kind as a plain struct.
//!
//! Nothing of the rest is kept, and nothing is decoded twice: an object is told once, when it came or changed, and its key once
//! more when it is gone.

use std::net::IpAddr;
use std::time::SystemTime;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// A Service, or a ServiceImport of `multicluster.x-k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// What its name leads to.
    pub kind: ServiceKind,
    /// Its ports; a Service without any has none here.
    pub ports: Box<[Port]>,
    /// `spec.externalIPs` and `status.loadBalancer.ingress`.
    pub external: Box<[External]>,
}

/// What the name of a Service leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// `spec.clusterIPs`, else `spec.clusterIP`; of a ServiceImport `spec.ips`.
    ClusterIps(Box<[IpAddr]>),
    /// Its endpoints.
    Headless,
    /// `spec.externalName`, as written.
    ExternalName(Box<str>),
}

/// A port of a Service or a slice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Empty where it has none.
    pub name: Box<str>,
    /// `TCP`, `UDP` or `SCTP`, in lower case.
    pub protocol: Box<str>,
    /// The number.
    pub number: u16,
}

/// Where a Service can be reached from outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum External {
    /// An address.
    Address(IpAddr),
    /// The name of a load balancer.
    Hostname(Box<str>),
}

/// An EndpointSlice: those of its endpoints that are ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The Service that it belongs to, by its label.
    pub service: Box<str>,
    /// The cluster that an imported slice comes from, by its label; empty otherwise.
    pub cluster: Box<str>,
    /// Its ports.
    pub ports: Box<[Port]>,
    /// One for each address of each ready endpoint, in the order of the API.
    pub endpoints: Box<[Endpoint]>,
    /// `endpoints.kubernetes.io/last-change-trigger-time`.
    pub changed: Option<SystemTime>,
}

/// One address of a ready endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: EndpointAddress,
    /// Its label below the Service. `None`: the address in its usual text, with dashes in place of dots or colons, and a `0`
    /// behind a dash at its end.
    pub label: Option<Box<str>>,
    /// `zone`, in lower case, where the settings ask for it.
    pub zone: Option<Box<str>>,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndpointAddress {
    /// Address type IPv4 or IPv6.
    Ip(IpAddr),
    /// Address type FQDN.
    Name(Box<str>),
}

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// `status.podIPs`, else `status.podIP`; at least one.
    pub addresses: Box<[IpAddr]>,
    /// The labels that the settings ask for, in their order; `None` for one that it does not have.
    pub labels: Box<[Option<Box<str>>]>,
}

/// What came, changed, or is gone (`None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A Namespace.
    Namespace(Box<str>, bool),
    /// A Service.
    Service(ObjectKey, Option<Service>),
    /// An EndpointSlice of this cluster. One without the label of a Service is not told.
    Slice(ObjectKey, Option<Slice>),
    /// A Pod. One without an address is not told.
    Pod(ObjectKey, Option<Pod>),
    /// A ServiceImport.
    Import(ObjectKey, Option<Service>),
    /// An EndpointSlice of another cluster.
    ImportedSlice(ObjectKey, Option<Slice>),
}

/// What the source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// All that came at once, in order; at most `CHANGES_MAX`.
    Changes(Vec<Change>),
    /// Every watch has delivered its first list. Said once.
    Synced,
}
