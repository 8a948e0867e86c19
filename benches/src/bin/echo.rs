//! The floor: a server that does nothing but its I/O. It sends every query back, marked as a reply and brought to a
//! given size, through the same ports as the real one. With `--ttl` it is a server for others to ask: each question is
//! answered with an address that was not given before, so that what was kept can be told from what was asked.
//!
//! ```text
//! echo [--io uring|mmsg] [--udp ADDR:PORT] [--tcp ADDR:PORT] [--size BYTES | --ttl SECS]
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fmt, io};

use nodens_engine::io::{
    Counters, DATAGRAM_ROOM, Datagram, Effect, Handler, ListenerId, ListenerSockets, Port, PortKind, StreamEvent,
    StreamId, UpstreamDatagram, Waker, bind_tcp, bind_udp, open,
};

const USAGE: &str = "usage: echo [--io uring|mmsg] [--udp ADDR:PORT] [--tcp ADDR:PORT] [--size BYTES | --ttl SECS]";

const HEADER_LEN: usize = 12;

/// The third byte of a message has the bit that tells a reply from a query.
const FLAGS_AT: usize = 2;
const QR: u8 = 0x80;

/// Larger than any message in one stream may be.
const MESSAGE_MAX: usize = u16::MAX as usize;

fn main() -> ExitCode {
    let settings = match Settings::from_arguments(env::args().skip(1)) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("echo: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Settings {
    kind: PortKind,
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    form: Form,
}

/// What a reply looks like.
#[derive(Clone, Copy)]
enum Form {
    /// The query.
    Query,
    /// The query, cut or filled up to this size.
    Sized(usize),
    /// The question and an address with this TTL, the next one each time.
    Address { ttl: u32, next: u32 },
}

#[derive(Debug)]
struct BadArgument(String);

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Settings {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, BadArgument> {
        let mut settings = Self {
            kind: PortKind::Mmsg,
            udp: None,
            tcp: None,
            form: Form::Query,
        };
        while let Some(flag) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| BadArgument(format!("{flag} needs a value")))?;
            let bad = || BadArgument(format!("{flag} cannot be {value}"));
            match flag.as_str() {
                "--io" if value == "uring" => settings.kind = PortKind::Uring,
                "--io" if value == "mmsg" => settings.kind = PortKind::Mmsg,
                "--udp" => settings.udp = Some(value.parse().map_err(|_| bad())?),
                "--tcp" => settings.tcp = Some(value.parse().map_err(|_| bad())?),
                "--size" => {
                    let size = value.parse().ok();
                    let size = size.filter(|size| (HEADER_LEN..=DATAGRAM_ROOM).contains(size));
                    settings.form = Form::Sized(size.ok_or_else(bad)?);
                }
                "--ttl" => {
                    settings.form = Form::Address {
                        ttl: value.parse().map_err(|_| bad())?,
                        next: 0x0a00_0001,
                    }
                }
                _ => return Err(bad()),
            }
        }
        if settings.udp.is_none() && settings.tcp.is_none() {
            return Err(BadArgument("nothing to serve".to_owned()));
        }
        Ok(settings)
    }
}

fn serve(settings: &Settings) -> io::Result<()> {
    let sockets = ListenerSockets {
        listener: ListenerId(0),
        udp: settings.udp.map(bind_udp).transpose().map_err(io::Error::other)?,
        tcp: settings.tcp.map(bind_tcp).transpose().map_err(io::Error::other)?,
    };
    let mut port = open(settings.kind, vec![sockets], &Waker::new()?, &Arc::new(Counters::new()))?;
    let mut echo = Echo {
        form: settings.form,
        partial: HashMap::new(),
        effects: Vec::new(),
    };
    loop {
        port.wait(None)?;
        port.serve(&mut echo)?;
        for effect in echo.effects.drain(..) {
            port.apply(effect, &[])?;
        }
    }
}

struct Echo {
    form: Form,
    /// What a stream sent of its next message.
    partial: HashMap<StreamId, Vec<u8>>,
    effects: Vec<Effect>,
}

impl Handler for Echo {
    fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
        for datagram in batch {
            let size = self.form.len(datagram.query).min(datagram.reply.len());
            self.form.write(&mut datagram.reply[..size], datagram.query);
            datagram.reply_len = size;
        }
    }

    fn stream(&mut self, event: StreamEvent<'_>) {
        match event {
            StreamEvent::Readable { stream, bytes, reply } => {
                if self.partial.is_empty() {
                    let rest = self.answer(bytes, reply);
                    if !rest.is_empty() {
                        self.partial.insert(stream, rest.to_vec());
                    }
                    return;
                }
                let mut all = self.partial.remove(&stream).unwrap_or_default();
                all.extend_from_slice(bytes);
                let rest = self.answer(&all, reply);
                if !rest.is_empty() {
                    self.partial.insert(stream, rest.to_vec());
                }
            }
            StreamEvent::HalfClosed { stream } => self.effects.push(Effect::CloseStream { stream }),
            StreamEvent::Closed { stream, .. } => {
                self.partial.remove(&stream);
            }
            StreamEvent::Opened { .. } | StreamEvent::Writable { .. } => {}
        }
    }

    fn upstream(&mut self, _: UpstreamDatagram<'_>) -> bool {
        false
    }
}

impl Echo {
    /// Answers every whole message and returns what is left.
    fn answer<'b>(&mut self, mut bytes: &'b [u8], reply: &mut Vec<u8>) -> &'b [u8] {
        while let Some((length, rest)) = bytes.split_first_chunk::<2>()
            && let Some((message, rest)) = rest.split_at_checked(u16::from_be_bytes(*length).into())
        {
            let size = self.form.len(message).min(MESSAGE_MAX);
            reply.extend_from_slice(&(size as u16).to_be_bytes());
            let start = reply.len();
            reply.resize(start + size, 0);
            self.form.write(&mut reply[start..], message);
            bytes = rest;
        }
        bytes
    }
}

impl Form {
    /// Bytes of the reply; none to a query that cannot have it.
    fn len(self, query: &[u8]) -> usize {
        match self {
            Self::Query => query.len(),
            Self::Sized(size) => size,
            Self::Address { .. } => question_end(query).map_or(0, |end| end + ADDRESS_LEN),
        }
    }

    /// Fills a reply of that length.
    fn write(&mut self, reply: &mut [u8], query: &[u8]) {
        let Self::Address { ttl, next } = self else {
            return fill(reply, query);
        };
        let Some((question, address)) = reply
            .len()
            .checked_sub(ADDRESS_LEN)
            .and_then(|end| reply.split_at_mut_checked(end))
        else {
            return;
        };
        fill(question, query);
        // One question, one answer, and no OPT.
        question[4..HEADER_LEN].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
        // The owner is the name that stands behind the header; type A, class IN, and four bytes behind the TTL.
        address[..6].copy_from_slice(&[0xc0, HEADER_LEN as u8, 0, 1, 0, 1]);
        address[6..10].copy_from_slice(&ttl.to_be_bytes());
        address[10..12].copy_from_slice(&[0, 4]);
        address[12..].copy_from_slice(&next.to_be_bytes());
        *next = next.wrapping_add(1);
    }
}

/// Bytes of a record with an address whose owner is a pointer.
const ADDRESS_LEN: usize = 16;

/// Where the question ends, if it is whole.
fn question_end(query: &[u8]) -> Option<usize> {
    let mut at = HEADER_LEN;
    loop {
        let label = usize::from(*query.get(at)?);
        at += 1 + label;
        if label == 0 {
            return Some(at + 4).filter(|end| *end <= query.len());
        }
    }
}

/// The beginning of the query, marked as a reply, and zeros up to the end.
fn fill(reply: &mut [u8], query: &[u8]) {
    let len = reply.len().min(query.len());
    reply[..len].copy_from_slice(&query[..len]);
    reply[len..].fill(0);
    if let Some(flags) = reply.get_mut(FLAGS_AT) {
        *flags |= QR;
    }
}
