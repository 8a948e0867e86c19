//! The `chaos` step: what the server says of itself, in class CH.

use nodens_wire::{Rclass, Rtype, Section};
use rand::rngs::ChaCha8Rng;

use super::loadbalance::shuffle;
use super::{Asked, Flow, StepName};
use crate::answer::{Answer, Bytes, Owner, Pick};

/// The `chaos` step. Each text is the rdata of a TXT record.
#[derive(Debug)]
pub struct Chaos {
    /// For `version.bind` and `version.server`.
    pub version: Box<[u8]>,
    /// For `hostname.bind` and `id.server`.
    pub host: Box<[u8]>,
    /// For `authors.bind`, a record each.
    pub authors: Box<[Box<[u8]>]>,
}

#[inline(never)]
pub(super) fn enter<'z>(chaos: &'z Chaos, asked: &Asked<'_>, random: &mut ChaCha8Rng, answer: &mut Answer<'z>) -> Flow {
    if asked.rclass != Rclass::CH || asked.rtype != Rtype::TXT {
        return Flow::Next;
    }
    let texts = match asked.folded {
        b"\x07version\x04bind\0" | b"\x07version\x06server\0" => std::slice::from_ref(&chaos.version),
        b"\x08hostname\x04bind\0" | b"\x02id\x06server\0" => std::slice::from_ref(&chaos.host),
        b"\x07authors\x04bind\0" => &chaos.authors,
        _ => return Flow::Next,
    };
    answer.by = Some(StepName::Chaos);
    answer.rclass = Rclass::CH;
    for text in texts {
        answer.pick(
            Section::Answer,
            Pick {
                owner: Owner::Question,
                rtype: Rtype::TXT,
                ttl: 0,
                rdata: Bytes::Zone(text),
            },
        );
    }
    let [from, ..] = answer.begins();
    shuffle(&mut answer.sections[0][from..], random);
    Flow::Answered
}
