//! Both back ends against the contract.

use nodens_engine::io::{PortKind, open, probe_uring};
use nodens_tests::contract;

#[test]
fn mmsg_keeps_the_contract() {
    contract::check(|sockets, waker, counters| open(PortKind::Mmsg, sockets, waker, counters));
}

#[test]
fn uring_keeps_the_contract() {
    if let Err(denied) = probe_uring() {
        println!("skipped: {denied}");
        return;
    }
    contract::check(|sockets, waker, counters| open(PortKind::Uring, sockets, waker, counters));
}
