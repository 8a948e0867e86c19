//! The zones that show a cluster, and their SOA.

use nodens_wire::{NameBuf, Rtype, Section};

use crate::encode::{Template, ToRender};

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

/// The SOA of a zone, made anew for each serial.
#[derive(Debug)]
pub(crate) struct Soa {
    pub(super) ttl: u32,
    /// In wire form, nothing compressed.
    pub(super) rdata: Box<[u8]>,
    /// As it stands in the AUTHORITY of a negative answer.
    pub(super) negative: Option<Template>,
}

impl Apex {
    pub(super) fn soa(&self, serial: u32) -> Soa {
        let mut rdata = Vec::with_capacity(64);
        let (mname, rname) = match &self.authority {
            Authority::Dns => (b"\x02ns\x03dns".to_vec(), b"\x0ahostmaster".to_vec()),
            Authority::Below(label) => ([b"\x03ns1", &**label].concat(), [b"\x0ahostmaster", &**label].concat()),
        };
        for labels in [mname, rname] {
            rdata.extend_from_slice(&labels);
            rdata.extend_from_slice(self.name.as_bytes());
        }
        for number in [serial, 7200, 1800, 86_400, self.minimum] {
            rdata.extend_from_slice(&number.to_be_bytes());
        }
        let mut records = ToRender::new(self.name.as_name());
        records.add(
            Section::Authority,
            self.name.as_name(),
            Rtype::SOA,
            self.soa_ttl,
            &rdata,
        );
        let negative = Template::of(&records);
        Soa {
            ttl: self.soa_ttl,
            rdata: rdata.into(),
            negative,
        }
    }
}
