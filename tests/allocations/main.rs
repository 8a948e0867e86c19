//! An answer allocates nothing, once the responder is warm. In a binary of its own: it counts every allocation.

#![allow(clippy::unwrap_used, reason = "a test may end so")]
#![forbid(unsafe_code)]

mod cache;
mod cluster;
mod kept;
mod rebuild;

use hickory_proto::op::Message;
use nodens_engine::io::{StreamEvent, StreamId};
use nodens_engine::plan::{Acl, AclAction, AclLine, AclStanza, Cidr, Header, LoadBalance, Local, Nets, Plan, Step};
use nodens_engine::zone::Zone;
use nodens_tests::served::{
    Served, alias, etcd, file, framed, hash, hosts, kubernetes, map, name, packet, plan, records, service, soa,
    text_service, tree, unframed, v4,
};
use nodens_wire::Rtype;

/// Queries answered at once.
const BATCH: usize = 32;
/// Rounds that warm up, and as many that are counted.
const ROUNDS: usize = 8;

const ETCD: &str = "cedar.example.";
const FILE: &str = "oak.example.";
const HOSTS: &str = "home.example.";

/// What is asked, the rcode, and how many records ANSWER has; [`cluster::QUESTIONS`] are asked too.
const QUESTIONS: [(&str, u8, usize); 25] = [
    ("web.cedar.example. A", 0, 1),
    ("WEB.cedar.example. A", 0, 1),
    ("web.cedar.example. SRV", 0, 1),
    ("web.cedar.example. AAAA", 0, 0),
    ("web.cedar.example. MX", 0, 0),
    ("web.cedar.example. HTTPS", 0, 0),
    ("nobody.cedar.example. A", 3, 0),
    ("many.cedar.example. A", 0, 8),
    ("many.cedar.example. SRV", 0, 8),
    ("more.cedar.example. A", 0, 12),
    ("*.many.cedar.example. A", 0, 8),
    ("c1.cedar.example. A", 0, 4),
    ("c1.cedar.example. AAAA", 0, 0),
    ("away.cedar.example. A", 0, 2),
    ("text.cedar.example. TXT", 0, 1),
    ("cedar.example. SOA", 0, 1),
    ("www.oak.example. A", 0, 2),
    ("one.oak.example. A", 0, 1),
    ("oak.example. MX", 0, 2),
    ("nobody.oak.example. A", 3, 0),
    ("any.thing.wild.oak.example. A", 0, 1),
    ("alias.oak.example. A", 0, 3),
    ("www.oak.example. AAAA", 0, 0),
    ("printer.home.example. A", 0, 1),
    ("5.2.0.192.in-addr.arpa. PTR", 0, 1),
];

fn questions() -> impl Iterator<Item = (&'static str, u8, usize)> {
    QUESTIONS.into_iter().chain(cluster::QUESTIONS)
}

fn world() -> Served {
    let services = [
        service("web", v4(1)),
        service("c1", alias("c2.cedar.example")),
        service("c2", alias("c3.cedar.example")),
        service("c3", alias("web.cedar.example")),
        service("away", alias("one.oak.example")),
        text_service("text"),
    ];
    let many = (0..8).map(|i| service(&format!("many/x{i}"), v4(i)));
    let more = (0..12).map(|i| service(&format!("more/x{i}"), v4(i)));
    let services = tree(ETCD, services.into_iter().chain(many).chain(more));
    let mx = |preference: u8, host: &str| [&[0, preference], name(host).as_bytes()].concat();
    let alias = |target: &str| name(target).as_bytes().to_vec();
    let oak = records(
        FILE,
        [
            (FILE, Rtype::SOA, soa(FILE)),
            (FILE, Rtype::NS, alias("ns1.oak.example")),
            ("ns1.oak.example", Rtype::A, vec![192, 0, 2, 53]),
            (FILE, Rtype::MX, mx(10, "one.oak.example")),
            (FILE, Rtype::MX, mx(20, "www.oak.example")),
            ("www.oak.example", Rtype::A, vec![192, 0, 2, 1]),
            ("www.oak.example", Rtype::A, vec![192, 0, 2, 2]),
            ("one.oak.example", Rtype::A, vec![192, 0, 2, 3]),
            ("*.wild.oak.example", Rtype::A, vec![192, 0, 2, 4]),
            ("alias.oak.example", Rtype::CNAME, alias("www.oak.example")),
        ],
    );
    let home = records(
        ".",
        [
            ("printer.home.example", Rtype::A, vec![192, 0, 2, 5]),
            ("5.2.0.192.in-addr.arpa", Rtype::PTR, alias("printer.home.example")),
        ],
    );
    Served::new(
        vec![
            (ETCD, plan(etcd(ETCD, 0))),
            (FILE, plan(file(FILE, 1))),
            (HOSTS, plan(hosts(HOSTS, 2))),
            ("in-addr.arpa.", plan(hosts("in-addr.arpa.", 2))),
            (cluster::DOMAIN, plan(kubernetes(cluster::DOMAIN, 3, false))),
        ],
        vec![
            Zone::Services(services),
            Zone::Records(oak),
            Zone::Records(home),
            Zone::Cluster(Box::new(cluster::orchard())),
        ],
        None,
    )
}

/// Steps that stand before those with data cost no allocation either.
#[test]
fn small_steps() {
    let net = Cidr {
        address: [127, 0, 0, 0].into(),
        prefix: 8,
    };
    let line = |action, rtype| AclLine {
        action,
        types: Some([rtype].into()),
        nets: Some(Nets::new([net])),
    };
    let stanza = AclStanza {
        zones: map(hash(), ".", 0),
        lines: [line(AclAction::Block, Rtype::TXT), line(AclAction::Drop, Rtype::MX)].into(),
    };
    let steps = [
        Step::Local(Local { localhost_prefix: true }),
        Step::Any,
        Step::LoadBalance(LoadBalance::default()),
        Step::Acl(Acl {
            stanzas: [stanza].into(),
            counters: Box::default(),
        }),
        Step::Header(Header {
            ra: Some(true),
            ..Header::default()
        }),
        Step::Minimal,
        hosts(".", 0),
    ];
    let own = Plan {
        steps: steps.into(),
        udp_size: Some(1232),
        nsid: Some(b"here".as_slice().into()),
        ..plan(hosts(".", 0))
    };
    let home = records(".", [("www.home.example", Rtype::A, vec![192, 0, 2, 5])]);
    let mut served = Served::new(vec![(".", own)], vec![Zone::Records(home)], None);
    for (question, answers) in [
        ("www.home.example. A", Some(1)),
        ("www.home.example. TXT", Some(0)),
        ("www.home.example. MX", None),
        ("a.localhost. AAAA", Some(1)),
        ("2.0.0.127.in-addr.arpa. PTR", Some(0)),
        ("www.home.example. ANY", Some(1)),
    ] {
        let packets: Vec<Vec<u8>> = (0..BATCH as u16).map(|id| packet(id, question, Some(1232))).collect();
        let mut rooms = vec![vec![0; 2048]; BATCH];
        let mut lens = [0; BATCH];
        let counted = allocated(&mut served, &packets, &mut rooms, &mut lens);
        let reply = (lens[0] > 0).then(|| Message::from_vec(&rooms[0][..lens[0]]).unwrap().answers.len());
        assert_eq!(reply, answers, "{question}");
        assert_eq!(counted.count_total, 0, "{question}: {counted:?}");
    }
}

/// What some batches allocate once the memory that is kept has been made.
fn allocated(
    served: &mut Served,
    packets: &[Vec<u8>],
    rooms: &mut [Vec<u8>],
    lens: &mut [usize],
) -> allocation_counter::AllocationInfo {
    let mut answer = || (0..ROUNDS).for_each(|_| served.batch(packets, rooms, lens));
    answer();
    allocation_counter::measure(answer)
}

/// The reply is the one that the row speaks of.
fn check(question: &str, rcode: u8, answers: usize, reply: &[u8]) {
    let message = Message::from_vec(reply).unwrap_or_else(|error| panic!("{question}: {error}"));
    assert_eq!(message.metadata.response_code.low(), rcode, "{question}");
    assert_eq!(message.answers.len(), answers, "{question}");
}

#[test]
fn datagrams() {
    let mut served = world();
    for size in [None, Some(1232)] {
        for (question, rcode, answers) in questions() {
            let packets: Vec<Vec<u8>> = (0..BATCH as u16).map(|id| packet(id, question, size)).collect();
            let mut rooms = vec![vec![0; 2048]; BATCH];
            let mut lens = [0; BATCH];
            let counted = allocated(&mut served, &packets, &mut rooms, &mut lens);
            check(question, rcode, answers, &rooms[BATCH - 1][..lens[BATCH - 1]]);
            assert_eq!(counted.count_total, 0, "{question}: {counted:?}");
        }
    }
}

/// A batch of all the questions at once, so that nothing one of them leaves behind costs another.
#[test]
fn mixed_batches() {
    let mut served = world();
    let packets: Vec<Vec<u8>> = (0..)
        .zip(questions())
        .map(|(id, (question, ..))| packet(id, question, Some(1232)))
        .collect();
    let mut rooms = vec![vec![0; 2048]; packets.len()];
    let mut lens = vec![0; packets.len()];
    let counted = allocated(&mut served, &packets, &mut rooms, &mut lens);
    for ((question, rcode, answers), (room, len)) in questions().zip(rooms.iter().zip(lens)) {
        check(question, rcode, answers, &room[..len]);
    }
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn streams() {
    let mut served = world();
    let stream = StreamId(1);
    served.open(stream);
    let mut reply = Vec::new();
    for (question, rcode, answers) in questions() {
        let bytes: Vec<u8> = (0..BATCH as u16)
            .flat_map(|id| framed(&packet(id, question, None)))
            .collect();
        let mut round = |served: &mut Served| {
            reply.clear();
            served.event(StreamEvent::Readable {
                stream,
                bytes: &bytes,
                reply: &mut reply,
            });
        };
        for _ in 0..ROUNDS {
            round(&mut served);
        }
        let counted = allocation_counter::measure(|| {
            for _ in 0..ROUNDS {
                round(&mut served);
            }
        });
        let messages = unframed(&reply);
        assert_eq!(messages.len(), BATCH, "{question}");
        check(question, rcode, answers, &messages[BATCH - 1]);
        assert_eq!(counted.count_total, 0, "{question}: {counted:?}");
    }
}
