//! Zone files and hosts files: read at the start, looked at again, published when they changed.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{Collector, RecordZone, RecordZoneBuilder, Zone};
use nodens_sources::Record;
use nodens_sources::hosts::{self, BadLine};
use nodens_sources::wrong::{WrongLine, WrongLines};
use nodens_sources::zonefile::{self, ZoneFile, ZoneFileError};
use nodens_wire::{Name, NameBuf, Rtype};
use tokio::sync;

use crate::compile::{FileSource, HostsSource};
use crate::corefile::diagnostic::Excerpt;
use crate::corefile::{Diagnostic, Findings, Span};
use crate::follow::follow;
use crate::notify::Notify;
use crate::output;
use crate::publish::Publisher;

/// Wrong lines of one file that are told one by one.
const WARNINGS_MAX: usize = 10;

/// Largest file that is read.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Reads a regular file of at most so many bytes.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Where a file has to be named and nothing is meant.
    if path == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    let metadata = fs::metadata(path)?;
    // Opening a pipe would wait for whoever writes into it.
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if metadata.len() > bytes_max {
        return Err(io::Error::other(format!("the file is larger than {bytes_max} bytes")));
    }
    fs::read(path)
}

/// When a file was changed and how large it is: enough to see that it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
}

impl Stamp {
    /// None where there is no file.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            len: metadata.len(),
        })
    }
}

/// A zone that comes from a file.
#[derive(Debug)]
pub struct FileZone {
    source: FileSource,
    hash: NameHash,
    stamp: Option<Stamp>,
    serial: Option<u32>,
}

impl FileZone {
    /// Not read yet.
    pub fn new(source: FileSource, hash: NameHash) -> Self {
        Self {
            source,
            hash,
            stamp: None,
            serial: None,
        }
    }

    /// Reads the file at the start and publishes the zone, empty where the file is not there but may come.
    ///
    /// # Errors
    /// The file is there and no zone, or is not there and will not be looked for again.
    pub fn start(&mut self, publisher: &Publisher) -> Result<(), Findings> {
        self.stamp = Stamp::of(&self.source.settings.db_file);
        match self.first() {
            Ok(file) => self.publish(&file, publisher),
            Err(found) if found.errors.is_empty() => {
                found.warnings.iter().for_each(|warning| output::warning(&warning.text));
                let empty = RecordZone::unloaded(self.source.zone.as_name(), self.hash.clone());
                publisher.zone(self.source.id, Zone::Records(empty));
            }
            Err(found) => return Err(found),
        }
        Ok(())
    }

    /// What the file says before anything is served; only a warning where it is not there and may come.
    pub(crate) fn first(&self) -> Result<ZoneFile, Findings> {
        let FileSource { zone, settings, .. } = &self.source;
        let span = settings.db_file_span;
        self.load().map_err(|error| match error {
            ZoneFileError::Unreadable { .. } if !settings.reload.is_zero() => {
                Diagnostic::warning(span, format!("plugin/file: Failed to open zone {zone}: {error}"))
                    .help("until there is one, the zone answers SERVFAIL")
                    .into()
            }
            error => refused(span, &error),
        })
    }

    fn load(&self) -> Result<ZoneFile, ZoneFileError> {
        // Errors repeat the name as it was written, files are found below `root`.
        let settings = &self.source.settings;
        let word = Path::new(&settings.db_file_word);
        let root = settings
            .db_file
            .to_string_lossy()
            .strip_suffix(&settings.db_file_word)
            .map(PathBuf::from);
        let place = |path: &Path| {
            if path == word {
                settings.db_file.clone()
            } else {
                root.iter().collect::<PathBuf>().join(path)
            }
        };
        ZoneFile::load(word, self.source.zone.as_name(), &|path| {
            read(&place(path), FILE_BYTES_MAX)
        })
    }

    fn publish(&mut self, file: &ZoneFile, publisher: &Publisher) {
        self.oddities(file).iter().for_each(|text| output::warning(text));
        let empty = RecordZone::unloaded(self.source.zone.as_name(), self.hash.clone());
        let zone = zone_of(empty, &file.records);
        self.serial = Some(file.serial);
        publisher.zone(self.source.id, Zone::Records(zone));
    }

    /// What is no mistake, but hardly meant.
    pub(crate) fn oddities(&self, file: &ZoneFile) -> Vec<String> {
        let FileSource { zone, settings, .. } = &self.source;
        let word = &settings.db_file_word;
        let mut odd = Vec::new();
        if file.outside > 0 {
            let count = file.outside;
            odd.push(format!(
                "plugin/file: {count} records of {word} lie outside zone {zone} and are left out"
            ));
        }
        if file.more_soas > 0 {
            odd.push(format!(
                "plugin/file: {word} has more than one SOA record of zone {zone}; the last one counts"
            ));
        }
        let beside = beside_aliases(&file.records);
        if let Some(first) = beside.first() {
            let more = match beside.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            odd.push(format!(
                "plugin/file: {word} has records beside the CNAME of {first}{more}, which stands alone (RFC 1034 section 3.6.2)"
            ));
        }
        odd
    }

    /// Tells others to look for a new version; also when there is none, since a file could not be read, as CoreDNS does.
    fn notify(&self) {
        self.source.notify.iter().for_each(Notify::send);
    }

    /// What the file says now; none where it is as it was seen last.
    fn look(&mut self) -> Option<Result<ZoneFile, ZoneFileError>> {
        let stamp = Stamp::of(&self.source.settings.db_file);
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        Some(self.load())
    }

    /// Looks at the file every now and then, and when it is asked to, for ever.
    pub async fn follow(self, publisher: Arc<Publisher>, asked: Arc<sync::Notify>) {
        self.notify();
        let every = self.source.settings.reload;
        let lost = "plugin/file: reading a zone file failed for good; it is no longer looked at";
        follow(self, every, &asked, lost, Self::look, |own, seen| match seen {
            None => {}
            Some(Ok(file)) if own.serial == Some(file.serial) && !own.source.settings.reload_by_mtime => {}
            Some(Ok(file)) => {
                own.publish(&file, &publisher);
                let (zone, serial) = (&own.source.zone, file.serial);
                output::info(&format!(
                    "plugin/file: Successfully reloaded zone {zone} with serial {serial}"
                ));
                own.notify();
            }
            Some(Err(error)) => {
                own.notify();
                output::warning(&format!("plugin/file: {error}; the zone stays as it was"));
            }
        })
        .await;
    }
}

/// The names that have an alias and other records, but those of DNSSEC: each once, in the file's order.
fn beside_aliases(records: &[Record]) -> Vec<NameBuf> {
    let aliases = records.iter().filter(|record| record.rtype == Rtype::CNAME);
    let mut aliases: HashSet<&[u8]> = aliases.map(|record| record.owner().as_bytes()).collect();
    let mut beside = Vec::new();
    for record in records {
        let may_stand = matches!(record.rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC);
        if !may_stand && aliases.remove(record.owner().as_bytes()) {
            beside.push(record.owner().to_buf());
        }
    }
    beside
}

/// Why a zone file stops the start, and what to do.
fn refused(span: Span, error: &ZoneFileError) -> Findings {
    match error {
        ZoneFileError::Unreadable { .. } => Diagnostic::setup(span, format!("plugin/file: {error}"))
            .help("name a file that can be read; with a `reload` other than 0 it may also come later")
            .into(),
        ZoneFileError::NoSoa { file, origin } => no_soa(span, file, origin).into(),
        ZoneFileError::Syntax {
            file,
            origin,
            lines,
            no_soa: has_none,
        } => {
            let headline = |line: &_| format!("plugin/file: {}", ZoneFileError::of_line(file, origin, line));
            let help = "a record is `NAME [TTL] [CLASS] TYPE DATA`, and a name without a final dot is below the origin";
            let mut found = of_lines(span, lines, headline, help);
            if *has_none {
                found.error(no_soa(span, file, origin));
            }
            found
        }
    }
}

fn no_soa(span: Span, file: &Path, origin: &str) -> Diagnostic {
    let text = zonefile::no_soa(file, origin);
    Diagnostic::setup(span, format!("plugin/file: {text}")).help(format!(
        "give it one, as in `{origin} SOA ns1.{origin} admin.{origin} 1 7200 1800 86400 300`, or name the zone that the file is of behind it"
    ))
}

/// Findings for the wrong lines of the file that is named at `span`, each drawn.
pub(crate) fn of_lines(
    span: Span,
    lines: &WrongLines,
    headline: impl Fn(&WrongLine) -> String,
    help: &str,
) -> Findings {
    let mut found = Findings::default();
    for line in &lines.first {
        let excerpt = Excerpt {
            file: line.file.display().to_string(),
            line: line.line,
            text: line.drawn.to_string(),
            label: line.text.clone(),
        };
        found.error(Diagnostic::setup(span, headline(line)).help(help).excerpt(excerpt));
    }
    if let Some(more) = lines.more() {
        found.error(Diagnostic::setup(span, more));
    }
    found
}

/// The zone with these records.
pub(crate) fn zone_of(empty: RecordZone, records: &[Record]) -> RecordZone {
    let mut collector = Collector::default();
    for record in records {
        collector.add(&record.owner().to_buf(), record.rtype, record.ttl, &record.rdata, false);
    }
    build(empty, collector)
}

fn build(empty: RecordZone, collector: Collector) -> RecordZone {
    let mut builder = RecordZoneBuilder::new(empty);
    for (owner, sets) in collector.into_sets() {
        // What lies outside was left out by the reader.
        let _ = builder.set(owner.as_name(), sets);
    }
    builder.finish()
}

/// Something to tell when a hosts file has been read: how many entries there are, and when the file was changed.
pub type HostsNews = Arc<dyn Fn(&str, usize, Option<SystemTime>) + Send + Sync>;

/// The names of a `hosts` directive.
pub struct HostsFile {
    source: HostsSource,
    hash: NameHash,
    stamp: Option<Stamp>,
    news: HostsNews,
}

impl HostsFile {
    /// Not read yet.
    pub fn new(source: HostsSource, hash: NameHash, news: HostsNews) -> Self {
        Self {
            source,
            hash,
            stamp: None,
            news,
        }
    }

    /// Reads the file, which may be missing, and publishes what it and the lines in the Corefile say.
    pub fn start(&mut self, publisher: &Publisher) {
        let (zone, count) = self.first(&mut output::warning);
        self.publish(zone, count, publisher);
    }

    /// What the file says before anything is served, as `read`.
    pub(crate) fn first(&mut self, warn: &mut dyn FnMut(&str)) -> (RecordZone, usize) {
        let file = &self.source.settings.file;
        self.stamp = Stamp::of(file);
        if self.stamp.is_none() {
            warn(&format!("plugin/hosts: File does not exist: {}", shown(file).display()));
            return self.zone_of(&[], warn);
        }
        let text = read(file, FILE_BYTES_MAX).unwrap_or_else(|error| {
            warn(&format!("plugin/hosts: {}: {error}", file.display()));
            Vec::new()
        });
        self.zone_of(&text, warn)
    }

    /// The zone, and how many entries it has. What is odd about the file is told to `warn`.
    fn zone_of(&self, text: &[u8], warn: &mut dyn FnMut(&str)) -> (RecordZone, usize) {
        let settings = &self.source.settings;
        let place = settings.file.display();
        let mut left_out = 0;
        let bad = |line: BadLine| {
            left_out += 1;
            if left_out <= WARNINGS_MAX {
                warn(&format!(
                    "plugin/hosts: {place}:{}: {}; it is left out",
                    line.line, line.text
                ));
            }
        };
        let inline: String = settings.inline.iter().map(|host| format!("{}\n", host.text)).collect();
        // Lines that make no sense in the Corefile have been told with the configuration.
        let lines = hosts::entries(text, bad).chain(hosts::entries(inline.as_bytes(), |_| {}));
        let mut collector = Collector::default();
        let mut count = 0;
        for entry in lines {
            for name in entry.names {
                if settings
                    .zones
                    .iter()
                    .any(|zone| name.as_name().is_within(zone.as_name()))
                {
                    count += 1;
                    add(
                        &mut collector,
                        &name,
                        entry.address,
                        settings.ttl_secs,
                        !settings.no_reverse,
                    );
                }
            }
        }
        if left_out > WARNINGS_MAX {
            warn(&format!("plugin/hosts: {place}: {left_out} lines in all are left out"));
        }
        (
            build(RecordZone::unloaded(Name::ROOT, self.hash.clone()), collector),
            count,
        )
    }

    fn publish(&self, zone: RecordZone, count: usize, publisher: &Publisher) {
        publisher.zone(self.source.id, Zone::Records(zone));
        (self.news)(
            &self.source.settings.file.to_string_lossy(),
            count,
            self.stamp.and_then(|stamp| stamp.modified),
        );
    }

    /// What the file says now; none where it is as it was seen last, or cannot be read.
    fn look(&mut self) -> Option<(RecordZone, usize)> {
        let file = &self.source.settings.file;
        let stamp = Stamp::of(file);
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        let text = match self.stamp {
            Some(_) => read(file, FILE_BYTES_MAX).map_err(|error| error.to_string()),
            None => Err("it is gone".to_owned()),
        };
        match text {
            Ok(text) => Some(self.zone_of(&text, &mut output::warning)),
            Err(why) => {
                output::warning(&format!(
                    "plugin/hosts: {}: {why}; its names stay as they were",
                    file.display()
                ));
                None
            }
        }
    }

    /// Looks at the file every now and then, and when it is asked to, for ever.
    pub async fn follow(self, publisher: Arc<Publisher>, asked: Arc<sync::Notify>) {
        let every = self.source.settings.reload;
        let lost = "plugin/hosts: reading a hosts file failed for good; it is no longer looked at";
        follow(self, every, &asked, lost, Self::look, |own, seen| {
            if let Some((zone, count)) = seen {
                own.publish(zone, count, &publisher);
            }
        })
        .await;
    }
}

/// A path as the Corefile most likely has it: relative where it lies below the working directory.
fn shown(path: &Path) -> &Path {
    std::env::current_dir()
        .ok()
        .and_then(|own| path.strip_prefix(own).ok())
        .unwrap_or(path)
}

fn add(collector: &mut Collector, name: &NameBuf, address: IpAddr, ttl: u32, reverse: bool) {
    match address {
        IpAddr::V4(address) => collector.add(name, Rtype::A, ttl, &address.octets(), true),
        IpAddr::V6(address) => collector.add(name, Rtype::AAAA, ttl, &address.octets(), true),
    }
    let is_wildcard = name.as_name().first_label() == Some(b"*");
    if reverse
        && !is_wildcard
        && let Ok(owner) = reverse_name(address)
    {
        collector.add(&owner, Rtype::PTR, ttl, name.as_bytes(), true);
    }
}

/// The name that a reverse look-up of an address asks for (RFC 1035 §3.5, RFC 3596 §2.5).
fn reverse_name(address: IpAddr) -> Result<NameBuf, nodens_wire::NameError> {
    let text = match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let nibbles = address
                .octets()
                .into_iter()
                .rev()
                .flat_map(|byte| [byte & 15, byte >> 4]);
            let labels: String = nibbles.map(|nibble| format!("{nibble:x}.")).collect();
            format!("{labels}ip6.arpa.")
        }
    };
    NameBuf::from_text(&text)
}
