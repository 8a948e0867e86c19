//! What every [`nodens_engine::io::Port`] over the kernel must do, as one generic function.
//!
//! Each rule gets a port of its own on the loopback addresses. Server and clients run on one thread, which is what
//! makes the order of things certain; only a wake-up needs another.
#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod datagrams;
mod descriptors;
mod rig;
mod sockets;
mod streams;
mod upstreams;
mod waiting;

pub use descriptors::accepting_survives_a_want_of_descriptors;

use std::io;
use std::sync::Arc;

use nodens_engine::io::{Counters, ListenerSockets, Sockets, Waker};

/// How to open the port in question.
pub type Open<P> = fn(Vec<ListenerSockets>, &Waker, &Arc<Counters>) -> io::Result<P>;

type Rule<P> = (&'static str, fn(Open<P>));

/// Checks every rule, and names each before it starts, so that the last one named is the one that failed.
pub fn check<P: Sockets>(open: Open<P>) {
    let rules: [Rule<P>; _] = [
        ("one datagram is answered", datagrams::one_is_answered),
        ("no reply sends nothing", datagrams::no_reply_sends_nothing),
        ("many come in batches", datagrams::many_come_in_batches),
        ("an oversized query is cut and marked", datagrams::oversized_is_cut),
        (
            "a long reply leaves by an effect",
            datagrams::long_replies_leave_by_effect,
        ),
        (
            "late replies leave with the next wait",
            datagrams::late_replies_leave_with_the_next_wait,
        ),
        ("a burst while busy is served later", datagrams::a_burst_is_served_later),
        ("a burst on many sockets is served", datagrams::a_burst_on_many_sockets),
        ("what the kernel dropped is counted", datagrams::drops_are_counted),
        (
            "a reply leaves from the address asked",
            datagrams::replies_leave_from_the_address_asked,
        ),
        ("IPv6 and its wildcard", datagrams::ipv6_and_its_wildcard),
        (
            "a wildcard with sockets of its own",
            datagrams::a_wildcard_with_sockets_of_its_own,
        ),
        ("listeners are told apart", datagrams::listeners_are_told_apart),
        (
            "clients that cannot be answered harm nobody",
            datagrams::unreachable_clients_harm_nobody,
        ),
        ("a group shares its clients", datagrams::a_group_shares_its_clients),
        ("a closed port lets its addresses go", datagrams::a_closed_port_lets_go),
        ("a wake-up ends a wait", waiting::a_wake_up_ends_a_wait),
        (
            "an earlier wake-up ends the next wait",
            waiting::an_earlier_wake_up_counts,
        ),
        ("a deadline ends a wait", waiting::a_deadline_ends_a_wait),
        ("serving does not block", waiting::serving_does_not_block),
        ("streams open, answer and close", streams::open_answer_close),
        ("pipelined queries are answered in one write", streams::pipelined),
        ("partial frames arrive whole", streams::partial_frames),
        (
            "more than one read is handed over in turns",
            streams::more_than_one_read,
        ),
        ("a half-closed client is still answered", streams::half_closed),
        ("a reset ends one stream", streams::reset),
        ("a slow reader gets everything", streams::slow_reader),
        ("a reader that never reads is closed", streams::never_reads),
        ("a paused stream is left alone", streams::paused),
        ("paced answers are asked for by writable", streams::paced),
        ("writes keep their order", streams::writes_keep_order),
        (
            "closing with unread bytes loses no answer",
            streams::closing_loses_nothing,
        ),
        ("told twice to close, it closes at once", streams::closed_twice),
        ("effects on streams that are gone do nothing", streams::gone_is_harmless),
        ("many clients come and go", streams::many_clients),
        ("addresses of a wildcard's streams", streams::addresses_of_a_wildcard),
        ("our own streams connect", streams::ours_connect),
        ("our own streams that are refused close", streams::ours_refused),
        ("upstream sockets ask and hear", upstreams::ask_and_hear),
        ("upstream failures are reported", upstreams::failures_are_reported),
        ("upstream sockets have ports of their own", upstreams::ports_differ),
        (
            "sockets of our own come from the address given",
            upstreams::a_source_address_is_kept,
        ),
        ("retired upstream sockets are silent", upstreams::retired_are_silent),
        ("many upstream replies are all handed over", upstreams::many_replies),
        (
            "what nobody waits for comes with the next reply",
            upstreams::nobody_waits,
        ),
    ];
    let comings_and_goings: [Rule<P>; _] = [
        ("a listener is added", sockets::one_is_added),
        (
            "what a retired listener holds is answered",
            sockets::what_a_retired_one_holds_is_answered,
        ),
        ("a drained port ends", sockets::a_drained_port_ends),
        (
            "copies serve on when a port is released",
            sockets::copies_serve_on_when_it_is_released,
        ),
    ];
    for (rule, check) in rules.into_iter().chain(comings_and_goings) {
        println!("{rule}");
        check(open);
    }
}
