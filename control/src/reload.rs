//! When the Corefile is read anew: at SIGUSR1, and every now and then with `reload`. Both take the same way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::corefile::settings::{Corefile, Reload};
use crate::corefile::{self, Input, Machine, Refused};
use crate::faults;
use crate::output;
use crate::random::random;
use crate::server::{Prepared, Server};

/// Why the Corefile is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody sent SIGUSR1: whatever it says is used.
    Signal,
    /// `reload` looks: what was tried before is not tried again.
    Look,
}

/// Where the configuration comes from, and which was tried last.
#[derive(Debug)]
pub struct Reloader {
    input: Input,
    port: u16,
    tried: String,
    /// Of the configuration in use.
    every: Option<Reload>,
    next: Option<Instant>,
}

impl Reloader {
    /// For a configuration that is in use.
    pub fn new(input: Input, port: u16) -> Self {
        Self {
            input,
            port,
            tried: String::new(),
            every: None,
            next: None,
        }
    }

    /// A configuration is in use now.
    pub fn in_use(&mut self, corefile: &Corefile, server: &Server) {
        self.tried(corefile.fingerprint.clone(), server);
        // The setting of the block that comes last counts for all.
        self.every = corefile.blocks.iter().filter_map(|block| block.reload).next_back();
        if self.every.is_some() {
            let hash = &corefile.fingerprint;
            output::info(&format!("plugin/reload: Running configuration SHA512 = {hash}"));
        }
        self.wait();
    }

    fn tried(&mut self, fingerprint: String, server: &Server) {
        let version = &server.admin().metrics.reload.version;
        version.store(Arc::new(fingerprint.clone()));
        self.tried = fingerprint;
    }

    fn wait(&mut self) {
        self.next = self.every.map(|every| Instant::now() + every.period(random()));
    }

    /// Waits until it is time to look; for ever without `reload`.
    pub async fn due(&self) {
        match self.next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// Reads the configuration; what is new in it is made ready. None where there is nothing new, or where it cannot be
    /// used, which is told.
    pub async fn prepare(&mut self, server: &Server, why: Why) -> Option<Prepared> {
        self.wait();
        if why == Why::Signal {
            output::info("SIGUSR1: Reloading");
        }
        let (input, port) = (self.input.clone(), self.port);
        let loaded = tokio::task::spawn_blocking(move || corefile::load(&input, port, &Machine));
        let Ok(loaded) = loaded.await else {
            self.failed(server, why, true, "the Corefile could not be read");
            return None;
        };
        let corefile = match loaded {
            Ok(corefile) => corefile,
            Err(refused) => {
                self.refused(server, why, refused).await;
                return None;
            }
        };
        if why == Why::Look && corefile.fingerprint == self.tried {
            return None;
        }
        output::info("Reloading");
        self.tried(corefile.fingerprint.clone(), server);
        match server.prepare(corefile).await {
            Ok(prepared) => Some(prepared),
            Err(error) => {
                let error = error.to_string();
                self.failed(server, why, true, &error);
                None
            }
        }
    }

    async fn refused(&mut self, server: &Server, why: Why, mut refused: Refused) {
        let fingerprint = refused.fingerprint();
        if why == Why::Look && fingerprint == self.tried {
            return;
        }
        self.tried = fingerprint;
        if !refused.is_parsed {
            output::warning(&format!(
                "plugin/reload: Corefile parse failed: {}",
                refused.headlines()
            ));
        }
        let is_parsed = refused.is_parsed;
        let drawn = tokio::task::spawn_blocking(move || {
            refused.add(faults::find(&refused.blocks));
            refused.render(corefile::Colour::Off)
        });
        let drawn = drawn.await.unwrap_or_else(|error| error.to_string());
        self.failed(server, why, is_parsed, &drawn);
    }

    /// Tells why a configuration is not used; the first line of `error` says most.
    fn failed(&self, server: &Server, why: Why, is_parsed: bool, error: &str) {
        server.admin().metrics.reload.failed.fetch_add(1, Ordering::Relaxed);
        output::error(&format!("Restart failed: {error}"));
        let first = error.lines().next().unwrap_or_default();
        match why {
            Why::Signal => output::error(&format!("SIGUSR1: {first}")),
            Why::Look if is_parsed => {
                output::error(&format!("plugin/reload: Corefile changed but reload failed: {first}"));
            }
            Why::Look => {}
        }
    }
}

impl Reload {
    /// The interval, a random part of the jitter longer or shorter.
    fn period(self, random: u64) -> Duration {
        let share = random as f64 / u64::MAX as f64;
        (self.interval + self.jitter.mul_f64(share)).saturating_sub(self.jitter / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_lies_half_a_jitter_around_the_interval() {
        let secs = Duration::from_secs;
        let every = Reload {
            interval: secs(30),
            jitter: secs(10),
        };
        assert_eq!(every.period(0), secs(25));
        assert_eq!(every.period(u64::MAX), secs(35));
        let steady = Reload {
            jitter: Duration::ZERO,
            ..every
        };
        assert_eq!(steady.period(12_345), secs(30));
    }
}
