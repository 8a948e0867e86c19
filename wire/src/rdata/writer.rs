//! Rdata into a caller's bytes.

use crate::error::Full;

/// A cursor over bytes to be filled; what does not fit leaves it where it is.
pub(super) struct Writer<'b> {
    room: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at.checked_add(bytes.len()).ok_or(Full)?;
        self.room.get_mut(self.at..end).ok_or(Full)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    pub(super) fn u8(&mut self, value: u8) -> Result<(), Full> {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    /// A character-string; one over 255 bytes does not fit in its length byte.
    pub(super) fn string(&mut self, string: &[u8]) -> Result<(), Full> {
        self.u8(u8::try_from(string.len()).map_err(|_| Full)?)?;
        self.bytes(string)
    }
}

/// How many bytes of `room` the fields took.
pub(super) fn write(room: &mut [u8], fields: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> Result<usize, Full> {
    let mut writer = Writer { room, at: 0 };
    fields(&mut writer)?;
    Ok(writer.at)
}
