//! The messages of a transfer to records (RFC 5936 §2.2). Whoever sends them is not trusted.

use std::sync::Arc;

use nodens_wire::{Message, Name, NameBuf, Opcode, Rclass, Rcode, Rtype, Section, rdata};

use crate::Record;

/// Memory that one zone may take, as records: more than that is no zone that is meant.
pub const ZONE_BYTES_MAX: usize = 256 << 20;
/// What a record takes beside its data.
const RECORD_BYTES: usize = 64;

/// A zone that is being fetched.
#[derive(Debug)]
pub(super) struct Collect<'z> {
    zone: Name<'z>,
    id: u16,
    records: Vec<Record>,
    bytes: usize,
    /// The data of the SOA at the beginning.
    soa: Option<Box<[u8]>>,
    /// Where names and data are unpacked.
    room: Box<[u8; 65_535]>,
}

/// What a message was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// The last one.
    Whole,
}

impl<'z> Collect<'z> {
    pub(super) fn new(zone: Name<'z>, id: u16) -> Self {
        Self {
            zone,
            id,
            records: Vec::new(),
            bytes: 0,
            soa: None,
            room: Box::new([0; 65_535]),
        }
    }

    /// Takes the next message.
    pub(super) fn message(&mut self, bytes: &[u8]) -> Result<Progress, String> {
        let message = reply(bytes, self.id)?;
        if message.header.answers.get() == 0 {
            return Err("a message without records".to_owned());
        }
        for record in message.records() {
            let record = record.map_err(|error| format!("a bad record: {error}"))?;
            if record.section != Section::Answer {
                break;
            }
            let owner = record.owner.to_buf().folded();
            let is_soa = record.rtype == Rtype::SOA && owner.as_name() == self.zone;
            if record.rclass != Rclass::IN {
                continue;
            }
            let data = rdata::unpack(
                record.rtype,
                bytes,
                record.rdata_at,
                record.rdata.len(),
                &mut self.room[..],
            );
            let data = data.and_then(|data| rdata::check(record.rtype, data).map(|()| data));
            let data = data.map_err(|error| format!("{owner} {}: bad data: {error}", record.rtype))?;
            match &self.soa {
                None if !is_soa => return Err("it does not begin with the SOA of the zone".to_owned()),
                None => self.soa = Some(data.into()),
                Some(first) if is_soa => {
                    if **first != *data {
                        return Err("it begins and ends with another SOA".to_owned());
                    }
                    return Ok(Progress::Whole);
                }
                Some(_) => {}
            }
            let data: Box<[u8]> = data.into();
            self.add(owner, record.rtype, record.ttl, data)?;
        }
        Ok(Progress::More)
    }

    fn add(&mut self, owner: NameBuf, rtype: Rtype, ttl: u32, rdata: Box<[u8]>) -> Result<(), String> {
        // What lies outside is not this server's to say.
        if rtype.is_meta() || !owner.as_name().is_within(self.zone) {
            return Ok(());
        }
        let last = self.records.last().filter(|last| *last.owner == *owner.as_bytes());
        let owner = last.map_or_else(|| Arc::from(owner.as_bytes()), |last| Arc::clone(&last.owner));
        self.bytes += RECORD_BYTES + owner.len() + rdata.len();
        if self.bytes > ZONE_BYTES_MAX {
            return Err(format!("the zone takes more than {ZONE_BYTES_MAX} bytes"));
        }
        // RFC 2181 §8: a TTL with the highest bit set is 0.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        self.records.push(Record {
            owner,
            rtype,
            ttl,
            rdata,
        });
        Ok(())
    }

    /// The records, the SOA once, and the SOA's data.
    pub(super) fn into_records(self) -> (Vec<Record>, Box<[u8]>) {
        (self.records, self.soa.unwrap_or_default())
    }
}

/// A reply with this id that says yes.
pub(super) fn reply(bytes: &[u8], id: u16) -> Result<Message<'_>, String> {
    let message = Message::parse(bytes).map_err(|error| format!("no DNS message: {error}"))?;
    let flags = message.header.flags();
    if !flags.qr() || message.header.id.get() != id || flags.opcode() != Opcode::QUERY {
        return Err("another message than the reply".to_owned());
    }
    match flags.rcode() {
        Rcode::NOERROR => Ok(message),
        rcode => Err(format!("rcode was {rcode}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Builder, Compressor, Flags, Owner};

    const SOA: &[u8] = b"\x02ns\0\x05admin\0\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";

    fn zone() -> NameBuf {
        NameBuf::from_text("cedar.example.").unwrap()
    }

    fn message(rcode: Rcode, records: &[(&str, Rtype, &[u8])]) -> Vec<u8> {
        let (mut room, mut names) = (vec![0; 65_535], Compressor::new());
        let mut out = Builder::new(&mut room, 65_535, &mut names);
        out.header(9, Flags(0).with_qr(true).with_rcode(rcode));
        out.question(zone().as_name(), Rtype::AXFR, Rclass::IN).unwrap();
        for (owner, rtype, data) in records {
            let owner = NameBuf::from_text(owner).unwrap();
            out.record_wire(
                Section::Answer,
                Owner::Name(owner.as_name()),
                *rtype,
                Rclass::IN,
                60,
                data,
            )
            .unwrap();
        }
        let len = out.finish();
        room.truncate(len);
        room
    }

    fn collected(messages: &[Vec<u8>]) -> Result<Vec<String>, String> {
        let zone = zone();
        let mut collect = Collect::new(zone.as_name(), 9);
        for (at, bytes) in messages.iter().enumerate() {
            if collect.message(bytes)? == Progress::Whole {
                assert_eq!(at + 1, messages.len());
                let (records, soa) = collect.into_records();
                assert_eq!(*soa, *SOA);
                return Ok(records
                    .iter()
                    .map(|record| format!("{} {}", record.owner(), record.rtype))
                    .collect());
            }
        }
        Err("it does not end".to_owned())
    }

    const APEX: (&str, Rtype, &[u8]) = ("Cedar.example.", Rtype::SOA, SOA);

    #[test]
    fn records_over_several_messages() {
        let messages = [
            message(Rcode::NOERROR, &[APEX]),
            message(
                Rcode::NOERROR,
                &[
                    ("WWW.cedar.example.", Rtype::A, &[192, 0, 2, 1]),
                    ("www.cedar.example.", Rtype::A, &[192, 0, 2, 2]),
                ],
            ),
            message(
                Rcode::NOERROR,
                &[
                    ("oak.example.", Rtype::A, &[192, 0, 2, 1]),
                    ("sub.cedar.example.", Rtype::SOA, SOA),
                    APEX,
                ],
            ),
        ];
        let expected = [
            "cedar.example. SOA",
            "www.cedar.example. A",
            "www.cedar.example. A",
            "sub.cedar.example. SOA",
        ];
        assert_eq!(collected(&messages), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn what_is_no_transfer() {
        let check = |messages: &[Vec<u8>], expected: &str| {
            let error = collected(messages).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(&[message(Rcode::REFUSED, &[])], "rcode was REFUSED");
        check(&[message(Rcode::NOERROR, &[])], "without records");
        check(
            &[message(Rcode::NOERROR, &[("www.cedar.example.", Rtype::A, &[1; 4])])],
            "does not begin",
        );
        let other: &[u8] = &[SOA, &[]]
            .concat()
            .iter()
            .map(|byte| if *byte == 7 { 8 } else { *byte })
            .collect::<Vec<_>>();
        check(
            &[message(Rcode::NOERROR, &[APEX, ("cedar.example.", Rtype::SOA, other)])],
            "another SOA",
        );
        check(
            &[message(
                Rcode::NOERROR,
                &[APEX, ("x.cedar.example.", Rtype::A, &[1; 3])],
            )],
            "bad data",
        );
        check(&[b"\0\x09\x80\0\0\0\0\x01\0\0\0\0".to_vec()], "a bad record");
        check(&[vec![0; 5]], "no DNS message");
        check(&[b"\0\x08\x80\0\0\0\0\x01\0\0\0\0".to_vec()], "another message");
    }

    #[test]
    fn a_zone_without_end_is_given_up() {
        let zone = zone();
        let mut collect = Collect::new(zone.as_name(), 9);
        collect.message(&message(Rcode::NOERROR, &[APEX])).unwrap();
        collect.bytes = ZONE_BYTES_MAX - 100;
        let one = message(Rcode::NOERROR, &[("x.cedar.example.", Rtype::A, &[1; 4])]);
        assert_eq!(collect.message(&one), Ok(Progress::More));
        assert!(collect.message(&one).unwrap_err().contains("268435456 bytes"));
    }
}
