//! The chart as helm renders it: valid for a real API server, and with the names and meanings of CoreDNS's values.

use std::path::PathBuf;
use std::process::Command;

use nodens_tests::cluster::turn;
use serde_json::{Value, json};

use super::{Done, root, run};

/// helm: the machine's, else built by Go from `tests/helm/go.mod`, once, into its cache.
fn helm() -> Option<Command> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    // The second one is where `tests/cluster/build` puts Go on a machine without one that is new enough.
    let gos = [PathBuf::from("go"), home.join(".cache/nodens/go-1.26/go/bin/go")];
    let built = gos.into_iter().map(|go| {
        let mut helm = Command::new(go);
        helm.env("GOTOOLCHAIN", "local")
            .arg("-C")
            .arg(root().join("tests/helm"));
        helm.args(["tool", "helm"]);
        helm
    });
    let works = |helm: &mut Command| {
        let mut version = Command::new(helm.get_program());
        version.args(helm.get_args()).arg("version").env("GOTOOLCHAIN", "local");
        version.output().is_ok_and(|output| output.status.success())
    };
    std::iter::once(Command::new("helm"))
        .chain(built)
        .find_map(|mut helm| works(&mut helm).then_some(helm))
}

fn call(args: &[&str], values: &str) -> Option<Done> {
    let Some(mut helm) = helm() else {
        println!("skipped: there is neither helm nor Go");
        return None;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let chart = root().join("deploy/chart").canonicalize().unwrap();
    let done = run(helm.args(args).arg(chart).arg("--values").arg(file.path()));
    Some(done)
}

/// What a release `nodens` in `kube-system` consists of.
fn rendered(values: &str) -> Option<Vec<Value>> {
    let done = call(
        &[
            "template",
            "nodens",
            "--namespace",
            "kube-system",
            "--kube-version",
            "1.37.2",
        ],
        values,
    )?;
    assert_eq!(done.status, Some(0), "{done:?}");
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out));
    Some(documents.into_iter().filter(|document| !document.is_null()).collect())
}

#[track_caller]
fn one<'d>(documents: &'d [Value], kind: &str, name: &str) -> &'d Value {
    let mut found = documents
        .iter()
        .filter(|document| document["kind"] == kind && document["metadata"]["name"] == name);
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {kind} {name}: {documents:?}"));
    assert!(found.next().is_none(), "two of {kind} {name}");
    one
}

/// Asks the API server what it thinks of them; nothing is made.
fn assert_valid(documents: &[Value]) {
    let cluster = turn::take().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents });
    std::fs::write(file.path(), list.to_string()).unwrap();
    let done = run(cluster
        .kubectl()
        .args(["apply", "--dry-run=server", "--validate=strict", "-f"])
        .arg(file.path()));
    assert_eq!(done.status, Some(0), "{done:?}");
}

#[test]
fn the_chart_is_in_order() {
    let Some(done) = call(&["lint", "--strict"], "") else {
        return;
    };
    assert_eq!(done.status, Some(0), "{done:?}");
}

#[test]
fn the_defaults_are_a_dns_server_of_the_cluster() {
    let Some(documents) = rendered("") else { return };
    assert_valid(&documents);
    let corefile = one(&documents, "ConfigMap", "nodens")["data"]["Corefile"]
        .as_str()
        .unwrap();
    let wanted = super::read("tests/corefiles/helm")
        .replace("lameduck 10s", "lameduck 5s")
        .replace("0.0.0.0:9153", ":9153");
    assert_eq!(corefile, wanted);

    let labels = json!({
        "app.kubernetes.io/name": "nodens", "app.kubernetes.io/instance": "nodens", "k8s-app": "nodens"
    });
    let deployment = one(&documents, "Deployment", "nodens");
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], labels);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["dnsPolicy"], "Default");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    let container = &pod["containers"][0];
    assert_eq!(container["args"], json!(["-conf", "/etc/coredns/Corefile"]));
    assert_eq!(
        container["ports"],
        json!([
            { "name": "udp-53", "containerPort": 53, "protocol": "UDP" },
            { "name": "tcp-53", "containerPort": 53, "protocol": "TCP" },
            { "name": "tcp-9153", "containerPort": 9153, "protocol": "TCP" },
        ])
    );
    let service = one(&documents, "Service", "nodens");
    assert_eq!(service["spec"]["selector"], labels);
    assert_eq!(service["metadata"]["labels"]["kubernetes.io/cluster-service"], "true");
    for rule in one(&documents, "ClusterRole", "nodens")["rules"].as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["list", "watch"]));
    }
    let kinds: Vec<_> = documents
        .iter()
        .map(|document| document["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "ConfigMap",
            "ClusterRole",
            "ClusterRoleBinding",
            "Service",
            "Deployment"
        ]
    );
}

/// Values as they are written for CoreDNS's chart, each with an effect that is looked for.
const VALUES: &str = r#"
nameOverride: dns
isClusterService: false
serviceType: LoadBalancer
replicaCount: 7
image: { repository: registry.example/nodens, tag: "1", pullPolicy: Always, pullSecrets: [key] }
resources: { limits: { cpu: 100m, memory: 128Mi }, requests: { cpu: 100m, memory: 128Mi } }
rollingUpdate: { maxUnavailable: 2, maxSurge: 50% }
terminationGracePeriodSeconds: 40
preStopSleep: 5
podAnnotations: { of: pods }
podLabels: { pod: own }
customLabels: { team: names }
customAnnotations: { note: all }
priorityClassName: high
serviceAccount: { create: true, name: account, annotations: { role: arn } }
rbac: { create: true, multiclusterEnable: true }
clusterRole: { nameOverride: role }
service:
  name: outside
  clusterIP: 10.96.0.99
  loadBalancerIP: 192.0.2.1
  externalTrafficPolicy: Local
  ipFamilyPolicy: SingleStack
  trafficDistribution: PreferSameZone
  annotations: { own: "1" }
podDisruptionBudget: { minAvailable: 1 }
affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
topologySpreadConstraints: [{ topologyKey: zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule }]
nodeSelector: { disk: ssd }
tolerations: [{ key: dns, operator: Exists }]
env: [{ name: A, value: b }]
extraVolumes: [{ name: more, emptyDir: {} }]
extraVolumeMounts: [{ name: more, mountPath: /more }]
extraSecrets: [{ name: certs, mountPath: /etc/coredns/tls, defaultMode: 288 }]
extraContainers: [{ name: beside, image: busybox }]
extraConfig: { import: { parameters: /opt/nodens/*.conf } }
deployment: { name: server, annotations: { d: "1" }, dnsPolicy: None, dnsConfig: { nameservers: [192.0.2.53] } }
livenessProbe: { initialDelaySeconds: 9 }
readinessProbe: { enabled: false }
zoneFiles:
- filename: oak.db
  domain: oak.example
  contents: |
    oak.example. IN SOA a. b. 1 2 3 4 5
    oak.example. IN NS a.
prometheus: { service: { enabled: true }, monitor: { enabled: true, additionalLabels: { release: p }, interval: 30s, namespace: watchers } }
servers:
- zones: [{ zone: oak.example. }, { zone: ash.example, scheme: "dns://", use_tcp: true }]
  port: 1053
  servicePort: 53
  nodePort: 30053
  hostPort: 5353
  plugins:
  - { name: file, parameters: /etc/coredns/oak.db oak.example }
  - { name: prometheus, parameters: "[::]:9154" }
- zones: [{ scheme: "tls://" }]
  port: 853
  plugins:
  - { name: cache, parameters: 0 }
  - { name: forward, parameters: . 192.0.2.53, configBlock: "max_concurrent 10\npolicy sequential" }
- zones: [{ zone: elm.example, scheme: "dns://", use_tcp: false }]
  port: 2053
  plugins: [{ name: whoami }]
"#;

#[test]
fn values_of_coredns_s_chart_mean_the_same() {
    let Some(mut documents) = rendered(VALUES) else { return };
    let monitor = one(&documents, "ServiceMonitor", "nodens-dns").clone();
    assert_eq!(monitor["metadata"]["namespace"], "watchers");
    assert_eq!(monitor["metadata"]["labels"]["release"], "p");
    assert_eq!(
        monitor["spec"]["endpoints"],
        json!([{ "port": "metrics", "interval": "30s" }])
    );
    assert_eq!(
        monitor["spec"]["namespaceSelector"],
        json!({ "matchNames": ["kube-system"] })
    );
    // The API server of the tests has no such kind.
    documents.retain(|document| document["kind"] != "ServiceMonitor");
    assert_valid(&documents);

    let data = &one(&documents, "ConfigMap", "nodens-dns")["data"];
    assert_eq!(
        data["Corefile"],
        "import /opt/nodens/*.conf
oak.example.:1053 dns://ash.example:1053 {
    file /etc/coredns/oak.db oak.example
    prometheus [::]:9154
}
tls://.:853 {
    cache 0
    forward . 192.0.2.53 {
        max_concurrent 10
        policy sequential
    }
}
dns://elm.example:2053 {
    whoami
}
"
    );
    assert_eq!(
        data["oak.db"],
        "oak.example. IN SOA a. b. 1 2 3 4 5\noak.example. IN NS a.\n"
    );

    let service = one(&documents, "Service", "outside");
    let spec = &service["spec"];
    let port = |name: &str, port: u16, target: u16, protocol: &str| json!({ "name": name, "port": port, "targetPort": target, "protocol": protocol });
    let at_node = |mut port: Value| {
        port["nodePort"] = json!(30053);
        port
    };
    assert_eq!(
        spec["ports"],
        json!([
            at_node(port("udp-1053", 53, 1053, "UDP")),
            at_node(port("tcp-1053", 53, 1053, "TCP")),
            port("udp-2053", 2053, 2053, "UDP"),
            port("tcp-853", 853, 853, "TCP"),
        ])
    );
    for (field, value) in [
        ("type", "LoadBalancer"),
        ("clusterIP", "10.96.0.99"),
        ("loadBalancerIP", "192.0.2.1"),
        ("externalTrafficPolicy", "Local"),
        ("ipFamilyPolicy", "SingleStack"),
        ("trafficDistribution", "PreferSameZone"),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    assert_eq!(service["metadata"]["annotations"], json!({ "own": "1", "note": "all" }));
    let metrics = one(&documents, "Service", "nodens-dns-metrics");
    assert_eq!(metrics["spec"]["ports"][0]["targetPort"], 9154);
    assert_eq!(metrics["metadata"]["labels"]["app.kubernetes.io/component"], "metrics");

    let deployment = one(&documents, "Deployment", "server");
    assert_eq!(deployment["spec"]["replicas"], 7);
    assert_eq!(
        deployment["spec"]["strategy"]["rollingUpdate"],
        json!({ "maxUnavailable": 2, "maxSurge": "50%" })
    );
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(
        (&labels["team"], &labels["pod"], &labels["k8s-app"]),
        (&json!("names"), &json!("own"), &Value::Null)
    );
    assert_eq!(template["metadata"]["annotations"]["of"], "pods");
    let pod = &template["spec"];
    for (field, value) in [
        ("serviceAccountName", json!("account")),
        ("imagePullSecrets", json!([{ "name": "key" }])),
        ("priorityClassName", json!("high")),
        ("terminationGracePeriodSeconds", json!(40)),
        ("dnsPolicy", json!("None")),
        ("dnsConfig", json!({ "nameservers": ["192.0.2.53"] })),
        ("tolerations", json!([{ "key": "dns", "operator": "Exists" }])),
        ("nodeSelector", json!({ "kubernetes.io/os": "linux", "disk": "ssd" })),
    ] {
        assert_eq!(pod[field], value, "{field}");
    }
    let constraint = &pod["topologySpreadConstraints"][0];
    assert_eq!(
        constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/name"],
        "dns"
    );
    let container = &pod["containers"][0];
    for (field, value) in [
        ("image", json!("registry.example/nodens:1")),
        ("imagePullPolicy", json!("Always")),
        ("env", json!([{ "name": "A", "value": "b" }])),
        ("lifecycle", json!({ "preStop": { "sleep": { "seconds": 5 } } })),
        ("readinessProbe", Value::Null),
        (
            "volumeMounts",
            json!([
                { "name": "config", "mountPath": "/etc/coredns", "readOnly": true },
                { "name": "certs", "mountPath": "/etc/coredns/tls", "readOnly": true },
                { "name": "more", "mountPath": "/more" },
            ]),
        ),
    ] {
        assert_eq!(container[field], value, "{field}");
    }
    assert_eq!(container["livenessProbe"]["initialDelaySeconds"], 9);
    assert_eq!(container["resources"]["limits"]["cpu"], "100m");
    assert_eq!(pod["containers"][1]["name"], "beside");

    let budget = &one(&documents, "PodDisruptionBudget", "nodens-dns")["spec"];
    assert_eq!(budget["minAvailable"], 1);
    let rules = one(&documents, "ClusterRole", "role")["rules"].as_array().unwrap();
    assert!(
        rules
            .iter()
            .any(|rule| rule["resources"] == json!(["serviceimports", "serviceexports"]))
    );
    let account = one(&documents, "ServiceAccount", "account");
    assert_eq!(
        account["metadata"]["annotations"],
        json!({ "role": "arn", "note": "all" })
    );
}

#[test]
fn either_autoscaler_sets_the_number_of_pods() {
    let values =
        "{ autoscaler: { enabled: true, max: 5, customFlags: [--nodelabels=a=b] }, k8sAppLabelOverride: kube-dns }";
    let Some(documents) = rendered(values) else { return };
    assert_valid(&documents);
    let deployment = one(&documents, "Deployment", "nodens");
    assert_eq!(deployment["spec"]["replicas"], Value::Null);
    assert_eq!(deployment["metadata"]["labels"]["k8s-app"], "kube-dns");
    let linear = one(&documents, "ConfigMap", "nodens-autoscaler")["data"]["linear"]
        .as_str()
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(linear).unwrap(),
        json!({
            "coresPerReplica": 256, "nodesPerReplica": 16, "min": 0, "max": 5,
            "includeUnschedulableNodes": false, "preventSinglePointFailure": true
        })
    );
    let pod = &one(&documents, "Deployment", "nodens-autoscaler")["spec"]["template"]["spec"];
    let command = pod["containers"][0]["command"].as_array().unwrap();
    for word in ["--target=Deployment/nodens", "--nodelabels=a=b"] {
        assert!(command.contains(&json!(word)), "{command:?}");
    }

    let documents = rendered("{ hpa: { enabled: true, maxReplicas: 4 } }").unwrap();
    assert_valid(&documents);
    assert_eq!(one(&documents, "Deployment", "nodens")["spec"]["replicas"], Value::Null);
    assert_eq!(
        one(&documents, "HorizontalPodAutoscaler", "nodens")["spec"]["maxReplicas"],
        4
    );

    // Of somebody else's Deployment.
    let documents =
        rendered("{ deployment: { enabled: false, name: coredns }, autoscaler: { enabled: true } }").unwrap();
    let kinds: Vec<_> = documents
        .iter()
        .map(|document| document["kind"].as_str().unwrap())
        .collect();
    assert!(
        !kinds.contains(&"Service") && kinds.contains(&"RoleBinding"),
        "{kinds:?}"
    );
    assert_eq!(
        one(&documents, "Role", "nodens-autoscaler")["rules"][0]["resourceNames"],
        json!(["coredns"])
    );
}
