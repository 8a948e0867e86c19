//! A record as texts and messages bring it.

use std::sync::Arc;

use nodens_wire::{Name, Rtype};

/// One record of class IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// A valid name in wire form, shared by the records that follow one another.
    pub(crate) owner: Arc<[u8]>,
    /// Its type.
    pub rtype: Rtype,
    /// Seconds.
    pub ttl: u32,
    /// Uncompressed, in the shape of its type, at most 65,535 bytes.
    pub rdata: Box<[u8]>,
}

impl Record {
    /// In small letters, but for SRV in a zone file.
    #[must_use]
    pub fn owner(&self) -> Name<'_> {
        Name::from_wire(&self.owner).unwrap_or(Name::ROOT)
    }
}
