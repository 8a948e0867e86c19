//! The text that Prometheus scrapes, format 0.0.4.
//!
//! Bounds of buckets are printed as Go prints them (`le="100"`, never `100.0`): the label is a text to whoever sums
//! over servers of both kinds.

use std::fmt::{Arguments, Display, Write};

/// What the type line says of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Names with their values; every series of a metric must have the same names.
pub(crate) type Labels<'a> = &'a [(&'static str, &'a str)];

/// A page being written.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    /// Begins a metric. One that gets no series leaves no line.
    pub(crate) fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> Family<'_> {
        Family {
            text: &mut self.text,
            name,
            kind,
            help,
            begun: false,
        }
    }

    /// A metric of one series without labels.
    pub(crate) fn single(&mut self, name: &'static str, kind: Kind, help: &'static str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The page.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// One metric and its series.
#[derive(Debug)]
pub(crate) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    kind: Kind,
    help: &'static str,
    begun: bool,
}

impl Family<'_> {
    /// One series.
    pub(crate) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.begin();
        self.line("", labels, None, value);
    }

    /// One series of a histogram: the counts by upper bound, the last one without, each value in one of them alone.
    pub(crate) fn histogram(
        &mut self,
        labels: Labels<'_>,
        bounds: impl IntoIterator<Item = f64>,
        counts: &[u64],
        sum: f64,
    ) {
        self.begin();
        let mut counts = counts.iter();
        let mut below = 0;
        for (bound, count) in bounds.into_iter().zip(&mut counts) {
            below += count;
            self.line("_bucket", labels, Some(&bound), below);
        }
        below += counts.sum::<u64>();
        self.line("_bucket", labels, Some(&"+Inf"), below);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, below);
    }

    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        write(
            self.text,
            format_args!("# HELP {0} {1}\n# TYPE {0} {kind}\n", self.name, self.help),
        );
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&dyn Display>, value: impl Display) {
        write(self.text, format_args!("{}{suffix}", self.name));
        let mut before = '{';
        for (name, text) in labels {
            write(self.text, format_args!("{before}{name}=\""));
            escape(text, self.text);
            self.text.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            write(self.text, format_args!("{before}le=\"{bound}\""));
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        write(self.text, format_args!(" {value}\n"));
    }
}

fn write(text: &mut String, more: Arguments<'_>) {
    text.write_fmt(more).expect("writing to a String cannot fail");
}

fn escape(value: &str, text: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_its_head_once() {
        let mut page = Page::default();
        let mut family = page.family("a_total", Kind::Counter, "What it counts.");
        family.sample(&[("x", "1"), ("y", "")], 3);
        family.sample(&[("x", "2"), ("y", "b")], u64::MAX);
        page.single("b", Kind::Gauge, "How it stands.", 0.5);
        assert_eq!(
            page.finish(),
            "# HELP a_total What it counts.\n\
             # TYPE a_total counter\n\
             a_total{x=\"1\",y=\"\"} 3\n\
             a_total{x=\"2\",y=\"b\"} 18446744073709551615\n\
             # HELP b How it stands.\n\
             # TYPE b gauge\n\
             b 0.5\n"
        );
    }

    #[test]
    fn a_metric_without_series_leaves_no_line() {
        let mut page = Page::default();
        page.family("a_total", Kind::Counter, "What it counts.");
        assert_eq!(page.finish(), "");
    }

    #[test]
    fn buckets_hold_what_is_below_them_too() {
        let mut page = Page::default();
        page.family("h", Kind::Histogram, "How long.").histogram(
            &[("to", "a")],
            [0.00025, 1.0, 100.0],
            &[1, 0, 2, 4],
            12.5,
        );
        assert_eq!(
            page.finish(),
            "# HELP h How long.\n\
             # TYPE h histogram\n\
             h_bucket{to=\"a\",le=\"0.00025\"} 1\n\
             h_bucket{to=\"a\",le=\"1\"} 1\n\
             h_bucket{to=\"a\",le=\"100\"} 3\n\
             h_bucket{to=\"a\",le=\"+Inf\"} 7\n\
             h_sum{to=\"a\"} 12.5\n\
             h_count{to=\"a\"} 7\n"
        );
    }

    #[test]
    fn values_of_labels_cannot_break_out() {
        let mut page = Page::default();
        page.family("a", Kind::Gauge, "A.")
            .sample(&[("x", "c:\\d \"e\"\n} 1\nö")], 1);
        assert!(page.finish().ends_with("\na{x=\"c:\\\\d \\\"e\\\"\\n} 1\\nö\"} 1\n"));
    }
}
