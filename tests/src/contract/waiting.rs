//! Rules of [`Port::wait`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nodens_engine::io::{Port, now};

use super::Open;
use super::rig::Rig;

pub(super) fn a_wake_up_ends_a_wait<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    for _ in 0..3 {
        let waker = rig.waker.clone();
        let woken = Arc::new(AtomicBool::new(false));
        let other = {
            let woken = Arc::clone(&woken);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                woken.store(true, Ordering::Release);
                waker.wake();
            })
        };
        // The port may return early for no reason.
        while !woken.load(Ordering::Acquire) {
            rig.port.wait(None).unwrap();
            rig.port.serve(&mut rig.handler).unwrap();
        }
        other.join().unwrap();
    }
}

pub(super) fn an_earlier_wake_up_counts<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.settle();
    rig.waker.wake();
    let start = now();
    rig.port.wait(Some(start.after(Duration::from_secs(20)))).unwrap();
    assert!(now().since(start) < Duration::from_secs(5));
}

pub(super) fn a_deadline_ends_a_wait<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.settle();
    let start = now();
    let deadline = start.after(Duration::from_millis(40));
    let mut waits = 0;
    while now() < deadline {
        rig.port.wait(Some(deadline)).unwrap();
        assert_eq!(rig.port.serve(&mut rig.handler).unwrap(), 0);
        waits += 1;
    }
    assert!(waits < 10, "it waits and does not spin: {waits}");
    assert!(now().since(start) < Duration::from_secs(2));
    // One that passed long ago.
    rig.port.wait(Some(nodens_engine::time::Instant(1))).unwrap();
}

pub(super) fn serving_does_not_block<P: Port>(open: Open<P>) {
    let mut rig = Rig::on(open, "127.0.0.1");
    rig.settle();
    for _ in 0..3 {
        assert_eq!(rig.port.serve(&mut rig.handler).unwrap(), 0);
    }
    // And it serves without a wait before it.
    let client = rig.client();
    client.send(b"query").unwrap();
    for _ in 0..1000 {
        if rig.port.serve(&mut rig.handler).unwrap() > 0 {
            break;
        }
    }
    assert_eq!(rig.handler.datagrams.len(), 1);
}
