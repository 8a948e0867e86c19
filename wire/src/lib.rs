//! DNS messages as bytes, and bytes as DNS messages.
//!
//! ```text
//!              0               12                                        Query::parse   one pass, no copy
//!   message    | Header        | Question | Answer | Authority | Additional |
//!                id flags       Name        Record   Record      Record, Opt
//!                4 counts       type        owner type class TTL length rdata
//!                               class
//!
//!   Name        uncompressed labels          \
//!   PackedName  labels and pointers backwards  > compare without letter case
//!   NameBuf     owned, 255 bytes inline      /
//! ```
//!
//! Two promises: parsing never panics whatever the bytes are, and building never writes behind the room it was given.
//! Neither allocates, and there is no `unsafe`.
//!
//! ```
//! use nodens_wire::{Builder, Compressor, Flags, NameBuf, Owner, Query, Rclass, Rtype, Section};
//!
//! let mut names = Compressor::new();
//! let mut room = [0; 512];
//! let www = NameBuf::from_text("www.example.org").unwrap();
//!
//! let mut query = Builder::new(&mut room, 512, &mut names);
//! query.header(7, Flags::default().with_rd(true));
//! query.question(www.as_name(), Rtype::A, Rclass::IN).unwrap();
//! let len = query.finish();
//! let packet = room[..len].to_vec();
//! let query = Query::parse(&packet).unwrap();
//!
//! let mut reply = Builder::new(&mut room, 512, &mut names);
//! reply.header(query.id, query.flags.reply().with_aa(true));
//! reply.question_raw(query.question()).unwrap();
//! reply.record(Section::Answer, Owner::Question, Rtype::A, Rclass::IN, 300, |rdata| rdata.bytes(&[192, 0, 2, 1])).unwrap();
//! assert_eq!(reply.finish(), 12 + 21 + 16);
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::panic)
)]

#[cfg(test)]
extern crate std;

mod builder;
mod compress;
pub mod edns;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod message;
mod name;
mod query;
mod question;
pub mod rdata;
mod reader;
mod rtype;

pub use builder::{Builder, Mark, Owner, Place, RdataBuilder, record_front};
pub use compress::{Compressor, SUFFIXES_MAX};
pub use edns::Opt;
pub use error::{Full, NameError, ParseError, Reason};
pub use header::{Flags, HEADER_LEN, Header, Opcode, Rcode};
pub use message::{Message, Record, Records, Section};
pub use name::{LABEL_LEN_MAX, LABELS_MAX, Labels, NAME_LEN_MAX, Name, NameBuf, PackedLabels, PackedName, label};
pub use query::{Query, Refusal, carries_opt};
pub use question::Question;
pub use reader::Reader;
pub use rtype::{Rclass, Rtype};

/// Longest DNS message, in bytes: what the two length bytes of a stream can say (RFC 1035 §4.2.2).
pub const MESSAGE_LEN_MAX: usize = 65_535;
