//! Mutated queries against the running server: it goes on answering, its memory stays, its counters add up.
//!
//! `LONG=1` sends ten million.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nodens_tests::ask::question;
use nodens_tests::authority;
use nodens_tests::mutation::Mutator;
use nodens_tests::nodens::Nodens;
use nodens_tests::tls::TlsClient;
use rustls::{ClientConnection, StreamOwned};

/// Messages between two valid queries, and of one connection.
const BURST: usize = 64;
/// Bytes that the process may grow by after its first part of the messages.
const GROWTH_MAX: u64 = 4 << 20;
/// For an answer; more is a hang.
const PATIENCE: Duration = Duration::from_secs(5);

const COREFILE: &str = "\
.:{PORT} tls://.:{PORT2} {
    tls {CERT} {KEY}
    bind 127.0.0.1
    prometheus 127.0.0.1:{METRICS}
    loadbalance
    hosts {
        192.0.2.7 printer.cedar.example
        192.0.2.8 printer.cedar.example
        2001:db8::7 printer.cedar.example
        fallthrough
    }
    file {ZONE} cedar.example
    etcd oak.example {
        endpoint http://127.0.0.1:1
    }
    whoami
}
";

const ZONE: &str = "\
@ 300 IN SOA ns1 hostmaster 1 7200 1800 86400 300
@ NS ns1
@ MX 10 mail
ns1 A 192.0.2.1
mail A 192.0.2.2
www A 192.0.2.3
www AAAA 2001:db8::3
*.any TXT \"any\"
alias CNAME www
_dns._udp SRV 0 5 53 ns1
away DNAME other.example.
below NS ns1.below
ns1.below A 192.0.2.4
";

const QUESTIONS: [&str; 16] = [
    "www.cedar.example A",
    "www.cedar.example AAAA",
    "alias.cedar.example A",
    "cedar.example SOA",
    "cedar.example NS",
    "cedar.example MX",
    "x.any.cedar.example TXT",
    "_dns._udp.cedar.example SRV",
    "x.away.cedar.example A",
    "www.below.cedar.example A",
    "missing.cedar.example A",
    "printer.cedar.example A",
    "7.2.0.192.in-addr.arpa PTR",
    "web.oak.example SRV",
    "cedar.example AXFR",
    "whoever.example A",
];

/// A valid query, whose answer holds this address.
fn valid() -> Vec<u8> {
    question("www.cedar.example A").unwrap().to_vec().unwrap()
}

fn is_answer(reply: &[u8]) -> bool {
    reply.windows(4).any(|bytes| bytes == [192, 0, 2, 3])
}

/// A connection of which one side can be ended.
trait Stream: Read + Write {
    fn end_writing(&mut self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn end_writing(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn end_writing(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.end_writing()
    }
}

struct Attacked {
    server: Nodens,
    client: TlsClient,
    mutator: Mutator,
    // Of the first part of the messages.
    resident: Option<u64>,
}

impl Attacked {
    fn new(io: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let zone = folder.path().join("zone");
        std::fs::write(&zone, ZONE).unwrap();
        let files = authority::make(folder.path()).unwrap();
        let [cert, key] = ["SERVERCERT", "SERVERKEY"].map(|name| files[name].to_str().unwrap());
        let corefile = COREFILE.replace("{ZONE}", zone.to_str().unwrap());
        let corefile = corefile.replace("{CERT}", cert).replace("{KEY}", key);
        Self {
            server: Nodens::start_with(&corefile, &["--workers", "1", "--io", io]),
            client: TlsClient::new(&files["CA"], None, "localhost", None).unwrap(),
            mutator: Mutator::new(&QUESTIONS, 1),
            resident: None,
        }
    }

    fn metric(&self, name: &str) -> u64 {
        self.server.metric(name) as u64
    }

    /// Memory after a part of the messages, and no more of it after the others.
    fn look_at_memory(&mut self) {
        let resident = self.server.process().resident().expect("it runs");
        let first = *self.resident.get_or_insert(resident);
        assert!(resident < first + GROWTH_MAX, "grew from {first} to {resident} bytes");
    }

    fn datagrams(&mut self, messages: usize) {
        let address = self.server.address("PORT");
        let [hostile, honest] = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(address).unwrap();
            socket
        });
        hostile.set_nonblocking(true).unwrap();
        honest.set_read_timeout(Some(PATIENCE)).unwrap();
        let query = valid();
        let mut room = [0; 65_536];
        let bursts = messages.div_ceil(BURST);
        let mut replies = 0;
        for burst in 0..bursts {
            for _ in 0..BURST {
                hostile.send(&self.mutator.message()).unwrap();
            }
            honest.send(&query).unwrap();
            let len = honest.recv(&mut room).expect("a valid query in between is answered");
            assert!(is_answer(&room[..len]), "{:?}", &room[..len]);
            // The server has one worker, so that what came first has been answered.
            while hostile.recv(&mut room).is_ok() {
                replies += 1;
            }
            if burst == bursts / 5 || burst + 1 == bursts {
                self.look_at_memory();
            }
        }
        let bursts = bursts as u64;
        let sent = bursts * (BURST as u64 + 1);
        let [came, replied, ignored, refused] = [
            "nodens_udp_datagrams_total",
            "nodens_udp_replies_total",
            "nodens_messages_ignored_total",
            "nodens_messages_refused_total",
        ]
        .map(|name| self.metric(name));
        let unsent = self.metric("nodens_udp_send_errors_total") + self.metric("nodens_effects_dropped_total");
        assert_eq!(sent, came + self.metric("nodens_kernel_drops_total"));
        assert_eq!(came, replied + ignored + unsent);
        assert_eq!(replied, replies + bursts, "what the server sent has come");
        assert!(ignored > 0 && refused > 0 && refused < replied);
        println!("UDP: {sent} sent, {replied} replies, {refused} of them refusals, {ignored} ignored, {unsent} unsent");
    }

    fn tcp(&mut self, messages: usize) {
        self.streams("TCP", "PORT", messages, |socket| socket);
    }

    fn tls(&mut self, messages: usize) {
        let client = self.client.clone();
        self.streams("TLS", "PORT2", messages, |socket| client.over(socket));
    }

    fn streams<S: Stream>(&mut self, name: &str, port: &str, messages: usize, over: impl Fn(TcpStream) -> S) {
        let address = self.server.address(port);
        let before = self.metric("nodens_stream_accepts_total");
        let query = valid();
        let first = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        let connections = messages.div_ceil(BURST);
        let mut read_whole = 0;
        for connection in 0..connections {
            let begun = Instant::now();
            let socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut stream = over(socket);
            let mut bytes = first.clone();
            for _ in 0..BURST {
                bytes.extend(self.mutator.frame());
            }
            // The server may close before it has read all.
            let written = stream.write_all(&bytes).and_then(|()| stream.end_writing());
            let mut replies = Vec::new();
            match stream.read_to_end(&mut replies) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("connection {connection} hangs"),
                Err(_) => {}
                Ok(_) => {
                    let len = usize::from(u16::from_be_bytes([replies[0], replies[1]]));
                    assert!(is_answer(&replies[..2 + len]), "{written:?}: {replies:?}");
                    read_whole += 1;
                }
            }
            assert!(begun.elapsed() < PATIENCE, "connection {connection} hangs");
            if connection == connections / 5 || connection + 1 == connections {
                self.look_at_memory();
            }
        }
        let accepted = self.metric("nodens_stream_accepts_total") - before;
        assert_eq!(accepted, connections as u64);
        assert!(read_whole > 0);
        let messages = accepted * BURST as u64;
        println!("{name}: {messages} messages on {accepted} connections, {read_whole} of them read to their end");
    }

    fn end(mut self) {
        assert_eq!(self.metric("nodens_panics_total"), 0);
        assert!(
            self.server.process().status().is_none(),
            "{}",
            self.server.process().log_end()
        );
        assert_eq!(self.server.ask("www.cedar.example A").values(), ["192.0.2.3"]);
    }
}

#[test]
fn mutated_queries_do_no_harm() {
    let (datagrams, framed, encrypted) = if std::env::var_os("LONG").is_some() {
        (8_000_000, 1_500_000, 500_000)
    } else {
        (40_000, 8_000, 2_000)
    };
    for io in ["auto", "mmsg"] {
        let mut attacked = Attacked::new(io);
        attacked.datagrams(datagrams / 2);
        attacked.tcp(framed / 2);
        attacked.tls(encrypted / 2);
        attacked.end();
    }
}
