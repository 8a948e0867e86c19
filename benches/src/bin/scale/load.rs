//! Questions for the names of a cluster, and what becomes of them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nodens_benches::cluster::Shape;
use nodens_tests::load::{Asked, Load};
use nodens_tests::served::packet;

use crate::Result;

/// The first rate that is tried.
const RATE_MIN: u32 = 2_000;
/// The client's own end.
const RATE_MAX: u32 = 64_000;
/// A change that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long many answers took.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) p999: Duration,
    pub(crate) answered: usize,
    /// Without an answer, or with another rcode than NOERROR.
    pub(crate) failed: usize,
}

impl Figures {
    fn of(mut took: Vec<Duration>, failed: usize) -> Self {
        took.sort_unstable();
        let part = |thousandths: usize| took.get(took.len() * thousandths / 1_000).copied().unwrap_or_default();
        Self {
            p50: part(500),
            p99: part(990),
            p999: part(999),
            answered: took.len(),
            failed,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        write!(
            f,
            "p50 {:.0} us, p99 {:.0}, p99.9 {:.0}; {} answered, {} failed",
            us(self.p50),
            us(self.p99),
            us(self.p999),
            self.answered,
            self.failed
        )
    }
}

/// Asks so many a second for the addresses of all Services in turn.
pub(crate) fn ask_evenly(server: SocketAddr, shape: &Shape, rate: u32, time: Duration) -> Figures {
    let all = Load { rate, time }.ask(server, |number| {
        name(shape, number.wrapping_mul(7_919) % shape.services)
    });
    let is_answer = |asked: &&Asked| asked.took.is_some() && asked.rcode == 0;
    let took: Vec<Duration> = all.iter().filter(is_answer).filter_map(|asked| asked.took).collect();
    let failed = all.len() - took.len();
    Figures::of(took, failed)
}

/// Half of the highest rate that is answered without a loss.
pub(crate) fn half_of_most(server: SocketAddr, shape: &Shape) -> u32 {
    let mut rate = RATE_MIN;
    while rate < RATE_MAX {
        let found = ask_evenly(server, shape, rate * 2, Duration::from_secs(1));
        if found.failed > 0 || found.p50 > Duration::from_millis(2) {
            break;
        }
        rate *= 2;
    }
    rate / 2
}

/// How long changes take to be seen.
pub(crate) struct Visible {
    /// A question that waits for nothing.
    pub(crate) alone: Figures,
    pub(crate) visible: Figures,
}

/// Makes changes by `change`, and asks until each is in an answer, from when `change` returns.
pub(crate) fn visible_after(
    server: SocketAddr,
    shape: &Shape,
    changes: u32,
    mut change: impl FnMut(u32) -> Result<u32>,
) -> Result<Visible> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let headless: Vec<u32> = (0..shape.services)
        .filter(|&number| shape.is_headless(number))
        .collect();
    if headless.is_empty() {
        return Err("no headless Service".into());
    }
    let mut reply = [0; 4096];
    let mut ask = |name: &str, id: u16| -> Result<Vec<u8>> {
        socket.send(&packet(id, name, Some(4096)))?;
        let len = socket.recv(&mut reply)?;
        Ok(reply[..len].to_vec())
    };
    let (mut alone, mut visible) = (Vec::new(), Vec::new());
    for number in 0..changes {
        let service = headless[(number as usize * 7) % headless.len()];
        let question = format!("{} A", name(shape, service));
        let begun = Instant::now();
        ask(&question, number as u16)?;
        alone.push(begun.elapsed());

        let times = change(service)?;
        let begun = Instant::now();
        let endpoint = (times - 1) % shape.endpoints;
        let of_it = times.saturating_add(shape.endpoints - 1 - endpoint) / shape.endpoints;
        let address = shape.pod_address(shape.pod_of(service, endpoint), of_it).octets();
        while !ask(&question, number as u16)?.windows(4).any(|part| part == address) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{question} does not change").into());
            }
        }
        visible.push(begun.elapsed());
    }
    Ok(Visible {
        alone: Figures::of(alone, 0),
        visible: Figures::of(visible, 0),
    })
}

fn name(shape: &Shape, service: u32) -> String {
    format!("{}.svc.cluster.local.", shape.service_in_namespace(service))
}
