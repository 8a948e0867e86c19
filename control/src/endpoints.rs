//! The listeners of `health`, `ready` and `prometheus`, one for each address that the Corefile names.

use std::net::TcpListener;
use std::sync::Arc;

use crate::admin::{self, Metrics, Readiness, Reporter, SelfCheck};
use crate::corefile::Diagnostic;
use crate::corefile::settings::{Corefile, HttpAddress, Monitor};
use crate::output;

/// Bound, not served yet.
#[derive(Debug)]
pub struct Endpoints {
    health: Vec<(HttpAddress, TcpListener)>,
    ready: Vec<(HttpAddress, TcpListener)>,
    metrics: Vec<(HttpAddress, TcpListener)>,
    monitor: Monitor,
}

impl Endpoints {
    /// Binds them all.
    ///
    /// # Errors
    /// An address is taken, or cannot be bound.
    pub fn bind(corefile: &Corefile) -> anyhow::Result<Self> {
        let mut all = Self {
            health: Vec::new(),
            ready: Vec::new(),
            metrics: Vec::new(),
            monitor: Monitor::UntilReady,
        };
        let bind = |own: &mut Vec<(HttpAddress, TcpListener)>, address: &HttpAddress, name: &str| {
            if own.iter().any(|(other, _)| admin::same_address(other, address)) {
                return Ok(());
            }
            let listener = admin::bind(address).map_err(|error| {
                corefile.refused(&[Diagnostic::setup(address.span, format!("plugin/{name}: {error}"))])
            })?;
            own.push((address.clone(), listener));
            Ok::<_, anyhow::Error>(())
        };
        for block in &corefile.blocks {
            if let Some(health) = &block.health {
                bind(&mut all.health, &health.address, "health")?;
            }
            if let Some(ready) = &block.ready {
                bind(&mut all.ready, &ready.address, "ready")?;
                // The setting of the block that comes last counts for all.
                all.monitor = ready.monitor;
            }
            if let Some(prometheus) = &block.prometheus {
                bind(&mut all.metrics, &prometheus.address, "prometheus")?;
            }
        }
        Ok(all)
    }

    /// Serves them until the runtime ends. What is returned is told when the process is about to stop.
    pub fn serve(self, metrics: Metrics, reporters: Vec<Reporter>) -> Arc<Readiness> {
        let metrics = Arc::new(metrics);
        for (address, listener) in self.health {
            match SelfCheck::new(&address, &listener) {
                Ok(check) => _ = tokio::spawn(check.run(Arc::clone(&metrics.health), output::log("plugin/health"))),
                Err(error) => output::warning(&format!("plugin/health: no look at itself: {error}")),
            }
            spawn("health", admin::serve_health(listener, Arc::clone(&metrics.http)));
        }
        let readiness = Arc::new(Readiness::new(reporters, self.monitor, output::log("plugin/ready")));
        for (_, listener) in self.ready {
            spawn(
                "ready",
                admin::serve_ready(listener, Arc::clone(&readiness), Arc::clone(&metrics.http)),
            );
        }
        for (_, listener) in self.metrics {
            spawn("prometheus", admin::serve_metrics(listener, Arc::clone(&metrics)));
        }
        readiness
    }
}

fn spawn(name: &'static str, serve: impl Future<Output = std::io::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = serve.await {
            output::error(&format!("plugin/{name}: {error}"));
        }
    });
}
