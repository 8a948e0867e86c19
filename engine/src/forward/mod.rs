//! Asking other servers, without sockets and without a clock.
//!
//! ```text
//!   ask ──> order of the policy ──> exchange ──────> reply ──> poll_done
//!                    ^                 │  time-out, error: the next upstream,
//!                    └─────────────────┘  while there is time and an attempt left
//!
//!   exchange    by UDP: one of 64 connected sockets on random ports, and a random id
//!               by stream: one of a few connections, TCP or TLS, shared by id
//!   health      a failure begins a probe; three in a row, and the upstream is down until one is answered
//! ```
//!
//! A [`Stanza`] and its [`Upstream`]s are shared by all workers and outlive a reload; sockets, ids and what is in flight
//! belong to the [`Forwarder`] of one worker.
//!
//! Who wants to slip in a reply has to find the port, the id and the moment. Replies that nobody asked for are counted
//! by socket, and one that got too many is left for another port and id, at last for TCP (RFC 5452 §9).

mod ask;
mod canary;
mod connections;
mod failed;
mod forwarder;
pub(crate) mod fuzzing;
mod outgoing;
mod probe;
mod reply;
mod sockets;
mod stanza;
mod table;
mod upstream;

pub use canary::{Canary, Returned};
pub use failed::{Failed, Failure};
pub use forwarder::{Forwarder, InUse};
pub use outgoing::Outgoing;
pub use reply::Reply;
pub use stanza::{Checking, Policy, Settings, Stanza};
pub use upstream::{Durations, Measures, Proto, Transport, Upstream};

use std::time::Duration;

/// Questions in flight of one worker; one more fails at once.
pub const ASKS_MAX: usize = 32_768;
/// UDP sockets of one worker; at the limit those that are open are shared.
pub const SOCKETS_MAX: usize = 4096;
/// Sockets that one worker uses to one upstream. As many may wait for what is in flight by them.
pub const POOL_SOCKETS: usize = 64;
/// Queries that leave in a row by one of them, before another is drawn.
pub const SOCKET_RUN: u8 = 32;
/// After so many queries a socket gives way to one on another port.
pub const SOCKET_QUERIES_MAX: u32 = 1000;
/// Likewise after this time.
pub const SOCKET_AGE_MAX: Duration = Duration::from_secs(30);
/// Connections of one worker to one upstream.
pub const CONNECTIONS_FEW: usize = 4;
/// Likewise to one that closes them after a reply.
pub const CONNECTIONS_MAX: usize = 64;
/// Replies that nobody asked for, and a socket is left for another.
pub const GUESSES_MAX: u32 = 32;
/// An attempt begins no later than this after the client's question.
pub const BUDGET: Duration = Duration::from_secs(5);
/// How long nothing is opened that can be done without, once there was no descriptor left.
pub const STARVED: Duration = Duration::from_secs(1);
