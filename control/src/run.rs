//! Start order and stop order, each in one visible list.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Options;
use crate::corefile::settings::Corefile;
use crate::output;
use crate::server::Server;

/// Runs the server until a signal ends it; returns the exit status.
///
/// # Errors
/// The start failed. Everything that was started is stopped again.
pub fn run(corefile: Corefile, options: &Options) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("control")
        .build()
        .context("cannot start the control plane")?;
    let inside = runtime.enter();

    // The server, without anything to serve; what it is to serve; and all of that at once.
    let mut server = Server::start(options)?;
    let prepared = runtime.block_on(server.prepare(corefile))?;
    let start_lines = prepared.start_lines().to_vec();
    server.use_it(prepared);
    if !options.quiet {
        announce(&start_lines);
    }
    if let Some(pidfile) = &options.pidfile {
        fs::write(pidfile, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write the pid file {}", pidfile.display()))?;
    }

    // Until a signal, or the end of a worker, which is a failure.
    let status = runtime.block_on(until_end(&server));

    // The other way round.
    if let Some(pidfile) = &options.pidfile {
        // It may have been removed by hand.
        let _ = fs::remove_file(pidfile);
    }
    server.drain();
    drop(inside);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(status)
}

fn announce(start_lines: &[String]) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    for line in start_lines {
        // Nobody may be reading.
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "{}", crate::args::version());
}

/// Waits for the signal that ends the process; returns the exit status.
async fn until_end(server: &Server) -> u8 {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut quit), Ok(mut hangup), Ok(mut reload)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::quit()),
        signal(SignalKind::hangup()),
        signal(SignalKind::user_defined1()),
    ) else {
        output::error("cannot listen for signals");
        return 1;
    };
    let mut look = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = terminate.recv() => {
                output::info("SIGTERM: Shutting down servers then terminating");
                break;
            }
            _ = interrupt.recv() => {
                output::info("SIGINT: Shutting down");
                break;
            }
            _ = quit.recv() => return 0,
            _ = hangup.recv() => {}
            _ = reload.recv() => {
                output::warning("SIGUSR1: a Corefile cannot be reloaded yet; restart to use another one");
            }
            _ = look.tick() => {
                if server.is_broken() {
                    return 1;
                }
            }
        }
    }
    server.admin().readiness.stop();
    let lameduck = server.lameduck();
    if !lameduck.is_zero() {
        output::info(&format!("plugin/health: Going into lameduck mode for {lameduck:?}"));
        tokio::select! {
            () = tokio::time::sleep(lameduck) => {}
            _ = interrupt.recv() => {
                output::info("SIGINT: Force quit");
                return 2;
            }
        }
    }
    0
}
