//! The way to etcd: one client on one healthy endpoint, logged in, made anew when it breaks.
//!
//! A client over all endpoints would hand calls to dead ones too; a client on the first one that answers passes them by
//! wherever they stand in the list.

use std::error::Error as _;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Settings, Status};
use crate::quiet::Quiet;
use crate::{Level, Log, backoff};

/// For a TCP connection, and again for a TLS handshake.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// For the first call on a connection, making it included.
const HELLO_MAX: Duration = Duration::from_secs(2);
/// For logging in, making the connection included; a password hash takes its time.
const LOGIN_MAX: Duration = Duration::from_secs(3);
/// An endpoint that has not answered after this long is no longer waited for alone.
const STAGGER: Duration = Duration::from_millis(300);
/// Pings on a connection in use. etcd takes offence at more than one in five seconds.
const PING_EVERY: Duration = Duration::from_secs(5);
/// A ping without reply for so long ends the connection.
const PING_MAX: Duration = Duration::from_secs(2);
/// A connection that broke sooner counts as one more failure in a row.
const STEADY: Duration = Duration::from_secs(5);

/// Codes of gRPC, as far as they matter here.
pub(super) mod code {
    pub(in super::super) const INVALID_ARGUMENT: i32 = 3;
    pub(in super::super) const PERMISSION_DENIED: i32 = 7;
    pub(in super::super) const FAILED_PRECONDITION: i32 = 9;
    pub(in super::super) const OUT_OF_RANGE: i32 = 11;
    pub(in super::super) const UNIMPLEMENTED: i32 = 12;
    pub(in super::super) const UNAUTHENTICATED: i32 = 16;
}

/// Whether there is a client.
#[derive(Clone)]
pub(super) enum Up {
    /// Not asked yet.
    NotYet,
    /// No endpoint would have us.
    Down { reason: Arc<str> },
    /// Until somebody reports this generation broken.
    Client { generation: u64, client: Arc<Client> },
}

/// Shared by all who call etcd for one stanza.
pub(super) struct Link {
    settings: Arc<Settings>,
    status: Arc<Status>,
    log: Log,
    up: watch::Sender<Up>,
    broken: watch::Sender<(u64, Arc<str>)>,
}

/// A client, and what it is connected to.
struct Connected {
    client: Client,
    text: String,
}

/// Why an endpoint would not have us.
struct Rejection {
    reason: String,
    /// It answered, and said no: trying soon again is of no use.
    refused: bool,
}

impl Link {
    pub(super) fn new(settings: Arc<Settings>, status: Arc<Status>, log: Log) -> Self {
        let (up, _) = watch::channel(Up::NotYet);
        let (broken, _) = watch::channel((0, Arc::from("")));
        Self {
            settings,
            status,
            log,
            up,
            broken,
        }
    }

    /// Follows whether there is a client.
    pub(super) fn subscribe(&self) -> watch::Receiver<Up> {
        self.up.subscribe()
    }

    /// The client of this generation is of no use any more.
    pub(super) fn report(&self, generation: u64, reason: &str) {
        self.broken.send_if_modified(|broken| {
            let news = broken.0 < generation;
            if news {
                *broken = (generation, Arc::from(reason));
            }
            news
        });
    }

    /// Keeps a client up, for ever.
    pub(super) async fn keep(&self) {
        let endpoints = Endpoints::of(&self.settings);
        let seed = RandomState::new().hash_one(endpoints.urls.len());
        let mut quiet = Quiet::default();
        let mut broken = self.broken.subscribe();
        // Replicas begin with different members.
        let mut at = usize::try_from(seed % endpoints.urls.len().max(1) as u64).unwrap_or(0);
        let mut failures = 0;
        for generation in 1.. {
            let connected = loop {
                match self.round(&endpoints, &mut at).await {
                    Ok(connected) => break connected,
                    Err(rejection) => {
                        self.down(&rejection.reason, &mut quiet);
                        let longest = if rejection.refused {
                            backoff::DELAY_REFUSED_MAX
                        } else {
                            backoff::DELAY_AWAY_MAX
                        };
                        sleep(backoff::delay(failures, seed, longest)).await;
                        failures = failures.saturating_add(1);
                    }
                }
            };
            let since = Instant::now();
            if quiet.says(&connected.text, since) {
                (self.log)(Level::Info, &connected.text);
            }
            self.status.set_connected(true);
            self.status.clear_error();
            self.up.send_replace(Up::Client {
                generation,
                client: Arc::new(connected.client),
            });
            let reason = loop {
                let (of, reason) = broken.borrow_and_update().clone();
                if of >= generation {
                    break reason;
                }
                // The sender lives in `self`.
                let _ = broken.changed().await;
            };
            let steady = since.elapsed() >= STEADY;
            if steady {
                quiet.clear();
            }
            self.down(&reason, &mut quiet);
            at += 1;
            if steady {
                failures = 0;
            } else {
                sleep(backoff::delay(failures, seed, backoff::DELAY_AWAY_MAX)).await;
                failures = failures.saturating_add(1);
            }
        }
    }

    fn down(&self, reason: &str, quiet: &mut Quiet) {
        self.status.set_connected(false);
        self.status.set_error(reason);
        self.up.send_replace(Up::Down {
            reason: Arc::from(reason),
        });
        if quiet.says(reason, Instant::now()) {
            (self.log)(Level::Warning, reason);
        }
    }

    /// All endpoints, beginning at `at`, each a moment after the one before it; `at` becomes the first that has us.
    async fn round(&self, endpoints: &Endpoints, at: &mut usize) -> Result<Connected, Rejection> {
        let count = endpoints.urls.len();
        let mut tries = FuturesUnordered::new();
        let mut reasons = vec![String::new(); count];
        let mut refused = false;
        let mut begun = 0;
        while begun < count || !tries.is_empty() {
            if begun < count {
                let index = (*at + begun) % count;
                let url = &endpoints.urls[index];
                tries.push(async move { (index, self.connect(url, endpoints.options.clone()).await) });
                begun += 1;
            }
            let patience = if begun < count { STAGGER } else { Duration::MAX };
            match timeout(patience, tries.next()).await {
                Ok(Some((index, Ok(connected)))) => {
                    *at = index;
                    return Ok(connected);
                }
                Ok(Some((index, Err(rejection)))) => {
                    reasons[index] = format!("{}: {}", shown(&endpoints.urls[index]), rejection.reason);
                    refused |= rejection.refused;
                }
                Ok(None) | Err(_) => {}
            }
        }
        Err(Rejection {
            reason: reasons.join("; "),
            refused,
        })
    }

    async fn connect(&self, url: &str, options: ConnectOptions) -> Result<Connected, Rejection> {
        let mut logged_in = true;
        let credentials = self.credentials();
        let with_user = match &credentials {
            Some((user, password)) => options.clone().with_user(user, password).with_auto_token_refresh(true),
            None => options.clone(),
        };
        self.status.count_request();
        let mut made = timeout(LOGIN_MAX, Client::connect([url], Some(with_user))).await;
        if let Ok(Err(error)) = &made
            && credentials.is_some()
            && code_of(error) == Some(code::FAILED_PRECONDITION)
        {
            // Authentication is not enabled there, which is no error.
            logged_in = false;
            made = timeout(HELLO_MAX, Client::connect([url], Some(options))).await;
        }
        let mut client = made.map_err(|_| silent())?.map_err(|error| rejection(&error))?;
        // Connecting is lazy, so this is what finds out whether anybody is there.
        self.status.count_request();
        let version = match timeout(HELLO_MAX, client.status()).await.map_err(|_| silent())? {
            Ok(status) if status.leader() == 0 => {
                return Err(Rejection {
                    reason: "the member has no leader".to_owned(),
                    refused: false,
                });
            }
            Ok(status) => format!("etcd {}", status.version()),
            // It answered; whether we may read is for the reads to find out.
            Err(error) if matches!(code_of(&error), Some(code::PERMISSION_DENIED | code::UNAUTHENTICATED)) => {
                "etcd".to_owned()
            }
            Err(error) => return Err(rejection(&error)),
        };
        let user = credentials
            .filter(|_| logged_in)
            .map_or(String::new(), |(user, _)| format!(" as {user}"));
        let text = format!("connected to {version} at {}{user}", shown(url));
        Ok(Connected { client, text })
    }

    fn credentials(&self) -> Option<(String, String)> {
        self.settings
            .credentials
            .clone()
            .filter(|(user, password)| !user.is_empty() && !password.is_empty())
    }
}

/// Where to connect, and how.
struct Endpoints {
    urls: Vec<String>,
    options: ConnectOptions,
}

impl Endpoints {
    /// The first endpoint's scheme decides for all; without one, TLS is used if it was configured.
    fn of(settings: &Settings) -> Self {
        let first = settings.endpoints.first().map_or("", String::as_str);
        let secure = first.starts_with("https://") || (!first.starts_with("http://") && settings.tls.is_some());
        let scheme = if secure { "https" } else { "http" };
        let urls = settings.endpoints.iter().map(|endpoint| {
            let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, host)| host);
            format!("{scheme}://{host}")
        });
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_MAX)
            .with_keep_alive(PING_EVERY, PING_MAX)
            .with_keep_alive_while_idle(false)
            .with_require_leader(true);
        if secure {
            options = options.with_tls(tls_options(settings));
        }
        Self {
            urls: urls.collect(),
            options,
        }
    }
}

fn tls_options(settings: &Settings) -> TlsOptions {
    let tls = settings.tls.as_ref();
    let mut options = TlsOptions::new().timeout(CONNECT_MAX);
    options = match tls.and_then(|tls| tls.ca.as_ref()) {
        Some(ca) => options.ca_certificate(Certificate::from_pem(ca)),
        None => options.with_native_roots(),
    };
    if let Some((cert, key)) = tls.and_then(|tls| tls.cert_and_key.as_ref()) {
        options = options.identity(Identity::from_pem(cert, key));
    }
    options
}

/// The endpoint without a user and a password that may stand in it.
fn shown(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => url.to_owned(),
    }
}

fn silent() -> Rejection {
    Rejection {
        reason: "no answer in time".to_owned(),
        refused: false,
    }
}

fn rejection(error: &Error) -> Rejection {
    let refused = matches!(
        code_of(error),
        Some(code::INVALID_ARGUMENT | code::PERMISSION_DENIED | code::FAILED_PRECONDITION | code::UNAUTHENTICATED)
    );
    let reason = match code_of(error) {
        Some(code::UNIMPLEMENTED) => "this server has no etcd v3 API".to_owned(),
        _ => reason(error),
    };
    Rejection { reason, refused }
}

pub(super) fn code_of(error: &Error) -> Option<i32> {
    match error {
        Error::GRpcStatus(status) => Some(status.code() as i32),
        _ => None,
    }
}

/// The innermost causes say what a person can act on: who refused, which certificate was not believed.
pub(super) fn reason(error: &Error) -> String {
    let (mut text, mut cause) = match error {
        Error::GRpcStatus(status) => (status.message().to_owned(), status.source()),
        Error::TransportError(transport) => (transport.to_string(), transport.source()),
        other => (other.to_string(), None),
    };
    while let Some(error) = cause {
        let mut said = error.to_string();
        if said.contains("CaUsedAsEndEntity") {
            said =
                "the server's certificate is an authority's own (CA:TRUE), and has to be one that an authority signed"
                    .to_owned();
        }
        if !said.is_empty() && !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Tls;

    fn urls(endpoints: &[&str], tls: bool) -> Vec<String> {
        let settings = Settings {
            endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
            credentials: None,
            tls: tls.then_some(Tls {
                cert_and_key: None,
                ca: None,
            }),
            path: String::new(),
            zones: Vec::new(),
            min_lease_ttl: 30,
            max_lease_ttl: 86_400,
            lease_requests_per_sec: 100,
        };
        Endpoints::of(&settings).urls
    }

    #[test]
    fn the_first_scheme_decides_for_all() {
        assert_eq!(
            urls(&["http://a:1", "https://b:2", "c:3"], true),
            ["http://a:1", "http://b:2", "http://c:3"]
        );
        assert_eq!(
            urls(&["https://a:1", "http://b:2"], false),
            ["https://a:1", "https://b:2"]
        );
        assert_eq!(urls(&["a:1", "http://b:2"], true), ["https://a:1", "https://b:2"]);
        assert_eq!(urls(&["a:1", "https://b:2"], false), ["http://a:1", "http://b:2"]);
    }

    #[test]
    fn what_is_shown_holds_no_password() {
        assert_eq!(shown("http://user:se@cret@host:1"), "http://host:1");
        assert_eq!(shown("https://[::1]:2379"), "https://[::1]:2379");
    }
}
