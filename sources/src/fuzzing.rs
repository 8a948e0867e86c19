//! What the fuzz targets call; the invariants are asserted here.

use std::io;
use std::path::Path;

use nodens_wire::{Name, NameBuf, Rtype, rdata};

use crate::etcd::Service;
use crate::hosts;
use crate::zonefile::ZoneFile;

/// Any text is a zone or an error with a line; its records lie in the zone and have the shape of their types.
pub fn zonefile(text: &[u8]) {
    let Ok(origin) = NameBuf::from_text("cedar.example") else {
        return;
    };
    // The file may include itself, and nothing else.
    let read = |path: &Path| match path.to_str() {
        Some("a") => Ok(text.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    for origin in [origin.as_name(), Name::ROOT] {
        match ZoneFile::load(Path::new("a"), origin, &read) {
            Ok(zone) => {
                assert!(zone.records.iter().any(|record| record.rtype == Rtype::SOA));
                for record in &zone.records {
                    assert!(record.owner().is_within(origin));
                    assert!(record.rdata.len() <= usize::from(u16::MAX));
                    assert_eq!(rdata::check(record.rtype, &record.rdata), Ok(()));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Any value is a service or says why not; a text that is a service is so again.
pub fn service(value: &[u8]) {
    match Service::parse(value) {
        Ok(service) => assert_eq!(Service::parse(value), Ok(service)),
        Err(bad) => assert!(!bad.to_string().is_empty()),
    }
}

/// Any text is hosts, or lines that are left out.
pub fn hosts(text: &[u8]) {
    let mut bad = 0;
    for entry in hosts::entries(text, |_| bad += 1) {
        assert!(!entry.names.is_empty());
    }
}
