//! Processes of a test: started with their output in a file, ended by their own id when dropped.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A child process and the file that holds what it said.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    grace: Duration,
}

impl Process {
    /// Starts `command` with both outputs in `log`.
    ///
    /// # Errors
    /// The program is missing, or the file cannot be made.
    pub fn start(command: &mut Command, log: PathBuf) -> io::Result<Self> {
        let out = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", command.get_program().to_string_lossy())))?;
        Ok(Self {
            child,
            log,
            grace: Duration::from_secs(3),
        })
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All output so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The end of the output, for messages.
    pub fn log_end(&self) -> String {
        let log = self.log();
        let from = log.char_indices().rev().nth(799).map_or(0, |(at, _)| at);
        log[from..].trim_end().to_owned()
    }

    /// The exit status, if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The exit status, if it ends in time.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.status() {
                return Some(status);
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.status().is_some() {
            return Err(io::Error::other("the process has ended"));
        }
        // Not waited for yet, so the id is still its own.
        kill_process(Pid::from_child(&self.child), signal).map_err(io::Error::from)
    }

    /// Ends it: TERM, and KILL when that does not help.
    pub fn stop(&mut self) {
        if self.status().is_none() {
            let _ = self.signal(Signal::CONT);
            let _ = self.signal(Signal::TERM);
            if self.wait(self.grace).is_none() {
                self.kill();
            }
        }
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> Option<u64> {
        self.memory("VmRSS:")
    }

    /// The most that it ever was.
    pub fn resident_max(&self) -> Option<u64> {
        self.memory("VmHWM:")
    }

    /// A line of `/proc/PID/status`.
    fn memory(&self, what: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with(what))?;
        line.split_whitespace()
            .nth(1)?
            .parse::<u64>()
            .ok()
            .map(|kib| kib * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A signal by its name without `SIG`.
pub fn signal_named(name: &str) -> Option<Signal> {
    Some(match name {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        _ => return None,
    })
}

/// The server's binary: `NODENS_BIN`, else the newer of the release and the debug build in this build's target folder.
///
/// # Errors
/// It is not built; says how to build it.
pub fn nodens() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("NODENS_BIN") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("NODENS_BIN: {} is no file", path.display()))
        };
    }
    let target = target_folder();
    let built = ["release", "debug"].map(|profile| target.join(profile).join("nodens"));
    let newest = built
        .iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    newest.map(|(_, path)| path.clone()).ok_or_else(|| {
        format!(
            "the server is not built: run `cargo build -p nodens` or set NODENS_BIN (looked below {})",
            target.display()
        )
    })
}

/// Whether the server under test is a release build: only then do its times mean much.
pub fn is_release() -> bool {
    nodens().is_ok_and(|path| path.components().any(|part| part.as_os_str() == "release"))
}

/// The folder that holds `debug` and `release`: this test's own, else `CARGO_TARGET_DIR`, else `target` of the workspace.
fn target_folder() -> PathBuf {
    // .../target/debug/deps/it-0123
    let own = std::env::current_exe()
        .ok()
        .and_then(|path| path.ancestors().nth(3).map(Path::to_owned));
    if let Some(own) = own.filter(|path| path.join("debug").is_dir() || path.join("release").is_dir()) {
        return own;
    }
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let mut process =
            Process::start(command.args(["-c", "echo hello; sleep 60"]), folder.path().join("log")).unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while process.log() != "hello\n" && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(process.log(), "hello\n");
        assert!(process.resident().unwrap() > 0);
        assert!(process.status().is_none());
        process.stop();
        assert!(process.status().is_some() && process.signal(Signal::TERM).is_err());
    }
}
