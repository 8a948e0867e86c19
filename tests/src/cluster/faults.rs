//! A proxy in front of an API server, for faults that the real one cannot be made to show.
//!
//! It ends TLS with the server's own certificate, so whoever trusts the server's authority trusts it, and knows requests from one
//! another. What a network does without knowing them, [`crate::proxy`] does.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::Cluster;
use super::http::{Body, Framing, Head, write_chunk};
use crate::tls::TlsClient;
use crate::world::free_port;

/// How often a quiet stream looks whether it is to fail.
const TICK: Duration = Duration::from_millis(10);

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this status.
    Status(u16),
    /// A watch gets an ERROR event, 410, between two events, and ends; any other request gets status 410.
    Expired,
    /// Nothing more comes and nothing ends; what the server goes on sending is lost.
    Hung,
    /// The connection is closed when so many bytes of the body have passed; with 0 there is no reply at all.
    Cut(usize),
    /// The reply comes so much later.
    Late(Duration),
}

#[derive(Debug)]
struct Rule {
    part: String,
    fault: Fault,
    times: usize,
}

#[derive(Debug)]
struct Shared {
    /// The API server's.
    port: u16,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    is_over: AtomicBool,
    rules: Mutex<Vec<Rule>>,
    applied: AtomicUsize,
    targets: Mutex<Vec<String>>,
    sockets: Mutex<Vec<TcpStream>>,
}

/// A proxy on a port of its own, for as long as this lives.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts one in front of a cluster.
    ///
    /// # Errors
    /// There is no port for it.
    pub fn start(cluster: &Cluster) -> io::Result<Self> {
        let port = free_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            port: cluster.port(),
            ca: cluster.file("ca.pem"),
            certificate: cluster.file("server.pem"),
            key: cluster.file("server.key"),
            is_over: AtomicBool::new(false),
            rules: Mutex::default(),
            applied: AtomicUsize::new(0),
            targets: Mutex::default(),
            sockets: Mutex::default(),
        });
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Ok(Self {
            port,
            shared,
            thread: Some(thread),
        })
    }

    /// Its URL, for the one of the server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Requests whose path and query hold `part` (`""`: all; `"watch="`, `"/endpointslices"`) fail so, `times` of them. Replies that are
    /// on their way fail too, but for [`Fault::Status`] and [`Fault::Late`]. What was said first counts first.
    pub fn fail(&self, part: &str, fault: Fault, times: usize) {
        self.shared.rules().push(Rule {
            part: part.to_owned(),
            fault,
            times,
        });
    }

    /// Requests do not fail any more. What hangs goes on hanging, since it has lost something.
    pub fn heal(&self) {
        self.shared.rules().clear();
    }

    /// How many requests have failed so far.
    pub fn failed(&self) -> usize {
        self.shared.applied.load(Ordering::SeqCst)
    }

    /// Waits until so many requests have failed, all told.
    ///
    /// # Panics
    /// They do not within `limit`.
    pub fn wait_for_failed(&self, count: usize, limit: Duration) {
        let end = Instant::now() + limit;
        while self.failed() < count {
            assert!(
                Instant::now() < end,
                "{} of {count} requests have failed",
                self.failed()
            );
            thread::sleep(TICK);
        }
    }

    /// Path and query of all requests so far.
    pub fn targets(&self) -> Vec<String> {
        locked(&self.shared.targets).clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for socket in locked(&self.shared.sockets).drain(..) {
            // It may have ended by itself.
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        locked(&self.rules)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// What becomes of this request, or of the reply that is on its way.
    fn fault(&self, target: &str, is_under_way: bool) -> Option<Fault> {
        let mut rules = self.rules();
        let at = rules.iter().position(|rule| {
            let is_late = matches!(rule.fault, Fault::Status(_) | Fault::Late(_)) && is_under_way;
            target.contains(&rule.part) && !is_late
        })?;
        let rule = &mut rules[at];
        let fault = rule.fault;
        rule.times = rule.times.saturating_sub(1);
        if rule.times == 0 {
            rules.remove(at);
        }
        self.applied.fetch_add(1, Ordering::SeqCst);
        Some(fault)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_over() {
        let Ok((socket, _)) = listener.accept() else {
            thread::sleep(TICK);
            continue;
        };
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let Ok(clone) = socket.try_clone() else {
                return;
            };
            locked(&shared.sockets).push(clone);
            // Whatever goes wrong, the client sees its connection end.
            let _ = serve(&socket, &shared);
            let _ = socket.shutdown(Shutdown::Both);
        });
    }
}

type Inner = BufReader<StreamOwned<ServerConnection, TcpStream>>;
type Outer = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// The files are read for each connection: they may have been renewed.
fn tls_of(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Box<dyn std::error::Error>> {
    let chain = vec![CertificateDer::from_pem_file(certificate)?];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    Ok(Arc::new(config))
}

fn serve(socket: &TcpStream, shared: &Shared) -> Result<(), Box<dyn std::error::Error>> {
    let socket = socket.try_clone()?;
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let connection = ServerConnection::new(tls_of(&shared.certificate, &shared.key)?)?;
    let mut client: Inner = BufReader::new(StreamOwned::new(connection, socket));
    loop {
        client.get_ref().sock.set_read_timeout(None)?;
        let Some(request) = Head::read(&mut client)? else {
            return Ok(());
        };
        let mut body = Vec::new();
        Body::new(&mut client, request.framing()).read_to_end(&mut body)?;
        locked(&shared.targets).push(request.target().to_owned());
        let fault = shared.fault(request.target(), false);
        match fault {
            Some(Fault::Status(status)) => refuse(&mut client, status)?,
            Some(Fault::Expired) if !request.target().contains("watch=") => refuse(&mut client, 410)?,
            Some(Fault::Hung) => return hang(&mut client, shared),
            Some(Fault::Cut(0)) => return Ok(()),
            Some(Fault::Late(time)) => {
                thread::sleep(time);
                relay(&mut client, request, &body, None, shared)?;
            }
            _ => relay(&mut client, request, &body, fault, shared)?,
        }
    }
}

fn status_object(code: u16, reason: &str, message: &str) -> serde_json::Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code
    })
}

fn refuse(client: &mut Inner, code: u16) -> io::Result<()> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let body = status_object(code, reason, "the tests want it so").to_string();
    let mut head = Head {
        line: format!("HTTP/1.1 {code} {reason}"),
        fields: vec![
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Content-Length".to_owned(), body.len().to_string()),
        ],
    };
    if code == 429 {
        head.fields.push(("Retry-After".to_owned(), "1".to_owned()));
    }
    let mut reply = Vec::new();
    head.write(&mut reply)?;
    reply.extend_from_slice(body.as_bytes());
    client.get_mut().write_all(&reply)?;
    client.get_mut().flush()
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the client has closed its connection; it asks for nothing while a reply is on its way.
fn has_left(client: &mut Inner) -> io::Result<bool> {
    client.get_ref().sock.set_read_timeout(Some(Duration::from_millis(1)))?;
    match client.get_mut().read(&mut [0]) {
        Err(error) if is_timeout(&error) => Ok(false),
        _ => Ok(true),
    }
}

/// Until the client leaves or the proxy ends.
fn hang(client: &mut Inner, shared: &Shared) -> Result<(), Box<dyn std::error::Error>> {
    while !shared.is_over() && !has_left(client)? {
        thread::sleep(TICK);
    }
    Err("hung".into())
}

/// Asks the server and passes on what it says, unless it fails on the way. An error ends the client's connection.
fn relay(
    client: &mut Inner,
    mut request: Head,
    body: &[u8],
    mut fault: Option<Fault>,
    shared: &Shared,
) -> Result<(), Box<dyn std::error::Error>> {
    let tls = TlsClient::new(&shared.ca, None, "127.0.0.1", None)?;
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.port))?;
    let mut server: Outer = BufReader::new(tls.over(socket));
    request.remove("Connection");
    request.fields.push(("Connection".to_owned(), "close".to_owned()));
    let mut message = Vec::new();
    request.write(&mut message)?;
    message.extend_from_slice(body);
    server.get_mut().write_all(&message)?;
    let mut reply = Head::read(&mut server)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    reply.remove("Connection");
    reply.write(client.get_mut())?;
    client.get_mut().flush()?;

    server.get_ref().sock.set_read_timeout(Some(TICK))?;
    let framing = reply.framing();
    let mut body = Body::new(&mut server, framing);
    let (mut passed, mut is_between_events) = (0, true);
    let mut room = vec![0; 65_536];
    loop {
        let read = body.read(&mut room);
        if read.is_err() && shared.is_over() {
            return Err("over".into());
        }
        // A reply that is whole cannot fail any more.
        if !matches!(read, Ok(0)) {
            fault = fault.or_else(|| shared.fault(request.target(), true));
        }
        let len = match (&read, fault) {
            (_, Some(Fault::Hung)) => return hang(client, shared),
            (_, Some(Fault::Expired)) if is_between_events => {
                let error = status_object(410, "Expired", "too old resource version");
                let event = json!({ "type": "ERROR", "object": error });
                write_chunk(client.get_mut(), format!("{event}\n").as_bytes())?;
                return Ok(write_chunk(client.get_mut(), b"")?);
            }
            (_, Some(Fault::Cut(most))) if passed >= most => return Err("cut".into()),
            (Err(error), _) if is_timeout(error) => {
                if has_left(client)? {
                    return Ok(());
                }
                continue;
            }
            (Err(error), _) => return Err(error.to_string().into()),
            (Ok(len), Some(Fault::Cut(most))) if passed + len > most => {
                pass(client, framing, &room[..most.saturating_sub(passed)])?;
                return Err("cut".into());
            }
            (Ok(len), _) => *len,
        };
        pass(client, framing, &room[..len])?;
        if len == 0 {
            return match framing {
                Framing::UntilEnd => Err("its end is that of the connection".into()),
                Framing::Chunked => Ok(write_chunk(client.get_mut(), b"")?),
                Framing::Length(_) => Ok(()),
            };
        }
        passed += len;
        is_between_events = room[len - 1] == b'\n';
    }
}

/// Passes on a part of a body that is not empty.
fn pass(client: &mut Inner, framing: Framing, bytes: &[u8]) -> io::Result<()> {
    match framing {
        _ if bytes.is_empty() => Ok(()),
        Framing::Chunked => write_chunk(client.get_mut(), bytes),
        Framing::Length(_) | Framing::UntilEnd => {
            client.get_mut().write_all(bytes)?;
            client.get_mut().flush()
        }
    }
}
