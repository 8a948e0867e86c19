//! A real API server over an etcd of its own: no controllers, no nodes, nothing in it but what tests write.
//!
//! ```text
//! binaries  where its programs are          client  requests, and objects as JSON
//! http      messages of HTTP/1.1            turn    the one server that tests take turns on
//! faults    a proxy in front of it that does what a real one cannot be made to do
//! ```

pub mod binaries;
pub mod client;
pub mod faults;
pub mod http;
pub mod turn;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use binaries::Binaries;
use client::Client;

use crate::authority::Authority;
use crate::etcd::Etcd;
use crate::process::Process;
use crate::world::free_port;

/// How long a start may take, on a machine that is busy with other things.
const START_WITHIN: Duration = Duration::from_secs(120);
/// How long the server may take to notice a new certificate.
const RENEWED_WITHIN: Duration = Duration::from_secs(70);
/// Dual stack, as in the cases.
const SERVICE_ADDRESSES: &str = "10.96.0.0/16,fd00:10:96::/112";
/// Whoever is in it may do everything, whatever roles there are.
const MASTERS: &str = "system:masters";
const TOKEN: &str = "tests-token";
/// Not deleted when a cluster is emptied.
const BUILT_IN: [&str; 2] = ["/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"];

/// An API server and what belongs to it.
pub struct Cluster {
    binaries: Binaries,
    folder: TempDir,
    port: u16,
    authority: Authority,
    client: Client,
    /// Paths of what was applied, in that order.
    applied: Vec<String>,
    process: Option<Process>,
    etcd: Etcd,
}

impl Cluster {
    /// Starts one on free ports, and waits until it is ready.
    ///
    /// # Errors
    /// A program is missing or does not start.
    pub fn start() -> Result<Self, String> {
        let binaries = Binaries::find()?;
        let etcd = Etcd::start()?;
        let folder = tempfile::Builder::new()
            .prefix("cluster-")
            .tempdir()
            .map_err(|e| e.to_string())?;
        let port = free_port();
        let authority = write_files(folder.path(), port).map_err(|e| e.to_string())?;
        let client = Client::new(port, &folder.path().join("ca.pem"), Some(TOKEN), None).map_err(|e| e.to_string())?;
        let mut cluster = Self {
            binaries,
            folder,
            port,
            authority,
            client,
            applied: Vec::new(),
            process: None,
            etcd,
        };
        cluster.launch()?;
        Ok(cluster)
    }

    /// Starts the server over the data that is there, after [`Cluster::stop`] or [`Cluster::kill`]; does nothing while it runs.
    ///
    /// # Errors
    /// It is not ready in time.
    pub fn launch(&mut self) -> Result<(), String> {
        if self.runs() {
            return Ok(());
        }
        let port = self.port.to_string();
        let file = |name: &str| self.file(name).display().to_string();
        let mut command = Command::new(&self.binaries.apiserver);
        command
            .args(["--etcd-servers", &self.etcd.url(), "--secure-port", &port])
            .args(["--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"])
            .args(["--tls-cert-file", &file("server.pem")])
            .args(["--tls-private-key-file", &file("server.key")])
            .args([
                "--client-ca-file",
                &file("ca.pem"),
                "--token-auth-file",
                &file("tokens"),
            ])
            .args(["--service-account-key-file", &file("accounts.pem")])
            .args(["--service-account-signing-key-file", &file("accounts.key")])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--authorization-mode", "RBAC"])
            // Pods need no account.
            .args(["--disable-admission-plugins", "ServiceAccount"])
            .args(["--service-cluster-ip-range", SERVICE_ADDRESSES])
            // Nor does the Service of the server itself have endpoints.
            .args(["--endpoint-reconciler-type", "none"]);
        self.process = Some(Process::start(&mut command, self.file("log")).map_err(|e| e.to_string())?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let end = Instant::now() + START_WITHIN;
        loop {
            let is_ready = self.client.request("GET", "/readyz", "", "");
            let has_namespace = || self.client.get("/api/v1/namespaces/default").is_ok();
            if is_ready.is_ok_and(|(status, _)| status == 200) && has_namespace() {
                return Ok(());
            }
            if Instant::now() > end || !self.runs() {
                let log = self.process.as_ref().map(Process::log_end).unwrap_or_default();
                return Err(format!("kube-apiserver does not start: {log}"));
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.status().is_none())
    }

    /// Ends the server in order; etcd and its data stay.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop();
        }
    }

    /// Ends the server at once; etcd and its data stay.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Its port; the same after each start.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A file of its folder: `ca.pem`, who signed its certificate `server.pem` with `server.key`; `admin.pem` and `admin.key`, of a
    /// client that may do everything; `admin.kubeconfig`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The kubeconfig of somebody who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.file("admin.kubeconfig")
    }

    /// The client of somebody who may do everything.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What it keeps its objects in.
    pub fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    /// kubectl, with all rights.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.binaries.kubectl);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// Makes objects be as these documents say, lists item by item, with their status.
    ///
    /// # Errors
    /// A document is not YAML, or the server refuses it.
    pub fn apply(&mut self, documents: &str) -> Result<(), String> {
        // `y` is a fine name of a Service.
        let options = serde_saphyr::options! { strict_booleans: true };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(documents, options).map_err(|e| e.to_string())?;
        for document in &documents {
            let items = document["items"]
                .as_array()
                .map_or_else(|| std::slice::from_ref(document), Vec::as_slice);
            for item in items.iter().filter(|item| !item.is_null()) {
                let refused = |refusal| format!("{refusal}: {item}");
                let path = self.client.path_of(item).map_err(refused)?;
                if !self.applied.contains(&path) {
                    self.applied.push(path);
                }
                self.client.apply(item).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Deletes what was applied before: `KIND/NAMESPACE/NAME`, or `KIND/NAME` of what has no namespace.
    ///
    /// # Errors
    /// It was not applied, or the server refuses.
    pub fn delete(&mut self, what: &str) -> Result<(), String> {
        let words: Vec<&str> = what.split('/').collect();
        let end = match words[..] {
            [kind, name] => format!("/{}s/{name}", kind.to_ascii_lowercase()),
            [kind, namespace, name] => format!("/namespaces/{namespace}/{}s/{name}", kind.to_ascii_lowercase()),
            _ => return Err(format!("{what} is not KIND/NAME or KIND/NAMESPACE/NAME")),
        };
        let is_it = |path: &&String| path.ends_with(&end) && (words.len() == 3 || path.matches('/').count() < 6);
        let path = self.applied.iter().find(is_it);
        let path = path.ok_or_else(|| format!("{what} was not applied"))?;
        self.client.delete(path).map_err(|e| format!("{what}: {e}"))
    }

    /// Starts it if it does not run, and deletes all that was applied.
    ///
    /// # Errors
    /// The server does not start, or refuses.
    pub fn empty(&mut self) -> Result<(), String> {
        self.launch()?;
        while let Some(path) = self.applied.pop() {
            if BUILT_IN.contains(&path.as_str()) {
                continue;
            }
            if path.contains("/pods/") {
                let free = json!({ "metadata": { "finalizers": null } });
                // It may be gone.
                let _ = self.client.merge(&path, &free);
            }
            self.client.delete(&path).map_err(|e| format!("{path}: {e}"))?;
        }
        Ok(())
    }

    /// Adds the ServiceImport resource of the Multi-Cluster Services API.
    ///
    /// # Errors
    /// The server refuses, or does not serve it in time.
    pub fn add_service_imports(&mut self) -> Result<(), String> {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "serviceimports.multicluster.x-k8s.io",
                // It demands some word for groups below k8s.io.
                "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" }
            },
            "spec": {
                "group": "multicluster.x-k8s.io",
                "scope": "Namespaced",
                "names": { "plural": "serviceimports", "singular": "serviceimport", "kind": "ServiceImport" },
                "versions": [{
                    "name": "v1alpha1", "served": true, "storage": true, "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } }
                }]
            }
        });
        // Not among what was applied: it stays, so that it has to come up once.
        self.client.apply(&definition).map_err(|e| e.to_string())?;
        let end = Instant::now() + START_WITHIN;
        while let Err(error) = self.client.get("/apis/multicluster.x-k8s.io/v1alpha1/serviceimports") {
            if Instant::now() > end {
                return Err(format!("no ServiceImport resource: {error}"));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Gives the server a new certificate of the same authority, and waits until it shows it. It need not be restarted.
    ///
    /// # Errors
    /// It goes on with the old one.
    pub fn renew_certificate(&mut self) -> Result<(), String> {
        self.authority.holder("server", None).map_err(|e| e.to_string())?;
        self.wait_for_certificate()
    }

    /// Puts a new authority in the place of the old one: `ca.pem` and the server's certificate are new.
    ///
    /// # Errors
    /// It goes on with the old one.
    pub fn replace_authority(&mut self) -> Result<(), String> {
        let replace = || {
            let authority = Authority::new("ca", self.folder.path())?;
            authority.holder("server", None)?;
            authority.holder("admin", Some(MASTERS))?;
            let client = Client::new(self.port, &self.file("ca.pem"), Some(TOKEN), None)?;
            Ok::<_, Box<dyn std::error::Error>>((authority, client))
        };
        (self.authority, self.client) = replace().map_err(|e| e.to_string())?;
        self.wait_for_certificate()
    }

    fn wait_for_certificate(&self) -> Result<(), String> {
        let wanted = CertificateDer::from_pem_file(self.file("server.pem")).map_err(|e| e.to_string())?;
        let end = Instant::now() + RENEWED_WITHIN;
        loop {
            // Anew each time, since a session that is resumed shows no certificate.
            let shown = Client::new(self.port, &self.file("ca.pem"), None, None)
                .map_err(|e| e.to_string())?
                .certificate_shown();
            match shown {
                Ok(shown) if shown == wanted => return Ok(()),
                _ if Instant::now() < end => sleep(Duration::from_millis(50)),
                other => return Err(format!("no new certificate: {:?}", other.map(drop))),
            }
        }
    }
}

/// Writes a kubeconfig: where the server is, who signed its certificate, and `user`, as `{ token: WORD }`, `{ tokenFile: FILE }` or
/// `{ client-certificate: FILE, client-key: FILE }`.
///
/// # Errors
/// The file cannot be written.
pub fn write_kubeconfig(file: &Path, url: &str, ca: &Path, user: &str) -> std::io::Result<()> {
    let ca = ca.display();
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: tests
  cluster:
    server: {url}
    certificate-authority: {ca}
users:
- name: tests
  user: {user}
contexts:
- name: tests
  context: {{ cluster: tests, user: tests }}
current-context: tests
"
    );
    std::fs::write(file, text)
}

fn write_files(folder: &Path, port: u16) -> Result<Authority, Box<dyn std::error::Error>> {
    let authority = Authority::new("ca", folder)?;
    authority.holder("server", None)?;
    authority.holder("admin", Some(MASTERS))?;
    let accounts = KeyPair::generate()?;
    std::fs::write(folder.join("accounts.key"), accounts.serialize_pem())?;
    std::fs::write(folder.join("accounts.pem"), accounts.public_key_pem())?;
    std::fs::write(folder.join("tokens"), format!("{TOKEN},admin,admin,{MASTERS}\n"))?;
    let user = format!("{{ token: {TOKEN} }}");
    let url = format!("https://127.0.0.1:{port}");
    write_kubeconfig(&folder.join("admin.kubeconfig"), &url, &folder.join("ca.pem"), &user)?;
    Ok(authority)
}
