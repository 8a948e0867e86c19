//! What is wrong with a configuration, and the one place that draws it.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

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
    pub related: Option<(Span, String)>,
    /// The likely fix.
    pub help: Option<String>,
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

impl Diagnostic {
    /// Something that is wrong at a place.
    pub fn error(span: Span, text: impl Into<String>) -> Self {
        Self { span: Some(span), form: Form::Parsing, text: text.into(), label: None, related: None, help: None }
    }

    /// Words that do not fit together.
    pub fn syntax(span: Span, text: impl Into<String>) -> Self {
        Self { form: Form::Syntax, ..Self::error(span, text) }
    }

    /// A setting that turned out not to work: a file, an address, a certificate.
    pub fn setup(span: Span, text: impl Into<String>) -> Self {
        Self { form: Form::Setup, ..Self::error(span, text) }
    }

    /// Something odd that does no harm.
    pub fn warning(span: Span, text: impl Into<String>) -> Self {
        Self { form: Form::Warning, ..Self::error(span, text) }
    }

    /// Something wrong that has no place in a text.
    pub fn placeless(text: impl Into<String>) -> Self {
        Self { span: None, form: Form::Setup, text: text.into(), label: None, related: None, help: None }
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
        self.related = Some((span, label.into()));
        self
    }

    /// The first line alone: where and what.
    pub fn headline(&self, sources: &Sources) -> String {
        let Some(span) = self.span else { return self.text.clone() };
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
        let renderer = match colour {
            Colour::On => Renderer::styled(),
            Colour::Off => Renderer::plain(),
        };
        let level = if self.form == Form::Warning { Level::WARNING } else { Level::ERROR };
        let mut group = Group::with_level(level);
        if let Some(span) = self.span {
            group = group.element(self.snippet(sources, span));
            if let Some((related, label)) = self.related.as_ref().filter(|(related, _)| related.file != span.file) {
                let source = sources.source(*related);
                group = group.element(
                    Snippet::source(&*source.text)
                        .path(&*source.name)
                        .annotation(AnnotationKind::Context.span(range(*related)).label(label)),
                );
            }
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        let headline = self.headline(sources);
        if group.is_empty() {
            return headline;
        }
        let drawing = renderer.render(&[group]);
        format!("{headline}\n{}", drawing.trim_end())
    }

    fn snippet<'s>(&'s self, sources: &'s Sources, span: Span) -> Snippet<'s, annotate_snippets::Annotation<'s>> {
        let mut primary = AnnotationKind::Primary.span(range(span));
        if let Some(label) = &self.label {
            primary = primary.label(label);
        }
        let mut snippet = Snippet::source(&*sources.source(span).text).annotation(primary);
        if let Some((related, label)) = self.related.as_ref().filter(|(related, _)| related.file == span.file) {
            snippet = snippet.annotation(AnnotationKind::Context.span(range(*related)).label(label));
        }
        snippet
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}

/// The known word that `word` was probably meant to be.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word_folded = word.to_ascii_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word_folded, candidate);
    // One wrong letter in three is a slip, more is another word.
    let bound = word.chars().count().div_ceil(3).min(3);
    known
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
