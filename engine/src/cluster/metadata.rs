//! What the name of a question says of a cluster, label by label of metadata.

use std::fmt::{self, Write};

use nodens_wire::Name;

use super::schema::Labels;

/// What a part of a name has to be in front of `_zone`.
const TOPOLOGY: [&[u8]; 2] = [b"pin", b"prefer"];

/// Writes what a label says of a name whose folded labels in front of the zone these are; false where it says nothing.
/// `zonal`: names of topology zones are served. As CoreDNS has it, two labels are a port, in a clusterset's zone too.
pub(crate) fn of_name(label: &str, bytes: &[u8], zonal: bool, out: &mut dyn Write) -> Result<bool, fmt::Error> {
    let labels = Labels::of(bytes);
    let len = labels.len();
    let kind = labels.nth_back(0);
    let zone = (zonal && kind == Some(b"svc") && labels.nth_back(3) == Some(b"_zone"))
        .then(|| labels.nth_back(4))
        .flatten()
        .filter(|how| TOPOLOGY.contains(how))
        .and_then(|_| labels.between(5, len));
    let is_of_schema = match kind {
        None => true,
        Some(b"svc" | b"pod") => len <= 5 || zone.is_some(),
        Some(_) => false,
    };
    if !is_of_schema {
        if label == "parse-error" {
            out.write_str("invalid query name")?;
            return Ok(true);
        }
        return Ok(false);
    }
    // The kinds alone say nothing yet.
    let at = |place: usize| labels.nth_back(place).filter(|_| len > 1 && zone.is_none());
    let bare = |label: &[u8]| usize::from(label.first() == Some(&b'_'));
    let (text, skip) = match label {
        "kind" => (kind.filter(|_| len > 1), 0),
        "namespace" => (labels.nth_back(1), 0),
        "service" => (labels.nth_back(2), 0),
        "endpoint" if len == 4 => (at(3), 0),
        "protocol" if len == 5 => (at(3), at(3).map_or(0, bare)),
        "port-name" if len == 5 => (at(4), at(4).map_or(0, bare)),
        "endpoint" | "protocol" | "port-name" => (None, 0),
        "zone" if zonal => {
            return zone.map_or(Ok(true), |zone| write_labels(zone, out).map(|()| true));
        }
        _ => return Ok(false),
    };
    if let Some(text) = text.and_then(|text| text.get(skip..)) {
        write_label(text, out)?;
    }
    Ok(true)
}

/// A label without its length, as text.
fn write_label(label: &[u8], out: &mut dyn Write) -> fmt::Result {
    match u8::try_from(label.len()) {
        Ok(len @ 1..) => write_labels(&[&[len], label].concat(), out),
        _ => Ok(()),
    }
}

/// Labels in wire form as text, without the root's dot.
fn write_labels(labels: &[u8], out: &mut dyn Write) -> fmt::Result {
    let mut name = arrayvec::ArrayVec::<u8, 256>::new();
    name.try_extend_from_slice(labels).map_err(|_| fmt::Error)?;
    name.try_push(0).map_err(|_| fmt::Error)?;
    let name = Name::from_wire(&name).map_err(|_| fmt::Error)?;
    let mut text = arrayvec::ArrayString::<1024>::new();
    write!(text, "{name}")?;
    out.write_str(text.strip_suffix('.').unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::wire;

    fn said(label: &str, name: &str, zonal: bool) -> Option<String> {
        let mut out = String::new();
        let name = if name.is_empty() { Box::default() } else { wire(name) };
        of_name(label, &name, zonal, &mut out).unwrap().then_some(out)
    }

    #[test]
    fn each_label_says_its_part_of_a_name() {
        let check = |name: &str, expected: [&str; 6]| {
            let labels = ["kind", "namespace", "service", "endpoint", "port-name", "protocol"];
            let found = labels.map(|label| said(label, name, false).unwrap());
            assert_eq!(found, expected, "{name}");
            assert_eq!(said("parse-error", name, false), None, "{name}");
        };
        check("", ["", "", "", "", "", ""]);
        check("svc", ["", "", "", "", "", ""]);
        check("ns.pod", ["pod", "ns", "", "", "", ""]);
        check("web.ns.svc", ["svc", "ns", "web", "", "", ""]);
        check("ep-1.web.ns.svc", ["svc", "ns", "web", "ep-1", "", ""]);
        check("_http._tcp.web.ns.svc", ["svc", "ns", "web", "", "http", "tcp"]);
        check("ep-1.east.web.ns.svc", ["svc", "ns", "web", "", "ep-1", "east"]);
        check("10-1-2-3.ns.pod", ["pod", "ns", "10-1-2-3", "", "", ""]);
    }

    #[test]
    fn a_name_beside_the_schema_says_so_alone() {
        for name in [
            "www",
            "dns-version",
            "ns.dns",
            "a.b.c.web.ns.svc",
            "a.pin._zone.web.ns.svc",
        ] {
            assert_eq!(
                said("parse-error", name, false).as_deref(),
                Some("invalid query name"),
                "{name}"
            );
            assert_eq!(said("namespace", name, false), None, "{name}");
        }
        assert_eq!(
            said("parse-error", "a.b._zone.web.ns.svc", true).as_deref(),
            Some("invalid query name")
        );
        assert_eq!(said("cluster", "web.ns.svc", false), None);
    }

    #[test]
    fn topology_zones_are_said_where_they_are_served() {
        let check = |label: &str, name: &str, expected: Option<&str>| {
            assert_eq!(said(label, name, true).as_deref(), expected, "{label} {name}");
        };
        check("zone", "a.east.pin._zone.web.ns.svc", Some("a.east"));
        check("service", "a.east.pin._zone.web.ns.svc", Some("web"));
        check("protocol", "a.pin._zone.web.ns.svc", Some(""));
        check("zone", "web.ns.svc", Some(""));
        assert_eq!(said("zone", "web.ns.svc", false), None);
    }
}
