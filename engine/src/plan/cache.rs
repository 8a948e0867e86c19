//! The `cache` step: on the way down it answers from what is kept, on the way up it keeps what another server said.
//!
//! It stands in front of all that answers, but what is kept is looked at only when a step behind it is about to ask another
//! server: by then all that this server knows itself has passed the question on, so a name that is new there is never hidden by
//! what somebody else said before.

use std::sync::Arc;

use nodens_wire::edns::Options;
use nodens_wire::{Flags, Opcode, Rcode, Rtype, edns};

use super::{Asked, Client, Flow, StepName, Visit};
use crate::answer::{Answer, Reason};
use crate::cache::rules::{self, Class, Keep, Refresh, Said};
use crate::cache::{Block, Cache as Slab, Found, Key, Kind, New, Settings};
use crate::forward::Failed;
use crate::reply::{self, Reply};
use crate::stats::Series;
use crate::time::Clock;
use crate::waiting::{Merge, Mode};

/// The `cache` of a block.
#[derive(Debug)]
pub struct Cache {
    /// What it says.
    pub settings: Settings,
    /// The block's entries.
    pub block: Arc<Block>,
    /// Tells what is kept of the servers behind this cache from what the block keeps of others; 0 for those of `forward`.
    pub servers: u64,
}

impl Cache {
    /// Under what an answer to a question is kept; nothing for one that the cache has no part in.
    fn key<'k>(&self, asked: &Asked<'k>, client: &Client<'_>) -> Option<Key<'k>> {
        let is_plain = client.opcode() == Opcode::QUERY && !matches!(asked.rtype, Rtype::AXFR | Rtype::IXFR);
        (is_plain && self.settings.covers(asked.folded)).then(|| Key {
            block: self.block.number(),
            name: asked.folded,
            rtype: asked.rtype,
            rclass: asked.rclass,
            dnssec_ok: client.dnssec_ok(),
            checking_disabled: client.query.flags.cd(),
        })
    }
}

/// A step behind the cache answers by itself.
pub(super) fn pass(cache: &Cache, visit: &Visit<'_, '_>) {
    if let Some(series) = counted(visit)
        && cache.key(visit.asked, visit.client).is_some()
    {
        series.cache.requests.add(1);
        series.cache.misses.add(1);
    }
}

/// Where a question is counted that comes by for the first time.
fn counted<'a>(visit: &Visit<'a, '_>) -> Option<&'a Series> {
    let series = visit.stats.series.get(visit.asked.series as usize);
    series.filter(|_| visit.is_first())
}

/// Looks a question up that is about to be asked of another server; [`Flow::Kept`] where that is not needed. `servers` tells
/// those servers from others that say other things of the same name.
#[inline(never)]
pub(super) fn look_up<'z>(servers: u64, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let Some((cache, slab)) = visit.cache.take() else {
        return Flow::Next;
    };
    // What is said to one client's network is not for others (RFC 7871 §7.3).
    let is_for_all = Options::new(visit.options).all(|(code, _)| code != edns::ECS);
    let Some(key) = cache.key(visit.asked, visit.client).filter(|_| is_for_all) else {
        return Flow::Next;
    };
    let counted = counted(visit);
    let count = |count: fn(&Series)| {
        if let Some(series) = counted {
            count(series);
        }
    };
    count(|series| series.cache.requests.add(1));
    let (now, settings) = (visit.clock.now, &cache.settings);
    let hash = visit.hash.of_key(&key) ^ cache.servers ^ servers;
    let found = slab.get(hash, &key, visit.kept, |success, denial| {
        rules::pick(success, denial, now, settings)
    });
    let hit = found.and_then(|found| Some((found, rules::hit(&found, now, settings)?)));
    if let Some((found, hit)) = hit {
        let goes_on = match (visit.told.mode, hit.refresh) {
            (Mode::Late, _) | (_, Refresh::No) => false,
            (Mode::Refresh, _) | (Mode::Asked, Refresh::First(_)) => true,
            (Mode::Asked, Refresh::Behind) => false,
        };
        if !goes_on {
            match found.kind {
                Kind::Success => count(|series| series.cache.hits[0].add(1)),
                Kind::Denial => count(|series| series.cache.hits[1].add(1)),
            }
            // Whoever waited for something newer came by before, and gets the old answer now.
            let is_late = visit.told.mode == Mode::Late;
            if hit.is_stale
                && (is_late || visit.is_first())
                && let Some(series) = visit.stats.series.get(visit.asked.series as usize)
            {
                series.cache.stale.add(1);
            }
            if let Some(hits) = hit.hits {
                slab.count_hit(hash, &key, found.kind, hits, now);
            }
            if hit.refresh == Refresh::Behind && visit.told.mode == Mode::Asked {
                count(|series| series.cache.prefetches.add(1));
                *visit.refreshes = true;
            }
            let shown = (&found, hit.ttl_secs, hit.is_stale);
            // What steps in between have said, the kept answer was made with.
            answer.extras = Default::default();
            show(Reply::new(visit.kept), shown, visit.asked, visit.client, answer);
            return Flow::Kept;
        }
        if let Refresh::First(patience) = hit.refresh {
            visit.patience = patience;
        }
    }
    count(|series| series.cache.misses.add(1));
    visit.merge = Some(Merge { hash, block: key.block });
    Flow::Next
}

/// Answers with what is kept.
fn show(
    reply: Reply<'_>,
    (found, ttl_secs, is_stale): (&Found, u32, bool),
    asked: &Asked<'_>,
    client: &Client<'_>,
    answer: &mut Answer<'_>,
) {
    answer.by = Some(StepName::Cache);
    answer.rclass = asked.rclass;
    reply.answer(|_| ttl_secs, answer);
    hide_ad(client, answer);
    answer.extras.error = match (is_stale, reply.rcode()) {
        (true, Rcode::NXDOMAIN) => Some(edns::ede::STALE_NXDOMAIN),
        (true, _) => Some(edns::ede::STALE_ANSWER),
        (false, _) if found.is_failure => Some(edns::ede::CACHED_ERROR),
        (false, _) => None,
    };
}

/// Who did not ask for it is not told that signatures were checked (RFC 6840 §5.8).
fn hide_ad(client: &Client<'_>, answer: &mut Answer<'_>) {
    answer.extras.ad &= client.dnssec_ok() || client.query.flags.ad();
}

/// What the way up needs.
pub(super) struct Leaving<'a> {
    pub(super) slab: &'a Slab,
    pub(super) kept: &'a mut Vec<u8>,
    /// Where it is kept, if another server said it.
    pub(super) merge: Option<Merge>,
    pub(super) client: &'a Client<'a>,
    pub(super) clock: Clock,
    pub(super) mode: Mode,
    pub(super) series: Option<&'a Series>,
}

/// Gives all records one TTL, and keeps what another server said.
#[inline(never)]
pub(super) fn leave<'z>(cache: &Cache, asked: &Asked<'_>, leaving: Leaving<'_>, answer: &mut Answer<'z>) {
    let Leaving {
        slab,
        kept,
        merge,
        client,
        clock,
        mode,
        series,
    } = leaving;
    let (settings, now) = (&cache.settings, clock.now);
    let Some(key) = cache.key(asked, client) else { return };
    let (class, ttl_secs) = class(asked, client, clock, settings, kept, answer);
    let Some(Merge { hash, .. }) = merge else {
        level(answer, ttl_secs);
        hide_ad(client, answer);
        return;
    };
    let failed = match &answer.reason {
        Some(Reason::Upstream(failed)) => Some(&**failed),
        _ => None,
    };
    let has_failed = failed.is_some();
    // Which says nothing about the name.
    let was_cut_short = matches!(failed, Some(Failed::Cancelled | Failed::Overdue));
    if let Some((found, ttl_shown)) = stale(slab, hash, &key, kept, clock, settings) {
        // It was asked for anew, in front of the client or behind him.
        let success = Some(&found).filter(|found| found.kind == Kind::Success);
        let is_answer =
            !has_failed && rules::verifies(class, answer.extras.tc) && rules::replaces(class, success, now, settings);
        if !is_answer {
            if let Some(until) = rules::retry_at(now, settings) {
                slab.retry_at(hash, &key, found.kind, until);
            }
            if mode == Mode::Refresh {
                return;
            }
            if let Some(series) = series {
                series.cache.stale.add(1);
            }
            answer.clear();
            answer.extras = Default::default();
            show(Reply::new(kept), (&found, ttl_shown, true), asked, client, answer);
            return;
        }
    }
    if has_failed {
        if answer.rcode == Rcode::SERVFAIL
            && !was_cut_short
            && let Some(keep) = rules::keep_own_failure(asked.folded, settings)
        {
            keep_form(answer, kept);
            insert(slab, hash, &key, keep, kept, clock, settings);
        }
        return;
    }
    level(answer, ttl_secs);
    let keep = rules::keep(class, ttl_secs, answer.extras.tc, asked.folded, settings);
    if let Some(keep) = keep.filter(|_| !answer.extras.is_shared) {
        keep_form(answer, kept);
        insert(slab, hash, &key, keep, kept, clock, settings);
    }
    hide_ad(client, answer);
}

fn insert(slab: &Slab, hash: u64, key: &Key<'_>, keep: Keep, bytes: &[u8], clock: Clock, settings: &Settings) {
    let new = New {
        kind: keep.kind,
        is_failure: keep.is_failure,
        ttl_secs: keep.ttl_secs,
        useful_secs: keep.useful_secs,
        entries_max: settings.bounds(keep.kind).entries_max,
        bytes,
    };
    // What finds no room is asked for again.
    let _ = slab.insert(hash, key, &new, clock.now);
}

/// The expired entry of a question that is still of use, its bytes in `kept`, and the TTL that it shows.
fn stale(
    slab: &Slab,
    hash: u64,
    key: &Key<'_>,
    kept: &mut Vec<u8>,
    clock: Clock,
    settings: &Settings,
) -> Option<(Found, u32)> {
    settings.stale?;
    let now = clock.now;
    let found = slab.get(hash, key, kept, |success, denial| {
        rules::pick(success, denial, now, settings)
    })?;
    let hit = rules::hit(&found, now, settings)?;
    (hit.is_stale).then_some((found, hit.ttl_secs))
}

/// What kind of a reply the answer makes, and the TTL of all its records. Its kept form is in `kept` then.
fn class(
    asked: &Asked<'_>,
    client: &Client<'_>,
    clock: Clock,
    settings: &Settings,
    kept: &mut Vec<u8>,
    answer: &Answer<'_>,
) -> (Class, u32) {
    keep_form(answer, kept);
    let said = Said {
        name: asked.folded,
        rtype: asked.rtype,
        dnssec_ok: client.dnssec_ok(),
        reply: Reply::new(kept),
    };
    let class = said.class(clock.unix_secs);
    (class, said.ttl_secs(class, settings))
}

/// Puts the kept form of an answer in the place of what was there.
fn keep_form(answer: &Answer<'_>, kept: &mut Vec<u8>) {
    let flags = Flags(0)
        .with_aa(answer.aa)
        .with_ra(answer.extras.ra)
        .with_ad(answer.extras.ad);
    kept.clear();
    reply::keep_answer(answer, flags, kept);
}

fn level(answer: &mut Answer<'_>, ttl_secs: u32) {
    let begins = answer.begins();
    for (picks, begin) in answer.sections.iter_mut().zip(begins) {
        for pick in &mut picks[begin..] {
            pick.ttl = ttl_secs;
        }
    }
}
