//! What a person sees: each finding as it is drawn, in `diagnostics.txt`.
//!
//! A case is a Corefile, `----`, and what is printed. `BLESS=1 cargo test` rewrites the printed half; the diff is to be
//! read.

use super::Memory;
use crate::corefile::{Colour, Findings};

const CASES: &str = include_str!("diagnostics.txt");
const BETWEEN: &str = "\n====\n";
const BEHIND: &str = "\n----\n";

fn world(corefile: &str) -> Memory {
    Memory::new(corefile)
        .file("parts/directive", "whoami\n\nfrobnicate\n")
        .file("parts/snippet", "(base) {\n    whoami\n}\n")
        .file("parts/block", "cedar.example {\n    whoami\n}\n")
        .file("parts/itself", "import itself\n")
        .variable("PASSWORD", "open sesame")
}

fn draw(corefile: &str) -> String {
    let world = world(corefile);
    match world.load() {
        Ok(corefile) => {
            let warnings = Findings::from_iter(corefile.warnings);
            warnings.render(&corefile.sources, Colour::Off)
        }
        Err(refused) => refused.render(Colour::Off),
    }
}

#[test]
fn every_finding_is_drawn_as_recorded() {
    let mut blessed = Vec::new();
    let mut wrong = Vec::new();
    for case in CASES.trim_end().split(BETWEEN) {
        let (corefile, expected) = case.split_once(BEHIND).unwrap_or((case, ""));
        let drawn = draw(corefile);
        if drawn != expected {
            wrong.push(format!("{corefile}\n---- drawn\n{drawn}\n---- expected\n{expected}"));
        }
        blessed.push(format!("{corefile}{BEHIND}{drawn}"));
    }
    if std::env::var_os("BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/corefile/tests/diagnostics.txt");
        std::fs::write(path, blessed.join(BETWEEN) + "\n").unwrap();
    } else {
        assert!(
            wrong.is_empty(),
            "{} of {} are drawn otherwise\n{}",
            wrong.len(),
            blessed.len(),
            wrong.join("\n\n")
        );
    }
}

#[test]
fn every_error_says_how_to_mend_it() {
    for case in CASES.trim_end().split(BETWEEN) {
        let corefile = case.split_once(BEHIND).map_or(case, |(corefile, _)| corefile);
        let errors = world(corefile).load().err().map(|refused| refused.found.errors);
        for error in errors.into_iter().flatten() {
            assert!(error.help.is_some(), "{corefile}\n{}", error.text);
        }
    }
}

#[test]
fn ten_mistakes_in_three_files_are_ten_errors_with_a_help() {
    let world = Memory::new(
        "import parts/snippets
cedar.example {
    import common
    whoam
}
oak..example {
    file
    log {
        class denail
    }
    view v {
        expr clientip() == '192.0.2.1'
    }
}
import parts/more
import parts/none
",
    );
    let world = world
        .file(
            "parts/snippets",
            "(common) {\n    errors {\n        stacktrce\n    }\n}\n",
        )
        .file(
            "parts/more",
            "elm.example {\n    hosts {\n        ttl 0\n    }\n    loadbalance fastest\n}\nelm.example\n",
        );
    let refused = world.load().unwrap_err();
    let places: Vec<String> = refused
        .found
        .errors
        .iter()
        .map(|error| refused.sources.place(error.span.unwrap()))
        .collect();
    let expected = [
        "Corefile:4",
        "Corefile:6",
        "Corefile:7",
        "Corefile:9",
        "Corefile:12",
        "Corefile:16",
        "/etc/parts/snippets:3",
        "/etc/parts/more:3",
        "/etc/parts/more:5",
        "/etc/parts/more:7",
    ];
    assert_eq!(places, expected, "{}", refused.render(Colour::Off));
    let drawn = refused.render(Colour::Off);
    assert_eq!(drawn.matches("= help: ").count(), expected.len(), "{drawn}");
}

#[test]
fn warnings_are_drawn_behind_errors() {
    let drawn = draw("cedar.example {\n    pprof\n    whoam\n}\n");
    let at = |text: &str| drawn.find(text).unwrap_or_else(|| panic!("{text}\n{drawn}"));
    assert!(
        drawn.starts_with("Corefile:3 - ") && at("'whoam'") < at("\n\nwarning: "),
        "{drawn}"
    );
    assert!(drawn.contains("pprof") && drawn.contains("(Corefile:2)"), "{drawn}");
}

#[test]
fn many_errors_are_cut() {
    let world = Memory::new(&format!(". {{\n{}}}\n", "nope\n".repeat(250)));
    let refused = world.load().unwrap_err();
    assert_eq!((refused.found.errors.len(), refused.found.left_out), (100, 150));
    assert!(refused.render(Colour::Off).ends_with("\n\nand 150 more"));
}

#[test]
fn colours_are_for_terminals() {
    let world = Memory::new(". {\nnope\n}\n");
    let refused = world.load().unwrap_err();
    assert!(!refused.render(Colour::Off).contains('\u{1b}'));
    assert!(refused.render(Colour::On).contains('\u{1b}'));
}

#[test]
fn passwords_are_never_drawn() {
    for corefile in [
        ". {\n  etcd {\n    credentials user sesame\n",
        ". {\n  etcd {\n    credentials user sesame more sesame\n  }\n}",
        ". {\n  etcd { credentials user sesame\n  nope } x\n}",
        ". {\n  etcd { credentials user sesame } sesame2\n}",
        ". {\n  etcd {\n    credentials user \"sesame open\n",
        ". {\n  etcd {\n    credentials user {$PASSWORD}\n    nope\n  }\n  nope\n}",
        "(s) {\n credentials user sesame",
        ". {\n  etcd {\n   nope\n   credentials user sesame\n   nope\n",
    ] {
        let drawn = draw(corefile);
        assert!(
            drawn.contains("Corefile:") && !drawn.contains("sesame ") && !drawn.contains("sesame'"),
            "{drawn}"
        );
        assert!(!drawn.contains("open"), "{drawn}");
    }
}
