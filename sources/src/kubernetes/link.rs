//! The way to the API server: where it is, who we are to it, and the client that is made of that; made anew when a file
//! that it comes from changes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use thiserror::Error;
use tokio::sync::Mutex;

use super::meter::{MeterLayer, Turns};
use super::{Server, Settings, Status, TlsFiles};
use crate::tls::{Tls, TlsError};

/// Where a pod has what its service account is given.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";
/// Bytes of a kubeconfig, a token, a certificate or a key.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// For a TCP connection and its TLS handshake.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Why no client can be made.
#[derive(Debug, Error)]
pub enum Unusable {
    /// Not in a pod, and nothing else is said.
    #[error("unable to load in-cluster configuration, {HOST} and {PORT} must be defined")]
    NotInCluster,
    /// No URL of an API server.
    #[error("invalid endpoint: {url}: {reason}")]
    Url {
        /// As written.
        url: String,
        /// Why.
        reason: String,
    },
    /// A file that cannot be read.
    #[error("error reading {}: {error}", file.display())]
    Unreadable {
        /// As given.
        file: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Certificates that are of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A kubeconfig that is of no use.
    #[error("{}: {error}", file.display())]
    Kubeconfig {
        /// As given.
        file: PathBuf,
        /// Why.
        #[source]
        error: Box<KubeconfigError>,
    },
    /// Files that are right each for itself and make no client.
    #[error("no client of the API server can be made: {0}")]
    Client(Box<kube::Error>),
}

impl Unusable {
    /// The file that is of no use.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Unreadable { file, .. } | Self::Kubeconfig { file, .. } => Some(file),
            Self::Tls(error) => error.file(),
            Self::NotInCluster | Self::Url { .. } | Self::Client(_) => None,
        }
    }
}

/// What the machine says that the server runs on.
pub trait World {
    /// The bytes of a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl World for Machine {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let metadata = std::fs::metadata(file)?;
        // Opening a pipe would wait for whoever writes into it.
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        if metadata.len() > FILE_BYTES_MAX {
            let text = format!("the file is larger than {FILE_BYTES_MAX} bytes");
            return Err(io::Error::other(text));
        }
        std::fs::read(file)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// All that keeps a source from ever having a client, as things are now. Nothing is contacted.
#[must_use]
pub fn check(server: &Server, world: &dyn World) -> Vec<Unusable> {
    let mut found = Found::new(world);
    let first = found.config(server).err();
    first.into_iter().chain(found.others).collect()
}

/// The client of one source.
pub(super) struct Link {
    server: Server,
    turns: Turns,
    status: Arc<Status>,
    made: Mutex<Option<Made>>,
}

struct Made {
    /// Of all that it was made of,
    from: u64,
    /// and the files that this stands in, as they were.
    files: Vec<(PathBuf, Option<Stamp>)>,
    client: Client,
}

/// By what a file is seen to have changed, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// What a client is made of.
struct Ingredients {
    /// The hash of it all.
    from: u64,
    files: Vec<(PathBuf, Option<Stamp>)>,
    config: Config,
}

impl Link {
    pub(super) fn new(settings: &Settings, status: Arc<Status>) -> Self {
        Self {
            server: settings.server.clone(),
            turns: Turns::new(&settings.limits),
            status,
            made: Mutex::new(None),
        }
    }

    /// The client; another one than before when a file has changed.
    pub(super) async fn client(&self) -> Result<Client, Unusable> {
        let mut made = self.made.lock().await;
        let is_new = |(file, stamp): &(PathBuf, Option<Stamp>)| Stamp::of(file) != *stamp;
        if let Some(made) = made.as_ref().filter(|made| !made.files.iter().any(is_new)) {
            return Ok(made.client.clone());
        }
        let Ingredients { from, files, config } = Found::new(&Machine).config(&self.server)?;
        if let Some(made) = made.as_mut().filter(|made| made.from == from) {
            made.files = files;
            return Ok(made.client.clone());
        }
        let authority = config.cluster_url.authority();
        let layer = MeterLayer {
            turns: self.turns.clone(),
            status: Arc::clone(&self.status),
            host: authority.map_or("", |authority| authority.as_str()).into(),
        };
        let builder = ClientBuilder::try_from(config).map_err(|error| Unusable::Client(Box::new(error)))?;
        let client = builder.with_layer(&layer).build();
        *made = Some(Made {
            from,
            files,
            client: client.clone(),
        });
        Ok(client)
    }

    /// The API server does not know us: what the client has read is read again.
    pub(super) async fn forget(&self) {
        *self.made.lock().await = None;
    }
}

/// Reads what a client is made of, and hashes it.
struct Found<'w> {
    world: &'w dyn World,
    hasher: DefaultHasher,
    files: Vec<(PathBuf, Option<Stamp>)>,
    /// What is wrong beside the error that was returned.
    others: Vec<Unusable>,
}

impl<'w> Found<'w> {
    fn new(world: &'w dyn World) -> Self {
        Self {
            world,
            hasher: DefaultHasher::new(),
            files: Vec::new(),
            others: Vec::new(),
        }
    }

    fn config(&mut self, server: &Server) -> Result<Ingredients, Unusable> {
        let mut config = match server {
            Server::InCluster => self.in_cluster(Path::new(ACCOUNT)),
            Server::Endpoint { url, tls } => self.endpoint(url, tls.as_ref()),
            Server::Kubeconfig { file, context } => self.kubeconfig(file, context.clone()),
        }?;
        config.connect_timeout = Some(CONNECT_MAX);
        // What is asked again, and when, is decided elsewhere.
        config.default_retry = false;
        let os = std::env::consts::OS;
        let agent = format!("nodens-{} ({os}/{})", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        if let Ok(agent) = HeaderValue::from_str(&agent) {
            config.headers.push((USER_AGENT, agent));
        }
        Ok(Ingredients {
            from: self.hasher.finish(),
            files: std::mem::take(&mut self.files),
            config,
        })
    }

    fn in_cluster(&mut self, account: &Path) -> Result<Config, Unusable> {
        let variable = |name| self.world.variable(name).filter(|value| !value.is_empty());
        let (Some(host), Some(port)) = (variable(HOST), variable(PORT)) else {
            return Err(Unusable::NotInCluster);
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let mut config = Config::new(uri(&format!("https://{host}:{port}"))?);
        let token = account.join("token");
        self.read(&token)?;
        config.auth_info.token_file = Some(token.to_string_lossy().into_owned());
        config.root_cert = Some(self.authority(&account.join("ca.crt"))?);
        Ok(config)
    }

    fn endpoint(&mut self, url: &str, tls: Option<&TlsFiles>) -> Result<Config, Unusable> {
        let url = match (url.contains("://"), tls) {
            (true, _) => url.to_owned(),
            (false, Some(_)) => format!("https://{url}"),
            (false, None) => format!("http://{url}"),
        };
        let mut config = Config::new(uri(&url)?);
        if let Some(TlsFiles { cert, key, ca }) = tls {
            let files = [cert.clone(), key.clone(), ca.clone()];
            self.files
                .extend(files.iter().map(|file| (file.clone(), Stamp::of(file))));
            let loaded = match Tls::load(&files, |file| self.world.read(file)) {
                Ok(loaded) => loaded,
                Err(errors) => return Err(self.first(errors.into_iter().map(Unusable::Tls).collect())),
            };
            loaded.hash(&mut self.hasher);
            let text = |file: &Path| Some(file.to_string_lossy().into_owned());
            config.auth_info = AuthInfo {
                client_certificate: text(cert),
                client_key: text(key),
                ..AuthInfo::default()
            };
            config.root_cert = loaded.ca.as_deref().map(certificates);
        }
        Ok(config)
    }

    fn kubeconfig(&mut self, file: &Path, context: Option<String>) -> Result<Config, Unusable> {
        let unusable = |error| Unusable::Kubeconfig {
            file: file.to_owned(),
            error: Box::new(error),
        };
        let text = self.read(file)?;
        let mut kubeconfig = Kubeconfig::from_yaml(&String::from_utf8_lossy(&text)).map_err(unusable)?;
        if context.is_some() {
            kubeconfig.current_context = context;
        }
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let below = |name: &mut Option<String>| {
            if let Some(name) = name {
                *name = folder.join(&*name).to_string_lossy().into_owned();
            }
        };
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            below(&mut cluster.certificate_authority);
        }
        for user in kubeconfig
            .auth_infos
            .iter_mut()
            .filter_map(|named| named.auth_info.as_mut())
        {
            below(&mut user.client_certificate);
            below(&mut user.client_key);
            below(&mut user.token_file);
        }
        let context = kubeconfig.current_context.clone();
        let context = kubeconfig
            .contexts
            .iter()
            .find(|named| Some(&named.name) == context.as_ref());
        let cluster = context
            .and_then(|named| named.context.as_ref())
            .map(|context| &context.cluster);
        let cluster = kubeconfig.clusters.iter().find(|named| Some(&named.name) == cluster);
        let cluster = cluster.and_then(|named| named.cluster.as_ref());
        let has_proxy = cluster.is_some_and(|cluster| cluster.proxy_url.is_some());
        let user = context
            .and_then(|named| named.context.as_ref())
            .and_then(|context| context.user.as_ref());
        let user = kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == user);
        let user = user.and_then(|named| named.auth_info.as_ref());
        let authority = cluster.and_then(|cluster| cluster.certificate_authority.as_ref());
        let of_user = user.map(|user| [&user.client_certificate, &user.client_key, &user.token_file]);
        let files = authority.into_iter().chain(of_user.into_iter().flatten().flatten());
        let unreadable: Vec<Unusable> = files.filter_map(|file| self.read(Path::new(file)).err()).collect();
        if !unreadable.is_empty() {
            return Err(self.first(unreadable));
        }
        let mut config = Config::try_from(kubeconfig).map_err(unusable)?;
        if !has_proxy {
            // The API server is not reached through what the environment names for the web.
            config.proxy_url = None;
        }
        Ok(config)
    }

    /// The first of several errors; the others are kept.
    fn first(&mut self, mut errors: Vec<Unusable>) -> Unusable {
        self.others = errors.split_off(1);
        errors.remove(0)
    }

    fn authority(&mut self, file: &Path) -> Result<Vec<Vec<u8>>, Unusable> {
        let found = certificates(&self.read(file)?);
        if found.is_empty() {
            let file = file.to_owned();
            return Err(TlsError::NoRoots { file }.into());
        }
        Ok(found)
    }

    fn read(&mut self, file: &Path) -> Result<Vec<u8>, Unusable> {
        // Before it is read: what changes meanwhile is seen the next time.
        self.files.push((file.to_owned(), Stamp::of(file)));
        let bytes = self.world.read(file).map_err(|error| Unusable::Unreadable {
            file: file.to_owned(),
            error,
        })?;
        bytes.hash(&mut self.hasher);
        Ok(bytes)
    }
}

/// Parts that are no certificates do not matter.
fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    let found = CertificateDer::pem_slice_iter(pem).flatten();
    found.map(|certificate| certificate.to_vec()).collect()
}

fn uri(url: &str) -> Result<Uri, Unusable> {
    let bad = |reason: String| Unusable::Url {
        url: url.to_owned(),
        reason,
    };
    let uri: Uri = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad(error.to_string()))?;
    if uri.authority().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("expected a URL such as https://192.0.2.1:6443".to_owned()));
    }
    Ok(uri)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
