//! How large a cluster is, and the names and addresses in it. Everything follows from an object's number, so that a client can
//! ask for what is there without having seen it.

use std::net::Ipv4Addr;

/// How many of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Namespaces.
    pub namespaces: u32,
    /// Services, one slice each.
    pub services: u32,
    /// Ready endpoints of each Service.
    pub endpoints: u32,
    /// Every so manieth Service is headless; 0: none.
    pub headless_every: u32,
    /// Pods, whose addresses are those of the endpoints as far as these go.
    pub pods: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            namespaces: 100,
            services: 10_000,
            endpoints: 10,
            headless_every: 10,
            pods: 0,
        }
    }
}

/// Cluster IPs, beside the one of the API server itself, in the /16 of the tests' cluster.
const SERVICE_ADDRESSES: u32 = u32::from_be_bytes([10, 96, 1, 0]);
/// Of pods.
const POD_ADDRESSES: u32 = u32::from_be_bytes([10, 128, 0, 0]);

impl Shape {
    /// The name of a namespace.
    #[must_use]
    pub fn namespace(&self, number: u32) -> String {
        format!("team-{number:04}")
    }

    /// The namespace of an object of which there are so many. Those of a namespace follow each other, so that the order of the numbers is
    /// that of the keys.
    #[must_use]
    pub fn namespace_of(&self, number: u32, of: u32) -> String {
        let at = u64::from(number) * u64::from(self.namespaces) / u64::from(of.max(1));
        self.namespace(u32::try_from(at).unwrap_or_default())
    }

    /// The name of a Service, and of its slice.
    #[must_use]
    pub fn service(&self, number: u32) -> String {
        format!("svc-{number:06}")
    }

    /// `NAME.NAMESPACE`, as questions have it.
    #[must_use]
    pub fn service_in_namespace(&self, number: u32) -> String {
        format!("{}.{}", self.service(number), self.namespace_of(number, self.services))
    }

    /// Whether a Service has no address of its own.
    #[must_use]
    pub fn is_headless(&self, number: u32) -> bool {
        number.checked_rem(self.headless_every) == Some(0)
    }

    /// The address of a Service that is not headless.
    #[must_use]
    pub fn service_address(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(SERVICE_ADDRESSES + number)
    }

    /// The address of a pod. Each change of an endpoint takes the next of four.
    #[must_use]
    pub fn pod_address(&self, number: u32, change: u32) -> Ipv4Addr {
        Ipv4Addr::from(POD_ADDRESSES + (change % 4) * 0x10_0000 + number)
    }

    /// The pod behind an endpoint.
    #[must_use]
    pub fn pod_of(&self, service: u32, endpoint: u32) -> u32 {
        service * self.endpoints + endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        let shape = Shape::default();
        let keys: Vec<String> = (0..shape.services)
            .map(|number| {
                format!(
                    "{}/{}",
                    shape.namespace_of(number, shape.services),
                    shape.service(number)
                )
            })
            .collect();
        assert!(keys.is_sorted());
        assert_eq!(shape.service_in_namespace(9_999), "svc-009999.team-0099");
        assert_eq!((shape.is_headless(0), shape.is_headless(1)), (true, false));
        let none = Shape {
            headless_every: 0,
            ..shape
        };
        assert!(!none.is_headless(0));
    }
}
