//! A zone on its way to a client, one message after the other (RFC 5936).
//!
//! ```text
//!   SOA, NS of the apex ──> every other record, in the order of the hashes ──> SOA
//!                           ^ place, skip: where the next message goes on
//! ```
//!
//! A zone that shows a cluster has no records to walk over; `Outgoing` makes them.
//!
//! It holds on to the version of the zone that it began with, and nothing of it in bytes: a message is made when the
//! one before it has been written.

use std::sync::Arc;

use nodens_wire::{Compressor, Flags, NameBuf, Query, Rtype};

use crate::cluster::{Outgoing, Shows};
use crate::edns::ReplyOpt;
use crate::encode::{Head, Part, PartWriter};
use crate::snapshot::ZoneId;
use crate::zone::trie::Place;
use crate::zone::{Node, RecordZone, RrSet, Zone};

/// Transfers of one worker that take more than one message, at once. One more is SERVFAIL: its client comes again.
pub const TRANSFERS_MAX: usize = 64;

/// What is to be handed out, as a plan found it.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Where the zone is.
    pub(crate) data: ZoneId,
    /// How it shows the cluster that is there.
    pub(crate) shows: Option<Shows>,
    /// The serial that the client has.
    pub(crate) serial: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// It may hold parts of the zone, and so goes first.
    walk: Walk,
    zone: Arc<Zone>,
    apex: NameBuf,
    id: u16,
    flags: Flags,
    question: Box<[u8]>,
    opt: Option<ReplyOpt>,
}

#[derive(Debug)]
enum Walk {
    Records(OverRecords),
    Cluster(Box<Outgoing>),
}

/// A place in a record zone.
#[derive(Clone, Copy, Debug, Default)]
struct OverRecords {
    /// Records of the beginning that are written.
    begun: usize,
    /// The node where the next message goes on,
    place: Place,
    /// and how many of its records are written.
    skip: usize,
}

/// How far a message brought a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// So many bytes, and more to come.
    More(usize),
    /// The last one.
    Last(usize),
    /// A record fits into no message, so that nobody can have the whole zone.
    Stuck,
}

impl Transfer {
    /// Of the zone `apex`, for a query that was allowed it.
    pub(crate) fn new(
        zone: Arc<Zone>,
        wanted: Wanted,
        apex: NameBuf,
        query: &Query<'_>,
        opt: Option<ReplyOpt>,
    ) -> Self {
        let walk = match (wanted.shows, &*zone) {
            (Some(shows), Zone::Cluster(cluster)) => {
                Walk::Cluster(Box::new(Outgoing::new(shows, cluster, wanted.serial)))
            }
            _ => Walk::Records(OverRecords::default()),
        };
        Self {
            walk,
            zone,
            apex,
            id: query.id,
            flags: query.flags.reply().with_aa(true),
            question: query.question().into(),
            opt,
        }
    }

    /// It is what has changed since the version that the client has.
    pub(crate) fn is_incremental(&self) -> bool {
        matches!(&self.walk, Walk::Cluster(outgoing) if outgoing.is_incremental())
    }

    /// Writes the next message into `room`.
    pub(crate) fn write(&mut self, room: &mut [u8], names: &mut Compressor) -> Progress {
        let head = Head {
            id: self.id,
            flags: self.flags,
            question: &self.question,
            opt: self.opt.as_ref(),
        };
        let apex = self.apex.as_name();
        let mut message = PartWriter::new(head, apex, room, names);
        let is_last = match (&mut self.walk, &*self.zone) {
            (Walk::Cluster(outgoing), Zone::Cluster(cluster)) => outgoing.fill(cluster, apex.as_bytes(), &mut message),
            (Walk::Records(walk), zone) => match zone.records(apex.as_bytes()) {
                Some(zone) => walk.fill(zone, &mut message),
                None => return Progress::Stuck,
            },
            (Walk::Cluster(_), _) => return Progress::Stuck,
        };
        let (len, written) = message.finish();
        if written == 0 {
            Progress::Stuck
        } else if is_last {
            Progress::Last(len)
        } else {
            Progress::More(len)
        }
    }
}

impl OverRecords {
    /// Fills a message; tells whether it is the last one.
    fn fill(&mut self, zone: &RecordZone, message: &mut PartWriter<'_>) -> bool {
        let records = beginning(zone)
            .skip(self.begun)
            .chain(
                body(zone, self.place)
                    .flat_map(|(_, node)| of_node(node))
                    .skip(self.skip),
            )
            .chain(soa(zone));
        let written = records.take_while(|record| message.add(record)).count();
        self.advance(zone, written)
    }

    /// Moves behind the records that were written; tells whether the last SOA was among them.
    fn advance(&mut self, zone: &RecordZone, written: usize) -> bool {
        let begun = beginning(zone).skip(self.begun).take(written).count();
        self.begun += begun;
        let mut left = written - begun + self.skip;
        for (place, node) in body(zone, self.place) {
            let len = of_node(node).count();
            if left < len || left == 0 {
                (self.place, self.skip) = (place, left);
                return false;
            }
            left -= len;
        }
        (self.place, self.skip) = (Place::END, 0);
        left > 0
    }
}

fn soa(zone: &RecordZone) -> impl Iterator<Item = Part<'_>> {
    let set = zone.node(b"").and_then(|node| node.set(Rtype::SOA));
    set.into_iter().flat_map(|set| of_set(b"", set)).take(1)
}

fn beginning(zone: &RecordZone) -> impl Iterator<Item = Part<'_>> {
    let set = zone.node(b"").and_then(|node| node.set(Rtype::NS));
    soa(zone).chain(set.into_iter().flat_map(|set| of_set(b"", set)))
}

fn body(zone: &RecordZone, place: Place) -> impl Iterator<Item = (Place, &Node)> {
    zone.nodes_from(place)
}

/// The records of a node, but for those that stand at the beginning.
fn of_node(node: &Node) -> impl Iterator<Item = Part<'_>> {
    let is_apex = node.labels().is_empty();
    node.sets()
        .filter(move |set| !(is_apex && matches!(set.rtype, Rtype::SOA | Rtype::NS)))
        .flat_map(|set| of_set(node.labels(), set))
}

fn of_set<'z>(labels: &'z [u8], set: &'z RrSet) -> impl Iterator<Item = Part<'z>> {
    set.iter().map(move |(ttl, rdata)| Part {
        labels,
        rtype: set.rtype,
        ttl,
        rdata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::trie::NameHash;
    use crate::zone::{Collector, RecordZoneBuilder};
    use nodens_wire::{Builder, Message, Rclass};

    fn zone(fill: impl FnOnce(&mut Collector)) -> Arc<Zone> {
        let apex = NameBuf::from_text("cedar.example.").unwrap();
        let mut collector = Collector::default();
        let soa = b"\x02ns\0\x05admin\0\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
        collector.add(&apex, Rtype::SOA, 60, soa, false);
        collector.add(&apex, Rtype::NS, 60, b"\x02ns\0", false);
        collector.add(&apex, Rtype::TXT, 60, b"\x01a", false);
        fill(&mut collector);
        let mut builder = RecordZoneBuilder::new(RecordZone::unloaded(apex.as_name(), NameHash::new(7)));
        for (owner, sets) in collector.into_sets() {
            builder.set(owner.as_name(), sets).unwrap();
        }
        Arc::new(Zone::Records(builder.finish()))
    }

    fn whole() -> Wanted {
        Wanted {
            data: ZoneId(0),
            shows: None,
            serial: None,
        }
    }

    /// All records of all messages, as text, and how many messages there were.
    fn transferred(zone: &Arc<Zone>) -> (Vec<String>, usize) {
        let (mut packet, mut names) = ([0; 512], Compressor::new());
        let apex = NameBuf::from_text("cedar.example.").unwrap();
        let mut builder = Builder::new(&mut packet, 512, &mut names);
        builder.header(77, Flags(0));
        builder.question(apex.as_name(), Rtype::AXFR, Rclass::IN).unwrap();
        let len = builder.finish();
        let query = Query::parse(&packet[..len]).unwrap();
        let mut transfer = Transfer::new(Arc::clone(zone), whole(), apex, &query, None);
        let (mut records, mut messages) = (Vec::new(), 0);
        let mut room = vec![0; 65_535];
        loop {
            let progress = transfer.write(&mut room, &mut names);
            let (Progress::More(len) | Progress::Last(len)) = progress else {
                panic!("stuck after {} records", records.len());
            };
            messages += 1;
            let message = Message::parse(&room[..len]).unwrap();
            assert_eq!(message.header.id, 77);
            for record in message.records() {
                let record = record.unwrap();
                records.push(format!("{} {}", record.owner.to_buf(), record.rtype));
            }
            if let Progress::Last(_) = progress {
                return (records, messages);
            }
        }
    }

    #[test]
    fn a_small_zone_is_one_message() {
        let zone = zone(|_| ());
        let expected = ["SOA", "NS", "TXT", "SOA"].map(|rtype| format!("cedar.example. {rtype}"));
        assert_eq!(transferred(&zone), (expected.to_vec(), 1));
    }

    #[test]
    fn every_record_comes_once_over_many_messages() {
        let zone = zone(|collector| {
            for i in 0..20_000_u32 {
                let name = NameBuf::from_text(&format!("host-{i}.deep.cedar.example.")).unwrap();
                collector.add(&name, Rtype::A, 60, &i.to_be_bytes(), false);
                collector.add(&name, Rtype::TXT, 60, b"\x01a", false);
            }
            let many = NameBuf::from_text("many.cedar.example.").unwrap();
            for i in 0..10_000_u32 {
                collector.add(&many, Rtype::A, 60, &i.to_be_bytes(), true);
            }
        });
        let (mut records, messages) = transferred(&zone);
        assert!(messages > 10, "{messages}");
        assert_eq!(records.len(), 2 + 1 + 40_000 + 10_000 + 1);
        assert_eq!(records.first(), records.last());
        assert!(records.pop().unwrap().ends_with("SOA"));
        records.retain(|record| !record.starts_with("many"));
        records.sort();
        let all = records.len();
        records.dedup();
        assert_eq!(records.len(), all);
    }

    #[test]
    fn a_record_larger_than_a_message_ends_it() {
        let zone = zone(|collector| {
            let name = NameBuf::from_text("large.cedar.example.").unwrap();
            collector.add(&name, Rtype(65_400), 60, &[0; 65_530], false);
        });
        let apex = NameBuf::from_text("cedar.example.").unwrap();
        let packet = b"\0\x01\0\0\0\x01\0\0\0\0\0\0\x05cedar\x07example\0\0\xfc\0\x01";
        let query = Query::parse(packet).unwrap();
        let mut transfer = Transfer::new(zone, whole(), apex, &query, None);
        let (mut room, mut names) = (vec![0; 65_535], Compressor::new());
        let first = transfer.write(&mut room, &mut names);
        assert!(matches!(first, Progress::More(_)));
        assert_eq!(transfer.write(&mut room, &mut names), Progress::Stuck);
    }
}
