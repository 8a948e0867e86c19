//! The HTTP side: health, readiness, metrics.
//!
//! ```text
//!   GET /health   ──> health ──> OK, always; and a look at itself once a second
//!   GET /ready    ──> ready ───> what each source says of itself
//!   GET /metrics  ──> metrics ─> sums over the workers' counters, taken when somebody asks ──> text ──> page
//!        http: bounded connections, one request each
//! ```
//!
//! Nothing here is on the query path: workers write counters, this module reads them.

mod health;
mod http;
mod metrics;
pub(crate) mod process;
mod ready;
pub(crate) mod text;

pub use health::{HealthMetrics, SelfCheck, serve_health};
pub use http::{CONNECTIONS_MAX, HttpMetrics, bind};
pub use metrics::{
    Build, CacheMetrics, EtcdMetrics, HostsMetrics, Metrics, PluginEnabled, RecordLabels, RecordMetrics, ReloadMetrics,
    SeriesLabels, Shown, serve_metrics,
};
pub use ready::{Readiness, Reporter, serve_ready};
