//! One zone for all servers, a cluster, and the questions about them.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nodens_benches::cluster::Shape;

use crate::Result;

/// The zone's name.
pub(crate) const ZONE: &str = "bench.example";
/// The domain of the cluster.
pub(crate) const DOMAIN: &str = "cluster.local";
/// Names with an address, and as many services.
pub(crate) const NAMES: u32 = 10_000;
/// Lines of a query file; dnsperf begins anew at its end.
const QUERIES: u32 = 100_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// The address of a name.
    A,
    /// A service.
    Srv,
    /// A name that does not exist.
    Nx,
    /// The address of a Service of a cluster.
    ServiceA,
    /// The one that it does not have: the cluster is one of IPv4.
    ServiceAaaa,
    /// Its port.
    ServiceSrv,
    /// A Service that does not exist.
    ServiceNx,
    /// All addresses of a headless Service.
    Headless,
    /// What a pod asks for a name outside of the cluster: behind it each suffix of its search path, and the name alone.
    Search,
}

/// Names of a search path: behind what is looked up the pod's namespace, `svc` and the cluster's domain, that of its host, nothing.
pub(crate) const SEARCHED: u32 = 5;

#[derive(Debug)]
pub(crate) struct NoSuchMix(String);

impl std::fmt::Display for NoSuchMix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is nothing that can be asked", self.0)
    }
}

impl std::error::Error for NoSuchMix {}

impl FromStr for Mix {
    type Err = NoSuchMix;

    fn from_str(text: &str) -> Result<Self, NoSuchMix> {
        Self::all()
            .find(|mix| mix.name() == text)
            .ok_or_else(|| NoSuchMix(text.to_owned()))
    }
}

/// The cluster that is asked for, of which there are as many Services as names of the zone.
pub(crate) fn shape() -> Shape {
    Shape {
        services: NAMES,
        ..Shape::default()
    }
}

impl Mix {
    /// About the zone.
    pub(crate) const ZONE: [Self; 3] = [Self::A, Self::Srv, Self::Nx];
    /// About the cluster.
    pub(crate) const CLUSTER: [Self; 6] = [
        Self::ServiceA,
        Self::ServiceAaaa,
        Self::ServiceSrv,
        Self::ServiceNx,
        Self::Headless,
        Self::Search,
    ];

    fn all() -> impl Iterator<Item = Self> {
        Self::ZONE.into_iter().chain(Self::CLUSTER)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::Srv => "srv",
            Self::Nx => "nx",
            Self::ServiceA => "service-a",
            Self::ServiceAaaa => "service-aaaa",
            Self::ServiceSrv => "service-srv",
            Self::ServiceNx => "service-nx",
            Self::Headless => "headless",
            Self::Search => "search",
        }
    }

    /// In the rows of a table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::A | Self::ServiceA => "a",
            Self::ServiceAaaa => "aaaa",
            Self::Srv | Self::ServiceSrv => "srv",
            Self::Nx | Self::ServiceNx => "nx",
            Self::Headless => "head",
            Self::Search => "path",
        }
    }

    /// The question about the name of that number.
    pub(crate) fn question(self, number: u32) -> (String, &'static str) {
        let shape = shape();
        let name = |number| format!("{}.svc.{DOMAIN}", shape.service_in_namespace(number));
        // Every so manieth Service is headless, and the one behind it is not.
        let own = if shape.is_headless(number) { number + 1 } else { number };
        match self {
            Self::A => (format!("h{number:05}.{ZONE}"), "A"),
            Self::Srv => (format!("_http._tcp.s{number:05}.{ZONE}"), "SRV"),
            Self::Nx => (format!("x{number:05}.{ZONE}"), "A"),
            Self::ServiceA => (name(own), "A"),
            Self::ServiceAaaa => (name(own), "AAAA"),
            Self::ServiceSrv => (format!("_http._tcp.{}", name(own)), "SRV"),
            Self::ServiceNx => (name(number).replace("svc-", "non-"), "A"),
            Self::Headless => (name(number - number % shape.headless_every), "A"),
            Self::Search => {
                let namespace = shape.namespace_of(number, shape.services);
                let suffix = match number % SEARCHED {
                    0 => format!(".{namespace}.svc.{DOMAIN}"),
                    1 => format!(".svc.{DOMAIN}"),
                    2 => format!(".{DOMAIN}"),
                    3 => format!(".hosts.{ZONE}"),
                    _ => String::new(),
                };
                (format!("h{number:05}.{ZONE}{suffix}"), "A")
            }
        }
    }

    fn rtype(self) -> u16 {
        match self.question(0).1 {
            "SRV" => 33,
            "AAAA" => 28,
            _ => 1,
        }
    }

    /// Bytes of a reply, where no server is there to say it.
    pub(crate) fn usual_size(self) -> usize {
        match self {
            Self::A => 52,
            Self::Srv => 100,
            Self::Nx => 95,
            Self::ServiceA => 72,
            Self::ServiceAaaa | Self::ServiceNx => 110,
            Self::Search => 107,
            Self::ServiceSrv => 141,
            Self::Headless => 216,
        }
    }

    /// Whether rcode and number of answers are what they should be.
    pub(crate) fn is_right(self, number: u32, reply: &[u8]) -> bool {
        let found = (reply[3] & 15, u16::from_be_bytes([reply[6], reply[7]]));
        let is_last = number % SEARCHED == SEARCHED - 1;
        let expected = match self {
            Self::Nx | Self::ServiceNx => (3, 0),
            Self::Search if !is_last => (3, 0),
            Self::ServiceAaaa => (0, 0),
            Self::Headless => (0, shape().endpoints as u16),
            Self::A | Self::Srv | Self::ServiceA | Self::ServiceSrv | Self::Search => (0, 1),
        };
        found == expected
    }

    /// The question as a message; its id is the number's lower half.
    pub(crate) fn packet(self, number: u32) -> Vec<u8> {
        let mut packet = vec![(number >> 8) as u8, number as u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in self.question(number).0.split('.') {
            packet.push(label.len() as u8);
            packet.extend_from_slice(label.as_bytes());
        }
        packet.push(0);
        packet.extend_from_slice(&self.rtype().to_be_bytes());
        packet.extend_from_slice(&1u16.to_be_bytes());
        // RD, as a client of a server that asks others.
        packet[2] = 1;
        packet
    }

    /// Asks one question over UDP; the reply, if one comes within a second.
    pub(crate) fn ask(self, number: u32, port: u16) -> Result<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
        socket.send(&self.packet(number))?;
        let mut reply = vec![0; 4096];
        let len = socket.recv(&mut reply)?;
        if len < 12 {
            return Err("a reply of less than a header".into());
        }
        reply.truncate(len);
        Ok(reply)
    }
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64, reduced to below `limit`.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(limit)) as u32
    }
}

/// The files of a run.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) folder: PathBuf,
}

impl Workload {
    pub(crate) fn write(folder: &Path) -> Result<Self> {
        let mut zone = format!(
            "$ORIGIN {ZONE}.\n$TTL 300\n@ IN SOA ns1 hostmaster 1 7200 1800 86400 300\n@ IN NS ns1\n@ IN NS ns2\n\
             ns1 IN A 192.0.2.53\nns2 IN A 192.0.2.54\n"
        );
        for number in 0..NAMES {
            let [_, _, high, low] = number.to_be_bytes();
            writeln!(
                zone,
                "h{number:05} IN A 10.1.{high}.{low}\n_http._tcp.s{number:05} IN SRV 10 100 80 h{number:05}"
            )?;
        }
        std::fs::write(folder.join("zone"), zone)?;
        let workload = Self {
            folder: folder.to_owned(),
        };
        for mix in Mix::all() {
            let mut seeded = Seeded::new(u64::from(mix.rtype()));
            let mut lines = String::new();
            for _ in 0..QUERIES {
                let (name, rtype) = mix.question(seeded.below(NAMES));
                writeln!(lines, "{name} {rtype}")?;
            }
            std::fs::write(workload.queries(mix), lines)?;
        }
        Ok(workload)
    }

    pub(crate) fn zone(&self) -> PathBuf {
        self.folder.join("zone")
    }

    pub(crate) fn queries(&self, mix: Mix) -> PathBuf {
        self.folder.join(format!("queries-{}", mix.name()))
    }

    /// The same names as SkyDNS services, key and value.
    pub(crate) fn services() -> impl Iterator<Item = (String, String)> {
        (0..NAMES).flat_map(|number| {
            let [_, _, high, low] = number.to_be_bytes();
            let value = format!(r#"{{"host":"10.1.{high}.{low}","port":80}}"#);
            [
                (format!("/skydns/example/bench/h{number:05}"), value.clone()),
                (format!("/skydns/example/bench/s{number:05}/_tcp/_http"), value),
            ]
        })
    }
}
