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

/// Most bytes of the options that a reply shows, their heads included; what is over stays out.
const SHOWN_LEN_MAX: usize = 256;

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
    Rule,
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
        let set = self.all.iter().filter(|entry| entry.origin == Origin::Rule);
        set.map(|entry| (entry.code, self.data(entry)))
    }

    /// What stands in the option with this code, whoever it comes from.
    fn get(&self, code: u16) -> Option<&[u8]> {
        let entry = self.all.iter().find(|entry| entry.code == code);
        entry.map(|entry| self.data(entry))
    }

    /// Whether there still is an option with this code, whoever it comes from.
    #[must_use]
    pub fn has(&self, code: u16) -> bool {
        self.all.iter().any(|entry| entry.code == code)
    }

    fn data(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.at..entry.at + entry.len]
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
            self.push(rule.code, Origin::Rule, |bytes| {
                write(&rule.data, name, rtype, asker, bytes);
            });
        }
        true
    }
}

/// The options that a reply shows of the codes that `rules` are for: those of the question after the rules, and with a
/// rule that is reverted those that the client sent.
pub(super) fn shown<'r>(
    rules: impl Iterator<Item = &'r OptionRule>,
    is_reverted: impl Fn(u16) -> bool,
    options: &Options,
    client: Option<&Opt<'_>>,
) -> Vec<(u16, Box<[u8]>)> {
    let mut shown: Vec<(u16, Box<[u8]>)> = Vec::new();
    let mut room = SHOWN_LEN_MAX;
    for rule in rules {
        let code = rule.code;
        if is_answered(code) || shown.iter().any(|(known, _)| *known == code) {
            continue;
        }
        let data = if is_reverted(code) {
            client.and_then(|opt| opt.option(code))
        } else {
            options.get(code)
        };
        let fits = |data: &&[u8]| edns::OPTION_HEAD_LEN + data.len() <= room;
        if let Some(data) = data.filter(fits) {
            room -= edns::OPTION_HEAD_LEN + data.len();
            shown.push((code, data.into()));
        }
    }
    shown
}

/// The server says something of its own with these.
fn is_answered(code: u16) -> bool {
    matches!(
        code,
        edns::NSID | edns::EDE | edns::KEEPALIVE | edns::PADDING | edns::EXPIRE | edns::COOKIE
    )
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

    /// A question for `A.oak.` with these options.
    fn packet(opt: &[u8]) -> Vec<u8> {
        let mut packet = b"\0\0\x01\0\0\x01\0\0\0\0\0\x01\x01A\x03oak\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0".to_vec();
        packet.push(u8::try_from(opt.len()).unwrap());
        packet.extend_from_slice(opt);
        packet
    }

    fn hex(data: &[u8]) -> String {
        data.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is set, as `CODE:HEX`.
    fn applied(opt: &[u8], rules: &[OptionRule], asker: &Asker<'_>) -> String {
        let packet = packet(opt);
        let query = Query::parse(&packet).unwrap();
        let mut options = Options::default();
        options.begin(query.opt.as_ref());
        for rule in rules {
            options.apply(rule, "a.oak.", Rtype::AAAA, asker);
        }
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

    /// What a reply shows of the option 65001, in hex; `opt` is the client's.
    #[track_caller]
    fn check_shown(rules: &[OptionRule], opt: &[u8], expected: &str) {
        let packet = packet(opt);
        let query = Query::parse(&packet).unwrap();
        let mut options = Options::default();
        options.begin(query.opt.as_ref());
        for rule in rules {
            options.apply(rule, ".", Rtype::A, &asker("192.0.2.1:9"));
        }
        let is_reverted = |code| rules.iter().any(|rule| rule.code == code && rule.is_reverted);
        let shown = shown(rules.iter(), is_reverted, &options, query.opt.as_ref());
        let shown: Vec<_> = shown
            .iter()
            .map(|(code, data)| format!("{code}:{}", hex(data)))
            .collect();
        assert_eq!(shown.join(" "), expected, "{rules:?}");
    }

    #[test]
    fn what_the_reply_shows() {
        let bytes = |text: &[u8]| OptionData::Bytes(text.into());
        let present = b"\xfd\xe9\0\x01a".as_slice();
        let set = rule(OptionAction::Set, 65_001, bytes(b"x"));
        let append = rule(OptionAction::Append, 65_001, bytes(b"x"));
        let reverted = OptionRule {
            is_reverted: true,
            ..set.clone()
        };
        check_shown(std::slice::from_ref(&set), b"", "65001:78");
        check_shown(std::slice::from_ref(&set), present, "65001:78");
        check_shown(&[append], present, "65001:61");
        check_shown(std::slice::from_ref(&reverted), b"", "");
        check_shown(&[reverted], present, "65001:61");
        check_shown(
            &[set.clone(), rule(OptionAction::Unset, 65_001, bytes(b""))],
            present,
            "",
        );
        check_shown(&[rule(OptionAction::Set, 65_002, bytes(b"x"))], present, "65002:78");
        check_shown(&[OptionRule::nsid(OptionAction::Set, false)], b"", "");
    }

    #[test]
    fn what_is_shown_has_a_limit() {
        let most = SHOWN_LEN_MAX - edns::OPTION_HEAD_LEN;
        let of = |len| rule(OptionAction::Set, 65_001, OptionData::Bytes(vec![0; len].into()));
        check_shown(&[of(most)], b"", &format!("65001:{}", "00".repeat(most)));
        check_shown(&[of(most + 1)], b"", "");
    }
}
