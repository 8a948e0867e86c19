//! SVCB and HTTPS: how to reach a service (RFC 9460).
//!
//! ```text
//!   priority | target | (key, length, value)*      keys strictly ascending, §2.2
//! ```

use core::fmt::{self, Write as _};
use core::iter::FusedIterator;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::text::{write_base64, write_string};
use super::writer::write;
use crate::error::{Full, ParseError, Reason};
use crate::name::Name;
use crate::reader::Reader;

/// The keys that have a name (RFC 9460 §14.3.2, RFC 9461 §5).
pub mod svc_key {
    /// Keys that a client must understand.
    pub const MANDATORY: u16 = 0;
    /// Protocols of the upper layer.
    pub const ALPN: u16 = 1;
    /// The default protocol is not there.
    pub const NO_DEFAULT_ALPN: u16 = 2;
    /// Another port.
    pub const PORT: u16 = 3;
    /// IPv4 addresses of the target.
    pub const IPV4HINT: u16 = 4;
    /// Configuration of Encrypted ClientHello.
    pub const ECH: u16 = 5;
    /// IPv6 addresses of the target.
    pub const IPV6HINT: u16 = 6;
    /// URI template of a DoH server.
    pub const DOHPATH: u16 = 7;
}

/// The data of a SVCB or HTTPS record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Svcb<'p> {
    /// 0: an alias; else the lowest is tried first.
    pub priority: u16,
    /// The host; the root stands for the owner.
    pub target: Name<'p>,
    /// Whole parameters, keys strictly ascending.
    params: &'p [u8],
}

impl<'p> Svcb<'p> {
    /// Reads all of `rdata`.
    pub fn parse(rdata: &'p [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(rdata);
        let (priority, target) = (reader.u16()?, reader.name()?);
        let params = reader.rest();
        let mut last = None;
        while !reader.is_empty() {
            let malformed = reader.error(Reason::Rdata);
            let (key, _) = param(&mut reader).map_err(|_| malformed)?;
            if last.is_some_and(|last| last >= key) {
                return Err(malformed);
            }
            last = Some(key);
        }
        Ok(Self {
            priority,
            target,
            params,
        })
    }

    /// Keys and values.
    pub fn params(&self) -> SvcParams<'p> {
        SvcParams(Reader::new(self.params))
    }

    /// Writes them to the front of `out`; gives their length.
    pub fn build(&self, out: &mut [u8]) -> Result<usize, Full> {
        write(out, |out| {
            out.u16(self.priority)?;
            out.bytes(self.target.as_bytes())?;
            out.bytes(self.params)
        })
    }

    /// Writes rdata with these parameters, which must come with their keys ascending.
    pub fn build_params<'a>(
        priority: u16,
        target: Name<'_>,
        params: impl IntoIterator<Item = (u16, &'a [u8])>,
        out: &mut [u8],
    ) -> Result<usize, Full> {
        write(out, |out| {
            out.u16(priority)?;
            out.bytes(target.as_bytes())?;
            params.into_iter().try_for_each(|(key, value)| {
                out.u16(key)?;
                out.u16(u16::try_from(value.len()).map_err(|_| Full)?)?;
                out.bytes(value)
            })
        })
    }
}

impl fmt::Display for Svcb<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.priority, self.target)?;
        self.params().try_for_each(|(key, value)| {
            f.write_char(' ')?;
            write_param(key, value, f)
        })
    }
}

/// The parameters of a SVCB or HTTPS record.
#[derive(Clone, Debug)]
pub struct SvcParams<'p>(Reader<'p>);

impl<'p> Iterator for SvcParams<'p> {
    type Item = (u16, &'p [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        param(&mut self.0).ok()
    }
}

impl FusedIterator for SvcParams<'_> {}

fn param<'p>(reader: &mut Reader<'p>) -> Result<(u16, &'p [u8]), ParseError> {
    let (key, len) = (reader.u16()?, reader.u16()?);
    Ok((key, reader.take(len.into())?))
}

fn write_key(key: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(match key {
        svc_key::MANDATORY => "mandatory",
        svc_key::ALPN => "alpn",
        svc_key::NO_DEFAULT_ALPN => "no-default-alpn",
        svc_key::PORT => "port",
        svc_key::IPV4HINT => "ipv4hint",
        svc_key::ECH => "ech",
        svc_key::IPV6HINT => "ipv6hint",
        svc_key::DOHPATH => "dohpath",
        _ => return write!(f, "key{key}"),
    })
}

/// A value that does not have the shape of its key is shown as a string.
fn write_param(key: u16, value: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write_key(key, f)?;
    if value.is_empty() {
        return Ok(());
    }
    f.write_char('=')?;
    match key {
        svc_key::MANDATORY if value.len().is_multiple_of(2) => write_list(value.as_chunks::<2>().0, f, |key, f| {
            write_key(u16::from_be_bytes(*key), f)
        }),
        svc_key::ALPN if are_strings(value) => write_protocols(value, f),
        svc_key::PORT => match value {
            &[high, low] => write!(f, "{}", u16::from_be_bytes([high, low])),
            _ => write_string(value, f),
        },
        svc_key::IPV4HINT if value.len().is_multiple_of(4) => write_list(value.as_chunks::<4>().0, f, |bytes, f| {
            write!(f, "{}", Ipv4Addr::from(*bytes))
        }),
        svc_key::IPV6HINT if value.len().is_multiple_of(16) => write_list(value.as_chunks::<16>().0, f, |bytes, f| {
            write!(f, "{}", Ipv6Addr::from(*bytes))
        }),
        svc_key::ECH => write_base64(value, f),
        _ => write_string(value, f),
    }
}

fn write_list<T>(
    items: &[T],
    f: &mut fmt::Formatter<'_>,
    mut write: impl FnMut(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(i, item)| {
        if i > 0 {
            f.write_char(',')?;
        }
        write(item, f)
    })
}

fn are_strings(value: &[u8]) -> bool {
    super::Txt::parse(value).is_ok()
}

/// Protocol names in quotes with commas between them. A comma or backslash inside a name is escaped for the list, and
/// that backslash once more for the string (RFC 9460 appendix A.1).
fn write_protocols(value: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    let mut reader = Reader::new(value);
    let mut first = true;
    while let Ok(protocol) = reader.string() {
        if !first {
            f.write_char(',')?;
        }
        first = false;
        protocol.iter().try_for_each(|&byte| match byte {
            b',' => f.write_str("\\\\,"),
            b'\\' => f.write_str("\\\\\\\\"),
            b'"' => f.write_str("\\\""),
            b' '..=b'~' => f.write_char(char::from(byte)),
            _ => write!(f, "\\{byte:03}"),
        })?;
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;
    use std::string::ToString as _;

    #[test]
    fn there_and_back() {
        let target = NameBuf::from_text("svc.example").unwrap();
        let params: [(u16, &[u8]); 8] = [
            (svc_key::MANDATORY, &[0, 1, 0, 4]),
            (svc_key::ALPN, b"\x02h2\x05h3,\"\\"),
            (svc_key::NO_DEFAULT_ALPN, b""),
            (svc_key::PORT, &[0x20, 0xfb]),
            (svc_key::IPV4HINT, &[192, 0, 2, 1, 192, 0, 2, 2]),
            (svc_key::ECH, b"fo"),
            (svc_key::DOHPATH, b"/dns-query{?dns}"),
            (667, b"hello \xd2"),
        ];
        let mut out = [0; 128];
        let len = Svcb::build_params(1, target.as_name(), params, &mut out).unwrap();
        let svcb = Svcb::parse(&out[..len]).unwrap();
        assert!(svcb.params().eq(params));
        let text = concat!(
            r#"1 svc.example. mandatory=alpn,ipv4hint alpn="h2,h3\\,\"\\\\" no-default-alpn port=8443 "#,
            r#"ipv4hint=192.0.2.1,192.0.2.2 ech=Zm8= dohpath="/dns-query{?dns}" key667="hello \210""#
        );
        assert_eq!(svcb.to_string(), text);
        let mut again = [0; 128];
        assert_eq!(svcb.build(&mut again), Ok(len));
        assert_eq!(out, again);
    }

    #[test]
    fn an_alias_has_no_parameters() {
        assert_eq!(Svcb::parse(b"\0\0\x01a\0").unwrap().to_string(), "0 a.");
    }

    #[test]
    fn keys_ascend() {
        let check = |params: &[u8]| {
            let mut rdata = std::vec::Vec::from(*b"\0\x01\0");
            rdata.extend_from_slice(params);
            Svcb::parse(&rdata).map(|_| ()).map_err(|error| error.reason)
        };
        assert_eq!(check(&[0, 1, 0, 0, 0, 2, 0, 0]), Ok(()));
        assert_eq!(check(&[0, 1, 0, 0, 0, 1, 0, 0]), Err(Reason::Rdata));
        assert_eq!(check(&[0, 2, 0, 0, 0, 1, 0, 0]), Err(Reason::Rdata));
        assert_eq!(check(&[0, 1, 0]), Err(Reason::Rdata));
        assert_eq!(check(&[0, 1, 0, 1]), Err(Reason::Rdata));
    }
}
