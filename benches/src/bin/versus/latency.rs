//! How long a question takes at a given rate: a client of our own, since dnsperf says no percentiles.

use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::CpuSet;

use crate::Result;
use crate::options::Options;
use crate::workload::{Mix, NAMES, Seeded};

/// One run against one server, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Questions without an answer.
    pub(crate) lost: usize,
}

/// Asks evenly, as many questions a second, for so long, from the client's core.
pub(crate) fn ask_evenly(port: u16, rate: u32, secs: u32, options: &Options) -> Result<Times> {
    let core = options.client_core;
    let asking = thread::spawn(move || {
        let mut cores = CpuSet::new();
        cores.set(core);
        rustix::thread::sched_setaffinity(None, &cores).map_err(|error| error.to_string())?;
        // A wait must not be prolonged by the 50 us that are usual.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(|error| error.to_string())?;
        ask(port, rate, secs).map_err(|error| error.to_string())
    });
    Ok(asking.join().map_err(|_| "the client panicked")??)
}

fn ask(port: u16, rate: u32, secs: u32) -> std::io::Result<Times> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(("127.0.0.1", port))?;
    socket.set_nonblocking(true)?;
    let mut seeded = Seeded::new(u64::from(port));
    let interval = Duration::from_secs(1) / rate;
    let total = rate * secs;
    let mut sent_at: Vec<Option<Instant>> = vec![None; 1 << 16];
    let mut took = Vec::with_capacity(total as usize);
    let begun = Instant::now();
    let mut sent = 0;
    let patience = Duration::from_secs(u64::from(secs) + 1);
    let mut reply = [0; 2048];
    while sent < total || (took.len() < total as usize && begun.elapsed() < patience) {
        while sent < total && begun.elapsed() >= interval * sent {
            let mut packet = Mix::A.packet(seeded.below(NAMES));
            packet[..2].copy_from_slice(&(sent as u16).to_be_bytes());
            sent_at[usize::from(sent as u16)] = Some(Instant::now());
            socket.send(&packet)?;
            sent += 1;
        }
        let next = if sent < total { interval * sent } else { patience };
        let left = next.saturating_sub(begun.elapsed());
        let wait = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait))?;
        while let Ok(len) = socket.recv(&mut reply) {
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            if len >= 12
                && let Some(at) = sent_at[usize::from(id)].take()
            {
                took.push(at.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    took.sort_by(f64::total_cmp);
    let part = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or(f64::NAN);
    Ok(Times {
        p50: part(50),
        p99: part(99),
        lost: total as usize - took.len(),
    })
}
