//! What is wrong with a configuration, and the one place that draws it.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};

use super::source::{Sources, Span};

/// One finding, with all that a person needs to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The place; none when there is no text to point into (the first file could not be read).
    pub span: Option<Span>,
    /// How the first line is worded.
    pub form: Form,
    /// What was found, in CoreDNS's words where it has them.
    pub text: String,
    /// What was expected, drawn under the place.
    pub label: Option<String>,
    /// A second place that the finding is about.
    pub related: Option<Box<(Span, String)>>,
    /// The line of another file that the finding is about.
    pub excerpt: Option<Box<Excerpt>>,
    /// The likely fix.
    pub help: Option<String>,
}

/// A line of a file that is no Corefile: a zone file, a file of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The file, as errors name it.
    pub file: String,
    /// Which line, from 1.
    pub line: usize,
    /// The line itself.
    pub text: String,
    /// What is wrong with it.
    pub label: String,
}

/// How the first line of a finding is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `FILE:LINE - Error during parsing: TEXT`
    Parsing,
    /// `FILE:LINE - Syntax error: TEXT`
    Syntax,
    /// `FILE:LINE - TEXT`: what was found when the setting was used (a file that is not there).
    Setup,
    /// Harmless; the text goes to the log.
    Warning,
}

/// Whether the drawing has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For a terminal.
    On,
    /// For everything else.
    Off,
}

/// Whether a finding's place in the Corefile is to be drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    ToDraw,
    DrawnAbove,
}

/// What was found in one load, each kind in the order of finding and bounded.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What keeps the configuration from being used.
    pub errors: Vec<Diagnostic>,
    /// What does not.
    pub warnings: Vec<Diagnostic>,
    /// Errors and warnings that were found when there were [`FINDINGS_MAX`] already.
    pub left_out: usize,
}

/// Errors that are kept, and warnings; who has that many does not read more.
pub const FINDINGS_MAX: usize = 100;

impl Findings {
    /// Notes an error.
    pub fn error(&mut self, error: Diagnostic) {
        Self::push(&mut self.errors, &mut self.left_out, error);
    }

    /// Notes a warning, once if the same is found again.
    pub fn warn(&mut self, warning: Diagnostic) {
        if self.warnings.last() != Some(&warning) {
            Self::push(&mut self.warnings, &mut self.left_out, warning);
        }
    }

    /// Notes an error or a warning, as it is one or the other.
    pub fn note(&mut self, finding: Diagnostic) {
        match finding.form {
            Form::Warning => self.warn(finding),
            _ => self.error(finding),
        }
    }

    /// Notes all of these.
    pub fn add(&mut self, others: Self) {
        let Self {
            errors,
            warnings,
            left_out,
        } = others;
        errors.into_iter().chain(warnings).for_each(|one| self.note(one));
        self.left_out += left_out;
    }

    /// In the order of their places; those of one place as they were found.
    pub fn sort(&mut self) {
        self.errors.sort_by_key(|error| error.span);
        self.warnings.sort_by_key(|warning| warning.span);
    }

    /// All of them, drawn, errors first; no line end behind.
    pub fn render(&self, sources: &Sources, colour: Colour) -> String {
        let mut before: Option<&Diagnostic> = None;
        let mut drawn = Vec::new();
        for finding in self.errors.iter().chain(&self.warnings) {
            // Of the wrong lines of one file the first draws the place that names it.
            let follows = before.is_some_and(|before| before.excerpt.is_some() && before.span == finding.span);
            let place = if follows { Place::DrawnAbove } else { Place::ToDraw };
            drawn.push(finding.draw(sources, colour, place));
            before = Some(finding);
        }
        if self.left_out > 0 {
            drawn.push(format!("and {} more", self.left_out));
        }
        drawn.join("\n\n")
    }

    fn push(list: &mut Vec<Diagnostic>, left_out: &mut usize, diagnostic: Diagnostic) {
        if list.len() < FINDINGS_MAX {
            list.push(diagnostic);
        } else {
            *left_out += 1;
        }
    }
}

impl FromIterator<Diagnostic> for Findings {
    fn from_iter<T: IntoIterator<Item = Diagnostic>>(all: T) -> Self {
        let mut found = Self::default();
        all.into_iter().for_each(|one| found.note(one));
        found
    }
}

impl From<Diagnostic> for Findings {
    fn from(one: Diagnostic) -> Self {
        Self::from_iter([one])
    }
}

impl Diagnostic {
    /// Something that is wrong at a place.
    pub fn error(span: Span, text: impl Into<String>) -> Self {
        Self {
            span: Some(span),
            form: Form::Parsing,
            text: text.into(),
            label: None,
            related: None,
            excerpt: None,
            help: None,
        }
    }

    /// Words that do not fit together.
    pub fn syntax(span: Span, text: impl Into<String>) -> Self {
        Self {
            form: Form::Syntax,
            ..Self::error(span, text)
        }
    }

    /// A setting that turned out not to work: a file, an address, a certificate.
    pub fn setup(span: Span, text: impl Into<String>) -> Self {
        Self {
            form: Form::Setup,
            ..Self::error(span, text)
        }
    }

    /// Something odd that does no harm.
    pub fn warning(span: Span, text: impl Into<String>) -> Self {
        Self {
            form: Form::Warning,
            ..Self::error(span, text)
        }
    }

    /// Something wrong that has no place in a text.
    pub fn placeless(text: impl Into<String>) -> Self {
        Self {
            span: None,
            form: Form::Setup,
            text: text.into(),
            label: None,
            related: None,
            excerpt: None,
            help: None,
        }
    }

    /// Says under the place what was expected there.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Says below the drawing what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Draws a second place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related = Some(Box::new((span, label.into())));
        self
    }

    /// Draws a line of another file.
    #[must_use]
    pub fn excerpt(mut self, excerpt: Excerpt) -> Self {
        self.excerpt = Some(Box::new(excerpt));
        self
    }

    /// The first line alone: where and what.
    pub fn headline(&self, sources: &Sources) -> String {
        let Some(span) = self.span else {
            return self.text.clone();
        };
        let place = sources.place(span);
        match self.form {
            Form::Parsing => format!("{place} - Error during parsing: {}", self.text),
            Form::Syntax => format!("{place} - Syntax error: {}", self.text),
            Form::Setup => format!("{place} - {}", self.text),
            Form::Warning => format!("{} ({place})", self.text),
        }
    }

    /// The first line, the place drawn below it, and the help; no line end behind.
    pub fn render(&self, sources: &Sources, colour: Colour) -> String {
        self.draw(sources, colour, Place::ToDraw)
    }

    fn draw(&self, sources: &Sources, colour: Colour, place: Place) -> String {
        let renderer = match colour {
            Colour::On => Renderer::styled(),
            Colour::Off => Renderer::plain(),
        };
        let level = if self.form == Form::Warning {
            Level::WARNING
        } else {
            Level::ERROR
        };
        let mut group = Group::with_level(level);
        if let (Some(span), Place::ToDraw) = (self.span, place) {
            let mut marks = vec![(AnnotationKind::Primary, span, self.label.as_deref())];
            let mut elsewhere = None;
            if let Some((related, label)) = self.related.as_deref() {
                let mark = (AnnotationKind::Context, *related, Some(label.as_str()));
                if related.file == span.file {
                    marks.push(mark);
                } else {
                    elsewhere = Some(snippet(sources, &[mark]).path(&*sources.source(*related).name));
                }
            }
            group = group.element(snippet(sources, &marks)).elements(elsewhere);
        }
        if let Some(Excerpt {
            file,
            line,
            text,
            label,
        }) = self.excerpt.as_deref()
        {
            let start = text.len() - text.trim_start().len();
            let mark = AnnotationKind::Context.span(start..text.len()).label(label.as_str());
            let line = Snippet::source(text.as_str()).line_start(*line).annotation(mark);
            group = group.element(line.path(file.as_str()));
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        let mut headline = self.headline(sources);
        if self.form == Form::Warning {
            headline.insert_str(0, "warning: ");
        }
        if group.is_empty() {
            return headline;
        }
        let drawing = renderer.render(&[group]);
        format!("{headline}\n{}", drawing.trim_end())
    }
}

/// The lines that hold the marks, all in one text.
fn snippet<'l>(sources: &Sources, marks: &[(AnnotationKind, Span, Option<&'l str>)]) -> Snippet<'l, Annotation<'l>> {
    let first = marks
        .iter()
        .map(|(_, span, _)| *span)
        .min()
        .expect("a snippet is drawn for a mark");
    let last = marks
        .iter()
        .map(|(_, span, _)| *span)
        .max()
        .expect("a snippet is drawn for a mark");
    let text = &*sources.source(first).text;
    let start = text[..first.start as usize].rfind('\n').map_or(0, |at| at + 1);
    let end = text[last.end as usize..]
        .find('\n')
        .map_or(text.len(), |at| last.end as usize + at);
    let annotations = marks.iter().map(|(kind, span, label)| {
        kind.span(span.start as usize - start..(span.end as usize).max(span.start as usize) - start)
            .label(*label)
    });
    Snippet::source(masked(&text[start..end]))
        .line_start(sources.line(first))
        .annotations(annotations)
}

/// A text with stars, byte for byte, in place of what stands behind `credentials USER` on a line: whatever is drawn or
/// quoted, it must not be a password.
pub fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut words_behind = None;
        for part in line.split_inclusive(char::is_whitespace) {
            let word = part.trim_end();
            match (&mut words_behind, word) {
                (_, "}") => words_behind = None,
                (_, "") => {}
                (None, "credentials") => words_behind = Some(0),
                (None, _) => {}
                (Some(count), _) => {
                    *count += 1;
                    if *count > 1 {
                        masked.extend(std::iter::repeat_n('*', word.len()));
                        masked.push_str(&part[word.len()..]);
                        continue;
                    }
                }
            }
            masked.push_str(part);
        }
    }
    masked
}

/// The known word that `word` was probably meant to be.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word_folded = word.to_ascii_lowercase();
    // The beginning of a word is nearly that word.
    let distance = |candidate: &str| match candidate.starts_with(&word_folded) && word_folded.len() > 2 {
        true => 1,
        false => strsim::damerau_levenshtein(&word_folded, candidate),
    };
    // One wrong letter in three is a slip, more is another word.
    let bound = word.chars().count().div_ceil(3).min(3);
    known
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
