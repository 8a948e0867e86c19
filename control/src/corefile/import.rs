//! The stream of words that the parser reads: imports and snippets are put in place as it goes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::diagnostic::{Diagnostic, Findings, masked, nearest};
use super::environment::fill_in;
use super::glob::{self, Pattern};
use super::lexer::{self, Word};
use super::parser::{CLOSE_IT, NESTING_MAX};
use super::source::{self, Source, Sources, Span, World};

/// Snippets put in for an `import`, at most; a snippet that imports itself ends here.
pub(super) const SNIPPET_IMPORTS_MAX: usize = 10_000;
/// How often a text is put into itself. Nothing ends it then but the limit of imports, far later: braces end at their own
/// limit before.
const WITHIN_ITSELF_MAX: usize = 2 * NESTING_MAX;
/// Files put in for an `import`, at most.
pub(super) const FILE_IMPORTS_MAX: usize = 100_000;
/// Words of a configuration with everything put in, at most: three hundred thousand inline hosts.
pub(super) const WORDS_MAX: usize = 1_000_000;
/// Bytes of all imported texts together, at most.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 20;

/// The parse cannot go on; why is among the stream's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop;

/// Words in reading order.
pub(super) struct Stream<'w> {
    sources: &'w mut Sources,
    world: &'w dyn World,
    /// What is being read, the innermost import last. Finished ones are taken off before a new one is put on, so that
    /// a chain of imports at the end of each other does not grow it.
    frames: Vec<Frame>,
    last: Option<Word>,
    snippets: HashMap<String, Snippet>,
    files: HashMap<PathBuf, Rc<[Word]>>,
    imports: Vec<Import>,
    snippet_imports: usize,
    file_imports: usize,
    words: usize,
    text_bytes: usize,
    /// What is wrong and what is odd so far.
    pub findings: Findings,
}

struct Frame {
    words: Rc<[Word]>,
    at: usize,
    /// The import that put it in, by its place in `imports`.
    import: Option<usize>,
}

/// An import that is read or was.
struct Import {
    words: Rc<[Word]>,
    /// How many snippets were known then.
    snippets: usize,
    /// The import that it stands in.
    inside: Option<usize>,
}

struct Snippet {
    words: Rc<[Word]>,
    span: Span,
}

impl<'w> Stream<'w> {
    /// The words of the text with number `file`.
    pub(super) fn new(file: u32, sources: &'w mut Sources, world: &'w dyn World) -> Self {
        let text = sources.text(file);
        let words: Rc<[Word]> = lexer::words(file, &text).into();
        Self {
            sources,
            world,
            frames: vec![Frame {
                words,
                at: 0,
                import: None,
            }],
            last: None,
            snippets: HashMap::new(),
            files: HashMap::new(),
            imports: Vec::new(),
            snippet_imports: 0,
            file_imports: 0,
            words: 0,
            text_bytes: text.len(),
            findings: Findings::default(),
        }
    }

    /// The word that `next` will return.
    pub(super) fn peek(&mut self) -> Result<Option<Word>, Stop> {
        self.drop_finished();
        let Some(frame) = self.frames.last() else {
            return Ok(None);
        };
        let mut word = frame.words[frame.at].clone();
        // What stands in place of an import starts a line as the import did.
        word.first |= frame.at == 0;
        if self.words >= WORDS_MAX {
            let error = Diagnostic::error(word.span, format!("more than {WORDS_MAX} words"));
            return Err(self.stop(error.help("keep long lists in zone files or hosts files")));
        }
        Ok(Some(word))
    }

    /// Takes a word.
    pub(super) fn next(&mut self) -> Result<Option<Word>, Stop> {
        let Some(word) = self.peek()? else { return Ok(None) };
        if let Some(frame) = self.frames.last_mut() {
            frame.at += 1;
        }
        self.words += 1;
        self.last = Some(word.clone());
        Ok(Some(word))
    }

    /// The word that was taken last.
    pub(super) fn last(&self) -> Option<&Word> {
        self.last.as_ref()
    }

    /// Notes the error that ends the parse.
    pub(super) fn stop(&mut self, error: Diagnostic) -> Stop {
        self.findings.error(error);
        Stop
    }

    /// The file ended inside the braces that `open` opened.
    pub(super) fn unclosed(&mut self, open: Span) -> Stop {
        let span = self.last.as_ref().map_or(open, |last| last.span);
        // A password may be the last word.
        let source = self.sources.source(span);
        let text = &masked(&source.text)[span.start as usize..span.end as usize];
        let error = Diagnostic::syntax(span, format!("Unexpected token '{text}', expecting '}}'"))
            .label("the file ends behind this word")
            .help(CLOSE_IT);
        let error = if span == open {
            error
        } else {
            error.related(open, "this brace is not closed")
        };
        self.stop(error)
    }

    /// Makes a snippet known.
    pub(super) fn define(&mut self, name: &str, span: Span, words: Vec<Word>) {
        if let Some(first) = self.snippets.get(name) {
            let text = format!("redeclaration of previously declared snippet {name}");
            let error = Diagnostic::error(span, text).related(first.span, "declared here");
            self.findings.error(error.help("give one of them another name"));
            return;
        }
        self.snippets.insert(
            name.to_owned(),
            Snippet {
                words: words.into(),
                span,
            },
        );
    }

    /// Takes an `import` line and puts what it names in its place. A line that names nothing is reported and left out.
    pub(super) fn import(&mut self) -> Result<(), Stop> {
        let import = self.next()?.expect("the caller saw the word import");
        let inside = self.frames.last().and_then(|frame| frame.import);
        let argument = self.peek()?.filter(|word| !word.first && !is_brace(word));
        let Some(argument) = argument else {
            let text = "Wrong argument count or unexpected line ending after 'import'";
            let error = Diagnostic::error(import.span, text).label("expected a snippet, a file or a pattern");
            self.findings.error(error.help("the form is `import NAME`"));
            return Ok(());
        };
        self.next()?;
        let extra = self.peek()?.filter(|word| !word.first && &*word.text != "}");
        if let Some(extra) = extra {
            let error = Diagnostic::error(extra.span, "Import takes only one argument (glob pattern or file)")
                .help("snippets take no arguments, and `import` has no block");
            if is_brace(&extra) {
                return Err(self.stop(error));
            }
            self.findings.error(error);
            while self.peek()?.is_some_and(|word| !word.first && !is_brace(&word)) {
                self.next()?;
            }
            return Ok(());
        }
        let name = fill_in(&argument.text, &|name| self.world.variable(name));
        if name.is_empty() {
            let error = Diagnostic::error(argument.span, "Import requires a non-empty filepath");
            self.findings
                .error(error.help("is the variable set? `{$NAME}` is empty without one"));
            return Ok(());
        }
        match self.snippets.get(&name) {
            Some(snippet) => {
                let words = Rc::clone(&snippet.words);
                self.snippet_imports += 1;
                if self.snippet_imports > SNIPPET_IMPORTS_MAX || self.is_endless(&words, inside) {
                    let text = format!("maximum snippet import depth ({SNIPPET_IMPORTS_MAX}) exceeded");
                    return Err(
                        self.stop(Diagnostic::error(argument.span, text).help("does the snippet import itself?"))
                    );
                }
                self.push(words, inside);
                Ok(())
            }
            None => self.import_files(&name, argument.span, inside),
        }
    }

    fn import_files(&mut self, name: &str, span: Span, inside: Option<usize>) -> Result<(), Stop> {
        let folder = self.sources.source(span).folder.clone();
        let pattern = match Pattern::parse(name) {
            Ok(pattern) => pattern,
            Err(glob::TooWild) => {
                let shown = source::absolute(&folder, Path::new(name));
                let text = "Glob pattern may only contain one wildcard (*), but has others";
                let error = Diagnostic::error(span, format!("{text}: {}", shown.display()));
                self.findings.error(error.help("write several `import` lines"));
                return Ok(());
            }
        };
        let paths = match pattern {
            Pattern::Plain => vec![folder.join(name)],
            Pattern::Wild => glob::find(self.world, &folder, name),
        };
        match pattern {
            Pattern::Plain if !self.world.exists(&paths[0]) => {
                let mut error = Diagnostic::error(span, format!("File to import not found: {name}"));
                let snippets = self.snippets.keys().map(String::as_str);
                error = match nearest(name, snippets) {
                    Some(near) => error.help(format!("did you mean the snippet `{near}`?")),
                    None => error
                        .label(format!("looked for {}", source::absolute(&folder, &paths[0]).display()))
                        .help("files are looked for beside the file that imports them; a snippet stands before its first use"),
                };
                self.findings.error(error);
                return Ok(());
            }
            Pattern::Wild if paths.is_empty() => {
                let text = format!("No files matching import glob pattern: {name}");
                self.findings.warn(Diagnostic::warning(span, text));
            }
            _ => {}
        }
        let mut words: Vec<Rc<[Word]>> = Vec::new();
        for path in paths {
            self.file_imports += 1;
            let of_file = self.file(&path);
            let is_endless = of_file.as_ref().is_ok_and(|words| self.is_endless(words, inside));
            if self.file_imports > FILE_IMPORTS_MAX || is_endless {
                let text = format!("maximum file import depth ({FILE_IMPORTS_MAX}) exceeded");
                return Err(self.stop(Diagnostic::error(span, text).help("does the file import itself?")));
            }
            match of_file {
                Ok(of_file) => words.push(of_file),
                Err(why) => {
                    let text = format!("Could not import {}: {why}", source::absolute(&folder, &path).display());
                    let error = Diagnostic::error(span, text);
                    self.findings
                        .error(error.help("name a file that can be read, or `FOLDER/*` for all in a folder"));
                }
            }
        }
        // The first file is read first, so it is put on last.
        for words in words.into_iter().rev() {
            self.push(words, inside);
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<Rc<[Word]>, String> {
        if let Some(words) = self.files.get(path) {
            return Ok(Rc::clone(words));
        }
        let text = source::read_text(self.world, path)?;
        self.text_bytes = self.text_bytes.saturating_add(text.len());
        if self.text_bytes > TEXT_BYTES_MAX {
            return Err(format!(
                "all files together are larger than {} MiB",
                TEXT_BYTES_MAX >> 20
            ));
        }
        let file = self.sources.add(Source {
            name: source::absolute(path, Path::new("")).display().to_string(),
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            text: text.as_str().into(),
        });
        let words: Rc<[Word]> = lexer::words(file, &text).into();
        self.files.insert(path.to_owned(), Rc::clone(&words));
        Ok(words)
    }

    fn push(&mut self, words: Rc<[Word]>, inside: Option<usize>) {
        self.drop_finished();
        self.imports.push(Import {
            words: Rc::clone(&words),
            snippets: self.snippets.len(),
            inside,
        });
        self.frames.push(Frame {
            words,
            at: 0,
            import: Some(self.imports.len() - 1),
        });
    }

    /// Whether these words stand in themselves so often that they do for ever. A new snippet may make an end of it.
    fn is_endless(&self, words: &Rc<[Word]>, inside: Option<usize>) -> bool {
        let outer = |import: &&Import| self.imports.get(import.inside?);
        let all = std::iter::successors(inside.and_then(|at| self.imports.get(at)), outer);
        all.take_while(|import| import.snippets == self.snippets.len())
            .filter(|import| Rc::ptr_eq(&import.words, words))
            .nth(WITHIN_ITSELF_MAX - 1)
            .is_some()
    }

    fn drop_finished(&mut self) {
        while self.frames.last().is_some_and(|frame| frame.at >= frame.words.len()) {
            self.frames.pop();
        }
    }
}

fn is_brace(word: &Word) -> bool {
    matches!(&*word.text, "{" | "}")
}
