//! What a Corefile says, typed: the only thing that `compile` sees of it.
//!
//! Zones are absolute and in lower case, files stand below `root`, defaults are filled in. Whatever can still fail
//! later (a file, an address, a certificate) keeps its [`Span`], so that the failure is drawn at its line.

mod cache;
mod forward;
mod kubernetes;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use nodens_engine::plan::dns64::Dns64;
use nodens_engine::plan::rewrite::Rule;
use nodens_engine::plan::template::Stanza;
use nodens_engine::plan::view::Condition;
use nodens_wire::{NameBuf, Rtype};
use regex::Regex;

use super::diagnostic::Diagnostic;
use super::log_format::LogFormat;
use super::source::{Sources, Span};

pub use cache::{Cache, CacheKind, Prefetch, ServeStale, StaleRefresh};
pub use forward::{Attempts, Forward, HttpProbe, Policy, Probe, Proxy, Upstream, UpstreamPlace, UpstreamTransport};
pub use kubernetes::{K8sExternal, Kubernetes, PodAutopath, PodNames};

/// A whole configuration.
#[derive(Clone, Debug)]
pub struct Corefile {
    /// In file order. Never empty: without a block there is the built-in one.
    pub blocks: Vec<ServerBlock>,
    /// What is odd but harmless, in file order.
    pub warnings: Vec<Diagnostic>,
    /// The texts that the spans point into.
    pub sources: Sources,
    /// SHA-512 of what it says, in hexadecimal digits.
    pub fingerprint: String,
}

/// One server block: what it serves, where, and how.
///
/// The settings of all its keys are the same ones: a source is built once, whatever the number of zones.
#[derive(Clone, Debug)]
pub struct ServerBlock {
    /// Never empty; a CIDR key stands here as its reverse zones.
    pub keys: Vec<Key>,
    /// From the first key to the last.
    pub span: Span,
    /// The stanzas of `bind`; none means the wildcard address of both families.
    pub bind: Vec<Bind>,
    /// Where relative file names start; already applied to all files below.
    pub root: Option<PathBuf>,
    /// `errors`
    pub errors: Option<Errors>,
    /// The rules of all `log` lines; the first whose name covers the question decides alone.
    pub log: Vec<LogRule>,
    /// `loadbalance`
    pub loadbalance: Option<LoadBalance>,
    /// `cancel`: the longest that a question may wait for others.
    pub cancel: Option<Duration>,
    /// `multisocket`
    pub multisocket: Option<MultiSocket>,
    /// `debug`
    pub debug: bool,
    /// `pprof`, which has no effect.
    pub pprof: Option<HttpAddress>,
    /// `nsid`
    pub nsid: Option<Nsid>,
    /// `bufsize`, in bytes.
    pub bufsize: Option<u16>,
    /// `local`
    pub local: Option<Local>,
    /// `any`
    pub any: bool,
    /// `chaos`
    pub chaos: Option<Chaos>,
    /// The stanzas of `acl`; the first line that fits decides.
    pub acl: Vec<Acl>,
    /// `dns64`
    pub dns64: Option<Dns64>,
    /// The rules of all `rewrite` lines, in file order.
    pub rewrite: Vec<Rule>,
    /// The last `autopath` that names a file.
    pub autopath: Option<Autopath>,
    /// The last `autopath @kubernetes`.
    pub pod_autopath: Option<PodAutopath>,
    /// `cache`
    pub cache: Option<Cache>,
    /// `header`
    pub header: Option<Header>,
    /// `minimal`
    pub minimal: bool,
    /// The stanzas of `transfer`.
    pub transfer: Vec<Transfer>,
    /// `hosts`
    pub hosts: Option<Hosts>,
    /// The stanzas of `file`.
    pub file: Vec<File>,
    /// The last `auto`.
    pub auto: Option<Auto>,
    /// The stanzas of `secondary`.
    pub secondary: Vec<Secondary>,
    /// The stanzas of `etcd`; unlike in CoreDNS each of them works.
    pub etcd: Vec<Etcd>,
    /// `kubernetes`
    pub kubernetes: Option<Kubernetes>,
    /// `k8s_external`; there is a `kubernetes` then.
    pub k8s_external: Option<K8sExternal>,
    /// The stanzas of `template`, in file order.
    pub template: Vec<Stanza>,
    /// `loop`
    pub detects_loops: Option<Span>,
    /// The stanzas of `forward`, asked one after the other.
    pub forward: Vec<Forward>,
    /// The stanzas of `proxy`.
    pub proxy: Vec<Proxy>,
    /// `whoami`
    pub whoami: bool,
    /// `reload`
    pub reload: Option<Reload>,
    /// The commands of `on`, `startup` and `shutdown`, in file order.
    pub hooks: Vec<Hook>,
    /// `health`
    pub health: Option<Health>,
    /// `ready`
    pub ready: Option<Ready>,
    /// `prometheus`
    pub prometheus: Option<Prometheus>,
    /// `metadata`, and the zones for whose names there are any.
    pub metadata: Option<Vec<NameBuf>>,
    /// `view`: the block is only for some of the questions for its zones.
    pub view: Option<View>,
    /// `tls`; for the `tls://` keys alone.
    pub tls: Option<Tls>,
    /// All `timeouts` of the block.
    pub timeouts: Timeouts,
}

impl ServerBlock {
    /// The zones of the block, which plugins without zones of their own serve.
    pub fn zones(&self) -> impl Iterator<Item = &NameBuf> {
        self.keys.iter().map(|key| &key.zone)
    }

    /// Its HTTP endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = (EndpointKind, &HttpAddress)> {
        let health = self.health.iter().map(|own| (EndpointKind::Health, &own.address));
        let ready = self.ready.iter().map(|own| (EndpointKind::Ready, &own.address));
        let prometheus = self
            .prometheus
            .iter()
            .map(|own| (EndpointKind::Prometheus, &own.address));
        health.chain(ready).chain(prometheus)
    }
}

/// A zone and a port that a block serves.
#[derive(Clone, Debug)]
pub struct Key {
    /// The transport.
    pub scheme: Scheme,
    /// Absolute, in lower case.
    pub zone: NameBuf,
    /// From the key, else the default.
    pub port: u16,
    /// The key as written.
    pub span: Span,
}

/// The transport of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain DNS over UDP and TCP.
    Dns,
    /// DNS over TLS; plain DNS over TCP where no block of the address has `tls`.
    Tls,
}

impl Scheme {
    /// The text in front of `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
        }
    }

    /// What stands in front of a zone where the usual transport is left out.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Dns => "",
            Self::Tls => "tls://",
        }
    }
}

/// One stanza of `bind`: listen on `include` but not on `except`.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Never empty.
    pub include: Vec<BindTarget>,
    /// Takes away from this stanza's `include` alone.
    pub except: Vec<BindTarget>,
    /// The stanza's name.
    pub span: Span,
}

/// A word of `bind`.
#[derive(Clone, Debug)]
pub struct BindTarget {
    /// What it names.
    pub place: BindPlace,
    /// The word, for what is found out later: no such interface, address not local.
    pub span: Span,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindPlace {
    /// An address, with the scope that stood behind `%`.
    Address(IpAddr, Option<String>),
    /// Perhaps the name of an interface; whether there is one is known only where the server runs.
    Interface(String),
}

/// `errors`: log what plugins report.
#[derive(Clone, Debug)]
pub struct Errors {
    /// A panic is logged with its stack.
    pub stacktrace: bool,
    /// The first whose pattern matches takes an error.
    pub consolidate: Vec<Consolidate>,
}

/// One `consolidate` line: errors like one another become one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consolidate {
    /// How long they are gathered, from the first one on.
    pub every: Duration,
    /// What they have in common: RE2, and it compiles.
    pub pattern: String,
    /// How their line is marked.
    pub level: ErrorLevel,
    /// The first one is written by itself, at once.
    pub show_first: bool,
}

/// How lines of `errors` are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorLevel {
    /// The default.
    Error,
    /// `warning`
    Warning,
    /// `info`
    Info,
    /// `debug`: written only where some block has `debug`.
    Debug,
}

impl ErrorLevel {
    /// As it stands in front of a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        }
    }
}

/// One `log` line: which questions, written how.
#[derive(Clone, Debug)]
pub struct LogRule {
    /// Never empty; a question equal to or below one of them is this rule's.
    pub names: Vec<NameBuf>,
    /// The template of the line.
    pub format: LogFormat,
    /// Which answers are written.
    pub classes: LogClasses,
    /// The directive's name.
    pub span: Span,
}

/// The answer classes that a log rule writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogClasses {
    /// Answers, referrals, and empty NOERROR without a SOA.
    pub success: bool,
    /// NXDOMAIN, and NOERROR with a SOA in AUTHORITY.
    pub denial: bool,
    /// Everything else.
    pub error: bool,
}

impl LogClasses {
    /// Every answer.
    pub const ALL: Self = Self {
        success: true,
        denial: true,
        error: true,
    };
    /// No answer; where adding up starts.
    pub const NONE: Self = Self {
        success: false,
        denial: false,
        error: false,
    };
}

/// `loadbalance`: how the order of records is changed.
#[derive(Clone, Debug)]
pub enum LoadBalance {
    /// Addresses are shuffled.
    RoundRobin {
        /// Addresses in the first net go first, then those in the second, and so on.
        prefer: Vec<IpNet>,
    },
    /// One address is put first, by weight.
    Weighted(Weighted),
}

/// `loadbalance weighted`
#[derive(Clone, Debug)]
pub struct Weighted {
    /// The weight file.
    pub file: PathBuf,
    /// The word that named it.
    pub file_span: Span,
    /// How often the file is looked at; zero never.
    pub reload: Duration,
}

/// One stanza of `transfer`: who may have whole zones, and is told of new versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// The longest one that holds a zone decides for it.
    pub zones: Vec<NameBuf>,
    /// `*`
    pub everybody: bool,
    /// Addresses that may transfer; the ports are for NOTIFY.
    pub to: Vec<SocketAddr>,
    /// Where NOTIFY comes from.
    pub source: Option<IpAddr>,
}

/// `multisocket`
#[derive(Clone, Copy, Debug)]
pub struct MultiSocket {
    /// How many sockets each address is to have; none for as many as there are processors.
    pub count: Option<u16>,
    /// The word, or the directive.
    pub span: Span,
}

/// `nsid`
#[derive(Clone, Debug)]
pub struct Nsid {
    /// The server's name for itself; none for that of the host.
    pub data: Option<Vec<u8>>,
}

/// `local`
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// Names that begin with `localhost.` are the machine's, too.
    pub localhost_prefix: bool,
}

/// `chaos`
#[derive(Clone, Debug)]
pub struct Chaos {
    /// For `version.bind`.
    pub version: String,
    /// For `authors.bind`; sorted, never empty.
    pub authors: Vec<String>,
}

/// One stanza of `acl`.
#[derive(Clone, Debug)]
pub struct Acl {
    /// Names outside are not its business.
    pub zones: Vec<NameBuf>,
    /// The first that fits decides.
    pub lines: Vec<AclLine>,
}

/// One line of `acl`.
#[derive(Clone, Debug)]
pub struct AclLine {
    /// What happens.
    pub action: AclAction,
    /// None for all.
    pub types: Option<Vec<Rtype>>,
    /// Clients; none for all.
    pub nets: Option<Vec<IpNet>>,
}

/// What happens to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    /// It is let through.
    Allow,
    /// It is REFUSED.
    Block,
    /// It gets an empty answer.
    Filter,
    /// It gets no reply.
    Drop,
}

/// `header`
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// Rules for the question.
    pub query: HeaderBits,
    /// Rules for the reply.
    pub response: HeaderBits,
}

/// What rules of `header` say of each bit; none where they say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderBits {
    /// The data is authoritative.
    pub aa: Option<bool>,
    /// Recursion is offered.
    pub ra: Option<bool>,
    /// Recursion is wanted.
    pub rd: Option<bool>,
}

/// `hosts`
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The hosts file; it may be missing.
    pub file: PathBuf,
    /// The word that named the file, or the directive.
    pub file_span: Span,
    /// Names outside are dropped.
    pub zones: Vec<NameBuf>,
    /// The lines written in the Corefile, in order.
    pub inline: Vec<InlineHost>,
    /// Of all records.
    pub ttl_secs: u32,
    /// No PTR from file and lines.
    pub no_reverse: bool,
    /// How often the file is looked at; zero never.
    pub reload: Duration,
    /// The zones whose unknown names go to the next step; none without `fallthrough`.
    pub fallthrough: Option<Vec<NameBuf>>,
    /// Types other than A, AAAA and PTR go on too, in the zones of `fallthrough`.
    pub fallthrough_unsupported: bool,
    /// The directive's name.
    pub span: Span,
}

/// `ADDRESS NAME...` in a `hosts` block, not parsed yet: a wrong line is skipped, as one of a file.
#[derive(Clone, Debug)]
pub struct InlineHost {
    /// The words with one blank between them.
    pub text: String,
    /// The line.
    pub span: Span,
}

/// One stanza of `file`.
#[derive(Clone, Debug)]
pub struct File {
    /// The zone file.
    pub db_file: PathBuf,
    /// The word that named the file, as written: error texts repeat it.
    pub db_file_word: String,
    /// Where that word stands.
    pub db_file_span: Span,
    /// Every zone is read from the file by itself, with its own origin.
    pub zones: Vec<NameBuf>,
    /// How often the file is looked at; zero never.
    pub reload: Duration,
    /// A newer file is read again, whatever its serial.
    pub reload_by_mtime: bool,
    /// Of the last stanza that has it, for all stanzas of the block.
    pub fallthrough: Option<Vec<NameBuf>>,
    /// The directive's name.
    pub span: Span,
}

/// `auto`
#[derive(Clone, Debug)]
pub struct Auto {
    /// Names outside go on to the next step.
    pub zones: Vec<NameBuf>,
    /// The folder of the zone files.
    pub directory: PathBuf,
    /// As written.
    pub directory_word: String,
    /// Where the directory stands.
    pub directory_span: Span,
    /// What the name of a zone's file looks like; it has a group.
    pub pattern: Regex,
    /// The zone that such a name stands for, groups as `${1}`.
    pub template: String,
    /// How often the folder is walked; zero never again.
    pub reload: Duration,
}

/// One stanza of `secondary`.
#[derive(Clone, Debug)]
pub struct Secondary {
    /// Each is fetched by itself.
    pub zones: Vec<NameBuf>,
    /// Tried in this order. Never empty.
    pub primaries: Vec<SocketAddr>,
    /// Of the last stanza that has it, for all stanzas of the block.
    pub fallthrough: Option<Vec<NameBuf>>,
    /// The zones are catalogs; of what they name only what lies in these counts, unless there are none.
    pub catalog: Option<Vec<NameBuf>>,
}

/// One stanza of `etcd`.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// The zones answered.
    pub zones: Vec<NameBuf>,
    /// Without slashes at either end; `skydns` by default, empty for the root of the key space.
    pub path: String,
    /// Never empty. As written; the first one's scheme decides for all.
    pub endpoints: Vec<Endpoint>,
    /// None also when user or password is an empty word.
    pub credentials: Option<Credentials>,
    /// `tls` with its files; none without `tls`.
    pub tls: Option<ClientTls>,
    /// The zones whose unknown names go to the next step; none without `fallthrough`.
    pub fallthrough: Option<Vec<NameBuf>>,
    /// `stubzones`: keys below the first zone may name servers for other zones.
    pub stub_zones: bool,
    /// `upstream`: who is asked for targets outside the zones; none for this server itself.
    pub upstream: Option<Forward>,
    /// Least TTL taken from a lease.
    pub min_lease_ttl_secs: u32,
    /// Greatest TTL taken from a lease.
    pub max_lease_ttl_secs: u32,
    /// The directive's name.
    pub span: Span,
}

/// An etcd server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http://`, `https://` or nothing in front.
    pub url: String,
    /// The word.
    pub span: Span,
}

/// User and password for etcd.
#[derive(Clone)]
pub struct Credentials {
    /// Not empty.
    pub user: String,
    /// Not empty; never shown.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The files of a `tls` that is for connections to others.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTls {
    /// Our own certificate and its key.
    pub identity: Option<(PathSetting, PathSetting)>,
    /// Who must have signed the other's certificate; none means the system's authorities.
    pub authority: Option<PathSetting>,
    /// The option's name.
    pub span: Span,
}

/// A file that is read later.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSetting {
    /// Below `root` where it was relative.
    pub path: PathBuf,
    /// The word.
    pub span: Span,
}

/// `reload`: how often the Corefile is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reload {
    /// At least two seconds.
    pub interval: Duration,
    /// How far apart servers with one interval look; at most half of it.
    pub jitter: Duration,
}

/// A command that is run at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// When.
    pub event: Event,
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// Nobody waits for its end.
    pub in_background: bool,
}

/// When a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server serves, for the first time or with another configuration.
    Startup,
    /// The server is told to end.
    Shutdown,
    /// CoreDNS got itself another certificate; nodens gets none.
    CertRenew,
}

/// What an HTTP endpoint serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// `health`
    Health,
    /// `ready`
    Ready,
    /// `prometheus`
    Prometheus,
}

impl EndpointKind {
    /// Its directive.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Ready => "ready",
            Self::Prometheus => "prometheus",
        }
    }
}

/// Where an HTTP endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    /// A name or an address without brackets; empty for the wildcard address.
    pub host: String,
    /// Zero lets the kernel choose.
    pub port: u16,
    /// The word, or the directive where the default is used.
    pub span: Span,
}

impl HttpAddress {
    /// Whether two directives name one listener.
    pub fn is_same(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// `health`
#[derive(Clone, Debug)]
pub struct Health {
    /// Default `:8080`.
    pub address: HttpAddress,
    /// How long a final stop waits while everything goes on.
    pub lameduck: Duration,
}

/// `ready`
#[derive(Clone, Debug)]
pub struct Ready {
    /// Default `:8181`.
    pub address: HttpAddress,
    /// Whether a source that was ready once is asked again.
    pub monitor: Monitor,
}

/// How long `ready` looks at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// Not again once it was ready.
    UntilReady,
    /// At every request.
    Continuously,
}

/// `view`
#[derive(Clone, Debug)]
pub struct View {
    /// Its name, for metrics and metadata.
    pub name: String,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
}

/// `prometheus`
#[derive(Clone, Debug)]
pub struct Prometheus {
    /// Default `localhost:9153`.
    pub address: HttpAddress,
}

/// `tls`
#[derive(Clone, Debug)]
pub struct Tls {
    /// Ours, with those that lead to its authority.
    pub certificate: PathSetting,
    /// Its key.
    pub key: PathSetting,
    /// Who may have signed the clients' certificates; none means the system's authorities.
    pub authority: Option<PathSetting>,
    /// What clients have to show.
    pub client_auth: ClientAuth,
    /// Where the secrets of all connections are written, for somebody who looks at packets.
    pub keylog: Option<PathSetting>,
    /// The directive's name.
    pub span: Span,
}

/// What a client has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// It is not asked.
    NoCert,
    /// It is asked for a certificate, and any or none will do.
    Request,
    /// Any certificate.
    Require,
    /// None, or one that the authority signed.
    VerifyIfGiven,
    /// One that the authority signed.
    RequireAndVerify,
}

/// `timeouts`: what connections are granted; none of these means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// For the first query.
    pub read: Option<Duration>,
    /// For taking answers.
    pub write: Option<Duration>,
    /// For each query after the first.
    pub idle: Option<Duration>,
    /// Queries until the connection is closed.
    pub queries_max: Option<QueriesMax>,
}

/// `maxtcpqueries`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueriesMax {
    /// Any number.
    Unlimited,
    /// So many.
    Of(u64),
}

/// `autopath` with a fixed search path
#[derive(Clone, Debug)]
pub struct Autopath {
    /// Names outside are left alone.
    pub zones: Vec<NameBuf>,
    /// What a client puts behind a name, in this order.
    pub search: Vec<NameBuf>,
}
