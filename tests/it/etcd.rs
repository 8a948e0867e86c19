//! The binary over a real etcd: what changes there, what breaks there, and what a query costs it.
//!
//! Times and sizes are printed; they are gated loosely here, because a test machine is busy with other things.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodens_tests::ask::Way;
use nodens_tests::etcd::Etcd;
use nodens_tests::nodens::{Nodens, Reply};
use nodens_tests::process::is_release;
use nodens_tests::proxy::{Mode, Proxy};
use nodens_tests::world::{free_port, random};
use rustix::process::Signal;

/// How soon after an outage changed answers must be there.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// For everything else that has to happen without a bound of its own.
const SOON: Duration = Duration::from_secs(10);

/// Tests that measure take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long an outage lasts: a minute with `LONG=1`.
fn outage() -> Duration {
    Duration::from_secs(if std::env::var_os("LONG").is_some() { 60 } else { 8 })
}

fn corefile(url: &str) -> String {
    format!(
        "cedar.example:{{PORT}} {{\n    prometheus 127.0.0.1:{{METRICS}}\n    errors\n    etcd {{\n        endpoint {url}\n    }}\n}}\n"
    )
}

fn host(address: &str) -> String {
    format!(r#"{{"host":"{address}"}}"#)
}

fn has(address: &str) -> impl Fn(&Reply) -> bool {
    move |reply| reply.rcode == "NOERROR" && reply.values() == [address]
}

fn is(rcode: &str) -> impl Fn(&Reply) -> bool {
    move |reply| reply.rcode == rcode
}

#[test]
fn a_put_is_visible_at_once() {
    let _alone = alone();
    let mut etcd = Etcd::start().unwrap();
    etcd.put("/skydns/example/cedar/web", &host("192.0.2.1"));
    let server = Nodens::start(&corefile(&etcd.url()));
    server.wait_for("web.cedar.example. A", SOON, has("192.0.2.1"));
    let mut took = Vec::new();
    for round in 0..200u8 {
        let address = format!("192.0.2.{}", 2 + round % 200);
        etcd.put("/skydns/example/cedar/web", &host(&address));
        took.push(server.wait_for("web.cedar.example. A", SOON, has(&address)));
    }
    took.sort();
    println!(
        "from the return of a put to the changed answer: median {:?}, p99 {:?}",
        took[100], took[197]
    );
    assert!(took[100] < Duration::from_millis(10), "median {:?}", took[100]);
    // A machine that is busy with other things stalls now and then; the printed p99 is for one that is not.
    assert!(took[180] < Duration::from_millis(250), "p90 {:?}", took[180]);
    etcd.delete("/skydns/example/cedar/web");
    server.wait_for("web.cedar.example. A", SOON, is("NXDOMAIN"));
}

#[test]
fn a_lease_that_ends_takes_its_names_away() {
    let mut etcd = Etcd::start().unwrap();
    let server = Nodens::start(&corefile(&etcd.url()));
    etcd.put_leased("/skydns/example/cedar/short", &host("192.0.2.1"), 2);
    let long = etcd.put_leased("/skydns/example/cedar/long", &host("192.0.2.2"), 600);
    server.wait_for("short.cedar.example. A", SOON, has("192.0.2.1"));
    server.wait_for("long.cedar.example. A", SOON, has("192.0.2.2"));
    server.wait_for("short.cedar.example. A", SOON, is("NXDOMAIN"));
    assert!(has("192.0.2.2")(&server.ask("long.cedar.example. A")));
    etcd.revoke(long);
    server.wait_for("long.cedar.example. A", SOON, is("NXDOMAIN"));
}

#[test]
fn etcd_may_come_later() {
    let port = free_port();
    let server = Nodens::start(&corefile(&format!("http://127.0.0.1:{port}")));
    let begun = Instant::now();
    assert_eq!(server.ask("web.cedar.example. A").rcode, "SERVFAIL");
    assert_eq!(server.ask("cedar.example. SOA").rcode, "NOERROR");
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "SERVFAIL took {:?}",
        begun.elapsed()
    );
    assert_eq!(server.metric("nodens_etcd_connected"), 0.0);
    let mut etcd = Etcd::start_special(None, Some(port)).unwrap();
    etcd.put("/skydns/example/cedar/web", &host("192.0.2.1"));
    server.wait_for("web.cedar.example. A", SOON, has("192.0.2.1"));
    assert_eq!(server.metric("nodens_etcd_connected"), 1.0);
    assert_eq!(server.metric("nodens_etcd_keys"), 1.0);
}

#[test]
fn a_value_that_does_not_parse_harms_its_key_alone() {
    let mut etcd = Etcd::start().unwrap();
    etcd.put("/skydns/example/cedar/web/good", &host("192.0.2.1"));
    etcd.put("/skydns/example/cedar/web/bad", r#"{"host":"#);
    etcd.put("/skydns/example/cedar/worse", r#"{"host":"192.0.2.9","port":"80"}"#);
    let server = Nodens::start(&corefile(&etcd.url()));
    server.wait_for("web.cedar.example. A", SOON, has("192.0.2.1"));
    assert_eq!(server.ask("worse.cedar.example. A").rcode, "SERVFAIL");
    assert_eq!(server.metric("nodens_etcd_bad_keys"), 2.0);
    etcd.put("/skydns/example/cedar/worse", &host("192.0.2.9"));
    server.wait_for("worse.cedar.example. A", SOON, has("192.0.2.9"));
    etcd.delete("/skydns/example/cedar/web/bad");
    let end = Instant::now() + SOON;
    while server.metric("nodens_etcd_bad_keys") != 0.0 {
        assert!(Instant::now() < end, "nodens_etcd_bad_keys stays");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn compaction_while_away_is_a_fresh_read() {
    let mut etcd = Etcd::start().unwrap();
    for name in ["stays", "changes", "goes"] {
        etcd.put(&format!("/skydns/example/cedar/{name}"), &host("192.0.2.1"));
    }
    let proxy = Proxy::start(free_port(), etcd.port()).unwrap();
    let server = Nodens::start(&corefile(&proxy.url()));
    server.wait_for("goes.cedar.example. A", SOON, has("192.0.2.1"));
    proxy.set(Mode::Refuse);
    etcd.put("/skydns/example/cedar/changes", &host("192.0.2.2"));
    etcd.put("/skydns/example/cedar/comes", &host("192.0.2.3"));
    etcd.delete("/skydns/example/cedar/goes");
    etcd.compact();
    sleep(Duration::from_millis(500));
    assert!(
        has("192.0.2.1")(&server.ask("goes.cedar.example. A")),
        "the old data answers while etcd is away"
    );
    proxy.set(Mode::Open);
    server.wait_for("changes.cedar.example. A", BACK_WITHIN, has("192.0.2.2"));
    assert!(has("192.0.2.3")(&server.ask("comes.cedar.example. A")));
    assert!(has("192.0.2.1")(&server.ask("stays.cedar.example. A")));
    assert_eq!(server.ask("goes.cedar.example. A").rcode, "NXDOMAIN");
    assert!(server.metric("nodens_etcd_resyncs_total") >= 1.0);
}

#[test]
fn a_new_cluster_replaces_the_old_data() {
    let mut etcd = Etcd::start().unwrap();
    for round in 0..20 {
        etcd.put(&format!("/skydns/example/cedar/old{round}"), &host("192.0.2.1"));
    }
    let server = Nodens::start(&corefile(&etcd.url()));
    server.wait_for("old19.cedar.example. A", SOON, has("192.0.2.1"));
    etcd.kill_and_forget();
    sleep(Duration::from_millis(300));
    assert!(has("192.0.2.1")(&server.ask("old0.cedar.example. A")));
    etcd.launch().unwrap();
    // Its revisions begin anew, far below those that were seen.
    etcd.put("/skydns/example/cedar/new", &host("192.0.2.2"));
    server.wait_for("new.cedar.example. A", SOON, has("192.0.2.2"));
    server.wait_for("old0.cedar.example. A", SOON, is("NXDOMAIN"));
}

/// Asks all the time and counts what goes wrong: no reply, another rcode, another answer than `wanted` says.
fn failures(server: &Nodens, stop: &AtomicBool) -> (u64, Vec<String>) {
    let (mut asked, mut wrong) = (0, Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let number = random() % 100;
        let reply = server.ask(&format!("s{number}.cedar.example. A"));
        if !has(&format!("10.0.0.{number}"))(&reply) {
            wrong.push(format!("s{number}: {reply:?}"));
        }
        if server.ask("none.cedar.example. A").rcode != "NXDOMAIN" {
            wrong.push("none: no NXDOMAIN".to_owned());
        }
        asked += 2;
        sleep(Duration::from_micros(500));
    }
    (asked, wrong)
}

/// etcd is taken away by `cut`, keys change in `change`, it is given back by `mend`; no answer may fail, and all changes must come.
fn outlives(cut: impl FnOnce(&mut Etcd, &Proxy), change: impl FnOnce(&mut Etcd), mend: impl FnOnce(&mut Etcd, &Proxy)) {
    let _alone = alone();
    let mut etcd = Etcd::start().expect("etcd");
    etcd.put_many((0..100).map(|i| (format!("/skydns/example/cedar/s{i}"), host(&format!("10.0.0.{i}")))));
    etcd.put("/skydns/example/cedar/changes", &host("192.0.2.1"));
    etcd.put("/skydns/example/cedar/goes", &host("192.0.2.1"));
    let proxy = Proxy::start(free_port(), etcd.port()).expect("a free port");
    let server = Nodens::start(&corefile(&proxy.url()));
    server.wait_for("goes.cedar.example. A", SOON, has("192.0.2.1"));
    let stop = AtomicBool::new(false);
    let back = std::thread::scope(|scope| {
        let load = scope.spawn(|| failures(&server, &stop));
        cut(&mut etcd, &proxy);
        sleep(outage() / 2);
        change(&mut etcd);
        sleep(outage() / 2);
        mend(&mut etcd, &proxy);
        let mended = Instant::now();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            server.wait_for("changes.cedar.example. A", BACK_WITHIN, has("192.0.2.2"));
            server.wait_for("comes.cedar.example. A", BACK_WITHIN, has("192.0.2.3"));
            server.wait_for("goes.cedar.example. A", BACK_WITHIN, is("NXDOMAIN"));
        }));
        let back = mended.elapsed();
        stop.store(true, Ordering::SeqCst);
        let (asked, wrong) = load.join().expect("the load");
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
        assert!(wrong.is_empty(), "{} of {asked} failed: {}", wrong.len(), wrong[0]);
        println!(
            "{asked} answers over an outage of {:?}, none failed; changes were there {back:?} after it",
            outage()
        );
        back
    });
    assert!(back < BACK_WITHIN, "{back:?}");
}

fn change_keys(etcd: &mut Etcd) {
    etcd.put("/skydns/example/cedar/changes", &host("192.0.2.2"));
    etcd.put("/skydns/example/cedar/comes", &host("192.0.2.3"));
    etcd.delete("/skydns/example/cedar/goes");
}

#[test]
fn outlives_a_refused_connection() {
    outlives(
        |_, proxy| proxy.set(Mode::Refuse),
        change_keys,
        |_, proxy| proxy.set(Mode::Open),
    );
}

#[test]
fn outlives_a_silent_connection() {
    outlives(
        |_, proxy| proxy.set(Mode::Silent),
        change_keys,
        |_, proxy| proxy.set(Mode::Open),
    );
}

#[test]
fn outlives_a_frozen_etcd() {
    let cut = |etcd: &mut Etcd, _: &Proxy| etcd.process().signal(Signal::STOP).unwrap();
    // A frozen etcd takes no changes either: they are made at once when it goes on.
    let mend = |etcd: &mut Etcd, _: &Proxy| {
        etcd.process().signal(Signal::CONT).unwrap();
        change_keys(etcd);
    };
    outlives(cut, |_| {}, mend);
}

#[test]
fn outlives_a_killed_etcd() {
    let mend = |etcd: &mut Etcd, _: &Proxy| {
        etcd.launch().unwrap();
        change_keys(etcd);
    };
    outlives(|etcd, _| etcd.kill(), |_| {}, mend);
}

#[test]
fn queries_cause_no_requests() {
    let _alone = alone();
    let mut etcd = Etcd::start().unwrap();
    etcd.put_many((0..1000).map(|i| {
        (
            format!("/skydns/example/cedar/s{i}"),
            host(&format!("10.0.{}.{}", i / 250, i % 250)),
        )
    }));
    let lease = etcd.put_leased("/skydns/example/cedar/leased", &host("192.0.2.1"), 600);
    let server = Nodens::start(&corefile(&etcd.url()));
    server.wait_for("s999.cedar.example. A", SOON, is("NOERROR"));
    server.wait_for("leased.cedar.example. A", SOON, is("NOERROR"));
    sleep(Duration::from_secs(2));
    let before = etcd.requests();
    let begun = Instant::now();
    let asked = 20_000;
    for _ in 0..asked / 4 {
        assert_eq!(
            server.ask(&format!("s{}.cedar.example. A", random() % 1000)).rcode,
            "NOERROR"
        );
        assert_eq!(server.ask(&format!("x{}.cedar.example. A", random())).rcode, "NXDOMAIN");
        assert_eq!(
            server.ask(&format!("s{}.cedar.example. SRV", random() % 1000)).rcode,
            "NOERROR"
        );
        assert_eq!(server.ask("leased.cedar.example. A").rcode, "NOERROR");
    }
    let (window, after) = (begun.elapsed(), etcd.requests());
    sleep(window);
    let idle = etcd.requests() - after;
    println!(
        "messages to etcd: {} while {asked} queries in {window:?}, {idle} in an idle window as long",
        after - before
    );
    // What is sent at intervals may fall on either side of a border.
    assert!(after - before <= idle + 1.0);
    etcd.revoke(lease);
}

#[test]
fn memory() {
    let _alone = alone();
    let mut etcd = Etcd::start().unwrap();
    let mut empty = Nodens::start(".:{PORT} {\n    whoami\n}\n");
    let mut server = Nodens::start(&corefile(&etcd.url()));
    server.wait_for("web.cedar.example. A", SOON, is("NXDOMAIN"));
    sleep(Duration::from_secs(1));
    let without = server.process().resident().unwrap();
    etcd.put_many((0..10_000).map(|i| {
        let value = format!(r#"{{"host":"10.0.{}.{}","port":8080}}"#, i / 250, i % 250);
        (format!("/skydns/example/cedar/ns{}/s{i}", i % 100), value)
    }));
    server.wait_for("s9999.ns99.cedar.example. A", SOON, is("NOERROR"));
    sleep(Duration::from_secs(2));
    let (none, with) = (
        empty.process().resident().unwrap(),
        server.process().resident().unwrap(),
    );
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "resident: empty {:.1} MB; with etcd and no keys {:.1} MB; with 10,000 services {:.1} MB, {:.1} MB more",
        mb(none),
        mb(without),
        mb(with),
        mb(with.saturating_sub(without))
    );
    if is_release() {
        assert!(mb(none) <= 15.0, "empty");
        assert!(mb(with.saturating_sub(without)) <= 5.0, "10,000 services");
    }
}

#[test]
fn a_question_over_everything_is_bounded() {
    let _alone = alone();
    let services: u32 = if is_release() { 100_000 } else { 20_000 };
    let mut etcd = Etcd::start().unwrap();
    etcd.put_many((0..services).map(|i| {
        let [_, a, b, c] = i.to_be_bytes();
        (
            format!("/skydns/example/cedar/ns{}/s{i}", i % 100),
            host(&format!("10.{a}.{b}.{c}")),
        )
    }));
    let server = Nodens::start(&corefile(&etcd.url()));
    let last = services - 1;
    let read = server.wait_for(
        &format!("s{last}.ns{}.cedar.example. A", last % 100),
        20 * SOON,
        is("NOERROR"),
    );
    println!("first read of {services} services: {read:?}");
    for name in ["cedar.example.", "*.cedar.example.", "*.ns7.cedar.example."] {
        let question = format!("{name} A");
        let mut took: Vec<Duration> = Vec::new();
        for _ in 0..10 {
            let begun = Instant::now();
            let reply = server.ask(&question);
            took.push(begun.elapsed());
            assert!(
                reply.rcode == "NOERROR" && reply.truncated && reply.len <= 512,
                "{question}: {reply:?}"
            );
        }
        let reply = server.ask_over(&question, Way::Tcp);
        took.sort();
        println!(
            "{question} over {services}: {:?}, {} answers in {} bytes over TCP",
            took[5],
            reply.answers.len(),
            reply.len
        );
        assert!(reply.rcode == "NOERROR" && reply.answers.len() <= 4096);
        let expected = if name.contains("ns7") {
            services as usize / 100
        } else {
            4000
        };
        assert!(
            reply.answers.len() >= expected,
            "{question}: {} answers",
            reply.answers.len()
        );
        assert!(
            took[0] < Duration::from_millis(if is_release() { 25 } else { 500 }),
            "{question}: {took:?}"
        );
    }
    assert!(server.metric("nodens_gather_limited_total") >= 1.0);
    assert!(server.ask("s505.ns5.cedar.example. A").answers.len() == 1);
}
