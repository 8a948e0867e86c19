//! Replies that are only copied: header and question, what was prepared, records that need no name compressed, a plain OPT.
//! Nearly all replies of zones are.

use arrayvec::ArrayVec;
use nodens_wire::rdata::has_names;
use nodens_wire::{Flags, HEADER_LEN, Query, Rclass, Rtype, edns, record_front};

use super::{POINTER, Prepared, SRV_FIXED_LEN, Written};
use crate::answer::{Answer, Bytes, Owner, Pick, Tail};
use crate::edns::ReplyOpt;

/// Type, class, TTL and the length of the data.
const FIELDS_LEN: usize = 10;
/// A pointer to the name of the question.
const QUESTION: u16 = POINTER | HEADER_LEN as u16;

/// Targets of SRV records: their place in [`Answer::made`], and a pointer to where they stand in the message.
type Targets = ArrayVec<(u32, u16), 32>;

/// `None` where there is more to it, or not enough room.
#[inline]
pub(super) fn write(
    query: &Query<'_>,
    answer: &Answer<'_>,
    flags: Flags,
    opt: Option<&ReplyOpt>,
    limit: usize,
    room: &mut [u8],
) -> Option<Written> {
    let [answers, authority, additional] = &answer.sections;
    if !authority.is_empty() || opt.is_some_and(|opt| !opt.is_plain()) {
        return None;
    }
    let limit = limit.min(room.len());
    let (head, rest) = room.get_mut(..limit)?.split_first_chunk_mut()?;
    let question = query.question();
    let (_, mut rest) = put(rest, question)?;
    let mut plain_len = HEADER_LEN + question.len();
    let mut targets = Targets::new_const();
    let mut counts = [1, 0, 0, 0];
    if let Some(Prepared { answer, shape, .. }) = &answer.rendered {
        (_, rest) = put(rest, answer)?;
        counts[1] = shape.answer_count;
        plain_len += usize::from(shape.answer_plain);
    }
    if !answers.is_empty() {
        let plain;
        (rest, plain) = own(answer, query.qname.len(), limit, rest, &mut targets)?;
        counts[1] += answers.len() as u16;
        plain_len += plain;
    }
    if let Some(Tail { template, apex_at }) = answer.authority {
        let behind = limit - rest.len() - usize::from(template.begin);
        let place;
        (place, rest) = put(rest, &template.bytes)?;
        template.move_to(apex_at, behind, place);
        counts[2] = template.count;
        plain_len += usize::from(template.plain_len);
    }
    if let Some(Prepared { additional, shape, .. }) = &answer.rendered
        && shape.additional_count > 0
    {
        (_, rest) = put(rest, additional)?;
        counts[3] = shape.additional_count;
        plain_len += usize::from(shape.additional_plain);
    }
    if !additional.is_empty() {
        let plain;
        (rest, plain) = of_targets(answer, rest, &targets)?;
        counts[3] += additional.len() as u16;
        plain_len += plain;
    }
    if let Some(opt) = opt {
        (_, rest) = put(rest, &edns::opt_front(opt.udp_size, answer.rcode, opt.dnssec_ok, 0))?;
        counts[3] += 1;
    }
    *head = header(query.id, flags, counts);
    Some(Written {
        len: (limit - rest.len()) as u32,
        plain_len: plain_len as u32,
        flags: flags.0,
        whole: true,
    })
}

/// The picks of ANSWER, all of the name that was asked for; returns what is left of the room, and how long they would be with
/// no name compressed.
#[inline(never)]
fn own<'r>(
    answer: &Answer<'_>,
    qname_len: usize,
    limit: usize,
    mut rest: &'r mut [u8],
    targets: &mut Targets,
) -> Option<(&'r mut [u8], usize)> {
    let mut plain_len = 0;
    for pick in &answer.sections[0] {
        let Owner::Question = pick.owner else { return None };
        let rdata = answer.bytes(pick.rdata);
        rest = record(rest, QUESTION, pick, answer.rclass, rdata)?;
        plain_len += qname_len + FIELDS_LEN + rdata.len();
        if has_names(pick.rtype) {
            // A target is never compressed (RFC 2782), and what is made for this answer can be pointed to.
            let (Rtype::SRV, Bytes::Made { at, .. }) = (pick.rtype, pick.rdata) else {
                return None;
            };
            let target_at = limit - rest.len() - rdata.len().checked_sub(SRV_FIXED_LEN)?;
            let pointer = u16::try_from(target_at).ok().filter(|at| at >> 14 == 0)? | POINTER;
            targets.try_push((at + SRV_FIXED_LEN as u32, pointer)).ok()?;
        }
    }
    Some((rest, plain_len))
}

/// The picks of ADDITIONAL, all of targets; returns the same.
#[inline(never)]
fn of_targets<'r>(answer: &Answer<'_>, mut rest: &'r mut [u8], targets: &Targets) -> Option<(&'r mut [u8], usize)> {
    let mut plain_len = 0;
    for pick in &answer.sections[2] {
        let Owner::Name(Bytes::Made { at, len }) = pick.owner else {
            return None;
        };
        let (_, pointer) = *targets.iter().find(|(target, _)| *target == at)?;
        let rdata = answer.bytes(pick.rdata);
        if has_names(pick.rtype) {
            return None;
        }
        rest = record(rest, pointer, pick, answer.rclass, rdata)?;
        plain_len += usize::from(len) + FIELDS_LEN + rdata.len();
    }
    Some((rest, plain_len))
}

/// One record behind a pointer to its owner; returns what is left of the room.
#[inline(always)]
fn record<'r>(room: &'r mut [u8], pointer: u16, pick: &Pick<'_>, rclass: Rclass, rdata: &[u8]) -> Option<&'r mut [u8]> {
    let len = u16::try_from(rdata.len()).ok()?;
    let front = record_front(pointer, pick.rtype, rclass, pick.ttl, len);
    if let Ok(octets) = rdata.try_into() {
        let (place, rest) = room.split_first_chunk_mut()?;
        *place = (front | u128::from(u32::from_be_bytes(octets))).to_be_bytes();
        return Some(rest);
    }
    let [front @ .., _, _, _, _] = front.to_be_bytes();
    let (place, rest) = room.split_first_chunk_mut()?;
    *place = front;
    put(rest, rdata).map(|(_, rest)| rest)
}

/// Copies some bytes to the front of a room, if they fit, and tells where they stand and what is left. A few go without
/// a call, as two halves that may overlap.
#[inline(always)]
fn put<'a>(room: &'a mut [u8], part: &[u8]) -> Option<(&'a mut [u8], &'a mut [u8])> {
    fn halves<const N: usize>(place: &mut [u8], part: &[u8]) -> Option<()> {
        *place.first_chunk_mut::<N>()? = *part.first_chunk()?;
        *place.last_chunk_mut::<N>()? = *part.last_chunk()?;
        Some(())
    }
    let (place, rest) = room.split_at_mut_checked(part.len())?;
    match part.len() {
        8..16 => _ = halves::<8>(place, part),
        16..=32 => _ = halves::<16>(place, part),
        33..=64 => _ = halves::<32>(place, part),
        _ => place.copy_from_slice(part),
    }
    Some((place, rest))
}

fn header(id: u16, flags: Flags, counts: [u16; 4]) -> [u8; HEADER_LEN] {
    let [questions, answers, authorities, additionals] = counts.map(u16::to_be_bytes);
    let (id, flags) = (id.to_be_bytes(), flags.0.to_be_bytes());
    let mut head = [0; HEADER_LEN];
    head.copy_from_slice([id, flags, questions, answers, authorities, additionals].as_flattened());
    head
}
