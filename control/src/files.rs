//! Zone files and hosts files: read at the start, looked at again, published when they changed.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{Collector, RecordZone, RecordZoneBuilder, Zone};
use nodens_sources::Record;
use nodens_sources::hosts::{self, BadLine};
use nodens_sources::zonefile::{ZoneFile, ZoneFileError};
use nodens_wire::{Name, NameBuf, Rtype};
use tokio::sync;

use crate::compile::{FileSource, HostsSource};
use crate::notify::Notify;
use crate::output;
use crate::publish::Publisher;

/// Wrong lines of one file that are told one by one.
const WARNINGS_MAX: usize = 10;

/// Largest file that is read.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Reads a regular file of at most so many bytes.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
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
    pub fn start(&mut self, publisher: &Publisher) -> Result<(), ZoneFileError> {
        self.stamp = Stamp::of(&self.source.settings.db_file);
        match self.load() {
            Ok(file) => self.publish(&file, publisher),
            Err(error @ ZoneFileError::Unreadable { .. }) if !self.source.settings.reload.is_zero() => {
                output::warning(&format!(
                    "plugin/file: Failed to open zone {}: {error}",
                    self.source.zone
                ));
                let empty = RecordZone::unloaded(self.source.zone.as_name(), self.hash.clone());
                publisher.zone(self.source.id, Zone::Records(empty));
            }
            Err(error) => return Err(error),
        }
        Ok(())
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
        if file.outside > 0 {
            let FileSource { zone, settings, .. } = &self.source;
            let count = file.outside;
            output::warning(&format!(
                "plugin/file: {count} records of {} lie outside zone {zone} and are left out",
                settings.db_file_word
            ));
        }
        let empty = RecordZone::unloaded(self.source.zone.as_name(), self.hash.clone());
        let zone = zone_of(empty, &file.records);
        self.serial = Some(file.serial);
        publisher.zone(self.source.id, Zone::Records(zone));
    }

    /// Tells others to look for a new version; also when there is none, since a file could not be read, as CoreDNS does.
    fn notify(&self) {
        self.source.notify.iter().for_each(Notify::send);
    }

    /// Looks at the file every now and then, and when it is asked to, for ever.
    pub async fn follow(mut self, publisher: Arc<Publisher>, asked: Arc<sync::Notify>) {
        self.notify();
        loop {
            pause(self.source.settings.reload, &asked).await;
            let stamp = Stamp::of(&self.source.settings.db_file);
            if stamp.is_none() || stamp == self.stamp {
                continue;
            }
            self.stamp = stamp;
            // Parsing a large file takes a while; other tasks go on meanwhile.
            let parsed = tokio::task::spawn_blocking(move || {
                let result = self.load();
                (self, result)
            });
            // A panic of the parser leaves the last good zone up.
            let Ok((zone, result)) = parsed.await else {
                return output::error("plugin/file: reading a zone file failed for good; it is no longer looked at");
            };
            self = zone;
            match result {
                Ok(file) if self.serial == Some(file.serial) && !self.source.settings.reload_by_mtime => {}
                Ok(file) => {
                    self.publish(&file, &publisher);
                    let serial = file.serial;
                    output::info(&format!(
                        "plugin/file: Successfully reloaded zone {} with serial {serial}",
                        self.source.zone
                    ));
                    self.notify();
                }
                Err(error) => {
                    self.notify();
                    output::warning(&format!("plugin/file: {error}; the zone stays as it was"));
                }
            }
        }
    }
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
        let file = &self.source.settings.file;
        self.stamp = Stamp::of(file);
        if self.stamp.is_none() {
            output::warning(&format!("plugin/hosts: File does not exist: {}", shown(file).display()));
        }
        let (zone, count) = self.read();
        self.publish(zone, count, publisher);
    }

    /// The zone, and how many entries it has.
    fn read(&self) -> (RecordZone, usize) {
        let settings = &self.source.settings;
        let text = match self.stamp {
            Some(_) => read(&settings.file, FILE_BYTES_MAX).unwrap_or_else(|error| {
                output::warning(&format!("plugin/hosts: {}: {error}", settings.file.display()));
                Vec::new()
            }),
            None => Vec::new(),
        };
        let place = settings.file.display();
        let left_out = Cell::new(0_usize);
        let bad = |line: BadLine| {
            left_out.set(left_out.get() + 1);
            if left_out.get() <= WARNINGS_MAX {
                output::warning(&format!(
                    "plugin/hosts: {place}:{}: {}; it is left out",
                    line.line, line.text
                ));
            }
        };
        let inline: String = settings.inline.iter().map(|host| format!("{}\n", host.text)).collect();
        // Lines that make no sense in the Corefile have been told with the configuration.
        let lines = hosts::entries(&text, bad).chain(hosts::entries(inline.as_bytes(), |_| {}));
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
        if left_out.get() > WARNINGS_MAX {
            output::warning(&format!(
                "plugin/hosts: {place}: {} lines in all are left out",
                left_out.get()
            ));
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

    /// Looks at the file every now and then, and when it is asked to, for ever.
    pub async fn follow(mut self, publisher: Arc<Publisher>, asked: Arc<sync::Notify>) {
        loop {
            pause(self.source.settings.reload, &asked).await;
            let stamp = Stamp::of(&self.source.settings.file);
            if stamp == self.stamp {
                continue;
            }
            self.stamp = stamp;
            // A large file takes a while, and a slow disk longer; other tasks go on meanwhile.
            let read = tokio::task::spawn_blocking(move || {
                let (zone, count) = self.read();
                (self, zone, count)
            });
            let Ok((hosts, zone, count)) = read.await else {
                return output::error("plugin/hosts: reading a hosts file failed for good; it is no longer looked at");
            };
            self = hosts;
            self.publish(zone, count, &publisher);
        }
    }
}

/// Waits for the time, unless it is zero, or until somebody asks.
pub(crate) async fn pause(every: Duration, asked: &sync::Notify) {
    if every.is_zero() {
        return asked.notified().await;
    }
    tokio::select! {
        () = tokio::time::sleep(every) => {}
        () = asked.notified() => {}
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
