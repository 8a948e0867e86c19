//! Bytes to entries: an entry is a line, or several where brackets or quotes span them.

/// A word, or what stands between quotes; escapes are still in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) text: &'t [u8],
    pub(super) quoted: bool,
    /// Nothing stands between it and the token before it: `key="value"`.
    pub(super) glued: bool,
}

/// One entry that has at least one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    /// Where it begins, from 1.
    pub(super) line: usize,
    /// It begins with a blank: the owner is left out.
    pub(super) indented: bool,
    pub(super) tokens: Vec<Token<'t>>,
}

/// A line and what is wrong there.
pub(super) type Bad = (usize, String);

pub(super) struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(text);
        Self { text, at: 0, line: 1 }
    }

    /// The next entry; after an error, of those that stand behind the place.
    pub(super) fn next(&mut self) -> Result<Option<Entry<'t>>, Bad> {
        while self.at < self.text.len() {
            let entry = self.entry()?;
            if !entry.tokens.is_empty() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn entry(&mut self) -> Result<Entry<'t>, Bad> {
        let mut entry = Entry {
            line: self.line,
            indented: matches!(self.peek(), Some(b' ' | b'\t')),
            tokens: Vec::new(),
        };
        let mut depth = 0;
        let mut opened = self.line;
        let mut glued = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    if depth == 0 {
                        return Ok(entry);
                    }
                    glued = false;
                }
                b' ' | b'\t' | b'\r' => {
                    self.at += 1;
                    glued = false;
                }
                b';' => self.pass_line(),
                b'(' => {
                    self.at += 1;
                    depth += 1;
                    opened = self.line;
                    glued = false;
                }
                b')' => {
                    self.at += 1;
                    if depth == 0 {
                        self.pass_line();
                        return Err((self.line, "a closing bracket without an opening one".to_owned()));
                    }
                    depth -= 1;
                    glued = false;
                }
                b'"' => {
                    let text = self.quoted()?;
                    entry.tokens.push(Token {
                        text,
                        quoted: true,
                        glued,
                    });
                    glued = true;
                }
                _ => {
                    let text = self.word();
                    entry.tokens.push(Token {
                        text,
                        quoted: false,
                        glued,
                    });
                    glued = true;
                }
            }
        }
        if depth > 0 {
            return Err((opened, "a bracket that is not closed".to_owned()));
        }
        Ok(entry)
    }

    /// Passes by the rest of the line.
    fn pass_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    fn word(&mut self) -> &'t [u8] {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' => break,
                b'\\' => self.escape(),
                _ => self.at += 1,
            }
        }
        &self.text[start..self.at]
    }

    fn quoted(&mut self) -> Result<&'t [u8], Bad> {
        let line = self.line;
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.text[start..self.at - 1]);
                }
                b'\\' => self.escape(),
                byte => {
                    self.line += usize::from(byte == b'\n');
                    self.at += 1;
                }
            }
        }
        Err((line, "a quote that is not closed".to_owned()))
    }

    /// A backslash and what it takes its meaning from.
    fn escape(&mut self) {
        self.line += usize::from(self.text.get(self.at + 1) == Some(&b'\n'));
        self.at = (self.at + 2).min(self.text.len());
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<Vec<String>>, Bad> {
        let mut scanner = Scanner::new(text.as_bytes());
        let mut entries = Vec::new();
        while let Some(entry) = scanner.next()? {
            let mut written = vec![format!("{}{}", entry.line, if entry.indented { "-" } else { "" })];
            written.extend(entry.tokens.iter().map(|token| {
                let text = String::from_utf8_lossy(token.text);
                let glue = if token.glued { "+" } else { "" };
                if token.quoted {
                    format!("{glue}<{text}>")
                } else {
                    format!("{glue}{text}")
                }
            }));
            entries.push(written);
        }
        Ok(entries)
    }

    fn check(text: &str, expected: &[&[&str]]) {
        let expected: Vec<Vec<String>> = expected
            .iter()
            .map(|entry| entry.iter().map(|&word| word.to_owned()).collect())
            .collect();
        assert_eq!(words(text), Ok(expected), "{text:?}");
    }

    #[test]
    fn entries_words_and_comments() {
        check("", &[]);
        check("\n \n\t; nothing\n", &[]);
        check("a b\tc;d\n  e\r\n", &[&["1", "a", "b", "c"], &["2-", "e"]]);
        check("a", &[&["1", "a"]]);
        check("\u{FEFF}a", &[&["1", "a"]]);
    }

    #[test]
    fn brackets_span_lines() {
        check("a ( b ; one (\n c\n) d\ne", &[&["1", "a", "b", "c", "d"], &["4", "e"]]);
        check("a ((b)\n)c", &[&["1", "a", "b", "c"]]);
        assert_eq!(words("a )").unwrap_err().0, 1);
        assert_eq!(words("a\nb (\nc").unwrap_err().0, 2);
    }

    #[test]
    fn quotes_keep_blanks_and_lines() {
        check(r#"a "b c;(" d"#, &[&["1", "a", "<b c;(>", "d"]]);
        check("a \"b\nc\"\nd", &[&["1", "a", "<b\nc>"], &["3", "d"]]);
        check(r#"k="v" w"x"y"#, &[&["1", "k=", "+<v>", "w", "+<x>", "+y"]]);
        assert_eq!(words("a\n\"b\nc").unwrap_err().0, 2);
    }

    #[test]
    fn escapes_take_the_meaning_away() {
        check(
            r#"a\ b\;c \"d "e\"f\\" g"#,
            &[&["1", r"a\ b\;c", r#"\"d"#, r#"<e\"f\\>"#, "g"]],
        );
        check("a\\", &[&["1", "a\\"]]);
        check("a\\\nb\nc", &[&["1", "a\\\nb"], &["3", "c"]]);
    }
}
