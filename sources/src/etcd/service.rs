//! A SkyDNS value: JSON with the leniency and the strictness of Go's `encoding/json`, which wrote most of them.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nodens_wire::NameBuf;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use thiserror::Error;

use crate::clip::clip;

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
pub enum Host {
    /// Not given.
    #[default]
    None,
    /// Dotted, or an IPv6 address that maps one.
    V4(Ipv4Addr),
    /// Any other IPv6 address.
    V6(Ipv6Addr),
    /// Anything else that can be a DNS name; letter case kept. Boxed, as most hosts are addresses.
    Name(Box<NameBuf>),
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
            reason: clip(error.to_string()).into(),
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
            // No zone file, where this stands for its origin.
            Err(_) if text == "@" => Self::parse(r"\@"),
            Err(_) => NameBuf::from_text(text).map_or(Self::Unencodable, |name| Self::Name(Box::new(name))),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(value: &str) -> Service {
        Service::parse(value.as_bytes()).unwrap()
    }

    #[track_caller]
    fn bad(value: &[u8]) {
        assert!(Service::parse(value).is_err(), "{}", value.escape_ascii());
    }

    #[test]
    fn every_field() {
        let service = parse(
            r#" {"host":"192.0.2.1","port":-1,"priority":20,"weight":70000,"text":"t","mail":true,"ttl":4294967295,
                "targetstrip":2,"group":"g","key":"/x"} "#,
        );
        let expected = Service {
            host: Host::V4(Ipv4Addr::new(192, 0, 2, 1)),
            host_text: "192.0.2.1".to_owned(),
            port: -1,
            priority: 20,
            weight: 70_000,
            text: "t".to_owned(),
            mail: true,
            ttl: u32::MAX,
            targetstrip: 2,
            group: "g".to_owned(),
        };
        assert_eq!(service, expected);
    }

    #[test]
    fn nothing_is_valid() {
        for value in [
            "null",
            "{}",
            " null\n",
            r#"{"host":null,"port":null,"mail":null,"ttl":null}"#,
        ] {
            let service = parse(value);
            assert_eq!(service, Service::default());
            assert!(service.is_empty());
        }
    }

    #[test]
    fn field_names_match_in_any_letter_case_and_the_last_one_wins() {
        assert_eq!(parse(r#"{"HOST":"a","Host":"b"}"#).host_text, "b");
        assert_eq!(parse(r#"{"host":"a","HOST":null}"#).host_text, "a");
        assert_eq!(parse(r#"{"TargetStrip":1,"PORT":2}"#).port, 2);
        assert_eq!(parse("{\"ho\u{17f}t\":\"a\"}").host_text, "a");
        assert_eq!(parse(r#"{"h\u006fst":"a"}"#).host_text, "a");
    }

    #[test]
    fn unknown_fields_are_ignored_whatever_they_hold() {
        let nested = format!(r#"{{"x":{}1{},"port":3}}"#, "[".repeat(100), "]".repeat(100));
        assert_eq!(parse(&nested).port, 3);
        assert_eq!(parse(r#"{"ownedby":"me","y":1e400,"z":{"host":5},"port":3}"#).port, 3);
    }

    #[test]
    fn wrong_types_and_broken_texts_are_bad() {
        for value in [
            r#"{"port":"80"}"#,
            r#"{"port":80.0}"#,
            r#"{"port":8e1}"#,
            r#"{"host":5}"#,
            r#"{"ttl":-1}"#,
            r#"{"ttl":4294967296}"#,
            r#"{"port":9223372036854775808}"#,
            r#"{"mail":"true"}"#,
            r#"{"mail":1}"#,
            r#"{"text":["a"]}"#,
            r#"{"host":{}}"#,
            "[]",
            r#"["host"]"#,
            r#""host""#,
            "5",
            "true",
            "",
            " ",
            "{",
            "just text",
            r#"{"host":"192.0.2.242""#,
            r#"{"host":"a"} x"#,
            r#"{"host":"a",}"#,
            r#"{host:"a"}"#,
            "{'host':'a'}",
            "{\"host\":\"a\nb\"}",
            "nul",
        ] {
            bad(value.as_bytes());
        }
        bad(b"\xff{}");
        bad(b"{}\xff");
    }

    #[test]
    fn what_is_not_utf8_becomes_the_replacement_character() {
        let text = |value: &[u8]| Service::parse(value).unwrap().text;
        assert_eq!(text(b"{\"text\":\"a\xffb\"}"), "a\u{fffd}b");
        assert_eq!(text(b"{\"text\":\"a\xe2\x82b\"}"), "a\u{fffd}\u{fffd}b");
        assert_eq!(text(br#"{"text":"\ud800"}"#), "\u{fffd}");
        assert_eq!(text(br#"{"text":"\udc00\uD800\u0041"}"#), "\u{fffd}\u{fffd}A");
        assert_eq!(text(br#"{"text":"\ud83d\ude00"}"#), "\u{1f600}");
        assert_eq!(text(br#"{"text":"\\ud800"}"#), r"\ud800");
    }

    #[test]
    fn what_counts_as_an_address() {
        let check = |text: &str, expected: Host| assert_eq!(Host::parse(text), expected, "{text}");
        let name = |text: &str| Host::Name(Box::new(NameBuf::from_text(text).unwrap()));
        check("", Host::None);
        check("192.0.2.1", Host::V4(Ipv4Addr::new(192, 0, 2, 1)));
        check("::ffff:192.0.2.4", Host::V4(Ipv4Addr::new(192, 0, 2, 4)));
        check("2001:0DB8:0:0:0:0:0:9", Host::V6("2001:db8::9".parse().unwrap()));
        check("::1.2.3.4", Host::V6("::102:304".parse().unwrap()));
        for text in [
            "192.0.2",
            "192.0.02.1",
            "192.0.2.256",
            "[2001:db8::1]",
            "fe80::1%eth0",
            "192.0.2.1:80",
            "far",
            "far.test.",
        ] {
            check(text, name(text));
        }
        check(".", Host::Name(Box::new(NameBuf::root())));
        check("a..b", Host::Unencodable);
        check(&"x".repeat(64), Host::Unencodable);
    }

    #[test]
    fn an_unencodable_host_leaves_the_text_usable() {
        let service = parse(&format!(r#"{{"host":"{}","text":"t"}}"#, "x".repeat(64)));
        assert_eq!((service.host, service.text.as_str()), (Host::Unencodable, "t"));
    }

    #[test]
    fn the_reason_says_what_and_where() {
        let reason = Service::parse(br#"{"port":"80"}"#).unwrap_err().to_string();
        assert_eq!(reason, r#"invalid type: string "80", expected i64 at line 1 column 12"#);
    }

    proptest! {
        #[test]
        fn no_value_panics(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            crate::fuzzing::service(&value);
        }

        #[test]
        fn no_likely_value_panics(words in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", "\"host\"", "\"text\"", ":", ",", "null", "1", "-", "\"", "\\u", "d800", "\\", "\u{17f}", " ",
        ]), 0..30)) {
            crate::fuzzing::service(words.concat().as_bytes());
        }
    }
}
