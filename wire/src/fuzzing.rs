//! What must hold for any input: shared by the fuzz targets and the test that replays their corpus.

use core::fmt::{self, Write as _};

use arrayvec::ArrayString;

use crate::name::label::eq_folded;
use crate::rdata::{Text, unpack};
use crate::{
    Builder, Compressor, Full, MESSAGE_LEN_MAX, Message, Name, NameBuf, Owner, PackedName, Query, Record, Refusal,
    carries_opt,
};

/// Longest presentation form: every byte but the length bytes as `\DDD`, and the dots.
const TEXT_LEN_MAX: usize = 4 * 255;

/// A packet: as a request, and as a message that is built again and must read the same.
pub fn message(packet: &[u8]) {
    request(packet);
    let Ok(message) = Message::parse(packet) else { return };
    for record in message.records().flatten() {
        let name = record.owner.to_buf();
        assert!(record.owner == name.as_name(), "unpacking keeps the name");
        assert_eq!(record.owner.plain_len(), name.as_bytes().len());
        text_of(name.as_name());
    }
    let mut room = [0; MESSAGE_LEN_MAX];
    let mut names = Compressor::new();
    let Ok((len, written)) = rebuild(&message, &mut room, &mut names) else {
        return;
    };
    let rebuilt = Message::parse(room.get(..len).unwrap_or_default()).expect("what we build parses");
    assert_eq!(rebuilt.header.id, message.header.id);
    assert_eq!(rebuilt.question.is_some(), message.question.is_some());
    assert_eq!(rebuilt.records().count(), written);
    for (before, after) in message
        .records()
        .flatten()
        .filter(|record| has_shape(&message, record))
        .zip(rebuilt.records())
    {
        let after = after.expect("what we build parses");
        assert_eq!(before.section, after.section);
        assert_eq!(
            (before.rtype, before.rclass, before.ttl),
            (after.rtype, after.rclass, after.ttl)
        );
        assert!(before.owner == after.owner, "building keeps the owner");
        same_rdata(&message, &before, &rebuilt, &after);
    }
}

/// Bytes as a name in wire form, as one inside a message, and as text.
pub fn name(bytes: &[u8]) {
    if let Ok((name, rest)) = Name::split_wire(bytes) {
        assert_eq!(name.len().saturating_add(rest.len()), bytes.len());
        text_of(name);
        laws_of(name);
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(name) = NameBuf::from_text(text)
    {
        text_of(name.as_name());
        laws_of(name.as_name());
    }
    for at in 0..bytes.len().min(64) {
        if let Ok((packed, end)) = PackedName::parse(bytes, at) {
            assert!(at < end && end <= bytes.len());
            assert!(packed == packed.to_buf().as_name(), "unpacking keeps the name");
        }
    }
}

fn request(packet: &[u8]) {
    match Query::parse(packet) {
        Ok(query) => {
            assert!(query.len <= packet.len());
            assert_eq!(query.question().len(), query.question_len);
            assert!(query.question().starts_with(query.qname.as_bytes()));
            let message = Message::parse(packet).expect("a query is a message");
            assert_eq!(message.question, Some(query.asks()));
            assert!(message.records().all(|record| record.is_ok()));
            assert_eq!(message.opt(), query.opt);
            // A record that ends the packet is needed, a byte behind it is not.
            let cut = packet.get(..query.len).unwrap_or_default();
            assert_eq!(Query::parse(cut).map(|query| query.opt), Ok(query.opt));
            if let Some(shorter) = query.len.checked_sub(1).and_then(|len| packet.get(..len)) {
                assert!(Query::parse(shorter).is_err());
            }
            if let Some(opt) = query.opt {
                let len = opt
                    .options()
                    .map(|(_, data)| data.len().saturating_add(4))
                    .sum::<usize>();
                assert!(len <= packet.len());
            }
        }
        Err(Refusal::FormErr { question_len, .. }) => assert!(question_len.saturating_add(12) <= packet.len()),
        Err(Refusal::Ignore | Refusal::NotImplemented) => {}
    }
    carries_opt(packet);
}

/// Writes every record that has the shape of its type; gives the length and how many there are.
fn rebuild(message: &Message<'_>, room: &mut [u8], names: &mut Compressor) -> Result<(usize, usize), Full> {
    let mut rdata = [0; MESSAGE_LEN_MAX];
    let mut builder = Builder::new(room, MESSAGE_LEN_MAX, names);
    builder.header(message.header.id.get(), message.header.flags());
    if let Some(question) = message.question {
        builder.question(question.name, question.rtype, question.rclass)?;
    }
    let mut written = 0_usize;
    for record in message.records().flatten() {
        let Record {
            section,
            owner,
            rtype,
            rclass,
            ttl,
            ..
        } = record;
        let Ok(rdata) = unpacked(message, &record, &mut rdata) else {
            continue;
        };
        show(Text { rtype, rdata });
        if builder
            .record_wire(
                section,
                Owner::Name(owner.to_buf().as_name()),
                rtype,
                rclass,
                ttl,
                rdata,
            )
            .is_err()
        {
            break;
        }
        written = written.saturating_add(1);
    }
    let plain_len = builder.plain_len();
    let len = builder.finish();
    assert!(len <= plain_len, "compression never makes longer");
    Ok((len, written))
}

fn unpacked<'o>(message: &Message<'_>, record: &Record<'_>, out: &'o mut [u8]) -> Result<&'o [u8], crate::ParseError> {
    unpack(
        record.rtype,
        message.as_bytes(),
        record.rdata_at,
        record.rdata.len(),
        out,
    )
}

fn has_shape(message: &Message<'_>, record: &Record<'_>) -> bool {
    unpacked(message, record, &mut [0; MESSAGE_LEN_MAX]).is_ok()
}

fn same_rdata(before: &Message<'_>, old: &Record<'_>, after: &Message<'_>, new: &Record<'_>) {
    let (mut old_room, mut new_room) = ([0; MESSAGE_LEN_MAX], [0; MESSAGE_LEN_MAX]);
    let old = unpacked(before, old, &mut old_room).expect("it was built from these");
    let new = unpacked(after, new, &mut new_room).expect("what we build parses");
    // A name that is pointed to may have other letter case.
    assert!(eq_folded(old, new), "building keeps the rdata");
}

/// The text of a name reads back as the same bytes.
fn text_of(name: Name<'_>) {
    let mut text = ArrayString::<TEXT_LEN_MAX>::new();
    write!(text, "{name}").expect("no name has a longer text");
    let read = NameBuf::from_text(&text).expect("the text of a name is one");
    assert_eq!(read.as_bytes(), name.as_bytes());
}

fn laws_of(name: Name<'_>) {
    let folded = name.to_buf().folded();
    assert!(name == folded.as_name() && name.cmp(&folded.as_name()).is_eq());
    assert!(name.is_within(Name::ROOT) && name.is_within(name));
    let Some(parent) = name.parent() else { return };
    assert!(name.is_within(parent) && !parent.is_within(name));
    assert!(parent < name, "a zone sorts before what is in it");
    let front = name.first_label().expect("a name with a parent has a label");
    assert_eq!(
        NameBuf::from_labels([front], parent).as_ref().map(NameBuf::as_bytes),
        Ok(name.as_bytes())
    );
}

/// Renders for the sake of not panicking.
fn show(text: Text<'_>) {
    struct Nowhere;
    impl fmt::Write for Nowhere {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            Ok(())
        }
    }
    write!(Nowhere, "{text}").expect("nothing stops it");
}
