//! What a service tree says to a question: one function for each kind of record.

use std::ops::Range;

use arrayvec::ArrayVec;
use foldhash::HashSet;
use nodens_wire::{Name, Rcode, Rtype, Section, label};

use super::component;
use super::gather::{Budget, Existence, Path, Want, gather, is_pattern, keep_group};
use super::service::{Host, Service};
use super::tree::{Entry, ServiceTree};
use crate::answer::{Answer, Bytes, Owner, Pending, Pick, Purpose, Reason, Tail};
use crate::plan::{Asked, StepName};
use crate::time::Instant;

/// Aliases in a row inside the zone. CoreDNS's number.
const ALIASES_MAX: usize = 11;

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer says all.
    Answered,
    /// The name does not exist; the answer says so, unless the question falls through.
    NameError,
}

/// Memory for one answer's look-ups, kept from query to query.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Round, and the hashes of the two things that were seen together in it.
    seen: HashSet<(u32, u64, u64)>,
    /// Priority and sum of weights, by priority.
    sums: Vec<(u16, i64)>,
    /// What was seen in one round does not count in another.
    rounds: u32,
}

impl Scratch {
    /// For another answer.
    pub(crate) fn begin(&mut self) {
        if !self.seen.is_empty() {
            self.seen.clear();
        }
        self.rounds = 0;
    }

    /// Begins a round.
    pub(crate) fn round(&mut self) -> u32 {
        self.rounds += 1;
        self.rounds
    }

    /// Two things were not seen together, after all.
    fn forget(&mut self, round: u32, left: u64, right: u64) {
        self.seen.remove(&(round, left, right));
    }

    /// Two things, by their hashes, were not seen together in a round before.
    pub(crate) fn is_first(&mut self, round: u32, left: u64, right: u64) -> bool {
        self.seen.insert((round, left, right))
    }
}

/// Answers a question for a name of the zone. `labels` are the name's, folded and relative to the apex, and `entry`
/// is what the tree has at them.
pub(crate) fn respond<'z>(
    tree: &'z ServiceTree,
    asked: &Asked<'_>,
    labels: &[u8],
    entry: Option<&'z Entry>,
    now: Instant,
    scratch: &mut Scratch,
    answer: &mut Answer<'z>,
) -> Outcome {
    answer.aa = true;
    answer.by = Some(StepName::Etcd);
    if labels.is_empty() && asked.rtype == Rtype::SOA {
        soa(tree, Section::Answer, answer);
        return Outcome::Answered;
    }
    if !tree.is_synced() {
        fail(tree, Reason::Unsynced(StepName::Etcd), answer);
        return Outcome::Answered;
    }
    if !is_pattern(labels) {
        let Some(entry) = entry else {
            if labels.is_empty() && asked.rtype == Rtype::NS {
                // Without name servers of its own the zone exists all the same (RFC 8020).
                negative(tree, asked, 0, answer);
                return Outcome::Answered;
            }
            answer.rcode = Rcode::NXDOMAIN;
            negative(tree, asked, labels.len(), answer);
            return Outcome::NameError;
        };
        if asked.may_copy && entry.copy(labels, asked.rtype, answer) {
            return Outcome::Answered;
        }
    }
    let mut gathered = std::mem::take(&mut answer.gathered);
    let mut look = Look::new(tree, now, scratch, &mut gathered);
    let existence = look.answer(asked, labels, answer);
    answer.limited |= look.budget.spent;
    gathered.clear();
    answer.gathered = gathered;
    match existence {
        Existence::Missing => {
            answer.rcode = Rcode::NXDOMAIN;
            negative(tree, asked, labels.len(), answer);
            return Outcome::NameError;
        }
        Existence::AllBad => fail(tree, bad_values(tree, labels), answer),
        _ if answer.reason.is_some() => soa(tree, Section::Authority, answer),
        _ if answer.is_empty() => negative(tree, asked, labels.len(), answer),
        _ => {}
    }
    Outcome::Answered
}

fn fail<'z>(tree: &'z ServiceTree, reason: Reason, answer: &mut Answer<'z>) {
    answer.rcode = Rcode::SERVFAIL;
    answer.reason = Some(reason);
    soa(tree, Section::Authority, answer);
}

fn bad_values(tree: &ServiceTree, labels: &[u8]) -> Reason {
    Reason::BadValues {
        zone: Box::new(tree.apex().to_buf()),
        key: Path::of(labels).key().into(),
    }
}

/// The zone's SOA as a record.
fn soa<'z>(tree: &'z ServiceTree, section: Section, answer: &mut Answer<'z>) {
    let owner = Owner::Name(Bytes::Zone(tree.apex().as_bytes()));
    let rdata = Bytes::Zone(&tree.soa.rdata);
    answer.pick(
        section,
        Pick {
            owner,
            rtype: Rtype::SOA,
            ttl: tree.soa.ttl,
            rdata,
        },
    );
}

/// The zone's SOA in AUTHORITY: ready to copy where the question is the client's own.
fn negative<'z>(tree: &'z ServiceTree, asked: &Asked<'_>, apex_at: usize, answer: &mut Answer<'z>) {
    match &tree.soa.negative {
        Some(template) if asked.may_copy => answer.authority = Some(Tail { template, apex_at }),
        _ => soa(tree, Section::Authority, answer),
    }
}

/// Picks the records of a service that stands alone at its name, so that they can be rendered.
pub(super) fn pick_lone<'z>(tree: &'z ServiceTree, service: &'z Service, rtype: Rtype, answer: &mut Answer<'z>) {
    let (mut scratch, mut gathered) = (Scratch::default(), vec![service]);
    let mut look = Look::new(tree, Instant(0), &mut scratch, &mut gathered);
    if rtype == Rtype::SRV {
        look.srv(0..1, answer);
    } else {
        let place = Place {
            section: Section::Answer,
            owner: Owner::Question,
        };
        look.address(service, 0, None, place, answer);
    }
}

/// The names below a zone that speak for the zone itself.
const APEX: &[u8] = b"\x04apex\x03dns";
const NS: &[u8] = b"\x02ns\x03dns";

/// The targets of the aliases that led here, as written.
type Chain<'z> = ArrayVec<&'z [u8], ALIASES_MAX>;

/// One answer's look-ups. `gathered` is a stack: each look-up works on what it pushed, and takes it off again.
pub(super) struct Look<'a, 'z> {
    tree: &'z ServiceTree,
    now: Instant,
    budget: Budget,
    scratch: &'a mut Scratch,
    /// The round in which each alias is shown once: A and AAAA of one name in ADDITIONAL share theirs.
    shared_aliases: Option<u32>,
    gathered: &'a mut Vec<&'z Service>,
}

impl<'a, 'z> Look<'a, 'z> {
    pub(super) fn new(
        tree: &'z ServiceTree,
        now: Instant,
        scratch: &'a mut Scratch,
        gathered: &'a mut Vec<&'z Service>,
    ) -> Self {
        scratch.begin();
        Self {
            tree,
            now,
            budget: Budget::default(),
            scratch,
            shared_aliases: None,
            gathered,
        }
    }

    /// Picks the records for a question; tells whether its name exists.
    fn answer(&mut self, asked: &Asked<'_>, labels: &[u8], answer: &mut Answer<'z>) -> Existence {
        match asked.rtype {
            Rtype::NS if labels.is_empty() => match self.with(NS, Want::Host, answer, Self::ns) {
                // Without name servers of its own the zone exists all the same (RFC 8020).
                Existence::Missing => Existence::Exists,
                found => found,
            },
            Rtype::A | Rtype::AAAA | Rtype::TXT => {
                let place = Place {
                    section: Section::Answer,
                    owner: Owner::Question,
                };
                self.records(asked.name, labels, asked.rtype, place, &mut Chain::new(), answer)
            }
            Rtype::SRV => self.with(labels, Want::Host, answer, Self::srv),
            Rtype::MX => self.with(labels, Want::Host, answer, Self::mx),
            Rtype::CNAME => self.with(labels, Want::Host, answer, |look, range, answer| {
                look.cname(asked.name, labels, range, answer)
            }),
            Rtype::PTR => self.with(labels, Want::Host, answer, |look, range, answer| {
                look.ptr(labels, range, answer)
            }),
            // Any other type has no data; its name exists where it would for an address.
            _ => self.with_addresses(labels, Want::Host, answer, |_, _, _| ()),
        }
    }

    /// Gathers the services of a name, leaves those of the deciding group, and lets `pick` make records of them.
    fn with(
        &mut self,
        labels: &[u8],
        want: Want,
        answer: &mut Answer<'z>,
        pick: impl FnOnce(&mut Self, Range<usize>, &mut Answer<'z>),
    ) -> Existence {
        let from = self.gathered.len();
        let existence = gather(self.tree, labels, want, &mut self.budget, self.gathered);
        keep_group(self.gathered, from);
        pick(self, from..self.gathered.len(), answer);
        self.gathered.truncate(from);
        existence
    }

    /// The same for addresses: the zone's own stand below `apex.dns`, if there is such a name.
    fn with_addresses(
        &mut self,
        labels: &[u8],
        want: Want,
        answer: &mut Answer<'z>,
        pick: impl FnOnce(&mut Self, Range<usize>, &mut Answer<'z>),
    ) -> Existence {
        let own = labels.is_empty() && self.tree.entry(self.tree.hash_of(APEX), APEX).is_some();
        self.with(if own { APEX } else { labels }, want, answer, pick)
    }

    /// A, AAAA or TXT records of a name, through its aliases.
    fn records(
        &mut self,
        name: Name<'_>,
        labels: &[u8],
        rtype: Rtype,
        place: Place<'z>,
        chain: &mut Chain<'z>,
        answer: &mut Answer<'z>,
    ) -> Existence {
        let round = self.round();
        let pick = |look: &mut Self, range: Range<usize>, answer: &mut Answer<'z>| {
            for at in range {
                let service = look.gathered[at];
                let is_text = rtype == Rtype::TXT && !service.text().is_empty();
                match &service.host {
                    // A text stands for the service, whatever its host; each text once.
                    _ if is_text => {
                        let is_first = look.is_first(round, service.text());
                        let rdata = is_first.then(|| answer.make_with(|made| text(service.text(), made)));
                        rdata
                            .into_iter()
                            .for_each(|rdata| look.pick(service, rtype, place, rdata, answer));
                    }
                    Host::Name(target) => look.alias(service, target, name, rtype, place, chain, answer),
                    host if address_type(host) == Some(rtype) => look.address(service, round, None, place, answer),
                    _ => {}
                }
            }
        };
        if rtype == Rtype::TXT {
            self.with(labels, Want::HostOrText, answer, pick)
        } else {
            self.with_addresses(labels, Want::Host, answer, pick)
        }
    }

    /// An alias, with what its target has. Inside the zone an alias that leads nowhere is not shown.
    #[expect(clippy::too_many_arguments, reason = "the state of one step of a recursion")]
    fn alias(
        &mut self,
        service: &'z Service,
        target: &'z [u8],
        name: Name<'_>,
        rtype: Rtype,
        place: Place<'z>,
        chain: &mut Chain<'z>,
        answer: &mut Answer<'z>,
    ) {
        let Ok(target_name) = Name::from_wire(target) else {
            return;
        };
        if target_name.is_within(name) || chain.is_full() || chain.contains(&target) {
            return;
        }
        let before = answer.mark(place.section);
        let shared = self.shared_aliases.map(|round| {
            let (from, to) = (self.tree.hash_of(name.as_bytes()), self.tree.hash_of(target));
            (round, from, to)
        });
        let shows = shared.is_none_or(|(round, from, to)| self.scratch.is_first(round, from, to));
        if shows {
            self.pick(service, Rtype::CNAME, place, Bytes::Zone(target), answer);
        }
        let Some(labels) = target_name
            .strip(self.tree.apex())
            .filter(|_| !self.tree.is_stubbed(target_name))
        else {
            let purpose = if place.section == Section::Answer {
                Purpose::Alias
            } else {
                Purpose::Addresses
            };
            answer.ask_again(Pending {
                section: place.section,
                at: answer.len(place.section),
                target: Bytes::Zone(target),
                rtype,
                purpose,
            });
            return;
        };
        let inside = answer.mark(place.section);
        let mut folded = [0; 255];
        let labels = fold(labels, &mut folded);
        chain.push(target);
        let place = Place {
            owner: Owner::Name(Bytes::Zone(target)),
            ..place
        };
        self.records(target_name, labels, rtype, place, chain, answer);
        chain.pop();
        if answer.mark(place.section) == inside {
            answer.rewind(place.section, before);
            if let Some((round, from, to)) = shared.filter(|_| shows) {
                self.scratch.forget(round, from, to);
            }
        }
    }

    /// One address record, unless the same host stands there already.
    fn address(
        &mut self,
        service: &'z Service,
        round: u32,
        owner: Option<&[u8]>,
        place: Place<'z>,
        answer: &mut Answer<'z>,
    ) {
        let mut octets = [0; 16];
        let (rtype, octets) = match service.host {
            Host::V4(address) => {
                octets[..4].copy_from_slice(&address.octets());
                (Rtype::A, &octets[..4])
            }
            Host::V6(address) => {
                octets = address.octets();
                (Rtype::AAAA, &octets[..])
            }
            _ => return,
        };
        let text = service.host_text().map_or(octets, str::as_bytes);
        if self.is_first_pair(round, owner.unwrap_or_default(), text) {
            let rdata = answer.make(octets);
            self.pick(service, rtype, place, rdata, answer);
        }
    }

    fn srv(&mut self, range: Range<usize>, answer: &mut Answer<'z>) {
        self.sum_weights(range.clone());
        let (names, targets, addresses) = (self.round(), self.round(), self.round());
        let place = Place {
            section: Section::Answer,
            owner: Owner::Question,
        };
        for at in range {
            let service = self.gathered[at];
            let Some(port) = service.port else { continue };
            let Some(target) = self.target(service, answer) else {
                continue;
            };
            let fixed = [service.priority, self.share(service), port].map(u16::to_be_bytes);
            let rdata = answer.join(fixed.as_flattened(), target);
            if let Host::Name(_) = service.host {
                self.pick(service, Rtype::SRV, place, rdata, answer);
                self.target_addresses(target, names, answer);
            } else {
                // Target and port are what makes two of these the same.
                if self.is_first_pair(targets, &port.to_be_bytes(), answer.bytes(target)) {
                    self.pick(service, Rtype::SRV, place, rdata, answer);
                }
                self.made_address(service, target, addresses, answer);
            }
        }
    }

    fn mx(&mut self, range: Range<usize>, answer: &mut Answer<'z>) {
        let (names, targets, addresses) = (self.round(), self.round(), self.round());
        let place = Place {
            section: Section::Answer,
            owner: Owner::Question,
        };
        for at in range {
            let service = self.gathered[at];
            if !service.is_mail() {
                continue;
            }
            let Some(target) = self.target(service, answer) else {
                continue;
            };
            let preference = service.priority.to_be_bytes();
            let rdata = answer.join(&preference, target);
            if let Host::Name(_) = service.host {
                self.pick(service, Rtype::MX, place, rdata, answer);
                self.target_addresses(target, names, answer);
            } else {
                if self.is_first_pair(targets, &preference, answer.bytes(target)) {
                    self.pick(service, Rtype::MX, place, rdata, answer);
                }
                self.made_address(service, target, addresses, answer);
            }
        }
    }

    /// NS of the zone, from the services below `ns.dns`: addresses only, since their names are made from the keys.
    fn ns(&mut self, range: Range<usize>, answer: &mut Answer<'z>) {
        let (targets, place) = (
            self.round(),
            Place {
                section: Section::Answer,
                owner: Owner::Question,
            },
        );
        for at in range {
            let service = self.gathered[at];
            if let Host::Name(host) = &service.host {
                answer.clear_records();
                answer.rcode = Rcode::SERVFAIL;
                answer.reason = Some(Reason::NsHost(host.clone()));
                return;
            }
            let Some(target) = self.target(service, answer) else {
                continue;
            };
            if self.is_first(targets, answer.bytes(target)) {
                self.pick(service, Rtype::NS, place, target, answer);
            }
            let round = self.round();
            self.made_address(service, target, round, answer);
        }
    }

    /// The alias that the name has itself; without a value of its own, the only one below it.
    fn cname(&mut self, name: Name<'_>, labels: &[u8], range: Range<usize>, answer: &mut Answer<'z>) {
        let own_depth = label_count(labels);
        let services = &self.gathered[range];
        let own = services
            .first()
            .filter(|service| service.depth() == own_depth && !is_pattern(labels));
        let chosen = if own.is_some() {
            own.copied()
        } else {
            let mut aliases = services.iter().filter(|service| match &service.host {
                // As the answer to A shows it: not an alias to what lies below the name itself.
                Host::Name(target) => Name::from_wire(target).is_ok_and(|target| !target.is_within(name)),
                _ => false,
            });
            aliases
                .next()
                .copied()
                .filter(|first| aliases.all(|other| other.host == first.host))
        };
        if let Some(service) = chosen
            && let Host::Name(target) = &service.host
        {
            let place = Place {
                section: Section::Answer,
                owner: Owner::Question,
            };
            self.pick(service, Rtype::CNAME, place, Bytes::Zone(target), answer);
        }
    }

    /// PTR records come from the name's own value alone.
    fn ptr(&mut self, labels: &[u8], range: Range<usize>, answer: &mut Answer<'z>) {
        let own_depth = label_count(labels);
        if let Some(&service) = self.gathered[range].first()
            && service.depth() == own_depth
            && !is_pattern(labels)
            && let Host::Name(target) = &service.host
        {
            let place = Place {
                section: Section::Answer,
                owner: Owner::Question,
            };
            self.pick(service, Rtype::PTR, place, Bytes::Zone(target), answer);
        }
    }

    /// Addresses of the name that an SRV or MX points to, once for each name.
    fn target_addresses(&mut self, target: Bytes<'z>, round: u32, answer: &mut Answer<'z>) {
        // A name as host is in the snapshot, or a tail of one that is: it can be borrowed for as long.
        let Bytes::Zone(target) = target else { return };
        if !self.is_first(round, target) {
            return;
        }
        let Ok(name) = Name::from_wire(target) else { return };
        let section = Section::Additional;
        let Some(labels) = name.strip(self.tree.apex()) else {
            for (rtype, purpose) in [(Rtype::A, Purpose::Addresses), (Rtype::AAAA, Purpose::MoreAddresses)] {
                answer.ask_again(Pending {
                    section,
                    at: answer.len(section),
                    target: Bytes::Zone(target),
                    rtype,
                    purpose,
                });
            }
            return;
        };
        let mut folded = [0; 255];
        let labels = fold(labels, &mut folded);
        let place = Place {
            section,
            owner: Owner::Name(Bytes::Zone(target)),
        };
        self.shared_aliases = Some(self.round());
        self.records(name, labels, Rtype::A, place, &mut Chain::new(), answer);
        self.records(name, labels, Rtype::AAAA, place, &mut Chain::new(), answer);
        self.shared_aliases = None;
    }

    /// The address of a service whose name was made from its key.
    fn made_address(&mut self, service: &'z Service, target: Bytes<'z>, round: u32, answer: &mut Answer<'z>) {
        let place = Place {
            section: Section::Additional,
            owner: Owner::Name(target),
        };
        let mut name = ArrayVec::<u8, 255>::new();
        let _ = name.try_extend_from_slice(answer.bytes(target));
        self.address(service, round, Some(&name), place, answer);
    }

    /// The name a record points to: the host's, or one made from the key, without the labels that `targetstrip`
    /// drops. `None` where the key makes no name.
    fn target(&self, service: &'z Service, answer: &mut Answer<'z>) -> Option<Bytes<'z>> {
        if let Host::Name(host) = &service.host {
            return Some(Bytes::Zone(stripped(host, service.targetstrip())));
        }
        let mut name = ArrayVec::<u8, 255>::new();
        made_name(service, self.tree.apex(), &mut name)?;
        Some(answer.make(stripped(&name, service.targetstrip())))
    }

    /// The sum of the weights for each priority, over all services of the name, shown or not.
    fn sum_weights(&mut self, range: Range<usize>) {
        let sums = &mut self.scratch.sums;
        sums.clear();
        for service in &self.gathered[range] {
            match sums.binary_search_by_key(&service.priority, |sum| sum.0) {
                Ok(at) => sums[at].1 = sums[at].1.saturating_add(service.weight()),
                Err(at) => sums.insert(at, (service.priority, service.weight())),
            }
        }
    }

    /// The weight to show: the share of the priority's sum, in hundredths, computed as CoreDNS does.
    fn share(&self, service: &Service) -> u16 {
        let sums = &self.scratch.sums;
        let Ok(at) = sums.binary_search_by_key(&service.priority, |sum| sum.0) else {
            return 1;
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "the rounding of 64-bit floats is part of the answer"
        )]
        let share = (100.0 / sums[at].1 as f64 * service.weight() as f64).floor();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let share = share.clamp(1.0, 65_535.0) as u16;
        share
    }

    fn pick(&self, service: &Service, rtype: Rtype, place: Place<'z>, rdata: Bytes<'z>, answer: &mut Answer<'z>) {
        let Place { section, owner } = place;
        answer.pick(
            section,
            Pick {
                owner,
                rtype,
                ttl: service.ttl(self.now),
                rdata,
            },
        );
    }

    fn round(&mut self) -> u32 {
        self.scratch.round()
    }

    fn is_first(&mut self, round: u32, bytes: &[u8]) -> bool {
        self.is_first_pair(round, bytes, &[])
    }

    fn is_first_pair(&mut self, round: u32, left: &[u8], right: &[u8]) -> bool {
        let (left, right) = (self.tree.hash_of(left), self.tree.hash_of(right));
        self.scratch.is_first(round, left, right)
    }
}

/// Where the records of one look-up go.
#[derive(Clone, Copy)]
struct Place<'z> {
    section: Section,
    owner: Owner<'z>,
}

fn address_type(host: &Host) -> Option<Rtype> {
    match host {
        Host::V4(_) => Some(Rtype::A),
        Host::V6(_) => Some(Rtype::AAAA),
        Host::Name(_) | Host::None => None,
    }
}

fn fold<'a>(labels: &[u8], into: &'a mut [u8; 255]) -> &'a [u8] {
    let folded = &mut into[..labels.len()];
    label::fold_into(labels, folded);
    folded
}

fn label_count(labels: &[u8]) -> usize {
    let mut rest = labels;
    let mut count = 0;
    while let [len, behind @ ..] = rest {
        rest = &behind[usize::from(*len)..];
        count += 1;
    }
    count
}

/// The name without `strip` labels on its left; whole where that would leave none.
fn stripped(name: &[u8], strip: u16) -> &[u8] {
    let mut rest = name;
    for _ in 0..strip {
        rest = match rest {
            [0] | [] => return name,
            [len, behind @ ..] => &behind[usize::from(*len)..],
        };
    }
    if rest == [0] { name } else { rest }
}

/// The name that a key stands for: its components from the last to the first, then the zone. A slash at its end is
/// nothing.
fn made_name(service: &Service, apex: Name<'_>, name: &mut ArrayVec<u8, 255>) -> Option<()> {
    let mut components = service.components().rev().peekable();
    let _ = components.next_if(|last| last.is_empty());
    for component in components {
        let before = name.len();
        for label in component::labels(component) {
            let label = label?;
            name.try_push(label.len() as u8).ok()?;
            name.try_extend_from_slice(&label).ok()?;
        }
        if name.len() == before {
            return None;
        }
    }
    name.try_extend_from_slice(apex.as_bytes()).ok()
}

/// A text as strings of at most 255 bytes, none of them empty but the only one.
fn text(text: &[u8], made: &mut Vec<u8>) {
    for string in text.chunks(255) {
        made.push(string.len() as u8);
        made.extend_from_slice(string);
    }
}
