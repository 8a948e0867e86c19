//! Label selectors of Kubernetes, checked where they are written: the API server would refuse a wrong one for ever.

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;

/// Longest name of a label, and longest value.
const NAME_LEN_MAX: usize = 63;
/// Longest prefix of a label's name.
const PREFIX_LEN_MAX: usize = 253;

/// Reads the selector that the arguments of an option are together. `what` is what errors call it.
pub(super) fn selector(option: &Line, what: &str, scope: &mut Scope<'_>) -> Option<String> {
    let [first, ..] = option.args.as_slice() else {
        scope.argument_count(option, "a label selector such as `app=web`");
        return None;
    };
    let words: Vec<&str> = option.args.iter().map(|word| &*word.text).collect();
    let text = words.join(" ");
    if let Err(why) = check(&text) {
        let last = option.args.last().unwrap_or(first);
        let error = format!("unable to parse {what} selector value: '{text}': {why}");
        let error = Diagnostic::error(first.span.to(last.span), error);
        scope.findings.error(
            error.help(
                "the forms are `a=b`, `a!=b`, `a in (b, c)`, `a notin (b, c)`, `a` and `!a`, with commas between",
            ),
        );
        return None;
    }
    Some(text)
}

/// Says what is wrong with a selector.
fn check(text: &str) -> Result<(), String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Ok(());
    }
    loop {
        rest = requirement(rest)?.trim_start();
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind.trim_start(),
            None if rest.is_empty() => return Ok(()),
            None => return Err(format!("found '{rest}', expected: ',' or 'end of string'")),
        }
    }
}

/// Takes one requirement off.
fn requirement(text: &str) -> Result<&str, String> {
    if let Some(rest) = text.strip_prefix('!') {
        let (key, rest) = word(rest.trim_start());
        return is_key(key).map(|()| rest);
    }
    let (key, rest) = word(text);
    is_key(key)?;
    let rest = rest.trim_start();
    let operator = ["!=", "==", "="].into_iter().find_map(|sign| rest.strip_prefix(sign));
    if let Some(rest) = operator {
        let (value, rest) = word(rest.trim_start());
        return is_value(value).map(|()| rest);
    }
    let (operator, set) = word(rest);
    match operator {
        "" => Ok(rest),
        "in" | "notin" => values(set.trim_start()),
        other => Err(format!("found '{other}', expected: '=', '!=', '==', 'in', notin'")),
    }
}

/// Takes `(a, b)` off.
fn values(text: &str) -> Result<&str, String> {
    let (values, rest) = text
        .strip_prefix('(')
        .and_then(|text| text.split_once(')'))
        .ok_or_else(|| format!("found '{text}', expected: values in brackets"))?;
    values.split(',').try_for_each(|value| is_value(value.trim()))?;
    Ok(rest)
}

/// Up to a blank or a sign.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || "=!,()<>".contains(c));
    text.split_at(end.unwrap_or(text.len()))
}

fn is_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_is_name = prefix.is_none_or(|prefix| {
        let is_label =
            |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        prefix.len() <= PREFIX_LEN_MAX && prefix.split('.').all(is_label)
    });
    if prefix_is_name && !name.is_empty() && is_label_text(name) {
        Ok(())
    } else {
        Err(format!("invalid label key \"{key}\""))
    }
}

fn is_value(value: &str) -> Result<(), String> {
    if is_label_text(value) {
        Ok(())
    } else {
        Err(format!("invalid label value \"{value}\""))
    }
}

/// Nothing, or letters and digits at the ends with `-`, `_` and `.` between.
fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= NAME_LEN_MAX && is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_in_every_form() {
        for text in [
            "app=web",
            "app==web,tier!=db",
            "a=b, c != d , e in (x, y),!f,g",
            "example.com/part-of notin (one,two)",
            "environment in (production)",
            "a=",
            "! a",
            "in in (in)",
            "e in (x,)",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_no_selector() {
        for (text, why) in [
            ("=web", "invalid label key \"\""),
            ("a=b,", "invalid label key \"\""),
            ("a=b c=d", "found 'c=d', expected: ',' or 'end of string'"),
            ("a is b", "found 'is', expected: '=', '!=', '==', 'in', notin'"),
            ("a in b", "found 'b', expected: values in brackets"),
            ("a in (b", "found '(b', expected: values in brackets"),
            ("a>3", "found '>3', expected: ',' or 'end of string'"),
            ("a/b/c=d", "invalid label key \"a/b/c\""),
            ("/b=d", "invalid label key \"/b\""),
            ("-a=d", "invalid label key \"-a\""),
            ("a=b_", "invalid label value \"b_\""),
            ("a=b;c", "invalid label value \"b;c\""),
        ] {
            assert_eq!(check(text), Err(why.to_owned()), "{text}");
        }
        assert_eq!(check(&format!("a={}", "b".repeat(63))), Ok(()));
        assert!(check(&format!("a={}", "b".repeat(64))).is_err());
    }
}
