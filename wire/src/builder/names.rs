//! Names into a message: as owners, and in rdata.

use super::{Builder, HEADER_LEN, Owner, Place};
use crate::compress::{Known, POINTER_LIMIT};
use crate::error::Full;
use crate::name::Name;

const POINTER: u16 = 0xc000;

impl Builder<'_> {
    #[inline]
    pub(super) fn owner(&mut self, owner: Owner<'_>) -> Result<(), Full> {
        let place = match owner {
            Owner::Name(name) => return self.owner_name(name),
            Owner::Question => Place::new(HEADER_LEN, self.qname_len.into(), self.qname_len.into()),
            Owner::Same => self.owner,
            Owner::Written(place) => place,
        };
        debug_assert!(place.plain_len() > 0, "no name to be the owner: {owner:?}");
        self.again(place)?;
        self.owner = place;
        Ok(())
    }

    /// The place of an owner, where two bytes can point to it.
    #[inline]
    pub(super) fn pointer(&self, owner: Owner<'_>) -> Option<Place> {
        let place = match owner {
            Owner::Name(_) => return None,
            Owner::Question => Place::new(HEADER_LEN, self.qname_len.into(), self.qname_len.into()),
            Owner::Same => self.owner,
            Owner::Written(place) => place,
        };
        (place.len() > 2 && place.at() < POINTER_LIMIT).then_some(place)
    }

    fn owner_name(&mut self, name: Name<'_>) -> Result<(), Full> {
        let start = self.at;
        self.name(name)?;
        self.owner = Place::new(start, self.at.wrapping_sub(start), name.len());
        Ok(())
    }

    /// A name that stands in the message already: a pointer, or a copy where that is shorter or the place out of a
    /// pointer's reach.
    #[inline]
    fn again(&mut self, place: Place) -> Result<(), Full> {
        if place.len() > 2 && place.at() < POINTER_LIMIT {
            self.room(2)?.copy_from_slice(&place.pointer().to_be_bytes());
            self.saved = self.saved.wrapping_add(place.plain_len()).wrapping_sub(2);
            return Ok(());
        }
        let to = self.at;
        self.room(place.len())?;
        let from = place.at()..place.at().wrapping_add(place.len());
        // Both ends were checked: the place when it was written, the room just now.
        if !from.is_empty() && from.end <= to {
            self.buf.copy_within(from, to);
        }
        self.saved = self.saved.wrapping_add(place.plain_len()).wrapping_sub(place.len());
        Ok(())
    }

    /// A name with its longest known suffix as a pointer. What is new in it can be pointed to later.
    pub(super) fn name(&mut self, name: Name<'_>) -> Result<(), Full> {
        self.write_name(name, Wanted::Compressed)
    }

    /// A name in full, which later ones can point to all the same.
    pub(super) fn name_plain(&mut self, name: Name<'_>) -> Result<(), Full> {
        self.write_name(name, Wanted::Plain)
    }

    fn write_name(&mut self, name: Name<'_>, wanted: Wanted) -> Result<(), Full> {
        let bytes = name.as_bytes();
        if name.is_root() {
            return self.bytes(bytes);
        }
        let start = self.at;
        if wanted == Wanted::Plain && !self.unknown.is_full() {
            self.room(bytes.len())?.copy_from_slice(bytes);
            self.unknown.push(Place::new(start, bytes.len(), bytes.len()));
            return Ok(());
        }
        self.know_the_question();
        self.know_plain_names();
        let known = self.names.find(self.buf, bytes);
        let run_len = match known {
            Some(Known { at, len, .. }) if wanted == Wanted::Compressed => {
                let (new, pointer) = self.room(len.wrapping_add(2))?.split_at_mut(len);
                new.copy_from_slice(bytes.get(..len).unwrap_or_default());
                pointer.copy_from_slice(&(POINTER | at).to_be_bytes());
                len
            }
            _ => {
                self.room(bytes.len())?.copy_from_slice(bytes);
                bytes.len().wrapping_sub(1)
            }
        };
        let written = self.at.wrapping_sub(start);
        self.saved = self.saved.wrapping_add(bytes.len()).wrapping_sub(written);
        self.names.insert(start, run_len, known);
        Ok(())
    }

    /// Puts the suffixes of the question's name into the table: once, and only for a message that compresses.
    #[inline]
    fn know_the_question(&mut self) {
        if !self.qname_known {
            self.qname_known = true;
            let end = HEADER_LEN.wrapping_add(self.qname_len.into());
            let name = self.buf.get(HEADER_LEN..end).unwrap_or_default();
            self.names.insert_first(name, HEADER_LEN);
        }
    }
}

impl Builder<'_> {
    /// Puts the suffixes of names that were written in full into the table: only once another one may point to them.
    fn know_plain_names(&mut self) {
        for place in self.unknown.take() {
            let Some(name) = self.buf.get(place.at()..place.at().wrapping_add(place.len())) else {
                continue;
            };
            let known = self.names.find(self.buf, name);
            self.names.insert(place.at(), name.len().wrapping_sub(1), known);
        }
    }
}

impl Place {
    #[inline]
    pub(super) const fn new(at: usize, len: usize, plain_len: usize) -> Self {
        Self((at as u32) << 16 | (len as u8 as u32) << 8 | plain_len as u8 as u32)
    }

    #[inline]
    pub(super) const fn pointer(self) -> u16 {
        POINTER | self.at() as u16
    }

    #[inline]
    const fn at(self) -> usize {
        (self.0 >> 16) as usize
    }

    #[inline]
    const fn len(self) -> usize {
        (self.0 >> 8) as u8 as usize
    }

    #[inline]
    pub(super) const fn plain_len(self) -> usize {
        self.0 as u8 as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Compressed,
    Plain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::SUFFIXES_MAX;
    use crate::{Compressor, Flags, Message, NameBuf, PackedName, Rclass, Rtype, Section};
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text).unwrap()
    }

    fn build(question: &str, limit: usize, write: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
        let mut buf = std::vec![0; limit];
        let mut names = Compressor::new();
        let mut builder = Builder::new(&mut buf, limit, &mut names);
        builder.header(1, Flags(0x8000));
        builder
            .question(name(question).as_name(), Rtype::A, Rclass::IN)
            .unwrap();
        write(&mut builder);
        let len = builder.finish();
        buf.truncate(len);
        buf
    }

    fn a(builder: &mut Builder<'_>, owner: Owner<'_>) {
        builder
            .record(Section::Answer, owner, Rtype::A, Rclass::IN, 5, |rdata| {
                rdata.bytes(&[192, 0, 2, 1])
            })
            .unwrap();
    }

    #[test]
    fn owners_point_to_the_question_in_any_letter_case() {
        let message = build("www.example.org", 512, |builder| {
            a(builder, Owner::Question);
            a(builder, Owner::Same);
            a(builder, Owner::Name(name("WWW.example.ORG").as_name()));
            a(builder, Owner::Name(name("ns.EXAMPLE.org").as_name()));
            a(builder, Owner::Same);
            a(builder, Owner::Name(Name::ROOT));
            a(builder, Owner::Same);
        });
        let owners: Vec<usize> = [2, 2, 2, 5, 2, 1, 1].into();
        assert_eq!(
            message.len(),
            12 + 21 + owners.iter().map(|len| len + 14).sum::<usize>()
        );
        let read: Vec<_> = Message::parse(&message)
            .unwrap()
            .records()
            .map(|record| format!("{}", record.unwrap().owner))
            .collect();
        let www = "www.example.org.";
        assert_eq!(read, [www, www, www, "ns.example.org.", "ns.example.org.", ".", "."]);
    }

    #[test]
    fn the_root_as_question_is_repeated() {
        let message = build(".", 512, |builder| {
            a(builder, Owner::Question);
            a(builder, Owner::Same);
        });
        assert_eq!(message.len(), 12 + 5 + 2 * 15);
    }

    #[test]
    fn a_full_table_still_compresses_against_what_it_has() {
        let mut plain_len = 0;
        let message = build("example.org", 4096, |builder| {
            for i in 0..2 * SUFFIXES_MAX {
                a(builder, Owner::Name(name(&format!("host{i:04}.example.org")).as_name()));
            }
            plain_len = builder.plain_len();
        });
        assert_eq!(message.len(), 12 + 17 + 2 * SUFFIXES_MAX * (9 + 2 + 14));
        assert_eq!(plain_len, 12 + 17 + 2 * SUFFIXES_MAX * (22 + 14));
    }

    #[test]
    fn beyond_the_reach_of_pointers() {
        let far = name("far.away.test");
        let message = build("example.org", 0x5000, |builder| {
            while builder.len() < POINTER_LIMIT {
                a(builder, Owner::Question);
            }
            a(builder, Owner::Name(far.as_name()));
            a(builder, Owner::Same);
            a(builder, Owner::Name(far.as_name()));
            a(builder, Owner::Name(name("www.example.org").as_name()));
            a(builder, Owner::Same);
        });
        let records: Vec<_> = Message::parse(&message)
            .unwrap()
            .records()
            .map(Result::unwrap)
            .collect();
        let [.., first, second, third, www, same] = &records[..] else {
            panic!()
        };
        assert!(*first.owner.as_name().as_ref().unwrap() == far.as_name());
        assert!(second.owner == far.as_name() && third.owner == far.as_name());
        assert!(www.owner == name("www.example.org").as_name() && same.owner == www.owner);
    }

    fn names() -> impl Strategy<Value = Vec<NameBuf>> {
        let label = proptest::sample::select(std::vec![
            "a",
            "A",
            "b",
            "bb",
            "x\\000",
            "long-label-of-more-than-16-bytes"
        ]);
        let name = proptest::collection::vec(label, 0..7).prop_map(|labels| match &labels[..] {
            [] => NameBuf::root(),
            labels => name(&labels.join(".")),
        });
        proptest::collection::vec(name, 1..40)
    }

    proptest! {
        #[test]
        fn compressed_then_decompressed_is_the_same_name(question in names(), names in names(), plain: u64) {
            let mut starts = Vec::new();
            let mut plain_len = 0;
            let message = build(&format!("{}", question[0]), 16_000, |builder| {
                for (i, name) in names.iter().enumerate() {
                    starts.push(builder.len());
                    if plain >> (i % 64) & 1 == 0 {
                        builder.name(name.as_name()).unwrap();
                    } else {
                        builder.name_plain(name.as_name()).unwrap();
                    }
                }
                plain_len = builder.plain_len();
            });
            let expected: usize = names.iter().map(|name| name.as_bytes().len()).sum();
            prop_assert_eq!(plain_len, 12 + question[0].as_bytes().len() + 4 + expected);
            for (i, (name, start)) in names.iter().zip(&starts).enumerate() {
                let (read, end) = PackedName::parse(&message, *start).unwrap();
                prop_assert!(read == name.as_name());
                prop_assert_eq!(end, starts.get(i + 1).copied().unwrap_or(message.len()));
                if plain >> (i % 64) & 1 == 1 {
                    prop_assert_eq!(read.as_name().unwrap().as_bytes(), name.as_bytes());
                } else {
                    // A second time it is nothing but a pointer, unless the table was full.
                    prop_assert!(end - start <= name.as_bytes().len());
                }
            }
        }
    }
}
