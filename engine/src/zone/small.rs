//! Bytes kept inside what they belong to, so that reading them costs no further cache miss.

/// Up to `N` bytes stand inline, more in an allocation of their own.
#[derive(Clone, Debug)]
pub(crate) enum Small<const N: usize> {
    /// The first `len` bytes count.
    Inline {
        /// How many.
        len: u8,
        /// The bytes, zeros behind them.
        bytes: [u8; N],
    },
    /// Longer ones.
    Heap(Box<[u8]>),
}

impl<const N: usize> Small<N> {
    /// The bytes.
    #[must_use]
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }

    /// How many they are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Inline { len, .. } => usize::from(*len),
            Self::Heap(bytes) => bytes.len(),
        }
    }
}

impl<const N: usize> From<&[u8]> for Small<N> {
    fn from(from: &[u8]) -> Self {
        match u8::try_from(from.len()) {
            Ok(len) if from.len() <= N => {
                let mut bytes = [0; N];
                bytes[..from.len()].copy_from_slice(from);
                Self::Inline { len, bytes }
            }
            _ => Self::Heap(from.into()),
        }
    }
}

impl<const N: usize> Default for Small<N> {
    fn default() -> Self {
        Self::Inline { len: 0, bytes: [0; N] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whatever_their_length() {
        for len in [0, 1, 37, 38, 39, 300] {
            let bytes = vec![7; len];
            let small = Small::<38>::from(&bytes[..]);
            assert_eq!(small.as_bytes(), bytes);
            assert_eq!(matches!(small, Small::Inline { .. }), len <= 38);
        }
    }
}
