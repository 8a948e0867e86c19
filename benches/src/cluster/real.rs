//! The same objects in a real API server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nodens_tests::cluster::client::{Client, Refusal};
use serde_json::{Value, json};

use super::store::{Kind, now};
use super::{Shape, object};

/// Requests at a time.
const PARALLEL: usize = 8;

/// Writes all objects of a cluster.
///
/// # Errors
/// The first refusal of each kind.
pub fn fill(client: &Client, shape: &Shape) -> Result<(), Refusal> {
    for kind in Kind::ALL {
        let next = AtomicU32::new(0);
        let make = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= kind.count(shape) {
                    return Ok(());
                }
                create(client, shape, kind, number)?;
            }
        };
        thread::scope(|scope| {
            let makers: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(make)).collect();
            let ended = makers
                .into_iter()
                .map(|maker| maker.join().expect("a thread that does not panic"));
            ended.collect::<Result<Vec<()>, Refusal>>()
        })?;
    }
    Ok(())
}

fn create(client: &Client, shape: &Shape, kind: Kind, number: u32) -> Result<(), Refusal> {
    let object = as_written(&kind.whole(&kind.object(shape, number, 0)));
    let path = collection(shape, kind, number);
    let made = client.create(&path, &object)?;
    if kind == Kind::Pod {
        let name = made["metadata"]["name"].as_str().unwrap_or_default();
        let status = json!({ "status": object["status"] });
        client.merge(&format!("{path}/{name}/status"), &status)?;
    }
    Ok(())
}

/// An object without what the server itself adds.
fn as_written(whole: &str) -> Value {
    let mut object: Value = serde_json::from_str(&format!("{{{whole}")).expect("an object is JSON");
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for added in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(added);
        }
    }
    // Nobody is there to bind pods, and their nodes are not there either.
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("finalizers");
        spec.remove("nodeName");
    }
    object
}

/// Where objects are made that lie in a namespace.
fn collection(shape: &Shape, kind: Kind, number: u32) -> String {
    let namespace = match kind {
        Kind::Namespace => return kind.path().to_owned(),
        Kind::Service | Kind::Slice => shape.namespace_of(number, shape.services),
        Kind::Pod => object::pod_namespace(shape, number),
    };
    let (root, plural) = kind.path().rsplit_once('/').expect("a path");
    format!("{root}/namespaces/{namespace}/{plural}")
}

/// Gives one endpoint of a Service another address, `changes` times so far with this one.
///
/// # Errors
/// The server refuses.
pub fn change(client: &Client, shape: &Shape, service: u32, changes: u32) -> Result<(), Refusal> {
    let slice = object::slice(shape, service, 0, changes, &now());
    let slice = as_written(&Kind::Slice.whole(&slice));
    let path = format!("{}/{}", collection(shape, Kind::Slice, service), shape.service(service));
    client.call("PUT", &path, "application/json", &slice).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_tests::cluster::Cluster;

    #[test]
    fn a_real_server_takes_them_and_tells_the_same() {
        let shape = Shape {
            namespaces: 2,
            services: 6,
            endpoints: 3,
            headless_every: 2,
            pods: 18,
        };
        let cluster = Cluster::start().unwrap();
        let client = cluster.client();
        fill(client, &shape).unwrap();
        for kind in Kind::ALL {
            let list = client.get(kind.path()).unwrap();
            let told = list["items"].as_array().unwrap();
            for number in 0..kind.count(&shape) {
                let wanted = as_written(&kind.whole(&kind.object(&shape, number, 0)));
                let name = &wanted["metadata"]["name"];
                let one = told.iter().find(|item| item["metadata"]["name"] == *name).unwrap();
                for part in ["spec", "endpoints", "ports", "addressType"] {
                    for (field, value) in wanted[part].as_object().into_iter().flatten() {
                        assert_eq!(&one[part][field], value, "{name} {part}.{field}");
                    }
                }
            }
        }
        change(client, &shape, 4, 1).unwrap();
        let path = format!("{}/{}", collection(&shape, Kind::Slice, 4), shape.service(4));
        let address = client.get(&path).unwrap()["endpoints"][0]["addresses"][0].clone();
        assert_eq!(address, shape.pod_address(12, 1).to_string());
    }
}
