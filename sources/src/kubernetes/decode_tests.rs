use super::*;
use crate::kubernetes::raw::RawPage;

/// As an API server tells it, with what all of its objects carry and nobody here wants.
fn raw(kind: &str, metadata: &str, rest: &str) -> Raw {
    let text = format!(
        r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"uid":"7d0c2f4e-0000-4000-8000-000000000001",
        "resourceVersion":"4711","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z",
        "managedFields":[{{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z",
        "fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:ports":{{".":{{}},"k:{{\"port\":80}}":{{}}}},"f:type":{{}}}}}}}}],
        "ownerReferences":[{{"kind":"Service","name":"web","controller":true}}],{metadata}}},{rest}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn named(kind: Kind, rest: &str) -> Object {
    decode(
        kind,
        Rules::default(),
        raw("x", r#""name":"web","namespace":"orchard""#, rest),
    )
}

fn service(rest: &str) -> (Service, Option<String>) {
    let object = named(Kind::Services, rest);
    assert_eq!((&*object.key.namespace, &*object.key.name), ("orchard", "web"));
    match object.value {
        Some(Value::Service(service)) => (service, object.bad),
        other => panic!("{other:?}"),
    }
}

fn ips(texts: &[&str]) -> Box<[IpAddr]> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn port(name: &str, protocol: &str, number: u16) -> Port {
    Port {
        name: name.into(),
        protocol: protocol.into(),
        number,
    }
}

#[test]
fn services_with_addresses() {
    let (found, bad) = service(
        r#""spec":{"ports":[{"name":"http","protocol":"TCP","port":80,"targetPort":"web","nodePort":30080},
        {"name":"dns","protocol":"UDP","port":53,"targetPort":5353},{"port":9}],"selector":{"app":"web"},
        "clusterIP":"10.96.0.20","clusterIPs":["10.96.0.20","fd00:10:96::20"],"type":"LoadBalancer",
        "sessionAffinity":"None","ipFamilies":["IPv4","IPv6"],"externalIPs":["192.0.2.7"],
        "internalTrafficPolicy":"Cluster"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.8","ipMode":"VIP"},
        {"hostname":"lb.example.net"},{"ip":"192.0.2.9","hostname":"both.example.net"},{}]}}"#,
    );
    assert_eq!(
        found.kind,
        ServiceKind::ClusterIps(ips(&["10.96.0.20", "fd00:10:96::20"]))
    );
    let ports = [port("http", "tcp", 80), port("dns", "udp", 53), port("", "tcp", 9)];
    assert_eq!(found.ports, ports.into());
    let address = |text: &str| External::Address(text.parse().unwrap());
    let hostname = External::Hostname("lb.example.net".into());
    let external = [
        address("192.0.2.7"),
        address("192.0.2.8"),
        hostname,
        address("192.0.2.9"),
    ];
    assert_eq!((found.external, bad), (external.into(), None));
}

#[test]
fn what_the_name_of_a_service_leads_to() {
    let kind = |spec: &str| service(&format!(r#""spec":{{{spec}}}"#)).0.kind;
    assert_eq!(
        kind(r#""clusterIP":"None","clusterIPs":["None"],"type":"ClusterIP""#),
        ServiceKind::Headless
    );
    assert_eq!(kind(r#""clusterIP":"None""#), ServiceKind::Headless);
    assert_eq!(
        kind(r#""clusterIP":"10.96.0.9""#),
        ServiceKind::ClusterIps(ips(&["10.96.0.9"]))
    );
    assert_eq!(kind(r#""clusterIP":"""#), ServiceKind::ClusterIps(ips(&[])));
    assert_eq!(
        kind(r#""type":"ExternalName","externalName":"WWW.example.net""#),
        ServiceKind::ExternalName("WWW.example.net".into())
    );
}

#[test]
fn parts_of_a_service_that_do_not_parse_are_left_out() {
    let (found, bad) = service(
        r#""spec":{"clusterIPs":["10.96.0.300","10.96.0.1"],"externalIPs":["none"],
        "ports":[{"port":65536},{"port":-1},{"name":"http","port":80}]}"#,
    );
    assert_eq!(found.kind, ServiceKind::ClusterIps(ips(&["10.96.0.1"])));
    assert_eq!((found.ports.len(), found.external.len()), (1, 0));
    assert_eq!(bad.as_deref(), Some("spec.clusterIPs: 10.96.0.300"));
}

const LABELS: &str = r#""name":"db-x7k2p","namespace":"orchard","labels":{"app":"db",
    "endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"db"}"#;

fn slice(rules: Rules<'_>, metadata: &str, rest: &str) -> (Option<Slice>, Option<String>) {
    let object = decode(Kind::Slices, rules, raw("EndpointSlice", metadata, rest));
    match object.value {
        Some(Value::Slice(slice)) => (Some(slice), object.bad),
        None => (None, object.bad),
        other => panic!("{other:?}"),
    }
}

/// `address label zone` of each endpoint.
fn endpoints(rules: Rules<'_>, rest: &str) -> String {
    let (found, _) = slice(rules, LABELS, rest);
    let texts = found.unwrap().endpoints.into_iter().map(|endpoint| {
        let address = match endpoint.address {
            EndpointAddress::Ip(address) => address.to_string(),
            EndpointAddress::Name(name) => name.into(),
        };
        let text = |part: Option<Box<str>>| part.unwrap_or_else(|| "-".into());
        format!("{address} {} {}", text(endpoint.label), text(endpoint.zone))
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn slices_and_their_ready_endpoints() {
    let rest = r#""addressType":"IPv4","endpoints":[
        {"addresses":["10.244.1.5","10.244.1.6"],"conditions":{"ready":true,"serving":true,"terminating":false},
         "hostname":"db-0","nodeName":"n1","zone":"North-1A","targetRef":{"kind":"Pod","name":"db-0","uid":"u"}},
        {"addresses":["10.244.1.7"],"conditions":{"ready":false,"serving":true,"terminating":true}},
        {"addresses":["10.244.1.8"],"conditions":{}},
        {"addresses":["10.244.1.9"],"targetRef":{"kind":"Pod","name":"db-9"},"hints":{"forZones":[{"name":"z"}]}}],
        "ports":[{"name":"pg","protocol":"TCP","port":5432},{"name":"","protocol":"SCTP","port":9},{"name":"all","port":null}]"#;
    let (found, bad) = slice(Rules::default(), LABELS, rest);
    let found = found.unwrap();
    assert_eq!(
        (&*found.service, &*found.cluster, found.changed, bad),
        ("db", "", None, None)
    );
    assert_eq!(found.ports, [port("pg", "tcp", 5_432), port("", "sctp", 9)].into());
    assert_eq!(
        endpoints(Rules::default(), rest),
        "10.244.1.5 db-0 -, 10.244.1.6 db-0 -, 10.244.1.8 - -, 10.244.1.9 - -"
    );
    let rules = Rules {
        endpoint_pod_names: true,
        zonal: true,
        pod_labels: &[],
    };
    assert_eq!(
        endpoints(rules, rest),
        "10.244.1.5 db-0 north-1a, 10.244.1.6 db-0 north-1a, 10.244.1.8 - -, 10.244.1.9 db-9 -"
    );
}

#[test]
fn the_name_of_a_pod_is_a_label_if_it_is_short_enough() {
    let rules = Rules {
        endpoint_pod_names: true,
        zonal: false,
        pod_labels: &[],
    };
    let of = |len| {
        let name = "p".repeat(len);
        let rest = format!(
            r#""addressType":"IPv4","endpoints":[{{"addresses":["10.244.1.5"],"targetRef":{{"name":"{name}"}}}}],"ports":null"#
        );
        endpoints(rules, &rest).len()
    };
    assert_eq!((of(63), of(64)), ("10.244.1.5  -".len() + 63, "10.244.1.5 - -".len()));
}

#[test]
fn addresses_of_each_type() {
    let of = |kind: &str, addresses: &str| {
        let rest = format!(r#""addressType":"{kind}","endpoints":[{{"addresses":[{addresses}]}}],"ports":[]"#);
        let (_, bad) = slice(Rules::default(), LABELS, &rest);
        (endpoints(Rules::default(), &rest), bad)
    };
    assert_eq!(
        of("IPv6", r#""fd00:10:244::5""#),
        ("fd00:10:244::5 - -".to_owned(), None)
    );
    // Made from the text as it is written.
    assert_eq!(
        of("IPv6", r#""fd00:10:244:0::5","FD00::""#),
        ("fd00:10:244::5 fd00-10-244-0--5 -, fd00:: FD00--0 -".to_owned(), None)
    );
    assert_eq!(
        of("FQDN", r#""db.example.net""#),
        ("db.example.net - -".to_owned(), None)
    );
    assert_eq!(
        of("IPv4", r#""fd00::1","10.0.0.1""#),
        (
            "10.0.0.1 - -".to_owned(),
            Some("endpoints.addresses: fd00::1".to_owned())
        )
    );
    assert_eq!(
        of("IPX", r#""1""#),
        (String::new(), Some("addressType: IPX".to_owned()))
    );
}

#[test]
fn slices_without_endpoints_or_without_a_service() {
    let rest = r#""addressType":"IPv4","endpoints":null,"ports":null"#;
    let (found, _) = slice(Rules::default(), LABELS, rest);
    let found = found.unwrap();
    assert!(found.endpoints.is_empty() && found.ports.is_empty());
    for labels in [r#""#, r#","labels":{"app":"db"}"#, r#","labels":null"#] {
        let metadata = format!(r#""name":"db","namespace":"orchard"{labels}"#);
        assert_eq!(slice(Rules::default(), &metadata, rest).0, None, "{labels}");
    }
}

#[test]
fn when_a_slice_changed_is_no_part_of_what_it_says() {
    let at = |text: &str| {
        let metadata =
            format!(r#"{LABELS},"annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"{text}"}}"#);
        let (found, bad) = slice(Rules::default(), &metadata, r#""addressType":"IPv4","endpoints":[]"#);
        (found.unwrap(), bad)
    };
    let (found, bad) = at("2020-01-02T03:04:05Z");
    let since = found.changed.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!((since.as_secs(), bad), (1_577_934_245, None));
    let hash = |slice: Slice| {
        let mut hasher = std::hash::DefaultHasher::new();
        Value::Slice(slice).hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(found), hash(at("2020-01-02T03:04:06.5Z").0));
    let (found, bad) = at("yesterday");
    assert_eq!(found.changed, None);
    assert_eq!(
        bad.as_deref(),
        Some("annotation endpoints.kubernetes.io/last-change-trigger-time: yesterday")
    );
}

#[test]
fn what_other_clusters_lend() {
    let metadata = r#""name":"web-east","namespace":"orchard","labels":{"multicluster.kubernetes.io/service-name":"web",
        "multicluster.kubernetes.io/source-cluster":"east"}"#;
    let rest = r#""addressType":"IPv4","endpoints":[{"addresses":["10.1.0.1"]}],"ports":[]"#;
    let found = decode(
        Kind::ImportedSlices,
        Rules::default(),
        raw("EndpointSlice", metadata, rest),
    );
    let Some(Value::Slice(found)) = found.value else {
        panic!("{found:?}")
    };
    assert_eq!((&*found.service, &*found.cluster), ("web", "east"));
    assert_eq!(
        slice(Rules::default(), metadata, rest).0,
        None,
        "it is no slice of this cluster"
    );
    let import = |spec: &str| match named(Kind::Imports, &format!(r#""spec":{{{spec}}}"#)).value {
        Some(Value::Service(service)) => (service.kind, service.ports.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        import(r#""type":"ClusterSetIP","ips":["10.42.0.1"],"ports":[{"name":"http","protocol":"TCP","port":80}]"#),
        (ServiceKind::ClusterIps(ips(&["10.42.0.1"])), 1)
    );
    assert_eq!(
        import(r#""type":"ClusterSetIP""#),
        (ServiceKind::ClusterIps(ips(&[])), 0)
    );
    assert_eq!(import(r#""type":"Headless","ports":[]"#), (ServiceKind::Headless, 0));
}

#[test]
fn addresses_of_pods() {
    let of = |status: &str| {
        let rest = format!(
            r#""spec":{{"containers":[{{"name":"c","ports":[{{"containerPort":80}}]}}]}},"status":{{{status}}}"#
        );
        match named(Kind::Pods, &rest).value {
            Some(Value::Pod(pod)) => Some(pod.addresses),
            None => None,
            other => panic!("{other:?}"),
        }
    };
    let both = r#""phase":"Running","podIP":"10.244.1.5","podIPs":[{"ip":"10.244.1.5"},{"ip":"fd00::5"}]"#;
    assert_eq!(of(both), Some(ips(&["10.244.1.5", "fd00::5"])));
    assert_eq!(of(r#""podIP":"10.244.1.5""#), Some(ips(&["10.244.1.5"])));
    assert_eq!(of(r#""phase":"Pending""#), None);
    let metadata = r#""name":"p","namespace":"orchard","deletionTimestamp":"2026-01-02T03:04:05Z""#;
    assert!(decode(Kind::Pods, Rules::default(), raw("Pod", metadata, r#""status":{}"#)).ends);
}

#[test]
fn labels_of_pods_that_are_asked_for() {
    let keys = ["app", "app.kubernetes.io/name", "empty", "lost"].map(Box::from);
    let of = |labels: &str| {
        let rules = Rules {
            pod_labels: &keys,
            ..Rules::default()
        };
        let metadata = format!(r#""name":"p","namespace":"orchard"{labels}"#);
        let object = decode(
            Kind::Pods,
            rules,
            raw("Pod", &metadata, r#""status":{"podIP":"10.244.1.5"}"#),
        );
        match object.value {
            Some(Value::Pod(pod)) => (pod.labels, object.bad),
            other => panic!("{other:?}"),
        }
    };
    let none = [const { None::<Box<str>> }; 4];
    let labels = r#","labels":{"empty":"","other":"x","app":"web","app.kubernetes.io/name":"a\u0062"}"#;
    let expected = [Some("web"), Some("ab"), Some(""), None].map(|text| text.map(Box::from));
    assert_eq!(of(labels), (expected.into(), None));
    assert_eq!(of(""), (none.clone().into(), None));
    assert_eq!(of(r#","labels":null"#), (none.clone().into(), None));
    let (found, bad) = of(r#","labels":["app"]"#);
    assert_eq!((found, bad.is_some()), (none.into(), true));
}

#[test]
fn pages_of_namespaces() {
    let text = r#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"abc","remainingItemCount":1},
        "items":[{"metadata":{"name":"orchard","labels":{"kubernetes.io/metadata.name":"orchard"}},"spec":{"finalizers":["kubernetes"]},
        "status":{"phase":"Active"}}]}"#;
    let page: RawPage = serde_json::from_str(text).unwrap();
    assert_eq!((&*page.metadata.resource_version, &*page.metadata.token), ("9", "abc"));
    let found = page
        .items
        .unwrap()
        .into_iter()
        .map(|raw| decode(Kind::Namespaces, Rules::default(), raw));
    let changes = found.map(|object| object.value.unwrap().change(Kind::Namespaces, object.key));
    assert_eq!(changes.collect::<Vec<_>>(), [Change::Namespace("orchard".into(), true)]);
    let empty: RawPage = serde_json::from_str(r#"{"metadata":{"resourceVersion":"9"},"items":null}"#).unwrap();
    assert!(empty.items.is_none() && empty.metadata.token.is_empty());
}
