//! Answers of a small cluster, name by name; `tests/cases/kubernetes` has the whole of it against a real API server.

use std::net::IpAddr;

use nodens_wire::{NameBuf, Rclass, Rtype, Section};

use super::*;
use crate::answer::{Answer, Memory, Owner};
use crate::plan::Asked;
use crate::services::answer::Scratch;
use crate::zone::trie::NameHash;

pub(super) fn wire(text: &str) -> Box<[u8]> {
    let name = NameBuf::from_text(text).unwrap();
    let bytes = name.as_bytes();
    bytes[..bytes.len() - 1].into()
}

pub(super) fn address(text: &str) -> Address {
    Address::from(text.parse::<IpAddr>().unwrap())
}

pub(super) fn ports(list: &[(&str, &str, u16)]) -> Box<[Port]> {
    list.iter()
        .map(|&(name, protocol, number)| Port {
            name: name.as_bytes().into(),
            protocol: protocol.as_bytes().into(),
            number,
        })
        .collect()
}

pub(super) fn service(kind: Kind, list: &[(&str, &str, u16)]) -> Service {
    Service {
        kind,
        ports: ports(list),
        external: Box::default(),
    }
}

pub(super) fn slice(id: &str, list: &[(&str, &str, u16)], endpoints: &[(&str, Option<&str>)]) -> Slice {
    let endpoints = endpoints.iter().map(|&(at, label)| Endpoint {
        place: Place::Address(address(at)),
        label: label.map(|label| label.as_bytes().into()),
        zone: None,
    });
    Slice::new(id.as_bytes(), b"", ports(list), Box::default(), endpoints.collect())
}

pub(super) fn zones() -> Vec<Apex> {
    ["pond.local", "in-addr.arpa"]
        .map(|name| Apex {
            name: NameBuf::from_text(name).unwrap(),
            soa_ttl: 5,
            minimum: 5,
            authority: Authority::Dns,
        })
        .into()
}

pub(super) fn view() -> View {
    View {
        ttl: 5,
        namespaces: None,
        pods: Pods::Verified,
        ignore_empty_services: false,
        zonal: false,
        primary: NameBuf::from_text("pond.local").unwrap(),
        own: vec![address("192.0.2.53")],
    }
}

pub(super) fn orchard() -> Editor {
    let mut editor = Cluster::unsynced(zones(), 1, NameHash::new(7)).edit();
    editor.namespace(&wire("orchard"), true);
    let own = Kind::Addresses([address("10.96.0.20"), address("fd00::20")].into());
    let web = service(own, &[("http", "tcp", 80), ("", "udp", 53)]);
    editor.service(Of::Cluster, &wire("web.orchard"), Some(web));
    editor.service(Of::Cluster, &wire("db.orchard"), Some(service(Kind::Endpoints, &[])));
    let pg = [("pg", "tcp", 5432)];
    let twins = [
        ("10.0.0.1", Some("twin")),
        ("10.0.0.2", Some("twin")),
        ("10.0.0.3", None),
    ];
    editor.put_slice(Of::Cluster, &wire("db.orchard"), slice("a", &pg, &twins));
    editor.put_slice(Of::Cluster, &wire("db.orchard"), slice("b", &pg, &[("10.0.0.3", None)]));
    editor.service(Of::Cluster, &wire("bare.orchard"), Some(service(Kind::Endpoints, &[])));
    for (from, to) in [("a", "b"), ("b", "a"), ("dock", "web"), ("lost", "ghost")] {
        let target = NameBuf::from_text(&format!("{to}.orchard.svc.pond.local")).unwrap();
        let alias = service(Kind::Alias(target.as_bytes().into()), &[]);
        editor.service(Of::Cluster, &wire(&format!("{from}.orchard")), Some(alias));
    }
    editor.pod(&address("10.9.0.1"), &wire("orchard"), Some(&PodLabels::default()));
    editor.put_slice(
        Of::Cluster,
        &wire("gone.orchard"),
        slice("c", &pg, &[("10.0.0.9", None)]),
    );
    editor
}

fn text(cluster: &Cluster, view: &View, name: &str, rtype: Rtype) -> String {
    let name = NameBuf::from_text(name).unwrap();
    let folded = name.clone().folded();
    let (place, kind, apex) = if folded.to_string().ends_with("arpa.") {
        (1, Zoned::Reverse, "in-addr.arpa")
    } else {
        (0, Zoned::Forward, "pond.local")
    };
    let apex_at = folded.as_bytes().len() - NameBuf::from_text(apex).unwrap().as_bytes().len();
    let asked = Asked {
        name: name.as_name(),
        folded: folded.as_bytes(),
        rtype,
        rclass: Rclass::IN,
        series: 0,
        may_copy: true,
    };
    let mut answer = Answer::new(Memory::default());
    Look {
        cluster,
        view,
        shown: Shown { place, kind },
        asked: &asked,
        apex_at,
        held: None,
        ttl: view.ttl,
        scratch: &mut Scratch::default(),
    }
    .respond(&mut answer);
    let mut lines = vec![format!("{}", answer.rcode)];
    for section in [Section::Answer, Section::Additional] {
        for pick in &answer.sections[section as usize] {
            let owner = match pick.owner {
                Owner::Question => "@".to_owned(),
                Owner::Name(bytes) => show(answer.bytes(bytes)),
            };
            let rdata = answer.bytes(pick.rdata);
            let data = shown_data(pick.rtype, rdata);
            let mark = if section == Section::Answer { "" } else { "+" };
            lines.push(format!("{mark}{owner} {data}"));
        }
    }
    if answer.authority.is_some() {
        lines.push("SOA".to_owned());
    }
    lines.join("; ")
}

pub(super) fn shown_data(rtype: Rtype, rdata: &[u8]) -> String {
    match rtype {
        Rtype::A => IpAddr::from(<[u8; 4]>::try_from(rdata).unwrap()).to_string(),
        Rtype::AAAA => IpAddr::from(<[u8; 16]>::try_from(rdata).unwrap()).to_string(),
        Rtype::SRV => {
            let number = |at: usize| u16::from_be_bytes([rdata[at], rdata[at + 1]]);
            format!("{} {} {}", number(2), number(4), show(&rdata[6..]))
        }
        Rtype::CNAME | Rtype::PTR | Rtype::NS => show(rdata),
        other => format!("{other}"),
    }
}

pub(super) fn show(name: &[u8]) -> String {
    let name = nodens_wire::Name::from_wire(name).unwrap().to_string();
    name.replace(".pond.local.", "").replace(".orchard.svc", "")
}

#[test]
fn names_are_answered_by_the_schema() {
    let mut editor = orchard();
    editor.synced();
    let cluster = editor.finish(100);
    let check = |name: &str, rtype, expected: &str| {
        let name = format!("{name}.pond.local");
        assert_eq!(text(&cluster, &view(), &name, rtype), expected, "{name} {rtype}");
    };
    check("web.orchard.svc", Rtype::A, "NOERROR; @ 10.96.0.20");
    check("Web.ORCHARD.svc", Rtype::AAAA, "NOERROR; @ fd00::20");
    check("web.orchard.svc", Rtype::MX, "NOERROR; SOA");
    check(
        "web.orchard.svc",
        Rtype::SRV,
        "NOERROR; @ 25 80 web; @ 25 53 web; +web 10.96.0.20; +web fd00::20",
    );
    check(
        "_http._tcp.web.orchard.svc",
        Rtype::SRV,
        "NOERROR; @ 50 80 web; +web 10.96.0.20; +web fd00::20",
    );
    check("_http._tcp.web.orchard.svc", Rtype::A, "NOERROR; @ 10.96.0.20");
    check("_http._udp.web.orchard.svc", Rtype::SRV, "NXDOMAIN; SOA");
    check("_tcp.web.orchard.svc", Rtype::A, "NOERROR; SOA");
    check("_udp.web.orchard.svc", Rtype::A, "NXDOMAIN; SOA");
    check(
        "db.orchard.svc",
        Rtype::A,
        "NOERROR; @ 10.0.0.1; @ 10.0.0.2; @ 10.0.0.3",
    );
    check("twin.db.orchard.svc", Rtype::A, "NOERROR; @ 10.0.0.1; @ 10.0.0.2");
    check("10-0-0-3.db.orchard.svc", Rtype::A, "NOERROR; @ 10.0.0.3");
    check("10-0-0-3.db.orchard.svc", Rtype::AAAA, "NOERROR; SOA");
    check("10-0-0-4.db.orchard.svc", Rtype::A, "NXDOMAIN; SOA");
    check(
        "_pg._tcp.db.orchard.svc",
        Rtype::SRV,
        "NOERROR; @ 25 5432 twin.db; @ 25 5432 10-0-0-3.db; +twin.db 10.0.0.1; +twin.db 10.0.0.2; +10-0-0-3.db 10.0.0.3",
    );
    check("bare.orchard.svc", Rtype::A, "NXDOMAIN; SOA");
    check("gone.orchard.svc", Rtype::A, "NXDOMAIN; SOA");
    check("a.orchard.svc", Rtype::A, "NOERROR; @ b; b a");
    check("dock.orchard.svc", Rtype::A, "NOERROR; @ web; web 10.96.0.20");
    check("dock.orchard.svc", Rtype::CNAME, "NOERROR; @ web");
    check("dock.orchard.svc", Rtype::TXT, "NOERROR; @ web; SOA");
    check("lost.orchard.svc", Rtype::A, "NXDOMAIN; @ ghost; SOA");
    check("orchard.svc", Rtype::TXT, "NOERROR; SOA");
    check("meadow.svc", Rtype::A, "NXDOMAIN; SOA");
    check("10-9-0-1.orchard.pod", Rtype::A, "NOERROR; @ 10.9.0.1");
    check("10-9-0-2.orchard.pod", Rtype::A, "NXDOMAIN; SOA");
    check("ns.dns", Rtype::A, "NOERROR; @ 192.0.2.53");
    check("www", Rtype::A, "NXDOMAIN; SOA");
}

#[test]
fn addresses_have_the_names_of_services_first() {
    let mut editor = orchard();
    editor.synced();
    let cluster = editor.finish(100);
    let check = |name: &str, rtype, expected: &str| {
        assert_eq!(text(&cluster, &view(), name, rtype), expected, "{name} {rtype}");
    };
    check("20.0.96.10.in-addr.arpa", Rtype::PTR, "NOERROR; @ web");
    check("3.0.0.10.in-addr.arpa", Rtype::PTR, "NOERROR; @ 10-0-0-3.db");
    check("1.0.0.10.in-addr.arpa", Rtype::A, "NOERROR; SOA");
    check("9.0.0.10.in-addr.arpa", Rtype::PTR, "NXDOMAIN; SOA");
    check("0.0.10.in-addr.arpa", Rtype::PTR, "NOERROR; SOA");
    check("1.0.10.in-addr.arpa", Rtype::PTR, "NXDOMAIN; SOA");
    let hidden = View {
        namespaces: Some(vec![wire("meadow")]),
        ..view()
    };
    assert_eq!(
        text(&cluster, &hidden, "20.0.96.10.in-addr.arpa", Rtype::PTR),
        "NXDOMAIN; SOA"
    );
}

#[test]
fn before_everything_was_read_nobody_knows_what_is_missing() {
    let cluster = orchard().finish(100);
    let check = |name: &str, expected: &str| {
        assert_eq!(text(&cluster, &view(), name, Rtype::A), expected, "{name}");
    };
    check("web.orchard.svc.pond.local", "NOERROR; @ 10.96.0.20");
    check("ghost.orchard.svc.pond.local", "SERVFAIL; SOA");
    check("svc.pond.local", "NOERROR; SOA");
    check("21.0.96.10.in-addr.arpa", "SERVFAIL; SOA");
}

#[test]
fn what_is_gone_leaves_nothing_behind() {
    let mut editor = orchard();
    editor.synced();
    let mut editor = editor.finish(100).edit();
    for name in ["web", "db", "bare", "a", "b", "dock", "lost"] {
        editor.service(Of::Cluster, &wire(&format!("{name}.orchard")), None);
    }
    for (name, id) in [("db", "a"), ("db", "b"), ("gone", "c")] {
        editor.remove_slice(Of::Cluster, &wire(&format!("{name}.orchard")), id.as_bytes());
    }
    editor.pod(&address("10.9.0.1"), &wire("orchard"), None);
    editor.namespace(&wire("orchard"), false);
    let cluster = editor.finish(100);
    assert_eq!(cluster.serial(), 101, "a change is told, whatever the clock says");
    assert!(cluster.services.is_empty() && cluster.addresses.is_empty() && cluster.pods.is_empty());
    assert!(cluster.namespaces.is_empty());
}

#[test]
fn a_pods_labels_are_those_that_were_said_last() {
    let at = address("10.9.0.7");
    let owner = [&wire("orchard")[..], b"picker"].concat();
    let mut cluster = orchard().finish(100);
    let mut says = |labels: Option<&PodLabels>| {
        let mut editor = cluster.edit();
        editor.pod(&at, &owner, labels);
        cluster = editor.finish(100);
        let kept = cluster.pod_name_of(&at)?;
        let label = pod::label(kept, 0).map(|text| String::from_utf8_lossy(text).into_owned());
        Some((String::from_utf8_lossy(pod::name(kept)).into_owned(), label))
    };
    let known = |label: Option<&str>| Some(("picker".to_owned(), label.map(str::to_owned)));
    assert_eq!(says(Some(&PodLabels::new([Some("ripe")]))), known(Some("ripe")));
    assert_eq!(says(Some(&PodLabels::new([Some("green")]))), known(Some("green")));
    assert_eq!(says(Some(&PodLabels::new([None]))), known(None));
    assert_eq!(says(Some(&PodLabels::default())), known(None));
    assert_eq!(says(None), None);
}

#[test]
fn one_answer_holds_so_many_endpoints() {
    let mut editor = orchard();
    editor.synced();
    let endpoint = |at: u32| Endpoint {
        place: Place::Address(Address::V4(at.to_be_bytes())),
        label: None,
        zone: None,
    };
    let endpoints = (0..=ENDPOINTS_MAX as u32).map(endpoint).collect();
    let many = Slice::new(b"many", b"", ports(&[("pg", "tcp", 5432)]), Box::default(), endpoints);
    editor.put_slice(Of::Cluster, &wire("bare.orchard"), many);
    let cluster = editor.finish(100);
    for rtype in [Rtype::A, Rtype::SRV] {
        let found = text(&cluster, &view(), "bare.orchard.svc.pond.local", rtype);
        assert_eq!(found.matches("; @").count(), ENDPOINTS_MAX);
    }
}
