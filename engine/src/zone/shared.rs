//! Values that versions of a zone share.

use std::hint::black_box;
use std::sync::Arc;

/// Has the counts of shared values brought into the cache, before a copy of what holds them raises them one by one: each of
/// those waits for its own cache line alone, as locked operations do, while these wait together.
#[inline]
pub(super) fn bring<'a, T: ?Sized + 'a>(shared: impl IntoIterator<Item = &'a Arc<T>>) {
    for value in shared {
        black_box(Arc::strong_count(value));
    }
}
