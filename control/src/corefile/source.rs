//! The texts of a configuration: who reads them, and which bytes of which text a word came from.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Bytes of one file that are read at most. A Corefile with a hundred thousand inline hosts is smaller.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// Bytes of one text, from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Which text; an index into [`Sources`].
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One behind the last byte.
    pub end: u32,
}

impl Span {
    /// Of what is compared without regard to where it stands.
    pub const NOWHERE: Self = Self {
        file: 0,
        start: 0,
        end: 0,
    };

    /// From the start of this span to the end of `last`, or this span where they stand in different texts.
    pub fn to(self, last: Self) -> Self {
        if self.file == last.file && self.start <= last.end {
            Self { end: last.end, ..self }
        } else {
            self
        }
    }
}

/// One text.
#[derive(Clone, Debug)]
pub struct Source {
    /// As errors show it: the command line's words for the first file, an absolute path for the imported ones.
    pub name: String,
    /// The folder that imports in this text start from.
    pub folder: PathBuf,
    /// Always UTF-8; what was not is replaced, since only a comment or a quoted word can sensibly hold it.
    pub text: Arc<str>,
}

/// All texts of one configuration, in the order in which they were read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
}

impl Sources {
    /// Takes a text in and returns its number.
    pub fn add(&mut self, source: Source) -> u32 {
        self.files.push(source);
        u32::try_from(self.files.len() - 1).expect("imports are bounded far below 2^32 files")
    }

    /// The text that a span points into.
    pub fn source(&self, span: Span) -> &Source {
        &self.files[span.file as usize]
    }

    /// The text with a number that `add` gave.
    pub fn text(&self, file: u32) -> Arc<str> {
        Arc::clone(&self.files[file as usize].text)
    }

    /// All texts, in the order in which they were read.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.text)
    }

    /// The number of the line on which a span starts, from 1.
    pub fn line(&self, span: Span) -> usize {
        self.source(span).text.as_bytes()[..span.start as usize]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
            + 1
    }

    /// `FILE:LINE` of a span's start.
    pub fn place(&self, span: Span) -> String {
        format!("{}:{}", self.source(span).name, self.line(span))
    }
}

/// What loading a configuration needs of the world: files and the environment. It contacts nothing else.
pub trait World {
    /// The bytes of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The names in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Whether anything stands at a path.
    fn exists(&self, path: &Path) -> bool;
    /// Whether a regular file stands there, or a link to one: reading anything else may never end.
    fn is_file(&self, path: &Path) -> bool;
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// The working directory.
    fn working_folder(&self) -> PathBuf;
}

/// The machine that the server runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine;

impl World for Machine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        use io::Read;
        let mut bytes = Vec::new();
        // One byte over the limit is enough to see that the file is over it, however large it is.
        std::fs::File::open(path)?
            .take(FILE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?;
        Ok(entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect())
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn variable(&self, name: &str) -> Option<String> {
        // An empty name or one with `=` is asked for by `{$=}`; the standard library answers None.
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn working_folder(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_default()
    }
}

/// Reads a file as text: a byte order mark is dropped, bytes that are no UTF-8 are replaced.
pub fn read_text(world: &dyn World, path: &Path) -> Result<String, String> {
    let bytes = world.read(path).map_err(|error| reason(&error))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok(text_of(&bytes))
}

/// Reads a file that a directive names, which must be a regular one.
pub fn read_named(world: &dyn World, path: &Path) -> Result<String, String> {
    if world.exists(path) && !world.is_file(path) {
        return Err("it is no regular file".to_owned());
    }
    read_text(world, path)
}

/// Bytes as text, see [`read_text`].
pub fn text_of(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// An error of the operating system in its own words, without Rust's number behind.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// A path without `.` and `..`, by its text alone, as names of imported files are shown.
pub fn absolute(folder: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let mut sources = Sources::default();
        let file = sources.add(Source {
            name: "C".into(),
            folder: PathBuf::new(),
            text: "a\nb\n\nc".into(),
        });
        for (start, line) in [(0, 1), (1, 1), (2, 2), (4, 3), (5, 4), (6, 4)] {
            assert_eq!(
                sources.line(Span {
                    file,
                    start,
                    end: start
                }),
                line,
                "{start}"
            );
        }
        assert_eq!(sources.place(Span { file, start: 5, end: 6 }), "C:4");
    }

    #[test]
    fn paths_are_cleaned_by_their_text() {
        for (folder, path, expected) in [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a/b", "./c/./d", "/a/b/c/d"),
            ("/a/b", "/c/../d", "/d"),
            ("/", "../../c", "/c"),
        ] {
            assert_eq!(
                absolute(Path::new(folder), Path::new(path)),
                Path::new(expected),
                "{folder} {path}"
            );
        }
    }

    #[test]
    fn the_byte_order_mark_goes_and_wrong_bytes_are_replaced() {
        assert_eq!(text_of(b"\xef\xbb\xbfa"), "a");
        assert_eq!(text_of(b"a\xef\xbb\xbf"), "a\u{feff}");
        assert_eq!(text_of(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn system_errors_read_as_words() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(reason(&io::Error::from_raw_os_error(13)), "permission denied");
    }
}
