//! The zones that show a cluster, and their SOA.

use nodens_wire::NameBuf;

use crate::zone::soa::Soa;

/// A zone that shows a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Apex {
    /// Its name.
    pub name: NameBuf,
    /// TTL of its SOA, in seconds.
    pub soa_ttl: u32,
    /// For how long it may be kept that there is nothing at a name, in seconds.
    pub minimum: u32,
    /// What its SOA names.
    pub authority: Authority,
}

/// What a SOA names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// `ns.dns.ZONE` and `hostmaster.ZONE`.
    Dns,
    /// `ns1.LABEL.ZONE` and `hostmaster.LABEL.ZONE`, the label in wire form.
    Below(Box<[u8]>),
}

impl Apex {
    pub(super) fn soa(&self, serial: u32) -> Soa {
        let apex = self.name.as_name();
        let soa = |names| Soa::new(apex, names, serial, self.soa_ttl, self.minimum);
        match &self.authority {
            Authority::Dns => soa([b"\x02ns\x03dns", b"\x0ahostmaster"]),
            Authority::Below(label) => soa([
                &[b"\x03ns1", &**label].concat(),
                &[b"\x0ahostmaster", &**label].concat(),
            ]),
        }
    }
}
