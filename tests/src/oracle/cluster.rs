//! Objects of a cluster as flat lists, answered by the DNS schema of clusters: every name that there is is written down, and
//! a question is looked up among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Expected, is_within, parent};

/// Aliases in a row after which one more is not followed.
const CHAIN_MAX: usize = 12;

/// A port: its name, its protocol, its number.
pub type Port = (&'static str, &'static str, u16);

/// What a service's name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Addresses of its own.
    Own(Vec<IpAddr>),
    /// Its endpoints.
    Headless,
    /// Another name.
    Alias(String),
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where its name leads.
    pub target: Target,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// Some endpoints of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Their ports.
    pub ports: Vec<Port>,
    /// Where they are, and what they are called.
    pub endpoints: Vec<(IpAddr, Option<&'static str>)>,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterOracle {
    /// The zone.
    pub zone: String,
    /// Seconds, of every record.
    pub ttl: u32,
    /// Services whose endpoints are not there are not there themselves.
    pub ignores_empty: bool,
    /// Namespaces.
    pub namespaces: BTreeSet<String>,
    /// Services by `NAME.NAMESPACE`.
    pub services: BTreeMap<String, Service>,
    /// Slices by the same and a name of their own.
    pub slices: BTreeMap<(String, String), Slice>,
    /// Namespaces of pods by address.
    pub pods: BTreeMap<IpAddr, String>,
}

/// What stands at a name.
#[derive(Default)]
struct At {
    alias: Option<String>,
    /// Addresses, each with the name that it stands at.
    addresses: BTreeSet<IpAddr>,
    /// Weight, port and target.
    targets: BTreeSet<(usize, u16, String)>,
    /// Of the targets.
    glue: BTreeSet<(String, IpAddr)>,
}

/// All names that exist.
type Names = BTreeMap<String, At>;

/// A cluster, and all its names written down once.
pub struct Written<'o> {
    of: &'o ClusterOracle,
    names: Names,
}

fn rtype(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}

fn dashed(address: &IpAddr) -> String {
    let text = address.to_string().replace(['.', ':'], "-");
    if text.ends_with('-') { text + "0" } else { text }
}

impl Written<'_> {
    /// Every name that exists.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.names.keys()
    }

    /// What has to be said to a question.
    pub fn resolve(&self, name: &str, rtype: &str) -> Expected {
        self.of.resolve(&self.names, name, rtype)
    }
}

impl ClusterOracle {
    /// Its names.
    pub fn written(&self) -> Written<'_> {
        Written {
            of: self,
            names: self.names(),
        }
    }

    fn resolve(&self, names: &Names, name: &str, rtype: &str) -> Expected {
        let mut answer = Vec::new();
        let mut trail = vec![name.to_owned()];
        let mut owner = name.to_owned();
        loop {
            let found = names.get(&owner).or_else(|| self.behind_labels(&owner, names));
            if let Some(target) = found.and_then(|at| at.alias.as_ref()) {
                if trail.len() == CHAIN_MAX {
                    return self.positive(answer, Vec::new());
                }
                answer.push(format!("{owner} {} IN CNAME {target}", self.ttl));
                let ends = rtype == "CNAME" || trail.contains(target) || !is_within(target, &self.zone);
                if ends {
                    return self.positive(answer, Vec::new());
                }
                trail.push(target.clone());
                owner.clone_from(target);
                continue;
            }
            let Some(at) = found else {
                return self.negative("NXDOMAIN", answer);
            };
            let before = answer.len();
            let mut additional = Vec::new();
            let address = |owner: &str, address: &IpAddr| {
                let kind = self::rtype(address);
                format!("{owner} {} IN {kind} {address}", self.ttl)
            };
            match rtype {
                "SOA" if owner == self.zone => answer.push(self.soa()),
                "A" | "AAAA" => {
                    let own = at.addresses.iter().filter(|address| self::rtype(address) == rtype);
                    answer.extend(own.map(|own| address(&owner, own)));
                }
                "SRV" => {
                    for (weight, port, target) in &at.targets {
                        answer.push(format!("{owner} {} IN SRV 0 {weight} {port} {target}", self.ttl));
                    }
                    additional.extend(at.glue.iter().map(|(owner, own)| address(owner, own)));
                }
                _ => {}
            }
            if answer.len() == before {
                return self.negative("NOERROR", answer);
            }
            return self.positive(answer, additional);
        }
    }

    /// The pod behind up to two labels that count for nothing.
    fn behind_labels<'n>(&self, name: &str, names: &'n Names) -> Option<&'n At> {
        let pods = format!("pod.{}", self.zone);
        let shorter = [parent(name), parent(parent(name))];
        let mut found = shorter
            .into_iter()
            .filter(|name| is_within(name, &pods))
            .filter_map(|name| names.get(name));
        found.find(|at| !at.addresses.is_empty())
    }

    fn soa(&self) -> String {
        let (zone, ttl) = (&self.zone, self.ttl);
        format!("{zone} {ttl} IN SOA ns.dns.{zone} hostmaster.{zone} * 7200 1800 86400 {ttl}")
    }

    fn positive(&self, answer: Vec<String>, additional: Vec<String>) -> Expected {
        Expected {
            rcode: "NOERROR",
            aa: Some(true),
            answer: Some(answer),
            authority: Some(Vec::new()),
            additional: Some(additional),
        }
    }

    fn negative(&self, rcode: &'static str, answer: Vec<String>) -> Expected {
        Expected {
            rcode,
            authority: Some(vec![self.soa()]),
            ..self.positive(answer, Vec::new())
        }
    }

    fn names(&self) -> Names {
        let mut names = Names::new();
        for always in ["", "svc.", "pod.", "dns.", "ns.dns.", "dns-version."] {
            names.entry(format!("{always}{}", self.zone)).or_default();
        }
        for namespace in &self.namespaces {
            for kind in ["svc", "pod"] {
                names.entry(format!("{namespace}.{kind}.{}", self.zone)).or_default();
            }
        }
        for (address, namespace) in &self.pods {
            if self.namespaces.contains(namespace) {
                let name = format!("{}.{namespace}.pod.{}", dashed(address), self.zone);
                let at = names.entry(name.clone()).or_default();
                at.addresses.insert(*address);
                at.targets.insert((100, 0, name.clone()));
                at.glue.insert((name, *address));
            }
        }
        for (key, service) in &self.services {
            if self.namespaces.contains(parent(key)) {
                self.service(key, service, &mut names);
            }
        }
        names
    }

    fn service(&self, key: &str, service: &Service, names: &mut Names) {
        let own = format!("{key}.svc.{}", self.zone);
        let slices: Vec<&Slice> = self
            .slices
            .iter()
            .filter(|((of, _), _)| of == key)
            .map(|(_, slice)| slice)
            .collect();
        let is_ready = slices.iter().any(|slice| !slice.endpoints.is_empty());
        match &service.target {
            Target::Alias(target) => {
                names.entry(own).or_default().alias = Some(target.clone());
                return;
            }
            Target::Own(_) if self.ignores_empty && !is_ready => return,
            Target::Own(addresses) => {
                for port in ways(&service.ports) {
                    let meant: Vec<&Port> = service.ports.iter().filter(|other| fits(port, other)).collect();
                    let at = names.entry(spelled(port, &own)).or_default();
                    at.addresses.extend(addresses);
                    let weight = weight(meant.len() * addresses.len());
                    for (_, _, number) in meant {
                        at.targets.insert((weight, *number, own.clone()));
                        at.glue.extend(addresses.iter().map(|address| (own.clone(), *address)));
                    }
                }
                for protocol in protocols(&service.ports) {
                    names.entry(format!("_{protocol}.{own}")).or_default();
                }
            }
            Target::Headless => {
                if !is_ready {
                    return;
                }
                for port in slices.iter().flat_map(|slice| ways(&slice.ports)) {
                    self.endpoints(&slices, port, None, &own, &spelled(port, &own), names);
                }
                for protocol in slices.iter().flat_map(|slice| protocols(&slice.ports)) {
                    names.entry(format!("_{protocol}.{own}")).or_default();
                }
            }
        }
        // The endpoints of any service have names of their own.
        for (address, label) in slices.iter().flat_map(|slice| &slice.endpoints) {
            let label = label.map_or_else(|| dashed(address), str::to_owned);
            self.endpoints(&slices, None, Some(&label), &own, &format!("{label}.{own}"), names);
        }
    }

    /// Endpoints with this port and this label, at a name.
    fn endpoints(
        &self,
        slices: &[&Slice],
        port: Option<&Port>,
        wanted: Option<&str>,
        own: &str,
        name: &str,
        names: &mut Names,
    ) {
        let mut meant = Vec::new();
        let mut pairs = 0;
        for slice in slices {
            let ports: Vec<&Port> = slice.ports.iter().filter(|other| fits(port, other)).collect();
            if port.is_some() && ports.is_empty() {
                continue;
            }
            for (address, label) in &slice.endpoints {
                let label = label.map_or_else(|| dashed(address), str::to_owned);
                if wanted.is_none_or(|wanted| wanted == label) {
                    pairs += ports.len().max(1);
                    meant.push((*address, label, ports.clone()));
                }
            }
        }
        if meant.is_empty() {
            return;
        }
        let at = names.entry(name.to_owned()).or_default();
        for (address, label, ports) in meant {
            at.addresses.insert(address);
            let target = format!("{label}.{own}");
            for (_, _, number) in ports {
                at.targets.insert((weight(pairs), *number, target.clone()));
                at.glue.insert((target.clone(), address));
            }
        }
    }
}

/// No port, and each of those that have a name.
fn ways(ports: &[Port]) -> Vec<Option<&Port>> {
    let named = ports.iter().filter(|(name, ..)| !name.is_empty());
    named.map(Some).chain([None]).collect()
}

fn protocols(ports: &[Port]) -> BTreeSet<&'static str> {
    let named = ports.iter().filter(|(name, ..)| !name.is_empty());
    named.map(|(_, protocol, _)| *protocol).collect()
}

fn fits(wanted: Option<&Port>, port: &Port) -> bool {
    wanted.is_none_or(|wanted| (wanted.0, wanted.1) == (port.0, port.1))
}

fn spelled(port: Option<&Port>, own: &str) -> String {
    match port {
        Some((name, protocol, _)) => format!("_{name}._{protocol}.{own}"),
        None => own.to_owned(),
    }
}

fn weight(records: usize) -> usize {
    (100 / records.max(1)).max(1)
}
