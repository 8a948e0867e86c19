//! What an upstream says, before it is believed.

use std::net::SocketAddr;
use std::sync::Arc;

use nodens_wire::{HEADER_LEN, Header, Message, Rcode, label};

use crate::reply;

/// A reply that answers the question. It decodes from its first byte to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What it says, in the form that is [kept](crate::reply).
    pub bytes: Arc<[u8]>,
    /// Who said so.
    pub from: SocketAddr,
}

impl Reply {
    /// What it says.
    #[must_use]
    pub fn said(&self) -> reply::Reply<'_> {
        reply::Reply::new(&self.bytes)
    }
}

/// What a message is that has the id of a question in flight.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// No reply, or to another question.
    Foreign,
    /// The reply, but it does not decode, or not to its end. What is kept is as if it had been cut before its first
    /// record: the client comes again over TCP.
    Broken,
    /// The reply.
    Whole {
        /// It says FORMERR or NOTIMP, and has no OPT, if it is more than a header at all.
        is_edns_unknown: bool,
    },
}

/// Reads a message, and puts its kept form in the place of what is in `kept`; `room` holds what of it is unpacked.
pub(super) fn read(bytes: &[u8], question: &[u8], room: &mut [u8], kept: &mut Vec<u8>) -> Reading {
    kept.clear();
    let flags = Header::of(bytes).map(Header::flags).unwrap_or_default();
    if !answers(bytes, question) {
        if !is_bare_refusal(bytes) {
            return Reading::Foreign;
        }
        reply::keep_bare(flags.rcode(), flags, kept);
        return Reading::Whole { is_edns_unknown: true };
    }
    let has_opt = Message::parse(bytes).and_then(|message| reply::keep(&message, room, kept));
    let Ok(has_opt) = has_opt else {
        reply::keep_bare(flags.rcode(), flags.with_tc(true), kept);
        return Reading::Broken;
    };
    let rcode = reply::Reply::new(kept).rcode();
    Reading::Whole {
        is_edns_unknown: !has_opt && matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP),
    }
}

fn is_bare_refusal(bytes: &[u8]) -> bool {
    let flags = Header::of(bytes).map(Header::flags).unwrap_or_default();
    bytes.len() == HEADER_LEN && flags.qr() && matches!(flags.rcode(), Rcode::FORMERR | Rcode::NOTIMP)
}

/// Whether it is a reply to this question, letter case aside.
fn answers(bytes: &[u8], question: &[u8]) -> bool {
    let Some(header) = Header::of(bytes) else { return false };
    let (name, fields) = question.split_at(question.len() - 4);
    let theirs = bytes.get(HEADER_LEN..HEADER_LEN + question.len());
    // The first name of a message has nothing before it that it could point to.
    header.flags().qr()
        && header.questions.get() == 1
        && theirs.is_some_and(|theirs| label::eq_folded(&theirs[..name.len()], name) && &theirs[name.len()..] == fields)
}
