//! The one place where records become bytes.
//!
//! [`write`] makes the reply to a query out of an answer. [`prepare`] and [`Template`] use the same builder when data
//! changes, so that a hit is a copy: a prepared answer fits questions for its owner alone, a template any name of its
//! zone, since its pointers are moved to where the zone's name stands in the question.

mod copy;

use arrayvec::ArrayVec;
use nodens_wire::rdata::{self, Field};
use nodens_wire::{
    Builder, Compressor, Flags, Full, Name, Owner as Whose, Place, Query, Rclass, Rcode, Rtype, Section,
};

use crate::answer::{Answer, Bytes, Owner, Pick, Tail};
use crate::edns::ReplyOpt;
use crate::zone::absolute::absolute;
use crate::zone::small::Small;

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Bytes of the reply.
    pub(crate) len: u32,
    /// Bytes it would have uncompressed and whole, without the OPT: the size that logs and metrics show.
    pub(crate) plain_len: u32,
    /// Its flags.
    pub(crate) flags: u16,
    /// Nothing was left out.
    pub(crate) whole: bool,
}

/// Writes the reply to `query` into `room`, in at most `limit` bytes. `cut` says that more was there than the answer
/// holds.
pub(crate) fn write(
    query: &Query<'_>,
    answer: &Answer<'_>,
    cut: bool,
    opt: Option<&ReplyOpt>,
    limit: usize,
    room: &mut [u8],
    names: &mut Compressor,
) -> Written {
    let flags = query.flags.reply();
    let flags = answer.extras.rd.map_or(flags, |rd| flags.with_rd(rd));
    let flags = flags
        .with_aa(answer.aa)
        .with_ra(answer.extras.ra)
        .with_ad(answer.extras.ad)
        .with_rcode(answer.rcode)
        .with_tc(cut);
    copy::write(query, answer, flags, opt, limit, room)
        .unwrap_or_else(|| compose(query, answer, flags, opt, limit, room, names))
}

/// A reply that is put together record by record.
#[inline(never)]
fn compose(
    query: &Query<'_>,
    answer: &Answer<'_>,
    flags: Flags,
    opt: Option<&ReplyOpt>,
    limit: usize,
    room: &mut [u8],
    names: &mut Compressor,
) -> Written {
    let mut out = Builder::new(room, limit, names);
    out.header(query.id, flags);
    let opt_len = opt.map_or(0, ReplyOpt::len);
    let mut left_out = 0;
    // The header and the question fit: a UDP reply has 512 bytes at least.
    let fits = out.question_raw(query.question()).and_then(|()| out.reserve(opt_len));
    let lost = fits.is_err() || sections(&mut out, answer, &mut left_out);
    let plain_len = out.plain_len() + left_out;
    let flags = flags.with_tc(lost || flags.tc());
    out.set_flags(flags);
    if let Some(opt) = opt {
        out.release(opt_len);
        let padding = opt.padding(out.len() + opt_len, limit);
        // The room was reserved, and there is more up to the limit.
        let _ = out.opt(
            opt.udp_size,
            answer.rcode,
            opt.dnssec_ok,
            opt.all_options().chain(padding),
        );
    }
    let flags = out.flags().0;
    Written {
        len: out.finish() as u32,
        plain_len: u32::try_from(plain_len).unwrap_or(u32::MAX),
        flags,
        whole: !lost && left_out == 0,
    }
}

/// What surrounds the records of a message of a transfer.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    /// The query's.
    pub(crate) id: u16,
    pub(crate) flags: Flags,
    /// As it came.
    pub(crate) question: &'a [u8],
    pub(crate) opt: Option<&'a ReplyOpt>,
}

/// A record of a zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'z> {
    /// The owner's, relative to the zone.
    pub(crate) labels: &'z [u8],
    pub(crate) rtype: Rtype,
    pub(crate) ttl: u32,
    pub(crate) rdata: &'z [u8],
}

/// Where a message of a transfer ends, unless one record alone is longer.
const PART_LEN_MAX: usize = 63_000;

/// One message of a transfer, which takes records until it is full.
pub(crate) struct PartWriter<'a> {
    head: Head<'a>,
    apex: Name<'a>,
    out: Builder<'a>,
    /// The labels of the last record's owner.
    last: Option<ArrayVec<u8, 255>>,
    written: usize,
}

impl<'a> PartWriter<'a> {
    pub(crate) fn new(head: Head<'a>, apex: Name<'a>, room: &'a mut [u8], names: &'a mut Compressor) -> Self {
        let limit = room.len();
        let mut out = Builder::new(room, limit, names);
        out.header(head.id, head.flags);
        let opt_len = head.opt.map_or(0, ReplyOpt::len);
        // They came in a message, and are all that stands in this one.
        let _ = out.question_raw(head.question).and_then(|()| out.reserve(opt_len));
        Self {
            head,
            apex,
            out,
            last: None,
            written: 0,
        }
    }

    /// Writes a record; false if there is no room for it.
    pub(crate) fn add(&mut self, record: &Part<'_>) -> bool {
        let out = &mut self.out;
        let mark = out.mark();
        let name;
        let is_same = self.last.as_ref().is_some_and(|last| last[..] == *record.labels);
        let owner = if is_same {
            Whose::Same
        } else {
            let Some(absolute) = absolute(record.labels, self.apex) else {
                return false;
            };
            name = absolute;
            Whose::Name(name.as_name())
        };
        let (section, class) = (Section::Answer, Rclass::IN);
        let fits = out.record_wire(section, owner, record.rtype, class, record.ttl, record.rdata);
        if fits.is_err() || (self.written > 0 && out.len() > PART_LEN_MAX) {
            out.rewind(mark);
            return false;
        }
        if !is_same {
            self.last = Some(record.labels.iter().copied().collect());
        }
        self.written += 1;
        true
    }

    /// Tells how long the message is and how many records there are.
    pub(crate) fn finish(mut self) -> (usize, usize) {
        if let Some(opt) = self.head.opt {
            self.out.release(opt.len());
            let rcode = self.head.flags.rcode();
            // The room was reserved.
            let _ = self.out.opt(opt.udp_size, rcode, opt.dnssec_ok, opt.all_options());
        }
        (self.out.finish(), self.written)
    }
}

/// The reply to what could not be read as a query: a header, the question where there was one, an OPT for an OPT.
pub(crate) fn short(id: u16, flags: Flags, question: &[u8], opt: Option<u16>, room: &mut [u8]) -> usize {
    let mut names = Compressor::new();
    let mut out = Builder::new(room, 512, &mut names);
    out.header(id, flags);
    // Header, question and OPT are less than 512 bytes.
    let _ = out.question_raw(question);
    if let Some(udp_size) = opt {
        let _ = out.opt(udp_size, flags.rcode(), false, []);
    }
    out.finish()
}

/// Targets of SRV records that stand in the message, by their place in [`Answer::made`]: what owns the addresses behind
/// them is one of these, and need not be looked for among all names.
type Targets = ArrayVec<(u32, Place), 32>;

/// Writes the three sections; adds up what was left out, and tells whether something needed was lost (TC).
fn sections(out: &mut Builder<'_>, answer: &Answer<'_>, left_out: &mut usize) -> bool {
    let [answers, authority, additional] = &answer.sections;
    let mut targets = Targets::new();
    if let Some(Prepared { answer, shape, .. }) = answer.rendered
        && out
            .records_raw(Section::Answer, shape.answer_count, answer, shape.answer_plain.into())
            .is_err()
    {
        *left_out += usize::from(shape.answer_plain) + usize::from(shape.additional_plain);
        return true;
    }
    // As many records as fit: a client without TCP lives on what a cut answer holds.
    for (at, pick) in answers.iter().enumerate() {
        if record(out, Section::Answer, answer, pick, &mut targets).is_err() {
            *left_out += [&answers[at..], authority, additional]
                .iter()
                .flat_map(|s| s.iter())
                .map(|p| plain(answer, p))
                .sum::<usize>();
            return true;
        }
    }
    let needed = answer.rcode != Rcode::NOERROR || out.records(Section::Answer) == 0;
    let mut lost = whole_sets(out, Section::Authority, answer, authority, &mut targets, left_out);
    if let Some(tail) = answer.authority {
        lost |= self::tail(out, tail).is_err();
    }
    if lost && needed {
        return true;
    }
    if let Some(Prepared { additional, shape, .. }) = answer.rendered
        && shape.additional_count > 0
    {
        let plain = usize::from(shape.additional_plain);
        if lost
            || out
                .records_raw(Section::Additional, shape.additional_count, additional, plain)
                .is_err()
        {
            *left_out += plain;
        }
    }
    whole_sets(out, Section::Additional, answer, additional, &mut targets, left_out);
    false
}

/// Writes sets of records whole or not at all (RFC 2181 §9); stops at the first that does not fit.
fn whole_sets(
    out: &mut Builder<'_>,
    section: Section,
    answer: &Answer<'_>,
    picks: &[Pick<'_>],
    targets: &mut Targets,
    left_out: &mut usize,
) -> bool {
    let mut set = out.mark();
    for (at, pick) in picks.iter().enumerate() {
        let begins = at == 0 || !same_set(answer, &picks[at - 1], pick);
        if begins {
            set = out.mark();
        }
        if record(out, section, answer, pick, targets).is_err() {
            out.rewind(set);
            *left_out += picks[at..].iter().map(|pick| plain(answer, pick)).sum::<usize>();
            return true;
        }
    }
    false
}

fn same_set(answer: &Answer<'_>, one: &Pick<'_>, other: &Pick<'_>) -> bool {
    one.rtype == other.rtype
        && match (one.owner, other.owner) {
            (Owner::Question, Owner::Question) => true,
            (Owner::Name(one), Owner::Name(other)) => answer.bytes(one) == answer.bytes(other),
            _ => false,
        }
}

#[inline]
fn record(
    out: &mut Builder<'_>,
    section: Section,
    answer: &Answer<'_>,
    pick: &Pick<'_>,
    targets: &mut Targets,
) -> Result<(), Full> {
    let written = |name| match name {
        Bytes::Made { at, .. } => targets.iter().find(|(target, _)| *target == at),
        Bytes::Zone(_) => None,
    };
    let owner = match pick.owner {
        Owner::Question => Whose::Question,
        Owner::Name(name) if let Some((_, place)) = written(name) => Whose::Written(*place),
        // Every name in a snapshot was checked when it came in.
        Owner::Name(name) => Whose::Name(Name::from_wire(answer.bytes(name)).map_err(|_| Full)?),
    };
    out.record_wire(
        section,
        owner,
        pick.rtype,
        answer.rclass,
        pick.ttl,
        answer.bytes(pick.rdata),
    )?;
    if let (Rtype::SRV, Bytes::Made { at, len }) = (pick.rtype, pick.rdata) {
        let target_len = usize::from(len).saturating_sub(SRV_FIXED_LEN);
        // Others are found as any name is.
        let _ = targets.try_push((at + SRV_FIXED_LEN as u32, out.last_name(target_len)));
    }
    Ok(())
}

/// What stands in front of the target in the data of an SRV.
pub(crate) const SRV_FIXED_LEN: usize = 6;

/// The length of a record with no name compressed.
fn plain(answer: &Answer<'_>, pick: &Pick<'_>) -> usize {
    let owner = match pick.owner {
        Owner::Question => 2,
        Owner::Name(name) => answer.bytes(name).len(),
    };
    owner + 10 + answer.bytes(pick.rdata).len()
}

/// Longest template; a zone with more is answered record by record.
const TEMPLATE_LEN_MAX: usize = 1024;

fn tail(out: &mut Builder<'_>, tail: Tail<'_>) -> Result<(), Full> {
    let Tail { template, apex_at } = tail;
    let behind = out.len() - usize::from(template.begin);
    out.records_patched(
        Section::Authority,
        template.count,
        &template.bytes,
        template.plain_len.into(),
        |copy| {
            template.move_to(apex_at, behind, copy);
        },
    )
}

/// What makes an offset a compression pointer (RFC 1035 §4.1.4).
const POINTER: u16 = 0xC000;

/// AUTHORITY records of a zone as bytes, for any question in it.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Box<[u8]>,
    count: u16,
    plain_len: u16,
    /// Where the bytes stood in the message they were made in; the zone's name was its question.
    begin: u16,
    pointers: Box<[Pointer]>,
}

#[derive(Clone, Copy, Debug)]
struct Pointer {
    at: u16,
    target: u16,
}

impl Template {
    /// Puts the pointers of a copy right, whose zone's name stands `apex_at` bytes and which itself stands `behind`
    /// bytes further on than where it was made.
    #[inline]
    fn move_to(&self, apex_at: usize, behind: usize, copy: &mut [u8]) {
        for pointer in &self.pointers {
            // Into the question, or back into the template itself.
            let by = if pointer.target < self.begin { apex_at } else { behind };
            let at = usize::from(pointer.at);
            let target = POINTER | (pointer.target + by as u16);
            copy[at..at + 2].copy_from_slice(&target.to_be_bytes());
        }
    }

    /// The records of a question for the zone's own name. `None` where they do not fit.
    pub(crate) fn of(records: &ToRender<'_>) -> Option<Self> {
        let mut room = [0; 12 + 259 + TEMPLATE_LEN_MAX];
        let mut names = Compressor::new();
        let mut out = Builder::new(&mut room, usize::MAX, &mut names);
        let begin = records.write_question(&mut out)?;
        let plain = out.plain_len();
        records.write(&mut out, Section::Authority)?;
        let (end, plain_len) = (out.len(), out.plain_len() - plain);
        let count = out.records(Section::Authority);
        out.finish();
        let bytes = room.get(begin..end).filter(|bytes| bytes.len() <= TEMPLATE_LEN_MAX)?;
        let pointers = pointers(bytes)?;
        Some(Self {
            bytes: bytes.into(),
            count,
            plain_len: u16::try_from(plain_len).ok()?,
            begin: u16::try_from(begin).ok()?,
            pointers: pointers.into(),
        })
    }
}

/// Where the names of these records are pointers.
fn pointers(records: &[u8]) -> Option<Vec<Pointer>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < records.len() {
        at = name_end(records, at, &mut found)?;
        let rtype = Rtype(u16::from_be_bytes([*records.get(at)?, *records.get(at + 1)?]));
        let len = u16::from_be_bytes([*records.get(at + 8)?, *records.get(at + 9)?]);
        let mut field_at = at + 10;
        at = field_at + usize::from(len);
        for field in rdata::layout(rtype) {
            match field {
                Field::Fixed(len) => field_at += usize::from(*len),
                Field::Name { .. } => field_at = name_end(records, field_at, &mut found)?,
                _ => break,
            }
        }
    }
    Some(found)
}

fn name_end(records: &[u8], mut at: usize, found: &mut Vec<Pointer>) -> Option<usize> {
    loop {
        match *records.get(at)? {
            0 => return Some(at + 1),
            len if len >= 0xC0 => {
                let target = u16::from_be_bytes([len & 0x3F, *records.get(at + 1)?]);
                found.push(Pointer {
                    at: u16::try_from(at).ok()?,
                    target,
                });
                return Some(at + 2);
            }
            len => at += 1 + usize::from(len),
        }
    }
}

/// Records that are made into bytes when data changes.
#[derive(Debug)]
pub(crate) struct ToRender<'a> {
    question: Name<'a>,
    records: Vec<(Section, Name<'a>, Rtype, u32, &'a [u8])>,
}

impl<'a> ToRender<'a> {
    pub(crate) fn new(question: Name<'a>) -> Self {
        Self {
            question,
            records: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, section: Section, owner: Name<'a>, rtype: Rtype, ttl: u32, rdata: &'a [u8]) {
        self.records.push((section, owner, rtype, ttl, rdata));
    }

    fn write_question(&self, out: &mut Builder<'_>) -> Option<usize> {
        out.header(0, Flags(0));
        out.question(self.question, Rtype::A, Rclass::IN).ok()?;
        Some(out.len())
    }

    fn write(&self, out: &mut Builder<'_>, wanted: Section) -> Option<()> {
        for &(section, owner, rtype, ttl, rdata) in &self.records {
            if section == wanted {
                let owner = if owner == self.question {
                    Whose::Question
                } else {
                    Whose::Name(owner)
                };
                out.record_wire(section, owner, rtype, Rclass::IN, ttl, rdata).ok()?;
            }
        }
        Some(())
    }
}

/// Answer and additional records as bytes, for a question for their owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prepared<'z> {
    answer: &'z [u8],
    additional: &'z [u8],
    shape: Shape,
}

/// How many records prepared bytes are, and how long they would be with no name compressed.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    answer_count: u16,
    additional_count: u16,
    answer_plain: u16,
    additional_plain: u16,
}

impl Prepared<'_> {
    /// The same answer, and nothing in ADDITIONAL.
    pub(crate) fn without_additional(self) -> Self {
        Self {
            additional: &[],
            shape: Shape {
                additional_count: 0,
                additional_plain: 0,
                ..self.shape
            },
            ..self
        }
    }

    /// One record without names, for a question whose name is so many bytes shorter.
    pub(crate) fn for_shorter(mut self, bytes: u16) -> Self {
        self.shape.answer_plain -= bytes;
        self
    }

    /// No section has two records, so there is no order that could be changed.
    pub(crate) fn is_single(&self) -> bool {
        self.shape.answer_count <= 1 && self.shape.additional_count <= 1
    }
}

/// Some prepared answers of one owner, side by side in one allocation.
///
/// What every answer reads comes first: the bytes of the first answer then stand in the same cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PreparedBuf<const N: usize> {
    /// Where each answer's records, and then its additional ones, end.
    ends: [(u16, u16); N],
    shapes: [Shape; N],
    bytes: Small<PREPARED_INLINE>,
}

impl<const N: usize> PreparedBuf<N> {
    /// The bytes of each of the answers; one that does not fit into [`PREPARED_LEN_MAX`] is empty.
    pub(crate) fn of(answers: [Option<&ToRender<'_>>; N]) -> Self {
        let mut all = Vec::new();
        let mut out = Self {
            ends: [(0, 0); N],
            shapes: [Shape::default(); N],
            bytes: Small::default(),
        };
        for (i, records) in answers.into_iter().enumerate() {
            let start = all.len() as u16;
            let made = records.and_then(|records| prepare(records, &mut all));
            let (answer_end, shape) = made.unwrap_or_else(|| (start, Shape::default()));
            out.ends[i] = (answer_end, all.len() as u16);
            out.shapes[i] = shape;
        }
        out.bytes = all[..].into();
        out
    }

    /// One of the answers, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Option<Prepared<'_>> {
        let start = if i == 0 { 0 } else { self.ends[i - 1].1 };
        let (middle, end) = self.ends[i];
        if middle == start {
            return None;
        }
        let bytes = self.bytes.as_bytes().get(usize::from(start)..usize::from(end))?;
        let (answer, additional) = bytes.split_at_checked(usize::from(middle - start))?;
        Some(Prepared {
            answer,
            additional,
            shape: self.shapes[i],
        })
    }

    /// Has the first bytes brought into the cache.
    #[inline]
    pub(crate) fn touch(&self) {
        let bytes = self.bytes.as_bytes();
        std::hint::black_box((bytes.first().copied(), bytes.last().copied()));
    }
}

/// Prepared bytes up to this length stand in the entry they belong to: an address and an SRV record with its target's
/// address, for names of usual length.
const PREPARED_INLINE: usize = 94;

/// Longest answer that is kept as bytes; a longer one is put together when it is asked for.
const PREPARED_LEN_MAX: usize = 1024;

/// Appends the bytes of an answer; returns where its answer records end.
fn prepare(records: &ToRender<'_>, all: &mut Vec<u8>) -> Option<(u16, Shape)> {
    let mut room = [0; 12 + 259 + PREPARED_LEN_MAX];
    let mut names = Compressor::new();
    let mut out = Builder::new(&mut room, usize::MAX, &mut names);
    let begin = records.write_question(&mut out)?;
    let plain = out.plain_len();
    records.write(&mut out, Section::Answer)?;
    let (middle, answer_plain) = (out.len(), out.plain_len() - plain);
    records.write(&mut out, Section::Additional)?;
    let (end, additional_plain) = (out.len(), out.plain_len() - plain - answer_plain);
    let (answer_count, additional_count) = (out.records(Section::Answer), out.records(Section::Additional));
    out.finish();
    // AUTHORITY will stand between the two: no name of the latter may point into it.
    let additional = room.get(middle..end)?;
    if pointers(additional)?
        .iter()
        .any(|pointer| usize::from(pointer.target) >= middle)
    {
        return None;
    }
    let answer_end = u16::try_from(all.len() + middle - begin).ok()?;
    u16::try_from(all.len() + end - begin).ok()?;
    all.extend_from_slice(room.get(begin..end)?);
    let (answer_plain, additional_plain) = (u16::try_from(answer_plain).ok()?, u16::try_from(additional_plain).ok()?);
    Some((
        answer_end,
        Shape {
            answer_count,
            additional_count,
            answer_plain,
            additional_plain,
        },
    ))
}
