//! The server blocks that have entries in the cache, and what is counted of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::entry::{Kind, Slot};

/// What is counted of one block. All of it changes with misses only, so all workers share it.
#[derive(Debug, Default)]
pub struct Block {
    number: u32,
    entries: [AtomicUsize; 2],
    inserts: [AtomicU64; 2],
    evictions: [AtomicU64; 2],
    refused: [AtomicU64; 2],
    is_retired: AtomicBool,
}

impl Block {
    /// What its keys carry.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Entries of a kind, among them those that are of no use any more and have not made room yet.
    #[must_use]
    pub fn entries(&self, kind: Kind) -> usize {
        self.entries[kind as usize].load(Ordering::Relaxed)
    }

    /// Entries that were stored, again and again ones included.
    #[must_use]
    pub fn inserts(&self, kind: Kind) -> u64 {
        self.inserts[kind as usize].load(Ordering::Relaxed)
    }

    /// Entries that made room for others while they were still of use.
    #[must_use]
    pub fn evictions(&self, kind: Kind) -> u64 {
        self.evictions[kind as usize].load(Ordering::Relaxed)
    }

    /// Entries that were not stored, since the block has its number of them and none of these was found to go.
    #[must_use]
    pub fn refused(&self, kind: Kind) -> u64 {
        self.refused[kind as usize].load(Ordering::Relaxed)
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// Counts an entry that is about to be stored; says whether it is one too many.
    pub(super) fn reserve(&self, kind: Kind, entries_max: usize) -> bool {
        self.entries[kind as usize].fetch_add(1, Ordering::Relaxed) >= entries_max
    }

    /// Takes back a [`reserve`](Self::reserve).
    pub(super) fn release(&self, kind: Kind) {
        self.entries[kind as usize].fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn count_insert(&self, kind: Kind) {
        self.inserts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_refused(&self, kind: Kind) {
        self.refused[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// By number. Numbers are never given again: a query that waits may come back with the number of a block that is gone.
pub(super) type Table = Vec<Option<Arc<Block>>>;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Blocks(ArcSwap<Table>);

impl Blocks {
    pub(super) fn load(&self) -> Guard<Arc<Table>> {
        self.0.load()
    }

    pub(super) fn open(&self) -> Arc<Block> {
        loop {
            let old = self.0.load();
            let mut table = Table::clone(&old);
            let block = Arc::new(Block {
                number: table.len() as u32,
                ..Block::default()
            });
            for place in &mut table {
                let is_gone = |block: &Arc<Block>| {
                    block.is_retired() && block.entries(Kind::Success) + block.entries(Kind::Denial) == 0
                };
                if place.as_ref().is_some_and(is_gone) {
                    *place = None;
                }
            }
            table.push(Some(Arc::clone(&block)));
            let before = self.0.compare_and_swap(&*old, Arc::new(table));
            if Arc::ptr_eq(&before, &old) {
                return block;
            }
        }
    }

    pub(super) fn retire(&self, number: u32) {
        if let Some(block) = get(&self.0.load(), number) {
            block.is_retired.store(true, Ordering::Relaxed);
        }
    }
}

/// The block of a number, unless all of it is gone.
pub(super) fn get(table: &Table, number: u32) -> Option<&Arc<Block>> {
    table.get(number as usize)?.as_ref()
}

/// Whether nobody asks for the entries of this block any more.
pub(super) fn is_retired(table: &Table, number: u32) -> bool {
    get(table, number).is_none_or(|block| block.is_retired())
}

/// Counts an entry that is no more.
pub(super) fn forget(table: &Table, slot: &Slot, was_of_use: bool) {
    let (Some(block), Some(kind)) = (get(table, slot.block), slot.counted()) else {
        return;
    };
    block.release(kind);
    if was_of_use {
        block.evictions[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}
