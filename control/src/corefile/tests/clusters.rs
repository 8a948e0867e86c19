//! The directives of Kubernetes: `kubernetes`, `k8s_external`, `autopath @kubernetes`.

use std::time::Duration;

use nodens_sources::kubernetes::{Server, TlsFiles};

use super::Memory;
use super::settings::text;
use crate::corefile::directive::POD_LABELS_MAX;
use crate::corefile::settings::{Kubernetes, PodNames, ServerBlock};

/// The block of a Corefile, its errors and its warnings.
fn read(directives: &str) -> (ServerBlock, Vec<String>, Vec<String>) {
    let world =
        Memory::new(&format!("cluster.local {{\n{directives}\n}}\n")).file("resolv.conf", "search home.example\n");
    let texts = |findings: &[crate::corefile::Diagnostic]| findings.iter().map(|one| one.text.clone()).collect();
    match world.load() {
        Ok(mut corefile) => (corefile.blocks.remove(0), Vec::new(), texts(&corefile.warnings)),
        Err(mut refused) => {
            let errors: Vec<String> = texts(&refused.found.errors);
            (refused.blocks.remove(0), errors, texts(&refused.found.warnings))
        }
    }
}

fn kubernetes(line: &str, options: &str) -> (Kubernetes, Vec<String>) {
    let (block, errors, warnings) = read(&format!("kubernetes {line} {{\n{options}\n}}"));
    assert_eq!(errors, [""; 0], "{line} {options}");
    (block.kubernetes.unwrap(), warnings)
}

#[track_caller]
fn error(line: &str, options: &str, expected: &str) {
    let (_, errors, _) = read(&format!("kubernetes {line} {{\n{options}\n}}"));
    assert_eq!(errors, [expected], "{line} {options}");
}

#[test]
fn defaults() {
    let (block, errors, _) = read("kubernetes");
    let found = block.kubernetes.unwrap();
    assert_eq!(errors, [""; 0]);
    assert_eq!(
        (text(&found.zones), found.primary.to_string()),
        ("cluster.local.".into(), "cluster.local.".into())
    );
    assert_eq!(
        (found.ttl_secs, found.pods, found.startup_timeout),
        (5, PodNames::Disabled, Duration::from_secs(5))
    );
    assert!(found.fallthrough.is_none() && found.namespaces.is_none() && !found.ignore_empty_service);
    let source = found.source;
    assert_eq!(source.server, Server::InCluster);
    assert!(source.endpoints && !source.pods && !source.multicluster && !source.zonal && !source.endpoint_pod_names);
    assert_eq!((source.limits.every, source.limits.inflight), (None, None));
}

#[test]
fn zones_and_the_primary_one() {
    let primary = |line: &str| {
        let (found, warnings) = kubernetes(line, "");
        (found.primary.to_string(), warnings.len())
    };
    assert_eq!(
        primary("10.96.0.0/12 Cluster.Local oak.example"),
        ("cluster.local.".to_owned(), 0)
    );
    assert_eq!(
        primary("in-addr.arpa ip6.arpa cluster.local"),
        ("cluster.local.".to_owned(), 0)
    );
    assert_eq!(primary("cluster.local in-addr.arpa"), ("cluster.local.".to_owned(), 0));
    assert_eq!(kubernetes("cluster.local 10.96.0.0/12", "").0.zones.len(), 17);
    for line in ["10.96.0.0/16", "10.in-addr.arpa 8.b.d.0.1.0.0.2.ip6.arpa"] {
        error(line, "", "non-reverse zone name must be used");
    }
}

#[test]
fn who_is_asked() {
    let server = |options: &str| {
        let (found, warnings) = kubernetes("cluster.local", options);
        (found.source.server, found.files.len(), warnings)
    };
    let kubeconfig = |context: Option<&str>| Server::Kubeconfig {
        file: "f".into(),
        context: context.map(str::to_owned),
    };
    assert_eq!(server("kubeconfig f"), (kubeconfig(None), 1, Vec::new()));
    assert_eq!(server("kubeconfig f c"), (kubeconfig(Some("c")), 1, Vec::new()));
    let (found, files, warnings) = server("endpoint https://192.0.2.1:6443 https://192.0.2.2:6443\ntls c k a");
    let tls = Some(TlsFiles {
        cert: "c".into(),
        key: "k".into(),
        ca: "a".into(),
    });
    let url = "https://192.0.2.1:6443".to_owned();
    assert_eq!((found, files), (Server::Endpoint { url, tls }, 3));
    let text = "plugin/kubernetes: Multiple endpoints have been deprecated, \
                only the first specified endpoint 'https://192.0.2.1:6443' is used";
    assert_eq!(warnings, [text]);
    let (found, files, warnings) = server("endpoint http://a\ntls c k a\nkubeconfig f");
    assert_eq!((found, files, warnings.len()), (kubeconfig(None), 1, 2));
    assert_eq!(
        server("tls c k a").2,
        ["plugin/kubernetes: `tls` has no effect without `endpoint`"]
    );
    for (options, expected) in [
        (
            "endpoint",
            "Wrong argument count or unexpected line ending after 'endpoint'",
        ),
        ("endpoint etcd://a", "invalid endpoint: etcd://a"),
        ("endpoint https://", "invalid endpoint: https://"),
        (
            "endpoint https://a\ntls c k",
            "Wrong argument count or unexpected line ending after 'k'",
        ),
        (
            "kubeconfig",
            "Wrong argument count or unexpected line ending after 'kubeconfig'",
        ),
        (
            "kubeconfig a b c",
            "Wrong argument count or unexpected line ending after 'c'",
        ),
    ] {
        error("cluster.local", options, expected);
    }
}

#[test]
fn how_much_is_asked() {
    let limits = |options: &str| kubernetes("cluster.local", options).0.source.limits;
    let found = limits("apiserver_qps 0.5\napiserver_burst 7\napiserver_max_inflight 3");
    assert_eq!(
        (found.every, found.burst, found.inflight),
        (Some(Duration::from_secs(2)), 7, Some(3))
    );
    assert_eq!(
        limits("apiserver_qps 0\napiserver_burst 0\napiserver_max_inflight 0"),
        limits("")
    );
    assert_eq!(limits("apiserver_qps 1e-300").every, Some(Duration::MAX));
    for (options, expected) in [
        ("apiserver_qps -1", "apiserver_qps must be >= 0: -1"),
        ("apiserver_qps many", "apiserver_qps is no number: many"),
        ("apiserver_qps inf", "apiserver_qps is no number: inf"),
        (
            "apiserver_qps",
            "Wrong argument count or unexpected line ending after 'apiserver_qps'",
        ),
        ("apiserver_burst -1", "apiserver_burst must be >= 0: -1"),
        (
            "apiserver_burst 1.5",
            "plugin/kubernetes: strconv.Atoi: parsing \"1.5\": invalid syntax",
        ),
        ("apiserver_max_inflight -1", "apiserver_max_inflight must be >= 0: -1"),
        (
            "apiserver_max_inflight 1 2",
            "Wrong argument count or unexpected line ending after '2'",
        ),
    ] {
        error("cluster.local", options, expected);
    }
}

#[test]
fn what_is_answered_for() {
    let of = |options: &str| kubernetes("cluster.local oak.example", options).0;
    let found = of("namespaces a b\nnamespaces c");
    assert_eq!(found.namespaces, Some(["a", "b", "c"].map(str::to_owned).into()));
    let found = of("namespace_labels team in (x, y)\nlabels app = web");
    assert_eq!(found.source.namespace_labels.as_deref(), Some("team in (x, y)"));
    assert_eq!(found.source.labels.as_deref(), Some("app = web"));
    let found = of("pods verified\nendpoint_pod_names\nzonal\nttl 0 and more\nignore empty_service at all\nignore");
    assert!(found.source.pods && found.source.endpoint_pod_names && found.source.zonal);
    assert!(found.ignore_empty_service && found.ttl_secs == 0 && found.pods == PodNames::Verified);
    let found = of("pods verified\npods insecure\nttl 60\nttl 3600\nfallthrough\nfallthrough Elm.example");
    assert!(!found.source.pods && found.ttl_secs == 3_600 && found.pods == PodNames::Insecure);
    assert_eq!(text(found.fallthrough.unwrap()), "elm.example.");
    let found = of("multicluster Oak.example\nnoendpoints");
    assert!(found.source.multicluster && !found.source.endpoints);
    assert_eq!(text(&found.multicluster), "oak.example.");
    assert!(!of("multicluster").source.multicluster);
    let timeout = |text: &str| of(&format!("startup_timeout {text}")).startup_timeout;
    assert_eq!(["1m", "0s", "-3s"].map(timeout), [60, 0, 0].map(Duration::from_secs));
}

#[test]
fn what_is_refused() {
    for (options, expected) in [
        (
            "namespaces",
            "Wrong argument count or unexpected line ending after 'namespaces'",
        ),
        (
            "namespaces a\nnamespace_labels b",
            "namespaces and namespace_labels cannot both be set",
        ),
        (
            "namespace_labels a=b\nnamespaces a",
            "namespaces and namespace_labels cannot both be set",
        ),
        (
            "labels",
            "Wrong argument count or unexpected line ending after 'labels'",
        ),
        (
            "labels a b",
            "unable to parse label selector value: 'a b': found 'b', expected: '=', '!=', '==', 'in', notin'",
        ),
        (
            "pods maybe",
            "wrong value for pods: maybe,  must be one of: disabled, verified, insecure",
        ),
        ("pods", "Wrong argument count or unexpected line ending after 'pods'"),
        (
            "endpoint_pod_names on",
            "Wrong argument count or unexpected line ending after 'on'",
        ),
        ("ttl 3601", "ttl must be in range [0, 3600]: 3601"),
        ("ttl -1", "ttl must be in range [0, 3600]: -1"),
        ("ttl 5s", "ttl is no number: 5s"),
        ("ignore services", "unable to parse ignore value: 'services'"),
        (
            "multicluster elm.example",
            "is not authoritative for the multicluster zone elm.example. (authoritative zones: [cluster.local. oak.example.])",
        ),
        (
            "zonal\nnoendpoints",
            "zonal requires the endpoint cache; remove noendpoints",
        ),
        (
            "startup_timeout 5",
            "failed to parse startup_timeout: 5, time: missing unit in duration \"5\"",
        ),
        (
            "startup_timeout",
            "Wrong argument count or unexpected line ending after 'startup_timeout'",
        ),
        ("resyncperiod 5m", "unknown property 'resyncperiod'"),
        ("cidrs 10.96.0.0/16", "unknown property 'cidrs'"),
        ("federation f", "unknown property 'federation'"),
        ("autopath", "unknown property 'autopath'"),
        ("transfer to *", "unknown property 'transfer'"),
        ("lables a=b", "unknown property 'lables'"),
    ] {
        error("cluster.local oak.example", options, expected);
    }
    let (_, errors, _) = read("kubernetes\nkubernetes {\nttl 5000\nlables a=b\n}");
    assert_eq!(
        errors,
        [
            "plugin/kubernetes: this plugin can only be used once per Server Block",
            "ttl must be in range [0, 3600]: 5000",
            "unknown property 'lables'"
        ]
    );
    let (_, warnings) = kubernetes("cluster.local", "upstream 192.0.2.1");
    assert_eq!(warnings.len(), 1);
}

#[test]
fn names_from_outside() {
    let (block, errors, _) =
        read("kubernetes\nk8s_external Oak.example 192.0.2.0/24 {\napex Own\nttl 60\nheadless\nfallthrough\n}");
    assert_eq!(errors, [""; 0]);
    let found = block.k8s_external.unwrap();
    assert_eq!(text(&found.zones), "oak.example. 2.0.192.in-addr.arpa.");
    assert!(found.headless && found.ttl_secs == 60 && found.fallthrough.is_some());
    assert_eq!(found.apex.to_string(), "own.");
    let found = read("k8s_external\nkubernetes").0.k8s_external.unwrap();
    assert!(!found.headless && found.ttl_secs == 5 && found.fallthrough.is_none());
    assert_eq!(
        (found.apex.to_string(), text(&found.zones)),
        ("dns.".into(), "cluster.local.".into())
    );
    for (options, expected) in [
        ("apex", "Wrong argument count or unexpected line ending after 'apex'"),
        ("apex .", "apex is no name: ."),
        ("ttl 3601", "ttl must be in range [0, 3600]: 3601"),
        (
            "headless on",
            "Wrong argument count or unexpected line ending after 'on'",
        ),
        ("upstream", "unknown property 'upstream'"),
    ] {
        let (_, errors, _) = read(&format!("kubernetes\nk8s_external {{\n{options}\n}}"));
        assert_eq!(errors, [expected], "{options}");
    }
    assert_eq!(
        read("k8s_external").1,
        ["plugin/k8s_external: kubernetes plugin not loaded"]
    );
}

#[test]
fn the_search_path_of_a_pod() {
    let autopath = |line: &str| read(&format!("kubernetes\n{line}")).0.pod_autopath;
    let found = autopath("autopath oak.example @kubernetes").unwrap();
    assert_eq!(
        (text(found.zones), text(found.search)),
        ("oak.example.".into(), "home.example.".into())
    );
    assert!(autopath("autopath @kubernetes\nautopath resolv.conf").is_none());
    let warnings = |block: &str| read(block).2.len();
    assert_eq!(warnings("autopath @kubernetes\nkubernetes {\npods verified\n}"), 0);
    assert_eq!(warnings("autopath @kubernetes\nkubernetes"), 1);
    assert_eq!(warnings("autopath @kubernetes"), 1);
}

#[test]
fn labels_of_pods_are_kept_that_a_block_names() {
    let kept = |metadata: &str, pods: &str| {
        let (block, errors, _) = read(&format!(
            "{metadata}
            kubernetes {{
                endpoint https://a
                pods {pods}
            }}
            log . \"{{name}} {{/kubernetes/client-label/app}} {{/kubernetes/client-namespace}}\"
            view fruit {{
                expr metadata('kubernetes/client-label/tree/kind') == 'a' || metadata(\"kubernetes/client-label/app\") == 'b'
            }}
            template IN TXT {{
                answer \"{{{{ .Name }}}} 5 IN TXT \\\"{{{{ .Meta \\\"kubernetes/client-label/app.kubernetes.io/name\\\" }}}}\\\"\"
            }}
            rewrite edns0 local set 0xffee {{kubernetes/client-label/z}}"
        ));
        assert_eq!(errors, [""; 0]);
        block.kubernetes.unwrap().source.pod_labels
    };
    assert_eq!(
        kept("metadata", "verified"),
        ["app", "app.kubernetes.io/name", "tree/kind", "z"].map(Box::from)
    );
    assert!(kept("metadata", "insecure").is_empty());
    assert!(kept("", "verified").is_empty());
}

#[test]
fn a_block_can_use_so_many_labels_of_pods() {
    let read = |labels: usize| {
        let label = |at: usize| format!("{{/kubernetes/client-label/k{at}}}");
        let format: String = (0..labels).map(label).collect();
        read(&format!(
            "metadata\nkubernetes {{\nendpoint https://a\npods verified\n}}\nlog . {format}\nlog a {format}"
        ))
    };
    let (block, errors, _) = read(POD_LABELS_MAX);
    assert_eq!(errors, [""; 0]);
    assert_eq!(block.kubernetes.unwrap().source.pod_labels.len(), POD_LABELS_MAX);
    let text = "a block can use 32 labels of pods, and kubernetes/client-label/k32 is one more";
    assert_eq!(read(POD_LABELS_MAX + 1).1, [text]);
}
