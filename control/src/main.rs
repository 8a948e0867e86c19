//! The `nodens` binary.
fn main() {}
