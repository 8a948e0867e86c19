//! A message of any kind, record by record: replies of upstreams, transfers, what tests look at.

use core::iter::FusedIterator;

use crate::edns::Opt;
use crate::error::{ParseError, Reason};
use crate::header::{HEADER_LEN, Header};
use crate::name::PackedName;
use crate::question::Question;
use crate::reader::Reader;
use crate::rtype::{Rclass, Rtype};

/// The part of a message that a record stands in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Section {
    /// What was asked for.
    Answer,
    /// Who knows: the NS of a referral, the SOA of a negative answer.
    Authority,
    /// What will be asked for next: addresses, and the OPT.
    Additional,
}

/// A message with at most one question, its records still unread.
#[derive(Clone, Copy, Debug)]
pub struct Message<'p> {
    bytes: &'p [u8],
    /// The header.
    pub header: Header,
    /// The question, if there is one.
    pub question: Option<Question<'p>>,
    records_at: usize,
}

impl<'p> Message<'p> {
    /// Reads header and question; [`Message::records`] reads on from there.
    pub fn parse(bytes: &'p [u8]) -> Result<Self, ParseError> {
        let short = ParseError::new(Reason::Short, bytes.len());
        let header = *Header::of(bytes).ok_or(short)?;
        let body = bytes.get(HEADER_LEN..).ok_or(short)?;
        let (question, rest) = match header.questions.get() {
            0 => (None, body),
            1 => Question::split_wire(body)
                .map(|(question, rest)| (Some(question), rest))
                .map_err(|error| error.behind(HEADER_LEN))?,
            _ => return Err(ParseError::new(Reason::Count, 4)),
        };
        Ok(Self {
            bytes,
            header,
            question,
            records_at: bytes.len().wrapping_sub(rest.len()),
        })
    }

    /// All bytes it was parsed from.
    pub const fn as_bytes(&self) -> &'p [u8] {
        self.bytes
    }

    /// The records of all sections in their order. The first that does not parse is the last that is returned.
    pub fn records(&self) -> Records<'p> {
        Records {
            message: self.bytes,
            at: self.records_at,
            left: [
                self.header.answers.get(),
                self.header.authorities.get(),
                self.header.additionals.get(),
            ],
        }
    }

    /// The last OPT of the additional section; none when the message does not parse up to it.
    pub fn opt(&self) -> Option<Opt<'p>> {
        let mut opt = None;
        for record in self.records() {
            let record = record.ok()?;
            if record.section == Section::Additional && record.rtype == Rtype::OPT {
                opt = record.opt();
            }
        }
        opt
    }
}

/// A record where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Record<'p> {
    /// Where it stands.
    pub section: Section,
    /// Its owner.
    pub owner: PackedName<'p>,
    /// Its type.
    pub rtype: Rtype,
    /// Its class.
    pub rclass: Rclass,
    /// Its time to live in seconds, as it stands there.
    pub ttl: u32,
    /// Its data as they stand there: names in them may be compressed, see [`crate::rdata::unpack`].
    pub rdata: &'p [u8],
    /// Where the data start in the message; the TTL starts six bytes before.
    pub rdata_at: usize,
}

impl<'p> Record<'p> {
    /// What an OPT says (RFC 6891 §6.1.3); none where its options do not parse.
    pub fn opt(&self) -> Option<Opt<'p>> {
        Opt::parse(self.rclass.0, self.ttl, self.rdata, self.rdata_at).ok()
    }
}

/// The records of a message.
#[derive(Clone, Debug)]
pub struct Records<'p> {
    message: &'p [u8],
    at: usize,
    left: [u16; 3],
}

impl<'p> Records<'p> {
    /// Where the next record starts, or the message ends.
    pub const fn at(&self) -> usize {
        self.at
    }

    fn section(&mut self) -> Option<Section> {
        let sections = [Section::Answer, Section::Authority, Section::Additional];
        sections.into_iter().zip(&mut self.left).find_map(|(section, left)| {
            *left = left.checked_sub(1)?;
            Some(section)
        })
    }

    fn record(&mut self, section: Section) -> Result<Record<'p>, ParseError> {
        let (owner, end) = PackedName::parse(self.message, self.at)?;
        let mut reader = Reader::new_at(self.message, end)?;
        let (rtype, rclass, ttl) = (Rtype(reader.u16()?), Rclass(reader.u16()?), reader.u32()?);
        let len = usize::from(reader.u16()?);
        let rdata_at = reader.at();
        let rdata = reader.take(len)?;
        self.at = reader.at();
        Ok(Record {
            section,
            owner,
            rtype,
            rclass,
            ttl,
            rdata,
            rdata_at,
        })
    }
}

impl<'p> Iterator for Records<'p> {
    type Item = Result<Record<'p>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let section = self.section()?;
        let record = self.record(section);
        if record.is_err() {
            self.left = [0; 3];
        }
        Some(record)
    }
}

impl FusedIterator for Records<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::vec::Vec;

    fn message() -> Vec<u8> {
        let mut message = Vec::from(*b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\x01");
        message.extend_from_slice(b"\x03www\x07example\0\0\x01\0\x01");
        message.extend_from_slice(b"\xc0\x0c\0\x05\0\x01\0\0\0\x05\0\x04\x01a\xc0\x10");
        message.extend_from_slice(b"\x01a\xc0\x10\0\x01\0\x01\0\0\0\x06\0\x04\xc0\0\x02\x01");
        message.extend_from_slice(b"\0\0\x29\x02\0\0\0\0\0\0\x06\0\x0f\0\x02\0\x03");
        message
    }

    #[test]
    fn records_by_section() {
        let bytes = message();
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(format!("{}", message.question.unwrap()), "www.example. IN A");
        let records: Vec<_> = message.records().map(Result::unwrap).collect();
        let shown: Vec<_> = records
            .iter()
            .map(|record| format!("{:?} {} {} {}", record.section, record.owner, record.ttl, record.rtype))
            .collect();
        assert_eq!(
            shown,
            [
                "Answer www.example. 5 CNAME",
                "Answer a.example. 6 A",
                "Additional . 0 OPT"
            ]
        );
        assert_eq!(&bytes[records[1].rdata_at..][..4], &[192, 0, 2, 1]);
        assert_eq!(&bytes[records[1].rdata_at - 6..][..4], &[0, 0, 0, 6]);
        assert_eq!(message.opt().unwrap().option(15), Some(&[0, 3][..]));
        assert_eq!(message.as_bytes(), bytes);
    }

    #[test]
    fn the_first_bad_record_is_the_last() {
        let bytes = message();
        for cut in 29..bytes.len() {
            let message = Message::parse(&bytes[..cut]).unwrap();
            let records: Vec<_> = message.records().collect();
            assert!(records.len() <= 3);
            assert!(records.last().unwrap().is_err());
            assert!(records.iter().rev().skip(1).all(Result::is_ok));
            assert_eq!(message.opt(), None);
        }
    }

    #[test]
    fn at_most_one_question() {
        let mut bytes = message();
        bytes[5] = 2;
        assert_eq!(Message::parse(&bytes).unwrap_err(), ParseError::new(Reason::Count, 4));
        assert_eq!(Message::parse(&bytes[..11]).unwrap_err().reason, Reason::Short);
        bytes[5] = 0;
        assert!(Message::parse(&bytes).unwrap().question.is_none());
    }

    #[test]
    fn an_error_in_the_question_says_where() {
        let mut bytes = message();
        bytes[16] = 0xc0;
        assert_eq!(
            Message::parse(&bytes).unwrap_err(),
            ParseError::new(Reason::LabelType, 16)
        );
    }
}
