//! Naive resolvers: flat lists, text, and the rules in the order in which the documents state them. No cleverness.
//!
//! A name is text in lower case with a final dot, its labels without escapes; a record is a line `NAME TTL IN TYPE DATA`.

mod cluster;
mod records;
mod services;

pub use cluster::{ClusterOracle, Port, Service, Slice, Target};
pub use records::{Entry, RecordOracle};
pub use services::{ServiceOracle, Value};

/// What a server must say. Sections are sets; `None`: the rules leave it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// By name; empty: open.
    pub rcode: &'static str,
    /// AA; `None`: open.
    pub aa: Option<bool>,
    /// ANSWER.
    pub answer: Option<Vec<String>>,
    /// AUTHORITY.
    pub authority: Option<Vec<String>>,
    /// ADDITIONAL.
    pub additional: Option<Vec<String>>,
}

/// Whether a name is a zone's or lies below it.
pub(crate) fn is_within(name: &str, zone: &str) -> bool {
    zone == "." || name == zone || name.ends_with(zone) && name[..name.len() - zone.len()].ends_with('.')
}

/// The name without its first label.
pub(crate) fn parent(name: &str) -> &str {
    match name.split_once('.') {
        Some((_, "")) | None => ".",
        Some((_, rest)) => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(is_within("a.b.", "b.") && is_within("b.", "b.") && is_within("b.", "."));
        assert!(!is_within("ab.", "b.") && !is_within("b.", "a.b."));
        assert_eq!((parent("a.b."), parent("b.")), ("b.", "."));
    }
}
