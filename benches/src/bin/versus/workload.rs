//! One zone for all servers, and the questions about it.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Result;

/// The zone's name.
pub(crate) const ZONE: &str = "bench.example";
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
}

#[derive(Debug)]
pub(crate) struct NoSuchMix(String);

impl std::fmt::Display for NoSuchMix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is none of a, srv, nx", self.0)
    }
}

impl std::error::Error for NoSuchMix {}

impl FromStr for Mix {
    type Err = NoSuchMix;

    fn from_str(text: &str) -> Result<Self, NoSuchMix> {
        Self::ALL
            .into_iter()
            .find(|mix| mix.name() == text)
            .ok_or_else(|| NoSuchMix(text.to_owned()))
    }
}

impl Mix {
    pub(crate) const ALL: [Self; 3] = [Self::A, Self::Srv, Self::Nx];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::Srv => "srv",
            Self::Nx => "nx",
        }
    }

    /// The question about the name of that number.
    pub(crate) fn question(self, number: u32) -> (String, &'static str) {
        match self {
            Self::A => (format!("h{number:05}.{ZONE}"), "A"),
            Self::Srv => (format!("_http._tcp.s{number:05}.{ZONE}"), "SRV"),
            Self::Nx => (format!("x{number:05}.{ZONE}"), "A"),
        }
    }

    fn rtype(self) -> u16 {
        if self == Self::Srv { 33 } else { 1 }
    }

    /// Bytes of a reply, where no server is there to say it.
    pub(crate) fn usual_size(self) -> usize {
        match self {
            Self::A => 52,
            Self::Srv => 100,
            Self::Nx => 95,
        }
    }

    /// Whether rcode and number of answers are what they should be.
    pub(crate) fn is_right(self, reply: &[u8]) -> bool {
        let (rcode, answers) = (reply[3] & 15, u16::from_be_bytes([reply[6], reply[7]]));
        if self == Self::Nx {
            rcode == 3 && answers == 0
        } else {
            rcode == 0 && answers == 1
        }
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
        for mix in Mix::ALL {
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
