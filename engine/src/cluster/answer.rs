//! The records of what there is at a name.

use std::ops::ControlFlow;

use arrayvec::ArrayVec;
use nodens_wire::{NAME_LEN_MAX, Name, Rcode, Rtype, Section};

use super::editor::Of;
use super::entry::Entry;
use super::find::{Found, Which};
use super::objects::{Address, Endpoint, Port, Service, Slice};
use super::reverse::{Rank, Side};
use super::schema::{Meaning, PortName, read};
use super::view::{Shown, View, Zoned};
use super::{Cluster, Soa};
use crate::answer::{Answer, Bytes, Owner, Pending, Pick, Purpose, Reason, Tail};
use crate::encode::SRV_FIXED_LEN;
use crate::plan::{Asked, Held, StepName};
use crate::services::answer::Scratch;

/// Aliases in one answer.
pub const ALIASES_MAX: usize = 11;
/// Endpoints that one answer holds: more than a message of 64 KB has room for.
pub const ENDPOINTS_MAX: usize = 4096;
/// What a schema's version is, as TXT (DNS-based service discovery, 1.1.0), and for how long.
const VERSION: (&[u8], u32) = (b"\x051.1.0", 28_800);

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer says all.
    Answered,
    /// No such name: the answer says so, unless the question falls through.
    NameError,
}

/// One question about a cluster.
pub(crate) struct Look<'a, 'z> {
    pub(crate) cluster: &'z Cluster,
    pub(crate) view: &'z View,
    pub(crate) shown: Shown,
    pub(crate) asked: &'a Asked<'a>,
    /// Bytes of the name in front of the zone's.
    pub(crate) apex_at: usize,
    /// What the first pass over a batch found at the name.
    pub(crate) held: Option<&'a Held<'z>>,
    /// Of addresses, in seconds.
    pub(crate) ttl: u32,
    pub(crate) scratch: &'a mut Scratch,
}

/// Names on the way through aliases, in lower case.
type Trail = ArrayVec<nodens_wire::NameBuf, { ALIASES_MAX + 1 }>;

impl<'a, 'z> Look<'a, 'z> {
    /// Answers for a zone of a `kubernetes` stanza.
    pub(crate) fn respond(&mut self, answer: &mut Answer<'z>) -> Outcome {
        if !self.begin(StepName::Kubernetes, answer) {
            return Outcome::Answered;
        }
        let asked = self.asked;
        let labels = &asked.folded[..self.apex_at];
        let found = match self.shown.kind {
            Zoned::Forward => {
                let meaning = read(labels, self.view.zonal);
                self.cluster.find(self.view, Of::Cluster, meaning, self.held)
            }
            Zoned::Clusterset => self.cluster.find(self.view, Of::Clusterset, read(labels, false), None),
            Zoned::Reverse => match read(labels, false) {
                Meaning::Apex => Found::Apex,
                Meaning::Version => Found::Version,
                Meaning::NameServer => Found::NameServer,
                Meaning::Always if labels == b"\x03dns" => Found::Empty,
                _ => self.cluster.find_reverse(self.view, Side::Inside, asked.folded),
            },
        };
        if let Found::Missing = found {
            self.missing(StepName::Kubernetes, answer)
        } else {
            self.write(found, Owner::Question, &mut Trail::new(), answer);
            Outcome::Answered
        }
    }

    /// Whether the question is for data; one for a whole zone is refused.
    pub(super) fn begin(&mut self, step: StepName, answer: &mut Answer<'z>) -> bool {
        if matches!(self.asked.rtype, Rtype::AXFR | Rtype::IXFR) {
            answer.rcode = Rcode::REFUSED;
            return false;
        }
        self.scratch.begin();
        answer.by = Some(step);
        answer.aa = true;
        true
    }

    /// There is no such name; nobody knows, while not everything has been read.
    pub(super) fn missing(&mut self, step: StepName, answer: &mut Answer<'z>) -> Outcome {
        self.negative(answer);
        if !self.cluster.synced {
            answer.rcode = Rcode::SERVFAIL;
            answer.reason = Some(Reason::Unsynced(step));
            return Outcome::Answered;
        }
        answer.rcode = Rcode::NXDOMAIN;
        Outcome::NameError
    }

    fn soa(&self) -> Option<&'z Soa> {
        self.cluster.soas.get(usize::from(self.shown.place))
    }

    /// The zone's name as it was asked.
    pub(super) fn apex(&self) -> &'a [u8] {
        &self.asked.name.as_bytes()[self.apex_at..]
    }

    /// The SOA in AUTHORITY.
    pub(super) fn negative(&mut self, answer: &mut Answer<'z>) {
        let Some(soa) = self.soa() else { return };
        if let Some(template) = soa.negative.as_ref().filter(|_| self.asked.may_copy) {
            let apex_at = self.apex_at;
            answer.authority = Some(Tail { template, apex_at });
            return;
        }
        let owner = Owner::Name(answer.make(self.apex()));
        pick(
            Section::Authority,
            owner,
            Rtype::SOA,
            soa.ttl,
            Bytes::Zone(&soa.rdata),
            answer,
        );
    }

    /// Picks the records of what was found under a name.
    pub(super) fn write(&mut self, found: Found<'_, 'z>, owner: Owner<'z>, trail: &mut Trail, answer: &mut Answer<'z>) {
        let before = answer.len(Section::Answer);
        let ttl = self.ttl;
        match (found, self.asked.rtype) {
            (Found::Alias(target), rtype) => return self.alias(target, owner, rtype, trail, answer),
            (Found::Apex, Rtype::SOA) => self.own_soa(owner, answer),
            (Found::Apex, Rtype::NS) => self.name_servers(owner, answer),
            (Found::Version, Rtype::TXT) => {
                pick(
                    Section::Answer,
                    owner,
                    Rtype::TXT,
                    VERSION.1,
                    Bytes::Zone(VERSION.0),
                    answer,
                );
            }
            (Found::NameServer, rtype) => self.name_server(owner, rtype, answer),
            (Found::Service { addresses, .. }, rtype @ (Rtype::A | Rtype::AAAA)) => {
                add_addresses(addresses.iter(), rtype, Section::Answer, owner, ttl, answer);
            }
            (
                Found::Service {
                    entry,
                    service,
                    addresses,
                    port,
                },
                Rtype::SRV,
            ) => self.service_srv(entry, service, addresses, port, owner, answer),
            (Found::Endpoints { entry, which, port }, rtype @ (Rtype::A | Rtype::AAAA)) => {
                self.endpoint_addresses(entry, which, port, rtype, owner, answer);
            }
            (Found::Endpoints { entry, which, port }, Rtype::SRV) => {
                self.endpoint_srv(entry, which, port, b"\x03svc", owner, answer);
            }
            (
                Found::Pod {
                    address,
                    label,
                    namespace,
                },
                rtype,
            ) => self.pod(&address, label, namespace, rtype, owner, answer),
            (Found::Address(address), Rtype::PTR) => {
                let primary = self.view.primary.as_bytes();
                self.pointers(Side::Inside, &address, b"\x03svc", primary, ttl, owner, answer);
            }
            _ => {}
        }
        if answer.len(Section::Answer) == before {
            self.negative(answer);
        }
    }

    pub(super) fn own_soa(&self, owner: Owner<'z>, answer: &mut Answer<'z>) {
        if let Some(soa) = self.soa() {
            pick(
                Section::Answer,
                owner,
                Rtype::SOA,
                soa.ttl,
                Bytes::Zone(&soa.rdata),
                answer,
            );
        }
    }

    /// A CNAME, and where it leads.
    fn alias(&mut self, target: &'z [u8], owner: Owner<'z>, rtype: Rtype, trail: &mut Trail, answer: &mut Answer<'z>) {
        let Ok(name) = Name::from_wire(target) else { return };
        if trail.is_empty() {
            let asked = Name::from_wire(self.asked.folded).map(Name::to_buf);
            trail.extend(asked);
        }
        if trail.is_full() {
            return;
        }
        pick(
            Section::Answer,
            owner,
            Rtype::CNAME,
            self.view.ttl,
            Bytes::Zone(target),
            answer,
        );
        let folded = name.to_buf().folded();
        if rtype == Rtype::CNAME || trail.contains(&folded) {
            return;
        }
        let Ok(apex) = Name::from_wire(&self.asked.folded[self.apex_at..]) else {
            return;
        };
        let Some(labels) = folded.as_name().strip(apex) else {
            // Whether it can be resolved does not matter to the alias.
            return answer.ask_again(Pending {
                section: Section::Answer,
                at: answer.len(Section::Answer),
                target: Bytes::Zone(target),
                rtype,
                purpose: Purpose::Alias,
            });
        };
        trail.push(folded.clone());
        let of = match self.shown.kind {
            Zoned::Clusterset => Of::Clusterset,
            Zoned::Forward | Zoned::Reverse => Of::Cluster,
        };
        match self.cluster.find(self.view, of, read(labels, self.view.zonal), None) {
            Found::Missing => {
                self.missing(StepName::Kubernetes, answer);
            }
            found => self.write(found, Owner::Name(Bytes::Zone(target)), trail, answer),
        }
    }

    /// The name of labels below the zone; `None` where it is too long.
    pub(super) fn name(&self, parts: &[&[u8]], apex: &[u8], answer: &mut Answer<'z>) -> Option<Bytes<'z>> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        (len + apex.len() <= 255).then(|| {
            answer.make_with(|made| {
                for part in parts.iter().chain([&apex]) {
                    made.extend_from_slice(part);
                }
            })
        })
    }

    fn service_srv(
        &mut self,
        entry: &'z Entry,
        service: &'z Service,
        addresses: &'z [Address],
        port: Option<PortName<'_>>,
        owner: Owner<'z>,
        answer: &mut Answer<'z>,
    ) {
        let Some(mut target) = self.name(&[entry.key(), b"\x03svc"], self.apex(), answer) else {
            return;
        };
        let meant = |other: &&Port| port.is_none_or(|port| port.is(other));
        let weight = weight(service.ports.iter().filter(meant).count() * addresses.len());
        let mut numbers = ArrayVec::<u16, 64>::new();
        for port in service.ports.iter().filter(meant) {
            if numbers.contains(&port.number) {
                continue;
            }
            let _ = numbers.try_push(port.number);
            let rdata = answer.join(&fixed(weight, port.number), target);
            if numbers.len() == 1 {
                target = rdata.behind(SRV_FIXED_LEN);
            }
            pick(Section::Answer, owner, Rtype::SRV, self.view.ttl, rdata, answer);
        }
        if !numbers.is_empty() {
            self.glue(addresses.iter(), target, answer);
        }
    }

    /// Addresses of a name, in ADDITIONAL.
    pub(super) fn glue(&self, addresses: impl Iterator<Item = &'z Address>, name: Bytes<'z>, answer: &mut Answer<'z>) {
        for address in addresses {
            let (owner, rdata) = (Owner::Name(name), Bytes::Zone(address.octets()));
            pick(Section::Additional, owner, address.rtype(), self.ttl, rdata, answer);
        }
    }

    fn endpoint_addresses(
        &mut self,
        entry: &'z Entry,
        which: Which<'_>,
        port: Option<PortName<'_>>,
        rtype: Rtype,
        owner: Owner<'z>,
        answer: &mut Answer<'z>,
    ) {
        let ttl = self.ttl;
        if which == Which::All && port.is_none() {
            let v4 = entry.v4.iter().filter(|_| rtype == Rtype::A).map(|octets| &octets[..]);
            let v6 = entry
                .v6
                .iter()
                .filter(|_| rtype == Rtype::AAAA)
                .map(|octets| &octets[..]);
            for (at, octets) in v4.chain(v6).enumerate() {
                if at == ENDPOINTS_MAX {
                    answer.limited = true;
                    return;
                }
                pick(Section::Answer, owner, rtype, ttl, Bytes::Zone(octets), answer);
            }
            return;
        }
        let round = self.scratch.round();
        for (at, (_, endpoint)) in entry.select(which, port).enumerate() {
            if at == ENDPOINTS_MAX {
                answer.limited = true;
                return;
            }
            let Some(address) = endpoint.address().filter(|address| address.rtype() == rtype) else {
                continue;
            };
            self.add_once(round, address, owner, answer);
        }
    }

    /// An address, unless the round had it.
    fn add_once(&mut self, round: u32, address: &'z Address, owner: Owner<'z>, answer: &mut Answer<'z>) {
        let octets = address.octets();
        if self.scratch.is_first(round, self.cluster.hash.of(octets), 0) {
            pick(
                Section::Answer,
                owner,
                address.rtype(),
                self.ttl,
                Bytes::Zone(octets),
                answer,
            );
        }
    }

    /// The name of an endpoint of a service, behind other bytes.
    fn endpoint_name(
        front: &[u8],
        (slice, endpoint): (&Slice, &Endpoint),
        parts: [&[u8]; 3],
        answer: &mut Answer<'z>,
    ) -> Option<Bytes<'z>> {
        let mut written = None;
        let made = answer.make_with(|made| {
            let start = made.len() + front.len();
            made.extend_from_slice(front);
            written = endpoint.write_labels(&slice.cluster, made);
            for part in parts {
                made.extend_from_slice(part);
            }
            written = written.filter(|()| made.len() - start <= NAME_LEN_MAX);
        });
        written.map(|()| made)
    }

    /// SRV of endpoints; `behind` stands between their service and the zone.
    pub(super) fn endpoint_srv(
        &mut self,
        entry: &'z Entry,
        which: Which<'_>,
        port: Option<PortName<'_>>,
        behind: &[u8],
        owner: Owner<'z>,
        answer: &mut Answer<'z>,
    ) {
        let ttl = self.view.ttl;
        let mut numbers = Numbers::of(port);
        let pairs = entry
            .select(which, port)
            .map(|(slice, _)| numbers.in_slice(slice).len().max(1))
            .sum();
        let weight = weight(pairs);
        let (targets, glued) = (self.scratch.round(), self.scratch.round());
        for (at, (slice, endpoint)) in entry.select(which, port).enumerate() {
            if at == ENDPOINTS_MAX {
                answer.limited = true;
                return;
            }
            let Some(address) = endpoint.address().filter(|_| !slice.ports.is_empty()) else {
                continue;
            };
            let numbers = numbers.in_slice(slice);
            // The first record is made as it will be written, with its name.
            let first = fixed(weight, numbers.first().copied().unwrap_or_default());
            let parts = [entry.key(), behind, self.apex()];
            let Some(made) = Self::endpoint_name(&first, (slice, endpoint), parts, answer) else {
                continue;
            };
            let target = made.behind(SRV_FIXED_LEN);
            // Most names are told once, and are not looked for.
            let name = entry.shares_labels.then(|| self.cluster.hash.of(answer.bytes(target)));
            for (at, &number) in numbers.iter().enumerate() {
                if name.is_none_or(|name| self.scratch.is_first(targets, name, number.into())) {
                    let rdata = match at {
                        0 => made,
                        _ => answer.join(&fixed(weight, number), target),
                    };
                    pick(Section::Answer, owner, Rtype::SRV, ttl, rdata, answer);
                }
            }
            let octets = address.octets();
            if name.is_none_or(|name| self.scratch.is_first(glued, name, self.cluster.hash.of(octets))) {
                self.glue(std::iter::once(address), target, answer);
            }
        }
    }

    fn pod(
        &self,
        address: &Address,
        label: &[u8],
        namespace: &[u8],
        rtype: Rtype,
        owner: Owner<'z>,
        answer: &mut Answer<'z>,
    ) {
        let ttl = self.view.ttl;
        if rtype == address.rtype() {
            let rdata = answer.make(address.octets());
            pick(Section::Answer, owner, rtype, ttl, rdata, answer);
        } else if rtype == Rtype::SRV {
            let len = [label.len() as u8];
            let Some(target) = self.name(&[&len, label, namespace, b"\x03pod"], self.apex(), answer) else {
                return;
            };
            let rdata = answer.join(&fixed(100, 0), target);
            pick(Section::Answer, owner, rtype, ttl, rdata, answer);
            let rdata = answer.make(address.octets());
            pick(
                Section::Additional,
                Owner::Name(target),
                address.rtype(),
                ttl,
                rdata,
                answer,
            );
        }
    }

    /// The names of an address: of the service whose own it is, else of all endpoints that have it.
    #[expect(clippy::too_many_arguments, reason = "an address has names inside and outside")]
    pub(super) fn pointers(
        &mut self,
        side: Side,
        address: &Address,
        behind: &[u8],
        primary: &[u8],
        ttl: u32,
        owner: Owner<'z>,
        answer: &mut Answer<'z>,
    ) {
        let (round, mut left) = (self.scratch.round(), ENDPOINTS_MAX);
        let (cluster, view) = (self.cluster, self.view);
        cluster.each_of(view, side, address, |rank, entry| {
            if rank == Rank::Service {
                if let Some(name) = self.name(&[entry.key(), behind], primary, answer) {
                    pick(Section::Answer, owner, Rtype::PTR, ttl, name, answer);
                }
                return ControlFlow::Break(());
            }
            for (slice, endpoint) in entry.select(Which::All, None) {
                if endpoint.address() != Some(address) {
                    continue;
                }
                let parts = [entry.key(), behind, primary];
                let Some(name) = Self::endpoint_name(&[], (slice, endpoint), parts, answer) else {
                    continue;
                };
                if self.scratch.is_first(round, cluster.hash.of(answer.bytes(name)), 0) {
                    pick(Section::Answer, owner, Rtype::PTR, ttl, name, answer);
                }
                left -= 1;
                if left == 0 {
                    answer.limited = true;
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
    }

    fn name_servers(&mut self, owner: Owner<'z>, answer: &mut Answer<'z>) {
        let (apex, ttl) = (self.apex(), self.view.ttl);
        let round = self.scratch.round();
        for (labels, addresses) in self.cluster.name_servers(self.view) {
            let Some(name) = self.name(&[&labels], apex, answer) else {
                continue;
            };
            if self.scratch.is_first(round, self.cluster.hash.of(&labels), 0) {
                pick(Section::Answer, owner, Rtype::NS, ttl, name, answer);
            }
            self.glue(addresses.into_iter(), name, answer);
        }
    }

    /// The addresses of `ns.dns`.
    fn name_server(&mut self, owner: Owner<'z>, rtype: Rtype, answer: &mut Answer<'z>) {
        let round = self.scratch.round();
        let addresses = self.cluster.server_addresses(self.view).into_iter();
        for address in addresses.filter(|address| address.rtype() == rtype) {
            self.add_once(round, address, owner, answer);
        }
    }
}

/// Ports of one slice; the API server allows 100.
const PORTS_MAX: usize = 128;

/// The numbers of the ports that are meant, in the slice that was looked at last: they are the same for all its endpoints.
struct Numbers<'s, 'q> {
    port: Option<PortName<'q>>,
    slice: Option<&'s Slice>,
    numbers: ArrayVec<u16, PORTS_MAX>,
}

impl<'s, 'q> Numbers<'s, 'q> {
    fn of(port: Option<PortName<'q>>) -> Self {
        Self {
            port,
            slice: None,
            numbers: ArrayVec::new_const(),
        }
    }

    #[inline]
    fn in_slice(&mut self, slice: &'s Slice) -> &[u16] {
        if !self.slice.is_some_and(|last| std::ptr::eq(last, slice)) {
            self.slice = Some(slice);
            self.numbers.clear();
            let meant = slice
                .ports
                .iter()
                .filter(|other| self.port.is_none_or(|port| port.is(other)));
            self.numbers.extend(meant.map(|port| port.number).take(PORTS_MAX));
        }
        &self.numbers
    }
}

/// Each of so many has an equal share of 100, and at least 1.
pub(super) fn weight(records: usize) -> u16 {
    u16::try_from(100 / records.max(1)).unwrap_or(1).max(1)
}

/// What stands in front of the target of an SRV.
pub(super) fn fixed(weight: u16, port: u16) -> [u8; 6] {
    let ([w0, w1], [p0, p1]) = (weight.to_be_bytes(), port.to_be_bytes());
    [0, 0, w0, w1, p0, p1]
}

pub(super) fn pick<'z>(
    section: Section,
    owner: Owner<'z>,
    rtype: Rtype,
    ttl: u32,
    rdata: Bytes<'z>,
    answer: &mut Answer<'z>,
) {
    answer.pick(
        section,
        Pick {
            owner,
            rtype,
            ttl,
            rdata,
        },
    );
}

/// The addresses of one family.
pub(super) fn add_addresses<'z>(
    addresses: impl Iterator<Item = &'z Address>,
    rtype: Rtype,
    section: Section,
    owner: Owner<'z>,
    ttl: u32,
    answer: &mut Answer<'z>,
) {
    for address in addresses.filter(|address| address.rtype() == rtype) {
        pick(section, owner, rtype, ttl, Bytes::Zone(address.octets()), answer);
    }
}
