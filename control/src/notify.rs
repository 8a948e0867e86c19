//! NOTIFY to others: a zone has a new version (RFC 1996).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nodens_wire::{Flags, Name, NameBuf, Opcode, Rcode, Rtype};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::corefile::settings::Transfer;
use crate::exchange::{any_source, exchange};
use crate::output;

/// Servers that are told at once; the others wait.
const NOTIFIES_MAX: usize = 64;
/// How often a server is told.
const TRIES: usize = 3;
/// From one notification of a server to the next, where versions follow one another.
const EVERY: Duration = Duration::from_secs(1);

/// Closed until the server answers: who is told comes back at once.
static NOTIFIES: Semaphore = Semaphore::const_new(0);

/// Lets notifications go out from now on; to be called once.
pub fn open() {
    NOTIFIES.add_permits(NOTIFIES_MAX);
}

/// Whom to tell that a zone has a new version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notify {
    /// The zone.
    pub zone: NameBuf,
    /// The servers.
    pub to: Vec<SocketAddr>,
    /// The address to tell it from.
    pub source: Option<IpAddr>,
}

impl Notify {
    /// Somebody may have the whole zone.
    pub fn is_handed_out(transfer: &[Transfer], zone: &NameBuf) -> bool {
        let mut zones = transfer.iter().flat_map(|stanza| &stanza.zones);
        zones.any(|own| zone.as_name().is_within(own.as_name()))
    }

    /// Who is told of a new version of a zone: the servers of the stanza of `transfer` that decides for it.
    pub fn of(transfer: &[Transfer], zone: &NameBuf) -> Option<Self> {
        let holds = |own: &&NameBuf| zone.as_name().is_within(own.as_name());
        let longest = |stanza: &&Transfer| stanza.zones.iter().filter(holds).map(|own| own.as_bytes().len()).max();
        // Of equally long ones the first decides, and the last is what `max_by_key` would find.
        let stanza = transfer
            .iter()
            .rev()
            .filter(|stanza| longest(stanza).is_some())
            .max_by_key(longest)?;
        (!stanza.to.is_empty()).then(|| Self {
            zone: zone.clone(),
            to: stanza.to.clone(),
            source: stanza.source,
        })
    }

    /// Tells all of them, in the background. To be called inside the runtime.
    pub fn send(&self) {
        for &server in &self.to {
            let Self { zone, source, .. } = self.clone();
            tokio::spawn(tell_or_warn(zone, server, source));
        }
    }

    /// Tells each of them of new versions for as long as what is returned lives: of those that come within `EVERY`, or
    /// before it has answered, the last alone. To be called inside the runtime.
    pub fn follow(all: &[Self], versions: &watch::Sender<()>) -> JoinSet<()> {
        let mut telling = JoinSet::new();
        for Self { zone, to, source } in all {
            for &server in to {
                let (zone, source, mut versions) = (zone.clone(), *source, versions.subscribe());
                telling.spawn(async move {
                    while versions.changed().await.is_ok() {
                        tell_or_warn(zone.clone(), server, source).await;
                        sleep(EVERY).await;
                    }
                });
            }
        }
        telling
    }
}

async fn tell_or_warn(zone: NameBuf, server: SocketAddr, source: Option<IpAddr>) {
    let Ok(_turn) = NOTIFIES.acquire().await else { return };
    if let Err(why) = tell(zone.as_name(), server, source).await {
        output::warning(&format!(
            "plugin/transfer: notify for zone \"{zone}\" was not accepted by \"{server}\": {why}"
        ));
    }
}

async fn tell(zone: Name<'_>, server: SocketAddr, source: Option<IpAddr>) -> Result<(), String> {
    let source = source.unwrap_or_else(|| any_source(server));
    let flags = Flags(0).with_opcode(Opcode::NOTIFY).with_aa(true);
    let mut why = String::new();
    for _ in 0..TRIES {
        why = match exchange(zone, Rtype::SOA, flags, server, source).await {
            Ok(Rcode::NOERROR) => return Ok(()),
            Ok(rcode) => format!("rcode was \"{rcode}\""),
            Err(error) => format!("\"{error}\""),
        };
    }
    Err(why)
}
