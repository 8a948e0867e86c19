//! Hosts files and inline hosts: `ADDRESS NAME...` a line.

use std::net::IpAddr;

use nodens_wire::NameBuf;

use crate::clip::clip;

/// What a line says that is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// An IPv6 address that maps an IPv4 one is the latter.
    pub address: IpAddr,
    /// At least one, in order, in small letters. The first label may be `*`.
    pub names: Vec<NameBuf>,
}

/// A line, or a name in it, that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub text: String,
}

/// The entries of a text, in order. Nothing in it is an error: what makes no sense is passed to `bad` and left out.
pub fn entries<'t>(text: &'t [u8], mut bad: impl FnMut(BadLine) + 't) -> impl Iterator<Item = Entry> + 't {
    text.split(|&byte| byte == b'\n')
        .zip(1..)
        .filter_map(move |(text, line)| entry(text, &mut |text| bad(BadLine { line, text: clip(text) })))
}

fn entry(line: &[u8], bad: &mut impl FnMut(String)) -> Option<Entry> {
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let Some(address) = address(first) else {
        bad(format!("\"{}\" is no address", first.escape_default()));
        return None;
    };
    let mut names = Vec::new();
    let mut named = false;
    for word in words {
        named = true;
        match NameBuf::from_text(word) {
            Ok(name) => names.push(name.folded()),
            Err(error) => bad(format!("\"{}\" is no name: {error}", word.escape_default())),
        }
    }
    if !named {
        bad(format!("{address} has no name"));
    }
    (!names.is_empty()).then_some(Entry { address, names })
}

/// The zone of a link-local address means nothing to who asks.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.split_once('%').map_or(text, |(address, _)| address);
    let address: IpAddr = text.parse().ok()?;
    Some(match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str], expected_bad: &[usize]) {
        let mut bad = Vec::new();
        let found: Vec<String> = entries(text.as_bytes(), |line| bad.push(line.line))
            .map(|entry| {
                let names: Vec<String> = entry.names.iter().map(NameBuf::to_string).collect();
                format!("{} {}", entry.address, names.join(" "))
            })
            .collect();
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(bad, expected_bad, "{text:?}");
    }

    #[test]
    fn entries_in_order_with_duplicates() {
        let text = "192.0.2.1 web.Example WWW\n\n192.0.2.2\tweb.example.\r\n192.0.2.1 web.example # again\n#all\n";
        let expected = [
            "192.0.2.1 web.example. www.",
            "192.0.2.2 web.example.",
            "192.0.2.1 web.example.",
        ];
        check(text, &expected, &[]);
    }

    #[test]
    fn addresses_of_all_forms() {
        check("2001:db8::1 a", &["2001:db8::1 a."], &[]);
        check("fe80::1%eth0 a", &["fe80::1 a."], &[]);
        check("::ffff:192.0.2.4 a", &["192.0.2.4 a."], &[]);
        check("192.0.2.1 *.a", &["192.0.2.1 *.a."], &[]);
    }

    #[test]
    fn bad_lines_are_left_out() {
        check(
            "not-an-address a\n192.0.2.9\n192.0.02.1 a\n192.0.2.1 b",
            &["192.0.2.1 b."],
            &[1, 2, 3],
        );
        check("192.0.2.1 a..b c", &["192.0.2.1 c."], &[1]);
        check("192.0.2.1 a..b", &[], &[1]);
        check("192.0.2.1 # a", &[], &[1]);
    }
}
