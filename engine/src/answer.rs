//! What a plan has found for one question: picks out of the snapshot, in the order in which they will be written.
//!
//! Steps add picks and never bytes; [`encode`](crate::encode) alone turns them into a message. Memory is kept from
//! query to query, so that answering allocates nothing once warm.

use std::net::SocketAddr;
use std::sync::Arc;

use nodens_wire::{NameBuf, Rclass, Rcode, Rtype, Section};

use crate::encode::{Prepared, Template};
use crate::forward::Failed;
use crate::plan::StepName;
use crate::plan::rewrite::InvalidName;
use crate::services::Service;
use crate::transfer::Wanted;

/// Most records of one section: more than a message of 64 KB can hold.
pub(crate) const PICKS_MAX: usize = 16_384;
/// Most look-ups that one answer may still want.
pub(crate) const PENDING_MAX: usize = 256;

/// Bytes of a record: in the snapshot, or made for this query.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes<'z> {
    /// In the snapshot.
    Zone(&'z [u8]),
    /// In [`Answer::made`], from `at` on.
    Made {
        /// Where they begin.
        at: u32,
        /// How many there are.
        len: u16,
    },
}

impl Bytes<'_> {
    /// Those behind the first `front`: the name at the end of an rdata.
    pub(crate) fn behind(self, front: usize) -> Self {
        match self {
            Self::Zone(bytes) => Self::Zone(bytes.get(front..).unwrap_or_default()),
            Self::Made { at, len } => {
                let front = front.min(len.into());
                Self::Made {
                    at: at + front as u32,
                    len: len - front as u16,
                }
            }
        }
    }
}

/// Whose record it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'z> {
    /// The name that was asked for.
    Question,
    /// An absolute name in wire form.
    Name(Bytes<'z>),
}

/// One record to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick<'z> {
    /// Whose it is.
    pub(crate) owner: Owner<'z>,
    /// Its type.
    pub(crate) rtype: Rtype,
    /// Its TTL in seconds.
    pub(crate) ttl: u32,
    /// Its rdata, names in it uncompressed.
    pub(crate) rdata: Bytes<'z>,
}

/// What a name outside the zone was wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An alias of an etcd service: the answer records are put behind its CNAME, whatever the rcode.
    Alias,
    /// An alias of a zone file: the same, and the rcode and AUTHORITY are taken over.
    AliasWithRcode,
    /// The other target that `rewrite` gave an alias: the same, and AUTHORITY is taken over.
    OtherTarget,
    /// Addresses for ADDITIONAL.
    Addresses,
    /// The second look-up for the same target: aliases are not repeated.
    MoreAddresses,
}

/// A look-up that has to go through the plan again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<'z> {
    /// Its result belongs into this section,
    pub(crate) section: Section,
    /// before the pick of this index.
    pub(crate) at: usize,
    /// Absolute name in wire form.
    pub(crate) target: Bytes<'z>,
    /// The type to ask for.
    pub(crate) rtype: Rtype,
    /// What for.
    pub(crate) purpose: Purpose,
}

/// Why there is no answer, for the `errors` log and EDE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The question went past the last directive of the block, which is this one.
    NoNext(&'static str),
    /// The source has not been read yet.
    Unsynced(StepName),
    /// No value at this key or below it parses.
    BadValues {
        /// The zone.
        zone: Box<NameBuf>,
        /// The key, relative to the zone's.
        key: Box<[u8]>,
    },
    /// An NS service points to a name.
    NsHost(Box<[u8]>),
    /// A DNAME makes a name that is too long, or the same again.
    Dname,
    /// What a template wrote is no record.
    Template(Box<str>),
    /// What `rewrite` made of the name is none.
    InvalidName(InvalidName),
    /// A stub zone's servers sent back what another stub zone had sent on.
    StubCycle,
    /// No other server answered.
    Upstream(Arc<Failed>),
    /// A panic while answering.
    Panic,
}

/// AUTHORITY records ready to copy, with the place of the zone's name in the question that they point to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'z> {
    /// The records.
    pub(crate) template: &'z Template,
    /// Bytes of the question's name in front of the zone's.
    pub(crate) apex_at: usize,
}

/// What steps say about the reply beside what was found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// RA.
    pub(crate) ra: bool,
    /// AD.
    pub(crate) ad: bool,
    /// TC: the server that was asked had more to say.
    pub(crate) tc: bool,
    /// RD, where it is not to be the query's.
    pub(crate) rd: Option<bool>,
    /// Another query asked for it, and keeps it.
    pub(crate) is_shared: bool,
    /// Who said it.
    pub(crate) upstream: Option<SocketAddr>,
    /// An extended error (RFC 8914).
    pub(crate) error: Option<u16>,
    /// There is no reply.
    pub(crate) is_dropped: bool,
}

/// Codes and data of EDNS options of a reply.
pub(crate) type ShownOptions = Box<[(u16, Box<[u8]>)]>;

/// What a plan has found. See the module.
#[derive(Debug)]
pub(crate) struct Answer<'z> {
    /// How it went.
    pub(crate) rcode: Rcode,
    /// The data is authoritative.
    pub(crate) aa: bool,
    /// Answer and additional records ready to copy; the sections hold none of these then.
    pub(crate) rendered: Option<Prepared<'z>>,
    /// AUTHORITY ready to copy, behind the picks of that section.
    pub(crate) authority: Option<Tail<'z>>,
    /// Records to be written, by section.
    pub(crate) sections: [Vec<Pick<'z>>; 3],
    /// What was made for this query: names, rdata.
    pub(crate) made: Vec<u8>,
    /// Look-ups that have to go through the plan again.
    pub(crate) pending: Vec<Pending<'z>>,
    /// Working memory of a look-up.
    pub(crate) gathered: Vec<&'z Service>,
    /// The step that answered; `None` for the server itself.
    pub(crate) by: Option<StepName>,
    /// Why there is no answer.
    pub(crate) reason: Option<Reason>,
    /// A limit cut the answer short: TC over UDP.
    pub(crate) limited: bool,
    /// In place of all that: the whole zone, whose apex the question names.
    pub(crate) transfer: Option<Box<Wanted>>,
    /// The extended error of the server that was asked: its code and text.
    pub(crate) told_error: Option<Bytes<'z>>,
    /// Code and data of options that `rewrite` has the reply show. They survive a step that passes the question on.
    pub(crate) options: Option<ShownOptions>,
    /// What steps say about the reply. It survives a step that passes the question on after all.
    pub(crate) extras: Extras,
    /// The class of the records.
    pub(crate) rclass: Rclass,
    /// What belongs to the question that this one was asked for.
    base: Base,
}

/// How much an answer held when the question that is asked now began.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    picks: [usize; 3],
    pending: usize,
}

/// The state of a question while another is asked for it.
#[derive(Debug)]
pub(crate) struct Outer<'z> {
    rcode: Rcode,
    aa: bool,
    authority: Option<Tail<'z>>,
    by: Option<StepName>,
    reason: Option<Reason>,
    extras: Extras,
    base: Base,
}

/// How much an answer held at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    picks: usize,
    pending: usize,
}

/// The memory of an answer, between two queries.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    sections: [Vec<Pick<'static>>; 3],
    pending: Vec<Pending<'static>>,
    gathered: Vec<&'static Service>,
    made: Vec<u8>,
}

/// An empty vector of another lifetime in the same memory.
fn recycle<A, B>(mut vec: Vec<A>) -> Vec<B> {
    vec.clear();
    // In-place collection: a vector of the same layout keeps its allocation (tests/allocations).
    vec.into_iter().map(|_| unreachable!("it is empty")).collect()
}

impl<'z> Answer<'z> {
    /// An empty answer.
    #[must_use]
    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            rcode: Rcode::NOERROR,
            aa: false,
            rendered: None,
            authority: None,
            sections: memory.sections.map(recycle),
            made: memory.made,
            pending: recycle(memory.pending),
            gathered: recycle(memory.gathered),
            by: None,
            reason: None,
            limited: false,
            transfer: None,
            told_error: None,
            options: None,
            extras: Extras::default(),
            rclass: Rclass::IN,
            base: Base::default(),
        }
    }

    /// Begins an inner question, whose records come behind those that are there.
    pub(crate) fn begin_inner(&mut self) -> Outer<'z> {
        let outer = Outer {
            rcode: self.rcode,
            aa: self.aa,
            authority: self.authority.take(),
            by: self.by.take(),
            reason: self.reason.take(),
            extras: std::mem::take(&mut self.extras),
            base: self.base,
        };
        self.base = Base {
            picks: std::array::from_fn(|i| self.sections[i].len()),
            pending: self.pending.len(),
        };
        self.rcode = Rcode::NOERROR;
        self.aa = false;
        outer
    }

    /// Ends an inner question: its ANSWER goes where it was wanted, and an alias that stands for the whole answer
    /// takes over the rcode and the SOA. Returns how many records came.
    pub(crate) fn end_inner(&mut self, outer: Outer<'z>, wanted: &Pending<'z>) -> usize {
        let [answers, authority, additional] = self.base.picks;
        let takes_over = wanted.purpose == Purpose::AliasWithRcode;
        self.sections[2].truncate(additional);
        let keeps_authority = wanted.purpose == Purpose::OtherTarget;
        if !keeps_authority
            && (!takes_over
                || self.sections[1]
                    .get(authority)
                    .is_none_or(|pick| pick.rtype != Rtype::SOA))
        {
            self.sections[1].truncate(authority);
        }
        self.pending.truncate(self.base.pending);
        if wanted.purpose == Purpose::MoreAddresses {
            let mut at = 0;
            self.sections[0].retain(|pick| {
                at += 1;
                at <= answers || pick.rtype != Rtype::CNAME
            });
        }
        for pick in &mut self.sections[0][answers..] {
            if let Owner::Question = pick.owner {
                pick.owner = Owner::Name(wanted.target);
            }
        }
        let count = self.sections[0].len() - answers;
        let [from, _, to] = &mut self.sections;
        if wanted.section == Section::Answer {
            from[wanted.at..].rotate_right(count);
        } else {
            to.extend_from_slice(&from[answers..]);
            from.truncate(answers);
            to[wanted.at..].rotate_right(count);
        }
        let inner_rcode = self.rcode;
        self.rcode = match inner_rcode {
            Rcode::NXDOMAIN | Rcode::SERVFAIL if takes_over => inner_rcode,
            _ => outer.rcode,
        };
        self.reason = self
            .reason
            .take()
            .filter(|_| takes_over && inner_rcode == Rcode::SERVFAIL)
            .or(outer.reason);
        self.aa = outer.aa;
        self.authority = outer.authority;
        self.by = outer.by;
        self.extras = outer.extras;
        self.base = outer.base;
        count
    }

    /// Where the records of the question that is asked now begin.
    pub(crate) fn begins(&self) -> [usize; 3] {
        self.base.picks
    }

    /// The oldest look-up that the question still wants.
    pub(crate) fn next_pending(&self) -> Option<Pending<'z>> {
        self.pending.get(self.base.pending).copied()
    }

    /// Takes off the look-up that was just made; those behind it move by the records that came.
    pub(crate) fn resolved(&mut self, came: usize) {
        let Some(done) = self.pending.get(self.base.pending).copied() else {
            return;
        };
        self.pending.remove(self.base.pending);
        for later in &mut self.pending[self.base.pending..] {
            if later.section == done.section && later.at >= done.at {
                later.at += came;
            }
        }
    }

    /// Empties it for the next query.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        self.base = Base::default();
        self.made.clear();
        self.limited = false;
        self.transfer = None;
        self.options = None;
        self.extras = Extras::default();
        self.rclass = Rclass::IN;
        self.clear();
    }

    /// No other server answered.
    pub(crate) fn fail(&mut self, failed: &Arc<Failed>) {
        self.rcode = failed.rcode();
        self.extras.error = failed.ede();
        self.reason = Some(Reason::Upstream(Arc::clone(failed)));
    }

    /// Forgets all that the question has found.
    pub(crate) fn clear(&mut self) {
        self.clear_records();
        self.rcode = Rcode::NOERROR;
        self.aa = false;
        self.told_error = None;
        self.by = None;
        if self.reason.is_some() {
            self.reason = None;
        }
    }

    /// Forgets the question's records and what it still wanted.
    pub(crate) fn clear_records(&mut self) {
        self.rendered = None;
        self.authority = None;
        for (section, begin) in self.sections.iter_mut().zip(self.base.picks) {
            section.truncate(begin);
        }
        self.pending.truncate(self.base.pending);
    }

    /// Gives the memory back.
    #[must_use]
    pub(crate) fn into_memory(self) -> Memory {
        Memory {
            sections: self.sections.map(recycle),
            pending: recycle(self.pending),
            gathered: recycle(self.gathered),
            made: self.made,
        }
    }

    /// Adds a record; past the limit it is dropped.
    pub(crate) fn pick(&mut self, section: Section, pick: Pick<'z>) {
        let picks = &mut self.sections[section as usize];
        if picks.len() < PICKS_MAX {
            picks.push(pick);
        } else {
            self.limited = true;
        }
    }

    /// Wants a look-up that goes through the plan again; past the limit it is dropped.
    pub(crate) fn ask_again(&mut self, pending: Pending<'z>) {
        if self.pending.len() < PENDING_MAX {
            self.pending.push(pending);
        } else {
            self.limited |= pending.section == Section::Answer;
        }
    }

    /// Records of a section so far.
    #[must_use]
    pub(crate) fn len(&self, section: Section) -> usize {
        self.sections[section as usize].len()
    }

    /// No record for ANSWER, and none to be asked for.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.rendered.is_none()
            && self.sections[0].len() == self.base.picks[0]
            && self.pending.len() == self.base.pending
    }

    /// How much a section holds now.
    pub(crate) fn mark(&self, section: Section) -> Mark {
        Mark {
            picks: self.len(section),
            pending: self.pending.len(),
        }
    }

    /// Drops what came to a section since the mark.
    pub(crate) fn rewind(&mut self, section: Section, mark: Mark) {
        self.sections[section as usize].truncate(mark.picks);
        self.pending.truncate(mark.pending);
    }

    /// Keeps bytes that were made for this query.
    pub(crate) fn make(&mut self, bytes: &[u8]) -> Bytes<'z> {
        self.make_with(|made| made.extend_from_slice(bytes))
    }

    /// Keeps what `write` appends.
    pub(crate) fn make_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Bytes<'z> {
        let at = self.made.len();
        write(&mut self.made);
        self.made_since(at)
    }

    /// Keeps `fixed` with a name behind it.
    pub(crate) fn join(&mut self, fixed: &[u8], name: Bytes<'z>) -> Bytes<'z> {
        let start = self.made.len();
        self.made.extend_from_slice(fixed);
        match name {
            Bytes::Zone(name) => self.made.extend_from_slice(name),
            Bytes::Made { at, len } => self
                .made
                .extend_from_within(at as usize..at as usize + usize::from(len)),
        }
        self.made_since(start)
    }

    fn made_since(&self, at: usize) -> Bytes<'z> {
        // One rdata is below 64 KB, and 16,384 of them below 4 GB.
        let len = u16::try_from(self.made.len() - at).unwrap_or(u16::MAX);
        Bytes::Made {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            len,
        }
    }

    /// The bytes themselves.
    #[must_use]
    pub(crate) fn bytes<'a>(&'a self, bytes: Bytes<'z>) -> &'a [u8]
    where
        'z: 'a,
    {
        match bytes {
            Bytes::Zone(bytes) => bytes,
            Bytes::Made { at, len } => &self.made[at as usize..at as usize + usize::from(len)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick() -> Pick<'static> {
        Pick {
            owner: Owner::Question,
            rtype: Rtype::A,
            ttl: 30,
            rdata: Bytes::Zone(&[192, 0, 2, 1]),
        }
    }

    fn pending(section: Section) -> Pending<'static> {
        Pending {
            section,
            at: 0,
            target: Bytes::Zone(b"\x01a\0"),
            rtype: Rtype::A,
            purpose: Purpose::Addresses,
        }
    }

    #[test]
    fn the_next_question_finds_nothing_of_the_last() {
        let mut answer = Answer::new(Memory::default());
        answer.options = Some([(65_001, [7].into())].into());
        answer.extras.ra = true;
        answer.rcode = Rcode::REFUSED;
        answer.pick(Section::Answer, pick());
        answer.reset();
        assert!(answer.options.is_none() && !answer.extras.ra && answer.rcode == Rcode::NOERROR);
        assert!(answer.sections.iter().all(Vec::is_empty));
    }

    #[test]
    fn a_section_holds_so_many_records() {
        let mut answer = Answer::new(Memory::default());
        for _ in 0..PICKS_MAX {
            answer.pick(Section::Answer, pick());
        }
        assert!(!answer.limited);
        answer.pick(Section::Additional, pick());
        assert!(!answer.limited, "each section has a limit of its own");
        answer.pick(Section::Answer, pick());
        assert!(answer.limited);
        assert_eq!(answer.len(Section::Answer), PICKS_MAX);
    }

    #[test]
    fn an_answer_wants_so_many_look_ups() {
        let mut answer = Answer::new(Memory::default());
        for _ in 0..PENDING_MAX {
            answer.ask_again(pending(Section::Answer));
        }
        answer.ask_again(pending(Section::Additional));
        assert!(!answer.limited, "ADDITIONAL data is nobody's need");
        answer.ask_again(pending(Section::Answer));
        assert!(answer.limited);
        assert_eq!(answer.pending.len(), PENDING_MAX);
    }
}
