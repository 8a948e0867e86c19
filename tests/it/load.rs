//! The binary under load, while those that it asks fail. One of these tests runs at a time.
//!
//! `LONG=1` for 20,000 questions a second where faults last, ten million random names, and ten minutes of mixed load.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nodens_tests::load::{Asked, Load, percentile};
use nodens_tests::nodens::Nodens;
use nodens_tests::process::is_release;
use nodens_tests::seed::Seeded;
use nodens_tests::served::{framed, packet};
use nodens_tests::upstream::{Mood, Upstream};
use nodens_tests::world::free_port;
use nodens_wire::edns::ede;

fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}

/// Two loads at once would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Questions a second. Other tests share the cores of a short run.
fn rate() -> u32 {
    match (is_long(), is_release()) {
        (true, _) => 20_000,
        (false, true) => 4000,
        (false, false) => 1000,
    }
}

/// What a p99 may be above that of better times, on a machine that has other things to do.
fn slack() -> Duration {
    Duration::from_millis(if is_long() { 5 } else { 300 })
}

/// All were answered, but for what the kernel lost on the way to the server.
fn all_answered(server: &Nodens, asked: &[Asked]) {
    let dropped = server.metric("nodens_kernel_drops_total");
    let failed: Vec<&Asked> = asked.iter().filter(|asked| !asked.is_answered()).collect();
    let (lost, wrong): (Vec<&Asked>, Vec<&Asked>) = failed.into_iter().partition(|asked| asked.took.is_none());
    let count = asked.len();
    assert!(wrong.is_empty(), "{} of {count}, the first {:?}", wrong.len(), wrong[0]);
    assert!(
        lost.len() as f64 <= dropped,
        "{} of {count}, the first {:?}; {dropped} dropped",
        lost.len(),
        lost[0]
    );
}

/// One of three upstreams dies in the middle of a load, and nobody notices.
fn one_of_three_dies(die: impl FnOnce(&mut Upstream) + Send) {
    let _alone = alone();
    let mut upstreams = [(); 3].map(|()| Upstream::start(60));
    let to = upstreams.each_ref().map(|upstream| upstream.address().to_string());
    let server = Nodens::start_with(
        &format!(
            ".:{{PORT}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{METRICS}}\n    forward . {}\n}}\n",
            to.join(" ")
        ),
        &[],
    );
    let (died_at, back_at) = (Duration::from_secs(2), Duration::from_secs(4));
    let load = Load {
        rate: rate(),
        time: Duration::from_secs(6),
    };
    let [_, dying, _] = &mut upstreams;
    let asked = thread::scope(|scope| {
        scope.spawn(|| {
            sleep(died_at);
            die(dying);
        });
        load.ask(server.address("PORT"), |number| format!("n{number}.cedar.example."))
    });
    all_answered(&server, &asked);
    let before = percentile(asked.iter().filter(|asked| asked.at < died_at), 99);
    let between = asked.iter().filter(|asked| asked.at >= died_at && asked.at < back_at);
    let between = between.filter_map(|asked| asked.took).max();
    let after = percentile(asked.iter().filter(|asked| asked.at >= back_at), 99);
    println!("p99 {before:?}, at most {between:?} when it died, {after:?} from two seconds later on");
    assert!(after < before * 3 / 2 + slack());
}

#[test]
fn an_upstream_that_refuses_costs_no_answer() {
    one_of_three_dies(Upstream::stop);
}

#[test]
fn an_upstream_that_falls_silent_costs_no_answer() {
    one_of_three_dies(|upstream| upstream.set_mood(Mood::Silent));
}

/// All upstreams die; what is kept is shown on.
fn all_die(die: impl Fn(&mut Upstream), mode: &str) {
    const NAMES: u32 = 500;
    let _alone = alone();
    let mut upstreams = [(); 2].map(|()| Upstream::start(1));
    let to = upstreams.each_ref().map(|upstream| upstream.address().to_string());
    let server = Nodens::start_with(
        &format!(
            ".:{{PORT}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{METRICS}}\n    cache {{\n        success 10000 3600 0\n        \
             serve_stale 1h {mode}\n    }}\n    forward . {}\n}}\n",
            to.join(" ")
        ),
        &[],
    );
    let name = |number: u32| format!("n{}.cedar.example.", number % NAMES);
    let ask = |rate, secs| {
        let time = Duration::from_secs(secs);
        Load { rate, time }.ask(server.address("PORT"), name)
    };
    all_answered(&server, &ask(NAMES, 1));
    // What came while a worker stood still in the middle of storing another was not kept.
    let unkept = server.metric("nodens_cache_busy_total");
    upstreams.iter_mut().for_each(die);
    sleep(Duration::from_secs(2));
    let asked: Vec<(u32, Asked)> = (0..).zip(ask(rate(), if is_long() { 30 } else { 4 })).collect();
    let has_failed = |asked: &Asked| asked.took.is_some() && !asked.is_answered();
    let failed = asked.iter().filter(|(_, asked)| has_failed(asked));
    let failed: BTreeSet<u32> = failed.map(|(number, _)| number % NAMES).collect();
    assert!(
        f64::from(failed.len() as u32) <= unkept,
        "{failed:?}, and {unkept} were not kept"
    );
    let kept = asked
        .into_iter()
        .filter(|(number, _)| !failed.contains(&(number % NAMES)));
    let asked: Vec<Asked> = kept.map(|(_, asked)| asked).collect();
    all_answered(&server, &asked);
    let stale = asked.iter().filter(|asked| asked.error == Some(ede::STALE_ANSWER));
    assert_eq!(stale.count(), asked.iter().filter(|asked| asked.took.is_some()).count());
    let p99 = percentile(&asked, 99);
    println!("{mode}: {} stale answers, p99 {p99:?}", asked.len());
    assert!(
        server.metric("coredns_cache_served_stale_total")
            >= asked.len() as f64 - server.metric("nodens_kernel_drops_total")
    );
    let (rate, time) = (1, Duration::from_secs(1));
    let [other] = Load { rate, time }.ask(server.address("PORT"), |_| "other.cedar.example.".to_owned())[..] else {
        panic!("one question");
    };
    assert!(other.took.is_some() && other.rcode == 2, "{other:?}");
    let patience = if mode == "immediate" {
        Duration::ZERO
    } else {
        Duration::from_millis(100)
    };
    assert!(!is_long() || p99 < patience + slack() * 2, "{p99:?}");
}

#[test]
fn upstreams_that_refuse_leave_stale_answers() {
    all_die(Upstream::stop, "immediate");
}

#[test]
fn upstreams_that_fall_silent_leave_stale_answers() {
    all_die(|upstream| upstream.set_mood(Mood::Silent), "verify 100ms");
}

/// Asks for so many names that nobody asked for before, as fast as they are answered; the p99 of all.
fn flood(server: &Nodens, count: u32) -> Duration {
    // Few enough for any socket's buffer.
    const AT_ONCE: u32 = 400;
    let begun = Instant::now();
    let mut all = Vec::new();
    for first in (0..count).step_by(AT_ONCE as usize) {
        let load = Load {
            rate: AT_ONCE * 1000,
            time: Duration::from_millis(1),
        };
        let asked = load.ask(server.address("PORT"), |number| {
            format!("r{:08x}.cedar.example.", (first + number).wrapping_mul(0x9e37_79b1))
        });
        if asked.iter().any(|asked| !asked.is_answered()) {
            all_answered(server, &asked);
        }
        // The times of some say enough.
        all.extend(asked.into_iter().step_by(16));
    }
    let p99 = percentile(&all, 99);
    let per_second = f64::from(count) / begun.elapsed().as_secs_f64();
    println!("{count} names, {per_second:.0} a second, p99 {p99:?}");
    p99
}

#[test]
fn random_names_take_no_more_memory_than_the_cache_may() {
    let _alone = alone();
    let upstream = Upstream::start(3600);
    let start = |cache: &str| {
        Nodens::start_with(
            &format!(
                ".:{{PORT}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{METRICS}}\n    {cache}\n    forward . {}\n}}\n",
                upstream.address()
            ),
            &[],
        )
    };
    let (size_mb, count) = match (is_long(), is_release()) {
        (true, _) => (64, 10_000_000),
        (false, true) => (8, 200_000),
        (false, false) => (2, 30_000),
    };
    // What asking takes by itself.
    let mut plain = start("");
    flood(&plain, 20_000);
    let base = plain.process().resident().unwrap();
    drop(plain);

    let mut server = start(&format!(
        "cache {{\n        success 100000000\n        size {size_mb}MB\n    }}"
    ));
    let early = flood(&server, count / 10);
    let late = flood(&server, count);
    let resident = server.process().resident().unwrap();
    let used = server.metric("nodens_cache_used_bytes");
    let evicted = server.metric("coredns_cache_evictions_total");
    println!("base {base}, then {resident} bytes, of which {used} for the cache; {evicted} evicted");
    assert!(evicted > 0.0, "the cache was full");
    let bound = f64::from(size_mb) * 1e6;
    assert!(used <= bound);
    // So much more or less it has anyway, which shows beside a small cache.
    let beside = if is_long() { 0.0 } else { 4e6 };
    assert!(
        resident as f64 <= bound * 1.1 + base as f64 + beside,
        "{resident} bytes"
    );
    // On a machine that has nothing else to do.
    assert!(!is_long() || late < early * 3 / 2 + slack());
}

/// Each holds an alias to a name of the other, which nobody can know to be a ring: it must not feed itself.
#[test]
fn two_servers_whose_aliases_lead_to_each_other_ask_a_few_times() {
    let _alone = alone();
    let other_port = free_port();
    let server = |ports: &[&str], own: &str, other: &str, forward: &str| {
        let keys = |zone: &str| {
            ports
                .iter()
                .map(|port| format!("{zone}.example:{port} "))
                .collect::<String>()
        };
        let (own_keys, other_keys) = (keys(own), keys(other));
        let server = Nodens::start(&format!(
            "{own_keys}{{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{METRICS}}\n    file zone {{\n        reload 1s\n    }}\n}}\n\
             {other_keys}{{\n    bind 127.0.0.1\n    forward . 127.0.0.1:{forward}\n}}\n"
        ));
        server.write(
            "zone",
            &format!("@ SOA ns admin 1 2 3 4 5\nhere A 192.0.2.1\na CNAME a.{other}.example.\n"),
        );
        server
    };
    let first = server(&["{PORT}"], "cedar", "oak", &other_port.to_string());
    let to_first = first.address("PORT").port().to_string();
    let second = server(&["{PORT}", &other_port.to_string()], "oak", "cedar", &to_first);
    let limit = Duration::from_secs(8);
    first.wait_for("here.cedar.example A", limit, |reply| reply.values() == ["192.0.2.1"]);
    first.wait_for("here.oak.example A", limit, |reply| reply.values() == ["192.0.2.1"]);
    let asked = || first.metric("coredns_dns_requests_total") + second.metric("coredns_dns_requests_total");
    let before = asked();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(&packet(1, "a.cedar.example. A", None), first.address("PORT"))
        .unwrap();
    // A question is counted when it is answered, here by the end of all attempts.
    sleep(Duration::from_secs(8));
    let more = asked() - before;
    println!("{more} questions");
    assert!((3.0..40.0).contains(&more), "{more} questions");
}

#[test]
fn two_servers_that_ask_each_other_find_out() {
    let _alone = alone();
    let other_port = free_port();
    let own = |forward: &str| {
        format!(
            "    bind 127.0.0.1\n    prometheus 127.0.0.1:{{METRICS}}\n    loop\n    hosts {{\n        192.0.2.1 www.elm.example\n        \
             fallthrough\n    }}\n    forward . 127.0.0.1:{forward}\n"
        )
    };
    let begun = Instant::now();
    let mut first = Nodens::start(&format!(".:{{PORT}} {{\n{}}}\n", own(&other_port.to_string())));
    let to_first = first.address("PORT").port().to_string();
    let mut second = Nodens::start(&format!(
        "oak.example:{{PORT}} {{\n    bind 127.0.0.1\n    hosts {{\n        192.0.2.2 www.oak.example\n    }}\n}}\n.:{other_port} {{\n{}}}\n",
        own(&to_first)
    ));
    let started = Instant::now();
    let found = |server: &mut Nodens| {
        server
            .process()
            .log()
            .matches("comes back, so it is not asked any more")
            .count()
    };
    // Whoever finds out first has no loop left for the other one.
    while found(&mut first) + found(&mut second) == 0 {
        assert!(
            started.elapsed() < Duration::from_secs(8),
            "{}",
            first.process().log_end()
        );
        sleep(Duration::from_millis(10));
    }
    println!(
        "found {:?} after both were there, {:?} after the first",
        started.elapsed(),
        begun.elapsed()
    );
    assert!(started.elapsed() < Duration::from_secs(if is_long() { 1 } else { 4 }));

    // Each goes on answering what it holds, and what would go in a circle fails at once.
    let asked = Load {
        rate: 500,
        time: Duration::from_secs(2),
    }
    .ask(first.address("PORT"), |_| "www.elm.example.".to_owned());
    assert!(
        asked.iter().all(|asked| asked.took.is_some() && asked.rcode == 0),
        "{:?}",
        asked.iter().find(|asked| asked.rcode != 0)
    );
    assert_eq!(second.ask("www.oak.example. A").values(), ["192.0.2.2"]);
    let begun = Instant::now();
    assert_eq!(first.ask("www.maple.example. A").rcode, "SERVFAIL");
    assert!(begun.elapsed() < Duration::from_secs(1) + slack());
    sleep(Duration::from_secs(1));
    for server in [&mut first, &mut second] {
        assert!(found(server) <= 1, "{}", server.process().log());
        assert!(server.process().status().is_none());
    }
}

/// Clients that ask over TCP, each again as soon as it has its answer. Returns how many questions there were.
fn ask_over_tcp(server: SocketAddr, client: u64, stop: &AtomicBool, asked: &AtomicU64) {
    let mut seeded = Seeded::new(client);
    while !stop.load(Ordering::Relaxed) {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        stream.set_nodelay(true).unwrap();
        for _ in 0..100 {
            let name = format!("n{}.cedar.example. A", seeded.below(2000));
            (&stream).write_all(&framed(&packet(7, &name, None))).unwrap();
            asked.fetch_add(1, Ordering::Relaxed);
            let mut len = [0; 2];
            (&stream).read_exact(&mut len).unwrap();
            let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
            (&stream).read_exact(&mut reply).unwrap();
            assert!(matches!(reply[3] & 15, 0 | 2), "{reply:?}");
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Another mood for one of them every now and then; at last all answer.
fn unsettle(upstreams: &mut [Upstream], time: Duration) {
    let mut seeded = Seeded::new(5);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let which = seeded.below(upstreams.len());
        match seeded.below(Mood::ALL.len() + 1) {
            5 => {
                upstreams[which].stop();
                sleep(Duration::from_millis(400));
                upstreams[which].resume();
            }
            mood => upstreams[which].set_mood(Mood::ALL[mood]),
        }
        sleep(Duration::from_millis(300));
    }
    for upstream in upstreams {
        upstream.set_mood(Mood::Answers);
    }
}

#[test]
fn faults_of_upstreams_leave_nothing_behind() {
    let _alone = alone();
    let mut upstreams = [(); 3].map(|()| Upstream::start(1));
    let to = upstreams.each_ref().map(|upstream| upstream.address().to_string());
    let mut server = Nodens::start_with(
        &format!(
            ".:{{PORT}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{METRICS}}\n    cache {{\n        success 10000 3600 0\n        \
             serve_stale\n        size 4MB\n    }}\n    forward . {} {{\n        failover SERVFAIL\n    }}\n}}\n",
            to.join(" ")
        ),
        &[],
    );
    let pid = server.process().id();
    let address = server.address("PORT");
    let rounds = if is_long() { 10 } else { 2 };
    let time = Duration::from_secs(if is_long() { 60 } else { 4 });
    let (mut udp, over_tcp) = (0, AtomicU64::new(0));
    let mut resident = Vec::new();
    let mut open = Vec::new();
    for _ in 0..rounds {
        let stop = AtomicBool::new(false);
        let (stop, over_tcp) = (&stop, &over_tcp);
        let asked = thread::scope(|scope| {
            for client in 0..2 {
                scope.spawn(move || ask_over_tcp(address, client, stop, over_tcp));
            }
            let upstreams = &mut upstreams;
            scope.spawn(move || unsettle(upstreams, time));
            let rate = rate() / 4;
            let asked = Load { rate, time }.ask(address, |number| match number % 4 {
                // Some that nobody else asks for.
                0 => format!("u{number}.cedar.example."),
                _ => format!("n{}.cedar.example.", number.wrapping_mul(7919) % 2000),
            });
            stop.store(true, Ordering::Relaxed);
            asked
        });
        udp += asked.len() as u64;
        let right = asked.iter().filter(|asked| asked.is_answered()).count();
        let wrong = |asked: &&Asked| asked.took.is_some() && asked.rcode == 0 && !asked.is_right && !asked.is_cut;
        assert!(
            !asked.iter().any(|asked| wrong(&asked)),
            "{:?}",
            asked.iter().find(wrong)
        );
        println!("{right} of {} answered", asked.len());
        assert!(right * 2 > asked.len(), "faults of some leave most answers as they are");
        // What waited has come to its end.
        sleep(Duration::from_secs(1));
        resident.push(server.process().resident().unwrap());
        open.push(descriptors(pid));
    }
    println!("{resident:?} bytes, {open:?} descriptors, {udp} questions over UDP, {over_tcp:?} over TCP");
    let (first, last) = (resident[rounds / 2 - 1] as f64, resident[rounds - 1] as f64);
    assert!(last < first * 1.1 + 2e6, "{first} bytes became {last}");
    // At most 64 sockets an upstream and worker, and as many that wait.
    assert!(*open.last().unwrap() <= open[0] + 128, "{open:?}");

    let metric = |name: &str| server.metric(name);
    let asked = (udp + over_tcp.load(Ordering::Relaxed)) as f64;
    let came = metric("coredns_dns_requests_total");
    assert!(
        came <= asked && came >= asked - metric("nodens_kernel_drops_total"),
        "{came} of {asked}"
    );
    assert!((metric("coredns_dns_responses_total") - came).abs() < f64::EPSILON);
    let looked_up = metric("coredns_cache_hits_total") + metric("coredns_cache_misses_total");
    assert!((metric("coredns_cache_requests_total") - looked_up).abs() < f64::EPSILON);
    assert!((metric("coredns_cache_requests_total") - came).abs() < f64::EPSILON);
    let seen: u64 = upstreams.iter().map(Upstream::seen).sum();
    let exchanges = metric("coredns_forward_requests_total");
    println!("{seen} questions at the upstreams, {exchanges} exchanges");
    assert!(exchanges > 0.0 && exchanges <= seen as f64);
    assert_eq!(metric("nodens_forward_limited_total"), 0.0);
}
