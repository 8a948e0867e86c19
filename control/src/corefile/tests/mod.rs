//! Tests of the whole way from text to settings, over files in memory.

mod clusters;
mod diagnostics;
mod forwarding;
mod language;
mod made;
mod rewriting;
mod settings;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::source::absolute;
use super::{Corefile, Input, Refused, World, load};

/// A world of a few files and variables; the working directory is `/etc`.
#[derive(Default)]
pub(super) struct Memory {
    files: BTreeMap<PathBuf, Vec<u8>>,
    variables: BTreeMap<String, String>,
}

impl Memory {
    /// A `Corefile` with this text.
    pub(super) fn new(corefile: &str) -> Self {
        Self::default().file("Corefile", corefile)
    }

    pub(super) fn file(mut self, name: &str, text: &str) -> Self {
        self.files.insert(Path::new("/etc").join(name), text.into());
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn load(&self) -> Result<Corefile, Refused> {
        load(&Input::Default, 53, self)
    }
}

impl World for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = absolute(&self.working_folder(), path);
        match self.files.get(&path) {
            Some(bytes) => Ok(bytes.clone()),
            None if self.exists(&path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for path in self.files.keys() {
            let inside = path
                .strip_prefix(absolute(folder, Path::new("")))
                .ok()
                .and_then(|rest| rest.components().next());
            names.extend(inside.map(|name| name.as_os_str().to_string_lossy().into_owned()));
        }
        names.dedup();
        // Folders are not sorted.
        names.reverse();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let path = absolute(&self.working_folder(), path);
        self.files.keys().any(|file| file.starts_with(&path))
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.contains_key(&absolute(&self.working_folder(), path))
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn working_folder(&self) -> PathBuf {
        PathBuf::from("/etc")
    }
}
