//! Ports, addresses and files of one scenario, and the placeholders that stand for them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use regex::{Captures, Regex};
use tempfile::TempDir;

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{([A-Z][A-Z0-9]*)\}").expect("a valid pattern"));
static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A number that nobody can foresee; for ports and ids, not for data (that comes from seeds).
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A port that is free for UDP and TCP on loopback and that this process has not handed out before.
pub fn free_port() -> u16 {
    loop {
        // Below the range from which the kernel serves clients.
        let port = 20_000 + (random() % 12_000) as u16;
        // First of all it is taken: who tries one that another thread has got is in that one's way for a moment.
        if !locked(&HANDED_OUT).insert(port) {
            continue;
        }
        if UdpSocket::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// What belongs to one scenario alone.
pub struct World {
    folder: TempDir,
    ports: Mutex<BTreeMap<String, u16>>,
    addresses: Mutex<BTreeMap<String, Ipv4Addr>>,
    fixed: BTreeMap<String, String>,
}

impl World {
    /// An empty folder and no ports yet.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("case-").tempdir()?;
        let fixed = BTreeMap::from([("DIR".to_owned(), folder.path().display().to_string())]);
        Ok(Self {
            folder,
            ports: Mutex::default(),
            addresses: Mutex::default(),
            fixed,
        })
    }

    /// Gives a placeholder its value.
    pub fn set(&mut self, word: &str, value: impl Into<String>) {
        self.fixed.insert(word.to_owned(), value.into());
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder when the scenario is over, and returns it.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// The port of that name, the same each time.
    pub fn port(&self, word: &str) -> u16 {
        *locked(&self.ports).entry(word.to_owned()).or_insert_with(free_port)
    }

    /// The loopback address of that name (`IP2`), the same each time; other text is an address already.
    ///
    /// # Errors
    /// It is neither.
    pub fn address(&self, text: &str) -> Result<IpAddr, String> {
        if is_address_word(text) {
            return Ok(self.named_address(text).into());
        }
        text.parse().map_err(|_| format!("{text} is no address"))
    }

    fn named_address(&self, word: &str) -> Ipv4Addr {
        let part = || (1 + random() % 250) as u8;
        *locked(&self.addresses)
            .entry(word.to_owned())
            .or_insert_with(|| Ipv4Addr::new(127, part(), part(), part()))
    }

    /// Puts values in the place of placeholders; a word that nothing defines is a port.
    pub fn fill(&self, text: &str) -> String {
        let value = |found: &Captures<'_>| {
            let word = &found[1];
            match self.fixed.get(word) {
                Some(value) => value.clone(),
                None if is_address_word(word) => self.named_address(word).to_string(),
                None => self.port(word).to_string(),
            }
        };
        PLACEHOLDER.replace_all(text, value).into_owned()
    }

    /// Writes a file of the scenario, placeholders filled in; `None` deletes it.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, name: &str, text: Option<&str>) -> std::io::Result<()> {
        let path = self.folder().join(name);
        let Some(text) = text else {
            return std::fs::remove_file(path);
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, self.fill(text))
    }
}

/// A test that failed while it held the lock has broken nothing in these maps.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_address_word(word: &str) -> bool {
    word.strip_prefix("IP")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders() {
        let mut world = World::new().unwrap();
        world.set("ETCD", "http://x");
        let port = world.port("PORT");
        assert_eq!(
            world.fill("a:{PORT} {ETCD} {lower} {"),
            format!("a:{port} http://x {{lower}} {{")
        );
        assert_eq!(world.fill("{NOBODY}"), world.fill("{NOBODY}"));
        assert_ne!(world.fill("{NOBODY}"), world.fill("{PORT}"));
        assert_eq!(world.fill("{IP2}"), world.address("IP2").unwrap().to_string());
        assert!(world.fill("{IP2}").starts_with("127.") && world.address("IPX").is_err());
        assert_eq!(world.fill("{DIR}"), world.folder().display().to_string());
    }

    #[test]
    fn files() {
        let world = World::new().unwrap();
        world.write("a/b", Some("port {PORT}")).unwrap();
        let path = world.folder().join("a/b");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!("port {}", world.port("PORT"))
        );
        world.write("a/b", None).unwrap();
        assert!(!path.exists());
    }
}
