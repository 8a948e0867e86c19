//! HTTP for probes and scrapers: few connections, one request each, seconds to live.
//!
//! Keeping connections open would save a scraper one handshake a quarter of a minute, and would need rules for idle
//! ones, slow readers and slow writers. With one request a connection, one deadline covers them all.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Sleep;

use crate::corefile::settings::HttpAddress;

/// Connections of one listener at a time; one more ends the oldest.
pub const CONNECTIONS_MAX: usize = 64;
/// From the accept to the last byte of the reply.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes read of a connection; probes and scrapers send a few hundred.
const REQUEST_MAX: usize = 16 * 1024;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;
/// After a failure to accept, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the listeners count, all together.
#[derive(Debug, Default)]
pub struct HttpMetrics {
    /// Connections ended because there were too many.
    pub limited: AtomicU64,
    /// Connections ended because their request or reply took too long, or was too long.
    pub overrun: AtomicU64,
}

/// Listens; an empty host means every address of both families.
///
/// # Errors
/// The name does not resolve, or the address cannot be bound; the text names the address.
pub fn bind(address: &HttpAddress) -> Result<TcpListener, String> {
    let failed = |error: io::Error| format!("cannot listen on tcp {}: {error}", show(&address.host, address.port));
    if address.host.is_empty() {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port));
        return match listen(any) {
            // A kernel without IPv6.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                listen(SocketAddr::from(([0, 0, 0, 0], address.port))).map_err(failed)
            }
            other => other.map_err(failed),
        };
    }
    let found: Vec<SocketAddr> = (&*address.host, address.port)
        .to_socket_addrs()
        .map_err(failed)?
        .collect();
    // `localhost` is both; scrapers that are told nothing else try 127.0.0.1.
    let chosen = found.iter().find(|found| found.is_ipv4()).or_else(|| found.first());
    let chosen = chosen.ok_or_else(|| failed(io::Error::other("no such address")))?;
    listen(*chosen).map_err(failed)
}

/// HOST:PORT, an IPv6 address in brackets.
pub(super) fn show(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a process before us may still be in TIME-WAIT.
    socket.set_reuse_address(true)?;
    // An address that comes later is served from then on.
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(false)?;
            socket.set_freebind_v6(true)?;
        }
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, metrics: Arc<HttpMetrics>) -> io::Result<()> {
    let limits = Limits {
        connections_max: CONNECTIONS_MAX,
        time_max: TIME_MAX,
        request_max: REQUEST_MAX,
    };
    serve_within(listener, router, metrics, limits).await
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    connections_max: usize,
    time_max: Duration,
    request_max: usize,
}

async fn serve_within(
    listener: TcpListener,
    router: Router,
    metrics: Arc<HttpMetrics>,
    limits: Limits,
) -> io::Result<()> {
    let listener = Admission {
        listener: tokio::net::TcpListener::from_std(listener)?,
        open: VecDeque::new(),
        metrics,
        limits,
    };
    axum::serve(listener, router.layer(map_response(close))).await
}

async fn close(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A listener that lets only so many in.
struct Admission {
    listener: tokio::net::TcpListener,
    /// Oldest first. Dropping one ends its connection.
    open: VecDeque<oneshot::Sender<()>>,
    metrics: Arc<HttpMetrics>,
    limits: Limits,
}

impl axum::serve::Listener for Admission {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return (self.admit(stream), peer),
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Admission {
    /// The new one gets in: a probe must not wait for clients that say nothing.
    fn admit(&mut self, stream: TcpStream) -> Connection {
        self.open.retain(|open| !open.is_closed());
        if self.open.len() >= self.limits.connections_max {
            self.open.pop_front();
            self.metrics.limited.fetch_add(1, Ordering::Relaxed);
        }
        let (open, evicted) = oneshot::channel();
        self.open.push_back(open);
        Connection {
            stream,
            deadline: Box::pin(tokio::time::sleep(self.limits.time_max)),
            evicted,
            ended: false,
            unread: self.limits.request_max,
            metrics: Arc::clone(&self.metrics),
        }
    }
}

/// The client went away before we came to it; the next one may be waiting already.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

/// A connection that ends by itself.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    evicted: oneshot::Receiver<()>,
    /// Once true, `evicted` may not be polled any more.
    ended: bool,
    /// Bytes that may still be read.
    unread: usize,
    metrics: Arc<HttpMetrics>,
}

impl Connection {
    /// An error once the connection has to end. Whoever waits for the stream is woken for it as well.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.ended {
            let overrun = self.unread == 0 || self.deadline.as_mut().poll(context).is_ready();
            let evicted = Pin::new(&mut self.evicted).poll(context).is_ready();
            if !overrun && !evicted {
                return Ok(());
            }
            self.ended = true;
            if overrun {
                self.metrics.overrun.fetch_add(1, Ordering::Relaxed);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buf);
        self.unread = self.unread.saturating_sub(buf.filled().len() - before);
        result
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::corefile::source::Span;
    use axum::routing::any;
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;
    use std::time::Instant;

    pub(in crate::admin) fn address(host: &str, port: u16) -> HttpAddress {
        HttpAddress {
            host: host.to_owned(),
            port,
            span: Span {
                file: 0,
                start: 0,
                end: 0,
            },
        }
    }

    /// A runtime on threads of its own, so that tests may block.
    pub(in crate::admin) fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    /// The whole reply to a request.
    pub(in crate::admin) fn ask(to: SocketAddr, request: &str) -> String {
        let mut client = Client::connect(to).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        reply
    }

    pub(in crate::admin) fn get(to: SocketAddr, path: &str) -> String {
        ask(to, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    const ROOMY: Limits = Limits {
        connections_max: 4,
        time_max: Duration::from_secs(60),
        request_max: 1024,
    };

    fn start(limits: Limits) -> (tokio::runtime::Runtime, SocketAddr, Arc<HttpMetrics>) {
        let listener = bind(&address("127.0.0.1", 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let metrics = Arc::new(HttpMetrics::default());
        let router = Router::new()
            .route("/short", any(|| async { "OK" }))
            .route("/long", any(|| async { "x".repeat(64 << 20) }));
        let runtime = runtime();
        runtime.spawn(serve_within(listener, router, Arc::clone(&metrics), limits));
        (runtime, local, metrics)
    }

    fn is_closed(client: &mut Client) -> bool {
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        match client.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    #[test]
    fn a_connection_serves_one_request() {
        let (_runtime, local, _) = start(ROOMY);
        let reply = get(local, "/short");
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(reply.contains("\r\nconnection: close\r\n"), "{reply}");
        assert!(reply.ends_with("\r\n\r\nOK"), "{reply}");
        assert!(get(local, "/other").starts_with("HTTP/1.1 404 "));
        assert!(ask(local, "GET /short HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nOK"));
    }

    #[test]
    fn one_connection_too_many_ends_the_oldest() {
        let (_runtime, local, metrics) = start(ROOMY);
        let mut idle: Vec<Client> = (0..ROOMY.connections_max)
            .map(|_| Client::connect(local).unwrap())
            .collect();
        assert!(get(local, "/short").ends_with("OK"));
        assert!(is_closed(&mut idle[0]));
        assert_eq!(metrics.limited.load(Ordering::Relaxed), 1);
        // The reply made room: the others are as they were.
        let mut second = idle.swap_remove(1);
        second.write_all(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut reply = String::new();
        second.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with("OK"));
        assert_eq!(metrics.overrun.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn slow_clients_end_in_time_and_hold_nobody_up() {
        let time_max = Duration::from_millis(300);
        let (_runtime, local, metrics) = start(Limits { time_max, ..ROOMY });
        let begin = Instant::now();
        let mut silent = Client::connect(local).unwrap();
        let mut half = Client::connect(local).unwrap();
        half.write_all(b"GET /short HTTP/1.1\r\nHo").unwrap();
        // Asks for more than the sockets' buffers hold and reads none of it.
        let mut reader = Client::connect(local).unwrap();
        reader.write_all(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(get(local, "/short").ends_with("OK"));
        assert!(is_closed(&mut silent));
        assert!(is_closed(&mut half));
        assert!(begin.elapsed() >= time_max);
        while metrics.overrun.load(Ordering::Relaxed) < 3 {
            assert!(begin.elapsed() < Duration::from_secs(20), "{metrics:?}");
            std::thread::yield_now();
        }
        let mut reply = Vec::new();
        let end = reader.read_to_end(&mut reply);
        assert!(end.is_err() || reply.len() < 64 << 20);
    }

    #[test]
    fn a_request_without_end_is_cut() {
        let (_runtime, local, metrics) = start(ROOMY);
        let mut client = Client::connect(local).unwrap();
        client.write_all(b"GET /short HTTP/1.1\r\n").unwrap();
        // Writing fails as soon as the other end has closed.
        while client
            .write_all(b"X-Filler: 0123456789012345678901234567890123456789\r\n")
            .is_ok()
        {}
        assert_eq!(metrics.overrun.load(Ordering::Relaxed), 1);
        assert!(get(local, "/short").ends_with("OK"));
    }

    #[test]
    fn an_empty_host_is_both_families() {
        let listener = bind(&address("", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Client::connect(("127.0.0.1", port)).unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            Client::connect(("::1", port)).unwrap();
        }
    }

    #[test]
    fn names_prefer_the_older_family() {
        let listener = bind(&address("localhost", 0)).unwrap();
        assert!(listener.local_addr().unwrap().is_ipv4());
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = bind(&address("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(&address("127.0.0.1", port)).unwrap_err();
        let expected = format!("cannot listen on tcp 127.0.0.1:{port}: Address already in use");
        assert!(error.starts_with(&expected), "{error}");
        // The wildcard holds it too.
        assert!(
            bind(&address("", port))
                .unwrap_err()
                .contains(&format!("tcp :{port}: "))
        );
    }

    #[test]
    fn one_listener_for_equal_addresses() {
        for (one, other, same) in [
            (("", 80), ("", 80), true),
            (("Localhost", 80), ("localhost", 80), true),
            (("", 80), ("", 81), false),
            (("::1", 80), ("localhost", 80), false),
        ] {
            assert_eq!(address(one.0, one.1).is_same(&address(other.0, other.1)), same);
        }
    }
}
