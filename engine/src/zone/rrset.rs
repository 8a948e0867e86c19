//! Record sets as bytes: one slice of shared memory each.

use bytes::{BufMut, Bytes, BytesMut};
use nodens_wire::Rtype;

/// The records of one type at one name, each `TTL (4) length (2) rdata`, names in the rdata uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrSet {
    /// The type.
    pub rtype: Rtype,
    records: Bytes,
}

const FIXED_LEN: usize = 6;

impl RrSet {
    /// A set from TTL in seconds and rdata of each record, in the order in which they will be answered. Rdata longer
    /// than a message is left out.
    pub fn new<'a>(rtype: Rtype, records: impl IntoIterator<Item = (u32, &'a [u8])>) -> Self {
        let mut bytes = BytesMut::new();
        for (ttl, rdata) in records {
            let Ok(len) = u16::try_from(rdata.len()) else { continue };
            bytes.put_u32(ttl);
            bytes.put_u16(len);
            bytes.put_slice(rdata);
        }
        Self {
            rtype,
            records: bytes.freeze(),
        }
    }

    /// TTL in seconds and rdata of each record.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut rest = &self.records[..];
        std::iter::from_fn(move || {
            let (fixed, behind) = rest.split_first_chunk::<FIXED_LEN>()?;
            let [a, b, c, d, high, low] = *fixed;
            let (rdata, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
            rest = behind;
            Some((u32::from_be_bytes([a, b, c, d]), rdata))
        })
    }

    /// The rdata of the first record: the only one of a CNAME, DNAME or SOA.
    #[must_use]
    pub fn first(&self) -> Option<(u32, &[u8])> {
        self.iter().next()
    }
}
