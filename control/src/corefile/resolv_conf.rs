//! Files in the form of `resolv.conf`: the servers that they name, and the suffixes that are tried.

use std::net::IpAddr;

use nodens_wire::NameBuf;

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvConf {
    /// In file order.
    pub nameservers: Vec<IpAddr>,
    /// Of the last `search` or `domain` line; absolute, in lower case.
    pub search: Vec<NameBuf>,
    /// Words that were to be an address or a name and are none.
    pub left_out: Vec<String>,
}

/// Reads a file. Lines that it does not know are skipped, as every resolver does.
pub(super) fn parse(text: &str) -> ResolvConf {
    let mut conf = ResolvConf::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                let Some(word) = words.next() else { continue };
                // The scope of an address is dropped, as in CoreDNS.
                let address = word.split_once('%').map_or(word, |(address, _)| address);
                match address.parse() {
                    Ok(address) => conf.nameservers.push(address),
                    Err(_) => conf.left_out.push(word.to_owned()),
                }
            }
            Some("search") => conf.search = names(words, &mut conf.left_out),
            Some("domain") => conf.search = names(words.take(1), &mut conf.left_out),
            _ => {}
        }
    }
    conf
}

fn names<'w>(words: impl Iterator<Item = &'w str>, left_out: &mut Vec<String>) -> Vec<NameBuf> {
    let mut names = Vec::new();
    for word in words {
        match NameBuf::from_text(word) {
            Ok(name) => names.push(name.folded()),
            Err(_) => left_out.push(word.to_owned()),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let conf = parse(text);
        let servers = conf.nameservers.iter().map(ToString::to_string);
        let search = conf.search.iter().map(ToString::to_string);
        let left_out = conf.left_out.iter().map(|word| format!("!{word}"));
        let found: Vec<String> = servers.chain(search).chain(left_out).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn servers_and_suffixes() {
        check("", "");
        check(
            "# one\n; two\n nameserver 192.0.2.1\nnameserver\t2001:db8::1 # three\r\n",
            "192.0.2.1 2001:db8::1",
        );
        check("nameserver fe80::1%eth0\noptions ndots:5", "fe80::1");
        check("#nameserver 192.0.2.1\nnameserver\nNameserver 192.0.2.2", "");
        check("nameserver 192.0.2.1:53\nnameserver dns", "!192.0.2.1:53 !dns");
        check("search A.example b.example.\n", "a.example. b.example.");
        check("search a\ndomain b c\n", "b.");
        check("domain b\nsearch a c..d .\n", "a. . !c..d");
        check("search a\nsearch\n", "");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "((nameserver|search|domain) [a-f0-9:.% ]{0,12}\n|.{0,12}\n){0,4}") {
            parse(&text);
        }
    }
}
