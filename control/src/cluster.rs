//! What a Kubernetes API server says becomes new versions of a cluster.
//!
//! ```text
//!   Message ──> Change by Change ──> Editor: the changed services' paths ──> publish
//! ```
//!
//! The source tells an object only when something about it changed, so everything that is told is published, all that came
//! at once in one version.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use nodens_engine::cluster::{
    Address, Cluster, Editor, Endpoint, External, Kind, Of, Place, PodLabels, Port, Service, Slice,
};
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::Zone;
use nodens_sources::kubernetes::{
    self as source, Change, EndpointAddress, Message, ObjectKey, Programmed, ServiceKind, Status,
};
use nodens_wire::NameBuf;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::kubernetes::{Secondaries, Terms};
use crate::notify::Notify;
use crate::output;
use crate::publish::Publisher;
use crate::rebuild::unix_secs;

/// One cluster, kept up to date.
#[derive(Debug)]
pub struct ClusterRebuild {
    id: ZoneId,
    cluster: Cluster,
    /// Of slices: which service each belongs to.
    slices: HashMap<(Of, ObjectKey), Box<[u8]>>,
    /// By namespace.
    pods: HashMap<Box<str>, Pods>,
    /// Everything has been read once.
    synced: Arc<AtomicBool>,
    publisher: Arc<Publisher>,
    status: Arc<Status>,
    /// What a reload may change.
    terms: watch::Receiver<Terms>,
    /// Those of the last version.
    in_use: Terms,
    /// Told of each version, once everything has been read.
    versions: watch::Sender<()>,
    /// Tells them, as long as they are those.
    telling: JoinSet<()>,
}

/// The pods of a namespace.
#[derive(Debug, Default)]
struct Pods {
    /// By name.
    addresses: HashMap<Box<str>, Addresses>,
    /// How many more than one have an address, where names are not told: those of a host's network share it.
    more_at: HashMap<IpAddr, u32>,
}

impl Pods {
    /// One more has the address.
    fn one_more(&mut self, address: IpAddr) {
        *self.more_at.entry(address).or_default() += 1;
    }

    /// One has it no more; tells whether none is left.
    fn was_last(&mut self, address: IpAddr) -> bool {
        let Entry::Occupied(mut more) = self.more_at.entry(address) else {
            return true;
        };
        *more.get_mut() -= 1;
        if *more.get() == 0 {
            more.remove();
        }
        false
    }
}

/// The addresses of a pod, of which nearly all have one.
#[derive(Debug)]
enum Addresses {
    One(IpAddr),
    Others(Box<[IpAddr]>),
}

impl From<Box<[IpAddr]>> for Addresses {
    fn from(all: Box<[IpAddr]>) -> Self {
        match *all {
            [one] => Self::One(one),
            _ => Self::Others(all),
        }
    }
}

impl Deref for Addresses {
    type Target = [IpAddr];

    fn deref(&self) -> &[IpAddr] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Others(all) => all,
        }
    }
}

/// Endpoint changes that are about to show: of which services, and when each was made.
type Changed = Vec<(Programmed, SystemTime)>;

impl ClusterRebuild {
    /// For a cluster of which nothing is known yet.
    pub fn new(
        id: ZoneId,
        cluster: Cluster,
        synced: Arc<AtomicBool>,
        publisher: Arc<Publisher>,
        status: Arc<Status>,
        terms: watch::Receiver<Terms>,
    ) -> Self {
        let in_use = terms.borrow().clone();
        Self {
            id,
            cluster,
            slices: HashMap::new(),
            pods: HashMap::new(),
            synced,
            publisher,
            status,
            terms,
            in_use,
            versions: watch::Sender::default(),
            telling: JoinSet::new(),
        }
    }

    /// Applies messages until the source ends.
    pub async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        self.hand_out();
        loop {
            tokio::select! {
                Ok(()) = self.terms.changed() => self.take_terms(),
                message = messages.recv() => match message {
                    Some(message) => self.apply(message),
                    None => break,
                },
            }
            if self.publisher.sweep() {
                // A worker was in the middle of a batch; batches are short.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Serves what is known in another way. It becomes a new version where that can be seen.
    fn take_terms(&mut self) {
        let terms = self.terms.borrow_and_update().clone();
        let mut editor = self.cluster.edit();
        if terms.showing != self.in_use.showing {
            editor.show_anew(terms.showing.zones.clone());
        }
        let mut pods = Vec::new();
        if terms.keeps_pod_names != self.in_use.keeps_pod_names {
            pods = self.take_pods(&mut editor);
        }
        self.in_use = terms;
        for (key, pod) in pods {
            self.put_pod(key, Some(pod), &mut editor);
        }
        self.cluster = editor.finish(unix_secs());
        self.hand_out();
    }

    /// Hands the zones to those who may have them now: what changes is kept for them, and they are told of it.
    fn hand_out(&mut self) {
        let Secondaries { any, notify } = &self.in_use.secondaries;
        self.cluster = self.cluster.clone().with_history(*any);
        self.publish();
        self.telling = Notify::follow(notify, &self.versions);
        if self.cluster.is_synced() {
            self.versions.send_replace(());
        }
    }

    fn publish(&self) {
        let cluster = Box::new(self.cluster.clone());
        self.publisher.zone(self.id, Zone::Cluster(cluster));
    }

    /// Applies one message, and publishes what it changes.
    pub fn apply(&mut self, message: Message) {
        let mut editor = self.cluster.edit();
        let mut programmed = Vec::new();
        match message {
            Message::Changes(changes) => {
                for change in changes {
                    self.change(change, &mut editor, &mut programmed);
                }
            }
            Message::Synced => editor.synced(),
        }
        let serial = self.cluster.serial();
        self.cluster = editor.finish(unix_secs());
        self.publish();
        self.synced.store(self.cluster.is_synced(), Ordering::Release);
        if self.cluster.is_synced() && self.cluster.serial() != serial {
            self.versions.send_replace(());
        }
        for (services, since) in programmed {
            self.status.programmed(services, since.elapsed().unwrap_or_default());
        }
    }

    fn change(&mut self, change: Change, editor: &mut Editor, programmed: &mut Changed) {
        match change {
            Change::Namespace(name, exists) => {
                if let Some(label) = labels([&*name]) {
                    editor.namespace(&label, exists);
                }
            }
            Change::Service(key, service) => put_service(Of::Cluster, &key, service, editor),
            Change::Import(key, service) => put_service(Of::Clusterset, &key, service, editor),
            Change::Slice(key, slice) => self.put_slice(Of::Cluster, key, slice, editor, programmed),
            Change::ImportedSlice(key, slice) => self.put_slice(Of::Clusterset, key, slice, editor, programmed),
            Change::Pod(key, pod) => self.put_pod(key, pod, editor),
        }
    }

    fn put_slice(
        &mut self,
        of: Of,
        key: ObjectKey,
        slice: Option<source::Slice>,
        editor: &mut Editor,
        programmed: &mut Changed,
    ) {
        let id = key.name.as_bytes();
        let own = slice
            .as_ref()
            .and_then(|slice| labels([&*slice.service, &*key.namespace]));
        let of_before = self.slices.get(&(of, key.clone()));
        if let Some(before) = of_before.filter(|before| Some(*before) != own.as_ref()) {
            editor.remove_slice(of, before, id);
        }
        let (Some(own), Some(slice)) = (own, slice) else {
            self.slices.remove(&(of, key));
            return;
        };
        if let Some(since) = slice.changed
            && of == Of::Cluster
            && self.cluster.is_synced()
            && let Some(is_headless) = editor.is_headless(of, &own)
        {
            let services = if is_headless {
                Programmed::Headless
            } else {
                Programmed::ClusterIp
            };
            programmed.push((services, since));
        }
        editor.put_slice(of, &own, self::slice(id, slice));
        self.slices.insert((of, key), own);
    }

    fn put_pod(&mut self, key: ObjectKey, pod: Option<source::Pod>, editor: &mut Editor) {
        let Some(mut owner) = labels([&*key.namespace]).map(Vec::from) else {
            return;
        };
        if self.in_use.keeps_pod_names {
            owner.extend_from_slice(key.name.as_bytes());
        }
        let ObjectKey { namespace: own, name } = key;
        let pods = self.pods.entry(own.clone()).or_default();
        let mut labels = PodLabels::default();
        let mut now: Box<[IpAddr]> = Box::default();
        let before = match pod {
            Some(pod) => {
                labels = PodLabels::new(pod.labels.iter().map(Option::as_deref));
                now = pod.addresses;
                pods.addresses.insert(name, now.clone().into())
            }
            None => pods.addresses.remove(&name),
        };
        let before = before.as_deref().unwrap_or_default();
        // A name is one pod's alone.
        let counts = !self.in_use.keeps_pod_names;
        // At an address that it had already, its labels may be others.
        let is_news = |address: &&IpAddr| !before.contains(address) || !labels.is_empty();
        for address in now.iter().filter(is_news) {
            let was_there = editor.pod(&Address::from(*address), &owner, Some(&labels));
            if counts && was_there {
                pods.one_more(*address);
            }
        }
        for address in before.iter().filter(|&address| !now.contains(address)) {
            if !counts || pods.was_last(*address) {
                editor.pod(&Address::from(*address), &owner, None);
            }
        }
        if pods.addresses.is_empty() {
            self.pods.remove(&own);
        }
    }

    /// Takes all pods out. They have no labels: with those that are told come and go other settings of the source.
    fn take_pods(&mut self, editor: &mut Editor) -> Vec<(ObjectKey, source::Pod)> {
        let mut all = Vec::new();
        for (namespace, pods) in &self.pods {
            for (name, addresses) in &pods.addresses {
                let key = ObjectKey {
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                let pod = source::Pod {
                    addresses: addresses[..].into(),
                    labels: Box::default(),
                };
                all.push((key, pod));
            }
        }
        for (key, _) in &all {
            self.put_pod(key.clone(), None, editor);
        }
        all
    }
}

fn put_service(of: Of, key: &ObjectKey, service: Option<source::Service>, editor: &mut Editor) {
    if let Some(labels) = labels([&*key.name, &*key.namespace]) {
        editor.service(of, &labels, service.map(|service| self::service(key, service)));
    }
}

/// Labels in wire form; none where one is no label.
fn labels<const N: usize>(texts: [&str; N]) -> Option<Box<[u8]>> {
    let mut bytes = Vec::with_capacity(32);
    for text in texts {
        let len = u8::try_from(text.len()).ok().filter(|len| (1..64).contains(len))?;
        bytes.push(len);
        bytes.extend_from_slice(text.as_bytes());
    }
    Some(bytes.into())
}

fn service(key: &ObjectKey, service: source::Service) -> Service {
    let kind = match service.kind {
        ServiceKind::ClusterIps(addresses) => Kind::Addresses(addresses.iter().map(|&at| at.into()).collect()),
        ServiceKind::Headless => Kind::Endpoints,
        ServiceKind::ExternalName(name) => match alias(&name) {
            Some(name) => Kind::Alias(name),
            None => {
                let ObjectKey { namespace, name: own } = key;
                output::warning(&format!(
                    "plugin/kubernetes: Service {namespace}/{own}: externalName {name:?} is no DNS name, so the Service has none"
                ));
                Kind::Nothing
            }
        },
    };
    let external = service.external.into_iter().filter_map(|external| match external {
        source::External::Address(address) => Some(External::Address(address.into())),
        source::External::Hostname(name) => alias(&name).map(External::Name),
    });
    Service {
        kind,
        ports: ports(service.ports),
        external: external.collect(),
    }
}

/// The name that an alias leads to. An address is none.
fn alias(text: &str) -> Option<Box<[u8]>> {
    if text.parse::<IpAddr>().is_ok() {
        return None;
    }
    let name = NameBuf::from_text(text).ok()?;
    Some(name.as_bytes().into())
}

fn ports(ports: Box<[source::Port]>) -> Box<[Port]> {
    let port = |port: source::Port| Port {
        name: port.name.to_ascii_lowercase().into_bytes().into(),
        protocol: port.protocol.into_boxed_bytes(),
        number: port.number,
    };
    ports.into_iter().map(port).collect()
}

fn slice(id: &[u8], slice: source::Slice) -> Slice {
    let mut zones: Vec<Box<[u8]>> = Vec::new();
    let endpoints = slice.endpoints.into_iter().filter_map(|endpoint| {
        let place = match endpoint.address {
            EndpointAddress::Ip(address) => Place::Address(address.into()),
            EndpointAddress::Name(name) => Place::Name(alias(&name)?),
        };
        let zone = endpoint.zone.and_then(|zone| {
            let parts = zone.split('.').map(|part| labels([part]));
            let zone: Box<[u8]> = parts.collect::<Option<Vec<_>>>()?.concat().into();
            let at = zones.iter().position(|own| *own == zone).unwrap_or_else(|| {
                zones.push(zone);
                zones.len() - 1
            });
            u16::try_from(at).ok()
        });
        Some(Endpoint {
            place,
            label: endpoint.label.map(str::into_boxed_bytes),
            zone,
        })
    });
    let endpoints = endpoints.collect();
    Slice::new(
        id,
        slice.cluster.as_bytes(),
        ports(slice.ports),
        zones.into(),
        endpoints,
    )
}
