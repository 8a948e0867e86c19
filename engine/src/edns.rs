//! Our side of EDNS: what the OPT of a reply says. It is never a copy of the client's (RFC 6891 §6.2.3, RFC 5001, RFC
//! 7828, RFC 7830, RFC 8914).

use std::sync::Arc;

use arrayvec::ArrayVec;
use nodens_wire::{Opt, Query, Rcode, edns};

use crate::answer::{Answer, Reason, ShownOptions};
use crate::plan::Plan;
use crate::responder::Origin;

/// The UDP size that our OPT offers, in bytes: what passes everywhere without fragments.
pub(crate) const UDP_SIZE: u16 = 1232;
/// Most EDNS options of a reply.
pub(crate) const OPTIONS_MAX: usize = 4;

/// The OPT of a reply.
#[derive(Clone, Debug)]
pub(crate) struct ReplyOpt {
    /// The largest UDP message that we take.
    pub(crate) udp_size: u16,
    /// Copied from the query.
    pub(crate) dnssec_ok: bool,
    /// The server's name for itself (RFC 5001), where it was asked for.
    pub(crate) nsid: Option<Arc<[u8]>>,
    /// Code and value of each other option.
    pub(crate) options: ArrayVec<(u16, ArrayVec<u8, 8>), OPTIONS_MAX>,
    /// The extended error of a server that was asked.
    pub(crate) told_error: Option<Box<[u8]>>,
    /// What `rewrite` set in the question and lets the reply show.
    pub(crate) rewritten: Option<ShownOptions>,
    /// The message is filled up to a whole number of blocks.
    pub(crate) is_padded: bool,
}

/// What padded replies are a multiple of, in bytes (RFC 8467 §4.1).
const PADDING_BLOCK: usize = 468;

impl ReplyOpt {
    pub(crate) fn all_options(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let nsid = self.nsid.as_deref().map(|data| (edns::NSID, data));
        let told = self.told_error.as_deref().map(|error| (edns::EDE, error));
        nsid.into_iter()
            .chain(told)
            .chain(self.options.iter().map(|(code, value)| (*code, &value[..])))
            .chain(self.rewritten.iter().flatten().map(|(code, value)| (*code, &value[..])))
    }

    pub(crate) fn len(&self) -> usize {
        self.all_options().fold(edns::OPT_LEN, |len, (_, value)| {
            len + edns::OPTION_HEAD_LEN + value.len()
        }) + if self.is_padded { edns::OPTION_HEAD_LEN } else { 0 }
    }

    /// The zeros that a message of `len` bytes lacks, of which the client takes no more than `limit`.
    pub(crate) fn padding(&self, len: usize, limit: usize) -> Option<(u16, &'static [u8])> {
        let lacks = len.next_multiple_of(PADDING_BLOCK).min(limit).saturating_sub(len);
        self.is_padded.then_some((edns::PADDING, &[0; PADDING_BLOCK][..lacks]))
    }

    /// There is nothing in it but its size and DO.
    pub(crate) fn is_plain(&self) -> bool {
        self.nsid.is_none()
            && self.told_error.is_none()
            && self.options.is_empty()
            && self.rewritten.is_none()
            && !self.is_padded
    }
}

/// The largest UDP message that the client of a query takes.
pub(crate) fn offered(query: &Query<'_>) -> u16 {
    query.opt.as_ref().map_or(edns::UDP_SIZE_MIN, Opt::udp_size_usable)
}

/// Most bytes of a UDP reply: what the client offers, which `bufsize` may lower.
pub(crate) fn udp_limit(query: &Query<'_>, plan: Option<&Plan>) -> usize {
    let size = plan.and_then(|plan| plan.udp_size).unwrap_or(u16::MAX);
    usize::from(offered(query).min(size))
}

/// The OPT of the reply to a query with one. There is a plan where a block holds the name.
pub(crate) fn reply_opt(theirs: &Opt<'_>, plan: Option<&Plan>, origin: &Origin<'_>, answer: &Answer<'_>) -> ReplyOpt {
    let size = plan.and_then(|plan| plan.udp_size);
    let nsid = plan.and_then(|plan| plan.nsid.as_ref());
    let mut opt = ReplyOpt {
        udp_size: size.map_or(UDP_SIZE, |size| size.min(UDP_SIZE)),
        dnssec_ok: theirs.dnssec_ok,
        nsid: nsid.filter(|_| theirs.option(edns::NSID).is_some()).cloned(),
        options: ArrayVec::new(),
        told_error: answer.told_error.map(|error| answer.bytes(error).into()),
        rewritten: answer.options.clone(),
        is_padded: origin.is_encrypted && theirs.option(edns::PADDING).is_some(),
    };
    if origin.is_stream() && theirs.option(edns::KEEPALIVE).is_some() {
        opt.options
            .push((edns::KEEPALIVE, origin.keepalive.to_be_bytes().into_iter().collect()));
    }
    let error = match &answer.reason {
        Some(Reason::Unsynced(_)) => Some(edns::ede::NOT_READY),
        _ if answer.extras.error.is_some() => answer.extras.error,
        _ if answer.rcode == Rcode::REFUSED && plan.is_none() => Some(edns::ede::NOT_AUTHORITATIVE),
        _ => None,
    };
    if let Some(code) = error {
        opt.options.push((edns::EDE, code.to_be_bytes().into_iter().collect()));
    }
    opt
}
