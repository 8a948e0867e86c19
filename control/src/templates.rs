//! Where is counted what the templates of a block do.

use nodens_engine::plan::{Failing, Templates};
use nodens_wire::NameBuf;

use crate::admin::{RecordLabels, RecordMetrics, SeriesLabels};
use crate::carried::Carried;
use crate::numbers::Numbers;

/// What was counted of records that could not be written, by their labels.
pub type Failed = Carried<RecordLabels, RecordMetrics>;

/// Gives a step its counters, for each route to its block.
pub fn count(step: &mut Templates, routes: &[(&NameBuf, SeriesLabels, u32)], numbers: &mut Numbers) {
    let mut failing = Vec::new();
    for stanza in &step.stanzas {
        for zone in &stanza.zones {
            let series = |labels: &SeriesLabels| SeriesLabels {
                zone: zone.to_string(),
                ..labels.clone()
            };
            let counted = routes
                .iter()
                .map(|(_, labels, route)| (*route, numbers.series(series(labels))));
            let counted = counted.collect();
            step.counted.entry(zone, || counted);
            for (section, template) in stanza.records() {
                failing.extend(routes.iter().map(|(_, labels, route)| {
                    let labels = RecordLabels {
                        series: series(labels),
                        section,
                        template: template.source().into(),
                    };
                    Failing {
                        route: *route,
                        zone: zone.clone(),
                        section,
                        template: labels.template.clone(),
                        failures: numbers.templates.get(labels, RecordMetrics::new).failures,
                    }
                }));
            }
        }
    }
    step.failing = failing.into();
}
