//! `/ready`: whether every source has what it needs to answer.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use nodens_sources::{Level, Log};

use super::http::{self, HttpMetrics};
use crate::corefile::settings::Monitor;

/// Answers at `/ready` until it is dropped.
///
/// # Errors
/// The runtime cannot take the listener.
pub async fn serve_ready(
    listener: TcpListener,
    readiness: Arc<Readiness>,
    metrics: Arc<HttpMetrics>,
) -> io::Result<()> {
    let answer = move || async move {
        match readiness.ask() {
            Ok(()) => (StatusCode::OK, "OK".to_owned()),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        }
    };
    http::serve(listener, Router::new().route("/ready", any(answer)), metrics).await
}

/// Something that has to be ready.
pub struct Reporter {
    name: &'static str,
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    /// It has been ready once.
    was_ready: AtomicBool,
}

impl Reporter {
    /// Of the plugin of this name; any number of them may share one.
    pub fn new(name: &'static str, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            name,
            is_ready: Box::new(is_ready),
            was_ready: AtomicBool::new(false),
        }
    }

    fn is_ready(&self, monitor: Monitor) -> bool {
        if monitor == Monitor::UntilReady && self.was_ready.load(Ordering::Relaxed) {
            return true;
        }
        let ready = (self.is_ready)();
        if ready {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        ready
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Who is asked.
#[derive(Debug)]
struct Asked {
    sources: Vec<Arc<Reporter>>,
    monitor: Monitor,
}

/// The sources of all blocks with `ready`, whatever listener asks.
pub struct Readiness {
    asked: ArcSwap<Asked>,
    stopping: AtomicBool,
    /// The names last logged; empty when all was ready since.
    logged: Mutex<String>,
    log: Log,
}

impl Readiness {
    /// Over these sources. `log` puts the plugin's name in front of its lines.
    pub fn new(sources: Vec<Arc<Reporter>>, monitor: Monitor, log: Log) -> Self {
        Self {
            asked: ArcSwap::from_pointee(Asked { sources, monitor }),
            stopping: AtomicBool::new(false),
            logged: Mutex::default(),
            log,
        }
    }

    /// Asks these from now on: the sources of another configuration.
    pub fn ask_of(&self, sources: Vec<Arc<Reporter>>, monitor: Monitor) {
        self.asked.store(Arc::new(Asked { sources, monitor }));
    }

    /// From now on not ready: new clients should go elsewhere while those that are here are still served.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// The names of what is not ready, sorted, each once, with commas between them; logged when they change.
    fn ask(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        let asked = self.asked.load();
        let waiting = asked.sources.iter().filter(|source| !source.is_ready(asked.monitor));
        let mut names: Vec<_> = waiting.map(|source| source.name).collect();
        names.sort_unstable();
        names.dedup();
        let names = names.join(",");
        let changed = {
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = *logged != names;
            logged.clone_from(&names);
            changed
        };
        if names.is_empty() {
            return Ok(());
        }
        if changed {
            (self.log)(Level::Info, &format!("Plugins not ready: \"{names}\""));
        }
        Err(names)
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::bind;
    use super::super::http::tests::{address, get, runtime};
    use super::*;

    struct Switches {
        readiness: Arc<Readiness>,
        switches: Vec<Arc<AtomicBool>>,
        lines: Arc<Mutex<Vec<String>>>,
    }

    fn switches(names: &[&'static str], monitor: Monitor) -> Switches {
        let switches: Vec<Arc<AtomicBool>> = names.iter().map(|_| Arc::default()).collect();
        let sources = names.iter().zip(&switches).map(|(name, switch)| {
            let switch = Arc::clone(switch);
            Arc::new(Reporter::new(name, move || switch.load(Ordering::Relaxed)))
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let log: Log = Arc::new(move |level, line| log.lock().unwrap().push(format!("{level:?} {line}")));
        let readiness = Arc::new(Readiness::new(sources.collect(), monitor, log));
        Switches {
            readiness,
            switches,
            lines,
        }
    }

    impl Switches {
        fn set(&self, at: usize, ready: bool) {
            self.switches[at].store(ready, Ordering::Relaxed);
        }

        fn check(&self, expected: &str) {
            assert_eq!(self.readiness.ask().err().unwrap_or_default(), expected);
        }
    }

    #[test]
    fn every_source_is_asked_and_named_once() {
        let all = switches(&["kubernetes", "etcd", "etcd"], Monitor::UntilReady);
        all.check("etcd,kubernetes");
        all.set(1, true);
        all.check("etcd,kubernetes");
        all.set(0, true);
        all.check("etcd");
        all.check("etcd");
        all.set(2, true);
        all.check("");
        assert_eq!(
            *all.lines.lock().unwrap(),
            [
                "Info Plugins not ready: \"etcd,kubernetes\"",
                "Info Plugins not ready: \"etcd\"",
            ]
        );
    }

    #[test]
    fn what_was_ready_once_is_not_asked_again() {
        let all = switches(&["etcd"], Monitor::UntilReady);
        all.set(0, true);
        all.check("");
        all.set(0, false);
        all.check("");
    }

    #[test]
    fn continuously_means_at_every_request() {
        let all = switches(&["etcd"], Monitor::Continuously);
        all.check("etcd");
        all.set(0, true);
        all.check("");
        all.set(0, false);
        all.check("etcd");
        assert_eq!(all.lines.lock().unwrap().len(), 2);
    }

    #[test]
    fn over_http() {
        let all = switches(&["kubernetes", "etcd"], Monitor::UntilReady);
        let listener = bind(&address("127.0.0.1", 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let runtime = runtime();
        runtime.spawn(serve_ready(listener, Arc::clone(&all.readiness), Arc::default()));
        let reply = get(local, "/ready");
        assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
        assert!(
            reply.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
            "{reply}"
        );
        assert!(reply.ends_with("\r\n\r\netcd,kubernetes"), "{reply}");
        all.set(0, true);
        all.set(1, true);
        let reply = get(local, "/ready");
        assert!(
            reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nOK"),
            "{reply}"
        );
        assert!(get(local, "/").starts_with("HTTP/1.1 404 "));
        all.readiness.stop();
        assert!(get(local, "/ready").starts_with("HTTP/1.1 503 "));
    }
}
