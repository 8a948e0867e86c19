//! Labels as bytes; the only place that knows which letters are the same.
//!
//! Only A to Z have another case (RFC 4343 §3.2). A length byte is below 64, so folding a whole name in wire form
//! changes its labels alone. Up to sixteen bytes go at a time.

use core::fmt;

/// Longest label, without its length byte (RFC 1035 §3.1).
pub const LABEL_LEN_MAX: usize = 63;

/// Writes `src` in small letters to the front of `dst`; a `dst` that is shorter gets as much as it holds.
#[inline]
pub fn fold_into(src: &[u8], dst: &mut [u8]) {
    let len = src.len().min(dst.len());
    let (Some(src), Some(dst)) = (src.get(..len), dst.get_mut(..len)) else {
        return;
    };
    // The last bytes overlap those before them, which is cheaper than a loop over the odd ones.
    if let (Some(from), Some(to)) = (src.last_chunk::<16>(), dst.last_chunk_mut::<16>()) {
        *to = fold_16(*from);
        for (from, to) in src.as_chunks::<16>().0.iter().zip(dst.as_chunks_mut::<16>().0) {
            *to = fold_16(*from);
        }
    } else if let (Some(from), Some(to)) = (src.last_chunk::<8>(), dst.last_chunk_mut::<8>()) {
        *to = fold_8(*from);
        if let (Some(from), Some(to)) = (src.first_chunk::<8>(), dst.first_chunk_mut::<8>()) {
            *to = fold_8(*from);
        }
    } else if let (Some(from), Some(to)) = (src.last_chunk::<4>(), dst.last_chunk_mut::<4>()) {
        *to = fold_4(*from);
        if let (Some(from), Some(to)) = (src.first_chunk::<4>(), dst.first_chunk_mut::<4>()) {
            *to = fold_4(*from);
        }
    } else {
        for (from, to) in src.iter().zip(dst) {
            *to = from.to_ascii_lowercase();
        }
    }
}

/// Turns `bytes` to small letters where they stand.
#[inline]
pub fn fold_in_place(bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = fold_8(*word);
    }
    rest.make_ascii_lowercase();
}

/// Whether two byte strings are the same. Most are short, and then two words that may overlap cost less than a call.
#[inline]
pub fn eq(a: &[u8], b: &[u8]) -> bool {
    fn words<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    a.len() == b.len()
        && match a.len() {
            0..8 => word_of_rest(a) == word_of_rest(b),
            8..=16 => words::<8>(a, b),
            17..=32 => words::<16>(a, b),
            _ => a == b,
        }
}

/// Whether two labels, or two names in wire form, are the same without letter case.
#[inline]
pub fn eq_folded(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(a_last), Some(b_last)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        if fold_8(*a_last) != fold_8(*b_last) {
            return false;
        }
        return a
            .as_chunks::<8>()
            .0
            .iter()
            .zip(b.as_chunks::<8>().0)
            .all(|(a, b)| fold_8(*a) == fold_8(*b));
    }
    fold_word(word_of_rest(a)) == fold_word(word_of_rest(b))
}

/// The folded bytes as little-endian words, the last one filled up with zeros: what hashes read.
#[inline]
pub fn folded_words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| word_of_rest(rest));
    words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .chain(last)
        .map(fold_word)
}

/// Writes one label as zone files and dig do: a backslash before what has a meaning there, `\DDD` for what is not
/// printable (RFC 1035 §5.1, RFC 4343 §2.1).
pub fn write_text(label: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    label.iter().try_for_each(|&byte| match byte {
        b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
            out.write_char('\\')?;
            out.write_char(char::from(byte))
        }
        0x21..=0x7e => out.write_char(char::from(byte)),
        _ => write!(out, "\\{byte:03}"),
    })
}

/// Writes a whole name label by label, with its final dot; the root is that dot alone.
pub(super) fn write_labels<'p>(labels: impl Iterator<Item = &'p [u8]>, out: &mut impl fmt::Write) -> fmt::Result {
    let mut is_root = true;
    for label in labels {
        write_text(label, out)?;
        out.write_char('.')?;
        is_root = false;
    }
    if is_root { out.write_char('.') } else { Ok(()) }
}

/// Sets bit 5 of each byte that is a capital letter. Exact for every byte: the sums of seven-bit values never carry
/// into the next byte.
#[inline]
pub(crate) const fn fold_word(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const HIGH: u64 = !LOW;
    const FROM_A: u64 = 0x3f3f_3f3f_3f3f_3f3f; // 0x80 - 'A'
    const PAST_Z: u64 = 0x2525_2525_2525_2525; // 0x80 - ('Z' + 1)
    let low = word & LOW;
    let from_a = low.wrapping_add(FROM_A);
    let past_z = low.wrapping_add(PAST_Z);
    let capitals = from_a & !past_z & !word & HIGH;
    word | (capitals >> 2)
}

/// Compiles to instructions that take all bytes at once.
#[inline]
fn fold_16(bytes: [u8; 16]) -> [u8; 16] {
    bytes.map(|byte| byte.to_ascii_lowercase())
}

#[inline]
const fn fold_8(bytes: [u8; 8]) -> [u8; 8] {
    fold_word(u64::from_le_bytes(bytes)).to_le_bytes()
}

#[inline]
fn fold_4(bytes: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = bytes;
    let [a, b, c, d, ..] = fold_8([a, b, c, d, 0, 0, 0, 0]);
    [a, b, c, d]
}

/// Up to seven bytes as a little-endian word, zeros above them: two loads that may overlap.
#[inline]
pub(crate) fn word_of_rest(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | shifted(u32::from_le_bytes(*last).into(), bytes.len(), 4);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        return u64::from(u16::from_le_bytes(*first)) | shifted(u16::from_le_bytes(*last).into(), bytes.len(), 2);
    }
    bytes.first().copied().map_or(0, u64::from)
}

#[inline]
const fn shifted(last: u64, len: usize, width: usize) -> u64 {
    last.wrapping_shl((len.wrapping_sub(width) as u32).wrapping_mul(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn exactly_the_capitals_change_at_every_place() {
        for byte in 0..=u8::MAX {
            for other in [0, b'A', 0x7f, 0xff, b'@', b'[', 0xc1] {
                for len in 0..20 {
                    for place in 0..len {
                        let mut bytes = vec![other; len];
                        bytes[place] = byte;
                        let expected = bytes.to_ascii_lowercase();
                        let mut folded = vec![0; len];
                        fold_into(&bytes, &mut folded);
                        assert_eq!(folded, expected);
                        fold_in_place(&mut bytes);
                        assert_eq!(bytes, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_short_destination_is_filled_and_no_more() {
        let mut dst = [0; 3];
        fold_into(b"ABCDEFGHIJ", &mut dst);
        assert_eq!(&dst, b"abc");
        let mut dst = [9; 12];
        fold_into(b"ABCDEFGHIJ", &mut dst);
        assert_eq!(&dst, b"abcdefghij\x09\x09");
    }

    #[test]
    fn equal_bytes_of_every_length_and_one_that_differs() {
        for len in 0..40 {
            let one: Vec<u8> = (0..len).collect();
            let mut other = one.clone();
            assert!(eq(&one, &other));
            for at in 0..one.len() {
                other[at] ^= 0x80;
                assert!(!eq(&one, &other), "{at} of {len}");
                other[at] ^= 0x80;
            }
            other.push(0);
            assert!(!eq(&one, &other));
        }
    }

    #[test]
    fn text_escapes_what_has_a_meaning() {
        let mut text = String::new();
        write_text(b"a.b\\c d\"\xff_-*", &mut text).unwrap();
        assert_eq!(text, r#"a\.b\\c\032d\"\255_-*"#);
    }

    proptest! {
        #[test]
        fn equal_when_the_folded_bytes_are(a in proptest::collection::vec(any::<u8>(), 0..40), place: usize, byte: u8) {
            let mut b: Vec<u8> = a.iter().map(u8::to_ascii_uppercase).collect();
            prop_assert!(eq_folded(&a, &b));
            prop_assert!(folded_words(&a).eq(folded_words(&b)));
            if !b.is_empty() {
                let place = place % b.len();
                b[place] = byte;
            }
            prop_assert_eq!(eq_folded(&a, &b), a.eq_ignore_ascii_case(&b));
            prop_assert_eq!(folded_words(&a).eq(folded_words(&b)), a.eq_ignore_ascii_case(&b));
            b.push(0);
            prop_assert!(!eq_folded(&a, &b));
        }
    }
}
