//! The directives that make records and names: `template`, `dns64`, `autopath`; and `loop`.

use nodens_engine::captures::Scratch;
use nodens_engine::plan::rewrite::{Asker, Question, Rewrite, Rewritten};
use nodens_engine::plan::template::{Facts, Stanza, Template, WRITTEN_MAX};
use nodens_wire::{Flags, NameBuf, Rclass, Rtype};
use proptest::prelude::*;

use super::Memory;
use super::forwarding::error;
use super::settings::{block, text};
use crate::corefile::Colour;

fn template(lines: &str) -> Stanza {
    block("cedar.example", &format!("template {lines}")).template.remove(0)
}

/// The records that a stanza makes for a name.
fn records(lines: &str, name: &str) -> String {
    let stanza = template(lines);
    let mut scratch = Scratch::default();
    for pattern in &stanza.patterns {
        let names: Vec<_> = pattern.group_names().collect();
        let Some(groups) = pattern.find(name, &mut scratch) else {
            continue;
        };
        let groups: Vec<_> = (0..groups.len()).filter_map(|group| groups.get(group)).collect();
        let facts = Facts {
            zone: "cedar.example.",
            name,
            class: "IN",
            rtype: "A",
            remote: "192.0.2.9",
            groups: &groups,
            variables: &[],
            group_names: &names,
            id: 1,
            flags: Flags(0),
            asked_name: name,
            asked_type: Rtype::A,
            asked_class: Rclass::IN,
            metadata: &|_| String::new(),
        };
        let mut out = String::new();
        for record in stanza.answer.iter().chain(&stanza.authority).chain(&stanza.additional) {
            record.write(&facts, &mut out).unwrap();
            out.push(';');
        }
        return out;
    }
    "-".to_owned()
}

#[test]
fn template_defaults_and_options() {
    let plain = template("IN A");
    assert_eq!(
        (plain.rclass, plain.rtype, text(&plain.zones)),
        (Rclass::IN, Rtype::A, "cedar.example.".into())
    );
    assert_eq!((plain.patterns.len(), plain.rcode.to_string().as_str()), (1, "NOERROR"));
    assert!(plain.answer.is_empty() && plain.fallthrough.is_none() && plain.error.is_none());
    let all = template(
        "ANY ANY A.example 10.0.0.0/8 {\nmatch a b\nmatch c\nrcode nxdomain\nederror 15 \"not here\"\nfallthrough d\n\
         expr type() == 'A'\nexpr do()\nanswer \"a\" \"b\"\nanswer \"c\"\nadditional \"d\"\nauthority \"e\"\nupstream\n}",
    );
    assert_eq!(
        (all.rclass, all.rtype, text(all.zones)),
        (Rclass::ANY, Rtype::ANY, "a.example. 10.in-addr.arpa.".into())
    );
    assert_eq!(
        (all.patterns.len(), all.conditions.len(), all.rcode.to_string().as_str()),
        (3, 2, "NXDOMAIN")
    );
    assert_eq!(all.error, Some((15, "not here".into())));
    assert_eq!(text(all.fallthrough.unwrap()), "d.");
    assert_eq!(text(all.answer.iter().map(|record| record.source())), "a b c");
    assert_eq!((all.additional.len(), all.authority.len()), (1, 1));
    assert_eq!(block(".", "template IN A\ntemplate IN TXT").template.len(), 2);
}

#[test]
fn records_of_templates() {
    let ip = "IN A {\nmatch ^ip-(?P<a>[0-9]*)-(?P<b>[0-9a-f]*)[.]cedar[.]example[.]$\nmatch ^x(.*)\n\
              answer \"{{ .Name }} 60 {{ .Class }} {{ .Type }} 10.0.{{ .Group.a }}.{{ parseInt .Group.b 16 64 }}\"\n}";
    assert_eq!(
        records(ip, "ip-1-ff.cedar.example."),
        "ip-1-ff.cedar.example. 60 IN A 10.0.1.255;"
    );
    assert_eq!(records(ip, "y."), "-");
    let second = "IN A {\nmatch ^a\nmatch ^x(.*)\nanswer \"{{ index .Match 1 }}\" \"{{ .Zone }}\"\n}";
    assert_eq!(records(second, "xy.z."), "y.z.;cedar.example.;");
    assert_eq!(records("IN A {\nanswer \"{{ index .Group `0` }}\"\n}", "a."), "a.;");
}

#[test]
fn what_is_wrong_with_templates() {
    for (lines, expected) in [
        ("IN", "Wrong argument count or unexpected line ending after 'IN'"),
        ("XX A", "invalid query class XX"),
        ("in A", "invalid query class in"),
        ("IN XX", "invalid RR class XX"),
        ("IN TYPE5", "invalid RR class TYPE5"),
        (
            "IN A {\nmatch (\n}",
            "could not parse regex: (, error parsing regexp: unclosed group: `(`",
        ),
        (
            "IN A {\nmatch\n}",
            "Wrong argument count or unexpected line ending after 'match'",
        ),
        (
            "IN A {\nanswer\n}",
            "Wrong argument count or unexpected line ending after 'answer'",
        ),
        (
            "IN A {\nanswer \"{{ .Foo }}\"\n}",
            "could not compile template: {{ .Foo }}, there is no .Foo",
        ),
        ("IN A {\nrcode NOPE\n}", "unknown rcode NOPE"),
        (
            "IN A {\nederror 70000\n}",
            "error parsing extended DNS error code 70000",
        ),
        ("IN A {\nexpr typ() == 'A'\n}", "plugin/template: unknown name typ"),
        ("IN A {\nvar a b\n}", "plugin/template: unknown name b"),
        (
            "IN A {\nvar a ['b']\n}",
            "plugin/template: a list where a text, a number or a condition is needed",
        ),
        (
            "IN A {\nvar a\n}",
            "Wrong argument count or unexpected line ending after 'a'",
        ),
        (
            "IN A {\nvar\n}",
            "Wrong argument count or unexpected line ending after 'var'",
        ),
        (
            "IN A {\nanswr \"a\"\n}",
            "Wrong argument count or unexpected line ending after 'answr'",
        ),
    ] {
        assert_eq!(error(&format!("template {lines}")), expected, "{lines}");
    }
    let long = error(&format!("template IN A {{\nmatch {}\n}}", "a".repeat(10_001)));
    assert!(long.contains("10001 bytes"), "{long}");
}

#[test]
fn dns64() {
    let made = |lines: &str| {
        let dns64 = block(".", lines).dns64.unwrap();
        let address = dns64.prefix.embed("192.0.2.1".parse().unwrap());
        format!("{address} {} {}", dns64.translates_all, dns64.allows_v4)
    };
    assert_eq!(made("dns64"), "64:ff9b::c000:201 false false");
    assert_eq!(made("dns64 2001:db8::/32"), "2001:db8:c000:201:: false false");
    assert_eq!(
        made("dns64 {\nprefix 2001:db8::/96\ntranslate_all\nallow_ipv4\n}"),
        "2001:db8::c000:201 true true"
    );
    assert_eq!(
        made("dns64 2001:db8::/96\ndns64 {\nallow_ipv4\n}"),
        "2001:db8::c000:201 false true"
    );
    for (lines, expected) in [
        (
            "dns64 2001:db8::/33",
            "plugin/dns64: invalid prefix length \"2001:db8::/33\"",
        ),
        (
            "dns64 {\nprefix 2001:db8::/24\n}",
            "plugin/dns64: invalid prefix length \"2001:db8::/24\"",
        ),
        ("dns64 192.0.2.0/24", "plugin/dns64: invalid CIDR address: 192.0.2.0/24"),
        ("dns64 a b", "Wrong argument count or unexpected line ending after 'b'"),
        ("dns64 {\nallow_ipv6\n}", "unknown property 'allow_ipv6'"),
    ] {
        assert_eq!(error(lines), expected, "{lines}");
    }
}

#[test]
fn autopath() {
    let load = |line: &str, search: &str| {
        let world = Memory::new(&format!("cedar.example {{\n{line}\n}}\n")).file("r", &format!("search {search}\n"));
        match world.load() {
            Ok(corefile) => {
                let warnings = corefile.warnings.iter().map(|warning| warning.text.clone());
                let path = corefile.blocks[0].autopath.as_ref().unwrap();
                format!("{} + {} {}", text(&path.zones), text(&path.search), text(warnings))
            }
            Err(refused) => format!("! {}", refused.found.errors[0].text),
        }
    };
    assert_eq!(load("autopath r", "A.example b"), "cedar.example. + a.example. b. ");
    assert_eq!(load("autopath x y r\n", "a"), "x. y. + a. ");
    assert_eq!(
        load("autopath r", ""),
        "cedar.example. +  plugin/autopath: no effect: r has no `search` line"
    );
    assert_eq!(
        load("autopath none\nautopath r", ""),
        "! plugin/autopath: failed to parse \"none\": entity not found"
    );
    assert_eq!(load("autopath", ""), "! plugin/autopath: no resolv-conf specified");
    assert_eq!(
        load("autopath @file", ""),
        "! plugin/autopath: file does not implement the AutoPather interface"
    );
    assert!(load("autopath r", &"a ".repeat(32)).starts_with("cedar.example. + a."));
    assert_eq!(
        load("autopath r", &"a ".repeat(33)),
        "! plugin/autopath: r has more than 32 suffixes"
    );
}

#[test]
fn loops_are_looked_for_once() {
    assert!(block(".", "loop").detects_loops.is_some() && block(".", "").detects_loops.is_none());
    assert_eq!(
        error("loop .."),
        "Wrong argument count or unexpected line ending after '..'"
    );
    assert_eq!(
        error("loop\nloop"),
        "plugin/loop: this plugin can only be used once per Server Block"
    );
}

#[test]
fn old_options_of_etcd() {
    let etcd = |options: &str| {
        let world = Memory::new(&format!("a {{\netcd {{\n{options}\n}}\n}}\n")).file("r", "nameserver 192.0.2.7\n");
        let corefile = world
            .load()
            .unwrap_or_else(|refused| panic!("{}", refused.render(Colour::Off)));
        let etcd = corefile.blocks[0].etcd[0].clone();
        let servers = etcd.upstream.iter().flat_map(|servers| &servers.to);
        let places = servers.map(|server| format!("{:?}", server.place));
        format!("{} {}", etcd.stub_zones, text(places))
    };
    assert_eq!(etcd("path /x"), "false ");
    assert_eq!(etcd("stubzones\nupstream"), "true ");
    assert_eq!(
        etcd("upstream 192.0.2.1:54 192.0.2.2"),
        "false Address(192.0.2.1:54) Address(192.0.2.2:53)"
    );
    assert_eq!(etcd("upstream r"), "false Address(192.0.2.7:53)");
    assert_eq!(
        error("etcd {\nupstream /none\n}"),
        "plugin/etcd: not an IP address, file, or valid domain: \"/none\""
    );
    assert_eq!(
        error("etcd {\nupstream ns.example\n}"),
        "plugin/etcd: not an IP address or file: \"ns.example\""
    );
}

proptest! {
    #[test]
    fn no_template_panics(parts in proptest::collection::vec(part(), 0..12)) {
        let text = parts.concat();
        if let Ok(template) = Template::new(&text) {
            let facts = Facts {
                zone: "a.",
                name: "b.a.",
                class: "IN",
                rtype: "A",
                remote: "::1",
                groups: &["b.a.", "b", "\u{e9}"],
                variables: &[],
                group_names: &[None, Some("x"), None],
                id: 0,
                flags: Flags(0),
                asked_name: "B.a.",
                asked_type: Rtype::A,
                asked_class: Rclass::IN,
                metadata: &|label| label.to_owned(),
            };
            let mut out = "before".to_owned();
            let _ = template.write(&facts, &mut out);
            prop_assert!(out.starts_with("before") && out.len() <= WRITTEN_MAX + "before".len());
        }
    }

    #[test]
    fn no_rule_panics(words in proptest::collection::vec(word(), 0..8), name in "[a-z0-9.-]{1,20}") {
        let line = format!(". {{\nrewrite {}\n}}\n", words.join(" "));
        let Ok(corefile) = Memory::new(&line).load() else { return Ok(()) };
        let rewrite = Rewrite { rules: corefile.blocks[0].rewrite.clone().into() };
        let Ok(name) = NameBuf::from_text(&name) else { return Ok(()) };
        let asked = Question { name: name.as_name(), rtype: Rtype::A, rclass: Rclass::IN };
        let asker = Asker {
            client: "[2001:db8::1]:9".parse().unwrap(),
            server: "[::1]:53".parse().unwrap(),
            is_stream: false,
            metadata: &|_, _| {},
        };
        let (mut done, mut scratch) = (Rewritten::default(), Scratch::default());
        if rewrite.question(&asked, None, &asker, &mut scratch, &mut done).is_ok() {
            let _ = rewrite.owner(&done, done.name.as_name(), &mut scratch);
            let _ = rewrite.value(&done, name.as_name(), &mut scratch);
            let _ = rewrite.alias(&done, name.as_name(), &mut scratch);
        }
    }
}

fn part() -> impl Strategy<Value = String> {
    let words = [
        "{{ ",
        " }}",
        "{{- ",
        " -}}",
        ".Name",
        ".Group",
        ".x",
        ".Match",
        " index ",
        " printf ",
        "\"%05d%-8s%q\"",
        " 1",
        " -2",
        "if ",
        "range ",
        "with ",
        "else ",
        "end ",
        "$x",
        " := ",
        " = ",
        "|",
        "(",
        ")",
        "eq ",
        "len ",
        "slice ",
        "'\u{e9}'",
        "\"a\u{e9}\\\"\"",
        "`b`",
        "/* c */",
        ".",
        " ",
        "\n",
        "-",
        "break",
        ", ",
        "parseInt ",
        "\u{e9}",
        "$",
        ".Message.Question",
    ];
    prop_oneof![
        proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        ".{0,3}"
    ]
}

fn word() -> impl Strategy<Value = String> {
    let words = [
        "continue",
        "stop",
        "name",
        "exact",
        "prefix",
        "suffix",
        "substring",
        "regex",
        "answer",
        "auto",
        "value",
        "ttl",
        "rcode",
        "cname",
        "edns0",
        "local",
        "subnet",
        "set",
        "(.*)\\.a",
        "{1}.b",
        "a.b",
        ".",
        ".a",
        "5-",
        "24",
        "0xfe",
        "NXDOMAIN",
        "type",
        "A",
    ];
    prop_oneof![8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => "[a-z{}0-9.\\\\]{1,4}"]
}
