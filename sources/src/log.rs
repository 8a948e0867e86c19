//! Lines for the log, which whoever runs a source writes.

use std::sync::Arc;

/// How much a line for the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Said once: connected, followed again.
    Info,
    /// Something is left out or stale.
    Warning,
    /// The operator has to act.
    Error,
}

/// Where lines for the log go.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;
