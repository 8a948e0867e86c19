//! The binary over certificates that change: open connections stay, later ones get what is new, a bad pair changes nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nodens_tests::ask::Way;
use nodens_tests::authority;
use nodens_tests::nodens::Nodens;
use nodens_tests::served::{framed, packet};
use nodens_tests::tls::TlsClient;

const QUESTION: &str = "a.cedar.example. A";
/// Two looks at the files, and time to spare on a busy machine.
const RENEWED: Duration = Duration::from_secs(15);

fn ask_on(stream: &mut (impl Read + Write)) -> Vec<u8> {
    stream.write_all(&framed(&packet(7, QUESTION, None))).unwrap();
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut reply).unwrap();
    reply
}

fn until(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + RENEWED;
    while !what() {
        assert!(Instant::now() < end, "not in time");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_renewed_certificate_needs_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| authority::make(&folder.path().join(name)).unwrap());
    let own = |name: &str| folder.path().join(name);
    let place = |files: &authority::Files, cert: &str, key: &str| {
        fs::copy(&files[cert], own("cert.pem")).unwrap();
        fs::copy(&files[key], own("key.pem")).unwrap();
    };
    place(&old, "SERVERCERT", "SERVERKEY");
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| own(name).display().to_string());
    let mut server = Nodens::start(&format!(
        "tls://cedar.example:{{PORT}} {{\n    tls {cert} {key}\n    timeouts {{\n        idle 60s\n    }}\n    hosts none {{\n        192.0.2.1 a.cedar.example\n    }}\n}}\n"
    ));
    // Always a client that has no ticket, which would spare the server its certificate.
    let client = |files: &authority::Files| TlsClient::new(&files["CA"], None, "localhost", None).unwrap();
    let is_served = |server: &Nodens, files: &authority::Files| {
        server.ask_over(QUESTION, Way::Tls(&client(files))).rcode == "NOERROR"
    };
    let before = client(&old);
    let mut open = before.over(TcpStream::connect(server.address("PORT")).unwrap());
    open.sock.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(!ask_on(&mut open).is_empty() && !is_served(&server, &new));

    // A key that belongs to another certificate.
    fs::copy(&new["SERVERKEY"], own("key.pem")).unwrap();
    let warning = "plugin/tls: could not load TLS cert: ";
    until(|| server.process().log().contains(warning));
    assert!(!ask_on(&mut open).is_empty() && is_served(&server, &old));

    place(&new, "SERVERCERT", "SERVERKEY");
    until(|| is_served(&server, &new));
    assert!(!is_served(&server, &old), "the old certificate is not shown any more");
    assert!(!ask_on(&mut open).is_empty(), "an open connection goes on with it");
    assert_eq!(
        server.ask_over(QUESTION, Way::Tls(&before)).rcode,
        "NOERROR",
        "and a session can be resumed"
    );
    let log = server.process().log();
    assert_eq!(log.matches(warning).count(), 1, "{log}");
    assert!(
        log.contains("plugin/tls: Successfully reloaded the certificate"),
        "{log}"
    );
}
