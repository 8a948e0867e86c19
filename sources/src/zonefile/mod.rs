//! Zone files: RFC 1035 text to records in wire form.
//!
//! ```text
//!   bytes ── scan ──> entries ── load ──> owner, TTL, class, type ── rdata ──> Record
//!            brackets,           $ORIGIN, $TTL,                svcb, location, uncommon, and the
//!            quotes, comments    $INCLUDE, $GENERATE           `domain` crate for rare types
//! ```
//!
//! The `domain` crate's own file parser knows no units in times, so everything but the data of some rare types is ours.

mod generate;
mod load;
mod location;
mod rdata;
mod scan;
mod svcb;
#[cfg(test)]
mod tests;
mod text;
mod uncommon;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nodens_wire::Name;
use thiserror::Error;

use crate::Record;
use crate::wrong::{WrongLine, WrongLines};

/// `$INCLUDE`s within one another.
pub const INCLUDE_DEPTH_MAX: usize = 7;
/// `$INCLUDE`s of one zone in all.
pub const INCLUDES_MAX: usize = 1_000;
/// Records of one `$GENERATE`.
pub const GENERATE_MAX: i64 = 65_536;
/// Records of all `$GENERATE`s of one zone: a few bytes of text must not fill the memory.
pub const GENERATED_MAX: usize = 1 << 20;

/// What a zone's file and the files that it includes hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneFile {
    /// In file order; the SOA among them.
    pub records: Vec<Record>,
    /// Of the SOA at the zone's own name.
    pub serial: u32,
    /// Records of names outside the zone, which were left out.
    pub outside: usize,
    /// SOAs behind which another one came, which counts instead.
    pub more_soas: usize,
}

/// Why a zone could not be loaded.
#[derive(Debug, Error)]
pub enum ZoneFileError {
    /// The zone's own file cannot be read.
    #[error("open {}: {error}", file.display())]
    Unreadable {
        /// As given.
        file: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Lines of it, or of included files, are wrong.
    #[error("{}", syntax(file, origin, &lines.first[0], lines))]
    Syntax {
        /// The zone's file, as given.
        file: PathBuf,
        /// The zone.
        origin: String,
        /// At least one.
        lines: WrongLines,
        /// There is no SOA either, and none of these lines can be in its way.
        no_soa: bool,
    },
    /// Without one it is no zone.
    #[error("{}", no_soa(file, origin))]
    NoSoa {
        /// As given.
        file: PathBuf,
        /// The zone.
        origin: String,
    },
}

impl ZoneFileError {
    /// What is to be said of a line of a [`Syntax`](Self::Syntax) error.
    pub fn of_line(file: &Path, origin: &str, line: &WrongLine) -> String {
        syntax(file, origin, line, &line.text)
    }

    /// All that is to be said, a line of it for each that is wrong.
    pub fn sentences(&self) -> Vec<String> {
        let Self::Syntax {
            file,
            origin,
            lines,
            no_soa,
        } = self
        else {
            return vec![self.to_string()];
        };
        let wrong = lines.first.iter().map(|line| Self::of_line(file, origin, line));
        let no_soa = no_soa.then(|| self::no_soa(file, origin));
        wrong.chain(lines.more()).chain(no_soa).collect()
    }
}

/// What is to be said of a zone without a SOA.
pub fn no_soa(file: &Path, origin: &str) -> String {
    format!("file \"{}\" has no SOA record for origin {origin}", file.display())
}

fn syntax(file: &Path, origin: &str, at: &WrongLine, text: impl fmt::Display) -> String {
    let (file, place, line) = (file.display(), at.file.display(), at.line);
    format!("failed to parse file \"{file}\" for origin {origin} with error {place}:{line}: {text}")
}

/// A record that stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneRecord {
    /// Absolute.
    pub owner: nodens_wire::NameBuf,
    /// Its type.
    pub rtype: nodens_wire::Rtype,
    /// In seconds.
    pub ttl: u32,
    /// Its data, names in it uncompressed.
    pub rdata: Vec<u8>,
}

impl OneRecord {
    /// Reads a record as a line of a zone file has it. Names are absolute with a final dot and without.
    ///
    /// # Errors
    /// It is none.
    pub fn read(line: &str) -> Result<Self, String> {
        load::record(line)
    }
}

impl ZoneFile {
    /// Loads the zone `origin` from `file`, which may include others; `read` gets their contents.
    ///
    /// # Errors
    ///
    /// All lines that are wrong, or what is missing.
    pub fn load(
        file: &Path,
        origin: Name<'_>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ZoneFileError> {
        let text = read(file).map_err(|error| ZoneFileError::Unreadable {
            file: file.to_owned(),
            error,
        })?;
        load::load(file, &text, origin, read)
    }
}
