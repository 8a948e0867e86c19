use super::*;
use crate::captures::Captures;

/// `KIND FROM TO`, as a Corefile has them.
fn edit(kind: &str, from: &str, to: &str) -> NameEdit {
    let (matches, to) = match kind {
        "exact" => (NameMatch::Exact(from.into()), Replacement::plain(to)),
        "prefix" => (NameMatch::Prefix(from.into()), Replacement::plain(to)),
        "suffix" => (NameMatch::Suffix(from.into()), Replacement::plain(to)),
        "substring" => (NameMatch::Substring(from.into()), Replacement::plain(to)),
        _ => {
            let captures = Captures::new(from).unwrap();
            let to = Replacement::new(to, captures.group_count());
            (NameMatch::Regex(captures.into()), to)
        }
    };
    NameEdit { matches, to }
}

fn name_rule(kind: &str, from: &str, to: &str, back: Back) -> Change {
    Change::Name(NameRule {
        edit: edit(kind, from, to),
        back,
        answers: [].into(),
    })
}

fn rewrite(rules: impl IntoIterator<Item = (bool, Change)>) -> Rewrite {
    Rewrite {
        rules: rules
            .into_iter()
            .map(|(is_last, change)| Rule { is_last, change })
            .collect(),
    }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text).unwrap()
}

struct Asked {
    rules: Rewrite,
    done: Rewritten,
    scratch: Scratch,
    result: Result<bool, InvalidName>,
}

impl Asked {
    fn new(rules: Rewrite, text: &str, rtype: Rtype) -> Self {
        let (mut done, mut scratch) = (Rewritten::default(), Scratch::default());
        let name = name(text);
        let asked = Question {
            name: name.as_name(),
            rtype,
            rclass: Rclass::IN,
        };
        let asker = Asker {
            client: "192.0.2.1:9".parse().unwrap(),
            server: "192.0.2.53:53".parse().unwrap(),
            is_stream: false,
            metadata: &|_, _| {},
        };
        // What an earlier question left behind does not matter.
        let _ = rules.question(&asked, None, &asker, &mut scratch, &mut done);
        let result = rules.question(&asked, None, &asker, &mut scratch, &mut done);
        Self {
            rules,
            done,
            scratch,
            result,
        }
    }

    /// The new question, and what becomes of the names of the answer, owners and values.
    #[track_caller]
    fn check(mut self, question: &str, answer: &[(&str, &str, &str)]) {
        self.result.clone().unwrap();
        assert_eq!(self.done.name.to_string(), question);
        for (text, owner, value) in answer {
            let before = name(text);
            let shown = |name: Option<NameBuf>| name.map_or_else(|| "-".to_owned(), |name| name.to_string());
            let found = (
                shown(self.rules.owner(&self.done, before.as_name(), &mut self.scratch)),
                shown(self.rules.value(&self.done, before.as_name(), &mut self.scratch)),
            );
            assert_eq!((found.0.as_str(), found.1.as_str()), (*owner, *value), "{text}");
        }
    }
}

#[test]
fn a_name_and_back() {
    let rules = || rewrite([(true, name_rule("exact", "old.oak.", "new.elm.", Back::Remap))]);
    Asked::new(rules(), "OLD.oak", Rtype::A).check(
        "new.elm.",
        &[
            ("new.elm", "old.oak.", "old.oak."),
            ("a.New.elm", "a.old.oak.", "a.old.oak."),
            ("xnew.elm", "-", "-"),
            ("elm", "-", "-"),
        ],
    );
    let other = Asked::new(rules(), "A.old.oak", Rtype::A);
    assert_eq!(other.result, Ok(false));
    other.check("A.old.oak.", &[("new.elm", "-", "-")]);
}

#[test]
fn suffixes_go_back_for_every_name() {
    let back = Back::Edit(edit("suffix", ".cedar.example.", ".pine.example."));
    let rules = rewrite([(true, name_rule("suffix", ".pine.example.", ".cedar.example.", back))]);
    Asked::new(rules, "al.pine.example", Rtype::A).check(
        "al.cedar.example.",
        &[
            ("al.cedar.example", "al.pine.example.", "al.pine.example."),
            ("new.cedar.example", "new.pine.example.", "new.pine.example."),
            ("cedar.example", "-", "-"),
        ],
    );
}

#[test]
fn without_a_way_back_names_stay() {
    let rules = rewrite([(true, name_rule("suffix", ".pine.", ".oak.", Back::Stay))]);
    let asked = Asked::new(rules, "a.pine", Rtype::A);
    assert!(!asked.rules.changes_names(&asked.done));
    asked.check("a.oak.", &[("a.oak", "-", "-")]);
}

#[test]
fn answers_by_patterns() {
    let answer = |field, from, to| AnswerRule {
        field,
        edit: edit("regex", from, to),
    };
    let rule = NameRule {
        edit: edit("regex", r"(.*)\.larch\.", "{1}.oak."),
        back: Back::Stay,
        answers: [
            answer(AnswerField::Owner, r"(.*)\.oak\.", "{1}.larch."),
            answer(AnswerField::Value, r"(.*)\.oak\.", "{1}.beech."),
        ]
        .into(),
    };
    Asked::new(rewrite([(true, Change::Name(rule))]), "a.b.larch", Rtype::A)
        .check("a.b.oak.", &[("a.oak", "a.larch.", "a.beech."), ("a.elm", "-", "-")]);
}

#[test]
fn rules_go_on_and_are_undone_in_reverse() {
    let rules = rewrite([
        (false, name_rule("exact", "a.", "b.", Back::Remap)),
        (false, name_rule("exact", "x.", "y.", Back::Remap)),
        (false, Change::Type(Rtype::AAAA, Rtype::A)),
        (false, Change::Class(Rclass::IN, Rclass::CH)),
        (true, name_rule("exact", "b.", "c.", Back::Remap)),
        (true, name_rule("exact", "c.", "d.", Back::Remap)),
    ]);
    let asked = Asked::new(rules, "a", Rtype::AAAA);
    assert_eq!((asked.done.rtype, asked.done.rclass), (Rtype::A, Rclass::CH));
    asked.check(
        "c.",
        &[
            ("c", "a.", "a."),
            ("z.c", "z.a.", "z.a."),
            ("b", "a.", "a."),
            ("d", "-", "-"),
        ],
    );
}

#[test]
fn a_name_that_is_none_is_told() {
    let check = |kind: &str, from: &str, to: &str| {
        let asked = Asked::new(
            rewrite([(true, name_rule(kind, from, to, Back::Stay))]),
            "odd.oak",
            Rtype::A,
        );
        asked.result.unwrap_err().0
    };
    assert_eq!(&*check("regex", "^odd(.*)$", "{1}..elm."), ".oak...elm.");
    let long = "a.".repeat(130);
    assert_eq!(*check("suffix", "oak.", &long), *format!("odd.{long}"));
    assert_eq!(&*check("suffix", "oak.", &"a.".repeat(600)), "odd.oak.");
}

#[test]
fn names_of_answers_that_would_be_none_stay() {
    let back = Back::Edit(edit("suffix", ".oak.", "..elm."));
    let rules = rewrite([(true, name_rule("suffix", ".elm.", ".oak.", back))]);
    Asked::new(rules, "a.elm", Rtype::A).check("a.oak.", &[("a.oak", "-", "-")]);
}

#[test]
fn times_and_rcodes() {
    let of = || NameMatch::Suffix(".oak.".into());
    let rules = || {
        rewrite([
            (
                false,
                Change::Ttl {
                    name: of(),
                    min: 10,
                    max: 20,
                },
            ),
            (
                false,
                Change::Ttl {
                    name: NameMatch::Exact("a.oak.".into()),
                    min: 5,
                    max: 5,
                },
            ),
            (
                false,
                Change::Rcode {
                    name: of(),
                    from: Rcode::SERVFAIL,
                    to: Rcode::NXDOMAIN,
                },
            ),
        ])
    };
    let check = |name: &str, ttls: [u32; 3], rcode: Rcode| {
        let Asked { rules, done, .. } = Asked::new(rules(), name, Rtype::A);
        assert_eq!([5, 15, 300].map(|ttl| rules.ttl(&done, ttl)), ttls, "{name}");
        assert_eq!(rules.rcode(&done, Rcode::SERVFAIL), rcode, "{name}");
        assert_eq!(rules.rcode(&done, Rcode::NOERROR), Rcode::NOERROR, "{name}");
    };
    check("b.oak", [10, 15, 20], Rcode::NXDOMAIN);
    // The rule that applied last is undone first.
    check("a.oak", [10, 10, 10], Rcode::NXDOMAIN);
    check("oak", [5, 15, 300], Rcode::SERVFAIL);
}

#[test]
fn aliases_that_are_looked_up_elsewhere() {
    let rules = rewrite([(true, Change::Alias(edit("suffix", ".far.test.", ".oak.")))]);
    let Asked {
        rules,
        done,
        mut scratch,
        result,
    } = Asked::new(rules, "www.oak", Rtype::A);
    assert_eq!(result, Ok(true));
    let mut alias = |text: &str| {
        rules
            .alias(&done, name(text).as_name(), &mut scratch)
            .map(|name| name.to_string())
    };
    assert_eq!(alias("Web.far.test").as_deref(), Some("web.oak."));
    assert_eq!(alias("web.near.test"), None);
}

#[test]
fn options_are_for_the_question_as_it_is_then() {
    let option = OptionRule {
        action: OptionAction::Set,
        code: 65_001,
        data: OptionData::Variable(Variable::Name),
        is_reverted: true,
    };
    let rules = rewrite([
        (false, name_rule("exact", "a.", "b.", Back::Remap)),
        (true, Change::Option(option)),
    ]);
    let asked = Asked::new(rules, "a", Rtype::A);
    assert_eq!(
        asked.done.options.set().collect::<Vec<_>>(),
        [(65_001, b"b.".as_slice())]
    );
}

#[test]
fn where_names_stand_in_data() {
    let check = |rtype, rdata: &[u8], expected| assert_eq!(value_at(rtype, rdata), expected, "{rtype}");
    check(Rtype::CNAME, b"\x01a\0", Some(0));
    check(Rtype::MX, b"\0\x05\x01a\0", Some(2));
    check(Rtype::SRV, b"\0\0\0\0\0\x50\x01a\0", Some(6));
    check(Rtype::NAPTR, b"\0\x01\0\x02\x01u\0\0\0", Some(8));
    check(Rtype::NAPTR, b"\0\x01\0\x02\x01u", None);
    check(Rtype::SOA, b"\0\0", Some(0));
    check(Rtype::A, b"\0\0\0\0", None);
    check(Rtype::TXT, b"\x01a", None);
}
