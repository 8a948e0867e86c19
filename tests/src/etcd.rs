//! A real etcd with its own data folder and ports, and a blocking client for what tests do to it.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use etcd_client::{
    Certificate, Client, CompactionOptions, ConnectOptions, DeleteOptions, Error, Identity, Permission, PermissionType,
    PutOptions, TlsOptions, Txn, TxnOp,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::ask;
use crate::authority::{self, Files};
use crate::case::{EtcdAuth, EtcdTls};
use crate::page;
use crate::process::Process;
use crate::world::free_port;

/// Operations that one transaction may hold (etcd's `--max-txn-ops` when it is not given).
const TXN_OPS_MAX: usize = 128;

/// An etcd process with a client that may do everything.
pub struct Etcd {
    folder: TempDir,
    port: u16,
    peer_port: u16,
    tls: Option<EtcdTls>,
    files: Files,
    runtime: Runtime,
    client: Option<Client>,
    process: Option<Process>,
    user: Option<(&'static str, &'static str)>,
}

impl Etcd {
    /// Starts one on free ports, and waits until it answers.
    ///
    /// # Errors
    /// etcd is not installed or does not start.
    pub fn start() -> Result<Self, String> {
        Self::start_special(None, None)
    }

    /// Starts one with TLS, or on a port that is given.
    ///
    /// # Errors
    /// etcd is not installed or does not start.
    pub fn start_special(tls: Option<EtcdTls>, port: Option<u16>) -> Result<Self, String> {
        // In memory where there is room for it: its speed is not what is tested.
        let base = Path::new("/dev/shm");
        let folder = if base.is_dir() {
            tempfile::tempdir_in(base)
        } else {
            tempfile::tempdir()
        }
        .map_err(|e| e.to_string())?;
        let files = match tls {
            Some(_) => authority::make(folder.path()).map_err(|e| e.to_string())?,
            None => Files::new(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        let mut etcd = Self {
            folder,
            port: port.unwrap_or_else(free_port),
            peer_port: free_port(),
            tls,
            files,
            runtime,
            client: None,
            process: None,
            user: None,
        };
        etcd.launch()?;
        Ok(etcd)
    }

    /// Starts the process over the data that is there, after [`Etcd::kill`].
    ///
    /// # Errors
    /// It does not answer within 20 seconds.
    pub fn launch(&mut self) -> Result<(), String> {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args([
                "--listen-client-urls",
                &self.url(),
                "--advertise-client-urls",
                &self.url(),
            ])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")]);
        if self.tls.is_some() {
            command
                .arg("--cert-file")
                .arg(&self.files["SERVERCERT"])
                .arg("--key-file")
                .arg(&self.files["SERVERKEY"]);
        }
        if self.tls == Some(EtcdTls::Mutual) {
            command
                .arg("--client-cert-auth")
                .arg("--trusted-ca-file")
                .arg(&self.files["CA"]);
        }
        self.process = Some(Process::start(&mut command, self.folder.path().join("log")).map_err(|e| e.to_string())?);
        self.connect()
    }

    fn connect(&mut self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let tried = self.runtime.block_on(async {
                let mut client = Client::connect([self.url()], Some(self.options())).await?;
                client.get("a", None).await?;
                Ok::<_, Error>(client)
            });
            match tried {
                Ok(client) => {
                    self.client = Some(client);
                    return Ok(());
                }
                Err(error) if Instant::now() > end || self.process().status().is_some() => {
                    let log = self.process.as_ref().map(Process::log_end).unwrap_or_default();
                    return Err(format!("etcd does not start: {error}\n{log}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .with_timeout(Duration::from_secs(10))
            .with_connect_timeout(Duration::from_secs(3));
        if let Some((name, password)) = self.user {
            options = options.with_user(name, password);
        }
        if self.tls.is_some() {
            let read = |word: &str| std::fs::read(&self.files[word]).unwrap_or_default();
            let tls = TlsOptions::new()
                .ca_certificate(Certificate::from_pem(read("CA")))
                .identity(Identity::from_pem(read("CERT"), read("KEY")));
            options = options.with_tls(tls);
        }
        options
    }

    /// Whether it is unlike what [`Etcd::start`] gives: TLS, passwords.
    pub fn is_special(&self) -> bool {
        self.tls.is_some() || self.user.is_some()
    }

    /// Its URL for clients.
    pub fn url(&self) -> String {
        format!(
            "{}://127.0.0.1:{}",
            if self.tls.is_some() { "https" } else { "http" },
            self.port
        )
    }

    /// Its port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificates behind it, when it speaks TLS.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Its process.
    ///
    /// # Panics
    /// It was killed and not launched again.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("etcd runs")
    }

    /// Ends the process at once, and its data with it; [`Etcd::launch`] then makes a new cluster.
    ///
    /// # Panics
    /// The data cannot be removed.
    pub fn kill_and_forget(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.folder.path().join("data")).expect("the data goes");
    }

    /// Ends the process at once; its data stays.
    pub fn kill(&mut self) {
        self.client = None;
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    fn call<'a, T, F>(&'a mut self, what: &str, call: impl FnOnce(&'a mut Client) -> F) -> T
    where
        F: Future<Output = Result<T, Error>> + 'a,
    {
        let client = self.client.as_mut().expect("etcd runs");
        match self.runtime.block_on(call(client)) {
            Ok(reply) => reply,
            Err(error) => panic!("etcd: {what}: {error}"),
        }
    }

    /// Writes one key.
    ///
    /// # Panics
    /// etcd does not take it.
    pub fn put(&mut self, key: &str, value: &str) {
        self.call(key, |client| client.put(key, value, None));
    }

    /// Writes one key that lives as long as a lease of so many seconds; returns the lease.
    ///
    /// # Panics
    /// etcd does not take it.
    pub fn put_leased(&mut self, key: &str, value: &str, seconds: i64) -> i64 {
        let lease = self.call("a lease", |client| client.lease_grant(seconds, None)).id();
        self.call(key, |client| {
            client.put(key, value, Some(PutOptions::new().with_lease(lease)))
        });
        lease
    }

    /// Ends a lease and its keys.
    ///
    /// # Panics
    /// etcd does not know it.
    pub fn revoke(&mut self, lease: i64) {
        self.call("a lease", |client| client.lease_revoke(lease));
    }

    /// Writes many keys, in as few transactions as they fit into.
    ///
    /// # Panics
    /// etcd does not take them.
    pub fn put_many(&mut self, pairs: impl IntoIterator<Item = (String, String)>) {
        let mut pairs = pairs.into_iter().peekable();
        while pairs.peek().is_some() {
            let puts: Vec<TxnOp> = pairs
                .by_ref()
                .take(TXN_OPS_MAX)
                .map(|(k, v)| TxnOp::put(k, v, None))
                .collect();
            self.call("a transaction", |client| client.txn(Txn::new().and_then(puts)));
        }
    }

    /// Writes keys as cases have them: text, an object to be stored as JSON, or a value with a lease.
    ///
    /// # Panics
    /// etcd does not take them.
    pub fn put_values(&mut self, pairs: &BTreeMap<String, Value>, fill: impl Fn(&str) -> String) {
        for (key, value) in pairs {
            let (value, lease) = match value {
                Value::Object(fields) if fields.contains_key("value") => (
                    &fields["value"],
                    fields.get("lease").and_then(Value::as_i64).filter(|&lease| lease > 0),
                ),
                plain => (plain, None),
            };
            let text = match value {
                Value::String(text) => fill(text),
                other => other.to_string(),
            };
            match lease {
                Some(seconds) => drop(self.put_leased(key, &text, seconds)),
                None => self.put(key, &text),
            }
        }
    }

    /// Deletes one key.
    ///
    /// # Panics
    /// etcd refuses.
    pub fn delete(&mut self, key: &str) {
        self.call(key, |client| client.delete(key, None));
    }

    /// Deletes all keys.
    ///
    /// # Panics
    /// etcd refuses.
    pub fn empty(&mut self) {
        self.call("all keys", |client| {
            client.delete("", Some(DeleteOptions::new().with_all_keys()))
        });
    }

    /// Forgets all revisions before the present one.
    ///
    /// # Panics
    /// etcd refuses.
    pub fn compact(&mut self) {
        let header = self.call("a revision", |client| client.get("a", None));
        let revision = header.header().map_or(0, etcd_client::ResponseHeader::revision);
        self.call("compaction", |client| {
            client.compact(revision, Some(CompactionOptions::new().with_physical()))
        });
    }

    /// From now on root may do everything, `auth.user` may read its keys, and nobody else anything.
    ///
    /// # Panics
    /// etcd refuses.
    pub fn guard(&mut self, auth: &EtcdAuth) {
        for (name, password) in [("root", "root"), (auth.user.as_str(), auth.password.as_str())] {
            self.call("a user", |client| client.user_add(name, password, None));
            self.call("a role", |client| client.role_add(name));
            self.call("a role", |client| client.user_grant_role(name, name));
        }
        let readable = Permission::new(PermissionType::Read, auth.prefix.as_str()).with_prefix();
        self.call("a permission", |client| {
            client.role_grant_permission(auth.user.as_str(), readable)
        });
        self.call("auth", |client| client.auth_enable());
        self.user = Some(("root", "root"));
        self.connect().expect("root may log in");
    }

    /// How many messages it has had from clients, by its own count: requests, and what was sent on streams.
    ///
    /// # Panics
    /// Its metrics page does not come.
    pub fn requests(&self) -> f64 {
        let to = ([127, 0, 0, 1], self.port).into();
        let (_, text) = ask::get(to, "/metrics", Duration::from_secs(5)).expect("etcd's metrics page");
        page::total(&text, "grpc_server_msg_received_total")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // The data goes away with it, so there is nothing to end in order.
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leases_and_restart() {
        let mut etcd = Etcd::start().unwrap();
        let before = etcd.requests();
        etcd.put_many((0..300).map(|i| (format!("/k/{i}"), i.to_string())));
        let lease = etcd.put_leased("/leased", "x", 60);
        etcd.put_values(
            &BTreeMap::from([("/o".to_owned(), serde_json::json!({"host": "a"}))]),
            str::to_owned,
        );
        let count = |etcd: &mut Etcd| {
            let all = etcd_client::GetOptions::new().with_all_keys().with_count_only();
            etcd.call("a count", |client| client.get("", Some(all))).count()
        };
        assert_eq!(count(&mut etcd), 302);
        assert!(etcd.requests() >= before + 6.0);
        etcd.revoke(lease);
        etcd.delete("/o");
        etcd.compact();
        etcd.kill();
        etcd.launch().unwrap();
        assert_eq!(count(&mut etcd), 300);
        etcd.empty();
        assert_eq!(count(&mut etcd), 0);
    }

    #[test]
    fn mutual_tls_and_passwords() {
        let mut etcd = Etcd::start_special(Some(EtcdTls::Mutual), None).unwrap();
        etcd.put("/skydns/a", "x");
        drop(etcd);
        let mut etcd = Etcd::start().unwrap();
        etcd.put("/skydns/a", "x");
        etcd.guard(&EtcdAuth {
            user: "reader".into(),
            password: "plum".into(),
            prefix: "/skydns".into(),
        });
        etcd.put("/skydns/a", "y");
    }
}
