//! The Corefile: text in, typed settings or drawn errors out.
//!
//! ```text
//!   source ──> lexer ──> import ──> parser ──> directive ──> conflict ──> Corefile
//!    text      words     words       lines      settings                  or Refused
//! ```
//!
//! Loading binds nothing and contacts nothing, so that checking a file is the same code as starting with it. All
//! errors of a file are reported together.

pub mod conflict;
pub mod diagnostic;
pub mod directive;
pub mod duration;
mod environment;
pub mod expression;
mod fingerprint;
mod form;
mod glob;
mod import;
mod lexer;
pub mod log_format;
mod parser;
pub mod re2;
mod resolv_conf;
pub mod settings;
pub mod source;
mod zone;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use diagnostic::{Colour, Diagnostic, Findings};
pub use settings::Corefile;
pub use source::{Machine, Sources, Span, World};
pub use zone::{is_preferred, is_reverse};

use source::Source;

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file by its name; it must be there.
    File(PathBuf),
    /// What was read from standard input.
    Stdin(Vec<u8>),
    /// `Corefile` in the working directory; without it the built-in configuration.
    Default,
}

/// A configuration that cannot be used: everything that is wrong with it.
#[derive(Debug)]
pub struct Refused {
    /// Never without errors; by place. What is odd but harmless may have led to one.
    pub found: Findings,
    /// The texts that the spans point into.
    pub sources: Sources,
    /// Its words could be read as blocks and directives; what is wrong lies in what they mean.
    pub is_parsed: bool,
    /// What could be read of it.
    pub blocks: Vec<settings::ServerBlock>,
}

impl Refused {
    /// Takes in what else is wrong.
    pub fn add(&mut self, found: Findings) {
        self.found.add(found);
        self.found.sort();
    }

    /// Tells it from others.
    pub fn fingerprint(&self) -> String {
        fingerprint::of_texts(&self.sources)
    }

    /// The first lines of all errors, in one line.
    pub fn headlines(&self) -> String {
        let Findings { errors, left_out, .. } = &self.found;
        let all = errors.iter().map(|error| error.headline(&self.sources));
        let more = (*left_out > 0).then(|| format!("and {left_out} more"));
        all.chain(more).collect::<Vec<_>>().join("; ")
    }

    /// All that was found, drawn, errors first; no line end behind.
    pub fn render(&self, colour: Colour) -> String {
        self.found.render(&self.sources, colour)
    }
}

impl Corefile {
    /// This configuration, which cannot be used after all.
    pub fn refused(self, found: Findings) -> Refused {
        let mut refused = Refused {
            found: Findings::from_iter(self.warnings),
            sources: self.sources,
            is_parsed: true,
            blocks: self.blocks,
        };
        refused.add(found);
        refused
    }
}

/// Reads a configuration; keys without a port get `default_port`.
pub fn load(input: &Input, default_port: u16, world: &dyn World) -> Result<Corefile, Refused> {
    let mut sources = Sources::default();
    let text = match text(input, world) {
        Ok(text) => text,
        Err(error) => {
            return Err(Refused {
                found: error.into(),
                sources,
                is_parsed: false,
                blocks: Vec::new(),
            });
        }
    };
    let mut findings = Findings::default();
    let mut loaded = Loaded::default();
    if let Some((name, text)) = text {
        let path = world.working_folder().join(&name);
        // Standard input has no folder; its imports start where the server does.
        let folder = match input {
            Input::Stdin(_) => world.working_folder(),
            _ => path.parent().map(Path::to_owned).unwrap_or_default(),
        };
        let file = sources.add(Source {
            name,
            folder,
            text: text.into(),
        });
        loaded = read(file, default_port, &mut sources, world, &mut findings);
    }
    if loaded.blocks.is_empty() && findings.errors.is_empty() {
        let text = format!(".:{default_port} {{\n    whoami\n    log\n}}\n");
        let source = Source {
            name: "built-in Corefile".to_owned(),
            folder: world.working_folder(),
            text: text.into(),
        };
        let file = sources.add(source);
        loaded = read(file, default_port, &mut sources, world, &mut findings);
    }
    let Loaded {
        blocks,
        fingerprint,
        is_parsed,
    } = loaded;
    let conflicts = conflict::check(&blocks, conflict::written_addresses);
    for error in conflicts.into_iter().chain(conflict::check_endpoints(&blocks)) {
        findings.error(error);
    }
    findings.sort();
    if findings.errors.is_empty() {
        Ok(Corefile {
            blocks,
            warnings: findings.warnings,
            sources,
            fingerprint,
        })
    } else {
        Err(Refused {
            found: findings,
            sources,
            is_parsed,
            blocks,
        })
    }
}

/// The name and the text of the first file; none where there is no file.
fn text(input: &Input, world: &dyn World) -> Result<Option<(String, String)>, Diagnostic> {
    let (path, before) = match input {
        Input::Stdin(bytes) => return Ok(Some(("stdin".to_owned(), source::text_of(bytes)))),
        Input::File(path) => (path.as_path(), "loading Caddyfile via flag: "),
        Input::Default => (Path::new("Corefile"), ""),
    };
    match world.read(path) {
        Ok(bytes) if bytes.len() <= source::FILE_BYTES_MAX => {
            Ok(Some((path.display().to_string(), source::text_of(&bytes))))
        }
        Ok(_) => {
            let limit = source::FILE_BYTES_MAX >> 20;
            Err(Diagnostic::placeless(format!(
                "{before}{}: larger than {limit} MiB",
                path.display()
            )))
        }
        Err(error) if *input == Input::Default && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let why = source::reason(&error);
            Err(Diagnostic::placeless(format!("{before}open {}: {why}", path.display())))
        }
    }
}

/// What a text says.
#[derive(Default)]
struct Loaded {
    blocks: Vec<settings::ServerBlock>,
    fingerprint: String,
    is_parsed: bool,
}

fn read(file: u32, default_port: u16, sources: &mut Sources, world: &dyn World, findings: &mut Findings) -> Loaded {
    let parsed = parser::parse(file, sources, world);
    // CoreDNS's parser knows the names of directives, too.
    let mut directives = parsed.blocks.iter().flat_map(|block| &block.directives);
    let is_parsed = parsed.findings.errors.is_empty() && directives.all(directive::is_known);
    findings.errors.extend(parsed.findings.errors);
    findings.warnings.extend(parsed.findings.warnings);
    findings.left_out += parsed.findings.left_out;
    let blocks = parsed.blocks.iter();
    Loaded {
        fingerprint: fingerprint::of_blocks(&parsed.blocks),
        blocks: blocks
            .filter_map(|block| directive::block(block, default_port, world, findings))
            .collect(),
        is_parsed,
    }
}
