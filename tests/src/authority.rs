//! Certificates made for one run: an authority with a server and a client, and a stranger with a client of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// File by placeholder: `CA`, `CERT`, `KEY`, `SERVERCERT`, `SERVERKEY`, `OTHERCA`, `OTHERCERT`, `OTHERKEY`.
pub type Files = BTreeMap<&'static str, PathBuf>;

/// One that signs; `NAME.pem` in its folder is its own certificate.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// A new one, in the place of one that had this name.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn new(name: &str, folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        std::fs::write(folder.join(format!("{name}.pem")), params.self_signed(&key)?.pem())?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            folder: folder.to_owned(),
        })
    }

    /// Writes `NAME.pem` and `NAME.key` for `localhost` and `127.0.0.1`, in the place of those that were there.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn holder(&self, name: &str, organization: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(organization) = organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        // The certificate last: who reads both anew when it changes finds its key.
        std::fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem())?;
        std::fs::write(
            self.folder.join(format!("{name}.pem")),
            params.signed_by(&key, &self.issuer)?.pem(),
        )?;
        Ok(())
    }
}

/// Writes the certificates and their keys into `folder`, which is made.
///
/// # Errors
/// The folder cannot be written.
pub fn make(folder: &Path) -> Result<Files, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    let ours = Authority::new("ca", folder)?;
    let other = Authority::new("otherca", folder)?;
    ours.holder("server", None)?;
    ours.holder("client", None)?;
    other.holder("stranger", None)?;
    let names = [
        ("CA", "ca.pem"),
        ("CERT", "client.pem"),
        ("KEY", "client.key"),
        ("SERVERCERT", "server.pem"),
        ("SERVERKEY", "server.key"),
        ("OTHERCA", "otherca.pem"),
        ("OTHERCERT", "stranger.pem"),
        ("OTHERKEY", "stranger.key"),
    ];
    Ok(names
        .into_iter()
        .map(|(word, name)| (word, folder.join(name)))
        .collect())
}
