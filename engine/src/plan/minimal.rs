//! The `minimal` step: an answer leaves without AUTHORITY and ADDITIONAL.

use nodens_wire::{Opcode, Rcode, Rtype};

use super::{Asked, Client, is_servers_own};
use crate::answer::Answer;
use crate::encode::Prepared;

/// Denials and referrals live in AUTHORITY and stay whole.
#[inline(never)]
pub(super) fn leave(asked: &Asked<'_>, client: &Client<'_>, answer: &mut Answer<'_>) {
    let is_transfer = matches!(asked.rtype, Rtype::AXFR | Rtype::IXFR);
    if answer.rcode != Rcode::NOERROR
        || is_transfer
        || client.query.flags.opcode() == Opcode::NOTIFY
        || is_servers_own(answer)
    {
        return;
    }
    let [answers, authority, additional] = answer.begins();
    let has_data = answer.rendered.is_some() || answer.sections[0].len() > answers;
    let has_authority = answer.authority.is_some() || answer.sections[1].len() > authority;
    if !has_data && has_authority {
        return;
    }
    answer.authority = None;
    answer.rendered = answer.rendered.map(Prepared::without_additional);
    answer.sections[1].truncate(authority);
    answer.sections[2].truncate(additional);
}
