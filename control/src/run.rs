//! Start order and stop order, each in one visible list.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::args::Options;
use crate::corefile::Input;
use crate::corefile::settings::{Corefile, Event};
use crate::notify;
use crate::output;
use crate::reload::{Reloader, Why};
use crate::server::Server;
use crate::takeover::Doors;
use crate::workers;

/// Runs the server until a signal ends it; returns the exit status.
///
/// # Errors
/// The start failed. Everything that was started is stopped again.
pub fn run(corefile: Corefile, input: Input, options: &Options) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(|| workers::step_back(workers::STEP_BACK))
        .worker_threads(1)
        .enable_all()
        .thread_name("control")
        .build()
        .context("cannot start the control plane")?;
    let inside = runtime.enter();

    // The server, without anything to serve; what it is to serve; and all of that at once.
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let mut asked = signal(SignalKind::user_defined1()).context("cannot listen for signals")?;
    let mut server = Server::start(options)?;
    let prepared = runtime.block_on(server.prepare(corefile))?;
    let start_lines = prepared.start_lines().to_vec();
    let mut reloader = Reloader::new(input, options.port);
    let corefile = runtime.block_on(server.use_it(prepared));
    reloader.in_use(&corefile, &server);
    notify::open();
    if !options.quiet {
        announce(&start_lines);
    }
    if let Some(pidfile) = &options.pidfile {
        fs::write(pidfile, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write the pid file {}", pidfile.display()))?;
    }
    started(&server);

    // Until a signal, or the end of a worker, which is a failure.
    let end = runtime.block_on(serve(&mut server, &mut reloader, &mut signals, &mut asked));

    // The other way round. Only SIGTERM and another process wait for clients.
    let status = runtime.block_on(stop(&server, end, &mut signals));
    if let Some(pidfile) = &options.pidfile {
        remove_own(pidfile);
    }
    match end {
        End::Terminate if status == 0 => server.drain(),
        End::TakenOver => server.release(),
        _ => {}
    }
    drop(inside);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(status)
}

/// Removes the pid file, unless a process that took over has written its own.
fn remove_own(pidfile: &Path) {
    let own = std::process::id().to_string();
    if fs::read_to_string(pidfile).is_ok_and(|text| text.trim() == own) {
        // It may have been removed by hand.
        let _ = fs::remove_file(pidfile);
    }
}

fn announce(start_lines: &[String]) {
    let lines: String = start_lines.iter().map(|line| format!("{line}\n")).collect();
    output::lines(&format!("{lines}{}\n", crate::args::version()));
}

/// The signals that the server listens for.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    upgrade: Signal,
}

/// Why the server ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Terminate,
    Interrupt,
    Quit,
    Broken,
    TakenOver,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal that ends the server.
    async fn end(&mut self) -> End {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return End::Terminate,
                _ = self.interrupt.recv() => return End::Interrupt,
                _ = self.quit.recv() => return End::Quit,
                // Ignored: the first as in CoreDNS, where the second starts the binary anew, which `-take-over` does here.
                _ = self.hangup.recv() => {}
                _ = self.upgrade.recv() => {}
            }
        }
    }
}

/// Serves, uses new configurations, and lets another process take over, until the end.
async fn serve(server: &mut Server, reloader: &mut Reloader, signals: &mut Signals, asked: &mut Signal) -> End {
    let zones_changed = server.zones_changed();
    let mut look = tokio::time::interval(Duration::from_secs(1));
    let (mut doors, mut heirs) = Doors::new();
    doors.open(&server.meeting_places());
    // A process that has copies of all sockets and does not serve yet. Meanwhile they stay the same.
    let mut heir: Option<JoinHandle<bool>> = None;
    loop {
        let is_alone = heir.is_none();
        let why = tokio::select! {
            biased;
            end = signals.end() => return end,
            serves = next_of(&mut heir) => {
                if serves {
                    return End::TakenOver;
                }
                output::warning("the process that was to take over has given up; this one goes on");
                continue;
            }
            Some(new) = heirs.recv(), if is_alone => {
                match server.give(&new) {
                    Ok(()) => heir = Some(tokio::task::spawn_blocking(move || new.serves())),
                    Err(error) => output::warning(&format!("another process cannot take over: {error}")),
                }
                continue;
            }
            _ = asked.recv(), if is_alone => Why::Signal,
            () = reloader.due(), if is_alone => Why::Look,
            () = zones_changed.notified(), if is_alone => {
                server.use_again().await;
                continue;
            }
            _ = look.tick() => {
                if server.is_broken() {
                    return End::Broken;
                }
                continue;
            }
        };
        // A signal to end does not wait for files and other servers.
        let prepared = tokio::select! {
            biased;
            end = signals.end() => return end,
            prepared = reloader.prepare(server, why) => prepared,
        };
        if let Some(prepared) = prepared {
            let corefile = server.use_it(prepared).await;
            reloader.in_use(&corefile, server);
            doors.open(&server.meeting_places());
            output::info("Reloading complete");
            started(server);
        }
    }
}

/// Whether the process that wants to take over serves; for ever where there is none.
async fn next_of(heir: &mut Option<JoinHandle<bool>>) -> bool {
    let Some(task) = heir else {
        return std::future::pending().await;
    };
    let serves = task.await.unwrap_or(false);
    *heir = None;
    serves
}

/// Runs the commands of `on startup`; nobody waits for them but those behind them.
fn started(server: &Server) {
    let hooks = server.hooks().clone();
    tokio::spawn(async move { hooks.run(Event::Startup).await });
}

/// What comes between the signal and the end, while everything is still served; returns the exit status.
async fn stop(server: &Server, end: End, signals: &mut Signals) -> u8 {
    output::info(match end {
        End::Terminate => "SIGTERM: Shutting down servers then terminating",
        End::Interrupt => "SIGINT: Shutting down",
        End::Quit => return 0,
        End::Broken => return 1,
        End::TakenOver => {
            output::info("another process has taken over: Shutting down servers then terminating");
            return 0;
        }
    });
    server.admin().readiness.stop();
    let wait = async {
        server.hooks().run(Event::Shutdown).await;
        let lameduck = server.lameduck();
        if !lameduck.is_zero() {
            output::info(&format!("plugin/health: Going into lameduck mode for {lameduck:?}"));
            tokio::time::sleep(lameduck).await;
        }
    };
    tokio::select! {
        () = wait => 0,
        _ = signals.interrupt.recv() => {
            output::info("SIGINT: Force quit");
            2
        }
        _ = signals.quit.recv() => 0,
    }
}
