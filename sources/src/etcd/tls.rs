//! The files of the `tls` option, read and checked when the configuration is.

use std::io;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;

/// Certificates in PEM.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tls {
    /// The certificate and the key that we show.
    pub cert_and_key: Option<(Vec<u8>, Vec<u8>)>,
    /// Who may have signed the server's certificate; `None`: whom the system trusts.
    pub ca: Option<Vec<u8>>,
}

/// Why the files are of no use.
#[derive(Debug, Error)]
pub enum TlsError {
    /// More than three files.
    #[error("maximum of three arguments allowed for TLS config, found {0}")]
    TooMany(usize),
    /// A file of certificates that we trust cannot be read.
    #[error("error reading {}: {error}", file.display())]
    Unreadable {
        /// As given.
        file: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It holds no certificate.
    #[error("could not read root certs: no certificate in {}", file.display())]
    NoRoots {
        /// As given.
        file: PathBuf,
    },
    /// Our certificate or its key is missing, is none, or the two do not belong together.
    #[error("could not load TLS cert: {}: {reason}", file.display())]
    BadCert {
        /// As given.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Tls {
    /// `files` are none; a CA; a certificate and its key; or a certificate, its key and a CA.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be read or does not hold what it should.
    pub fn load(files: &[PathBuf], read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Self, TlsError> {
        let (cert_and_key, ca) = match files {
            [] => (None, None),
            [ca] => (None, Some(ca)),
            [cert, key] => (Some((cert, key)), None),
            [cert, key, ca] => (Some((cert, key)), Some(ca)),
            more => return Err(TlsError::TooMany(more.len())),
        };
        let cert_and_key = cert_and_key
            .map(|(cert, key)| load_pair(cert, key, &read))
            .transpose()?;
        let ca = ca.map(|file| load_roots(file, &read)).transpose()?;
        Ok(Self { cert_and_key, ca })
    }
}

fn load_roots(file: &Path, read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Vec<u8>, TlsError> {
    let pem = read(file).map_err(|error| TlsError::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    let mut roots = RootCertStore::empty();
    // Parts that are no certificates do not matter as long as one is.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
    if roots.is_empty() {
        return Err(TlsError::NoRoots { file: file.to_owned() });
    }
    Ok(pem)
}

fn load_pair(
    cert: &Path,
    key: &Path,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<(Vec<u8>, Vec<u8>), TlsError> {
    let bad = |file: &Path, reason: String| TlsError::BadCert {
        file: file.to_owned(),
        reason,
    };
    let cert_pem = read(cert).map_err(|error| bad(cert, error.to_string()))?;
    let key_pem = read(key).map_err(|error| bad(key, error.to_string()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&cert_pem).collect();
    let chain = chain.map_err(|error| bad(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(bad(cert, "no certificate in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|error| bad(key, error.to_string()))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, private, &provider).map_err(|error| bad(cert, error.to_string()))?;
    Ok((cert_pem, key_pem))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn load(files: &[&str], disk: &HashMap<PathBuf, Vec<u8>>) -> Result<Tls, String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let read = |path: &Path| disk.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into());
        Tls::load(&files, read).map_err(|error| error.to_string())
    }

    fn disk() -> HashMap<PathBuf, Vec<u8>> {
        let one = rcgen::generate_simple_self_signed(["one.test".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["other.test".to_owned()]).unwrap();
        [
            ("cert.pem", one.cert.pem()),
            ("key.pem", one.signing_key.serialize_pem()),
            ("other.pem", other.signing_key.serialize_pem()),
            ("ca.pem", other.cert.pem()),
            ("junk.pem", "junk".to_owned()),
        ]
        .map(|(name, text)| (PathBuf::from(name), text.into_bytes()))
        .into()
    }

    #[test]
    fn forms_by_number_of_files() {
        let disk = disk();
        let shape = |files: &[&str]| load(files, &disk).map(|tls| (tls.cert_and_key.is_some(), tls.ca.is_some()));
        assert_eq!(shape(&[]), Ok((false, false)));
        assert_eq!(shape(&["ca.pem"]), Ok((false, true)));
        assert_eq!(shape(&["cert.pem", "key.pem"]), Ok((true, false)));
        assert_eq!(shape(&["cert.pem", "key.pem", "ca.pem"]), Ok((true, true)));
    }

    #[test]
    fn errors_name_the_file() {
        let disk = disk();
        let error = |files: &[&str]| load(files, &disk).err().unwrap();
        assert_eq!(
            error(&["a", "b", "c", "d"]),
            "maximum of three arguments allowed for TLS config, found 4"
        );
        assert!(error(&["no.pem"]).starts_with("error reading no.pem: "));
        assert_eq!(
            error(&["junk.pem"]),
            "could not read root certs: no certificate in junk.pem"
        );
        assert!(error(&["no.pem", "key.pem"]).starts_with("could not load TLS cert: no.pem: "));
        assert!(error(&["cert.pem", "no.pem"]).starts_with("could not load TLS cert: no.pem: "));
        assert!(error(&["junk.pem", "key.pem"]).starts_with("could not load TLS cert: junk.pem: "));
        assert!(error(&["cert.pem", "junk.pem"]).starts_with("could not load TLS cert: junk.pem: "));
        assert!(error(&["cert.pem", "other.pem"]).starts_with("could not load TLS cert: cert.pem: "));
    }
}
