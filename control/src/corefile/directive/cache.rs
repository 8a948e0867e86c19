//! `cache [TTL] [ZONES...] { ... }`

use std::time::Duration;

use nodens_wire::NameBuf;

use super::number::{duration, int};
use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::duration::{go_duration, go_text, seconds};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Cache, CacheKind, Prefetch, ServeStale, StaleRefresh};

const OPTIONS: [&str; 9] = [
    "success",
    "denial",
    "prefetch",
    "serve_stale",
    "serve_stale_policy",
    "servfail",
    "disable",
    "keepttl",
    "size",
];
const SUCCESS_TTL_DEFAULT: u32 = 3600;
const DENIAL_TTL_DEFAULT: u32 = 1800;
const TTL_MIN_DEFAULT: u32 = 5;
const CAPACITY_DEFAULT: i64 = 10_000;
/// CoreDNS keeps entries in so many shards, each of which holds at least four.
const SHARDS: u64 = 256;
const SHARD_ENTRIES_MIN: u64 = 4;
const PREFETCH_WITHIN_DEFAULT: Duration = Duration::from_secs(60);
const PREFETCH_PERCENTAGE_DEFAULT: u8 = 10;
const STALE_DEFAULT: Duration = Duration::from_secs(3600);
const SERVFAIL_DEFAULT: Duration = Duration::from_secs(5);
/// Longest time for failures, and from one refresh of a stale answer that failed to the next.
const FAILURE_MAX: Duration = Duration::from_secs(300);
/// Bytes of `size`.
const SIZE_MIN: u64 = 1_000_000;
const SIZE_MAX: u64 = 1_000_000_000_000;
const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];

/// Reads the directive.
pub(super) fn cache(line: &Line, scope: &mut Scope<'_>) -> Option<Cache> {
    let (ttl, zones) = match line.args.split_first() {
        Some((word, zones)) if word.text.parse::<i64>().is_ok() => (ttl_max(word, scope), zones),
        _ => (None, &*line.args),
    };
    let kind = |default: u32| CacheKind {
        entries_max: entries(CAPACITY_DEFAULT),
        ttl_max_secs: ttl.unwrap_or(default),
        ttl_min_secs: TTL_MIN_DEFAULT,
    };
    let mut cache = Cache {
        zones: scope.zones(zones),
        success: kind(SUCCESS_TTL_DEFAULT),
        denial: kind(DENIAL_TTL_DEFAULT),
        prefetch: None,
        stale: None,
        servfail: SERVFAIL_DEFAULT,
        disable_success: Vec::new(),
        disable_denial: Vec::new(),
        keep_ttl: false,
        size: None,
        span: line.name.span,
    };
    let mut policy = None;
    for option in scope.options(line) {
        match &*option.name.text {
            "success" => bounds(option, &mut cache.success, scope),
            "denial" => bounds(option, &mut cache.denial, scope),
            "prefetch" => prefetch(option, &mut cache, scope),
            "serve_stale" => serve_stale(option, &mut cache, scope),
            "serve_stale_policy" => stale_policy(option, &mut policy, scope),
            "servfail" => servfail(option, &mut cache, scope),
            "disable" => disable(option, &mut cache, scope),
            "keepttl" => {
                scope.no_args(option);
                cache.keep_ttl = true;
            }
            "size" => cache.size = size(option, scope).or(cache.size),
            name => {
                let last = option.args.last().unwrap_or(&option.name);
                let text = format!("Wrong argument count or unexpected line ending after '{name}'");
                let error = Diagnostic::error(option.name.span.to(last.span), text);
                scope.findings.error(match nearest(name, OPTIONS) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.label("`cache` has no such option"),
                });
            }
        }
    }
    if let Some(option) = policy {
        match &mut cache.stale {
            Some(stale) => stale.prefer_positive = true,
            None if line.options().iter().any(|option| &*option.name.text == "serve_stale") => {}
            None => {
                let text = "plugin/cache: serve_stale_policy requires serve_stale";
                let error = Diagnostic::error(option.name.span, text);
                scope.findings.error(error.help("add a line `serve_stale`"));
            }
        }
    }
    Some(cache)
}

/// What CoreDNS makes of a number of entries.
fn entries(capacity: i64) -> u64 {
    let shard = u64::try_from(capacity).unwrap_or(0) / SHARDS;
    shard.max(SHARD_ENTRIES_MIN) * SHARDS
}

fn ttl_max(word: &Word, scope: &mut Scope<'_>) -> Option<u32> {
    let number = int(word, "cache", scope)?;
    if number <= 0 {
        let text = format!("plugin/cache: cache TTL can not be zero or negative: {number}");
        let error = Diagnostic::error(word.span, text);
        scope
            .findings
            .error(error.label("expected a number of seconds above 0"));
        return None;
    }
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

fn bounds(option: &Line, kind: &mut CacheKind, scope: &mut Scope<'_>) {
    let (capacity, ttls) = match option.args.split_first() {
        Some((capacity, ttls)) if ttls.len() <= 2 => (capacity, ttls),
        _ => return scope.argument_count(option, "a number of entries, the longest TTL and the shortest one"),
    };
    if let Some(number) = int(capacity, "cache", scope) {
        kind.entries_max = entries(number);
    }
    if let Some(ttl) = ttls.first().and_then(|word| ttl_max(word, scope)) {
        kind.ttl_max_secs = ttl;
    }
    let Some(word) = ttls.get(1) else { return };
    let Some(number) = int(word, "cache", scope) else {
        return;
    };
    if number < 0 {
        let text = format!("plugin/cache: cache min TTL can not be negative: {number}");
        let error = Diagnostic::error(word.span, text);
        scope.findings.error(error.label("expected a number of seconds"));
        return;
    }
    kind.ttl_min_secs = u32::try_from(number).unwrap_or(u32::MAX);
}

fn prefetch(option: &Line, cache: &mut Cache, scope: &mut Scope<'_>) {
    let (amount, rest) = match option.args.split_first() {
        Some((amount, rest)) if rest.len() <= 2 => (amount, rest),
        _ => return scope.argument_count(option, "a number of hits, a duration and a percentage"),
    };
    let Some(hits) = int(amount, "cache", scope) else {
        return;
    };
    if hits < 0 {
        let text = format!("plugin/cache: prefetch amount should be positive: {hits}");
        let error = Diagnostic::error(amount.span, text);
        return scope
            .findings
            .error(error.label("expected a number of hits; 0 turns it off"));
    }
    let negative = |below| format!("prefetch duration should be positive: -{}", go_text(below));
    let within = match rest.first() {
        Some(word) => duration(word, "cache", negative, scope),
        None => Some(PREFETCH_WITHIN_DEFAULT),
    };
    let percentage = match rest.get(1) {
        Some(word) => percentage(word, scope),
        None => Some(PREFETCH_PERCENTAGE_DEFAULT),
    };
    cache.prefetch = match (within, percentage) {
        (Some(within), Some(percentage)) if hits > 0 => Some(Prefetch {
            amount: hits.unsigned_abs(),
            within,
            percentage,
        }),
        _ => None,
    };
}

fn percentage(word: &Word, scope: &mut Scope<'_>) -> Option<u8> {
    let text = match word.text.strip_suffix('%') {
        None => {
            let last = word.text.chars().last().map(String::from).unwrap_or_default();
            format!("last character of percentage should be `%`, but is: '{last}'")
        }
        Some(number) => match number.parse::<i64>() {
            Ok(number @ 10..=90) => return u8::try_from(number).ok(),
            Ok(number) => format!("percentage should fall in range [10, 90]: {number}"),
            Err(_) => format!("strconv.Atoi: parsing {number:?}: invalid syntax"),
        },
    };
    let error = Diagnostic::error(word.span, format!("plugin/cache: {text}"));
    scope.findings.error(error.label("expected `10%` to `90%`"));
    None
}

fn serve_stale(option: &Line, cache: &mut Cache, scope: &mut Scope<'_>) {
    let mut words = option.args.iter();
    let mut stale = ServeStale {
        up_to: STALE_DEFAULT,
        refresh: StaleRefresh::Immediate,
        response_ttl_secs: None,
        recheck: Duration::ZERO,
        prefer_positive: false,
    };
    let negative = |_| "invalid negative duration for serve_stale".to_owned();
    if let Some(word) = words.next() {
        let Some(up_to) = duration(word, "cache", negative, scope) else {
            return;
        };
        stale.up_to = up_to;
    }
    if let Some(word) = words.next() {
        match &*word.text.to_ascii_lowercase() {
            "immediate" => {}
            "verify" => {
                let Some(word) = words.next() else {
                    stale.refresh = StaleRefresh::Verify(None);
                    return keep(stale, cache);
                };
                let Some(time) = duration(word, "cache", negative, scope) else {
                    return;
                };
                stale.refresh = StaleRefresh::Verify(Some(time).filter(|time| !time.is_zero()));
            }
            mode => {
                let text = format!("plugin/cache: invalid value for serve_stale refresh mode: {mode}");
                return scope.unknown(word.span, text, mode, &["immediate", "verify"]);
            }
        }
    }
    if let Some(word) = words.next() {
        let Some(ttl) = response_ttl(word, scope) else { return };
        stale.response_ttl_secs = Some(ttl);
    }
    if let Some(word) = words.next() {
        let Some(recheck) = duration(word, "cache", negative, scope) else {
            return;
        };
        if recheck > FAILURE_MAX {
            let text = "plugin/cache: serve_stale recheck over 5 minutes is not permitted";
            let error = Diagnostic::error(word.span, text);
            return scope.findings.error(error.label("expected 5m at most"));
        }
        stale.recheck = recheck;
    }
    if words.next().is_some() {
        return scope.argument_count(
            option,
            "`DURATION MODE`, the TTL of stale answers, and when to ask again",
        );
    }
    keep(stale, cache);
}

fn keep(stale: ServeStale, cache: &mut Cache) {
    cache.stale = Some(stale).filter(|stale| !stale.up_to.is_zero());
}

fn response_ttl(word: &Word, scope: &mut Scope<'_>) -> Option<u32> {
    let is_whole = go_duration(&word.text).is_ok_and(|time| time.subsec_nanos() == 0);
    let is_number = word.text.bytes().all(|byte| byte.is_ascii_digit());
    let ttl = seconds(&word.text).ok().filter(|_| is_whole || is_number);
    if ttl.is_none() {
        let text = format!(
            "plugin/cache: invalid value for serve_stale response TTL: {}",
            word.text
        );
        let error = Diagnostic::error(word.span, text);
        scope
            .findings
            .error(error.label("expected whole seconds such as `30s`"));
    }
    ttl
}

fn stale_policy<'l>(option: &'l Line, earlier: &mut Option<&'l Line>, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    if &*word.text != "prefer_positive" {
        let text = format!("plugin/cache: invalid value for serve_stale_policy: {}", word.text);
        return scope.unknown(word.span, text, &word.text, &["prefer_positive"]);
    }
    if let Some(earlier) = earlier {
        let text = "plugin/cache: serve_stale_policy can only be specified once";
        let error = Diagnostic::error(option.name.span, text);
        return scope
            .findings
            .error(error.related(earlier.name.span, "the first one").help("take one out"));
    }
    *earlier = Some(option);
}

fn servfail(option: &Line, cache: &mut Cache, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    let negative = |_| "invalid negative ttl for servfail".to_owned();
    let Some(time) = duration(word, "cache", negative, scope) else {
        return;
    };
    if time > FAILURE_MAX {
        let text = "plugin/cache: caching SERVFAIL responses over 5 minutes is not permitted";
        let error = Diagnostic::error(word.span, text);
        return scope.findings.error(error.label("expected 5m at most"));
    }
    cache.servfail = time;
}

fn disable(option: &Line, cache: &mut Cache, scope: &mut Scope<'_>) {
    let Some((kind, zones)) = option.args.split_first() else {
        return scope.argument_count(option, "`success` or `denial`");
    };
    let zones = match zones {
        [] => vec![NameBuf::root()],
        _ => scope.named_zones(zones),
    };
    match &*kind.text {
        "success" => cache.disable_success = zones,
        "denial" => cache.disable_denial = zones,
        other => {
            let text = "plugin/cache: cache type for disable must be \"success\" or \"denial\"".to_owned();
            scope.unknown(kind.span, text, other, &["success", "denial"]);
        }
    }
}

fn size(option: &Line, scope: &mut Scope<'_>) -> Option<u64> {
    let word = scope.one_arg(option)?;
    let digits = word.text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = word.text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name));
    let bytes = factor.and_then(|(_, factor)| number.parse::<u64>().ok()?.checked_mul(*factor));
    let bytes = bytes.filter(|bytes| (SIZE_MIN..=SIZE_MAX).contains(bytes));
    if bytes.is_none() {
        let error = Diagnostic::error(word.span, format!("plugin/cache: invalid size: {}", word.text));
        scope
            .findings
            .error(error.label("expected bytes from `1MB` to `1000GB`, such as `64MB` or `67108864`"));
    }
    bytes
}
