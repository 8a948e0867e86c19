//! An entry in words: what stands in its slot, what in front of its bytes.
//!
//! ```text
//!   slot    at 12 | len 12 | name len 8 | flags 16 | hits 16        block 32 | of no use from 32
//!   entry   hash | stored at | ttl 32, type 16, class 16 | last hit 32, retry at 32 | name | bytes
//!           an entry in parts: ... | number | length of all | name | first bytes
//!   part    hash of the part | number | place | - | bytes
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nodens_wire::{Rclass, Rtype};

use crate::time::Instant;

/// Words in front of the name.
const HEAD: usize = 4;
/// More words, of an entry in parts.
const SPLIT_HEAD: usize = 2;
const STORED_AT: usize = 1;
const TTL_AND_TYPE: usize = 2;
/// The word that says when an entry was last used, and when it may be asked for anew.
pub(super) const USE: usize = 3;

/// What an entry says of its key. Both kinds may be there at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There is such data.
    Success,
    /// There is none, or an error instead.
    Denial,
}

/// What an answer is kept under.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The server block, by the number that [`Cache::open`](super::Cache::open) gave it.
    pub block: u32,
    /// The name in wire form and lower case.
    pub name: &'a [u8],
    /// The type asked for.
    pub rtype: Rtype,
    /// The class asked for.
    pub rclass: Rclass,
    /// DO.
    pub dnssec_ok: bool,
    /// CD.
    pub checking_disabled: bool,
}

/// What is known of an entry beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its kind.
    pub kind: Kind,
    /// A failure that is remembered, not an answer. Always a denial.
    pub is_failure: bool,
    /// When it was stored.
    pub stored_at: Instant,
    /// For how long it is fresh.
    pub ttl_secs: u32,
    /// Hits as [`Cache::count_hit`](super::Cache::count_hit) left them, through all refreshes.
    pub hits: u16,
    /// The last of them, to a sixteenth of a second.
    pub last_hit: Instant,
    /// Not to be asked for anew before, to a sixteenth of a second.
    pub retry_at: Instant,
}

/// The flags of a slot.
pub(super) mod flag {
    pub(in super::super) const DENIAL: u16 = 1;
    pub(in super::super) const FAILURE: u16 = 1 << 1;
    pub(super) const DNSSEC_OK: u16 = 1 << 2;
    pub(super) const CHECKING_DISABLED: u16 = 1 << 3;
    /// Bytes of an entry that is in parts.
    pub(in super::super) const PART: u16 = 1 << 4;
    /// An entry whose other bytes stand in parts.
    pub(in super::super) const SPLIT: u16 = 1 << 5;
    /// Bytes of the last word that are none of the entry's: three bits.
    pub(super) const PAD_SHIFT: u16 = 8;
    /// What belongs to the key.
    pub(super) const KEY: u16 = DNSSEC_OK | CHECKING_DISABLED | PART;
}

/// What a set knows of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Its first word in the set.
    pub(super) at: usize,
    /// Its words.
    pub(super) len: usize,
    name_len: usize,
    pub(super) flags: u16,
    pub(super) hits: u16,
    pub(super) block: u32,
    /// The second from which on it is of no use any more.
    pub(super) gone_at: u32,
}

impl Slot {
    #[inline]
    pub(super) fn unpack(first: u64, second: u64) -> Self {
        Self {
            at: (first & 0xfff) as usize,
            len: (first >> 12 & 0xfff) as usize,
            name_len: (first >> 24 & 0xff) as usize,
            flags: (first >> 32) as u16,
            hits: (first >> 48) as u16,
            block: second as u32,
            gone_at: (second >> 32) as u32,
        }
    }

    pub(super) fn pack(&self) -> [u64; 2] {
        let first = self.at as u64
            | (self.len as u64) << 12
            | (self.name_len as u64) << 24
            | u64::from(self.flags) << 32
            | u64::from(self.hits) << 48;
        [first, u64::from(self.block) | u64::from(self.gone_at) << 32]
    }

    /// Whether it counts as an entry of its block, and as which kind.
    pub(super) fn counted(&self) -> Option<Kind> {
        (self.flags & flag::PART == 0).then(|| self.kind())
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        if self.flags & flag::DENIAL == 0 {
            Kind::Success
        } else {
            Kind::Denial
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        self.flags & flag::FAILURE != 0
    }

    #[inline]
    fn head(&self) -> usize {
        if self.flags & flag::SPLIT == 0 {
            HEAD
        } else {
            HEAD + SPLIT_HEAD
        }
    }

    #[inline]
    pub(super) fn found(&self, words: &[AtomicU64]) -> Found {
        let used = word(words, USE);
        Found {
            kind: self.kind(),
            is_failure: self.is_failure(),
            stored_at: Instant(word(words, STORED_AT)),
            ttl_secs: (word(words, TTL_AND_TYPE) >> 32) as u32,
            hits: self.hits,
            last_hit: from_ticks((used >> 32) as u32),
            retry_at: from_ticks(used as u32),
        }
    }

    /// The number of an entry in parts, and the length of all its bytes.
    pub(super) fn split(&self, words: &[AtomicU64]) -> Option<(u64, usize)> {
        let is_split = self.flags & flag::SPLIT != 0;
        is_split.then(|| (word(words, HEAD), word(words, HEAD + 1) as usize))
    }

    /// Appends the bytes of an entry.
    #[inline]
    pub(super) fn copy(&self, words: &[AtomicU64], out: &mut Vec<u8>) {
        let pad = usize::from(self.flags >> flag::PAD_SHIFT & 7);
        let words = words.get(self.head() + self.name_len.div_ceil(8)..).unwrap_or_default();
        let begin = out.len();
        out.resize(begin + words.len() * 8, 0);
        for (to, word) in out[begin..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        out.truncate(out.len().saturating_sub(pad).max(begin));
    }
}

/// A key that is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) hash: u64,
    block: u32,
    flags: u16,
    name: &'a [u8],
    /// Type and class, or the place of a part.
    about: u64,
    /// Of a part, the number of its entry.
    number: Option<u64>,
}

impl<'a> Wanted<'a> {
    #[inline]
    pub(super) fn new(hash: u64, key: &Key<'a>) -> Self {
        Self {
            hash,
            block: key.block,
            flags: key.flags(),
            name: key.name,
            about: key.about(),
            number: None,
        }
    }

    /// A part; whichever entry's where no number is given.
    pub(super) fn part(hash: u64, block: u32, place: usize, number: Option<u64>) -> Self {
        Self {
            hash,
            block,
            flags: flag::PART,
            name: &[],
            about: place as u64,
            number,
        }
    }

    #[inline]
    pub(super) fn is(&self, slot: &Slot, words: &[AtomicU64]) -> bool {
        slot.block == self.block
            && slot.flags & flag::KEY == self.flags
            && slot.name_len == self.name.len()
            && word(words, 0) == self.hash
            && word(words, TTL_AND_TYPE) & 0xffff_ffff == self.about
            && self.number.is_none_or(|number| number == word(words, STORED_AT))
            && words
                .get(slot.head()..)
                .is_some_and(|words| begin_with(words, self.name))
    }
}

#[inline]
fn begin_with(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let (whole, rest) = bytes.as_chunks::<8>();
    words.len() >= bytes.len().div_ceil(8)
        && words
            .iter()
            .zip(whole)
            .all(|(word, bytes)| word.load(Ordering::Relaxed) == u64::from_ne_bytes(*bytes))
        && (rest.is_empty() || word(words, whole.len()) == padded(rest))
}

#[inline]
fn word(words: &[AtomicU64], at: usize) -> u64 {
    words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
}

#[inline]
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (whole, rest) = bytes.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| padded(rest));
    whole.iter().map(|bytes| u64::from_ne_bytes(*bytes)).chain(last)
}

impl Key<'_> {
    #[inline]
    fn flags(&self) -> u16 {
        let mut flags = 0;
        if self.dnssec_ok {
            flags |= flag::DNSSEC_OK;
        }
        if self.checking_disabled {
            flags |= flag::CHECKING_DISABLED;
        }
        flags
    }

    #[inline]
    fn about(&self) -> u64 {
        u64::from(self.rtype.0) << 16 | u64::from(self.rclass.0)
    }
}

/// An entry that is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Success or denial.
    pub kind: Kind,
    /// A failure; it takes nobody's place but another failure's.
    pub is_failure: bool,
    /// For how long it is fresh.
    pub ttl_secs: u32,
    /// For how long it is of use: its TTL, and the time for which it may be served when it is stale.
    pub useful_secs: u32,
    /// Most entries of this kind in the block.
    pub entries_max: usize,
    /// What is kept, at most [`BYTES_MAX`](super::BYTES_MAX).
    pub bytes: &'a [u8],
}

/// An entry, or a part of one, in the form in which a set takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    hash: u64,
    block: u32,
    flags: u16,
    hits: u16,
    gone_at: u32,
    /// Behind the hash.
    head: [u64; HEAD - 1],
    split: Option<[u64; SPLIT_HEAD]>,
    name: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The entry itself. `split` is the number of one that keeps only its first bytes here.
    pub(super) fn new(hash: u64, key: &Key<'a>, new: &New<'a>, now: Instant, split: Option<(u64, usize)>) -> Self {
        let mut flags = key.flags();
        if new.kind == Kind::Denial {
            flags |= flag::DENIAL;
        }
        if new.is_failure {
            flags |= flag::FAILURE;
        }
        if split.is_some() {
            flags |= flag::SPLIT;
        }
        let bytes = split.map_or(new.bytes, |(_, first)| &new.bytes[..first]);
        Self {
            hash,
            block: key.block,
            flags,
            hits: 0,
            gone_at: gone_at(now, new.useful_secs),
            head: [now.0, u64::from(new.ttl_secs) << 32 | key.about(), 0],
            split: split.map(|(number, _)| [number, new.bytes.len() as u64]),
            name: key.name,
            bytes,
        }
    }

    /// One part of it.
    pub(super) fn part(&self, hash: u64, number: u64, place: usize, bytes: &'a [u8]) -> Self {
        Self {
            hash,
            block: self.block,
            flags: flag::PART,
            hits: 0,
            gone_at: self.gone_at,
            head: [number, place as u64, 0],
            split: None,
            name: &[],
            bytes,
        }
    }

    /// The same entry in another's place.
    pub(super) fn inherit(&mut self, slot: &Slot, words: &[AtomicU64]) {
        self.hits = slot.hits;
        self.head[USE - 1] = word(words, USE) & !0xffff_ffff;
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Words that it takes.
    pub(super) fn len(&self) -> usize {
        words_taken(self.name.len(), self.bytes.len(), self.split.is_some())
    }

    pub(super) fn slot(&self) -> Slot {
        let pad = (self.bytes.len().div_ceil(8) * 8 - self.bytes.len()) as u16;
        Slot {
            at: 0,
            len: self.len(),
            name_len: self.name.len(),
            flags: self.flags | pad << flag::PAD_SHIFT,
            hits: self.hits,
            block: self.block,
            gone_at: self.gone_at,
        }
    }

    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.hash)
            .chain(self.head)
            .chain(self.split.into_iter().flatten())
            .chain(words_of(self.name))
            .chain(words_of(self.bytes))
    }
}

/// Words of an entry.
pub(super) const fn words_taken(name_len: usize, bytes_len: usize, is_split: bool) -> usize {
    let head = if is_split { HEAD + SPLIT_HEAD } else { HEAD };
    head + name_len.div_ceil(8) + bytes_len.div_ceil(8)
}

/// Whole seconds of an instant.
pub(super) fn secs(now: Instant) -> u32 {
    u32::try_from(now.0 / 1_000_000_000).unwrap_or(u32::MAX)
}

/// The first whole second at which an entry is of no use any more.
fn gone_at(now: Instant, useful_secs: u32) -> u32 {
    secs(now).saturating_add(1).saturating_add(useful_secs)
}

const TICK: Duration = Duration::from_nanos(1_000_000_000 / 16);

/// Sixteenths of a second, rounded up.
pub(super) fn ticks(at: Instant) -> u32 {
    u32::try_from(at.0.div_ceil(TICK.as_nanos() as u64)).unwrap_or(u32::MAX)
}

fn from_ticks(ticks: u32) -> Instant {
    Instant(u64::from(ticks) * TICK.as_nanos() as u64)
}
