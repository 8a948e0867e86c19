//! nodens
pub mod args;
pub mod corefile;
