//! The whole without a kernel and without waiting: network, etcd and clock by seed.
//!
//! ```text
//!   clients ──> network ──> Fault ──> worker::run_on ──> replies, checked against the model
//!                                          ^
//!   etcd ──> source (etcd::step) ──> rebuild ──> publish        all of it while the worker waits
//! ```

pub mod asking;
pub mod clients;
mod clock;
pub mod etcd;
pub mod fault;
pub mod network;
pub mod resolving;
pub mod servers;
pub mod world;

pub use clock::VirtualClock;
pub use fault::{Fate, Fault, Rates};
pub use network::{Network, SimPort};
pub use world::simulate;

/// Ends a run: tells what went wrong in it, if anything did, and how to see it again.
#[track_caller]
fn check(wrong: Option<String>, seed: u64, steps: u64, clock: &VirtualClock) {
    if let Some(wrong) = wrong {
        panic!("make sim SEED={seed}\nstep {steps}, {:?}: {wrong}", clock.now());
    }
}
