//! What the kernel denies, takes away or gives later: each fact is said once, in plain words, and shown as a metric.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nodens_engine::io::{CounterValues, Counters, PortKind, is_local};

use crate::admin::text::{Kind, Page};
use crate::{output, pages, workers};

/// How often it is looked at; also how long an address that comes is served before that is said.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type PortCounter = fn(CounterValues) -> u64;

/// What a port counts, and what is said when it counts for the first time.
const SAID_ONCE: [(PortCounter, &str); 3] = [
    (
        |port| port.buffers_exhausted,
        "io_uring had no buffer left for a moment; datagrams waited in their socket. \
         nodens_udp_buffers_exhausted_total counts such moments",
    ),
    (
        |port| port.completions_overflowed,
        "io_uring's completion queue was full for a moment; nothing is lost. \
         nodens_port_completions_overflowed_total counts such moments",
    ),
    (
        |port| port.accepts_starved,
        "no file descriptor or memory left for a connection; it waits until there is. Raise the limit of open files \
         (`ulimit -n`, LimitNOFILE=). nodens_stream_accepts_starved_total counts the attempts",
    ),
];

/// The facts of this process.
#[derive(Debug, Default)]
pub struct Facts {
    ports: Vec<Arc<Counters>>,
    listening: Mutex<Vec<Listening>>,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    /// The host has it.
    is_local: bool,
}

impl Facts {
    /// About these ports.
    pub fn new(ports: Vec<Arc<Counters>>) -> Self {
        Self {
            ports,
            listening: Mutex::default(),
        }
    }

    /// From now on these are the addresses that are listened on. Those that the host does not have are said, unless they
    /// were known before.
    pub fn listen(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Vec::new();
        for address in addresses.into_iter().filter(|address| !address.ip().is_unspecified()) {
            let was_local = listening
                .iter()
                .find(|old| old.address == address)
                .map(|old| old.is_local);
            let is_local = was_local.unwrap_or_else(|| is_local(address));
            if was_local.is_none() && !is_local {
                output::warning(&format!(
                    "no interface of this host has the address of {address} yet; it is answered there as soon as one has"
                ));
            }
            now.push(Listening { address, is_local });
        }
        *listening = now;
    }

    /// Looks at them until the runtime ends.
    pub async fn follow(self: Arc<Self>) {
        let mut said = [false; SAID_ONCE.len()];
        self.say_ways();
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            look.tick().await;
            for ((count, text), said) in SAID_ONCE.iter().zip(&mut said) {
                if !*said && self.ports.iter().any(|port| count(port.read()) > 0) {
                    *said = true;
                    output::warning(text);
                }
            }
            self.look_at_addresses();
            workers::look_at_cores();
        }
    }

    /// A kernel that denies io_uring to the process has said so before any worker tried.
    fn say_ways(&self) {
        let denied: Vec<_> = self
            .ports
            .iter()
            .filter_map(|port| port.way()?.denied.as_ref())
            .collect();
        if let Some(first) = denied.first() {
            let (some, all) = (denied.len(), self.ports.len());
            output::info(&format!("{first}; {some} of {all} workers use recvmmsg and sendmmsg"));
        }
    }

    /// Says which have come. One that goes again is not said: services move addresses to and fro.
    fn look_at_addresses(&self) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        for Listening {
            address,
            is_local: known,
        } in &mut *listening
        {
            if !*known && is_local(*address) {
                *known = true;
                output::info(&format!("the address of {address} has come and is answered"));
            }
        }
    }

    /// Adds them to the page.
    pub(crate) fn show(&self, page: &mut Page) {
        let mut workers = page.family("nodens_workers", Kind::Gauge, "Workers, by their way to the kernel.");
        for (io, kind) in [("mmsg", PortKind::Mmsg), ("uring", PortKind::Uring)] {
            let is_kind = |port: &&Arc<Counters>| port.way().is_some_and(|way| way.kind == kind);
            workers.sample(&[("io", io)], self.ports.iter().filter(is_kind).count());
        }
        let (on_their_core, pinned) = workers::pinned();
        page.single(
            "nodens_workers_pinned",
            Kind::Gauge,
            "Workers that have a core for themselves.",
            on_their_core,
        );
        page.single(
            "nodens_workers_displaced",
            Kind::Gauge,
            "Workers whose core is offline.",
            pinned - on_their_core,
        );
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = listening.iter().filter(|listening| !is_local(listening.address));
        page.single(
            "nodens_listen_addresses_absent",
            Kind::Gauge,
            "Addresses of the Corefile that the host does not have.",
            absent.count(),
        );
        page.single(
            "nodens_huge_pages_bytes",
            Kind::Gauge,
            "Memory that was moved to huge pages.",
            pages::on_huge_pages(),
        );
        page.single(
            "nodens_log_lost_total",
            Kind::Counter,
            "Lines that standard output did not take.",
            output::lost(),
        );
    }
}
