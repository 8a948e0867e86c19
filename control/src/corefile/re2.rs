//! Regular expressions as Go reads them (RE2), in the syntax of the `regex` crate.

use regex::bytes::{Regex, RegexBuilder};

/// Bytes of a pattern, at most.
pub const PATTERN_BYTES_MAX: usize = 10_000;

/// Compiles a pattern of RE2; the error has CoreDNS's words in front.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    check_len(pattern)?;
    RegexBuilder::new(&translated(pattern))
        .build()
        .map_err(|error| wrong(&last_line(&error.to_string()), pattern))
}

/// How a pattern that does not compile is told.
pub fn wrong(why: &str, pattern: &str) -> String {
    format!("error parsing regexp: {why}: `{pattern}`")
}

/// The pattern is not too long.
pub fn check_len(pattern: &str) -> Result<(), String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!(
            "the regular expression has {} bytes, at most {PATTERN_BYTES_MAX} are allowed",
            pattern.len()
        ));
    }
    Ok(())
}

/// A syntax error draws the pattern over several lines; what is wrong stands in the last one.
fn last_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The pattern in the other syntax, which differs in what stands for itself: RE2 takes a `{` that counts nothing, and
/// `[`, `&` and `~` in a class, as they are, has `\Q…\E`, and knows no `\<`.
pub fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut place = Place::Outside;
    while let Some(next) = rest.chars().next() {
        let mut len = next.len_utf8();
        // A `]` at the start of a class closes nothing.
        let before = place;
        if place == Place::ClassStart {
            place = Place::Class;
        }
        match (next, before) {
            ('\\', _) => {
                len += rest[1..].chars().next().map_or(0, char::len_utf8);
                match &rest[..len] {
                    "\\Q" if before == Place::Outside => {
                        let quoted = rest[len..].split("\\E").next().unwrap_or_default();
                        out.push_str(&regex::escape(quoted));
                        len = (len + quoted.len() + 2).min(rest.len());
                    }
                    sign @ ("\\<" | "\\>") => out.push_str(&sign[1..]),
                    other => out.push_str(other),
                }
            }
            ('[', Place::Outside) => {
                len += usize::from(rest[1..].starts_with('^'));
                out.push_str(&rest[..len]);
                place = Place::ClassStart;
            }
            ('{', Place::Outside) if !counts(rest) => out.push_str("\\{"),
            (_, Place::Outside) => out.push(next),
            ('[', _) => match rest.find(":]").filter(|_| rest.starts_with("[:")) {
                Some(end) => {
                    len = end + 2;
                    out.push_str(&rest[..len]);
                }
                None => out.push_str("\\["),
            },
            (']', Place::Class) => {
                out.push(']');
                place = Place::Outside;
            }
            (']' | '&' | '~', _) => {
                out.push('\\');
                out.push(next);
            }
            _ => out.push(next),
        }
        rest = &rest[len..];
    }
    out
}

/// Where a character of a pattern stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    ClassStart,
    Class,
}

/// Whether a text begins with `{N}`, `{N,}` or `{N,M}`.
fn counts(text: &str) -> bool {
    let Some(inside) = text[1..].split_once('}').map(|(inside, _)| inside) else {
        return false;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, "0"));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_itself() {
        for (pattern, expected) in [
            (r"^[a-z]+\.oak\.$", r"^[a-z]+\.oak\.$"),
            ("a{2}b{2,}c{2,3}", "a{2}b{2,}c{2,3}"),
            ("a{b{,2}{", r"a\{b\{,2}\{"),
            ("[[a]", r"[\[a]"),
            ("[]a]b", r"[\]a]b"),
            ("[^]a]b", r"[^\]a]b"),
            ("[a&&b~]", r"[a\&\&b\~]"),
            ("[[:alpha:]_]", "[[:alpha:]_]"),
            (r"[\]a]", r"[\]a]"),
            (r"\Qa.b\E.", r"a\.b."),
            (r"\Qa.b", r"a\.b"),
            (r"\<a\>", "<a>"),
            ("a\\", "a\\"),
            ("\u{e9}[\u{e9}]", "\u{e9}[\u{e9}]"),
        ] {
            assert_eq!(translated(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn errors_are_of_one_line() {
        assert!(compile("^plugin/hosts: no next").is_ok());
        assert_eq!(
            compile("a(b").unwrap_err(),
            "error parsing regexp: unclosed group: `a(b`"
        );
        assert!(compile(&"a".repeat(10_001)).unwrap_err().contains("10001 bytes"));
    }
}
