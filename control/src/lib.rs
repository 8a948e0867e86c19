//! nodens
pub mod corefile;
