//! The `template` step: records that are written for the question.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nodens_wire::{Name, NameBuf, Rclass, Rcode, Rtype, Section};

use super::template::{Facts, Fault, Stanza, Template};
use super::view::{self, Known, holds_all};
use super::{Client, Counted, Flow, Plan, StepName, Visit, ZoneMap, falls_through_names};
use crate::answer::{Answer, Bytes, Owner, Pending, Pick, Purpose, Reason};
use crate::captures::Scratch;
use crate::snapshot::Data;
use crate::stats::ByQuestion;

/// A record that a template wrote, as text, and then read.
#[derive(Clone, Debug)]
pub struct Written {
    /// Absolute.
    pub owner: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// In seconds.
    pub ttl: u32,
    /// Its data, names in it uncompressed.
    pub rdata: Vec<u8>,
}

/// The stanzas of `template` in a block.
#[derive(Clone, Debug)]
pub struct Templates {
    /// The first that fits the question answers.
    pub stanzas: Box<[Stanza]>,
    /// Reads a record out of a line of a zone file.
    pub read: fn(&str) -> Result<Written, String>,
    /// The series in which matches in the stanzas' zones are counted.
    pub counted: ZoneMap<Counted>,
    /// Where what goes wrong is counted.
    pub failing: Box<[Failing]>,
}

/// A record of a stanza, as it is written for a zone of it and the questions that come by one route.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The series of the route.
    pub route: u32,
    /// The zone.
    pub zone: NameBuf,
    /// Where the record would stand.
    pub section: Section,
    /// The text of its template.
    pub template: Box<str>,
    /// How often it could not be written.
    pub failures: Arc<Failures>,
}

/// How often a record could not be written. All workers share one: what is counted is an error.
#[derive(Debug, Default)]
pub struct Failures {
    /// The template itself failed.
    pub template: ByQuestion<AtomicU64>,
    /// What it wrote is no record.
    pub record: ByQuestion<AtomicU64>,
}

#[inline(never)]
pub(super) fn enter<'z>(step: &'z Templates, plan: &Plan, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
    let asked = visit.asked;
    let mut scratch = Scratch::default();
    let Ok(folded) = Name::from_wire(asked.folded) else {
        return Flow::Next;
    };
    let text = folded.to_string();
    for stanza in &step.stanzas {
        let Some(zone) = stanza.zone(folded) else { continue };
        let fits = (stanza.rclass == Rclass::ANY || asked.rclass == Rclass::ANY || stanza.rclass == asked.rclass)
            && (stanza.rtype == Rtype::ANY || asked.rtype == Rtype::ANY || stanza.rtype == asked.rtype);
        if !fits {
            continue;
        }
        let facts = view::Facts {
            name: folded,
            rtype: asked.rtype,
            client: visit.client,
            port: visit.port(),
            plan: Some(plan),
            data: visit.data,
        };
        let holds = holds_all(&stanza.conditions, &facts);
        let matched = stanza.patterns.iter().filter(|_| holds).find_map(|pattern| {
            let groups = pattern.find(&text, &mut scratch)?;
            let texts: Vec<&str> = (0..groups.len())
                .map(|group| groups.get(group).unwrap_or_default())
                .collect();
            Some((texts, pattern.group_names().collect::<Vec<_>>()))
        });
        let Some((groups, group_names)) = matched else {
            if falls_through_names(stanza.fallthrough.as_deref(), folded) {
                continue;
            }
            answer.rcode = Rcode::SERVFAIL;
            return Flow::Answered;
        };
        let rclass = if asked.rclass == Rclass::ANY {
            stanza.rclass
        } else {
            asked.rclass
        };
        let rtype = if asked.rtype == Rtype::ANY {
            stanza.rtype
        } else {
            asked.rtype
        };
        if visit.is_first()
            && let Some(series) = step.series(zone, asked.series)
            && let Some(series) = visit.stats.series.get(series as usize)
        {
            series.templates.of(rclass, rtype).add(1);
        }
        answer.by = Some(StepName::Template);
        if stanza.rcode == Rcode::SERVFAIL {
            answer.rcode = Rcode::SERVFAIL;
            return Flow::Answered;
        }
        let filled = Filled {
            zone: zone.to_string(),
            name: &text,
            class: rclass.to_string(),
            rtype: rtype.to_string(),
            remote: visit.client.address().to_string(),
            groups: &groups,
            group_names: &group_names,
            variables: stanza
                .variables
                .iter()
                .map(|(name, expression)| (&**name, expression.value(&facts)))
                .collect(),
            plan,
            data: visit.data,
        };
        if let Err(Failed { section, template, why }) = filled.records(step, stanza, asked.name, visit.client, answer) {
            if visit.is_first()
                && let Some(failures) = step.failures(asked.series, zone, section, template)
            {
                let by_question = match why {
                    Why::Template(_) => &failures.template,
                    Why::Record(_) => &failures.record,
                };
                by_question.of(rclass, rtype).fetch_add(1, Ordering::Relaxed);
            }
            let (Why::Template(why) | Why::Record(why)) = why;
            answer.clear();
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(Reason::Template(why.into()));
            return Flow::Answered;
        }
        answer.aa = true;
        answer.rclass = rclass;
        answer.rcode = stanza.rcode;
        if let Some((code, text)) = &stanza.error {
            answer.extras.error = None;
            let code = code.to_be_bytes();
            answer.told_error = Some(answer.make_with(|made| {
                made.extend_from_slice(&code);
                made.extend_from_slice(text.as_bytes());
            }));
        }
        follow(asked.rtype, answer);
        return Flow::Answered;
    }
    Flow::Next
}

/// An alias in the answer to a question for addresses is followed.
fn follow(rtype: Rtype, answer: &mut Answer<'_>) {
    if !matches!(rtype, Rtype::A | Rtype::AAAA) {
        return;
    }
    let [begin, ..] = answer.begins();
    let alias = answer.sections[0][begin..]
        .iter()
        .find(|pick| pick.rtype == Rtype::CNAME);
    let Some(target) = alias.map(|pick| pick.rdata) else {
        return;
    };
    answer.ask_again(Pending {
        section: Section::Answer,
        at: answer.sections[0].len(),
        target,
        rtype,
        purpose: Purpose::Alias,
    });
}

/// What templates may ask for, in the form of texts.
struct Filled<'a> {
    zone: String,
    name: &'a str,
    class: String,
    rtype: String,
    remote: String,
    groups: &'a [&'a str],
    group_names: &'a [Option<&'a str>],
    variables: Vec<(&'a str, Option<Known>)>,
    plan: &'a Plan,
    data: &'a Data,
}

/// A record that could not be written.
struct Failed<'s> {
    section: Section,
    template: &'s Template,
    why: Why,
}

/// Why it could not.
enum Why {
    /// The template failed.
    Template(String),
    /// What it wrote is no record.
    Record(String),
}

impl Filled<'_> {
    fn records<'s, 'z>(
        &self,
        step: &Templates,
        stanza: &'s Stanza,
        asked: Name<'_>,
        client: &Client<'_>,
        answer: &mut Answer<'z>,
    ) -> Result<(), Failed<'s>> {
        let asked_name = asked.to_string();
        let facts = Facts {
            zone: &self.zone,
            name: self.name,
            class: &self.class,
            rtype: &self.rtype,
            remote: &self.remote,
            groups: self.groups,
            group_names: self.group_names,
            variables: &self.variables,
            id: client.query.id,
            flags: client.query.flags,
            asked_name: &asked_name,
            asked_type: client.query.rtype,
            asked_class: client.query.rclass,
            metadata: &|label| {
                let mut text = String::new();
                // There is room for everything.
                let _ = self.plan.metadata(label, client, self.data, &mut text);
                text
            },
        };
        for (section, template) in stanza.records() {
            let pick = one(step, template, &facts, asked, answer);
            answer.pick(section, pick.map_err(|why| Failed { section, template, why })?);
        }
        Ok(())
    }
}

fn one<'z>(
    step: &Templates,
    template: &Template,
    facts: &Facts<'_>,
    asked: Name<'_>,
    answer: &mut Answer<'z>,
) -> Result<Pick<'z>, Why> {
    let mut line = String::new();
    let failed = |why: Fault| Why::Template(why.to_string());
    template.write(facts, &mut line).map_err(failed)?;
    let Written {
        owner,
        rtype,
        ttl,
        rdata,
    } = (step.read)(&line).map_err(Why::Record)?;
    let rdata: Bytes<'z> = answer.make(&rdata);
    Ok(Pick {
        owner: if owner == asked {
            Owner::Question
        } else {
            Owner::Name(answer.make(owner.as_bytes()))
        },
        rtype,
        ttl,
        rdata,
    })
}

impl Templates {
    /// The series in which questions by a route that match in a zone are counted.
    fn series(&self, zone: &NameBuf, route: u32) -> Option<u32> {
        let counted = self.counted.exact(zone.as_bytes())?;
        counted.iter().find(|(own, _)| *own == route).map(|(_, series)| *series)
    }

    fn failures(&self, route: u32, zone: &NameBuf, section: Section, template: &Template) -> Option<&Failures> {
        let own = self.failing.iter().find(|own| {
            own.route == route && own.zone == *zone && own.section == section && *own.template == *template.source()
        });
        own.map(|own| &*own.failures)
    }
}

impl Stanza {
    /// The records, in the order in which they are written.
    pub fn records(&self) -> impl Iterator<Item = (Section, &Template)> {
        let sections = [
            (Section::Answer, &self.answer),
            (Section::Authority, &self.authority),
            (Section::Additional, &self.additional),
        ];
        sections
            .into_iter()
            .flat_map(|(section, templates)| templates.iter().map(move |template| (section, template)))
    }

    /// The longest of its zones that holds a name.
    fn zone(&self, name: Name<'_>) -> Option<&NameBuf> {
        let zones = self.zones.iter().filter(|zone| name.is_within(zone.as_name()));
        zones.max_by_key(|zone| zone.as_name().len())
    }
}
