//! Text to words: quotes, comments, line starts.

use std::rc::Rc;

use super::source::Span;

/// A word, and where it stands.
///
/// Nothing tells whether it was quoted: `"{"` is a brace and `"import"` an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Without quotes and escapes; variables are not filled in yet.
    pub text: Rc<str>,
    /// With the quotes.
    pub span: Span,
    /// The first word of its line. Line ends inside a quoted word before it do not count.
    pub first: bool,
}

/// Splits a text; no text is a wrong one.
pub(super) fn words(file: u32, text: &str) -> Vec<Word> {
    let mut lexer = Lexer {
        text,
        at: 0,
        first: true,
    };
    let mut words = Vec::new();
    while let Some((text, start, end, first)) = lexer.next_word() {
        let place = |at: usize| u32::try_from(at).expect("a file is bounded far below 4 GiB");
        words.push(Word {
            text: text.into(),
            span: Span {
                file,
                start: place(start),
                end: place(end),
            },
            first,
        });
    }
    words
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// No word since the last line end.
    first: bool,
}

impl Lexer<'_> {
    fn next_word(&mut self) -> Option<(String, usize, usize, bool)> {
        self.skip_space();
        let start = self.at;
        let quoted = self.peek()? == '"';
        let text = if quoted { self.quoted_word() } else { self.plain_word() };
        // A quote that opens at the very end holds nothing.
        if quoted && text.is_empty() && self.at == start + 1 {
            return None;
        }
        Some((text, start, self.at, std::mem::take(&mut self.first)))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        while let Some(next) = self.peek() {
            match next {
                '#' => self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at),
                '\n' => {
                    self.first = true;
                    self.at += 1;
                }
                space if space.is_whitespace() => self.at += space.len_utf8(),
                _ => return,
            }
        }
    }

    fn plain_word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self.peek() {
            match next {
                '#' => break,
                // Dropped everywhere, also inside a word.
                '\r' => {}
                space if space.is_whitespace() => break,
                other => word.push(other),
            }
            self.at += next.len_utf8();
        }
        // The span must not hold carriage returns behind the word.
        self.at = self.text[..self.at].trim_end_matches('\r').len();
        word
    }

    fn quoted_word(&mut self) -> String {
        let mut word = String::new();
        self.at += 1;
        while let Some(next) = self.peek() {
            self.at += next.len_utf8();
            match next {
                '"' => break,
                '\\' if self.peek() == Some('"') => {
                    self.at += 1;
                    word.push('"');
                }
                // A pair of backslashes stays a pair, and the second one escapes nothing.
                '\\' if self.peek() == Some('\\') => {
                    self.at += 1;
                    word.push_str("\\\\");
                }
                other => word.push(other),
            }
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words separated by blanks, with `|` in front of each that starts a line.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let words = words(0, text);
        let shown: Vec<String> = words
            .iter()
            .map(|word| format!("{}{}", if word.first { "|" } else { "" }, word.text))
            .collect();
        assert_eq!(shown, expected, "{text:?}");
    }

    #[test]
    fn white_space_separates_and_line_ends_start_lines() {
        check("", &[]);
        check(" \n\t ", &[]);
        check("a b\tc\n d", &["|a", "b", "c", "|d"]);
        check("\n\na", &["|a"]);
        check("a\u{a0}b\u{2003}c", &["|a", "b", "c"]);
        check("log{", &["|log{"]);
        check(". { }", &["|.", "{", "}"]);
    }

    #[test]
    fn carriage_returns_vanish_outside_quotes() {
        check("a b\r\nc\r\n", &["|a", "b", "|c"]);
        check("a\rb", &["|ab"]);
        check("\"a\r\n\"b", &["|a\r\n", "b"]);
        let words = words(0, "ab\r\n");
        assert_eq!((words[0].span.start, words[0].span.end), (0, 2));
    }

    #[test]
    fn comments_start_anywhere_outside_quotes() {
        check("# all", &[]);
        check("a # b\nc", &["|a", "|c"]);
        check("a#b c\nd", &["|a", "|d"]);
        check("a #b\"\nc\"", &["|a", "|c\""]);
        check("\"a#b\" c", &["|a#b", "c"]);
        check("#\n#\na", &["|a"]);
    }

    #[test]
    fn quotes() {
        check(r#""a b" c"#, &["|a b", "c"]);
        check(r#"a"b c"#, &["|a\"b", "c"]);
        check(r#""a"b"#, &["|a", "b"]);
        check(r#""a""b""#, &["|a", "b"]);
        check(r#""""#, &["|"]);
        check(r#"a "" b"#, &["|a", "", "b"]);
        check(r#""a\"b""#, &["|a\"b"]);
        check(r#""a\.b\\c""#, &["|a\\.b\\\\c"]);
        check(r#""a\\" b"#, &["|a\\\\", "b"]);
        check(r#""{" "}" "import""#, &["|{", "}", "import"]);
    }

    #[test]
    fn an_open_quote_ends_with_the_file() {
        check("a \"b c\nd", &["|a", "b c\nd"]);
        check("a \"b\\", &["|a", "b\\"]);
        check("a \"", &["|a"]);
        check("\"", &[]);
    }

    #[test]
    fn line_ends_in_quotes_start_no_line() {
        check("a \"b\nc\" d\ne", &["|a", "b\nc", "d", "|e"]);
        check("\"a\n\n\"\nb", &["|a\n\n", "|b"]);
    }

    #[test]
    fn spans_hold_the_quotes() {
        let text = "x \"a b\" ü y";
        let shown: Vec<&str> = words(0, text)
            .iter()
            .map(|word| &text[word.span.start as usize..word.span.end as usize])
            .collect();
        assert_eq!(shown, ["x", "\"a b\"", "ü", "y"]);
    }

    proptest! {
        #[test]
        fn every_text_splits(text in any::<String>()) {
            let mut end = 0;
            for word in words(0, &text) {
                prop_assert!(word.span.start >= end && word.span.end > word.span.start);
                prop_assert!(text.get(word.span.start as usize..word.span.end as usize).is_some());
                end = word.span.end;
            }
        }

        #[test]
        fn plain_words_come_back(words_in in proptest::collection::vec("[a-z0-9./:{}%$,*?-]{1,9}", 0..20)) {
            let text = words_in.join(" ");
            let words: Vec<String> = words(0, &text).iter().map(|word| word.text.to_string()).collect();
            prop_assert_eq!(words, words_in);
        }
    }
}
