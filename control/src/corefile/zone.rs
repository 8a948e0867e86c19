//! Zones as users write them: names, nets, and the keys of server blocks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nodens_wire::{Name, NameBuf};
use thiserror::Error;

use super::diagnostic::{Diagnostic, nearest};
use super::lexer::Word;
use super::settings::{Key, Scheme};

/// Longest text of a zone, as in CoreDNS; escapes can make a shorter name of it.
pub(super) const ZONE_TEXT_MAX: usize = 255;

/// Transports that CoreDNS knows and nodens does not have yet.
const SCHEMES_MISSING: [&str; 4] = ["quic", "grpc", "https", "https3"];
/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;

/// Why a text is no zone; worded as CoreDNS does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ZoneError {
    /// `cedar.example:`
    #[error("expecting data after last colon: {0:?}")]
    ColonLast(String),
    /// A port that does not fit into 16 bits.
    #[error("invalid port: {0}")]
    Port(String),
    /// Over [`ZONE_TEXT_MAX`].
    #[error("specified zone is too long: {0} > {ZONE_TEXT_MAX}")]
    Long(usize),
    /// Not a name.
    #[error("zone is not a valid domain name: {0}")]
    Name(String),
    /// What looks like a net written for the wrong reader.
    #[error("invalid CIDR {0}")]
    Cidr(String),
}

/// The zones that `ZONE[:PORT]` stands for, several where a net's border is not one of names, and the port.
pub(super) fn parse(text: &str) -> Result<(Vec<NameBuf>, Option<u16>), ZoneError> {
    let (zone, port) = match text.rsplit_once(':') {
        Some((_, "")) => return Err(ZoneError::ColonLast(text.to_owned())),
        // The colons of an IPv6 net are followed by its mask, so digits alone behind the last one are a port.
        Some((zone, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (zone, Some(port.parse().map_err(|_| ZoneError::Port(port.to_owned()))?))
        }
        _ => (text, None),
    };
    if zone.len() > ZONE_TEXT_MAX {
        return Err(ZoneError::Long(zone.len()));
    }
    if zone.starts_with(':') && zone.len() > 1 || zone.starts_with('0') && zone.contains(':') {
        return Err(ZoneError::Cidr(zone.to_owned()));
    }
    if let Some(zones) = reverse_zones(zone) {
        return Ok((zones, port));
    }
    let name = NameBuf::from_text(zone).map_err(|_| ZoneError::Name(zone.to_owned()))?;
    Ok((vec![name.folded()], port))
}

/// The zones of a word of a directive, where the scheme and the port of a key may stand and mean nothing.
pub(super) fn of_directive(text: &str) -> Result<Vec<NameBuf>, ZoneError> {
    let is_scheme = |scheme: &str| matches!(scheme, "dns" | "tls") || SCHEMES_MISSING.contains(&scheme);
    let text = match text.split_once("://") {
        Some((scheme, zone)) if is_scheme(scheme) => zone,
        _ => text,
    };
    parse(text).map(|(zones, _)| zones)
}

/// Parses a key of a server block.
pub(super) fn keys(word: &Word, default_port: u16) -> Result<Vec<Key>, Diagnostic> {
    let (scheme, text, default_port) = match word.text.split_once("://") {
        None => (Scheme::Dns, &*word.text, default_port),
        Some(("dns", text)) => (Scheme::Dns, text, default_port),
        Some(("tls", text)) => (Scheme::Tls, text, TLS_PORT),
        Some((scheme, _)) if SCHEMES_MISSING.contains(&scheme) => {
            let text = format!("nodens does not serve {scheme}:// yet");
            return Err(Diagnostic::error(word.span, text).help("use `dns://` or `tls://`"));
        }
        Some((scheme, _)) => {
            let error = Diagnostic::error(word.span, ZoneError::Name(word.text.to_string()).to_string());
            return Err(
                match nearest(scheme, SCHEMES_MISSING.into_iter().chain(["dns", "tls"])) {
                    Some(near) => error.help(format!("did you mean `{near}://`?")),
                    None => error.help("of the transports nodens has `dns://`, which may be left out, and `tls://`"),
                },
            );
        }
    };
    let (zones, port) = parse(text).map_err(|error| {
        let diagnostic = Diagnostic::error(word.span, error.to_string());
        match error {
            ZoneError::ColonLast(_) => diagnostic.help("write the port behind the colon, or no colon"),
            ZoneError::Port(_) => diagnostic.help("a port is a number from 0 to 65535"),
            ZoneError::Name(zone) if zone.is_empty() => diagnostic
                .label("a zone must stand in front of the port")
                .help(format!("for all names write `.{text}`")),
            ZoneError::Cidr(_) => diagnostic.help("write the first group of the net, without a zero in front"),
            ZoneError::Name(_) | ZoneError::Long(_) => {
                diagnostic.help("labels have 1 to 63 bytes, a zone at most 255; `.` is for all names")
            }
        }
    })?;
    let port = port.unwrap_or(default_port);
    Ok(zones
        .into_iter()
        .map(|zone| Key {
            scheme,
            zone,
            port,
            span: word.span,
        })
        .collect())
}

/// Names of addresses lie below it.
pub fn is_reverse(zone: Name<'_>) -> bool {
    const ARPA: [&[u8]; 2] = [b"\x07in-addr\x04arpa\0", b"\x03ip6\x04arpa\0"];
    let mut arpa = ARPA.into_iter().filter_map(|name| Name::from_wire(name).ok());
    arpa.any(|arpa| zone.is_within(arpa))
}

/// Whether a zone keeps to the syntax for names of hosts (RFC 1035 §2.3.1). The root and reverse zones are let pass.
pub fn is_preferred(zone: Name<'_>) -> bool {
    let is_alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_preferred = |label: &[u8]| {
        label.first().is_some_and(u8::is_ascii_alphabetic)
            && is_alphanumeric(label.last())
            && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    is_reverse(zone) || zone.labels().all(is_preferred)
}

/// The reverse zones of a net in CIDR notation; host bits do not count. None where the text is no net.
fn reverse_zones(text: &str) -> Option<Vec<NameBuf>> {
    let (address, mask) = text.split_once('/')?;
    if mask.is_empty() || !mask.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mask: u32 = mask.parse().ok()?;
    // The bits of the address at the top of a word, the bits of a label, the labels of an address.
    let (bits, label_bits, labels, suffix) = match address.parse().ok()? {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 8, 4, "in-addr.arpa."),
        IpAddr::V6(address) => (address.to_bits(), 4, 32, "ip6.arpa."),
    };
    if mask > label_bits * labels {
        return None;
    }
    let labels_kept = mask.div_ceil(label_bits);
    let spare_bits = labels_kept * label_bits - mask;
    let net = if mask == 0 { 0 } else { bits >> (128 - mask) };
    let zones = (0..1u128 << spare_bits).map(|part| {
        let mut rest = net << spare_bits | part;
        let mut name = String::new();
        for _ in 0..labels_kept {
            let label = rest & ((1 << label_bits) - 1);
            name.push_str(&if label_bits == 8 {
                format!("{label}.")
            } else {
                format!("{label:x}.")
            });
            rest >>= label_bits;
        }
        name.push_str(suffix);
        NameBuf::from_text(&name).expect("a reverse name is short")
    });
    Some(zones.collect())
}

/// An address of `bind`, which may name its scope: `fe80::1%eth0`.
pub(super) fn address(text: &str) -> Option<(IpAddr, Option<String>)> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some((address.into(), None));
    }
    let (address, scope) = text
        .split_once('%')
        .map_or((text, None), |(address, scope)| (address, Some(scope)));
    let address: Ipv6Addr = address.parse().ok()?;
    match scope {
        Some("") => None,
        scope => Some((address.into(), scope.map(str::to_owned))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corefile::source::Span;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match parse(text) {
            Ok((zones, port)) => {
                let zones: Vec<String> = zones.iter().map(ToString::to_string).collect();
                format!(
                    "{}{}",
                    zones.join(" "),
                    port.map_or_else(String::new, |port| format!(" :{port}"))
                )
            }
            Err(error) => format!("! {error}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn names_are_absolute_and_in_lower_case() {
        check(".", ".");
        check("cedar.example", "cedar.example.");
        check("CEDAR.example.", "cedar.example.");
        check("*.cedar.example", "*.cedar.example.");
        check("192.0.2.1", "192.0.2.1.");
        check("0/25.2.0.192.in-addr.arpa", "0/25.2.0.192.in-addr.arpa.");
    }

    #[test]
    fn preferred_syntax() {
        for (zone, expected) in [
            (".", true),
            ("cedar-1.example", true),
            ("64/27.2.0.192.in-addr.arpa", true),
            ("cedar_1.example", false),
            ("1cedar.example", false),
            ("cedar-.example", false),
            ("*.example", false),
            ("192.0.2.1", false),
        ] {
            let name = NameBuf::from_text(zone).unwrap();
            assert_eq!(is_preferred(name.as_name()), expected, "{zone}");
        }
    }

    #[test]
    fn ports() {
        check(".:53", ". :53");
        check("cedar.example:5300", "cedar.example. :5300");
        check("cedar.example:0", "cedar.example. :0");
        check(
            "cedar.example:",
            "! expecting data after last colon: \"cedar.example:\"",
        );
        check("cedar.example:65536", "! invalid port: 65536");
        check("cedar.example:dns", "cedar.example:dns.");
        check("2001:db8::/32:5300", "8.b.d.0.1.0.0.2.ip6.arpa. :5300");
        check("192.0.2.0/24:54", "2.0.192.in-addr.arpa. :54");
    }

    #[test]
    fn what_is_no_zone() {
        check(":5300", "! zone is not a valid domain name: ");
        check("", "! zone is not a valid domain name: ");
        check("ced..ar", "! zone is not a valid domain name: ced..ar");
        check(".cedar", "! zone is not a valid domain name: .cedar");
        check("::1/128", "! invalid CIDR ::1/128");
        check("0:1::/32", "! invalid CIDR 0:1::/32");
        check(
            &"a".repeat(64),
            &format!("! zone is not a valid domain name: {}", "a".repeat(64)),
        );
        check(&"a.".repeat(127), &"a.".repeat(127));
        check(&"a.".repeat(128), "! specified zone is too long: 256 > 255");
    }

    #[test]
    fn nets_on_a_border_of_names_are_one_zone() {
        check("192.0.2.0/24", "2.0.192.in-addr.arpa.");
        check("192.0.2.77/24", "2.0.192.in-addr.arpa.");
        check("192.0.2.1/32", "1.2.0.192.in-addr.arpa.");
        check("10.0.0.0/8", "10.in-addr.arpa.");
        check("0.0.0.0/0", "in-addr.arpa.");
        check("2001:db8::/32", "8.b.d.0.1.0.0.2.ip6.arpa.");
        check("2001:db8:ffff::/36", "f.8.b.d.0.1.0.0.2.ip6.arpa.");
    }

    #[test]
    fn other_nets_are_split_at_the_next_border() {
        check("198.51.100.0/23", "100.51.198.in-addr.arpa. 101.51.198.in-addr.arpa.");
        check("10.0.0.0/15", "0.10.in-addr.arpa. 1.10.in-addr.arpa.");
        check("2001:db8::/31", "8.b.d.0.1.0.0.2.ip6.arpa. 9.b.d.0.1.0.0.2.ip6.arpa.");
        let (zones, _) = parse("192.0.2.64/27").unwrap();
        assert_eq!(zones.len(), 32);
        assert_eq!(zones[0].to_string(), "64.2.0.192.in-addr.arpa.");
        assert_eq!(zones[31].to_string(), "95.2.0.192.in-addr.arpa.");
        assert_eq!(parse("128.0.0.0/1").unwrap().0.len(), 128);
        assert_eq!(parse("2001:db8::1/125").unwrap().0.len(), 8);
    }

    #[test]
    fn what_only_looks_like_a_net_is_a_name() {
        check("192.0.2.0/33", "192.0.2.0/33.");
        check("192.0.2/24", "192.0.2/24.");
        check("192.0.2.0/+8", "192.0.2.0/+8.");
        check("192.0.2.0/", "192.0.2.0/.");
    }

    #[test]
    fn zones_of_directives_may_look_like_keys() {
        for text in [
            "cedar.example",
            "dns://Cedar.example",
            "tls://cedar.example:54",
            "cedar.example:54",
        ] {
            assert_eq!(text_of(&of_directive(text).unwrap()), "cedar.example.", "{text}");
        }
        assert_eq!(
            text_of(&of_directive("10.0.0.0/15").unwrap()),
            "0.10.in-addr.arpa. 1.10.in-addr.arpa."
        );
        assert!(of_directive("dns://").is_err() && of_directive("a..b").is_err());
    }

    fn text_of(zones: &[NameBuf]) -> String {
        let zones: Vec<String> = zones.iter().map(ToString::to_string).collect();
        zones.join(" ")
    }

    #[track_caller]
    fn check_key(text: &str, expected: &str) {
        let word = Word {
            text: text.into(),
            span: Span {
                file: 0,
                start: 0,
                end: 1,
            },
            first: true,
        };
        let found = match keys(&word, 53) {
            Ok(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|key| format!("{}://{}:{}", key.scheme.as_str(), key.zone, key.port))
                    .collect();
                keys.join(" ")
            }
            Err(error) => format!("! {} {}", error.text, error.help.unwrap_or_default()),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn keys_have_a_scheme_and_a_port() {
        check_key(".", "dns://.:53");
        check_key("dns://cedar.example:54", "dns://cedar.example.:54");
        check_key("tls://cedar.example", "tls://cedar.example.:853");
        check_key("tls://cedar.example:54", "tls://cedar.example.:54");
        check_key(
            "quic://cedar.example",
            "! nodens does not serve quic:// yet use `dns://` or `tls://`",
        );
        check_key(
            "https3://.",
            "! nodens does not serve https3:// yet use `dns://` or `tls://`",
        );
        check_key(
            "htps://.",
            "! zone is not a valid domain name: htps://. did you mean `https://`?",
        );
        check_key(
            "DNS://a",
            "! zone is not a valid domain name: DNS://a did you mean `dns://`?",
        );
        check_key(
            "198.51.100.0/23:54",
            "dns://100.51.198.in-addr.arpa.:54 dns://101.51.198.in-addr.arpa.:54",
        );
        check_key(":53", "! zone is not a valid domain name:  for all names write `.:53`");
    }

    #[test]
    fn addresses_may_have_a_scope() {
        assert_eq!(address("127.0.0.1"), Some(("127.0.0.1".parse().unwrap(), None)));
        assert_eq!(address("::1"), Some(("::1".parse().unwrap(), None)));
        assert_eq!(
            address("fe80::1%eth0"),
            Some(("fe80::1".parse().unwrap(), Some("eth0".to_owned())))
        );
        for text in ["", "lo", "eth0", "127.0.0.1%lo", "fe80::1%", "127.1", "[::1]", "::1:"] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = (parse(&text), address(&text));
        }

        #[test]
        fn every_net_has_a_power_of_two_of_zones(bits in any::<u32>(), mask in 0u32..=32) {
            let (zones, _) = parse(&format!("{}/{mask}", Ipv4Addr::from_bits(bits))).unwrap();
            prop_assert_eq!(zones.len(), 1 << (mask.next_multiple_of(8) - mask));
        }
    }
}
