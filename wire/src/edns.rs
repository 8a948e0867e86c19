//! The OPT record of EDNS(0): what one side can do, and options (RFC 6891).
//!
//! ```text
//!   name 0 | type 41 | class: UDP size | TTL: ext. rcode, version, DO, 15 bits of Z | rdlength | (code, length, data)*
//! ```

use core::iter::FusedIterator;

use crate::error::{ParseError, Reason};
use crate::header::Rcode;
use crate::reader::Reader;
use crate::rtype::Rtype;

/// Name server identifier (RFC 5001).
pub const NSID: u16 = 3;
/// Client subnet (RFC 7871).
pub const ECS: u16 = 8;
/// Zone expiry (RFC 7314).
pub const EXPIRE: u16 = 9;
/// DNS cookies (RFC 7873).
pub const COOKIE: u16 = 10;
/// Idle time of a TCP connection (RFC 7828).
pub const KEEPALIVE: u16 = 11;
/// Padding (RFC 7830).
pub const PADDING: u16 = 12;
/// Extended DNS error (RFC 8914): a 16-bit info code and text.
pub const EDE: u16 = 15;
/// SkyDNS's mark on a question that a stub zone sent on: one byte, 1. From the range for local use.
pub const STUB: u16 = 65_011;

/// Bytes of an OPT record without options.
pub const OPT_LEN: usize = 11;
/// Bytes in front of an option's data.
pub const OPTION_HEAD_LEN: usize = 4;
/// The only version there is.
pub const VERSION: u8 = 0;
/// What every UDP client can take, with or without EDNS (RFC 6891 §6.2.3).
pub const UDP_SIZE_MIN: u16 = 512;

/// Info codes of extended DNS errors (RFC 8914 §4) that a server has a use for.
pub mod ede {
    /// No code fits.
    pub const OTHER: u16 = 0;
    /// Stale data were served.
    pub const STALE_ANSWER: u16 = 3;
    /// The failure comes from the cache.
    pub const CACHED_ERROR: u16 = 13;
    /// The server has not got its data yet.
    pub const NOT_READY: u16 = 14;
    /// The operator of the server blocked the name.
    pub const BLOCKED: u16 = 15;
    /// The name is one that this client gets no answer for.
    pub const FILTERED: u16 = 17;
    /// The client may not ask this here.
    pub const PROHIBITED: u16 = 18;
    /// A stale NXDOMAIN was served.
    pub const STALE_NXDOMAIN: u16 = 19;
    /// The server has no authority over the name.
    pub const NOT_AUTHORITATIVE: u16 = 20;
    /// No server that should know could be reached.
    pub const NO_REACHABLE_AUTHORITY: u16 = 22;
    /// The network failed.
    pub const NETWORK_ERROR: u16 = 23;
}

/// An OPT record as it was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opt<'p> {
    /// The size the sender can take over UDP as it stands there, also below 512.
    pub udp_size: u16,
    /// The version of EDNS.
    pub version: u8,
    /// DO: the sender wants signatures.
    pub dnssec_ok: bool,
    /// The upper eight bits of the rcode.
    pub ext_rcode: u8,
    /// Whole options, checked when parsed.
    options: &'p [u8],
}

impl<'p> Opt<'p> {
    /// From the three fields of the record; `at` is where its rdata start, for errors.
    #[inline]
    pub(crate) fn parse(rclass: u16, ttl: u32, rdata: &'p [u8], at: usize) -> Result<Self, ParseError> {
        check_options(rdata, at)?;
        let [ext_rcode, version, flags, _] = ttl.to_be_bytes();
        Ok(Self {
            udp_size: rclass,
            version,
            dnssec_ok: flags & 0x80 != 0,
            ext_rcode,
            options: rdata,
        })
    }

    /// The size that counts: less than 512 means 512 (RFC 6891 §6.2.5).
    pub fn udp_size_usable(&self) -> u16 {
        self.udp_size.max(UDP_SIZE_MIN)
    }

    /// The options in their order.
    pub fn options(&self) -> Options<'p> {
        Options::new(self.options)
    }

    /// The data of the first option with this code.
    pub fn option(&self, code: u16) -> Option<&'p [u8]> {
        self.options().find(|option| option.0 == code).map(|option| option.1)
    }
}

/// An OPT record of version 0 up to its options, which are so many bytes (RFC 6891 §6.1.2).
#[inline(always)]
pub const fn opt_front(udp_size: u16, rcode: Rcode, dnssec_ok: bool, options_len: u16) -> [u8; OPT_LEN] {
    let [rtype_high, rtype_low] = Rtype::OPT.0.to_be_bytes();
    let [size_high, size_low] = udp_size.to_be_bytes();
    let [len_high, len_low] = options_len.to_be_bytes();
    [
        0,
        rtype_high,
        rtype_low,
        size_high,
        size_low,
        rcode.extended(),
        VERSION,
        (dnssec_ok as u8) << 7,
        0,
        len_high,
        len_low,
    ]
}

/// Codes and data of the options of an OPT record.
#[derive(Clone, Debug)]
pub struct Options<'p>(Reader<'p>);

impl<'p> Options<'p> {
    /// Those that stand in such rdata; they end with the first that does not parse.
    pub const fn new(rdata: &'p [u8]) -> Self {
        Self(Reader::new(rdata))
    }
}

impl<'p> Iterator for Options<'p> {
    type Item = (u16, &'p [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let code = self.0.u16().ok()?;
        let len = self.0.u16().ok()?;
        Some((code, self.0.take(usize::from(len)).ok()?))
    }
}

impl FusedIterator for Options<'_> {}

fn check_options(rdata: &[u8], at: usize) -> Result<(), ParseError> {
    if rdata.is_empty() {
        return Ok(());
    }
    let mut reader = Reader::new(rdata);
    while !reader.is_empty() {
        let error = ParseError::new(Reason::Option, at.wrapping_add(reader.at()));
        let mut option = || Ok::<_, ParseError>((reader.u16()?, reader.u16()?));
        let (code, len) = option().map_err(|_| error)?;
        let data = reader.take(usize::from(len)).map_err(|_| error)?;
        if code == ECS && !is_client_subnet(data) {
            return Err(error);
        }
    }
    Ok(())
}

/// RFC 7871 §6: family, two prefix lengths within it, and exactly as many address bytes as the first one needs.
/// Family 0 goes with an empty prefix: a client that wants no subnet passed on.
fn is_client_subnet(data: &[u8]) -> bool {
    let Some(([family_high, family_low, source, scope], address)) = data.split_first_chunk::<4>() else {
        return false;
    };
    let bits_max = match u16::from_be_bytes([*family_high, *family_low]) {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return false,
    };
    *source <= bits_max && *scope <= bits_max && address.len() == usize::from(source.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rdata: &[u8]) -> Result<Opt<'_>, ParseError> {
        Opt::parse(1232, 0x0100_8000, rdata, 40)
    }

    #[test]
    fn fields_and_options() {
        let opt = parse(&[0, 3, 0, 0, 0, 10, 0, 2, 7, 8, 0, 3, 0, 1, 9]).unwrap();
        assert_eq!(
            (opt.udp_size, opt.version, opt.dnssec_ok, opt.ext_rcode),
            (1232, 0, true, 1)
        );
        assert!(opt.options().eq([(3, &[][..]), (10, &[7, 8]), (3, &[9])]));
        assert_eq!(opt.option(NSID), Some(&[][..]));
        assert_eq!(opt.option(COOKIE), Some(&[7, 8][..]));
        assert_eq!(opt.option(EDE), None);
    }

    #[test]
    fn small_sizes_mean_512() {
        assert_eq!(Opt::parse(0, 0, &[], 0).unwrap().udp_size_usable(), 512);
        assert_eq!(Opt::parse(513, 0, &[], 0).unwrap().udp_size_usable(), 513);
    }

    #[test]
    fn options_that_run_over_the_end() {
        for rdata in [&[0][..], &[0, 3, 0], &[0, 3, 0, 1], &[0, 3, 0, 0, 0]] {
            assert_eq!(parse(rdata).unwrap_err().reason, Reason::Option, "{rdata:?}");
        }
        assert_eq!(parse(&[0, 3, 0, 0, 0]).unwrap_err().at, 44);
    }

    #[test]
    fn client_subnets() {
        let check = |data: &[u8], expected| assert_eq!(is_client_subnet(data), expected, "{data:?}");
        check(&[0, 1, 24, 0, 192, 0, 2], true);
        check(&[0, 1, 25, 0, 192, 0, 2, 128], true);
        check(&[0, 1, 0, 0], true);
        check(&[0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0], true);
        check(&[0, 0, 0, 0], true);
        check(&[0, 0, 8, 0, 10], false);
        check(&[0, 3, 0, 0], false);
        check(&[0, 1, 33, 0, 1, 2, 3, 4, 5], false);
        check(&[0, 1, 24, 33, 192, 0, 2], false);
        check(&[0, 2, 129, 0], false);
        check(&[0, 1, 24, 0, 192, 0], false);
        check(&[0, 1, 24, 0, 192, 0, 2, 0], false);
        check(&[0, 1, 24], false);
    }
}
