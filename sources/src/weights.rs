//! Weight files of `loadbalance weighted`: a name, then `ADDRESS WEIGHT` a line.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use nodens_wire::NameBuf;

use crate::clip::clip;
use crate::wrong::WrongLines;

/// The addresses of each name, in small letters, with their weights, as they are listed.
pub type Listed = BTreeMap<NameBuf, Vec<(IpAddr, u8)>>;

/// Reads a text; errors name the file, worded as CoreDNS does.
///
/// # Errors
/// All lines that make no sense.
pub fn parse(contents: &[u8], file: &Path) -> Result<Listed, WrongLines> {
    let mut names = Listed::new();
    let mut wrong = WrongLines::default();
    let mut name = None;
    for (text, line) in contents.split(|&byte| byte == b'\n').zip(1..) {
        let text = String::from_utf8_lossy(text);
        if let Err((what, hint)) = read(text.trim(), &mut names, &mut name) {
            let what = format!("{} in weight file {}{hint}", clip(what), file.display());
            wrong.note(file, contents, line, what);
        }
    }
    wrong.or(names)
}

/// Reads a line; `name` is the one that addresses below it belong to. Else what is wrong, and what may have been meant.
fn read(text: &str, names: &mut Listed, name: &mut Option<NameBuf>) -> Result<(), (String, &'static str)> {
    if text.is_empty() || text.starts_with('#') {
        return Ok(());
    }
    let wrong = |what: String| Err((what, ""));
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    match words[..] {
        [word] if word.parse::<IpAddr>().is_ok() => Err((
            format!("wrong domain name:\"{word}\""),
            ". (Maybe a missing weight value?)",
        )),
        [word] => {
            let own = NameBuf::from_text(word);
            // Addresses below a wrong name are not wrong for that.
            let known = own.clone().map_or_else(|_| NameBuf::root(), NameBuf::folded);
            names.entry(known.clone()).or_default();
            *name = Some(known);
            own.map(drop)
                .or_else(|_| wrong(format!("wrong domain name:\"{word}\"")))
        }
        [address, weight] => {
            let Ok(own) = address.parse::<IpAddr>() else {
                return wrong(format!("wrong IP address:\"{address}\""));
            };
            let Some(weight) = weight.parse().ok().filter(|weight| *weight > 0) else {
                return wrong(format!("wrong weight value:\"{weight}\""));
            };
            let listed = name.as_ref().and_then(|name| names.get_mut(name));
            let Some(listed) = listed else {
                return wrong("missing domain name".to_owned());
            };
            listed.push((own.to_canonical(), weight));
            Ok(())
        }
        _ => wrong(format!("could not parse weight line:\"{text}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_addresses() {
        let text = b"# heavy\r\n\r\nWww.cedar.example\r\n  192.0.2.1   8\n2001:db8::1 255\n\nsix.cedar.example.\n\
            ::ffff:192.0.2.2 1\nwww.cedar.example.\n192.0.2.1 9\nbare\n";
        let shown: Vec<String> = parse(text, Path::new("w"))
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
        assert!(parse(b"", Path::new("w")).unwrap().is_empty());
    }

    #[test]
    fn lines_that_make_no_sense() {
        let check = |text: &str, line, expected: &str| {
            let wrong = parse(text.as_bytes(), Path::new("w.txt")).unwrap_err();
            assert_eq!(
                (wrong.to_string(), wrong.first[0].line),
                (expected.to_owned(), line),
                "{text}"
            );
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

    #[test]
    fn every_wrong_line_is_told_once() {
        let text = "a..b\n192.0.2.1 1\n192.0.2.2 0\n\nwww\nx 1\n192.0.2.3 1\n";
        let wrong = parse(text.as_bytes(), Path::new("w")).unwrap_err();
        let lines: Vec<usize> = wrong.first.iter().map(|wrong| wrong.line).collect();
        assert_eq!(lines, [1, 3, 6]);
    }
}
