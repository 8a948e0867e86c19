//! Certificates made for one run: an authority with a server and a client, and a stranger with a client of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// File by placeholder: `CA`, `CERT`, `KEY`, `SERVERCERT`, `SERVERKEY`, `OTHERCA`, `OTHERCERT`, `OTHERKEY`.
pub type Files = BTreeMap<&'static str, PathBuf>;

/// Writes the certificates and their keys into `folder`, which is made.
///
/// # Errors
/// The folder cannot be written.
pub fn make(folder: &Path) -> Result<Files, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    let ours = authority("ca", folder)?;
    let other = authority("otherca", folder)?;
    holder("server", &ours, folder)?;
    holder("client", &ours, folder)?;
    holder("stranger", &other, folder)?;
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

fn authority(name: &str, folder: &Path) -> Result<Issuer<'static, KeyPair>, Box<dyn std::error::Error>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    std::fs::write(folder.join(format!("{name}.pem")), params.self_signed(&key)?.pem())?;
    Ok(Issuer::new(params, key))
}

fn holder(name: &str, by: &Issuer<'_, KeyPair>, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    std::fs::write(folder.join(format!("{name}.pem")), params.signed_by(&key, by)?.pem())?;
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    Ok(())
}
