//! `kubernetes`, `k8s_external`, and the `autopath` of a cluster's pods.

use std::time::Duration;

use nodens_sources::kubernetes;
use nodens_wire::NameBuf;

use super::PathSetting;
use crate::corefile::source::Span;

/// `kubernetes`
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The zones answered.
    pub zones: Vec<NameBuf>,
    /// The first of the zones that is no reverse zone: PTR records name what lies in it.
    pub primary: NameBuf,
    /// What is read of which API server, and how.
    pub source: kubernetes::Settings,
    /// Where the API server is said: the option, or the directive.
    pub server_span: Span,
    /// The files that are named there.
    pub files: Vec<PathSetting>,
    /// Only these namespaces are answered for; none for all.
    pub namespaces: Option<Vec<String>>,
    /// Names of pods.
    pub pods: PodNames,
    /// Of all records.
    pub ttl_secs: u32,
    /// The zones whose unknown names go to the next step; none without `fallthrough`.
    pub fallthrough: Option<Vec<NameBuf>>,
    /// Services with addresses of their own and no ready endpoint do not exist.
    pub ignore_empty_service: bool,
    /// Those of the zones that hold the services of a set of clusters.
    pub multicluster: Vec<NameBuf>,
    /// How long a start or a reload waits for the first lists.
    pub startup_timeout: Duration,
    /// The directive's name.
    pub span: Span,
}

/// `pods`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNames {
    /// There are none.
    Disabled,
    /// Any address is a name.
    Insecure,
    /// The addresses of the pods there are.
    Verified,
}

/// `k8s_external`
#[derive(Clone, Debug)]
pub struct K8sExternal {
    /// The zones answered.
    pub zones: Vec<NameBuf>,
    /// Below each zone: what the names of the zone's own servers lie below.
    pub apex: NameBuf,
    /// Of addresses, PTR, SOA and NS.
    pub ttl_secs: u32,
    /// Headless services answer with their endpoints.
    pub headless: bool,
    /// The zones whose unknown names go to the next step; none without `fallthrough`.
    pub fallthrough: Option<Vec<NameBuf>>,
    /// The directive's name.
    pub span: Span,
}

/// `autopath @kubernetes`: the search path is that of the pod that asks.
#[derive(Clone, Debug)]
pub struct PodAutopath {
    /// Names outside are left alone.
    pub zones: Vec<NameBuf>,
    /// What the server's own /etc/resolv.conf says, tried behind the suffixes of the cluster.
    pub search: Vec<NameBuf>,
    /// The directive's name.
    pub span: Span,
}
