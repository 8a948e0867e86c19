//! What another server said, in the form that is kept: while its question waits for more, and in the cache.
//!
//! ```text
//!   rcode 2 | flags 2 | ANSWER 2 | AUTHORITY 2 | ADDITIONAL 2 | error len 2 | extended error (RFC 8914)
//!   then each record:  owner len 1 | owner | type 2 | TTL 4 | rdata len 2 | rdata
//! ```
//!
//! No name is compressed; an owner of no bytes is the name that was asked for, in whatever letter case it comes back. The
//! OPT is left out: each hop has its own (RFC 6891 §6.2.1), and of the upstream's options only its error is passed on.

use nodens_wire::{Flags, HEADER_LEN, Message, ParseError, Rcode, Rtype, Section, edns, rdata};

use crate::answer::{Answer, Bytes, Owner, Pick};

/// Longest extended error that is passed on, in bytes: its code and a line of text.
const ERROR_MAX: usize = 256;
/// Bytes in front of the extended error.
const HEAD_LEN: usize = 12;
/// Bytes of a record beside its owner and rdata.
const RECORD_LEN: usize = 9;

/// A reply in its kept form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    bytes: &'a [u8],
}

/// A record of a kept reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyRecord<'a> {
    /// Where it stands.
    pub section: Section,
    /// Its owner in wire form; none for the name that was asked for.
    pub owner: Option<&'a [u8]>,
    /// Its type.
    pub rtype: Rtype,
    /// As it came.
    pub ttl: u32,
    /// Its data, without compression.
    pub rdata: &'a [u8],
    /// Where the record begins.
    at: usize,
}

/// Appends the kept form of `message`, which answers a question for this name, to `out`; `room` holds what of it is
/// unpacked, up to [`MESSAGE_LEN_MAX`](nodens_wire::MESSAGE_LEN_MAX) bytes. Returns whether it has an OPT.
///
/// Records of another class than the question's are left out.
///
/// # Errors
/// It cannot be read up to its end: `out` is as it was before.
pub fn keep(message: &Message<'_>, room: &mut [u8], out: &mut Vec<u8>) -> Result<bool, ParseError> {
    let begin = out.len();
    let kept = append(message, room, out);
    if kept.is_err() {
        out.truncate(begin);
    }
    kept
}

fn append(message: &Message<'_>, room: &mut [u8], out: &mut Vec<u8>) -> Result<bool, ParseError> {
    let begin = out.len();
    let asked = message.question;
    let flags = message.header.flags();
    let mut rcode = flags.rcode();
    let mut has_opt = false;
    let mut error = &[][..];
    let mut counts = [0_u16; 3];
    keep_bare(rcode, flags, out);
    for record in message.records() {
        let record = record?;
        if record.rtype == Rtype::OPT {
            if record.section == Section::Additional {
                has_opt = true;
                // The upper bits of the rcode are the first of the OPT's TTL.
                let [extended, ..] = record.ttl.to_be_bytes();
                rcode = Rcode(u16::from(extended) << 4 | flags.rcode().0);
                error = record.opt().and_then(|opt| opt.option(edns::EDE)).unwrap_or_default();
            }
            continue;
        }
        let rdata = rdata::unpack(
            record.rtype,
            message.as_bytes(),
            record.rdata_at,
            record.rdata.len(),
            room,
        )?;
        if asked.is_some_and(|asked| asked.rclass != record.rclass) {
            continue;
        }
        // Nearly all point to the question.
        let is_asked = asked.is_some_and(|asked| record.owner.is_pointer_to(HEADER_LEN) || record.owner == asked.name);
        match record.owner.as_name() {
            _ if is_asked => put(&[], record.rtype, record.ttl, rdata, out),
            Some(owner) => put(owner.as_bytes(), record.rtype, record.ttl, rdata, out),
            None => put(record.owner.to_buf().as_bytes(), record.rtype, record.ttl, rdata, out),
        }
        counts[record.section as usize] += 1;
    }
    out[begin..begin + 2].copy_from_slice(&rcode.0.to_be_bytes());
    for (place, count) in out[begin + 4..].chunks_exact_mut(2).zip(counts) {
        place.copy_from_slice(&count.to_be_bytes());
    }
    if !error.is_empty() {
        // It was read behind the records, and stands in front of them.
        let error = &error[..error.len().min(ERROR_MAX)];
        out[begin + HEAD_LEN - 2..begin + HEAD_LEN].copy_from_slice(&(error.len() as u16).to_be_bytes());
        out.splice(begin + HEAD_LEN..begin + HEAD_LEN, error.iter().copied());
    }
    Ok(has_opt)
}

/// Appends the kept form of what the answer to a question holds to `out`: what the steps behind the cache made of a reply. Its
/// extended error is not kept.
pub(crate) fn keep_answer(answer: &Answer<'_>, flags: Flags, out: &mut Vec<u8>) {
    let start = out.len();
    keep_bare(answer.rcode, flags, out);
    let sections = answer.sections.iter().zip(answer.begins());
    for ((section, begin), place) in sections.zip([4, 6, 8]) {
        let section = &section[begin..];
        for pick in section {
            let owner = match pick.owner {
                Owner::Question => &[],
                Owner::Name(name) => answer.bytes(name),
            };
            put(owner, pick.rtype, pick.ttl, answer.bytes(pick.rdata), out);
        }
        // A section of an answer is shorter than that.
        let count = section.len() as u16;
        out[start + place..][..2].copy_from_slice(&count.to_be_bytes());
    }
}

/// Appends the kept form of a reply that has neither records nor an extended error: how each begins.
pub(crate) fn keep_bare(rcode: Rcode, flags: Flags, out: &mut Vec<u8>) {
    out.extend_from_slice(&rcode.0.to_be_bytes());
    out.extend_from_slice(&flags.0.to_be_bytes());
    out.extend_from_slice(&[0; HEAD_LEN - 4]);
}

fn put(owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8], out: &mut Vec<u8>) {
    let (rtype, ttl, len) = (
        rtype.0.to_be_bytes(),
        ttl.to_be_bytes(),
        (rdata.len() as u16).to_be_bytes(),
    );
    out.reserve(owner.len() + RECORD_LEN + rdata.len());
    out.push(owner.len() as u8);
    out.extend_from_slice(owner);
    out.extend_from_slice(&[rtype[0], rtype[1], ttl[0], ttl[1], ttl[2], ttl[3], len[0], len[1]]);
    out.extend_from_slice(rdata);
}

impl<'a> Reply<'a> {
    /// What [`keep`] made.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes of it.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    fn word(self, at: usize) -> u16 {
        let word = self.bytes.get(at..at + 2).and_then(|word| word.try_into().ok());
        word.map_or(0, u16::from_be_bytes)
    }

    /// With the bits of the OPT.
    #[must_use]
    pub fn rcode(self) -> Rcode {
        Rcode(self.word(0))
    }

    /// As they came.
    #[must_use]
    pub fn flags(self) -> Flags {
        Flags(self.word(2))
    }

    /// Whether the name is there without such a record.
    #[must_use]
    pub fn is_nodata(self) -> bool {
        self.rcode() == Rcode::NOERROR && self.count(Section::Answer) == 0 && !self.flags().tc()
    }

    /// Records of a section.
    #[must_use]
    pub fn count(self, section: Section) -> u16 {
        self.word(4 + 2 * section as usize)
    }

    /// The upstream's extended error: code and text.
    #[must_use]
    pub fn error(self) -> Option<&'a [u8]> {
        let len = usize::from(self.word(10));
        self.bytes
            .get(HEAD_LEN..HEAD_LEN + len)
            .filter(|error| !error.is_empty())
    }

    /// All records in their order.
    #[must_use]
    pub fn records(self) -> ReplyRecords<'a> {
        ReplyRecords {
            bytes: self.bytes,
            at: HEAD_LEN + usize::from(self.word(10)),
            left: [Section::Answer, Section::Authority, Section::Additional].map(|section| self.count(section)),
        }
    }

    /// Whether all records are there that it counts.
    #[must_use]
    pub fn is_whole(self) -> bool {
        let records = self.records();
        let counted: usize = records.left.iter().copied().map(usize::from).sum();
        records.count() == counted
    }

    /// Makes an answer of it, each record with the TTL that `ttl` makes of its own.
    pub(crate) fn answer(self, ttl: impl Fn(u32) -> u32, answer: &mut Answer<'_>) {
        let Bytes::Made { at: base, .. } = answer.make(self.bytes) else {
            return;
        };
        let flags = self.flags();
        answer.rcode = self.rcode();
        answer.aa = flags.aa();
        answer.extras.ra = flags.ra();
        answer.extras.ad = flags.ad();
        answer.extras.tc = flags.tc();
        if let Some(error) = self.error() {
            answer.told_error = Some(Bytes::Made {
                at: base + HEAD_LEN as u32,
                len: error.len() as u16,
            });
        }
        for record in self.records() {
            let at = base + record.at as u32 + 1;
            let owner = record.owner.map_or(Owner::Question, |owner| {
                Owner::Name(Bytes::Made {
                    at,
                    len: owner.len() as u16,
                })
            });
            let behind = record.owner.map_or(0, <[u8]>::len) + RECORD_LEN - 1;
            let pick = Pick {
                owner,
                rtype: record.rtype,
                ttl: ttl(record.ttl),
                rdata: Bytes::Made {
                    at: at + behind as u32,
                    len: record.rdata.len() as u16,
                },
            };
            answer.pick(record.section, pick);
        }
    }
}

/// The records of a kept reply.
#[derive(Clone, Debug)]
pub struct ReplyRecords<'a> {
    bytes: &'a [u8],
    at: usize,
    left: [u16; 3],
}

impl<'a> Iterator for ReplyRecords<'a> {
    type Item = ReplyRecord<'a>;

    fn next(&mut self) -> Option<ReplyRecord<'a>> {
        let sections = [Section::Answer, Section::Authority, Section::Additional];
        let (section, left) = sections.into_iter().zip(&mut self.left).find(|(_, left)| **left > 0)?;
        *left -= 1;
        let at = self.at;
        let (&owner_len, rest) = self.bytes.get(at..)?.split_first()?;
        let (owner, rest) = rest.split_at_checked(owner_len.into())?;
        let (fixed, rest) = rest.split_first_chunk::<8>()?;
        let [rtype_high, rtype_low, a, b, c, d, len_high, len_low] = *fixed;
        let rdata = rest.get(..usize::from(u16::from_be_bytes([len_high, len_low])))?;
        self.at = at + RECORD_LEN + owner.len() + rdata.len();
        Some(ReplyRecord {
            section,
            owner: (!owner.is_empty()).then_some(owner),
            rtype: Rtype(u16::from_be_bytes([rtype_high, rtype_low])),
            ttl: u32::from_be_bytes([a, b, c, d]),
            rdata,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use nodens_wire::{NameBuf, Rclass};

    use super::*;
    use crate::answer::Memory;

    /// `WWW.example. A` of NXDOMAIN with an alias, a compressed SOA, and an OPT that holds an extended error.
    const MESSAGE: &[u8] = b"\0\x07\x84\xb3\0\x01\0\x02\0\x01\0\x01\
        \x03WWW\x07example\0\0\x01\0\x01\
        \x03www\xc0\x10\0\x05\0\x01\0\0\0\x05\0\x04\x01a\xc0\x10\
        \x01b\xc0\x10\0\x01\0\x03\0\0\0\x06\0\x04\xc0\0\x02\x01\
        \xc0\x10\0\x06\0\x01\0\0\x0e\x10\0\x1a\x01m\xc0\x10\xc0\x10\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05\
        \0\0\x29\x02\0\0\0\0\0\0\x0d\0\x0f\0\x09\0\x16nothing";

    fn kept(message: &[u8]) -> Result<Vec<u8>, ParseError> {
        let mut out = Vec::new();
        let has_opt = keep(&Message::parse(message)?, &mut [0; 512], &mut out)?;
        assert!(has_opt);
        Ok(out)
    }

    #[test]
    fn what_is_kept_is_what_came() {
        let kept = kept(MESSAGE).unwrap();
        let reply = Reply::new(&kept);
        assert_eq!(reply.rcode(), Rcode::NXDOMAIN);
        assert!(reply.flags().aa() && reply.flags().ra() && reply.flags().ad() && !reply.flags().tc());
        assert_eq!(reply.error(), Some(&b"\0\x16nothing"[..]));
        let records: Vec<_> = reply.records().collect();
        assert_eq!(records.len(), 2, "a record of class CH answers no question of class IN");
        assert_eq!((reply.count(Section::Answer), reply.count(Section::Authority)), (1, 1));
        assert_eq!(records[0].owner, None, "the name that was asked for");
        assert_eq!((records[0].rtype, records[0].ttl), (Rtype::CNAME, 5));
        assert_eq!(records[0].rdata, b"\x01a\x07example\0");
        assert_eq!(records[1].owner, Some(&b"\x07example\0"[..]));
        assert!(
            records[1]
                .rdata
                .starts_with(b"\x01m\x07example\0\x07example\0\0\0\0\x01")
        );
    }

    #[test]
    fn an_answer_is_made_of_it() {
        let kept = kept(MESSAGE).unwrap();
        let mut answer = Answer::new(Memory::default());
        Reply::new(&kept).answer(|ttl| ttl.min(30), &mut answer);
        assert!(answer.aa && answer.extras.ra && answer.extras.ad && answer.rclass == Rclass::IN);
        assert_eq!(answer.rcode, Rcode::NXDOMAIN);
        let [answers, authority, additional] = &answer.sections;
        assert_eq!((answers.len(), authority.len(), additional.len()), (1, 1, 0));
        assert_eq!(answer.bytes(answers[0].rdata), b"\x01a\x07example\0");
        assert_eq!((answers[0].ttl, authority[0].ttl), (5, 30));
        let Owner::Name(owner) = authority[0].owner else {
            panic!("the SOA is the zone's")
        };
        assert_eq!(answer.bytes(owner), NameBuf::from_text("example.").unwrap().as_bytes());
    }

    #[test]
    fn half_a_message_is_not_kept() {
        for len in 0..MESSAGE.len() {
            assert!(kept(&MESSAGE[..len]).is_err(), "{len} bytes");
        }
    }
}
