//! Names put together from labels and a zone.

use arrayvec::ArrayVec;
use nodens_wire::{Name, NameBuf};

/// The name of `labels` (wire form, no root) in front of `zone`; `None` where it would be too long.
pub(crate) fn absolute(labels: &[u8], zone: Name<'_>) -> Option<NameBuf> {
    let mut bytes = ArrayVec::<u8, 255>::new();
    bytes.try_extend_from_slice(labels).ok()?;
    bytes.try_extend_from_slice(zone.as_bytes()).ok()?;
    Name::from_wire(&bytes).ok().map(Name::to_buf)
}
