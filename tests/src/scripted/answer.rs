//! What a scripted server sends back for one packet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::script::{Behave, Script};
use crate::records::{name_of, rcode_of, record_of};

/// Advertised in each OPT.
const OWN_SIZE: u16 = 1232;
/// What a datagram may hold for one who says nothing (RFC 1035 section 2.3.4).
const PLAIN_SIZE: u16 = 512;

/// A script ready to be played, and how far it has come.
#[derive(Debug)]
pub(super) struct Player {
    behave: Behave,
    zone: Vec<Record>,
    later: Option<(usize, Vec<Record>)>,
    authority: Vec<Record>,
    additional: Vec<Record>,
    rcode: Option<ResponseCode>,
    rcode_for: Vec<(Name, ResponseCode)>,
    rcode_after: Option<(usize, ResponseCode)>,
    born: Instant,
    seen: AtomicUsize,
}

fn records_of(lines: &[String]) -> Result<Vec<Record>, String> {
    lines.iter().map(|line| record_of(line)).collect()
}

impl Player {
    pub(super) fn new(script: &Script) -> Result<Self, String> {
        let behave = script.behave.clone();
        let later = behave.zone_after.as_ref();
        let later = later.map(|later| Ok::<_, String>((later.after, records_of(&later.zone)?)));
        let rcode_after = behave.rcode_after.as_ref();
        let rcode_after = rcode_after.map(|later| Ok::<_, String>((later.after, rcode_of(&later.rcode)?)));
        let rcode_for = behave.rcode_for.iter();
        Ok(Self {
            zone: records_of(&script.zone)?,
            later: later.transpose()?,
            authority: records_of(&behave.authority)?,
            additional: records_of(&behave.additional)?,
            rcode: behave.rcode.as_deref().map(rcode_of).transpose()?,
            rcode_for: rcode_for
                .map(|(name, rcode)| Ok((name_of(name)?, rcode_of(rcode)?)))
                .collect::<Result<_, String>>()?,
            rcode_after: rcode_after.transpose()?,
            born: Instant::now(),
            seen: AtomicUsize::new(0),
            behave,
        })
    }

    pub(super) fn behave(&self) -> &Behave {
        &self.behave
    }

    /// Questions so far, probes apart.
    pub(super) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// The messages to send back, in order; waits where the script does.
    pub(super) fn answer(&self, packet: &[u8], over_stream: bool) -> Result<Vec<Vec<u8>>, String> {
        let Ok(query) = Message::from_vec(packet) else {
            return Ok(Vec::new());
        };
        let Some(question) = query.queries.first() else {
            return Ok(Vec::new());
        };
        let is_probe = question.name().is_root() && question.query_type() == RecordType::NS;
        let count = if is_probe {
            self.seen()
        } else {
            self.seen.fetch_add(1, Ordering::SeqCst) + 1
        };
        if self.is_silent(count, is_probe) {
            return Ok(Vec::new());
        }
        sleep(self.delay(count, is_probe));
        let mut reply = self.reply(&query, question);
        match self.rcode(question.name(), count).filter(|_| !is_probe) {
            Some(rcode) => reply.metadata.response_code = rcode,
            None if self.behave.tc_udp && !over_stream => reply.metadata.truncation = true,
            None => look_up(&mut reply, question, self.records(count)),
        }
        reply.add_authorities(self.authority.iter().cloned());
        reply.add_additionals(self.additional.iter().cloned());
        let mut bytes = reply.to_vec().map_err(|error| error.to_string())?;
        let room = query.edns.as_ref().map_or(PLAIN_SIZE, Edns::max_payload);
        if !over_stream && bytes.len() > usize::from(room.max(PLAIN_SIZE)) && !self.behave.overflow {
            drop(reply.take_all_sections());
            reply.metadata.truncation = true;
            bytes = reply.to_vec().map_err(|error| error.to_string())?;
        }
        self.with_lies(reply, bytes)
    }

    fn is_silent(&self, count: usize, is_probe: bool) -> bool {
        let behave = &self.behave;
        behave.silent
            || (behave.drop_first > 0 && count <= behave.drop_first)
            || behave.silent_after.is_some_and(|after| count > after)
            || self.born.elapsed().as_secs_f64() < behave.silent_for
            || (is_probe && behave.health_silent)
    }

    fn delay(&self, count: usize, is_probe: bool) -> Duration {
        let later = self.behave.slow_after.as_ref();
        let later = later.filter(|later| count > later.after && !is_probe);
        Duration::from_millis(self.behave.delay_ms + later.map_or(0, |later| later.delay_ms))
    }

    fn records(&self, count: usize) -> &[Record] {
        match &self.later {
            Some((after, records)) if count > *after => records,
            _ => &self.zone,
        }
    }

    /// The rcode that takes the place of an answer; of several the one that FORMAT.md names last.
    fn rcode(&self, name: &Name, count: usize) -> Option<ResponseCode> {
        let later = self.rcode_after.filter(|(after, _)| count > *after);
        let named = self.rcode_for.iter().rev().find(|(of, _)| of == name);
        let first = (count <= self.behave.servfail_first).then_some(ResponseCode::ServFail);
        later
            .map(|(_, rcode)| rcode)
            .or_else(|| named.map(|(_, rcode)| *rcode))
            .or(first)
            .or(self.rcode)
    }

    /// A reply without records.
    fn reply(&self, query: &Message, question: &Query) -> Message {
        let behave = &self.behave;
        let mut reply = Message::new(query.metadata.id, MessageType::Response, query.metadata.op_code);
        let (head, asked, bits) = (&mut reply.metadata, &query.metadata, behave.flags);
        head.authoritative = bits.aa.unwrap_or(false);
        head.truncation = bits.tc.unwrap_or(false);
        head.recursion_desired = bits.rd.unwrap_or(asked.recursion_desired);
        head.recursion_available = bits.ra.unwrap_or(true);
        head.authentic_data = bits.ad.unwrap_or(false);
        head.checking_disabled = bits.cd.unwrap_or(asked.checking_disabled);
        let mut question = question.clone();
        if behave.lower_question {
            question.set_name(question.name().to_lowercase());
        }
        reply.add_query(question);
        if query.edns.is_some() || behave.always_opt {
            let mut edns = Edns::new();
            edns.set_max_payload(OWN_SIZE);
            if let Some(asked) = &query.edns {
                *edns.flags_mut() = *asked.flags();
            }
            reply.set_edns(edns);
        }
        reply
    }

    /// The reply and what goes before it, or what comes in its place.
    fn with_lies(&self, reply: Message, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, String> {
        let behave = &self.behave;
        let mut messages = Vec::new();
        let wrong_id = |bytes: &[u8]| {
            let id = reply.metadata.id.wrapping_add(1).to_be_bytes();
            [&id, &bytes[2..]].concat()
        };
        let wrong_question = |name: &str| {
            let mut other = reply.clone();
            for query in &mut other.queries {
                query.set_name(name_of(name)?);
            }
            other.to_vec().map_err(|error| error.to_string())
        };
        let bytes = match &behave.wrong_question {
            Some(name) => wrong_question(name)?,
            None => bytes,
        };
        if behave.wrong_id {
            return Ok(vec![wrong_id(&bytes)]);
        }
        if behave.wrong_id_first {
            messages.push(wrong_id(&bytes));
        }
        if let Some(name) = &behave.wrong_question_first {
            messages.push(wrong_question(name)?);
        }
        if behave.garbage_first {
            messages.push(vec![0, 1, 2]);
        }
        messages.push(bytes);
        Ok(messages)
    }
}

/// Exact names alone; aliases are followed as long as they stay inside, and no longer than one round.
fn look_up(reply: &mut Message, question: &Query, records: &[Record]) {
    let mut name = question.name().clone();
    let mut passed = Vec::new();
    loop {
        let rtype = question.query_type();
        let here = || records.iter().filter(|record| record.name == name);
        let hits: Vec<Record> = here()
            .filter(|record| rtype == RecordType::ANY || record.record_type() == rtype)
            .cloned()
            .collect();
        if !hits.is_empty() {
            reply.add_answers(hits);
            return;
        }
        let alias = here().find_map(|record| match &record.data {
            RData::CNAME(target) => Some((record.clone(), target.0.clone())),
            _ => None,
        });
        let Some((record, target)) = alias.filter(|_| !passed.contains(&name)) else {
            break;
        };
        reply.add_answer(record);
        passed.push(std::mem::replace(&mut name, target));
    }
    let soa = records
        .iter()
        .find(|record| record.record_type() == RecordType::SOA && record.name.zone_of(&name));
    reply.add_authorities(soa.cloned());
    if !records.iter().any(|record| name.zone_of(&record.name)) {
        reply.metadata.response_code = ResponseCode::NXDomain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::question;
    use crate::case::Case;
    use crate::records::line_of;

    const CASE: &str = "
about: x
corefile: y
queries: [{ask: a. A}]
upstreams:
  U:
    zone:
      - a. 9 IN SOA a. a. 1 2 3 4 5
      - w.a. 9 IN A 192.0.2.1
      - c.a. 9 IN CNAME d.a.
      - d.a. 9 IN CNAME c.a.
    behave: ";

    fn player(behave: &str) -> Player {
        let case = Case::parse(&format!("{CASE}{behave}\n")).unwrap();
        Player::new(&case.upstreams["U"]).unwrap()
    }

    fn ask(player: &Player, text: &str) -> Vec<Message> {
        let packet = question(text).unwrap().to_vec().unwrap();
        let answers = player.answer(&packet, false).unwrap();
        answers
            .iter()
            .filter_map(|bytes| Message::from_vec(bytes).ok())
            .collect()
    }

    /// rcode, answers and authority of the one reply, or nothing.
    fn told(player: &Player, text: &str) -> Option<(ResponseCode, Vec<String>, usize)> {
        let reply = ask(player, text).pop()?;
        let answers = reply.answers.iter().map(|record| line_of(record).join(" ")).collect();
        Some((reply.metadata.response_code, answers, reply.authorities.len()))
    }

    #[test]
    fn the_zone() {
        let player = player("{}");
        let found = vec!["w.a. 9 IN A 192.0.2.1".to_owned()];
        assert_eq!(told(&player, "W.a. A"), Some((ResponseCode::NoError, found, 0)));
        assert_eq!(told(&player, "w.a. AAAA"), Some((ResponseCode::NoError, vec![], 1)));
        assert_eq!(told(&player, "x.a. A"), Some((ResponseCode::NXDomain, vec![], 1)));
        assert_eq!(told(&player, "x. A"), Some((ResponseCode::NXDomain, vec![], 0)));
        // An alias that leads back ends after one round.
        assert_eq!(told(&player, "c.a. A").unwrap().1.len(), 2);
        assert_eq!(player.seen(), 5);
        assert_eq!(told(&player, ". NS").unwrap().0, ResponseCode::NoError);
        assert_eq!(player.seen(), 5);
    }

    #[test]
    fn the_count() {
        let player =
            player("{drop_first: 1, servfail_first: 2, rcode_after: {after: 3, rcode: REFUSED}, silent_after: 4}");
        let rcode = || told(&player, "w.a. A").map(|told| told.0);
        assert_eq!(rcode(), None);
        assert_eq!(rcode(), Some(ResponseCode::ServFail));
        assert_eq!(rcode(), Some(ResponseCode::NoError));
        assert_eq!(rcode(), Some(ResponseCode::Refused));
        assert_eq!(rcode(), None);
    }

    #[test]
    fn lies() {
        let player = player(
            "{wrong_id_first: true, wrong_question_first: x.a., garbage_first: true, flags: {aa: true, ra: false}}",
        );
        let replies = ask(&player, "w.a. A");
        let [wrong_id, wrong_question, right] = replies.as_slice() else {
            panic!("{replies:?}")
        };
        assert_eq!(wrong_id.metadata.id, right.metadata.id.wrapping_add(1));
        assert_ne!(wrong_question.queries, right.queries);
        assert!(right.metadata.authoritative && !right.metadata.recursion_available);
    }

    #[test]
    fn too_large_for_the_asker() {
        let many = vec!["'b.a. 9 IN TXT \"0123456789012345678901234567890123456789\"'"; 20].join(", ");
        let reply = ask(&player(&format!("{{additional: [{many}]}}")), "w.a. A").remove(0);
        assert!(reply.metadata.truncation && reply.answers.is_empty() && reply.additionals.is_empty());
        let reply = ask(&player(&format!("{{additional: [{many}], overflow: true}}")), "w.a. A").remove(0);
        assert!(!reply.metadata.truncation && reply.additionals.len() == 20);
    }
}
