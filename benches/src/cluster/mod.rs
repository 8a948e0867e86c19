//! Clusters made up for benchmarks: as many objects as wanted, as an API server tells of them.
//!
//! ```text
//! shape   how many of what, and how each is named     api    lists and watches over HTTP
//! object  one object as JSON                          real   the same objects in a real API server
//! store   all of them, and how they changed
//! ```

mod api;
mod object;
mod real;
mod shape;
mod store;

pub use api::{drain, serve};
pub use real::{change as change_real, fill};
pub use shape::Shape;
pub use store::{Kind, Store};
