//! A client of DNS over TLS.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, version};

/// Whom a client trusts, and who it is.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// One that wants a certificate of `ca` for `name`, shows `identity` (certificate and key), and offers one version
    /// alone if it is told to. Tickets are kept, so that its second connection resumes.
    ///
    /// # Errors
    /// A file cannot be used, or the version is none.
    pub fn new(
        ca: &Path,
        identity: Option<(&Path, &Path)>,
        name: &str,
        version: Option<&str>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let versions = match version {
            None => vec![&version::TLS12, &version::TLS13],
            Some("1.2") => vec![&version::TLS12],
            Some("1.3") => vec![&version::TLS13],
            Some(other) => return Err(format!("TLS {other}").into()),
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca)?)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions)?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_file(cert)?];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key)?)?
            }
        };
        Ok(Self {
            config: Arc::new(config),
            name: ServerName::try_from(name.to_owned())?,
        })
    }

    /// A connection without a socket.
    ///
    /// # Panics
    /// The settings contradict each other.
    pub fn connection(&self) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).expect("a client's settings")
    }

    /// A connection over `socket`; the handshake follows with the first bytes.
    pub fn over(&self, socket: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        StreamOwned::new(self.connection(), socket)
    }
}
