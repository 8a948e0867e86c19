//! Steps that have the steps behind them answer another question than the one that came: `rewrite`, `autopath`, `dns64`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use nodens_wire::{Name, NameBuf, Rcode, Rtype, Section};

use super::autopath::Autopath;
use super::dns64::{self, Dns64};
use super::rewrite::{Asker, Question, Rewrite, Rewritten, value_at};
use super::{Asked, Client, Plan, Step, StepName, Visit, Walk};
use crate::answer::{Answer, Owner, Pending, Pick, Purpose, Reason};
use crate::captures::Scratch;
use crate::snapshot::Data;

/// What such a step has the steps behind it do.
pub(super) enum Nested<'z> {
    /// Another question, and its answer as if it were for the first one.
    Rewritten(&'z Rewrite, Box<(Rewritten, Scratch)>),
    /// The names of a search path, one after the other.
    Tries(Vec<NameBuf>),
    /// The same question, and another one where it has no answer.
    Translated(&'z Dns64),
    /// Nothing: what the rules made is no name.
    Failed(Reason),
}

/// What a step has the steps behind it do; nothing where it leaves the question alone. Kept apart from the loop over steps,
/// where every query would pay for it.
#[inline(never)]
pub(super) fn of<'z>(step: &'z Step, plan: &Plan, asked: &Asked<'_>, visit: &Visit<'_, 'z>) -> Option<Nested<'z>> {
    let client = visit.client;
    match step {
        Step::Rewrite(rewrite) => rewritten(rewrite, plan, asked, client, visit.port(), visit.data),
        Step::Autopath(autopath) => tries(autopath, asked, client, visit.data),
        Step::Dns64(dns64) => {
            let is_for = dns64.is_for(!client.origin.peer.is_ipv4(), asked.rtype, asked.rclass);
            is_for.then_some(Nested::Translated(dns64))
        }
        _ => None,
    }
}

fn rewritten<'z>(
    rewrite: &'z Rewrite,
    plan: &Plan,
    asked: &Asked<'_>,
    client: &Client<'_>,
    port: u16,
    data: &Data,
) -> Option<Nested<'z>> {
    let question = Question {
        name: asked.name,
        rtype: asked.rtype,
        rclass: asked.rclass,
    };
    let local = client.origin.local.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let asker = Asker {
        client: client.origin.peer.to_socket_addr(),
        server: SocketAddr::new(local, port),
        is_stream: client.origin.is_stream(),
        metadata: &|label, out| {
            let mut text = String::new();
            // There is room for everything.
            let _ = plan.metadata(label, client, data, &mut text);
            out.extend_from_slice(text.as_bytes());
        },
    };
    let mut room = Box::new((Rewritten::default(), Scratch::default()));
    let (done, scratch) = &mut *room;
    let opt = client.query.opt.as_ref();
    match rewrite.question(&question, opt, &asker, scratch, done) {
        Ok(true) => Some(Nested::Rewritten(rewrite, room)),
        Ok(false) if !rewrite.shown(done, opt).is_empty() => Some(Nested::Rewritten(rewrite, room)),
        Ok(false) => None,
        Err(invalid) => Some(Nested::Failed(Reason::InvalidName(invalid))),
    }
}

fn tries<'z>(autopath: &Autopath, asked: &Asked<'_>, client: &Client<'_>, data: &Data) -> Option<Nested<'z>> {
    let tries = autopath.tries(asked.name, asked.folded, client.address(), data)?;
    Some(Nested::Tries(tries))
}

/// A step gave the question up without a word: CoreDNS's `hosts` and `template` do so where they do not know the name.
fn is_unwritten(answer: &Answer<'_>) -> bool {
    let is_silent = matches!(answer.by, None | Some(StepName::Template));
    answer.rcode == Rcode::SERVFAIL && is_silent && answer.reason.is_none()
}

impl<'z> Walk<'_, 'z> {
    /// Has the steps from `begin` on do what a step in front of them says.
    #[inline(never)]
    pub(super) fn nest(
        &mut self,
        nested: Nested<'z>,
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        match nested {
            Nested::Failed(reason) => {
                answer.rcode = Rcode::SERVFAIL;
                answer.reason = Some(reason);
            }
            Nested::Rewritten(rewrite, mut room) => {
                self.rewritten(rewrite, &mut room, plan, begin, asked, depth, answer)
            }
            Nested::Tries(names) => self.tries(&names, plan, begin, asked, depth, answer),
            Nested::Translated(dns64) => self.translated(dns64, plan, begin, asked, depth, answer),
        }
    }

    /// Has the steps behind answer for another name or type.
    fn inner(
        &mut self,
        (name, rtype): (Name<'_>, Rtype),
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        let folded = name.to_buf().folded();
        let inner = Asked {
            name,
            folded: folded.as_bytes(),
            rtype,
            may_copy: false,
            ..*asked
        };
        self.from(plan, begin, &inner, None, depth, answer);
    }

    #[expect(clippy::too_many_arguments, reason = "what every walk needs, and what was rewritten")]
    fn rewritten(
        &mut self,
        rewrite: &Rewrite,
        room: &mut (Rewritten, Scratch),
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        let (done, scratch) = room;
        let mut options = Vec::new();
        for (code, data) in done.options.set() {
            options.extend_from_slice(&code.to_be_bytes());
            options.extend_from_slice(&(data.len() as u16).to_be_bytes());
            options.extend_from_slice(data);
        }
        let outer = std::mem::replace(self.options, options);
        let behind = Asked {
            rclass: done.rclass,
            ..*asked
        };
        self.inner((done.name.as_name(), done.rtype), plan, begin, &behind, depth, answer);
        *self.options = outer;
        if self.is_waiting() {
            return;
        }
        answer.rcode = rewrite.rcode(done, answer.rcode);
        answer.rclass = asked.rclass;
        // The options of another server's reply would stand in the place of these, and they are not passed on.
        let is_own = !matches!(answer.by, Some(StepName::Forward | StepName::Proxy | StepName::Cache));
        if depth == 0 && is_own {
            let shown = rewrite.shown(done, self.setting.client.query.opt.as_ref());
            answer.options = (!shown.is_empty()).then(|| shown.into());
        }
        self.other_alias(rewrite, done, scratch, asked, depth, answer);
        let begins = answer.begins();
        for (section, begin) in begins.into_iter().enumerate() {
            for at in begin..answer.sections[section].len() {
                let pick = answer.sections[section][at];
                answer.sections[section][at] = back(rewrite, done, scratch, asked, pick, answer);
            }
        }
    }

    /// A rule for aliases: the target is another one, and its answer takes the place of what stood behind.
    fn other_alias(
        &mut self,
        rewrite: &Rewrite,
        done: &Rewritten,
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        let [begin, ..] = answer.begins();
        let is_alias = |pick: &Pick<'z>| pick.rtype == Rtype::CNAME;
        for at in begin..answer.sections[0].len() {
            let pick = answer.sections[0][at];
            let Some(target) = Some(pick).filter(is_alias).and_then(|pick| {
                let target = Name::from_wire(answer.bytes(pick.rdata)).ok()?;
                rewrite.alias(done, target, scratch)
            }) else {
                continue;
            };
            let target = answer.make(target.as_bytes());
            answer.sections[0][at].rdata = target;
            // The aliases up to this one stay.
            let aliases: Vec<_> = answer.sections[0][begin..=at]
                .iter()
                .copied()
                .filter(is_alias)
                .collect();
            answer.sections[0].truncate(begin);
            answer.sections[0].extend(aliases);
            let pending = Pending {
                section: Section::Answer,
                at: answer.sections[0].len(),
                target,
                rtype: asked.rtype,
                purpose: Purpose::OtherTarget,
            };
            let [_, authority, additional] = answer.begins();
            answer.sections[1].truncate(authority);
            answer.sections[2].truncate(additional);
            self.again(asked, &pending, None, depth, answer);
            return;
        }
    }

    fn tries(
        &mut self,
        names: &[NameBuf],
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        // With no other reply that of the first name counts, which is asked for again then: most often it is kept.
        for name in names.iter().chain(names.first()) {
            answer.clear();
            self.inner((name.as_name(), asked.rtype), plan, begin, asked, depth, answer);
            if self.is_waiting() {
                return;
            }
            if answer.rcode == Rcode::NXDOMAIN || is_unwritten(answer) {
                continue;
            }
            if *name != asked.name {
                self.lead_to(name, answer);
            }
            if let Some(series) = self.series(asked) {
                series.autopath.add(1);
            }
            return;
        }
    }

    /// Puts an alias in front, from the name that was asked for to the one that was found.
    fn lead_to(&self, name: &NameBuf, answer: &mut Answer<'z>) {
        let target = answer.make(name.as_bytes());
        own(answer, target);
        let begins = answer.begins();
        let Some(ttl) = answer.sections[0].get(begins[0]).map(|pick| pick.ttl) else {
            return;
        };
        answer.sections[0].insert(
            begins[0],
            Pick {
                owner: Owner::Question,
                rtype: Rtype::CNAME,
                ttl,
                rdata: target,
            },
        );
    }

    fn translated(
        &mut self,
        dns64: &Dns64,
        plan: &'z Plan,
        begin: usize,
        asked: &Asked<'_>,
        depth: u8,
        answer: &mut Answer<'z>,
    ) {
        self.inner((asked.name, asked.rtype), plan, begin, asked, depth, answer);
        if self.is_waiting() {
            return;
        }
        let [first, authority, _] = answer.begins();
        let types = answer.sections[0][first..].iter().map(|pick| pick.rtype);
        if !dns64.is_needed(answer.rcode, types) {
            return;
        }
        let soa = answer.sections[1][authority..]
            .iter()
            .find(|pick| pick.rtype == Rtype::SOA);
        let of_soa = soa.map(|pick| pick.ttl);
        answer.clear();
        self.inner((asked.name, Rtype::A), plan, begin, asked, depth, answer);
        if self.is_waiting() {
            return;
        }
        let mut is_translated = false;
        for at in first..answer.sections[0].len() {
            let pick = answer.sections[0][at];
            if pick.rtype != Rtype::A {
                continue;
            }
            let Ok(octets) = <[u8; 4]>::try_from(answer.bytes(pick.rdata)) else {
                continue;
            };
            let made = answer.make(&dns64.prefix.embed(octets.into()).octets());
            answer.sections[0][at] = Pick {
                rtype: Rtype::AAAA,
                ttl: dns64::ttl(pick.ttl, of_soa),
                rdata: made,
                ..pick
            };
            is_translated = true;
        }
        if is_translated {
            answer.by = Some(StepName::Dns64);
            answer.aa = false;
            answer.extras.ad = false;
            if let Some(series) = self.series(asked) {
                series.translated.add(1);
            }
        }
    }
}

/// Has records of the name that was asked for here be those of this name.
fn own<'z>(answer: &mut Answer<'z>, name: crate::answer::Bytes<'z>) {
    let begins = answer.begins();
    for (picks, begin) in answer.sections.iter_mut().zip(begins) {
        for pick in &mut picks[begin..] {
            if let Owner::Question = pick.owner {
                pick.owner = Owner::Name(name);
            }
        }
    }
}

/// A record as if it answered the question that came.
fn back<'z>(
    rewrite: &Rewrite,
    done: &Rewritten,
    scratch: &mut Scratch,
    asked: &Asked<'_>,
    mut pick: Pick<'z>,
    answer: &mut Answer<'z>,
) -> Pick<'z> {
    pick.ttl = rewrite.ttl(done, pick.ttl);
    let owner = match pick.owner {
        Owner::Question => Some(done.name.clone()),
        Owner::Name(name) => Name::from_wire(answer.bytes(name)).ok().map(Name::to_buf),
    };
    if let Some(owner) = owner {
        let new = rewrite.owner(done, owner.as_name(), scratch).unwrap_or(owner);
        pick.owner = if new == asked.name {
            Owner::Question
        } else {
            Owner::Name(answer.make(new.as_bytes()))
        };
    }
    let rdata = answer.bytes(pick.rdata);
    if let Some(at) = value_at(pick.rtype, rdata)
        && let Ok((name, rest)) = Name::split_wire(&rdata[at..])
        && let Some(new) = rewrite.value(done, name, scratch)
    {
        let parts = [&rdata[..at], new.as_bytes(), rest].concat();
        pick.rdata = answer.make(&parts);
    }
    pick
}
