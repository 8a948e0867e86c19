//! Tests of the whole, in one binary.

mod cases; // every scenario of `cases/` against the binary, on both back ends
mod etcd; // the binary over a real etcd: changes, outages, what a query costs
mod oracle; // the engine against the naive resolvers, on random data
mod ports; // both back ends against the contract of a port
