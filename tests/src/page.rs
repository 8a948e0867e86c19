//! The metrics page: its series, and what a case says about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::{Mismatch, mismatch};

static SERIES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)").expect("a valid pattern"));
static LABEL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(\w+)="((?:[^"\\]|\\.)*)""#).expect("a valid pattern"));

/// One line of a metrics page.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// All series of a page.
pub fn parse(text: &str) -> Vec<Series> {
    SERIES
        .captures_iter(text)
        .filter_map(|line| {
            let labels = line.get(2).map_or("", |m| m.as_str());
            Some(Series {
                name: line[1].to_owned(),
                labels: LABEL
                    .captures_iter(labels)
                    .map(|l| (l[1].to_owned(), l[2].to_owned()))
                    .collect(),
                value: line[3].parse().ok()?,
            })
        })
        .collect()
}

/// The sum of all series of that name that have at least these labels; a label that is not there is empty.
pub fn sum(page: &[Series], name: &str, labels: &BTreeMap<String, String>) -> f64 {
    let has = |series: &&Series| {
        labels
            .iter()
            .all(|(k, v)| series.labels.get(k).map_or("", String::as_str) == v)
    };
    page.iter()
        .filter(|series| series.name == name)
        .filter(has)
        .map(|series| series.value)
        .sum()
}

/// The sum of all series of that name.
pub fn total(page: &str, name: &str) -> f64 {
    sum(&parse(page), name, &BTreeMap::new())
}

/// Compares sums and label names with what a case wants.
///
/// # Errors
/// The first difference.
pub fn check(
    text: &str,
    counts: &BTreeMap<String, Value>,
    label_names: &BTreeMap<String, Vec<String>>,
) -> Result<(), Mismatch> {
    let page = parse(text);
    for (wanted, count) in counts {
        let Some(series) = parse(&format!("{wanted} 0")).pop() else {
            mismatch!("`{wanted}` is no series")
        };
        let got = sum(&page, &series.name, &series.labels);
        let (count, or_more) = match count {
            Value::String(text) => (text.trim_end_matches('+').parse().ok(), text.ends_with('+')),
            number => (number.as_f64(), false),
        };
        let Some(count) = count else {
            mismatch!("`{wanted}`: not a count")
        };
        if got < count || got > count && !or_more {
            mismatch!(
                "{wanted} is {got}, not {count}{}",
                if or_more { " or more" } else { "" }
            );
        }
    }
    for (name, labels) in label_names {
        let wanted: BTreeSet<&str> = labels.iter().map(String::as_str).collect();
        let mut any = false;
        for series in page.iter().filter(|series| series.name == *name) {
            any = true;
            let got: BTreeSet<&str> = series.labels.keys().map(String::as_str).collect();
            if got != wanted {
                mismatch!("labels of {name}: {got:?}, not {wanted:?}");
            }
        }
        if !any {
            mismatch!("no series {name}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PAGE: &str = "# HELP a text\n# TYPE a counter\na{x=\"1\",y=\"p\\\"q\"} 2\na{x=\"2\",y=\"\"} 3\nb 1.5\n";

    fn right(series: &str, count: Value) -> bool {
        check(PAGE, &BTreeMap::from([(series.to_owned(), count)]), &BTreeMap::new()).is_ok()
    }

    #[test]
    fn sums() {
        assert!(right("a", json!(5)) && right("a", json!("4+")) && right("a", json!("5+")));
        assert!(right("a{x=\"1\"}", json!(2)) && right("a{z=\"\"}", json!(5)) && right("c", json!(0)));
        assert!(!right("a", json!(4)) && !right("a", json!("6+")) && !right("b", json!(1)));
    }

    #[test]
    fn labels() {
        let names =
            |labels: &[&str]| BTreeMap::from([("a".to_owned(), labels.iter().map(|&l| l.to_owned()).collect())]);
        assert!(check(PAGE, &BTreeMap::new(), &names(&["y", "x"])).is_ok());
        assert!(check(PAGE, &BTreeMap::new(), &names(&["x"])).is_err());
    }
}
