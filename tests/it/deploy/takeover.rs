//! `install.sh` against a real API server that has the objects of a running DNS server. There are no controllers: where one would
//! write a status, the test does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodens_tests::cluster::client::Client;
use nodens_tests::cluster::turn::{self, Turn};
use nodens_tests::nodens::Nodens;
use serde_json::{Value, json};

use super::{Done, install, read, root, run};

const SYSTEM: &str = "/api/v1/namespaces/kube-system";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/kube-system/deployments";

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata:
  name: kube-dns
  namespace: kube-system
  annotations: { prometheus.io/port: \"9153\", prometheus.io/scrape: \"true\" }
  labels: { k8s-app: kube-dns, kubernetes.io/cluster-service: \"true\", kubernetes.io/name: CoreDNS }
spec:
  clusterIP: 10.96.0.10
  selector: { k8s-app: kube-dns }
  ports:
  - { name: dns, port: 53, protocol: UDP }
  - { name: dns-tcp, port: 53, protocol: TCP }
  - { name: metrics, port: 9153, protocol: TCP }
---";

/// As kubeadm leaves them, with stub domains that somebody has added, and k3s's nodes.
const COREDNS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: coredns, namespace: kube-system }
data:
  Corefile: \".:53 {\\n    errors\\n    kubernetes cluster.local {\\n    }\\n}\\noak.example:53 {\\n\\tforward . 192.0.2.53\\n}\\n\"
  Corefile-backup: old
  NodeHosts: 192.0.2.1 node
  oak.db: \"  oak.example. IN SOA a. b. 1 2 3 4 5\"
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: coredns, namespace: kube-system, labels: { k8s-app: kube-dns } }
spec:
  replicas: 3
  selector: { matchLabels: { k8s-app: kube-dns } }
  template:
    metadata: { labels: { k8s-app: kube-dns } }
    spec:
      containers: [{ name: coredns, image: registry.k8s.io/coredns/coredns:v1.14.2 }]
      volumes: [{ name: config-volume, configMap: { name: coredns } }]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: dns, namespace: default }
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress: [{ to: [{ podSelector: { matchLabels: { k8s-app: kube-dns } } }] }]
";

/// The cluster, without what `install.sh` makes.
struct Cluster(Turn);

impl Cluster {
    fn take(documents: &str) -> Self {
        let mut cluster = Self(turn::take().unwrap());
        cluster.clear();
        cluster.apply(documents).unwrap();
        cluster
    }

    fn clear(&self) {
        for path in [
            "configmaps/nodens",
            "serviceaccounts/nodens",
            "services/kube-dns",
            "services/dns",
        ] {
            self.client().delete(&format!("{SYSTEM}/{path}")).unwrap();
        }
        for path in [
            "/apis/apps/v1/namespaces/kube-system/deployments/nodens",
            "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets/nodens",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/nodens",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/nodens",
        ] {
            self.client().delete(path).unwrap();
        }
    }

    fn install(&self, args: &[&str]) -> Command {
        let kubectl = self.kubectl();
        let words: Vec<_> = [kubectl.get_program()]
            .into_iter()
            .chain(kubectl.get_args())
            .map(|word| word.to_str().unwrap())
            .collect();
        let mut command = install();
        command.env("KUBECTL", words.join(" ")).args(args);
        command
    }

    #[track_caller]
    fn does(&self, args: &[&str]) -> Done {
        let done = run(&mut self.install(args));
        assert_eq!(done.status, Some(0), "{args:?}: {done:?}");
        done
    }

    #[track_caller]
    fn refuses(&self, args: &[&str], status: i32, what: &str) {
        let done = run(&mut self.install(args));
        assert_eq!(done.status, Some(status), "{args:?}: {done:?}");
        assert!(done.err.contains(what), "{what}: {}", done.err);
    }

    fn get(&self, path: &str) -> Value {
        self.client().get(path).unwrap()
    }

    fn selector(&self) -> Value {
        self.get(&format!("{SYSTEM}/services/kube-dns"))["spec"]["selector"].clone()
    }

    /// What the controller of Deployments writes when so many pods are ready.
    fn ready(&self, deployment: &str, pods: u32) {
        let path = format!("{DEPLOYMENTS}/{deployment}");
        let object = self.get(&path);
        let status = json!({ "status": {
            "observedGeneration": object["metadata"]["generation"],
            "replicas": object["spec"]["replicas"],
            "updatedReplicas": object["spec"]["replicas"],
            "readyReplicas": pods,
            "availableReplicas": pods,
        } });
        self.client().merge(&format!("{path}/status"), &status).unwrap();
    }

    /// Every object that somebody could have touched, by its path.
    fn objects(&self) -> BTreeMap<String, Value> {
        let mut objects = BTreeMap::new();
        for collection in [
            "/api/v1/configmaps",
            "/api/v1/endpoints",
            "/api/v1/namespaces",
            "/api/v1/pods",
            "/api/v1/secrets",
            "/api/v1/serviceaccounts",
            "/api/v1/services",
            "/apis/apps/v1/daemonsets",
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/replicasets",
            "/apis/discovery.k8s.io/v1/endpointslices",
            "/apis/networking.k8s.io/v1/networkpolicies",
            "/apis/policy/v1/poddisruptionbudgets",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            "/apis/rbac.authorization.k8s.io/v1/roles",
        ] {
            for item in self.get(collection)["items"].as_array().unwrap() {
                let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
                objects.insert(
                    format!("{collection} {}/{}", text("namespace"), text("name")),
                    item.clone(),
                );
            }
        }
        objects
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Deref for Cluster {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.0
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Turn {
        &mut self.0
    }
}

const OF_NODENS: [&str; 6] = [
    "/api/v1/configmaps kube-system/nodens",
    "/api/v1/serviceaccounts kube-system/nodens",
    "/apis/apps/v1/deployments kube-system/nodens",
    "/apis/policy/v1/poddisruptionbudgets kube-system/nodens",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings /nodens",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles /nodens",
];

/// Fails unless all is as it was, but for nodens's own objects and the selector of the Service.
#[track_caller]
fn assert_nothing_else_touched(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for path in paths.into_iter().filter(|path| !OF_NODENS.contains(&path.as_str())) {
        let [was, mut is] = [before, after].map(|objects| objects.get(path).cloned().unwrap_or_default());
        if path == "/api/v1/services kube-system/kube-dns" {
            for (section, field) in [
                ("spec", "selector"),
                ("metadata", "resourceVersion"),
                ("metadata", "managedFields"),
            ] {
                is[section][field] = was[section][field].clone();
            }
        }
        assert_eq!(is, was, "{path}");
    }
}

#[test]
fn takes_over_when_all_pods_are_ready_and_gives_back() {
    let cluster = Cluster::take(&[SERVICE, COREDNS].concat());
    // More than an argument, a variable or an annotation may hold.
    let large = "elm 3600 IN A 192.0.2.1\n".repeat(20_000);
    let with_large = json!({ "data": { "large.db": large } });
    cluster
        .client()
        .merge(&format!("{SYSTEM}/configmaps/coredns"), &with_large)
        .unwrap();
    let before = cluster.objects();
    let old = json!({ "k8s-app": "kube-dns" });
    let new = json!({ "k8s-app": "nodens" });

    let tried = cluster.does(&["--apply", "--dry-run"]);
    assert!(tried.err.ends_with("Nothing was changed.\n"), "{}", tried.err);
    assert!(
        tried.err.contains("name k8s-app: nodens too: default/dns"),
        "the policy is named: {}",
        tried.err
    );
    assert_eq!(cluster.objects(), before);

    // Nobody makes pods of it.
    cluster.refuses(
        &["--apply", "--timeout", "1s"],
        1,
        "not all pods of nodens were ready within 1s; the Service kube-dns is as it was",
    );
    assert_eq!(cluster.selector(), old);
    let objects = cluster.objects();
    assert!(OF_NODENS.iter().all(|path| objects.contains_key(*path)));

    let mut taking = cluster
        .install(&["--apply", "--timeout", "2m"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for pods in [0, 1, 2] {
        cluster.ready("nodens", pods);
        sleep(Duration::from_millis(1500));
        assert_eq!(cluster.selector(), old, "{pods} of 3 are ready");
    }
    cluster.ready("nodens", 3);
    assert!(taking.wait().unwrap().success());
    assert_eq!(cluster.selector(), new);
    assert_nothing_else_touched(&before, &cluster.objects());

    // As many pods as there were, and their Corefile with its other files.
    let deployment = cluster.get(&format!("{DEPLOYMENTS}/nodens"));
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["metadata"]["labels"]["k8s-app"], "nodens");
    let mut data = before["/api/v1/configmaps kube-system/coredns"]["data"].clone();
    data.as_object_mut()
        .unwrap()
        .retain(|key, _| ["Corefile", "large.db", "oak.db"].contains(&key.as_str()));
    data["oak.db"] = json!("  oak.example. IN SOA a. b. 1 2 3 4 5\n");
    assert_eq!(cluster.get(&format!("{SYSTEM}/configmaps/nodens"))["data"], data);

    // A new image, and what somebody has written stays.
    let written = json!({ "data": { "Corefile": "oak.example {\n    whoami\n}\n" } });
    cluster
        .client()
        .merge(&format!("{SYSTEM}/configmaps/nodens"), &written)
        .unwrap();
    cluster.does(&["--apply", "--image", "registry.example/nodens:2", "--dry-run"]);
    let taken = cluster.objects();
    cluster.refuses(
        &["--apply", "--image", "registry.example/nodens:2", "--timeout", "1s"],
        1,
        "within 1s",
    );
    cluster.ready("nodens", 3);
    let again = cluster.does(&["--apply", "--image", "registry.example/nodens:2"]);
    assert!(
        again
            .err
            .ends_with("nodens is the DNS server at 10.96.0.10, as it was.\n"),
        "{}",
        again.err
    );
    let corefile = &cluster.get(&format!("{SYSTEM}/configmaps/nodens"))["data"]["Corefile"];
    assert_eq!(corefile, &written["data"]["Corefile"]);
    assert_nothing_else_touched(&taken, &cluster.objects());

    cluster.refuses(
        &["--rollback"],
        1,
        "no pod with k8s-app=kube-dns is ready; the Service kube-dns is as it was",
    );
    assert_eq!(cluster.selector(), new);
    cluster.ready("coredns", 3);
    let before = cluster.objects();
    cluster.does(&["--rollback", "--dry-run"]);
    assert_eq!(cluster.objects(), before);
    cluster.does(&["--rollback"]);
    assert_eq!(cluster.selector(), old);
    let after = cluster.objects();
    assert_nothing_else_touched(&before, &after);
    assert!(OF_NODENS.iter().all(|own| after[*own] == before[*own]), "it runs on");
    cluster.refuses(&["--rollback"], 1, "selects k8s-app=kube-dns, not nodens");
}

const KUBE_DNS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: kube-dns, namespace: kube-system }
data:
  stubDomains: |
    {\"ash.example\": [\"192.0.2.1\", \"192.0.2.2:5353\"],
     \"elm.example\": [\"2001:db8::1\"]}
  upstreamNameservers: |
    [\"192.0.2.53\", \"192.0.2.54\"]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: kube-dns, namespace: kube-system, labels: { k8s-app: kube-dns } }
spec:
  selector: { matchLabels: { k8s-app: kube-dns } }
  template:
    metadata: { labels: { k8s-app: kube-dns } }
    spec:
      containers:
      - { name: kubedns, image: kube-dns, args: [--domain=oak.example., --dns-port=10053] }
      - { name: dnsmasq, image: dnsmasq, args: [--cache-size=1000] }
";

#[test]
fn what_kube_dns_is_told_is_translated() {
    let cluster = Cluster::take(&[SERVICE, KUBE_DNS].concat());
    let printed = cluster.does(&[]).out;
    let stub = |domain: &str, servers: &str| {
        format!(
            "    {domain}:53 {{\n        errors\n        cache 30\n        loop\n        forward . {servers} {{\n            \
             max_concurrent 1000\n        }}\n    }}\n"
        )
    };
    for part in [
        "  clusterIP: 10.96.0.10\n".to_owned(),
        "  replicas: 1\n".to_owned(),
        "        kubernetes oak.example in-addr.arpa ip6.arpa {\n".to_owned(),
        "        forward . 192.0.2.53 192.0.2.54 {\n".to_owned(),
        "        loadbalance\n    }\n".to_owned() + &stub("ash.example", "192.0.2.1 192.0.2.2:5353"),
        stub("elm.example", "2001:db8::1"),
    ] {
        assert!(printed.contains(&part), "{part}: {printed}");
    }
    let without = cluster.does(&["-s", "10.3.0.0/24", "ash.example"]).out;
    assert!(
        without.contains("        kubernetes ash.example 10.3.0.0/24 {\n"),
        "{without}"
    );
    assert!(without.contains("        forward . /etc/resolv.conf {\n"), "{without}");
    assert!(
        !without.contains(":53 {\n        errors\n        cache 30\n        loop\n"),
        "{without}"
    );

    // An old template asks for the range of the Services, which the API server knows.
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("old.yaml.sed");
    std::fs::write(
        &template,
        "kubernetes CLUSTER_DOMAIN SERVICE_CIDR\nproxy . UPSTREAMNAMESERVER\n",
    )
    .unwrap();
    assert_eq!(
        cluster.does(&["-t", template.to_str().unwrap()]).out,
        "kubernetes oak.example 10.96.0.0/16 fd00:10:96::/112\nproxy . 192.0.2.53 192.0.2.54\n"
    );

    for (key, text) in [
        ("stubDomains", "{\"ash.example\": \"192.0.2.1\"}"),
        ("stubDomains", "{\"ash.example\": [\"192.0.2.1\"]"),
        ("stubDomains", "{\"ash.example\": [\"192.0.2.1 { \"]}"),
        ("upstreamNameservers", "192.0.2.53"),
    ] {
        let wrong = json!({ "data": { key: text } });
        cluster
            .client()
            .merge(&format!("{SYSTEM}/configmaps/kube-dns"), &wrong)
            .unwrap();
        cluster.refuses(&[], 1, &format!("{key} of the ConfigMap kube-dns"));
        cluster.does(&["-s"]);
    }
}

#[test]
fn a_cluster_without_a_dns_server() {
    let mut cluster = Cluster::take("");
    cluster.refuses(
        &[],
        2,
        "the address of the cluster's DNS is not known: there is no Service kube-dns in kube-system",
    );
    cluster.refuses(&["--rollback"], 1, "selects nothing, not nodens");
    let kubelet = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: kubelet-config, namespace: kube-system }\ndata:\n  kubelet: |\n    \
                   authentication:\n      x509: {}\n    clusterDNS:\n    - 10.96.0.53\n    clusterDomain: elm.example\n    staticPodPath: /etc\n";
    cluster.apply(kubelet).unwrap();
    let printed = cluster.does(&[]).out;
    assert!(
        printed.contains("        kubernetes elm.example in-addr.arpa ip6.arpa {\n"),
        "{printed}"
    );

    let mut taking = cluster.install(&["--apply"]).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while cluster.client().get(&format!("{SYSTEM}/services/kube-dns")).is_err() {
        assert!(Instant::now() < end);
        sleep(Duration::from_millis(50));
    }
    cluster.ready("nodens", 2);
    assert!(taking.wait().unwrap().success());
    let service = cluster.get(&format!("{SYSTEM}/services/kube-dns"));
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.53");
    assert_eq!(service["spec"]["selector"], json!({ "k8s-app": "nodens" }));
}

#[test]
fn what_cannot_be_taken_over_is_left_alone() {
    let mut cluster = Cluster::take(&[SERVICE, COREDNS].concat());
    let before = cluster.objects();
    cluster.refuses(
        &["--apply", "-i", "10.96.0.11"],
        1,
        "has the address 10.96.0.10, not 10.96.0.11",
    );
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("coredns.yaml.sed");
    let text = read("deploy/manifests/nodens.yaml.sed").replace(
        "kind: Deployment\nmetadata:\n  name: nodens",
        "kind: Deployment\nmetadata:\n  name: coredns",
    );
    std::fs::write(&template, text).unwrap();
    cluster.refuses(
        &["--apply", "-t", template.to_str().unwrap()],
        1,
        "Deployment is called coredns",
    );
    assert_eq!(cluster.objects(), before);

    for (service, what) in [
        (
            SERVICE.replace(
                "port: 53, protocol: UDP",
                "port: 53, targetPort: dns-udp, protocol: UDP",
            ),
            "sends to port dns-udp",
        ),
        (
            SERVICE.replace("  selector: { k8s-app: kube-dns }\n", ""),
            "selects no pods",
        ),
        (SERVICE.replace("10.96.0.10", "None"), "has no address"),
    ] {
        cluster.client().delete(&format!("{SYSTEM}/services/kube-dns")).unwrap();
        cluster.apply(&service).unwrap();
        let before = cluster.objects();
        let status = if what == "has no address" { 2 } else { 1 };
        cluster.refuses(&["--apply"], status, what);
        assert_eq!(cluster.objects(), before);
    }
}

#[test]
fn the_manifests_are_valid_and_their_account_may_list_and_watch_alone() {
    let cluster = Cluster::take("");
    let applied = run(cluster
        .kubectl()
        .args(["apply", "--validate=strict", "-f"])
        .arg(root().join("deploy/manifests/nodens.yaml")));
    assert!(
        applied.status == Some(0) && !applied.err.contains("Warning"),
        "{applied:?}"
    );

    let token = cluster.client().token_for("kube-system", "nodens").unwrap();
    let account = Client::new(cluster.port(), &cluster.file("ca.pem"), Some(&token), None).unwrap();
    let status = |method: &str, path: &str| account.request(method, path, "application/json", "{}").unwrap().0;
    for collection in [
        "/api/v1/services",
        "/api/v1/namespaces",
        "/api/v1/pods",
        "/apis/discovery.k8s.io/v1/endpointslices",
    ] {
        assert_eq!(status("GET", collection), 200, "{collection}");
        let watch = format!("{collection}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true");
        assert_eq!(status("GET", &watch), 200, "{watch}");
    }
    for (method, path) in [
        ("GET", "/api/v1/namespaces/kube-system"),
        ("GET", "/api/v1/namespaces/kube-system/services/kube-dns"),
        ("DELETE", "/api/v1/namespaces/kube-system/services/kube-dns"),
        ("POST", "/api/v1/namespaces"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/nodes"),
    ] {
        assert_eq!(status(method, path), 403, "{method} {path}");
    }
}

/// A Service as a client sees it, and queries through it without a break: whoever the selector names is asked.
#[test]
fn no_query_is_lost_on_the_way_there_and_back() {
    const OLD: &str =
        "oak.example:{PORT} {\n    bind 127.0.0.1\n    hosts {\n        192.0.2.1 web.oak.example\n    }\n}\n";
    let configmap = "
apiVersion: v1
kind: ConfigMap
metadata: { name: coredns, namespace: kube-system }
data:
  Corefile: |
    oak.example:53 {
        errors
        bind 127.0.0.1
        hosts {
            192.0.2.1 web.oak.example
        }
    }
---";
    let deployment = COREDNS.split_once("---").unwrap().1;
    let cluster = Cluster::take(&[SERVICE, configmap, deployment].concat());
    cluster.ready("coredns", 3);
    let old = Nodens::start(OLD);
    let new: OnceLock<Nodens> = OnceLock::new();
    let leads_to_new = AtomicBool::new(false);
    let is_over = AtomicBool::new(false);

    let asked = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                leads_to_new.store(cluster.selector() == json!({ "k8s-app": "nodens" }), Ordering::SeqCst);
                sleep(Duration::from_millis(2));
            }
        });
        let asking = scope.spawn(|| {
            let mut asked = [0_u32; 2];
            while !is_over.load(Ordering::SeqCst) {
                let which = leads_to_new.load(Ordering::SeqCst);
                let server = if which { new.get().unwrap() } else { &old };
                assert_eq!(
                    server.ask("web.oak.example A").values(),
                    ["192.0.2.1"],
                    "to the new one: {which}"
                );
                asked[usize::from(which)] += 1;
            }
            asked
        });

        let mut taking = cluster.install(&["--apply"]).stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        let written = loop {
            // What a kubelet needs to start a pod.
            if let Ok(made) = cluster.client().get(&format!("{DEPLOYMENTS}/nodens")) {
                assert_eq!(
                    made["spec"]["template"]["spec"]["containers"][0]["args"],
                    json!(["-conf", "/etc/coredns/Corefile"])
                );
                break cluster.get(&format!("{SYSTEM}/configmaps/nodens"))["data"]["Corefile"].clone();
            }
            assert!(Instant::now() < end);
            sleep(Duration::from_millis(50));
        };
        let server = Nodens::start(&written.as_str().unwrap().replace(":53 ", ":{PORT} "));
        assert_eq!(server.ask("web.oak.example A").rcode, "NOERROR");
        assert!(new.set(server).is_ok());
        sleep(Duration::from_millis(500));
        cluster.ready("nodens", 3);
        assert!(taking.wait().unwrap().success());
        sleep(Duration::from_millis(500));
        cluster.does(&["--rollback"]);
        sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::SeqCst);
        asking.join().unwrap()
    });
    assert!(asked.iter().all(|&queries| queries > 100), "{asked:?}");
    assert!(!leads_to_new.load(Ordering::SeqCst));
}
