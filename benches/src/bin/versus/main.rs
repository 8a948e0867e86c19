//! nodens against an echo, knot, nsd and gdnsd, over TLS against dnsdist and unbound: same zone, same questions, one core each, in turn.
//!
//! ```text
//! workload   the zone and the query files       servers   configuration and start of each server
//! options    the command line                   measure   CPU, memory, wake-ups of a process; one dnsperf run
//! table      medians, ratios to the floor, the record
//! ```
//!
//! All servers stay up on the server's core and are loaded one after the other, so that those who are compared ran within seconds of each
//! other. The floor is the cheaper echo of the same questions, rate and rounds; only ratios from one run mean anything.
#![forbid(unsafe_code)]

mod measure;
mod options;
mod servers;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use measure::{Sample, load};
use options::Options;
use servers::{Kind, Server};
use table::Cell;
use workload::{Mix, Workload};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

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
    let mut servers = Vec::new();
    for &kind in options.servers.iter().filter(|kind| !kind.is_echo()) {
        servers.extend(unless_denied(kind, Server::start(kind, &workload, options))?);
    }
    let mut cells = Vec::new();
    for (transport, mixes, rates) in [
        ("udp", &options.mixes, &options.rates),
        ("tcp", &options.tcp_mixes, &options.tcp_rates),
        ("dot", &options.dot_mixes, &options.dot_rates),
    ] {
        for &mix in mixes {
            let mut echoes = start_echoes(transport, mix, &servers, &workload, options)?;
            let mut row: Vec<&mut Server> = echoes
                .iter_mut()
                .chain(servers.iter_mut().filter(|server| server.kind.takes_part(transport)))
                .collect();
            for server in row.iter().filter(|server| !server.kind.is_echo()) {
                server.check(mix)?;
            }
            for &rate in rates {
                cells.extend(measure_row(transport, mix, rate, &mut row, &workload, options)?);
            }
        }
    }
    let memory: Vec<(Kind, f64)> = servers.iter().map(|server| (server.kind, server.memory_mb())).collect();
    let report = table::report(&cells, &memory, options);
    println!("\n{report}");
    if let Some(path) = table::record(&report, options)? {
        println!("written to {}", path.display());
    }
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

/// One echo for each back end, whose replies are as long as those of the first server that is no echo.
fn start_echoes(
    transport: &str,
    mix: Mix,
    servers: &[Server],
    workload: &Workload,
    options: &Options,
) -> Result<Vec<Server>> {
    let size = match servers.first() {
        Some(server) => server.reply_size(mix)?,
        None => mix.usual_size(),
    };
    let mut echoes = Vec::new();
    for &kind in options.servers.iter().filter(|kind| kind.is_echo()) {
        if !kind.takes_part(transport) {
            continue;
        }
        echoes.extend(unless_denied(
            kind,
            Server::start_echo(kind, transport, size, workload, options),
        )?);
    }
    println!("{transport} {}: replies of {size} bytes", mix.name());
    Ok(echoes)
}

fn measure_row(
    transport: &'static str,
    mix: Mix,
    rate: u32,
    row: &mut [&mut Server],
    workload: &Workload,
    options: &Options,
) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = row
        .iter()
        .map(|server| Cell {
            kind: server.kind,
            transport,
            mix,
            rate,
            samples: Vec::new(),
        })
        .collect();
    for round in 0..=options.rounds {
        for (server, cell) in row.iter_mut().zip(&mut cells) {
            // Round 0 warms up and does not count.
            let secs = if round == 0 { options.secs.min(1) } else { options.secs };
            let sample: Sample = load(server, transport, workload.queries(mix), rate, secs, options)?;
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
