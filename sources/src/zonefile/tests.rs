use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use nodens_wire::{Name, NameBuf};
use proptest::prelude::*;

use super::*;
use crate::wrong::WRONG_LINES_MAX;

fn zone() -> NameBuf {
    NameBuf::from_text("cedar.example").unwrap()
}

fn load(files: &[(&str, &str)]) -> Result<ZoneFile, ZoneFileError> {
    let disk: HashMap<PathBuf, Vec<u8>> = files
        .iter()
        .map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()))
        .collect();
    let read = |path: &Path| disk.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into());
    ZoneFile::load(Path::new(files[0].0), zone().as_name(), &read)
}

fn shown(record: &Record) -> String {
    let hex: String = record.rdata.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} {} {} {hex}", record.owner(), record.ttl, record.rtype)
}

/// The records of a zone with this text behind its SOA, owner, TTL, type and data in hexadecimal.
fn records(text: &str) -> Result<Vec<String>, String> {
    let text = format!("@ 60 IN SOA ns1 admin 7 7200 1800 86400 45\n{text}");
    let zone = load(&[("zone.db", &text)]).map_err(|error| error.to_string())?;
    Ok(zone.records.iter().skip(1).map(shown).collect())
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(
        records(text).as_deref(),
        Ok(expected
            .iter()
            .map(|&line| line.to_owned())
            .collect::<Vec<_>>()
            .as_slice()),
        "{text}"
    );
}

#[track_caller]
fn refuse(text: &str, expected: &str) {
    let error = records(text).unwrap_err();
    assert!(error.contains(expected), "{text}: {error}");
}

#[test]
fn owners_ttls_and_classes_in_all_orders() {
    check(
        "www 1h IN A 192.0.2.1\n\tin 62 aaaa 2001:db8::53\n  A 192.0.2.2\n@ IN A 192.0.2.3\nabs.cedar.example. a 192.0.2.4",
        &[
            "www.cedar.example. 3600 A c0000201",
            "www.cedar.example. 62 AAAA 20010db8000000000000000000000053",
            "www.cedar.example. 62 A c0000202",
            "cedar.example. 62 A c0000203",
            "abs.cedar.example. 62 A c0000204",
        ],
    );
}

#[test]
fn ttl_comes_from_the_record_the_directive_or_the_last_record() {
    let soa = |rest: &str| {
        let text = format!("@ SOA . . 1 1 1 1 1\n{rest}");
        let zone = load(&[("z", &text)]).unwrap();
        zone.records.iter().map(|record| record.ttl).collect::<Vec<_>>()
    };
    assert_eq!(soa("a A 192.0.2.1\na 5 A 192.0.2.2\na A 192.0.2.3"), [3600, 3600, 5, 5]);
    assert_eq!(
        soa("$TTL 1m\na A 192.0.2.1\na 5 A 192.0.2.2\na A 192.0.2.3\n$TTL 2m\na A 192.0.2.4"),
        [3600, 60, 5, 60, 120]
    );
}

#[test]
fn names_become_small_but_those_of_srv() {
    check(
        "UPPER A 192.0.2.1\nsrv._TCP 1 SRV 1 2 443 Target.Cedar.Example.\nmx 1 MX 10 Mail\nptr 1 PTR Host.Example.\nroot 1 MX 10 .",
        &[
            "upper.cedar.example. 60 A c0000201",
            "srv._TCP.cedar.example. 1 SRV 0001000201bb06546172676574054365646172074578616d706c6500",
            "mx.cedar.example. 1 MX 000a046d61696c056365646172076578616d706c6500",
            "ptr.cedar.example. 1 PTR 04686f7374076578616d706c6500",
            "root.cedar.example. 1 MX 000a00",
        ],
    );
}

#[test]
fn texts() {
    check(
        "t 1 TXT \"one two\" three \"semi ; colon\" ( \"f\"\n \"g\" )\nq TXT \"a \\\"b\\\" \\\\ \\065\\100\"\ne TXT \"\"\nd TXT \"\\200\"",
        &[
            "t.cedar.example. 1 TXT 076f6e652074776f0574687265650c73656d69203b20636f6c6f6e01660167",
            "q.cedar.example. 1 TXT 0a6120226222205c204164",
            "e.cedar.example. 1 TXT 00",
            "d.cedar.example. 1 TXT 01c8",
        ],
    );
    let long = records(&format!("l 1 TXT {}", "x".repeat(300))).unwrap();
    assert!(long[0].starts_with("l.cedar.example. 1 TXT ff78") && long[0].contains("782d78"));
    refuse("t TXT", "TXT: no text");
}

#[test]
fn data_of_every_type() {
    check(
        r#"a\.b 1 A 192.0.2.1
caa 1 CAA 0 issue "ca.example"
n 1 NAPTR 10 20 "u" "E2U+sip" "!^.*$!sip:x@y!" .
h 1 HINFO PC "Linux 6"
d 1 DNAME Other.Example.
u 1 URI 10 1 "https://x/"
g 1 A \# 4 c0 000203
x 1 TYPE65400 \# 3 0a0b0c
z 1 TYPE65401 \# 0
ds 1 DS 1 8 2 0a0b 0c0d
tlsa 1 TLSA 3 1 1 0A0B
ssh 1 SSHFP 1 2 0a0b
key 1 DNSKEY 256 3 8 AQID
rp 1 RP mbox txt.cedar.example.
sig 1 RRSIG A 8 3 60 20300101000000 20200101000000 7 cedar.example. AQID
nsec 1 NSEC next A RRSIG"#,
        &[
            r"a\.b.cedar.example. 1 A c0000201",
            "caa.cedar.example. 1 CAA 0005697373756563612e6578616d706c65",
            "n.cedar.example. 1 NAPTR 000a00140175074532552b7369700e215e2e2a24217369703a7840792100",
            "h.cedar.example. 1 HINFO 025043074c696e75782036",
            "d.cedar.example. 1 DNAME 056f74686572076578616d706c6500",
            "u.cedar.example. 1 URI 000a000168747470733a2f2f782f",
            "g.cedar.example. 1 A c0000203",
            "x.cedar.example. 1 TYPE65400 0a0b0c",
            "z.cedar.example. 1 TYPE65401 ",
            "ds.cedar.example. 1 DS 000108020a0b0c0d",
            "tlsa.cedar.example. 1 TLSA 0301010a0b",
            "ssh.cedar.example. 1 SSHFP 01020a0b",
            "key.cedar.example. 1 DNSKEY 01000308010203",
            "rp.cedar.example. 1 RP 046d626f78056365646172076578616d706c650003747874056365646172076578616d706c6500",
            "sig.cedar.example. 1 RRSIG 000108030000003c70dbd8805e0be1000007056365646172076578616d706c6500010203",
            "nsec.cedar.example. 1 NSEC 046e657874056365646172076578616d706c65000006400000000002",
        ],
    );
}

#[test]
fn times_in_the_soa_have_units() {
    let zone = load(&[("z", "@ 1 SOA ns1 a\\.b.x. 4294967295 2h 30M 1d 45")]).unwrap();
    assert_eq!(zone.serial, u32::MAX);
    let soa = shown(&zone.records[0]);
    assert!(
        soa.ends_with("03612e62017800ffffffff00001c2000000708000151800000002d"),
        "{soa}"
    );
}

#[test]
fn directives_and_included_files() {
    let files = [
        (
            "zones/main.db",
            "$TTL 1h30m\n@ IN SOA ns1 admin 1 2h 30m 1d 45\n  IN NS ns1\n$ORIGIN east.cedar.example.\nwww A 192.0.2.1\n\
             $ORIGIN deeper\nwww A 192.0.2.2\n$INCLUDE parts/one.db\n$INCLUDE parts/two.db west.cedar.example.\n\
             $include \"parts/two.db\" sub\nafter A 192.0.2.5\n  A 192.0.2.6",
        ),
        (
            "zones/parts/one.db",
            "one A 192.0.2.3\n$TTL 9\n$ORIGIN elsewhere.cedar.example.\n",
        ),
        ("zones/parts/two.db", "two 5 A 192.0.2.4\n$INCLUDE ../three.db"),
        ("zones/three.db", ""),
        ("zones/parts/../three.db", " AAAA ::1"),
    ];
    let zone = load(&files).unwrap();
    let found: Vec<_> = zone
        .records
        .iter()
        .skip(2)
        .map(|record| format!("{} {}", record.owner(), record.ttl))
        .collect();
    let expected = [
        "www.east.cedar.example. 5400",
        "www.deeper.east.cedar.example. 5400",
        "one.deeper.east.cedar.example. 5400",
        "two.west.cedar.example. 5",
        "two.west.cedar.example. 5400",
        "two.sub.deeper.east.cedar.example. 5",
        "two.sub.deeper.east.cedar.example. 5400",
        "after.deeper.east.cedar.example. 5400",
        "after.deeper.east.cedar.example. 5400",
    ];
    assert_eq!(found, expected);
}

#[test]
fn included_files_are_bounded() {
    let chain: Vec<(String, String)> = (0..=8)
        .map(|n| (format!("{n}"), format!("$INCLUDE {}\nn{n} 1 A 192.0.2.1", n + 1)))
        .collect();
    let soa = "@ SOA . . 1 1 1 1 1\n";
    let nested = |depth: usize| {
        let mut files: Vec<(&str, String)> = chain[..depth]
            .iter()
            .map(|(name, text)| (name.as_str(), text.clone()))
            .collect();
        files.push((&chain[depth].0, soa.to_owned()));
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        load(&files)
            .map(|zone| zone.records.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(nested(INCLUDE_DEPTH_MAX), Ok(8));
    assert!(
        nested(INCLUDE_DEPTH_MAX + 1)
            .unwrap_err()
            .contains("$INCLUDE more than 7 deep")
    );
    let many = format!("{soa}{}", "$INCLUDE empty\n".repeat(INCLUDES_MAX));
    assert!(load(&[("z", &many), ("empty", "")]).is_ok());
    let more = format!("{many}$INCLUDE empty\n");
    assert!(
        load(&[("z", &more), ("empty", "")])
            .unwrap_err()
            .to_string()
            .contains("more than 1000 $INCLUDEs")
    );
    let itself = load(&[("z", "$INCLUDE z\n$INCLUDE z")]).unwrap_err().to_string();
    assert!(itself.contains("7 deep"), "{itself}");
}

#[test]
fn records_outside_the_zone_are_counted() {
    let zone = load(&[(
        "z",
        "@ SOA . . 1 1 1 1 1\nother.example. A 192.0.2.1\nCEDAR.example. A 192.0.2.2\nexample. SOA . . 9 1 1 1 1",
    )]);
    let zone = zone.unwrap();
    assert_eq!((zone.records.len(), zone.outside, zone.serial), (2, 2, 1));
}

#[test]
fn of_several_soas_the_last_one_counts() {
    let zone = load(&[(
        "z",
        "@ SOA . . 1 1 1 1 1\nwww A 192.0.2.1\nCEDAR.example. SOA . . 7 1 1 1 1",
    )])
    .unwrap();
    assert_eq!((zone.records.len(), zone.more_soas, zone.serial), (2, 1, 7));
}

#[test]
fn errors_name_file_line_and_cause() {
    let error = |files: &[(&str, &str)]| load(files).unwrap_err().to_string();
    assert_eq!(
        error(&[(
            "zone.db",
            "@ 60 IN SOA ns1 admin 7 7200 1800 86400 45\nwww 60 IN A not-an-address\n"
        )]),
        "failed to parse file \"zone.db\" for origin cedar.example. with error zone.db:2: A: bad address \"not-an-address\""
    );
    assert_eq!(
        error(&[("zone.db", "www A 192.0.2.1")]),
        "file \"zone.db\" has no SOA record for origin cedar.example."
    );
    assert_eq!(
        error(&[("d/z", "\n$INCLUDE p"), ("d/p", "\n\na B c")]),
        "failed to parse file \"d/z\" for origin cedar.example. with error d/p:3: unknown type \"B\""
    );
    let missing = ZoneFile::load(Path::new("none"), zone().as_name(), &|_| {
        Err(io::ErrorKind::NotFound.into())
    });
    assert_eq!(missing.unwrap_err().to_string(), "open none: entity not found");
    assert!(error(&[("z", "$INCLUDE gone")]).contains("z:1: cannot include gone: "));
}

#[test]
fn every_wrong_line_is_told_once() {
    let wrong = |files: &[(&str, &str)]| match load(files).unwrap_err() {
        ZoneFileError::Syntax { lines, .. } => lines,
        other => panic!("{other}"),
    };
    let places = |files| -> Vec<String> {
        let place = |line: &WrongLine| format!("{}:{} {}", line.file.display(), line.line, line.drawn);
        wrong(files).first.iter().map(place).collect()
    };
    assert_eq!(
        places(&[
            (
                "z",
                "a..b A 192.0.2.1\n  A 192.0.2.2\n$TTL 1y\nok A 192.0.2.1\n$INCLUDE p\n$INCLUDE gone\nc A )\n\
                 $GENERATE 1-2 n$ A x\nd (\n A",
            ),
            ("p", "e B\n  A 192.0.2.3\nf A"),
        ]),
        [
            "z:1 a..b A 192.0.2.1",
            "z:3 $TTL 1y",
            "p:1 e B",
            "p:3 f A",
            "z:6 $INCLUDE gone",
            "z:7 c A )",
            "z:8 $GENERATE 1-2 n$ A x",
            "z:9 d (",
        ]
    );
    let many = wrong(&[("z", &"a B\n".repeat(WRONG_LINES_MAX + 3))]);
    assert_eq!((many.first.len(), many.left_out), (WRONG_LINES_MAX, 3));
    // A file that includes itself ends at its limit, each time.
    let itself = wrong(&[("z", &"$INCLUDE z\n".repeat(20))]);
    assert!(itself.left_out < INCLUDES_MAX * 20, "{}", itself.left_out);
}

#[test]
fn a_missing_soa_is_told_beside_wrong_lines_that_cannot_be_in_its_way() {
    let sentences = |text: &str| load(&[("z", text)]).unwrap_err().sentences();
    let no_soa = "file \"z\" has no SOA record for origin cedar.example.";
    for text in [
        "a A x",
        "a A x\noak.example. SOA . . 1 1 1 1 1",
        "$TTL 1y",
        "a..b A 192.0.2.1",
    ] {
        assert_eq!(sentences(text).last().unwrap(), no_soa, "{text}");
    }
    let many = sentences(&"a B\n".repeat(WRONG_LINES_MAX + 1));
    assert_eq!(
        many[WRONG_LINES_MAX..],
        ["and 1 more line of this file is wrong", no_soa]
    );
    let soa = "@ SOA . . 1 1 1 1 1";
    for text in [
        &format!("{soa}\na A x"),
        "@ soa . . 1 1 1 1 y",
        "$INCLUDE gone",
        &format!("$ORIGIN a..b\n{soa} (\nb B"),
        &format!("a B\nb A )\n{soa}"),
    ] {
        assert!(sentences(text).iter().all(|line| line != no_soa), "{text}");
    }
}

#[test]
fn generated_records() {
    check(
        "$GENERATE 1-2 n$ 5 A 192.0.2.${10}\nx A 192.0.2.9",
        &[
            "n1.cedar.example. 5 A c000020b",
            "n2.cedar.example. 5 A c000020c",
            // The TTL of the SOA: what is generated leaves none behind.
            "x.cedar.example. 60 A c0000209",
        ],
    );
    check(
        "$GENERATE 7-7 $ TXT \"a $\" b",
        &["7.cedar.example. 3600 TXT 036120370162"],
    );
    check(
        "$TTL 9\n$generate 1-1 n$ A 192.0.2.$",
        &["n1.cedar.example. 9 A c0000201"],
    );
    check(
        "$GENERATE 1-2 n$ A 192.0.2.1 ( ; spans\n)",
        &["n1.cedar.example. 3600 A c0000201", "n2.cedar.example. 3600 A c0000201"],
    );
    let many = "$GENERATE 0-65535 n$ A 192.0.2.1\n".repeat(GENERATED_MAX / 65_536);
    refuse(
        &format!("{many}$GENERATE 1-1 n$ A 192.0.2.1"),
        "more than 1048576 records by $GENERATE",
    );
}

#[test]
fn what_is_refused() {
    refuse("$GENERATE", "$GENERATE takes a range and a record");
    refuse("$GENERATE 1-3", "$GENERATE takes a range and a record");
    refuse("$GENERATE 3-1 n$ A 192.0.2.$", "bad stop in $GENERATE range \"3-1\"");
    refuse(
        "$GENERATE 0-65536 n$ A 192.0.2.1",
        "$GENERATE of more than 65536 records",
    );
    refuse("$GENERATE 254-256 n$ A 192.0.2.$", "A: bad address \"192.0.2.256\"");
    refuse("$GENERATE 1-2 n${0,1,z} A 192.0.2.$", "bad base in $GENERATE");
    refuse(
        "$FOO",
        "unknown directive $FOO: there are $ORIGIN, $TTL, $INCLUDE and $GENERATE",
    );
    refuse("$ORIGIN", "$ORIGIN takes one argument");
    refuse("$TTL 1y", "bad time \"1y\"");
    refuse("$INCLUDE", "$INCLUDE takes a file");
    refuse("a CH A 192.0.2.1", "class CH is not supported");
    refuse("a 1", "a record without a type");
    refuse("a 1 2 A 192.0.2.1", "unknown type \"2\"");
    refuse("a A", "A: no address");
    refuse("a A 192.0.2.1 192.0.2.2", "A: \"192.0.2.2\" is too much");
    refuse(
        "a NSEC3 1 0 10 - 0P9MHAVEQVM6T7VBL5LOP2U3T2RP3TOM A",
        "NSEC3 is not supported",
    );
    refuse("a OPT x", "OPT is no type of data");
    refuse("a ANY x", "class ANY is not supported");
    refuse("a TYPE1 \\# 3 000000", "A: the data do not fit the type");
    refuse("a TYPE65400 \\# 2 00", "2 bytes announced, 1 given");
    refuse("a TYPE65400 \\# 1 0g", "bad hexadecimal digits");
    refuse("a KEY 256 3 8 AQID", "\\# LENGTH HEX");
    refuse("a MX mail", "bad preference \"mail\"");
    refuse("a HINFO x", "no os");
    refuse("a A (", "a bracket that is not closed");
    assert!(
        load(&[("z", " A 192.0.2.1")])
            .unwrap_err()
            .to_string()
            .contains("names no owner")
    );
}

#[test]
fn data_of_uncommon_types() {
    // The data as dnspython writes them.
    for (text, data) in [
        (
            "a LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m",
            "000016138b3cf018810cbce0009895b8",
        ),
        (
            "a LOC 42 21 54 N 71 06 18 W -24m 30m",
            "0033161389172dd070be15f000988d20",
        ),
        ("a LOC 1 S 2 W 100", "001216137fc911807f9223000098bd90"),
        (
            "a LOC 0 0 0.5 S 180 E 42849672.95m 90000000m 1.23 12",
            "009912137ffffe0ca69fb200ffffffff",
        ),
        ("a CERT PKIX 12345 8 AQID BAU=", "00013039080102030405"),
        ("a CERT 65280 1 0 AQID", "ff00000100010203"),
        ("a DHCID AQID BA==", "01020304"),
        (
            "a PX 10 map822.x mapx400",
            "000a066d61703832320178056365646172076578616d706c6500076d617078343030056365646172076578616d706c6500",
        ),
        ("a LP 10 l64", "000a036c3634056365646172076578616d706c6500"),
        ("a L32 10 10.1.2.0", "000a0a010200"),
        ("a L64 10 2001:0db8:1140:1000", "000a20010db811401000"),
        ("a NID 10 0014:4fff:ff20:ee64", "000a00144fffff20ee64"),
        ("a EUI48 00-00-5e-00-53-2a", "00005e00532a"),
        ("a EUI64 00-00-5e-ef-10-00-00-2a", "00005eef1000002a"),
        ("a X25 311061700956", "0c333131303631373030393536"),
        (
            r#"a ISDN 150862028003217 "004""#,
            "0f31353038363230323830303332313703303034",
        ),
        ("a ISDN 1", "0131"),
        (
            "a GPOS -32.6882 116.8652 10.0",
            "082d33322e36383832083131362e383635320431302e30",
        ),
        ("a CSYNC 66 3 A NS AAAA TYPE257", "000000420003000460000008010140"),
        (
            "a APL 1:192.168.32.0/21 !1:192.168.38.0/28 2:2001:db8::/32 1:0.0.0.0/0",
            "00011503c0a82000011c83c0a8260002200420010db800010000",
        ),
    ] {
        let rtype = text.split(' ').nth(1).unwrap();
        check(text, &[&format!("a.cedar.example. 60 {rtype} {data}")]);
    }
    refuse("a LOC 91 N 1 E 1m", "the latitude is over 90 degrees");
    refuse("a LOC 1 60 N 1 E 1m", "bad latitude \"60\"");
    refuse("a LOC 1 2 3 4 N 1 E 1m", "bad latitude \"4\"");
    refuse("a LOC 1 N 1", "no direction behind the longitude");
    refuse("a LOC N 1 E 1m", "bad latitude \"N\"");
    refuse("a LOC 1 N 1 E", "no altitude");
    refuse("a LOC 1 N 1 E -100001m", "bad altitude");
    refuse("a LOC 1 N 1 E 1m 90000001000m", "bad size");
    refuse("a LOC 1 N 1 E 1m 1m 1m 1m 1m", "\"1m\" is too much");
    refuse("a CERT FOO 1 1 AQID", "bad type \"FOO\"");
    refuse("a CERT 1 1 1 AQI", "bad base64");
    refuse("a SMIMEA 3 1 1 012", "bad hexadecimal digits");
    refuse("a EUI48 00-00-5e-00-53", "bad address");
    refuse("a EUI48 00-00-5e-00-053-2", "bad address");
    refuse("a NID 10 0014:4fff:ff20", "bad locator");
    refuse("a CSYNC 66 3 FOO", "unknown type \"FOO\"");
    refuse("a APL 1:192.0.2.0/33", "bad prefix");
    refuse("a APL 2:192.0.2.0/24", "bad prefix");
    refuse("a X25 1 2", "\"2\" is too much");
}

proptest! {
    #[test]
    fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::zonefile(&text);
    }

    #[test]
    fn no_likely_text_panics(words in proptest::collection::vec(word(), 0..40)) {
        crate::fuzzing::zonefile(words.concat().as_bytes());
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "@ SOA . . 1 1 1 1 1\n",
        "\n",
        " ",
        "\t",
        "(",
        ")",
        "\"",
        ";",
        "\\",
        "\\1",
        "\\#",
        "$TTL ",
        "$ORIGIN ",
        "$INCLUDE ",
        "a",
        "a.",
        ".",
        "A ",
        "AAAA ",
        "TXT ",
        "MX ",
        "RRSIG ",
        "NSEC ",
        "SVCB ",
        "DNSKEY ",
        "TLSA ",
        "NAPTR ",
        "CAA ",
        "LOC ",
        "IN ",
        "CH ",
        "1 ",
        "1h",
        "192.0.2.1",
        "::1",
        "=",
        "key1=",
        "alpn=",
        "ech=",
        ",",
        "00",
        "AQID ",
        "20300101000000 ",
        "\u{ff}",
    ])
}

#[test]
fn one_file_serves_several_zones() {
    let text = b"@ 1 SOA ns h 1 1 1 1 1\nwww 1 A 192.0.2.1";
    for zone in ["one.test.", "two.test."] {
        let origin = NameBuf::from_text(zone).unwrap();
        let loaded = ZoneFile::load(Path::new("z"), origin.as_name(), &|_| Ok(text.to_vec())).unwrap();
        assert_eq!(loaded.records[1].owner().to_string(), format!("www.{zone}"));
    }
}

#[test]
fn the_root_can_be_a_zone() {
    let read = |_: &Path| Ok(b"@ 1 SOA ns h 1 1 1 1 1\nwww 1 A 192.0.2.1".to_vec());
    let loaded = ZoneFile::load(Path::new("z"), Name::ROOT, &read).unwrap();
    assert_eq!(loaded.records[1].owner().to_string(), "www.");
}
