//! The files of `tls`: what the connections of a listener begin with, and again when they have changed.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nodens_engine::tls::TlsSettings;
use nodens_sources::tls::{Tls, TlsError};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoClientAuth, NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, DistinguishedName, KeyLog, RootCertStore, ServerConfig, SignatureScheme};

use tokio::task::JoinHandle;

use crate::corefile::settings::{ClientAuth, PathSetting, Tls as Settings};
use crate::corefile::{Diagnostic, Span};
use crate::files::{self, Stamp};
use crate::output;

/// How often the files are looked at. What has changed is read at the second look that finds it the same, since
/// certificate and key seldom come in one moment.
const LOOK: Duration = Duration::from_secs(2);

/// Largest certificate, key or authority that is read; the authorities that a system trusts are some 200 KB together.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What `tls` of one block stands for.
#[derive(Debug)]
pub struct Certificates {
    settings: Settings,
    files: Files,
    keys: Option<Arc<KeyLogFile>>,
    sessions: Mutex<Sessions>,
    shared: Arc<TlsSettings>,
}

/// What clients that come again show, and who vouched for those that it was given to.
#[derive(Clone, Debug)]
struct Sessions {
    tickets: Arc<dyn ProducesTickets>,
    client_auth: ClientAuth,
    authority: Option<Vec<u8>>,
}

/// When the files were changed, in the order of the directive's words.
type Files = Vec<Option<Stamp>>;

impl Certificates {
    /// Reads the files. That of `keylog` is not opened yet.
    ///
    /// # Errors
    /// All that are not what they should be.
    pub fn load(settings: &Settings) -> Result<Self, Vec<Diagnostic>> {
        let files = stamps(settings);
        let keys = settings.keylog.as_ref().map(KeyLogFile::find).transpose();
        let (keys, tls) = match (keys, own(settings)) {
            (Ok(keys), Ok(tls)) => (keys.map(Arc::new), tls),
            (keys, tls) => return Err(keys.err().into_iter().chain(tls.err().into_iter().flatten()).collect()),
        };
        let sessions = Sessions::new(&tls, settings).map_err(|error| vec![error])?;
        let config = config(&tls, settings, keys.clone(), &sessions).map_err(|error| vec![error])?;
        Ok(Self {
            settings: settings.clone(),
            files,
            keys,
            sessions: Mutex::new(sessions),
            shared: Arc::new(TlsSettings::new(config)),
        })
    }

    /// Opens the file of `keylog`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open_keys(&self) -> Result<(), Diagnostic> {
        self.keys.as_ref().map_or(Ok(()), |keys| keys.open())
    }

    /// For the listeners.
    pub fn shared(&self) -> Arc<TlsSettings> {
        Arc::clone(&self.shared)
    }

    /// Lets clients of an earlier configuration resume their sessions, where it asked the same of them.
    fn go_on_from(&self, earlier: &Self) {
        let same_files = words(&self.settings)
            .map(|word| &word.path)
            .eq(words(&earlier.settings).map(|word| &word.path));
        if same_files && self.sessions().go_on_from(&earlier.sessions()) {
            // The files were good a moment ago, and what has become of them since is found out later.
            let _ = self.reload();
        }
    }

    /// Looks at the files every now and then, for ever. Connections stay with what they began with.
    async fn follow(self: Arc<Self>) {
        let mut used = self.files.clone();
        let mut seen = used.clone();
        loop {
            tokio::time::sleep(LOOK).await;
            let files = stamps(&self.settings);
            let is_settled = std::mem::replace(&mut seen, files.clone()) == files;
            if !is_settled || files == used {
                continue;
            }
            used = files;
            let cert = self.settings.certificate.path.display();
            match self.reload() {
                Ok(()) => output::info(&format!("plugin/tls: Successfully reloaded the certificate {cert}")),
                Err(errors) => {
                    for error in errors {
                        output::warning(&format!("{}; {cert} is used as it was", error.text));
                    }
                }
            }
        }
    }

    fn reload(&self) -> Result<(), Vec<Diagnostic>> {
        let tls = own(&self.settings)?;
        let mut sessions = Sessions::new(&tls, &self.settings).map_err(|error| vec![error])?;
        sessions.go_on_from(&self.sessions());
        let config = config(&tls, &self.settings, self.keys.clone(), &sessions).map_err(|error| vec![error])?;
        *self.sessions() = sessions;
        self.shared.replace(config);
        Ok(())
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn new(tls: &Tls, settings: &Settings) -> Result<Self, Diagnostic> {
        let tickets = ring::Ticketer::new().map_err(|error| refused(settings.span, error))?;
        Ok(Self {
            tickets,
            client_auth: settings.client_auth,
            authority: tls.ca.clone(),
        })
    }

    /// Takes over the earlier tickets. One stands for a client that has shown what it had to, so the same must be asked
    /// of it now.
    fn go_on_from(&mut self, earlier: &Self) -> bool {
        let is_same = self.client_auth == earlier.client_auth && self.authority == earlier.authority;
        if is_same {
            self.tickets = Arc::clone(&earlier.tickets);
        }
        is_same
    }
}

/// Certificates in use, and the task that looks at their files until they are not.
#[derive(Debug)]
pub struct Followed {
    certificates: Arc<Certificates>,
    task: JoinHandle<()>,
}

impl Followed {
    /// Those of a new configuration, which go on from those before. To be called within the runtime.
    pub fn all(new: Vec<Certificates>, before: &[Self]) -> Vec<Self> {
        let follow = |certificates: Certificates| {
            for earlier in before {
                certificates.go_on_from(&earlier.certificates);
            }
            let certificates = Arc::new(certificates);
            let task = tokio::spawn(Arc::clone(&certificates).follow());
            Self { certificates, task }
        };
        new.into_iter().map(follow).collect()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn words(settings: &Settings) -> impl Iterator<Item = &PathSetting> {
    [&settings.certificate, &settings.key]
        .into_iter()
        .chain(&settings.authority)
}

fn stamps(settings: &Settings) -> Files {
    words(settings).map(|word| Stamp::of(&word.path)).collect()
}

fn refused(span: Span, text: impl fmt::Display) -> Diagnostic {
    Diagnostic::setup(span, format!("plugin/tls: {text}"))
}

/// Reads what is shown and trusted. What is wrong stands at the word of its file, or nowhere where it has none.
pub(crate) fn read(words: &[&PathSetting]) -> Result<Tls, Vec<(Option<Span>, TlsError)>> {
    let files: Vec<PathBuf> = words.iter().map(|word| word.path.clone()).collect();
    Tls::load(&files, |path| files::read(path, FILE_BYTES_MAX)).map_err(|errors| {
        let place = |error: TlsError| {
            let word = words.iter().find(|word| Some(&*word.path) == error.file());
            (word.map(|word| word.span), error)
        };
        errors.into_iter().map(place).collect()
    })
}

/// Reads the files of `tls`.
fn own(settings: &Settings) -> Result<Tls, Vec<Diagnostic>> {
    let words: Vec<_> = words(settings).collect();
    read(&words).map_err(|errors| {
        let drawn = errors.into_iter().map(|(span, error)| {
            refused(span.unwrap_or(settings.span), error)
                .help("the files are, in this order: certificate, key, authority of the clients; all in PEM")
        });
        drawn.collect()
    })
}

fn config(
    tls: &Tls,
    settings: &Settings,
    keys: Option<Arc<KeyLogFile>>,
    sessions: &Sessions,
) -> Result<Arc<ServerConfig>, Diagnostic> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(settings.span, error))?;
    let verifier = verifier(tls, settings, provider)?;
    let own = tls.certified_key().expect("the pair was checked when it was read");
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    config.ticketer = Arc::clone(&sessions.tickets);
    // Tickets are enough, and a store would be a lock between the workers.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let Some(keys) = keys {
        config.key_log = keys;
    }
    Ok(Arc::new(config))
}

fn verifier(
    tls: &Tls,
    settings: &Settings,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Diagnostic> {
    let any = |is_mandatory| AnyCertificate {
        is_mandatory,
        provider: Arc::clone(&provider),
    };
    let signed = || {
        let span = settings.authority.as_ref().map_or(settings.span, |word| word.span);
        let roots = tls.roots().unwrap_or_else(system_roots);
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        (builder, span)
    };
    let (builder, span) = match settings.client_auth {
        ClientAuth::NoCert => return Ok(Arc::new(NoClientAuth)),
        ClientAuth::Request => return Ok(Arc::new(any(false))),
        ClientAuth::Require => return Ok(Arc::new(any(true))),
        ClientAuth::VerifyIfGiven => {
            let (builder, span) = signed();
            (builder.allow_unauthenticated(), span)
        }
        ClientAuth::RequireAndVerify => signed(),
    };
    builder
        .build()
        .map_err(|error| refused(span, format!("could not read root certs: {error}")))
}

/// The authorities that the system trusts.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Clients show a certificate and prove that it is theirs; who signed it does not matter.
#[derive(Debug)]
struct AnyCertificate {
    is_mandatory: bool,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// `keylog`: a line for each secret, as NSS writes them and packet analysers read them.
#[derive(Debug)]
struct KeyLogFile {
    path: PathBuf,
    span: Span,
    /// None until it is opened: a configuration that is only looked at makes no file.
    file: Mutex<Option<File>>,
}

impl KeyLogFile {
    /// Looks at what stands there.
    fn find(word: &PathSetting) -> Result<Self, Diagnostic> {
        let own = Self {
            path: word.path.clone(),
            span: word.span,
            file: Mutex::default(),
        };
        let folder = word.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Opening a pipe would wait for its reader.
        if fs::metadata(&word.path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(own.refused("it is no regular file"));
        }
        if folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(own.refused("there is no such folder"));
        }
        Ok(own)
    }

    fn refused(&self, why: &str) -> Diagnostic {
        let text = format!("cannot write the key log {}: {why}", self.path.display());
        refused(self.span, text).help("name a file, in a folder that is there, that the server's user may write")
    }

    fn open(&self) -> Result<(), Diagnostic> {
        let opened = File::options().append(true).create(true).mode(0o600).open(&self.path);
        let opened = opened.map_err(|error| self.refused(&error.to_string()))?;
        *self.file() = Some(opened);
        output::warning(&format!(
            "plugin/tls: whoever can read {} can read all TLS connections from now on",
            self.path.display()
        ));
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // A full disk costs the line and not the connection.
        let _ = self.file().as_mut().map(|file| file.write_all(line.as_bytes()));
    }
}
