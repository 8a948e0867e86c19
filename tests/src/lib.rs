//! The harness of the tests of the whole: scenarios, the servers behind them, and what is compared.
//!
//! ```text
//! case      one YAML file as types          world     ports, files and processes of one scenario
//! ask       questions out, replies in       runner    a case against the binary, step by step
//! expect    a reply against a case          records   records as lines of text, compared word by word
//! contract  what every port must do
//! page      the metrics page                etcd      a real etcd     authority   its certificates
//! cluster   a real API server               nodens    the server as a process
//! proxy     a network that fails
//! tls       a client of DNS over TLS
//! oracle    naive resolvers                 seed      numbers by seed
//! scripted  DNS servers that play what a case says
//! served    the same with several server blocks and streams
//! load      a client that asks evenly    upstream  whom others ask, and who fails under load
//! netns     a network of a test's own  mutation  messages that are nearly queries
//! folding   a zone of etcd as the control plane folds it
//! sim       network, etcd and clock by seed, around the real worker
//! ```
#![forbid(unsafe_code)]

pub mod ask;
pub mod authority;
pub mod case;
pub mod cluster;
pub mod contract;
pub mod etcd;
pub mod expect;
pub mod folding;
pub mod listening;
pub mod load;
pub mod mutation;
pub mod netns;
pub mod nodens;
pub mod oracle;
pub mod page;
pub mod process;
pub mod proxy;
pub mod records;
pub mod runner;
pub mod scripted;
pub mod seed;
pub mod served;
pub mod sim;
pub mod tls;
pub mod upstream;
pub mod world;

use std::fmt;

/// The server does not do what a scenario says, in words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// Leaves the current function with a [`Mismatch`].
#[macro_export]
macro_rules! mismatch {
    ($($words:tt)*) => { return Err($crate::Mismatch(format!($($words)*))) };
}
