//! The `local` step: names and addresses of the machine itself, which nobody else should be asked for (RFC 6303, 6761).

use nodens_wire::{Rcode, Rtype, Section};

use super::{Flow, StepName, Visit};
use crate::answer::{Answer, Bytes, Owner, Pick};
use crate::stats::WorkerStats;

/// The `local` step.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// `localhost.` in front of any name makes it one of the machine: a search list puts it there.
    pub localhost_prefix: bool,
}

const TTL_SECS: u32 = 604_800;
const LOCALHOST: &[u8] = b"\x09localhost\0";
const ZONES: [&[u8]; 4] = [
    LOCALHOST,
    b"\x010\x07in-addr\x04arpa\0",
    b"\x03127\x07in-addr\x04arpa\0",
    b"\x03255\x07in-addr\x04arpa\0",
];
const LOOPBACK: &[u8] = b"\x011\x010\x010\x03127\x07in-addr\x04arpa\0";
/// `localhost. root.localhost. 1 0 0 0 604800`
const SOA: &[u8] = b"\x09localhost\0\x04root\x09localhost\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\x3a\x80";

#[inline(never)]
pub(super) fn enter<'z>(local: Local, visit: &Visit<'_, 'z>, stats: &WorkerStats, answer: &mut Answer<'z>) -> Flow {
    let asked = visit.asked;
    let zone_at = zone_at(asked.folded);
    let is_below = zone_at.is_some_and(|at| at > 0 && asked.folded[at..] == *LOCALHOST);
    let has_prefix = local.localhost_prefix
        && asked.folded.len() > LOCALHOST.len()
        && asked.folded.starts_with(&LOCALHOST[..LOCALHOST.len() - 1]);
    if !is_below && !has_prefix && zone_at.is_none() {
        return Flow::Next;
    }
    if visit.is_first() && (is_below || has_prefix) {
        stats.localhost.add(1);
    }
    answer.by = Some(StepName::Local);
    let is_localhost = is_below || has_prefix || asked.folded == LOCALHOST;
    let is_apex = zone_at == Some(0);
    let found: Option<&'static [u8]> = match asked.rtype {
        Rtype::A if is_localhost => Some(&[127, 0, 0, 1]),
        Rtype::AAAA if is_localhost => Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        Rtype::SOA if is_apex => Some(SOA),
        Rtype::NS if is_apex => Some(LOCALHOST),
        Rtype::PTR if asked.folded == LOOPBACK => Some(LOCALHOST),
        _ => None,
    };
    let (section, owner, rtype, rdata) = match found {
        Some(rdata) => (Section::Answer, Owner::Question, asked.rtype, rdata),
        None if is_localhost || is_apex => (Section::Authority, Owner::Question, Rtype::SOA, SOA),
        None => {
            if asked.folded != LOOPBACK {
                answer.rcode = Rcode::NXDOMAIN;
            }
            let zone = &asked.name.as_bytes()[zone_at.unwrap_or(0)..];
            (Section::Authority, Owner::Name(answer.make(zone)), Rtype::SOA, SOA)
        }
    };
    answer.pick(
        section,
        Pick {
            owner,
            rtype,
            ttl: TTL_SECS,
            rdata: Bytes::Zone(rdata),
        },
    );
    Flow::Answered
}

/// How many bytes of a folded name stand in front of the zone of [`ZONES`] that holds it.
fn zone_at(name: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = name.get(at..)?;
        if ZONES.contains(&rest) {
            return Some(at);
        }
        match rest.first() {
            None | Some(0) => return None,
            Some(&len) => at += 1 + usize::from(len),
        }
    }
}
