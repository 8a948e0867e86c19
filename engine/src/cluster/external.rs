//! Services as they are reached from outside: zones of `k8s_external`.

use nodens_wire::{Rtype, Section};

use super::answer::{Look, Outcome, add_addresses, fixed, pick, weight};
use super::editor::Of;
use super::entry::Entry;
use super::find::{Found, endpoints, has_port};
use super::objects::{External, Kind, Port, Service};
use super::reverse::Side;
use super::schema::{Labels, Part, PortName};
use super::view::{ExternalView, Zoned};
use crate::answer::{Answer, Bytes, Owner, Pending, Purpose};
use crate::plan::StepName;

/// What there is at a name of such a zone.
enum Outside<'a, 'z> {
    Missing,
    Empty,
    Apex,
    NameServer,
    Service {
        entry: &'z Entry,
        service: &'z Service,
        port: Option<PortName<'a>>,
    },
    Inside(Found<'a, 'z>),
}

impl<'a, 'z> Look<'a, 'z> {
    /// Answers for a zone of a `k8s_external` stanza.
    pub(crate) fn respond_outside(&mut self, external: &'z ExternalView, answer: &mut Answer<'z>) -> Outcome {
        if !self.begin(StepName::K8sExternal, answer) {
            return Outcome::Answered;
        }
        let before = answer.len(Section::Answer);
        let rtype = self.asked.rtype;
        match (self.find_outside(external), rtype) {
            (Outside::Missing, _) => return self.missing(StepName::K8sExternal, answer),
            (Outside::Apex, Rtype::SOA) => self.own_soa(Owner::Question, answer),
            (Outside::Apex, Rtype::NS) => {
                if let Some(name) = self.name(&[b"\x03ns1", &external.apex], self.apex(), answer) {
                    pick(Section::Answer, Owner::Question, Rtype::NS, external.ttl, name, answer);
                    self.glue(
                        self.cluster.server_addresses_outside(self.view).into_iter(),
                        name,
                        answer,
                    );
                }
            }
            (Outside::NameServer, _) => {
                let own = self.cluster.server_addresses_outside(self.view).into_iter();
                add_addresses(own, rtype, Section::Answer, Owner::Question, external.ttl, answer);
            }
            (Outside::Service { entry, service, port }, _) => {
                self.outside(external, entry, service, port, answer);
                if !answer.is_empty() {
                    return Outcome::Answered;
                }
            }
            (Outside::Inside(Found::Endpoints { entry, which, port }), Rtype::SRV) => {
                self.endpoint_srv(entry, which, port, b"", Owner::Question, answer);
            }
            (Outside::Inside(Found::Address(address)), Rtype::PTR) => {
                let (primary, ttl) = (external.primary.as_bytes(), external.ttl);
                self.pointers(Side::Outside, &address, b"", primary, ttl, Owner::Question, answer);
            }
            (Outside::Inside(found @ Found::Endpoints { .. }), Rtype::A | Rtype::AAAA) => {
                self.write(found, Owner::Question, &mut Default::default(), answer);
                return Outcome::Answered;
            }
            _ => {}
        }
        if answer.len(Section::Answer) == before {
            self.negative(answer);
        }
        Outcome::Answered
    }

    fn find_outside(&self, external: &ExternalView) -> Outside<'a, 'z> {
        if self.shown.kind == Zoned::Reverse {
            let found = match self.apex_at {
                0 => return Outside::Apex,
                _ => self.cluster.find_reverse(self.view, Side::Outside, self.asked.folded),
            };
            return match found {
                Found::Missing => Outside::Missing,
                Found::Empty => Outside::Empty,
                found => Outside::Inside(found),
            };
        }
        let asked = self.asked;
        let bytes = &asked.folded[..self.apex_at];
        let labels = Labels::of(bytes);
        match labels.len() {
            0 => return Outside::Apex,
            1 if *bytes == *external.apex => return Outside::Empty,
            2 if labels.between(0, 1) == Some(&*external.apex) && labels.nth_back(1) == Some(b"ns1") => {
                return Outside::NameServer;
            }
            1 if self.cluster.shows(self.view, bytes) => return Outside::Empty,
            2..=4 => {}
            _ => return Outside::Missing,
        }
        let key = labels.between(0, 2).unwrap_or_default();
        let Some((entry, service)) = self.cluster.shown(self.view, Of::Cluster, key, None) else {
            return Outside::Missing;
        };
        let part = labels.part(2, false);
        if !service.external.is_empty() {
            return match part.port() {
                Some(port) if !has_port(&service.ports, Some(port)) => Outside::Missing,
                // One label in front counts for nothing.
                port => Outside::Service { entry, service, port },
            };
        }
        let is_headless = service.kind == Kind::Endpoints;
        match part {
            Part::One(_) if external.headless => {}
            Part::Whole | Part::Two(..) if external.headless && is_headless => {}
            _ => return Outside::Missing,
        }
        match endpoints(entry, Of::Cluster, part, false) {
            Found::Missing => Outside::Missing,
            Found::Empty => Outside::Empty,
            found => Outside::Inside(found),
        }
    }

    fn outside(
        &self,
        external: &ExternalView,
        entry: &'z Entry,
        service: &'z Service,
        port: Option<PortName<'_>>,
        answer: &mut Answer<'z>,
    ) {
        let rtype = self.asked.rtype;
        match rtype {
            Rtype::A | Rtype::AAAA => {
                for reached in &service.external {
                    match reached {
                        External::Address(address) if address.rtype() == rtype => {
                            let rdata = Bytes::Zone(address.octets());
                            pick(Section::Answer, Owner::Question, rtype, external.ttl, rdata, answer);
                        }
                        External::Address(_) => {}
                        External::Name(name) => {
                            let target = Bytes::Zone(name);
                            pick(
                                Section::Answer,
                                Owner::Question,
                                Rtype::CNAME,
                                self.view.ttl,
                                target,
                                answer,
                            );
                            answer.ask_again(Pending {
                                section: Section::Answer,
                                at: answer.len(Section::Answer),
                                target,
                                rtype,
                                purpose: Purpose::Alias,
                            });
                            // A name that has an alias has nothing else.
                            return;
                        }
                    }
                }
            }
            Rtype::SRV => self.outside_srv(entry, service, port, answer),
            _ => {}
        }
    }

    fn outside_srv(&self, entry: &'z Entry, service: &'z Service, port: Option<PortName<'_>>, answer: &mut Answer<'z>) {
        let Some(own) = self.name(&[entry.key()], self.apex(), answer) else {
            return;
        };
        let meant = |other: &&Port| port.is_none_or(|port| port.is(other));
        let ports = service.ports.iter().filter(meant);
        let weight = weight(ports.clone().count() * service.external.len());
        let mut told: Vec<(u16, Option<&[u8]>)> = Vec::new();
        for port in ports {
            for reached in &service.external {
                let name = match reached {
                    External::Address(_) => None,
                    External::Name(name) => Some(&**name),
                };
                if told.contains(&(port.number, name)) {
                    continue;
                }
                told.push((port.number, name));
                let target = name.map_or(own, Bytes::Zone);
                let rdata = answer.join(&fixed(weight, port.number), target);
                pick(
                    Section::Answer,
                    Owner::Question,
                    Rtype::SRV,
                    self.view.ttl,
                    rdata,
                    answer,
                );
            }
        }
        if !told.is_empty() {
            self.glue(service.external.iter().filter_map(External::address), own, answer);
        }
    }
}
