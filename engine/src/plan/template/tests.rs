use super::super::view::Value as Number;
use super::*;

/// What a template writes for `ip-10-ff.cedar.example. A`, of which a pattern has the groups.
fn written(text: &str) -> String {
    let facts = Facts {
        zone: "cedar.example.",
        name: "ip-10-ff.cedar.example.",
        class: "IN",
        rtype: "A",
        remote: "192.0.2.9",
        groups: &["ip-10-ff.cedar.example.", "10", "ff", ""],
        group_names: &[None, Some("a"), Some("b"), Some("none")],
        variables: &[
            ("host", Some(Known::Text("a-b".to_owned()))),
            ("port", Some(Known::Number(Number::Int(53)))),
            ("host", Some(Known::Text("host-9".to_owned()))),
            ("half", Some(Known::Number(Number::Float(0.5)))),
            ("is_big", Some(Known::Bool(false))),
            ("none", None),
        ],
        id: 4660,
        flags: Flags(0).with_rd(true),
        asked_name: "IP-10-ff.cedar.example.",
        asked_type: Rtype::A,
        asked_class: Rclass::IN,
        metadata: &|label| format!("<{label}>"),
    };
    let mut out = String::new();
    match Template::new(text) {
        Err(fault) => format!("!! {fault}"),
        Ok(template) => match template.write(&facts, &mut out) {
            Ok(()) => out,
            Err(fault) => format!("! {fault}"),
        },
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(written(text), expected, "{text}");
}

#[test]
fn what_templates_of_the_documentation_write() {
    check(
        "{{ .Name }} 60 IN A 10.{{ .Group.a }}.{{ parseInt .Group.b 16 64 }}.1",
        "ip-10-ff.cedar.example. 60 IN A 10.10.255.1",
    );
    check("{{ .Zone }} 60 {{ .Class }} {{ .Type }}", "cedar.example. 60 IN A");
    check("{{ index .Match 1 }}.{{ index .Group \"b\" }}", "10.ff");
    check("{{ .Name }} {{ .Remote }}", "ip-10-ff.cedar.example. 192.0.2.9");
    check(
        "{{ .Meta \"a/b\" }}{{ \"c/d\" | .Meta }}{{ (.Meta \"e/f\") }}",
        "<a/b><c/d><e/f>",
    );
    check(
        "{{ .Question.Name }} {{ .Question.Qtype }} {{ .Question.Qclass }}",
        "IP-10-ff.cedar.example. 1 1",
    );
    check(
        "{{ (index .Message.Question 0).Name }} {{ .Message.Id }} {{ .Message.RecursionDesired }}",
        "IP-10-ff.cedar.example. 4660 true",
    );
    check(
        "{{ .Group.none }}|{{ .Group.other }}|{{ index .Group \"other\" }}",
        "|<no value>|",
    );
    check("no action", "no action");
    check("", "");
}

#[test]
fn variables_of_the_stanza() {
    check(
        "{{ .Var.host }}:{{ index .Var \"port\" }} {{ .Var.half }}",
        "host-9:53 0.5",
    );
    check(
        "{{ if .Var.is_big }}big{{ else }}{{ if .Var }}small{{ end }}{{ end }}",
        "small",
    );
    check("{{ printf \"%04d\" .Var.port }} {{ len .Var.host }}", "0053 6");
    check("{{ .Var.other }}{{ index .Var \"other\" }}", "<no value><no value>");
    check("{{ .Var.none }}", "! the variable none has no value");
    check(
        "{{ range $name, $value := .Var }}{{ $name }}={{ $value }},{{ end }}",
        "half=0.5,host=host-9,is_big=false,port=53,",
    );
    check("{{ .Var }}", "map[half:0.5 host:host-9 is_big:false port:53]");
}

#[test]
fn conditions() {
    check("{{ if eq .Type \"A\" }}yes{{ else }}no{{ end }}", "yes");
    check(
        "{{if ne .Type \"A\"}}yes{{else if .Group.a}}else{{else}}no{{end}}",
        "else",
    );
    check("{{ if .Group.none }}yes{{ end }}", "");
    check(
        "{{ with .Group.b }}{{ . }}{{ $.Name }}{{ else }}no{{ end }}",
        "ffip-10-ff.cedar.example.",
    );
    check(
        "{{ with .Group.none }}yes{{ else with .Group.a }}{{ . }}{{ end }}",
        "10",
    );
    check("{{ with .Group.none }}yes{{ else }}{{ .Type }}{{ end }}", "A");
    check(
        "{{ if and .Group.a .Group.b }}{{ or .Group.none .Group.b }}{{ end }}",
        "ff",
    );
    check("{{ if or .Group.none (not .Group.a) }}yes{{ else }}no{{ end }}", "no");
    check("{{ and true 0 }}{{ or 0 \"\" }}", "0");
    // What decides is all that is evaluated.
    check(
        "{{ or true (index .Match 9) }}{{ and false (index .Match 9) }}",
        "truefalse",
    );
    check("{{ if eq .Type \"AAAA\" \"A\" }}one{{ end }}", "one");
    check(
        "{{ lt 1 2 }} {{ le 2 2 }} {{ gt 1 2 }} {{ ge \"b\" \"a\" }} {{ eq true true }}",
        "true true false true true",
    );
}

#[test]
fn loops_and_variables() {
    check(
        "{{ range .Match }}[{{ . }}]{{ end }}",
        "[ip-10-ff.cedar.example.][10][ff][]",
    );
    check(
        "{{ range $i, $e := .Match }}{{ $i }}={{ $e }} {{ end }}",
        "0=ip-10-ff.cedar.example. 1=10 2=ff 3= ",
    );
    check(
        "{{ range $e := .Match }}{{ if eq $e \"10\" }}{{ continue }}{{ end }}{{ if eq $e \"ff\" }}{{ break }}{{ end }}{{ len $e }}{{ end }}",
        "23",
    );
    check(
        "{{ range $k, $v := .Group }}{{ $k }}:{{ len $v }} {{ end }}",
        "0:23 1:2 2:2 3:0 a:2 b:2 none:0 ",
    );
    check(
        "{{ range 3 }}{{ . }}{{ end }}{{ range 0 }}x{{ else }}none{{ end }}",
        "012none",
    );
    check("{{ $x := .Group.a }}{{ $y := printf \"%s%s\" $x $x }}{{ $y }}", "1010");
    check(
        "{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ $x }}{{ end }}{{ $x }}",
        "32",
    );
    check("{{ $x := 1 }}{{ with 5 }}{{ $x }}{{ . }}{{ end }}", "15");
    check("{{ range .Message.Question }}{{ .Qtype }}{{ end }}", "1");
}

#[test]
fn blanks_and_comments() {
    check("a  {{- \" b \" -}}  c", "a b c");
    check("a {{/* no */}}b{{- /* no */ -}} c", "a bc");
    check("{{-3}} {{ -3 }}", "-3 -3");
    check("{{\"x\"|printf \"%s-%s\" \"y\"}}", "y-x");
    check("{{ .Name|len }}", "23");
}

#[test]
fn functions() {
    check("{{ len .Match }} {{ len .Group }} {{ len \"abc\" }}", "4 7 3");
    check("{{ print 1 2 \"a\" 3 }} {{ print \"a\" \"b\" }}", "1 2a3 ab");
    check("{{ println 1 \"a\" }}", "1 a\n");
    check(
        "{{ slice .Group.b 1 }}{{ slice \"abc\" 1 2 }}{{ slice \"abc\" }}",
        "fbabc",
    );
    check(
        "{{ index \"abc\" 1 }} {{ 'a' }} {{ 0x1f }} {{ 0b11 }} {{ 017 }} {{ 1_000 }}",
        "98 97 31 3 15 1000",
    );
    check(
        "{{ parseInt \"FF\" 16 8 }} {{ parseInt \"0x1f\" 0 0 }} {{ parseInt \"z\" 36 8 }}",
        "255 31 35",
    );
    check("{{ \"a\\tb\\\"\\x41\" }}{{ `raw\\n` }}", "a\tb\"Araw\\n");
    check(
        "{{ .Match }} {{ .Group }}",
        "[ip-10-ff.cedar.example. 10 ff ] map[0:ip-10-ff.cedar.example. 1:10 2:ff 3: a:10 b:ff none:]",
    );
}

#[test]
fn forms_of_printf() {
    for (form, expected) in [
        (
            "\"%d|%5d|%-5d|%05d|%+d|% d\" 42 42 42 42 42 42",
            "42|   42|42   |00042|+42| 42",
        ),
        (
            "\"%x|%X|%#x|%04x|%o|%b|%c\" 255 255 255 255 8 5 65",
            "ff|FF|0xff|00ff|10|101|A",
        ),
        (
            "\"%s|%5s|%-5s|%.2s|%q|%x\" \"abc\" \"abc\" \"abc\" \"abc\" \"a\" \"az\"",
            "abc|  abc|abc  |ab|\"a\"|617a",
        ),
        ("\"%v %v %v %t\" 1 \"a\" true false", "1 a true false"),
        ("\"%05d|%.3d\" -42 7", "-0042|007"),
        ("\"100%%\"", "100%"),
        ("\"%d\" \"a\"", "%!d(string=a)"),
        ("\"%s\" 5", "%!s(int=5)"),
        ("\"%d\"", "%!d(MISSING)"),
        ("\"a\" 1 \"b\"", "a%!(EXTRA int=1, string=b)"),
        ("\"a%\"", "a%!(NOVERB)"),
    ] {
        check(&format!("{{{{ printf {form} }}}}"), expected);
    }
}

#[test]
fn what_is_no_template() {
    for (text, expected) in [
        ("{{ .Nme }}", "there is no .Nme"),
        ("{{ $.Vars }}", "there is no .Vars"),
        ("{{ nil }}", "nil is not a command"),
        ("{{ foo }}", "function \"foo\" not defined"),
        ("{{ $x }}", "undefined variable \"$x\""),
        (
            "{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}",
            "undefined variable \"$x\"",
        ),
        ("{{ $x := $x }}", "undefined variable \"$x\""),
        ("{{ end }}", "unexpected {{end}}"),
        ("{{ else }}", "unexpected {{else}}"),
        ("{{ if true }}", "unexpected EOF"),
        ("{{ range .Match }}{{ else }}{{ else }}{{ end }}", "unexpected {{else}}"),
        ("{{ .Name", "unclosed action"),
        ("{{ /* a }}", "unclosed comment"),
        ("{{ }}", "missing value for command"),
        ("{{ .Name | }}", "missing value for command"),
        ("{{ .Name | 5 }}", "non executable command in pipeline"),
        ("{{ \"a }}", "unterminated quoted string"),
        ("{{ \"\\z\" }}", "invalid escape in a text"),
        ("{{ 1.5 }}", "bad number syntax: \"1.5\"; whole numbers are supported"),
        ("{{ (.Name }}", "unexpected \"}\" in brackets"),
        ("{{ .Name) }}", "unexpected \")\" in command"),
        ("{{ break }}", "{{break}} outside {{range}}"),
        ("{{ template \"a\" }}", "{{template}} is not supported here"),
        ("{{ .Name.. }}", "unexpected \".\" behind a dot"),
        ("{{ \"a\"\"b\" }}", "unexpected \"\\\"\" in operand"),
    ] {
        check(text, &format!("!! {expected}"));
    }
    let long = "a".repeat(TEXT_BYTES_MAX);
    assert_eq!(written(&long).len(), TEXT_BYTES_MAX);
    check(
        &format!("{long}a"),
        "!! the template has 10001 bytes, at most 10000 are allowed",
    );
    let deep = |depth: usize| format!("{{{{ {}1{} }}}}", "(".repeat(depth), ")".repeat(depth));
    check(&deep(32), "1");
    check(&deep(33), "!! blocks and brackets are more than 32 deep");
}

#[test]
fn what_cannot_be_written() {
    for (text, expected) in [
        ("{{ index .Match 4 }}", "error calling index: index out of range: 4"),
        ("{{ index .Match -1 }}", "error calling index: index out of range: -1"),
        (
            "{{ index .Name \"a\" }}",
            "error calling index: can't index this value by that key",
        ),
        ("{{ eq 1 \"a\" }}", "incompatible types for comparison"),
        ("{{ eq 1 }}", "wrong number or type of args for eq"),
        ("{{ len 5 5 }}", "wrong number or type of args for len"),
        ("{{ .Name \"a\" }}", "can't give argument to non-function"),
        ("{{ .Meta }}", "wrong number of args for Meta: want 1, a text"),
        ("{{ .Name.Foo }}", "can't evaluate field Foo"),
        ("{{ range .Name }}{{ end }}", "range can't iterate over this value"),
        (
            "{{ parseInt \"x\" 10 8 }}",
            "error calling parseInt: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "{{ parseInt \"256\" 10 8 }}",
            "error calling parseInt: strconv.ParseUint: parsing \"256\": value out of range",
        ),
        (
            "{{ parseInt \"1\" 1 8 }}",
            "error calling parseInt: strconv.ParseUint: parsing \"1\": invalid base 1",
        ),
        ("{{ slice \"abc\" 2 1 }}", "error calling slice: index out of range"),
    ] {
        check(text, &format!("! {expected}"));
    }
}

#[test]
fn a_template_ends() {
    check(
        "{{ range 9999 }}{{ range 9999 }}{{ end }}{{ end }}",
        "! the template takes too many steps",
    );
    check(
        "{{ range 9223372036854775807 }}a{{ end }}",
        "! the template takes too many steps",
    );
    check(
        "{{ printf \"%9999s%9999s\" \"a\" \"b\" }}",
        "! the template writes more than 16384 bytes",
    );
    check(
        "{{ range 5 }}{{ printf \"%9999s\" \"\" }}{{ end }}",
        "! the template writes more than 16384 bytes",
    );
    check(
        "{{ $x := \"aaaaaaaa\" }}{{ range 20 }}{{ $x = print $x $x }}{{ end }}",
        "! the template writes more than 16384 bytes",
    );
    assert_eq!(written("{{ printf \"%16384s\" \"\" }}").len(), WRITTEN_MAX);
    assert_eq!(written("{{ len (printf \"%999999999999999999999s\" \"\") }}"), "16384");
}
