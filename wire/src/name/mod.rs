//! Domain names in their three shapes.
//!
//! | type | borrowed | compressed | when |
//! | --- | --- | --- | --- |
//! | [`Name`] | yes | no | the question of a packet, names in stored rdata, keys |
//! | [`PackedName`] | yes | maybe | owners and rdata of a message from elsewhere |
//! | [`NameBuf`] | no, 255 bytes inline | no | configuration, names that are put together |
//!
//! All three compare, hash and order without letter case and keep the case they were given.

mod borrowed;
pub mod label;
mod owned;
mod packed;
mod text;

pub use borrowed::{Labels, Name};
pub use label::LABEL_LEN_MAX;
pub use owned::NameBuf;
pub use packed::{PackedLabels, PackedName};

pub(crate) use borrowed::wire_len;
pub(crate) use packed::skip;

/// Longest name in wire form, its root label included (RFC 1035 §3.1).
pub const NAME_LEN_MAX: usize = 255;

/// Most labels in a name, the root not counted: 127 of one byte each fill it.
pub const LABELS_MAX: usize = 127;
