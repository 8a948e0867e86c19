//! The `any` step: questions of type ANY get a record that says so (RFC 8482 §4.2).

use nodens_wire::{Rtype, Section};

use super::{Asked, Flow, StepName};
use crate::answer::{Answer, Bytes, Owner, Pick};

const HINFO: &[u8] = b"\x0dANY obsoleted\x0cSee RFC 8482";
const TTL_SECS: u32 = 8482;

#[inline(never)]
pub(super) fn enter(asked: &Asked<'_>, answer: &mut Answer<'_>) -> Flow {
    if asked.rtype != Rtype::ANY {
        return Flow::Next;
    }
    answer.by = Some(StepName::Any);
    answer.pick(
        Section::Answer,
        Pick {
            owner: Owner::Question,
            rtype: Rtype::HINFO,
            ttl: TTL_SECS,
            rdata: Bytes::Zone(HINFO),
        },
    );
    Flow::Answered
}
