//! Service trees: zones whose answers are gathered from SkyDNS services.
//!
//! An answer depends on the level that is asked: a name is answered with everything at and below it, groups are
//! evaluated on that set, weights are shares of its sum. So the tree keeps decoded services in key order, and only a
//! lone service's answers are rendered ahead.

pub(crate) mod answer;
mod component;
pub(crate) mod gather;
pub(crate) mod render;
mod service;
mod stubs;
mod tree;

pub use gather::{GATHERED_MAX, VISITED_MAX};
pub use service::{Extra, Host, Lease, PRIORITY_DEFAULT, Service, TTL_DEFAULT_SECS};
pub(crate) use stubs::Servers;
pub use stubs::{STUB_SERVERS_MAX, STUB_ZONES_MAX, stub_refusal};
pub(crate) use tree::Entry;
pub use tree::{Editor, FEW_MAX, ServiceTree};
