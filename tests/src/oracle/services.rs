//! SkyDNS services as a flat map from key to value, answered by the rules for etcd data.

use std::collections::BTreeMap;

use super::{Expected, is_within};

/// The first component of every key.
const PATH: &str = "skydns";
const TTL: u32 = 300;
/// Aliases in a row after which one more is not followed.
const CHAIN_MAX: usize = 10;

/// What a key holds; 0 and empty are unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Address or name, as written.
    pub host: String,
    /// SRV port; −1 shows none.
    pub port: i64,
    /// SRV priority, MX preference.
    pub priority: i64,
    /// SRV weight share.
    pub weight: i64,
    /// TXT.
    pub text: String,
    /// May be an MX.
    pub mail: bool,
    /// Seconds.
    pub ttl: u32,
    /// Labels to drop from names made from the key.
    pub targetstrip: usize,
    /// Narrows the answers of names above.
    pub group: String,
}

enum Host<'v> {
    V4(&'v str),
    V6(&'v str),
    Name(String),
    None,
}

impl Value {
    fn ttl(&self) -> u32 {
        if self.ttl == 0 { TTL } else { self.ttl }
    }

    fn priority(&self) -> i64 {
        if self.priority == 0 { 10 } else { self.priority }
    }

    fn weight(&self) -> i64 {
        if self.weight == 0 { 100 } else { self.weight }
    }

    fn host(&self) -> Host<'_> {
        match self.host.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(_)) => Host::V4(&self.host),
            Ok(std::net::IpAddr::V6(_)) => Host::V6(&self.host),
            Err(_) if self.host.is_empty() => Host::None,
            Err(_) => Host::Name(format!("{}.", self.host.trim_end_matches('.')).to_lowercase()),
        }
    }
}

/// Why a look-up has nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nothing {
    /// No key at or below the name.
    Missing,
    /// No key that parses.
    AllBad,
}

/// A zone.
#[derive(Clone, Debug)]
pub struct ServiceOracle {
    /// Its name.
    pub zone: String,
    /// Whole keys; `None`: a value that does not parse.
    pub keys: BTreeMap<String, Option<Value>>,
}

type Service<'o> = (&'o str, &'o Value);

/// The whole key of a name.
fn key_of(name: &str) -> String {
    let mut key = format!("/{PATH}");
    for label in name.trim_end_matches('.').rsplit('.').filter(|label| !label.is_empty()) {
        key.push('/');
        key.push_str(label);
    }
    key
}

/// The name that a key makes, with so many labels dropped, unless that leaves nothing.
fn name_of(key: &str, strip: usize) -> String {
    let labels: Vec<&str> = key.split('/').skip(2).collect();
    let labels: Vec<&str> = labels.into_iter().rev().collect();
    let from = if strip < labels.len() { strip } else { 0 };
    format!("{}.", labels[from..].join("."))
}

fn strip_name(name: &str, strip: usize) -> String {
    let labels: Vec<&str> = name.trim_end_matches('.').split('.').collect();
    let from = if strip < labels.len() { strip } else { 0 };
    format!("{}.", labels[from..].join("."))
}

fn depth(key: &str) -> usize {
    key.matches('/').count()
}

/// Only services of one group are answered together; the rules step by step.
fn grouped<'o>(services: Vec<Service<'o>>) -> Vec<Service<'o>> {
    let Some(&(first_key, first)) = services.first() else {
        return services;
    };
    let (mut group, mut level) = (first.group.as_str(), depth(first_key));
    let mut depths = vec![0; services.len()];
    for (at, (key, value)) in services.iter().enumerate() {
        if depth(key) < level {
            if value.group.is_empty() {
                break;
            }
            (level, group) = (depth(key), &value.group);
        }
        depths[at] = depth(key);
    }
    if group.is_empty() {
        return services;
    }
    let mut kept = Vec::new();
    for (&(key, value), &depth) in services.iter().zip(&depths) {
        if value.group.is_empty() || value.group == group {
            kept.push((key, value));
        } else if depth == level {
            return services;
        }
    }
    kept
}

impl ServiceOracle {
    /// The keys that a question for `name` reads, the bad ones dropped; in order of the keys.
    fn read(&self, name: &str) -> Result<Vec<Service<'_>>, Nothing> {
        let key = key_of(name);
        let wanted: Vec<&str> = key.split('/').collect();
        let is_wild = |part: &&str| matches!(*part, "*" | "any");
        let fixed = wanted.iter().position(is_wild).unwrap_or(wanted.len());
        let base = wanted[..fixed].join("/");
        let below = format!("{base}/");
        let range: Vec<(&String, &Option<Value>)> = self
            .keys
            .iter()
            .filter(|(key, _)| **key == base || key.starts_with(&below))
            .collect();
        if range.is_empty() {
            return Err(Nothing::Missing);
        }
        let matches = |key: &str| {
            let parts: Vec<&str> = key.split('/').collect();
            parts.len() >= wanted.len() && wanted.iter().zip(&parts).all(|(w, p)| is_wild(w) || w == p)
        };
        let found: Vec<_> = range.into_iter().filter(|(key, _)| matches(key)).collect();
        let good: Vec<Service<'_>> = found
            .iter()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_ref()?)))
            .collect();
        if good.is_empty() && !found.is_empty() {
            Err(Nothing::AllBad)
        } else {
            Ok(good)
        }
    }

    fn services(&self, name: &str, rtype: &str) -> Result<Vec<Service<'_>>, Nothing> {
        let kept = |(_, value): &Service<'_>| !value.host.is_empty() || rtype == "TXT" && !value.text.is_empty();
        Ok(grouped(self.read(name)?.into_iter().filter(kept).collect()))
    }

    /// A, AAAA or TXT, aliases inside the zone followed.
    fn records(&self, name: &str, rtype: &str, chain: &[String]) -> Result<Vec<String>, Nothing> {
        let mut services = self.services(name, rtype);
        if name == self.zone && rtype != "TXT" {
            match self.services(&format!("apex.dns.{name}"), rtype) {
                Err(Nothing::Missing) => {}
                other => services = other,
            }
        }
        let (mut lines, mut seen): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for (_, value) in services? {
            let once = |what: &str, seen: &mut Vec<String>| {
                let new = !seen.iter().any(|s| s == what);
                seen.push(what.to_owned());
                new
            };
            let ttl = value.ttl();
            if rtype == "TXT" && !value.text.is_empty() {
                if once(&value.text, &mut seen) {
                    lines.push(format!("{name} {ttl} IN TXT {}", pieces(&value.text)));
                }
                continue;
            }
            match value.host() {
                Host::V4(a) if rtype == "A" && once(a, &mut seen) => lines.push(format!("{name} {ttl} IN A {a}")),
                Host::V6(a) if rtype == "AAAA" && once(a, &mut seen) => lines.push(format!("{name} {ttl} IN AAAA {a}")),
                Host::Name(target) => lines.extend(self.alias(name, rtype, ttl, &target, chain)),
                _ => {}
            }
        }
        Ok(lines)
    }

    fn alias(&self, name: &str, rtype: &str, ttl: u32, target: &str, chain: &[String]) -> Vec<String> {
        if is_within(target, name) || chain.len() > CHAIN_MAX || chain.iter().any(|t| t == target) {
            return Vec::new();
        }
        let own = format!("{name} {ttl} IN CNAME {target}");
        if !is_within(target, &self.zone) {
            return vec![own];
        }
        let chain = [chain, &[target.to_owned()]].concat();
        match self.records(target, rtype, &chain) {
            Ok(lines) if !lines.is_empty() => [vec![own], lines].concat(),
            _ => Vec::new(),
        }
    }

    fn soa(&self) -> String {
        format!(
            "{0} 30 IN SOA ns.dns.{0} hostmaster.{0} * 7200 1800 86400 30",
            self.zone
        )
    }

    fn positive(&self, answer: Vec<String>, additional: Option<Vec<String>>) -> Expected {
        let authority = if answer.is_empty() {
            vec![self.soa()]
        } else {
            Vec::new()
        };
        Expected {
            rcode: "NOERROR",
            aa: Some(true),
            answer: Some(answer),
            authority: Some(authority),
            additional,
        }
    }

    fn negative(&self, why: Nothing) -> Expected {
        let rcode = if why == Nothing::Missing {
            "NXDOMAIN"
        } else {
            "SERVFAIL"
        };
        Expected {
            rcode,
            aa: Some(true),
            answer: Some(Vec::new()),
            authority: Some(vec![self.soa()]),
            additional: Some(Vec::new()),
        }
    }

    /// What the zone says to a question for one of its names.
    pub fn resolve(&self, name: &str, rtype: &str) -> Expected {
        let decided = match rtype {
            "SOA" if name == self.zone => Ok(self.positive(vec![self.soa()], Some(Vec::new()))),
            "NS" if name == self.zone => Ok(self.name_servers()),
            "A" | "AAAA" | "TXT" => self
                .records(name, rtype, &[])
                .map(|lines| self.positive(lines, Some(Vec::new()))),
            "SRV" | "MX" => self
                .services(name, rtype)
                .map(|services| self.pointers(name, rtype, &services)),
            "PTR" => self.read(name).map(|_| self.pointers_back(name)),
            "CNAME" => self.read(name).map(|_| self.only_alias(name)),
            _ => self
                .records(name, "A", &[])
                .map(|_| self.positive(Vec::new(), Some(Vec::new()))),
        };
        decided.unwrap_or_else(|why| self.negative(why))
    }

    fn own(&self, name: &str) -> Option<&Value> {
        self.keys
            .get(&key_of(name))?
            .as_ref()
            .filter(|value| !value.host.is_empty())
    }

    fn pointers_back(&self, name: &str) -> Expected {
        let line = |value: &Value| match value.host() {
            Host::Name(target) => Some(format!("{name} {} IN PTR {target}", value.ttl())),
            _ => None,
        };
        self.positive(self.own(name).and_then(line).into_iter().collect(), Some(Vec::new()))
    }

    fn only_alias(&self, name: &str) -> Expected {
        let alias = |value: &Value| match value.host() {
            Host::Name(target) => Some(format!("{name} {} IN CNAME {target}", value.ttl())),
            _ => None,
        };
        let is_wild = name.split('.').any(|label| matches!(label, "*" | "any"));
        if let (Some(value), false) = (self.own(name), is_wild) {
            return self.positive(alias(value).into_iter().collect(), Some(Vec::new()));
        }
        let aliases: Vec<String> = self
            .services(name, "CNAME")
            .unwrap_or_default()
            .iter()
            .filter_map(|(_, value)| alias(value))
            .collect();
        match aliases.len() {
            0 => self.positive(Vec::new(), Some(Vec::new())),
            // Which of them A would show, and beside what, is left open.
            _ => Expected {
                rcode: "NOERROR",
                aa: Some(true),
                ..Expected::default()
            },
        }
    }

    fn name_servers(&self) -> Expected {
        let services = match self.services(&format!("ns.dns.{}", self.zone), "NS") {
            Ok(services) => services,
            Err(Nothing::Missing) => return self.positive(Vec::new(), Some(Vec::new())),
            Err(why) => return self.negative(why),
        };
        let (mut answer, mut additional) = (Vec::new(), Vec::new());
        for (key, value) in services {
            let (family, address) = match value.host() {
                Host::V4(address) => ("A", address),
                Host::V6(address) => ("AAAA", address),
                Host::Name(_) => return self.negative(Nothing::AllBad),
                Host::None => continue,
            };
            let (target, ttl) = (name_of(key, value.targetstrip), value.ttl());
            if !answer.iter().any(|line: &String| line.ends_with(&format!(" {target}"))) {
                answer.push(format!("{} {ttl} IN NS {target}", self.zone));
            }
            additional.push(format!("{target} {ttl} IN {family} {address}"));
        }
        self.positive(answer, Some(additional))
    }

    /// SRV and MX.
    fn pointers(&self, name: &str, rtype: &str, services: &[Service<'_>]) -> Expected {
        let (mut answer, mut additional) = (Vec::new(), Some(Vec::new()));
        let mut seen: Vec<(String, i64)> = Vec::new();
        for (key, value) in services {
            let ttl = value.ttl();
            if rtype == "MX" && !value.mail || rtype == "SRV" && value.port == -1 {
                continue;
            }
            let data = |target: &str| match rtype {
                "MX" => format!("{name} {ttl} IN MX {} {target}", value.priority()),
                _ => format!(
                    "{name} {ttl} IN SRV {} {} {} {target}",
                    value.priority(),
                    share(value, services),
                    value.port
                ),
            };
            let (family, address) = match value.host() {
                Host::V4(address) => ("A", address),
                Host::V6(address) => ("AAAA", address),
                Host::None => continue,
                Host::Name(target) => {
                    let target = strip_name(&target, value.targetstrip);
                    answer.push(data(&target));
                    additional = self.addresses_of(&target, additional);
                    continue;
                }
            };
            let target = name_of(key, value.targetstrip);
            let once = (
                target.clone(),
                if rtype == "MX" { value.priority() } else { value.port },
            );
            if !seen.contains(&once) {
                answer.push(data(&target));
                seen.push(once);
            }
            if let Some(additional) = &mut additional {
                // The first TTL of an address wins.
                let tail = format!("IN {family} {address}");
                if !additional
                    .iter()
                    .any(|line| line.starts_with(&format!("{target} ")) && line.ends_with(&tail))
                {
                    additional.push(format!("{target} {ttl} {tail}"));
                }
            }
        }
        self.positive(answer, additional)
    }

    /// The target's addresses join what is there already; open where aliases or other zones come in.
    fn addresses_of(&self, target: &str, so_far: Option<Vec<String>>) -> Option<Vec<String>> {
        let mut all = so_far?;
        if !is_within(target, &self.zone) {
            return Some(all);
        }
        for rtype in ["A", "AAAA"] {
            all.extend(self.records(target, rtype, &[]).unwrap_or_default());
        }
        (!all.iter().any(|line| line.contains(" CNAME "))).then_some(all)
    }
}

/// The weight to show: the service's part of 100 among those of its priority, at least 1.
fn share(value: &Value, services: &[Service<'_>]) -> i64 {
    let same = services
        .iter()
        .filter(|(_, other)| other.priority() == value.priority());
    let sum: i64 = same.map(|(_, other)| other.weight()).sum();
    let part = (100.0 / sum as f64 * value.weight() as f64).floor() as i64;
    part.max(1)
}

/// TXT data: strings of at most 255 bytes.
fn pieces(text: &str) -> String {
    let parts = text
        .as_bytes()
        .chunks(255)
        .map(|part| format!("\"{}\"", String::from_utf8_lossy(part)));
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> ServiceOracle {
        let host = |host: &str| {
            Some(Value {
                host: host.to_owned(),
                port: 80,
                ..Value::default()
            })
        };
        let group = |host: &str, group: &str| {
            Some(Value {
                host: host.to_owned(),
                group: group.to_owned(),
                ..Value::default()
            })
        };
        let keys = [
            ("/skydns/z/web/1", host("192.0.2.1")),
            ("/skydns/z/web/2", host("192.0.2.2")),
            ("/skydns/z/alias", host("web.z")),
            ("/skydns/z/lost", host("gone.z")),
            ("/skydns/z/bad", None),
            ("/skydns/z/g/a", group("192.0.2.5", "g1")),
            ("/skydns/z/g/b/sub", group("192.0.2.6", "g1")),
            ("/skydns/z/g/c/sub", group("192.0.2.7", "g2")),
            ("/skydns/z/g/d/sub", group("192.0.2.8", "")),
        ];
        ServiceOracle {
            zone: "z.".to_owned(),
            keys: keys.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        }
    }

    fn check(question: &str, rcode: &str, answer: &[&str]) {
        let (name, rtype) = question.split_once(' ').unwrap();
        let got = zone().resolve(name, rtype);
        assert_eq!(got.rcode, rcode, "{question}");
        assert_eq!(got.answer.unwrap(), answer, "{question}");
    }

    #[test]
    fn rules() {
        let both = ["web.z. 300 IN A 192.0.2.1", "web.z. 300 IN A 192.0.2.2"];
        check("web.z. A", "NOERROR", &both);
        check("1.web.z. A", "NOERROR", &["1.web.z. 300 IN A 192.0.2.1"]);
        check("2.*.z. A", "NOERROR", &["2.*.z. 300 IN A 192.0.2.2"]);
        check("web.z. AAAA", "NOERROR", &[]);
        check("none.z. A", "NXDOMAIN", &[]);
        check(
            "alias.z. A",
            "NOERROR",
            &["alias.z. 300 IN CNAME web.z.", both[0], both[1]],
        );
        check("lost.z. A", "NOERROR", &[]);
        check("bad.z. A", "SERVFAIL", &[]);
        check(
            "web.z. SRV",
            "NOERROR",
            &[
                "web.z. 300 IN SRV 10 50 80 1.web.z.",
                "web.z. 300 IN SRV 10 50 80 2.web.z.",
            ],
        );
        check(
            "g.z. A",
            "NOERROR",
            &[
                "g.z. 300 IN A 192.0.2.5",
                "g.z. 300 IN A 192.0.2.6",
                "g.z. 300 IN A 192.0.2.8",
            ],
        );
        assert_eq!(name_of("/skydns/z/web/1", 1), "web.z.");
        assert_eq!(pieces(&"x".repeat(255)).matches('"').count(), 2);
    }
}
