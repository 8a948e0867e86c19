//! `/health`: that the process is alive and its control plane turns.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::any;
use nodens_engine::io::is_local;
use nodens_sources::{Level, Log};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use super::http::{self, HttpMetrics};
use super::text::{Kind, Page};
use crate::corefile::settings::HttpAddress;

const CHECK_EVERY: Duration = Duration::from_secs(1);
const CHECK_TIME_MAX: Duration = Duration::from_secs(3);
/// A request to ourselves that takes longer is worth a line.
const CHECK_SLOW: Duration = Duration::from_secs(1);
/// Of a reply to ourselves; a stranger on our port may say anything.
const REPLY_MAX: u64 = 4096;
/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 5] = [0.000_25, 0.002_5, 0.025, 0.25, 2.5];

/// Answers `OK` at `/health` until it is dropped.
///
/// # Errors
/// The runtime cannot take the listener.
pub async fn serve_health(listener: TcpListener, metrics: Arc<HttpMetrics>) -> io::Result<()> {
    let router = Router::new().route("/health", any(|| async { "OK" }));
    http::serve(listener, router, metrics).await
}

/// How long requests to ourselves took, and how many failed. Any number of writers.
#[derive(Debug, Default)]
pub struct HealthMetrics {
    durations: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
    failures: AtomicU64,
}

impl HealthMetrics {
    fn observe(&self, duration: Duration) {
        let secs = duration.as_secs_f64();
        let at = BOUNDS.iter().position(|&bound| secs <= bound).unwrap_or(BOUNDS.len());
        self.durations[at].fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn show(&self, page: &mut Page) {
        let counts = self.durations.each_ref().map(|count| count.load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        page.family(
            "coredns_health_request_duration_seconds",
            Kind::Histogram,
            "Time that requests to the server's own health endpoint took.",
        )
        .histogram(&[], BOUNDS, &counts, sum);
        page.single(
            "coredns_health_request_failures_total",
            Kind::Counter,
            "Requests to the server's own health endpoint that failed.",
            self.failures.load(Ordering::Relaxed),
        );
    }
}

/// The look at our own endpoint, once a second: it shows when the control plane is starved.
#[derive(Debug)]
pub struct SelfCheck {
    url: String,
    host: String,
    target: SocketAddr,
}

impl SelfCheck {
    /// Of the endpoint that was configured as `address` and is bound as `listener`.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn new(address: &HttpAddress, listener: &TcpListener) -> io::Result<Self> {
        let mut target = listener.local_addr()?;
        if target.ip().is_unspecified() {
            // Wildcard sockets of IPv6 are bound for both families.
            target.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let name = if address.host.is_empty() {
            "localhost"
        } else {
            &address.host
        };
        let host = http::show(name, target.port());
        Ok(Self {
            url: format!("http://{host}/health"),
            host,
            target,
        })
    }

    /// Asks until it is dropped. `log` puts the plugin's name in front of its lines.
    pub async fn run(self, metrics: Arc<HealthMetrics>, log: Log) {
        let mut ticks = tokio::time::interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // The first tick is at once, when the server may still be starting.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            // Until the host has the address, somebody else may answer there.
            if is_local(self.target) {
                self.check(CHECK_TIME_MAX, &metrics, &log).await;
            }
        }
    }

    async fn check(&self, time_max: Duration, metrics: &HealthMetrics, log: &Log) {
        let begin = Instant::now();
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no reply within {time_max:?}"));
        let result = tokio::time::timeout(time_max, self.ask()).await;
        let elapsed = begin.elapsed();
        metrics.observe(elapsed);
        if let Err(error) = result.map_err(late).flatten() {
            metrics.failures.fetch_add(1, Ordering::Relaxed);
            let line = format!("Local health request to \"{}\" failed: {error}", self.url);
            log(Level::Warning, &line);
        } else if elapsed > CHECK_SLOW {
            let url = &self.url;
            let line = format!("Local health request to \"{url}\" took more than 1s: {elapsed:?}");
            log(Level::Warning, &line);
        }
    }

    async fn ask(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.target).await?;
        let request = format!(
            "GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.host
        );
        stream.write_all(request.as_bytes()).await?;
        let mut reply = Vec::new();
        stream.take(REPLY_MAX).read_to_end(&mut reply).await?;
        if reply.starts_with(b"HTTP/1.1 200 ") {
            return Ok(());
        }
        let line = reply.split(|&byte| byte == b'\r').next().unwrap_or_default();
        Err(io::Error::other(format!("unexpected reply '{}'", line.escape_ascii())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::bind;
    use super::super::http::tests::{address, ask, get, runtime};
    use super::*;
    use std::sync::Mutex;

    fn lines() -> (Arc<Mutex<Vec<String>>>, Log) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let log: Log = Arc::new(move |level, line| log.lock().unwrap().push(format!("{level:?} {line}")));
        (lines, log)
    }

    fn page(metrics: &HealthMetrics) -> String {
        let mut page = Page::default();
        metrics.show(&mut page);
        page.finish()
    }

    #[test]
    fn health_is_ok_by_any_method() {
        let listener = bind(&address("127.0.0.1", 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let runtime = runtime();
        runtime.spawn(serve_health(listener, Arc::default()));
        let reply = get(local, "/health");
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(
            reply.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
            "{reply}"
        );
        assert!(reply.ends_with("\r\n\r\nOK"), "{reply}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
            let reply = ask(
                local,
                &format!("{method} /health HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
            );
            assert!(reply.ends_with("\r\n\r\nOK"), "{method}: {reply}");
        }
        assert!(ask(local, "HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(get(local, "/health?x=y").ends_with("OK"));
        assert!(get(local, "/").starts_with("HTTP/1.1 404 "));
        assert!(get(local, "/healthz").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn the_check_finds_its_own_endpoint() {
        let address = address("", 0);
        let listener = bind(&address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let check = SelfCheck::new(&address, &listener).unwrap();
        assert_eq!(check.url, format!("http://localhost:{port}/health"));
        let runtime = runtime();
        runtime.spawn(serve_health(listener, Arc::default()));
        let metrics = HealthMetrics::default();
        let (lines, log) = lines();
        runtime.block_on(check.check(Duration::from_secs(30), &metrics, &log));
        assert!(page(&metrics).contains("\ncoredns_health_request_duration_seconds_count 1\n"));
        assert!(page(&metrics).contains("\ncoredns_health_request_failures_total 0\n"));
        assert_eq!(*lines.lock().unwrap(), [""; 0]);
    }

    #[test]
    fn failures_are_counted_and_said() {
        let address = address("127.0.0.1", 0);
        let listener = bind(&address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let check = SelfCheck::new(&address, &listener).unwrap();
        let metrics = HealthMetrics::default();
        let (lines, log) = lines();
        let runtime = runtime();
        // The kernel accepts, nobody answers.
        runtime.block_on(check.check(Duration::from_millis(50), &metrics, &log));
        drop(listener);
        runtime.block_on(check.check(Duration::from_secs(30), &metrics, &log));
        assert!(page(&metrics).contains("\ncoredns_health_request_failures_total 2\n"));
        let said = lines.lock().unwrap();
        let start = format!("Warning Local health request to \"http://127.0.0.1:{port}/health\" failed: ");
        assert_eq!(said[0], format!("{start}no reply within 50ms"));
        assert!(
            said[1].starts_with(&start) && said[1].contains("refused"),
            "{}",
            said[1]
        );
    }

    #[test]
    fn durations_fall_into_buckets() {
        let metrics = HealthMetrics::default();
        assert!(page(&metrics).starts_with(
            "# HELP coredns_health_request_duration_seconds Time that requests to the server's own health endpoint \
             took.\n\
             # TYPE coredns_health_request_duration_seconds histogram\n\
             coredns_health_request_duration_seconds_bucket{le=\"0.00025\"} 0\n"
        ));
        for ms in [1, 2, 500, 3000] {
            metrics.observe(Duration::from_millis(ms));
        }
        let page = page(&metrics);
        for line in [
            "_bucket{le=\"0.00025\"} 0",
            "_bucket{le=\"0.0025\"} 2",
            "_bucket{le=\"0.25\"} 2",
            "_bucket{le=\"2.5\"} 3",
            "_bucket{le=\"+Inf\"} 4",
            "_sum 3.503",
            "_count 4",
        ] {
            assert!(
                page.contains(&format!("\ncoredns_health_request_duration_seconds{line}\n")),
                "{line}"
            );
        }
    }
}
