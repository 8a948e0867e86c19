//! Entries to records: directives, and what an entry leaves out.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodens_wire::{Name, NameBuf, Rclass, Rtype};

use super::generate::{Line, Range};
use super::scan::{Entry, Scanner, Token};
use crate::clip::clip;
use crate::wrong::WrongLines;

use super::{GENERATED_MAX, INCLUDE_DEPTH_MAX, INCLUDES_MAX, OneRecord, Record, ZoneFile, ZoneFileError, rdata, text};

/// The TTL where neither `$TTL` nor an earlier record gives one.
const TTL_DEFAULT: u32 = 3_600;

pub(super) fn load(
    file: &Path,
    contents: &[u8],
    zone: Name<'_>,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<ZoneFile, ZoneFileError> {
    let mut loader = Loader {
        zone,
        read,
        includes: 0,
        generated: 0,
        wrong: WrongLines::default(),
        is_over: false,
        found: ZoneFile::default(),
        serial: None,
        hides_soa: false,
    };
    let mut scope = Scope {
        origin: zone.to_buf().folded(),
        owner: None,
        dollar_ttl: None,
        last_ttl: None,
    };
    loader.file(file, contents, &mut scope, 0);
    let origin = || zone.to_string();
    let no_soa = loader.serial.is_none() && !loader.hides_soa;
    let (found, serial) = loader
        .wrong
        .or((loader.found, loader.serial))
        .map_err(|lines| ZoneFileError::Syntax {
            file: file.to_owned(),
            origin: origin(),
            lines,
            no_soa,
        })?;
    match serial {
        Some(serial) => Ok(ZoneFile { serial, ..found }),
        None => Err(ZoneFileError::NoSoa {
            file: file.to_owned(),
            origin: origin(),
        }),
    }
}

struct Loader<'z> {
    zone: Name<'z>,
    read: &'z dyn Fn(&Path) -> io::Result<Vec<u8>>,
    includes: usize,
    generated: usize,
    wrong: WrongLines,
    /// A limit was met: nothing more is read.
    is_over: bool,
    found: ZoneFile,
    serial: Option<u32>,
    /// A wrong line may be the SOA, or keep it from being read.
    hides_soa: bool,
}

/// What entries that leave something out inherit. An included file begins with a copy, and leaves none behind.
#[derive(Clone)]
struct Scope {
    origin: NameBuf,
    owner: Option<Owner>,
    dollar_ttl: Option<u32>,
    last_ttl: Option<u32>,
}

#[derive(Clone)]
struct Owner {
    as_written: NameBuf,
    folded: Arc<[u8]>,
}

impl Owner {
    fn new(name: NameBuf) -> Self {
        let folded = Arc::from(name.clone().folded().as_bytes());
        Self {
            as_written: name,
            folded,
        }
    }
}

impl Loader<'_> {
    /// Reads all of a file; what is wrong is noted.
    fn file(&mut self, file: &Path, contents: &[u8], scope: &mut Scope, depth: usize) {
        let mut scanner = Scanner::new(contents);
        while !self.is_over {
            let (line, done) = match scanner.next() {
                Ok(None) => return,
                Ok(Some(entry)) => {
                    let done = self.entry(file, &entry, scope, depth);
                    self.hides_soa |= done.is_err() && may_hide_soa(&entry);
                    (entry.line, done)
                }
                Err((line, text)) => {
                    self.hides_soa = true;
                    (line, Err(text))
                }
            };
            if let Err(text) = done {
                self.wrong.note(file, contents, line, clip(text));
            }
        }
    }

    fn entry(&mut self, file: &Path, entry: &Entry<'_>, scope: &mut Scope, depth: usize) -> Result<(), String> {
        let directive = entry
            .tokens
            .first()
            .filter(|first| !entry.indented && first.text.starts_with(b"$"));
        match directive {
            Some(word) if word.text.eq_ignore_ascii_case(b"$INCLUDE") => self.include(file, entry, scope, depth),
            Some(word) if word.text.eq_ignore_ascii_case(b"$GENERATE") => self.generate(entry, scope),
            Some(word) => directed(word, &entry.tokens[1..], scope),
            None => self.record(entry, scope),
        }
    }

    fn include(&mut self, file: &Path, entry: &Entry<'_>, scope: &Scope, depth: usize) -> Result<(), String> {
        let (named, origin) = match &entry.tokens[1..] {
            [named] => (named, scope.origin.clone()),
            [named, origin] => (named, text::name(origin.text, scope.origin.as_name())?.folded()),
            _ => return Err("$INCLUDE takes a file and, at most, an origin".to_owned()),
        };
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(format!("$INCLUDE more than {INCLUDE_DEPTH_MAX} deep"));
        }
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            self.is_over = true;
            return Err(format!("more than {INCLUDES_MAX} $INCLUDEs"));
        }
        let named = text::unescape(named.text)?;
        let named = String::from_utf8_lossy(&named).into_owned();
        let path = file
            .parent()
            .map_or_else(|| PathBuf::from(&named), |folder| folder.join(&named));
        let contents = (self.read)(&path).map_err(|error| format!("cannot include {}: {error}", path.display()))?;
        let mut inner = Scope {
            origin,
            ..scope.clone()
        };
        self.file(&path, &contents, &mut inner, depth + 1);
        Ok(())
    }

    /// The records of a `$GENERATE`. What stands behind it inherits nothing from them, and they no TTL but `$TTL`.
    fn generate(&mut self, entry: &Entry<'_>, scope: &Scope) -> Result<(), String> {
        let (range, line) = match &entry.tokens[1..] {
            [range, line @ ..] => (Range::parse(range.text)?, Line::parse(line)?),
            [] => return Err("$GENERATE takes a range and a record".to_owned()),
        };
        let mut inner = Scope {
            last_ttl: None,
            ..scope.clone()
        };
        let mut text = Vec::new();
        for number in range {
            self.generated += 1;
            if self.generated > GENERATED_MAX {
                self.is_over = true;
                return Err(format!("more than {GENERATED_MAX} records by $GENERATE"));
            }
            let generated = Entry {
                line: entry.line,
                indented: false,
                tokens: line.fill(number, &mut text)?,
            };
            self.record(&generated, &mut inner)?;
            inner.last_ttl = None;
        }
        Ok(())
    }

    fn record(&mut self, entry: &Entry<'_>, scope: &mut Scope) -> Result<(), String> {
        let mut tokens = entry.tokens.as_slice();
        if !entry.indented
            && let Some((first, rest)) = tokens.split_first()
        {
            tokens = rest;
            let name = text::name(first.text, scope.origin.as_name());
            // Lines below a wrong name that leave theirs out are not wrong for that.
            let known = name.as_ref().unwrap_or(&scope.origin).clone();
            scope.owner = Some(Owner::new(known));
            name?;
        }
        let owner = scope.owner.as_ref().ok_or("the first record names no owner")?;
        let (ttl, rtype, data) = head(tokens)?;
        if let Some(ttl) = ttl {
            scope.last_ttl = Some(ttl);
        }
        let ttl = ttl.or(scope.dollar_ttl).or(scope.last_ttl).unwrap_or(TTL_DEFAULT);
        match rtype {
            // Zones that are signed for them would be answered wrongly.
            Rtype::NSEC3 | Rtype::NSEC3PARAM => return Err(format!("{rtype} is not supported")),
            rtype if rtype.is_meta() => return Err(format!("{rtype} is no type of data")),
            _ => {}
        }
        let rdata = parsed(rtype, data, scope.origin.as_name())?;
        if !owner.as_written.as_name().is_within(self.zone) {
            self.found.outside += 1;
            return Ok(());
        }
        if rtype == Rtype::SOA && owner.as_written == self.zone {
            if self.serial.is_some() {
                self.found.more_soas += 1;
                self.found
                    .records
                    .retain(|record| record.rtype != Rtype::SOA || record.owner != owner.folded);
            }
            self.serial = rdata::soa_serial(&rdata);
        }
        // Names of service instances are meant for people to read (RFC 6763 §4.1.1).
        let owner = match rtype {
            Rtype::SRV => Arc::from(owner.as_written.as_bytes()),
            _ => Arc::clone(&owner.folded),
        };
        self.found.records.push(Record {
            owner,
            rtype,
            ttl,
            rdata: rdata.into(),
        });
        Ok(())
    }
}

/// Whether the zone may have its SOA in an entry, or with the names and files that it is about.
fn may_hide_soa(entry: &Entry<'_>) -> bool {
    let directs = |token: &Token<'_>| token.text.starts_with(b"$") && !token.text.eq_ignore_ascii_case(b"$TTL");
    entry.tokens.first().is_some_and(directs)
        || entry.tokens.iter().any(|token| token.text.eq_ignore_ascii_case(b"SOA"))
}

/// One record as a line of a zone file has it, with names that are absolute whether they end in a dot or not; its class does
/// not count.
pub(super) fn record(line: &str) -> Result<OneRecord, String> {
    let entry = Scanner::new(line.as_bytes()).next().map_err(|(_, why)| why)?;
    let entry = entry.ok_or("there is no record")?;
    let (owner, rest) = entry.tokens.split_first().ok_or("there is no record")?;
    let owner = text::name(owner.text, Name::ROOT)?;
    let is_class = |token: &Token<'_>| String::from_utf8_lossy(token.text).parse::<Rclass>().is_ok();
    let mut tokens = rest.to_vec();
    if let Some(at) = rest.iter().take(2).position(is_class) {
        tokens.remove(at);
    }
    let (ttl, rtype, data) = head(&tokens)?;
    if rtype.is_meta() {
        return Err(format!("{rtype} is no type of data"));
    }
    let rdata = parsed(rtype, data, Name::ROOT)?;
    Ok(OneRecord {
        owner,
        rtype,
        ttl: ttl.unwrap_or(TTL_DEFAULT),
        rdata,
    })
}

/// The data of a record, which fit into one.
fn parsed(rtype: Rtype, data: &[Token<'_>], origin: Name<'_>) -> Result<Vec<u8>, String> {
    let rdata = rdata::parse(rtype, data, origin).map_err(|why| format!("{rtype}: {why}"))?;
    if rdata.len() > usize::from(u16::MAX) {
        return Err(format!("{rtype}: more than 65,535 bytes of data"));
    }
    Ok(rdata)
}

/// TTL and class, in either order, both optional, then the type; what follows is the data.
fn head<'a, 't>(mut tokens: &'a [Token<'t>]) -> Result<(Option<u32>, Rtype, &'a [Token<'t>]), String> {
    let mut ttl = None;
    let mut class = None;
    while let Some((first, rest)) = tokens.split_first() {
        tokens = rest;
        let word = String::from_utf8_lossy(first.text);
        if word.starts_with(|first: char| first.is_ascii_digit()) && ttl.is_none() {
            ttl = Some(text::seconds(first.text)?);
        } else if let Some(found) = word.parse::<Rclass>().ok().filter(|_| class.is_none()) {
            if found != Rclass::IN {
                return Err(format!("class {found} is not supported"));
            }
            class = Some(found);
        } else {
            let rtype = word
                .parse()
                .map_err(|_| format!("unknown type \"{}\"", first.text.escape_ascii()))?;
            return Ok((ttl, rtype, tokens));
        }
    }
    Err("a record without a type".to_owned())
}

fn directed(word: &Token<'_>, arguments: &[Token<'_>], scope: &mut Scope) -> Result<(), String> {
    let upper = word.text.to_ascii_uppercase();
    let named = String::from_utf8_lossy(&upper).into_owned();
    match (upper.as_slice(), arguments) {
        (b"$ORIGIN", [origin]) => scope.origin = text::name(origin.text, scope.origin.as_name())?.folded(),
        (b"$TTL", [ttl]) => scope.dollar_ttl = Some(text::seconds(ttl.text)?),
        (b"$ORIGIN" | b"$TTL", _) => return Err(format!("{named} takes one argument")),
        _ => {
            return Err(format!(
                "unknown directive {named}: there are $ORIGIN, $TTL, $INCLUDE and $GENERATE"
            ));
        }
    }
    Ok(())
}
