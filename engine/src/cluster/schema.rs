//! What a name below a zone means, by the DNS schema of clusters. It says nothing of what exists.

use arrayvec::ArrayVec;

/// Labels that are looked at; a name with more is no name of the schema, but for the label of a topology zone.
const LABELS_MAX: usize = 127;

/// A port of a service, as a name spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortName<'a> {
    /// Empty: any.
    pub(super) name: &'a [u8],
    /// Empty: any.
    pub(super) protocol: &'a [u8],
}

/// Endpoints by topology zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Topology<'a> {
    /// The zone's labels.
    pub(super) zone: &'a [u8],
    /// Those of other zones will do where it has none.
    pub(super) prefers: bool,
}

/// A part of a service, as labels in front of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The service itself.
    Whole,
    /// One label: an endpoint, a protocol, a cluster, `_zone`.
    One(&'a [u8]),
    /// Two labels: a port, an endpoint of a cluster, `pin._zone`.
    Two(&'a [u8], &'a [u8]),
    /// Labels in front of `pin._zone` or `prefer._zone`.
    Zoned(Topology<'a>),
    /// More labels than mean anything.
    Beyond,
}

impl<'a> Part<'a> {
    /// The port that two labels name. An underscore in front of either is not needed.
    pub(super) fn port(self) -> Option<PortName<'a>> {
        let Self::Two(name, protocol) = self else { return None };
        Some(PortName {
            name: name.strip_prefix(b"_").unwrap_or(name),
            protocol: protocol.strip_prefix(b"_").unwrap_or(protocol),
        })
    }
}

/// What labels in front of a zone mean. Labels alone are without their length, names are in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// The zone itself.
    Apex,
    /// `svc` or `pod` alone, or `dns`, below which there is always something.
    Always,
    /// `dns-version`
    Version,
    /// `ns.dns`
    NameServer,
    /// `NAMESPACE.svc`
    Services(&'a [u8]),
    /// `NAMESPACE.pod`
    Pods(&'a [u8]),
    /// A service, with its namespace behind it.
    Service { labels: &'a [u8], part: Part<'a> },
    /// A pod's label, and its namespace. Up to two labels in front of it count for nothing.
    Pod { label: &'a [u8], namespace: &'a [u8] },
    /// Nothing of the schema.
    Nothing,
}

/// Where labels begin, from the left.
pub(super) struct Labels<'a> {
    bytes: &'a [u8],
    at: ArrayVec<u8, LABELS_MAX>,
}

impl<'a> Labels<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let mut labels = Self {
            bytes,
            at: ArrayVec::new(),
        };
        let mut at = 0;
        while let Some(&len) = bytes.get(at) {
            // A name has 255 bytes and 127 labels at most.
            labels.at.push(at as u8);
            at += 1 + usize::from(len);
        }
        labels
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// The label at a place, counted from the right.
    pub(super) fn nth_back(&self, place: usize) -> Option<&'a [u8]> {
        let at = usize::from(self.at[self.at.len().checked_sub(place + 1)?]);
        Some(&self.bytes[at + 1..at + 1 + usize::from(self.bytes[at])])
    }

    /// In wire form, those from one place to another, counted from the right: `between(1, 3)` are two labels, the last but
    /// one and the one in front of it.
    pub(super) fn between(&self, right: usize, left: usize) -> Option<&'a [u8]> {
        let begin = usize::from(self.at[self.at.len().checked_sub(left)?]);
        let end = match right {
            0 => self.bytes.len(),
            right => usize::from(self.at[self.at.len().checked_sub(right)?]),
        };
        self.bytes.get(begin..end)
    }

    /// What stands in front of the labels that name a service.
    #[inline]
    pub(super) fn part(&self, service_at: usize, zonal: bool) -> Part<'a> {
        let label = |place: usize| self.nth_back(service_at + place).unwrap_or_default();
        match self.len() - service_at {
            0 => Part::Whole,
            1 => Part::One(label(0)),
            2 => Part::Two(label(1), label(0)),
            more if zonal && label(0) == b"_zone" => {
                let prefers = match label(1) {
                    b"pin" => false,
                    b"prefer" => true,
                    _ => return Part::Beyond,
                };
                let zone = self.between(service_at + 2, service_at + more).unwrap_or_default();
                Part::Zoned(Topology { zone, prefers })
            }
            _ => Part::Beyond,
        }
    }
}

/// Where the labels of a service and its namespace begin and end, in a name of services.
#[inline]
pub(crate) fn service_at(labels: &[u8]) -> Option<(u8, u8)> {
    const LAST: &[u8] = b"\x03svc";
    let end = labels.strip_suffix(LAST)?.len();
    let (mut at, mut namespace, mut service) = (0, None, None);
    while at < end {
        (service, namespace) = (namespace, Some(at));
        at += 1 + usize::from(labels[at]);
    }
    // The four bytes may have been the end of another label. A name has 255 bytes at most.
    service.filter(|_| at == end).map(|from| (from as u8, end as u8))
}

/// Reads folded labels in wire form. `zonal`: names of topology zones are served.
pub(super) fn read(labels: &[u8], zonal: bool) -> Meaning<'_> {
    if let Some((from, end)) = service_at(labels) {
        let (front, service) = labels.split_at(from.into());
        return Meaning::Service {
            labels: &service[..usize::from(end - from)],
            part: Labels::of(front).part(0, zonal),
        };
    }
    let labels = Labels::of(labels);
    let Some(last) = labels.nth_back(0) else {
        return Meaning::Apex;
    };
    match (last, labels.len()) {
        (b"svc" | b"pod" | b"dns", 1) => Meaning::Always,
        (b"dns-version", 1) => Meaning::Version,
        (b"dns", 2) if labels.nth_back(1) == Some(b"ns") => Meaning::NameServer,
        (b"svc", 2) => Meaning::Services(labels.between(1, 2).unwrap_or_default()),
        (b"pod", 2) => Meaning::Pods(labels.between(1, 2).unwrap_or_default()),
        (b"pod", 3..=5) => Meaning::Pod {
            label: labels.nth_back(2).unwrap_or_default(),
            namespace: labels.between(1, 2).unwrap_or_default(),
        },
        _ => Meaning::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::NameBuf;

    fn wire(text: &str) -> Vec<u8> {
        let mut bytes = NameBuf::from_text(text).unwrap().as_bytes().to_vec();
        bytes.pop();
        bytes
    }

    #[test]
    fn every_form_of_the_schema_is_told_apart() {
        let check = |text: &str, expected: Meaning<'_>| assert_eq!(read(&wire(text), true), expected, "{text}");
        let ns = wire("ns");
        let web = wire("web.ns");
        let service = |part| Meaning::Service { labels: &web, part };
        check(".", Meaning::Apex);
        check("svc", Meaning::Always);
        check("dns-version", Meaning::Version);
        check("ns.dns", Meaning::NameServer);
        check("x.dns", Meaning::Nothing);
        check("ns.svc", Meaning::Services(&ns));
        check("ns.pod", Meaning::Pods(&ns));
        check("web.ns.svc", service(Part::Whole));
        check("db-0.web.ns.svc", service(Part::One(b"db-0")));
        check("_http._tcp.web.ns.svc", service(Part::Two(b"_http", b"_tcp")));
        check("a.b.c.web.ns.svc", service(Part::Beyond));
        check("pin._zone.web.ns.svc", service(Part::Two(b"pin", b"_zone")));
        let zone = wire("rack.seven");
        let topology = |prefers| Part::Zoned(Topology { zone: &zone, prefers });
        check("rack.seven.pin._zone.web.ns.svc", service(topology(false)));
        check("rack.seven.prefer._zone.web.ns.svc", service(topology(true)));
        check("rack.seven.hint._zone.web.ns.svc", service(Part::Beyond));
        let pod = Meaning::Pod {
            label: b"10-0-0-1",
            namespace: &ns,
        };
        check("10-0-0-1.ns.pod", pod);
        check("a.b.10-0-0-1.ns.pod", pod);
        check("a.b.c.10-0-0-1.ns.pod", Meaning::Nothing);
        check("www", Meaning::Nothing);
        assert_eq!(read(&wire("a.pin._zone.web.ns.svc"), false), service(Part::Beyond));
    }

    #[test]
    fn underscores_of_ports_are_not_needed() {
        let port = |name: &'static [u8], protocol: &'static [u8]| Part::Two(name, protocol).port();
        let expected = Some(PortName {
            name: b"http",
            protocol: b"tcp",
        });
        assert_eq!(port(b"_http", b"_tcp"), expected);
        assert_eq!(port(b"http", b"tcp"), expected);
        assert_eq!(port(b"_", b"_tcp").map(|port| port.name.len()), Some(0));
    }
}
