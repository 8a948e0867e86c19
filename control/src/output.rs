//! Lines for people: `[LEVEL] text` on standard output, as CoreDNS writes them.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

pub use nodens_sources::etcd::{Level, Log};

static LOST: AtomicU64 = AtomicU64::new(0);

/// Lines that standard output did not take.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Writes whole lines. A reader that is gone, or a full disk under the log, costs lines and nothing else; it is said
/// once, on the other stream.
pub fn lines(text: &str) {
    static SAID: Once = Once::new();
    let mut out = std::io::stdout().lock();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let why = match out.write(rest) {
            Ok(0) => "it takes nothing".to_owned(),
            Ok(len) => {
                rest = &rest[len..];
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => error.to_string(),
        };
        let lost = rest.iter().filter(|&&byte| byte == b'\n').count();
        LOST.fetch_add(lost as u64, Ordering::Relaxed);
        SAID.call_once(|| {
            let text = "[WARNING] lines for the log are lost, nodens_log_lost_total counts them: standard output";
            let _ = writeln!(std::io::stderr().lock(), "{text}: {why}");
        });
        return;
    }
}

/// Writes one line.
pub fn line(level: Level, text: &str) {
    let word = match level {
        Level::Info => "INFO",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
    };
    lines(&format!("[{word}] {text}\n"));
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
