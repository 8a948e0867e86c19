use std::collections::BTreeSet;

use nodens_wire::{Builder, Compressor, Flags, Message, NameBuf, Query, Rclass, Rtype, rdata};

use super::*;
use crate::cluster::history::HISTORY_MAX;
use crate::cluster::tests::{address, orchard, ports, service, show, shown_data, slice, view, wire, zones};
use crate::cluster::{Address, Editor, Endpoint, External, ExternalView, Kind, Of, Place, Shown, Slice, View, Zoned};
use crate::snapshot::ZoneId;
use crate::transfer::{Progress, Transfer, Wanted};
use crate::zone::Zone;
use crate::zone::trie::NameHash;

fn shows(kind: Zoned, view: View) -> Shows {
    Shows {
        shown: Shown { place: 0, kind },
        view: Arc::new(view),
        external: None,
    }
}

/// All records of all messages as text, and how many messages there were.
fn transferred(cluster: &Cluster, shows: &Shows, serial: Option<u32>) -> (Vec<String>, usize) {
    let (mut packet, mut names) = ([0; 512], Compressor::new());
    let apex = NameBuf::from_text("pond.local.").unwrap();
    let mut builder = Builder::new(&mut packet, 512, &mut names);
    builder.header(77, Flags(0));
    builder.question(apex.as_name(), Rtype::AXFR, Rclass::IN).unwrap();
    let len = builder.finish();
    let query = Query::parse(&packet[..len]).unwrap();
    let wanted = Wanted {
        data: ZoneId(0),
        shows: Some(shows.clone()),
        serial,
    };
    let zone = Arc::new(Zone::Cluster(Box::new(cluster.clone())));
    let mut transfer = Transfer::new(zone, wanted, apex, &query, None);
    let (mut records, mut messages, mut room) = (Vec::new(), 0, vec![0; 65_535]);
    loop {
        let progress = transfer.write(&mut room, &mut names);
        let (Progress::More(len) | Progress::Last(len)) = progress else {
            panic!("stuck after {} records", records.len());
        };
        messages += 1;
        records.extend(texts(&room[..len]));
        if let Progress::Last(_) = progress {
            return (records, messages);
        }
    }
}

fn texts(message: &[u8]) -> Vec<String> {
    let message = Message::parse(message).unwrap();
    let records = message.records().map(Result::unwrap);
    records
        .map(|record| {
            let owner = show(record.owner.to_buf().as_bytes());
            let mut room = [0; 65_535];
            let data = rdata::unpack(
                record.rtype,
                message.as_bytes(),
                record.rdata_at,
                record.rdata.len(),
                &mut room,
            );
            let data = data.unwrap();
            let data = match record.rtype {
                Rtype::SOA => rdata::Soa::parse(data).unwrap().serial.to_string(),
                rtype => shown_data(rtype, data),
            };
            format!("{owner} {} {} {data}", record.ttl, record.rtype)
        })
        .collect()
}

#[test]
fn a_zone_has_every_record_of_what_is_shown() {
    let mut editor = orchard();
    editor.synced();
    editor.service(Of::Cluster, &wire("web.hidden"), Some(service(Kind::Endpoints, &[])));
    let cluster = editor.finish(100);
    let (records, messages) = transferred(&cluster, &shows(Zoned::Forward, view()), None);
    let expected = [
        "pond.local. 5 SOA 100",
        "pond.local. 5 NS ns.dns",
        "ns.dns 0 A 192.0.2.53",
        "a 5 CNAME b",
        "b 5 CNAME a",
        "db 5 A 10.0.0.1",
        "twin.db 5 A 10.0.0.1",
        "_pg._tcp.db 5 SRV 33 5432 twin.db",
        "db 5 A 10.0.0.2",
        "twin.db 5 A 10.0.0.2",
        "_pg._tcp.db 5 SRV 33 5432 twin.db",
        "db 5 A 10.0.0.3",
        "10-0-0-3.db 5 A 10.0.0.3",
        "_pg._tcp.db 5 SRV 33 5432 10-0-0-3.db",
        // Another slice has it too.
        "db 5 A 10.0.0.3",
        "10-0-0-3.db 5 A 10.0.0.3",
        "_pg._tcp.db 5 SRV 100 5432 10-0-0-3.db",
        "dock 5 CNAME web",
        "lost 5 CNAME ghost",
        "web 5 A 10.96.0.20",
        "web 5 AAAA fd00::20",
        "web 5 SRV 100 80 web",
        "_http._tcp.web 5 SRV 100 80 web",
        "web 5 SRV 100 53 web",
        "pond.local. 5 SOA 100",
    ];
    assert_eq!((records, messages), (expected.map(str::to_owned).to_vec(), 1));
    let nothing = View {
        namespaces: Some(vec![wire("meadow")]),
        own: Vec::new(),
        ..view()
    };
    let (records, _) = transferred(&cluster, &shows(Zoned::Forward, nothing), None);
    assert_eq!(records, ["pond.local. 5 SOA 100", "pond.local. 5 SOA 100"]);
}

#[test]
fn the_services_of_this_server_are_name_servers() {
    let mut editor = orchard();
    editor.synced();
    let cluster = editor.finish(100);
    let ours = |own: &str| View {
        own: vec![address(own)],
        ..view()
    };
    let begins = |view, expected: &[&str]| {
        let (records, _) = transferred(&cluster, &shows(Zoned::Forward, view), None);
        assert_eq!(records[1..=expected.len()], *expected);
    };
    begins(
        ours("10.0.0.3"),
        &[
            "pond.local. 5 NS twin.db",
            "pond.local. 5 NS 10-0-0-3.db",
            "twin.db 0 A 10.0.0.1",
            "twin.db 0 A 10.0.0.2",
            "10-0-0-3.db 0 A 10.0.0.3",
        ],
    );
}

#[test]
fn services_of_other_clusters_have_a_zone_of_their_own() {
    let mut editor = orchard();
    let own = Kind::Addresses([address("10.97.0.1")].into());
    editor.service(
        Of::Clusterset,
        &wire("mail.orchard"),
        Some(service(own, &[("smtp", "tcp", 25)])),
    );
    editor.synced();
    let cluster = editor.finish(100);
    let (records, _) = transferred(&cluster, &shows(Zoned::Clusterset, view()), None);
    let expected = [
        "mail 5 A 10.97.0.1",
        "mail 5 SRV 100 25 mail",
        "_smtp._tcp.mail 5 SRV 100 25 mail",
    ];
    assert_eq!(records[3..records.len() - 1], expected);
}

#[test]
fn outside_there_are_the_addresses_of_outside() {
    let mut editor = orchard();
    let mut reached = service(Kind::Endpoints, &[("http", "tcp", 80), ("", "tcp", 81)]);
    reached.external = [address("192.0.2.7"), address("2001:db8::7")]
        .map(External::Address)
        .into();
    editor.service(Of::Cluster, &wire("web.orchard"), Some(reached.clone()));
    let name = NameBuf::from_text("lb.example").unwrap();
    reached.external = [External::Name(name.as_bytes().into())].into();
    editor.service(Of::Cluster, &wire("mail.orchard"), Some(reached));
    editor.synced();
    let cluster = editor.finish(100);
    let mut shows = shows(Zoned::Forward, view());
    let external = |headless| {
        Some(Arc::new(ExternalView {
            ttl: 7,
            apex: wire("dns"),
            headless,
            primary: NameBuf::from_text("pond.local").unwrap(),
        }))
    };
    shows.external = external(false);
    let (records, _) = transferred(&cluster, &shows, None);
    let expected = [
        "pond.local. 5 SOA 100",
        "pond.local. 7 NS ns1.dns",
        "ns1.dns 7 A 192.0.2.53",
        "mail.orchard 5 CNAME lb.example.",
        "_http._tcp.mail.orchard 5 SRV 100 80 lb.example.",
        "web.orchard 7 A 192.0.2.7",
        "web.orchard 7 AAAA 2001:db8::7",
        "web.orchard 5 SRV 25 80 web.orchard",
        "web.orchard 5 SRV 25 81 web.orchard",
        "_http._tcp.web.orchard 5 SRV 50 80 web.orchard",
        "pond.local. 5 SOA 100",
    ];
    assert_eq!(records, expected);
    shows.external = external(true);
    let (records, _) = transferred(&cluster, &shows, None);
    assert!(
        records.contains(&"twin.db.orchard 7 A 10.0.0.2".to_owned()),
        "{records:?}"
    );
}

fn many(services: u32, endpoints: u32) -> Cluster {
    let mut editor = Cluster::unsynced(zones(), 1, NameHash::new(7)).edit();
    editor.namespace(&wire("orchard"), true);
    for i in 0..services {
        let name = wire(&format!("svc-{i}.orchard"));
        editor.service(Of::Cluster, &name, Some(service(Kind::Endpoints, &[])));
        let endpoint = |at: u32| Endpoint {
            place: Place::Address(Address::V4((i * endpoints + at).to_be_bytes())),
            label: None,
            zone: None,
        };
        let all = (0..endpoints).map(endpoint).collect();
        let slice = Slice::new(b"a", b"", ports(&[("pg", "tcp", 5432)]), Box::default(), all);
        editor.put_slice(Of::Cluster, &name, slice);
    }
    editor.synced();
    editor.finish(100)
}

#[test]
fn every_record_comes_once_over_many_messages() {
    for (services, endpoints) in [(5_000, 1), (2, 5_000), (0, 0)] {
        let cluster = many(services, endpoints);
        let (mut records, messages) = transferred(&cluster, &shows(Zoned::Forward, view()), None);
        let all = 4 + (services * endpoints * 3) as usize;
        assert_eq!(records.len(), all);
        assert!(all < 100 || messages > 5, "{messages}");
        assert_eq!(records.first(), records.last());
        let by_name: Vec<_> = records.iter().filter(|record| record.starts_with("svc")).collect();
        assert!(by_name.is_sorted_by_key(|record| record.split(' ').next()));
        records.sort();
        records.dedup();
        assert_eq!(records.len(), all - 1);
    }
}

/// What a secondary has that follows by differences.
struct Secondary {
    serial: u32,
    records: BTreeSet<String>,
}

impl Secondary {
    fn whole(cluster: &Cluster, shows: &Shows) -> Self {
        let (records, _) = transferred(cluster, shows, None);
        Self {
            serial: cluster.serial(),
            records: records.into_iter().filter(|record| !record.contains(" SOA ")).collect(),
        }
    }

    /// True if it was told differences alone.
    fn follow(&mut self, cluster: &Cluster, shows: &Shows) -> bool {
        let (records, _) = transferred(cluster, shows, Some(self.serial));
        let soa = |serial| format!("pond.local. 5 SOA {serial}");
        let (now, before) = (soa(cluster.serial()), soa(self.serial));
        assert_eq!((records.first(), records.last()), (Some(&now), Some(&now)));
        let is_incremental = records[1] == before;
        if is_incremental {
            let middle = records[2..].iter().position(|record| *record == now).unwrap() + 2;
            for gone in &records[2..middle] {
                assert!(self.records.remove(gone), "{gone} was not there");
            }
            for new in &records[middle + 1..records.len() - 1] {
                assert!(self.records.insert(new.clone()), "{new} was there");
            }
            self.serial = cluster.serial();
        } else {
            *self = Self::whole(cluster, shows);
        }
        is_incremental
    }
}

#[test]
fn differences_lead_from_each_version_to_the_last() {
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut editor = Cluster::unsynced(zones(), 1, NameHash::new(7))
        .with_history(true)
        .edit();
    editor.synced();
    let mut cluster = editor.finish(100);
    let limited = View {
        namespaces: Some(vec![wire("orchard")]),
        ..view()
    };
    let all = [
        shows(Zoned::Forward, view()),
        shows(Zoned::Forward, limited),
        shows(Zoned::Clusterset, view()),
    ];
    let mut secondaries = all.each_ref().map(|shows| Secondary::whole(&cluster, shows));
    for round in 0..600 {
        let mut editor = cluster.edit();
        for _ in 0..=random(4) {
            change(&mut editor, &mut random);
        }
        cluster = editor.finish(100);
        for (secondary, shows) in secondaries.iter_mut().zip(&all) {
            // Some come less often.
            if random(3) == 0 {
                assert!(secondary.follow(&cluster, shows), "round {round}");
                let expected = Secondary::whole(&cluster, shows);
                assert_eq!(secondary.records, expected.records, "round {round}");
            }
        }
    }
}

fn change(editor: &mut Editor, random: &mut impl FnMut(u64) -> u64) {
    let namespace = ["orchard", "meadow"][random(2) as usize];
    let labels = wire(&format!("{}.{namespace}", ["web", "db"][random(2) as usize]));
    let of = [Of::Cluster, Of::Clusterset][random(2) as usize];
    let target = NameBuf::from_text("www.example").unwrap();
    let http = [("http", "tcp", 80 + random(2) as u16)];
    let kind = match random(4) {
        0 => Kind::Addresses([address(&format!("10.96.0.{}", random(3)))].into()),
        1 => Kind::Alias(target.as_bytes().into()),
        _ => Kind::Endpoints,
    };
    match random(8) {
        0 => editor.namespace(&wire(namespace), random(3) > 0),
        1 => editor.service(of, &labels, None),
        2 | 3 => editor.service(of, &labels, Some(service(kind, &http))),
        4 => editor.remove_slice(of, &labels, b"a"),
        _ => {
            let id = ["a", "b"][random(2) as usize];
            let texts: Vec<_> = (0..random(4)).map(|_| format!("10.0.0.{}", random(4))).collect();
            let endpoints = texts
                .iter()
                .map(|text| (&**text, [None, Some("twin")][random(2) as usize]));
            editor.put_slice(of, &labels, slice(id, &http, &endpoints.collect::<Vec<_>>()));
        }
    }
}

#[test]
fn a_change_of_name_servers_is_told_with_the_whole_zone() {
    let mut editor = orchard();
    editor.synced();
    let cluster = editor.finish(100).with_history(true);
    let shows = shows(
        Zoned::Forward,
        View {
            own: vec![address("10.0.0.9")],
            ..view()
        },
    );
    let mut secondary = Secondary::whole(&cluster, &shows);
    let mut editor = cluster.edit();
    editor.service(Of::Cluster, &wire("web.orchard"), None);
    let cluster = editor.finish(100);
    assert!(secondary.follow(&cluster, &shows));
    let mut editor = cluster.edit();
    editor.service(Of::Cluster, &wire("gone.orchard"), Some(service(Kind::Endpoints, &[])));
    let cluster = editor.finish(100);
    assert!(!secondary.follow(&cluster, &shows));
    assert!(secondary.records.contains("pond.local. 5 NS 10-0-0-9.gone"));
}

#[test]
fn what_is_shown_anew_is_told_with_the_whole_zone() {
    let mut editor = orchard();
    editor.synced();
    let cluster = editor.finish(100).with_history(true);
    let mut secondary = Secondary::whole(&cluster, &shows(Zoned::Forward, view()));
    let mut editor = cluster.edit();
    let mut zones = zones();
    zones[0].minimum = 40;
    editor.show_anew(zones);
    editor.service(Of::Cluster, &wire("web.orchard"), None);
    let cluster = editor.finish(100);
    let anew = shows(Zoned::Forward, View { ttl: 40, ..view() });
    assert!(!secondary.follow(&cluster, &anew));
    assert!(secondary.records.iter().all(|record| !record.contains(" 5 A ")));
    // From there on the differences are enough again.
    let mut editor = cluster.edit();
    editor.service(Of::Cluster, &wire("gone.orchard"), Some(service(Kind::Endpoints, &[])));
    assert!(secondary.follow(&editor.finish(100), &anew));
}

#[test]
fn so_much_of_the_past_is_kept() {
    let mut cluster = many(1, 4_000).with_history(true);
    let all = shows(Zoned::Forward, view());
    let mut at = vec![cluster.serial()];
    for round in 0..20_u16 {
        let mut editor = cluster.edit();
        editor.remove_slice(Of::Cluster, &wire("svc-0.orchard"), b"b");
        let label = format!("10.1.0.{round}");
        editor.put_slice(Of::Cluster, &wire("svc-0.orchard"), slice("b", &[], &[(&label, None)]));
        cluster = editor.finish(100);
        at.push(cluster.serial());
    }
    let is_kept = |serial: &&u32| cluster.changes(&all, **serial).is_some();
    let kept = at.iter().rev().skip(1).take_while(is_kept).count();
    assert_eq!(kept, HISTORY_MAX / 4_018);
    assert_eq!(at.iter().rev().skip(1).filter(is_kept).count(), kept);
    let (unknown, _) = transferred(&cluster, &all, Some(7));
    assert!(unknown[1].contains("NS"));
}
