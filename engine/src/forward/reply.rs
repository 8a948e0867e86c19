//! What an upstream says, before it is believed.

use std::net::SocketAddr;

use nodens_wire::{HEADER_LEN, Header, Message, Rcode, Rtype, Section, label, rdata};

/// A reply that answers the question. It decodes from its first byte to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The message, with an id that means nothing and the question as the upstream wrote it.
    pub message: Vec<u8>,
    /// All twelve bits.
    pub rcode: Rcode,
    /// NOERROR without a record in ANSWER.
    pub is_nodata: bool,
    /// Who said so.
    pub from: SocketAddr,
}

/// What a message is that has the id of a question in flight.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// No reply, or to another question.
    Foreign,
    /// The reply, but it does not decode, or not to its end.
    Broken,
    /// A bare header that says FORMERR or NOTIMP: what servers say that do not know EDNS.
    WithoutEdns,
    /// The reply.
    Whole(Whole),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Bytes of the message; behind them may stand anything.
    pub(super) len: usize,
    pub(super) rcode: Rcode,
    pub(super) is_truncated: bool,
    pub(super) is_nodata: bool,
    /// It says FORMERR or NOTIMP, and has no OPT.
    pub(super) is_edns_unknown: bool,
}

impl Whole {
    /// Of a message that ends with its question.
    pub(super) fn empty(message: &[u8]) -> Self {
        let flags = Header::of(message).map(Header::flags).unwrap_or_default();
        Self {
            len: message.len(),
            rcode: flags.rcode(),
            is_truncated: flags.tc(),
            is_nodata: false,
            is_edns_unknown: false,
        }
    }
}

/// Reads a message; `room` holds what of it is unpacked.
pub(super) fn read(bytes: &[u8], question: &[u8], room: &mut [u8]) -> Reading {
    if !answers(bytes, question) {
        return if is_bare_refusal(bytes) {
            Reading::WithoutEdns
        } else {
            Reading::Foreign
        };
    }
    decode(bytes, room).map_or(Reading::Broken, Reading::Whole)
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

fn decode(bytes: &[u8], room: &mut [u8]) -> Option<Whole> {
    let message = Message::parse(bytes).ok()?;
    let mut records = message.records();
    let mut opt_ttl = None;
    for record in records.by_ref() {
        let record = record.ok()?;
        if record.rtype == Rtype::OPT && record.section == Section::Additional {
            opt_ttl = Some(record.ttl);
        } else {
            rdata::unpack(record.rtype, bytes, record.rdata_at, record.rdata.len(), room).ok()?;
        }
    }
    let flags = message.header.flags();
    // The upper bits of the rcode are the first of the OPT's TTL.
    let [ext_rcode, ..] = opt_ttl.unwrap_or_default().to_be_bytes();
    let rcode = Rcode(u16::from(ext_rcode) << 4 | flags.rcode().0);
    Some(Whole {
        len: records.at(),
        rcode,
        is_truncated: flags.tc(),
        is_nodata: rcode == Rcode::NOERROR && message.header.answers.get() == 0,
        is_edns_unknown: opt_ttl.is_none() && matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP),
    })
}

/// A refusal that is a header alone, as one that repeats its question.
pub(super) fn with_question(bytes: &[u8], question: &[u8]) -> Vec<u8> {
    let mut message = [&bytes[..HEADER_LEN], question].concat();
    message[4..HEADER_LEN].fill(0);
    message[5] = 1;
    message
}

/// A reply that does not decode, as one that was cut before its first record: the client comes again over TCP.
pub(super) fn emptied(bytes: &[u8], question_len: usize) -> Vec<u8> {
    let mut message = bytes[..HEADER_LEN + question_len].to_vec();
    message[6..HEADER_LEN].fill(0);
    let flags = Header::of(&message)
        .map(Header::flags)
        .unwrap_or_default()
        .with_tc(true);
    message[2..4].copy_from_slice(&flags.0.to_be_bytes());
    message
}
