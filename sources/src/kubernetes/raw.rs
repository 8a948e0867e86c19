//! API objects as JSON has them, cut down to what is read: all else is skipped while decoding.
//!
//! One type serves all kinds, since no two of them mean different things by a field of one name.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// An object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Raw {
    pub(super) metadata: Meta,
    pub(super) spec: Spec,
    pub(super) status: Status,
    pub(super) address_type: String,
    pub(super) endpoints: Option<Vec<RawEndpoint>>,
    pub(super) ports: Option<Vec<RawPort>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    /// Which of them count depends on the kind.
    pub(super) labels: Option<Box<RawValue>>,
    pub(super) annotations: Option<Annotations>,
}

/// The labels of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Labels {
    #[serde(rename = "kubernetes.io/service-name")]
    pub(super) service: Option<String>,
    #[serde(rename = "multicluster.kubernetes.io/service-name")]
    pub(super) imported: Option<String>,
    #[serde(rename = "multicluster.kubernetes.io/source-cluster")]
    pub(super) cluster: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Annotations {
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub(super) changed: Option<String>,
    /// Of a bookmark: every object has been named.
    #[serde(rename = "k8s.io/initial-events-end")]
    pub(super) whole: Option<String>,
}

/// Of a Service or a ServiceImport.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(rename = "clusterIP")]
    pub(super) cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs")]
    pub(super) cluster_ips: Option<Vec<String>>,
    #[serde(rename = "externalName")]
    pub(super) external_name: Option<String>,
    #[serde(rename = "externalIPs")]
    pub(super) external_ips: Option<Vec<String>>,
    pub(super) ips: Option<Vec<String>>,
    pub(super) ports: Option<Vec<RawPort>>,
}

/// Of a Service or a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[serde(rename = "loadBalancer")]
    pub(super) load_balancer: LoadBalancer,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pub(super) pod_ips: Option<Vec<PodIp>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoadBalancer {
    pub(super) ingress: Option<Vec<Ingress>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ingress {
    pub(super) ip: Option<String>,
    pub(super) hostname: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodIp {
    pub(super) ip: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPort {
    pub(super) name: Option<String>,
    pub(super) port: Option<i64>,
    pub(super) protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawEndpoint {
    pub(super) addresses: Option<Vec<String>>,
    pub(super) hostname: Option<String>,
    pub(super) conditions: Option<Conditions>,
    pub(super) target_ref: Option<TargetRef>,
    pub(super) zone: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Conditions {
    pub(super) ready: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TargetRef {
    pub(super) name: Option<String>,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct RawPage {
    pub(super) metadata: PageMeta,
    pub(super) items: Option<Vec<Raw>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    /// Leads to the next page; empty on the last one.
    #[serde(rename = "continue")]
    pub(super) token: String,
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// Why a request failed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawStatus {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
}
