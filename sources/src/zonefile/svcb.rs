//! The parameters of SVCB and HTTPS records (RFC 9460 §2.1 and appendix A).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use domain::utils::base64;

use super::scan::Token;
use super::text;

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6_HINT: u16 = 6;
const DOH_PATH: u16 = 7;
const OHTTP: u16 = 8;

const KEYS: [(&str, u16); 9] = [
    ("mandatory", MANDATORY),
    ("alpn", ALPN),
    ("no-default-alpn", NO_DEFAULT_ALPN),
    ("port", PORT),
    ("ipv4hint", IPV4_HINT),
    ("ech", ECH),
    ("ipv6hint", IPV6_HINT),
    ("dohpath", DOH_PATH),
    ("ohttp", OHTTP),
];

/// Reads `key`, `key=value` and `key="value"` in any order; writes them in the order of their numbers.
pub(super) fn params(tokens: &[Token<'_>], data: &mut Vec<u8>) -> Result<(), String> {
    let mut params = BTreeMap::new();
    let mut tokens = tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        let (key, mut value) = match token.text.iter().position(|&byte| byte == b'=') {
            Some(at) => (&token.text[..at], Some(&token.text[at + 1..])),
            None => (token.text, None),
        };
        if value == Some(b"")
            && let Some(quoted) = tokens.next_if(|next| next.glued && next.quoted)
        {
            value = Some(quoted.text);
        }
        let name = String::from_utf8_lossy(key);
        let key = key_number(&name).ok_or_else(|| format!("unknown parameter \"{}\"", key.escape_ascii()))?;
        let value = value.map(text::unescape).transpose()?;
        let value = value_of(key, value.as_deref()).map_err(|why| format!("{name}: {why}"))?;
        if params.insert(key, value).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    if let Some(mandatory) = params.get(&MANDATORY) {
        let missing = mandatory
            .chunks_exact(2)
            .map(|key| u16::from_be_bytes([key[0], key[1]]));
        if missing.into_iter().any(|key| !params.contains_key(&key)) {
            return Err("a mandatory parameter is not given".to_owned());
        }
    }
    for (key, value) in params {
        let length = u16::try_from(value.len()).map_err(|_| "a value is too long".to_owned())?;
        data.extend(key.to_be_bytes());
        data.extend(length.to_be_bytes());
        data.extend(value);
    }
    Ok(())
}

fn key_number(name: &str) -> Option<u16> {
    if let Some(&(_, key)) = KEYS.iter().find(|(known, _)| *known == name) {
        return Some(key);
    }
    let digits = name.strip_prefix("key")?;
    // No leading zeros; 65535 is reserved as invalid.
    let key: u16 = text::number(digits.as_bytes(), "key").ok()?;
    (key.to_string() == digits && key != u16::MAX).then_some(key)
}

fn value_of(key: u16, value: Option<&[u8]>) -> Result<Vec<u8>, String> {
    if matches!(key, NO_DEFAULT_ALPN | OHTTP) {
        return if value.is_none_or(<[u8]>::is_empty) {
            Ok(Vec::new())
        } else {
            Err("takes no value".to_owned())
        };
    }
    let value = value.unwrap_or_default();
    match key {
        MANDATORY => {
            let mut keys = Vec::new();
            for name in value.split(|&byte| byte == b',') {
                let key = key_number(&String::from_utf8_lossy(name)).filter(|&key| key != MANDATORY);
                keys.push(key.ok_or_else(|| format!("bad key \"{}\"", name.escape_ascii()))?);
            }
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err("a key is named twice".to_owned());
            }
            Ok(keys.into_iter().flat_map(u16::to_be_bytes).collect())
        }
        ALPN => {
            let mut list = Vec::new();
            for id in comma_list(value) {
                let length = u8::try_from(id.len()).ok().filter(|&length| length > 0);
                list.push(length.ok_or("an id has 1 to 255 bytes")?);
                list.extend(id);
            }
            Ok(list)
        }
        PORT => Ok(text::number::<u16>(value, "port")?.to_be_bytes().to_vec()),
        IPV4_HINT => addresses(value, |address: Ipv4Addr| address.octets()),
        IPV6_HINT => addresses(value, |address: Ipv6Addr| address.octets()),
        ECH => {
            let decoded = std::str::from_utf8(value)
                .ok()
                .and_then(|value| base64::decode::<Vec<u8>>(value).ok());
            decoded
                .filter(|bytes| !bytes.is_empty())
                .ok_or_else(|| "bad base64".to_owned())
        }
        _ => Ok(value.to_vec()),
    }
}

fn addresses<T: FromStr, const N: usize>(value: &[u8], octets: impl Fn(T) -> [u8; N]) -> Result<Vec<u8>, String> {
    let mut list = Vec::new();
    for text in value.split(|&byte| byte == b',') {
        let address = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        list.extend(octets(
            address.ok_or_else(|| format!("bad address \"{}\"", text.escape_ascii()))?,
        ));
    }
    Ok(list)
}

/// RFC 9460 appendix A.1: within a list a backslash takes the meaning from a comma and from another one.
fn comma_list(value: &[u8]) -> Vec<Vec<u8>> {
    let mut list = vec![Vec::new()];
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        let byte = match byte {
            b',' => {
                list.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next().copied().unwrap_or(b'\\'),
            byte => byte,
        };
        if let Some(last) = list.last_mut() {
            last.push(byte);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::scan::Scanner;
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        let entry = Scanner::new(text.as_bytes()).next().unwrap();
        let mut data = Vec::new();
        params(entry.as_ref().map_or(&[], |entry| &entry.tokens), &mut data)?;
        Ok(data.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(parsed(text), Ok(expected.replace(' ', "")), "{text}");
    }

    #[track_caller]
    fn refuse(text: &str, expected: &str) {
        assert_eq!(parsed(text), Err(expected.to_owned()), "{text}");
    }

    /// Mostly RFC 9460 appendix D.2.
    #[test]
    fn values_of_every_key() {
        check("", "");
        check("port=53", "0003 0002 0035");
        check("key667=hello", "029b 0005 68656c6c6f");
        check(
            r#"key667="hello\210qoo""#.replace(r"\\", r"\").as_str(),
            "029b 0009 68656c6c6fd2716f6f",
        );
        check("key667", "029b 0000");
        check(
            "ipv6hint=2001:db8::1,::2",
            "0006 0020 20010db8000000000000000000000001 00000000000000000000000000000002",
        );
        check("ipv4hint=\"192.0.2.1,192.0.2.2\"", "0004 0008 c0000201 c0000202");
        check("no-default-alpn alpn=h2", "0001 0003 026832 0002 0000");
        check("ech=AQID", "0005 0003 010203");
        check("dohpath=/q{?dns} ohttp", "0007 0008 2f717b3f646e737d 0008 0000");
        check(
            "alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1",
            "0000 0004 0001 0004 0001 0009 026832 0568332d3139 0004 0004 c0000201",
        );
        let escaped = "0001 000c 08665c6f6f2c626172 026832";
        check(r#"alpn="f\\\\oo\\,bar,h2""#, escaped);
        check(r"alpn=f\\\092oo\092,bar,h2", escaped);
    }

    #[test]
    fn what_is_refused() {
        refuse("key1=h2 alpn=h3", "alpn is given twice");
        refuse("mandatory=alpn", "a mandatory parameter is not given");
        refuse("mandatory=mandatory", "mandatory: bad key \"mandatory\"");
        refuse("mandatory=port,port port=1", "mandatory: a key is named twice");
        refuse("alpn", "alpn: an id has 1 to 255 bytes");
        refuse("alpn=h2,,h3", "alpn: an id has 1 to 255 bytes");
        refuse("no-default-alpn=1", "no-default-alpn: takes no value");
        refuse("port=65536", "port: bad port \"65536\"");
        refuse("port", "port: bad port \"\"");
        refuse("ipv4hint=", "ipv4hint: bad address \"\"");
        refuse("ech=!", "ech: bad base64");
        for name in ["Port", "key01", "key65535", "key65536", "key", ""] {
            refuse(&format!("{name}=1"), &format!("unknown parameter \"{name}\""));
        }
    }
}
