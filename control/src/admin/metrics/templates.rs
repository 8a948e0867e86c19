//! What `template` counts: the questions that it matched, and the records that could not be written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nodens_engine::plan::Failures;
use nodens_engine::stats::ByQuestion;
use nodens_wire::Section;

use super::super::text::{Kind, Page};
use super::queries::Group;
use super::{SeriesLabels, Shown};

/// One of the two ways to fail.
type Way = fn(&Failures) -> &ByQuestion<AtomicU64>;

/// A record that a template writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordLabels {
    /// Of the questions; the zone is one of the template.
    pub series: SeriesLabels,
    /// Where it would stand.
    pub section: Section,
    /// The text of its template.
    pub template: Box<str>,
}

/// How often it could not be written.
#[derive(Clone, Debug)]
pub struct RecordMetrics {
    labels: RecordLabels,
    /// The counters.
    pub failures: Arc<Failures>,
}

impl RecordMetrics {
    /// Of a record that has not failed yet.
    pub fn new(labels: &RecordLabels) -> Self {
        Self {
            labels: labels.clone(),
            failures: Arc::default(),
        }
    }
}

/// The questions that were matched.
pub(super) fn matches(groups: &[Group<'_>], page: &mut Page) {
    let name = "coredns_template_matches_total";
    let mut family = page.family(name, Kind::Counter, "Questions that a template matched.");
    for group in groups {
        let mut counts = BTreeMap::<_, u64>::new();
        for (class, rtype, matches) in group.series.iter().flat_map(|series| series.templates.iter()) {
            *counts.entry((class, rtype)).or_default() += matches.get();
        }
        let SeriesLabels { server, zone, view } = group.labels;
        for ((class, rtype), count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let labels = [
                ("class", class),
                ("server", &**server),
                ("type", rtype),
                ("view", view),
                ("zone", zone),
            ];
            family.sample(&labels, count);
        }
    }
}

/// The records that could not be written.
pub(super) fn failures(shown: &Shown, page: &mut Page) {
    let ways: [(_, _, Way); 2] = [
        (
            "coredns_template_template_failures_total",
            "Records that a template could not write.",
            |failures| &failures.template,
        ),
        (
            "coredns_template_rr_failures_total",
            "Texts of templates that are no records.",
            |failures| &failures.record,
        ),
    ];
    for (name, help, way) in ways {
        let mut counts = BTreeMap::<_, u64>::new();
        for RecordMetrics { labels, failures } in &shown.templates {
            for (class, rtype, count) in way(failures).iter() {
                *counts.entry((labels, class, rtype)).or_default() += count.load(Ordering::Relaxed);
            }
        }
        let mut family = page.family(name, Kind::Counter, help);
        for ((labels, class, rtype), count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let SeriesLabels { server, zone, view } = &labels.series;
            let section = match labels.section {
                Section::Answer => "answer",
                Section::Authority => "authority",
                Section::Additional => "additional",
            };
            let labels = [
                ("class", class),
                ("section", section),
                ("server", &**server),
                ("template", &*labels.template),
                ("type", rtype),
                ("view", view),
                ("zone", zone),
            ];
            family.sample(&labels, count);
        }
    }
}
