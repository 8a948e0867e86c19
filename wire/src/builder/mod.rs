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

use arrayvec::ArrayVec;

use crate::MESSAGE_LEN_MAX;
use crate::compress::Compressor;
use crate::edns::VERSION;
use crate::error::Full;
use crate::header::{Flags, HEADER_LEN, Rcode};
use crate::message::Section;
use crate::name::Name;
use crate::rdata::has_names;
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
    /// Bytes that compression has saved.
    saved: usize,
    /// Id and flags, as the first four bytes of the header are.
    head: u32,
    /// Questions, then records by section, as the last eight bytes of the header are.
    counts: u64,
    /// Bytes of the question's name at offset 12; 0 while there is none.
    qname_len: u8,
    /// Whether the suffixes of the question's name are in the table: done when the first name is compressed.
    qname_known: bool,
    /// Names that were written in full and are not in the table yet.
    unknown: ArrayVec<Place, PLAIN_MAX>,
    /// The last owner that was written, for [`Owner::Same`].
    owner: Place,
}

/// Names in full that are put into the table together.
const PLAIN_MAX: usize = 16;

/// A name that stands in the message, in one word: offset, bytes there with a pointer at the end included, length
/// without pointers. 0 when there is no such name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u32);

/// The owner of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner<'a> {
    /// The name of the question: a pointer to it.
    Question,
    /// The owner of the record before: a pointer to it.
    Same,
    /// A name that was written: a pointer to it.
    Written(Place),
    /// Any name, compressed.
    Name(Name<'a>),
}

/// A place to go back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    at: usize,
    saved: usize,
    counts: u64,
    suffixes: usize,
    qname_known: bool,
    unknown: u8,
    owner: Place,
}

const NO_OWNER: Place = Place(0);

/// One question and no records yet.
const ONE_QUESTION: u64 = 1 << 48;

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
            saved: 0,
            head: 0,
            counts: 0,
            qname_len: 0,
            qname_known: false,
            unknown: ArrayVec::new_const(),
            owner: NO_OWNER,
        }
    }

    /// Sets the first two words of the header.
    #[inline]
    pub fn header(&mut self, id: u16, flags: Flags) {
        self.head = u32::from(id) << 16 | u32::from(flags.0);
    }

    /// The flags as they are now.
    #[inline]
    pub const fn flags(&self) -> Flags {
        Flags(self.head as u16)
    }

    /// Replaces the flags, for what is known late: AA, TC, the rcode.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.head = self.head & !0xffff | u32::from(flags.0);
    }

    /// Copies a question section of one question as it was received, see [`crate::Query::question`]. An empty one
    /// writes nothing.
    #[inline]
    pub fn question_raw(&mut self, question: &[u8]) -> Result<(), Full> {
        debug_assert!(self.counts == 0, "the question comes first, and there is one");
        let Some(name_len) = question.len().checked_sub(4) else {
            return Ok(());
        };
        self.bytes(question)?;
        self.counts = ONE_QUESTION;
        self.qname_len = name_len as u8;
        Ok(())
    }

    /// Writes a question.
    pub fn question(&mut self, name: Name<'_>, rtype: Rtype, rclass: Rclass) -> Result<(), Full> {
        debug_assert!(self.counts == 0, "the question comes first, and there is one");
        let mark = self.mark();
        let written = self
            .bytes(name.as_bytes())
            .and_then(|()| self.bytes(&rtype.0.to_be_bytes()))
            .and_then(|()| self.bytes(&rclass.0.to_be_bytes()));
        if written.is_err() {
            self.rewind(mark);
            return written;
        }
        self.counts = ONE_QUESTION;
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
    #[inline]
    pub fn record_wire(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Rtype,
        rclass: Rclass,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        if let Some(owner) = self.pointer(owner) {
            if !has_names(rtype) {
                return self.fixed(section, owner, rtype, rclass, ttl, rdata);
            }
            if rtype == Rtype::SRV
                && let Some((_, target)) = rdata.split_first_chunk::<6>()
                && Name::from_wire(target).is_ok()
                && !self.unknown.is_full()
            {
                self.fixed(section, owner, rtype, rclass, ttl, rdata)?;
                self.unknown.push(self.last_name(target.len()));
                return Ok(());
            }
        }
        self.record(section, owner, rtype, rclass, ttl, |out| out.wire(rtype, rdata))
    }

    /// A record whose owner is a pointer and whose data are copied, which most are.
    #[inline]
    fn fixed(
        &mut self,
        section: Section,
        owner: Place,
        rtype: Rtype,
        rclass: Rclass,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        let len = u16::try_from(rdata.len()).map_err(|_| Full)?;
        let room = self.room(rdata.len().wrapping_add(12))?;
        let (head, data) = room.split_first_chunk_mut::<12>().ok_or(Full)?;
        let [front @ .., _, _, _, _] = record_front(owner.pointer(), rtype, rclass, ttl, len).to_be_bytes();
        *head = front;
        match (data.first_chunk_mut::<4>(), rdata.first_chunk::<4>()) {
            (Some(to), Some(from)) if rdata.len() == 4 => *to = *from,
            _ => data.copy_from_slice(rdata),
        }
        self.saved = self.saved.wrapping_add(owner.plain_len()).wrapping_sub(2);
        self.owner = owner;
        self.count(section, 1);
        Ok(())
    }

    /// Copies `records` ready-made records, which must stand alone or point to nothing but the question. `plain_len`
    /// is their size without compression.
    #[inline]
    pub fn records_raw(&mut self, section: Section, records: u16, bytes: &[u8], plain_len: usize) -> Result<(), Full> {
        self.records_patched(section, records, bytes, plain_len, |_| ())
    }

    /// The same, with a look at the copy: what in it depends on where it stands is put right there.
    #[inline]
    pub fn records_patched(
        &mut self,
        section: Section,
        records: u16,
        bytes: &[u8],
        plain_len: usize,
        patch: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        let room = self.room(bytes.len())?;
        room.copy_from_slice(bytes);
        patch(room);
        self.saved = self.saved.saturating_add(plain_len.saturating_sub(bytes.len()));
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
            Ok(()) => self.set_flags(self.flags().with_rcode(rcode)),
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
            saved: self.saved,
            counts: self.counts,
            suffixes: self.names.len(),
            qname_known: self.qname_known,
            unknown: self.unknown.len() as u8,
            owner: self.owner,
        }
    }

    /// Takes back all that was written since `mark`, which must be of this message and not itself taken back. Flags
    /// and reserved room stay.
    pub fn rewind(&mut self, mark: Mark) {
        debug_assert!(mark.at <= self.at, "a mark that was itself taken back");
        self.at = mark.at.min(self.at);
        self.saved = mark.saved;
        self.counts = mark.counts;
        self.names.truncate(mark.suffixes);
        self.qname_known = mark.qname_known;
        self.unknown.truncate(mark.unknown.into());
        self.owner = mark.owner;
    }

    /// The place of the name, in full, that the last bytes are: the target of an SRV, say.
    #[inline]
    pub const fn last_name(&self, len: usize) -> Place {
        Place::new(self.at.saturating_sub(len), len, len)
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
        self.at.wrapping_add(self.saved)
    }

    /// Records so far in `section`.
    #[inline]
    pub const fn records(&self, section: Section) -> u16 {
        (self.counts >> shift(section)) as u16
    }

    /// Writes the header and gives the length of the message: 0 when there is not even room for that.
    #[inline]
    pub fn finish(self) -> usize {
        let Some(room) = self.buf.first_chunk_mut::<HEADER_LEN>() else {
            return 0;
        };
        if self.at < HEADER_LEN {
            return 0;
        }
        let [_, _, _, _, header @ ..] = (u128::from(self.head) << 64 | u128::from(self.counts)).to_be_bytes();
        *room = header;
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
        Ok(())
    }

    #[inline]
    fn count(&mut self, section: Section, records: u16) {
        debug_assert!(self.counts.trailing_zeros() >= shift(section), "sections come in order");
        debug_assert!(
            self.records(section).checked_add(records).is_some(),
            "a record has at least 11 bytes"
        );
        self.counts = self.counts.wrapping_add(u64::from(records) << shift(section));
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

/// Pointer to the owner, type, class, TTL and length of the data of a record, with room for four bytes of data behind them:
/// those of an address need no store of their own.
#[must_use]
#[inline(always)]
pub fn record_front(owner: u16, rtype: Rtype, rclass: Rclass, ttl: u32, len: u16) -> u128 {
    u128::from(owner) << 112
        | u128::from(rtype.0) << 96
        | u128::from(rclass.0) << 80
        | u128::from(ttl) << 48
        | u128::from(len) << 32
}

/// Where the count of a section stands in `counts`.
#[inline]
const fn shift(section: Section) -> u32 {
    match section {
        Section::Answer => 32,
        Section::Authority => 16,
        Section::Additional => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, NameBuf, Query, rdata::unpack};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text).unwrap()
    }

    const SECTIONS: [Section; 3] = [Section::Answer, Section::Authority, Section::Additional];

    /// A record of the plain list that messages are built from and read back to.
    #[derive(Clone, PartialEq, Debug)]
    struct Plain {
        section: Section,
        owner: NameBuf,
        rtype: Rtype,
        ttl: u32,
        rdata: Vec<u8>,
    }

    impl Plain {
        fn write(&self, builder: &mut Builder<'_>) -> Result<(), Full> {
            let owner = Owner::Name(self.owner.as_name());
            builder.record_wire(self.section, owner, self.rtype, Rclass::IN, self.ttl, &self.rdata)
        }
    }

    fn read(message: &[u8]) -> Vec<Plain> {
        let mut room = [0; 1024];
        Message::parse(message)
            .unwrap()
            .records()
            .map(|record| {
                let record = record.unwrap();
                let rdata = unpack(record.rtype, message, record.rdata_at, record.rdata.len(), &mut room).unwrap();
                Plain {
                    section: record.section,
                    owner: record.owner.to_buf(),
                    rtype: record.rtype,
                    ttl: record.ttl,
                    rdata: rdata.to_vec(),
                }
            })
            .collect()
    }

    fn plain_len(question: &NameBuf, records: &[Plain]) -> usize {
        let records = records
            .iter()
            .map(|record| record.owner.as_bytes().len() + 10 + record.rdata.len());
        12 + question.as_bytes().len() + 4 + records.sum::<usize>()
    }

    #[test]
    fn a_reply_of_one_address() {
        let (mut buf, mut names) = ([0; 512], Compressor::new());
        let mut builder = Builder::new(&mut buf, 512, &mut names);
        builder.header(0xabcd, Flags(0x0100).reply().with_aa(true));
        builder.question_raw(b"\x01a\x00\x00\x01\x00\x01").unwrap();
        builder
            .record(Section::Answer, Owner::Question, Rtype::A, Rclass::IN, 300, |rdata| {
                rdata.bytes(&[192, 0, 2, 1])
            })
            .unwrap();
        builder.set_flags(builder.flags().with_rcode(Rcode::NXDOMAIN));
        assert_eq!(
            (builder.records(Section::Answer), builder.plain_len()),
            (1, 12 + 7 + 17)
        );
        let len = builder.finish();
        let expected: &[u8] = b"\xab\xcd\x85\x03\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\
            \xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01";
        assert_eq!(&buf[..len], expected);
    }

    #[test]
    fn a_reply_without_question() {
        let (mut buf, mut names) = ([0; 512], Compressor::new());
        let mut builder = Builder::new(&mut buf, 512, &mut names);
        builder.question_raw(b"").unwrap();
        builder.header(1, Flags(0x8001));
        assert_eq!(builder.finish(), 12);
        assert_eq!(&buf[..12], b"\0\x01\x80\x01\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn rooms_too_small_for_anything() {
        for len in 0..12 {
            let (mut buf, mut names) = (vec![0; len], Compressor::new());
            let mut builder = Builder::new(&mut buf, 512, &mut names);
            assert_eq!(builder.question(Name::ROOT, Rtype::A, Rclass::IN), Err(Full));
            assert_eq!(builder.finish(), 0);
        }
        let (mut buf, mut names) = ([0; 16], Compressor::new());
        let mut builder = Builder::new(&mut buf, 512, &mut names);
        assert_eq!(builder.question(Name::ROOT, Rtype::A, Rclass::IN), Err(Full));
        assert_eq!((builder.len(), builder.left(), builder.plain_len()), (12, 4, 12));
        assert_eq!(builder.finish(), 12);
    }

    #[test]
    fn reserved_room_is_kept_for_the_opt() {
        let options = [(crate::edns::EDE, &b"\0\x03"[..])];
        let (mut buf, mut names) = ([0; 64], Compressor::new());
        let mut builder = Builder::new(&mut buf, 64, &mut names);
        builder.header(1, Flags(0x8000));
        builder.question(Name::ROOT, Rtype::A, Rclass::IN).unwrap();
        assert_eq!(builder.reserve(48), Err(Full));
        builder.reserve(17).unwrap();
        let address = |builder: &mut Builder<'_>| {
            builder.record_wire(
                Section::Answer,
                Owner::Question,
                Rtype::A,
                Rclass::IN,
                5,
                &[192, 0, 2, 1],
            )
        };
        assert_eq!(
            (address(&mut builder), address(&mut builder), builder.left()),
            (Ok(()), Ok(()), 0)
        );
        assert_eq!(address(&mut builder), Err(Full));
        assert_eq!(builder.opt(1232, Rcode::BADVERS, true, options), Err(Full));
        assert_eq!(builder.flags().rcode(), Rcode::NOERROR);
        builder.release(17);
        builder.opt(1232, Rcode::BADVERS, true, options).unwrap();
        assert_eq!(builder.finish(), 64);
        let message = Message::parse(&buf).unwrap();
        let opt = message.opt().unwrap();
        assert_eq!(
            (opt.udp_size, opt.version, opt.dnssec_ok, opt.ext_rcode),
            (1232, 0, true, 1)
        );
        assert!(opt.options().eq(options));
        assert_eq!(message.header.flags().rcode(), Rcode(0));
    }

    #[test]
    fn a_set_is_taken_back_whole() {
        let (mut buf, mut names) = ([0; 512], Compressor::new());
        let mut builder = Builder::new(&mut buf, 512, &mut names);
        builder
            .question(name("www.example").as_name(), Rtype::A, Rclass::IN)
            .unwrap();
        let mark = builder.mark();
        let ns = name("ns.other.test");
        let add_two = |builder: &mut Builder<'_>| {
            for _ in 0..2 {
                builder
                    .record_wire(
                        Section::Authority,
                        Owner::Question,
                        Rtype::NS,
                        Rclass::IN,
                        5,
                        ns.as_bytes(),
                    )
                    .unwrap();
            }
        };
        add_two(&mut builder);
        let full = builder.len();
        builder.rewind(mark);
        assert_eq!(builder.mark(), mark);
        assert_eq!(builder.records(Section::Authority), 0);
        // The names of what was taken back cannot be pointed to.
        add_two(&mut builder);
        assert_eq!(builder.len(), full);
    }

    #[test]
    fn ready_made_records_are_copied() {
        let (mut buf, mut names) = ([0; 64], Compressor::new());
        let mut builder = Builder::new(&mut buf, 64, &mut names);
        builder.question_raw(b"\x01a\x00\x00\x01\x00\x01").unwrap();
        let records =
            b"\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\xc0\0\x02\x01\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\xc0\0\x02\x02";
        builder.records_raw(Section::Answer, 2, records, 34).unwrap();
        assert_eq!(
            (builder.records(Section::Answer), builder.plain_len()),
            (2, 12 + 7 + 34)
        );
        assert_eq!(builder.records_raw(Section::Answer, 2, records, 34), Err(Full));
        assert_eq!(
            (builder.records(Section::Answer), builder.plain_len()),
            (2, 12 + 7 + 34)
        );
        let len = builder.finish();
        assert_eq!(read(&buf[..len]).len(), 2);
    }

    #[test]
    fn names_in_rdata_are_compressed_by_type() {
        let host = name("host.example.org");
        let check = |rtype, front: &[u8], behind: &[u8], expected_len: usize| {
            let (mut buf, mut names) = ([0; 512], Compressor::new());
            let mut builder = Builder::new(&mut buf, 512, &mut names);
            builder.question(host.as_name(), rtype, Rclass::IN).unwrap();
            let rdata = [front, host.as_bytes(), behind].concat();
            let before = builder.len();
            builder
                .record_wire(Section::Answer, Owner::Question, rtype, Rclass::IN, 5, &rdata)
                .unwrap();
            assert_eq!(builder.len() - before - 12, expected_len, "{rtype}");
            let len = builder.finish();
            assert_eq!(read(&buf[..len])[0].rdata, rdata, "{rtype}");
        };
        for rtype in [Rtype::NS, Rtype::CNAME, Rtype::PTR] {
            check(rtype, b"", b"", 2);
        }
        check(Rtype::MX, b"\0\x01", b"", 4);
        check(Rtype::SOA, host.as_bytes(), &[7; 20], 24);
        check(Rtype::DNAME, b"", b"", 18);
        check(Rtype::SRV, &[0; 6], b"", 24);
        check(Rtype::NAPTR, &[0; 7], b"", 25);
        check(Rtype::SVCB, &[0; 2], b"\0\x03\0\x02\x01\xbb", 26);
        check(Rtype(65280), b"x", b"y", 20);
    }

    #[test]
    fn srv_targets_can_be_pointed_to() {
        let (mut buf, mut names) = ([0; 512], Compressor::new());
        let mut builder = Builder::new(&mut buf, 512, &mut names);
        builder
            .question(name("_x._tcp.example").as_name(), Rtype::SRV, Rclass::IN)
            .unwrap();
        let host = name("host.other.test");
        let rdata = [&[0; 6], host.as_bytes()].concat();
        builder
            .record_wire(Section::Answer, Owner::Question, Rtype::SRV, Rclass::IN, 5, &rdata)
            .unwrap();
        let before = builder.len();
        let owner = Owner::Name(host.as_name());
        builder
            .record_wire(Section::Additional, owner, Rtype::A, Rclass::IN, 5, &[192, 0, 2, 1])
            .unwrap();
        assert_eq!(builder.len() - before, 16);
        let len = builder.finish();
        assert_eq!(read(&buf[..len])[1].owner, host);
    }

    fn any_name() -> impl Strategy<Value = NameBuf> {
        let label = proptest::sample::select(vec![&b"a"[..], b"Bc", b"\0.", b"twelve-bytes"]);
        proptest::collection::vec(label, 0..5).prop_map(|labels| NameBuf::from_labels(labels, Name::ROOT).unwrap())
    }

    fn any_record() -> impl Strategy<Value = Plain> {
        let rdata = prop_oneof![
            any::<[u8; 4]>().prop_map(|address| (Rtype::A, address.to_vec())),
            any_name().prop_map(|name| (Rtype::CNAME, name.as_bytes().to_vec())),
            (any_name(), any::<[u8; 6]>()).prop_map(|(name, head)| (Rtype::SRV, [&head, name.as_bytes()].concat())),
            (any_name(), any::<[u8; 2]>()).prop_map(|(name, head)| (Rtype::MX, [&head, name.as_bytes()].concat())),
            (any_name(), any_name(), any::<[u8; 20]>())
                .prop_map(|(a, b, tail)| (Rtype::SOA, [a.as_bytes(), b.as_bytes(), &tail].concat())),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| (Rtype(65280), bytes)),
        ];
        (0..3_usize, any_name(), any::<u32>(), rdata).prop_map(|(section, owner, ttl, (rtype, rdata))| Plain {
            section: SECTIONS[section],
            owner,
            rtype,
            ttl,
            rdata,
        })
    }

    proptest! {
        #[test]
        fn built_then_parsed_is_the_same(
            question in any_name(),
            mut records in proptest::collection::vec(any_record(), 0..24),
            id: u16,
        ) {
            records.sort_by_key(|record| record.section);
            let (mut buf, mut names) = (vec![0; 8192], Compressor::new());
            // A table that other messages have used must make no difference.
            for _ in 0..2 {
                let mut builder = Builder::new(&mut buf, 8192, &mut names);
                builder.header(id, Flags(0x8180));
                builder.question(question.as_name(), Rtype::ANY, Rclass::IN).unwrap();
                for record in &records {
                    record.write(&mut builder).unwrap();
                }
                prop_assert_eq!(builder.plain_len(), plain_len(&question, &records));
                let len = builder.finish();
                prop_assert!(len <= plain_len(&question, &records));
                let message = Message::parse(&buf[..len]).unwrap();
                prop_assert_eq!((message.header.id.get(), message.header.flags()), (id, Flags(0x8180)));
                prop_assert_eq!(message.question.unwrap().name, question.as_name());
                prop_assert_eq!(read(&buf[..len]), &records[..]);
            }
        }

        #[test]
        fn cut_at_any_length_is_a_valid_prefix_with_tc(
            question in any_name(),
            mut records in proptest::collection::vec(any_record(), 1..12),
            limit in 0_usize..600,
        ) {
            records.sort_by_key(|record| record.section);
            let (mut buf, mut names) = (vec![0xaa; 600], Compressor::new());
            let mut builder = Builder::new(&mut buf, limit, &mut names);
            if builder.question(question.as_name(), Rtype::ANY, Rclass::IN).is_err() {
                return Ok(());
            }
            let written = records.iter().take_while(|record| record.write(&mut builder).is_ok()).count();
            builder.set_flags(builder.flags().with_tc(written < records.len()));
            prop_assert_eq!(builder.plain_len(), plain_len(&question, &records[..written]));
            let len = builder.finish();
            prop_assert!(len <= limit);
            // Nothing behind the limit was touched.
            prop_assert!(buf[limit..].iter().all(|byte| *byte == 0xaa));
            prop_assert_eq!(read(&buf[..len]), &records[..written]);
            prop_assert_eq!(Message::parse(&buf[..len]).unwrap().header.flags().tc(), written < records.len());
        }

        #[test]
        fn a_query_reads_what_was_built_whatever_follows(
            qname in any_name(),
            udp_size in proptest::option::of(any::<u16>()),
            rtype: u16,
            behind: Vec<u8>,
        ) {
            let (mut buf, mut names) = (vec![0; 512], Compressor::new());
            let mut builder = Builder::new(&mut buf, 512, &mut names);
            builder.header(7, Flags(0x0100));
            builder.question(qname.as_name(), Rtype(rtype), Rclass::IN).unwrap();
            if let Some(udp_size) = udp_size {
                builder.opt(udp_size, Rcode::NOERROR, true, [(10, &b"cookie"[..])]).unwrap();
            }
            let len = builder.finish();
            buf.truncate(len);
            buf.extend_from_slice(&behind);
            let query = Query::parse(&buf).unwrap();
            prop_assert_eq!(query.qname.as_bytes(), qname.as_bytes());
            prop_assert_eq!((query.rtype, query.len), (Rtype(rtype), len));
            prop_assert_eq!(query.opt.map(|opt| opt.udp_size), udp_size);
            prop_assert_eq!(query.opt.and_then(|opt| opt.option(10)), udp_size.map(|_| &b"cookie"[..]));
        }
    }
}
