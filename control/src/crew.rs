//! The threads that answer: started, told what to do, ended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nodens_engine::cache::flight::{Flights, Wake};
use nodens_engine::io::{self as port, Counters, PortKind, SharedSocket, Waker};
use nodens_engine::responder::Responder;
use nodens_engine::snapshot::Published;
use nodens_engine::stats::WorkerStats;
use nodens_engine::worker::{self, Boss, Command};
use nodens_engine::zone::trie::NameHash;

use crate::output;
use crate::random;
use crate::workers::{own_cores, stay_on};

/// How long all workers together may take to carry out a command.
const PATIENCE: Duration = Duration::from_secs(1);

/// The workers.
#[derive(Debug)]
pub struct Crew {
    workers: Vec<Worker>,
    /// What each counts.
    pub stats: Vec<Arc<WorkerStats>>,
    /// What each one's port counts.
    pub ports: Vec<Arc<Counters>>,
}

/// A running worker.
#[derive(Debug)]
struct Worker {
    thread: JoinHandle<()>,
    boss: Boss,
    ended: Arc<AtomicBool>,
}

/// Tells that its worker has ended, by whatever way.
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Crew {
    /// So many workers without any socket.
    ///
    /// # Errors
    /// A thread or its port cannot be had.
    pub fn start(kind: PortKind, len: usize, hash: &NameHash, published: &Arc<Published>) -> anyhow::Result<Self> {
        let mut crew = Self {
            workers: Vec::new(),
            stats: (0..len).map(|_| Arc::new(WorkerStats::new(0))).collect(),
            ports: (0..len).map(|_| Arc::new(Counters::new())).collect(),
        };
        let cores = own_cores(len);
        let wakers = (0..len).map(|_| Waker::new()).collect::<io::Result<Vec<_>>>();
        let wakers = wakers.context("cannot start a worker")?;
        let wakes = wakers
            .iter()
            .cloned()
            .map(|waker| -> Wake { Box::new(move || waker.wake()) });
        let flights = Flights::new(wakes);
        for (at, waker) in wakers.into_iter().enumerate() {
            let mut responder = Responder::new(random::seed()?, hash.clone(), Arc::clone(&crew.stats[at]), None);
            responder.merge_with(Arc::clone(&flights), at as u16);
            let core = cores.as_ref().and_then(|cores| cores.get(at).copied());
            let worker = Worker::start(kind, responder, published, &crew.ports[at], waker, core)?;
            crew.workers.push(worker);
        }
        Ok(crew)
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Whether a worker has ended by itself, which none should.
    pub fn is_broken(&self) -> bool {
        self.workers.iter().any(|worker| worker.ended.load(Ordering::Acquire))
    }

    /// Has each worker carry out a command, and waits until all have, for a bounded time.
    ///
    /// # Errors
    /// What the first worker said that could not, or that the time is over.
    pub fn tell(&self, commands: impl IntoIterator<Item = Command>) -> io::Result<()> {
        let told: Vec<_> = self
            .workers
            .iter()
            .zip(commands)
            .map(|(worker, command)| worker.boss.tell(command))
            .collect();
        let end = Instant::now() + PATIENCE;
        let mut result = Ok(());
        for done in told {
            let one = done.and_then(|done| {
                done.recv_deadline(end)
                    .unwrap_or_else(|_| Err(io::Error::other("a worker takes too long")))
            });
            result = result.and(one);
        }
        result
    }

    /// Copies of the listening sockets of all workers.
    ///
    /// # Errors
    /// A worker does not give them.
    pub fn share(&self) -> io::Result<Vec<SharedSocket>> {
        let (copies, all) = crossbeam::channel::unbounded();
        self.tell(std::iter::repeat_with(|| Command::Share(copies.clone())))?;
        Ok(all.try_iter().flatten().collect())
    }

    /// Has all answer what stands in their sockets and streams, and ends them.
    pub fn drain(self) {
        self.end(|| Command::Drain);
    }

    /// Has all leave their sockets to another process, and ends them.
    pub fn release(self) {
        self.end(|| Command::Release);
    }

    fn end(self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            // One that has ended needs no end.
            let _ = worker.boss.tell(command());
        }
        for worker in self.workers {
            if worker.thread.join().is_err() {
                output::error("a worker ended by panic");
            }
        }
    }
}

impl Worker {
    fn start(
        kind: PortKind,
        mut responder: Responder,
        published: &Arc<Published>,
        counters: &Arc<Counters>,
        waker: Waker,
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        let (boss, orders) = Boss::new(waker.clone());
        let ended = Arc::new(AtomicBool::new(false));
        let own_ended = Arc::clone(&ended);
        let (published, counters) = (Arc::clone(published), Arc::clone(counters));
        let (opened, is_open) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("worker".into()).spawn(move || {
            let _end = End(own_ended);
            if let Some(core) = core {
                stay_on(core);
            }
            // A ring belongs to the thread that makes it.
            let mut port = match port::open(kind, Vec::new(), &waker, &counters) {
                Ok(port) => port,
                Err(error) => {
                    // The other side waits for this.
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(()));
            let result = worker::run(&mut port, &mut responder, &published, &orders);
            if let Err(error) = result {
                output::error(&format!("a worker cannot go on: {error}"));
            }
        })?;
        match is_open.recv() {
            Ok(Ok(())) => Ok(Self { thread, boss, ended }),
            Ok(Err(error)) => Err(error).context("a worker cannot open its port"),
            Err(_) => bail!("a worker ended at its start"),
        }
    }
}
