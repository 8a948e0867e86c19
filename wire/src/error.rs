//! What can go wrong: bytes that are no DNS, text that is no name, a reply that does not fit.

use core::fmt;

/// Why bytes did not parse, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The rule that was broken.
    pub reason: Reason,
    /// Offset of the offending byte from the start of what was parsed.
    pub at: usize,
}

impl ParseError {
    pub(crate) const fn new(reason: Reason, at: usize) -> Self {
        Self { reason, at }
    }

    /// The same when what was parsed starts behind `offset` other bytes.
    pub(crate) const fn behind(self, offset: usize) -> Self {
        Self {
            reason: self.reason,
            at: self.at.saturating_add(offset),
        }
    }
}

/// The rule that bytes broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The bytes end too early.
    Short,
    /// Bytes are left over where nothing more may follow.
    Trailing,
    /// A label type of RFC 1035 §4.1.4 that is neither a label nor, where one may stand, a pointer.
    LabelType,
    /// A name over 255 bytes.
    NameLong,
    /// A compression pointer that does not point backwards to a name.
    Pointer,
    /// More or fewer entries than the header or the type allows.
    Count,
    /// The rdata does not have the shape of its type.
    Rdata,
    /// An EDNS option runs over the end of its record, or its data break the option's own rules.
    Option,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            Reason::Short => "data end too early",
            Reason::Trailing => "data left over",
            Reason::LabelType => "unknown label type",
            Reason::NameLong => "name over 255 bytes",
            Reason::Pointer => "bad compression pointer",
            Reason::Count => "wrong number of entries",
            Reason::Rdata => "malformed rdata",
            Reason::Option => "malformed EDNS option",
        };
        write!(f, "{reason} at byte {}", self.at)
    }
}

impl core::error::Error for ParseError {}

/// Why a text or a list of labels is no domain name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// No text at all; the root is written `.`.
    Empty,
    /// Two dots in a row, a dot in front, or a label of no bytes.
    LabelEmpty,
    /// A label over 63 bytes.
    LabelLong,
    /// A name over 255 bytes in wire form.
    NameLong,
    /// A backslash not followed by one other character or three digits up to 255.
    Escape,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty name",
            Self::LabelEmpty => "empty label",
            Self::LabelLong => "label over 63 bytes",
            Self::NameLong => "name over 255 bytes",
            Self::Escape => "bad escape",
        })
    }
}

impl core::error::Error for NameError {}

/// What was to be written does not fit in the room that is left; nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room left")
    }
}

impl core::error::Error for Full {}
