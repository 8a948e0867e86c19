//! Plans: what a server block does with a question, compiled to a slice of steps.
//!
//! ```text
//!            down: enter, until one answers
//!   question ──> loadbalance ──> transfer ──> hosts ──> file ──> etcd ──> whoami ──> end: SERVFAIL
//!   reply    <── loadbalance <───────────────┘
//!            up: leave, in reverse               observers (prometheus, errors, log) see the end of it, once
//! ```
//!
//! The order is that of [`Step`], which is CoreDNS's, not that of the file. There is no dynamic dispatch and no task:
//! a question is a cursor into the slice.

mod etcd;
mod file;
mod hosts;
mod loadbalance;
mod route;
mod transfer;
pub mod view;
mod walk;
mod whoami;
mod zones;

use nodens_wire::{Name, Rtype};

use crate::log::LogRule;
use crate::services::Entry;
use crate::snapshot::ZoneId;
use crate::zone::Node;
use view::View;

pub use loadbalance::{Cidr, LoadBalance};
pub(crate) use route::route;
pub use transfer::{Clients, Transfer};
pub(crate) use walk::{Client, Visit, Walk};
pub use zones::ZoneMap;

/// A step's name, as Corefiles, logs and metrics write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StepName {
    /// `loadbalance`
    LoadBalance,
    /// `transfer`
    Transfer,
    /// `hosts`
    Hosts,
    /// `file`
    File,
    /// `etcd`
    Etcd,
    /// `whoami`
    Whoami,
}

impl StepName {
    /// All of them, in the order of execution.
    pub const ALL: [Self; 6] = [
        Self::LoadBalance,
        Self::Transfer,
        Self::Hosts,
        Self::File,
        Self::Etcd,
        Self::Whoami,
    ];

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalance => "loadbalance",
            Self::Transfer => "transfer",
            Self::Hosts => "hosts",
            Self::File => "file",
            Self::Etcd => "etcd",
            Self::Whoami => "whoami",
        }
    }
}

/// What a server block does with a question.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order of [`Step`].
    pub steps: Box<[Step]>,
    /// `prometheus` is there: queries are counted.
    pub metrics: bool,
    /// `errors` is there: reasons of failures are logged.
    pub errors: bool,
    /// `log`: the first rule that covers the name decides.
    pub log: Box<[LogRule]>,
    /// `view`: the block is only for some questions.
    pub view: Option<View>,
    /// `metadata`, and the zones for whose names there are any.
    pub metadata: Option<ZoneMap<()>>,
}

impl Plan {
    /// Whether anything here handles queries at all; a block of settings alone refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let observes = self.metrics || self.errors || !self.log.is_empty();
        self.steps.is_empty() && !observes && self.view.is_none() && self.metadata.is_none()
    }

    /// Where a folded name will be looked up first. The block's zone stands behind its first `known` bytes.
    #[inline]
    pub(crate) fn first_zone(&self, name: &[u8], known: usize) -> Option<Probe<'static>> {
        self.steps.iter().zip(0..).find_map(|(step, at)| match step {
            Step::Hosts(hosts) => Some(Probe {
                step: at,
                len: name.len() - 1,
                zone: hosts.data,
                hash: 0,
                held: Held::Unknown,
            }),
            Step::File(source) | Step::Etcd(source) => source.zones.find_near(name, known).map(|(len, &zone)| Probe {
                step: at,
                len,
                zone,
                hash: 0,
                held: Held::Unknown,
            }),
            Step::LoadBalance(_) | Step::Transfer(_) | Step::Whoami => None,
        })
    }

    /// An order may be changed on the way up.
    fn shuffles(&self) -> bool {
        matches!(self.steps.first(), Some(Step::LoadBalance(_)))
    }
}

/// One directive that handles queries. The order of the variants is the order of execution.
#[derive(Debug)]
pub enum Step {
    /// Shuffles addresses on the way up.
    LoadBalance(LoadBalance),
    /// Hands out whole zones.
    Transfer(Transfer),
    /// Answers from a hosts file.
    Hosts(Hosts),
    /// Answers from zone files.
    File(Source),
    /// Answers from etcd.
    Etcd(Source),
    /// Answers with the client's address.
    Whoami,
}

impl Step {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> StepName {
        match self {
            Self::LoadBalance(_) => StepName::LoadBalance,
            Self::Transfer(_) => StepName::Transfer,
            Self::Hosts(_) => StepName::Hosts,
            Self::File(_) => StepName::File,
            Self::Etcd(_) => StepName::Etcd,
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
}

impl Source {
    fn falls_through(&self, name: &[u8]) -> bool {
        self.fallthrough.as_ref().is_some_and(|zones| zones.contains(name))
    }
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
    /// Prepared bytes may be used: they point into the client's question.
    pub(crate) may_copy: bool,
}

/// Where the first step that may know a name looks for it, and what stands there: found in the first pass over a batch,
/// used in the second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'z> {
    /// Index of the step.
    pub(crate) step: u16,
    /// Bytes of the name in front of the zone's.
    pub(crate) len: usize,
    /// The zone.
    pub(crate) zone: ZoneId,
    /// The hash of the name's first `len` bytes.
    pub(crate) hash: u64,
    /// What has that hash.
    pub(crate) held: Held<'z>,
}

/// What has the hash of a name. Its own name has not been compared yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held<'z> {
    /// Nobody has looked.
    Unknown,
    /// Nothing: the name is not there.
    Nothing,
    /// A name of a service tree.
    Entry(&'z Entry),
    /// A name of a record zone.
    Node(&'z Node),
}

/// What a step did. Nothing else decides where a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Not for this step, or not found: on to the next.
    Next,
    /// The answer says all, but for what is still pending in it.
    Answered,
}
