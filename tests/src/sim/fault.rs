//! A port around a port that loses, doubles, cuts and reorders datagrams, by seed, and writes down what it did.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nodens_engine::io::{
    BATCH_MAX, DATAGRAM_ROOM, Datagram, Effect, Handler, ListenerId, Peer, Port, StreamEvent, UpstreamDatagram,
};
use nodens_engine::time::Instant;

use crate::seed::Seeded;

/// How often, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// A query is lost.
    pub drop: usize,
    /// A query comes twice.
    pub duplicate: usize,
    /// Only its beginning comes.
    pub truncate: usize,
    /// A batch comes in another order.
    pub reorder: usize,
    /// A reply is lost.
    pub drop_reply: usize,
}

/// What became of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was handed over whole.
    Handed(SocketAddr),
    /// Only so many bytes of it were.
    Truncated(SocketAddr, usize),
    /// It was lost.
    Dropped(SocketAddr),
    /// Its reply was.
    ReplyDropped(SocketAddr),
}

/// A port that cannot be relied on.
#[derive(Debug)]
pub struct Fault<P> {
    inner: P,
    seeded: Seeded,
    rates: Rates,
    fates: Vec<Fate>,
}

impl<P: Port> Fault<P> {
    /// Around `inner`.
    pub fn new(inner: P, seed: u64, rates: Rates) -> Self {
        Self {
            inner,
            seeded: Seeded::new(seed),
            rates,
            fates: Vec::new(),
        }
    }

    /// From now on.
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// What it did since the last call.
    pub fn take_fates(&mut self) -> Vec<Fate> {
        std::mem::take(&mut self.fates)
    }
}

fn happens(seeded: &mut Seeded, rate: usize) -> bool {
    rate > 0 && seeded.below(1000) < rate
}

/// A reply to a query that came twice.
struct Resend {
    listener: ListenerId,
    peer: Peer,
    local: Option<IpAddr>,
    bytes: Vec<u8>,
}

struct Faulty<'a, H> {
    handler: &'a mut H,
    seeded: &'a mut Seeded,
    rates: Rates,
    fates: &'a mut Vec<Fate>,
    resend: Vec<Resend>,
}

impl<H: Handler> Faulty<'_, H> {
    /// Hands some of the batch over; returns the length of each reply.
    fn hand(&mut self, batch: &mut [Datagram<'_>]) -> Vec<usize> {
        let mut lens = vec![0; batch.len()];
        let mut handed: Vec<(usize, Datagram<'_>)> = Vec::new();
        for (at, datagram) in batch.iter_mut().enumerate() {
            let peer = datagram.peer.to_socket_addr();
            if happens(self.seeded, self.rates.drop) {
                self.fates.push(Fate::Dropped(peer));
                continue;
            }
            let mut query = datagram.query;
            if !query.is_empty() && happens(self.seeded, self.rates.truncate) {
                query = &query[..self.seeded.below(query.len())];
                self.fates.push(Fate::Truncated(peer, query.len()));
            } else {
                self.fates.push(Fate::Handed(peer));
            }
            let Datagram {
                cut, listener, local, ..
            } = *datagram;
            let reply = &mut *datagram.reply;
            handed.push((
                at,
                Datagram {
                    query,
                    cut,
                    reply,
                    reply_len: 0,
                    peer: datagram.peer,
                    listener,
                    local,
                },
            ));
        }
        if happens(self.seeded, self.rates.reorder) {
            for at in (1..handed.len()).rev() {
                handed.swap(at, self.seeded.below(at + 1));
            }
        }
        let (places, mut handed): (Vec<usize>, Vec<Datagram<'_>>) = handed.into_iter().unzip();
        if !handed.is_empty() {
            self.handler.datagrams(&mut handed);
        }
        for (place, datagram) in places.into_iter().zip(&handed) {
            lens[place] = datagram.reply_len;
        }
        lens
    }

    /// Hands some over once more, and keeps the replies.
    fn hand_again(&mut self, batch: &[Datagram<'_>]) {
        let twice: Vec<&Datagram<'_>> = batch
            .iter()
            .filter(|_| happens(self.seeded, self.rates.duplicate))
            .take(BATCH_MAX)
            .collect();
        let mut rooms = vec![vec![0; DATAGRAM_ROOM]; twice.len()];
        let mut handed: Vec<Datagram<'_>> = Vec::new();
        for (datagram, reply) in twice.iter().zip(&mut rooms) {
            let Datagram {
                query,
                cut,
                peer,
                listener,
                local,
                ..
            } = **datagram;
            handed.push(Datagram {
                query,
                cut,
                reply,
                reply_len: 0,
                peer,
                listener,
                local,
            });
            self.fates.push(Fate::Handed(peer.to_socket_addr()));
        }
        if handed.is_empty() {
            return;
        }
        self.handler.datagrams(&mut handed);
        for datagram in handed.iter().filter(|datagram| datagram.reply_len > 0) {
            let Datagram {
                peer, listener, local, ..
            } = *datagram;
            let bytes = datagram.reply[..datagram.reply_len].to_vec();
            self.resend.push(Resend {
                listener,
                peer: *peer,
                local,
                bytes,
            });
        }
    }
}

impl<H: Handler> Handler for Faulty<'_, H> {
    fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
        let lens = self.hand(batch);
        self.hand_again(batch);
        for (datagram, len) in batch.iter_mut().zip(lens) {
            datagram.reply_len = len;
            if len > 0 && happens(self.seeded, self.rates.drop_reply) {
                self.fates.push(Fate::ReplyDropped(datagram.peer.to_socket_addr()));
                datagram.reply_len = 0;
            }
        }
    }

    fn stream(&mut self, event: StreamEvent<'_>) {
        self.handler.stream(event);
    }

    fn upstream(&mut self, reply: UpstreamDatagram<'_>) -> bool {
        self.handler.upstream(reply)
    }
}

impl<P: Port> Port for Fault<P> {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.inner.wait(deadline)
    }

    fn serve(&mut self, handler: &mut impl Handler) -> io::Result<usize> {
        let Self {
            inner,
            seeded,
            rates,
            fates,
        } = self;
        let mut faulty = Faulty {
            handler,
            seeded,
            rates: *rates,
            fates,
            resend: Vec::new(),
        };
        let served = inner.serve(&mut faulty)?;
        for Resend {
            listener,
            peer,
            local,
            bytes,
        } in faulty.resend
        {
            inner.apply(Effect::Send { listener, peer, local }, &bytes)?;
        }
        Ok(served)
    }

    fn apply(&mut self, effect: Effect, bytes: &[u8]) -> io::Result<()> {
        if let Effect::Send { peer, .. } = effect
            && happens(&mut self.seeded, self.rates.drop_reply)
        {
            self.fates.push(Fate::ReplyDropped(peer.to_socket_addr()));
            return Ok(());
        }
        self.inner.apply(effect, bytes)
    }
}
