//! What `forward` and `proxy` say: other servers, and how they are asked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nodens_wire::{NameBuf, Rcode};

use super::ClientTls;
use crate::corefile::source::Span;

/// One stanza of `forward`.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// Names outside go on to the next stanza.
    pub from: NameBuf,
    /// Names at and below these go on, too; but `from` itself stays.
    pub except: Vec<NameBuf>,
    /// Never empty; each address once.
    pub to: Vec<Upstream>,
    /// In which order they are tried.
    pub policy: Policy,
    /// Over TCP, whatever the client came by.
    pub force_tcp: bool,
    /// Over UDP first, whatever the client came by; a truncated reply is fetched again over TCP.
    pub prefer_udp: bool,
    /// A stream that was idle for so long is not used again.
    pub expire: Duration,
    /// A stream that is so old is not used again; not below `expire`.
    pub max_age: Option<Duration>,
    /// Idle streams that are kept to one upstream.
    pub idle_max: Option<u64>,
    /// How long one reply is waited for.
    pub read_timeout: Duration,
    /// An upstream with more failed probes than this is down; zero: it is never probed and never down.
    pub max_fails: u32,
    /// How often one query may fail before it is given up.
    pub attempts: Attempts,
    /// How an upstream that failed is probed.
    pub probe: Probe,
    /// Queries of the stanza that may wait at once; more are REFUSED.
    pub concurrent_max: Option<u64>,
    /// The files of `tls`.
    pub tls: Option<ClientTls>,
    /// What the certificates of all upstreams must name; no upstream has a name of its own then.
    pub tls_server_name: Option<String>,
    /// With these the next stanza is asked.
    pub next: Vec<Rcode>,
    /// With an empty NOERROR, too.
    pub next_on_nodata: bool,
    /// With these the next upstream is asked.
    pub failover: Vec<Rcode>,
    /// Nobody is asked while all upstreams are down.
    pub failfast: bool,
    /// The local address of all sockets.
    pub source: Option<IpAddr>,
    /// Who knows the addresses of upstreams given by name; without any the system's resolver.
    pub resolver: Vec<SocketAddr>,
    /// The directive's name.
    pub span: Span,
}

/// A server that is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// Where it is.
    pub place: UpstreamPlace,
    /// What is spoken with it.
    pub transport: UpstreamTransport,
    /// What its certificate must name, where it was written behind a `%`.
    pub server_name: Option<String>,
    /// The word; for a server out of a file, the one that named the file.
    pub span: Span,
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamPlace {
    /// There.
    Address(SocketAddr),
    /// At all addresses of a host, which are asked for at the start.
    Host {
        /// In lower case.
        name: String,
        /// Of all its addresses.
        port: u16,
    },
}

/// What is spoken with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamTransport {
    /// DNS over UDP and TCP.
    Dns,
    /// DNS over TLS.
    Tls,
}

/// In which order upstreams are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Another one for each query, by chance.
    Random,
    /// Another one for each query, in turn.
    RoundRobin,
    /// As they are written.
    Sequential,
    /// `proxy` alone: the one with the fewest queries on their way.
    LeastConnections,
}

/// How often one query may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempts {
    /// Twice for each upstream.
    TwiceEach,
    /// So often.
    Of(u32),
    /// While there is time.
    Unlimited,
}

/// How an upstream that failed is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// From one probe to the next.
    pub every: Duration,
    /// The name whose NS records are asked for.
    pub name: NameBuf,
    /// RD.
    pub recursion: bool,
}

/// One stanza of `proxy`. Of all those of a block the longest `from` that holds the name counts.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// What it says in the words of `forward`.
    pub forward: Forward,
    /// A failure is forgotten after this time.
    pub fail_timeout: Duration,
    /// Probes over HTTP.
    pub http_probe: Option<HttpProbe>,
}

/// `health_check` of `proxy`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpProbe {
    /// What is fetched; begins with a slash.
    pub path: String,
    /// On the upstream's address.
    pub port: u16,
    /// From one probe to the next.
    pub every: Duration,
}
