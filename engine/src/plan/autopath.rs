//! `autopath`: the names of a client's search path, tried by the server in the place of the client.

use std::borrow::Cow;
use std::net::IpAddr;

use nodens_wire::{Name, NameBuf};

use super::ZoneMap;
use crate::snapshot::{Data, ZoneId};
use crate::zone::Zone;

/// `autopath`
#[derive(Clone, Debug)]
pub struct Autopath {
    /// Names outside are left alone.
    pub zones: Vec<NameBuf>,
    /// What a client puts behind a name.
    pub search: Search,
}

/// What a client puts behind a name, in this order; a question that ends in the first one is taken for such a try.
#[derive(Clone, Debug)]
pub enum Search {
    /// The same for every client.
    Fixed(Vec<NameBuf>),
    /// That of the pod that asks: `NAMESPACE.svc.ZONE`, `svc.ZONE`, `ZONE`.
    OfPod {
        /// The cluster.
        data: ZoneId,
        /// Its zones. The longest that holds the name counts.
        zones: ZoneMap<()>,
        /// What comes behind those.
        behind: Vec<NameBuf>,
    },
}

impl Search {
    /// What this client puts behind a folded name.
    fn of(&self, folded: &[u8], client: IpAddr, data: &Data) -> Cow<'_, [NameBuf]> {
        let (id, zones, behind) = match self {
            Self::Fixed(search) => return Cow::Borrowed(search),
            Self::OfPod { data, zones, behind } => (*data, zones, behind),
        };
        let Some(Zone::Cluster(cluster)) = data.zone(id) else {
            return Cow::default();
        };
        let (Some(namespace), Some((at, ()))) = (cluster.namespace_of(&client.into()), zones.find(folded)) else {
            return Cow::default();
        };
        let below = |labels: &[u8]| {
            let name = [labels, &folded[at..]].concat();
            Name::from_wire(&name).ok().map(Name::to_buf)
        };
        let own = [&[namespace, b"\x03svc"].concat()[..], b"\x03svc", b""];
        let own = own.into_iter().filter_map(below);
        own.chain(behind.iter().cloned()).collect()
    }
}

impl Autopath {
    /// The names to try in the place of a question, the question itself first and the name without a suffix last. The
    /// first reply that is not NXDOMAIN counts; when all are, that of the first try. None where the question stays.
    pub(super) fn tries(&self, asked: Name<'_>, folded: &[u8], client: IpAddr, data: &Data) -> Option<Vec<NameBuf>> {
        if !self.zones.iter().any(|zone| asked.is_within(zone.as_name())) {
            return None;
        }
        let search = self.search.of(folded, client, data);
        let first = search.first()?;
        // A question for the suffix itself is no try for a name.
        asked.strip(first.as_name()).filter(|labels| !labels.is_empty())?;
        let count = asked.label_count() - first.as_name().label_count();
        let suffixes = search.iter().map(NameBuf::as_name).chain([Name::ROOT]);
        // What would be too long is no name to try.
        let tries = suffixes.filter_map(|suffix| NameBuf::from_labels(asked.labels().take(count), suffix).ok());
        Some(tries.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(search: &[&str], asked: &str, expected: &str) {
        let names = |texts: &[&str]| texts.iter().map(|text| NameBuf::from_text(text).unwrap()).collect();
        let step = Autopath {
            zones: names(&["example", "test"]),
            search: Search::Fixed(names(search)),
        };
        let asked = NameBuf::from_text(asked).unwrap();
        let folded = asked.clone().folded();
        let client = IpAddr::from([192, 0, 2, 1]);
        let found = match step.tries(asked.as_name(), folded.as_bytes(), client, &Data::default()) {
            Some(tries) => tries.iter().map(NameBuf::to_string).collect::<Vec<_>>().join(" "),
            None => "-".to_owned(),
        };
        assert_eq!(found, expected, "{asked}");
    }

    #[test]
    fn which_names_are_tried() {
        let search = ["a.example", "b.test"];
        check(
            &search,
            "www.oak.A.example",
            "www.oak.a.example. www.oak.b.test. www.oak.",
        );
        check(&search, "a.example", "-");
        check(&search, "www.b.test", "-");
        check(&search, "xa.example", "-");
        check(&[], "www.example", "-");
        check(&["org"], "www.org", "-");
        let long = format!(
            "{}.a.example",
            ["x".repeat(63), "y".repeat(63), "z".repeat(63)].join(".")
        );
        let tries = format!("{long}. {}.", long.trim_end_matches(".a.example"));
        check(&["a.example", &"b.".repeat(40)], &long, &tries);
    }
}
