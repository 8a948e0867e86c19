//! Tests of the whole, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod cases; // every scenario of `cases/` against the binary, on both back ends
mod certificates; // the binary over certificates that change
mod check; // `nodens check`, and a start that fails
mod cluster; // the API server of the tests, and its faults
mod corpus; // what fuzzing found, once more
mod deploy; // manifests, image, chart and script for Kubernetes
mod etcd; // the binary over a real etcd: changes, outages, what a query costs
mod forward; // asking other servers, without sockets
mod hostile; // the binary among clients that mean it ill
mod instructions; // what an answer costs, counted by callgrind
mod kept; // hits of the cache against the answers that were kept
mod kernel; // what a kernel denies, takes away or gives later
mod knot; // zones from and to another server
mod kubernetes; // the binary over a real API server: what fails there, what it is denied
mod limits; // every limit of the engine, at it and past it
mod load; // the binary under load, while those that it asks fail
mod mutated; // mutated queries against the running server
mod oracle; // the engine against the naive resolvers, on random data
mod packaging; // what `make install` puts where, and the unit of systemd
mod ports; // both back ends against the contract of a port
mod rebuild; // zones changed step by step against zones built anew
mod restarts; // reloads and take-overs under load: nothing is lost
mod sim; // network, etcd and clock by seed
mod steps; // the steps before those with data, one by one
mod tables; // tables of the documents against what they are made from
mod tidy; // manifests, crate roots and the file tree
mod tls; // DNS over TLS without sockets
mod transfers; // whole zones over streams
mod upstreams; // unbound, knot and dnsdist behind `forward`
mod waiting; // queries that wait for other servers, given up or come back
