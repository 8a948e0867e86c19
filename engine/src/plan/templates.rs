//! The `template` step: records that are written for the question.

use nodens_wire::{Name, NameBuf, Rclass, Rcode, Rtype, Section};

use super::template::{Facts, Stanza, Template};
use super::view::{self, holds_all};
use super::{Client, Flow, StepName, Visit, falls_through_names};
use crate::answer::{Answer, Bytes, Owner, Pending, Pick, Purpose, Reason};
use crate::captures::Scratch;

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
}

#[inline(never)]
pub(super) fn enter<'z>(step: &'z Templates, port: u16, visit: &mut Visit<'_, 'z>, answer: &mut Answer<'z>) -> Flow {
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
            port,
            view_name: "",
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
        answer.by = Some(StepName::Template);
        if stanza.rcode == Rcode::SERVFAIL {
            answer.rcode = Rcode::SERVFAIL;
            return Flow::Answered;
        }
        let filled = Filled {
            zone: zone.to_string(),
            name: &text,
            class: pick_text(
                asked.rclass == Rclass::ANY,
                stanza.rclass.to_string(),
                asked.rclass.to_string(),
            ),
            rtype: pick_text(
                asked.rtype == Rtype::ANY,
                stanza.rtype.to_string(),
                asked.rtype.to_string(),
            ),
            remote: visit.client.address().to_string(),
            groups: &groups,
            group_names: &group_names,
        };
        if let Err(reason) = filled.records(step, stanza, asked.name, visit.client, answer) {
            answer.clear();
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(reason);
            return Flow::Answered;
        }
        answer.aa = true;
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

fn pick_text(first: bool, one: String, other: String) -> String {
    if first { one } else { other }
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
}

impl Filled<'_> {
    fn records<'z>(
        &self,
        step: &Templates,
        stanza: &Stanza,
        asked: Name<'_>,
        client: &Client<'_>,
        answer: &mut Answer<'z>,
    ) -> Result<(), Reason> {
        let asked_name = asked.to_string();
        let facts = Facts {
            zone: &self.zone,
            name: self.name,
            class: &self.class,
            rtype: &self.rtype,
            remote: &self.remote,
            groups: self.groups,
            group_names: self.group_names,
            id: client.query.id,
            flags: client.query.flags,
            asked_name: &asked_name,
            asked_type: client.query.rtype,
            asked_class: client.query.rclass,
            metadata: &|_| String::new(),
        };
        let sections = [
            (Section::Answer, &stanza.answer),
            (Section::Authority, &stanza.authority),
            (Section::Additional, &stanza.additional),
        ];
        for (section, templates) in sections {
            for template in templates {
                let pick = one(step, template, &facts, asked, answer)?;
                answer.pick(section, pick);
            }
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
) -> Result<Pick<'z>, Reason> {
    let mut line = String::new();
    let wrong = |why: String| Reason::Template(why.into());
    template.write(facts, &mut line).map_err(|why| wrong(why.to_string()))?;
    let Written {
        owner,
        rtype,
        ttl,
        rdata,
    } = (step.read)(&line).map_err(wrong)?;
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

impl Stanza {
    /// The longest of its zones that holds a name.
    fn zone(&self, name: Name<'_>) -> Option<&NameBuf> {
        let zones = self.zones.iter().filter(|zone| name.is_within(zone.as_name()));
        zones.max_by_key(|zone| zone.as_name().len())
    }
}
