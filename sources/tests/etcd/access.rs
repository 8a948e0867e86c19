use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use etcd_client::{Client, Permission, PermissionType};
use nodens_sources::etcd::Settings;
use nodens_sources::tls::Tls;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::follower::{Follower, settings};
use crate::proxy::{Proxy, Wire};
use crate::server::{Server, put};

const VALUE: &str = r#"{"host":"192.0.2.1"}"#;
const CEDAR: &str = "/skydns/example/cedar";

/// Authentication is on; `reader` may read nothing yet.
async fn locked(arguments: &[&str]) -> (Server, Client) {
    let server = Server::start_with(arguments).await;
    let mut client = server.client().await;
    client.user_add("root", "root-secret", None).await.unwrap();
    client.role_add("root").await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.user_add("reader", "reader-secret", None).await.unwrap();
    client.role_add("reading").await.unwrap();
    client.user_grant_role("reader", "reading").await.unwrap();
    client.auth_enable().await.unwrap();
    let admin = server.client_as("root", "root-secret").await;
    (server, admin)
}

async fn grant(client: &mut Client, permission: Permission) {
    client.role_grant_permission("reading", permission).await.unwrap();
}

fn read(key: &str) -> Permission {
    Permission::new(PermissionType::Read, key)
}

fn as_reader(endpoint: &str, password: &str, zones: &[&str]) -> Settings {
    let credentials = Some(("reader".to_owned(), password.to_owned()));
    Settings {
        credentials,
        ..settings(&[endpoint], zones)
    }
}

#[tokio::test]
async fn the_right_password_lets_in() {
    let (server, mut admin) = locked(&[]).await;
    grant(&mut admin, read(CEDAR).with_prefix()).await;
    put(&mut admin, "/skydns/example/cedar/a", VALUE).await;
    let follower = Follower::start(as_reader(&server.endpoint(), "reader-secret", &["cedar.example."]));
    follower.synced().await;
    put(&mut admin, "/skydns/example/cedar/b", VALUE).await;
    follower
        .until("the change", |view| view.has("/skydns/example/cedar/b"))
        .await;
    let log = follower.view().log.join("\n");
    assert!(log.contains("as reader") && !log.contains("secret"), "{log}");
}

#[tokio::test]
async fn a_wrong_password_is_a_reason_and_never_shown() {
    let (server, mut admin) = locked(&[]).await;
    grant(&mut admin, read(CEDAR).with_prefix()).await;
    let wrong = as_reader(&server.endpoint(), "guessed-secret", &["cedar.example."]);
    assert!(!format!("{wrong:?}").contains("secret"));
    let follower = Follower::start(wrong);
    follower.until("the reason", |view| view.zones[0].lost.is_some()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let lost = follower.view().zones[0].lost.clone().unwrap();
    assert!(lost.contains("authentication failed"), "{lost}");
    let log = follower.view().log.join("\n");
    assert!(!log.contains("secret") && log.lines().count() == 1, "{log}");
    assert!(!follower.task.is_finished());
    // It is put right on the other side, and found out.
    admin.user_change_password("reader", "guessed-secret").await.unwrap();
    follower.synced().await;
}

#[tokio::test]
async fn no_password_is_a_reason_and_one_too_many_is_none() {
    let (server, mut admin) = locked(&[]).await;
    let follower = Follower::of(&server.endpoint());
    follower.until("the reason", |view| view.zones[0].lost.is_some()).await;
    let lost = follower.view().zones[0].lost.clone().unwrap();
    assert!(
        lost.contains("user name is empty") || lost.contains("permission denied"),
        "{lost}"
    );
    // Whether authentication is enabled is the server's business.
    admin.auth_disable().await.unwrap();
    follower.synced().await;
    let follower = Follower::start(as_reader(&server.endpoint(), "reader-secret", &["cedar.example."]));
    follower.synced().await;
    let empty = Settings {
        credentials: Some(("reader".to_owned(), String::new())),
        ..settings(&[&server.endpoint()], &["cedar.example."])
    };
    Follower::start(empty).synced().await;
}

#[tokio::test]
async fn logins_expire_and_are_renewed() {
    let (server, mut admin) = locked(&["--auth-token-ttl", "1"]).await;
    grant(&mut admin, read(CEDAR).with_prefix()).await;
    let proxy = Proxy::to(server.endpoint()).await;
    let mut zones = as_reader(&proxy.endpoint, "reader-secret", &["cedar.example.", "oak.example."]);
    zones.min_lease_ttl = 1;
    let follower = Follower::start(zones);
    follower
        .until("the first zone", |view| view.zones[0].synced.is_some())
        .await;
    follower.until("the reason", |view| view.zones[1].lost.is_some()).await;
    let mut admin = loop {
        // The admin's login expires too.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut admin = server.client_as("root", "root-secret").await;
        if admin
            .role_grant_permission("reading", read("/skydns/example/oak").with_prefix())
            .await
            .is_ok()
        {
            break admin;
        }
    };
    follower
        .until("the second zone", |view| view.zones[1].synced.is_some())
        .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let _ = admin.refresh_token().await;
    put(&mut admin, "/skydns/example/cedar/a", VALUE).await;
    follower
        .until("the change", |view| view.has("/skydns/example/cedar/a"))
        .await;
    proxy.set(Wire::Cut);
    follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
    proxy.set(Wire::Open);
    follower
        .until("the return", |view| view.zones.iter().all(|zone| zone.lost.is_none()))
        .await;
    assert_eq!(follower.status.resyncs(), 0);
}

#[tokio::test]
async fn a_role_may_cover_own_key_and_those_below_separately() {
    let (server, mut admin) = locked(&[]).await;
    grant(&mut admin, read(CEDAR)).await;
    grant(&mut admin, read("/skydns/example/cedar/").with_prefix()).await;
    put(&mut admin, CEDAR, VALUE).await;
    put(&mut admin, "/skydns/example/cedar/a", VALUE).await;
    let follower = Follower::start(as_reader(&server.endpoint(), "reader-secret", &["cedar.example."]));
    follower.synced().await;
    assert_eq!(follower.view().zones[0].keys.len(), 2);
    put(&mut admin, "/skydns/example/cedar/b", VALUE).await;
    put(&mut admin, CEDAR, "{}").await;
    follower
        .until("both changes", |view| {
            let keys = &view.zones[0].keys;
            keys.len() == 3 && keys[CEDAR].value.as_ref().is_ok_and(|service| service.is_empty())
        })
        .await;
}

#[tokio::test]
async fn a_zone_without_permission_does_not_hold_up_the_others() {
    let (server, mut admin) = locked(&[]).await;
    grant(&mut admin, read("/skydns/example/cedar/").with_prefix()).await;
    put(&mut admin, "/skydns/example/cedar/a", VALUE).await;
    put(&mut admin, "/skydns/example/oak/a", VALUE).await;
    let zones = ["cedar.example.", "oak.example."];
    let follower = Follower::start(as_reader(&server.endpoint(), "reader-secret", &zones));
    follower
        .until("the first zone", |view| view.zones[0].synced.is_some())
        .await;
    follower.until("the reason", |view| view.zones[1].lost.is_some()).await;
    assert!(follower.has("/skydns/example/cedar/a"));
    let lost = follower.view().zones[1].lost.clone().unwrap();
    assert_eq!(lost, "permission denied on the keys below /skydns/example/oak/");
    let log = follower.view().log.join("\n");
    assert!(log.contains("zone oak.example.: permission denied"), "{log}");
    assert!(log.contains("no permission for the zone's own key"), "{log}");
    put(&mut admin, "/skydns/example/cedar/b", VALUE).await;
    follower
        .until("the change", |view| view.has("/skydns/example/cedar/b"))
        .await;
    assert!(follower.status.connected());
    grant(&mut admin, read("/skydns/example/oak").with_prefix()).await;
    follower
        .until("the second zone", |view| view.zones[1].keys.len() == 1)
        .await;
}

/// The files of an authority, a server and a client that it signed, and of an authority that signed nothing.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn write(folder: PathBuf) -> Self {
        let files = Self { folder };
        let (ca, ca_pem) = authority();
        let (_, other_pem) = authority();
        fs::write(files.path("ca.pem"), ca_pem).unwrap();
        fs::write(files.path("other-ca.pem"), other_pem).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
            let cert = params.signed_by(&key, &ca).unwrap();
            fs::write(files.path(&format!("{name}.pem")), cert.pem()).unwrap();
            fs::write(files.path(&format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn server(&self, mutual: bool) -> Server {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let (cert, key, ca) = (path("server.pem"), path("server-key.pem"), path("ca.pem"));
        let mut arguments = vec!["--cert-file", cert.as_str(), "--key-file", &key];
        if mutual {
            arguments.extend(["--trusted-ca-file", &ca, "--client-cert-auth"]);
        }
        Server::secured(&arguments)
    }

    fn tls(&self, names: &[&str]) -> Tls {
        let files: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        Tls::load(&files, |path| fs::read(path)).unwrap()
    }
}

fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

fn secured(endpoint: &str, tls: Option<Tls>) -> Settings {
    Settings {
        tls,
        ..settings(&[endpoint], &["cedar.example."])
    }
}

#[tokio::test]
async fn tls_with_an_authority() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::write(folder.path().to_owned());
    let server = files.server(false);
    Follower::start(secured(&server.endpoint(), Some(files.tls(&["ca.pem"]))))
        .synced()
        .await;
    let by_name = format!("https://localhost:{}", server.port);
    Follower::start(secured(&by_name, Some(files.tls(&["ca.pem"]))))
        .synced()
        .await;

    let follower = Follower::start(secured(&by_name, Some(files.tls(&["other-ca.pem"]))));
    follower.until("the reason", |view| view.zones[0].lost.is_some()).await;
    let lost = follower.view().zones[0].lost.clone().unwrap();
    assert!(lost.contains("certificate"), "{lost}");

    let follower = Follower::start(secured(
        &format!("http://{}", server.endpoint()),
        Some(files.tls(&["ca.pem"])),
    ));
    follower.until("the reason", |view| view.zones[0].lost.is_some()).await;
    assert!(!follower.task.is_finished());
}

#[tokio::test]
async fn tls_with_certificate_and_authority() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::write(folder.path().to_owned());
    let server = files.server(true);
    let tls = files.tls(&["client.pem", "client-key.pem", "ca.pem"]);
    Follower::start(secured(&server.endpoint(), Some(tls))).synced().await;

    let follower = Follower::start(secured(&server.endpoint(), Some(files.tls(&["ca.pem"]))));
    follower.until("the reason", |view| view.zones[0].lost.is_some()).await;
    let lost = follower.view().zones[0].lost.clone().unwrap();
    assert!(follower.view().zones[0].synced.is_none(), "{lost}");
}

/// Which authorities the system trusts is said by the environment, so that these run as processes of their own.
#[tokio::test]
async fn tls_with_the_authorities_of_the_system() {
    const ENDPOINT: &str = "NODENS_TEST_ENDPOINT";
    const FOLDER: &str = "NODENS_TEST_FOLDER";
    const NAME: &str = "access::tls_with_the_authorities_of_the_system";
    if let (Ok(endpoint), Ok(folder)) = (std::env::var(ENDPOINT), std::env::var(FOLDER)) {
        let files = Files { folder: folder.into() };
        let certificate = Some(files.tls(&["client.pem", "client-key.pem"]));
        Follower::start(secured(&endpoint, certificate)).synced().await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = Files::write(folder.path().to_owned());
    let child = |endpoint: &str, ca: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", NAME])
            .env(ENDPOINT, endpoint)
            .env(FOLDER, folder.path());
        let output = command.env("SSL_CERT_FILE", files.path(ca)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    let mutual = files.server(true);
    child(&mutual.endpoint(), "ca.pem");
    // The same without a certificate of ours, by the scheme alone.
    const PLAIN: &str = "access::tls_by_scheme_alone";
    let server = files.server(false);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", PLAIN])
        .env(ENDPOINT, format!("https://{}", server.endpoint()));
    let output = command.env("SSL_CERT_FILE", files.path("ca.pem")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Does its work as a child of the test above.
#[tokio::test]
async fn tls_by_scheme_alone() {
    let Ok(endpoint) = std::env::var("NODENS_TEST_ENDPOINT") else {
        return;
    };
    Follower::start(secured(&endpoint, None)).synced().await;
    let tls = Tls {
        cert_and_key: None,
        ca: None,
    };
    let without_scheme = endpoint.trim_start_matches("https://");
    Follower::start(secured(without_scheme, Some(tls))).synced().await;
}
