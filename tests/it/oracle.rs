//! The engine against the naive resolvers, on random data by seed; each zone is changed step by step, never built anew.
//!
//! `SEED=7 cargo test -p nodens-tests oracle` runs one seed and prints its data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hickory_proto::op::Message;
use nodens_engine::cluster::{self, Apex, Authority, Cluster, Endpoint, Kind, Of, Place, PodLabels};
use nodens_engine::plan::{Plan, Step};
use nodens_engine::services::{self, Extra, Host, ServiceTree};
use nodens_engine::zone::{Collector, RecordZone, RecordZoneBuilder, RrSet, Zone};
use nodens_sources::etcd;
use nodens_tests::oracle::{
    ClusterOracle, Entry, Expected, Port, RecordOracle, Service, ServiceOracle, Slice, Target, Value,
};
use nodens_tests::records::{Line, check_section, line_of, rcode_text, wanted_line};
use nodens_tests::seed::Seeded;
use nodens_tests::served::{self, Served, hash};
use nodens_wire::{Name, NameBuf, Rtype};

/// Seeds of an ordinary run.
const SEEDS: u64 = 25;
/// Versions of each zone.
const VERSIONS: usize = 3;
const ZONE: &str = "cedar.example.";

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}

fn is_verbose() -> bool {
    std::env::var_os("SEED").is_some()
}

/// Sections as sets: an answer over several aliases may meet a record twice.
fn compare(title: &str, got: &[hickory_proto::rr::Record], want: Option<&Vec<String>>) -> Result<(), String> {
    let Some(want) = want else { return Ok(()) };
    let got: BTreeSet<Line> = got.iter().map(line_of).collect();
    let want: BTreeSet<Line> = want.iter().map(|line| wanted_line(line)).collect();
    let want: Vec<String> = want.into_iter().map(|words| words.join(" ")).collect();
    check_section(title, &got.into_iter().collect::<Vec<_>>(), &want, false, false).map_err(|wrong| wrong.0)
}

fn check(reply: &Message, want: &Expected) -> Result<(), String> {
    let rcode = rcode_text(u16::from(reply.metadata.response_code));
    if !want.rcode.is_empty() && rcode != want.rcode {
        return Err(format!("{rcode}, not {}", want.rcode));
    }
    if want.aa.is_some_and(|aa| aa != reply.metadata.authoritative) {
        return Err(format!("AA is {}", reply.metadata.authoritative));
    }
    compare("answer", &reply.answers, want.answer.as_ref())?;
    compare("authority", &reply.authorities, want.authority.as_ref())?;
    compare("additional", &reply.additionals, want.additional.as_ref())
}

/// All of the names, their parents in the zone, and some that are not there.
fn names_to_ask(of: impl Iterator<Item = String>, seeded: &mut Seeded) -> BTreeSet<String> {
    let mut names = BTreeSet::from([ZONE.to_owned()]);
    for mut name in of {
        names.insert(format!("{}.{name}", seeded.pick(&["a", "q", "*", "zz"])));
        while name != ZONE {
            names.insert(name.clone());
            name = name.split_once('.').expect("below the zone").1.to_owned();
        }
    }
    names
}

/// A server of this zone from this step, its answers in the order of the data.
fn serve(apex: &str, step: Step, zone: Zone) -> Served {
    let plan = Plan {
        steps: [step].into(),
        ..Plan::default()
    };
    Served::new(vec![(apex, plan)], vec![zone], None)
}

fn ask_all(
    seed: u64,
    served: &mut Served,
    names: &BTreeSet<String>,
    types: &[&str],
    data: &dyn std::fmt::Debug,
    resolve: &dyn Fn(&str, &str) -> Expected,
) -> usize {
    let mut asked = 0;
    for name in names {
        for rtype in types {
            let question = format!("{name} {rtype}");
            let reply = served.ask(&question);
            let want = resolve(name, rtype);
            if let Err(wrong) = check(&reply, &want) {
                let data = if is_verbose() {
                    format!("\n{data:#?}")
                } else {
                    format!("\nSEED={seed} shows the data")
                };
                panic!("seed {seed}: {question}: {wrong}\nwanted {want:#?}{data}");
            }
            asked += 1;
        }
    }
    asked
}

// ---- records

fn random_name(seeded: &mut Seeded) -> String {
    let mut name = ZONE.to_owned();
    for _ in 0..=seeded.below(3) {
        name = format!("{}.{name}", seeded.pick(&["a", "b", "c", "www"]));
    }
    name
}

fn add(entries: &mut Vec<Entry>, owner: &str, rtype: &'static str, data: String) {
    let exclusive = |rtype: &str| matches!(rtype, "CNAME" | "DNAME" | "NS");
    let at = |e: &Entry| e.owner == owner;
    // An alias stands alone; a cut and a DNAME do not meet; all of a set share a TTL; no record twice.
    let clash = entries.iter().filter(|e| at(e)).any(|e| {
        e.rtype == "CNAME"
            || rtype == "CNAME"
            || e.rtype != rtype && exclusive(e.rtype) && exclusive(rtype)
            || *e.data == data && e.rtype == rtype
    });
    let single = rtype == "DNAME" && entries.iter().any(|e| at(e) && e.rtype == rtype);
    if !clash && !single {
        let ttl = 60 + 10 * rtype.len() as u32;
        entries.push(Entry {
            owner: owner.to_owned(),
            ttl,
            rtype,
            data,
        });
    }
}

fn random_records(seeded: &mut Seeded) -> RecordOracle {
    let mut entries = vec![
        Entry {
            owner: ZONE.into(),
            ttl: 30,
            rtype: "SOA",
            data: format!("ns1.{ZONE} hostmaster.{ZONE} 7 7200 1800 86400 60"),
        },
        Entry {
            owner: ZONE.into(),
            ttl: 80,
            rtype: "NS",
            data: format!("ns1.{ZONE}"),
        },
        Entry {
            owner: format!("ns1.{ZONE}"),
            ttl: 70,
            rtype: "A",
            data: "192.0.2.53".into(),
        },
    ];
    for _ in 0..5 + seeded.below(20) {
        let plain = random_name(seeded);
        let owner = if seeded.once_in(5) {
            format!("*.{plain}")
        } else {
            plain.clone()
        };
        let target = match seeded.below(5) {
            0 => "www.oak.example.".to_owned(),
            1 => format!("ns1.{ZONE}"),
            _ => random_name(seeded),
        };
        match seeded.below(12) {
            0..=3 => add(&mut entries, &owner, "A", format!("192.0.2.{}", seeded.below(4))),
            4 => add(
                &mut entries,
                &owner,
                "AAAA",
                format!("2001:db8::{}", 1 + seeded.below(4)),
            ),
            5 => add(&mut entries, &owner, "TXT", format!("\"t{}\"", seeded.below(3))),
            6 => add(&mut entries, &owner, "MX", format!("{} {target}", 10 * seeded.below(3))),
            7 => add(
                &mut entries,
                &owner,
                "SRV",
                format!("{} 5 80 {target}", seeded.below(3)),
            ),
            8 | 9 => add(&mut entries, &owner, "CNAME", target),
            10 => {
                let server = if seeded.once_in(2) {
                    format!("ns.{plain}")
                } else {
                    target
                };
                add(&mut entries, &plain, "NS", server.clone());
                if server.ends_with(&plain) {
                    add(&mut entries, &server, "A", "192.0.2.99".into());
                }
                if seeded.once_in(3) {
                    add(&mut entries, &plain, "DS", "1 8 2 aabbcc".into());
                }
            }
            _ => add(&mut entries, &plain, "DNAME", target),
        }
    }
    RecordOracle {
        zone: ZONE.into(),
        entries,
    }
}

fn wire_name(text: &str) -> Vec<u8> {
    NameBuf::from_text(text).expect("a name").as_bytes().to_vec()
}

fn rdata(entry: &Entry) -> Vec<u8> {
    let words: Vec<&str> = entry.data.split(' ').collect();
    let number = |at: usize| words[at].parse::<u32>().expect("a number");
    let short = |at: usize| (number(at) as u16).to_be_bytes().to_vec();
    match entry.rtype {
        "A" => entry
            .data
            .parse::<std::net::Ipv4Addr>()
            .expect("an address")
            .octets()
            .to_vec(),
        "AAAA" => entry
            .data
            .parse::<std::net::Ipv6Addr>()
            .expect("an address")
            .octets()
            .to_vec(),
        "NS" | "CNAME" | "DNAME" => wire_name(&entry.data),
        "TXT" => {
            let text = entry.data.trim_matches('"');
            [&[text.len() as u8], text.as_bytes()].concat()
        }
        "MX" => [short(0), wire_name(words[1])].concat(),
        "SRV" => [short(0), short(1), short(2), wire_name(words[3])].concat(),
        "SOA" => {
            let numbers = (2..7).flat_map(|at| number(at).to_be_bytes());
            [wire_name(words[0]), wire_name(words[1]), numbers.collect()].concat()
        }
        "DS" => vec![0, 1, 8, 2, 0xaa, 0xbb, 0xcc],
        other => panic!("{other}"),
    }
}

fn sets(oracle: &RecordOracle) -> BTreeMap<String, Vec<RrSet>> {
    let mut collector = Collector::default();
    for entry in &oracle.entries {
        let owner = NameBuf::from_text(&entry.owner).expect("a name");
        let rtype: Rtype = entry.rtype.parse().expect("a type");
        collector.add(&owner, rtype, entry.ttl, &rdata(entry), false);
    }
    collector
        .into_sets()
        .map(|(owner, sets)| (owner.to_string(), sets))
        .collect()
}

#[test]
fn record_zones_answer_as_the_list_does() {
    const TYPES: [&str; 11] = [
        "A", "AAAA", "TXT", "MX", "SRV", "CNAME", "DNAME", "NS", "DS", "SOA", "HINFO",
    ];
    let mut asked = 0;
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let apex = wire_name(ZONE);
        let apex = Name::from_wire(&apex).expect("a name");
        let mut builder = RecordZoneBuilder::new(RecordZone::unloaded(apex, hash()));
        let mut served = serve(ZONE, served::file(ZONE, 0), Zone::Records(builder.finish()));
        let mut before: BTreeMap<String, Vec<RrSet>> = BTreeMap::new();
        for _ in 0..VERSIONS {
            let oracle = random_records(&mut seeded);
            let now = sets(&oracle);
            let gone = before
                .keys()
                .filter(|owner| !now.contains_key(*owner))
                .map(|owner| (owner, Vec::new()));
            let come = now
                .iter()
                .filter(|(owner, sets)| before.get(*owner) != Some(*sets))
                .map(|(o, s)| (o, s.clone()));
            for (owner, sets) in gone.chain(come) {
                let owner = NameBuf::from_text(owner).expect("a name");
                builder.set(owner.as_name(), sets).expect("in the zone");
            }
            served.publish(0, Zone::Records(builder.finish()));
            before = now;
            let names = names_to_ask(oracle.entries.iter().map(|e| e.owner.clone()), &mut seeded);
            asked += ask_all(seed, &mut served, &names, &TYPES, &oracle, &|name, rtype| {
                oracle.resolve(name, rtype)
            });
        }
    }
    println!("{asked} questions to record zones");
}

// ---- services

fn random_value(seeded: &mut Seeded) -> Value {
    let mut value = Value::default();
    value.host = match seeded.below(10) {
        0..=3 => format!("192.0.2.{}", seeded.below(6)),
        4 => format!("2001:db8::{}", 1 + seeded.below(4)),
        5 | 6 => {
            random_key(seeded)
                .rsplit('/')
                .filter(|c| !c.is_empty())
                .map(|c| format!("{c}."))
                .collect::<String>()
                + ZONE
        }
        7 => "www.oak.example".to_owned(),
        _ => String::new(),
    };
    value.text = if value.host.is_empty() || seeded.once_in(6) {
        format!("t{}", seeded.below(3))
    } else {
        String::new()
    };
    value.port = if seeded.once_in(10) {
        -1
    } else {
        seeded.below(3) as i64 * 40
    };
    value.priority = if seeded.once_in(2) { 0 } else { seeded.below(3) as i64 };
    value.weight = if seeded.once_in(2) { 0 } else { seeded.below(200) as i64 };
    value.mail = seeded.once_in(3);
    value.ttl = if seeded.once_in(2) {
        0
    } else {
        60 + seeded.below(3) as u32
    };
    value.targetstrip = if seeded.once_in(4) { seeded.below(3) } else { 0 };
    if seeded.once_in(4) {
        value.group = (*seeded.pick(&["g1", "g2"])).to_owned();
    }
    value
}

/// A key below the zone, `a/b`.
fn random_key(seeded: &mut Seeded) -> String {
    if seeded.once_in(12) {
        return (*seeded.pick(&["dns/ns/1", "dns/ns/2", "dns/apex", "dns/apex/x"])).to_owned();
    }
    let parts: Vec<&str> = (0..=seeded.below(3))
        .map(|_| *seeded.pick(&["a", "b", "web", "x1", "_tcp"]))
        .collect();
    parts.join("/")
}

fn random_services(seeded: &mut Seeded) -> ServiceOracle {
    let mut keys = BTreeMap::new();
    for _ in 0..1 + seeded.below(20) {
        let below = random_key(seeded);
        let key = if seeded.once_in(40) {
            "/skydns/example/cedar".to_owned()
        } else {
            format!("/skydns/example/cedar/{below}")
        };
        let value = if seeded.once_in(10) {
            None
        } else {
            Some(random_value(seeded))
        };
        keys.insert(key, value);
    }
    ServiceOracle {
        zone: ZONE.into(),
        keys,
    }
}

/// As etcd has it.
fn json(value: &Value) -> String {
    serde_json::json!({
        "host": value.host, "port": value.port, "priority": value.priority, "weight": value.weight, "text": value.text,
        "mail": value.mail, "ttl": value.ttl, "targetstrip": value.targetstrip, "group": value.group,
    })
    .to_string()
}

/// Through the parser of the source, then into the engine's form.
fn service(key: &str, value: Option<&Value>) -> services::Service {
    let Some(value) = value else {
        return services::Service::unparsable(key.as_bytes());
    };
    let read = etcd::Service::parse(json(value).as_bytes()).expect("a service");
    let host = match read.host {
        etcd::Host::V4(address) => Host::V4(address),
        etcd::Host::V6(address) => Host::V6(address),
        etcd::Host::Name(name) => Host::Name(name.as_bytes().into()),
        etcd::Host::None | etcd::Host::Unencodable => Host::None,
    };
    let extra = Extra {
        text: read.text.into_bytes().into(),
        group: read.group.into(),
        mail: read.mail,
        targetstrip: read.targetstrip as u16,
        weight: read.weight,
        ..Extra::default()
    };
    services::Service {
        key: key.as_bytes().into(),
        host,
        port: (read.port != -1).then_some(read.port as u16),
        priority: if read.priority == 0 { 10 } else { read.priority as u16 },
        ttl_secs: read.ttl,
        bad: false,
        extra: (extra != Extra::default()).then(|| Box::new(extra)),
    }
}

#[test]
fn service_trees_answer_as_the_map_does() {
    const TYPES: [&str; 10] = ["A", "AAAA", "TXT", "SRV", "MX", "CNAME", "PTR", "NS", "SOA", "HINFO"];
    const OWN: &str = "/skydns/example/cedar";
    let mut asked = 0;
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let apex = wire_name(ZONE);
        let mut tree = ServiceTree::unsynced(Name::from_wire(&apex).expect("a name"), 1, hash());
        let mut served = serve(ZONE, served::etcd(ZONE, 0), Zone::Services(tree.clone()));
        let mut before: BTreeMap<String, Option<Value>> = BTreeMap::new();
        for _ in 0..VERSIONS {
            let oracle = random_services(&mut seeded);
            let mut editor = tree.edit();
            editor.set_synced();
            let relative = |key: &str| key[OWN.len()..].trim_start_matches('/').to_owned();
            for key in before.keys().filter(|key| !oracle.keys.contains_key(*key)) {
                editor.remove(relative(key).as_bytes());
            }
            for (key, value) in oracle
                .keys
                .iter()
                .filter(|(key, value)| before.get(*key) != Some(value))
            {
                editor.put(service(&relative(key), value.as_ref()));
            }
            tree = editor.finish(1_700_000_000);
            served.publish(0, Zone::Services(tree.clone()));
            before.clone_from(&oracle.keys);
            let name = |key: &String| {
                let key = relative(key);
                key.rsplit('/')
                    .filter(|c| !c.is_empty())
                    .map(|label| format!("{label}."))
                    .collect::<String>()
                    + ZONE
            };
            let mut names = names_to_ask(oracle.keys.keys().map(name), &mut seeded);
            names.extend(["*", "any.web", "a.*", "*.*", "x1.*.a", "_tcp.any"].map(|labels| format!("{labels}.{ZONE}")));
            asked += ask_all(seed, &mut served, &names, &TYPES, &oracle, &|name, rtype| {
                // A pattern never finds a PTR; what else it says there is left open.
                let is_wild = name.split('.').any(|label| matches!(label, "*" | "any"));
                if is_wild && rtype == "PTR" {
                    return Expected {
                        rcode: oracle.resolve(name, "HINFO").rcode,
                        ..Expected::default()
                    };
                }
                oracle.resolve(name, rtype)
            });
        }
    }
    println!("{asked} questions to service trees");
}

// ---- clusters

const DOMAIN: &str = "pond.local.";
const NAMESPACES: [&str; 3] = ["orchard", "meadow", "bog"];
const PORTS: [Port; 4] = [
    ("http", "tcp", 80),
    ("metrics", "tcp", 80),
    ("dns", "udp", 53),
    ("", "tcp", 9),
];

fn random_ports(seeded: &mut Seeded) -> Vec<Port> {
    PORTS.into_iter().filter(|_| seeded.once_in(2)).collect()
}

fn random_target(place: usize, seeded: &mut Seeded) -> Target {
    let place = place as u8;
    match seeded.below(6) {
        0 | 1 => Target::Headless,
        2 => Target::Alias(match seeded.below(5) {
            0 => "www.oak.example.".to_owned(),
            _ => format!("{}.svc.{DOMAIN}", random_service(seeded)),
        }),
        3 => Target::Own(vec![
            IpAddr::from([10, 96, 0, place]),
            format!("fd00::{}", 1 + place).parse().expect("an address"),
        ]),
        _ => Target::Own(vec![IpAddr::from([10, 96, 0, place])]),
    }
}

fn random_service(seeded: &mut Seeded) -> String {
    let name = *seeded.pick(&["web", "db", "cache", "a"]);
    format!("{name}.{}", seeded.pick(&NAMESPACES))
}

fn random_address(seeded: &mut Seeded) -> IpAddr {
    let number = seeded.below(6) as u8;
    match seeded.below(4) {
        0 => format!("fd00:1::{}", 1 + number).parse().expect("an address"),
        _ => IpAddr::from([10, 1, 0, number]),
    }
}

/// Changes some objects of a cluster.
fn change(oracle: &mut ClusterOracle, seeded: &mut Seeded) {
    for (place, namespace) in NAMESPACES.iter().enumerate() {
        if place == 0 || !seeded.once_in(3) {
            oracle.namespaces.insert((*namespace).to_owned());
        } else {
            oracle.namespaces.remove(*namespace);
        }
    }
    for _ in 0..1 + seeded.below(12) {
        let key = random_service(seeded);
        if seeded.once_in(4) {
            oracle.services.remove(&key);
        } else {
            let ports = random_ports(seeded);
            // An address belongs to one service.
            let place = oracle
                .services
                .keys()
                .position(|own| *own == key)
                .unwrap_or(oracle.services.len());
            let target = random_target(place, seeded);
            oracle.services.insert(key, Service { target, ports });
        }
        let id = (random_service(seeded), format!("slice-{}", seeded.below(3)));
        if seeded.once_in(4) {
            oracle.slices.remove(&id);
        } else {
            let endpoints = (0..seeded.below(4)).map(|_| {
                let label = seeded.once_in(3).then(|| *seeded.pick(&["db-0", "db-1", "twin"]));
                (random_address(seeded), label)
            });
            let endpoints = endpoints.collect();
            let ports = random_ports(seeded);
            oracle.slices.insert(id, Slice { ports, endpoints });
        }
        let pod = random_address(seeded);
        if seeded.once_in(3) {
            oracle.pods.remove(&pod);
        } else {
            oracle.pods.insert(pod, (*seeded.pick(&NAMESPACES)).to_owned());
        }
    }
}

fn labels(text: &str) -> Vec<u8> {
    let mut name = wire_name(text);
    name.pop();
    name
}

fn engine_ports(ports: &[Port]) -> Box<[cluster::Port]> {
    let port = |&(name, protocol, number): &Port| cluster::Port {
        name: name.as_bytes().into(),
        protocol: protocol.as_bytes().into(),
        number,
    };
    ports.iter().map(port).collect()
}

fn engine_service(service: &Service) -> cluster::Service {
    let kind = match &service.target {
        Target::Own(addresses) => Kind::Addresses(addresses.iter().map(|&address| address.into()).collect()),
        Target::Headless => Kind::Endpoints,
        Target::Alias(name) => Kind::Alias(wire_name(name).into()),
    };
    cluster::Service {
        kind,
        ports: engine_ports(&service.ports),
        external: Box::default(),
    }
}

fn engine_slice(id: &str, slice: &Slice) -> cluster::Slice {
    let endpoint = |(address, label): &(IpAddr, Option<&str>)| Endpoint {
        place: Place::Address((*address).into()),
        label: label.map(|label| label.as_bytes().into()),
        zone: None,
    };
    let endpoints = slice.endpoints.iter().map(endpoint).collect();
    cluster::Slice::new(
        id.as_bytes(),
        b"",
        engine_ports(&slice.ports),
        Box::default(),
        endpoints,
    )
}

/// Makes of one version what the other is, object by object.
fn edit(from: &ClusterOracle, to: &ClusterOracle, editor: &mut cluster::Editor) {
    for gone in from.namespaces.difference(&to.namespaces) {
        editor.namespace(&labels(gone), false);
    }
    for come in to.namespaces.difference(&from.namespaces) {
        editor.namespace(&labels(come), true);
    }
    for key in from.services.keys().filter(|key| !to.services.contains_key(*key)) {
        editor.service(Of::Cluster, &labels(key), None);
    }
    for (key, service) in to
        .services
        .iter()
        .filter(|(key, own)| from.services.get(*key) != Some(own))
    {
        editor.service(Of::Cluster, &labels(key), Some(engine_service(service)));
    }
    for (key, id) in from.slices.keys().filter(|key| !to.slices.contains_key(*key)) {
        editor.remove_slice(Of::Cluster, &labels(key), id.as_bytes());
    }
    for ((key, id), slice) in to.slices.iter().filter(|(key, own)| from.slices.get(*key) != Some(own)) {
        editor.put_slice(Of::Cluster, &labels(key), engine_slice(id, slice));
    }
    for (address, namespace) in from
        .pods
        .iter()
        .filter(|(address, own)| to.pods.get(*address) != Some(own))
    {
        editor.pod(&(*address).into(), &labels(namespace), None);
    }
    for (address, namespace) in to
        .pods
        .iter()
        .filter(|(address, own)| from.pods.get(*address) != Some(own))
    {
        editor.pod(&(*address).into(), &labels(namespace), Some(&PodLabels::default()));
    }
    editor.synced();
}

fn empty_cluster() -> Cluster {
    let apex = Apex {
        name: NameBuf::from_text(DOMAIN).expect("a name"),
        soa_ttl: 5,
        minimum: 5,
        authority: Authority::Dns,
    };
    Cluster::unsynced(vec![apex], 1, hash())
}

#[test]
fn clusters_answer_as_the_lists_do_however_they_were_made() {
    const TYPES: [&str; 7] = ["A", "AAAA", "SRV", "CNAME", "TXT", "MX", "SOA"];
    let mut asked = 0;
    for seed in seeds() {
        let mut seeded = Seeded::new(seed);
        let nothing = ClusterOracle {
            zone: DOMAIN.into(),
            ttl: 5,
            ignores_empty: seed % 2 == 1,
            ..ClusterOracle::default()
        };
        let mut oracle = nothing.clone();
        let mut grown = empty_cluster();
        let mut served = serve(
            DOMAIN,
            served::kubernetes(DOMAIN, 0, oracle.ignores_empty),
            Zone::Cluster(Box::new(grown.clone())),
        );
        for _ in 0..VERSIONS {
            let before = oracle.clone();
            change(&mut oracle, &mut seeded);
            let mut editor = grown.edit();
            edit(&before, &oracle, &mut editor);
            grown = editor.finish(1_700_000_000);
            let mut editor = empty_cluster().edit();
            edit(&nothing, &oracle, &mut editor);
            let built = editor.finish(1_700_000_000);
            let mut names = BTreeSet::new();
            let (written, old) = (oracle.written(), before.written());
            for name in written.names().chain(old.names()).cloned() {
                let asks = !matches!(name.as_str(), "ns.dns.pond.local." | "dns-version.pond.local.");
                names.insert(format!("{}.{name}", seeded.pick(&["a", "zz", "10-1-0-3", "_sctp"])));
                names.extend(Some(name).filter(|_| asks));
            }
            for cluster in [&grown, &built] {
                served.publish(0, Zone::Cluster(Box::new(cluster.clone())));
                asked += ask_all(seed, &mut served, &names, &TYPES, &oracle, &|name, rtype| {
                    written.resolve(name, rtype)
                });
            }
        }
    }
    println!("{asked} questions to clusters");
}
