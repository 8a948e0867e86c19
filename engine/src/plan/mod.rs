//! Plans: what a server block does with a question, compiled to a slice of steps.
//!
//! ```text
//!            down: enter, until one answers
//!   question ──> local, any, chaos ──> loadbalance ──> acl ──> header ──> minimal ──> transfer, hosts ... whoami
//!   reply    <──────────────────────── loadbalance <── header <── minimal <─────┘       └──> nobody: SERVFAIL
//!            up: leave, in reverse               observers (prometheus, errors, log) see the end of it, once
//! ```
//!
//! The order is that of [`Step`], which is CoreDNS's, not that of the file. There is no dynamic dispatch and no task:
//! a question is a cursor into the slice.

mod acl;
mod any;
pub mod autopath;
mod cache;
mod chaos;
pub mod dns64;
mod etcd;
mod file;
mod forward;
mod header;
mod hosts;
mod kubernetes;
mod loadbalance;
mod local;
mod looping;
mod minimal;
mod nested;
mod net;
mod outside;
pub mod rewrite;
mod route;
mod steps;
mod stub;
pub mod template;
mod templates;
mod transfer;
pub mod view;
mod walk;
mod whoami;
mod zones;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nodens_wire::{Name, NameBuf, Rclass, Rtype, label};

use crate::answer::Answer;
use crate::cluster::{self, Shown, Zoned, service_at};
use crate::forward::Canary;
use crate::log::LogRule;
use crate::services::Entry;
use crate::snapshot::{Data, ZoneId};
use crate::zone::Node;
use crate::zone::trie::Spot;
use autopath::Autopath;
use dns64::Dns64;
use rewrite::Rewrite;
use view::View;

pub use acl::{Acl, AclAction, AclLine, AclStanza};
pub use cache::Cache;
pub use chaos::Chaos;
pub use file::{Auto, Catalog, Copied, Notified, Primaries, Secondary};
pub use forward::Forward;
pub use header::Header;
pub use kubernetes::{External, Kubernetes};
pub use loadbalance::LoadBalance;
pub use local::Local;
pub use net::{Cidr, Nets};
pub(crate) use route::route;
pub use steps::Steps;
pub use templates::{Failing, Failures, Templates, Written};
pub use transfer::{Clients, Transfer};
pub(crate) use walk::{Client, Tools, Visit, Walk};
pub use zones::ZoneMap;

/// A step's name, as Corefiles, logs and metrics write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StepName {
    /// `local`
    Local,
    /// `dns64`
    Dns64,
    /// `any`
    Any,
    /// `chaos`
    Chaos,
    /// `loadbalance`
    LoadBalance,
    /// `rewrite`
    Rewrite,
    /// `autopath`
    Autopath,
    /// `acl`
    Acl,
    /// `cache`
    Cache,
    /// `header`
    Header,
    /// `minimal`
    Minimal,
    /// `template`
    Template,
    /// `transfer`
    Transfer,
    /// `hosts`
    Hosts,
    /// `k8s_external`
    K8sExternal,
    /// `kubernetes`
    Kubernetes,
    /// `file`
    File,
    /// `auto`
    Auto,
    /// `secondary`
    Secondary,
    /// `etcd`
    Etcd,
    /// `loop`
    Loop,
    /// `forward`
    Forward,
    /// `proxy`
    Proxy,
    /// `whoami`
    Whoami,
}

impl StepName {
    /// All of them, in the order of execution.
    pub const ALL: [Self; 24] = [
        Self::Local,
        Self::Dns64,
        Self::Any,
        Self::Chaos,
        Self::LoadBalance,
        Self::Rewrite,
        Self::Autopath,
        Self::Acl,
        Self::Cache,
        Self::Header,
        Self::Minimal,
        Self::Template,
        Self::Transfer,
        Self::Hosts,
        Self::K8sExternal,
        Self::Kubernetes,
        Self::File,
        Self::Auto,
        Self::Secondary,
        Self::Etcd,
        Self::Loop,
        Self::Forward,
        Self::Proxy,
        Self::Whoami,
    ];

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Dns64 => "dns64",
            Self::Rewrite => "rewrite",
            Self::Autopath => "autopath",
            Self::Any => "any",
            Self::Chaos => "chaos",
            Self::LoadBalance => "loadbalance",
            Self::Acl => "acl",
            Self::Cache => "cache",
            Self::Header => "header",
            Self::Minimal => "minimal",
            Self::Template => "template",
            Self::Transfer => "transfer",
            Self::Hosts => "hosts",
            Self::K8sExternal => "k8s_external",
            Self::Kubernetes => "kubernetes",
            Self::File => "file",
            Self::Auto => "auto",
            Self::Secondary => "secondary",
            Self::Etcd => "etcd",
            Self::Loop => "loop",
            Self::Forward => "forward",
            Self::Proxy => "proxy",
            Self::Whoami => "whoami",
        }
    }
}

/// For each series that a query of a zone may have, the zone's own.
pub type Counted = Box<[(u32, u32)]>;

/// What a server block does with a question.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order of [`Step`].
    pub steps: Steps,
    /// `prometheus` is there: queries are counted.
    pub metrics: bool,
    /// `errors`: reasons of failures are logged, by the writer's number for the rules that gather them.
    pub errors: Option<u32>,
    /// `log`: the first rule that covers the name decides.
    pub log: Box<[LogRule]>,
    /// `view`: the block is only for some questions.
    pub view: Option<View>,
    /// `metadata`, and the zones for whose names there are any.
    pub metadata: Option<ZoneMap<()>>,
    /// `bufsize`: no UDP reply is longer, whatever the client offers.
    pub udp_size: Option<u16>,
    /// `nsid`: what a client is told that asks for the server's name.
    pub nsid: Option<Arc<[u8]>>,
    /// Zones that come and go, and are counted by their own names: for each series that a query may have, theirs.
    pub counted: Option<ZoneMap<Counted>>,
    /// `cancel`: a query that waits for other servers is given up when it is so old.
    pub cancel: Option<Duration>,
}

impl Probe<'_> {
    /// What is looked for, of the folded name.
    #[inline]
    pub(crate) fn key<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        let (from, to) = self.key;
        &name[usize::from(from)..usize::from(to)]
    }
}

impl Plan {
    /// Whether anything here handles queries at all; a block of settings alone refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Nearly always this is all that has to be looked at.
        self.steps.is_empty() && !self.observes()
    }

    #[cold]
    fn observes(&self) -> bool {
        let observes = self.metrics || self.errors.is_some() || !self.log.is_empty();
        let passes_on = self.cancel.is_some() || self.view.is_some() || self.metadata.is_some();
        observes || passes_on || self.udp_size.is_some() || self.nsid.is_some()
    }

    /// The directive behind which nothing comes, as far as `errors` sees it.
    fn last(&self) -> &'static str {
        match self.steps.last() {
            Some(step) => step.name().as_str(),
            None if !self.log.is_empty() => "log",
            None => "errors",
        }
    }

    /// There are metadata for a folded name.
    pub(crate) fn has_metadata(&self, name: &[u8]) -> bool {
        self.metadata.as_ref().is_some_and(|zones| zones.contains(name))
    }

    /// Writes what is known of a query by a label before anybody has answered it; false where that is nothing. What does
    /// not fit is an error.
    pub(crate) fn metadata(
        &self,
        label: &str,
        client: &Client<'_>,
        data: &Data,
        out: &mut dyn fmt::Write,
    ) -> Result<bool, fmt::Error> {
        let name = client.query.qname.to_buf().folded();
        let name = name.as_bytes();
        if !self.has_metadata(name) {
            return Ok(false);
        }
        if let (view::NAME_LABEL, Some(view)) = (label, &self.view) {
            out.write_str(&view.name)?;
            return Ok(true);
        }
        let cluster = self.steps.iter().find_map(|step| match step {
            Step::Kubernetes(step) => Some(step),
            _ => None,
        });
        match (label.strip_prefix("kubernetes/"), cluster) {
            (Some(label), Some(step)) => step.metadata(label, name, client.address(), data, out),
            _ => Ok(false),
        }
    }

    /// The series of a query for a folded name, which its route counts in `series`.
    #[inline]
    pub(crate) fn series(&self, name: &[u8], series: u32) -> u32 {
        match &self.counted {
            None => series,
            Some(zones) => series_of(zones, name, series),
        }
    }

    /// Where a folded name will be looked up first. The block's zone stands behind its first `known` bytes.
    #[inline]
    pub(crate) fn first_zone(&self, name: &[u8], known: usize) -> Option<Probe<'static>> {
        match &self.steps.lone {
            Some(lone) if label::eq(&name[known..], lone.apex.as_bytes()) => {
                Some(self.probe(lone.step, known, lone.zone))
            }
            _ => self.search_first_zone(name, known),
        }
    }

    #[inline(never)]
    fn search_first_zone(&self, name: &[u8], known: usize) -> Option<Probe<'static>> {
        let from = self.steps.before_sources;
        for (step, at) in self.steps[usize::from(from)..].iter().zip(from..) {
            let (mut key, mut shown) = (None, None);
            let found = match step {
                Step::Hosts(hosts) => Some((name.len() - 1, hosts.data)),
                // A stub zone may hold it, wherever it lies.
                Step::Etcd(source) if source.stubs.is_some() => return None,
                Step::File(source) | Step::Etcd(source) => {
                    source.zones.find_near(name, known).map(|(len, &zone)| (len, zone))
                }
                // Which zone it would be, only the data can tell.
                Step::Secondary(secondary) if !secondary.catalogs.is_empty() => return None,
                Step::Secondary(secondary) => secondary
                    .zones
                    .find_near(name, known)
                    .map(|(len, zone)| (len, zone.data)),
                Step::Kubernetes(step) => step.zones.find_near(name, known).map(|(len, &own)| {
                    // A name of another kind than a service's is not looked for here.
                    let service = if own.kind == Zoned::Forward {
                        service_at(&name[..len])
                    } else {
                        None
                    };
                    key = Some(service.unwrap_or_default());
                    shown = Some(own);
                    (len, step.data)
                }),
                // One look-up says less there than the name.
                Step::K8sExternal(step) if step.zones.contains(name) => return None,
                Step::Auto(auto) if auto.zones.contains(name) => return None,
                _ => None,
            };
            if let Some((len, zone)) = found {
                let probe = self.probe(at, len, zone);
                return Some(Probe {
                    key: key.unwrap_or(probe.key),
                    shown,
                    ..probe
                });
            }
        }
        None
    }

    /// For all that stands in front of a zone's name, which is `len` bytes.
    #[inline(always)]
    fn probe(&self, step: u16, len: usize, zone: ZoneId) -> Probe<'static> {
        Probe {
            begin: self.steps.watcher.unwrap_or(step),
            step,
            len,
            // A name has 255 bytes at most.
            key: (0, len as u8),
            zone,
            shown: None,
            hash: 0,
            held: Held::Unknown,
        }
    }
}

/// The series of the longest of these zones that holds the name.
#[cold]
fn series_of(zones: &ZoneMap<Counted>, name: &[u8], series: u32) -> u32 {
    let own = zones
        .find(name)
        .and_then(|(_, own)| own.iter().find(|(of, _)| *of == series));
    own.map_or(series, |(_, own)| *own)
}

/// One directive that handles queries. The order of the variants is the order of execution.
#[derive(Debug)]
pub enum Step {
    /// Answers for the machine itself.
    Local(Local),
    /// Makes IPv6 addresses out of IPv4 ones.
    Dns64(Dns64),
    /// Answers questions of type ANY.
    Any,
    /// Answers about the server, in class CH.
    Chaos(Chaos),
    /// Shuffles addresses on the way up.
    LoadBalance(LoadBalance),
    /// Puts another question in the place of the client's.
    Rewrite(Rewrite),
    /// Tries the names of a search path.
    Autopath(Autopath),
    /// Turns clients away.
    Acl(Acl),
    /// Answers with what other servers said before, and keeps what they say.
    Cache(Box<Cache>),
    /// Changes bits of the header.
    Header(Header),
    /// Takes off what an answer can do without, on the way up.
    Minimal,
    /// Writes records for the question.
    Template(Templates),
    /// Hands out whole zones.
    Transfer(Transfer),
    /// Answers from a hosts file.
    Hosts(Hosts),
    /// Answers for services of a cluster, as they are reached from outside.
    K8sExternal(Box<External>),
    /// Answers for services and pods of a cluster.
    Kubernetes(Kubernetes),
    /// Answers from zone files.
    File(Source),
    /// Answers from the zone files of a folder.
    Auto(Auto),
    /// Answers from copies of other servers' zones.
    Secondary(Secondary),
    /// Answers from etcd.
    Etcd(Source),
    /// Finds out whether what is forwarded comes back.
    Loop(Arc<Canary>),
    /// Asks other servers.
    Forward(Forward),
    /// Answers with the client's address.
    Whoami,
}

impl Step {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> StepName {
        match self {
            Self::Local(_) => StepName::Local,
            Self::Dns64(_) => StepName::Dns64,
            Self::Rewrite(_) => StepName::Rewrite,
            Self::Autopath(_) => StepName::Autopath,
            Self::Any => StepName::Any,
            Self::Chaos(_) => StepName::Chaos,
            Self::LoadBalance(_) => StepName::LoadBalance,
            Self::Acl(_) => StepName::Acl,
            Self::Cache(_) => StepName::Cache,
            Self::Header(_) => StepName::Header,
            Self::Minimal => StepName::Minimal,
            Self::Template(_) => StepName::Template,
            Self::Transfer(_) => StepName::Transfer,
            Self::Hosts(_) => StepName::Hosts,
            Self::K8sExternal(_) => StepName::K8sExternal,
            Self::Kubernetes(_) => StepName::Kubernetes,
            Self::File(_) => StepName::File,
            Self::Auto(_) => StepName::Auto,
            Self::Secondary(_) => StepName::Secondary,
            Self::Etcd(_) => StepName::Etcd,
            Self::Loop(_) => StepName::Loop,
            Self::Forward(forward) => forward.name(),
            Self::Whoami => StepName::Whoami,
        }
    }
}

/// A step that answers for zones.
#[derive(Debug)]
pub struct Source {
    /// Where each zone's data is.
    pub zones: ZoneMap<ZoneId>,
    /// A name that does not exist goes on to the next step, where it lies in one of these.
    pub fallthrough: Option<ZoneMap<()>>,
    /// Who answers for targets outside the zones; nobody where they start again from the choice of the server block.
    pub outside: Option<Box<Plan>>,
    /// The zone whose keys name the servers of stub zones, if there are to be any.
    pub stubs: Option<ZoneId>,
}

fn falls_through_names(fallthrough: Option<&[NameBuf]>, name: Name<'_>) -> bool {
    fallthrough.is_some_and(|zones| zones.iter().any(|zone| name.is_within(zone.as_name())))
}

fn falls_through(fallthrough: Option<&ZoneMap<()>>, name: &[u8]) -> bool {
    fallthrough.is_some_and(|zones| zones.contains(name))
}

/// The `hosts` step.
#[derive(Debug)]
pub struct Hosts {
    /// One record zone, named `.`, with the addresses and their PTR.
    pub data: ZoneId,
    /// Names outside go on to the next step.
    pub zones: ZoneMap<()>,
    /// As in [`Source`].
    pub fallthrough: Option<ZoneMap<()>>,
    /// Types other than A, AAAA and PTR go on as well, where `fallthrough` covers the name.
    pub fallthrough_unsupported: bool,
}

/// What is asked now: the client's question, or a name that an alias led to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The name.
    pub(crate) name: Name<'a>,
    /// The same in lower case, in wire form.
    pub(crate) folded: &'a [u8],
    /// The type.
    pub(crate) rtype: Rtype,
    /// The class.
    pub(crate) rclass: Rclass,
    /// The counters of the route that leads here.
    pub(crate) series: u32,
    /// Prepared bytes may be used: they point into the client's question.
    pub(crate) may_copy: bool,
}

/// Where the first step that may know a name looks for it, and what stands there: found in the first pass over a batch,
/// used in the second.
#[derive(Debug)]
pub(crate) struct Probe<'z> {
    /// Index of the step to begin with: those before it pass every question on.
    pub(crate) begin: u16,
    /// Index of the step that may know the name.
    pub(crate) step: u16,
    /// Bytes of the name in front of the zone's.
    pub(crate) len: usize,
    /// Which bytes of the name are looked for: mostly those in front of the zone's.
    pub(crate) key: (u8, u8),
    /// The zone.
    pub(crate) zone: ZoneId,
    /// How it shows a cluster, if it does.
    pub(crate) shown: Option<Shown>,
    /// The hash of the key.
    pub(crate) hash: u64,
    /// What has that hash.
    pub(crate) held: Held<'z>,
}

/// What has the hash of a name. Its own name has not been compared yet.
#[derive(Debug)]
pub(crate) enum Held<'z> {
    /// Nobody has looked.
    Unknown,
    /// A place in a service tree: what has the hash stands there or beside it.
    NearEntry(Spot<'z, Entry>),
    /// A place in a record zone.
    NearNode(Spot<'z, Node>),
    /// A place among the services of a cluster.
    NearService(Spot<'z, cluster::Entry>),
    /// Nothing: the name is not there.
    Nothing,
    /// A name of a service tree.
    Entry(&'z Entry),
    /// A name of a record zone.
    Node(&'z Node),
    /// A service of a cluster.
    Service(&'z cluster::Entry),
}

/// What a step did. Nothing else decides where a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Not for this step, or not found: on to the next.
    Next,
    /// The answer says all, but for what is still pending in it.
    Answered,
    /// So it does, and it comes out of the cache: the steps between it and this one have no part in it.
    Kept,
    /// Another server has to be asked first.
    Waits,
}

/// No step has made a reply, so the server will make one.
fn is_servers_own(answer: &Answer<'_>) -> bool {
    answer.by.is_none()
}
