//! The data of LOC records (RFC 1876 §3), whose fields at the end may be left out.

use super::scan::Token;

/// Where latitude and longitude are zero, in thousandths of a second of arc.
const ORIGIN: u32 = 1 << 31;
/// Altitudes count from 100 km below the ground, in centimetres.
const GROUND: i64 = 10_000_000;
/// Size and precision when they are not given: 1 m, 10 km and 10 m.
const DEFAULTS: [(&str, u8); 3] = [
    ("size", 0x12),
    ("horizontal precision", 0x16),
    ("vertical precision", 0x13),
];

pub(super) fn parse(mut tokens: &[Token<'_>]) -> Result<Vec<u8>, String> {
    let latitude = angle(&mut tokens, "latitude", 90, [b"N", b"S"])?;
    let longitude = angle(&mut tokens, "longitude", 180, [b"E", b"W"])?;
    let altitude = next(&mut tokens).ok_or("no altitude")?;
    let altitude = metres(altitude)
        .and_then(|centimetres| u32::try_from(centimetres + GROUND).ok())
        .ok_or_else(|| bad("altitude", altitude))?;
    let mut data = vec![0];
    for (what, default) in DEFAULTS {
        data.push(match next(&mut tokens) {
            Some(text) => metres(text).and_then(power).ok_or_else(|| bad(what, text))?,
            None => default,
        });
    }
    if let Some(more) = next(&mut tokens) {
        return Err(format!("\"{}\" is too much", more.escape_ascii()));
    }
    for number in [latitude, longitude, altitude] {
        data.extend(number.to_be_bytes());
    }
    Ok(data)
}

fn next<'t>(tokens: &mut &[Token<'t>]) -> Option<&'t [u8]> {
    let (first, rest) = tokens.split_first()?;
    *tokens = rest;
    Some(first.text)
}

fn bad(what: &str, text: &[u8]) -> String {
    format!("bad {what} \"{}\"", text.escape_ascii())
}

/// `DEGREES [MINUTES [SECONDS]] DIRECTION`
fn angle(tokens: &mut &[Token<'_>], what: &str, most: i64, directions: [&[u8]; 2]) -> Result<u32, String> {
    /// Digits behind the dot, the number that is too high, and what one is in thousandths of a second.
    const PARTS: [(usize, i64, i64); 3] = [(0, i64::MAX, 3_600_000), (0, 60, 60_000), (3, 60_000, 1)];
    let mut parts = PARTS.iter();
    let mut total = 0_i64;
    loop {
        let text = next(tokens).ok_or_else(|| format!("no direction behind the {what}"))?;
        let is = |direction: &[u8]| parts.len() < PARTS.len() && text.eq_ignore_ascii_case(direction);
        if !directions.into_iter().any(is) {
            let (decimals, limit, unit) = *parts.next().ok_or_else(|| bad(what, text))?;
            let number = decimal(text, decimals).filter(|number| (0..limit).contains(number));
            total += number.ok_or_else(|| bad(what, text))? * unit;
            continue;
        }
        if total > most * 3_600_000 {
            return Err(format!("the {what} is over {most} degrees"));
        }
        let total = u32::try_from(total).unwrap_or_default();
        return Ok(if is(directions[0]) {
            ORIGIN + total
        } else {
            ORIGIN - total
        });
    }
}

/// Centimetres of `12.34m`; the `m` may be left out.
fn metres(text: &[u8]) -> Option<i64> {
    decimal(text.strip_suffix(b"m").unwrap_or(text), 2)
}

/// A number times ten to the power of `decimals`, which is as many digits as may stand behind its dot.
fn decimal(text: &[u8], decimals: usize) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || part.len() > decimals || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let number: i64 = format!("{whole}{part:0<decimals$}").parse().ok()?;
    Some(sign * number)
}

/// Centimetres as one digit and a power of ten, rounded down.
fn power(mut centimetres: i64) -> Option<u8> {
    let mut exponent = 0;
    while centimetres > 9 {
        centimetres /= 10;
        exponent += 1;
    }
    let digit = u8::try_from(centimetres).ok()?;
    (exponent <= 9).then_some(digit << 4 | exponent)
}
