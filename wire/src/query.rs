//! All that a server needs of a request, in one pass over its bytes.
//!
//! ```text
//!   packet ── under 12 bytes, QR ───────────────> Ignore
//!      │ ──── opcode not QUERY or NOTIFY ───────> NotImplemented
//!      │ ──── counts out of bounds ─────────────> FormErr, no question
//!      │ ──── question cut or malformed ────────> FormErr, no question
//!      │ ──── record cut or malformed, OPT ─────> FormErr, with the question
//!      v
//!    Query
//! ```

use crate::edns::Opt;
use crate::error::{ParseError, Reason};
use crate::header::{Flags, HEADER_LEN, Opcode};
use crate::name::{self, Name};
use crate::question::Question;
use crate::reader::Reader;
use crate::rtype::{Rclass, Rtype};

/// A request that can be answered.
#[derive(Clone, Copy, Debug)]
pub struct Query<'p> {
    /// The whole packet, from which the question is copied as it came.
    packet: &'p [u8],
    /// Repeated in the reply.
    pub id: u16,
    /// The second word of the header.
    pub flags: Flags,
    /// The name asked about, in the client's letter case.
    pub qname: Name<'p>,
    /// The type asked for.
    pub rtype: Rtype,
    /// The class asked for.
    pub rclass: Rclass,
    /// Bytes of the question section, which starts behind the 12 of the header.
    pub question_len: usize,
    /// The client's EDNS record.
    pub opt: Option<Opt<'p>>,
    /// Bytes of the message up to the end of its last announced record; what follows is no part of it.
    pub len: usize,
}

/// A request that is not answered in substance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No request: no reply at all.
    Ignore,
    /// An opcode that we do not serve: NOTIMP. [`carries_opt`] tells whether the reply has an OPT too.
    NotImplemented,
    /// Bytes that are no message: FORMERR.
    FormErr {
        /// Bytes of the question section to repeat, behind the 12 of the header; 0 when none was decoded.
        question_len: usize,
        /// Whether the request has an OPT, so that the reply has one too (RFC 6891 §7).
        has_opt: bool,
    },
}

/// Type and class behind the name of a question.
const QUESTION_TAIL_LEN: usize = 4;

/// The four counts of a plain question as one big-endian number.
const ONE_QUESTION: u64 = 1 << 48;

impl<'p> Query<'p> {
    /// Reads a request. What would have to be refused anyway is a [`Refusal`]; see the figure of the module.
    #[inline]
    pub fn parse(packet: &'p [u8]) -> Result<Self, Refusal> {
        let Some((head, body)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(Refusal::Ignore);
        };
        let [id_high, id_low, flags_high, flags_low, counts @ ..] = *head;
        let flags = Flags(u16::from_be_bytes([flags_high, flags_low]));
        if flags.qr() {
            return Err(Refusal::Ignore);
        }
        if !matches!(flags.opcode(), Opcode::QUERY | Opcode::NOTIFY) {
            return Err(Refusal::NotImplemented);
        }
        let counts = u64::from_be_bytes(counts);
        if !counts_are_in_bounds(counts) {
            return Err(malformed(packet, 0));
        }
        let Some((name, [type_high, type_low, class_high, class_low])) = split_question(body) else {
            return Err(malformed(packet, 0));
        };
        let question_len = name.len().wrapping_add(QUESTION_TAIL_LEN);
        let mut query = Self {
            packet,
            id: u16::from_be_bytes([id_high, id_low]),
            flags,
            qname: Name::from_measured(name),
            rtype: Rtype(u16::from_be_bytes([type_high, type_low])),
            rclass: Rclass(u16::from_be_bytes([class_high, class_low])),
            question_len,
            opt: None,
            len: HEADER_LEN.wrapping_add(question_len),
        };
        if counts != ONE_QUESTION && query.records(counts).is_err() {
            return Err(malformed(packet, question_len));
        }
        Ok(query)
    }

    /// The question section as it came: to be copied into the reply.
    #[inline]
    pub fn question(&self) -> &'p [u8] {
        let end = HEADER_LEN.wrapping_add(self.question_len);
        self.packet.get(HEADER_LEN..end).unwrap_or_default()
    }

    /// The packet it was parsed from.
    pub fn packet(&self) -> &'p [u8] {
        self.packet
    }

    /// The question to compare by.
    pub fn asks(&self) -> Question<'p> {
        Question {
            name: self.qname,
            rtype: self.rtype,
            rclass: self.rclass,
        }
    }

    /// Walks the records behind the question and keeps the OPT of the additional section.
    fn records(&mut self, counts: u64) -> Result<(), ParseError> {
        let [_, _, _, answers, _, authorities, _, additionals] = counts.to_be_bytes();
        let mut reader = Reader::new_at(self.packet, self.len)?;
        for _ in 0..answers.wrapping_add(authorities) {
            record(self.packet, &mut reader)?;
        }
        for _ in 0..additionals {
            let start = reader.at();
            let found = record(self.packet, &mut reader)?;
            if found.rtype != Rtype::OPT {
                continue;
            }
            // RFC 6891 §6.1.1: more than one is a format error. An owner other than the root is harmless.
            if self.opt.is_some() {
                return Err(ParseError::new(Reason::Count, start));
            }
            let rdata_at = reader.at().wrapping_sub(found.rdata.len());
            self.opt = Some(Opt::parse(found.rclass.0, found.ttl, found.rdata, rdata_at)?);
        }
        self.len = reader.at();
        Ok(())
    }
}

/// One question, at most a SOA for IXFR in each of the next two sections, at most an OPT and a TSIG in the last.
#[inline]
const fn counts_are_in_bounds(counts: u64) -> bool {
    const MAY_BE_SET: u64 = 0x0001_0001_0001_0003;
    counts & !MAY_BE_SET == 0 && counts & 3 != 3 && counts >= ONE_QUESTION
}

/// The name in front of `body` and the four bytes behind it.
#[inline]
fn split_question(body: &[u8]) -> Option<(&[u8], [u8; QUESTION_TAIL_LEN])> {
    let (name, rest) = body.split_at_checked(name::wire_len(body).ok()?)?;
    Some((name, *rest.first_chunk()?))
}

struct Fields<'p> {
    rtype: Rtype,
    rclass: Rclass,
    ttl: u32,
    rdata: &'p [u8],
}

fn record<'p>(packet: &'p [u8], reader: &mut Reader<'p>) -> Result<Fields<'p>, ParseError> {
    // The owner of an OPT is the root.
    let name_len = match reader.rest() {
        [0, ..] => 1,
        _ => name::skip(packet, reader.at())?.wrapping_sub(reader.at()),
    };
    reader.take(name_len)?;
    let [t0, t1, c0, c1, ttl @ .., l0, l1] = reader.array::<10>()?;
    Ok(Fields {
        rtype: Rtype(u16::from_be_bytes([t0, t1])),
        rclass: Rclass(u16::from_be_bytes([c0, c1])),
        ttl: u32::from_be_bytes(ttl),
        rdata: reader.take(usize::from(u16::from_be_bytes([l0, l1])))?,
    })
}

#[cold]
#[inline(never)]
fn malformed(packet: &[u8], question_len: usize) -> Refusal {
    Refusal::FormErr {
        question_len,
        has_opt: carries_opt(packet),
    }
}

/// Most records that [`carries_opt`] looks at: a malformed request is not worth more.
const SCAN_MAX: usize = 16;

/// Whether the head of an OPT can be made out in the additional section of a request that was refused.
///
/// The rest of the request may be anything; what cannot be read ends the search.
#[cold]
pub fn carries_opt(packet: &[u8]) -> bool {
    scan(packet).is_ok_and(|found| found)
}

fn scan(packet: &[u8]) -> Result<bool, ParseError> {
    let mut reader = Reader::new(packet);
    reader.take(4)?;
    let questions = usize::from(reader.u16()?);
    let before = usize::from(reader.u16()?).saturating_add(usize::from(reader.u16()?));
    let additionals = usize::from(reader.u16()?);
    if questions.saturating_add(before) > SCAN_MAX {
        return Ok(false);
    }
    for _ in 0..questions {
        let end = name::skip(packet, reader.at())?;
        reader = Reader::new_at(packet, end)?;
        reader.take(QUESTION_TAIL_LEN)?;
    }
    for _ in 0..before {
        record(packet, &mut reader)?;
    }
    for _ in 0..additionals.min(SCAN_MAX) {
        let end = name::skip(packet, reader.at())?;
        if Rtype(Reader::new_at(packet, end)?.u16()?) == Rtype::OPT {
            return Ok(true);
        }
        record(packet, &mut reader)?;
    }
    Ok(false)
}
