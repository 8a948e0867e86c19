//! The thread that writes what the workers left for the log: query lines of `log`, and the lines of `errors`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam::sync::Parker;
use nodens_engine::Reason;
use nodens_engine::log::{LogEntry, LogLine, LogQueue, LogReader};
use nodens_engine::plan::StepName;
use nodens_wire::Rcode;

use crate::consolidate::Consolidator;
use crate::corefile::log_format::{LogFormat, LogPiece};
use crate::corefile::settings::{Consolidate, ErrorLevel};
use crate::output;

/// Bytes of lines that are written at once.
const WRITE_MAX: usize = 64 * 1024;
/// How long the writer sleeps when nothing wakes it: only so that it sees that it is to end.
const NAP: Duration = Duration::from_secs(1);

/// How lines are written, by the numbers that they carry.
#[derive(Debug, Default)]
pub struct Settings {
    /// Of query lines.
    pub formats: HashMap<u32, LogFormat>,
    /// Which errors are gathered.
    pub consolidate: HashMap<u32, Vec<Consolidate>>,
    /// Some block has `debug`: lines of that level are written.
    pub has_debug: bool,
}

/// The running writer.
#[derive(Debug)]
pub struct Writer {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    unparker: crossbeam::sync::Unparker,
    settings: Arc<ArcSwap<Settings>>,
}

impl Writer {
    /// Starts it for so many workers; each gets one of the queues.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(workers: usize) -> std::io::Result<(Self, Vec<LogQueue>)> {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let (mut reader, queues) = LogReader::new(workers, &unparker);
        let stop = Arc::new(AtomicBool::new(false));
        let settings = Arc::new(ArcSwap::default());
        let (own_stop, own_settings) = (Arc::clone(&stop), Arc::clone(&settings));
        let thread = std::thread::Builder::new().name("querylog".into()).spawn(move || {
            let mut lines = Lines::default();
            loop {
                let last = own_stop.load(Ordering::Acquire);
                while lines.drain(&mut reader, &own_settings) {}
                if last {
                    return lines.end();
                }
                parker.park_timeout(lines.nap());
            }
        })?;
        Ok((
            Self {
                thread: Some(thread),
                stop,
                unparker,
                settings,
            },
            queues,
        ))
    }

    /// Writes lines so from now on; what was gathered until now is told. Lines that were left before may still need the
    /// numbers of the old settings.
    pub fn use_settings(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
        self.unparker.unpark();
    }
}

impl Drop for Writer {
    /// Writes what is still there.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.unparker.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread of the writer keeps.
#[derive(Default)]
struct Lines {
    settings: Arc<Settings>,
    gathered: HashMap<u32, Consolidator>,
    /// To be written.
    text: String,
    /// What is wrong, while it is being told.
    reason: String,
}

impl Lines {
    /// Writes the lines that wait, and those of gathered errors whose time has come; tells whether there were any.
    fn drain(&mut self, reader: &mut LogReader, settings: &ArcSwap<Settings>) -> bool {
        let settings = settings.load();
        if !Arc::ptr_eq(&settings, &self.settings) {
            self.tell(None);
            let rules = settings.consolidate.iter();
            self.gathered = rules
                .map(|(&number, rules)| (number, Consolidator::new(rules)))
                .collect();
            self.settings = Arc::clone(&settings);
        }
        let mut came = false;
        for entry in reader.take() {
            came = true;
            // Writing to a String cannot fail.
            let _ = self.line(&entry);
            if self.text.len() > WRITE_MAX {
                self.write();
            }
        }
        self.tell(Some(Instant::now()));
        self.write();
        came
    }

    fn line(&mut self, entry: &LogEntry) -> std::fmt::Result {
        match (entry.line, &entry.reason) {
            (LogLine::Query(number), _) => match self.settings.formats.get(&number) {
                Some(format) => query_line(format, entry, &mut self.text),
                None => Ok(()),
            },
            (LogLine::Error(_), None) => Ok(()),
            (LogLine::Error(number), Some(reason)) => {
                self.reason.clear();
                write_reason(reason, &mut self.reason)?;
                let rules = self.gathered.get_mut(&number);
                let level = match rules {
                    Some(rules) => rules.level(&self.reason, Instant::now()),
                    None => Some(ErrorLevel::Error),
                };
                let is_written = |level: &ErrorLevel| *level != ErrorLevel::Debug || self.settings.has_debug;
                let Some(level) = level.filter(is_written) else {
                    return Ok(());
                };
                let (level, code) = (level.as_str(), code(reason, entry.rcode));
                let LogEntry { name, rtype, .. } = entry;
                writeln!(
                    self.text,
                    "[{level}] plugin/errors: {code} {name} {rtype}: {}",
                    self.reason
                )
            }
        }
    }

    fn tell(&mut self, now: Option<Instant>) {
        for rules in self.gathered.values_mut() {
            rules.tell(now, self.settings.has_debug, &mut self.text);
        }
    }

    fn write(&mut self) {
        output::many_lines(&self.text);
        self.text.clear();
    }

    /// Nothing comes any more.
    fn end(mut self) {
        self.tell(None);
        self.write();
    }

    /// How long there is nothing to do.
    fn nap(&self) -> Duration {
        let due = self.gathered.values().filter_map(Consolidator::deadline).min();
        due.map_or(NAP, |due| due.saturating_duration_since(Instant::now()).min(NAP))
    }
}

/// What a plugin answered itself is no error of the server: CoreDNS shows 0.
fn code(reason: &Reason, rcode: Option<Rcode>) -> u16 {
    let own = match reason {
        Reason::NoNext(_)
        | Reason::Upstream(_)
        | Reason::StubCycle
        | Reason::InvalidName(_)
        | Reason::Template(_)
        | Reason::Panic
        | Reason::Dname => rcode,
        Reason::Unsynced(StepName::File | StepName::Auto | StepName::Secondary) => rcode,
        Reason::Unsynced(_) | Reason::BadValues { .. } | Reason::NsHost(_) => None,
    };
    own.map_or(0, |rcode| rcode.0)
}

fn write_reason(reason: &Reason, out: &mut String) -> std::fmt::Result {
    match reason {
        Reason::NoNext(name) => write!(out, "plugin/{name}: no next plugin found"),
        Reason::Unsynced(step) => write!(out, "plugin/{}: the zone has not been read yet", step.as_str()),
        Reason::BadValues { zone, key } => {
            let key = String::from_utf8_lossy(key);
            write!(out, "no value of {} in zone {zone} parses", key.escape_debug())
        }
        Reason::NsHost(host) => {
            let host = nodens_wire::Name::from_wire(host)
                .map(|name| name.to_string())
                .unwrap_or_default();
            write!(out, "NS record must be an IP address: {host}")
        }
        Reason::Dname => write!(out, "the DNAME makes a name that is too long, or the same again"),
        Reason::Template(why) => write!(out, "{why}"),
        Reason::InvalidName(invalid) => write!(out, "invalid name after rewrite: {}", invalid.0),
        Reason::StubCycle => write!(out, "stub forward cycle"),
        Reason::Upstream(failed) => write!(out, "{failed}"),
        Reason::Panic => write!(out, "panic"),
    }
}

fn query_line(format: &LogFormat, entry: &LogEntry, out: &mut String) -> std::fmt::Result {
    write!(out, "[INFO] ")?;
    for piece in &format.pieces {
        match piece {
            LogPiece::Literal(text) => write!(out, "{text}")?,
            LogPiece::Type => write!(out, "{}", entry.rtype)?,
            LogPiece::Class => write!(out, "{}", entry.rclass)?,
            LogPiece::Name => write!(out, "{}", entry.name)?,
            LogPiece::Proto => write!(out, "{}", if entry.is_stream { "tcp" } else { "udp" })?,
            LogPiece::Remote => address(entry.remote.ip(), out)?,
            LogPiece::Port => write!(out, "{}", entry.remote.port())?,
            LogPiece::Local => match entry.local {
                Some(local) => address(local, out)?,
                None => write!(out, "[::]")?,
            },
            LogPiece::Size => write!(out, "{}", entry.size)?,
            LogPiece::Rcode => match entry.rcode {
                Some(rcode) => write!(out, "{rcode}")?,
                None => write!(out, "-")?,
            },
            LogPiece::ReplySize => write!(out, "{}", entry.reply_size)?,
            LogPiece::Duration => write!(out, "{}s", Duration::from_nanos(entry.duration_nanos).as_secs_f64())?,
            LogPiece::ReplyFlags if entry.rcode.is_none() => write!(out, "-")?,
            LogPiece::ReplyFlags => flags(entry, out)?,
            LogPiece::Id => write!(out, "{}", entry.id)?,
            LogPiece::Opcode => write!(out, "{}", entry.opcode.0)?,
            LogPiece::Do => write!(out, "{}", entry.dnssec_ok)?,
            LogPiece::Bufsize => write!(out, "{}", entry.bufsize)?,
            LogPiece::Metadata(label) => write!(out, "{}", metadata(label, entry).as_deref().unwrap_or("-"))?,
            LogPiece::View(name) => write!(out, "{}", if entry.has_metadata { name } else { "-" })?,
        }
    }
    writeln!(out)
}

/// What `log` itself and `forward` say of a reply, and `kubernetes` of a query.
fn metadata<'a>(label: &str, entry: &'a LogEntry) -> Option<Cow<'a, str>> {
    match label {
        _ if !entry.has_metadata => None,
        "log/class" => Some(entry.kind.class().into()),
        "log/type" => Some(entry.kind.as_str().into()),
        "forward/upstream" => Some(entry.upstream?.to_string().into()),
        _ => {
            let mut known = entry.known.iter();
            known.find_map(|(own, text)| (**own == *label).then_some(text.into()))
        }
    }
}

fn address(address: IpAddr, out: &mut String) -> std::fmt::Result {
    match address {
        IpAddr::V4(address) => write!(out, "{address}"),
        IpAddr::V6(address) => write!(out, "[{address}]"),
    }
}

fn flags(entry: &LogEntry, out: &mut String) -> std::fmt::Result {
    let flags = entry.flags;
    let all = [
        (flags.qr(), "qr"),
        (flags.aa(), "aa"),
        (flags.tc(), "tc"),
        (flags.rd(), "rd"),
        (flags.ra(), "ra"),
        (flags.z(), "z"),
        (flags.ad(), "ad"),
        (flags.cd(), "cd"),
    ];
    let set: Vec<_> = all
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name))
        .collect();
    write!(out, "{}", set.join(","))
}
