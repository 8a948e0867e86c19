//! What must hold for anything that an upstream says: shared by the fuzz target and the test that replays its corpus.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nodens_wire::{Flags, HEADER_LEN, NameBuf, Rclass, Rtype};

use super::{Checking, Forwarder, InUse, Outgoing, Settings, Stanza, Transport, Upstream};
use crate::io::{Effect, ListenerId, StreamEvent, UpstreamDatagram};
use crate::stats::WorkerStats;
use crate::time::Instant;

const NAME: &str = "www.cedar.example.";

/// Takes `bytes` for what an upstream says: as they are, with the id that was asked with, and with the question too.
pub fn reply(bytes: &[u8]) {
    for disguise in [Disguise::None, Disguise::Id, Disguise::Question] {
        for client_is_stream in [false, true] {
            Talk::begin(client_is_stream).say(bytes, disguise);
        }
    }
}

/// How much of a right reply the bytes are made to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disguise {
    None,
    Id,
    Question,
}

impl Disguise {
    fn of(self, bytes: &[u8], asked: &[u8]) -> Vec<u8> {
        let mut said = bytes.to_vec();
        if self == Self::None {
            return said;
        }
        if said.len() >= 2 {
            said[..2].copy_from_slice(&asked[..2]);
        }
        if self == Self::Question && said.len() >= HEADER_LEN {
            said[2] |= 0x80;
            said[4..6].copy_from_slice(&[0, 1]);
            let question = &asked[HEADER_LEN..][..NAME.len() + 1 + 4];
            said.splice(HEADER_LEN..HEADER_LEN, question.iter().copied());
        }
        said
    }
}

/// One question, and the way that it went out by.
struct Talk {
    forwarder: Forwarder,
    stanza: Arc<Stanza>,
    way: Effect,
    asked: Vec<u8>,
}

const START: Instant = Instant(1_000_000_000);

impl Talk {
    fn begin(client_is_stream: bool) -> Self {
        let name = NameBuf::from_text(NAME).expect("a name");
        let address = SocketAddr::from(([192, 0, 2, 1], 53));
        let upstreams = [Arc::new(Upstream::new(address, Transport::Plain))];
        let mut settings = Settings::new(NameBuf::root(), upstreams.into());
        settings.checking = Checking::Never;
        let stanza = Arc::new(Stanza::new(settings));
        let mut forwarder = Forwarder::new([3; 32], Arc::new(WorkerStats::new(1)));
        let question = Outgoing {
            name: name.as_name(),
            rtype: Rtype::A,
            rclass: Rclass::IN,
            flags: Flags::default().with_rd(true),
            dnssec_ok: false,
            udp_size: 1232,
            options: &[],
            client_is_stream,
            since: START,
            canary: None,
        };
        forwarder.ask(START, &stanza, &question, 7);
        let (opened, _) = forwarder.poll_effect().expect("a socket");
        if let Effect::OpenStream { stream, .. } = opened {
            let event = StreamEvent::Opened {
                stream,
                listener: ListenerId::NONE,
                peer: address,
                local: address,
            };
            forwarder.stream(START, event);
        }
        let (way, asked) = forwarder.poll_effect().expect("the question");
        let asked = asked.to_vec();
        Self {
            forwarder,
            stanza,
            way,
            asked,
        }
    }

    fn say(mut self, bytes: &[u8], disguise: Disguise) {
        match self.way {
            Effect::SendUpstream { upstream } => {
                let said = disguise.of(bytes, &self.asked);
                let datagram = UpstreamDatagram {
                    upstream,
                    bytes: &said,
                    error: None,
                };
                self.forwarder.datagram(START, &datagram);
            }
            Effect::WriteStream { stream } => {
                let said = match disguise {
                    Disguise::None => bytes.to_vec(),
                    _ => {
                        let mut said = disguise.of(bytes, &self.asked[2..]);
                        said.truncate(usize::from(u16::MAX));
                        [&(said.len() as u16).to_be_bytes()[..], &said].concat()
                    }
                };
                let (first, rest) = said.split_at(said.len() / 2);
                for bytes in [first, rest] {
                    let reply = &mut Vec::new();
                    self.forwarder
                        .stream(START, StreamEvent::Readable { stream, bytes, reply });
                }
                self.forwarder.stream(START, StreamEvent::HalfClosed { stream });
            }
            other => panic!("{other:?} is no question"),
        }
        self.ends_once();
    }

    fn ends_once(mut self) {
        let mut outcomes = Vec::new();
        let mut now = START;
        for _ in 0..30 {
            while self.forwarder.poll_effect().is_some() {}
            outcomes.extend(std::iter::from_fn(|| self.forwarder.poll_done()));
            now = now.after(Duration::from_secs(2));
            self.forwarder.timeout(now);
        }
        let [(7, outcome)] = &outcomes[..] else {
            panic!("one question ends once: {outcomes:?}")
        };
        if let Ok(reply) = outcome {
            let reply = reply.said();
            assert!(reply.is_whole());
            assert!(reply.flags().qr());
        }
        assert_eq!(self.stanza.in_flight(), 0);
        assert_eq!(self.forwarder.in_use(), InUse::default());
    }
}
