//! The thread that writes what the workers left for the log: query lines of `log`, and the lines of `errors`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam::sync::Parker;
use nodens_engine::Reason;
use nodens_engine::log::{LogEntry, LogQueue};
use nodens_engine::plan::StepName;

use crate::corefile::log_format::{LogFormat, LogPiece};

/// Bytes of lines that are written at once.
const WRITE_MAX: usize = 64 * 1024;
/// How long the writer sleeps when nothing wakes it: only so that it sees that it is to end.
const NAP: Duration = Duration::from_secs(1);

/// The formats of query lines, by the number that rules and lines carry.
pub type Formats = HashMap<u32, LogFormat>;

/// The running writer.
#[derive(Debug)]
pub struct Writer {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    unparker: crossbeam::sync::Unparker,
    formats: Arc<ArcSwap<Formats>>,
}

impl Writer {
    /// Starts it for so many workers; each gets one of the queues.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(workers: usize) -> std::io::Result<(Self, Vec<LogQueue>)> {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let queues: Vec<_> = (0..workers).map(|_| LogQueue::new(unparker.clone())).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let formats = Arc::new(ArcSwap::default());
        let (own_queues, own_stop, own_formats) = (queues.clone(), Arc::clone(&stop), Arc::clone(&formats));
        let thread = std::thread::Builder::new().name("querylog".into()).spawn(move || {
            let mut text = String::new();
            loop {
                let last = own_stop.load(Ordering::Acquire);
                while drain(&own_queues, &own_formats, &mut text) {}
                if last {
                    return;
                }
                parker.park_timeout(NAP);
            }
        })?;
        Ok((
            Self {
                thread: Some(thread),
                stop,
                unparker,
                formats,
            },
            queues,
        ))
    }

    /// Writes lines with these formats from now on. Lines that were left before may still need the old ones.
    pub fn use_formats(&self, formats: Formats) {
        self.formats.store(Arc::new(formats));
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

/// Writes the lines that wait, up to a limit; tells whether there were any.
fn drain(queues: &[LogQueue], formats: &ArcSwap<Formats>, text: &mut String) -> bool {
    text.clear();
    let formats = formats.load();
    for queue in queues {
        while let Some(entry) = queue.pop() {
            // Writing to a String cannot fail.
            let _ = match entry.format.and_then(|number| formats.get(&number)) {
                Some(format) => query_line(format, &entry, text),
                None => error_line(&entry, text),
            };
            if text.len() > WRITE_MAX {
                break;
            }
        }
    }
    // A reader that is gone, or a full disk, costs the lines and nothing else.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    !text.is_empty()
}

fn error_line(entry: &LogEntry, out: &mut String) -> std::fmt::Result {
    let Some(reason) = &entry.reason else { return Ok(()) };
    // What a plugin answered itself is no error of the server: CoreDNS shows 0.
    let code = match reason {
        Reason::NoNext(_) | Reason::Panic | Reason::Dname => entry.rcode,
        Reason::Unsynced(StepName::File | StepName::Auto | StepName::Secondary) => entry.rcode,
        Reason::Unsynced(_) | Reason::BadValues { .. } | Reason::NsHost(_) => None,
    };
    let code = code.map_or(0, |rcode| rcode.0);
    write!(out, "[ERROR] plugin/errors: {code} {} {}: ", entry.name, entry.rtype)?;
    match reason {
        Reason::NoNext(name) => write!(out, "plugin/{name}: no next plugin found")?,
        Reason::Unsynced(step) => write!(out, "plugin/{}: the zone has not been read yet", step.as_str())?,
        Reason::BadValues { zone, key } => {
            write!(
                out,
                "no value of {} in zone {zone} parses",
                String::from_utf8_lossy(key).escape_debug()
            )?;
        }
        Reason::NsHost(host) => {
            let host = nodens_wire::Name::from_wire(host)
                .map(|name| name.to_string())
                .unwrap_or_default();
            write!(out, "NS record must be an IP address: {host}")?;
        }
        Reason::Dname => write!(out, "the DNAME makes a name that is too long, or the same again")?,
        Reason::Panic => write!(out, "panic")?,
    }
    writeln!(out)
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
            LogPiece::Metadata(label) => write!(out, "{}", metadata(label, entry).unwrap_or("-"))?,
            LogPiece::View(name) => write!(out, "{}", if entry.has_metadata { name } else { "-" })?,
        }
    }
    writeln!(out)
}

/// What `log` itself says of a reply.
fn metadata(label: &str, entry: &LogEntry) -> Option<&'static str> {
    match label {
        "log/class" if entry.has_metadata => Some(entry.kind.class()),
        "log/type" if entry.has_metadata => Some(entry.kind.as_str()),
        _ => None,
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
