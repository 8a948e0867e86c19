//! What a record zone says to a question: RFC 1034 §4.3.2, a function for each way it can end.

use arrayvec::ArrayVec;
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

/// Where a chain of aliases has come to.
struct Place<'z> {
    /// The owner of what comes next.
    owner: Owner<'z>,
    /// Its name in lower case.
    name: NameBuf,
    aliases: usize,
}

/// Answers a question for a name of the zone, of which `apex_at` bytes stand in front of the zone's.
pub(crate) fn respond<'z>(
    zone: &'z RecordZone,
    asked: &Asked<'_>,
    apex_at: usize,
    hash: u64,
    shuffles: bool,
    answer: &mut Answer<'z>,
) -> Outcome {
    answer.by = Some(StepName::File);
    if matches!(asked.rtype, Rtype::AXFR | Rtype::IXFR) {
        answer.rcode = Rcode::REFUSED;
        return Outcome::Answered;
    }
    answer.aa = true;
    let labels = &asked.folded[..apex_at];
    match zone.lookup(hash, labels, asked.rtype) {
        Found::Unloaded => {
            answer.aa = false;
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(Reason::Unsynced(StepName::File));
        }
        Found::Exact(node) => {
            if let Some(prepared) = node.prepared(asked.rtype)
                && asked.may_copy
                && (prepared.is_single() || !shuffles)
            {
                answer.rendered = Some(prepared);
                answer.authority = name_servers(zone, asked.rtype, apex_at);
                return Outcome::Answered;
            }
            let mut place = Place::start(asked);
            at_node(zone, node, asked.rtype, apex_at, &mut place, answer);
        }
        Found::Wildcard(node) => {
            let mut place = Place::start(asked);
            at_node(zone, node, asked.rtype, apex_at, &mut place, answer);
        }
        Found::Cut { node, labels_at } => {
            answer.aa = false;
            let cut = &asked.folded[labels_at..];
            refer(zone, node, cut, answer);
        }
        Found::Dname { node, labels_at } => {
            let mut place = Place::start(asked);
            let outcome = redirect(zone, node, labels_at, asked.rtype, &mut place, answer);
            follow(zone, outcome, asked.rtype, apex_at, &mut place, answer);
        }
        Found::Empty => {
            no_data(zone, apex_at, answer);
            return Outcome::NotThere;
        }
        Found::NxDomain => {
            answer.rcode = Rcode::NXDOMAIN;
            no_data(zone, apex_at, answer);
            return Outcome::NotThere;
        }
    }
    Outcome::Answered
}

impl Place<'_> {
    fn start(asked: &Asked<'_>) -> Self {
        // The bytes are those of a name that was parsed.
        let name = Name::from_wire(asked.folded).map_or_else(|_| NameBuf::root(), Name::to_buf);
        Self { owner: Owner::Question, name, aliases: 0 }
    }
}

/// What to do after an alias.
enum Next<'z> {
    /// The chain ends here.
    Stop,
    /// Go on at this name, in wire form.
    Target(Bytes<'z>),
}

/// An existing name: its alias, its records, or nothing of the type.
fn at_node<'z>(
    zone: &'z RecordZone,
    node: &'z Node,
    rtype: Rtype,
    apex_at: usize,
    place: &mut Place<'z>,
    answer: &mut Answer<'z>,
) {
    let next = records(zone, node, rtype, apex_at, place, answer);
    follow(zone, next, rtype, apex_at, place, answer);
}

fn records<'z>(
    zone: &'z RecordZone,
    node: &'z Node,
    rtype: Rtype,
    apex_at: usize,
    place: &mut Place<'z>,
    answer: &mut Answer<'z>,
) -> Next<'z> {
    if rtype != Rtype::CNAME
        && let Some((ttl, target)) = node.set(Rtype::CNAME).and_then(RrSet::first)
    {
        return alias(zone, ttl, Bytes::Zone(target), apex_at, place, answer);
    }
    let Some(set) = node.set(rtype) else {
        no_data(zone, apex_at, answer);
        return Next::Stop;
    };
    for (ttl, rdata) in set.iter() {
        answer.pick(Section::Answer, Pick { owner: place.owner, rtype, ttl, rdata: Bytes::Zone(rdata) });
    }
    link::addresses(zone, set, |target, addresses| add_addresses(target, addresses, answer));
    answer.authority = name_servers(zone, rtype, apex_at).filter(|_| answer.sections[1].is_empty());
    Next::Stop
}

fn add_addresses<'z>(owner: &'z [u8], addresses: &'z RrSet, answer: &mut Answer<'z>) {
    for (ttl, rdata) in addresses.iter() {
        let owner = Owner::Name(Bytes::Zone(owner));
        answer.pick(Section::Additional, Pick { owner, rtype: addresses.rtype, ttl, rdata: Bytes::Zone(rdata) });
    }
}

/// AUTHORITY of an answer with data: the zone's NS, unless they were asked for.
fn name_servers(zone: &RecordZone, rtype: Rtype, apex_at: usize) -> Option<Tail<'_>> {
    if rtype == Rtype::NS && apex_at == 0 {
        return None;
    }
    zone.ns().map(|template| Tail { template, apex_at })
}

/// The SOA tells how long to remember that there is nothing (RFC 2308 §3).
fn no_data<'z>(zone: &'z RecordZone, apex_at: usize, answer: &mut Answer<'z>) {
    answer.authority = zone.soa().map(|template| Tail { template, apex_at });
}

/// A CNAME record; past the limit the chain ends without it.
fn alias<'z>(
    zone: &'z RecordZone,
    ttl: u32,
    target: Bytes<'z>,
    apex_at: usize,
    place: &mut Place<'z>,
    answer: &mut Answer<'z>,
) -> Next<'z> {
    if place.aliases == ALIASES_MAX {
        answer.authority = zone.ns().map(|template| Tail { template, apex_at });
        return Next::Stop;
    }
    place.aliases += 1;
    answer.pick(Section::Answer, Pick { owner: place.owner, rtype: Rtype::CNAME, ttl, rdata: target });
    Next::Target(target)
}

/// Follows aliases through the zone; one that leaves it, or leads to a name that is not there, goes through the plan
/// again.
fn follow<'z>(
    zone: &'z RecordZone,
    mut next: Next<'z>,
    rtype: Rtype,
    apex_at: usize,
    place: &mut Place<'z>,
    answer: &mut Answer<'z>,
) {
    while let Next::Target(target) = next {
        if rtype == Rtype::CNAME {
            answer.authority = zone.ns().map(|template| Tail { template, apex_at });
            return;
        }
        let Ok(name) = Name::from_wire(answer.bytes(target)) else { return };
        place.name = name.to_buf().folded();
        place.owner = Owner::Name(target);
        let Some(labels) = place.name.as_name().strip(zone.apex()) else { return ask_again(target, rtype, answer) };
        let labels: ArrayVec<u8, 255> = labels.iter().copied().collect();
        next = match zone.lookup(zone.hash_of(&labels), &labels, rtype) {
            Found::Exact(node) | Found::Wildcard(node) => records(zone, node, rtype, apex_at, place, answer),
            Found::Dname { node, labels_at } => redirect(zone, node, labels_at, rtype, place, answer),
            Found::Cut { node, labels_at } => {
                let cut = ArrayVec::<u8, 255>::try_from(&place.name.as_bytes()[labels_at..]).unwrap_or_default();
                return refer(zone, node, &cut, answer);
            }
            Found::Empty => return no_data(zone, apex_at, answer),
            Found::NxDomain | Found::Unloaded => return ask_again(target, rtype, answer),
        };
    }
}

fn ask_again<'z>(target: Bytes<'z>, rtype: Rtype, answer: &mut Answer<'z>) {
    let (section, purpose) = (Section::Answer, Purpose::AliasWithRcode);
    answer.ask_again(Pending { section, at: answer.len(section), target, rtype, purpose });
}

/// RFC 6672 §3.2: the DNAME, and a CNAME made from it.
fn redirect<'z>(
    zone: &'z RecordZone,
    node: &'z Node,
    labels_at: usize,
    rtype: Rtype,
    place: &mut Place<'z>,
    answer: &mut Answer<'z>,
) -> Next<'z> {
    let Some((ttl, target)) = node.set(Rtype::DNAME).and_then(RrSet::first) else { return Next::Stop };
    if place.aliases == ALIASES_MAX {
        return alias(zone, ttl, Bytes::Zone(target), 0, place, answer);
    }
    let kept = &place.name.as_bytes()[..labels_at];
    let length = kept.len() + target.len();
    let is_same = labels_at + target.len() == place.name.as_bytes().len()
        && label::eq_folded(&place.name.as_bytes()[labels_at..], target);
    if length > 255 || is_same {
        answer.rcode = Rcode::SERVFAIL;
        answer.reason = Some(Reason::Dname);
        return Next::Stop;
    }
    let owner = answer.make(&place.name.as_bytes()[labels_at..]);
    let dname = Pick { owner: Owner::Name(owner), rtype: Rtype::DNAME, ttl, rdata: Bytes::Zone(target) };
    answer.pick(Section::Answer, dname);
    let made = answer.make_with(|made| {
        made.extend_from_slice(kept);
        made.extend_from_slice(target);
    });
    let _ = rtype;
    alias(zone, ttl, made, 0, place, answer)
}

/// RFC 1034 §4.3.2 step 3b: the NS of the cut, and the addresses of those that lie at or below it.
fn refer<'z>(zone: &'z RecordZone, node: &'z Node, cut: &[u8], answer: &mut Answer<'z>) {
    let Some(set) = node.set(Rtype::NS) else { return };
    let owner = Owner::Name(answer.make(cut));
    for (ttl, rdata) in set.iter() {
        answer.pick(Section::Authority, Pick { owner, rtype: Rtype::NS, ttl, rdata: Bytes::Zone(rdata) });
    }
    let Ok(cut) = Name::from_wire(cut) else { return };
    link::addresses(zone, set, |target, addresses| {
        if Name::from_wire(target).is_ok_and(|name| name.is_within(cut)) {
            add_addresses(target, addresses, answer);
        }
    });
}
