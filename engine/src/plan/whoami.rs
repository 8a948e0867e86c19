//! The `whoami` step: the client's address and port, in ADDITIONAL.

use nodens_wire::{Rtype, Section};
use std::net::IpAddr;

use super::{Flow, StepName, Visit};
use crate::answer::{Answer, Bytes, Owner, Pick};

#[inline(never)]
pub(super) fn enter<'z>(visit: &Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    answer.aa = true;
    answer.rclass = visit.asked.rclass;
    answer.by = Some(StepName::Whoami);
    let (rtype, address) = match visit.client.address() {
        IpAddr::V4(address) => (Rtype::A, answer.make(&address.octets())),
        IpAddr::V6(address) => (Rtype::AAAA, answer.make(&address.octets())),
    };
    answer.pick(
        Section::Additional,
        Pick {
            owner: Owner::Question,
            rtype,
            ttl: 0,
            rdata: address,
        },
    );
    let name = answer.make_with(|made| {
        made.extend_from_slice(if visit.client.origin.is_stream() {
            b"\x04_tcp"
        } else {
            b"\x04_udp"
        });
        made.extend_from_slice(visit.asked.name.as_bytes());
    });
    let [high, low] = visit.client.port().to_be_bytes();
    let srv = answer.make(&[0, 0, 0, 0, high, low, 0]);
    if let Bytes::Made { len: ..=255, .. } = name {
        answer.pick(
            Section::Additional,
            Pick {
                owner: Owner::Name(name),
                rtype: Rtype::SRV,
                ttl: 0,
                rdata: srv,
            },
        );
    }
    Flow::Answered
}
