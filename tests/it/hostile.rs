//! The binary among clients that mean it ill: who behaves well is answered as before, and nothing stays behind.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodens::workers::step_back;
use nodens_tests::authority;
use nodens_tests::nodens::Nodens;
use nodens_tests::process::is_release;
use nodens_tests::served::{framed, packet};
use nodens_tests::tls::TlsClient;
use socket2::{Domain, SockRef, Socket, Type};

/// With `LONG=1` ten minutes and 10,000 connections.
fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}

/// Attacks on a sink and on the server take turns so often.
const ROUNDS: u32 = 6;

/// What the answers to a client that behaves well took.
#[derive(Default)]
struct Took(Vec<Duration>);

impl Took {
    fn p99(&mut self) -> Duration {
        self.0.sort_unstable();
        self.0[self.0.len() * 99 / 100]
    }
}

fn query() -> Vec<u8> {
    packet(7, "a.cedar.example. A", None)
}

/// Asks over UDP, TCP and TLS in turn, for so long.
fn behave(plain: SocketAddr, tls: SocketAddr, client: &TlsClient, time: Duration) -> [Took; 3] {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(plain).unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let connect = |to| {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    };
    let (mut tcp, mut encrypted) = (connect(plain), client.over(connect(tls)));
    let mut took: [Took; 3] = Default::default();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let begun = Instant::now();
        udp.send(&query()).unwrap();
        assert!(udp.recv(&mut [0; 512]).unwrap() > 12);
        took[0].0.push(begun.elapsed());
        let begun = Instant::now();
        ask(&mut tcp);
        took[1].0.push(begun.elapsed());
        let begun = Instant::now();
        ask(&mut encrypted);
        took[2].0.push(begun.elapsed());
        sleep(Duration::from_millis(1));
    }
    took
}

fn ask(stream: &mut (impl Read + Write)) {
    stream.write_all(&framed(&query())).unwrap();
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    stream
        .read_exact(&mut vec![0; usize::from(u16::from_be_bytes(len))])
        .unwrap();
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(Socket::from(stream));
}

/// One attack: what it does with a connection that it is handed again and again, until it gives it up.
type Attack = fn(&mut TcpStream) -> bool;

fn says_nothing(_: &mut TcpStream) -> bool {
    true
}

fn drips(stream: &mut TcpStream) -> bool {
    // A length that never comes true.
    stream.write_all(&[0xff]).is_ok()
}

fn breaks_off(stream: &mut TcpStream) -> bool {
    let _ = stream.write_all(&framed(&query())[..9]);
    false
}

fn never_reads(stream: &mut TcpStream) -> bool {
    let large = framed(&packet(7, "many.cedar.example. A", None)).repeat(50);
    // Full is what it wants to be.
    stream.set_nonblocking(true).is_ok()
        && !matches!(stream.write(&large), Err(error) if error.kind() != std::io::ErrorKind::WouldBlock)
}

fn half_a_hello(stream: &mut TcpStream) -> bool {
    stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).is_ok()
}

fn junk(stream: &mut TcpStream) -> bool {
    let _ = stream.write_all(&[22, 3, 3, 0, 5, 77, 1, 2, 3, 4]);
    false
}

/// How much nicer the threads of others are: in life they are on other machines, and leave the cores to the server and to the
/// client whose answers are timed.
const ELSEWHERE: i32 = 15;

/// So many questions a second over UDP, whatever becomes of them.
fn load(server: SocketAddr, a_second: u32, stop: &AtomicBool) {
    step_back(ELSEWHERE);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server).unwrap();
    client.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        while f64::from(sent) < begun.elapsed().as_secs_f64() * f64::from(a_second) {
            let _ = client.send(&query());
            sent += 1;
        }
        while client.recv(&mut [0; 512]).is_ok() {}
        sleep(Duration::from_millis(1));
    }
}

/// Connections a second, so that a sink and a server are attacked alike.
const CONNECTS: u64 = 2000;

fn due(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64 * CONNECTS / 1000
}

/// Keeps so many connections of each kind, replaced as the server closes them.
fn attack(attacks: &[(Attack, SocketAddr, usize)], stop: &AtomicBool, opened: &AtomicU64) {
    step_back(ELSEWHERE);
    let mut open: Vec<Vec<TcpStream>> = attacks.iter().map(|_| Vec::new()).collect();
    let (begun, mut connects) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        for (&(act, to, count), own) in attacks.iter().zip(&mut open) {
            // A turn is for all kinds.
            let turn = connects + CONNECTS / 40;
            while own.len() < count && connects < turn && connects < due(begun) {
                let Ok(stream) = TcpStream::connect_timeout(&to, Duration::from_millis(200)) else {
                    break;
                };
                connects += 1;
                own.push(stream);
            }
            for mut stream in std::mem::take(own) {
                if act(&mut stream) && !has_ended(&stream) {
                    own.push(stream);
                } else {
                    reset(stream);
                }
            }
        }
        sleep(Duration::from_millis(20));
    }
    opened.fetch_add(connects, Ordering::Relaxed);
}

fn has_ended(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let ended = matches!(stream.peek(&mut [0]), Ok(0)) || matches!(stream.take_error(), Ok(Some(_)) | Err(_));
    let _ = stream.set_nonblocking(false);
    ended
}

/// What the attacks cost the machine whoever is attacked: takes every connection, reads nothing, and keeps the newest.
struct Sink {
    listeners: Vec<TcpListener>,
    kept: VecDeque<TcpStream>,
}

impl Sink {
    const KEPT: usize = 200;

    fn new(listeners: usize) -> Self {
        let listeners = (0..listeners).map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
            socket.listen(1024).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.into()
        });
        Self {
            listeners: listeners.collect(),
            kept: VecDeque::new(),
        }
    }

    fn address(&self, at: usize) -> SocketAddr {
        self.listeners[at].local_addr().unwrap()
    }

    fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            for listener in &self.listeners {
                while let Ok((stream, _)) = listener.accept() {
                    self.kept.push_back(stream);
                    if self.kept.len() > Self::KEPT {
                        self.kept.pop_front();
                    }
                }
            }
            sleep(Duration::from_millis(1));
        }
    }
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn hostile_connections_harm_nobody_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = authority::make(folder.path()).unwrap();
    let (cert, key) = (files["SERVERCERT"].display(), files["SERVERKEY"].display());
    // Heavy answers, as far as a build without optimization can bear.
    let addresses = if is_release() { 3000 } else { 300 };
    let many: String = (0..addresses)
        .map(|i| format!("        10.0.{}.{} many.cedar.example\n", i / 250, i % 250 + 1))
        .collect();
    let mut server = Nodens::start_with(
        &format!(
            "cedar.example:{{PORT}} tls://cedar.example:{{PORT2}} {{\n    tls {cert} {key}\n    prometheus 127.0.0.1:{{METRICS}}\n    \
             hosts none {{\n        192.0.2.1 a.cedar.example\n{many}    }}\n}}\n"
        ),
        &["--workers", "2"],
    );
    let pid = server.process().id();
    let (plain, tls) = (server.address("PORT"), server.address("PORT2"));
    let client = TlsClient::new(&files["CA"], None, "localhost", None).unwrap();
    let scale = if is_long() { 10 } else { 1 };
    let time = Duration::from_secs(if is_long() { 600 } else { 6 });

    let mut sink = Sink::new(2);
    let attacks = |plain, tls| -> [(Attack, SocketAddr, usize); 8] {
        [
            (says_nothing, plain, 500 * scale),
            (says_nothing, tls, 300 * scale),
            (drips, plain, 60 * scale),
            (drips, tls, 20 * scale),
            (breaks_off, plain, 20 * scale),
            (never_reads, plain, 20),
            (half_a_hello, tls, 60 * scale),
            (junk, tls, 20 * scale),
        ]
    };
    // The attackers share the machine with the server, so peace is the same attack on somebody else.
    let (elsewhere, here) = (attacks(sink.address(0), sink.address(1)), attacks(plain, tls));
    let (stop, opened) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    let mut took: [[Took; 3]; 2] = Default::default();
    let mut first_kb = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| load(plain, if is_release() { 20_000 } else { 1000 }, &stop));
        scope.spawn(|| sink.run(&stop));
        for round in 0..ROUNDS {
            for (at, (attacks, time)) in [(&elsewhere, time / 2), (&here, time)].into_iter().enumerate() {
                let (over, opened) = (AtomicBool::new(false), &opened[at]);
                std::thread::scope(|scope| {
                    scope.spawn(|| attack(attacks, &over, opened));
                    for (all, more) in took[at].iter_mut().zip(behave(plain, tls, &client, time / ROUNDS)) {
                        all.0.extend(more.0);
                    }
                    over.store(true, Ordering::Relaxed);
                });
            }
            // What a first wave makes the server keep is not growth.
            if round == ROUNDS / 3 {
                first_kb = resident_kb(pid);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let [mut before, mut during] = took;
    println!("{opened:?} connections to a sink and to the server");
    for ((name, before), during) in ["UDP", "TCP", "TLS"].into_iter().zip(&mut before).zip(&mut during) {
        let (calm, attacked) = (before.p99(), during.p99());
        println!(
            "{name}: p99 {calm:?} in peace ({} answers), {attacked:?} under attack ({} answers)",
            before.0.len(),
            during.0.len()
        );
        // The attackers share the machine's cores with the server, and other tests may too.
        let slack = Duration::from_millis(if is_release() { 40 } else { 1000 });
        assert!(attacked < calm * 3 / 2 + slack, "{name}");
    }
    assert!(server.metric("nodens_tls_handshakes_failed_total") > 0.0);

    // All have gone, or have had their time.
    let idle = descriptors(pid);
    let end = Instant::now() + Duration::from_secs(20);
    let mut left = idle;
    while left > 80 && Instant::now() < end {
        sleep(Duration::from_millis(200));
        left = descriptors(pid);
    }
    let last_kb = resident_kb(pid);
    println!("{idle} descriptors at the end, {left} a while later; {first_kb} KB, then {last_kb} KB");
    assert!(left <= 80, "{left} descriptors are left");
    assert!(last_kb < first_kb + 64 * 1024, "{first_kb} KB became {last_kb} KB");
    assert!(server.process().status().is_none());
}

/// Who takes a zone slowly, but all the time, gets the whole of it: `write` is for those who take nothing.
#[test]
fn a_slow_reader_gets_a_large_zone() {
    let server = Nodens::start(
        "cedar.example:{PORT} {\n    bind 127.0.0.1\n    timeouts {\n        write 1s\n    }\n    transfer {\n        to *\n    }\n    \
         file zone {\n        reload 1s\n    }\n}\n",
    );
    server.serve_large_zone(5);
    let mut stream = TcpStream::connect(server.address("PORT")).unwrap();
    SockRef::from(&stream).set_recv_buffer_size(32 << 10).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
        .write_all(&framed(&packet(1, "cedar.example. AXFR", None)))
        .unwrap();
    // What is asked behind it is answered behind it.
    stream
        .write_all(&framed(&packet(2, "ns.cedar.example. A", None)))
        .unwrap();
    let (mut taken, mut buffer) = (0, vec![0; 50 << 10]);
    let mut end = Vec::new();
    while end.get(2..4) != Some(&[0, 2]) {
        let len = stream.read(&mut buffer).unwrap();
        assert!(len > 0, "closed after {taken} bytes");
        taken += len;
        end.extend_from_slice(&buffer[..len]);
        // Messages that are whole have been seen.
        while end.len() > 2 {
            let next = 2 + usize::from(u16::from_be_bytes([end[0], end[1]]));
            if end.len() <= next {
                break;
            }
            end.drain(..next);
        }
        sleep(Duration::from_millis(50));
    }
    println!("{taken} bytes");
    assert!(taken > 7_000_000, "{taken}");
}
