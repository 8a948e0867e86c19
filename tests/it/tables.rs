//! Tables of the documents against what they are made from.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use nodens::args::definition;
use nodens::corefile::directive;
use nodens_tests::nodens::Nodens;
use regex::Regex;

static METRIC: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`((?:coredns|nodens|process|go)_\w+)`").unwrap());
static CONSTANT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`(?:\w+::)*([A-Z][A-Z_]{2,})`").unwrap());

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of each row of a document's tables, in the section with that heading.
fn rows(path: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(path);
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let level = heading.split(' ').next().unwrap();
    let is_next = |line: &str| line.split(' ').next() == Some(level);
    // A bar within a cell is written `\|`.
    let rows = lines
        .take_while(|line| !is_next(line))
        .filter(|line| line.starts_with("| "));
    let cells = |line: &str| {
        line.replace(r"\|", "/")
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.filter(|line| !line.starts_with("| ---")).map(cells).collect()
}

/// All Rust sources of the crates that a server is made of, one text.
fn sources() -> String {
    let mut text = String::new();
    let mut folders: Vec<_> = ["wire", "engine", "sources", "control"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text += &fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn every_directive_is_listed_once() {
    let listed = rows("docs/README.md", "## Directives");
    // Old forms stand in the row of what they are forms of.
    let link = Regex::new(r"\[`(\w+)`\]\(directives/(\w+)\.md\)").unwrap();
    let links = listed.iter().flatten().flat_map(|cell| link.captures_iter(cell));
    let mut listed: Vec<_> = links
        .map(|found| {
            assert_eq!(found[1], found[2], "a page is called what its directive is");
            found[1].to_owned()
        })
        .collect();
    listed.sort();
    assert_eq!(listed, directive::KNOWN);
}

#[test]
fn every_flag_is_listed_once() {
    let name = Regex::new(r"`-([\w.-]+)").unwrap();
    let rows = rows("docs/command-line.md", "## Flags");
    let mut listed: Vec<_> = rows
        .iter()
        .flat_map(|row| name.captures_iter(&row[0]))
        .map(|found| found[1].to_owned())
        .collect();
    let definition = definition();
    let mut flags: Vec<_> = definition
        .get_arguments()
        .flat_map(|flag| {
            flag.get_long()
                .into_iter()
                .chain(flag.get_visible_aliases().unwrap_or_default())
        })
        .collect();
    listed.sort();
    flags.sort_unstable();
    assert_eq!(listed, flags);
}

#[test]
fn every_metric_is_listed_and_no_other() {
    let text = read("docs/metrics.md");
    let tables = text.lines().filter(|line| line.starts_with("| "));
    let listed: BTreeSet<_> = tables
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| METRIC.captures_iter(cell))
        .map(|found| found[1].to_owned())
        .collect();
    let server = Nodens::start(
        "cedar.example:{PORT} {\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{METRICS}\n    hosts\n    \
         etcd {\n        endpoint http://127.0.0.1:1\n    }\n    whoami\n}\n",
    );
    server.ask("cedar.example A");
    for line in server.metrics().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(listed.contains(name), "docs/metrics.md does not list {name}");
    }
    let sources = sources();
    for name in listed {
        assert!(
            sources.contains(&format!("\"{name}\"")),
            "docs/metrics.md lists {name}, which nothing shows"
        );
    }
}

#[test]
fn every_limit_has_the_value_that_is_written() {
    let sources = sources();
    let mut values = 0;
    for row in rows("ARCHITECTURE.md", "## Memory and limits") {
        for name in CONSTANT.captures_iter(&row[0]).map(|found| found[1].to_owned()) {
            let declared = Regex::new(&format!(r"\bconst {name}: [^=]+= ([^;]+);")).unwrap();
            let declared: Vec<_> = declared
                .captures_iter(&sources)
                .map(|found| found[1].to_owned())
                .collect();
            assert!(!declared.is_empty(), "ARCHITECTURE.md: there is no constant {name}");
            let texts: Vec<_> = declared.iter().filter_map(|value| texts_of(value)).flatten().collect();
            values += usize::from(!texts.is_empty());
            let written = |text: &String| has_number(&row[1], text);
            assert!(
                texts.is_empty() || texts.iter().any(written),
                "ARCHITECTURE.md: {name} is {declared:?}, not {}",
                row[1]
            );
        }
    }
    assert!(values > 20, "most are numbers: {values}");
}

/// Whether a text holds a number that is not a part of a longer one.
fn has_number(text: &str, number: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    text.match_indices(number).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + number.len()..]);
        !inner(before.chars().next_back()) && !before.ends_with(',') && !inner(behind.chars().next())
    })
}

/// How a document may write a constant's value; none for one that is no simple number.
fn texts_of(value: &str) -> Option<Vec<String>> {
    let call = Regex::new(r"^Duration::from_(secs|millis)\((\w+)\)$").unwrap();
    if let Some(found) = call.captures(value) {
        let number: u64 = found[2].replace('_', "").parse().ok()?;
        return Some(match &found[1] {
            "secs" => vec![format!("{number} s"), grouped(number)],
            _ => vec![format!("{number} ms"), format!("{} s", number as f64 / 1000.0)],
        });
    }
    let product = |text: &str| -> Option<u64> {
        text.split(" * ")
            .map(|part| part.trim().replace('_', "").parse::<u64>().ok())
            .product()
    };
    let number = match value.split_once(" << ") {
        Some((number, shift)) => product(number)? << product(shift)?,
        None => product(value)?,
    };
    let mut texts = vec![grouped(number)];
    for (shift, unit) in [(10, "KB"), (20, "MB")] {
        if number % (1 << shift) == 0 {
            texts.push(format!("{} {unit}", number >> shift));
        }
    }
    Some(texts)
}

/// `65,536`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    groups.join(",")
}
