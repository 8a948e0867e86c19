//! The one API server of a test binary, which its tests take turns on.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Cluster;

static ONE: Mutex<Option<Cluster>> = Mutex::new(None);
/// Tests that have it or wait for it. When there is none left it ends, since nothing is dropped at the end of a process.
static WANTED_BY: AtomicUsize = AtomicUsize::new(0);

/// The cluster, until this is dropped.
pub struct Turn {
    cluster: MutexGuard<'static, Option<Cluster>>,
}

/// Waits for the others, and gives an empty cluster.
///
/// # Errors
/// A program is missing or does not start.
pub fn take() -> Result<Turn, String> {
    WANTED_BY.fetch_add(1, Ordering::SeqCst);
    let mut turn = Turn {
        cluster: ONE.lock().unwrap_or_else(PoisonError::into_inner),
    };
    match turn.cluster.as_mut() {
        Some(cluster) => cluster.empty()?,
        None => *turn.cluster = Some(Cluster::start()?),
    }
    Ok(turn)
}

impl Drop for Turn {
    fn drop(&mut self) {
        if WANTED_BY.fetch_sub(1, Ordering::SeqCst) == 1 {
            *self.cluster = None;
        }
    }
}

impl Deref for Turn {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster.as_ref().expect("there until the turn is over")
    }
}

impl DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("there until the turn is over")
    }
}
