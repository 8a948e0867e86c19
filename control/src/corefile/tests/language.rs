//! The language: braces, keys, snippets, imports, variables.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::Memory;
use crate::corefile::lexer::Word;
use crate::corefile::parser::{Line, ParsedBlock, parse};
use crate::corefile::source::{Source, Sources, World};
use crate::corefile::{Corefile, Input, load};

/// The parsed blocks in one line, then `! ` and the first error.
fn show(world: &Memory) -> String {
    let mut sources = Sources::default();
    let text = String::from_utf8(world.read("Corefile".as_ref()).unwrap()).unwrap();
    let file = sources.add(Source {
        name: "Corefile".into(),
        folder: "/etc".into(),
        text: text.into(),
    });
    let parsed = parse(file, &mut sources, world);
    let mut shown: Vec<String> = parsed.blocks.iter().map(block).collect();
    shown.extend(
        parsed
            .findings
            .errors
            .first()
            .map(|error| format!("! {}", error.headline(&sources))),
    );
    shown.extend(
        parsed
            .findings
            .warnings
            .iter()
            .map(|warning| format!("? {}", warning.headline(&sources))),
    );
    shown.join(" ")
}

fn block(block: &ParsedBlock) -> String {
    let keys: Vec<&str> = block.keys.iter().map(|key| &*key.text).collect();
    format!("{}<{}>", keys.join("+"), lines(&block.directives))
}

fn lines(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let word = |word: &Word| {
            if word.text.contains(' ') {
                format!("'{}'", word.text)
            } else {
                word.text.to_string()
            }
        };
        let words: Vec<String> = std::iter::once(&line.name).chain(&line.args).map(word).collect();
        let block = line
            .block
            .as_ref()
            .map_or_else(String::new, |block| format!("[{}]", self::lines(block)));
        format!("{}{block}", words.join(" "))
    };
    lines.iter().map(line).collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(show(&Memory::new(text)), expected, "{text:?}");
}

#[track_caller]
fn check_world(world: Memory, expected: &str) {
    assert_eq!(show(&world), expected);
}

#[test]
fn blocks_with_and_without_braces() {
    check(". {\nwhoami\n}\n", ".<whoami>");
    check(". {\n}\n", ".<>");
    check(".", ".<>");
    check(". { whoami\nlog a b\n}", ".<whoami; log a b>");
    check("a {\nx\n}\nb {\ny\n}", "a<x> b<y>");
    check("a\nx 1\ny {\nz\n}", "a<x 1; y[z]>");
    check("a\n{\nx\n}\nb {\n}", "a<x> b<>");
    check("a {\nx\n} b {\ny\n}", "a<x> b<y>");
    check("\n# only a comment\n", "");
}

#[test]
fn a_block_without_keys_is_dropped() {
    check(
        "{\nwhoami\n}",
        "? this block has no zone and is not served (Corefile:2)",
    );
    check("{\n}", "");
    check(
        "\"\" {\nwhoami\n}",
        "? this block has no zone and is not served (Corefile:2)",
    );
}

#[test]
fn keys_go_on_behind_a_comma() {
    check("a b c {\nx\n}", "a+b+c<x>");
    check("a, b {\nx\n}", "a+b<x>");
    check("a,\nb,\n\nc {\nx\n}", "a+b+c<x>");
    check("a,\nb\nx", "a+b<x>");
    check("a,b {\n}", "a,b<>");
    check("a \"\" b {\n}", "a+b<>");
    check(
        "a, {\n}",
        "! Corefile:1 - Error during parsing: Expected another address but had '{' - check for extra comma",
    );
    check("a,", "! Corefile:1 - Error during parsing: Unexpected EOF");
}

#[test]
fn directives_have_arguments_and_blocks() {
    check(
        "a {\nx 1 \"2 3\" {\ny 4\nz {\nw\n}\n}\nv\n}",
        "a<x 1 '2 3'[y 4; z[w]]; v>",
    );
    check("a {\nx {\n}\n}", "a<x[]>");
    check("a {\nx \"1\n2\" 3\ny\n}", "a<x 1\n2 3; y>");
}

#[test]
fn a_brace_on_an_options_line_ends_its_block() {
    check("a {\nx { y 1 }\nz\n}", "a<x[y 1]; z>");
    check("a {\nx {\ny 1 }\nz\n}", "a<x[y 1]; z>");
    check("a {\nx { y { z } }\n}", "a<x[y[z]]>");
    check("a {\nx { }\n}", "a<x[]>");
}

#[test]
fn braces_that_do_not_fit() {
    let on_line = "! Corefile:2 - Error during parsing: Unexpected '}' because no matching opening brace";
    check("a {\nx }\n", &format!("a<> {on_line}"));
    check("a {\nx { y } }\n", &format!("a<> {on_line}"));
    check(
        "a {\nx { y } z\n}",
        "a<> ! Corefile:2 - Syntax error: Unexpected token 'z' behind '}'",
    );
    check("a\n}\n", &format!("a<> {on_line}"));
    check(
        "a {\n}\n}\n",
        "a<> ! Corefile:3 - Error during parsing: Unexpected '}' because no matching opening brace",
    );
    check(
        "a {\nx\n{\ny\n}\n}",
        "a<x> ! Corefile:3 - Syntax error: Unexpected token '{', expecting a directive",
    );
    check(
        "a {\nx {\n{\ny\n}\n}\n}",
        "a<> ! Corefile:3 - Syntax error: Unexpected token '{', expecting an option",
    );
    check(
        "a {\nx",
        "a<x> ! Corefile:2 - Syntax error: Unexpected token 'x', expecting '}'",
    );
    check(
        "a {",
        "a<> ! Corefile:1 - Syntax error: Unexpected token '{', expecting '}'",
    );
    check(
        "a {\nx {\ny z",
        "a<> ! Corefile:3 - Error during parsing: Unexpected EOF",
    );
    check(
        "a {\nx {\ny\n}\n",
        "a<x[y]> ? the `}` of the server block is missing (Corefile:4)",
    );
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("a {{\n{}{}}}", "x {\n".repeat(depth), "}\n".repeat(depth));
    assert!(!show(&Memory::new(&nested(32))).contains('!'));
    assert!(show(&Memory::new(&nested(33))).contains("braces are nested more than 32 deep"));
}

#[test]
fn quoted_words_are_not_marked() {
    check("a \"{\"\nx\n\"}\"", "a<x>");
    check("(s) {\nx\n}\na {\n\"import\" s\n}", "a<x>");
}

#[test]
fn variables_are_filled_in_after_splitting() {
    let world = |text| {
        let world = Memory::new(text)
            .variable("Z", "cedar.example")
            .variable("D", "x")
            .variable("BRACE", "{");
        world.variable("TWO", "p q").variable("I", "parts").file("parts", "y\n")
    };
    check_world(
        world("{$Z}:{%P%}53, {$UNSET} b {\n{$D} {%TWO%} {\n{$D}{$D} {$UNSET}\n}\n}"),
        "cedar.example:53+b<x 'p q'[xx ]>",
    );
    check_world(world("a {\nimport {$I}\n}"), "a<y>");
    check_world(world("a {\nx {$BRACE}\n}"), "a<x {>");
    check_world(world("a {\nx {$} {%%} {{ $v }} {{$v}}\n}"), "a<x {$} {%%} {{ $v }} {}>");
}

#[test]
fn snippets_stand_for_their_words() {
    check(
        "(s) {\nx 1\ny {\nz\n}\n}\na {\nimport s\nw\n}\nb {\nimport s\n}",
        "a<x 1; y[z]; w> b<x 1; y[z]>",
    );
    check("(s) { x 1 }\na {\nv\nimport s\nw\n}", "a<v; x 1; w>");
    check("(s) {\nz 1\n}\na {\nx {\ny\nimport s\n}\n}", "a<x[y; z 1]>");
    check("(s) {\nz 1\n}\na {\nx { y\nimport s }\nw\n}", "a<x[y; z 1]; w>");
    check("(s) {\nx\n}\n(t) {\nimport s\ny\n}\na {\nimport t\n}", "a<x; y>");
    check("(s) {\na {\nx\n}\n}\nimport s\nb {\n}", "a<x> b<>");
    check("(s) {\n}\na {\nimport s\n}", "a<>");
    check("(s)\n{\nx\n}\na {\nimport s\n}", "a<x>");
    check("a (s) {\n}", "a+(s)<>");
    check("a {\nx import s\n}", "a<x import s>");
}

#[test]
fn snippets_that_do_not_fit() {
    check(
        "(s) {\n}\n(s) {\n}\n",
        "! Corefile:3 - Error during parsing: redeclaration of previously declared snippet s",
    );
    check(
        "(s) {\nx",
        "! Corefile:2 - Syntax error: Unexpected token 'x', expecting '}'",
    );
    check(
        "(s)\nx",
        "! Corefile:1 - Syntax error: a snippet needs braces around what it stands for, expecting '{'",
    );
    check(
        "(s) {\nimport s\n}\na {\nimport s\n}",
        "a<> ! Corefile:2 - Error during parsing: maximum snippet import depth (10000) exceeded",
    );
    check(
        "a {\nimport s\n}\n(s) {\n}",
        "a<> ! Corefile:2 - Error during parsing: File to import not found: s",
    );
}

#[test]
fn an_import_takes_one_argument() {
    let one = "Import takes only one argument (glob pattern or file)";
    check(
        "(s) {\n}\na {\nimport s t u\nx\n}",
        &format!("a<x> ! Corefile:4 - Error during parsing: {one}"),
    );
    check(
        "(s) {\n}\na {\nimport s {\nx\n}\n}",
        &format!("a<> ! Corefile:4 - Error during parsing: {one}"),
    );
    let none = "Wrong argument count or unexpected line ending after 'import'";
    check(
        "a {\nimport\nx\n}",
        &format!("a<x> ! Corefile:2 - Error during parsing: {none}"),
    );
    check(
        "a {\nimport\n}",
        &format!("a<> ! Corefile:2 - Error during parsing: {none}"),
    );
    check("import", &format!("! Corefile:1 - Error during parsing: {none}"));
    check(
        "a {\nimport {$UNSET}\n}",
        "a<> ! Corefile:2 - Error during parsing: Import requires a non-empty filepath",
    );
}

#[test]
fn files_are_found_beside_the_file_that_imports_them() {
    let world = Memory::new("import conf/blocks\na {\nimport conf/inner\n}");
    let world = world
        .file("conf/blocks", "b {\nimport inner\n}\n")
        .file("conf/inner", "x\ny");
    check_world(world, "b<x; y> a<x; y>");
    let world = Memory::new("import /etc/conf/../all").file("all", "a {\n}");
    check_world(world, "a<>");
    let world = Memory::new("a {\nx {\nimport p\n}\n}").file("p", "y 1\nz");
    check_world(world, "a<x[y 1; z]>");
    let world = Memory::new("import s\na {\nimport t\n}").file("s", "(t) {\nx\n}");
    check_world(world, "a<x>");
    let world = Memory::new("(t) {\nx\n}\na {\nimport t\n}").file("t", "y");
    check_world(world, "a<x>");
    let world = Memory::new("a,\nimport k\n").file("k", "b c {\nx\n}");
    check_world(world, "a+b+c<x>");
}

#[test]
fn a_snippet_of_another_file_imports_beside_that_file() {
    let world = Memory::new("import lib/s\na {\nimport s\n}")
        .file("lib/s", "(s) {\nimport f\n}")
        .file("lib/f", "x");
    check_world(world, "a<x>");
}

#[test]
fn patterns_take_files_in_the_order_of_their_names() {
    let world = || {
        let world = Memory::default()
            .file("z/b.conf", "b {\n}")
            .file("z/a.conf", "a {\n}")
            .file("z/c.txt", "c {");
        world
            .file("d1/x", "x {\n}")
            .file("d2/x", "y {\n}")
            .file("d2/z", "z {\n}")
    };
    check_world(
        world().file("Corefile", "import z/*.conf\nimport d?/x"),
        "a<> b<> x<> y<>",
    );
    check_world(world().file("Corefile", "import /etc/z/?.conf"), "a<> b<>");
    check_world(
        world().file("Corefile", "import none/*\nimport z/*.none\n"),
        "? No files matching import glob pattern: none/* (Corefile:1) ? No files matching import glob pattern: z/*.none (Corefile:2)",
    );
    let others = "Glob pattern may only contain one wildcard (*), but has others: /etc/";
    for name in ["*/*", "?a?", "[ab]"] {
        let expected = format!("! Corefile:1 - Error during parsing: {others}{name}");
        check_world(world().file("Corefile", &format!("import {name}")), &expected);
    }
    check_world(
        world().file("Corefile", "import d?"),
        "! Corefile:1 - Error during parsing: Could not import /etc/d1: is a directory",
    );
}

#[test]
fn errors_in_imported_files_name_them() {
    let world = Memory::new("a {\nimport parts/x\n}").file("parts/x", "x\n\ny }");
    check_world(
        world,
        "a<x> ! /etc/parts/x:3 - Error during parsing: Unexpected '}' because no matching opening brace",
    );
    check_world(
        Memory::new("import dir").file("dir/x", ""),
        "! Corefile:1 - Error during parsing: Could not import /etc/dir: is a directory",
    );
}

#[test]
fn files_that_import_themselves_end() {
    let world = Memory::new("import f").file("f", "import f");
    check_world(
        world,
        "! /etc/f:1 - Error during parsing: maximum file import depth (100000) exceeded",
    );
}

/// Counts how often it is asked whether a file is there.
struct Counted<'m>(&'m Memory, Cell<usize>);

impl World for Counted<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.0.list(folder)
    }

    fn exists(&self, path: &Path) -> bool {
        self.1.set(self.1.get() + 1);
        self.0.exists(path)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.0.is_file(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.variable(name)
    }

    fn working_folder(&self) -> PathBuf {
        self.0.working_folder()
    }
}

#[test]
fn what_imports_itself_is_not_read_a_hundred_thousand_times() {
    for (text, refused) in [
        ("import f\n", true),
        ("a {\n import f\n}\n", true),
        (". {\n errors {\n  consolidate 5m x\n }\n}\nimport g\n", true),
        ("(s) {\n import s\n}\na {\n import s\n}\n", true),
        // What is imported often, and not by itself, is no loop.
        (&format!("a {{\n{}}}\n", "import h\n".repeat(400)), false),
    ] {
        let world = Memory::new("import f")
            .file("f", text)
            .file("g", "import f\n")
            .file("h", "");
        let world = Counted(&world, Cell::new(0));
        let loaded = load(&Input::Default, 53, &world);
        assert_eq!(loaded.is_err(), refused, "{text}");
        assert!(world.1.get() < 500, "{text}: {}", world.1.get());
    }
}

#[test]
fn words_are_bounded() {
    let many = "x ".repeat(1_000);
    let corefile = format!("(s) {{\n{many}\n}}\na {{\n{}\n}}", "import s\n".repeat(1_500));
    assert!(show(&Memory::new(&corefile)).ends_with("more than 1000000 words"));
}

/// The keys of a loaded configuration, `! ` and the errors of one that is refused.
fn zones(input: &Input, world: &Memory) -> String {
    let keys = |corefile: Corefile| {
        let keys = corefile.blocks.iter().flat_map(|block| &block.keys);
        keys.map(|key| format!("{}:{}", key.zone, key.port))
            .collect::<Vec<_>>()
            .join(" ")
    };
    load(input, 5300, world).map_or_else(
        |refused| format!("! {}", refused.found.errors[0].headline(&refused.sources)),
        keys,
    )
}

#[test]
fn where_the_text_comes_from() {
    let world = Memory::default()
        .file("Corefile", "a")
        .file("other/C", "import x")
        .file("other/x", "b")
        .file("x", "c");
    let file = |name: &str| Input::File(name.into());
    assert_eq!(zones(&Input::Default, &world), "a.:5300");
    assert_eq!(zones(&file("other/C"), &world), "b.:5300");
    assert_eq!(zones(&Input::Stdin(b"import x".to_vec()), &world), "c.:5300");
    assert_eq!(zones(&Input::Stdin(b"\xef\xbb\xbfa".to_vec()), &world), "a.:5300");
    assert_eq!(
        zones(&file("none"), &world),
        "! loading Caddyfile via flag: open none: entity not found"
    );
    assert_eq!(
        zones(&file("other"), &world),
        "! loading Caddyfile via flag: open other: is a directory"
    );
    assert_eq!(
        zones(&Input::Stdin(b"a {".to_vec()), &world),
        "! stdin:1 - Syntax error: Unexpected token '{', expecting '}'"
    );
}

#[test]
fn without_a_block_the_built_in_one_serves() {
    for world in [
        Memory::default(),
        Memory::new(""),
        Memory::new("# no\n"),
        Memory::new("{\nwhoami\n}"),
    ] {
        let corefile = load(&Input::Default, 5300, &world).unwrap();
        let [block] = corefile.blocks.as_slice() else {
            panic!("one block")
        };
        assert!(block.whoami && block.log.len() == 1 && block.keys.len() == 1);
        assert_eq!(
            (block.keys[0].zone.to_string().as_str(), block.keys[0].port),
            (".", 5300)
        );
    }
    assert_eq!(zones(&Input::Stdin(Vec::new()), &Memory::default()), ".:5300");
}

#[test]
fn too_large_a_file_is_refused() {
    let world = Memory::new(&"#".repeat((16 << 20) + 1));
    assert_eq!(zones(&Input::Default, &world), "! Corefile: larger than 16 MiB");
    let world = Memory::new("import big").file("big", &"#".repeat((16 << 20) + 1));
    assert_eq!(
        zones(&Input::Default, &world),
        "! Corefile:1 - Error during parsing: Could not import /etc/big: is larger than 16 MiB"
    );
    let big = "#".repeat(16 << 20);
    let world = Memory::new("import b*")
        .file("b1", &big)
        .file("b2", &big)
        .file("b3", &big)
        .file("b4", &big);
    assert_eq!(
        zones(&Input::Default, &world),
        "! Corefile:1 - Error during parsing: Could not import /etc/b4: all files together are larger than 64 MiB"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let world = Memory::default();
        if let Err(refused) = load(&Input::Stdin(bytes), 53, &world) {
            refused.render(crate::corefile::Colour::Off);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_likely_words_panic(
        words in proptest::collection::vec(
            prop_oneof![
                Just("{"), Just("}"), Just("\n"), Just("\n}\n"), Just("{\n"), Just("import"), Just("(s)"), Just("s"), Just("\""),
                Just(". {\n"), Just("\netcd"), Just("\nhosts"), Just("\nfile"), Just("\nlog"), Just("\nbind"), Just("\nroot"),
                Just("\nerrors"), Just("\nhealth"), Just("\nready"), Just("\nprometheus"), Just("\nloadbalance"),
                Just("\nfallthrough"), Just("\ntls"), Just("\ncredentials"), Just("\nttl"), Just("\nreload"), Just("\nclass"),
                Just("\nexcept"), Just("ü"), Just("10.0.0.0/9"), Just(":53"), Just("a,"), Just("{$X}"), Just("#"), Just("0"), Just("-1s"),
            ],
            0..60,
        ),
    ) {
        let world = Memory::new(&words.join(" ")).file("s", "x\n").variable("X", "{");
        match world.load() {
            Ok(corefile) => {
                for warning in &corefile.warnings {
                    warning.render(&corefile.sources, crate::corefile::Colour::On);
                }
            }
            Err(refused) => {
                refused.render(crate::corefile::Colour::Off);
            }
        }
    }
}
