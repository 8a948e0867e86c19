//! What the fuzz targets call; the invariants are asserted here.

use std::io;
use std::path::{Path, PathBuf};

use nodens_engine::fuzzing::view_holds;
use nodens_engine::plan::view::View;

use crate::corefile::diagnostic::Form;
use crate::corefile::expression;
use crate::corefile::{self, Colour, Diagnostic, Input, Sources, World};

/// A folder with the text itself, to be imported as `a`, and a file of snippets, `b`.
struct Folder<'t>(&'t [u8]);

const SNIPPETS: &[u8] = b"(one) {\n errors\n}\n(two) {\n import one\n bind 127.0.0.1\n}\n";

impl World for Folder<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/x/a") => Ok(self.0.to_vec()),
            Some("/x/b") => Ok(SNIPPETS.to_vec()),
            Some("/x") => Err(io::ErrorKind::IsADirectory.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, _folder: &Path) -> io::Result<Vec<String>> {
        Ok(vec!["b".to_owned(), "a".to_owned()])
    }

    fn exists(&self, path: &Path) -> bool {
        matches!(path.to_str(), Some("/x" | "/x/a" | "/x/b"))
    }

    fn is_file(&self, path: &Path) -> bool {
        matches!(path.to_str(), Some("/x/a" | "/x/b"))
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name.len() == 1).then(|| format!("{name} {{$A}} }}"))
    }

    fn working_folder(&self) -> PathBuf {
        PathBuf::from("/x")
    }
}

/// Any text is a configuration or errors; every finding has a place in its text and can be drawn.
pub fn corefile(text: &[u8]) {
    let check = |findings: &[Diagnostic], sources: &Sources| {
        for finding in findings {
            if let Some(span) = finding.span {
                let text = &sources.source(span).text;
                assert!(text.get(span.start as usize..span.end as usize).is_some());
                assert!(!sources.place(span).is_empty());
            }
            // A file that is not there has no line to be drawn at.
            assert!(finding.form == Form::Warning || finding.span.is_none() || finding.help.is_some());
            assert!(!finding.render(sources, Colour::Off).is_empty());
            assert!(!finding.render(sources, Colour::On).is_empty());
        }
    };
    match corefile::load(&Input::Stdin(text.to_vec()), 53, &Folder(text)) {
        Ok(corefile) => {
            assert!(corefile.blocks.iter().all(|block| !block.keys.is_empty()));
            check(&corefile.warnings, &corefile.sources);
        }
        Err(refused) => {
            assert!(!refused.found.errors.is_empty());
            check(&refused.found.errors, &refused.sources);
            check(&refused.found.warnings, &refused.sources);
        }
    }
}

/// Queries for www.oak.example. AAAA with an OPT, and for the root.
const QUERIES: [&[u8]; 2] = [
    b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03WWW\x03oak\x07example\0\0\x1c\0\x01\0\0\x29\x10\0\0\0\x80\0\0\0",
    b"\0\0\0\0\0\x01\0\0\0\0\0\0\0\xff\0\0\x01",
];

/// Any text is an expression that can be evaluated, or says where it is wrong.
pub fn expression(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match expression::condition(text) {
        Ok(compiled) => {
            assert!(
                compiled
                    .remarks
                    .iter()
                    .all(|remark| text.get(remark.at.clone()).is_some())
            );
            let view = View {
                name: "view".into(),
                conditions: [compiled.expression].into(),
            };
            for query in QUERIES {
                let _ = view_holds(&view, query);
            }
        }
        Err(fault) => assert!(text.get(fault.at).is_some() && !fault.text.is_empty()),
    }
}
