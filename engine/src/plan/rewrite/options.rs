//! Options of the question's OPT that rules set and take out.

use std::net::{IpAddr, SocketAddr};

use nodens_wire::{Opt, Rtype, edns};

/// A rule about one option.
#[derive(Clone, Debug)]
pub struct OptionRule {
    /// What is done.
    pub action: OptionAction,
    /// With which option.
    pub code: u16,
    /// What stands in it.
    pub data: OptionData,
    /// The reply shows what the question had before.
    pub is_reverted: bool,
}

/// What a rule does with its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionAction {
    /// Puts it in where there is none.
    Append,
    /// Puts it in the place of the one that there is.
    Replace,
    /// Puts it in, in the place of the one that there is, if any.
    Set,
    /// Takes it out.
    Unset,
}

/// What stands in an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionData {
    /// These bytes.
    Bytes(Box<[u8]>),
    /// Something about the question.
    Variable(Variable),
    /// The net of the client, so many bits of its address.
    Subnet {
        /// For IPv4.
        v4_bits: u8,
        /// For IPv6.
        v6_bits: u8,
    },
}

/// Something about the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The name, in lower case.
    Name,
    /// The type, two bytes.
    Type,
    /// The client's address, four or sixteen bytes.
    ClientAddress,
    /// The client's port, two bytes.
    ClientPort,
    /// `udp` or `tcp`.
    Protocol,
    /// The address that was asked.
    ServerAddress,
    /// Its port.
    ServerPort,
    /// What directives know of the query, by this label.
    Metadata(Box<str>),
}

/// Who asks, and whom.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The client.
    pub client: SocketAddr,
    /// The address that was asked.
    pub server: SocketAddr,
    /// It came over a stream.
    pub is_stream: bool,
    /// Writes what is known by a label; nothing where nothing is.
    pub metadata: &'a dyn Fn(&str, &mut Vec<u8>),
}

/// The options of a question, as rules made them. Memory is kept from query to query.
#[derive(Debug, Default)]
pub struct Options {
    all: Vec<Entry>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    code: u16,
    at: usize,
    len: usize,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Client,
    Rule { is_reverted: bool },
}

impl Options {
    /// Begins with those of the client.
    pub(super) fn begin(&mut self, opt: Option<&Opt<'_>>) {
        self.all.clear();
        self.bytes.clear();
        for (code, data) in opt.into_iter().flat_map(Opt::options) {
            self.push(code, Origin::Client, |bytes| bytes.extend_from_slice(data));
        }
    }

    /// Those that rules have set: they go to the server that is asked.
    pub fn set(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.of(|origin| origin != Origin::Client)
    }

    /// Of these, those that the reply shows, too.
    pub fn shown(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.of(|origin| origin == Origin::Rule { is_reverted: false })
    }

    /// Whether there still is an option with this code, whoever it comes from.
    #[must_use]
    pub fn has(&self, code: u16) -> bool {
        self.all.iter().any(|entry| entry.code == code)
    }

    fn of(&self, wanted: impl Fn(Origin) -> bool) -> impl Iterator<Item = (u16, &[u8])> {
        let wanted = self.all.iter().filter(move |entry| wanted(entry.origin));
        wanted.map(|entry| (entry.code, &self.bytes[entry.at..entry.at + entry.len]))
    }

    fn push(&mut self, code: u16, origin: Origin, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        write(&mut self.bytes);
        let len = self.bytes.len() - at;
        self.all.push(Entry { code, at, len, origin });
    }

    /// Whether the rule changed anything.
    pub(super) fn apply(&mut self, rule: &OptionRule, name: &str, rtype: Rtype, asker: &Asker<'_>) -> bool {
        let is_there = self.has(rule.code);
        let is_wanted = match rule.action {
            OptionAction::Append => !is_there,
            OptionAction::Replace | OptionAction::Unset => is_there,
            OptionAction::Set => true,
        };
        if !is_wanted {
            return false;
        }
        self.all.retain(|entry| entry.code != rule.code);
        if rule.action != OptionAction::Unset {
            let is_reverted = rule.is_reverted;
            self.push(rule.code, Origin::Rule { is_reverted }, |bytes| {
                write(&rule.data, name, rtype, asker, bytes);
            });
        }
        true
    }
}

fn write(data: &OptionData, name: &str, rtype: Rtype, asker: &Asker<'_>, out: &mut Vec<u8>) {
    match data {
        OptionData::Bytes(bytes) => out.extend_from_slice(bytes),
        OptionData::Variable(variable) => match variable {
            Variable::Name => out.extend_from_slice(name.as_bytes()),
            Variable::Type => out.extend_from_slice(&rtype.0.to_be_bytes()),
            Variable::ClientAddress => address(asker.client.ip(), out),
            Variable::ClientPort => out.extend_from_slice(&asker.client.port().to_be_bytes()),
            Variable::Protocol => out.extend_from_slice(if asker.is_stream { b"tcp" } else { b"udp" }),
            Variable::ServerAddress => address(asker.server.ip(), out),
            Variable::ServerPort => out.extend_from_slice(&asker.server.port().to_be_bytes()),
            Variable::Metadata(label) => (asker.metadata)(label, out),
        },
        OptionData::Subnet { v4_bits, v6_bits } => match asker.client.ip().to_canonical() {
            IpAddr::V4(client) => subnet(1, &client.octets(), *v4_bits, out),
            IpAddr::V6(client) => subnet(2, &client.octets(), *v6_bits, out),
        },
    }
}

fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address.to_canonical() {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// RFC 7871 §6: the family, the bits that count, none that the answer is for, and as many bytes as the bits need.
fn subnet(family: u16, address: &[u8], bits: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&family.to_be_bytes());
    out.extend_from_slice(&[bits, 0]);
    let len = usize::from(bits.div_ceil(8)).min(address.len());
    out.extend_from_slice(&address[..len]);
    let spare = bits % 8;
    if let Some(last) = out.last_mut().filter(|_| spare > 0) {
        *last &= 0xff << (8 - spare);
    }
}

impl OptionRule {
    /// `nsid`: asks the server for its name.
    #[must_use]
    pub fn nsid(action: OptionAction, is_reverted: bool) -> Self {
        Self {
            action,
            code: edns::NSID,
            data: OptionData::Bytes([].into()),
            is_reverted,
        }
    }
}

#[cfg(test)]
mod tests {
    use nodens_wire::Query;

    use super::*;

    fn rule(action: OptionAction, code: u16, data: OptionData) -> OptionRule {
        OptionRule {
            action,
            code,
            data,
            is_reverted: false,
        }
    }

    fn asker(client: &str) -> Asker<'static> {
        Asker {
            client: client.parse().unwrap(),
            server: "192.0.2.53:53".parse().unwrap(),
            is_stream: false,
            metadata: &|label, out| out.extend_from_slice(label.to_uppercase().as_bytes()),
        }
    }

    /// What is set, as `CODE:HEX`.
    fn applied(opt: &[u8], rules: &[OptionRule], asker: &Asker<'_>) -> String {
        let mut packet = b"\0\0\x01\0\0\x01\0\0\0\0\0\x01\x01A\x03oak\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0".to_vec();
        packet.push(u8::try_from(opt.len()).unwrap());
        packet.extend_from_slice(opt);
        let query = Query::parse(&packet).unwrap();
        let mut options = Options::default();
        options.begin(query.opt.as_ref());
        for rule in rules {
            options.apply(rule, "a.oak.", Rtype::AAAA, asker);
        }
        let hex = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let set: Vec<_> = options
            .set()
            .map(|(code, data)| format!("{code}:{}", hex(data)))
            .collect();
        set.join(" ")
    }

    #[test]
    fn what_rules_do() {
        let bytes = |text: &[u8]| OptionData::Bytes(text.into());
        let check = |action, expected: [&str; 2]| {
            let rules = [rule(action, 65_001, bytes(b"x"))];
            let present = b"\xfd\xe9\0\x01a".as_slice();
            let found = [b"".as_slice(), present].map(|opt| applied(opt, &rules, &asker("192.0.2.1:9")));
            assert_eq!(found, expected, "{action:?}");
        };
        check(OptionAction::Append, ["65001:78", ""]);
        check(OptionAction::Replace, ["", "65001:78"]);
        check(OptionAction::Set, ["65001:78", "65001:78"]);
        check(OptionAction::Unset, ["", ""]);
        let both = [
            rule(OptionAction::Set, 65_001, bytes(b"x")),
            rule(OptionAction::Set, 65_001, bytes(b"y")),
            OptionRule::nsid(OptionAction::Set, false),
        ];
        assert_eq!(applied(b"", &both, &asker("192.0.2.1:9")), "65001:79 3:");
        let gone = [both[0].clone(), rule(OptionAction::Unset, 65_001, bytes(b""))];
        assert_eq!(applied(b"", &gone, &asker("192.0.2.1:9")), "");
    }

    #[test]
    fn variables_and_nets() {
        let check = |data: OptionData, client: &str, expected: &str| {
            let found = applied(b"", &[rule(OptionAction::Set, 8, data)], &asker(client));
            assert_eq!(found, format!("8:{expected}"));
        };
        let variable = OptionData::Variable;
        check(variable(Variable::Name), "192.0.2.1:9", "612e6f616b2e");
        check(variable(Variable::Type), "192.0.2.1:9", "001c");
        check(variable(Variable::ClientAddress), "192.0.2.1:9", "c0000201");
        check(variable(Variable::ClientAddress), "[::ffff:192.0.2.1]:9", "c0000201");
        check(variable(Variable::ClientPort), "192.0.2.1:9", "0009");
        check(variable(Variable::Protocol), "192.0.2.1:9", "756470");
        check(variable(Variable::ServerAddress), "192.0.2.1:9", "c0000235");
        check(variable(Variable::ServerPort), "192.0.2.1:9", "0035");
        check(variable(Variable::Metadata("a/b".into())), "192.0.2.1:9", "412f42");
        let net = OptionData::Subnet {
            v4_bits: 20,
            v6_bits: 56,
        };
        check(net.clone(), "192.0.255.1:9", "00011400c000f0");
        check(net, "[2001:db8:1:ff:ff::1]:9", "0002380020010db8000100");
        check(OptionData::Subnet { v4_bits: 0, v6_bits: 0 }, "192.0.2.1:9", "00010000");
    }

    #[test]
    fn what_is_reverted_is_not_shown() {
        let mut options = Options::default();
        options.begin(None);
        let asker = asker("192.0.2.1:9");
        let data = OptionData::Bytes(b"x".as_slice().into());
        let plain = rule(OptionAction::Set, 65_001, data);
        let reverted = OptionRule {
            code: 65_002,
            is_reverted: true,
            ..plain.clone()
        };
        for rule in [&plain, &reverted] {
            assert!(options.apply(rule, ".", Rtype::A, &asker));
        }
        let codes = |options: &mut dyn Iterator<Item = (u16, &[u8])>| options.map(|(code, _)| code).collect::<Vec<_>>();
        assert_eq!(codes(&mut options.set()), [65_001, 65_002]);
        assert_eq!(codes(&mut options.shown()), [65_001]);
    }
}
