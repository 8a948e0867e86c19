//! Record types and classes: any number is one, some have a mnemonic.

use core::fmt;
use core::str::FromStr;

/// A 16-bit code with a table of mnemonics; numbers without one are written as `PREFIX123` (RFC 3597 §5).
macro_rules! codes {
    ($(#[$doc:meta])* $code:ident, $prefix:literal, $($name:ident $(= $text:literal)? $value:literal)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $code(pub u16);

        #[allow(missing_docs, reason = "the names are the IANA mnemonics and say it all")]
        impl $code {
            $(pub const $name: Self = Self($value);)*
        }

        impl $code {
            const TABLE: &'static [(&'static str, u16)] =
                &[$((codes!(@text $name $($text)?), $value)),*];

            /// The mnemonic, where there is one.
            pub const fn mnemonic(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(codes!(@text $name $($text)?)),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.mnemonic() {
                    Some(text) => f.pad(text),
                    None => write!(f, concat!($prefix, "{}"), self.0),
                }
            }
        }

        impl fmt::Debug for $code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $code {
            type Err = UnknownCode;

            /// Reads a mnemonic or `PREFIX123`, in any letter case.
            fn from_str(text: &str) -> Result<Self, UnknownCode> {
                if let Some(&(_, value)) = Self::TABLE.iter().find(|(known, _)| text.eq_ignore_ascii_case(known)) {
                    return Ok(Self(value));
                }
                numbered(text, $prefix).map(Self).ok_or(UnknownCode)
            }
        }
    };
    (@text $name:ident) => { stringify!($name) };
    (@text $name:ident $text:literal) => { $text };
}

codes! {
    /// A record or question type.
    Rtype, "TYPE",
    A 1 NS 2 MD 3 MF 4 CNAME 5 SOA 6 MB 7 MG 8 MR 9 NULL 10 WKS 11 PTR 12 HINFO 13 MINFO 14 MX 15 TXT 16 RP 17
    AFSDB 18 X25 19 ISDN 20 RT 21 SIG 24 KEY 25 PX 26 GPOS 27 AAAA 28 LOC 29 NXT 30 SRV 33 NAPTR 35 KX 36 CERT 37
    A6 38 DNAME 39 OPT 41 APL 42 DS 43 SSHFP 44 IPSECKEY 45 RRSIG 46 NSEC 47 DNSKEY 48 DHCID 49 NSEC3 50
    NSEC3PARAM 51 TLSA 52 SMIMEA 53 HIP 55 CDS 59 CDNSKEY 60 OPENPGPKEY 61 CSYNC 62 ZONEMD 63 SVCB 64 HTTPS 65
    SPF 99 NID 104 L32 105 L64 106 LP 107 EUI48 108 EUI64 109 TKEY 249 TSIG 250 IXFR 251 AXFR 252 MAILB 253
    MAILA 254 ANY 255 URI 256 CAA 257
}

codes! {
    /// A record or question class.
    Rclass, "CLASS",
    IN 1 CH 3 HS 4 NONE 254 ANY 255
}

impl Rtype {
    /// Whether this can only be asked for, or rides in a message without being data: OPT, TSIG, transfers, ANY and the
    /// other numbers of RFC 6895 §3.1 from 128 to 255.
    pub const fn is_meta(self) -> bool {
        self.0 == Self::OPT.0 || (self.0 >= 128 && self.0 <= 255)
    }
}

/// The text is no mnemonic of a type or class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownCode;

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown type or class")
    }
}

impl core::error::Error for UnknownCode {}

fn numbered(text: &str, prefix: &str) -> Option<u16> {
    let (head, digits) = text.split_at_checked(prefix.len())?;
    if !head.eq_ignore_ascii_case(prefix) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn every_number_survives_its_text() {
        for value in 0..=u16::MAX {
            assert_eq!(Rtype(value).to_string().parse(), Ok(Rtype(value)));
            assert_eq!(Rclass(value).to_string().parse(), Ok(Rclass(value)));
        }
    }

    #[test]
    fn text_in_any_letter_case() {
        assert_eq!("aaaa".parse(), Ok(Rtype::AAAA));
        assert_eq!("type65280".parse(), Ok(Rtype(65280)));
        assert_eq!("Type1".parse(), Ok(Rtype::A));
        assert_eq!("in".parse(), Ok(Rclass::IN));
        for text in ["", "TYPE", "TYPE65536", "TYPE+1", "nope"] {
            assert_eq!(text.parse::<Rtype>(), Err(UnknownCode), "{text}");
        }
    }
}
