//! `loop`: the server asks itself for a name that nobody else can know. Where that comes back a second time, the engine
//! takes out the upstream that it was sent to, and here it is told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nodens_engine::forward::{Canary, Returned};
use nodens_wire::{Flags, NameBuf, Rtype};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::exchange::{any_source, exchange};
use crate::forward::Stanzas;
use crate::output;
use crate::random::random;

/// Questions that are sent at most.
const TRIES: usize = 30;
/// Between two of them.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long it may take to come back once it is answered.
const LINGER: Duration = Duration::from_secs(2);

/// The `loop` of a block.
#[derive(Clone, Debug)]
pub struct Probed {
    /// What its plan waits for.
    pub canary: Arc<Canary>,
    /// Its first zone.
    pub zone: NameBuf,
    /// Where it listens first.
    pub address: SocketAddr,
    /// The same as CoreDNS writes it: without an address where the block is not bound to one.
    listener: String,
}

/// The probes of a configuration; they end with it.
#[derive(Debug, Default)]
pub struct Loops {
    _tasks: JoinSet<()>,
}

impl Loops {
    /// Probes what is served now. Upstreams that were taken out before have another chance: who reloads may have mended them.
    pub fn start(probed: Vec<Probed>, stanzas: &Stanzas) -> Self {
        for upstream in stanzas.all().flat_map(|stanza| &stanza.settings().upstreams) {
            upstream.put_back();
        }
        Self {
            _tasks: probed.into_iter().map(Probed::run).collect(),
        }
    }
}

impl Probed {
    /// The probe of a block that listens there; every address is reached by that of the machine itself.
    pub fn new(canary: Arc<Canary>, zone: NameBuf, mut address: SocketAddr, is_bound: bool) -> Self {
        let listener = if is_bound {
            address.to_string()
        } else {
            format!(":{}", address.port())
        };
        match address.ip() {
            IpAddr::V6(ip) if ip.is_unspecified() && is_bound => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            ip if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            _ => {}
        }
        Self {
            canary,
            zone,
            address,
            listener,
        }
    }

    async fn run(self) {
        let Self {
            canary, zone, address, ..
        } = &self;
        for _ in 0..TRIES {
            // A new name each time: one that was lost on its way may still come.
            let Some(name) = self.name() else {
                output::warning(&format!(
                    "plugin/loop: zone \"{zone}\" is too long to look for loops in it"
                ));
                return;
            };
            canary.fly(name.clone());
            let flags = Flags(0).with_rd(true);
            let source = any_source(*address);
            let answered = exchange(name.as_name(), Rtype::HINFO, flags, *address, source).await;
            let is_returned = self.tell(&name);
            if answered.is_ok() && !is_returned {
                sleep(LINGER).await;
                if !self.tell(&name) {
                    break;
                }
            } else if !is_returned {
                sleep(AGAIN_AFTER).await;
            }
        }
        canary.land();
    }

    /// `<random>.<random>.<zone>`
    fn name(&self) -> Option<NameBuf> {
        let zone = if self.zone.as_name().is_root() {
            String::new()
        } else {
            self.zone.to_string()
        };
        NameBuf::from_text(&format!("{}.{}.{zone}", random() >> 2, random() >> 2)).ok()
    }

    /// Says that the question came back, if it did.
    fn tell(&self, name: &NameBuf) -> bool {
        let Some(Returned { client, upstream }) = self.canary.returned() else {
            return false;
        };
        let Self { zone, listener, .. } = self;
        let mend = match upstream {
            Some(upstream) => format!(
                "What is forwarded to {upstream} comes back, so it is not asked any more: name another server in `forward`, \
                 or have that one ask somebody else, and reload"
            ),
            None => "What is forwarded comes back: name other servers in `forward`, and reload".to_owned(),
        };
        output::error(&format!(
            "plugin/loop: Loop ({client} -> {listener}) detected for zone \"{zone}\", see \
             https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO {name}\". {mend}"
        ));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_and_where() {
        let probed = |zone: &str, address: &str, is_bound| {
            let zone = NameBuf::from_text(zone).unwrap();
            Probed::new(Arc::default(), zone, address.parse().unwrap(), is_bound)
        };
        let own = probed("cedar.example.", "[::]:53", false);
        assert_eq!(
            (own.address.to_string(), &*own.listener),
            ("127.0.0.1:53".to_owned(), ":53")
        );
        assert_eq!(probed(".", "192.0.2.1:53", true).listener, "192.0.2.1:53");
        assert_eq!(probed(".", "[::]:53", true).address.to_string(), "[::1]:53");
        assert_eq!(probed(".", "192.0.2.1:53", true).address.to_string(), "192.0.2.1:53");
        let (name, other) = (own.name().unwrap(), own.name().unwrap());
        assert!(name.as_name().is_within(own.zone.as_name()) && name != other);
        let text = probed(".", "127.0.0.1:53", true).name().unwrap().to_string();
        let numbers: Vec<u64> = text.split_terminator('.').map(|label| label.parse().unwrap()).collect();
        assert!(numbers.len() == 2 && numbers.iter().all(|number| *number < 1 << 62));
        let long = [["x"; 60].concat().as_str(); 4].join(".");
        assert_eq!(probed(&long, "127.0.0.1:53", true).name(), None);
    }
}
