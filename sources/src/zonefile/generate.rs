//! `$GENERATE START-STOP[/STEP] LINE`: a record for each number of a range.
//!
//! Numbers are put into the words of the line, not into its text: digits begin no new word, so each word is found once.

use std::fmt::Write as _;

use super::GENERATE_MAX;
use super::scan::Token;

/// The numbers of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    next: i64,
    stop: i64,
    step: i64,
}

impl Range {
    /// Reads `START-STOP[/STEP]`.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let bad = |what: &str| format!("bad {what} in $GENERATE range \"{}\"", text.escape_ascii());
        let shown = std::str::from_utf8(text).map_err(|_| bad("number"))?;
        let (bounds, step) = match shown.split_once('/') {
            Some((bounds, step)) => (
                bounds,
                digits(step).filter(|&step| step > 0).ok_or_else(|| bad("step"))?,
            ),
            None => (shown, 1),
        };
        let (start, stop) = bounds.split_once('-').ok_or_else(|| bad("bounds"))?;
        let start = digits(start).ok_or_else(|| bad("start"))?;
        let stop = digits(stop).filter(|&stop| stop >= start).ok_or_else(|| bad("stop"))?;
        if (stop - start) / step >= GENERATE_MAX {
            return Err(format!("$GENERATE of more than {GENERATE_MAX} records"));
        }
        Ok(Self {
            next: start,
            stop,
            step,
        })
    }
}

impl Iterator for Range {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let number = self.next;
        self.next += self.step;
        (number <= self.stop).then_some(number)
    }
}

/// A number that can be added to another without a thought: at most that of a serial.
fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| all && number <= i64::from(u32::MAX))
}

/// The line as words, with what stands for the number taken apart.
#[derive(Debug)]
pub(super) struct Line<'t> {
    words: Vec<(Token<'t>, Vec<Piece<'t>>)>,
}

#[derive(Clone, Copy, Debug)]
enum Piece<'t> {
    Text(&'t [u8]),
    Number { offset: i64, width: usize, base: Base },
}

#[derive(Clone, Copy, Debug)]
enum Base {
    Decimal,
    Octal,
    Hex,
    HexUpper,
}

const PLAIN: Piece<'_> = Piece::Number {
    offset: 0,
    width: 0,
    base: Base::Decimal,
};

impl<'t> Line<'t> {
    /// Takes the words apart.
    pub(super) fn parse(tokens: &[Token<'t>]) -> Result<Self, String> {
        if tokens.is_empty() {
            return Err("$GENERATE takes a range and a record".to_owned());
        }
        let words = tokens.iter().map(|token| Ok((*token, pieces(token.text)?)));
        Ok(Self {
            words: words.collect::<Result<_, String>>()?,
        })
    }

    /// The words for one number, their texts behind one another in `text`.
    pub(super) fn fill<'b>(&self, number: i64, text: &'b mut Vec<u8>) -> Result<Vec<Token<'b>>, String> {
        text.clear();
        let mut ends = Vec::with_capacity(self.words.len());
        for (_, pieces) in &self.words {
            for piece in pieces {
                match *piece {
                    Piece::Text(part) => text.extend_from_slice(part),
                    Piece::Number { offset, width, base } => {
                        let value = number.checked_add(offset).and_then(|value| u32::try_from(value).ok());
                        let value = value
                            .ok_or_else(|| format!("bad offset {offset} in $GENERATE: {number} gets no number"))?;
                        text.extend_from_slice(written(value, width, base).as_bytes());
                    }
                }
            }
            ends.push(text.len());
        }
        let text: &'b [u8] = text;
        let mut start = 0;
        let tokens = self.words.iter().zip(ends).map(|((token, _), end)| {
            let word = Token {
                text: &text[start..end],
                quoted: token.quoted,
                glued: token.glued,
            };
            start = end;
            word
        });
        Ok(tokens.collect())
    }
}

/// A word in pieces: `$`, `${OFFSET[,WIDTH[,BASE]]}`, and text; `\$` and `$$` are a dollar sign.
fn pieces(word: &[u8]) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = word;
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            // The escape goes on to whoever reads the word.
            b'\\' => at = (at + 2).min(rest.len()),
            b'$' => {
                pieces.push(Piece::Text(&rest[..at]));
                let behind = &rest[at + 1..];
                (rest, at) = match behind.first() {
                    Some(b'$') => (behind, 1),
                    Some(b'{') => {
                        let end = behind.iter().position(|&byte| byte == b'}');
                        let end = end.ok_or("a modifier in $GENERATE that is not closed: `${` without `}`")?;
                        pieces.push(modifier(&behind[1..end])?);
                        (&behind[end + 1..], 0)
                    }
                    _ => {
                        pieces.push(PLAIN);
                        (behind, 0)
                    }
                };
            }
            _ => at += 1,
        }
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Reads `OFFSET[,WIDTH[,BASE]]`.
fn modifier(text: &[u8]) -> Result<Piece<'_>, String> {
    let bad = |what: &str| format!("bad {what} in $GENERATE: \"${{{}}}\"", text.escape_ascii());
    let shown = std::str::from_utf8(text).map_err(|_| bad("modifier"))?;
    let mut parts = shown.split(',');
    let offset = parts.next().unwrap_or_default();
    let (sign, magnitude) = match offset.strip_prefix('-') {
        Some(magnitude) => (-1, magnitude),
        None => (1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let offset = sign * digits(magnitude).ok_or_else(|| bad("offset"))?;
    let width: u8 = parts.next().unwrap_or("0").parse().map_err(|_| bad("width"))?;
    let base = match parts.next().unwrap_or("d") {
        "d" => Base::Decimal,
        "o" => Base::Octal,
        "x" => Base::Hex,
        "X" => Base::HexUpper,
        _ => return Err(format!("{}; expected d, o, x or X", bad("base"))),
    };
    if parts.next().is_some() {
        return Err(bad("modifier"));
    }
    Ok(Piece::Number {
        offset,
        width: width.into(),
        base,
    })
}

fn written(value: u32, width: usize, base: Base) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = match base {
        Base::Decimal => write!(text, "{value:0width$}"),
        Base::Octal => write!(text, "{value:0width$o}"),
        Base::Hex => write!(text, "{value:0width$x}"),
        Base::HexUpper => write!(text, "{value:0width$X}"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(word: &str, number: i64) -> Result<String, String> {
        let token = Token {
            text: word.as_bytes(),
            quoted: false,
            glued: false,
        };
        let line = Line::parse(&[token])?;
        let mut text = Vec::new();
        let words = line.fill(number, &mut text)?;
        Ok(String::from_utf8(words[0].text.to_vec()).unwrap())
    }

    #[test]
    fn numbers_stand_where_dollars_stood() {
        let check =
            |word: &str, number, expected: &str| assert_eq!(filled(word, number).as_deref(), Ok(expected), "{word}");
        check("node$", 7, "node7");
        check("$", 0, "0");
        check("a$b$c", 12, "a12b12c");
        check("${0,3,d}", 7, "007");
        check("${0,3}", 7, "007");
        check("${-5}", 12, "7");
        check("${+5,1,d}", 12, "17");
        check("${0,2,x}.${0,2,X}", 171, "ab.AB");
        check("${0,4,o}", 8, "0010");
        check(r"\$", 3, r"\$");
        check(r"\\$", 3, r"\\3");
        check("$$", 3, "$");
        check("$$$", 3, "$3");
        check("a", 3, "a");
    }

    #[test]
    fn wrong_modifiers_say_what_is_wrong() {
        let check = |word: &str, expected: &str| {
            let error = filled(word, 1).unwrap_err();
            assert!(error.contains(expected), "{word}: {error}");
        };
        check("${0", "not closed");
        check("${}", "bad offset");
        check("${-}", "bad offset");
        check("${--1}", "bad offset");
        check("${0,x}", "bad width");
        check("${0,256}", "bad width");
        check("${0,1,q}", "bad base");
        check("${0,1,d,1}", "bad modifier");
        check("${-2}", "bad offset -2");
        check("${99999999999999999999}", "bad offset");
    }

    #[test]
    fn ranges_are_bounded() {
        let check = |text: &str, expected: &[i64]| {
            assert_eq!(
                Range::parse(text.as_bytes())
                    .map(Iterator::collect::<Vec<_>>)
                    .as_deref(),
                Ok(expected),
                "{text}"
            );
        };
        check("1-3", &[1, 2, 3]);
        check("10-14/2", &[10, 12, 14]);
        check("0-9/4", &[0, 4, 8]);
        check("5-5", &[5]);
        let len = |text: &str| Range::parse(text.as_bytes()).map(Iterator::count).ok();
        assert_eq!(len("0-65535"), Some(65_536));
        assert_eq!(len("0-65536"), None);
        assert_eq!(len("0-4294967295/65536"), Some(65_536));
        for wrong in [
            "",
            "1",
            "1-",
            "-3",
            "3-1",
            "1-3/0",
            "1-3/x",
            "a-b",
            "1-3-5",
            "1-4294967296",
            "+1-3",
        ] {
            assert!(Range::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
