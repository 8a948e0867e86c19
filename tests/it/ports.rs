//! Both back ends against the contract.

use std::env;
use std::process::Command;

use nodens_engine::io::{AnyPort, PortKind, open, probe_uring};
use nodens_tests::contract;

/// Set for the process that a test starts for itself.
const CHILD: &str = "NODENS_PORTS_CHILD";

const MMSG: contract::Open<AnyPort> = |sockets, waker, counters| open(PortKind::Mmsg, sockets, waker, counters);
const URING: contract::Open<AnyPort> = |sockets, waker, counters| open(PortKind::Uring, sockets, waker, counters);

#[test]
fn mmsg_keeps_the_contract() {
    contract::check(MMSG);
}

#[test]
fn uring_keeps_the_contract() {
    if has_uring() {
        contract::check(URING);
    }
}

#[test]
fn mmsg_survives_a_want_of_descriptors() {
    in_a_process_of_its_own("ports::mmsg_survives_a_want_of_descriptors", || {
        contract::accepting_survives_a_want_of_descriptors(MMSG);
    });
}

#[test]
fn uring_survives_a_want_of_descriptors() {
    in_a_process_of_its_own("ports::uring_survives_a_want_of_descriptors", || {
        if has_uring() {
            contract::accepting_survives_a_want_of_descriptors(URING);
        }
    });
}

fn has_uring() -> bool {
    match probe_uring() {
        Ok(()) => true,
        Err(denied) => {
            println!("skipped: {denied}");
            false
        }
    }
}

/// Runs the named test again in a child, and there what it is about.
fn in_a_process_of_its_own(test: &str, check: fn()) {
    if env::var_os(CHILD).is_some() {
        return check();
    }
    let child = Command::new(env::current_exe().expect("a test runs from a file"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a test can run itself");
    let (out, err) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(child.status.success() && out.contains("1 passed"), "{out}\n{err}");
    out.lines()
        .filter(|line| line.contains("skipped:"))
        .for_each(|line| println!("{line}"));
}
