//! Effects that wait to be carried out, and their bytes one behind the other.

use std::collections::VecDeque;

use crate::io::Effect;

/// Memory for bytes that is kept.
const BYTES_KEPT: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct Effects {
    queue: VecDeque<(Effect, usize, usize)>,
    bytes: Vec<u8>,
}

impl Effects {
    pub(super) fn push(&mut self, effect: Effect, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.queue.push_back((effect, start, self.bytes.len()));
    }

    /// With bytes that `write` puts behind what it is given.
    pub(super) fn push_with(&mut self, effect: Effect, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        if self.bytes.len() > start {
            self.queue.push_back((effect, start, self.bytes.len()));
        }
    }

    pub(super) fn pop(&mut self) -> Option<(Effect, &[u8])> {
        let Some((effect, start, end)) = self.queue.pop_front() else {
            self.bytes.clear();
            self.bytes.shrink_to(BYTES_KEPT);
            return None;
        };
        Some((effect, &self.bytes[start..end]))
    }
}
