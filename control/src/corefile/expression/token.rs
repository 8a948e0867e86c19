//! Text to numbers, texts, words and signs.

use std::ops::Range;

use super::Fault;

/// The smallest part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A whole number.
    Int(i64),
    /// A number with a point or an exponent.
    Float(f64),
    /// What stood in quotes.
    Text(String),
    /// A name or a word of the language.
    Word(String),
    /// One of [`SIGNS`].
    Sign(&'static str),
}

/// A token and where it stands.
pub(super) type Placed = (Token, Range<usize>);

/// Longer ones first.
const SIGNS: [&str; 20] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ",", "?", ":", "+", "-", "*", "/",
];

/// Splits an expression.
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        }
        let (token, len) = match next {
            '0'..='9' => number(text, at)?,
            '.' if text[at + 1..].starts_with(|next: char| next.is_ascii_digit()) => number(text, at)?,
            '\'' | '"' | '`' => quoted(text, at, next)?,
            '_' | 'a'..='z' | 'A'..='Z' => {
                let len = word_len(&text[at..]);
                (Token::Word(text[at..at + len].to_owned()), len)
            }
            _ => sign(text, at, next)?,
        };
        tokens.push((token, at..at + len));
        at += len;
    }
    Ok(tokens)
}

fn word_len(text: &str) -> usize {
    text.find(|next: char| next != '_' && !next.is_ascii_alphanumeric())
        .unwrap_or(text.len())
}

fn number(text: &str, at: usize) -> Result<(Token, usize), Fault> {
    let rest = &text[at..];
    let wrong = |len: usize| Fault::new(at..at + len, format!("bad number syntax: \"{}\"", &rest[..len]));
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let len = word_len(digits);
        let value = i64::from_str_radix(&digits[..len].replace('_', ""), 16).map_err(|_| wrong(len + 2))?;
        return Ok((Token::Int(value), len + 2));
    }
    let mut len = 0;
    while let Some(next) = rest[len..].chars().next() {
        let is_sign = matches!(next, '+' | '-') && rest[..len].ends_with(['e', 'E']);
        if !is_sign && next != '.' && next != '_' && !next.is_ascii_alphanumeric() {
            break;
        }
        len += 1;
    }
    let digits = rest[..len].replace('_', "");
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits
            .parse()
            .map(|value| (Token::Int(value), len))
            .map_err(|_| wrong(len).label("it is too large"));
    }
    let is_float = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    match digits.parse() {
        Ok(value) if is_float => Ok((Token::Float(value), len)),
        _ => Err(wrong(len)),
    }
}

/// What stands between two quotes; in back quotes nothing is escaped.
fn quoted(text: &str, at: usize, quote: char) -> Result<(Token, usize), Fault> {
    let mut inside = String::new();
    let mut chars = text[at + 1..].char_indices();
    while let Some((offset, next)) = chars.next() {
        match next {
            _ if next == quote => return Ok((Token::Text(inside), offset + 2)),
            '\\' if quote != '`' => {
                let start = at + 1 + offset;
                let (value, len) = escaped(&text[start + 1..]).ok_or_else(|| {
                    let end = text[start + 1..].chars().next().map_or(0, char::len_utf8);
                    Fault::new(start..start + 1 + end, "unable to unescape string")
                        .label("no such escape")
                        .help("a backslash in a text is written twice: `'\\\\.'` for a dot in a pattern")
                })?;
                inside.push(value);
                for _ in text[start + 1..start + 1 + len].chars() {
                    chars.next();
                }
            }
            other => inside.push(other),
        }
    }
    Err(Fault::new(at..text.len(), "literal not terminated").label(format!("expected another {quote}")))
}

/// What stands behind a backslash, and how many bytes of it count.
fn escaped(rest: &str) -> Option<(char, usize)> {
    let first = rest.chars().next()?;
    let numbered = |from: usize, digits: usize, radix: u32| {
        let digits = rest.get(from..from + digits)?;
        let is_number = digits.chars().all(|digit| digit.is_digit(radix));
        let value = u32::from_str_radix(digits, radix).ok().filter(|_| is_number)?;
        Some((char::from_u32(value)?, from + digits.len()))
    };
    let plain = match first {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' => first,
        'x' => return numbered(1, 2, 16),
        'u' => return numbered(1, 4, 16),
        'U' => return numbered(1, 8, 16),
        '0'..='3' => return numbered(0, 3, 8),
        _ => return None,
    };
    Some((plain, 1))
}

fn sign(text: &str, at: usize, next: char) -> Result<(Token, usize), Fault> {
    let rest = &text[at..];
    let other = ["**", "..", "??", "?."]
        .into_iter()
        .find(|other| rest.starts_with(other));
    if let Some(other) = other {
        return Err(Fault::new(
            at..at + other.len(),
            format!("nodens does not have the operator `{other}` of expr-lang"),
        ));
    }
    if next == '%' {
        return Ok((Token::Sign("%"), 1));
    }
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let fault = Fault::new(at..at + next.len_utf8(), format!("unrecognized character: {next:?}"));
    Err(match next {
        '=' => fault.help("did you mean `==`?"),
        '&' => fault.help("did you mean `&&`?"),
        '|' => fault.help("did you mean `||`?"),
        _ => fault.label("nothing of the language begins so"),
    })
}
