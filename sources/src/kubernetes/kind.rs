//! The kinds of objects that are read: where they are asked for, and what they are called.

use super::Settings;

/// What one watch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Namespaces.
    Namespaces,
    /// Services.
    Services,
    /// EndpointSlices of this cluster.
    Slices,
    /// Pods.
    Pods,
    /// ServiceImports of the MCS API.
    Imports,
    /// EndpointSlices of other clusters.
    ImportedSlices,
}

/// Of a finished pod the address is another's.
const LIVING_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown";
const IMPORTED: &str = "multicluster.kubernetes.io/service-name";

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Namespaces,
        Self::Services,
        Self::Slices,
        Self::Pods,
        Self::Imports,
        Self::ImportedSlices,
    ];

    /// What a stanza needs.
    pub(super) fn of(settings: &Settings) -> impl Iterator<Item = Self> + use<> {
        let Settings {
            endpoints,
            pods,
            multicluster,
            ..
        } = *settings;
        Self::ALL.into_iter().filter(move |kind| match kind {
            Self::Namespaces | Self::Services => true,
            Self::Slices => endpoints,
            Self::Pods => pods,
            Self::Imports | Self::ImportedSlices => multicluster,
        })
    }

    /// As metrics have it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Namespaces => "namespace",
            Self::Services => "service",
            Self::Slices => "endpointslice",
            Self::Pods => "pod",
            Self::Imports => "serviceimport",
            Self::ImportedSlices => "imported_endpointslice",
        }
    }

    /// As CoreDNS's log has it.
    pub(super) const fn type_name(self) -> &'static str {
        match self {
            Self::Namespaces => "*v1.Namespace",
            Self::Services => "*v1.Service",
            Self::Slices | Self::ImportedSlices => "*v1.EndpointSlice",
            Self::Pods => "*v1.Pod",
            Self::Imports => "*v1alpha1.ServiceImport",
        }
    }

    /// Resource and API group, as rules of RBAC have them.
    pub(super) const fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Namespaces => ("namespaces", ""),
            Self::Services => ("services", ""),
            Self::Slices | Self::ImportedSlices => ("endpointslices", "discovery.k8s.io"),
            Self::Pods => ("pods", ""),
            Self::Imports => ("serviceimports", "multicluster.x-k8s.io"),
        }
    }

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Namespaces => "/api/v1/namespaces",
            Self::Services => "/api/v1/services",
            Self::Slices | Self::ImportedSlices => "/apis/discovery.k8s.io/v1/endpointslices",
            Self::Pods => "/api/v1/pods",
            Self::Imports => "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports",
        }
    }

    pub(super) fn label_selector(self, settings: &Settings) -> Option<String> {
        match self {
            Self::Namespaces | Self::Imports => settings.namespace_labels.clone(),
            Self::Services | Self::Slices | Self::Pods => settings.labels.clone(),
            Self::ImportedSlices => Some(match &settings.labels {
                Some(labels) => format!("{labels},{IMPORTED}"),
                None => IMPORTED.to_owned(),
            }),
        }
    }

    pub(super) fn field_selector(self) -> Option<String> {
        (self == Self::Pods).then(|| LIVING_PODS.to_owned())
    }
}
