//! The API server of the tests, and the proxy that fails in front of it, before anything is built on them.

use std::time::{Duration, Instant};

use nodens_tests::cluster::client::Client;
use nodens_tests::cluster::faults::{Fault, FaultProxy};
use nodens_tests::cluster::{Cluster, turn, write_kubeconfig};
use serde_json::Value;

const SERVICES: &str = "/api/v1/namespaces/orchard/services";
const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: orchard}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: orchard}
  spec: {type: LoadBalancer, ports: [{name: http, port: 80}]}
  status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: held, namespace: orchard, finalizers: [tests.example/held]}
  spec: {containers: [{name: c, image: none}]}
  status: {phase: Running, podIP: 10.244.0.1}
";

#[test]
fn objects_come_and_go_and_outlive_a_restart() {
    let mut cluster = turn::take().unwrap();
    cluster.apply(OBJECTS).unwrap();
    let web = cluster.client().get(&format!("{SERVICES}/web")).unwrap();
    assert_eq!(web["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    assert!(
        web["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."),
        "{web}"
    );

    let begun = Instant::now();
    cluster.stop();
    assert_eq!(cluster.client().get(SERVICES).unwrap_err().status, 0);
    cluster.launch().unwrap();
    println!("stopped and started in {:?}", begun.elapsed());
    assert_eq!(
        cluster.client().get(&format!("{SERVICES}/web")).unwrap()["spec"],
        web["spec"]
    );

    assert_eq!(
        cluster.delete("service/orchard/mail").unwrap_err(),
        "service/orchard/mail was not applied"
    );
    cluster.delete("service/orchard/web").unwrap();
    assert_eq!(
        cluster.client().get(&format!("{SERVICES}/web")).unwrap_err().status,
        404
    );
    cluster.empty().unwrap();
    for gone in ["namespaces/orchard", "namespaces/orchard/pods/held"] {
        let path = format!("/api/v1/{gone}");
        assert_eq!(cluster.client().get(&path).unwrap_err().status, 404, "{gone}");
    }
}

#[test]
fn roles_count_and_tokens_end_with_their_account() {
    let mut cluster = turn::take().unwrap();
    let objects = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [services], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: kube-system}]
";
    cluster.apply(objects).unwrap();
    let token = cluster.client().token_for("kube-system", "reader").unwrap();
    let ca = cluster.file("ca.pem");
    let reader = Client::new(cluster.port(), &ca, Some(&token), None).unwrap();
    // A role takes a moment to be seen.
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(refusal) = reader.get("/api/v1/services") {
        assert!(Instant::now() < end, "{refusal}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(reader.get("/api/v1/pods").unwrap_err().status, 403);
    let admin = (cluster.file("admin.pem"), cluster.file("admin.key"));
    let admin = Client::new(cluster.port(), &ca, None, Some((&admin.0, &admin.1))).unwrap();
    assert!(admin.get("/api/v1/pods").is_ok());

    cluster.delete("serviceaccount/kube-system/reader").unwrap();
    // The server believes a token for ten seconds after it has looked.
    let end = Instant::now() + Duration::from_secs(30);
    while reader.get("/api/v1/services").is_ok() {
        assert!(Instant::now() < end, "the token still counts");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(reader.get("/api/v1/services").unwrap_err().status, 401);
}

#[test]
fn certificates_are_renewed_while_it_runs() {
    let mut cluster = turn::take().unwrap();
    let begun = Instant::now();
    cluster.renew_certificate().unwrap();
    println!("renewed in {:?}", begun.elapsed());
    let before = Client::new(cluster.port(), &cluster.file("ca.pem"), None, None).unwrap();
    cluster.replace_authority().unwrap();
    assert!(before.certificate_shown().is_err());
    assert!(cluster.client().get("/api/v1/services").is_ok());
}

#[test]
fn kubectl_knows_it() {
    let mut cluster = turn::take().unwrap();
    cluster.apply(OBJECTS).unwrap();
    let output = cluster
        .kubectl()
        .args(["get", "services", "-n", "orchard", "-o", "name"])
        .output();
    assert_eq!(output.unwrap().stdout, b"service/web\n");
    let file = cluster.file("other.kubeconfig");
    let [certificate, key] = ["admin.pem", "admin.key"].map(|name| cluster.file(name).display().to_string());
    let user = format!("{{ client-certificate: {certificate}, client-key: {key} }}");
    write_kubeconfig(&file, &cluster.url(), &cluster.file("ca.pem"), &user).unwrap();
    let output = cluster
        .kubectl()
        .arg("--kubeconfig")
        .arg(&file)
        .args(["auth", "whoami"])
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("system:masters"), "{text}");
}

const WATCH: &str = "/api/v1/namespaces/orchard/services?watch=1&resourceVersion=0";
const SOON: Duration = Duration::from_secs(5);

fn service(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: orchard}}, spec: {{ports: [{{port: 80}}]}}}}"
    )
}

fn behind(proxy: &FaultProxy, cluster: &Cluster) -> Client {
    let port = proxy.url().rsplit(':').next().unwrap().parse().unwrap();
    let token = cluster.client().token_for("kube-system", "admin").unwrap();
    Client::new(port, &cluster.file("ca.pem"), Some(&token), None).unwrap()
}

/// A cluster with one Service, a proxy in front of it, and a client that comes through the proxy.
fn proxied() -> (turn::Turn, FaultProxy, Client) {
    let mut cluster = turn::take().unwrap();
    cluster.apply(OBJECTS).unwrap();
    let account = "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: admin, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tests-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: admin, namespace: kube-system}]
";
    cluster.apply(account).unwrap();
    let proxy = FaultProxy::start(&cluster).unwrap();
    let client = behind(&proxy, &cluster);
    let end = Instant::now() + SOON;
    while client.get(SERVICES).is_err() {
        assert!(Instant::now() < end, "no role");
    }
    (cluster, proxy, client)
}

fn named(event: Option<std::io::Result<Value>>) -> (String, String) {
    let event = event.unwrap().unwrap();
    assert_ne!(event["type"], "ERROR", "{event}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

#[test]
fn a_proxy_that_does_not_fail_is_not_noticed() {
    let (mut cluster, proxy, client) = proxied();
    assert_eq!(client.get(SERVICES).unwrap()["items"][0]["metadata"]["name"], "web");
    let mut events = client.watch(WATCH, SOON).unwrap();
    assert_eq!(named(events.next()), ("ADDED".to_owned(), "web".to_owned()));
    cluster.apply(&service("mail")).unwrap();
    assert_eq!(named(events.next()), ("ADDED".to_owned(), "mail".to_owned()));
    assert!(proxy.targets().contains(&WATCH.to_owned()) && proxy.failed() == 0);
    let mut bounded = client.watch(&format!("{WATCH}&timeoutSeconds=1"), SOON).unwrap();
    assert_eq!(bounded.by_ref().count(), 2, "and it ends as the server ends it");
}

#[test]
fn statuses_and_delays() {
    let (_cluster, proxy, client) = proxied();
    for status in [429, 500, 503] {
        proxy.fail("/services", Fault::Status(status), 1);
        assert_eq!(client.get(SERVICES).unwrap_err().status, status);
    }
    assert!(client.get(SERVICES).is_ok());
    proxy.fail("/services", Fault::Late(Duration::from_millis(300)), 1);
    let begun = Instant::now();
    assert!(client.get("/api/v1/pods").is_ok() && begun.elapsed() < Duration::from_millis(300));
    assert!(client.get(SERVICES).is_ok() && begun.elapsed() >= Duration::from_millis(300));
    proxy.fail("", Fault::Status(500), usize::MAX);
    assert!(client.get(SERVICES).is_err() && client.get("/version").is_err());
    proxy.heal();
    assert!(client.get(SERVICES).is_ok());
}

#[test]
fn a_watch_expires_under_way() {
    let (mut cluster, proxy, client) = proxied();
    let mut events = client.watch(WATCH, SOON).unwrap();
    assert_eq!(named(events.next()).1, "web");
    proxy.fail("watch=", Fault::Expired, 1);
    let error = events.next().unwrap().unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&"ERROR".into(), &410.into())
    );
    assert!(events.next().is_none());
    proxy.fail("/services", Fault::Expired, 1);
    assert_eq!(client.get(SERVICES).unwrap_err().status, 410);
    // The next watch is as good as ever.
    cluster.apply(&service("mail")).unwrap();
    assert_eq!(
        client.watch(WATCH, SOON).unwrap().take(2).filter(Result::is_ok).count(),
        2
    );
}

#[test]
fn a_watch_hangs() {
    let (mut cluster, proxy, client) = proxied();
    let mut events = client.watch(WATCH, Duration::from_secs(1)).unwrap();
    assert_eq!(named(events.next()).1, "web");
    proxy.fail("watch=", Fault::Hung, 1);
    proxy.wait_for_failed(1, SOON);
    cluster.apply(&service("mail")).unwrap();
    let silence = events.next().unwrap().unwrap_err();
    assert!(
        matches!(
            silence.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ),
        "{silence}"
    );
    assert_eq!(
        client.watch(WATCH, SOON).unwrap().take(2).filter(Result::is_ok).count(),
        2
    );
}

#[test]
fn a_list_breaks_off() {
    let (_cluster, proxy, client) = proxied();
    proxy.fail("/services", Fault::Cut(200), 1);
    assert_eq!(
        client.request("GET", SERVICES, "", "").unwrap_err().kind(),
        std::io::ErrorKind::UnexpectedEof
    );
    let mut events = client.watch(WATCH, SOON).unwrap();
    assert_eq!(named(events.next()).1, "web");
    proxy.fail("watch=", Fault::Cut(0), 1);
    assert!(events.next().unwrap().is_err());
    proxy.fail("", Fault::Cut(0), usize::MAX);
    assert!(client.get(SERVICES).is_err());
    proxy.heal();
    assert!(client.get(SERVICES).is_ok());
}
