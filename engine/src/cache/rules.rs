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

/// How old an entry is.
#[must_use]
pub fn age(found: &Found, now: Instant, settings: &Settings) -> Age {
    let passed = now.since(found.stored_at).as_secs();
    let ttl = u64::from(found.ttl_secs);
    if passed < ttl {
        return Age::Fresh((ttl - passed) as u32);
    }
    let expired = Duration::from_secs(passed - ttl);
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
mod tests {
    use nodens_wire::NameBuf;
    use proptest::prelude::*;

    use super::*;
    use crate::cache::settings::{Bounds, Prefetch};
    use crate::plan::ZoneMap;
    use crate::zone::trie::NameHash;

    const UNIX: u64 = 1_800_000_000;

    fn name(text: &str) -> Vec<u8> {
        NameBuf::from_text(text).unwrap().as_bytes().to_vec()
    }

    fn zones(names: &[&str]) -> ZoneMap<()> {
        let mut zones = ZoneMap::new(NameHash::new(7));
        for name in names {
            zones.entry(&NameBuf::from_text(name).unwrap(), || ());
        }
        zones
    }

    fn settings() -> Settings {
        Settings {
            zones: zones(&["."]),
            success: Bounds {
                entries_max: 9984,
                ttl_min_secs: 5,
                ttl_max_secs: 3600,
            },
            denial: Bounds {
                entries_max: 9984,
                ttl_min_secs: 5,
                ttl_max_secs: 1800,
            },
            prefetch: None,
            stale: None,
            servfail: Duration::from_secs(5),
            disable_success: zones(&[]),
            disable_denial: zones(&[]),
            keep_ttl: false,
        }
    }

    fn stale(refresh: StaleRefresh) -> Stale {
        Stale {
            up_to: Duration::from_secs(3600),
            refresh,
            ttl_secs: None,
            recheck: Duration::ZERO,
            prefer_positive: false,
        }
    }

    fn found(kind: Kind, stored_secs: u64, ttl_secs: u32) -> Found {
        Found {
            kind,
            is_failure: false,
            stored_at: at(stored_secs),
            ttl_secs,
            hits: 0,
            last_hit: Instant(0),
            retry_at: Instant(0),
        }
    }

    fn at(secs: u64) -> Instant {
        Instant(0).after(Duration::from_secs(secs))
    }

    /// The kept form of records written as `section owner type ttl [target, number or span]`; an owner `@` is the name
    /// asked for.
    fn kept_form(rcode: Rcode, lines: &[&str]) -> Vec<u8> {
        let (mut counts, mut records) = ([0_u16; 3], Vec::new());
        for line in lines {
            let words: Vec<_> = line.split_whitespace().collect();
            counts[["an", "ns", "ad"]
                .iter()
                .position(|section| *section == words[0])
                .unwrap()] += 1;
            let owner = if words[1] == "@" { Vec::new() } else { name(words[1]) };
            let rtype = words[2].parse::<Rtype>().unwrap();
            let rdata = match (rtype, words.get(4)) {
                (Rtype::CNAME, Some(target)) => name(target),
                (Rtype::SOA, minimum) => {
                    let minimum = minimum.map_or(u32::MAX, |minimum| minimum.parse().unwrap());
                    [&[0; 18][..], &minimum.to_be_bytes()].concat()
                }
                (Rtype::RRSIG, Some(span)) => {
                    let (from, until) = span.split_once("..").unwrap();
                    let time = |offset: &str| (UNIX as i64 + offset.parse::<i64>().unwrap()) as u32;
                    [&[0; 8][..], &time(until).to_be_bytes(), &time(from).to_be_bytes()].concat()
                }
                _ => vec![192, 0, 2, 1],
            };
            records.push(owner.len() as u8);
            records.extend_from_slice(&owner);
            records.extend_from_slice(&rtype.0.to_be_bytes());
            records.extend_from_slice(&words[3].parse::<u32>().unwrap().to_be_bytes());
            records.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            records.extend_from_slice(&rdata);
        }
        let mut kept = rcode.0.to_be_bytes().to_vec();
        kept.extend_from_slice(&[0; 2]);
        kept.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
        kept.extend_from_slice(&[0; 2]);
        kept.extend_from_slice(&records);
        kept
    }

    fn judge(
        asked: (&str, Rtype),
        rcode: Rcode,
        lines: &[&str],
        change: impl FnOnce(&mut Settings),
    ) -> (Class, u32, Option<Keep>) {
        let mut settings = settings();
        change(&mut settings);
        let (reply, asked_name) = (kept_form(rcode, lines), name(asked.0));
        let said = Said {
            name: &asked_name,
            rtype: asked.1,
            dnssec_ok: true,
            reply: Reply::new(&reply),
        };
        let class = said.class(UNIX);
        let ttl = said.ttl_secs(class, &settings);
        (class, ttl, keep(class, ttl, false, &asked_name, &settings))
    }

    #[test]
    fn replies_and_what_they_are() {
        let check = |rtype, rcode, lines: &[&str], class, ttl: u32| {
            let (is, is_ttl, kept) = judge(("www.a.", rtype), rcode, lines, |_| {});
            assert_eq!((is, is_ttl), (class, ttl), "{rcode:?} {lines:?}");
            assert_eq!(kept.map(|kept| kept.kind), class.kind(), "{lines:?}");
            assert_eq!(kept.is_some_and(|kept| kept.is_failure), class == Class::ServerError);
        };
        let (ok, nx) = (Rcode::NOERROR, Rcode::NXDOMAIN);
        let soa = "ns a. SOA 500 60";
        check(Rtype::A, ok, &["an @ A 30"], Class::Answer, 30);
        check(
            Rtype::A,
            ok,
            &["an WWW.A. A 30", "ns a. NS 20", "ad ns.a. A 10"],
            Class::Answer,
            10,
        );
        check(
            Rtype::A,
            ok,
            &["an @ CNAME 300 b.", "an b. CNAME 200 C.", "an c. A 100"],
            Class::Answer,
            100,
        );
        check(Rtype::CNAME, ok, &["an @ CNAME 300 b."], Class::Answer, 300);
        check(Rtype::ANY, ok, &["an @ TXT 300"], Class::Answer, 300);
        // A signature of the alias alone, a target of another type, a loop, two aliases at one name.
        check(Rtype::A, ok, &["an @ CNAME 300 b."], Class::Other, 5);
        check(Rtype::A, ok, &["an @ CNAME 300 b.", "an b. TXT 300"], Class::Other, 5);
        check(
            Rtype::A,
            ok,
            &["an @ CNAME 300 b.", "an b. CNAME 300 www.a."],
            Class::Other,
            5,
        );
        check(
            Rtype::A,
            ok,
            &["an @ CNAME 9 b.", "an @ CNAME 9 c.", "an b. A 9"],
            Class::Other,
            5,
        );
        check(Rtype::A, ok, &["an @ TXT 300"], Class::Other, 5);
        check(Rtype::A, ok, &["an @ CNAME 300 b.", soa], Class::NoData, 60);
        check(Rtype::A, ok, &[soa], Class::NoData, 60);
        check(Rtype::A, ok, &["ns a. SOA 40 60"], Class::NoData, 40);
        check(Rtype::A, ok, &["ns a. SOA 9000"], Class::NoData, 1800);
        check(Rtype::A, ok, &["ns a. NS 900"], Class::Delegation, 5);
        check(Rtype::A, ok, &[], Class::Empty, 5);
        check(Rtype::A, ok, &["ad x. A 77"], Class::Empty, 77);
        check(Rtype::A, nx, &[soa], Class::NxDomain, 60);
        check(Rtype::A, nx, &["an @ CNAME 50 b.", soa], Class::NxDomain, 50);
        check(Rtype::A, nx, &["ns a. NS 60"], Class::Other, 5);
        check(Rtype::A, nx, &[], Class::Other, 5);
        check(Rtype::A, Rcode::SERVFAIL, &[], Class::ServerError, 5);
        check(Rtype::A, Rcode::NOTIMP, &["an @ A 9"], Class::ServerError, 5);
        check(Rtype::A, Rcode::REFUSED, &[], Class::Other, 5);
        check(Rtype::A, Rcode::FORMERR, &[soa], Class::Other, 5);
        check(Rtype::AXFR, ok, &["an @ A 30"], Class::Other, 5);
        check(Rtype::A, ok, &["an @ A 30", "an @ RRSIG 30 -10..10"], Class::Answer, 30);
        check(Rtype::A, ok, &["an @ A 30", "an @ RRSIG 30 -10..-1"], Class::Other, 5);
        check(Rtype::A, ok, &["an @ A 30", "an @ RRSIG 30 1..10"], Class::Other, 5);
        // The SOA of an answer is no denial's.
        check(Rtype::SOA, ok, &["an @ SOA 500 60"], Class::Answer, 500);
    }

    #[test]
    fn a_chain_of_aliases_has_an_end() {
        let chain = |len: usize| {
            let mut lines = vec!["an @ CNAME 60 n0.".to_owned()];
            lines.extend((1..len).map(|at| format!("an n{}. CNAME 60 n{at}.", at - 1)));
            lines.push(format!("an n{}. A 60", len - 1));
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            judge(("www.a.", Rtype::A), Rcode::NOERROR, &lines, |_| {}).0
        };
        assert_eq!(chain(ALIASES_MAX), Class::Answer);
        assert_eq!(chain(ALIASES_MAX + 1), Class::Other);
    }

    #[test]
    fn bounds_of_ttls() {
        let check = |lines: &[&str], change: fn(&mut Settings), ttl, is_kept| {
            let (_, is, kept) = judge(("www.a.", Rtype::A), Rcode::NOERROR, lines, change);
            assert_eq!((is, kept.is_some()), (ttl, is_kept), "{lines:?}");
        };
        check(&["an @ A 0"], |_| {}, 5, true);
        check(&["an @ A 0"], |settings| settings.success.ttl_min_secs = 0, 0, false);
        // The longest time goes before the shortest.
        check(&["an @ A 60"], |settings| settings.success.ttl_max_secs = 3, 3, true);
        check(
            &["an @ A 90000"],
            |settings| settings.success.ttl_max_secs = 100_000,
            90_000,
            true,
        );
        check(
            &["an @ A 60"],
            |settings| settings.disable_success = zones(&["a."]),
            60,
            false,
        );
        check(
            &["an @ A 60"],
            |settings| settings.disable_success = zones(&["b."]),
            60,
            true,
        );
        check(
            &["an @ A 60"],
            |settings| settings.disable_denial = zones(&["."]),
            60,
            true,
        );
        check(
            &["ns a. SOA 60"],
            |settings| settings.disable_denial = zones(&["."]),
            60,
            false,
        );
        check(&["an @ A 60"], |settings| settings.zones = zones(&["b."]), 60, false);
        assert_eq!(keep(Class::Answer, 60, true, b"\0", &settings()), None, "what was cut");
    }

    #[test]
    fn failures_are_kept_for_a_moment() {
        let check = |servfail_ms: u64, theirs: Option<u32>, own: Option<u32>| {
            let mut settings = settings();
            settings.servfail = Duration::from_millis(servfail_ms);
            settings.stale = Some(stale(StaleRefresh::Immediate));
            let ttl = secs(settings.servfail);
            let kept = |keep: Option<Keep>| {
                let keep = keep?;
                // No failure is served stale.
                assert_eq!(
                    (keep.kind, keep.is_failure, keep.useful_secs),
                    (Kind::Denial, true, keep.ttl_secs)
                );
                Some(keep.ttl_secs)
            };
            assert_eq!(kept(keep(Class::ServerError, ttl, false, b"\0", &settings)), theirs);
            assert_eq!(kept(keep_own_failure(b"\0", &settings)), own);
        };
        check(5_000, Some(5), Some(5));
        check(120_000, Some(120), Some(5));
        check(2_000, Some(2), Some(2));
        check(0, None, None);
    }

    #[test]
    fn which_of_two_entries_is_used() {
        let check = |success: Option<Found>, denial: Option<Found>, prefer_positive, expected| {
            let mut settings = settings();
            settings.stale = Some(Stale {
                prefer_positive,
                ..stale(StaleRefresh::Immediate)
            });
            let is = pick(success.as_ref(), denial.as_ref(), at(10_000), &settings);
            assert_eq!(is, expected, "{success:?} {denial:?}");
        };
        let success = |stored, ttl| Some(found(Kind::Success, stored, ttl));
        let denial = |stored, ttl| Some(found(Kind::Denial, stored, ttl));
        let failure = |stored, ttl| {
            denial(stored, ttl).map(|found| Found {
                is_failure: true,
                ..found
            })
        };
        let (fresh, old, gone) = ((9_990, 60), (9_000, 60), (100, 60));
        check(None, None, false, None);
        check(success(gone.0, gone.1), denial(gone.0, gone.1), false, None);
        check(success(old.0, old.1), None, false, Some(Kind::Success));
        check(None, denial(old.0, old.1), false, Some(Kind::Denial));
        check(None, failure(fresh.0, fresh.1), false, Some(Kind::Denial));
        // A failure that expired is nothing, whatever may be served stale.
        check(None, failure(old.0, old.1), false, None);
        check(
            success(old.0, old.1),
            failure(fresh.0, fresh.1),
            false,
            Some(Kind::Success),
        );
        check(
            success(gone.0, gone.1),
            failure(fresh.0, fresh.1),
            false,
            Some(Kind::Denial),
        );
        // What is fresh, then what came last.
        check(
            success(old.0, old.1),
            denial(fresh.0, fresh.1),
            false,
            Some(Kind::Denial),
        );
        check(success(fresh.0, fresh.1), denial(9_980, 5), false, Some(Kind::Success));
        check(success(9_000, 5), denial(9_001, 5), false, Some(Kind::Denial));
        check(success(9_001, 5), denial(9_000, 5), false, Some(Kind::Success));
        check(
            success(old.0, old.1),
            denial(fresh.0, fresh.1),
            true,
            Some(Kind::Success),
        );
        check(
            success(gone.0, gone.1),
            denial(fresh.0, fresh.1),
            true,
            Some(Kind::Denial),
        );
    }

    #[test]
    fn what_may_take_the_place_of_a_stale_answer() {
        let mut settings = settings();
        settings.stale = Some(stale(StaleRefresh::Immediate));
        let (old, gone) = (found(Kind::Success, 9_000, 60), found(Kind::Success, 100, 60));
        let check = |settings: &Settings, class, success, expected| {
            assert_eq!(replaces(class, success, at(10_000), settings), expected, "{class:?}");
        };
        check(&settings, Class::ServerError, Some(&old), false);
        check(&settings, Class::Other, Some(&old), false);
        check(&settings, Class::NxDomain, Some(&old), true);
        settings.stale = Some(Stale {
            prefer_positive: true,
            ..stale(StaleRefresh::Immediate)
        });
        for class in [Class::NxDomain, Class::NoData, Class::Empty, Class::Delegation] {
            check(&settings, class, Some(&old), false);
            check(&settings, class, Some(&gone), true);
            check(&settings, class, None, true);
        }
        check(&settings, Class::Answer, Some(&old), true);
        for (class, expected) in [
            (Class::NxDomain, true),
            (Class::ServerError, false),
            (Class::Other, false),
        ] {
            assert_eq!(verifies(class, false), expected);
            assert!(!verifies(class, true));
        }
    }

    #[test]
    fn what_a_hit_shows() {
        let check = |now: u64, change: fn(&mut Settings), expected: Option<(u32, bool, Refresh)>| {
            let mut settings = settings();
            change(&mut settings);
            let mut entry = found(Kind::Success, 100, 60);
            entry.retry_at = at(400);
            let is = hit(&entry, at(now), &settings);
            assert_eq!(
                is.map(|hit| (hit.ttl_secs, hit.is_stale, hit.refresh)),
                expected,
                "{now}"
            );
        };
        let fresh = |ttl| Some((ttl, false, Refresh::No));
        check(100, |_| {}, fresh(60));
        check(159, |_| {}, fresh(1));
        check(160, |_| {}, None);
        check(130, |settings| settings.keep_ttl = true, fresh(60));
        let immediate: fn(&mut Settings) = |settings| settings.stale = Some(stale(StaleRefresh::Immediate));
        check(159, immediate, fresh(1));
        // A refresh has failed; until 400 no other is tried.
        check(160, immediate, Some((0, true, Refresh::No)));
        check(400, immediate, Some((0, true, Refresh::Behind)));
        check(160 + 3599, immediate, Some((0, true, Refresh::Behind)));
        check(160 + 3600, immediate, None);
        let verify: fn(&mut Settings) = |settings| {
            settings.stale = Some(Stale {
                ttl_secs: Some(7),
                ..stale(StaleRefresh::Verify(Some(Duration::from_millis(300))))
            });
        };
        check(399, verify, Some((7, true, Refresh::No)));
        check(
            400,
            verify,
            Some((7, true, Refresh::First(Some(Duration::from_millis(300))))),
        );
        let kept: fn(&mut Settings) = |settings| {
            settings.keep_ttl = true;
            settings.stale = Some(stale(StaleRefresh::Verify(None)));
        };
        check(500, kept, Some((60, true, Refresh::First(None))));
    }

    #[test]
    fn what_is_asked_for_often_is_fetched_before_it_expires() {
        let mut settings = settings();
        settings.prefetch = Some(Prefetch {
            amount: 3,
            within: Duration::from_secs(60),
            percentage: 10,
        });
        let check = |hits, last_hit, now: u64, expected: (Option<u16>, Refresh)| {
            let entry = Found {
                hits,
                last_hit: at(last_hit),
                ..found(Kind::Success, 1000, 105)
            };
            let is = hit(&entry, at(now), &settings).unwrap();
            assert_eq!(
                (is.hits, is.refresh),
                expected,
                "{hits} hits, the last at {last_hit}, now {now}"
            );
        };
        let no = Refresh::No;
        check(0, 0, 1000, (Some(1), no));
        check(1, 1000, 1001, (Some(2), no));
        // A tenth of 105 seconds, rounded up, is 11.
        check(2, 1050, 1093, (Some(3), no));
        check(2, 1050, 1094, (Some(3), Refresh::Behind));
        check(1, 1050, 1094, (Some(2), no));
        // Too long ago: counted from the beginning.
        check(9, 1001, 1062, (Some(1), no));
        // A hot name is not written with every hit.
        check(9, 1094, 1100, (None, Refresh::Behind));
        check(9, 1090, 1100, (Some(10), Refresh::Behind));
        check(2, 1094, 1095, (Some(3), Refresh::Behind));
    }

    #[test]
    fn a_failed_refresh_is_tried_again_after_a_while() {
        let mut settings = settings();
        assert_eq!(retry_at(at(5), &settings), None);
        settings.stale = Some(stale(StaleRefresh::Immediate));
        assert_eq!(retry_at(at(5), &settings), None);
        settings.stale = Some(Stale {
            recheck: Duration::from_secs(30),
            ..stale(StaleRefresh::Immediate)
        });
        assert_eq!(retry_at(at(5), &settings), Some(at(35)));
    }

    proptest! {
        #[test]
        fn a_ttl_only_falls_and_never_passes_its_bound(
            ttls in proptest::collection::vec(0..100_000_u32, 1..6),
            (minimum, maximum) in (0..100_u32, 1..100_000_u32),
            stored in 0..1000_u64,
            mut times in proptest::collection::vec(0..200_000_u64, 2..10),
            stale_secs in proptest::option::of(1..5000_u64),
        ) {
            let lines: Vec<_> = ttls.iter().map(|ttl| format!("an @ A {ttl}")).collect();
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let mut used = settings();
            let bounds = |settings: &mut Settings| {
                settings.success.ttl_min_secs = minimum;
                settings.success.ttl_max_secs = maximum;
                settings.stale = stale_secs.map(|secs| Stale {
                    up_to: Duration::from_secs(secs),
                    ..stale(StaleRefresh::Immediate)
                });
            };
            bounds(&mut used);
            let (_, ttl, kept) = judge(("www.a.", Rtype::A), Rcode::NOERROR, &lines, bounds);
            let least = ttls.iter().copied().min().unwrap();
            prop_assert!(ttl <= maximum && ttl <= least.max(minimum));
            let Some(kept) = kept else {
                prop_assert_eq!(ttl, 0);
                return Ok(());
            };
            let entry = found(Kind::Success, stored, kept.ttl_secs);
            times.sort_unstable();
            let mut last = Some(u32::MAX);
            for passed in times {
                let hit = hit(&entry, at(stored + passed), &used);
                // Once it is gone, it stays so.
                prop_assert!(last.is_some() || hit.is_none());
                if let (Some(hit), Some(last)) = (hit, last) {
                    prop_assert!(hit.ttl_secs <= last && hit.ttl_secs <= kept.ttl_secs);
                    prop_assert!(hit.is_stale || u64::from(hit.ttl_secs) + passed == kept.ttl_secs.into());
                    prop_assert!(passed <= kept.useful_secs.into());
                }
                last = hit.map(|hit| hit.ttl_secs);
            }
        }
    }
}
