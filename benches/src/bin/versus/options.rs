//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use crate::Result;
use crate::scene::Scene;
use crate::servers::Kind;
use crate::workload::Mix;

/// What to run, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: u32,
    /// Seconds of load for each server, in each round.
    pub(crate) secs: u32,
    pub(crate) scenes: Vec<Scene>,
    pub(crate) servers: Vec<Kind>,
    pub(crate) mixes: Vec<Mix>,
    /// Queries a second; 0 is all that goes.
    pub(crate) rates: Vec<u32>,
    pub(crate) tcp_mixes: Vec<Mix>,
    pub(crate) tcp_rates: Vec<u32>,
    pub(crate) dot_mixes: Vec<Mix>,
    pub(crate) dot_rates: Vec<u32>,
    /// Over UDP, of what the server keeps; and of what it has to ask for.
    pub(crate) hit_rates: Vec<u32>,
    pub(crate) miss_rates: Vec<u32>,
    /// Of a cluster.
    pub(crate) cluster_mixes: Vec<Mix>,
    pub(crate) cluster_rates: Vec<u32>,
    /// At which the time of a miss is measured.
    pub(crate) latency_rates: Vec<u32>,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    /// Where the programs of this workspace lie: beside this one, unless said.
    pub(crate) binaries: PathBuf,
    /// `None`: nothing is recorded.
    pub(crate) record: Option<PathBuf>,
}

const HELP: &str = "\
versus [--rounds 5] [--secs 3] [--scenes LIST] [--servers LIST]
       [--mixes a,srv,nx] [--rates 20000,100000,0] [--tcp-mixes a,srv,nx] [--tcp-rates 0] [--dot-mixes a] [--dot-rates 20000,0]
       [--hit-rates 20000,100000,0] [--miss-rates 20000,0] [--latency-rates 10000] [--cluster-rates 20000,100000,0]
       [--cluster-mixes service-a,service-aaaa,service-srv,service-nx,headless,search]
       [--server-core N] [--client-core N] [--binaries FOLDER] [--record FOLDER | --no-record]

Scenes: zone, which is the server's own data; cluster, which is that of an API server (one that is made up, in a process of its own): Services
with addresses, headless ones with ten, and the five names of a pod's search path; hit and miss of a cache before another server; force-tcp, a miss that is asked over TCP.
Servers: echo-uring, echo-mmsg, nodens-uring, nodens-mmsg; knot, nsd, gdnsd for a zone; dnsdist and unbound for it over TLS, and
for what another server says; dnsmasq and relay for that alone; and nodens-etcd, which is nodens over an etcd.
A rate of 0 is all that goes. An empty list leaves that part out.";

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        let mut options = Self {
            rounds: 5,
            secs: 3,
            scenes: Scene::ALL.to_vec(),
            servers: Kind::USUAL.to_vec(),
            mixes: Mix::ZONE.to_vec(),
            rates: vec![20_000, 100_000, 0],
            tcp_mixes: Mix::ZONE.to_vec(),
            tcp_rates: vec![0],
            dot_mixes: vec![Mix::A],
            dot_rates: vec![20_000, 0],
            hit_rates: vec![20_000, 100_000, 0],
            miss_rates: vec![20_000, 0],
            cluster_mixes: Mix::CLUSTER.to_vec(),
            cluster_rates: vec![20_000, 100_000, 0],
            latency_rates: vec![10_000],
            server_core: cores - 1,
            client_core: 0,
            binaries: std::env::current_exe()?.parent().map(PathBuf::from).unwrap_or_default(),
            record: Some(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/record"))),
        };
        while let Some(word) = words.next() {
            if word == "--no-record" {
                options.record = None;
                continue;
            }
            if word == "--help" || word == "-h" {
                println!("{HELP}");
                std::process::exit(0);
            }
            let value = words.next().ok_or_else(|| format!("{word} wants a value\n{HELP}"))?;
            match word.as_str() {
                "--rounds" => options.rounds = value.parse()?,
                "--secs" => options.secs = value.parse()?,
                "--scenes" => options.scenes = list(&value)?,
                "--servers" => options.servers = list(&value)?,
                "--mixes" => options.mixes = list(&value)?,
                "--rates" => options.rates = list(&value)?,
                "--tcp-mixes" => options.tcp_mixes = list(&value)?,
                "--tcp-rates" => options.tcp_rates = list(&value)?,
                "--dot-mixes" => options.dot_mixes = list(&value)?,
                "--dot-rates" => options.dot_rates = list(&value)?,
                "--hit-rates" => options.hit_rates = list(&value)?,
                "--miss-rates" => options.miss_rates = list(&value)?,
                "--cluster-mixes" => options.cluster_mixes = list(&value)?,
                "--cluster-rates" => options.cluster_rates = list(&value)?,
                "--latency-rates" => options.latency_rates = list(&value)?,
                "--server-core" => options.server_core = value.parse()?,
                "--client-core" => options.client_core = value.parse()?,
                "--binaries" => options.binaries = value.into(),
                "--record" => options.record = Some(value.into()),
                other => return Err(format!("{other} is no option\n{HELP}").into()),
            }
        }
        if options.rounds == 0 || options.secs == 0 {
            return Err("at least one round of one second".into());
        }
        if options.server_core == options.client_core {
            return Err("the server and its client need a core each".into());
        }
        Ok(options)
    }

    /// For what stands behind a server and is not measured.
    pub(crate) fn on_client_core(&self) -> Self {
        Self {
            server_core: self.client_core,
            ..self.clone()
        }
    }
}

fn list<T: FromStr>(text: &str) -> Result<Vec<T>>
where
    T::Err: std::error::Error + 'static,
{
    Ok(text
        .split(',')
        .filter(|word| !word.is_empty())
        .map(str::parse)
        .collect::<Result<_, T::Err>>()?)
}
