//! The zone files of a folder: walked at the start and every now and then, published as one set of zones.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nodens_engine::plan::ZoneMap;
use nodens_engine::snapshot::ZoneId;
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{RecordZone, Zone};
use nodens_sources::zonefile::{ZoneFile, ZoneFileError};
use nodens_wire::NameBuf;
use tokio::sync::Notify;

use crate::corefile::settings;
use crate::files::{FILE_BYTES_MAX, Stamp, read, zone_of};
use crate::follow::follow;
use crate::notify;
use crate::output;
use crate::publish::Publisher;

/// An `auto` stanza.
#[derive(Clone, Debug)]
pub struct AutoSource {
    /// Where its zones are published.
    pub id: ZoneId,
    /// The stanza.
    pub settings: settings::Auto,
    /// Where it says which zones it has found.
    pub names: Arc<AutoNames>,
    /// Who is told of new versions.
    pub transfer: Vec<settings::Transfer>,
}

/// The names of the zones that an `auto` stanza has found: counters carry them.
#[derive(Debug)]
pub struct AutoNames {
    names: Mutex<Vec<NameBuf>>,
    changed: Arc<Notify>,
}

impl AutoNames {
    /// None yet; `changed` is told when there are others.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self {
            names: Mutex::default(),
            changed,
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<NameBuf> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, names: Vec<NameBuf>) {
        let mut own = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if *own != names {
            *own = names;
            self.changed.notify_one();
        }
    }
}

/// The zones of an `auto` stanza.
#[derive(Debug)]
pub struct AutoZones {
    source: AutoSource,
    hash: NameHash,
    /// By name as the file's name gives it, letter case and all.
    zones: BTreeMap<String, Loaded>,
}

/// A zone that has been read.
#[derive(Debug)]
struct Loaded {
    name: NameBuf,
    path: PathBuf,
    stamp: Option<Stamp>,
    serial: u32,
    zone: RecordZone,
}

/// A file whose name says that it is a zone's.
struct Found {
    name: NameBuf,
    path: PathBuf,
}

impl AutoZones {
    /// Not read yet.
    pub fn new(source: AutoSource, hash: NameHash) -> Self {
        Self {
            source,
            hash,
            zones: BTreeMap::new(),
        }
    }

    /// Walks the folder at the start and publishes what is there.
    pub fn start(&mut self, publisher: &Publisher) {
        if !self.source.settings.directory.exists() {
            output::warning(&absent(&self.source.settings));
        }
        self.look();
        self.publish(publisher);
    }

    /// Tells what would be odd about the folder at the start, were it now. Nothing of it stops the start.
    pub(crate) fn warn(&self, warn: &mut dyn FnMut(&str)) {
        if !self.source.settings.directory.exists() {
            return warn(&absent(&self.source.settings));
        }
        for (text, Found { name, path }) in self.found(warn) {
            if let Err(error) = load(&path, &name) {
                for line in error.sentences() {
                    warn(&format!("plugin/auto: Parse zone `{text}': {line}"));
                }
            }
        }
    }

    /// Walks the folder every now and then, and when it is asked to, for ever.
    pub async fn follow(self, publisher: Arc<Publisher>, asked: Arc<Notify>) {
        self.notify();
        let every = self.source.settings.reload;
        let lost = "plugin/auto: reading a zone file failed for good; the folder is no longer looked at";
        follow(self, every, &asked, lost, Self::look, |own, changed| {
            if changed {
                own.publish(&publisher);
            }
            // As CoreDNS does, whether or not something changed.
            own.notify();
        })
        .await;
    }

    fn publish(&self, publisher: &Publisher) {
        let mut zones = ZoneMap::new(self.hash.clone());
        for (text, loaded) in &self.zones {
            // Questions are compared in lower case, so no other zone is ever asked.
            if *text == loaded.name.clone().folded().to_string() {
                zones.entry(&loaded.name, || loaded.zone.clone());
            }
        }
        self.source
            .names
            .set(zones.iter().map(|(zone, _)| zone.clone()).collect());
        publisher.zone(self.source.id, Zone::Several(zones));
    }

    fn notify(&self) {
        for loaded in self.zones.values() {
            if let Some(notify) = notify::Notify::of(&self.source.transfer, &loaded.name) {
                notify.send();
            }
        }
    }

    /// Walks the folder once; tells whether the zones have changed.
    fn look(&mut self) -> bool {
        let found = self.found(&mut output::warning);
        let mut changed = false;
        let gone: Vec<String> = self
            .zones
            .keys()
            .filter(|zone| !found.contains_key(*zone))
            .cloned()
            .collect();
        for zone in gone {
            output::info(&format!("plugin/auto: Deleting zone `{zone}'"));
            self.zones.remove(&zone);
            changed = true;
        }
        for (text, found) in found {
            changed |= match self.zones.get(&text) {
                Some(old) if old.path == found.path => self.look_again(&text),
                _ => self.insert(text, found),
            };
        }
        changed
    }

    /// The zones that files are there for: of several files of one zone that in use, else the first.
    fn found(&self, warn: &mut dyn FnMut(&str)) -> BTreeMap<String, Found> {
        let mut paths = Vec::new();
        let folder = &self.source.settings.directory;
        if let Err(error) = walk(folder, &mut paths, warn) {
            warn(&format!("plugin/auto: error reading {}: {error}", folder.display()));
        }
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        for path in paths {
            let Some(name) = self.zone_named_by(&path, warn) else {
                continue;
            };
            let text = name.to_string();
            let in_use = self.zones.get(&text).is_some_and(|loaded| loaded.path == path);
            let Some(first) = found.get_mut(&text) else {
                found.insert(text, Found { name, path });
                continue;
            };
            let unused = if in_use {
                std::mem::replace(&mut first.path, path)
            } else {
                path
            };
            warn(&format!(
                "plugin/auto: {} is left out: zone `{text}' comes from {}",
                unused.display(),
                first.path.display()
            ));
        }
        found
    }

    /// The zone that the name of a file gives.
    fn zone_named_by(&self, path: &Path, warn: &mut dyn FnMut(&str)) -> Option<NameBuf> {
        let base = path.file_name()?.to_string_lossy();
        let captures = self.source.settings.pattern.captures(&base)?;
        let mut text = String::new();
        captures.expand(&self.source.settings.template, &mut text);
        let name = NameBuf::from_text(&text);
        if let Err(error) = &name {
            warn(&format!(
                "plugin/auto: {}: \"{text}\" is no zone: {error}",
                path.display()
            ));
        }
        name.ok()
    }

    fn insert(&mut self, text: String, found: Found) -> bool {
        let Found { name, path } = found;
        let stamp = Stamp::of(&path);
        match load(&path, &name) {
            Ok(file) => {
                output::info(&format!(
                    "plugin/auto: Inserting zone `{text}' from: {}",
                    path.display()
                ));
                let loaded = Loaded {
                    zone: self.build(&name, &file),
                    serial: file.serial,
                    name,
                    path,
                    stamp,
                };
                self.zones.insert(text, loaded);
                true
            }
            Err(error) => {
                output::warning(&format!("plugin/auto: Parse zone `{text}': {error}"));
                false
            }
        }
    }

    /// Reads a known file again where it has changed.
    fn look_again(&mut self, text: &str) -> bool {
        let Some(loaded) = self.zones.get_mut(text) else {
            return false;
        };
        let stamp = Stamp::of(&loaded.path);
        if stamp == loaded.stamp {
            return false;
        }
        loaded.stamp = stamp;
        let (path, name, serial) = (loaded.path.clone(), loaded.name.clone(), loaded.serial);
        match load(&path, &name) {
            Ok(file) if file.serial == serial => false,
            Ok(file) => {
                let zone = self.build(&name, &file);
                if let Some(loaded) = self.zones.get_mut(text) {
                    (loaded.zone, loaded.serial) = (zone, file.serial);
                }
                let serial = file.serial;
                output::info(&format!(
                    "plugin/auto: Successfully reloaded zone `{text}' with serial {serial}"
                ));
                true
            }
            Err(error) => {
                output::warning(&format!(
                    "plugin/auto: Parse zone `{text}': {error}; the zone stays as it was"
                ));
                false
            }
        }
    }

    fn build(&self, name: &NameBuf, file: &ZoneFile) -> RecordZone {
        zone_of(RecordZone::unloaded(name.as_name(), self.hash.clone()), &file.records)
    }
}

fn absent(settings: &settings::Auto) -> String {
    format!("plugin/auto: Directory does not exist: {}", settings.directory_word)
}

fn load(path: &Path, zone: &NameBuf) -> Result<ZoneFile, ZoneFileError> {
    ZoneFile::load(path, zone.as_name(), &|path| read(path, FILE_BYTES_MAX))
}

/// The files below a folder in the order of their names. Links to files are followed, links to folders are not.
fn walk(folder: &Path, files: &mut Vec<PathBuf>, warn: &mut dyn FnMut(&str)) -> io::Result<()> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder)?.collect();
    let mut entries = entries?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            // One that may not be read hides only what is in it.
            if let Err(error) = walk(&path, files, warn) {
                warn(&format!("plugin/auto: error reading {}: {error}", path.display()));
            }
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        for name in ["c", "a", "b/z", "b/y/x"] {
            write(name);
        }
        std::os::unix::fs::symlink(folder.path().join("a"), folder.path().join("d")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("b"), folder.path().join("e")).unwrap();
        let mut files = Vec::new();
        walk(folder.path(), &mut files, &mut |_| {}).unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|file| file.strip_prefix(folder.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b/y/x", "b/z", "c", "d"]);
    }
}
