//! The twelve bytes in front of every message.
//!
//! ```text
//!   0                               16                              32
//!   |              id               |QR| opcode  |AA|TC|RD|RA| Z|AD|CD|  rcode  |
//!   |  questions  |  answers  |  authority records  |  additional records  |         RFC 1035 §4.1.1, RFC 4035 §3.2
//! ```

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const HEADER_LEN: usize = 12;

/// The header as it stands in the message.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Chosen by the one who asks, repeated in the reply.
    pub id: U16,
    /// The second word; see [`Header::flags`].
    pub flags: U16,
    /// Questions.
    pub questions: U16,
    /// Records of the answer section.
    pub answers: U16,
    /// Records of the authority section.
    pub authorities: U16,
    /// Records of the additional section.
    pub additionals: U16,
}

impl Header {
    /// The header of a message, unless it is shorter than one.
    pub fn of(packet: &[u8]) -> Option<&Self> {
        Self::ref_from_prefix(packet).ok().map(|(header, _)| header)
    }

    /// The second word.
    pub fn flags(&self) -> Flags {
        Flags(self.flags.get())
    }
}

/// The second word of the header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

macro_rules! bits {
    ($($(#[$doc:meta])* $get:ident $with:ident $bit:literal)*) => {
        impl Flags {
            $(
                $(#[$doc])*
                #[inline]
                pub const fn $get(self) -> bool {
                    self.0 & (1 << $bit) != 0
                }

                #[doc = concat!("The same with [`", stringify!($get), "`](Self::", stringify!($get), ") as said.")]
                #[inline]
                pub const fn $with(self, set: bool) -> Self {
                    Self(self.0 & !(1 << $bit) | (set as u16) << $bit)
                }
            )*
        }
    };
}

bits! {
    /// This is a reply (RFC 1035 §4.1.1).
    qr with_qr 15
    /// The answer comes from the zone's own data (RFC 1035 §4.1.1).
    aa with_aa 10
    /// Records are missing for want of room (RFC 2181 §9).
    tc with_tc 9
    /// The client wants recursion (RFC 1035 §4.1.1).
    rd with_rd 8
    /// The server offers recursion (RFC 1035 §4.1.1).
    ra with_ra 7
    /// Must be zero (RFC 1035 §4.1.1).
    z with_z 6
    /// The data are authentic (RFC 6840 §5.7 and §5.8).
    ad with_ad 5
    /// The client checks signatures itself (RFC 4035 §3.2.2).
    cd with_cd 4
}

impl Flags {
    /// What kind of request this is, or answers.
    #[inline]
    pub const fn opcode(self) -> Opcode {
        Opcode(((self.0 >> 11) & 15) as u8)
    }

    /// The same with another opcode.
    #[inline]
    pub const fn with_opcode(self, opcode: Opcode) -> Self {
        Self((self.0 & !(15 << 11)) | (((opcode.0 & 15) as u16) << 11))
    }

    /// The low four bits of the rcode; an OPT has the rest.
    #[inline]
    pub const fn rcode(self) -> Rcode {
        Rcode(self.0 & 15)
    }

    /// The same with the low four bits of another rcode.
    #[inline]
    pub const fn with_rcode(self, rcode: Rcode) -> Self {
        Self((self.0 & !15) | (rcode.0 & 15))
    }

    /// The flags a reply starts from: QR set, the opcode kept, RD and CD copied when it is QUERY, all else clear.
    #[inline]
    pub const fn reply(self) -> Self {
        const OPCODE: u16 = 15 << 11;
        const RD_CD: u16 = 1 << 8 | 1 << 4;
        let kept = if self.0 & OPCODE == 0 {
            self.0 & RD_CD
        } else {
            self.0 & OPCODE
        };
        Self(1 << 15 | kept)
    }
}

impl fmt::Debug for Flags {
    /// As dig shows them: opcode, rcode, then the bits that are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.opcode(), self.rcode())?;
        let bits = [
            (self.qr(), "qr"),
            (self.aa(), "aa"),
            (self.tc(), "tc"),
            (self.rd(), "rd"),
            (self.ra(), "ra"),
            (self.z(), "z"),
            (self.ad(), "ad"),
            (self.cd(), "cd"),
        ];
        bits.iter()
            .filter(|(set, _)| *set)
            .try_for_each(|(_, text)| write!(f, " {text}"))
    }
}

/// The kind of a request, four bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Opcode(pub u8);

#[allow(missing_docs, reason = "the names are the IANA mnemonics and say it all")]
impl Opcode {
    pub const QUERY: Self = Self(0);
    pub const IQUERY: Self = Self(1);
    pub const STATUS: Self = Self(2);
    pub const NOTIFY: Self = Self(4);
    pub const UPDATE: Self = Self(5);
    pub const DSO: Self = Self(6);
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match *self {
            Self::QUERY => "QUERY",
            Self::IQUERY => "IQUERY",
            Self::STATUS => "STATUS",
            Self::NOTIFY => "NOTIFY",
            Self::UPDATE => "UPDATE",
            Self::DSO => "DSO",
            Self(other) => return write!(f, "OPCODE{other}"),
        })
    }
}

/// The outcome of a request: twelve bits, of which the header holds the low four (RFC 6891 §6.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Rcode(pub u16);

#[allow(missing_docs, reason = "the names are the IANA mnemonics and say it all")]
impl Rcode {
    pub const NOERROR: Self = Self(0);
    pub const FORMERR: Self = Self(1);
    pub const SERVFAIL: Self = Self(2);
    pub const NXDOMAIN: Self = Self(3);
    pub const NOTIMP: Self = Self(4);
    pub const REFUSED: Self = Self(5);
    pub const YXDOMAIN: Self = Self(6);
    pub const YXRRSET: Self = Self(7);
    pub const NXRRSET: Self = Self(8);
    pub const NOTAUTH: Self = Self(9);
    pub const NOTZONE: Self = Self(10);
    pub const BADVERS: Self = Self(16);
    pub const BADKEY: Self = Self(17);
    pub const BADTIME: Self = Self(18);
    pub const BADCOOKIE: Self = Self(23);
}

impl Rcode {
    /// The upper eight bits, which stand in the OPT.
    #[inline]
    pub const fn extended(self) -> u8 {
        (self.0 >> 4) as u8
    }

    /// The mnemonic, where there is one.
    pub const fn mnemonic(self) -> Option<&'static str> {
        Some(match self {
            Self::NOERROR => "NOERROR",
            Self::FORMERR => "FORMERR",
            Self::SERVFAIL => "SERVFAIL",
            Self::NXDOMAIN => "NXDOMAIN",
            Self::NOTIMP => "NOTIMP",
            Self::REFUSED => "REFUSED",
            Self::YXDOMAIN => "YXDOMAIN",
            Self::YXRRSET => "YXRRSET",
            Self::NXRRSET => "NXRRSET",
            Self::NOTAUTH => "NOTAUTH",
            Self::NOTZONE => "NOTZONE",
            Self::BADVERS => "BADVERS",
            Self::BADKEY => "BADKEY",
            Self::BADTIME => "BADTIME",
            Self::BADCOOKIE => "BADCOOKIE",
            _ => return None,
        })
    }

    /// The rcode with a mnemonic, in any letter case; also those that only TSIG and TKEY use, and an old misspelling.
    pub fn from_mnemonic(text: &str) -> Option<Self> {
        const OTHERS: [(&str, u16); 6] = [
            ("NOTIMPL", 4),
            ("BADSIG", 16),
            ("BADMODE", 19),
            ("BADNAME", 20),
            ("BADALG", 21),
            ("BADTRUNC", 22),
        ];
        let named = (0..=Self::BADCOOKIE.0).map(Self);
        named
            .filter_map(|rcode| Some((rcode.mnemonic()?, rcode.0)))
            .chain(OTHERS)
            .find(|(known, _)| text.eq_ignore_ascii_case(known))
            .map(|(_, number)| Self(number))
    }
}

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic() {
            Some(text) => f.pad(text),
            None => write!(f, "RCODE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn rcodes_have_names() {
        for number in 0..=u16::from(u8::MAX) {
            let rcode = Rcode(number);
            if let Some(name) = rcode.mnemonic() {
                assert_eq!(Rcode::from_mnemonic(name), Some(rcode));
            }
        }
        assert_eq!(Rcode::from_mnemonic("nxDomain"), Some(Rcode::NXDOMAIN));
        assert_eq!(Rcode::from_mnemonic("badsig"), Some(Rcode::BADVERS));
        for text in ["", "RCODE3", "3", "NXDOMAINS"] {
            assert_eq!(Rcode::from_mnemonic(text), None, "{text}");
        }
    }

    #[test]
    fn every_bit_has_one_name() {
        let mut seen = 0;
        for flags in [
            Flags(0).with_qr(true),
            Flags(0).with_aa(true),
            Flags(0).with_tc(true),
            Flags(0).with_rd(true),
            Flags(0).with_ra(true),
            Flags(0).with_z(true),
            Flags(0).with_ad(true),
            Flags(0).with_cd(true),
            Flags(0).with_opcode(Opcode(15)),
            Flags(0).with_rcode(Rcode(15)),
        ] {
            assert_eq!(seen & flags.0, 0);
            seen |= flags.0;
        }
        assert_eq!(seen, u16::MAX);
        assert_eq!(Flags(u16::MAX).with_tc(false).with_rcode(Rcode::REFUSED).0, 0xfdf5);
    }

    #[test]
    fn a_reply_copies_rd_and_cd_of_a_query_only() {
        assert_eq!(Flags(0x7fff & !(15 << 11)).reply(), Flags(0x8110));
        let notify = Flags(0x0110).with_opcode(Opcode::NOTIFY);
        assert_eq!(notify.reply(), Flags(0x8000).with_opcode(Opcode::NOTIFY));
    }

    #[test]
    fn shown_as_dig_does() {
        assert_eq!(format!("{:?}", Flags(0x8583)), "QUERY NXDOMAIN qr aa rd ra");
        assert_eq!(format!("{} {}", Opcode(7), Rcode(300)), "OPCODE7 RCODE300");
    }

    #[test]
    fn read_in_place() {
        let header = *Header::of(&[0, 7, 1, 0, 0, 1, 0, 2, 0, 3, 0, 4, 99]).unwrap();
        assert_eq!(header.id.get(), 7);
        assert!(header.flags().rd());
        assert_eq!(header.additionals.get(), 4);
        assert_eq!(Header::of(&[0; 11]), None);
    }
}
