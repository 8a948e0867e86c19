use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions, PutOptions, Txn, TxnOp};
use tempfile::TempDir;

/// The ports handed out, below those from which the kernel serves clients.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A running etcd; ends with the value.
pub(crate) struct Server {
    child: Option<Child>,
    folder: TempDir,
    data: PathBuf,
    pub(crate) port: u16,
    peer_port: u16,
    scheme: &'static str,
    arguments: Vec<String>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let mut server = Self::spawned(&[], "http");
        server.ready().await;
        server
    }

    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let mut server = Self::spawned(arguments, "http");
        server.ready().await;
        server
    }

    /// Serves TLS; nobody waits until it does.
    pub(crate) fn secured(arguments: &[&str]) -> Self {
        Self::spawned(arguments, "https")
    }

    fn spawned(arguments: &[&str], scheme: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self {
            child: None,
            data: folder.path().join("data"),
            folder,
            port: free_port(),
            peer_port: free_port(),
            scheme,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        };
        server.spawn();
        server
    }

    fn spawn(&mut self) {
        let client = format!("{}://127.0.0.1:{}", self.scheme, self.port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let mut command = Command::new("etcd");
        command.args(["--name", "one", "--data-dir"]).arg(&self.data);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("one={peer}"), "--log-outputs", "stderr"]);
        command.args(["--initial-cluster-token", &format!("token-{}", self.data.display())]);
        command
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().expect("etcd is installed"));
    }

    pub(crate) async fn ready(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert_eq!(ended, None, "etcd ended while it was starting");
            if let Ok(mut client) = Client::connect([self.endpoint()], None).await
                && client.status().await.is_ok_and(|status| status.leader() != 0)
            {
                return;
            }
            assert!(Instant::now() < deadline, "etcd does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.endpoint()], None).await.unwrap()
    }

    pub(crate) async fn client_as(&self, user: &str, password: &str) -> Client {
        let options = ConnectOptions::new().with_user(user, password);
        Client::connect([self.endpoint()], Some(options)).await.unwrap()
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// On the same ports and folder.
    pub(crate) async fn restart(&mut self) {
        self.spawn();
        self.ready().await;
    }

    /// On the same ports, with another cluster in an empty folder.
    pub(crate) async fn restart_empty(&mut self) {
        self.data = self.folder.path().join("other");
        self.restart().await;
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free and that this process has not handed out before: two servers that are just starting see the same ports
/// as free.
pub(crate) fn free_port() -> u16 {
    static HANDED_OUT: AtomicU16 = AtomicU16::new(0);
    loop {
        let nth = HANDED_OUT.fetch_add(1, Ordering::Relaxed);
        // Where to start differs between processes, so that two test runs at once seldom meet.
        let port = PORTS.start + (nth + (std::process::id() % 120) as u16 * 100) % PORTS.len() as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) async fn put(client: &mut Client, key: &str, value: &str) {
    client.put(key, value, None).await.unwrap();
}

pub(crate) async fn put_leased(client: &mut Client, key: &str, value: &str, lease: i64) {
    client
        .put(key, value, Some(PutOptions::new().with_lease(lease)))
        .await
        .unwrap();
}

/// In one revision.
pub(crate) async fn put_all(client: &mut Client, keys: impl IntoIterator<Item = String>, value: &str) -> i64 {
    let puts: Vec<_> = keys.into_iter().map(|key| TxnOp::put(key, value, None)).collect();
    client
        .txn(Txn::new().and_then(puts))
        .await
        .unwrap()
        .header()
        .unwrap()
        .revision()
}
