//! The data of a record under construction.

use super::Builder;
use crate::error::Full;
use crate::name::Name;
use crate::rdata::{Field, has_names, layout};
use crate::reader::Reader;
use crate::rtype::Rtype;

/// Writes rdata into a message. The length field is filled in when the record is done.
#[derive(Debug)]
pub struct RdataBuilder<'r, 'b>(&'r mut Builder<'b>);

impl<'r, 'b> RdataBuilder<'r, 'b> {
    #[inline]
    pub(super) fn new(builder: &'r mut Builder<'b>) -> Self {
        Self(builder)
    }

    /// Bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.0.bytes(bytes)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, value: u8) -> Result<(), Full> {
        self.bytes(&[value])
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self, value: u16) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    /// A name that may be compressed: in the types of RFC 1035 alone (RFC 3597 §4).
    pub fn name(&mut self, name: Name<'_>) -> Result<(), Full> {
        self.0.name(name)
    }

    /// A name in full.
    pub fn name_plain(&mut self, name: Name<'_>) -> Result<(), Full> {
        self.0.name_plain(name)
    }

    /// Whole rdata in uncompressed wire form. Names are compressed, or can be pointed to later, as the type allows;
    /// data that do not have the shape of their type are copied.
    #[inline]
    pub fn wire(&mut self, rtype: Rtype, rdata: &[u8]) -> Result<(), Full> {
        if has_names(rtype) {
            return self.fields(layout(rtype), rdata);
        }
        self.bytes(rdata)
    }

    fn fields(&mut self, layout: &[Field], rdata: &[u8]) -> Result<(), Full> {
        let mut reader = Reader::new(rdata);
        for field in layout {
            let Field::Name { compress } = *field else {
                let Ok(bytes) = field.read(&mut reader) else { break };
                self.bytes(bytes)?;
                continue;
            };
            let Ok(name) = reader.name() else { break };
            if compress {
                self.name(name)?;
            } else {
                self.name_plain(name)?;
            }
        }
        self.bytes(reader.rest())
    }
}
