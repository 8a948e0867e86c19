//! Zone names as etcd keys.

use nodens_wire::{Name, label};

/// The key that belongs to the zone's own name: `/skydns/example/cedar` for `cedar.example.` below the path `skydns`.
///
/// Labels are lower-cased and in presentation form. The root zone's key is the path itself; with an empty path
/// that is `/`, which no key is: all keys lie [`below`] it.
#[must_use]
pub fn keys_of_zone(path: &str, zone: Name<'_>) -> Vec<u8> {
    let mut labels = Vec::new();
    for text in zone.labels() {
        let mut folded = vec![0; text.len()];
        label::fold_into(text, &mut folded);
        let mut written = String::new();
        // Writing to a String cannot fail.
        let _ = label::write_text(&folded, &mut written);
        labels.push(written);
    }
    let mut key = Vec::new();
    // Empty parts vanish, as in a cleaned path.
    let parts = path
        .split('/')
        .chain(labels.iter().rev().flat_map(|label| label.split('/')));
    for part in parts.filter(|part| !part.is_empty()) {
        key.push(b'/');
        key.extend_from_slice(part.as_bytes());
    }
    if key.is_empty() {
        key.push(b'/');
    }
    key
}

/// What every key below `own` begins with.
#[must_use]
pub fn below(own: &[u8]) -> Vec<u8> {
    let mut prefix = own.to_vec();
    if prefix.last() != Some(&b'/') {
        prefix.push(b'/');
    }
    prefix
}

/// The first key behind everything that begins with `prefix`, which ends in a slash.
#[must_use]
pub(crate) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        // '0' is the byte behind '/'.
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use nodens_wire::NameBuf;

    use super::*;

    fn key(path: &str, zone: &str) -> String {
        let zone = NameBuf::from_text(zone).unwrap();
        String::from_utf8(keys_of_zone(path, zone.as_name())).unwrap()
    }

    #[test]
    fn zones_become_reversed_paths() {
        assert_eq!(key("skydns", "cedar.example."), "/skydns/example/cedar");
        assert_eq!(key("/skydns/", "Cedar.EXAMPLE."), "/skydns/example/cedar");
        assert_eq!(key("site//naming", "example."), "/site/naming/example");
        assert_eq!(key("skydns", "2.0.192.in-addr.arpa."), "/skydns/arpa/in-addr/192/0/2");
        assert_eq!(key("skydns", "."), "/skydns");
        assert_eq!(key("/", "example."), "/example");
        assert_eq!(key("", "."), "/");
        assert_eq!(key("skydns", r"a\.b.example."), r"/skydns/example/a\.b");
        assert_eq!(key("skydns", "0/25.2.example."), "/skydns/example/2/0/25");
    }

    #[test]
    fn what_lies_below_has_one_slash_more() {
        assert_eq!(below(b"/skydns/example"), b"/skydns/example/");
        assert_eq!(below(b"/"), b"/");
        assert_eq!(behind(b"/skydns/example/"), b"/skydns/example0");
        assert_eq!(behind(b"/"), b"0");
    }
}
