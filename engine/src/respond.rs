//! What a record zone says to a question: RFC 1034 §4.3.2, a function for each way it can end.

use nodens_wire::{Name, NameBuf, Rcode, Rtype, Section, label};

use crate::answer::{Answer, Bytes, Owner, Pending, Pick, Purpose, Reason, Tail};
use crate::plan::{Asked, StepName};
use crate::zone::{Found, Node, RecordZone, RrSet, link};

/// Aliases in one answer, those made from a DNAME included.
pub(crate) const ALIASES_MAX: usize = 10;

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer says all.
    Answered,
    /// No such name, or nothing at it: the answer says so, unless the question falls through.
    NotThere,
}

/// Answers a question for a name of the zone, of which `apex_at` bytes stand in front of the zone's; `node` is what
/// the zone has at it.
pub(crate) fn respond<'z>(
    zone: &'z RecordZone,
    step: StepName,
    asked: &Asked<'_>,
    apex_at: usize,
    node: Option<&'z Node>,
    shuffles: bool,
    answer: &mut Answer<'z>,
) -> Outcome {
    if matches!(asked.rtype, Rtype::AXFR | Rtype::IXFR) {
        answer.rcode = Rcode::REFUSED;
        return Outcome::Answered;
    }
    answer.by = Some(step);
    answer.aa = true;
    let found = zone.found(node, &asked.folded[..apex_at], asked.rtype);
    if let Found::Exact(node) = found
        && asked.may_copy
        && let Some(prepared) = node.prepared(asked.rtype)
        && (prepared.is_single() || !shuffles)
    {
        answer.rendered = Some(prepared);
        if !(asked.rtype == Rtype::NS && apex_at == 0) {
            answer.authority = zone.ns().map(|template| Tail { template, apex_at });
        }
        return Outcome::Answered;
    }
    let name = Name::from_wire(asked.folded).map_or_else(|_| NameBuf::root(), Name::to_buf);
    let mut chain = Chain {
        zone,
        step,
        rtype: asked.rtype,
        may_copy: asked.may_copy,
        apex_at,
        owner: Owner::Question,
        name,
        aliases: 0,
    };
    chain.found(found, answer)
}

/// A question on its way through the aliases of a zone.
struct Chain<'z> {
    zone: &'z RecordZone,
    /// Whose zone it is.
    step: StepName,
    rtype: Rtype,
    /// AUTHORITY may be copied: its pointers lead to the client's question.
    may_copy: bool,
    apex_at: usize,
    /// The owner of what comes next,
    owner: Owner<'z>,
    /// and its name in lower case.
    name: NameBuf,
    aliases: usize,
}

impl<'z> Chain<'z> {
    /// What stands at the name that was asked for.
    fn found(&mut self, found: Found<'z>, answer: &mut Answer<'z>) -> Outcome {
        let target = match found {
            Found::Unloaded => {
                answer.aa = false;
                answer.by = None;
                answer.rcode = Rcode::SERVFAIL;
                answer.reason = Some(Reason::Unsynced(self.step));
                None
            }
            Found::Exact(node) | Found::Wildcard(node) => self.records(node, answer),
            Found::Dname { node, labels_at } => self.redirect(node, labels_at, answer),
            Found::Cut { node, labels_at } => {
                answer.aa = false;
                self.refer(node, labels_at, answer);
                None
            }
            Found::Empty => {
                self.authority(Rtype::SOA, answer);
                return Outcome::NotThere;
            }
            Found::NxDomain => {
                answer.rcode = Rcode::NXDOMAIN;
                self.authority(Rtype::SOA, answer);
                return Outcome::NotThere;
            }
        };
        self.follow(target, answer);
        Outcome::Answered
    }

    /// Follows aliases through the zone; one that leaves it, or leads to a name that is not there, goes through the
    /// plan again.
    fn follow(&mut self, mut target: Option<Bytes<'z>>, answer: &mut Answer<'z>) {
        while let Some(name) = target {
            let Ok(name_there) = Name::from_wire(answer.bytes(name)) else {
                return;
            };
            self.name = name_there.to_buf().folded();
            self.owner = Owner::Name(name);
            let Some(labels) = self.name.as_name().strip(self.zone.apex()) else {
                return self.ask_again(name, answer);
            };
            target = match self.zone.lookup(labels, self.rtype) {
                Found::Exact(node) | Found::Wildcard(node) => self.records(node, answer),
                Found::Dname { node, labels_at } => self.redirect(node, labels_at, answer),
                Found::Cut { node, labels_at } => return self.refer(node, labels_at, answer),
                Found::Empty => return self.authority(Rtype::SOA, answer),
                Found::NxDomain | Found::Unloaded => return self.ask_again(name, answer),
            };
        }
    }

    /// An existing name: its alias, its records, or nothing of the type.
    fn records(&mut self, node: &'z Node, answer: &mut Answer<'z>) -> Option<Bytes<'z>> {
        let rtype = self.rtype;
        if rtype != Rtype::CNAME
            && let Some((ttl, target)) = node.set(Rtype::CNAME).and_then(RrSet::first)
        {
            return self.alias(ttl, Bytes::Zone(target), answer);
        }
        let Some(set) = node.set(rtype) else {
            // RFC 2308 §2.2: the SOA, behind aliases too.
            self.authority(Rtype::SOA, answer);
            return None;
        };
        for (ttl, rdata) in set.iter() {
            answer.pick(
                Section::Answer,
                Pick {
                    owner: self.owner,
                    rtype,
                    ttl,
                    rdata: Bytes::Zone(rdata),
                },
            );
        }
        link::addresses(self.zone, set, |target, addresses| {
            add_addresses(target, addresses, answer)
        });
        if !(rtype == Rtype::NS && node.labels().is_empty()) {
            self.authority(Rtype::NS, answer);
        }
        None
    }

    /// The zone's SOA or NS, ready to copy where the question is the client's own.
    fn authority(&self, rtype: Rtype, answer: &mut Answer<'z>) {
        let template = if rtype == Rtype::SOA {
            self.zone.soa()
        } else {
            self.zone.ns()
        };
        if let Some(template) = template.filter(|_| self.may_copy) {
            answer.authority = Some(Tail {
                template,
                apex_at: self.apex_at,
            });
            return;
        }
        let owner = Owner::Name(Bytes::Zone(self.zone.apex().as_bytes()));
        for (ttl, rdata) in self
            .zone
            .node(b"")
            .and_then(|apex| apex.set(rtype))
            .into_iter()
            .flat_map(RrSet::iter)
        {
            answer.pick(
                Section::Authority,
                Pick {
                    owner,
                    rtype,
                    ttl,
                    rdata: Bytes::Zone(rdata),
                },
            );
        }
    }

    /// A CNAME record, and where it leads; nowhere when it is the last that an answer may hold.
    fn alias(&mut self, ttl: u32, target: Bytes<'z>, answer: &mut Answer<'z>) -> Option<Bytes<'z>> {
        answer.pick(
            Section::Answer,
            Pick {
                owner: self.owner,
                rtype: Rtype::CNAME,
                ttl,
                rdata: target,
            },
        );
        self.aliases += 1;
        if self.aliases == ALIASES_MAX || self.rtype == Rtype::CNAME {
            self.authority(Rtype::NS, answer);
            return None;
        }
        Some(target)
    }

    /// RFC 6672 §3.2: the DNAME, and a CNAME made from it.
    fn redirect(&mut self, node: &'z Node, labels_at: usize, answer: &mut Answer<'z>) -> Option<Bytes<'z>> {
        let (ttl, target) = node.set(Rtype::DNAME).and_then(RrSet::first)?;
        let (kept, owner) = self.name.as_bytes().split_at(labels_at);
        if kept.len() + target.len() > 255 || label::eq_folded(owner, target) {
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(Reason::Dname);
            return None;
        }
        let owner = Owner::Name(answer.make(owner));
        let dname = Pick {
            owner,
            rtype: Rtype::DNAME,
            ttl,
            rdata: Bytes::Zone(target),
        };
        answer.pick(Section::Answer, dname);
        let made = answer.make_with(|made| {
            made.extend_from_slice(kept);
            made.extend_from_slice(target);
        });
        self.alias(ttl, made, answer)
    }

    /// RFC 1034 §4.3.2 step 3b: the NS of the cut, and the addresses of those that lie at or below it.
    fn refer(&self, node: &'z Node, labels_at: usize, answer: &mut Answer<'z>) {
        let Some(set) = node.set(Rtype::NS) else { return };
        let cut = &self.name.as_bytes()[labels_at..];
        let owner = Owner::Name(answer.make(cut));
        for (ttl, rdata) in set.iter() {
            answer.pick(
                Section::Authority,
                Pick {
                    owner,
                    rtype: Rtype::NS,
                    ttl,
                    rdata: Bytes::Zone(rdata),
                },
            );
        }
        let Ok(cut) = Name::from_wire(cut) else { return };
        link::addresses(self.zone, set, |target, addresses| {
            if Name::from_wire(target).is_ok_and(|name| name.is_within(cut)) {
                add_addresses(target, addresses, answer);
            }
        });
    }

    fn ask_again(&self, target: Bytes<'z>, answer: &mut Answer<'z>) {
        let (section, purpose) = (Section::Answer, Purpose::AliasWithRcode);
        answer.ask_again(Pending {
            section,
            at: answer.len(section),
            target,
            rtype: self.rtype,
            purpose,
        });
    }
}

fn add_addresses<'z>(owner: &'z [u8], addresses: &'z RrSet, answer: &mut Answer<'z>) {
    for (ttl, rdata) in addresses.iter() {
        let owner = Owner::Name(Bytes::Zone(owner));
        answer.pick(
            Section::Additional,
            Pick {
                owner,
                rtype: addresses.rtype,
                ttl,
                rdata: Bytes::Zone(rdata),
            },
        );
    }
}
