//! What is kept of a reply, for how long, and what becomes of it when it is asked for again. All of it is computed from
//! what stands in the arguments.

use std::time::Duration;

use nodens_wire::{Name, Opcode, Rcode, Rtype, Section};

use super::settings::{Settings, Stale, StaleRefresh};
use super::{Found, Kind};
use crate::reply::{Reply, ReplyRecord};
use crate::time::Instant;

/// The TTL of what carries none, and of referrals.
const TTL_DEFAULT_SECS: u32 = 5;
/// Longest time for which a failure of our own is kept (RFC 9520 §3.2 wants it to begin low).
const OWN_FAILURE_MAX: Duration = Duration::from_secs(5);
/// Aliases that are followed to see whether a reply answers its question. A longer chain is passed on and not kept.
const ALIASES_MAX: usize = 32;
/// A hit is written down anew when so much of `within` has passed since the last that was.
const WITHIN_PARTS: u32 = 8;

/// A reply, and the question that it answers.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// The name asked for, in wire form.
    pub name: &'a [u8],
    /// The type asked for.
    pub rtype: Rtype,
    /// DO.
    pub dnssec_ok: bool,
    /// What came.
    pub reply: Reply<'a>,
}

/// What kind of a reply it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It answers the question.
    Answer,
    /// NOERROR, and nothing is said.
    Empty,
    /// The name is another server's.
    Delegation,
    /// The name exists, such data does not.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// SERVFAIL or NOTIMP.
    ServerError,
    /// Passed on and not kept: an error, a denial without SOA, an alias that leads nowhere, signatures out of their time.
    Other,
}

impl Class {
    /// The kind of entry that it makes.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Answer | Self::Empty | Self::Delegation => Some(Kind::Success),
            Self::NoData | Self::NxDomain | Self::ServerError => Some(Kind::Denial),
            Self::Other => None,
        }
    }
}

impl<'a> Said<'a> {
    /// What kind of a reply this is, at a time in seconds since 1970.
    #[must_use]
    pub fn class(&self, unix_secs: u64) -> Class {
        if self.reply.flags().opcode() != Opcode::QUERY || matches!(self.rtype, Rtype::AXFR | Rtype::IXFR) {
            return Class::Other;
        }
        if self.dnssec_ok && self.reply.records().any(|record| is_out_of_time(&record, unix_secs)) {
            return Class::Other;
        }
        let has = |section, rtype| {
            let mut records = self.reply.records();
            records.any(|record| record.section == section && record.rtype == rtype)
        };
        let has_soa = || has(Section::Authority, Rtype::SOA);
        let has_answers = self.reply.count(Section::Answer) > 0;
        match self.reply.rcode() {
            Rcode::NOERROR if has_answers && self.answers() => Class::Answer,
            // RFC 2308 §2.2: an alias may stand in front of what does not exist.
            Rcode::NOERROR if has_soa() => Class::NoData,
            Rcode::NOERROR if has_answers => Class::Other,
            Rcode::NOERROR if has(Section::Authority, Rtype::NS) => Class::Delegation,
            Rcode::NOERROR => Class::Empty,
            // RFC 2308 §5: without SOA nobody says for how long.
            Rcode::NXDOMAIN if has_soa() => Class::NxDomain,
            Rcode::SERVFAIL | Rcode::NOTIMP => Class::ServerError,
            _ => Class::Other,
        }
    }

    /// Whether the answer section leads from the name to the type that were asked for.
    fn answers(&self) -> bool {
        let mut name = self.name;
        for _ in 0..=ALIASES_MAX {
            let here = || {
                let records = self.reply.records();
                let answers = records.filter(|record| record.section == Section::Answer);
                answers.filter(move |record| is_same(record.owner.unwrap_or(self.name), name))
            };
            let mut aliases = here().filter(|record| record.rtype == Rtype::CNAME);
            let (alias, another) = (aliases.next(), aliases.next());
            if another.is_some() {
                return false;
            }
            let is_asked = |record: ReplyRecord<'_>| self.rtype == Rtype::ANY || record.rtype == self.rtype;
            if here().any(is_asked) {
                return true;
            }
            let Some(alias) = alias else { return false };
            name = alias.rdata;
        }
        false
    }

    /// The TTL that all records of a reply of this class get, whether it is kept or not.
    #[must_use]
    pub fn ttl_secs(&self, class: Class, settings: &Settings) -> u32 {
        let least = || {
            let ttls = self.reply.records().map(|record| match negative_ttl(&record) {
                Some(negative) if matches!(class, Class::NoData | Class::NxDomain) => negative,
                _ => record.ttl,
            });
            ttls.min().unwrap_or(TTL_DEFAULT_SECS)
        };
        let (ttl, kind) = match class {
            Class::ServerError => return secs(settings.servfail),
            Class::Answer | Class::Empty => (least(), Kind::Success),
            Class::NoData | Class::NxDomain => (least(), Kind::Denial),
            Class::Delegation | Class::Other => (TTL_DEFAULT_SECS, Kind::Success),
        };
        let bounds = settings.bounds(kind);
        ttl.max(bounds.ttl_min_secs).min(bounds.ttl_max_secs)
    }
}

/// RFC 2308 §5: a denial lives as long as the SOA's TTL or its MINIMUM field says, whichever is less.
fn negative_ttl(record: &ReplyRecord<'_>) -> Option<u32> {
    if record.section != Section::Authority || record.rtype != Rtype::SOA {
        return None;
    }
    let minimum = record.rdata.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    Some(minimum.map_or(record.ttl, |minimum| minimum.min(record.ttl)))
}

/// Whether a record is a signature that is not valid yet, or no more.
fn is_out_of_time(record: &ReplyRecord<'_>, unix_secs: u64) -> bool {
    if record.rtype != Rtype::RRSIG {
        return false;
    }
    let time = |at: usize| {
        let bytes = record.rdata.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes)
    };
    let (Some(until), Some(from)) = (time(8), time(12)) else {
        return true;
    };
    // RFC 4034 §3.1.5: numbers that wrap, compared as those of RFC 1982.
    let now = unix_secs as u32;
    now.wrapping_sub(from) as i32 <= -1 || until.wrapping_sub(now) as i32 <= -1
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (Name::from_wire(one), Name::from_wire(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// How a reply is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// As what.
    pub kind: Kind,
    /// A failure.
    pub is_failure: bool,
    /// For how long it is fresh; above zero.
    pub ttl_secs: u32,
    /// For how long it is of use.
    pub useful_secs: u32,
}

/// How a reply of this class and TTL is to be kept for a folded name, if it is. `is_cut` is TC: nobody else shall get what
/// one client's buffer left.
#[must_use]
pub fn keep(class: Class, ttl_secs: u32, is_cut: bool, name: &[u8], settings: &Settings) -> Option<Keep> {
    let kind = class.kind()?;
    let is_kept = !is_cut && ttl_secs > 0 && settings.keeps(kind, name);
    is_kept.then(|| kept(kind, class == Class::ServerError, ttl_secs, settings))
}

/// How a failure of our own, to which no upstream said anything, is to be kept.
#[must_use]
pub fn keep_own_failure(name: &[u8], settings: &Settings) -> Option<Keep> {
    let ttl_secs = secs(settings.servfail.min(OWN_FAILURE_MAX));
    let is_kept = ttl_secs > 0 && settings.keeps(Kind::Denial, name);
    is_kept.then(|| kept(Kind::Denial, true, ttl_secs, settings))
}

fn kept(kind: Kind, is_failure: bool, ttl_secs: u32, settings: &Settings) -> Keep {
    let stale = settings.stale.filter(|_| !is_failure);
    let stale_secs = stale.map_or(0, |stale| secs(stale.up_to).saturating_add(1));
    Keep {
        kind,
        is_failure,
        ttl_secs,
        useful_secs: ttl_secs.saturating_add(stale_secs),
    }
}

/// Whether what came as a refresh may take the place of what stands there. A failure may not, and where positive answers
/// are preferred only a positive one takes the place of one that is still of use.
#[must_use]
pub fn replaces(class: Class, success: Option<&Found>, now: Instant, settings: &Settings) -> bool {
    let prefers_positive = settings.stale.is_some_and(|stale| stale.prefer_positive);
    match class {
        Class::Answer => true,
        Class::ServerError | Class::Other => false,
        _ if prefers_positive => success.is_none_or(|success| age(success, now, settings) == Age::Gone),
        _ => true,
    }
}

/// Whether a reply that came as a check of a stale answer goes before it.
#[must_use]
pub fn verifies(class: Class, is_cut: bool) -> bool {
    !is_cut && !matches!(class, Class::ServerError | Class::Other)
}

/// How old an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// So many seconds are left, at least one.
    Fresh(u32),
    /// Expired, and of use.
    Stale,
    /// Of no use any more.
    Gone,
}

/// The seconds for which an entry is still fresh, if it is.
#[must_use]
pub fn fresh_secs(found: &Found, now: Instant) -> Option<u32> {
    let passed = now.since(found.stored_at).as_secs();
    let left = u64::from(found.ttl_secs).checked_sub(passed)?;
    u32::try_from(left).ok().filter(|left| *left > 0)
}

/// How old an entry is.
#[must_use]
pub fn age(found: &Found, now: Instant, settings: &Settings) -> Age {
    if let Some(left) = fresh_secs(found, now) {
        return Age::Fresh(left);
    }
    let passed = now.since(found.stored_at).as_secs();
    let expired = Duration::from_secs(passed.saturating_sub(found.ttl_secs.into()));
    match settings.stale {
        Some(stale) if !found.is_failure && expired < stale.up_to => Age::Stale,
        _ => Age::Gone,
    }
}

/// Which of the entries of a key is used.
#[must_use]
pub fn pick(success: Option<&Found>, denial: Option<&Found>, now: Instant, settings: &Settings) -> Option<Kind> {
    let usable = |found: Option<&Found>| {
        let found = found.copied()?;
        let age = age(&found, now, settings);
        (age != Age::Gone).then_some((found, age == Age::Stale))
    };
    match (usable(success), usable(denial)) {
        (None, None) => None,
        (Some(_), None) => Some(Kind::Success),
        (None, Some(_)) => Some(Kind::Denial),
        // No failure hides an answer, not even an old one.
        (Some(_), Some((denial, _))) if denial.is_failure => Some(Kind::Success),
        (Some(_), Some(_)) if settings.stale.is_some_and(|stale| stale.prefer_positive) => Some(Kind::Success),
        (Some((success, success_is_stale)), Some((denial, denial_is_stale))) => {
            // What is fresh, then what came last.
            let success = (!success_is_stale, success.stored_at);
            let denial = (!denial_is_stale, denial.stored_at);
            Some(if success > denial { Kind::Success } else { Kind::Denial })
        }
    }
}

/// Whether an entry that is used is asked for anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// It is not.
    No,
    /// Behind the answer, which does not wait.
    Behind,
    /// Before the answer, which waits for so long; none: as long as it takes.
    First(Option<Duration>),
}

/// How an entry is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The TTL of all its records.
    pub ttl_secs: u32,
    /// It has expired.
    pub is_stale: bool,
    /// What becomes of it.
    pub refresh: Refresh,
    /// The hits that are to be written down with this one, where they are.
    pub hits: Option<u16>,
}

/// How an entry is used; `None` for one that is of no use any more.
#[must_use]
pub fn hit(found: &Found, now: Instant, settings: &Settings) -> Option<Use> {
    match (age(found, now, settings), settings.stale) {
        (Age::Fresh(left), _) => {
            let (hits, is_due) = prefetch(found, left, now, settings);
            Some(Use {
                ttl_secs: if settings.keep_ttl { found.ttl_secs } else { left },
                is_stale: false,
                refresh: if is_due { Refresh::Behind } else { Refresh::No },
                hits,
            })
        }
        (Age::Stale, Some(stale)) => Some(Use {
            ttl_secs: stale_ttl(found, &stale, settings.keep_ttl),
            is_stale: true,
            refresh: match stale.refresh {
                _ if now < found.retry_at => Refresh::No,
                StaleRefresh::Immediate => Refresh::Behind,
                StaleRefresh::Verify(wait) => Refresh::First(wait),
            },
            hits: None,
        }),
        (Age::Stale, None) | (Age::Gone, _) => None,
    }
}

fn stale_ttl(found: &Found, stale: &Stale, keep_ttl: bool) -> u32 {
    let otherwise = if keep_ttl { found.ttl_secs } else { 0 };
    stale.ttl_secs.unwrap_or(otherwise)
}

/// The hits to be written down, and whether the entry is asked for often enough, and is old enough, to be fetched anew.
fn prefetch(found: &Found, left: u32, now: Instant, settings: &Settings) -> (Option<u16>, bool) {
    let Some(prefetch) = settings.prefetch.filter(|_| !found.is_failure) else {
        return (None, false);
    };
    let since = now.since(found.last_hit);
    let hits = match found.hits {
        0 => 1,
        _ if since > prefetch.within => 1,
        hits => hits.saturating_add(1),
    };
    let amount = u16::try_from(prefetch.amount).unwrap_or(u16::MAX);
    // A count that is reached needs no more hits, only one now and then: a hot name is read, not written.
    let is_known = found.hits >= amount && hits > 1 && since < prefetch.within / WITHIN_PARTS;
    let due_secs = (u64::from(found.ttl_secs) * u64::from(prefetch.percentage)).div_ceil(100);
    let is_due = hits >= amount && u64::from(left) <= due_secs && now >= found.retry_at;
    ((!is_known).then_some(hits), is_due)
}

/// When an entry may be asked for anew after a refresh that failed.
#[must_use]
pub fn retry_at(now: Instant, settings: &Settings) -> Option<Instant> {
    let recheck = settings.stale?.recheck;
    (!recheck.is_zero()).then(|| now.after(recheck))
}

fn secs(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
