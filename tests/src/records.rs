//! Records as words: `NAME TTL CLASS TYPE DATA`, one word each, quoted strings whole; compared without letter case, TXT data with it.

use std::net::Ipv6Addr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::name::{CNAME, NS, PTR};
use hickory_proto::rr::rdata::{NULL, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use nodens_wire::NameBuf;

use crate::ask::from_hex;
use crate::{Mismatch, mismatch};

/// The words of one record, in the form that is compared.
pub type Line = Vec<String>;

/// Name of a type, `TYPE123` where there is none.
pub fn type_text(rtype: RecordType) -> String {
    match rtype {
        RecordType::Unknown(number) => format!("TYPE{number}"),
        known => known.to_string(),
    }
}

/// The type that a name or `TYPE123` means.
///
/// # Errors
/// The name is not known.
pub fn type_of(text: &str) -> Result<RecordType, String> {
    if let Some(number) = text.strip_prefix("TYPE") {
        return number
            .parse::<u16>()
            .map(RecordType::from)
            .map_err(|e| format!("{text}: {e}"));
    }
    // The library prints this one, but does not read it.
    if text == "IXFR" {
        return Ok(RecordType::IXFR);
    }
    text.parse().map_err(|_| format!("{text} is no record type"))
}

/// The class that a name or `CLASS123` means.
///
/// # Errors
/// The name is not known.
pub fn class_of(text: &str) -> Result<DNSClass, String> {
    if let Some(number) = text.strip_prefix("CLASS") {
        return number
            .parse::<u16>()
            .map(DNSClass::from)
            .map_err(|e| format!("{text}: {e}"));
    }
    text.parse().map_err(|_| format!("{text} is no class"))
}

/// Name of an rcode, `RCODE123` where there is none.
pub fn rcode_text(code: u16) -> String {
    const NAMES: [&str; 24] = [
        "NOERROR",
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "YXDOMAIN",
        "YXRRSET",
        "NXRRSET",
        "NOTAUTH",
        "NOTZONE",
        "DSOTYPENI",
        "",
        "",
        "",
        "",
        "BADVERS",
        "BADKEY",
        "BADTIME",
        "BADMODE",
        "BADNAME",
        "BADALG",
        "BADTRUNC",
        "BADCOOKIE",
    ];
    match NAMES.get(usize::from(code)) {
        Some(&name) if !name.is_empty() => name.to_owned(),
        _ => format!("RCODE{code}"),
    }
}

/// The rcode of a name.
///
/// # Errors
/// The name is not known.
pub fn rcode_of(text: &str) -> Result<ResponseCode, String> {
    let number = (0..=23).find(|&code| rcode_text(code) == text);
    let number = number.ok_or_else(|| format!("{text} is no rcode"))?;
    Ok(ResponseCode::from((number >> 4) as u8, (number & 15) as u8))
}

fn class_text(class: DNSClass) -> String {
    match class {
        DNSClass::Unknown(number) => format!("CLASS{number}"),
        known => known.to_string(),
    }
}

/// The decoder's own text form puts a backslash before some characters that need none, a dash in front for one.
fn name_text(name: &Name) -> String {
    let own = NameBuf::from_labels(name.iter(), nodens_wire::Name::ROOT).expect("as long as it was on the wire");
    own.to_string().to_ascii_lowercase()
}

/// Splits a line into words; what stands in quotes is one word, its quotes kept, `\"` inside it is no end.
pub fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quoted, mut escaped) = (false, false);
    for c in line.chars() {
        if !quoted && c.is_whitespace() {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            continue;
        }
        word.push(c);
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
            if !quoted {
                words.push(std::mem::take(&mut word));
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// A character string in quotes, as zone files write it.
fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\{byte:03}")),
        }
    }
    text.push('"');
    text
}

/// The bytes of a character string, quoted or not; the inverse of [`quote`].
fn unquote(word: &str) -> Vec<u8> {
    let inner = word
        .strip_prefix('"')
        .and_then(|w| w.strip_suffix('"'))
        .unwrap_or(word)
        .as_bytes();
    let mut bytes = Vec::new();
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let number = rest
            .get(..3)
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| d.parse::<u8>().ok());
        if let Some(number) = number {
            bytes.push(number);
            rest = &rest[3..];
        } else if let Some((&literal, after)) = rest.split_first() {
            bytes.push(literal);
            rest = after;
        }
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// RFC 3597 form.
fn unknown(bytes: &[u8]) -> Vec<String> {
    let mut words = vec!["\\#".to_owned(), bytes.len().to_string()];
    if !bytes.is_empty() {
        words.push(hex(bytes));
    }
    words
}

fn data_words(data: &RData) -> Vec<String> {
    match data {
        RData::A(a) => vec![a.0.to_string()],
        RData::AAAA(a) => vec![a.0.to_string()],
        RData::NS(n) => vec![name_text(&n.0)],
        RData::CNAME(n) => vec![name_text(&n.0)],
        RData::PTR(n) => vec![name_text(&n.0)],
        RData::MX(mx) => vec![mx.preference.to_string(), name_text(&mx.exchange)],
        RData::SRV(srv) => {
            vec![
                srv.priority.to_string(),
                srv.weight.to_string(),
                srv.port.to_string(),
                name_text(&srv.target),
            ]
        }
        RData::SOA(soa) => {
            let numbers = [
                soa.serial,
                soa.refresh.cast_unsigned(),
                soa.retry.cast_unsigned(),
                soa.expire.cast_unsigned(),
                soa.minimum,
            ];
            let mut words = vec![name_text(&soa.mname), name_text(&soa.rname)];
            words.extend(numbers.iter().map(u32::to_string));
            words
        }
        RData::TXT(txt) => txt.txt_data.iter().map(|part| quote(part)).collect(),
        RData::HINFO(h) => vec![quote(&h.cpu), quote(&h.os)],
        RData::CAA(caa) => vec![caa.flags().to_string(), caa.tag.to_ascii_lowercase(), quote(&caa.value)],
        RData::NAPTR(n) => vec![
            n.order.to_string(),
            n.preference.to_string(),
            quote(&n.flags),
            quote(&n.services),
            quote(&n.regexp),
            name_text(&n.replacement),
        ],
        RData::Unknown { code, rdata } => opaque(*code, &rdata.anything),
        RData::Update0(_) => unknown(&[]),
        other => vec![other.to_string()],
    }
}

/// Types that the decoder leaves as bytes: DNAME and DS are read here.
fn opaque(rtype: RecordType, bytes: &[u8]) -> Vec<String> {
    match rtype {
        RecordType::DNAME => match Name::read(&mut BinDecoder::new(bytes)) {
            Ok(name) => vec![name_text(&name)],
            Err(_) => unknown(bytes),
        },
        RecordType::DS if bytes.len() > 4 => {
            let tag = u16::from_be_bytes([bytes[0], bytes[1]]);
            vec![
                tag.to_string(),
                bytes[2].to_string(),
                bytes[3].to_string(),
                hex(&bytes[4..]),
            ]
        }
        _ => unknown(bytes),
    }
}

/// The words of a record that came.
pub fn line_of(record: &Record) -> Line {
    let rtype = record.record_type();
    let mut words = vec![
        name_text(&record.name),
        record.ttl.to_string(),
        class_text(record.dns_class),
        type_text(rtype),
    ];
    words.extend(data_words(&record.data));
    words
}

/// The words of a record that is expected, brought into the form that [`line_of`] gives.
pub fn wanted_line(line: &str) -> Line {
    let mut words = split_words(line);
    if let Some(name) = words.first_mut() {
        name.make_ascii_lowercase();
    }
    let rtype = words.get(3).cloned().unwrap_or_default();
    let strings_from = match rtype.as_str() {
        "TXT" | "HINFO" => 4,
        "CAA" => 6,
        "NAPTR" => 6,
        _ => usize::MAX,
    };
    for (at, word) in words.iter_mut().enumerate().skip(4) {
        let is_string = at >= strings_from && !(rtype == "NAPTR" && at > 8);
        if word == "*" {
            continue;
        }
        if is_string {
            *word = quote(&unquote(word));
        } else if rtype == "AAAA" {
            if let Ok(address) = word.parse::<Ipv6Addr>() {
                *word = address.to_string();
            }
        } else {
            word.make_ascii_lowercase();
        }
    }
    // Hex may be written in several words.
    let hex_from = if rtype == "DS" { 7 } else { 6 };
    if (rtype == "DS" || words.get(4).is_some_and(|w| w == "\\#")) && words.len() > hex_from {
        let joined = words.drain(hex_from..).collect::<String>();
        words.push(joined);
    }
    words
}

/// The record that a line describes.
///
/// # Errors
/// The line describes none.
pub fn record_of(line: &str) -> Result<Record, String> {
    let words = split_words(line);
    let [name, ttl, class, rtype, data @ ..] = words.as_slice() else {
        return Err(format!("`{line}` is no record"));
    };
    let name = name_of(name)?;
    let ttl = ttl.parse().map_err(|e| format!("{ttl}: {e}"))?;
    let data = data_of(type_of(rtype)?, data).map_err(|e| format!("`{line}`: {e}"))?;
    let mut record = Record::from_rdata(name, ttl, data);
    record.dns_class = class_of(class)?;
    Ok(record)
}

/// A name of any octets: the decoder's own text form takes host names alone.
///
/// # Errors
/// The text is no name.
pub fn name_of(text: &str) -> Result<Name, String> {
    let name = NameBuf::from_text(text).map_err(|e| format!("{text}: {e}"))?;
    Name::read(&mut BinDecoder::new(name.as_name().as_bytes())).map_err(|e| format!("{text}: {e}"))
}

/// The inverse of [`data_words`]; names and strings in their letter case.
fn data_of(rtype: RecordType, words: &[String]) -> Result<RData, String> {
    let as_bytes = |bytes: Vec<u8>| RData::Unknown {
        code: rtype,
        rdata: NULL::with(bytes),
    };
    match (rtype, words) {
        (_, [mark, _, digits @ ..]) if mark == "\\#" => Ok(as_bytes(from_hex(&digits.concat())?)),
        (RecordType::NS, [name]) => Ok(RData::NS(NS(name_of(name)?))),
        (RecordType::CNAME, [name]) => Ok(RData::CNAME(CNAME(name_of(name)?))),
        (RecordType::PTR, [name]) => Ok(RData::PTR(PTR(name_of(name)?))),
        (RecordType::TXT, strings) => {
            let strings: Vec<Vec<u8>> = strings.iter().map(|word| unquote(word)).collect();
            Ok(RData::TXT(TXT::from_bytes(strings.iter().map(Vec::as_slice).collect())))
        }
        (RecordType::DS, [tag, algorithm, digest, digits @ ..]) => {
            let number = |text: &str| text.parse::<u16>().map_err(|e| format!("{text}: {e}"));
            let mut bytes = number(tag)?.to_be_bytes().to_vec();
            bytes.extend([number(algorithm)? as u8, number(digest)? as u8]);
            bytes.extend(from_hex(&digits.concat())?);
            Ok(as_bytes(bytes))
        }
        _ => RData::try_from_str(rtype, &words.join(" ")).map_err(|e| e.to_string()),
    }
}

fn same(wanted: &[String], got: &[String]) -> bool {
    wanted.len() == got.len() && wanted.iter().zip(got).all(|(w, g)| w == "*" || w == g)
}

fn show(lines: &[Line]) -> String {
    lines.iter().map(|words| format!("\n    {}", words.join(" "))).collect()
}

/// Compares a section with what is wanted: as a multiset; `ordered`: line by line; `part`: more may be there.
///
/// # Errors
/// What is missing or too much.
pub fn check_section(title: &str, got: &[Line], want: &[String], ordered: bool, part: bool) -> Result<(), Mismatch> {
    let mut wanted: Vec<Line> = want.iter().map(|line| wanted_line(line)).collect();
    if ordered {
        if wanted.len() != got.len() || !wanted.iter().zip(got).all(|(w, g)| same(w, g)) {
            mismatch!("{title} is{}\n  not, in this order,{}", show(got), show(&wanted));
        }
        return Ok(());
    }
    // The pickiest line chooses first.
    wanted.sort_by_key(|words| words.iter().filter(|w| *w == "*").count());
    let mut left = got.to_vec();
    for words in &wanted {
        match left.iter().position(|other| same(words, other)) {
            Some(at) => drop(left.remove(at)),
            None => mismatch!("{title} lacks `{}`; it is{}", words.join(" "), show(got)),
        }
    }
    if !part && !left.is_empty() {
        mismatch!("{title} also has{}", show(&left));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::rdata::A;

    fn check(got: &[&str], want: &[&str], ordered: bool, part: bool, right: bool) {
        let got: Vec<Line> = got.iter().map(|line| wanted_line(line)).collect();
        let want: Vec<String> = want.iter().map(|&line| line.to_owned()).collect();
        assert_eq!(
            check_section("answer", &got, &want, ordered, part).is_ok(),
            right,
            "{got:?} {want:?}"
        );
    }

    #[test]
    fn sections() {
        let (a, b) = ("a. 5 IN A 192.0.2.1", "a. 5 IN A 192.0.2.2");
        check(&[a, b], &[b, a], false, false, true);
        check(&[a, b], &[b, a], true, false, false);
        check(&[a, b], &[b], false, true, true);
        check(&[a, b], &[b], false, false, false);
        check(&[a, a], &[a], false, false, false);
        check(&[a], &[a, a], false, true, false);
        check(&[a, b], &["A. * IN A *", "a. * IN A 192.0.2.1"], false, false, true);
        check(&[], &[], false, false, true);
        check(
            &["a. 5 IN AAAA 2001:DB8:0::1"],
            &["a. 5 IN AAAA 2001:db8::1"],
            false,
            false,
            true,
        );
        check(
            &["a. 5 IN MX 10 MAIL.a."],
            &["a. 5 IN MX 10 mail.A."],
            false,
            false,
            true,
        );
        check(
            &[r#"a. 5 IN TXT "x  y" "z""#],
            &[r#"a. 5 IN TXT "x  y" z"#],
            false,
            false,
            true,
        );
        check(
            &[r#"a. 5 IN TXT "x y""#],
            &[r#"a. 5 IN TXT "X y""#],
            false,
            false,
            false,
        );
        check(
            &["a. 5 IN TYPE65400 \\# 3 0A0b0c"],
            &["a. 5 IN TYPE65400 \\# 3 0a 0b0c"],
            false,
            false,
            true,
        );
    }

    #[test]
    fn records() {
        let name = Name::from_ascii("WWW.cedar.example.").unwrap();
        let record = Record::from_rdata(name.clone(), 60, RData::A(A::new(192, 0, 2, 1)));
        assert_eq!(line_of(&record), wanted_line("www.cedar.example. 60 IN A 192.0.2.1"));
        let text = TXT::from_bytes(vec![b"he said \"\xff\"".as_slice(), b"".as_slice()]);
        let record = Record::from_rdata(name, 60, RData::TXT(text));
        assert_eq!(
            line_of(&record),
            wanted_line(r#"www.cedar.example. 60 IN TXT "he said \"\255\"" """#)
        );
    }

    #[test]
    fn lines_and_records() {
        for line in [
            "www.cedar.example. 60 IN A 192.0.2.1",
            "www.cedar.example. 60 IN AAAA 2001:db8::5",
            "alias.cedar.example. 60 IN CNAME www.cedar.example.",
            "cedar.example. 60 IN MX 10 mail.cedar.example.",
            "_http._tcp.cedar.example. 60 IN SRV 0 5 80 www.cedar.example.",
            "cedar.example. 600 IN SOA ns.cedar.example. host.cedar.example. 7 7200 900 86400 600",
            r#"version.bind. 0 CH TXT "x y" "he said \"\255\"""#,
            "cedar.example. 60 IN DS 4711 13 2 0a0b0c",
            r"odd.cedar.example. 30 IN TYPE65280 \# 4 01020304",
        ] {
            assert_eq!(line_of(&record_of(line).unwrap()), wanted_line(line));
        }
        assert!(record_of("www.cedar.example. 60 IN A").is_err() && record_of("www.cedar.example. A").is_err());
        assert_eq!(rcode_of("BADVERS"), Ok(ResponseCode::from(1, 0)));
        assert_eq!(rcode_of("RCODE12"), Ok(ResponseCode::from(0, 12)));
        assert!(rcode_of("").is_err());
    }

    #[test]
    fn words() {
        assert_eq!(split_words(r#"a  "b \" c"  d"#), ["a", r#""b \" c""#, "d"]);
        assert_eq!(unquote(r#""\"a\200""#), b"\"a\xc8");
    }
}
