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
    #[inline(always)]
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
        let (mut opt, mut len) = (None, HEADER_LEN.wrapping_add(question_len));
        if counts != ONE_QUESTION {
            (opt, len) = records(packet, len, counts).map_err(|_| malformed(packet, question_len))?;
        }
        Ok(Self {
            packet,
            id: u16::from_be_bytes([id_high, id_low]),
            flags,
            qname: Name::from_measured(name),
            rtype: Rtype(u16::from_be_bytes([type_high, type_low])),
            rclass: Rclass(u16::from_be_bytes([class_high, class_low])),
            question_len,
            opt,
            len,
        })
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
}

/// Walks the records behind the question; tells the OPT of the additional section, and where the last record ends.
fn records(packet: &[u8], at: usize, counts: u64) -> Result<(Option<Opt<'_>>, usize), ParseError> {
    let [_, _, _, answers, _, authorities, _, additionals] = counts.to_be_bytes();
    let mut reader = Reader::new_at(packet, at)?;
    for _ in 0..answers.wrapping_add(authorities) {
        record(packet, &mut reader)?;
    }
    let mut opt = None;
    for _ in 0..additionals {
        let start = reader.at();
        let found = record(packet, &mut reader)?;
        if found.rtype != Rtype::OPT {
            continue;
        }
        // RFC 6891 §6.1.1: more than one is a format error. An owner other than the root is harmless.
        if opt.is_some() {
            return Err(ParseError::new(Reason::Count, start));
        }
        let rdata_at = reader.at().wrapping_sub(found.rdata.len());
        opt = Some(Opt::parse(found.rclass.0, found.ttl, found.rdata, rdata_at)?);
    }
    Ok((opt, reader.at()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;
    use std::vec::Vec;

    const QUESTION: &[u8] = b"\x03wWw\x07example\x03org\x00\x00\x01\x00\x01";
    const OPT: &[u8] = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

    fn packet(flags: u16, counts: [u16; 4], body: &[&[u8]]) -> Vec<u8> {
        let mut packet = Vec::from(*b"\xab\xcd");
        packet.extend_from_slice(&flags.to_be_bytes());
        counts
            .iter()
            .for_each(|count| packet.extend_from_slice(&count.to_be_bytes()));
        body.iter().for_each(|part| packet.extend_from_slice(part));
        packet
    }

    fn refused(flags: u16, counts: [u16; 4], body: &[&[u8]]) -> Refusal {
        Query::parse(&packet(flags, counts, body)).expect_err("refused")
    }

    const NO_QUESTION: Refusal = Refusal::FormErr {
        question_len: 0,
        has_opt: false,
    };

    fn with_question(has_opt: bool) -> Refusal {
        Refusal::FormErr {
            question_len: QUESTION.len(),
            has_opt,
        }
    }

    #[test]
    fn a_plain_question() {
        let packet = packet(0x0110, [1, 0, 0, 0], &[QUESTION, b"behind"]);
        let query = Query::parse(&packet).unwrap();
        assert_eq!((query.id, query.flags), (0xabcd, Flags(0x0110)));
        assert_eq!(query.asks().to_string(), "wWw.example.org. IN A");
        assert_eq!(query.question(), QUESTION);
        assert_eq!((query.question_len, query.len), (21, 33));
        assert_eq!(query.opt, None);
        assert_eq!(query.packet(), packet);
    }

    #[test]
    fn a_question_with_opt() {
        let packet = packet(0, [1, 0, 0, 1], &[QUESTION, OPT, b"behind"]);
        let query = Query::parse(&packet).unwrap();
        let opt = query.opt.unwrap();
        assert_eq!((opt.udp_size, opt.version, opt.dnssec_ok), (1232, 0, true));
        assert_eq!(query.len, 44);
    }

    #[test]
    fn no_request_gets_no_reply() {
        for len in 0..12 {
            assert_eq!(
                Query::parse(&packet(0, [1, 0, 0, 0], &[])[..len]).unwrap_err(),
                Refusal::Ignore
            );
        }
        assert_eq!(refused(0x8000, [1, 0, 0, 0], &[QUESTION]), Refusal::Ignore);
        assert_eq!(refused(0xf800, [9, 0, 0, 0], &[]), Refusal::Ignore);
    }

    #[test]
    fn opcodes_are_looked_at_before_counts() {
        for opcode in 0..16_u16 {
            let expected = match opcode {
                0 | 4 => NO_QUESTION,
                _ => Refusal::NotImplemented,
            };
            assert_eq!(refused(opcode << 11, [0, 0, 0, 0], &[]), expected, "{opcode}");
        }
        assert!(Query::parse(&packet(4 << 11, [1, 0, 0, 0], &[QUESTION])).is_ok());
    }

    #[test]
    fn counts_within_bounds() {
        for counts in [
            [0, 0, 0, 0],
            [2, 0, 0, 0],
            [1, 2, 0, 0],
            [1, 0, 2, 0],
            [1, 0, 0, 3],
            [1, 0, 0, 4],
            [257, 0, 0, 0],
        ] {
            assert_eq!(refused(0, counts, &[QUESTION]), NO_QUESTION, "{counts:?}");
        }
        assert_eq!(
            refused(0, [1, 0, 0, 3], &[QUESTION, OPT]),
            Refusal::FormErr {
                question_len: 0,
                has_opt: true
            }
        );
    }

    #[test]
    fn questions_that_do_not_decode() {
        let check = |question: &[u8]| assert_eq!(refused(0, [1, 0, 0, 0], &[question]), NO_QUESTION, "{question:?}");
        check(b"");
        for len in 0..QUESTION.len() {
            check(&QUESTION[..len]);
        }
        check(b"\xc0\x0c\x00\x01\x00\x01"); // to itself
        check(b"\x01a\xc0\x00\x00\x01\x00\x01"); // into the header
        check(b"\x40\x00\x00\x01\x00\x01");
        check(&[&[1, b'a'].repeat(127)[..], b"\x01b\0\0\x01\0\x01"].concat());
        assert!(Query::parse(&packet(0, [1, 0, 0, 0], &[&[1, b'a'].repeat(127), b"\0\0\x01\0\x01"])).is_ok());
    }

    #[test]
    fn fewer_records_than_announced() {
        assert_eq!(refused(0, [1, 1, 0, 0], &[QUESTION]), with_question(false));
        assert_eq!(refused(0, [1, 0, 1, 0], &[QUESTION]), with_question(false));
        assert_eq!(refused(0, [1, 0, 0, 1], &[QUESTION]), with_question(false));
        assert_eq!(refused(0, [1, 0, 0, 2], &[QUESTION, OPT]), with_question(true));
        assert_eq!(refused(0, [1, 0, 0, 1], &[QUESTION, &OPT[..10]]), with_question(true));
        assert_eq!(refused(0, [1, 0, 0, 1], &[QUESTION, &OPT[..2]]), with_question(false));
    }

    #[test]
    fn one_opt_in_the_additional_section_alone() {
        assert_eq!(refused(0, [1, 0, 0, 2], &[QUESTION, OPT, OPT]), with_question(true));
        let elsewhere = packet(0, [1, 1, 1, 0], &[QUESTION, OPT, OPT]);
        assert_eq!(Query::parse(&elsewhere).unwrap().opt, None);
        let named = packet(0, [1, 0, 0, 1], &[QUESTION, b"\x01x\xc0\x0c", &OPT[1..]]);
        assert!(Query::parse(&named).unwrap().opt.is_some());
    }

    #[test]
    fn options_that_do_not_decode() {
        let with = |rdata: &[u8]| [&OPT[..10], &[rdata.len() as u8], rdata].concat();
        assert_eq!(
            refused(0, [1, 0, 0, 1], &[QUESTION, &with(b"\0\x0a\0\x09abcdefgh")]),
            with_question(true)
        );
        assert_eq!(
            refused(0, [1, 0, 0, 1], &[QUESTION, &with(b"\0\x08\0\x04\0\x09\0\0")]),
            with_question(true)
        );
        let cookie = packet(0, [1, 0, 0, 1], &[QUESTION, &with(b"\0\x0a\0\x03abc")]);
        assert_eq!(
            Query::parse(&cookie).unwrap().opt.unwrap().option(10),
            Some(&b"abc"[..])
        );
    }

    #[test]
    fn other_records_are_stepped_over() {
        let soa = b"\xc0\x10\x00\x06\x00\x01\x00\x00\x00\x00\x00\x05\xc0\xff\xc0\xff\x00";
        let tsig = b"\x03key\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x02xx";
        let packet = packet(0, [1, 0, 1, 2], &[QUESTION, soa, OPT, tsig]);
        let query = Query::parse(&packet).unwrap();
        assert!(query.opt.is_some());
        assert_eq!(query.len, packet.len());
        // An owner that points forward or to itself, or has no end.
        for owner in [&b"\xc0\x21"[..], b"\xc0\x30", b"\x01a\xc0\x21", b"\x3f"] {
            assert_eq!(
                refused(0, [1, 0, 1, 0], &[QUESTION, owner, &soa[2..]]),
                with_question(false),
                "{owner:?}"
            );
        }
    }

    #[test]
    fn an_opt_is_seen_in_what_was_refused() {
        assert!(carries_opt(&packet(5 << 11, [1, 0, 0, 1], &[QUESTION, OPT])));
        assert!(!carries_opt(&packet(5 << 11, [1, 0, 0, 0], &[QUESTION, OPT])));
        assert!(carries_opt(&packet(0, [0, 0, 0, 1], &[OPT])));
        assert!(!carries_opt(&packet(0, [1000, 0, 0, 1], &[OPT])));
        assert!(!carries_opt(b"\0"));
    }
}
