//! What the functions of directives share: where they stand, and the checks that most of them make.

use std::path::{Path, PathBuf};

use nodens_wire::NameBuf;

use crate::corefile::diagnostic::{Diagnostic, Findings, nearest};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::source::{Span, World};
use crate::corefile::zone;

/// The block that a directive stands in.
pub(super) struct Scope<'b> {
    /// The zones of its keys.
    pub zones: &'b [NameBuf],
    /// Where relative file names start.
    pub root: Option<&'b Path>,
    /// Where files are read.
    pub world: &'b dyn World,
    /// Where errors go.
    pub findings: &'b mut Findings,
}

impl Scope<'_> {
    /// Notes an error.
    pub(super) fn error(&mut self, span: Span, text: impl Into<String>) {
        self.findings.error(Diagnostic::error(span, text));
    }

    /// A file name, below `root` if it is relative.
    pub(super) fn path(&self, word: &Word) -> PathBuf {
        self.path_of(&word.text)
    }

    /// The same for a part of a word.
    pub(super) fn path_of(&self, text: &str) -> PathBuf {
        let path = Path::new(text);
        self.root.map_or_else(|| path.to_owned(), |root| root.join(path))
    }

    /// The number of arguments is wrong; `expected` says which would be right.
    pub(super) fn argument_count(&mut self, line: &Line, expected: &str) {
        let last = line.args.last().unwrap_or(&line.name);
        let text = format!("Wrong argument count or unexpected line ending after '{}'", last.text);
        self.findings
            .error(Diagnostic::error(last.span, text).label(format!("expected {expected}")));
    }

    /// Reports arguments where there may be none.
    pub(super) fn no_args(&mut self, line: &Line) {
        if !line.args.is_empty() {
            self.argument_count(line, "no argument");
        }
    }

    /// The one argument of a line.
    pub(super) fn one_arg<'l>(&mut self, line: &'l Line) -> Option<&'l Word> {
        match line.args.as_slice() {
            [word] => return Some(word),
            [] => self.argument_count(line, "one argument"),
            _ => self.argument_count(line, "one argument only"),
        }
        None
    }

    /// Reports braces where there may be none.
    pub(super) fn no_block(&mut self, line: &Line) {
        if line.block.is_some() {
            let text = format!("Unexpected token '{{' behind '{}'", line.name.text);
            let error = Diagnostic::syntax(line.name.span, text);
            self.findings.error(error.label("takes no block"));
        }
    }

    /// The options of a directive; one with braces of its own is reported.
    pub(super) fn options<'l>(&mut self, line: &'l Line) -> impl Iterator<Item = &'l Line> + use<'l> {
        for option in line.options() {
            self.no_block(option);
        }
        line.options().iter()
    }

    /// Reports an option that a directive does not have.
    pub(super) fn unknown_option(&mut self, option: &Line, known: &[&str]) {
        let text = format!("unknown property '{}'", option.name.text);
        self.unknown(option.name.span, text, &option.name.text, known);
    }

    /// Reports a word that is none of the known ones.
    pub(super) fn unknown(&mut self, span: Span, text: String, word: &str, known: &[&str]) {
        let error = Diagnostic::error(span, text);
        self.findings.error(match nearest(word, known.iter().copied()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.label(format!("expected {}", one_of(known))),
        });
    }

    /// The zones that a directive names, else those of its block. What is no zone is left out, with a warning.
    pub(super) fn zones(&mut self, words: &[Word]) -> Vec<NameBuf> {
        if words.is_empty() {
            self.zones.to_vec()
        } else {
            self.named_zones(words)
        }
    }

    /// The zones of a `fallthrough` line: all names if it has none.
    pub(super) fn fallthrough(&mut self, line: &Line) -> Vec<NameBuf> {
        if line.args.is_empty() {
            vec![NameBuf::root()]
        } else {
            self.named_zones(&line.args)
        }
    }

    /// The zones that words name; what is no zone is left out, with a warning.
    pub(super) fn named_zones(&mut self, words: &[Word]) -> Vec<NameBuf> {
        let mut zones = Vec::new();
        for word in words {
            match zone::of_directive(&word.text) {
                Ok(more) => zones.extend(more),
                Err(error) => self
                    .findings
                    .warn(Diagnostic::warning(word.span, format!("{error} (left out)"))),
            }
        }
        zones
    }
}

/// Words as a person lists them: `a`, `b` or `c`.
pub(super) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => quoted.concat(),
    }
}
