//! `autopath`: the names of a client's search path, tried by the server in the place of the client.

use nodens_wire::{Name, NameBuf};

/// `autopath` with a fixed search path.
#[derive(Clone, Debug)]
pub struct Autopath {
    /// Names outside are left alone.
    pub zones: Vec<NameBuf>,
    /// What a client puts behind a name, in this order; a question that ends in the first one is taken for such a try.
    pub search: Vec<NameBuf>,
}

impl Autopath {
    /// The names to try in the place of a question, the question itself first and the name without a suffix last. The
    /// first reply that is not NXDOMAIN counts; when all are, that of the first try. None where the question stays.
    pub fn tries<'a>(&'a self, asked: Name<'a>) -> Option<impl Iterator<Item = NameBuf> + use<'a>> {
        let first = self.search.first()?;
        if !self.zones.iter().any(|zone| asked.is_within(zone.as_name())) {
            return None;
        }
        // A question for the suffix itself is no try for a name.
        asked.strip(first.as_name()).filter(|labels| !labels.is_empty())?;
        let count = asked.label_count() - first.as_name().label_count();
        let suffixes = self.search.iter().map(NameBuf::as_name).chain([Name::ROOT]);
        // What would be too long is no name to try.
        Some(suffixes.filter_map(move |suffix| NameBuf::from_labels(asked.labels().take(count), suffix).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(search: &[&str], asked: &str, expected: &str) {
        let names = |texts: &[&str]| texts.iter().map(|text| NameBuf::from_text(text).unwrap()).collect();
        let step = Autopath {
            zones: names(&["example", "test"]),
            search: names(search),
        };
        let asked = NameBuf::from_text(asked).unwrap();
        let found = match step.tries(asked.as_name()) {
            Some(tries) => tries.map(|name| name.to_string()).collect::<Vec<_>>().join(" "),
            None => "-".to_owned(),
        };
        assert_eq!(found, expected, "{asked}");
    }

    #[test]
    fn which_names_are_tried() {
        let search = ["a.example", "b.test"];
        check(
            &search,
            "www.oak.A.example",
            "www.oak.a.example. www.oak.b.test. www.oak.",
        );
        check(&search, "a.example", "-");
        check(&search, "www.b.test", "-");
        check(&search, "xa.example", "-");
        check(&[], "www.example", "-");
        check(&["org"], "www.org", "-");
        let long = format!(
            "{}.a.example",
            ["x".repeat(63), "y".repeat(63), "z".repeat(63)].join(".")
        );
        let tries = format!("{long}. {}.", long.trim_end_matches(".a.example"));
        check(&["a.example", &"b.".repeat(40)], &long, &tries);
    }
}
