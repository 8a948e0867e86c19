//! Reloads and take-overs under load: no query is lost, no connection reset, no answer wrong.
//!
//! `LONG=1` for 100 reloads and 20 take-overs.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use nodens_tests::load;
use nodens_tests::nodens::Nodens;
use nodens_tests::process::signal_named;
use nodens_tests::served::{framed, packet};
use nodens_tests::upstream::{Mood, Upstream};

const QUESTION: &str = "www.cedar.example. A";
/// Clients of each transport; each asks again as soon as it has its answer.
const CLIENTS: usize = 4;
/// An answer that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(3);

fn corefile(version: usize) -> String {
    format!(
        ".:{{PORT}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{METRICS}}
    hosts none {{
        192.0.2.{} www.cedar.example
        192.0.2.9 extra{version}.cedar.example
        fallthrough
    }}
    file elm.zone elm.example
}}
",
        1 + version % 2
    )
}

fn zone(version: usize) -> String {
    format!("@ 60 IN SOA ns admin {version} 2 3 4 5\nwww 60 IN A 192.0.2.7\n")
}

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    lost: AtomicU64,
    wrong: AtomicU64,
    resets: AtomicU64,
    /// Connections that the server closed in order.
    closed: AtomicU64,
}

/// Clients that ask until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn on(server: SocketAddr) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            counts: Arc::default(),
            threads: Vec::new(),
        };
        for client in [datagrams, streams].iter().cycle().take(2 * CLIENTS) {
            let (stop, counts) = (Arc::clone(&load.stop), Arc::clone(&load.counts));
            load.threads.push(thread::spawn(move || client(server, &stop, &counts)));
        }
        load
    }

    fn end(self) -> Arc<Counts> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.counts
    }
}

fn check(reply: &[u8], id: u16, counts: &Counts) {
    let is_right = reply.starts_with(&id.to_be_bytes())
        && reply[3] & 15 == 0
        && (reply.ends_with(&[192, 0, 2, 1]) || reply.ends_with(&[192, 0, 2, 2]));
    let counter = if is_right { &counts.answered } else { &counts.wrong };
    counter.fetch_add(1, Ordering::Relaxed);
}

fn datagrams(server: SocketAddr, stop: &AtomicBool, counts: &Counts) {
    let mut id = 0;
    while !stop.load(Ordering::Relaxed) {
        // Another socket every now and then, so that every worker has its share.
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..50 {
            id = u16::wrapping_add(id, 1);
            client.send(&packet(id, QUESTION, None)).unwrap();
            let mut reply = [0; 512];
            match client.recv(&mut reply) {
                Ok(len) => check(&reply[..len], id, counts),
                Err(_) => _ = counts.lost.fetch_add(1, Ordering::Relaxed),
            }
        }
    }
}

fn streams(server: SocketAddr, stop: &AtomicBool, counts: &Counts) {
    let mut id = 0;
    while !stop.load(Ordering::Relaxed) {
        let connected = TcpStream::connect(server).and_then(|mut client| {
            client.set_nodelay(true)?;
            client.set_read_timeout(Some(PATIENCE))?;
            while !stop.load(Ordering::Relaxed) {
                id = u16::wrapping_add(id, 1);
                client.write_all(&framed(&packet(id, QUESTION, None)))?;
                let mut len = [0; 2];
                client.read_exact(&mut len)?;
                let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
                client.read_exact(&mut reply)?;
                check(&reply, id, counts);
            }
            Ok(())
        });
        match connected.map_err(|error| error.kind()) {
            Ok(()) => {}
            Err(io::ErrorKind::UnexpectedEof) => _ = counts.closed.fetch_add(1, Ordering::Relaxed),
            Err(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => _ = counts.lost.fetch_add(1, Ordering::Relaxed),
            Err(_) => _ = counts.resets.fetch_add(1, Ordering::Relaxed),
        }
    }
}

fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("LONG").is_some() {
        long
    } else {
        short
    }
}

fn start(io: &str) -> Nodens {
    let server = Nodens::start_with(&corefile(0), &["-io", io]);
    server.write("none", "");
    server.write("elm.zone", &zone(0));
    server
}

fn nothing_lost(counts: &Counts) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert!(read(&counts.answered) > 1000, "{counts:?}");
    let bad = [&counts.lost, &counts.wrong, &counts.resets].map(read);
    assert_eq!(bad, [0; 3], "{counts:?}");
}

fn reloads(io: &str) {
    let mut server = start(io);
    let load = Load::on(server.address("PORT"));
    let rounds = rounds(15, 100);
    let mut resident = 0;
    for version in 1..=rounds {
        server.write("elm.zone", &zone(version));
        server.write("Corefile", &corefile(version));
        server.process().signal(signal_named("USR1").unwrap()).unwrap();
        sleep(Duration::from_millis(200));
        if version == rounds / 2 {
            resident = server.process().resident().unwrap();
        }
    }
    let counts = load.end();
    nothing_lost(&counts);
    assert_eq!(
        counts.closed.load(Ordering::Relaxed),
        0,
        "connections live on: {counts:?}"
    );
    let newest = format!("extra{rounds}.cedar.example. A");
    server.wait_for(&newest, Duration::from_secs(5), |reply| reply.values() == ["192.0.2.9"]);
    assert!(server.metric("coredns_dns_requests_total") >= counts.answered.load(Ordering::Relaxed) as f64);
    let grown = server.process().resident().unwrap() as f64 / resident as f64;
    assert!(grown < 1.1, "memory has grown by {grown}");
}

fn take_overs(io: &str) {
    let mut server = start(io);
    let load = Load::on(server.address("PORT"));
    for _ in 0..rounds(3, 20) {
        sleep(Duration::from_millis(200));
        server.take_over(&["-io", io]);
    }
    nothing_lost(&load.end());
}

#[test]
fn reloads_lose_nothing_over_a_ring() {
    reloads("auto");
}

#[test]
fn reloads_lose_nothing_over_calls() {
    reloads("mmsg");
}

#[test]
fn take_overs_lose_nothing_over_a_ring() {
    take_overs("auto");
}

#[test]
fn take_overs_lose_nothing_over_calls() {
    take_overs("mmsg");
}

/// Questions wait for an upstream that says nothing, and come to the other one when its time is over. Meanwhile something happens.
fn none_that_waits_is_lost(happens: impl FnOnce(&mut Nodens, &str)) {
    let [silent, other] = [Mood::Silent, Mood::Answers].map(|mood| {
        let upstream = Upstream::start(60);
        upstream.set_mood(mood);
        upstream
    });
    let corefile = format!(
        ".:{{PORT}} {{\n    bind 127.0.0.1\n    cache\n    forward . {} {} {{\n        policy sequential\n        read_timeout 800ms\n    }}\n}}\n",
        silent.address(),
        other.address()
    );
    let mut server = Nodens::start(&corefile);
    let address = server.address("PORT");
    let load = load::Load {
        rate: 1000,
        time: Duration::from_millis(200),
    };
    let asked = thread::scope(|scope| {
        let asked = scope.spawn(|| load.ask(address, |number| format!("n{number}.cedar.example.")));
        sleep(Duration::from_millis(400));
        happens(&mut server, &corefile);
        asked.join().unwrap()
    });
    let lost: Vec<_> = asked.iter().filter(|asked| !asked.is_answered()).collect();
    assert!(lost.is_empty(), "{} of {}: {:?}", lost.len(), asked.len(), lost[0]);
    assert!(silent.seen() > 0, "it was asked first");
}

#[test]
fn what_waits_for_an_upstream_outlives_a_reload() {
    none_that_waits_is_lost(|server, corefile| {
        // The same upstreams, and more beside them.
        let next = corefile.replace("    cache\n", "    cache\n    hosts {\n        fallthrough\n    }\n");
        server.write("Corefile", &next);
        server.process().signal(signal_named("USR1").unwrap()).unwrap();
    });
}

#[test]
fn what_waits_for_an_upstream_outlives_a_reload_without_it() {
    none_that_waits_is_lost(|server, corefile| {
        server.write("Corefile", &corefile.replace("policy sequential", "policy round_robin"));
        server.process().signal(signal_named("USR1").unwrap()).unwrap();
    });
}

#[test]
fn what_waits_for_an_upstream_is_answered_before_the_end() {
    none_that_waits_is_lost(|server, _| server.process().signal(signal_named("TERM").unwrap()).unwrap());
}
