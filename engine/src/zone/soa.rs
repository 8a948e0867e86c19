//! The SOA of zones that are made of data without one, and the serials of their versions.

use nodens_wire::{Name, Rtype, Section};

use crate::encode::{Template, ToRender};

/// The SOA of a zone, made anew for each serial.
#[derive(Debug)]
pub(crate) struct Soa {
    /// Of the record, in seconds.
    pub(crate) ttl: u32,
    /// In wire form, nothing compressed.
    pub(crate) rdata: Box<[u8]>,
    /// As it stands in the AUTHORITY of a negative answer.
    pub(crate) negative: Option<Template>,
}

impl Soa {
    /// `names` are the labels of MNAME and RNAME below the zone, in wire form; `minimum` is for how long it may be kept that
    /// there is nothing at a name, in seconds.
    pub(crate) fn new(apex: Name<'_>, names: [&[u8]; 2], serial: u32, ttl: u32, minimum: u32) -> Self {
        let mut rdata = Vec::with_capacity(64);
        for labels in names {
            rdata.extend_from_slice(labels);
            rdata.extend_from_slice(apex.as_bytes());
        }
        for number in [serial, 7200, 1800, 86_400, minimum] {
            rdata.extend_from_slice(&number.to_be_bytes());
        }
        let mut records = ToRender::new(apex);
        records.add(Section::Authority, apex, Rtype::SOA, ttl, &rdata);
        let negative = Template::of(&records);
        Self {
            ttl,
            rdata: rdata.into(),
            negative,
        }
    }
}

/// The serial of a new version: `unix_secs`, or one more than the last where that is greater (RFC 1982 order).
pub(crate) fn next_serial(last: u32, unix_secs: u64) -> u32 {
    let wanted = (unix_secs & u64::from(u32::MAX)) as u32;
    let next = last.wrapping_add(1);
    if wanted.wrapping_sub(next) < (1 << 31) - 1 {
        wanted
    } else {
        next
    }
}
