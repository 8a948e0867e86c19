//! Where names come from: etcd watches, zone files, hosts files, transfers.
//!
//! ```text
//!   etcd watch ──> step ──> Change ─┐
//!   zone file  ──> ZoneFile ────────┼──> control: folds them into zones, publishes
//!   hosts file ──> Entry ───────────┤
//!   transfer   ──> Record ──────────┘
//! ```
//!
//! A source promises to say everything in order, to say that it is lost when it is, and never to end the process:
//! what it cannot use is reported and left out. It knows no tries and answers no queries.
//!
//! ```
//! use nodens_sources::etcd::{Host, Service, keys_of_zone};
//! use nodens_wire::NameBuf;
//!
//! let zone = NameBuf::from_text("cedar.example")?;
//! assert_eq!(keys_of_zone("skydns", zone.as_name()), b"/skydns/example/cedar");
//!
//! let service = Service::parse(br#"{"host":"192.0.2.1","port":8080}"#)?;
//! assert_eq!((service.host, service.port), (Host::V4([192, 0, 2, 1].into()), 8080));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod backoff;
pub mod change;
mod clip;
pub mod etcd;
#[doc(hidden)]
pub mod fuzzing;
pub mod hosts;
pub mod kubernetes;
mod log;
mod quiet;
mod record;
pub mod secondary;
pub mod tls;
pub mod weights;
pub mod wrong;
pub mod zonefile;

pub use change::Change;
pub use log::{Level, Log};
pub use record::Record;
