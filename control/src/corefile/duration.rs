//! Durations as Go writes them, and bare numbers of seconds.

use std::time::Duration;

use thiserror::Error;

/// Why a text is no duration; worded as Go does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// Not a number with units.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number with nothing behind it.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit other than `h`, `m`, `s`, `ms`, `us` and `ns`.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// What stands in the unit's place.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// Below zero, where time only goes forward.
    #[error("negative duration {0:?}")]
    Negative(String),
}

/// Longest duration that Go's 64 bits of nanoseconds hold: about 292 years.
const NANOSECONDS_MAX: u128 = i64::MAX as u128;

/// Parses `1h30m`, `1.5s`, `300ms`, `0`: numbers that may have a fraction, each with its unit.
pub fn go_duration(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut nanoseconds: u128 = 0;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let number_len = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let (number, behind) = rest.split_at(number_len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let unit_len = behind
            .bytes()
            .take_while(|byte| !byte.is_ascii_digit() && *byte != b'.')
            .count();
        let (unit, behind) = behind.split_at(unit_len);
        let unit_nanoseconds: u128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            _ => {
                return Err(DurationError::UnknownUnit {
                    unit: unit.to_owned(),
                    text: text.to_owned(),
                });
            }
        };
        let whole: u128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        // Digits beyond a nanosecond of the largest unit change nothing.
        let fraction = &fraction[..fraction.len().min(18)];
        let part: u128 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().map_err(|_| invalid())?
        };
        let scale = 10u128.pow(u32::try_from(fraction.len()).expect("cut to 18 digits"));
        nanoseconds = whole
            .checked_mul(unit_nanoseconds)
            .and_then(|product| product.checked_add(part * unit_nanoseconds / scale))
            .and_then(|sum| sum.checked_add(nanoseconds))
            .filter(|sum| *sum <= NANOSECONDS_MAX)
            .ok_or_else(invalid)?;
        rest = behind;
    }
    if negative && nanoseconds > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    Ok(Duration::from_nanos(u64::try_from(nanoseconds).map_err(|_| invalid())?))
}

/// How far below zero a negative duration is.
pub fn below_zero(text: &str) -> Option<Duration> {
    let time = go_duration(text.strip_prefix('-')?).ok()?;
    (!time.is_zero()).then_some(time)
}

/// A duration as Go shows it: `1h30m0s`, `500ms`.
pub fn go_text(duration: Duration) -> String {
    let (secs, nanos) = (duration.as_secs(), duration.subsec_nanos());
    let decimal = |whole: u64, fraction: u32, digits: usize| {
        let text = format!("{whole}.{fraction:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match (secs, nanos) {
        (0, 0) => "0s".to_owned(),
        (0, ..1_000) => format!("{nanos}ns"),
        (0, ..1_000_000) => format!("{}\u{b5}s", decimal((nanos / 1_000).into(), nanos % 1_000, 3)),
        (0, _) => format!("{}ms", decimal((nanos / 1_000_000).into(), nanos % 1_000_000, 6)),
        _ => {
            let (hours, minutes) = (secs / 3600, secs / 60 % 60);
            let hours_text = if hours > 0 { format!("{hours}h") } else { String::new() };
            let minutes_text = if secs >= 60 {
                format!("{minutes}m")
            } else {
                String::new()
            };
            format!("{hours_text}{minutes_text}{}s", decimal(secs % 60, nanos, 9))
        }
    }
}

/// Parses whole seconds: a bare number, or a duration whose fraction of a second is cut off.
pub fn seconds(text: &str) -> Result<u32, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| invalid());
    }
    u32::try_from(go_duration(text)?.as_secs()).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_of_go() {
        for (text, milliseconds) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("5s", 5_000),
            ("+5s", 5_000),
            ("1m", 60_000),
            ("1h30m", 5_400_000),
            ("2h0m1s", 7_201_000),
            ("300ms", 300),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1.s", 1_000),
            ("5000us", 5),
            ("5000\u{b5}s", 5),
            ("5000\u{3bc}s", 5),
            ("7000000ns", 7),
            ("0.100000000000000000000h", 360_000),
            ("-0s", 0),
        ] {
            assert_eq!(go_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration() {
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("s", "time: invalid duration \"s\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
            ("30", "time: missing unit in duration \"30\""),
            ("1m30", "time: missing unit in duration \"1m30\""),
            ("1y", "time: unknown unit \"y\" in duration \"1y\""),
            ("1 s", "time: unknown unit \" s\" in duration \"1 s\""),
            ("1S", "time: unknown unit \"S\" in duration \"1S\""),
            ("-5s", "negative duration \"-5s\""),
            ("99999999999h", "time: invalid duration \"99999999999h\""),
            ("999999999999999999999999999999999999999999h", ""),
        ] {
            let found = go_duration(text).unwrap_err().to_string();
            assert!(found == error || error.is_empty(), "{text}: {found}");
        }
    }

    #[test]
    fn negative_durations() {
        assert_eq!(below_zero("-90s"), Some(Duration::from_secs(90)));
        for text in ["90s", "-0s", "-", "-90", ""] {
            assert_eq!(below_zero(text), None, "{text}");
        }
    }

    #[test]
    fn durations_as_go_shows_them() {
        for (text, shown) in [
            ("0", "0s"),
            ("5ns", "5ns"),
            ("1.5us", "1.5\u{b5}s"),
            ("500ms", "500ms"),
            ("999.25ms", "999.25ms"),
            ("1.5s", "1.5s"),
            ("60s", "1m0s"),
            ("90m", "1h30m0s"),
            ("24h0m1s", "24h0m1s"),
            ("3600s", "1h0m0s"),
        ] {
            assert_eq!(go_text(go_duration(text).unwrap()), shown, "{text}");
        }
    }

    #[test]
    fn bare_seconds() {
        for (text, expected) in [
            ("30", Some(30)),
            ("30s", Some(30)),
            ("2h30m", Some(9_000)),
            ("1500ms", Some(1)),
            ("0", Some(0)),
            ("4294967295", Some(4_294_967_295)),
            ("4294967296", None),
            ("4294967296s", None),
            ("-1", None),
            ("1y", None),
            ("", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = (go_duration(&text), seconds(&text));
        }

        #[test]
        fn no_likely_text_panics(text in "[-+]?([0-9]{0,30}\\.?[0-9]{0,30}(h|m|s|ms|us|ns|\u{b5}s)?){0,4}") {
            let _ = (go_duration(&text), seconds(&text));
        }
    }
}
