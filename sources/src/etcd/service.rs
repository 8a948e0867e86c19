//! A SkyDNS value: JSON with the leniency and the strictness of Go's `encoding/json`, which wrote most of them.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nodens_wire::NameBuf;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use thiserror::Error;

/// The TTL of a record whose key has neither lease nor `ttl`.
pub const TTL_DEFAULT: u32 = 300;
/// The priority of a value that names none, or 0.
pub const PRIORITY_DEFAULT: i64 = 10;
/// The weight share of a value that names none, or 0.
pub const WEIGHT_DEFAULT: i64 = 100;

/// A decoded value. Fields that it does not name are 0, `false` or empty; their defaults are applied by who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// What `host` is.
    pub host: Host,
    /// `host` as written: "same target" compares this.
    pub host_text: String,
    /// SRV port. Values above 65535 wrap; −1 means no SRV record.
    pub port: i64,
    /// SRV priority and MX preference; 0 counts as [`PRIORITY_DEFAULT`]. Values above 65535 wrap.
    pub priority: i64,
    /// SRV weight share; 0 counts as [`WEIGHT_DEFAULT`].
    pub weight: i64,
    /// TXT data.
    pub text: String,
    /// May be used as MX.
    pub mail: bool,
    /// Seconds; 0 is unset.
    pub ttl: u32,
    /// Labels to drop from made-up target names; none if not positive.
    pub targetstrip: i64,
    /// Narrows the answers of names above; empty is none.
    pub group: String,
}

/// What the `host` field turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived: the consumer keeps what it needs in its own form"
)]
pub enum Host {
    /// Not given.
    #[default]
    None,
    /// Dotted, or an IPv6 address that maps one.
    V4(Ipv4Addr),
    /// Any other IPv6 address.
    V6(Ipv6Addr),
    /// Anything else that can be a DNS name; letter case kept.
    Name(NameBuf),
    /// Neither an address nor encodable as a name: records that need it are left out. `text` still counts.
    Unencodable,
}

/// Why a value is no service.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct BadValue {
    reason: Box<str>,
}

impl Service {
    /// Decodes what a key holds.
    ///
    /// # Errors
    ///
    /// Anything but an object or `null`, and a known field of the wrong type, make the whole value bad.
    pub fn parse(value: &[u8]) -> Result<Self, BadValue> {
        let text = replaced(value);
        let mut json = serde_json::Deserializer::from_str(&text);
        let service = json
            .deserialize_any(ServiceVisitor)
            .and_then(|service| json.end().map(|()| service));
        service.map_err(|error| BadValue {
            reason: error.to_string().into(),
        })
    }

    /// Whether there is anything to answer with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.host_text.is_empty() && self.text.is_empty()
    }
}

impl Host {
    /// Addresses are what Go's `net.ParseIP` takes for one: no leading zeros, short forms, zones or brackets.
    fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::None;
        }
        match text.parse() {
            Ok(IpAddr::V4(address)) => Self::V4(address),
            Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().map_or(Self::V6(address), Self::V4),
            Err(_) => NameBuf::from_text(text).map_or(Self::Unencodable, Self::Name),
        }
    }
}

struct ServiceVisitor;

impl<'de> Visitor<'de> for ServiceVisitor {
    type Value = Service;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// `null` holds nothing.
    fn visit_unit<E>(self) -> Result<Service, E> {
        Ok(Service::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Service, A::Error> {
        let mut service = Service::default();
        // A field given twice: the last one wins. `null` leaves what was there.
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match Field::named(&name) {
                Some(Field::Host) => set(&mut service.host_text, map.next_value()?),
                Some(Field::Port) => set(&mut service.port, map.next_value()?),
                Some(Field::Priority) => set(&mut service.priority, map.next_value()?),
                Some(Field::Weight) => set(&mut service.weight, map.next_value()?),
                Some(Field::Text) => set(&mut service.text, map.next_value()?),
                Some(Field::Mail) => set(&mut service.mail, map.next_value()?),
                Some(Field::Ttl) => set(&mut service.ttl, map.next_value()?),
                Some(Field::TargetStrip) => set(&mut service.targetstrip, map.next_value()?),
                Some(Field::Group) => set(&mut service.group, map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        service.host = Host::parse(&service.host_text);
        Ok(service)
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

enum Field {
    Host,
    Port,
    Priority,
    Weight,
    Text,
    Mail,
    Ttl,
    TargetStrip,
    Group,
}

impl Field {
    /// Names match in any letter case, and so do the two letters outside ASCII that fold to one inside.
    fn named(name: &str) -> Option<Self> {
        let fold = |letter: char| match letter {
            '\u{17F}' => 's',
            '\u{212A}' => 'k',
            _ => letter.to_ascii_lowercase(),
        };
        let folded: String = name.chars().map(fold).collect();
        match folded.as_str() {
            "host" => Some(Self::Host),
            "port" => Some(Self::Port),
            "priority" => Some(Self::Priority),
            "weight" => Some(Self::Weight),
            "text" => Some(Self::Text),
            "mail" => Some(Self::Mail),
            "ttl" => Some(Self::Ttl),
            "targetstrip" => Some(Self::TargetStrip),
            "group" => Some(Self::Group),
            _ => None,
        }
    }
}

/// The text with U+FFFD for each byte that is not UTF-8 and for each lone surrogate escape.
///
/// Outside of strings U+FFFD is as wrong as what it stands for.
fn replaced(value: &[u8]) -> Cow<'_, str> {
    let text = match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(value.len() + 8);
            for chunk in value.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            Cow::Owned(text)
        }
    };
    let lone = lone_surrogates(text.as_bytes());
    if lone.is_empty() {
        return text;
    }
    let mut text = text.into_owned();
    for at in lone {
        text.replace_range(at..at + 6, r"\ufffd");
    }
    Cow::Owned(text)
}

/// Where `\uD8xx` stands without its other half, or the other half alone.
fn lone_surrogates(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' {
            at += 1;
            continue;
        }
        match escaped_unit(text, at) {
            Some(0xD800..=0xDBFF) if matches!(escaped_unit(text, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                found.push(at);
                at += 6;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    found
}

/// The number in `\uXXXX` at `at`.
fn escaped_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(br"\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
