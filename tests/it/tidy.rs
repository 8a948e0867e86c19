//! What the manifests, the crate roots and the file tree have to keep to, so that nobody has to watch for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nodens::corefile::directive;

const FOLDERS: [&str; 7] = ["wire", "engine", "sources", "control", "tests", "benches", "fuzz"];
/// Lines of one file. Longer ones are two files.
const LINES_MAX: usize = 800;
/// Words that say nothing about what a module holds.
const NAMES_THAT_SAY_NOTHING: [&str; 9] = [
    "util", "utils", "common", "helpers", "manager", "context", "handler", "types", "misc",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file of the project, by its path from the root.
fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                if !matches!(entry.file_name().to_str(), Some("target" | "artifacts" | "corpus")) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|end| end == "rs") {
                let path = path.to_str().unwrap().to_owned();
                let text = read(&path);
                found.insert(path, text);
            }
        }
    }
    assert!(found.len() > 100, "the files are where they are looked for");
    found
}

/// The names below `[section]` of a manifest.
fn entries(folder: &str, section: &str) -> Vec<String> {
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let heading = format!("[{section}]");
    let lines = manifest.lines().skip_while(|line| line.trim() != heading).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// A line of code without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

#[test]
fn crates_point_one_way() {
    let own = |folder: &str| {
        let mut own = entries(folder, "dependencies");
        own.retain(|name| name.starts_with("nodens"));
        own.sort();
        own
    };
    assert_eq!(own("wire"), [""; 0]);
    assert_eq!(own("engine"), ["nodens-wire"]);
    assert_eq!(own("sources"), ["nodens-wire"]);
    assert_eq!(own("control"), ["nodens-engine", "nodens-sources", "nodens-wire"]);
    for folder in ["wire", "engine", "sources", "control"] {
        let tests = entries(folder, "dev-dependencies");
        assert!(
            tests
                .iter()
                .all(|name| !matches!(&**name, "nodens-tests" | "nodens-benches" | "nodens-fuzz")),
            "nothing uses tests, benches or fuzz: {folder}"
        );
        let manifest = read(&format!("{folder}/Cargo.toml"));
        assert!(
            !manifest.contains("[target.") && !manifest.contains("[build-dependencies]"),
            "{folder}"
        );
    }
}

#[test]
fn wire_needs_next_to_nothing() {
    for name in entries("wire", "dependencies") {
        assert!(
            ["arrayvec", "bytes", "zerocopy"].contains(&&*name),
            "wire depends on {name}"
        );
    }
}

#[test]
fn the_engine_knows_no_control_plane_and_sources_no_tries() {
    for name in entries("engine", "dependencies") {
        for other in ["tokio", "serde", "kube", "etcd", "axum", "clap", "hyper", "reqwest"] {
            assert!(!name.starts_with(other), "the engine depends on {name}");
        }
    }
    for (path, text) in sources() {
        // What the core is told: time, files, the network.
        let is_core =
            path.starts_with("engine/src/") && !path.starts_with("engine/src/io/") && path != "engine/src/worker.rs";
        if !is_core {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            for word in [
                "std::fs",
                "std::process",
                "Instant::now",
                "SystemTime",
                "rustix::",
                "libc::",
                "thread::spawn",
            ] {
                assert!(!code(line).contains(word), "{path}:{}: {word}", at + 1);
            }
        }
    }
}

#[test]
fn snapshots_are_stored_in_one_place() {
    for (path, text) in sources() {
        let may = matches!(
            &*path,
            "control/src/publish.rs" | "engine/src/snapshot.rs" | "tests/it/tidy.rs"
        );
        let stores = text.contains(".swap_data(") || text.contains(".swap_config(");
        assert!(
            may || !stores || path.starts_with("tests/") || path.starts_with("benches/"),
            "{path} publishes"
        );
    }
}

#[test]
fn unsafe_code_lives_below_io() {
    for root in [
        "wire/src/lib.rs",
        "sources/src/lib.rs",
        "control/src/lib.rs",
        "tests/src/lib.rs",
    ] {
        assert!(read(root).contains("\n#![forbid(unsafe_code)]\n"), "{root}");
    }
    let engine = read("engine/src/lib.rs");
    assert!(engine.contains("\n#![deny(unsafe_code)]\n"));
    let allowed: Vec<_> = engine
        .lines()
        .zip(engine.lines().skip(1))
        .filter(|(line, _)| line.contains("allow(unsafe_code"))
        .collect();
    assert!(matches!(allowed[..], [(_, "pub mod io;")]), "{allowed:?}");
    let lints = entries("control", "lints");
    assert_eq!(lints, ["workspace"]);
    for folder in FOLDERS {
        assert_eq!(entries(folder, "lints"), ["workspace"], "{folder} keeps the lints");
    }
    for (path, text) in sources() {
        if path.starts_with("engine/src/io/") || path == "tests/it/tidy.rs" {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let has = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern"];
            assert!(
                !has.iter().any(|form| code(line).contains(form)),
                "{path}:{}: {line}",
                at + 1
            );
            let lifts = code(line).contains("allow(unsafe_code") && path != "engine/src/lib.rs";
            assert!(!lifts, "{path}:{}: {line}", at + 1);
        }
    }
}

#[test]
fn nothing_is_left_to_be_done() {
    for (path, text) in sources() {
        if path == "tests/it/tidy.rs" {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            for word in ["dbg!", "todo!", "unimplemented!"] {
                assert!(!code(line).contains(word), "{path}:{}: {word}", at + 1);
            }
            for word in ["FIXME", "TODO"] {
                assert!(!line.contains(word), "{path}:{}: {word}", at + 1);
            }
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_hold() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{path} has {lines} lines");
        let path = Path::new(&path);
        let words = path.with_extension("");
        // A program of benches is called what it is.
        let is_program = path.starts_with("benches/src/bin");
        for word in words.components().filter_map(|part| part.as_os_str().to_str()) {
            assert!(
                is_program || !NAMES_THAT_SAY_NOTHING.contains(&word),
                "{}",
                path.display()
            );
        }
        let says = text
            .lines()
            .find(|line| !line.starts_with("#!") && !line.trim().is_empty());
        // Tests of one file, or the parts of one test, are described where they are listed.
        let is_inner = path
            .iter()
            .skip(1)
            .filter_map(|part| part.to_str())
            .any(|part| matches!(part, "tests" | "tests.rs") || part.ends_with("_tests.rs"));
        assert!(
            is_inner || says.is_some_and(|line| line.starts_with("//!")),
            "{} says what it is",
            path.display()
        );
    }
}

#[test]
fn the_changelog_has_room_for_what_is_new() {
    assert!(
        read("CHANGELOG.md")
            .lines()
            .any(|line| line.trim_matches(['#', ' ', '[', ']']) == "Unreleased")
    );
}

#[test]
fn every_directive_is_described() {
    for directive in directive::KNOWN {
        let text = read(&format!("docs/directives/{directive}.md"));
        assert!(
            text.lines().count() > 5 && text.contains(directive),
            "docs/directives/{directive}.md says nothing"
        );
    }
}
