//! The steps that stand before those with data: what each does on the way down and up, over made-up zones.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{DNSClass, RecordType};
use nodens_engine::plan::{
    Acl, AclAction, AclLine, AclStanza, Chaos, Cidr, Header, LoadBalance, Local, Nets, Plan, Step,
};
use nodens_engine::snapshot::{Choice, Route, ZoneId};
use nodens_engine::zone::{Weights, Zone};
use nodens_tests::served::{Served, file, framed, hash, map, name, packet, plan, records, soa, unframed};
use nodens_wire::Rtype;

const ZONE: &str = "cedar.example.";

/// A zone of a few names behind these steps.
fn served(steps: impl IntoIterator<Item = Step>) -> Served {
    served_by(Plan {
        steps: steps.into_iter().chain([file(ZONE, 0)]).collect(),
        metrics: true,
        ..Plan::default()
    })
}

fn served_by(plan: Plan) -> Served {
    let mx = [&[0, 10], name("www.cedar.example").as_bytes()].concat();
    let alias = |target: &str| name(target).as_bytes().to_vec();
    let zone = records(
        ZONE,
        [
            (ZONE, Rtype::SOA, soa(ZONE)),
            (ZONE, Rtype::NS, alias("ns1.cedar.example")),
            (ZONE, Rtype::MX, mx),
            ("www.cedar.example", Rtype::A, vec![192, 0, 2, 1]),
            ("alias.cedar.example", Rtype::CNAME, alias("www.oak.example")),
            ("sub.cedar.example", Rtype::NS, alias("ns.sub.cedar.example")),
            ("ns.sub.cedar.example", Rtype::A, vec![192, 0, 2, 2]),
        ],
    );
    Served::new(vec![(ZONE, plan)], vec![Zone::Records(zone)], None)
}

/// Everything counts in the first series.
fn counters() -> Box<[(u32, Box<[u32]>)]> {
    [(0, [0, 0].into())].into()
}

fn line(action: AclAction, types: &[Rtype], nets: &[(&str, u8)]) -> AclLine {
    let net = |&(address, prefix): &(&str, u8)| Cidr {
        address: address.parse().unwrap(),
        prefix,
    };
    AclLine {
        action,
        types: (!types.is_empty()).then(|| types.into()),
        nets: (!nets.is_empty()).then(|| Nets::new(nets.iter().map(net))),
    }
}

fn stanza(zone: &str, behind: u32, lines: impl IntoIterator<Item = AclLine>) -> AclStanza {
    AclStanza {
        zones: map(hash(), zone, behind),
        lines: lines.into_iter().collect(),
    }
}

/// Steps that leave alone what is asked here.
fn bystanders() -> [Step; 5] {
    let chaos = Chaos {
        version: b"\x01v".as_slice().into(),
        host: b"\x01h".as_slice().into(),
        authors: [b"\x01a".as_slice().into(), b"\x01b".as_slice().into()].into(),
    };
    let pass = stanza(ZONE, 0, [line(AclAction::Allow, &[], &[("127.0.0.0", 8)])]);
    [
        Step::Local(Local { localhost_prefix: true }),
        Step::Any,
        Step::Chaos(chaos),
        Step::Acl(Acl {
            stanzas: [pass].into(),
            counters: counters(),
        }),
        Step::Header(Header::default()),
    ]
}

fn types(records: &[hickory_proto::rr::Record]) -> Vec<RecordType> {
    records.iter().map(|record| record.record_type()).collect()
}

#[test]
fn the_first_line_that_fits_decides() {
    use AclAction::{Allow, Block, Drop, Filter};
    let stanzas = [
        stanza(
            "www.cedar.example.",
            0,
            [
                line(Block, &[Rtype::TXT], &[("127.0.0.1", 32)]),
                line(Block, &[], &[("198.51.100.0", 24), ("::", 0)]),
                line(Allow, &[Rtype::A, Rtype::AAAA], &[]),
            ],
        ),
        stanza(
            ZONE,
            0,
            [line(Filter, &[Rtype::A], &[]), line(Drop, &[Rtype::SOA], &[])],
        ),
    ];
    let mut served = served([Step::Acl(Acl {
        stanzas: stanzas.into(),
        counters: counters(),
    })]);
    let mut check = |text: &str, rcode, answers| {
        let reply = served.ask(text);
        assert_eq!(
            (
                reply.metadata.response_code,
                reply.answers.len(),
                reply.metadata.authoritative
            ),
            (
                rcode,
                answers,
                rcode == ResponseCode::NoError && !text.contains("x.cedar")
            ),
            "{text}"
        );
    };
    check("www.cedar.example. A", ResponseCode::NoError, 1);
    check("www.cedar.example. TXT", ResponseCode::Refused, 0);
    check("www.cedar.example. MX", ResponseCode::NoError, 0);
    check("x.cedar.example. A", ResponseCode::NoError, 0);
    check("cedar.example. MX", ResponseCode::NoError, 1);
    assert!(served.exchange(&packet(1, "cedar.example. SOA", None), 512).is_empty());

    let counted = served.stats.series[0].acl.each_ref().map(|count| count.get());
    assert_eq!(counted, [1, 1, 1, 3], "blocked, filtered, dropped, allowed");
    let by = |rcode: usize| -> u64 {
        served.stats.series[0].responses[rcode]
            .iter()
            .map(|count| count.get())
            .sum()
    };
    assert_eq!((by(0), by(5)), (5, 1), "what was dropped counts as NOERROR");
}

#[test]
fn nothing_goes_back_on_a_stream_either() {
    let drop = stanza(ZONE, 0, [line(AclAction::Drop, &[Rtype::TXT], &[])]);
    let mut served = served([Step::Acl(Acl {
        stanzas: [drop].into(),
        counters: counters(),
    })]);
    let stream = nodens_engine::io::StreamId(1);
    served.open(stream);
    let both = ["www.cedar.example. TXT", "www.cedar.example. A"].map(|text| framed(&packet(7, text, None)));
    assert_eq!(unframed(&served.feed(stream, &both.concat())).len(), 1);
}

#[test]
fn an_alias_leads_through_acl_again() {
    let block = stanza("oak.example.", 1, [line(AclAction::Drop, &[], &[])]);
    let steps = [
        Step::Acl(Acl {
            stanzas: [block].into(),
            counters: counters(),
        }),
        file(ZONE, 0),
    ];
    let own = Plan {
        steps: steps.into(),
        metrics: true,
        ..Plan::default()
    };
    let mut served = served_by(own);
    served.config.listeners[0]
        .routes
        .entry(&name("oak.example."), || Choice::Block(Route { plan: 0, series: 0 }));
    let reply = served.ask("alias.cedar.example. A");
    assert_eq!(
        types(&reply.answers),
        [RecordType::CNAME],
        "what was dropped is not there"
    );
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
}

#[test]
fn bits_of_the_header() {
    let on = Some(true);
    let off = Some(false);
    let check = |header: Header, text: &str, expected: [bool; 3]| {
        let metadata = served([Step::Header(header)]).ask(text).metadata;
        let bits = [
            metadata.authoritative,
            metadata.recursion_available,
            metadata.recursion_desired,
        ];
        assert_eq!(bits, expected, "{header:?} {text}");
    };
    let all = Header {
        query_rd: None,
        aa: off,
        ra: on,
        rd: off,
    };
    check(Header::default(), "www.cedar.example. A", [true, false, true]);
    check(all, "www.cedar.example. A", [false, true, false]);
    check(all, "x.cedar.example. A", [false, true, false]);
    // The server's own reply: it was not made behind `header`.
    check(all, "cedar.example. AXFR", [false, false, true]);
    let query = Header {
        query_rd: off,
        ..Header::default()
    };
    check(query, "www.cedar.example. A", [true, false, false]);
    check(query, "cedar.example. AXFR", [false, false, false]);
    check(Header { rd: on, ..query }, "www.cedar.example. A", [true, false, true]);
}

#[test]
fn minimal_keeps_what_a_reply_lives_on() {
    let check = |text: &str, expected: [&[RecordType]; 3]| {
        let Message {
            answers,
            authorities,
            additionals,
            ..
        } = served([Step::Minimal]).ask(text);
        assert_eq!(
            [types(&answers), types(&authorities), types(&additionals)],
            expected,
            "{text}"
        );
    };
    check("www.cedar.example. A", [&[RecordType::A], &[], &[]]);
    check("cedar.example. MX", [&[RecordType::MX], &[], &[]]);
    check("www.cedar.example. TXT", [&[], &[RecordType::SOA], &[]]);
    check("x.cedar.example. A", [&[], &[RecordType::SOA], &[]]);
    check("a.sub.cedar.example. A", [&[], &[RecordType::NS], &[RecordType::A]]);
    let whole = served([]).ask("cedar.example. MX");
    assert_eq!((whole.authorities.len(), whole.additionals.len()), (1, 1));
}

#[test]
fn a_reply_is_as_long_as_bufsize_says_at_most() {
    let texts = (0..8).map(|i| ("many.cedar.example", Rtype::TXT, [&[100; 100][..], &[i]].concat()));
    let zone = records(ZONE, [(ZONE, Rtype::SOA, soa(ZONE))].into_iter().chain(texts));
    let own = Plan {
        udp_size: Some(600),
        ..plan(file(ZONE, 0))
    };
    let mut served = Served::new(vec![(ZONE, own)], vec![Zone::Records(zone)], None);
    let mut check = |offered, most: usize, told| {
        let reply = served.exchange(&packet(1, "many.cedar.example. TXT", offered), 2048);
        assert!(
            reply.len() <= most && reply.len() > most - 110,
            "{offered:?}: {}",
            reply.len()
        );
        let message = Message::from_vec(&reply).unwrap();
        assert!(message.metadata.truncation, "{offered:?}");
        assert_eq!(message.edns.map(|edns| edns.max_payload()), told, "{offered:?}");
    };
    check(Some(4096), 600, Some(600));
    check(Some(550), 550, Some(600));
    check(None, 512, None);
    assert!(!served.ask_over_stream("many.cedar.example. TXT").metadata.truncation);
}

/// The longest that a Corefile may give, beside the longest question and every other option.
#[test]
fn the_smallest_reply_has_room_for_the_longest_nsid() {
    let data = [7; nodens::corefile::directive::NSID_LEN_MAX];
    let block = stanza(".", 0, [line(AclAction::Block, &[], &[])]);
    let own = Plan {
        steps: [Step::Acl(Acl {
            stanzas: [block].into(),
            counters: counters(),
        })]
        .into(),
        nsid: Some(data.as_slice().into()),
        ..Plan::default()
    };
    let mut served = Served::new(vec![(".", own)], Vec::new(), None);
    let long = format!("{0}.{0}.{0}.{1}. A", "a".repeat(63), "b".repeat(61));
    let asked = |nsid: bool| {
        let mut packet = packet(1, &long, Some(512));
        if nsid {
            let len = packet.len();
            packet[len - 1] = 4;
            packet.extend([0, 3, 0, 0]);
        }
        packet
    };
    let reply = served.exchange(&asked(true), 512);
    let options = |reply: &[u8]| {
        let edns = Message::from_vec(reply).unwrap().edns.unwrap();
        edns.options()
            .options
            .iter()
            .map(|(code, _)| u16::from(*code))
            .collect::<Vec<_>>()
    };
    assert_eq!(options(&reply), [3, 15]);
    assert!(reply.windows(data.len()).any(|part| part == data));
    assert_eq!(options(&served.exchange(&asked(false), 512)), [15], "nobody asked");
}

#[test]
fn class_ch_reaches_chaos_and_what_is_behind_it() {
    let mut served = served(bystanders());
    served.config.listeners[0]
        .routes
        .entry(&name("."), || Choice::Block(Route { plan: 0, series: 0 }));
    served.config.listeners[0].any_class = true;
    let mut check = |text: &str, expected: &[&str]| {
        let reply = served.ask(text);
        let mut got: Vec<String> = reply.answers.iter().map(|record| record.data.to_string()).collect();
        got.sort();
        assert_eq!(got, expected, "{text}");
        assert!(
            reply
                .answers
                .iter()
                .all(|record| record.dns_class == DNSClass::CH && record.ttl == 0)
                || text.contains("cedar"),
            "{text}"
        );
    };
    check("version.bind. TXT CH", &["v"]);
    check("VERSION.server. TXT CH", &["v"]);
    check("id.server. TXT CH", &["h"]);
    check("hostname.bind. TXT CH", &["h"]);
    check("authors.bind. TXT CH", &["a", "b"]);
    check("version.bind. TXT", &[]);
    check("version.bind. A CH", &[]);
    check("www.cedar.example. A CH", &["192.0.2.1"]);
}

#[test]
fn a_panic_ends_a_debugged_server() {
    let broken = || {
        let mut served = served([]);
        // An alias that leads to a block that is not there.
        let nowhere = || Choice::Block(Route { plan: 9, series: 0 });
        served.config.listeners[0].routes.entry(&name("oak.example."), nowhere);
        served
    };
    let mut caught = broken();
    let reply = caught.ask("alias.cedar.example. A");
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(caught.stats.panics.get(), 1);
    let mut debugged = broken();
    debugged.config.listeners[0].debug = true;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| debugged.ask("alias.cedar.example. A")));
    assert!(ended.is_err());
}

#[test]
fn weights_decide_which_address_leads() {
    let ip = |last: u8| std::net::IpAddr::from([192, 0, 2, last]);
    let listed = vec![(ip(1), 2), (ip(3), 17)];
    let weights = Weights::new(hash(), [(name("www.cedar.example."), listed)]);
    let alias = |target: &str| name(target).as_bytes().to_vec();
    let srv = [&[0, 1, 0, 1, 0, 80], name("www.cedar.example").as_bytes()].concat();
    let addresses = [1, 2, 3].map(|last| ("www.cedar.example", Rtype::A, vec![192, 0, 2, last]));
    let other = [1, 3].map(|last| ("other.cedar.example", Rtype::A, vec![192, 0, 2, last]));
    let more = [
        (ZONE, Rtype::SOA, soa(ZONE)),
        ("alias.cedar.example", Rtype::CNAME, alias("www.cedar.example")),
        ("_http.cedar.example", Rtype::SRV, srv),
    ];
    let zone = records(ZONE, addresses.into_iter().chain(other).chain(more));
    let own = Plan {
        steps: [Step::LoadBalance(LoadBalance::Weighted(ZoneId(1))), file(ZONE, 0)].into(),
        ..Plan::default()
    };
    let zones = vec![Zone::Records(zone), Zone::Weights(weights)];
    let mut served = Served::new(vec![(ZONE, own)], zones, None);
    let mut leaders = |text: &str| {
        let mut led = [0; 4];
        for _ in 0..400 {
            let reply = served.ask(text);
            let all = reply.answers.iter().chain(&reply.additionals);
            let addresses: Vec<_> = all.filter_map(|record| record.data.ip_addr()).collect();
            let Some(std::net::IpAddr::V4(first)) = addresses.first() else {
                panic!("{text}: no address");
            };
            let mut sorted = addresses.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), addresses.len(), "{text}: each once");
            led[usize::from(first.octets()[3])] += 1;
        }
        led
    };
    // 2, 1 and 17 of 20.
    for text in [
        "www.cedar.example. A",
        "alias.cedar.example. A",
        "_http.cedar.example. SRV",
    ] {
        let [_, first, second, third] = leaders(text);
        assert!(
            (15..75).contains(&first) && (4..45).contains(&second) && third > 300,
            "{text}"
        );
    }
    let [_, first, _, third] = leaders("other.cedar.example. A");
    assert!(
        (140..260).contains(&first) && first + third == 400,
        "not listed under that name"
    );
}
