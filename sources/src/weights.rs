//! Weight files of `loadbalance weighted`: a name, then `ADDRESS WEIGHT` a line.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nodens_wire::NameBuf;
use thiserror::Error;

use crate::clip::{clip, clip_line};

/// The addresses of each name, in small letters, with their weights, as they are listed.
pub type Listed = BTreeMap<NameBuf, Vec<(IpAddr, u8)>>;

/// Why a text is no weight file; worded as CoreDNS does. The number of the line is from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} in weight file {file}{hint}")]
pub struct WeightsError {
    /// What is wrong.
    pub what: String,
    /// The file, as it was named.
    pub file: String,
    /// What may have been meant.
    pub hint: &'static str,
    /// Where.
    pub line: usize,
    /// The line itself, cut if it is long.
    pub drawn: String,
}

/// Reads a text; errors name the file.
///
/// # Errors
/// The first line that makes no sense.
pub fn parse(contents: &[u8], file: &str) -> Result<Listed, WeightsError> {
    let mut names = Listed::new();
    let mut name = None;
    for (text, line) in contents.split(|&byte| byte == b'\n').zip(1..) {
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let wrong = |what: String, hint| WeightsError {
            what: clip(what),
            file: file.to_owned(),
            hint,
            line,
            drawn: clip_line(contents, line),
        };
        let words: Vec<&str> = text.split_whitespace().take(3).collect();
        match words[..] {
            [word] => {
                let hint = ". (Maybe a missing weight value?)";
                let is_address = word.parse::<IpAddr>().is_ok();
                let Some(own) = NameBuf::from_text(word).ok().filter(|_| !is_address) else {
                    return Err(wrong(
                        format!("wrong domain name:\"{word}\""),
                        if is_address { hint } else { "" },
                    ));
                };
                let own = own.folded();
                names.entry(own.clone()).or_default();
                name = Some(own);
            }
            [address, weight] => {
                let Ok(own) = address.parse::<IpAddr>() else {
                    return Err(wrong(format!("wrong IP address:\"{address}\""), ""));
                };
                let Some(weight) = weight.parse().ok().filter(|weight| *weight > 0) else {
                    return Err(wrong(format!("wrong weight value:\"{weight}\""), ""));
                };
                let listed = name.as_ref().and_then(|name| names.get_mut(name));
                let Some(listed) = listed else {
                    return Err(wrong("missing domain name".to_owned(), ""));
                };
                listed.push((own.to_canonical(), weight));
            }
            _ => return Err(wrong(format!("could not parse weight line:\"{text}\""), "")),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_addresses() {
        let text = b"# heavy\r\n\r\nWww.cedar.example\r\n  192.0.2.1   8\n2001:db8::1 255\n\nsix.cedar.example.\n\
            ::ffff:192.0.2.2 1\nwww.cedar.example.\n192.0.2.1 9\nbare\n";
        let shown: Vec<String> = parse(text, "w")
            .unwrap()
            .into_iter()
            .map(|(name, listed)| format!("{name} {listed:?}"))
            .collect();
        let mut expected = [
            "bare. []",
            "six.cedar.example. [(192.0.2.2, 1)]",
            "www.cedar.example. [(192.0.2.1, 8), (2001:db8::1, 255), (192.0.2.1, 9)]",
        ];
        let mut shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        shown.sort_unstable();
        expected.sort_unstable();
        assert_eq!(shown, expected);
        assert!(parse(b"", "w").unwrap().is_empty());
    }

    #[test]
    fn lines_that_make_no_sense() {
        let check = |text: &str, line, expected: &str| {
            let error = parse(text.as_bytes(), "w.txt").unwrap_err();
            assert_eq!((error.to_string(), error.line), (expected.to_owned(), line), "{text}");
        };
        check(
            "a\n192.0.2.1",
            2,
            "wrong domain name:\"192.0.2.1\" in weight file w.txt. (Maybe a missing weight value?)",
        );
        check("a..b", 1, "wrong domain name:\"a..b\" in weight file w.txt");
        check("\na\nb 1", 3, "wrong IP address:\"b\" in weight file w.txt");
        for weight in ["0", "256", "-1", "1.5", "x"] {
            let expected = format!("wrong weight value:\"{weight}\" in weight file w.txt");
            check(&format!("a\n192.0.2.1 {weight}"), 2, &expected);
        }
        check("192.0.2.1 1", 1, "missing domain name in weight file w.txt");
        check(
            "a\n192.0.2.1 1 2",
            2,
            "could not parse weight line:\"192.0.2.1 1 2\" in weight file w.txt",
        );
    }
}
