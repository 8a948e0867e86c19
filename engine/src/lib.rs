//! The packet engine: zones, plans, answers, and the ports they come in through.
//!
//! ```text
//!   Port::wait -> clock, snapshot -> Port::serve -> batch of Datagram
//!                                                        |
//!   Query::parse -> route -> Plan steps -> zone look-up -> Answer -> encode -> reply in its room -> the Port sends it
//!    wire           plan      plan          zone, services  answer    encode
//! ```
//!
//! What holds everywhere:
//!
//! - The core ([`Responder`](responder::Responder)) is sans-io: packets, time and the snapshot are arguments, replies
//!   and effects are return values.
//! - Nothing here knows tokio, files or a wall clock. Outside `io` and `worker` there is no system call.
//! - A hit takes no lock and allocates nothing.
//! - Records become bytes in `encode` alone.

#![deny(unsafe_code)]

mod answer;
mod asking;
pub mod cache;
pub mod captures;
pub mod cluster;
mod connections;
mod edns;
mod effects;
mod encode;
pub mod forward;
#[doc(hidden)]
pub mod fuzzing;
#[allow(unsafe_code, reason = "system calls that have no safe wrapper; nothing outside may")]
pub mod io;
pub mod log;
pub mod pattern;
pub mod plan;
pub mod reply;
mod respond;
pub mod responder;
pub mod services;
pub mod snapshot;
pub mod stats;
pub mod stream;
pub mod time;
pub mod tls;
pub mod transfer;
pub mod waiting;
pub mod worker;
pub mod zone;

pub use answer::Reason;
