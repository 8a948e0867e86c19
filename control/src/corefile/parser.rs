//! Words to blocks, directives and options. Knows no directive by name.
//!
//! ```text
//!   file   := { import | snippet | block }
//!   block  := key... [ "{" { line } "}" ]
//!   line   := NAME arg... [ "{" { line } "}" ]
//! ```

use std::rc::Rc;

use super::diagnostic::{Diagnostic, Findings};
use super::environment::fill_in;
use super::import::{Stop, Stream};
use super::lexer::Word;
use super::source::{Sources, Span, World};

/// Braces inside braces, at most. No directive needs more than two.
pub(super) const NESTING_MAX: usize = 32;

const TAKE_THE_COMMA_OUT: &str = "take the comma out, or name another zone behind it";
pub(super) const CLOSE_IT: &str = "put a `}` on a line of its own where the block ends";

/// A server block before anybody looked at what its words mean.
#[derive(Debug)]
pub struct ParsedBlock {
    /// Never empty.
    pub keys: Vec<Word>,
    /// In file order; a line that could not be read to its end is not among them.
    pub directives: Vec<Line>,
}

/// A name with its arguments, and the lines in braces behind them.
#[derive(Clone, Debug)]
pub struct Line {
    /// The first word.
    pub name: Word,
    /// The other words up to the line's end or the brace.
    pub args: Vec<Word>,
    /// The lines in braces; none when there are no braces.
    pub block: Option<Vec<Self>>,
}

impl Line {
    /// From the name to the last argument.
    pub fn span(&self) -> Span {
        self.args
            .last()
            .map_or(self.name.span, |last| self.name.span.to(last.span))
    }

    /// The lines in braces.
    pub fn options(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// What a text holds, and all that is wrong with its form.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// In file order.
    pub blocks: Vec<ParsedBlock>,
    /// Errors of form, and what is odd. An error of braces ends the parse, since nothing behind it can be trusted.
    pub findings: Findings,
}

/// Parses the text with number `file`; the texts that it imports are added to `sources`.
pub(super) fn parse(file: u32, sources: &mut Sources, world: &dyn World) -> Parsed {
    let mut parser = Parser {
        stream: Stream::new(file, sources, world),
        world,
        blocks: Vec::new(),
    };
    // The error is among the stream's findings already.
    let _: Result<(), Stop> = parser.file();
    let Parser { stream, blocks, .. } = parser;
    Parsed {
        blocks,
        findings: stream.findings,
    }
}

struct Parser<'w> {
    stream: Stream<'w>,
    world: &'w dyn World,
    blocks: Vec<ParsedBlock>,
}

/// How the lines of a server block end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With the `}` that belongs to the `{` at this place.
    Brace(Span),
    /// With the file.
    File,
}

impl Parser<'_> {
    fn file(&mut self) -> Result<(), Stop> {
        while self.stream.peek()?.is_some() {
            self.block()?;
        }
        Ok(())
    }

    fn block(&mut self) -> Result<(), Stop> {
        let (keys, ended) = self.keys()?;
        if !ended && let [key] = keys.as_slice() {
            let name = key.text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
            if let Some(name) = name {
                return self.snippet(name, key.span);
            }
        }
        let mut directives = Vec::new();
        let result = if ended {
            Ok(())
        } else {
            self.directives(&mut directives)
        };
        if !keys.is_empty() {
            self.blocks.push(ParsedBlock { keys, directives });
        } else if let Some(first) = directives.first() {
            let warning = Diagnostic::warning(first.name.span, "this block has no zone and is not served");
            self.stream
                .findings
                .warn(warning.help("write the zones in front of the block's `{`, `.` for all names"));
        }
        result
    }

    /// Reads the keys of a block up to its brace or the end of its line; says whether the file ended there.
    fn keys(&mut self) -> Result<(Vec<Word>, bool), Stop> {
        let mut keys: Vec<Word> = Vec::new();
        // The key whose comma promises another one.
        let mut promise: Option<Span> = None;
        loop {
            let Some(word) = self.stream.peek()? else {
                return match promise {
                    Some(comma) => {
                        let error = Diagnostic::error(comma, "Unexpected EOF").label("the comma promises another zone");
                        Err(self.stream.stop(error.help(TAKE_THE_COMMA_OUT)))
                    }
                    None => Ok((keys, true)),
                };
            };
            let new_line = word.first && !keys.is_empty();
            if new_line && promise.is_none() {
                return Ok((keys, false));
            }
            let filled = self.filled(&word);
            match &*filled.text {
                "import" if word.first => {
                    self.stream.import()?;
                    continue;
                }
                "{" => match promise {
                    Some(comma) => {
                        let text = "Expected another address but had '{' - check for extra comma";
                        return Err(self.stream.stop(
                            Diagnostic::error(word.span, text)
                                .related(comma, "the comma promises another zone")
                                .help(TAKE_THE_COMMA_OUT),
                        ));
                    }
                    None => return Ok((keys, false)),
                },
                "}" => {
                    return Err(self.stream.stop(
                        Diagnostic::error(word.span, "Unexpected '}' because no matching opening brace")
                            .label("no block is open here")
                            .help("take it out; if a block should end here, it lacks its `{`"),
                    ));
                }
                _ => {}
            }
            self.stream.next()?;
            let (text, comma) = match filled.text.strip_suffix(',') {
                Some(text) => (Rc::from(text), true),
                None => (filled.text, false),
            };
            if comma {
                promise = Some(word.span);
            } else if !text.is_empty() {
                promise = None;
            }
            if !text.is_empty() {
                let end = word.span.end - u32::from(comma);
                keys.push(Word {
                    text,
                    span: Span { end, ..word.span },
                    first: word.first,
                });
            }
        }
    }

    fn snippet(&mut self, name: &str, span: Span) -> Result<(), Stop> {
        let Some(open) = self.stream.next()?.filter(|word| &*word.text == "{") else {
            let text = "a snippet needs braces around what it stands for";
            let error = Diagnostic::syntax(span, format!("{text}, expecting '{{'"));
            return Err(self.stream.stop(error.help(format!("write `({name}) {{ ... }}`"))));
        };
        let mut contents = Vec::new();
        let mut depth = 1;
        loop {
            let Some(word) = self.stream.next()? else {
                return Err(self.stream.unclosed(open.span));
            };
            match &*word.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            contents.push(word);
        }
        self.stream.define(name, span, contents);
        Ok(())
    }

    fn directives(&mut self, lines: &mut Vec<Line>) -> Result<(), Stop> {
        let ending = match self.stream.peek()? {
            Some(word) if &*word.text == "{" => {
                self.stream.next()?;
                Ending::Brace(word.span)
            }
            _ => Ending::File,
        };
        loop {
            let Some(word) = self.stream.peek()? else {
                let Ending::Brace(open) = ending else { return Ok(()) };
                // Accepted by accident in CoreDNS, and so in use: the `}` of a directive closes the block too.
                if let Some(last) = self.stream.last().filter(|last| &*last.text == "}") {
                    let warning = Diagnostic::warning(last.span, "the `}` of the server block is missing");
                    self.stream
                        .findings
                        .warn(warning.related(open, "this brace is not closed"));
                    return Ok(());
                }
                return Err(self.stream.unclosed(open));
            };
            match &*word.text {
                "}" if ending == Ending::File => {
                    return Err(self.stream.stop(
                        Diagnostic::error(word.span, "Unexpected '}' because no matching opening brace")
                            .label("the server block has no `{`")
                            .help("put a `{` behind its zones, or take the `}` out"),
                    ));
                }
                "}" => {
                    self.stream.next()?;
                    return Ok(());
                }
                "import" => self.stream.import()?,
                "{" => {
                    return Err(self.stream.stop(
                        Diagnostic::syntax(word.span, "Unexpected token '{', expecting a directive")
                            .help("a `{` stands on the line of the directive that it belongs to"),
                    ));
                }
                _ => {
                    let line = self.line(0)?;
                    lines.push(line);
                }
            }
        }
    }

    /// Reads a directive (depth 0) or an option, with its block.
    fn line(&mut self, depth: usize) -> Result<Line, Stop> {
        let name = self.stream.next()?.expect("the caller saw a word");
        let mut line = Line {
            name: self.filled(&name),
            args: Vec::new(),
            block: None,
        };
        while let Some(word) = self.stream.peek()?.filter(|word| !word.first) {
            match &*word.text {
                "{" => {
                    self.stream.next()?;
                    line.block = Some(self.options(word.span, depth + 1)?);
                    self.behind_block(depth)?;
                    return Ok(line);
                }
                // An option's line ends with its block; a directive's does not, as in CoreDNS.
                "}" if depth > 0 => return Ok(line),
                "}" => {
                    self.stream.next()?;
                    return Err(self.stream.stop(self.brace_on_directive_line(word.span)));
                }
                _ => {
                    self.stream.next()?;
                    let word = self.filled(&word);
                    line.args.push(word);
                }
            }
        }
        Ok(line)
    }

    fn options(&mut self, open: Span, depth: usize) -> Result<Vec<Line>, Stop> {
        if depth > NESTING_MAX {
            let text = format!("braces are nested more than {NESTING_MAX} deep");
            let error = Diagnostic::syntax(open, text);
            return Err(self
                .stream
                .stop(error.help("no directive needs more than two; is a `}` missing above?")));
        }
        let mut lines = Vec::new();
        loop {
            let Some(word) = self.stream.peek()? else {
                let last = self.stream.last().map_or(open, |last| last.span);
                let error = Diagnostic::error(last, "Unexpected EOF").label("the file ends behind this word");
                let error = error.related(open, "this brace is not closed");
                return Err(self.stream.stop(error.help(CLOSE_IT)));
            };
            match &*word.text {
                "}" => {
                    self.stream.next()?;
                    return Ok(lines);
                }
                "import" if word.first => self.stream.import()?,
                "{" => {
                    let error = Diagnostic::syntax(word.span, "Unexpected token '{', expecting an option");
                    return Err(self
                        .stream
                        .stop(error.help("a `{` stands on the line that it belongs to")));
                }
                _ => {
                    let line = self.line(depth)?;
                    lines.push(line);
                }
            }
        }
    }

    /// Nothing but a line end, or the `}` of the block around it, may follow a `}`.
    fn behind_block(&mut self, depth: usize) -> Result<(), Stop> {
        let Some(word) = self.stream.peek()?.filter(|word| !word.first) else {
            return Ok(());
        };
        match &*word.text {
            "}" if depth > 0 => Ok(()),
            "}" => Err(self.stream.stop(self.brace_on_directive_line(word.span))),
            text => {
                let error = Diagnostic::syntax(word.span, format!("Unexpected token '{text}' behind '}}'"));
                Err(self.stream.stop(error.help("start a new line behind the `}`")))
            }
        }
    }

    fn brace_on_directive_line(&self, span: Span) -> Diagnostic {
        Diagnostic::error(span, "Unexpected '}' because no matching opening brace")
            .label("a directive's line does not end the server block")
            .help("put the `}` on a line of its own")
    }

    fn filled(&self, word: &Word) -> Word {
        if !word.text.contains('{') {
            return word.clone();
        }
        let text = fill_in(&word.text, &|name| self.world.variable(name)).into();
        Word { text, ..*word }
    }
}
