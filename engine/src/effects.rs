//! Effects that wait to be carried out, and their bytes one behind the other.

use std::collections::VecDeque;

use crate::io::Effect;

/// Memory for bytes that is kept.
const BYTES_KEPT: usize = 256 << 10;

#[derive(Debug, Default)]
pub(crate) struct Effects {
    queue: VecDeque<(Effect, usize, usize)>,
    bytes: Vec<u8>,
}

impl Effects {
    pub(crate) fn push(&mut self, effect: Effect, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.queue.push_back((effect, start, self.bytes.len()));
    }

    /// With bytes that `write` puts behind what it is given.
    pub(crate) fn push_with(&mut self, effect: Effect, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        if self.bytes.len() > start {
            self.queue.push_back((effect, start, self.bytes.len()));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether all are carried out; their bytes are forgotten then.
    pub(crate) fn is_done(&mut self) -> bool {
        let is_done = self.queue.is_empty();
        if is_done {
            self.bytes.clear();
            self.bytes.shrink_to(BYTES_KEPT);
        }
        is_done
    }

    pub(crate) fn pop(&mut self) -> Option<(Effect, &[u8])> {
        if self.is_done() {
            return None;
        }
        let (effect, start, end) = self.queue.pop_front()?;
        Some((effect, &self.bytes[start..end]))
    }
}
