//! The binary over a real API server: what fails there, what it is denied, and who it is.
//!
//! While something fails, answers are asked for all the time. Those that do not change must stay, those that do may change once.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use nodens_tests::cluster::faults::{Fault, FaultProxy};
use nodens_tests::cluster::{Cluster, turn, write_kubeconfig};
use nodens_tests::nodens::{Nodens, Reply};
use nodens_tests::proxy::{Mode, Proxy};
use nodens_tests::world::{free_port, random};
use serde_json::json;

/// How soon after a failure changed answers must be there.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// For everything else that has to happen without a bound of its own.
const SOON: Duration = Duration::from_secs(15);
const STABLE: u64 = 20;

/// How long a failure lasts: a minute with `LONG=1`.
fn outage() -> Duration {
    Duration::from_secs(if std::env::var_os("LONG").is_some() { 60 } else { 8 })
}

fn service(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: orchard}}, spec: {{{spec}}}}}\n---\n"
    )
}

fn slice(service: &str, address: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {service}-1, namespace: orchard, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: IPv4
ports: [{{name: http, port: 80}}]
endpoints: [{{addresses: [{address}], conditions: {{ready: true}}}}]
---
"
    )
}

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodens}
rules:
- {apiGroups: [''], resources: [services, namespaces], verbs: [list, watch]}
";
const SLICES: &str = "- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}\n";
const ACCOUNTS: &str = "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: first, namespace: kube-system}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: second, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodens}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodens}
subjects:
- {kind: ServiceAccount, name: first, namespace: kube-system}
- {kind: ServiceAccount, name: second, namespace: kube-system}
";

fn objects() -> String {
    let headless = "clusterIP: None, ports: [{name: http, port: 80}]";
    let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: orchard}}\n---\n".to_owned();
    for number in 0..STABLE {
        text += &service(
            &format!("s{number}"),
            &format!("clusterIP: 10.96.77.{number}, ports: [{{port: 80}}]"),
        );
    }
    text + &service("changes", headless)
        + &slice("changes", "192.0.2.1")
        + &service("stays", headless)
        + &slice("stays", "192.0.2.8")
        + &service("goes", "clusterIP: 10.96.78.1, ports: [{port: 80}]")
}

fn change(cluster: &mut Cluster) {
    cluster.apply(&slice("changes", "192.0.2.2")).unwrap();
    cluster
        .apply(&service("comes", "clusterIP: 10.96.78.2, ports: [{port: 80}]"))
        .unwrap();
    cluster.delete("service/orchard/goes").unwrap();
}

fn name(service: &str) -> String {
    format!("{service}.orchard.svc.cluster.local. A")
}

fn has(address: &str) -> impl Fn(&Reply) -> bool {
    move |reply| reply.rcode == "NOERROR" && reply.values() == [address]
}

fn is(rcode: &str) -> impl Fn(&Reply) -> bool {
    move |reply| reply.rcode == rcode
}

/// A cluster with all that, and what nodens knows of it.
struct Bed {
    cluster: turn::Turn,
    kubeconfig: PathBuf,
}

impl Bed {
    fn new() -> Self {
        let mut cluster = turn::take().unwrap();
        cluster.apply(&objects()).unwrap();
        let kubeconfig = cluster.file("nodens.kubeconfig");
        Self { cluster, kubeconfig }
    }

    /// The API server is at this port; who we are is in a file.
    fn write(&self, port: u16, ca: &Path, token: &Path) {
        let user = format!("{{ tokenFile: {} }}", token.display());
        write_kubeconfig(&self.kubeconfig, &format!("https://127.0.0.1:{port}"), ca, &user).unwrap();
    }

    /// A server that comes to the cluster by this port, as one who may do everything.
    fn server(&self, port: u16) -> Nodens {
        let token = self.cluster.file("nodens.token");
        std::fs::write(&token, "tests-token").unwrap();
        self.write(port, &self.cluster.file("ca.pem"), &token);
        let server = self.launch();
        server.wait_for(&name("changes"), SOON, has("192.0.2.1"));
        server
    }

    fn launch(&self) -> Nodens {
        Nodens::start(&format!(
            "cluster.local:{{PORT}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{METRICS}}
    errors
    kubernetes {{
        kubeconfig {}
    }}
}}
",
            self.kubeconfig.display()
        ))
    }
}

/// What was answered all the time.
#[derive(Debug, Default)]
struct Seen {
    asked: u64,
    wrong: Vec<String>,
    /// What a name was answered with, one after the other.
    changes: Vec<String>,
}

fn watch(server: &Nodens, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !stop.load(Ordering::SeqCst) {
        let number = random() % STABLE;
        let stable = [
            (format!("s{number}"), format!("10.96.77.{number}")),
            ("stays".to_owned(), "192.0.2.8".to_owned()),
        ];
        for (service, address) in stable {
            let reply = server.ask(&name(&service));
            if !has(&address)(&reply) {
                seen.wrong.push(format!("{service}: {reply:?}"));
            }
        }
        let reply = server.ask(&name("none"));
        if reply.rcode != "NXDOMAIN" {
            seen.wrong.push(format!("none: {reply:?}"));
        }
        let reply = server.ask(&name("changes"));
        let text = format!("{} {}", reply.rcode, reply.values().join(" "));
        if seen.changes.last() != Some(&text) {
            seen.changes.push(text);
        }
        seen.asked += 4;
        sleep(Duration::from_micros(500));
    }
    seen
}

/// Something fails in `act`, which changes objects and mends it; from its end on the answers must be right in time, and none may be wrong
/// before. `act` returns that end.
fn outlives(server: &Nodens, act: impl FnOnce() -> Instant) {
    let stop = AtomicBool::new(false);
    let (seen, checked) = scope(|scope| {
        let load = scope.spawn(|| watch(server, &stop));
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mended = act();
            let left = || BACK_WITHIN.saturating_sub(mended.elapsed());
            server.wait_for(&name("changes"), left(), has("192.0.2.2"));
            server.wait_for(&name("comes"), left(), has("10.96.78.2"));
            server.wait_for(&name("goes"), left(), is("NXDOMAIN"));
            let back = mended.elapsed();
            // What comes after must not take anything back.
            sleep(Duration::from_secs(1));
            back
        }));
        stop.store(true, Ordering::SeqCst);
        (load.join().expect("the load"), checked)
    });
    let back = checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let Seen { asked, wrong, changes } = seen;
    assert!(wrong.is_empty(), "{} of {asked} are wrong: {}", wrong.len(), wrong[0]);
    assert_eq!(changes, ["NOERROR 192.0.2.1", "NOERROR 192.0.2.2"]);
    println!("{asked} answers, none wrong; changes were there {back:?} after the end");
}

fn says(server: &mut Nodens, text: &str) {
    let end = Instant::now() + SOON;
    while !server.process().log().contains(text) {
        assert!(Instant::now() < end, "no {text:?} in {}", server.process().log());
        sleep(Duration::from_millis(20));
    }
}

fn wait_until_lost(server: &Nodens) {
    let end = Instant::now() + 2 * SOON;
    while server.metric("nodens_kubernetes_connected") > 0.0 {
        assert!(Instant::now() < end, "the API server still answers");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn outlives_an_api_server_that_is_stopped() {
    let mut bed = Bed::new();
    let port = free_port();
    let proxy = Proxy::start(port, bed.cluster.port()).unwrap();
    let mut server = bed.server(port);
    outlives(&server, || {
        proxy.set(Mode::Refuse);
        bed.cluster.stop();
        sleep(outage());
        bed.cluster.launch().unwrap();
        change(&mut bed.cluster);
        proxy.set(Mode::Open);
        Instant::now()
    });
    assert_eq!(server.metric("nodens_kubernetes_connected"), 1.0);
    says(&mut server, "again");
}

#[test]
fn outlives_a_server_whose_packets_are_lost() {
    let mut bed = Bed::new();
    let port = free_port();
    let proxy = Proxy::start(port, bed.cluster.port()).unwrap();
    let server = bed.server(port);
    outlives(&server, || {
        proxy.set(Mode::Silent);
        change(&mut bed.cluster);
        sleep(outage());
        proxy.set(Mode::Open);
        Instant::now()
    });
}

#[test]
fn outlives_a_watch_that_hangs() {
    let mut bed = Bed::new();
    let proxy = FaultProxy::start(&bed.cluster).unwrap();
    let mut server = bed.server(port_of(&proxy));
    outlives(&server, || {
        proxy.fail("/endpointslices", Fault::Hung, 1);
        proxy.fail("/services", Fault::Hung, 1);
        proxy.wait_for_failed(2, SOON);
        // Nothing else fails: this is the end of it.
        change(&mut bed.cluster);
        Instant::now()
    });
    says(&mut server, "the connection is silent");
    says(&mut server, "followed again");
}

#[test]
fn outlives_a_server_that_hangs_for_a_while() {
    let mut bed = Bed::new();
    let proxy = FaultProxy::start(&bed.cluster).unwrap();
    let server = bed.server(port_of(&proxy));
    outlives(&server, || {
        proxy.fail("", Fault::Hung, usize::MAX);
        change(&mut bed.cluster);
        sleep(outage());
        proxy.heal();
        Instant::now()
    });
}

#[test]
fn outlives_watches_that_expire() {
    let mut bed = Bed::new();
    let proxy = FaultProxy::start(&bed.cluster).unwrap();
    let mut server = bed.server(port_of(&proxy));
    let lists = server.metric("nodens_kubernetes_resyncs_total");
    outlives(&server, || {
        // Twice each, so that lists expire too.
        for kind in ["/namespaces", "/services", "/endpointslices"] {
            proxy.fail(kind, Fault::Expired, 2);
        }
        proxy.wait_for_failed(3, SOON);
        change(&mut bed.cluster);
        proxy.wait_for_failed(6, SOON);
        Instant::now()
    });
    assert!(server.metric("nodens_kubernetes_resyncs_total") >= lists + 3.0);
    says(&mut server, "listed again");
}

#[test]
fn outlives_lists_that_break_off() {
    let mut bed = Bed::new();
    let proxy = FaultProxy::start(&bed.cluster).unwrap();
    // Pages in the place of the stream of all objects.
    proxy.fail("sendInitialEvents", Fault::Status(400), usize::MAX);
    let server = bed.server(port_of(&proxy));
    let before = proxy.failed();
    outlives(&server, || {
        for kind in ["/namespaces", "/services", "/endpointslices"] {
            proxy.fail(&format!("{kind}?limit="), Fault::Cut(500), 3);
            proxy.fail(&format!("{kind}?watch="), Fault::Expired, 1);
        }
        proxy.wait_for_failed(before + 3, SOON);
        change(&mut bed.cluster);
        proxy.wait_for_failed(before + 12, SOON);
        Instant::now()
    });
}

#[test]
fn half_a_list_is_not_served_as_a_whole() {
    let mut bed = Bed::new();
    // More than one page.
    let many: String = (0..600)
        .map(|number| {
            service(
                &format!("many{number:03}"),
                "type: ExternalName, externalName: there.example",
            )
        })
        .collect();
    bed.cluster.apply(&many).unwrap();
    let proxy = FaultProxy::start(&bed.cluster).unwrap();
    proxy.fail("sendInitialEvents", Fault::Status(400), usize::MAX);
    proxy.fail("continue=", Fault::Cut(500), 3);
    proxy.fail("continue=", Fault::Expired, 1);
    proxy.fail("continue=", Fault::Late(Duration::from_secs(2)), 1);
    let token = bed.cluster.file("nodens.token");
    std::fs::write(&token, "tests-token").unwrap();
    bed.write(port_of(&proxy), &bed.cluster.file("ca.pem"), &token);
    let server = bed.launch();
    let end = Instant::now() + SOON;
    while server.metric("nodens_kubernetes_synced") == 0.0 {
        assert!(Instant::now() < end, "not in sync: {:?}", proxy.targets());
        // Before the end of the list it is not known what there is not.
        let reply = server.ask(&name("none"));
        let synced = server.metric("nodens_kubernetes_synced");
        assert!(synced > 0.0 || reply.rcode == "SERVFAIL", "{reply:?}");
        sleep(Duration::from_millis(20));
    }
    assert!(proxy.failed() >= 5, "{}", proxy.failed());
    assert_eq!(server.ask(&name("none")).rcode, "NXDOMAIN");
    assert!(has("192.0.2.1")(&server.ask(&name("changes"))));
}

#[test]
fn what_is_forbidden_is_said_and_known_once_it_is_allowed() {
    let mut bed = Bed::new();
    bed.cluster.apply(ACCOUNTS).unwrap();
    bed.cluster.apply(ROLE).unwrap();
    let token = bed.cluster.file("first.token");
    let first = bed.cluster.client().token_for("kube-system", "first").unwrap();
    std::fs::write(&token, first).unwrap();
    bed.write(bed.cluster.port(), &bed.cluster.file("ca.pem"), &token);
    let mut server = bed.launch();
    says(
        &mut server,
        "the ClusterRole needs `list` and `watch` on endpointslices",
    );
    for service in ["none", "changes"] {
        assert_eq!(server.ask(&name(service)).rcode, "SERVFAIL", "{service}");
    }
    bed.cluster.apply(&format!("{ROLE}{SLICES}")).unwrap();
    server.wait_for(&name("changes"), SOON, has("192.0.2.1"));
    server.wait_for(&name("none"), SOON, is("NXDOMAIN"));

    // Forbidden later, it is answered from what was known.
    outlives(&server, || {
        bed.cluster.apply(ROLE).unwrap();
        wait_until_lost(&server);
        change(&mut bed.cluster);
        sleep(Duration::from_secs(2));
        bed.cluster.apply(&format!("{ROLE}{SLICES}")).unwrap();
        Instant::now()
    });
}

#[test]
fn a_token_that_is_rotated_is_read_again() {
    let mut bed = Bed::new();
    bed.cluster.apply(ACCOUNTS).unwrap();
    bed.cluster.apply(&format!("{ROLE}{SLICES}")).unwrap();
    let token = bed.cluster.file("first.token");
    let [first, second] =
        ["first", "second"].map(|account| bed.cluster.client().token_for("kube-system", account).unwrap());
    std::fs::write(&token, first).unwrap();
    bed.write(bed.cluster.port(), &bed.cluster.file("ca.pem"), &token);
    let mut server = bed.launch();
    server.wait_for(&name("changes"), SOON, has("192.0.2.1"));
    outlives(&server, || {
        bed.cluster.delete("serviceaccount/kube-system/first").unwrap();
        wait_until_lost(&server);
        change(&mut bed.cluster);
        sleep(Duration::from_secs(2));
        std::fs::write(&token, second).unwrap();
        Instant::now()
    });
    says(&mut server, "does not take our credentials");
}

#[test]
fn a_certificate_is_renewed_and_an_authority_replaced() {
    let mut bed = Bed::new();
    let port = bed.cluster.port();
    let ca = bed.cluster.file("nodens-ca.pem");
    let token = bed.cluster.file("nodens.token");
    std::fs::copy(bed.cluster.file("ca.pem"), &ca).unwrap();
    std::fs::write(&token, "tests-token").unwrap();
    bed.write(port, &ca, &token);
    let mut server = bed.launch();
    server.wait_for(&name("changes"), SOON, has("192.0.2.1"));
    outlives(&server, || {
        bed.cluster.renew_certificate().unwrap();
        bed.cluster.stop();
        bed.cluster.launch().unwrap();
        change(&mut bed.cluster);
        Instant::now()
    });

    bed.cluster.delete("service/orchard/comes").unwrap();
    bed.cluster.apply(&objects()).unwrap();
    server.wait_for(&name("changes"), SOON, has("192.0.2.1"));
    outlives(&server, || {
        bed.cluster.replace_authority().unwrap();
        bed.cluster.stop();
        bed.cluster.launch().unwrap();
        change(&mut bed.cluster);
        wait_until_lost(&server);
        std::fs::copy(bed.cluster.file("ca.pem"), &ca).unwrap();
        Instant::now()
    });
    says(&mut server, "certificate");
}

fn port_of(proxy: &FaultProxy) -> u16 {
    proxy.url().rsplit(':').next().unwrap().parse().unwrap()
}

/// Services whose endpoints change all the time, all of one at once, and who changes them.
const RESTLESS: u32 = 24;
const ENDPOINTS: u32 = 10;
const WRITERS: u32 = 8;
/// The first address of an endpoint of theirs.
const ADDRESSES: u32 = u32::from_be_bytes([10, 128, 0, 0]);

/// How many endpoints change in a second, and for how long: a thousand for a minute with `LONG=1`.
fn churn() -> (u32, Duration) {
    match std::env::var_os("LONG") {
        Some(_) => (1_000, Duration::from_secs(60)),
        None => (500, Duration::from_secs(5)),
    }
}

/// The endpoints of a Service after so many changes.
fn addresses_after(change: u32) -> Vec<Ipv4Addr> {
    let first = ADDRESSES + change * ENDPOINTS;
    (first..first + ENDPOINTS).map(Ipv4Addr::from).collect()
}

fn change_to(cluster: &Cluster, service: u32, change: u32) {
    let ready = |address: Ipv4Addr| json!({ "addresses": [address], "conditions": { "ready": true } });
    let endpoints: Vec<_> = addresses_after(change).into_iter().map(ready).collect();
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/orchard/endpointslices/restless{service}-1");
    let fields = json!({ "endpoints": endpoints });
    cluster.client().merge(&path, &fields).unwrap();
}

/// Which change an answer shows, all of it; none where it is no answer, or one of several changes.
fn change_shown(reply: &Reply) -> Option<u32> {
    let mut shown: Vec<Ipv4Addr> = reply.values().iter().filter_map(|text| text.parse().ok()).collect();
    shown.sort_unstable();
    let change = u32::from(*shown.first()?).checked_sub(ADDRESSES)? / ENDPOINTS;
    (reply.rcode == "NOERROR" && shown == addresses_after(change)).then_some(change)
}

/// Changes its share of the Services in turn, evenly; each with its last change.
fn change_evenly(cluster: &Cluster, writer: u32, rate: u32, time: Duration) -> Vec<(u32, u32)> {
    let own = (0..RESTLESS).filter(|service| service % WRITERS == writer);
    let mut own: Vec<(u32, u32)> = own.map(|service| (service, 0)).collect();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < time {
        let at = count as usize % own.len();
        let (service, change) = &mut own[at];
        *change += 1;
        change_to(cluster, *service, *change);
        count += 1;
        let due = f64::from(count * ENDPOINTS * WRITERS) / f64::from(rate);
        sleep(Duration::from_secs_f64(due).saturating_sub(begun.elapsed()));
    }
    own
}

/// Asks for the restless Services in turn. What fails, or shows an older change than the answer before it, is wrong.
fn watch_restless(server: &Nodens, stop: &AtomicBool) -> (u64, Vec<String>) {
    let mut last = [0; RESTLESS as usize];
    let mut wrong = Vec::new();
    let mut asked = 0;
    while !stop.load(Ordering::SeqCst) {
        for (service, last) in last.iter_mut().enumerate() {
            let reply = server.ask(&name(&format!("restless{service}")));
            asked += 1;
            match change_shown(&reply) {
                Some(change) if change >= *last => *last = change,
                _ => wrong.push(format!("restless{service}, behind change {last}: {reply:?}")),
            }
        }
    }
    (asked, wrong)
}

#[test]
fn endpoints_that_change_all_the_time_fail_no_answer_and_never_go_back() {
    let mut bed = Bed::new();
    for number in 0..RESTLESS {
        let own = format!("restless{number}");
        let headless = service(&own, "clusterIP: None, ports: [{name: http, port: 80}]");
        bed.cluster.apply(&(headless + &slice(&own, "192.0.2.3"))).unwrap();
        change_to(&bed.cluster, number, 0);
    }
    let server = bed.server(bed.cluster.port());
    let (rate, time) = churn();
    let stop = AtomicBool::new(false);
    let (server, cluster, stop) = (&server, &*bed.cluster, &stop);
    let (stable, restless, last) = scope(|scope| {
        let stable = scope.spawn(|| watch(server, stop));
        let restless = [(); 2].map(|()| scope.spawn(|| watch_restless(server, stop)));
        let last = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let write = |writer| scope.spawn(move || change_evenly(cluster, writer, rate, time));
            let writers: Vec<_> = (0..WRITERS).map(write).collect();
            let joined = writers.into_iter().flat_map(|writer| writer.join().expect("a writer"));
            let last: Vec<(u32, u32)> = joined.collect();
            let ended = Instant::now();
            for (service, change) in &last {
                let left = BACK_WITHIN.saturating_sub(ended.elapsed());
                let name = name(&format!("restless{service}"));
                server.wait_for(&name, left, |reply| change_shown(reply) == Some(*change));
            }
            last
        }));
        stop.store(true, Ordering::SeqCst);
        let restless = restless.map(|watched| watched.join().expect("the load"));
        (stable.join().expect("the load"), restless, last)
    });
    let last = last.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(stable.changes, ["NOERROR 192.0.2.1"]);
    let mut answers = 0;
    for (asked, wrong) in restless.into_iter().chain([(stable.asked, stable.wrong)]) {
        assert!(wrong.is_empty(), "{} of {asked} are wrong: {}", wrong.len(), wrong[0]);
        answers += asked;
    }
    let changes: u32 = last.iter().map(|(_, change)| change * ENDPOINTS).sum();
    let reached = f64::from(changes) / time.as_secs_f64();
    println!("{answers} answers, none wrong, while {reached:.0} endpoints changed a second");
}
