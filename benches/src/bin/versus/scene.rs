//! What the servers are asked to do: who takes part, under which load, and against whom.

use std::fmt;
use std::str::FromStr;

use crate::options::Options;
use crate::servers::Kind;
use crate::workload::Mix;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Answers out of a zone of its own.
    Zone,
    /// Answers about the Services of a cluster.
    Cluster,
    /// Answers that another server gave and that are kept.
    Hit,
    /// Each question is asked of another server, in the client's transport.
    Miss,
    /// The same, over TCP whatever the client came by.
    ForceTcp,
}

/// One kind of load.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) transport: &'static str,
    pub(crate) mix: Mix,
    pub(crate) rates: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct NoSuchScene(String);

impl fmt::Display for NoSuchScene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is none of zone, cluster, hit, miss, force-tcp", self.0)
    }
}

impl std::error::Error for NoSuchScene {}

impl FromStr for Scene {
    type Err = NoSuchScene;

    fn from_str(text: &str) -> Result<Self, NoSuchScene> {
        Self::ALL
            .into_iter()
            .find(|scene| scene.name() == text)
            .ok_or_else(|| NoSuchScene(text.to_owned()))
    }
}

impl Scene {
    pub(crate) const ALL: [Self; 5] = [Self::Zone, Self::Cluster, Self::Hit, Self::Miss, Self::ForceTcp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::Cluster => "cluster",
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::ForceTcp => "force-tcp",
        }
    }

    /// The word of its rows.
    pub(crate) fn word(self, mix: Mix) -> &'static str {
        match self {
            Self::Zone | Self::Cluster => mix.word(),
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::ForceTcp => "ftcp",
        }
    }

    /// TTL of what the other server says, if there is one: longer than any run, or not to be kept.
    pub(crate) fn upstream_ttl(self) -> Option<u32> {
        match self {
            Self::Zone | Self::Cluster => None,
            Self::Hit => Some(3600),
            Self::Miss | Self::ForceTcp => Some(0),
        }
    }

    /// What each of its servers can say once it is ready. That a Service does not exist is said when all have been read.
    pub(crate) fn first_mix(self) -> Mix {
        if self == Self::Cluster { Mix::ServiceNx } else { Mix::A }
    }

    pub(crate) fn keeps(self) -> bool {
        self == Self::Hit
    }

    pub(crate) fn loads(self, options: &Options) -> Vec<Load> {
        let load = |transport, mix, rates: &Vec<u32>| Load {
            transport,
            mix,
            rates: rates.clone(),
        };
        let all = |transport, mixes: &[Mix], rates| -> Vec<Load> {
            mixes.iter().map(|&mix| load(transport, mix, rates)).collect()
        };
        let tcp = load("tcp", Mix::A, &options.tcp_rates);
        match self {
            Self::Zone => [
                all("udp", &options.mixes, &options.rates),
                all("tcp", &options.tcp_mixes, &options.tcp_rates),
                all("dot", &options.dot_mixes, &options.dot_rates),
            ]
            .concat(),
            Self::Cluster => all("udp", &options.cluster_mixes, &options.cluster_rates),
            Self::Hit => vec![load("udp", Mix::A, &options.hit_rates), tcp],
            Self::Miss => vec![load("udp", Mix::A, &options.miss_rates), tcp],
            Self::ForceTcp => vec![load("udp", Mix::A, &options.miss_rates)],
        }
    }

    /// Who does no more than has to be done at least.
    pub(crate) fn is_floor(self, kind: Kind) -> bool {
        match self {
            Self::Zone | Self::Cluster | Self::Hit => matches!(kind, Kind::EchoUring | Kind::EchoMmsg),
            Self::Miss | Self::ForceTcp => kind == Kind::Relay,
        }
    }

    /// Whom nodens is compared with beside the floor.
    pub(crate) fn rivals(self) -> &'static [Kind] {
        match self {
            Self::Zone | Self::Cluster => &[],
            Self::Hit | Self::Miss | Self::ForceTcp => &[Kind::Dnsdist, Kind::Unbound],
        }
    }

    /// Streams are the same under both back ends, so of the echo one is enough, and of nodens under TLS. dnsmasq forks a
    /// process for each stream, which nobody would run so.
    pub(crate) fn has(self, kind: Kind, transport: &str) -> bool {
        match (self, kind) {
            (_, Kind::EchoUring) => self.is_floor(kind) && transport == "udp",
            (_, Kind::EchoMmsg) => self.is_floor(kind) && transport != "dot",
            (_, Kind::Relay) => self.is_floor(kind),
            (_, Kind::NodensUring) => true,
            (_, Kind::NodensMmsg) => transport != "dot",
            (Self::Cluster, _) => false,
            (Self::Zone, Kind::NodensEtcd) => true,
            (Self::Zone, Kind::Knot | Kind::Nsd | Kind::Gdnsd) => transport != "dot",
            (Self::Zone, Kind::Dnsdist | Kind::Unbound) => transport == "dot",
            (_, Kind::Dnsdist | Kind::Unbound) => true,
            (Self::Hit | Self::Miss, Kind::Dnsmasq) => transport == "udp",
            (_, Kind::Dnsmasq | Kind::NodensEtcd | Kind::Knot | Kind::Nsd | Kind::Gdnsd) => false,
        }
    }

    /// Whether it takes part at all.
    pub(crate) fn uses(self, kind: Kind) -> bool {
        ["udp", "tcp", "dot"]
            .into_iter()
            .any(|transport| self.has(kind, transport))
    }
}
