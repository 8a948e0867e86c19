//! Lines for people: `[LEVEL] text` on standard output, as CoreDNS writes them.
//!
//! A thread of its own writes them, for nobody may be reading at the other end of a pipe: what the pipe does not take
//! waits, up to a limit, and what is past it is lost and counted. Who writes lines waits for none of that.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

pub use nodens_sources::{Level, Log};

/// Bytes that wait for standard output.
pub const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long lines of queries wait for room, and the end of the process for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

static LOST: AtomicU64 = AtomicU64::new(0);

/// What waits for the thread that writes. None without a thread.
static WAITING: LazyLock<Option<Arc<Waiting>>> = LazyLock::new(|| {
    let waiting = Arc::new(Waiting::default());
    let own = Arc::clone(&waiting);
    let thread = thread::Builder::new().name("output".to_owned());
    thread.spawn(move || own.write_all(write)).ok().map(|_| waiting)
});

/// Lines that standard output did not take.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Writes whole lines. A reader that is gone or slow, or a full disk under the log, costs lines and nothing else; it is
/// said once, on the other stream.
pub fn lines(text: &str) {
    put(text, Duration::ZERO);
}

/// Writes whole lines of which there are many, more slowly than they come if need be: waits a while for room.
pub fn many_lines(text: &str) {
    put(text, PATIENCE);
}

fn put(text: &str, patience: Duration) {
    let Some(waiting) = &*WAITING else { return write(text) };
    if !waiting.put(text, patience) {
        lose(text);
        // The other stream may be as full.
        let _ = thread::Builder::new().spawn(|| say_lost("nobody reads it"));
    }
}

/// Has all lines be written before the process ends, if somebody reads them.
pub fn flush() {
    if let Some(waiting) = &*WAITING {
        waiting.flush(PATIENCE);
    }
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    text: String,
    is_writing: bool,
    /// Somebody has waited in vain since something was written last; nobody does again.
    is_stuck: bool,
}

impl Lines {
    /// Something longer than all that may wait has its turn alone.
    fn has_room(&self, len: usize) -> bool {
        self.text.is_empty() || self.text.len() + len <= WAITING_BYTES_MAX
    }
}

impl Waiting {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a text to be written; false if there is no room.
    fn put(&self, text: &str, patience: Duration) -> bool {
        let mut lines = self.lines();
        if !lines.has_room(text.len()) && !patience.is_zero() && !lines.is_stuck {
            let is_full = |lines: &mut Lines| !lines.has_room(text.len());
            let waited = self.changed.wait_timeout_while(lines, patience, is_full);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
            lines.is_stuck = is_full(&mut lines);
        }
        if !lines.has_room(text.len()) {
            return false;
        }
        lines.text.push_str(text);
        drop(lines);
        self.changed.notify_all();
        true
    }

    /// Writes what comes, for ever.
    fn write_all(&self, mut write: impl FnMut(&str)) {
        let mut text = String::new();
        loop {
            let nothing = |lines: &mut Lines| lines.text.is_empty();
            let waited = self.changed.wait_while(self.lines(), nothing);
            let mut lines = waited.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut text, &mut lines.text);
            lines.is_writing = true;
            drop(lines);
            write(&text);
            text.clear();
            let mut lines = self.lines();
            (lines.is_writing, lines.is_stuck) = (false, false);
            drop(lines);
            self.changed.notify_all();
        }
    }

    /// Waits until all is written, no longer than `patience`.
    fn flush(&self, patience: Duration) {
        let waits = |lines: &mut Lines| lines.is_writing || !lines.text.is_empty();
        let waited = self.changed.wait_timeout_while(self.lines(), patience, waits);
        drop(waited);
    }
}

fn write(text: &str) {
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
        lose(&String::from_utf8_lossy(rest));
        return say_lost(&why);
    }
}

fn lose(text: &str) {
    LOST.fetch_add(text.matches('\n').count() as u64, Ordering::Relaxed);
}

fn say_lost(why: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let text = "[WARNING] lines for the log are lost, nodens_log_lost_total counts them: standard output";
        let _ = writeln!(std::io::stderr(), "{text}: {why}");
    });
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_nobody_takes_waits_up_to_the_limit() {
        let waiting = Waiting::default();
        let line = format!("{}\n", "x".repeat(1023));
        let taken = (0..2 * WAITING_BYTES_MAX / line.len()).filter(|_| waiting.put(&line, Duration::ZERO));
        assert_eq!(taken.count(), WAITING_BYTES_MAX / line.len());
        // One waits for room in vain, and the next ones do not wait again.
        let begin = Instant::now();
        for _ in 0..100 {
            assert!(!waiting.put(&line, Duration::from_millis(50)));
        }
        let waited = begin.elapsed();
        assert!(
            waited >= Duration::from_millis(50) && waited < Duration::from_secs(4),
            "{waited:?}"
        );
        waiting.flush(Duration::from_millis(1));
    }

    #[test]
    fn a_text_past_the_limit_goes_alone() {
        let waiting = Waiting::default();
        assert!(waiting.put(&"x".repeat(WAITING_BYTES_MAX + 1), Duration::ZERO));
        assert!(!waiting.put("x", Duration::ZERO));
    }

    #[test]
    fn lines_are_written_in_their_order_and_room_is_waited_for() {
        let waiting = Arc::new(Waiting::default());
        let half = format!("{}\n", "x".repeat(WAITING_BYTES_MAX / 2 - 1));
        assert!(waiting.put("first\n", Duration::ZERO) && waiting.put(&half, Duration::ZERO));
        let (sender, written) = mpsc::channel();
        let own = Arc::clone(&waiting);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            own.write_all(|text| sender.send(text.to_owned()).unwrap());
        });
        assert!(waiting.put(&half, Duration::from_secs(20)));
        waiting.flush(Duration::from_secs(20));
        let all: String = written.try_iter().collect();
        assert_eq!(all, format!("first\n{half}{half}"));
    }
}
