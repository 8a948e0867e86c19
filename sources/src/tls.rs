//! Certificates and keys in files, read and checked when the configuration is: ours, and of those we trust.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};
use thiserror::Error;

/// Certificates in PEM.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tls {
    /// The certificate and the key that we show.
    pub cert_and_key: Option<(Vec<u8>, Vec<u8>)>,
    /// Who may have signed the other side's certificate; `None`: whom the system trusts.
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

impl TlsError {
    /// The file that is of no use; none where there are too many.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::TooMany(_) => None,
            Self::Unreadable { file, .. } | Self::NoRoots { file } | Self::BadCert { file, .. } => Some(file),
        }
    }
}

impl Tls {
    /// `files` are none; a CA; a certificate and its key; or a certificate, its key and a CA.
    ///
    /// # Errors
    ///
    /// Each file that cannot be read or does not hold what it should.
    pub fn load(files: &[PathBuf], read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Self, Vec<TlsError>> {
        let (cert_and_key, ca) = match files {
            [] => (None, None),
            [ca] => (None, Some(ca)),
            [cert, key] => (Some((cert, key)), None),
            [cert, key, ca] => (Some((cert, key)), Some(ca)),
            more => return Err(vec![TlsError::TooMany(more.len())]),
        };
        let cert_and_key = cert_and_key.map(|(cert, key)| load_pair(cert, key, &read)).transpose();
        let ca = ca.map(|file| load_roots(file, &read)).transpose();
        match (cert_and_key, ca) {
            (Ok(cert_and_key), Ok(ca)) => Ok(Self { cert_and_key, ca }),
            (pair, ca) => Err(pair.err().into_iter().flatten().chain(ca.err()).collect()),
        }
    }

    /// Our certificate with those that lead to its authority, and its key.
    pub fn certified_key(&self) -> Option<CertifiedKey> {
        let (cert, key) = self.cert_and_key.as_ref()?;
        certified_key(cert, key).ok()
    }

    /// Who may have signed the other side's certificate; `None`: whom the system trusts.
    pub fn roots(&self) -> Option<RootCertStore> {
        self.ca.as_deref().map(roots)
    }
}

/// Parts that are no certificates do not matter.
fn roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).flatten());
    roots
}

/// Which of the two files is of no use, and why.
enum BadPair {
    Cert(String),
    Key(String),
}

fn certified_key(cert: &[u8], key: &[u8]) -> Result<CertifiedKey, BadPair> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert).collect();
    let chain = chain.map_err(|error| BadPair::Cert(error.to_string()))?;
    if chain.is_empty() {
        return Err(BadPair::Cert("no certificate in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| BadPair::Key(error.to_string()))?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider()).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            BadPair::Key("it is not the key of this certificate".to_owned())
        }
        error => BadPair::Cert(error.to_string()),
    })
}

fn load_roots(file: &Path, read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Vec<u8>, TlsError> {
    let pem = read(file).map_err(|error| TlsError::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    if roots(&pem).is_empty() {
        return Err(TlsError::NoRoots { file: file.to_owned() });
    }
    Ok(pem)
}

fn load_pair(
    cert: &Path,
    key: &Path,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<(Vec<u8>, Vec<u8>), Vec<TlsError>> {
    let bad = |file: &Path, reason: String| TlsError::BadCert {
        file: file.to_owned(),
        reason,
    };
    let read = |file| read(file).map_err(|error| bad(file, error.to_string()));
    match (read(cert), read(key)) {
        (Ok(cert_pem), Ok(key_pem)) => match certified_key(&cert_pem, &key_pem) {
            Ok(_) => Ok((cert_pem, key_pem)),
            Err(BadPair::Cert(reason)) => Err(vec![bad(cert, reason)]),
            Err(BadPair::Key(reason)) => Err(vec![bad(key, reason)]),
        },
        (cert, key) => Err(cert.err().into_iter().chain(key.err()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn load(files: &[&str], disk: &HashMap<PathBuf, Vec<u8>>) -> Result<Tls, String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let read = |path: &Path| disk.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into());
        Tls::load(&files, read).map_err(|errors| {
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            errors.join("; ")
        })
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
    fn all_files_that_are_missing_are_named() {
        let error = load(&["no.pem", "none.pem", "junk.pem"], &disk()).err().unwrap();
        for text in [
            "could not load TLS cert: no.pem",
            "could not load TLS cert: none.pem",
            "no certificate in junk.pem",
        ] {
            assert!(error.contains(text), "{error}");
        }
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
        assert_eq!(
            error(&["cert.pem", "other.pem"]),
            "could not load TLS cert: other.pem: it is not the key of this certificate"
        );
    }
}
