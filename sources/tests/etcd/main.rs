//! The etcd source over real etcd servers, on ports and folders of their own.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

/// Logins, permissions and the four forms of `tls`.
mod access;
/// A source and what its consumer sees.
mod follower;
/// Loading, changes, compaction.
mod following;
/// Remaining times, expiry, and how few requests they cost.
mod leases;
/// Cut, frozen, silent, restarted, set back.
mod outages;
/// A wire to etcd that can be cut.
mod proxy;
/// An etcd of our own.
mod server;
