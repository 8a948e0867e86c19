//! A cluster of a given size, to be listed, watched and changed: made up, or in a real API server.
//!
//! ```text
//! cluster serve [SIZE]       lists and watches over plain HTTP, at the URL of the first line of output
//! cluster real [SIZE]        starts an API server and writes the objects into it; the first line is its kubeconfig
//! cluster drain HOST:PORT    watches all of it and keeps nothing, until the server ends: the other side of a comparison
//!
//! SIZE: --services N --endpoints N --namespaces N --headless-every N --pods N
//! ```
//!
//! It does what lines of input say, says so when it is done, and ends with its input:
//!
//! ```text
//! change SERVICE             another address for one endpoint of the Service of that number
//! changes RATE SECONDS       so many of these a second, all Services in turn
//! touch SERVICE              a new version of a Service, as it was (made-up clusters)
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nodens_benches::cluster::{Kind, Shape, Store, change_real, drain, fill, serve};
use nodens_tests::cluster::Cluster;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const USAGE: &str =
    "usage: cluster serve|real [--services N] [--endpoints N] [--namespaces N] [--headless-every N] [--pods N]
       cluster drain HOST:PORT";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match &words[..] {
        ["serve", size @ ..] => shape_of(size).and_then(made_up),
        ["real", size @ ..] => shape_of(size).and_then(real),
        ["drain", server] => drain_all(server),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn shape_of(words: &[&str]) -> Result<Shape> {
    let mut shape = Shape::default();
    for pair in words.chunks(2) {
        let [option, value] = pair else {
            return Err(USAGE.into());
        };
        let field = match *option {
            "--services" => &mut shape.services,
            "--endpoints" => &mut shape.endpoints,
            "--namespaces" => &mut shape.namespaces,
            "--headless-every" => &mut shape.headless_every,
            "--pods" => &mut shape.pods,
            _ => return Err(USAGE.into()),
        };
        *field = number(value)?;
    }
    if shape.endpoints == 0 || shape.namespaces == 0 {
        return Err("endpoints and namespaces are at least one".into());
    }
    Ok(shape)
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn made_up(shape: Shape) -> Result<()> {
    let store = Arc::new(Store::new(shape));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    serve(listener, Arc::clone(&store));
    say(&url)?;
    obey(&shape, &mut |what, service| {
        match what {
            What::Endpoint => store.change_endpoint(service),
            What::Service => store.touch_service(service),
        }
        Ok(())
    })
}

fn real(shape: Shape) -> Result<()> {
    let cluster = Cluster::start()?;
    let begun = Instant::now();
    fill(cluster.client(), &shape)?;
    say(&cluster.kubeconfig().display().to_string())?;
    eprintln!("cluster: filled in {:.1} s", begun.elapsed().as_secs_f64());
    let mut changes = BTreeMap::new();
    obey(&shape, &mut |what, service| {
        if what == What::Service {
            return Err("only made-up Services are touched".into());
        }
        let count = changes.entry(service).or_default();
        *count += 1;
        Ok(change_real(cluster.client(), &shape, service, *count)?)
    })
}

fn drain_all(server: &str) -> Result<()> {
    let counts: Vec<_> = thread::scope(|scope| {
        let drains: Vec<_> = Kind::ALL.map(|kind| scope.spawn(move || drain(server, kind))).into();
        drains
            .into_iter()
            .map(|drain| drain.join().expect("a thread that does not panic"))
            .collect()
    });
    for (kind, count) in Kind::ALL.into_iter().zip(counts) {
        match count {
            Ok(bytes) => say(&format!("{}: {bytes} bytes", kind.name()))?,
            Err(error) => say(&format!("{}: {error}", kind.name()))?,
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Endpoint,
    Service,
}

/// Does what lines of input say.
fn obey(shape: &Shape, change: &mut dyn FnMut(What, u32) -> Result<()>) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match &words[..] {
            ["change", service] => number(service).and_then(|service| change(What::Endpoint, service)),
            ["touch", service] => number(service).and_then(|service| change(What::Service, service)),
            ["changes", rate, secs] => number(rate).and_then(|rate| many(shape, rate, number(secs)?, change)),
            _ => Err("no such command".into()),
        };
        match outcome {
            Ok(()) => say(&format!("done: {line}"))?,
            Err(error) => say(&format!("failed: {line}: {error}"))?,
        }
    }
    Ok(())
}

fn number(word: &str) -> Result<u32> {
    word.parse().map_err(|_| format!("{word} is no number").into())
}

/// Changes evenly over time. One that is late is made at once, so that their number is right.
fn many(shape: &Shape, rate: u32, secs: u32, change: &mut dyn FnMut(What, u32) -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    for number in 0..rate.saturating_mul(secs) {
        let due = Duration::from_secs_f64(f64::from(number) / f64::from(rate));
        thread::sleep(due.saturating_sub(begun.elapsed()));
        // A prime, so that those that follow each other are far apart.
        change(What::Endpoint, number.wrapping_mul(7_919) % shape.services)?;
    }
    let took = begun.elapsed().as_secs_f64();
    eprintln!(
        "cluster: {} changes a second",
        f64::from(rate.saturating_mul(secs)) / took
    );
    Ok(())
}
