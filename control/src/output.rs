//! Lines for people: `[LEVEL] text` on standard output, as CoreDNS writes them.

use std::io::Write as _;
use std::sync::Arc;

pub use nodens_sources::etcd::{Level, Log};

/// Writes one line. A reader that is gone, or a full disk under the log, costs the line and nothing else.
pub fn line(level: Level, text: &str) {
    let word = match level {
        Level::Info => "INFO",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
    };
    let _ = writeln!(std::io::stdout().lock(), "[{word}] {text}");
}

/// For the record.
pub fn info(text: &str) {
    line(Level::Info, text);
}

/// Something is not as it should be.
pub fn warning(text: &str) {
    line(Level::Warning, text);
}

/// Somebody has to act.
pub fn error(text: &str) {
    line(Level::Error, text);
}

/// Where a part of the server writes its lines: `prefix` stands in front of each.
pub fn log(prefix: &'static str) -> Log {
    Arc::new(move |level, text| line(level, &format!("{prefix}: {text}")))
}
