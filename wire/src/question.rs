//! What is asked.

use core::fmt;

use crate::error::ParseError;
use crate::name::Name;
use crate::reader::Reader;
use crate::rtype::{Rclass, Rtype};

/// A question: name, type and class (RFC 1035 §4.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question<'p> {
    /// The name asked about; letter case does not count when questions are compared.
    pub name: Name<'p>,
    /// The type asked for.
    pub rtype: Rtype,
    /// The class asked for.
    pub rclass: Rclass,
}

impl<'p> Question<'p> {
    /// The question in front of `bytes`, and what follows it. The first question of a message has nothing before it
    /// that a pointer could lead to, so its name is never compressed.
    pub fn split_wire(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), ParseError> {
        let mut reader = Reader::new(bytes);
        let question = Self {
            name: reader.name()?,
            rtype: Rtype(reader.u16()?),
            rclass: Rclass(reader.u16()?),
        };
        Ok((question, reader.rest()))
    }
}

impl fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.rclass, self.rtype)
    }
}
