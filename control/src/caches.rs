//! The cache of all blocks, which lives through a reload, and what each block has of it.

use std::sync::Arc;

use nodens_engine::cache::{self as engine, Block, Bounds, Cache, Prefetch, Stale};
use nodens_engine::plan::ZoneMap;
use nodens_engine::zone::trie::NameHash;
use nodens_wire::NameBuf;

use crate::carried::Carried;
use crate::corefile::Span;
use crate::corefile::settings::{self, CacheKind, ServerBlock, StaleRefresh};

/// Bytes, where no block says how many.
const SIZE_DEFAULT: u64 = 64 << 20;

/// What a block's entries belong to: they are kept over a reload that does not touch this.
#[derive(Clone, Debug, PartialEq)]
struct BlockKey {
    /// The keys of the block.
    keys: Vec<(NameBuf, u16)>,
    view: Option<String>,
    settings: settings::Cache,
}

/// The cache of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    slab: Option<(u64, Arc<Cache>)>,
    blocks: Carried<BlockKey, Arc<Block>>,
}

impl Caches {
    /// That of the next configuration.
    pub fn next(&self) -> Self {
        Self {
            slab: self.slab.clone(),
            blocks: self.blocks.next(),
        }
    }

    /// Makes it as large as the largest `size` of all blocks; nothing where none has a `cache`.
    pub fn resize(&mut self, blocks: &[ServerBlock]) {
        let sizes = blocks.iter().filter_map(|block| block.cache.as_ref());
        let size = sizes.map(|cache| cache.size.unwrap_or(0)).max();
        let Some(size) = size.map(|size| if size == 0 { SIZE_DEFAULT } else { size }) else {
            self.slab = None;
            self.blocks = Carried::default();
            return;
        };
        if self.slab.as_ref().is_none_or(|(own, _)| *own != size) {
            let bytes = usize::try_from(size).unwrap_or(usize::MAX);
            self.slab = Some((size, Arc::new(Cache::new(bytes))));
            self.blocks = Carried::default();
        }
    }

    /// What the workers read.
    pub fn slab(&self) -> Option<Arc<Cache>> {
        self.slab.as_ref().map(|(_, slab)| Arc::clone(slab))
    }

    /// The entries of a block.
    pub fn block(&mut self, block: &ServerBlock, cache: &settings::Cache) -> Option<Arc<Block>> {
        let (_, slab) = self.slab.as_ref()?;
        let mut settings = cache.clone();
        settings.span = Span::NOWHERE;
        let key = BlockKey {
            keys: block.keys.iter().map(|key| (key.zone.clone(), key.port)).collect(),
            view: block.view.as_ref().map(|view| view.name.clone()),
            settings,
        };
        Some(self.blocks.get(key, |_| slab.open()))
    }

    /// Has the entries of blocks that are gone make room.
    pub fn let_go(&mut self) {
        for block in self.blocks.take_gone() {
            if let Some((_, slab)) = &self.slab {
                slab.retire(block.number());
            }
        }
    }
}

/// `cache`, as the engine reads it.
pub fn settings(cache: &settings::Cache, hash: &NameHash) -> engine::Settings {
    let set = |zones: &[NameBuf]| ZoneMap::set(zones, hash);
    engine::Settings {
        zones: set(&cache.zones),
        success: bounds(&cache.success),
        denial: bounds(&cache.denial),
        prefetch: cache.prefetch.map(|prefetch| Prefetch {
            amount: prefetch.amount,
            within: prefetch.within,
            percentage: prefetch.percentage,
        }),
        stale: cache.stale.map(|stale| Stale {
            up_to: stale.up_to,
            refresh: match stale.refresh {
                StaleRefresh::Immediate => engine::StaleRefresh::Immediate,
                StaleRefresh::Verify(wait) => engine::StaleRefresh::Verify(wait),
            },
            ttl_secs: stale.response_ttl_secs,
            recheck: stale.recheck,
            prefer_positive: stale.prefer_positive,
        }),
        servfail: cache.servfail,
        disable_success: set(&cache.disable_success),
        disable_denial: set(&cache.disable_denial),
        keep_ttl: cache.keep_ttl,
    }
}

fn bounds(kind: &CacheKind) -> Bounds {
    Bounds {
        entries_max: usize::try_from(kind.entries_max).unwrap_or(usize::MAX),
        ttl_min_secs: kind.ttl_min_secs,
        ttl_max_secs: kind.ttl_max_secs,
    }
}
