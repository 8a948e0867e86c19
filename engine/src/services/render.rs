//! What a service tree renders ahead: the answers of a lone service, and the zone's SOA.

use nodens_wire::{Name, Rtype, Section};

use super::answer;
use super::service::{Host, Service};
use super::tree::{ServiceTree, Soa};
use crate::answer::{Answer, Memory};
use crate::encode::{self, Prepared, Template, ToRender};
use crate::zone::absolute::absolute;

/// TTL of the SOA, which is also how long a negative answer may be kept, in seconds.
pub(crate) const SOA_TTL_SECS: u32 = 30;

/// The answers of a name with one service.
#[derive(Debug)]
pub(crate) struct Lone {
    rtype: Rtype,
    address: Prepared,
    srv: Option<Prepared>,
}

impl Lone {
    /// The answer of one type, if it was rendered.
    #[inline]
    pub(crate) fn prepared(&self, rtype: Rtype) -> Option<&Prepared> {
        if rtype == self.rtype {
            Some(&self.address)
        } else {
            self.srv.as_ref().filter(|_| rtype == Rtype::SRV)
        }
    }
}

/// Renders a lone service's answers. `None` where they need a look-up (its host is a name) or a clock (it has a
/// lease), and for the zone's own name, whose addresses stand elsewhere.
pub(super) fn lone(tree: &ServiceTree, service: &Service, labels: &[u8]) -> Option<Lone> {
    if service.bad || service.is_leased() || labels.is_empty() {
        return None;
    }
    let rtype = match service.host {
        Host::V4(_) => Rtype::A,
        Host::V6(_) => Rtype::AAAA,
        Host::Name(_) | Host::None => return None,
    };
    let name = absolute(labels, tree.apex())?;
    Some(Lone {
        rtype,
        address: prepared(tree, service, name.as_name(), rtype)?,
        srv: prepared(tree, service, name.as_name(), Rtype::SRV),
    })
}

fn prepared(tree: &ServiceTree, service: &Service, name: Name<'_>, rtype: Rtype) -> Option<Prepared> {
    let mut answer = Answer::new(Memory::default());
    answer::pick_lone(tree, service, rtype, &mut answer);
    let mut records = ToRender::new(name);
    for (section, picks) in [Section::Answer, Section::Additional].map(|s| (s, &answer.sections[s as usize])) {
        for pick in picks {
            let owner = match pick.owner {
                crate::answer::Owner::Question => name,
                crate::answer::Owner::Name(bytes) => Name::from_wire(answer.bytes(bytes)).ok()?,
            };
            records.add(section, owner, pick.rtype, pick.ttl, answer.bytes(pick.rdata));
        }
    }
    if answer.is_empty() {
        None
    } else {
        encode::prepare(&records)
    }
}

/// The SOA of a zone, with this serial.
pub(super) fn soa(apex: Name<'_>, serial: u32) -> Soa {
    let mut rdata = Vec::with_capacity(64);
    for label in [&b"\x02ns\x03dns"[..], b"\x0ahostmaster"] {
        rdata.extend_from_slice(label);
        rdata.extend_from_slice(apex.as_bytes());
    }
    for number in [serial, 7200, 1800, 86_400, 30] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    let mut records = ToRender::new(apex);
    records.add(Section::Authority, apex, Rtype::SOA, SOA_TTL_SECS, &rdata);
    let negative = Template::of(&records);
    Soa {
        rdata: rdata.into(),
        negative,
    }
}
