//! The control plane of nodens: what the Corefile says, kept true.
//!
//! ```text
//!   Corefile ──> corefile ──> settings ──> compile ──> plans, listeners, sources
//!   etcd     ──> sources  ──> Change ────> rebuild ──> new version of a zone ─┐
//!   files    ──> sources  ──> records ───> files ────> new version of a zone ─┴─> publish ──> the workers' snapshot
//! ```
//!
//! The packet path is in `nodens_engine`; nothing here is waited for by a query.

#![forbid(unsafe_code)]

mod addresses;
pub mod admin;
pub mod args;
pub mod auto;
pub mod caches;
pub mod carried;
pub mod certificates;
pub mod cgroup;
pub mod cluster;
pub mod compile;
pub mod completions;
pub mod consolidate;
pub mod corefile;
pub mod crew;
pub mod endpoints;
pub mod exchange;
pub mod facts;
pub mod faults;
pub mod files;
mod follow;
pub mod forward;
#[doc(hidden)]
pub mod fuzzing;
pub mod hooks;
pub mod kubernetes;
pub mod listeners;
pub mod loops;
pub mod manpage;
pub mod members;
pub mod notify;
pub mod numbers;
pub mod output;
pub mod outside;
pub mod pages;
pub mod plugins;
pub mod publish;
pub mod querylog;
pub mod random;
pub mod rebuild;
pub mod reload;
pub mod resolve;
pub mod run;
pub mod secondary;
pub mod server;
pub mod sources;
pub mod steps;
pub mod takeover;
pub mod templates;
pub mod weights;
pub mod workers;
