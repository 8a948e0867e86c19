use std::collections::HashMap;

use super::*;

/// Files and variables in memory; files that kube reads by itself stand on the disk too.
#[derive(Default)]
struct Memory {
    files: HashMap<PathBuf, Vec<u8>>,
    variables: HashMap<&'static str, &'static str>,
}

impl World for Memory {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.files
            .get(file)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|&value| value.to_owned())
    }
}

impl Memory {
    fn file(mut self, name: impl Into<PathBuf>, text: &str) -> Self {
        self.files.insert(name.into(), text.into());
        self
    }

    fn pod(mut self, host: &'static str) -> Self {
        self.variables = HashMap::from([(HOST, host), (PORT, "443")]);
        let account = Path::new(ACCOUNT);
        self.file(account.join("token"), "t")
            .file(account.join("ca.crt"), &certificate().0)
    }

    fn config(&self, server: &Server) -> Result<(u64, Config), String> {
        let Ingredients { from, config, .. } = Found::new(self).config(server).map_err(|error| error.to_string())?;
        Ok((from, config))
    }

    fn from(&self, server: &Server) -> u64 {
        self.config(server).unwrap().0
    }
}

fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["one.test".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn endpoint(url: &str, tls: bool) -> Server {
    let tls = tls.then(|| TlsFiles {
        cert: "cert".into(),
        key: "key".into(),
        ca: "ca".into(),
    });
    let url = url.to_owned();
    Server::Endpoint { url, tls }
}

#[test]
fn in_a_pod() {
    let url = |host| {
        let (_, config) = Memory::default().pod(host).config(&Server::InCluster).unwrap();
        assert_eq!(config.root_cert.as_ref().map(Vec::len), Some(1));
        assert!(config.auth_info.token_file.is_some());
        config.cluster_url.to_string()
    };
    assert_eq!(url("10.96.0.1"), "https://10.96.0.1:443/");
    assert_eq!(url("fd00::1"), "https://[fd00::1]:443/");
}

#[test]
fn what_is_missing_in_a_pod() {
    let error = |world: &Memory| check(&Server::InCluster, world).remove(0).to_string();
    let text = "unable to load in-cluster configuration, \
                KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined";
    assert_eq!(error(&Memory::default()), text);
    let mut world = Memory::default().pod("10.96.0.1");
    let authority = Path::new(ACCOUNT).join("ca.crt");
    world.files.insert(authority.clone(), b"junk".to_vec());
    assert!(error(&world).starts_with("could not read root certs: no certificate in "));
    world.files.remove(&authority);
    assert!(error(&world).starts_with(&format!("error reading {ACCOUNT}/ca.crt: ")));
    world.variables.remove(PORT);
    assert_eq!(error(&world), text);
}

#[test]
fn by_a_url() {
    let (cert, key) = certificate();
    let world = Memory::default()
        .file("cert", &cert)
        .file("key", &key)
        .file("ca", &cert);
    let url = |url: &str, tls| {
        let found = world.config(&endpoint(url, tls));
        found.map(|(_, config)| config.cluster_url.to_string())
    };
    assert_eq!(url("https://a.test:6443", true).as_deref(), Ok("https://a.test:6443/"));
    assert_eq!(url("a.test:6443", true).as_deref(), Ok("https://a.test:6443/"));
    assert_eq!(url("a.test:8080", false).as_deref(), Ok("http://a.test:8080/"));
    assert!(
        url("ftp://a.test", false)
            .unwrap_err()
            .starts_with("invalid endpoint: ftp://a.test: ")
    );
    assert!(
        url("https://", false)
            .unwrap_err()
            .starts_with("invalid endpoint: https://: ")
    );
    let (_, config) = world.config(&endpoint("https://a.test", true)).unwrap();
    assert_eq!(config.auth_info.client_certificate.as_deref(), Some("cert"));
    assert_eq!(config.root_cert.map(|all| all.len()), Some(1));
    let (other, _) = certificate();
    let found = world.file("cert", &other).config(&endpoint("a", true));
    assert!(found.unwrap_err().starts_with("could not load TLS cert: key: "));
}

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: 'https://one.test:6443', certificate-authority: ca.pem}}
- {name: two, cluster: {server: 'https://two.test'}}
users:
- {name: me, user: {tokenFile: token}}
contexts:
- {name: first, context: {cluster: one, user: me}}
- {name: second, context: {cluster: two, user: nobody}}
current-context: first
";

#[test]
fn by_a_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (authority, _) = certificate();
    std::fs::write(path("ca.pem"), &authority).unwrap();
    let world = Memory::default()
        .file(path("config"), KUBECONFIG)
        .file(path("ca.pem"), &authority)
        .file(path("token"), "t");
    let server = |context: Option<&str>| Server::Kubeconfig {
        file: path("config"),
        context: context.map(str::to_owned),
    };
    let (_, config) = world.config(&server(None)).unwrap();
    assert_eq!(config.cluster_url.to_string(), "https://one.test:6443/");
    assert_eq!(config.root_cert.map(|all| all.len()), Some(1));
    let token = path("token").display().to_string();
    assert_eq!(config.auth_info.token_file, Some(token));
    let (_, config) = world.config(&server(Some("second"))).unwrap();
    assert_eq!(config.cluster_url.to_string(), "https://two.test/");
    let error = world.config(&server(Some("third"))).unwrap_err();
    assert!(
        error.ends_with("config: failed to load current context: third"),
        "{error}"
    );
    let mut without = Memory::default()
        .file(path("config"), KUBECONFIG)
        .file(path("ca.pem"), &authority);
    assert!(without.config(&server(None)).unwrap_err().contains("token: "));
    without = without.file(path("config"), "clusters: [");
    assert!(
        without
            .config(&server(None))
            .unwrap_err()
            .contains("failed to parse kubeconfig YAML")
    );
    without.files.clear();
    assert!(without.config(&server(None)).unwrap_err().starts_with("error reading "));
}

#[test]
fn a_file_that_changes_makes_another_client() {
    let world = Memory::default().pod("10.96.0.1");
    let before = world.from(&Server::InCluster);
    assert_eq!(before, world.from(&Server::InCluster));
    let account = Path::new(ACCOUNT);
    let rotated = world.file(account.join("token"), "another");
    let after = rotated.from(&Server::InCluster);
    assert_ne!(before, after);
    let renewed = rotated.file(account.join("ca.crt"), &certificate().0);
    assert_ne!(after, renewed.from(&Server::InCluster));
}

#[tokio::test]
async fn files_are_read_again_when_they_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let [cert, key, ca] = ["cert", "key", "ca"].map(|name| folder.path().join(name));
    let (certificate, own_key) = certificate();
    for (file, text) in [(&cert, &certificate), (&key, &own_key), (&ca, &certificate)] {
        std::fs::write(file, text).unwrap();
    }
    let link = Link {
        server: Server::Endpoint {
            url: "https://a.test".to_owned(),
            tls: Some(TlsFiles {
                cert,
                key: key.clone(),
                ca: ca.clone(),
            }),
        },
        turns: Turns::new(&Default::default()),
        status: Arc::default(),
        made: Mutex::new(None),
    };
    link.client().await.unwrap();
    let from = || async {
        link.made
            .lock()
            .await
            .as_ref()
            .map(|made| (made.from, made.files.len()))
    };
    let before = from().await.unwrap();
    assert_eq!(before.1, 3);
    // Another file with the same text is the same client, and is not read a third time.
    std::fs::write(&ca, &certificate).unwrap();
    link.client().await.unwrap();
    assert_eq!(from().await.unwrap(), before);
    let both = format!("{certificate}{}", self::certificate().0);
    std::fs::write(&ca, both).unwrap();
    link.client().await.unwrap();
    assert_ne!(from().await.unwrap().0, before.0);
    std::fs::remove_file(&key).unwrap();
    assert!(link.client().await.is_err());
}

#[test]
fn a_file_is_read_up_to_so_many_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::File::create(&file).unwrap().set_len(FILE_BYTES_MAX).unwrap();
    assert_eq!(Machine.read(&file).unwrap().len() as u64, FILE_BYTES_MAX);
    std::fs::File::create(&file)
        .unwrap()
        .set_len(FILE_BYTES_MAX + 1)
        .unwrap();
    assert!(Machine.read(&file).unwrap_err().to_string().contains("larger than"));
    assert!(
        Machine
            .read(folder.path())
            .unwrap_err()
            .to_string()
            .contains("no regular file")
    );
}

#[test]
fn the_server_sees_who_asks() {
    let (_, config) = Memory::default().config(&endpoint("http://a", false)).unwrap();
    let (name, value) = &config.headers[0];
    assert!(
        name == USER_AGENT
            && value
                .to_str()
                .unwrap()
                .starts_with(concat!("nodens-", env!("CARGO_PKG_VERSION"), " (linux/"))
    );
}
