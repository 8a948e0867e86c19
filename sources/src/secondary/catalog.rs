//! Catalog zones (RFC 9432): the records of one become the list of the zones that it names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nodens_wire::{Name, NameBuf, Rtype};

use crate::Record;

/// Zones that one catalog may name.
pub const MEMBERS_MAX: usize = 10_000;
/// The one version there is (RFC 9432 §4.2.1).
const VERSION: &[u8] = b"\x012";

/// The zones of a catalog, in lower case, each with the label that stands for it. Another label for the same zone means that
/// the zone is to begin anew (RFC 9432 §5.4).
pub type Members = BTreeMap<NameBuf, Box<[u8]>>;

/// What a catalog names; of it what lies in `within`, where that names anything.
///
/// # Errors
/// The catalog is broken (RFC 9432 §5.1), and nothing of it counts.
pub fn members(catalog: Name<'_>, records: &[Record], within: &[NameBuf]) -> Result<Members, String> {
    let mut version = None;
    let mut by_label: BTreeMap<&[u8], Name<'_>> = BTreeMap::new();
    for record in records {
        let Some(labels) = record.owner().strip(catalog) else {
            continue;
        };
        match (property(labels), record.rtype) {
            (Property::Version, Rtype::TXT) if version.replace(&*record.rdata).is_some() => {
                return Err("it has several versions".to_owned());
            }
            (Property::Member(label), Rtype::PTR) => {
                let zone = Name::from_wire(&record.rdata).map_err(|error| format!("a bad record: {error}"))?;
                if by_label.insert(label, zone).is_some() {
                    return Err(format!("{} names several zones", record.owner()));
                }
            }
            _ => {}
        }
    }
    match version {
        Some(VERSION) => {}
        Some(_) => {
            return Err(format!(
                "version.{catalog} TXT is not \"2\", the one version that is known"
            ));
        }
        None => return Err(format!("it has no version: add `version.{catalog} TXT \"2\"`")),
    }
    let mut members = Members::new();
    for (label, zone) in by_label {
        let zone = zone.to_buf().folded();
        if !within.is_empty() && !within.iter().any(|own| zone.as_name().is_within(own.as_name())) {
            continue;
        }
        if members.len() == MEMBERS_MAX {
            return Err(format!("it names more than {MEMBERS_MAX} zones"));
        }
        match members.entry(zone) {
            Entry::Vacant(free) => free.insert(label.into()),
            Entry::Occupied(taken) => return Err(format!("it names {} twice", taken.key())),
        };
    }
    Ok(members)
}

/// What a record says, by the labels of its owner in front of the catalog's.
enum Property<'a> {
    Version,
    /// By its unique label.
    Member(&'a [u8]),
    Other,
}

fn property(labels: &[u8]) -> Property<'_> {
    if labels == b"\x07version" {
        return Property::Version;
    }
    let Some((&len, rest)) = labels.split_first() else {
        return Property::Other;
    };
    match rest.split_at_checked(len.into()) {
        Some((label, b"\x05zones")) => Property::Member(label),
        _ => Property::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(records: &[(&str, Rtype, &[u8])], within: &[&str]) -> Result<Vec<String>, String> {
        let records: Vec<Record> = records
            .iter()
            .map(|&(owner, rtype, rdata)| Record {
                owner: NameBuf::from_text(owner).unwrap().as_bytes().into(),
                rtype,
                ttl: 0,
                rdata: rdata.into(),
            })
            .collect();
        let within: Vec<NameBuf> = within.iter().map(|zone| NameBuf::from_text(zone).unwrap()).collect();
        let catalog = NameBuf::from_text("catz.").unwrap();
        let members = members(catalog.as_name(), &records, &within)?;
        let shown = members
            .iter()
            .map(|(zone, label)| format!("{} {zone}", String::from_utf8_lossy(label)));
        Ok(shown.collect())
    }

    const V2: (&str, Rtype, &[u8]) = ("version.catz.", Rtype::TXT, b"\x012");
    const OAK: (&str, Rtype, &[u8]) = ("a.zones.catz.", Rtype::PTR, b"\x03Oak\x07example\0");
    const ELM: (&str, Rtype, &[u8]) = ("b.zones.catz.", Rtype::PTR, b"\x03elm\x04test\0");

    #[test]
    fn its_zones() {
        let check = |records: &[_], within: &[&str], expected: &[&str]| {
            let expected = expected.iter().map(|&line| line.to_owned()).collect();
            assert_eq!(named(records, within), Ok(expected));
        };
        check(&[V2], &[], &[]);
        check(&[OAK, ELM, V2], &[], &["a oak.example.", "b elm.test."]);
        check(
            &[OAK, ELM, V2],
            &["example.", "elm.test."],
            &["a oak.example.", "b elm.test."],
        );
        check(&[OAK, ELM, V2], &["example."], &["a oak.example."]);
        // Properties of members and what nobody knows.
        let group = ("group.a.zones.catz.", Rtype::TXT, &b"\x01x"[..]);
        let other = ("a.zones.catz.", Rtype::TXT, &b"\x01x"[..]);
        let apart = ("b.zones.example.", Rtype::PTR, &b"\x03elm\0"[..]);
        check(&[V2, OAK, group, other, apart], &[], &["a oak.example."]);
    }

    #[test]
    fn what_is_broken() {
        let check = |records: &[_], expected: &str| {
            let error = named(records, &[]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(&[OAK], "no version: add `version.catz. TXT \"2\"`");
        check(&[V2, V2], "several versions");
        check(&[("version.catz.", Rtype::TXT, b"\x011")], "not \"2\"");
        check(&[("version.catz.", Rtype::TXT, b"\x012\x012")], "not \"2\"");
        check(
            &[V2, OAK, ("a.zones.catz.", Rtype::PTR, b"\x03elm\0")],
            "a.zones.catz. names several zones",
        );
        check(
            &[V2, OAK, ("b.zones.catz.", Rtype::PTR, b"\x03oak\x07example\0")],
            "names oak.example. twice",
        );
        check(&[V2, ("a.zones.catz.", Rtype::PTR, b"\x03elm")], "bad record");
    }

    #[test]
    fn no_more_than_so_many() {
        let names: Vec<(String, Vec<u8>)> = (0..=MEMBERS_MAX)
            .map(|n| {
                (
                    format!("m{n}.zones.catz."),
                    [&[5][..], format!("{n:05}").as_bytes(), &[0]].concat(),
                )
            })
            .collect();
        let mut records: Vec<(&str, Rtype, &[u8])> = vec![V2];
        records.extend(
            names
                .iter()
                .map(|(owner, zone)| (owner.as_str(), Rtype::PTR, zone.as_slice())),
        );
        assert!(named(&records, &[]).unwrap_err().contains("more than 10000"));
        records.pop();
        assert_eq!(named(&records, &[]).map(|members| members.len()), Ok(MEMBERS_MAX));
    }
}
