//! The listeners of `health`, `ready` and `prometheus`, one for each address that the Corefile names. Those that a new
//! configuration names too stay open.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::admin::{self, Metrics, Readiness, SelfCheck};
use crate::corefile::settings::{Corefile, EndpointKind, HttpAddress};
use crate::corefile::{Diagnostic, Findings};
use crate::output;
use crate::takeover::Inherited;

/// What all of them show.
#[derive(Debug)]
pub struct Admin {
    /// `/metrics`, and what the others count.
    pub metrics: Arc<Metrics>,
    /// `/ready`
    pub readiness: Arc<Readiness>,
}

/// The endpoints that are served.
#[derive(Debug, Default)]
pub struct Endpoints(Vec<Endpoint>);

/// Served until it is dropped.
#[derive(Debug)]
struct Endpoint {
    kind: EndpointKind,
    address: HttpAddress,
    listener: TcpListener,
    tasks: Vec<AbortHandle>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The endpoints of another configuration: bound, not served yet.
#[derive(Debug)]
pub struct Next(Vec<Wanted>);

#[derive(Debug)]
struct Wanted {
    kind: EndpointKind,
    address: HttpAddress,
    /// None where it is served already.
    listener: Option<TcpListener>,
}

impl Endpoints {
    /// Binds what a configuration names and is not there.
    ///
    /// # Errors
    /// All addresses that are taken or cannot be bound.
    pub fn bind(&self, corefile: &Corefile, inherited: &mut Inherited) -> Result<Next, Findings> {
        let mut found = Findings::default();
        let mut next: Vec<Wanted> = Vec::new();
        for block in &corefile.blocks {
            for (kind, address) in block.endpoints() {
                let is_there = |other: &Wanted| other.kind == kind && other.address.is_same(address);
                if next.iter().any(is_there) {
                    continue;
                }
                match self.listener(kind, address, &next, inherited) {
                    Ok(listener) => next.push(Wanted {
                        kind,
                        address: address.clone(),
                        listener,
                    }),
                    Err(error) => found.error(error),
                }
            }
        }
        if found.errors.is_empty() {
            Ok(Next(next))
        } else {
            Err(found)
        }
    }

    /// The socket for an endpoint that is not served already.
    fn listener(
        &self,
        kind: EndpointKind,
        address: &HttpAddress,
        next: &[Wanted],
        inherited: &mut Inherited,
    ) -> Result<Option<TcpListener>, Diagnostic> {
        let failed = |error: String| {
            let port = address.port;
            Diagnostic::setup(address.span, format!("plugin/{}: {error}", kind.as_str())).help(format!(
                "`ss -lntp 'sport = :{port}'` names the process that has the port: stop it, or write another `ADDRESS:PORT` here"
            ))
        };
        let mut same = self.0.iter().filter(|own| own.address.is_same(address));
        if same.clone().any(|own| own.kind == kind) {
            return Ok(None);
        }
        if let Some(listener) = inherited.http(address) {
            return Ok(Some(listener));
        }
        let is_wanted = |other: &Wanted| other.address.is_same(address);
        match same.next() {
            // What is served there now goes, or there would be two endpoints in one place.
            Some(own) if !next.iter().any(is_wanted) => own
                .listener
                .try_clone()
                .map(Some)
                .map_err(|error| failed(error.to_string())),
            _ => admin::bind(address).map(Some).map_err(failed),
        }
    }

    /// The addresses that they listen on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().filter_map(|own| own.listener.local_addr().ok())
    }

    /// Copies of all sockets, for another process.
    pub fn share(&self) -> std::io::Result<Vec<(HttpAddress, TcpListener)>> {
        let all = self.0.iter();
        all.map(|own| Ok((own.address.clone(), own.listener.try_clone()?)))
            .collect()
    }

    /// Serves those of another configuration in place of these.
    pub fn change(&mut self, next: Next, admin: &Admin) {
        let mut old = std::mem::take(&mut self.0);
        for Wanted {
            kind,
            address,
            listener,
        } in next.0
        {
            let Some(listener) = listener else {
                let is_it = |own: &Endpoint| own.kind == kind && own.address.is_same(&address);
                if let Some(at) = old.iter().position(is_it) {
                    self.0.push(old.swap_remove(at));
                }
                continue;
            };
            match serve(kind, &address, &listener, admin) {
                Ok(tasks) => self.0.push(Endpoint {
                    kind,
                    address,
                    listener,
                    tasks,
                }),
                Err(error) => output::error(&format!("plugin/{}: {error}", kind.as_str())),
            }
        }
    }
}

fn serve(
    kind: EndpointKind,
    address: &HttpAddress,
    listener: &TcpListener,
    admin: &Admin,
) -> std::io::Result<Vec<AbortHandle>> {
    let own = listener.try_clone()?;
    let Admin { metrics, readiness } = admin;
    let http = Arc::clone(&metrics.http);
    Ok(match kind {
        EndpointKind::Health => {
            let check =
                SelfCheck::new(address, listener)?.run(Arc::clone(&metrics.health), output::log("plugin/health"));
            let check = tokio::spawn(check).abort_handle();
            vec![spawn(kind, admin::serve_health(own, http)), check]
        }
        EndpointKind::Ready => vec![spawn(kind, admin::serve_ready(own, Arc::clone(readiness), http))],
        EndpointKind::Prometheus => vec![spawn(kind, admin::serve_metrics(own, Arc::clone(metrics)))],
    })
}

fn spawn(kind: EndpointKind, serve: impl Future<Output = std::io::Result<()>> + Send + 'static) -> AbortHandle {
    let task = tokio::spawn(async move {
        if let Err(error) = serve.await {
            output::error(&format!("plugin/{}: {error}", kind.as_str()));
        }
    });
    task.abort_handle()
}
