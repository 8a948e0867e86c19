//! A cluster, and a server that reads it.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodens_benches::cluster::{Shape, Store, change_real, fill, serve};
use nodens_tests::cluster::faults::{Fault, FaultProxy};
use nodens_tests::cluster::{Cluster as Real, write_kubeconfig};
use nodens_tests::nodens::Nodens;

use crate::Result;

/// For everything that has to happen at all.
const SOON: Duration = Duration::from_secs(120);
/// Memory is settled when nothing has happened for so long.
const QUIET: Duration = Duration::from_secs(3);

/// Where the objects are.
pub(crate) struct Cluster {
    shape: Shape,
    /// How often each slice has changed.
    changes: Mutex<Vec<u32>>,
    of: Of,
}

enum Of {
    MadeUp {
        store: Arc<Store>,
        host: String,
    },
    /// With a proxy in front, which makes watches expire.
    Real {
        cluster: Box<Real>,
        proxy: FaultProxy,
        kubeconfig: PathBuf,
    },
}

impl Cluster {
    pub(crate) fn start(is_real: bool, shape: &Shape) -> Result<Self> {
        let of = if is_real {
            let cluster = Box::new(Real::start()?);
            fill(cluster.client(), shape)?;
            let proxy = FaultProxy::start(&cluster)?;
            let kubeconfig = cluster.file("proxied.kubeconfig");
            write_kubeconfig(
                &kubeconfig,
                &proxy.url(),
                &cluster.file("ca.pem"),
                "{ token: tests-token }",
            )?;
            Of::Real {
                cluster,
                proxy,
                kubeconfig,
            }
        } else {
            let store = Arc::new(Store::new(*shape));
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let host = listener.local_addr()?.to_string();
            serve(listener, Arc::clone(&store));
            Of::MadeUp { store, host }
        };
        Ok(Self {
            shape: *shape,
            changes: Mutex::new(vec![0; shape.services as usize]),
            of,
        })
    }

    /// Host and port of one that is made up.
    pub(crate) fn host(&self) -> Result<String> {
        match &self.of {
            Of::MadeUp { host, .. } => Ok(host.clone()),
            Of::Real { .. } => Err("a real cluster".into()),
        }
    }

    /// Gives one endpoint of a Service another address; how often that has been done.
    pub(crate) fn change(&self, service: u32) -> Result<u32> {
        let changes = {
            let mut all = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            all[service as usize] += 1;
            all[service as usize]
        };
        match &self.of {
            Of::MadeUp { store, .. } => store.change_endpoint(service),
            Of::Real { cluster, .. } => change_real(cluster.client(), &self.shape, service, changes)?,
        }
        Ok(changes)
    }

    /// So many changes a second, of all Services in turn.
    pub(crate) fn change_many(&self, rate: u32, time: Duration) -> Result<()> {
        let begun = Instant::now();
        let mut number = 0_u32;
        while begun.elapsed() < time {
            let due = (begun.elapsed().as_secs_f64() * f64::from(rate)) as u32;
            while number < due {
                // A prime, so that those that follow each other are far apart.
                self.change(number.wrapping_mul(7_919) % self.shape.services)?;
                number += 1;
            }
            sleep(Duration::from_micros(500));
        }
        Ok(())
    }
}

/// A server that reads a cluster.
pub(crate) struct Bed {
    server: Nodens,
    kinds: f64,
}

impl Bed {
    /// Starts one, and waits until it has read everything.
    pub(crate) fn start(cluster: &Cluster, shape: &Shape) -> Result<Self> {
        let to = match &cluster.of {
            Of::MadeUp { host, .. } => format!("endpoint http://{host}"),
            Of::Real { kubeconfig, .. } => format!("kubeconfig {}", kubeconfig.display()),
        };
        let pods = if shape.pods > 0 { "pods verified" } else { "" };
        let corefile = format!(
            "cluster.local:{{PORT}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{METRICS}}
    errors
    kubernetes {{
        {to}
        {pods}
    }}
}}
"
        );
        let bed = Self {
            server: Nodens::start_with(&corefile, &[]),
            kinds: if shape.pods > 0 { 4.0 } else { 3.0 },
        };
        bed.wait(|server| server.metric("nodens_kubernetes_synced") == 1.0)?;
        Ok(bed)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address("PORT")
    }

    /// From the first request to the last object served, as the log says.
    pub(crate) fn synced_after(&mut self) -> Result<Duration> {
        let log = self.server.process().log();
        let found = log
            .split("in sync after ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let millis = found.ok_or("the log does not say that it is in sync")?.parse()?;
        Ok(Duration::from_millis(millis))
    }

    /// Resident memory when nothing has happened for a while.
    pub(crate) fn settled(&mut self) -> Result<u64> {
        sleep(QUIET);
        Ok(self.server.process().resident().ok_or("no memory")?)
    }

    /// The most that resident memory ever was.
    pub(crate) fn most(&mut self) -> Result<u64> {
        Ok(self.server.process().resident_max().ok_or("no memory")?)
    }

    /// Makes it list everything again, and waits until it has.
    pub(crate) fn list_again(&self, cluster: &Cluster) -> Result<()> {
        let lists = |server: &Nodens| server.metric("nodens_kubernetes_resyncs_total");
        let before = lists(&self.server);
        match &cluster.of {
            Of::MadeUp { store, .. } => store.expire(),
            Of::Real { proxy, .. } => proxy.fail("&resourceVersion=", Fault::Expired, self.kinds as usize),
        }
        self.wait(|server| lists(server) >= before + self.kinds)
    }

    fn wait(&self, mut until: impl FnMut(&Nodens) -> bool) -> Result<()> {
        let end = Instant::now() + SOON;
        while !until(&self.server) {
            if Instant::now() > end {
                return Err("the server does not do what it should in time".into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
