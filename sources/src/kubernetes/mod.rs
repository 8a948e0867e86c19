//! Services, EndpointSlices, Namespaces and Pods of a Kubernetes API server: listed once, then followed by watch; a query
//! never causes a request.

mod decode;
mod follow;
mod kind;
mod limits;
mod link;
mod meter;
mod objects;
mod raw;
mod run;
mod status;
mod step;

use std::path::PathBuf;
use std::time::Duration;

pub use kind::Kind;
pub use link::{FILE_BYTES_MAX, Machine, Unusable, World, check};
pub use objects::{
    Change, Endpoint, EndpointAddress, External, Message, ObjectKey, Pod, Port, Service, ServiceKind, Slice,
};
pub use run::run;
pub use status::{Histogram, PROGRAMMING_BOUNDS, Programmed, REQUEST_BOUNDS, Requests, Standing, Status};

/// Changes in one [`Message`].
pub const CHANGES_MAX: usize = 1_024;

/// What a `kubernetes` stanza says about its source. Equal settings mean that a running source can live on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Where the API server is, and who we are to it.
    pub server: Server,
    /// Label selector of Services, EndpointSlices and Pods.
    pub labels: Option<String>,
    /// Label selector of Namespaces and ServiceImports.
    pub namespace_labels: Option<String>,
    /// EndpointSlices are watched.
    pub endpoints: bool,
    /// Pods are watched.
    pub pods: bool,
    /// The keys of those of their labels that are told.
    pub pod_labels: Vec<Box<str>>,
    /// ServiceImports and the slices of other clusters are watched.
    pub multicluster: bool,
    /// An endpoint without a hostname has the name of its Pod, where that has less than 64 characters.
    pub endpoint_pod_names: bool,
    /// Endpoints are told with their zone.
    pub zonal: bool,
    /// Requests to the API server.
    pub limits: Limits,
}

/// Where the API server is, and who we are to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// As the environment and the service account's folder of a Pod say.
    InCluster,
    /// One URL.
    Endpoint {
        /// As written.
        url: String,
        /// Our certificate, its key, and who must have signed the server's.
        tls: Option<TlsFiles>,
    },
    /// As a file says.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The file's current one where none is named.
        context: Option<String>,
    },
}

/// The files of `tls`, read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// Our certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who must have signed the server's certificate.
    pub ca: PathBuf,
}

/// How much is asked of the API server at most.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Limits {
    /// The time from one request to the next, in the long run; none for no limit.
    pub every: Option<Duration>,
    /// Requests that may be made at once after a quiet time; counts with `every` alone.
    pub burst: u32,
    /// Requests that wait for the head of their answer; none for any number.
    pub inflight: Option<u32>,
}
