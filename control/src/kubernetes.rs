//! What a `kubernetes` stanza and the `k8s_external` beside it say, in the engine's words.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::cluster::{Address, Apex, Authority, ExternalView, Pods, Shown, View, Zoned};
use nodens_engine::io::local_addresses;
use nodens_engine::plan::{External, Kubernetes, ZoneMap};
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::trie::NameHash;
use nodens_sources::kubernetes::{self, Machine, Server, Unusable};
use nodens_wire::{Name, NameBuf};

use crate::addresses;
use crate::corefile::settings::{self, PathSetting, PodNames, ServerBlock, Transfer};
use crate::corefile::{Diagnostic, Span, is_reverse};
use crate::notify::Notify;

/// The longest that a SOA of a cluster's zone may be kept, in seconds.
const SOA_TTL_MAX: u32 = 300;

/// A `kubernetes` stanza.
#[derive(Clone, Debug)]
pub struct ClusterSource {
    /// Where it is published.
    pub id: ZoneId,
    /// What the source is told.
    pub settings: kubernetes::Settings,
    /// How it is served.
    pub terms: Terms,
    /// How long a new configuration waits for it to be read.
    pub patience: Duration,
    /// Where the API server is said.
    pub span: Span,
    /// The files that are named there.
    pub files: Vec<PathSetting>,
}

/// How a cluster is served. It may change meanwhile, but for the names of its zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What its zones show.
    pub showing: Showing,
    /// Who may have them whole.
    pub secondaries: Secondaries,
    /// The names of pods are told as metadata.
    pub keeps_pod_names: bool,
}

/// What the zones of a cluster show of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Showing {
    /// The zones, those of `k8s_external` last.
    pub zones: Vec<Apex>,
    /// What the stanza says.
    pub view: Arc<View>,
    /// What `k8s_external` says.
    pub external: Option<Arc<ExternalView>>,
}

/// Who may have the zones of a cluster whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secondaries {
    /// There are some.
    pub any: bool,
    /// Those who are told of new versions.
    pub notify: Vec<Notify>,
}

impl Secondaries {
    /// As the stanzas of `transfer` say.
    pub fn of(transfer: &[Transfer], zones: &[Apex]) -> Self {
        let zones = || {
            let names = zones.iter().map(|zone| &zone.name);
            names.filter(|name| !is_reverse(name.as_name()))
        };
        Self {
            any: zones().any(|zone| Notify::is_handed_out(transfer, zone)),
            notify: zones().filter_map(|zone| Notify::of(transfer, zone)).collect(),
        }
    }
}

impl ClusterSource {
    /// All that keeps it from ever asking the API server, as things are now; drawn at the words that are to blame.
    pub fn check(&self) -> Vec<Diagnostic> {
        let all = kubernetes::check(&self.settings.server, &Machine);
        all.iter().map(|error| self.shown(error)).collect()
    }

    fn shown(&self, error: &Unusable) -> Diagnostic {
        let named = |file: &PathSetting| error.file() == Some(&*file.path);
        let span = self
            .files
            .iter()
            .find(|file| named(file))
            .map_or(self.span, |file| file.span);
        let diagnostic = Diagnostic::error(span, format!("plugin/kubernetes: {error}"));
        diagnostic.help(match error {
            Unusable::NotInCluster => "run it in a pod, or name the API server with `kubeconfig` or `endpoint`",
            Unusable::Url { .. } => "write a URL such as `https://192.0.2.1:6443`",
            Unusable::Tls(_) => "the files are, in this order: certificate, key, authority",
            Unusable::Kubeconfig { .. } => "`kubectl --kubeconfig FILE config get-contexts` shows what is in it",
            Unusable::Unreadable { .. } | Unusable::Client(_) => "the files that are named there must be readable here",
        })
    }

    /// The same where the server may be meant to run elsewhere: that it does not run in a pod here is odd at most.
    pub fn check_here(&self) -> Vec<Diagnostic> {
        let mut found = self.check();
        if let Server::InCluster = self.settings.server {
            for one in &mut found {
                *one = Diagnostic::warning(self.span, std::mem::take(&mut one.text));
            }
        }
        found
    }
}

/// The zones that show the cluster of a block.
pub fn apexes(stanza: &settings::Kubernetes, external: Option<&settings::K8sExternal>) -> Vec<Apex> {
    let own = stanza.zones.iter().map(|zone| Apex {
        name: zone.clone(),
        soa_ttl: stanza.ttl_secs.min(SOA_TTL_MAX),
        minimum: stanza.ttl_secs,
        authority: Authority::Dns,
    });
    let outside = external.into_iter().flat_map(|external| {
        external.zones.iter().map(|zone| Apex {
            name: zone.clone(),
            soa_ttl: external.ttl_secs,
            minimum: external.ttl_secs,
            authority: Authority::Below(label(&external.apex)),
        })
    });
    own.chain(outside).collect()
}

/// The steps of a block, for the cluster that is published as `id`.
pub fn steps(
    block: &ServerBlock,
    stanza: &settings::Kubernetes,
    id: ZoneId,
    hash: &NameHash,
) -> (Option<External>, Kubernetes) {
    let mut zones = ZoneMap::new(hash.clone());
    for (place, zone) in stanza.zones.iter().enumerate() {
        let kind = if is_reverse(zone.as_name()) {
            Zoned::Reverse
        } else if stanza.multicluster.contains(zone) {
            Zoned::Clusterset
        } else {
            Zoned::Forward
        };
        zones.entry(zone, || shown(place, kind));
    }
    let view = Arc::new(View {
        ttl: stanza.ttl_secs,
        namespaces: stanza.namespaces.as_ref().map(|names| {
            let name = |name: &String| NameBuf::from_text(name).ok().map(|name| label(&name.folded()));
            names.iter().filter_map(name).collect()
        }),
        pods: match stanza.pods {
            PodNames::Disabled => Pods::Disabled,
            PodNames::Insecure => Pods::Insecure,
            PodNames::Verified => Pods::Verified,
        },
        ignore_empty_services: stanza.ignore_empty_service,
        zonal: stanza.source.zonal,
        primary: stanza.primary.clone(),
        own: own_addresses(block),
    });
    let outside = block.k8s_external.as_ref().map(|external| {
        let mut zones = ZoneMap::new(hash.clone());
        for (zone, place) in external.zones.iter().zip(stanza.zones.len()..) {
            let kind = if is_reverse(zone.as_name()) {
                Zoned::Reverse
            } else {
                Zoned::Forward
            };
            zones.entry(zone, || shown(place, kind));
        }
        External {
            data: id,
            zones,
            fallthrough: external.fallthrough.as_deref().map(|zones| ZoneMap::set(zones, hash)),
            view: Arc::clone(&view),
            external: Arc::new(ExternalView {
                ttl: external.ttl_secs,
                apex: label(&external.apex),
                headless: external.headless,
                primary: external.zones.first().cloned().unwrap_or_default(),
            }),
        }
    });
    let inside = Kubernetes {
        data: id,
        zones,
        fallthrough: stanza.fallthrough.as_deref().map(|zones| ZoneMap::set(zones, hash)),
        view,
        pod_labels: stanza.source.pod_labels.as_slice().into(),
    };
    (outside, inside)
}

/// A zone by its place among all that show a cluster.
fn shown(place: usize, kind: Zoned) -> Shown {
    Shown {
        // A line of a Corefile has no more words than that.
        place: u16::try_from(place).unwrap_or(u16::MAX),
        kind,
    }
}

/// A name without its root, in wire form.
fn label(name: &NameBuf) -> Box<[u8]> {
    name.as_name().strip(Name::ROOT).unwrap_or_default().into()
}

/// Where the server can be reached: at the addresses of `bind`, else at all of this host.
fn own_addresses(block: &ServerBlock) -> Vec<Address> {
    let places = addresses::places(block, &mut Vec::new(), &mut Vec::new());
    let bound = places
        .iter()
        .filter(|place| place.is_bound && !place.address.is_unspecified());
    let bound: Vec<IpAddr> = bound.map(|place| place.address).collect();
    let all = if bound.is_empty() {
        let host = local_addresses().unwrap_or_default();
        host.iter()
            .map(|address| address.ip())
            .filter(|address| !address.is_loopback())
            .collect()
    } else {
        bound
    };
    all.into_iter().map(Address::from).collect()
}
