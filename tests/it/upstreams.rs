//! Real servers behind `forward`: unbound, knot and dnsdist with the same names, in the clear and over TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Record;
use nodens_tests::ask::{Way, exchange, question};
use nodens_tests::authority;
use nodens_tests::nodens::Nodens;
use nodens_tests::process::Process;
use nodens_tests::records::{Line, line_of, wanted_line};
use nodens_tests::world::World;

const LIMIT: Duration = Duration::from_secs(20);
const SOA: &str = "wood.example. 45 IN SOA ns.wood.example. host.wood.example. 7 3600 600 86400 45";
/// One of each name and type.
const RECORDS: [&str; 8] = [
    SOA,
    "wood.example. 300 IN NS ns.wood.example.",
    "wood.example. 300 IN MX 10 www.wood.example.",
    "ns.wood.example. 300 IN A 127.0.0.1",
    "www.wood.example. 300 IN A 192.0.2.1",
    "www.wood.example. 300 IN AAAA 2001:db8::1",
    "_http._tcp.wood.example. 300 IN SRV 0 5 80 www.wood.example.",
    "text.wood.example. 300 IN TXT oak beech",
];
/// More than any of them puts into a datagram.
const MANY: &str = "many.wood.example. A";

const KNOT: &str = "server:
    listen: 127.0.0.1@{KNOTD}
    rundir: {DIR}
database:
    storage: {DIR}
zone:
  - domain: wood.example
    file: {DIR}/zone
    zonefile-sync: -1
";

const UNBOUND: &str = "server:
    interface: 127.0.0.1@{UNBOUND}
    interface: 127.0.0.1@{TLS}
    tls-port: {TLS}
    tls-service-pem: {DIR}/server.pem
    tls-service-key: {DIR}/server.key
    username: \"\"
    chroot: \"\"
    directory: {DIR}
    pidfile: \"\"
    use-syslog: no
    module-config: iterator
    local-zone: wood.example. static
remote-control:
    control-enable: no
server:
";

/// It asks knot, and knows itself how it is asked.
const DNSDIST: &str = r"setLocal('127.0.0.1:{DNSDIST}')
addTLSLocal('127.0.0.1:{TLS}', '{DIR}/server.pem', '{DIR}/server.key')
newServer({address='127.0.0.1:{KNOTD}'}):setUp()
setSecurityPollSuffix('')
local way = QNameRule('way.wood.example.')
addAction(AndRule({way, DSTPortRule({TLS})}), SpoofRawAction('\003tls'))
addAction(AndRule({way, TCPRule(true)}), SpoofRawAction('\003tcp'))
addAction(way, SpoofRawAction('\003udp'))
";

fn many() -> impl Iterator<Item = String> {
    (0..200).map(|i| format!("many.wood.example. 300 IN A 198.18.0.{i}"))
}

fn records() -> impl Iterator<Item = String> {
    RECORDS.into_iter().map(str::to_owned).chain(many())
}

/// A server that is asked, with the one that it asks itself; the port for TLS is `TLS`.
struct Upstream {
    processes: Vec<Process>,
    /// Where the last one is asked in the clear.
    plain: SocketAddr,
    world: World,
}

impl Upstream {
    /// Its files, and nothing that runs.
    fn new() -> Self {
        let world = World::new().unwrap();
        authority::make(world.folder()).unwrap();
        let zone: String = records().map(|record| record + "\n").collect();
        world.write("zone", Some(&zone)).unwrap();
        Self {
            processes: Vec::new(),
            plain: (Ipv4Addr::LOCALHOST, 0).into(),
            world,
        }
    }

    /// Runs a program with these arguments before its configuration until it answers at the port of its name.
    fn run(mut self, program: &str, args: &[&str], config: &str) -> Option<Self> {
        let [file, log] = ["conf", "log"].map(|end| format!("{program}.{end}"));
        self.world.write(&file, Some(config)).unwrap();
        let folder = self.world.folder();
        let mut command = Command::new(program);
        command.current_dir(folder).args(args).arg(folder.join(&file));
        let Ok(mut process) = Process::start(&mut command, folder.join(log)) else {
            println!("skipped: {program} is not installed (make need-test)");
            return None;
        };
        self.plain.set_port(self.world.port(&program.to_uppercase()));
        let packet = question("wood.example. SOA").unwrap().to_vec().unwrap();
        let end = Instant::now() + LIMIT;
        while exchange(&packet, self.plain, None, Way::Udp, Duration::from_millis(100)).is_none() {
            assert!(
                process.status().is_none() && Instant::now() < end,
                "{program} is silent: {}",
                process.log_end()
            );
            sleep(Duration::from_millis(10));
        }
        self.processes.push(process);
        Some(self)
    }

    fn knot() -> Option<Self> {
        Self::new().run("knotd", &["-c"], KNOT)
    }

    fn unbound() -> Option<Self> {
        let data = records().map(|record| format!("    local-data: '{record}'\n"));
        let config: String = [UNBOUND.to_owned()].into_iter().chain(data).collect();
        Self::new().run("unbound", &["-d", "-c"], &config)
    }

    fn dnsdist() -> Option<Self> {
        Self::knot()?.run("dnsdist", &["--supervised", "--disable-syslog", "-C"], DNSDIST)
    }

    /// nodens before it: `{UP}` and `{SEALED}` of the Corefile are its addresses, `{CA}` and `{OTHERCA}` authorities.
    fn nodens(&self, corefile: &str) -> Nodens {
        let own = |name: &str| self.world.folder().join(name).display().to_string();
        let corefile = corefile
            .replace("{UP}", &self.plain.to_string())
            .replace("{SEALED}", &format!("tls://127.0.0.1:{}", self.world.port("TLS")))
            .replace("{CA}", &own("ca.pem"))
            .replace("{OTHERCA}", &own("otherca.pem"));
        Nodens::start(&corefile)
    }
}

fn ask(nodens: &Nodens, port: &str, text: &str, way: Way<'_>) -> Message {
    let packet = question(text).unwrap().to_vec().unwrap();
    let reply = exchange(&packet, nodens.address(port), None, way, LIMIT);
    Message::from_vec(&reply.unwrap_or_else(|| panic!("{text} at {port}: no reply"))).unwrap()
}

fn lines(section: &[Record]) -> Vec<Line> {
    let mut lines: Vec<Line> = section.iter().map(line_of).collect();
    lines.sort();
    lines
}

/// Every name is answered as the server behind has it, in datagrams and on connections.
fn all_is_handed_on(nodens: &Nodens, port: &str) {
    for over_tcp in [false, true] {
        let ask = |text: &str| ask(nodens, port, text, if over_tcp { Way::Tcp } else { Way::Udp });
        for record in RECORDS {
            let line = wanted_line(record);
            let reply = ask(&format!("{} {}", line[0], line[3]));
            assert_eq!(lines(&reply.answers), [line], "at {port}");
        }
        let absent = [
            ("none.wood.example. A", ResponseCode::NXDomain),
            ("www.wood.example. MX", ResponseCode::NoError),
        ];
        for (text, rcode) in absent {
            let reply = ask(text);
            assert_eq!(reply.metadata.response_code, rcode, "{text} at {port}");
            assert!(reply.answers.is_empty(), "{text} at {port}");
            assert_eq!(lines(&reply.authorities), [wanted_line(SOA)], "{text} at {port}");
        }
    }
    assert!(ask(nodens, port, MANY, Way::Udp).metadata.truncation, "at {port}");
    let mut all: Vec<Line> = many().map(|record| wanted_line(&record)).collect();
    all.sort();
    let reply = ask(nodens, port, MANY, Way::Tcp);
    assert!(!reply.metadata.truncation && lines(&reply.answers) == all, "at {port}");
}

/// What was answered once is answered again without the server, with less time left.
fn all_is_kept(mut upstream: Upstream, nodens: &Nodens, port: &str) {
    let texts = [
        "www.wood.example. A",
        MANY,
        "none.wood.example. A",
        "www.wood.example. MX",
    ];
    let ask_all = || texts.map(|text| ask(nodens, port, text, Way::Tcp));
    let before = ask_all();
    upstream.processes.iter_mut().for_each(Process::stop);
    sleep(Duration::from_millis(1100));
    for ((text, before), after) in texts.iter().zip(before).zip(ask_all()) {
        assert_eq!(after.metadata.response_code, before.metadata.response_code, "{text}");
        let [before, after] = [before, after].map(|reply| [reply.answers, reply.authorities].concat());
        let ttl = |records: &[Record]| records.iter().map(|record| record.ttl).max();
        assert!(ttl(&after) < ttl(&before), "{text}: {after:?}");
        let untimed = |mut records: Vec<Record>| {
            records.iter_mut().for_each(|record| record.ttl = 0);
            lines(&records)
        };
        assert_eq!(untimed(after), untimed(before), "{text}");
    }
    assert!(ask(nodens, port, MANY, Way::Udp).metadata.truncation);
}

fn is_asked(upstream: Option<Upstream>) {
    let Some(upstream) = upstream else { return };
    let nodens = upstream.nodens(
        ".:{PORT} {
    forward . {UP}
}
.:{FORCED} {
    forward . {UP} {
        force_tcp
    }
}
.:{PREFERRED} {
    forward . {UP} {
        prefer_udp
    }
}
.:{CACHED} {
    cache
    forward . {UP}
}
",
    );
    for port in ["PORT", "FORCED", "PREFERRED"] {
        all_is_handed_on(&nodens, port);
    }
    all_is_kept(upstream, &nodens, "CACHED");
}

fn is_asked_over_tls(upstream: Option<Upstream>) {
    let Some(upstream) = upstream else { return };
    let nodens = upstream.nodens(
        ".:{PORT} {
    forward . {SEALED} {
        tls {CA}
        tls_servername localhost
    }
}
.:{ADDRESS} {
    forward . {SEALED} {
        tls {CA}
    }
}
.:{CACHED} {
    cache
    forward . {SEALED} {
        tls {CA}
        tls_servername localhost
    }
}
.:{MISNAMED} {
    forward . {SEALED} {
        tls {CA}
        tls_servername elsewhere.example
    }
}
.:{UNTRUSTED} {
    forward . {SEALED} {
        tls {OTHERCA}
        tls_servername localhost
    }
}
",
    );
    for port in ["PORT", "ADDRESS"] {
        all_is_handed_on(&nodens, port);
    }
    for port in ["MISNAMED", "UNTRUSTED"] {
        let reply = ask(&nodens, port, "www.wood.example. A", Way::Udp);
        assert_eq!(reply.metadata.response_code, ResponseCode::ServFail, "at {port}");
        assert!(reply.answers.is_empty(), "at {port}");
    }
    all_is_kept(upstream, &nodens, "CACHED");
}

#[test]
fn unbound() {
    is_asked(Upstream::unbound());
}

#[test]
fn unbound_over_tls() {
    is_asked_over_tls(Upstream::unbound());
}

#[test]
fn knot() {
    is_asked(Upstream::knot());
}

#[test]
fn dnsdist() {
    is_asked(Upstream::dnsdist());
}

#[test]
fn dnsdist_over_tls() {
    is_asked_over_tls(Upstream::dnsdist());
}

#[test]
fn the_way_is_that_of_the_client_or_of_the_options() {
    let Some(upstream) = Upstream::dnsdist() else { return };
    let nodens = upstream.nodens(
        ".:{PORT} {
    forward . {UP}
}
.:{FORCED} {
    forward . {UP} {
        force_tcp
    }
}
.:{PREFERRED} {
    forward . {UP} {
        prefer_udp
    }
}
.:{OVERTLS} {
    forward . {SEALED} {
        tls {CA}
    }
}
",
    );
    let ways = [
        ("PORT", Way::Udp, "udp"),
        ("PORT", Way::Tcp, "tcp"),
        ("FORCED", Way::Udp, "tcp"),
        ("PREFERRED", Way::Tcp, "udp"),
        ("OVERTLS", Way::Udp, "tls"),
    ];
    for (port, way, seen) in ways {
        let reply = ask(&nodens, port, "way.wood.example. TXT", way);
        let wanted = wanted_line(&format!("way.wood.example. 60 IN TXT {seen}"));
        assert_eq!(lines(&reply.answers), [wanted], "at {port}");
    }
}
