//! nodens against others: same data, same questions, one core each, in turn. With a zone of its own against an echo, knot, nsd and
//! gdnsd, over TLS against dnsdist and unbound; with a cluster, against an echo; before another server, with a cache and without, against dnsdist, unbound, dnsmasq
//! and a bare relay.
//!
//! ```text
//! workload   the zone and the query files       scene     who takes part in what, under which load
//! options    the command line                   commands  configuration and command of each server
//! servers    from start to end                  measure   CPU, memory, wake-ups of a process; one dnsperf run
//! table      medians, ratios, the record        latency   percentiles of the time that an answer takes
//! ```
//!
//! All servers of a scene stay up on the server's core and are loaded one after the other, so that those who are compared ran within seconds of each
//! other. The floor is the cheaper echo of the same questions, rate and rounds; only ratios from one run mean anything.
#![forbid(unsafe_code)]

mod commands;
mod latency;
mod measure;
mod options;
mod scene;
mod servers;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use commands::Stage;
use options::Options;
use scene::{Load, Scene};
use servers::{Kind, Server, Upstream};
use table::{Cell, Delay, Report};
use workload::Workload;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Seconds of load in which a cache learns all names.
const FILL_SECS: u32 = 2;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("versus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let folder = Folder::make()?;
    let workload = Workload::write(&folder.0)?;
    let mut report = Report::default();
    for &scene in &options.scenes {
        play(scene, &workload, options, &mut report)?;
    }
    let report = table::write(&report, options);
    println!("\n{report}");
    if let Some(path) = table::record(&report, options)? {
        println!("written to {}", path.display());
    }
    Ok(())
}

/// Measures all that belongs to a scene; its servers run no longer than that.
fn play(scene: Scene, workload: &Workload, options: &Options, report: &mut Report) -> Result<()> {
    let upstream = match scene.upstream_ttl() {
        Some(ttl) => Some(Upstream::start(ttl, options)?),
        None if scene == Scene::Cluster => Some(Upstream::cluster(options)?),
        None => None,
    };
    let stage = Stage {
        scene,
        workload,
        options,
        upstream: upstream.as_ref().map_or(0, |upstream| upstream.port),
    };
    let is_in = |kind: &&Kind| scene.uses(**kind) && !scene.is_floor(**kind);
    let mut servers = Vec::new();
    for &kind in options.servers.iter().filter(is_in) {
        servers.extend(unless_denied(kind, Server::start(kind, &stage))?);
    }
    for load in scene.loads(options) {
        let mut floors = start_floors(&load, &servers, &stage)?;
        let takes_part = |server: &&mut Server| scene.has(server.kind, load.transport);
        let row = servers.iter_mut().filter(takes_part);
        for server in row {
            server.check(load.mix, &stage)?;
            if scene.keeps() {
                // It has each name from now on.
                measure::load(server, "udp", workload.queries(load.mix), 0, FILL_SECS, options)?;
            }
        }
        let row = servers.iter_mut().filter(takes_part);
        let mut row: Vec<&mut Server> = floors.iter_mut().chain(row).collect();
        for &rate in &load.rates {
            report.cells.extend(measure_row(&load, rate, &mut row, &stage)?);
        }
        if scene == Scene::Miss && load.transport == "udp" {
            for &rate in &options.latency_rates {
                report.delays.extend(measure_delays(rate, &row, &stage)?);
            }
        }
    }
    report
        .memory
        .extend(servers.iter().map(|server| (scene, server.kind, server.memory_mb())));
    Ok(())
}

/// A container may deny io_uring: then its rows are left out, and this says so.
fn unless_denied(kind: Kind, started: Result<Server>) -> Result<Option<Server>> {
    match started {
        Ok(server) => Ok(Some(server)),
        Err(error) if kind.needs_uring() && error.to_string().contains("io_uring") => {
            println!("{} left out: {error}", kind.name());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The floors of a load. The replies of echoes are as long as those of the first server that is none.
fn start_floors(load: &Load, servers: &[Server], stage: &Stage<'_>) -> Result<Vec<Server>> {
    let (scene, options) = (stage.scene, stage.options);
    let size = match servers.first() {
        Some(server) => server.reply_size(load.mix)?,
        None => load.mix.usual_size(),
    };
    let mut floors = Vec::new();
    for &kind in &options.servers {
        if scene.is_floor(kind) && scene.has(kind, load.transport) {
            let started = Server::start_floor(kind, load.transport, size, stage);
            floors.extend(unless_denied(kind, started)?);
        }
    }
    println!("{} {}: replies of {size} bytes", load.transport, scene.word(load.mix));
    Ok(floors)
}

fn measure_row(load: &Load, rate: u32, row: &mut [&mut Server], stage: &Stage<'_>) -> Result<Vec<Cell>> {
    let options = stage.options;
    let mut cells: Vec<Cell> = row
        .iter()
        .map(|server| Cell {
            kind: server.kind,
            scene: stage.scene,
            transport: load.transport,
            mix: load.mix,
            rate,
            samples: Vec::new(),
        })
        .collect();
    for round in 0..=options.rounds {
        for (server, cell) in row.iter_mut().zip(&mut cells) {
            // Round 0 warms up and does not count.
            let secs = if round == 0 { options.secs.min(1) } else { options.secs };
            let queries = stage.workload.queries(load.mix);
            let sample = measure::load(server, load.transport, queries, rate, secs, options)?;
            if round > 0 {
                cell.samples.push(sample);
            }
        }
    }
    for cell in &cells {
        println!("  {}", table::line(cell));
    }
    Ok(cells)
}

/// How long a miss takes, by way of each server and without one.
fn measure_delays(rate: u32, row: &[&mut Server], stage: &Stage<'_>) -> Result<Vec<Delay>> {
    let ways =
        std::iter::once((None, stage.upstream)).chain(row.iter().map(|server| (Some(server.kind), server.port())));
    let mut delays: Vec<(u16, Delay)> = ways
        .map(|(kind, port)| {
            let runs = Vec::new();
            (port, Delay { kind, rate, runs })
        })
        .collect();
    for round in 0..=stage.options.rounds {
        for (port, delay) in &mut delays {
            let times = latency::ask_evenly(*port, rate, stage.options.secs, stage.options)?;
            if round > 0 {
                delay.runs.push(times);
            }
        }
    }
    Ok(delays.into_iter().map(|(_, delay)| delay).collect())
}

/// The folder of this run; it goes when the run ends.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("nodens-versus-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind in a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
