//! `rewrite`, from text to rules, and what these do with a question.

use nodens_engine::captures::Scratch;
use nodens_engine::plan::rewrite::{Asker, Question, Rewrite, Rewritten};
use nodens_wire::{NameBuf, Rclass, Rcode, Rtype};

use super::Memory;
use super::forwarding::error;
use super::settings::block;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text).unwrap()
}

/// The question for A of a name after the rules, then what becomes of owners and values of the answer.
fn rewritten(lines: &str, asked: &str, answer: &[&str]) -> String {
    let rewrite = Rewrite {
        rules: block(".", lines).rewrite.into(),
    };
    let (mut done, mut scratch) = (Rewritten::default(), Scratch::default());
    let asked = name(asked);
    let question = Question {
        name: asked.as_name(),
        rtype: Rtype::A,
        rclass: Rclass::IN,
    };
    let asker = Asker {
        client: "192.0.2.1:9".parse().unwrap(),
        server: "192.0.2.53:53".parse().unwrap(),
        is_stream: true,
        metadata: &|label, out| out.extend_from_slice(label.as_bytes()),
    };
    if let Err(invalid) = rewrite.question(&question, None, &asker, &mut scratch, &mut done) {
        return format!("! {}", invalid.0);
    }
    let mut shown = format!("{} {} {}", done.name, done.rclass, done.rtype);
    for text in answer {
        let name = name(text);
        let owner = rewrite.owner(&done, name.as_name(), &mut scratch);
        let value = rewrite.value(&done, name.as_name(), &mut scratch);
        for new in [owner, value] {
            shown += &new.map_or_else(|| " -".to_owned(), |new| format!(" {new}"));
        }
        if let Some(alias) = rewrite.alias(&done, name.as_name(), &mut scratch) {
            shown += &format!(" @{alias}");
        }
    }
    let ttls = [1, 100].map(|ttl| rewrite.ttl(&done, ttl));
    if ttls != [1, 100] {
        shown += &format!(" {ttls:?}");
    }
    let rcode = rewrite.rcode(&done, Rcode::SERVFAIL);
    if rcode != Rcode::SERVFAIL {
        shown += &format!(" {rcode}");
    }
    for (code, data) in done.options.set() {
        let data: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        shown += &format!(" {code}:{data}");
    }
    shown
}

#[test]
fn what_rules_do() {
    let check = |line: &str, asked: &str, answer: &[&str], expected: &str| {
        assert_eq!(rewritten(line, asked, answer), expected, "{line}");
    };
    check(
        "rewrite name old.oak NEW.oak",
        "OLD.oak",
        &["new.oak", "a.new.oak"],
        "new.oak. IN A old.oak. old.oak. a.old.oak. a.old.oak.",
    );
    check("rewrite name exact a b", "a", &["b"], "b. IN A a. a.");
    check("rewrite name prefix dev- prod-", "dev-a.oak", &[], "dev-a.oak. IN A");
    check(
        "rewrite name prefix dev. prod.",
        "dev.oak",
        &["prod.oak"],
        "prod.oak. IN A - -",
    );
    check(
        "rewrite name prefix dev. prod. answer auto",
        "dev.oak",
        &["prod.oak"],
        "prod.oak. IN A dev.oak. dev.oak.",
    );
    check(
        "rewrite name suffix .pine .oak",
        "a.pine",
        &["a.oak"],
        "a.oak. IN A - -",
    );
    check(
        "rewrite name suffix .pine. .oak. answer auto",
        "a.pine",
        &["b.oak", "oak"],
        "a.oak. IN A b.pine. b.pine. - -",
    );
    check("rewrite name substring b. c.", "b.b", &[], "c.c. IN A");
    check(
        "rewrite name regex (.*)-(.*)\\.oak\\. {2}.{1}.Elm",
        "a-b.oak",
        &["b.a.elm"],
        "b.a.elm. IN A - -",
    );
    check(
        "rewrite stop name regex (.*)\\.larch {1}.oak answer name (.*)\\.oak {1}.larch answer value (.*)\\.oak {1}.beech",
        "a.larch",
        &["a.oak"],
        "a.oak. IN A a.larch. a.beech.",
    );
    check(
        "rewrite name suffix .larch .oak answer value (.*)\\.oak {1}.larch value (.*)\\.elm {1}.pine",
        "a.larch",
        &["a.oak", "a.elm"],
        "a.oak. IN A - a.larch. - a.pine.",
    );
    check("rewrite name regex ^odd(.*)$ {1}..oak", "odd.elm", &[], "! .elm...oak.");
    check("rewrite type A aaaa", "a", &[], "a. IN AAAA");
    check("rewrite class in ch", "a", &[], "a. CH A");
    check("rewrite ttl a 10-20", "a", &[], "a. IN A [10, 20]");
    check("rewrite ttl suffix .oak 5", "oak", &[], "oak. IN A");
    check("rewrite ttl regex ^a 50-", "ab", &[], "ab. IN A [50, 100]");
    check("rewrite rcode a SERVFAIL nxdomain", "a", &[], "a. IN A NXDOMAIN");
    check("rewrite rcode exact a 2 23", "a", &[], "a. IN A BADCOOKIE");
    check(
        "rewrite cname suffix .far.test. .oak.",
        "a",
        &["web.far.test"],
        "a. IN A - - @web.oak.",
    );
    check(
        "rewrite cname web.far.test x.oak",
        "a",
        &["web.far.test"],
        "a. IN A - - @x.oak.",
    );
    check(
        "rewrite cname prefix web- api-",
        "a",
        &["web-1.oak"],
        "a. IN A - - @api-1.oak.",
    );
    check("rewrite edns0 local set 65001 abc", "a", &[], "a. IN A 65001:616263");
    check(
        "rewrite edns0 local append 0xffee 0x0aFF revert",
        "a",
        &[],
        "a. IN A 65518:0aff",
    );
    check(
        "rewrite edns0 local set 65001 {protocol}",
        "a",
        &[],
        "a. IN A 65001:746370",
    );
    check("rewrite edns0 local set 65001 {a/b}", "a", &[], "a. IN A 65001:612f62");
    check("rewrite edns0 local unset 65001", "a", &[], "a. IN A");
    check("rewrite edns0 nsid set", "a", &[], "a. IN A 3:");
    check("rewrite edns0 subnet set 24 56", "a", &[], "a. IN A 8:00011800c00002");
    check(
        "rewrite edns0 subnet replace 24 56\nrewrite edns0 nsid replace",
        "a",
        &[],
        "a. IN A",
    );
}

#[test]
fn the_order_of_rules() {
    let lines =
        "rewrite continue name exact a b\nrewrite Continue {\nname exact\nb\nc\n}\nrewrite name c d\nrewrite name d e";
    assert_eq!(rewritten(lines, "a", &["d"]), "d. IN A a. a.");
    let block = "rewrite STOP {\nname suffix .pine .oak\nanswer auto\n}";
    assert_eq!(rewritten(block, "a.pine", &["a.oak"]), "a.oak. IN A a.pine. a.pine.");
    assert_eq!(rewritten("rewrite {\ntype A TXT\n}", "a", &[]), "a. IN TXT");
}

#[test]
fn what_is_wrong_with_rules() {
    for (line, expected) in [
        ("", "no rule type specified for rewrite"),
        ("stop", "stop rule must have at least one rule"),
        ("nam a b", "invalid rule type \"nam\""),
        ("answer auto", "response rewrites must begin with a name rule"),
        ("name a", "too few arguments for a name rule"),
        (
            "name sufix a b",
            "name rule supports only exact, prefix, suffix, substring, and regex name matching, received: sufix",
        ),
        ("name regex a( b", "invalid regex matching pattern: a("),
        ("name exact a b(", "invalid regex matching pattern: b(."),
        (
            "name regex (.*)\\.cedar\\.example {1}.{2}.maple.example",
            "the rewrite regex pattern ({1}.{2}.maple.example) uses more subexpressions than its corresponding \
             matching regex pattern ((.*)\\.cedar\\.example)",
        ),
        (
            "name suffix a b auto",
            "exceeded the number of arguments for a non-answer rule argument for suffix rule",
        ),
        ("name suffix a b answer", "type missing for answer rule for suffix rule"),
        (
            "name suffix a b answer owner x y",
            "invalid type \"owner\" for answer rule for suffix rule",
        ),
        (
            "name suffix a b answer name x",
            "name answer rule for suffix rule: 2 arguments required",
        ),
        (
            "name suffix a b answer auto answer name x y",
            "auto name answer rule cannot be combined with explicit name answer rules",
        ),
        ("cname glob a b", "unknown cname rewrite type: glob"),
        (
            "name prefix a b answer value ( b",
            "value answer rule for prefix rule: invalid regex matching pattern: (",
        ),
        ("type A", "type rules must have exactly two arguments"),
        ("type A TYPE5", "invalid type \"TYPE5\""),
        ("class IN IN IN", "class rules must have exactly two arguments"),
        ("class IN XX", "invalid class \"XX\""),
        ("ttl a -", "invalid TTL '-' for a ttl rule"),
        ("ttl a", "too few arguments for a ttl rule"),
        (
            "ttl glob a 5",
            "ttl rule supports only exact, prefix, suffix, substring, and regex name matching",
        ),
        ("rcode a NXDOMAIN", "too few (2) arguments for a rcode rule"),
        ("rcode a 24 NXDOMAIN", "invalid matching RCODE '24' for a rcode rule"),
        (
            "rcode a NXDOMAIN NOPE",
            "invalid replacement RCODE 'NOPE' for a rcode rule",
        ),
        ("cname a", "too few (1) arguments for a cname rule"),
        ("edns0 local", "too few arguments for an EDNS0 rule"),
        ("edns0 local put 5 a", "invalid action: \"put\""),
        ("edns0 cookie set", "invalid rule type \"cookie\""),
        ("edns0 local set 5", "EDNS0 local rules require exactly three args"),
        (
            "edns0 local set x a",
            "strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("edns0 local set 5 0xf", "encoding/hex: invalid bytes: 0xf"),
        ("edns0 local set 5 {name}", "unsupported variable name \"{name}\""),
        ("edns0 nsid set x", "EDNS0 NSID rules can not have arguments"),
        ("edns0 subnet set 24", "EDNS0 subnet rules require exactly three args"),
        ("edns0 subnet set 33 56", "invalid IPv4 bit mask length 33"),
        ("edns0 subnet set 24 129", "invalid IPv6 bit mask length 129"),
    ] {
        assert_eq!(
            error(&format!("rewrite {line}")),
            format!("plugin/rewrite: {expected}"),
            "{line}"
        );
    }
    let both = Memory::new(". {\nrewrite name a b {\nanswer auto\n}\n}\n")
        .load()
        .unwrap_err();
    assert_eq!(both.found.errors[0].text, "Unexpected token '{' behind 'rewrite'");
    let long = "a".repeat(10_001);
    assert!(error(&format!("rewrite name regex {long} b")).starts_with("plugin/rewrite: invalid regex"));
}
