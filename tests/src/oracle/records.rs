//! A zone as a flat list of records, answered by RFC 1034 §4.3.2 and RFC 4592.

use super::{Expected, is_within, parent};

/// Aliases after which the rules only say that the answer ends somewhere.
const ALIASES_CERTAIN: usize = 8;

/// Longer names, made by DNAMEs, may be too long for a message.
const NAME_LEN_CERTAIN: usize = 250;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its owner.
    pub owner: String,
    /// Seconds.
    pub ttl: u32,
    /// `A` and so on.
    pub rtype: &'static str,
    /// As a zone file has it, names absolute.
    pub data: String,
}

impl Entry {
    fn line_for(&self, owner: &str) -> String {
        format!("{owner} {} IN {} {}", self.ttl, self.rtype, self.data)
    }

    fn line(&self) -> String {
        self.line_for(&self.owner)
    }

    /// The last word of the data: where an alias, a server or a service points.
    fn target(&self) -> &str {
        self.data.rsplit(' ').next().unwrap_or_default()
    }
}

/// A zone.
#[derive(Clone, Debug)]
pub struct RecordOracle {
    /// Its name.
    pub zone: String,
    /// All records; one SOA at the zone's name among them.
    pub entries: Vec<Entry>,
}

impl RecordOracle {
    fn at<'a>(&'a self, owner: &'a str, rtype: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries
            .iter()
            .filter(move |e| e.owner == owner && e.rtype == rtype)
    }

    fn has(&self, owner: &str, rtype: &str) -> bool {
        self.at(owner, rtype).next().is_some()
    }

    /// Records stand at the name or below it.
    fn exists(&self, name: &str) -> bool {
        self.entries.iter().any(|e| is_within(&e.owner, name))
    }

    fn lines(&self, owner: &str, rtype: &str) -> Vec<String> {
        self.at(owner, rtype).map(Entry::line).collect()
    }

    fn addresses(&self, owner: &str) -> Vec<String> {
        [self.lines(owner, "A"), self.lines(owner, "AAAA")].concat()
    }

    /// The names from the zone's own down to `name`.
    fn path<'n>(&self, name: &'n str) -> Vec<&'n str> {
        let mut path = vec![name];
        while path[path.len() - 1] != self.zone {
            path.push(parent(path[path.len() - 1]));
        }
        path.reverse();
        path
    }

    fn cut_above(&self, name: &str) -> Option<String> {
        self.path(name)
            .into_iter()
            .skip(1)
            .find(|node| self.has(node, "NS"))
            .map(str::to_owned)
    }

    /// The owner whose records `name` has: its own, or a wildcard's (RFC 4592 §4.2: that of the closest encloser).
    fn source(&self, name: &str) -> Option<String> {
        if self.exists(name) {
            return Some(name.to_owned());
        }
        let encloser = self
            .path(name)
            .into_iter()
            .rev()
            .skip(1)
            .find(|node| self.exists(node))?;
        Some(format!("*.{encloser}")).filter(|wildcard| self.entries.iter().any(|e| e.owner == *wildcard))
    }

    /// What the zone says to a question for one of its names.
    pub fn resolve(&self, name: &str, rtype: &str) -> Expected {
        let mut answer = Vec::new();
        let mut now = name.to_owned();
        let mut aliases = 0;
        loop {
            if !is_within(&now, &self.zone) {
                // Nobody here serves it: the alias stands alone.
                return open(answer);
            }
            if aliases > ALIASES_CERTAIN || now.len() > NAME_LEN_CERTAIN {
                return Expected::default();
            }
            match self.look_up(&now, rtype, aliases > 0, &mut answer) {
                Found::End(end) if end.rcode == "SERVFAIL" => return end,
                Found::End(end) => {
                    return Expected {
                        answer: Some(answer),
                        ..end
                    };
                }
                Found::Alias(_) if rtype == "CNAME" => return open(answer),
                Found::Alias(target) => now = target,
            }
            aliases += 1;
        }
    }

    fn look_up(&self, name: &str, rtype: &str, is_alias: bool, answer: &mut Vec<String>) -> Found {
        for node in self.path(name) {
            if node != self.zone && self.has(node, "NS") && !(node == name && rtype == "DS") {
                return Found::End(self.referral(node, is_alias));
            }
            if node != name && self.has(node, "DNAME") {
                return self.through_dname(node, name, answer);
            }
        }
        let Some(source) = self.source(name) else {
            return Found::End(self.negative("NXDOMAIN"));
        };
        if rtype != "CNAME"
            && let Some(alias) = self.at(&source, "CNAME").next()
        {
            answer.push(alias.line_for(name));
            return Found::Alias(alias.target().to_owned());
        }
        let hits: Vec<&Entry> = self.at(&source, rtype).collect();
        if hits.is_empty() {
            return Found::End(self.negative("NOERROR"));
        }
        answer.extend(hits.iter().map(|hit| hit.line_for(name)));
        Found::End(self.positive(name, rtype, is_alias, &hits))
    }

    /// RFC 6672: the DNAME, and the alias made from it.
    fn through_dname(&self, node: &str, name: &str, answer: &mut Vec<String>) -> Found {
        let Some(dname) = self.at(node, "DNAME").next() else {
            unreachable!("the caller has seen it")
        };
        let target = format!("{}{}", &name[..name.len() - node.len()], dname.target());
        if target == name {
            return Found::End(Expected {
                rcode: "SERVFAIL",
                ..Expected::default()
            });
        }
        answer.push(dname.line());
        answer.push(format!("{name} {} IN CNAME {target}", dname.ttl));
        Found::Alias(target)
    }

    fn referral(&self, cut: &str, is_alias: bool) -> Expected {
        let below = self
            .at(cut, "NS")
            .map(Entry::target)
            .filter(|target| is_within(target, cut));
        Expected {
            rcode: "NOERROR",
            aa: if is_alias { None } else { Some(false) },
            authority: Some(self.lines(cut, "NS")),
            additional: Some(below.flat_map(|target| self.addresses(target)).collect()),
            ..Expected::default()
        }
    }

    fn negative(&self, rcode: &'static str) -> Expected {
        Expected {
            rcode,
            aa: Some(true),
            authority: Some(self.lines(&self.zone, "SOA")),
            additional: Some(Vec::new()),
            ..Expected::default()
        }
    }

    fn positive(&self, name: &str, rtype: &str, is_alias: bool, hits: &[&Entry]) -> Expected {
        let points = matches!(rtype, "MX" | "SRV" | "NS");
        let targets: Vec<&str> = hits
            .iter()
            .filter(|_| points)
            .map(|hit| hit.target())
            .filter(|t| is_within(t, &self.zone))
            .collect();
        // Data below a cut is not this zone's, and made-up data of a wildcard is left open.
        let clear = targets
            .iter()
            .all(|t| self.cut_above(t).is_none() && self.source(t).is_none_or(|s| s == *t) && !self.has(t, "CNAME"));
        let additional = targets.iter().flat_map(|target| self.addresses(target)).collect();
        let at_apex = name == self.zone;
        let authority = if rtype == "NS" && at_apex {
            Vec::new()
        } else {
            self.lines(&self.zone, "NS")
        };
        Expected {
            rcode: "NOERROR",
            aa: Some(true),
            authority: Some(authority).filter(|_| !is_alias),
            additional: Some(additional).filter(|_| clear && !is_alias),
            ..Expected::default()
        }
    }
}

enum Found {
    End(Expected),
    Alias(String),
}

fn open(answer: Vec<String>) -> Expected {
    Expected {
        rcode: "NOERROR",
        aa: Some(true),
        answer: Some(answer),
        ..Expected::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> RecordOracle {
        let lines = [
            "z. SOA ns.z. h.z. 1 2 3 4 5",
            "z. NS ns.z.",
            "ns.z. A 192.0.2.1",
            "a.z. CNAME ns.z.",
            "*.w.z. A 192.0.2.2",
            "x.y.w.z. A 192.0.2.3",
            "cut.z. NS ns.cut.z.",
            "ns.cut.z. A 192.0.2.4",
            "d.z. DNAME w.z.",
            "out.z. CNAME b.",
        ];
        let entry = |line: &&str| {
            let mut words = line.splitn(3, ' ');
            let owner = words.next().unwrap().to_owned();
            let known = ["SOA", "NS", "A", "CNAME", "DNAME"];
            let rtype = words.next().unwrap();
            let rtype = *known.iter().find(|t| **t == rtype).unwrap();
            Entry {
                owner,
                ttl: 9,
                rtype,
                data: words.next().unwrap().to_owned(),
            }
        };
        RecordOracle {
            zone: "z.".to_owned(),
            entries: lines.iter().map(entry).collect(),
        }
    }

    fn check(question: &str, rcode: &str, answer: &[&str]) {
        let (name, rtype) = question.split_once(' ').unwrap();
        let got = zone().resolve(name, rtype);
        assert_eq!(got.rcode, rcode, "{question}");
        assert_eq!(got.answer.unwrap(), answer, "{question}");
    }

    #[test]
    fn rules() {
        check("ns.z. A", "NOERROR", &["ns.z. 9 IN A 192.0.2.1"]);
        check("ns.z. MX", "NOERROR", &[]);
        check(
            "a.z. A",
            "NOERROR",
            &["a.z. 9 IN CNAME ns.z.", "ns.z. 9 IN A 192.0.2.1"],
        );
        check("a.z. CNAME", "NOERROR", &["a.z. 9 IN CNAME ns.z."]);
        check("q.w.z. A", "NOERROR", &["q.w.z. 9 IN A 192.0.2.2"]);
        check("q.q.w.z. A", "NOERROR", &["q.q.w.z. 9 IN A 192.0.2.2"]);
        // An empty non-terminal has no data, and hides the wildcard above it.
        check("y.w.z. A", "NOERROR", &[]);
        check("q.y.w.z. A", "NXDOMAIN", &[]);
        check("q.z. A", "NXDOMAIN", &[]);
        check("q.cut.z. A", "NOERROR", &[]);
        check(
            "q.d.z. A",
            "NOERROR",
            &[
                "d.z. 9 IN DNAME w.z.",
                "q.d.z. 9 IN CNAME q.w.z.",
                "q.w.z. 9 IN A 192.0.2.2",
            ],
        );
        check("out.z. A", "NOERROR", &["out.z. 9 IN CNAME b."]);
        assert_eq!(
            zone().resolve("q.cut.z.", "A").additional.unwrap(),
            ["ns.cut.z. 9 IN A 192.0.2.4"]
        );
    }
}
