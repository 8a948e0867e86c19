//! Where names come from: etcd watches, zone files, hosts files.
//!
//! ```text
//!   etcd watch ──> step ──> Change ─┐
//!   zone file  ──> ZoneFile ────────┼──> control: folds them into zones, publishes
//!   hosts file ──> Hosts ───────────┘
//! ```
//!
//! A source promises to say everything in order, to say that it is lost when it is, and never to end the process:
//! what it cannot use is reported and left out. It knows no tries and answers no queries.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod change;
pub mod etcd;
#[doc(hidden)]
pub mod fuzzing;
pub mod hosts;
pub mod zonefile;

pub use change::Change;
