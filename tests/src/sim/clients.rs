//! What clients ask, and what the model says they must hear: an answer from the last published version, and from no
//! other.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RData;
use nodens_engine::io::StreamId;
use nodens_engine::time::Instant;

use super::etcd::Keys;
use super::network::Network;
use crate::seed::Seeded;
use crate::served::{framed, packet};

/// The zone of every simulation.
pub const ZONE: &str = "cedar.example.";
/// Services below `heavy`: a reply of more than a datagram's room.
pub const HEAVY: usize = 200;
/// Names and groups that come and go.
const NAMES: usize = 30;
const GROUPS: usize = 4;
const MEMBERS: usize = 12;

/// A key that a change is about.
pub fn random_key(seeded: &mut Seeded) -> String {
    match seeded.below(10) {
        0..=5 => format!("n{}", seeded.below(NAMES)),
        6..=8 => format!("g{}/x{}", seeded.below(GROUPS), seeded.below(MEMBERS)),
        _ => format!("heavy/x{}", seeded.below(HEAVY)),
    }
}

/// A value; `number` is in it, so that an old one shows.
pub fn value(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!(r#"{{"host":"10.{a}.{b}.{c}"}}"#)
}

/// A question, as a path in etcd.
#[derive(Clone, Debug)]
pub struct Question {
    path: String,
    v4: bool,
    id: u16,
    /// What the client takes over UDP.
    size: Option<u16>,
}

impl Question {
    /// Any.
    pub fn random(seeded: &mut Seeded) -> Self {
        let path = match seeded.below(12) {
            0..=5 => format!("n{}", seeded.below(NAMES + 3)),
            6 | 7 => format!("g{}", seeded.below(GROUPS + 1)),
            8 | 9 => format!("g{}/x{}", seeded.below(GROUPS), seeded.below(MEMBERS)),
            10 => "heavy".to_owned(),
            _ => format!("n{}/none", seeded.below(NAMES)),
        };
        let size = *seeded.pick(&[None, Some(512), Some(1232), Some(4096), Some(u16::MAX)]);
        Self {
            path,
            v4: !seeded.once_in(5),
            id: seeded.next() as u16,
            size,
        }
    }

    /// With a long answer.
    pub fn heavy(seeded: &mut Seeded) -> Self {
        Self {
            path: "heavy".to_owned(),
            v4: true,
            id: seeded.next() as u16,
            size: None,
        }
    }

    /// As a client sends it.
    pub fn packet(&self, is_stream: bool) -> Vec<u8> {
        let labels: String = self.path.rsplit('/').map(|part| format!("{part}.")).collect();
        let rtype = if self.v4 { "A" } else { "AAAA" };
        packet(
            self.id,
            &format!("{labels}{ZONE} {rtype}"),
            self.size.filter(|_| !is_stream),
        )
    }

    fn expected(&self, shown: Option<&Keys>) -> (ResponseCode, BTreeSet<Ipv4Addr>) {
        let Some(keys) = shown else {
            return (ResponseCode::ServFail, BTreeSet::new());
        };
        let below = format!("{}/", self.path);
        let found = keys
            .iter()
            .filter(|(key, _)| **key == self.path || key.starts_with(&below));
        let hosts: BTreeSet<Ipv4Addr> = found
            .filter_map(|(_, value)| value.split('"').nth(3)?.parse().ok())
            .collect();
        match (hosts.is_empty(), self.v4) {
            (true, _) => (ResponseCode::NXDomain, hosts),
            (false, true) => (ResponseCode::NoError, hosts),
            (false, false) => (ResponseCode::NoError, BTreeSet::new()),
        }
    }

    /// The reply says what the published version holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, reply: &[u8], shown: Option<&Keys>, is_stream: bool) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{self:?}: {what}"));
        let limit = if is_stream {
            usize::from(u16::MAX)
        } else {
            usize::from(self.size.unwrap_or(512).max(512))
        };
        if reply.len() > limit {
            return wrong(format!("{} bytes for a client that takes {limit}", reply.len()));
        }
        let message = Message::from_vec(reply).map_err(|error| format!("{self:?}: {error}: {reply:02x?}"))?;
        let (rcode, hosts) = self.expected(shown);
        let metadata = &message.metadata;
        if metadata.id != self.id || metadata.response_code != rcode {
            return wrong(format!("id {}, {}, not {rcode}", metadata.id, metadata.response_code));
        }
        let address = |data: &RData| match data {
            RData::A(address) => Some(address.0),
            _ => None,
        };
        let got: BTreeSet<Ipv4Addr> = message
            .answers
            .iter()
            .filter_map(|record| address(&record.data))
            .collect();
        let is_cut = metadata.truncation;
        let fits = if is_cut {
            !is_stream && got.is_subset(&hosts)
        } else {
            got == hosts
        };
        if !fits || got.len() != message.answers.len() {
            return wrong(format!("{got:?}, not {hosts:?}{}", if is_cut { ", cut" } else { "" }));
        }
        Ok(())
    }
}

/// How a client behaves on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Asks, hears everything, ends.
    Polite,
    /// Asks and ends at once, and wants to hear everything.
    InHaste,
    /// Asks for much and reads little.
    Slow,
    /// Sends part of a query, and nothing any more.
    Silent,
    /// Asks and is gone.
    Rude,
}

/// One client's connection.
#[derive(Debug)]
pub struct Talk {
    stream: StreamId,
    manner: Manner,
    asked: VecDeque<Question>,
    parts: VecDeque<Vec<u8>>,
    heard: Vec<u8>,
    /// Answers so far.
    pub answered: u64,
    /// When it last got one, or connected.
    pub since: Instant,
    ended: bool,
}

impl Talk {
    /// On a new stream.
    pub fn new(stream: StreamId, now: Instant, seeded: &mut Seeded) -> Self {
        let manner = *seeded.pick(&[
            Manner::Polite,
            Manner::Polite,
            Manner::InHaste,
            Manner::Slow,
            Manner::Silent,
            Manner::Rude,
        ]);
        let question = |seeded: &mut Seeded| match manner {
            Manner::Slow => Question::heavy(seeded),
            _ => Question::random(seeded),
        };
        let count = match manner {
            // 3 KB each: more than answers to one read may be.
            Manner::Slow => 150,
            _ => 1 + seeded.below(20),
        };
        let asked: VecDeque<Question> = (0..count).map(|_| question(seeded)).collect();
        let mut bytes: Vec<u8> = asked
            .iter()
            .flat_map(|question| framed(&question.packet(true)))
            .collect();
        let mut asked = asked;
        if manner == Manner::Silent {
            bytes.truncate(seeded.below(10));
            asked.clear();
        }
        let size = if manner == Manner::Slow {
            bytes.len()
        } else {
            1 + seeded.below(200)
        };
        let parts = bytes.chunks(size.max(1)).map(<[u8]>::to_vec).collect();
        Self {
            stream,
            manner,
            asked,
            parts,
            heard: Vec::new(),
            answered: 0,
            since: now,
            ended: false,
        }
    }

    /// Sends what is next, or reads.
    pub fn go_on(&mut self, network: &Network) {
        let next = self.parts.pop_front();
        let done = self.parts.is_empty();
        if let Some(part) = next {
            network.write(self.stream, &part);
        }
        network.read(self.stream);
        if done && !self.ended {
            match self.manner {
                Manner::InHaste => network.end(self.stream),
                Manner::Rude => network.reset(self.stream),
                Manner::Polite | Manner::Slow if self.asked.is_empty() => network.end(self.stream),
                Manner::Polite | Manner::Slow | Manner::Silent => return,
            }
            self.ended = true;
        }
    }

    /// Takes what the server wrote.
    ///
    /// # Errors
    /// It is not the answer to what was asked next.
    pub fn hear(&mut self, bytes: &[u8], now: Instant, shown: Option<&Keys>) -> Result<(), String> {
        self.heard.extend_from_slice(bytes);
        while let Some((len, rest)) = self.heard.split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len));
            let Some(reply) = rest.get(..len) else {
                return Err(format!("{:?}: a write ends in the middle of a message", self.stream));
            };
            let question = self.asked.pop_front().ok_or("an answer that nobody asked for")?;
            question.check(reply, shown, true)?;
            self.heard.drain(..2 + len);
            self.answered += 1;
            self.since = now;
        }
        Ok(())
    }

    /// The connection is closed.
    ///
    /// # Errors
    /// It should not have been.
    pub fn closed(&self, at: Instant, first: std::time::Duration, idle: std::time::Duration) -> Result<(), String> {
        let limit = if self.answered == 0 { first } else { idle };
        let over = at >= self.since.after(limit);
        let told = self.ended && (self.asked.is_empty() || self.manner == Manner::Rude);
        if over || told {
            Ok(())
        } else {
            Err(format!("closed without a reason: {self:?}"))
        }
    }

    /// Its time is over, with some slack for the way.
    ///
    /// # Errors
    /// It is still there.
    pub fn check_time(&self, now: Instant, limit: std::time::Duration) -> Result<(), String> {
        let may_wait = matches!(self.manner, Manner::Slow) || self.ended;
        if may_wait || now <= self.since.after(limit) {
            Ok(())
        } else {
            Err(format!("outlives its time: {self:?}"))
        }
    }
}
