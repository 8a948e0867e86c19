//! The only stores into the snapshot, and where what they replace is freed.

use std::sync::{Arc, Mutex, PoisonError};

use nodens_engine::snapshot::{Config, Data, Published, ZoneId};
use nodens_engine::zone::Zone;

/// Publishes configuration and data. A worker only ever lets go of a version; whoever publishes next frees it.
#[derive(Debug)]
pub struct Publisher {
    published: Arc<Published>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    data: Arc<Data>,
    /// Replaced, and perhaps still read by a worker in the middle of a batch: one version a worker at most.
    retired: Vec<Arc<Data>>,
    retired_config: Vec<Arc<Config>>,
    /// Zones of replaced versions: a transfer may hold on to one for longer than a batch.
    retired_zones: Vec<Arc<Zone>>,
}

impl Publisher {
    /// Publishes into `published`.
    pub fn new(published: Arc<Published>) -> Self {
        Self {
            published,
            state: Mutex::default(),
        }
    }

    /// Puts a configuration in place. Its zones have to be there already.
    pub fn config(&self, config: Config) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.published.swap_config(Arc::new(config));
        state.retired_config.push(old);
        state.sweep();
    }

    /// Puts a new version of one zone in place.
    pub fn zone(&self, id: ZoneId, zone: Zone) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = state.data.shared(id).cloned();
        state.retired_zones.extend(replaced);
        let data = Arc::new(state.data.with(id, zone));
        state.data = Arc::clone(&data);
        let old = self.published.swap_data(data);
        state.retired.push(old);
        state.sweep();
    }

    /// Takes zones out that no configuration names any more.
    pub fn forget(&self, zones: &[ZoneId]) {
        if zones.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced: Vec<_> = zones
            .iter()
            .filter_map(|&zone| state.data.shared(zone).cloned())
            .collect();
        state.retired_zones.extend(replaced);
        let data = Arc::new(state.data.without(zones));
        state.data = Arc::clone(&data);
        let old = self.published.swap_data(data);
        state.retired.push(old);
        state.sweep();
    }

    /// Whether a worker may still read a configuration that was replaced.
    pub fn is_config_read(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sweep();
        !state.retired_config.is_empty()
    }

    /// Frees what nobody reads any more; tells whether something is left.
    pub fn sweep(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sweep();
        !state.retired.is_empty() || !state.retired_config.is_empty()
    }
}

impl State {
    fn sweep(&mut self) {
        self.retired.retain(|data| Arc::strong_count(data) > 1);
        self.retired_config.retain(|config| Arc::strong_count(config) > 1);
        // Behind the data, which holds them too.
        self.retired_zones.retain(|zone| Arc::strong_count(zone) > 1);
    }
}
