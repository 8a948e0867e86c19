//! One object as JSON, with all that an API server adds to it: who wrote it, since when it is there, whose it is.
//!
//! What is returned lacks the opening brace, so that it can stand in a list, whose items have no kind, and in an event, where it has one.

use super::Shape;

const CREATED: &str = "2026-11-01T08:00:00Z";

/// An identity, different for each kind and number.
fn uid(kind: u32, number: u32) -> String {
    format!("{:08x}-0000-4000-8000-{number:012x}", 0x6e6f_6400 + kind)
}

fn metadata(name: &str, namespace: &str, uid: &str, version: u64, rest: &str) -> String {
    let namespace = if namespace.is_empty() {
        String::new()
    } else {
        format!(r#""namespace":"{namespace}","#)
    };
    format!(
        r#""metadata":{{"name":"{name}",{namespace}"uid":"{uid}","resourceVersion":"{version}","creationTimestamp":"{CREATED}",{rest}}}"#
    )
}

/// What an API server notes about the one who wrote these fields.
fn managed_by(manager: &str, api: &str, fields: &str) -> String {
    format!(
        r#""managedFields":[{{"manager":"{manager}","operation":"Update","apiVersion":"{api}","time":"{CREATED}","fieldsType":"FieldsV1","fieldsV1":{fields}}}]"#
    )
}

pub(super) fn namespace(shape: &Shape, number: u32, version: u64) -> String {
    let name = shape.namespace(number);
    let managed = managed_by(
        "kubectl-create",
        "v1",
        r#"{"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/metadata.name":{}}}}"#,
    );
    let rest = format!(r#""labels":{{"kubernetes.io/metadata.name":"{name}"}},{managed}"#);
    format!(
        r#"{},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}}}}"#,
        metadata(&name, "", &uid(1, number), version, &rest)
    )
}

pub(super) fn service(shape: &Shape, number: u32, version: u64) -> String {
    let name = shape.service(number);
    let managed = managed_by(
        "kubectl-client-side-apply",
        "v1",
        r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:internalTrafficPolicy":{},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}},"f:selector":{},"f:sessionAffinity":{},"f:type":{}}}"#,
    );
    let rest = format!(r#""labels":{{"app":"{name}"}},{managed}"#);
    let address = if shape.is_headless(number) {
        "None".to_owned()
    } else {
        shape.service_address(number).to_string()
    };
    format!(
        r#"{},"spec":{{"ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":8080}}],"selector":{{"app":"{name}"}},"clusterIP":"{address}","clusterIPs":["{address}"],"type":"ClusterIP","sessionAffinity":"None","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"}},"status":{{"loadBalancer":{{}}}}}}"#,
        metadata(
            &name,
            &shape.namespace_of(number, shape.services),
            &uid(2, number),
            version,
            &rest
        )
    )
}

/// The slice of a Service after so many changes; each gives one endpoint another address. `at` is when the last one was caused.
pub(super) fn slice(shape: &Shape, number: u32, version: u64, changes: u32, at: &str) -> String {
    let name = shape.service(number);
    let namespace = shape.namespace_of(number, shape.services);
    let managed = managed_by(
        "kube-controller-manager",
        "discovery.k8s.io/v1",
        r#"{"f:addressType":{},"f:endpoints":{},"f:metadata":{"f:annotations":{".":{},"f:endpoints.kubernetes.io/last-change-trigger-time":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:endpointslice.kubernetes.io/managed-by":{},"f:kubernetes.io/service-name":{}},"f:ownerReferences":{".":{}}},"f:ports":{}}"#,
    );
    let owner = uid(2, number);
    let rest = format!(
        r#""generateName":"{name}-","generation":{},"labels":{{"app":"{name}","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"{name}"}},"annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"{at}"}},"ownerReferences":[{{"apiVersion":"v1","kind":"Service","name":"{name}","uid":"{owner}","controller":true,"blockOwnerDeletion":true}}],{managed}"#,
        changes + 1
    );
    let endpoints: Vec<String> = (0..shape.endpoints)
        .map(|endpoint| {
            let pod = shape.pod_of(number, endpoint);
            // Each change is that of one endpoint, in turn.
            let times = changes.saturating_add(shape.endpoints - 1 - endpoint) / shape.endpoints;
            format!(
                r#"{{"addresses":["{}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"targetRef":{{"kind":"Pod","namespace":"{namespace}","name":"{}","uid":"{}"}},"nodeName":"node-{:04}","zone":"zone-{}"}}"#,
                shape.pod_address(pod, times),
                pod_name(shape, pod),
                uid(4, pod),
                pod % 1_000,
                pod % 3
            )
        })
        .collect();
    format!(
        r#"{},"addressType":"IPv4","endpoints":[{}],"ports":[{{"name":"http","protocol":"TCP","port":8080}}]}}"#,
        metadata(&name, &namespace, &uid(3, number), version, &rest),
        endpoints.join(",")
    )
}

fn pod_name(shape: &Shape, number: u32) -> String {
    let service = shape.service(number / shape.endpoints.max(1));
    format!("{service}-7d9c5b6f4d-{:05}", number % shape.endpoints.max(1))
}

/// Pods lie where their Service does as long as there are Services.
pub(super) fn pod(shape: &Shape, number: u32, version: u64) -> String {
    let name = pod_name(shape, number);
    let app = shape.service(number / shape.endpoints.max(1));
    let namespace = pod_namespace(shape, number);
    let managed = managed_by(
        "kubelet",
        "v1",
        r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}}"#,
    );
    let rest = format!(
        r#""generateName":"{app}-7d9c5b6f4d-","labels":{{"app":"{app}","pod-template-hash":"7d9c5b6f4d"}},{managed}"#
    );
    let address = shape.pod_address(number, 0);
    format!(
        r#"{},"spec":{{"containers":[{{"name":"app","image":"registry.example/app:1","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"resources":{{}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-{:04}","securityContext":{{}},"schedulerName":"default-scheduler"}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"{CREATED}"}}],"hostIP":"192.0.2.1","podIP":"{address}","podIPs":[{{"ip":"{address}"}}],"startTime":"{CREATED}","qosClass":"BestEffort"}}}}"#,
        metadata(&name, &namespace, &uid(4, number), version, &rest),
        number % 1_000
    )
}

pub(super) fn pod_namespace(shape: &Shape, number: u32) -> String {
    let service = (number / shape.endpoints.max(1)).min(shape.services.saturating_sub(1));
    shape.namespace_of(service, shape.services)
}
