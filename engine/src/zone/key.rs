//! A short key kept inside what it names, so that comparing it costs no further cache miss.

/// Bytes that fit beside the entry they belong to.
const INLINE_MAX: usize = 38;

/// Up to 255 bytes; short ones stand inline.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    /// The first `len` bytes count.
    Inline {
        /// How many.
        len: u8,
        /// The bytes, zeros behind them.
        bytes: [u8; INLINE_MAX],
    },
    /// Longer ones.
    Heap(Box<[u8]>),
}

impl Key {
    /// The bytes.
    #[must_use]
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Key {
    fn from(from: &[u8]) -> Self {
        match u8::try_from(from.len()) {
            Ok(len) if from.len() <= INLINE_MAX => {
                let mut bytes = [0; INLINE_MAX];
                bytes[..from.len()].copy_from_slice(from);
                Self::Inline { len, bytes }
            }
            _ => Self::Heap(from.into()),
        }
    }
}
