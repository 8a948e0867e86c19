use nodens_engine::fuzzing::view_holds;
use nodens_engine::plan::view::View;
use nodens_wire::NameBuf;
use proptest::prelude::*;

use super::condition;

/// A query for WWW.oak.example. AAAA with DO and a size of 4,096.
fn query() -> Vec<u8> {
    let name = NameBuf::from_text("WWW.oak.example.").unwrap();
    let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let opt = [0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0];
    [&head[..], name.as_bytes(), &[0, 28, 0, 1], &opt].concat()
}

/// Whether it holds for the query, or what is wrong: the marked part, the text, and the help.
fn evaluate(text: &str) -> Result<bool, String> {
    match condition(text) {
        Ok(compiled) => {
            let view = View {
                name: "inner".into(),
                conditions: [compiled.expression].into(),
            };
            Ok(view_holds(&view, &query()).unwrap())
        }
        Err(fault) => {
            let further = [fault.label, fault.help].into_iter().flatten();
            let further: String = further.map(|text| format!("; {text}")).collect();
            Err(format!("[{}] {}{further}", &text[fault.at], fault.text))
        }
    }
}

#[track_caller]
fn holds(texts: &[&str]) {
    for text in texts {
        assert_eq!(evaluate(text), Ok(true), "{text}");
    }
}

#[track_caller]
fn fails(texts: &[&str]) {
    for text in texts {
        assert_eq!(evaluate(text), Ok(false), "{text}");
    }
}

#[track_caller]
fn wrong(text: &str, expected: &str) {
    assert_eq!(evaluate(text), Err(expected.to_owned()), "{text}");
}

#[test]
fn functions_tell_of_the_question() {
    holds(&[
        "type() == 'AAAA'",
        "class() == 'IN'",
        "proto() == 'udp'",
        "name() == 'www.oak.example.'",
        "client_ip() == '192.0.2.1'",
        "port() == '4096'",
        "server_ip() == '192.0.2.53'",
        "server_port() == '53'",
        "metadata('view/name') == 'inner'",
        "metadata('forward/upstream') == ''",
        "size() == 44",
        "bufsize() == 4096",
        "id() == 4660",
        "opcode() == 0",
        "do()",
        "incidr(client_ip(), '192.0.2.0/24')",
        "incidr('2001:db8::1', '2001:db8::/33')",
    ]);
    fails(&[
        "incidr(client_ip(), '192.0.2.2/31')",
        "incidr(server_ip(), '2001:db8::/32')",
        "name() == 'WWW.oak.example.'",
    ]);
}

#[test]
fn operators() {
    holds(&[
        "1 < 2 && 2 <= 2 && 3 > 2 && 2 >= 2 && 1 != 2",
        "'a' < 'b' && 'ab' > 'a' && 'a' <= 'a'",
        "true and not false or false",
        "!false",
        "do() == true",
        "type() in ['A', 'AAAA',]",
        "type() not in ['A', 'TXT']",
        "4660 in [1, id()]",
        "type() in ['A', 1, 'AAAA']",
        "not (type() in [])",
        "name() contains 'oak' && name() startsWith 'www.' && name() endsWith '.example.'",
        "name() not contains 'cedar' and name() not matches '^$'",
        r"name() matches '^[a-z]+\\.oak\\.'",
        "name() matches '^' + lower('WWW')",
        "do() ? type() == 'AAAA' : false",
        "(do() ? 1 : 2) == 1",
        "(do() ? 'a' : 'b') == 'a'",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 % 4 == 3 && 5 / 2 == 2.5 && 1 - 2 == -1",
        "-3 % 2 == -1 && +1 == 1 && 0x10 == 16 && 1_000 == 1e3 && .5 == 1 / 2",
        "len(name()) == 16 && len('\u{e9}') == 1 && len(['a', 2]) == 2",
        "upper(type()) == 'AAAA' && lower(type()) == 'aaaa' && upper('\u{e9}') == '\u{c9}'",
        "'a' + type() + 'b' == 'aAAAAb'",
        r#""a" == 'a' && `a\b` == 'a\\b' && '\x41\u0042\103' == 'ABC'"#,
        "9223372036854775807 + 1 < 0",
    ]);
}

#[test]
fn what_has_no_value_does_not_hold() {
    fails(&[
        "incidr('nonsense', '192.0.2.0/24')",
        "!incidr('nonsense', '192.0.2.0/24')",
        "incidr(client_ip(), 'nonsense')",
        "incidr(client_ip(), '192.0.2.0/33') || true",
        "1 % 0 == 0",
        "1 % 0 != 0",
        "1",
        "name()",
        "['a']",
        "do() ? 'a' : true",
    ]);
    // What need not be looked at does no harm.
    holds(&[
        "true || incidr('nonsense', '192.0.2.0/24')",
        "do() ? true : 1 % 0 == 0",
        "do() ? true : 'a'",
        "1 / 0 > 1",
    ]);
    let long = format!("'{}' + name() == ''", "a".repeat(4090));
    assert_eq!(evaluate(&long), Ok(false));
    assert_eq!(evaluate(&format!("!({long})")), Ok(false));
}

#[test]
fn not_binds_as_in_expr_lang() {
    holds(&["not do() == false", "!do() || true", "not (1 == 2)"]);
    wrong(
        "not 1 == 2",
        "[1] a number where a condition is needed; expected a condition",
    );
}

#[test]
fn every_mistake_has_its_place() {
    wrong("client_ip() == && true", "[&&] unexpected sign `&&`; expected a value");
    wrong("", "[] unexpected end of the expression; expected a value");
    wrong(
        "do() do()",
        "[do] unexpected word `do`; expected an operator or the end",
    );
    wrong("(do()", "[)] unexpected end of the expression; expected `)`");
    wrong("type() in ['A' 'B']", "['B'] unexpected text 'B'; expected `,` or `]`");
    wrong("do() ? true", "[true] unexpected end of the expression; expected `:`");
    wrong("nmae() == 'a'", "[nmae()] unknown name nmae; did you mean `name`?");
    wrong(
        "name == 'a'",
        "[name] unknown name name; it is a function; did you mean `name()`?",
    );
    wrong(
        "name(1) == 'a'",
        "[name(1)] too many arguments to call name; expected 0",
    );
    wrong(
        "incidr(client_ip())",
        "[incidr(client_ip())] not enough arguments to call incidr; expected 2",
    );
    wrong(
        "do() && type()",
        "[type()] a text where a condition is needed; expected a condition",
    );
    wrong(
        "do() == 1",
        "[==] invalid operation: == (mismatched types: a condition and a number); these two do not go together",
    );
    wrong(
        "port() == 53",
        "[==] invalid operation: == (mismatched types: a text and a number); \
         `port()` and `server_port()` are texts: '53'; `size()`, `bufsize()`, `id()`, `opcode()` are numbers",
    );
    wrong(
        "type() in 'A'",
        "['A'] a text where a list such as ['A', 'AAAA'] is needed; expected a list such as ['A', 'AAAA']",
    );
    wrong(
        "id() not in ['a']",
        "[not in] invalid operation: in (mismatched types: a number and a text); \
         `port()` and `server_port()` are texts: '53'; `size()`, `bufsize()`, `id()`, `opcode()` are numbers",
    );
    wrong(
        "name() matches 'a('",
        "['a('] error parsing regexp: unclosed group: `a(`; \
         patterns are those of RE2; one that is too large can mostly be begun with `^`",
    );
    wrong(
        "name() matches type()",
        "[type()] the pattern of `matches` is not known before a question comes; \
         write the pattern as a text, or use `contains`, `startsWith` or `endsWith`",
    );
    wrong("1.5 % 2 == 1", "[%] invalid operation: % of numbers that are not whole");
    wrong(
        "(do() ? 1 : 'a') == 1",
        "[(do() ? 1 : 'a')] `? :` between a number and a text; expected two values of one type",
    );
    wrong("type() = 'A'", "[=] unrecognized character: '='; did you mean `==`?");
    wrong("'a", "['a] literal not terminated; expected another '");
    wrong(
        r"name() matches '\.'",
        r"[\.] unable to unescape string; no such escape; a backslash in a text is written twice: `'\\.'` for a dot in a pattern",
    );
    wrong("1x == 1", "[1x] bad number syntax: \"1x\"");
    wrong(
        "2 ** 2 == 4",
        "[**] nodens does not have the operator `**` of expr-lang",
    );
}

#[test]
fn size_and_depth_are_bounded() {
    let nested = |depth: usize| format!("{}do(){}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(evaluate(&nested(31)), Ok(true));
    assert!(evaluate(&nested(32)).unwrap_err().contains("nested more than 32 deep"));
    assert!(
        evaluate(&format!("{}do()", "!".repeat(40)))
            .unwrap_err()
            .contains("nested")
    );
    let many = |count: usize| vec!["do()"; count].join(" && ");
    assert_eq!(evaluate(&many(250)), Ok(true));
    assert!(evaluate(&many(251)).unwrap_err().contains("more than 500 parts"));
    assert!(condition(&" ".repeat(10_001)).unwrap_err().text.contains("10001 bytes"));
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = condition(&text);
    }

    #[test]
    fn whatever_compiles_evaluates(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "do()", "name()", "type()", "size()", "1", "2.5", "'a'", "'^w'", "[", "]", ",", "(", ")", "?", ":", "+", "-",
            "*", "/", "%", "==", "<", "in", "not", "&&", "||", "!", "matches", "contains", "len(", "upper(",
        ]), 1..12)) {
        let text = words.join(" ");
        let _ = evaluate(&text);
    }
}
