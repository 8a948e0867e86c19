//! DNS over TLS without sockets: what comes from a client's rustls, what goes back, and what open connections keep.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::Message;
use nodens_engine::io::{Effect, StreamEvent, StreamId};
use nodens_engine::stream::{FIRST_QUERY, IDLE, StreamLimits, WRITE};
use nodens_engine::tls::{SEALED_LEN_MAX, TlsSettings};
use nodens_tests::authority::{self, Files};
use nodens_tests::served::{Served, framed, packet, service, unframed, v4};
use nodens_tests::tls::TlsClient;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConnection, HandshakeKind, ServerConfig};
use tempfile::TempDir;

const ZONE: &str = "cedar.example.";
const STREAM: StreamId = StreamId(1);

/// Certificates, and a server with one.
struct Rig {
    served: Served,
    files: Files,
    settings: Arc<TlsSettings>,
    client: TlsClient,
    _folder: TempDir,
}

fn server_config(cert: &Path, key: &Path) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(cert).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    config.ticketer = rustls::crypto::ring::Ticketer::new().unwrap();
    config
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = authority::make(folder.path()).unwrap();
        let config = server_config(&files["SERVERCERT"], &files["SERVERKEY"]);
        let settings = Arc::new(TlsSettings::new(Arc::new(config)));
        // 3,000 services below `many`: 48 KB.
        let heavy = (0..3000).map(|i| service(&format!("many/x{i:04}"), v4(i)));
        let mut served = Served::services(ZONE, heavy.chain([service("web", v4(1))]));
        served.config.listeners[0].tls = Some(Arc::clone(&settings));
        let client = TlsClient::new(&files["CA"], None, "localhost", None).unwrap();
        Self {
            served,
            files,
            settings,
            client,
            _folder: folder,
        }
    }

    /// Hands over what the client has to say, in parts of so many bytes, and gives it what comes back.
    fn deliver(&mut self, stream: StreamId, client: &mut ClientConnection, part: usize) -> Came {
        let (mut came, mut plain) = (0, Vec::new());
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        for part in bytes.chunks(part) {
            let reply = self.served.feed(stream, part);
            came += reply.len();
            plain.extend(take(client, &reply));
        }
        Came {
            bytes: came,
            messages: unframed(&plain),
        }
    }

    /// A connection past its handshake.
    fn connect(&mut self, stream: StreamId, client: &TlsClient, part: usize) -> ClientConnection {
        self.served.open(stream);
        let mut connection = client.connection();
        while connection.is_handshaking() {
            self.deliver(stream, &mut connection, part);
        }
        // Its last word, and the tickets that come for it.
        self.deliver(stream, &mut connection, part);
        connection
    }

    fn handshakes(&self) -> (u64, u64) {
        let stats = &self.served.stats;
        (stats.tls_handshakes.get(), stats.tls_handshakes_failed.get())
    }

    fn has_closed(&mut self, stream: StreamId) -> bool {
        let effects = self.served.effects();
        effects
            .last()
            .is_some_and(|(effect, _)| *effect == Effect::CloseStream { stream })
    }
}

/// What came back: bytes, and the messages in them.
struct Came {
    bytes: usize,
    messages: Vec<Vec<u8>>,
}

/// Gives bytes to the client; returns what they held.
fn take(client: &mut ClientConnection, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = Cursor::new(bytes);
    let mut plain = Vec::new();
    while bytes.position() < bytes.get_ref().len() as u64 {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
        // An error says only that nothing more is there.
        let _ = client.reader().read_to_end(&mut plain);
    }
    plain
}

fn query(id: u16) -> Vec<u8> {
    framed(&packet(id, "web.cedar.example. A", None))
}

#[test]
fn questions_are_answered_however_the_bytes_are_cut() {
    for version in ["1.2", "1.3"] {
        for part in [1, 7, 1000, usize::MAX] {
            let mut rig = Rig::new();
            let client = TlsClient::new(&rig.files["CA"], None, "localhost", Some(version)).unwrap();
            let mut connection = rig.connect(STREAM, &client, part);
            for id in 0..3 {
                connection.writer().write_all(&query(id)).unwrap();
                let replies = rig.deliver(STREAM, &mut connection, part).messages;
                assert_eq!(replies.len(), 1, "{version} in parts of {part}");
                let reply = Message::from_vec(&replies[0]).unwrap();
                assert_eq!((reply.metadata.id, reply.answers.len()), (id, 1));
            }
            assert_eq!(rig.handshakes(), (1, 0));
            assert!(rig.served.effects().is_empty());
        }
    }
}

#[test]
fn what_comes_together_leaves_in_one_record() {
    let mut rig = Rig::new();
    let client = rig.client.clone();
    let mut connection = rig.connect(STREAM, &client, usize::MAX);
    for id in 0..100 {
        connection.writer().write_all(&query(id)).unwrap();
    }
    let Came { bytes, messages } = rig.deliver(STREAM, &mut connection, usize::MAX);
    assert!(
        messages
            .iter()
            .map(|reply| u16::from_be_bytes([reply[0], reply[1]]))
            .eq(0..100)
    );
    let plain: usize = messages.iter().map(|reply| 2 + reply.len()).sum();
    // RFC 8446 §5.2: a header, the type, the tag.
    assert_eq!(bytes, plain + 5 + 1 + 16);
}

#[test]
fn a_long_answer_takes_several_records() {
    let mut rig = Rig::new();
    let client = rig.client.clone();
    let mut connection = rig.connect(STREAM, &client, usize::MAX);
    let query = framed(&packet(1, "many.cedar.example. A", None));
    connection.writer().write_all(&query).unwrap();
    let replies = rig.deliver(STREAM, &mut connection, usize::MAX).messages;
    assert_eq!(Message::from_vec(&replies[0]).unwrap().answers.len(), 3000);
}

/// The options of the reply to a query with this option, by code and length of its value.
fn options(reply: &[u8]) -> Vec<(u16, usize)> {
    let reply = nodens_wire::Message::parse(reply).unwrap();
    let opt = reply.opt().unwrap();
    opt.options().map(|(code, value)| (code, value.len())).collect()
}

fn with_option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut query = packet(1, "web.cedar.example. A", Some(1232));
    let len = query.len();
    // The OPT is last, and the length of its data last in it.
    query[len - 2..].copy_from_slice(&(4 + value.len() as u16).to_be_bytes());
    query.extend_from_slice(&code.to_be_bytes());
    query.extend_from_slice(&(value.len() as u16).to_be_bytes());
    query.extend_from_slice(value);
    query
}

#[test]
fn padding_fills_blocks_under_tls_alone() {
    let asked = with_option(12, &[0; 20]);
    let mut rig = Rig::new();
    let client = rig.client.clone();
    let mut connection = rig.connect(STREAM, &client, usize::MAX);
    connection.writer().write_all(&framed(&asked)).unwrap();
    let reply = rig.deliver(STREAM, &mut connection, usize::MAX).messages.remove(0);
    assert_eq!(reply.len(), 468);
    assert!(matches!(options(&reply)[..], [(12, 1..)]), "{:?}", options(&reply));
    // No padding is asked for, and none comes.
    connection
        .writer()
        .write_all(&framed(&packet(1, "web.cedar.example. A", Some(1232))))
        .unwrap();
    let reply = rig.deliver(STREAM, &mut connection, usize::MAX).messages.remove(0);
    assert_eq!(options(&reply), []);

    rig.served.config.listeners[0].tls = None;
    rig.served.open(StreamId(2));
    let reply = unframed(&rig.served.feed(StreamId(2), &framed(&asked))).remove(0);
    assert_eq!(options(&reply), []);
    assert_eq!(options(&rig.served.exchange(&asked, 1232)), []);
}

#[test]
fn a_new_certificate_is_for_new_connections() {
    let mut rig = Rig::new();
    let client = rig.client.clone();
    let mut old = rig.connect(STREAM, &client, usize::MAX);
    let mut config = server_config(&rig.files["OTHERCERT"], &rig.files["OTHERKEY"]);
    rig.settings.replace(Arc::new(config.clone()));
    old.writer().write_all(&query(1)).unwrap();
    let came = rig.deliver(STREAM, &mut old, usize::MAX);
    assert_eq!(came.messages.len(), 1, "an open connection goes on");
    let stranger = TlsClient::new(&rig.files["OTHERCA"], None, "localhost", None).unwrap();
    let mut new = rig.connect(StreamId(2), &stranger, usize::MAX);
    assert_eq!(new.handshake_kind(), Some(HandshakeKind::Full));
    // Tickets come behind the handshake.
    new.writer().write_all(&query(2)).unwrap();
    let came = rig.deliver(StreamId(2), &mut new, usize::MAX);
    assert_eq!(came.messages.len(), 1);

    // A renewal that keeps the tickets keeps the sessions.
    config.max_fragment_size = Some(4096);
    rig.settings.replace(Arc::new(config));
    let again = rig.connect(StreamId(3), &stranger, usize::MAX);
    assert_eq!(again.handshake_kind(), Some(HandshakeKind::Resumed));
}

#[test]
fn a_handshake_has_its_time_and_is_counted() {
    let mut rig = Rig::new();
    // One says nothing, one half of a hello, one does not finish.
    let mut hello = Vec::new();
    rig.client.connection().write_tls(&mut hello).unwrap();
    for (stream, bytes) in [(2, 0), (3, hello.len() / 2), (4, hello.len())] {
        rig.served.open(StreamId(stream));
        rig.served.feed(StreamId(stream), &hello[..bytes]);
    }
    rig.served.pass(FIRST_QUERY - Duration::from_nanos(1));
    assert!(rig.served.effects().is_empty());
    rig.served.pass(Duration::from_nanos(1));
    let closed = rig.served.effects();
    let count = closed
        .iter()
        .filter(|(effect, _)| matches!(effect, Effect::CloseStream { .. }))
        .count();
    assert_eq!(count, 3);
    assert_eq!(rig.handshakes(), (0, 2), "a silent connection has begun none");
    assert_eq!(rig.served.responder.poll_timeout(), None);

    // A client that goes away in the middle.
    rig.served.open(STREAM);
    rig.served.feed(STREAM, &hello);
    rig.served.event(StreamEvent::Closed {
        stream: STREAM,
        error: None,
    });
    assert_eq!(rig.handshakes(), (0, 3));
}

#[test]
fn what_is_no_tls_is_closed() {
    let mut rig = Rig::new();
    rig.served.open(STREAM);
    // It would be read as a message.
    assert!(rig.served.feed(STREAM, &query(1)).is_empty());
    assert!(rig.has_closed(STREAM));
    assert_eq!(rig.handshakes(), (0, 1));
    assert!(
        rig.served.feed(STREAM, &query(1)).is_empty(),
        "nothing is answered in the clear"
    );
}

#[test]
fn a_broken_record_is_told_and_closes() {
    let mut rig = Rig::new();
    rig.served.open(STREAM);
    let reply = rig.served.feed(STREAM, &[22, 3, 1, 0, 4, 9, 0, 0, 0]);
    // RFC 8446 §6: an alert, fatal.
    assert_eq!((reply[0], reply[5]), (21, 2));
    assert!(rig.has_closed(STREAM));
    assert_eq!(rig.handshakes(), (0, 1));

    let client = rig.client.clone();
    let mut connection = rig.connect(STREAM, &client, usize::MAX);
    connection.writer().write_all(&query(1)).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let reply = rig.served.feed(STREAM, &bytes);
    assert!(connection.read_tls(&mut Cursor::new(reply)).is_ok());
    assert!(connection.process_new_packets().is_err(), "an alert");
    assert!(rig.has_closed(STREAM));
    assert_eq!(rig.handshakes(), (1, 1));
}

#[test]
fn a_hello_without_end_is_closed() {
    let mut rig = Rig::new();
    rig.served.open(STREAM);
    // A hello of 60,000 bytes, in records of 1,000.
    let mut hello = vec![1, 0, 0xea, 0x60];
    hello.resize(60_004, 0);
    let mut fed = 0;
    for part in hello.chunks(1000) {
        let record = [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
        assert!(rig.served.feed(STREAM, &record).is_empty());
        fed += record.len();
        if fed > SEALED_LEN_MAX {
            break;
        }
        assert!(rig.served.effects().is_empty(), "{fed} bytes are kept");
    }
    assert!(rig.has_closed(STREAM));
    assert_eq!(rig.handshakes(), (0, 1));
}

#[test]
fn either_side_says_that_it_ends() {
    let mut rig = Rig::new();
    let client = rig.client.clone();
    let mut connection = rig.connect(STREAM, &client, usize::MAX);
    connection.writer().write_all(&query(1)).unwrap();
    connection.send_close_notify();
    let came = rig.deliver(STREAM, &mut connection, usize::MAX);
    assert_eq!(came.messages.len(), 1, "what was asked before the end is answered");
    assert!(rig.has_closed(STREAM));

    let mut connection = rig.connect(StreamId(2), &client, usize::MAX);
    rig.served.pass(FIRST_QUERY);
    let effects = rig.served.effects();
    let [(Effect::WriteStream { .. }, goodbye), (Effect::CloseStream { .. }, _)] = &effects[..] else {
        panic!("{effects:?}");
    };
    take(&mut connection, goodbye);
    assert_eq!(
        connection.reader().read(&mut [0]).unwrap(),
        0,
        "an end that the server has signed"
    );
}

#[test]
fn a_listener_grants_its_own_times_and_number_of_queries() {
    let limits = StreamLimits {
        first_query: Duration::from_secs(1),
        idle: Duration::from_secs(2),
        write: Duration::from_secs(7),
        queries_max: 3,
    };
    let mut rig = Rig::new();
    rig.served.config.listeners[0].tls = None;
    rig.served.config.listeners[0].streams = limits;
    let served = &mut rig.served;
    let nearly = |limit: Duration| limit - Duration::from_nanos(1);
    let close = [(Effect::CloseStream { stream: STREAM }, Vec::new())];
    served.open(STREAM);
    served.pass(nearly(limits.first_query));
    assert_eq!(unframed(&served.feed(STREAM, &query(1))).len(), 1);
    served.pass(nearly(limits.idle));
    assert!(served.effects().is_empty());
    served.pass(Duration::from_nanos(1));
    assert_eq!(served.effects(), close, "idle");

    // Keepalive tells how long it is (RFC 7828 §3.1), in tenths of a second.
    served.open(STREAM);
    let reply = unframed(&served.feed(STREAM, &framed(&with_option(11, &[])))).remove(0);
    assert!(reply.ends_with(&[0, 11, 0, 2, 0, 20]), "{reply:02x?}");
    // The last one of three, and one more behind it.
    let reply = served.feed(STREAM, &[query(2), query(3), query(4)].concat());
    assert_eq!(unframed(&reply).len(), 2);
    assert_eq!(served.effects(), close, "queries");
    assert_eq!(served.responder.poll_timeout(), None);

    // Who does not take answers has his own time.
    served.open(STREAM);
    let many = framed(&packet(1, "many.cedar.example. A", None));
    served.feed(STREAM, &many.repeat(3));
    assert_eq!(
        served.effects(),
        [(
            Effect::PauseStream {
                stream: STREAM,
                paused: true
            },
            Vec::new()
        )]
    );
    served.pass(nearly(limits.write));
    assert!(served.effects().is_empty());
    served.pass(Duration::from_nanos(1));
    assert_eq!(served.effects(), close, "write");
    assert_eq!(
        (StreamLimits::default().idle, StreamLimits::default().write),
        (IDLE, WRITE)
    );
}
