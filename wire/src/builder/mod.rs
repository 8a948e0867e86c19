//! Writes a message into room that the caller lends.
//!
//! Sections come in order. A record is written whole or not at all, and a [`Mark`] takes back whole sets of them:
//!
//! ```text
//!   | header | question | record | record | rec          Full: the last record is gone again
//!                       ^ mark                           rewind: both are gone, counts and suffixes too
//!                                             | OPT |    reserve: room that records cannot take
//! ```
//!
//! The header is written by [`Builder::finish`], so counts and flags may change until then.

mod names;
mod rdata;

use zerocopy::IntoBytes as _;

use crate::MESSAGE_LEN_MAX;
use crate::compress::Compressor;
use crate::edns::VERSION;
use crate::error::Full;
use crate::header::{Flags, HEADER_LEN, Header, Rcode};
use crate::message::Section;
use crate::name::Name;
use crate::rtype::{Rclass, Rtype};

pub use rdata::RdataBuilder;

/// A message under construction.
#[derive(Debug)]
pub struct Builder<'b> {
    buf: &'b mut [u8],
    names: &'b mut Compressor,
    /// Bytes written, the header's included; never above `end`.
    at: usize,
    /// Where the room for records ends; never above the length of `buf`.
    end: usize,
    /// Bytes that a message without compression would have.
    plain_len: usize,
    id: u16,
    flags: Flags,
    /// Questions, then records by section.
    counts: [u16; 4],
    /// Bytes of the question's name at offset 12; 0 while there is none.
    qname_len: u8,
    /// Whether the suffixes of the question's name are in the table: done when the first name is compressed.
    qname_known: bool,
    /// The last owner that was written, for [`Owner::Same`].
    owner: Place,
}

/// A name that stands in the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    /// Its offset.
    at: u16,
    /// Its bytes there, a pointer at the end included.
    len: u8,
    /// Its length without pointers; 0 when there is no such name.
    plain_len: u8,
}

/// The owner of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner<'a> {
    /// The name of the question: a pointer to it.
    Question,
    /// The owner of the record before: a pointer to it.
    Same,
    /// Any name, compressed.
    Name(Name<'a>),
}

/// A place to go back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    at: usize,
    plain_len: usize,
    counts: [u16; 4],
    suffixes: usize,
    qname_known: bool,
    owner: Place,
}

const NO_OWNER: Place = Place {
    at: 0,
    len: 0,
    plain_len: 0,
};

impl<'b> Builder<'b> {
    /// A message of at most `limit` bytes in `buf`. `names` may have been used for other messages.
    pub fn new(buf: &'b mut [u8], limit: usize, names: &'b mut Compressor) -> Self {
        names.clear();
        let end = limit.min(buf.len()).min(MESSAGE_LEN_MAX);
        Self {
            buf,
            names,
            at: HEADER_LEN.min(end),
            end,
            plain_len: HEADER_LEN,
            id: 0,
            flags: Flags(0),
            counts: [0; 4],
            qname_len: 0,
            qname_known: false,
            owner: NO_OWNER,
        }
    }

    /// Sets the first two words of the header.
    #[inline]
    pub fn header(&mut self, id: u16, flags: Flags) {
        self.id = id;
        self.flags = flags;
    }

    /// The flags as they are now.
    #[inline]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Replaces the flags, for what is known late: AA, TC, the rcode.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.flags = flags;
    }

    /// Copies a question section of one question as it was received, see [`crate::Query::question`]. An empty one
    /// writes nothing.
    #[inline]
    pub fn question_raw(&mut self, question: &[u8]) -> Result<(), Full> {
        debug_assert!(self.counts == [0; 4], "the question comes first, and there is one");
        let Some(name_len) = question.len().checked_sub(4) else {
            return Ok(());
        };
        self.bytes(question)?;
        self.counts = [1, 0, 0, 0];
        self.qname_len = name_len as u8;
        Ok(())
    }

    /// Writes a question.
    pub fn question(&mut self, name: Name<'_>, rtype: Rtype, rclass: Rclass) -> Result<(), Full> {
        debug_assert!(self.counts == [0; 4], "the question comes first, and there is one");
        let mark = self.mark();
        let written = self
            .bytes(name.as_bytes())
            .and_then(|()| self.bytes(&rtype.0.to_be_bytes()))
            .and_then(|()| self.bytes(&rclass.0.to_be_bytes()));
        if written.is_err() {
            self.rewind(mark);
            return written;
        }
        self.counts = [1, 0, 0, 0];
        self.qname_len = name.len() as u8;
        Ok(())
    }

    /// Writes a record whose data `rdata` writes; when anything does not fit, none of it is left.
    #[inline]
    pub fn record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Rtype,
        rclass: Rclass,
        ttl: u32,
        rdata: impl FnOnce(&mut RdataBuilder<'_, 'b>) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let mark = self.mark();
        let written = self
            .owner(owner)
            .and_then(|()| self.fields(section, rtype, rclass, ttl, rdata));
        if written.is_err() {
            self.rewind(mark);
        }
        written
    }

    /// Writes a record with data in uncompressed wire form. Names in them are compressed where the type allows it.
    pub fn record_wire(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Rtype,
        rclass: Rclass,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        self.record(section, owner, rtype, rclass, ttl, |out| out.wire(rtype, rdata))
    }

    /// Copies `records` ready-made records, which must stand alone or point to nothing but the question. `plain_len`
    /// is their size without compression.
    #[inline]
    pub fn records_raw(&mut self, section: Section, records: u16, bytes: &[u8], plain_len: usize) -> Result<(), Full> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.plain_len = self.plain_len.saturating_add(plain_len);
        self.owner = NO_OWNER;
        self.count(section, records);
        Ok(())
    }

    /// Writes an OPT of version 0. It belongs behind all other records; the upper bits of `rcode` go here, the lower
    /// ones into the flags.
    pub fn opt<'o>(
        &mut self,
        udp_size: u16,
        rcode: Rcode,
        dnssec_ok: bool,
        options: impl IntoIterator<Item = (u16, &'o [u8])>,
    ) -> Result<(), Full> {
        let mark = self.mark();
        let ttl = u32::from_be_bytes([rcode.extended(), VERSION, u8::from(dnssec_ok) << 7, 0]);
        let written = self.bytes(&[0]).and_then(|()| {
            self.fields(Section::Additional, Rtype::OPT, Rclass(udp_size), ttl, |rdata| {
                options.into_iter().try_for_each(|(code, data)| {
                    let len = u16::try_from(data.len()).map_err(|_| Full)?;
                    rdata.u16(code)?;
                    rdata.u16(len)?;
                    rdata.bytes(data)
                })
            })
        });
        match written {
            Ok(()) => self.flags = self.flags.with_rcode(rcode),
            Err(Full) => self.rewind(mark),
        }
        written
    }

    /// Keeps `n` bytes from being taken by records.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result<(), Full> {
        let end = self.end.checked_sub(n).filter(|end| *end >= self.at).ok_or(Full)?;
        self.end = end;
        Ok(())
    }

    /// Gives back `n` bytes that were reserved.
    #[inline]
    pub fn release(&mut self, n: usize) {
        debug_assert!(
            self.end.saturating_add(n) <= self.buf.len(),
            "no more than was reserved"
        );
        self.end = self.end.saturating_add(n).min(self.buf.len());
    }

    /// A place to come back to with [`Builder::rewind`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            plain_len: self.plain_len,
            counts: self.counts,
            suffixes: self.names.len(),
            qname_known: self.qname_known,
            owner: self.owner,
        }
    }

    /// Takes back all that was written since `mark`, which must be of this message and not itself taken back. Flags
    /// and reserved room stay.
    pub fn rewind(&mut self, mark: Mark) {
        debug_assert!(mark.at <= self.at, "a mark that was itself taken back");
        self.at = mark.at.min(self.at);
        self.plain_len = mark.plain_len;
        self.counts = mark.counts;
        self.names.truncate(mark.suffixes);
        self.qname_known = mark.qname_known;
        self.owner = mark.owner;
    }

    /// Bytes written so far, the header's included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub const fn len(&self) -> usize {
        self.at
    }

    /// Bytes that records can still take.
    #[inline]
    pub const fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Bytes the message so far would have without compression.
    #[inline]
    pub const fn plain_len(&self) -> usize {
        self.plain_len
    }

    /// Records so far in `section`.
    #[inline]
    pub const fn records(&self, section: Section) -> u16 {
        let [_, answers, authorities, additionals] = self.counts;
        match section {
            Section::Answer => answers,
            Section::Authority => authorities,
            Section::Additional => additionals,
        }
    }

    /// Writes the header and gives the length of the message: 0 when there is not even room for that.
    #[inline]
    pub fn finish(self) -> usize {
        let Some(head) = self.buf.first_chunk_mut::<HEADER_LEN>() else {
            return 0;
        };
        if self.at < HEADER_LEN {
            return 0;
        }
        let [questions, answers, authorities, additionals] = self.counts;
        let header = Header {
            id: self.id.into(),
            flags: self.flags.0.into(),
            questions: questions.into(),
            answers: answers.into(),
            authorities: authorities.into(),
            additionals: additionals.into(),
        };
        head.copy_from_slice(header.as_bytes());
        self.at
    }

    /// The next `n` bytes, to be filled by the caller.
    #[inline]
    fn room(&mut self, n: usize) -> Result<&mut [u8], Full> {
        if n > self.left() || self.at < HEADER_LEN {
            return Err(Full);
        }
        let start = self.at;
        let end = start.wrapping_add(n);
        self.at = end;
        self.buf.get_mut(start..end).ok_or(Full)
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.plain_len = self.plain_len.wrapping_add(bytes.len());
        Ok(())
    }

    #[inline]
    fn count(&mut self, section: Section, records: u16) {
        let [_, answers, authorities, additionals] = &mut self.counts;
        let (count, later) = match section {
            Section::Answer => (answers, *authorities | *additionals),
            Section::Authority => (authorities, *additionals),
            Section::Additional => (additionals, 0),
        };
        debug_assert!(later == 0, "sections come in order");
        // A record has at least 11 bytes, so what fits in a message cannot overflow the count.
        *count = count.saturating_add(records);
    }

    /// Type, class, TTL, length and data.
    #[inline]
    fn fields(
        &mut self,
        section: Section,
        rtype: Rtype,
        rclass: Rclass,
        ttl: u32,
        rdata: impl FnOnce(&mut RdataBuilder<'_, 'b>) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let ([t0, t1], [c0, c1], [s0, s1, s2, s3]) = (rtype.0.to_be_bytes(), rclass.0.to_be_bytes(), ttl.to_be_bytes());
        self.bytes(&[t0, t1, c0, c1, s0, s1, s2, s3, 0, 0])?;
        let start = self.at;
        rdata(&mut RdataBuilder::new(self))?;
        let len = u16::try_from(self.at.wrapping_sub(start)).map_err(|_| Full)?;
        if let Some(field) = self.buf.get_mut(start.wrapping_sub(2)..start) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        self.count(section, 1);
        Ok(())
    }
}
