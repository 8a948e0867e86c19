//! Asking by TCP and TLS: connections that are shared, end, break and idle.

use std::sync::Arc;
use std::time::Duration;

use nodens_engine::forward::{Proto, Settings, Stanza, Transport, Upstream};
use nodens_tests::authority::{self, Files};
use nodens_tests::sim::asking::{Asking, address, settings};
use nodens_tests::sim::servers::Manner;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};

use super::{SECOND, asking, check_answered, check_failed, check_nothing_is_left, stanza};

fn tcp(settings: &mut Settings) {
    settings.force_tcp = true;
}

#[test]
fn questions_share_a_connection() {
    let (mut asking, stanza) = (asking(&[Manner::Answers]), stanza(1, tcp));
    for i in 0..20 {
        asking.ask(&stanza, &format!("n{i}.example"));
    }
    asking.pass(SECOND);
    for i in 0..20 {
        asking.ask(&stanza, &format!("m{i}.example"));
    }
    asking.pass(SECOND);
    assert!(asking.take_outcomes().values().all(|outcome| outcome.result.is_ok()));
    let asked = asking.servers.asked(address(1));
    assert_eq!((asked.opened, asked.stream), (1, 40));
    assert_eq!(stanza.settings().upstreams[0].measures.sockets(Proto::Tcp), (39, 1));
    check_nothing_is_left(&mut asking, &stanza);
}

#[test]
fn many_questions_share_a_few() {
    let (mut asking, stanza) = (asking(&[Manner::Slow(SECOND)]), stanza(1, tcp));
    for i in 0..1000 {
        asking.ask(&stanza, &format!("n{i}.example"));
    }
    asking.pass(2 * SECOND);
    assert!(asking.take_outcomes().values().all(|outcome| outcome.result.is_ok()));
    assert_eq!(asking.servers.asked(address(1)).opened, 4);
    check_nothing_is_left(&mut asking, &stanza);
}

/// The upstream closes after each reply, or what it had open: nobody notices.
#[test]
fn connections_that_end_cost_nothing() {
    for replies in [1, 3] {
        let (mut asking, stanza) = (asking(&[Manner::Closing(replies)]), stanza(1, tcp));
        for i in 0..20 {
            asking.ask(&stanza, &format!("n{i}.example"));
        }
        asking.pass(SECOND / 2);
        let outcomes = asking.take_outcomes();
        assert_eq!(outcomes.len(), 20, "{replies}");
        assert!(outcomes.values().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
        check_nothing_is_left(&mut asking, &stanza);
    }
    // One that ends while it is idle is not used, and one that ends with a question in flight is left.
    let (mut asking, stanza) = (asking(&[Manner::Answers]), stanza(1, tcp));
    asking.outcome(&stanza, "a.example");
    asking.servers.end_streams(address(1));
    let ticket = asking.ask(&stanza, "b.example");
    check_answered(&asking.until(ticket), 1, Duration::ZERO);
    assert_eq!(stanza.settings().upstreams[0].measures.healthcheck_failures(), 0);
    assert_eq!(asking.servers.asked(address(1)).probes, 0);
    assert_eq!(asking.servers.asked(address(1)).opened, 2);
}

#[test]
fn connections_that_break() {
    let (mut asking, stanza) = (asking(&[Manner::Resetting]), stanza(1, tcp));
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(
        &outcome,
        "read tcp ->192.0.2.1:53: read: connection reset by peer",
        Duration::ZERO,
    );
    assert_eq!(outcome.result.unwrap_err().ede(), Some(23));
    let (mut asking, stanza) = (self::asking(&[Manner::Closing(0)]), self::stanza(1, tcp));
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(&outcome, "read tcp ->192.0.2.1:53: EOF", Duration::ZERO);
    let (mut asking, stanza) = (
        self::asking(&[Manner::Closing(0), Manner::Answers]),
        self::stanza(2, tcp),
    );
    check_answered(&asking.outcome(&stanza, "a.example"), 2, Duration::ZERO);
}

#[test]
fn connections_have_their_time() {
    let (mut asking, stanza) = (asking(&[Manner::Silent]), stanza(1, tcp));
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(&outcome, "read tcp ->192.0.2.1:53: i/o timeout", 4 * SECOND);
    // Nobody is there: two attempts of two seconds, the third ends with the budget.
    let (mut asking, stanza) = (
        self::asking(&[Manner::Away]),
        self::stanza(1, |settings| {
            tcp(settings);
            settings.attempts_max = None;
        }),
    );
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(&outcome, "dial tcp 192.0.2.1:53: i/o timeout", 5 * SECOND);
    drop(stanza);
    asking.rest();
    assert_eq!(asking.servers.open().1, 0);
}

#[test]
fn idle_connections() {
    let opened = |change: fn(&mut Settings), pause: Duration| {
        let (mut asking, stanza) = (
            asking(&[Manner::Answers]),
            stanza(1, |settings| {
                tcp(settings);
                change(settings);
            }),
        );
        for i in 0..3 {
            asking.outcome(&stanza, &format!("n{i}.example"));
            asking.pass(pause);
        }
        asking.servers.asked(address(1)).opened
    };
    assert_eq!(opened(|_| (), 9 * SECOND), 1);
    assert_eq!(opened(|_| (), 10 * SECOND), 3);
    assert_eq!(opened(|settings| settings.expire = SECOND, SECOND), 3);
    assert_eq!(opened(|settings| settings.max_age = Some(15 * SECOND), 8 * SECOND), 2);
    assert_eq!(opened(|settings| settings.idle_max = Some(0), SECOND), 3);
    assert_eq!(opened(|settings| settings.idle_max = Some(1), SECOND), 1);
}

/// Certificates of an authority for `localhost` and 127.0.0.1.
struct Certificates {
    files: Files,
    _folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            files: authority::make(folder.path()).unwrap(),
            _folder: folder,
        }
    }

    fn server(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ServerConfig> {
        let chain = vec![CertificateDer::from_pem_file(&self.files["SERVERCERT"]).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&self.files["SERVERKEY"]).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.ticketer = ring::Ticketer::new().unwrap();
        Arc::new(config)
    }

    fn client(&self, ca: &str) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.files[ca]).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS12, &version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    /// A stanza with one upstream under this name.
    fn stanza(&self, ca: &str, name: &str) -> Arc<Stanza> {
        let transport = Transport::Tls {
            config: self.client(ca),
            name: ServerName::try_from(name.to_owned()).unwrap(),
        };
        let mut settings = settings(1);
        settings.upstreams = [Arc::new(Upstream::new(address(1), transport))].into();
        Arc::new(Stanza::new(settings))
    }

    fn asking(&self, manner: Manner, versions: &[&'static rustls::SupportedProtocolVersion]) -> Asking {
        let mut asking = asking(&[manner]);
        asking.servers.use_tls(address(1), self.server(versions));
        asking
    }
}

#[test]
fn over_tls() {
    let certificates = Certificates::new();
    for versions in [[&version::TLS13], [&version::TLS12]] {
        for manner in [Manner::Answers, Manner::Lying, Manner::Closing(2), Manner::Closing(1)] {
            for name in ["localhost", "127.0.0.1"] {
                let (mut asking, stanza) = (certificates.asking(manner, &versions), certificates.stanza("CA", name));
                for round in 0..3 {
                    for i in 0..10 {
                        asking.ask(&stanza, &format!("r{round}-n{i}.example"));
                    }
                    asking.pass(SECOND / 4);
                }
                let outcomes = asking.take_outcomes();
                assert_eq!(outcomes.len(), 30);
                assert!(outcomes.values().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
                let asked = asking.servers.asked(address(1));
                assert_eq!(asked.udp, 0);
                assert!(asked.opened == 1 || matches!(manner, Manner::Closing(_)));
                let (reused, opened) = stanza.settings().upstreams[0].measures.sockets(Proto::TcpTls);
                assert_eq!(opened as usize, asked.opened);
                assert!(reused > 0 || opened >= 30);
                check_nothing_is_left(&mut asking, &stanza);
            }
        }
    }
}

#[test]
fn names_are_verified() {
    let certificates = Certificates::new();
    for (ca, name) in [
        ("CA", "elsewhere.example"),
        ("CA", "192.0.2.1"),
        ("OTHERCA", "localhost"),
    ] {
        let (mut asking, stanza) = (
            certificates.asking(Manner::Answers, &[&version::TLS13]),
            certificates.stanza(ca, name),
        );
        let outcome = asking.outcome(&stanza, "a.example");
        let error = outcome.result.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("dial tcp 192.0.2.1:53: tls: invalid peer certificate"),
            "{error}"
        );
        assert_eq!(error.ede(), Some(23));
        assert_eq!(
            asking.servers.asked(address(1)).stream,
            0,
            "nothing is told to a stranger"
        );
    }
}

#[test]
fn handshakes_have_their_time() {
    let certificates = Certificates::new();
    let (mut asking, stanza) = (
        certificates.asking(Manner::Silent, &[&version::TLS13]),
        certificates.stanza("CA", "localhost"),
    );
    let outcome = asking.outcome(&stanza, "a.example");
    check_failed(&outcome, "dial tcp 192.0.2.1:53: i/o timeout", 4 * SECOND);
    // It is probed by TLS, too.
    asking.servers.set(address(1), Manner::Answers);
    asking.pass(4 * SECOND);
    check_answered(&asking.outcome(&stanza, "b.example"), 1, Duration::ZERO);
    assert_eq!(asking.servers.asked(address(1)).probes, 1);
    check_nothing_is_left(&mut asking, &stanza);
}

#[test]
fn no_tls_is_no_upstream() {
    let certificates = Certificates::new();
    let mut asking = asking(&[Manner::Answers]);
    let stanza = certificates.stanza("CA", "localhost");
    let outcome = asking.outcome(&stanza, "a.example");
    // What a handshake says is no question: the server waits for the rest of it.
    assert!(outcome.result.is_err());
    drop(stanza);
    asking.rest();
    assert_eq!(asking.servers.open().1, 0);
}
