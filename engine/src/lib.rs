//! The packet engine.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "system calls that have no safe wrapper; nothing outside may")]
pub mod io;
pub mod time;
