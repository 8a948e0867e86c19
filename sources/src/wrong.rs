//! Lines of a text that make no sense, as its reader notes them: the first ones in full, the others by their number.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::clip::clip_line;

/// Wrong lines of one text, and of those that it includes, that are kept.
pub const WRONG_LINES_MAX: usize = 20;

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongLine {
    /// The file that it is in.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub text: String,
    /// The line itself, cut if it is long.
    pub drawn: Box<str>,
}

/// All of them, in the order of reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrongLines {
    /// The first [`WRONG_LINES_MAX`].
    pub first: Vec<WrongLine>,
    /// How many more there are.
    pub left_out: usize,
}

impl WrongLines {
    /// Notes one; `contents` is the text of `file`.
    pub(crate) fn note(&mut self, file: &Path, contents: &[u8], line: usize, text: String) {
        if self.first.len() == WRONG_LINES_MAX {
            self.left_out += 1;
            return;
        }
        self.first.push(WrongLine {
            file: file.to_owned(),
            line,
            text,
            drawn: clip_line(contents, line).into(),
        });
    }

    /// The line below the first ones, where there are more.
    pub fn more(&self) -> Option<String> {
        match self.left_out {
            0 => None,
            1 => Some("and 1 more line of this file is wrong".to_owned()),
            more => Some(format!("and {more} more lines of this file are wrong")),
        }
    }

    /// `found`, where no line is wrong.
    pub(crate) fn or<T>(self, found: T) -> Result<T, Self> {
        if self.first.is_empty() { Ok(found) } else { Err(self) }
    }
}

/// The first one's text, and how many others there are; for a line of a log.
impl fmt::Display for WrongLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.first.split_first() else {
            return Ok(());
        };
        f.write_str(&first.text)?;
        match others.len() + self.left_out {
            0 => Ok(()),
            1 => f.write_str(", and 1 more line is wrong"),
            more => write!(f, ", and {more} more lines are wrong"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_the_others_counted() {
        let note = |count: usize| {
            let mut wrong = WrongLines::default();
            for line in 1..=count {
                wrong.note(Path::new("z"), b"one\ntwo\n", line, format!("bad {line}"));
            }
            wrong
        };
        assert_eq!(note(0).or(7), Ok(7));
        assert_eq!(note(1).to_string(), "bad 1");
        assert_eq!(note(2).to_string(), "bad 1, and 1 more line is wrong");
        assert_eq!(&*note(2).first[1].drawn, "two");
        let full = note(WRONG_LINES_MAX + 5);
        assert_eq!((full.first.len(), full.left_out), (WRONG_LINES_MAX, 5));
        assert_eq!(full.to_string(), "bad 1, and 24 more lines are wrong");
        assert_eq!(full.clone().or(7), Err(full));
    }
}
