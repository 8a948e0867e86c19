//! The addresses of servers that a Corefile gives by name: asked for once, when it is read.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, Instant};

use nodens_wire::{Flags, Message, Name, NameBuf, Rcode, Rtype, Section};

use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::settings::{self, Upstream, UpstreamPlace};
use crate::exchange::{Question, any_source};

/// How long all resolvers together may take: a start that waits longer is no start.
const TIME_MAX: Duration = Duration::from_secs(10);
/// How long one answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Bytes of a reply over UDP to a question without EDNS.
const DATAGRAM_MAX: usize = 512;

/// The upstreams of a stanza, each once, with the addresses of those that are given by name.
///
/// # Errors
/// A name is not known.
pub fn upstreams(stanza: &settings::Forward) -> Result<Vec<Upstream>, Diagnostic> {
    let mut all = Vec::new();
    for upstream in &stanza.to {
        let UpstreamPlace::Host { name, port } = &upstream.place else {
            add(&mut all, upstream.clone());
            continue;
        };
        let found = addresses(name, *port, &stanza.resolver).map_err(|why| {
            let error = Diagnostic::error(
                upstream.span,
                format!("plugin/forward: failed to resolve {name:?}: {why}"),
            );
            error.help(match stanza.resolver.as_slice() {
                [] => "write an address, or see that the system knows the name",
                _ => "write an address, or see that a server of `resolver` knows the name",
            })
        })?;
        for address in found {
            let found = Upstream {
                place: UpstreamPlace::Address(address),
                // Its certificate names the host, not its address.
                server_name: upstream.server_name.clone().or_else(|| Some(name.clone())),
                ..upstream.clone()
            };
            add(&mut all, found);
        }
    }
    Ok(all)
}

/// One more upstream, if it is not there already.
fn add(all: &mut Vec<Upstream>, upstream: Upstream) {
    if all.iter().all(|known| known.place != upstream.place) {
        all.push(upstream);
    }
}

/// The addresses of a host, those of IPv4 first: the first of the resolvers that answers says which. Without any the system
/// knows.
///
/// # Errors
/// There are none, or nobody answers. The text is that of Go, which names who was asked.
fn addresses(host: &str, port: u16, resolvers: &[SocketAddr]) -> Result<Vec<SocketAddr>, String> {
    if resolvers.is_empty() {
        let found = (host, port).to_socket_addrs().map_err(|why| why.to_string())?;
        return Ok(found.collect());
    }
    let name = NameBuf::from_text(host).map_err(|why| why.to_string())?;
    let until = Instant::now() + TIME_MAX;
    let mut failure = String::new();
    for &resolver in resolvers {
        let told = ask(name.as_name(), resolver, until).and_then(|found| {
            let none = || io::Error::new(ErrorKind::NotFound, "no such host");
            Some(found).filter(|found| !found.is_empty()).ok_or_else(none)
        });
        match told {
            Ok(found) => {
                return Ok(found
                    .into_iter()
                    .map(|address| SocketAddr::new(address, port))
                    .collect());
            }
            Err(why) => {
                failure = format!("lookup {host} on {resolver}: {why}");
                // It has answered.
                if why.kind() == ErrorKind::NotFound {
                    break;
                }
            }
        }
    }
    Err(failure)
}

/// Both kinds of addresses that one resolver knows.
fn ask(name: Name<'_>, resolver: SocketAddr, until: Instant) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for rtype in [Rtype::A, Rtype::AAAA] {
        let question = Question::new(name, rtype, Flags(0).with_rd(true));
        let mut reply = over_udp(&question, resolver, until)?;
        if Message::parse(&reply).is_ok_and(|reply| reply.header.flags().tc()) {
            reply = over_tcp(&question, resolver, until)?;
        }
        found.extend(read(&reply, rtype)?);
    }
    Ok(found)
}

/// The addresses in a reply. Whose they are is the resolver's word, aliases and all.
fn read(reply: &[u8], rtype: Rtype) -> io::Result<Vec<IpAddr>> {
    let broken = |_| io::Error::other("cannot unmarshal DNS message");
    let message = Message::parse(reply).map_err(broken)?;
    match message.header.flags().rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Ok(Vec::new()),
        _ => return Err(io::Error::other("server misbehaving")),
    }
    let mut found = Vec::new();
    for record in message.records() {
        let record = record.map_err(broken)?;
        if record.section != Section::Answer || record.rtype != rtype {
            continue;
        }
        if let Ok(address) = <[u8; 4]>::try_from(record.rdata) {
            found.push(Ipv4Addr::from(address).into());
        } else if let Ok(address) = <[u8; 16]>::try_from(record.rdata) {
            found.push(Ipv6Addr::from(address).into());
        }
    }
    Ok(found)
}

fn over_udp(question: &Question, resolver: SocketAddr, until: Instant) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((any_source(resolver), 0))?;
    socket.connect(resolver)?;
    socket.send(question.bytes())?;
    let until = until.min(Instant::now() + ANSWER_TIME);
    let mut reply = vec![0; DATAGRAM_MAX];
    loop {
        socket.set_read_timeout(Some(left(until)?))?;
        let len = socket.recv(&mut reply).map_err(late)?;
        if question.is_answered_by(&reply[..len]) {
            reply.truncate(len);
            return Ok(reply);
        }
    }
}

fn over_tcp(question: &Question, resolver: SocketAddr, until: Instant) -> io::Result<Vec<u8>> {
    let until = until.min(Instant::now() + ANSWER_TIME);
    let mut stream = TcpStream::connect_timeout(&resolver, left(until)?).map_err(late)?;
    let bytes = question.bytes();
    stream.set_write_timeout(Some(left(until)?))?;
    stream.write_all(&[&(bytes.len() as u16).to_be_bytes(), bytes].concat())?;
    stream.set_read_timeout(Some(left(until)?))?;
    let mut len = [0; 2];
    stream.read_exact(&mut len).map_err(late)?;
    let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut reply).map_err(late)?;
    if question.is_answered_by(&reply) {
        Ok(reply)
    } else {
        Err(io::Error::other("server misbehaving"))
    }
}

/// The time that is left, if any: no time at all would be for ever.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    Some(left)
        .filter(|left| !left.is_zero())
        .ok_or_else(|| late(ErrorKind::TimedOut.into()))
}

fn late(why: io::Error) -> io::Error {
    match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::new(ErrorKind::TimedOut, "i/o timeout"),
        _ => why,
    }
}
