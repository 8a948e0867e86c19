//! What a service tree renders ahead: the answers of a lone service, and the zone's SOA.

use nodens_wire::{Name, Rtype, Section};

use super::answer;
use super::service::{Host, Service};
use super::tree::ServiceTree;
use crate::answer::{Answer, Memory, Owner};
use crate::encode::{Prepared, PreparedBuf, ToRender};
use crate::zone::absolute::absolute;
use crate::zone::soa::Soa;

/// TTL of the SOA, which is also how long a negative answer may be kept, in seconds.
pub(crate) const SOA_TTL_SECS: u32 = 30;

/// The answers of a name with one service: its address, and its SRV.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lone {
    rtype: Rtype,
    answers: PreparedBuf<2>,
}

impl Lone {
    /// The answer of one type, if it was rendered.
    #[inline]
    pub(super) fn prepared(&self, rtype: Rtype) -> Option<Prepared<'_>> {
        if rtype == self.rtype {
            self.answers.get(0)
        } else if rtype == Rtype::SRV {
            self.answers.get(1)
        } else {
            None
        }
    }

    /// The same for a name that is so many bytes shorter than the one it was rendered for.
    pub(super) fn prepared_above(&self, rtype: Rtype, shorter: usize) -> Option<Prepared<'_>> {
        // The address of an SRV is tied to the name as it stands in the question.
        let prepared = (rtype == self.rtype).then(|| self.answers.get(0)).flatten()?;
        Some(prepared.for_shorter(shorter as u16))
    }

    #[inline]
    pub(super) fn touch(&self) {
        self.answers.touch();
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
    let picked = [rtype, Rtype::SRV].map(|rtype| {
        let mut answer = Answer::new(Memory::default());
        answer::pick_lone(tree, service, rtype, &mut answer);
        answer
    });
    let [address, srv] = picked.each_ref().map(|answer| to_render(answer, name.as_name()));
    Some(Lone {
        rtype,
        answers: PreparedBuf::of([address.as_ref(), srv.as_ref()]),
    })
}

fn to_render<'a>(answer: &'a Answer<'a>, name: Name<'a>) -> Option<ToRender<'a>> {
    let mut records = ToRender::new(name);
    for section in [Section::Answer, Section::Additional] {
        for pick in &answer.sections[section as usize] {
            let owner = match pick.owner {
                Owner::Question => name,
                Owner::Name(bytes) => Name::from_wire(answer.bytes(bytes)).ok()?,
            };
            records.add(section, owner, pick.rtype, pick.ttl, answer.bytes(pick.rdata));
        }
    }
    (!answer.is_empty()).then_some(records)
}

/// The SOA of a zone, with this serial.
pub(super) fn soa(apex: Name<'_>, serial: u32) -> Soa {
    Soa::new(
        apex,
        [b"\x02ns\x03dns", b"\x0ahostmaster"],
        serial,
        SOA_TTL_SECS,
        SOA_TTL_SECS,
    )
}
