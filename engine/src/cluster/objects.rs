//! Services, their slices and endpoints, in the form in which they are answered.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use nodens_wire::{Name, Rtype};

/// A label without its length, at most 63 bytes.
pub(crate) type Label = ArrayVec<u8, 63>;

/// An address as its record holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// IPv4.
    V4([u8; 4]),
    /// IPv6.
    V6([u8; 16]),
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => Self::V6(address.octets()),
        }
    }
}

impl Address {
    /// The type of its record.
    #[must_use]
    #[inline]
    pub fn rtype(&self) -> Rtype {
        match self {
            Self::V4(_) => Rtype::A,
            Self::V6(_) => Rtype::AAAA,
        }
    }

    /// The rdata of its record.
    #[must_use]
    #[inline]
    pub fn octets(&self) -> &[u8] {
        match self {
            Self::V4(octets) => octets,
            Self::V6(octets) => octets,
        }
    }

    /// Its usual text with dashes in the place of dots and colons, and a `0` behind a dash at its end: no host name ends
    /// in one.
    pub(crate) fn dashed(&self) -> Label {
        let mut label = Label::new();
        match self {
            Self::V4(octets) => {
                let (text, len) = dashed_v4(*octets);
                label.extend(text.into_iter().take(len));
                return label;
            }
            Self::V6(octets) => {
                // The longest text of an address has 45 bytes.
                let written = write!(label, "{}", Ipv6Addr::from(*octets));
                debug_assert!(written.is_ok());
            }
        }
        for byte in &mut label {
            if matches!(*byte, b':' | b'.') {
                *byte = b'-';
            }
        }
        if label.last() == Some(&b'-') {
            label.push(b'0');
        }
        label
    }

    /// What a label of a pod's name stands for: with three dashes that do not touch an IPv4 address, else an IPv6 one, in
    /// its usual text.
    pub(crate) fn of_pod(label: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(label).ok()?;
        let is_v4 = label.iter().filter(|&&byte| byte == b'-').count() == 3 && !text.contains("--");
        let mut spelled = arrayvec::ArrayString::<63>::new();
        for part in text.chars() {
            spelled
                .try_push(match part {
                    '-' if is_v4 => '.',
                    '-' => ':',
                    other => other,
                })
                .ok()?;
        }
        if is_v4 {
            let address: Ipv4Addr = spelled.parse().ok()?;
            return Some(Self::V4(address.octets()));
        }
        let address: Ipv6Addr = spelled.parse().ok()?;
        Some(Self::V6(address.octets()))
    }

    /// The label is the address in its usual text.
    pub(crate) fn is_usual(&self, label: &[u8]) -> bool {
        let mut usual = Label::new();
        let _ = match *self {
            Self::V4([a, b, c, d]) => write!(usual, "{a}-{b}-{c}-{d}"),
            Self::V6(octets) => write!(usual, "{}", Ipv6Addr::from(octets)),
        };
        usual.len() == label.len()
            && usual
                .iter()
                .zip(label)
                .all(|(own, other)| own == other || matches!(own, b':' | b'.') && *other == b'-')
    }
}

/// The decimals of every octet with a dash behind them, and how many bytes that is.
const DECIMALS: [([u8; 4], u8); 256] = {
    let mut all = [([b'-'; 4], 0); 256];
    let mut number = 0;
    while number < all.len() {
        let digits = [number / 100, number / 10 % 10, number % 10];
        let mut skipped = if number >= 100 {
            0
        } else if number >= 10 {
            1
        } else {
            2
        };
        let mut len = 0;
        while skipped < digits.len() {
            all[number].0[len] = b'0' + digits[skipped] as u8;
            skipped += 1;
            len += 1;
        }
        all[number].1 = len as u8 + 1;
        number += 1;
    }
    all
};

/// An IPv4 address with dashes, and how many bytes that is.
fn dashed_v4(octets: [u8; 4]) -> ([u8; 16], usize) {
    let (mut text, mut len) = ([0; 16], 0);
    for octet in octets {
        let (decimals, more) = DECIMALS[usize::from(octet)];
        // Four bytes are put down each time, of which the next ones cover what is too much.
        text[len..len + 4].copy_from_slice(&decimals);
        len += usize::from(more);
    }
    (text, len - 1)
}

/// A port of a service or a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// In lower case; empty where it has none.
    pub name: Box<[u8]>,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: Box<[u8]>,
    /// The number.
    pub number: u16,
}

/// What the name of a service leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Addresses of its own.
    Addresses(Box<[Address]>),
    /// Its endpoints: a headless service.
    Endpoints,
    /// Another name, in wire form.
    Alias(Box<[u8]>),
    /// Nothing: the alias is no name.
    Nothing,
}

/// Where a service can be reached from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// At an address.
    Address(Address),
    /// By a name, in wire form.
    Name(Box<[u8]>),
}

impl External {
    /// The address, if it is one.
    pub(super) fn address(&self) -> Option<&Address> {
        match self {
            Self::Address(address) => Some(address),
            Self::Name(_) => None,
        }
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What its name leads to.
    pub kind: Kind,
    /// Its ports.
    pub ports: Box<[Port]>,
    /// How it is reached from outside.
    pub external: Box<[External]>,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an address.
    Address(Address),
    /// Behind a name, in wire form.
    Name(Box<[u8]>),
}

/// The labels of a name with dashes between them; nothing where that is too long for a label.
fn dashed_name(name: &[u8]) -> Label {
    let mut dashed = Label::new();
    for label in Name::from_wire(name).into_iter().flat_map(Name::labels) {
        let dash: &[u8] = if dashed.is_empty() { b"" } else { b"-" };
        if dashed.remaining_capacity() < dash.len() + label.len() {
            return Label::new();
        }
        dashed.extend(dash.iter().chain(label).copied());
    }
    dashed
}

/// One place where a service is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where.
    pub place: Place,
    /// Its label below the service; `None` for its address with dashes.
    pub label: Option<Box<[u8]>>,
    /// Which of the slice's topology zones it is in.
    pub zone: Option<u16>,
}

impl Endpoint {
    /// Its label below the service.
    pub(crate) fn label(&self) -> Label {
        match (&self.label, &self.place) {
            (Some(label), _) => label.iter().copied().take(63).collect(),
            (None, Place::Address(address)) => address.dashed(),
            (None, Place::Name(name)) => dashed_name(name),
        }
    }

    /// The same in wire form, that of its cluster behind it where it has one. The name of a pod with dots in it has a
    /// label for each part.
    #[inline]
    pub(super) fn labels(&self, cluster: &[u8]) -> Option<ArrayVec<u8, 130>> {
        let own = self.label();
        let mut labels = ArrayVec::new();
        if cluster.is_empty() && !own.is_empty() && !own.contains(&b'.') {
            labels.push(own.len() as u8);
            labels.try_extend_from_slice(&own).ok()?;
            return Some(labels);
        }
        for label in own
            .split(|byte| *byte == b'.')
            .chain([cluster])
            .filter(|label| !label.is_empty())
        {
            labels.try_push(u8::try_from(label.len()).ok()?).ok()?;
            labels.try_extend_from_slice(label).ok()?;
        }
        Some(labels)
    }

    /// Appends the same.
    #[inline]
    pub(super) fn write_labels(&self, cluster: &[u8], name: &mut Vec<u8>) -> Option<()> {
        if let (None, Place::Address(Address::V4(octets)), b"") = (&self.label, &self.place, cluster) {
            let (text, len) = dashed_v4(*octets);
            name.push(len as u8);
            name.extend_from_slice(&text[..len]);
        } else {
            name.extend_from_slice(&self.labels(cluster)?);
        }
        Some(())
    }

    /// Its address.
    #[inline]
    pub(crate) fn address(&self) -> Option<&Address> {
        match &self.place {
            Place::Address(address) => Some(address),
            Place::Name(_) => None,
        }
    }
}

/// A part of a service's endpoints, which changes as a whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Slice {
    /// What it is replaced by.
    pub(super) id: Box<[u8]>,
    /// The cluster that it comes from, if that is another one.
    pub(super) cluster: Box<[u8]>,
    pub(super) ports: Box<[Port]>,
    pub(super) zones: Box<[Box<[u8]>]>,
    pub(super) endpoints: Box<[Endpoint]>,
    /// Endpoints in the order of their labels.
    by_label: Box<[u16]>,
}

impl Slice {
    /// A slice under a name that it keeps. `zones` are topology zones as folded labels in wire form. Endpoints behind the
    /// 65,536th are left out.
    #[must_use]
    pub fn new(
        id: &[u8],
        cluster: &[u8],
        ports: Box<[Port]>,
        zones: Box<[Box<[u8]>]>,
        mut endpoints: Vec<Endpoint>,
    ) -> Self {
        endpoints.truncate(usize::from(u16::MAX) + 1);
        let labels: Vec<Label> = endpoints.iter().map(Endpoint::label).collect();
        let mut by_label: Box<[u16]> = (0..endpoints.len()).map(|at| at as u16).collect();
        by_label.sort_by(|a, b| labels[usize::from(*a)].cmp(&labels[usize::from(*b)]));
        Self {
            id: id.into(),
            cluster: cluster.into(),
            ports,
            zones,
            endpoints: endpoints.into(),
            by_label,
        }
    }

    /// Those with this label.
    pub(super) fn labelled<'s, 'q>(&'s self, label: &'q [u8]) -> impl Iterator<Item = &'s Endpoint> + use<'s, 'q> {
        let endpoint = |at: &u16| &self.endpoints[usize::from(*at)];
        let from = self.by_label.partition_point(|at| *endpoint(at).label() < *label);
        self.by_label[from..]
            .iter()
            .map(endpoint)
            .take_while(move |endpoint| *endpoint.label() == *label)
    }

    /// Whether an endpoint is in the topology zone of these labels.
    #[inline]
    pub(super) fn is_in(&self, endpoint: &Endpoint, zone: &[u8]) -> bool {
        endpoint
            .zone
            .and_then(|at| self.zones.get(usize::from(at)))
            .is_some_and(|own| **own == *zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::from(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn an_address_is_written_with_dashes_and_never_ends_in_one() {
        let check = |text: &str, expected: &str| {
            assert_eq!(&address(text).dashed()[..], expected.as_bytes());
        };
        check("10.244.1.5", "10-244-1-5");
        check("fd00:10:244:1::9", "fd00-10-244-1--9");
        check("fd00:10:244:2::", "fd00-10-244-2--0");
        check("::", "--0");
    }

    #[test]
    fn a_name_is_written_with_dashes_where_they_fit() {
        assert_eq!(&dashed_name(b"\x03www\x05cedar\x07example\0")[..], b"www-cedar-example");
        let long = |len: u8| [&[len][..], &vec![b'a'; usize::from(len)], b"\x01b\0"].concat();
        assert_eq!(dashed_name(&long(61)).len(), 63);
        assert_eq!(dashed_name(&long(62)).len(), 0);
    }

    #[test]
    fn a_pods_label_is_an_address_in_its_usual_text() {
        let check = |label: &str, expected: Option<&str>| {
            assert_eq!(Address::of_pod(label.as_bytes()), expected.map(address), "{label}");
        };
        check("10-244-1-9", Some("10.244.1.9"));
        check("fd00-10-244-1--9", Some("fd00:10:244:1::9"));
        check("1--1", Some("1::1"));
        check("999-1-1-1", None);
        check("010-1-1-1", None);
        check("1-2-3", None);
        check("blah", None);
        assert!(address("fd00::9").is_usual(b"fd00--9"));
        assert!(!address("fd00::9").is_usual(b"fd00-0-0-0-0-0-0-9"));
    }

    #[test]
    fn endpoints_are_found_by_their_labels() {
        let endpoint = |address_text: &str, label: Option<&str>| Endpoint {
            place: Place::Address(address(address_text)),
            label: label.map(|label| label.as_bytes().into()),
            zone: None,
        };
        let endpoints = vec![
            endpoint("10.0.0.1", None),
            endpoint("10.0.0.2", Some("twin")),
            endpoint("10.0.0.3", Some("db-0")),
            endpoint("fd00::2", Some("twin")),
        ];
        let slice = Slice::new(b"a", b"", Box::default(), Box::default(), endpoints);
        let found = |label: &str| slice.labelled(label.as_bytes()).count();
        assert_eq!(
            (found("twin"), found("db-0"), found("10-0-0-1"), found("db-1")),
            (2, 1, 1, 0)
        );
    }
}
