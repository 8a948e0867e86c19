//! The meaning of single words: names, times, numbers, strings.

use std::str::FromStr;

use nodens_wire::{Name, NameBuf};

/// The bytes that a word or a quoted string stands for.
pub(super) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(if byte == b'\\' { escaped(&mut rest)? } else { byte });
    }
    Ok(bytes)
}

/// What stands behind a backslash: three digits up to 255, or one other byte for itself.
fn escaped(rest: &mut &[u8]) -> Result<u8, String> {
    let Some((&first, behind)) = rest.split_first() else {
        return Err("a backslash with nothing behind it".to_owned());
    };
    if !first.is_ascii_digit() {
        *rest = behind;
        return Ok(first);
    }
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let value = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let value = value.ok_or_else(|| "a backslash needs three digits up to 255".to_owned())?;
    *rest = &rest[3..];
    Ok(value)
}

/// A name; without a final dot it is relative to `origin`, and `@` is `origin` itself.
pub(super) fn name(text: &[u8], origin: Name<'_>) -> Result<NameBuf, String> {
    let bad = |why: &dyn std::fmt::Display| format!("bad name \"{}\": {why}", text.escape_ascii());
    match text {
        b"@" => return Ok(origin.to_buf()),
        b"." => return Ok(NameBuf::root()),
        b"" => return Err("an empty name".to_owned()),
        _ => {}
    }
    let mut labels = vec![Vec::new()];
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'.' {
            labels.push(Vec::new());
            continue;
        }
        let byte = if byte == b'\\' {
            escaped(&mut rest).map_err(|why| bad(&why))?
        } else {
            byte
        };
        if let Some(label) = labels.last_mut() {
            label.push(byte);
        }
    }
    let absolute = labels.last().is_some_and(Vec::is_empty);
    if absolute {
        labels.pop();
    }
    let suffix = if absolute { Name::ROOT } else { origin };
    NameBuf::from_labels(labels.iter().map(Vec::as_slice), suffix).map_err(|error| bad(&error))
}

/// Seconds, or numbers with units: `90`, `1h30m`, `1W`.
pub(super) fn seconds(text: &[u8]) -> Result<u32, String> {
    let bad = || format!("bad time \"{}\"", text.escape_ascii());
    let mut total: u64 = 0;
    let mut number: Option<u64> = None;
    for &byte in text {
        let unit = match byte.to_ascii_lowercase() {
            b'0'..=b'9' => {
                let digit = u64::from(byte - b'0');
                number = Some(number.unwrap_or(0) * 10 + digit).filter(|&number| number <= u64::from(u32::MAX));
                number.ok_or_else(bad)?;
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return Err(bad()),
        };
        // The number and the unit are too small to overflow.
        total += number.take().ok_or_else(bad)? * unit;
        if total > u64::from(u32::MAX) {
            return Err(bad());
        }
    }
    if text.is_empty() {
        return Err(bad());
    }
    u32::try_from(total + number.unwrap_or(0)).map_err(|_| bad())
}

/// A decimal number that fits.
pub(super) fn number<T: FromStr>(text: &[u8], what: &str) -> Result<T, String> {
    let digits = text
        .iter()
        .all(u8::is_ascii_digit)
        .then(|| std::str::from_utf8(text).ok())
        .flatten();
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("bad {what} \"{}\"", text.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_units() {
        let check = |text: &str, expected: Option<u32>| assert_eq!(seconds(text.as_bytes()).ok(), expected, "{text}");
        check("0", Some(0));
        check("3600", Some(3600));
        check("1h30m", Some(5400));
        check("1H30M5S", Some(5405));
        check("2w1d", Some(1_296_000));
        check("1h30", Some(3630));
        check("4294967295", Some(u32::MAX));
        check("4294967296", None);
        check("7102w", None);
        check("99999999999999999999", None);
        check("", None);
        check("h", None);
        check("1y", None);
        check("-1", None);
    }

    #[test]
    fn names_relative_and_absolute() {
        let origin = NameBuf::from_text("cedar.example").unwrap();
        let check = |text: &[u8], expected: Option<&str>| {
            let name = name(text, origin.as_name()).ok().map(|name| name.to_string());
            assert_eq!(name.as_deref(), expected, "{}", text.escape_ascii());
        };
        check(b"@", Some("cedar.example."));
        check(b".", Some("."));
        check(b"www", Some("www.cedar.example."));
        check(b"www.", Some("www."));
        check(br"a\.b", Some(r"a\.b.cedar.example."));
        check(br"a\.", Some(r"a\..cedar.example."));
        check(br"\097.b.", Some("a.b."));
        check(b"\xff.", Some(r"\255."));
        check(b"", None);
        check(b"a..b", None);
        check(b"..", None);
        check(b"a\\", None);
        check(br"\25", None);
        check(br"\256", None);
        check(&[b'a'; 64], None);
    }

    #[test]
    fn strings_and_numbers() {
        assert_eq!(unescape(br#"a\"b\\c\065\200"#).unwrap(), b"a\"b\\cA\xc8");
        assert!(unescape(b"\\").is_err());
        assert!(unescape(b"\\12").is_err());
        assert_eq!(number::<u16>(b"65535", "port"), Ok(65535));
        assert_eq!(number::<u16>(b"65536", "port"), Err("bad port \"65536\"".to_owned()));
        assert!(number::<u8>(b"+1", "flag").is_err());
        assert!(number::<u8>(b"", "flag").is_err());
    }
}
