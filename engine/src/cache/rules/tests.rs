//! What the rules say of replies of all kinds, at all ages.

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
