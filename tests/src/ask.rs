//! Questions out, replies in: packets by another DNS code base, plain blocking sockets.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use socket2::{Domain, Socket, Type};

use crate::case::{Ask, AskEdns};
use crate::records::{class_of, name_of, type_of};
use crate::tls::TlsClient;
use crate::world::random;

/// Bytes of hex text; blanks do not count.
///
/// # Errors
/// A character that is no digit, or half a byte.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8).ok_or_else(|| format!("{c:?} in hex")))
        .collect::<Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err("half a byte at the end of hex".to_owned());
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A question `NAME TYPE [CLASS]` with RD set and no OPT.
///
/// # Errors
/// The text is no question.
pub fn question(text: &str) -> Result<Message, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (name, rtype, class) = match words[..] {
        [name, rtype] => (name, rtype, None),
        [name, rtype, class] => (name, rtype, Some(class)),
        _ => return Err(format!("`{text}` is no question")),
    };
    let mut query = Query::query(name_of(name)?, type_of(rtype)?);
    if let Some(class) = class {
        query.set_query_class(class_of(class)?);
    }
    let mut message = Message::new(random() as u16, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(query);
    Ok(message)
}

fn opt(edns: &AskEdns) -> Result<Edns, String> {
    let mut opt = Edns::new();
    opt.set_version(edns.version)
        .set_max_payload(edns.bufsize)
        .set_dnssec_ok(edns.dnssec_ok);
    if edns.nsid {
        opt.options_mut().insert(EdnsOption::Unknown(3, Vec::new()));
    }
    for option in &edns.options {
        let text = option.as_str().map_or_else(|| option.to_string(), str::to_owned);
        let (code, data) = text.split_once(':').unwrap_or((&text, ""));
        let code = code.parse().map_err(|e| format!("EDNS option {text}: {e}"))?;
        opt.options_mut().insert(EdnsOption::Unknown(code, from_hex(data)?));
    }
    Ok(opt)
}

/// The packet that a question of a case sends.
///
/// # Errors
/// The case says something that is no packet.
pub fn packet(ask: &Ask) -> Result<Vec<u8>, String> {
    if let Some(raw) = &ask.raw {
        return from_hex(raw);
    }
    let mut message = question(ask.ask.as_deref().ok_or("neither `ask` nor `raw`")?)?;
    if ask.rd == Some(false) && !ask.rd_sent {
        message.metadata.recursion_desired = false;
    }
    for flag in &ask.query_flags {
        match flag.as_str() {
            "norec" => message.metadata.recursion_desired = false,
            "cd" => message.metadata.checking_disabled = true,
            "ad" => message.metadata.authentic_data = true,
            other => return Err(format!("query flag {other}")),
        }
    }
    if let Some(serial) = ask.serial {
        let soa = SOA::new(Name::root(), Name::root(), serial, 0, 0, 0, 0);
        message.add_authority(Record::from_rdata(Name::root(), 0, RData::SOA(soa)));
    }
    let short = ask.bufsize.map(|bufsize| AskEdns {
        bufsize,
        ..AskEdns::default()
    });
    if let Some(edns) = ask.edns.as_ref().or(short.as_ref()) {
        message.set_edns(opt(edns)?);
    }
    message.to_vec().map_err(|e| e.to_string())
}

/// How a packet travels.
#[derive(Clone, Copy, Debug)]
pub enum Way<'t> {
    /// In a datagram.
    Udp,
    /// On a connection of its own.
    Tcp,
    /// On one of this client.
    Tls(&'t TlsClient),
}

/// Sends a packet and returns the first reply, or nothing when none comes in time.
pub fn exchange(
    packet: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
    way: Way<'_>,
    timeout: Duration,
) -> Option<Vec<u8>> {
    exchange_all(packet, to, from, way, timeout).into_iter().next()
}

/// The same, but returns all messages of a reply that holds a whole zone.
pub fn exchange_all(
    packet: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
    way: Way<'_>,
    timeout: Duration,
) -> Vec<Vec<u8>> {
    let replies = match way {
        Way::Udp => datagram(packet, to, from, timeout).map(|reply| vec![reply]),
        Way::Tcp => connect(to, from, timeout).and_then(|stream| over_stream(packet, stream)),
        Way::Tls(client) => connect(to, from, timeout).and_then(|stream| over_stream(packet, client.over(stream))),
    };
    replies.unwrap_or_default()
}

fn datagram(packet: &[u8], to: SocketAddr, from: Option<IpAddr>, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let from = from.unwrap_or(any);
    let socket = UdpSocket::bind((from, 0))?;
    // A connected socket takes replies from the address that was asked, and from no other.
    socket.connect(to)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.send(packet)?;
    let mut reply = vec![0; 65_535];
    let len = socket.recv(&mut reply)?;
    reply.truncate(len);
    Ok(reply)
}

fn connect(to: SocketAddr, from: Option<IpAddr>, timeout: Duration) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    socket.connect_timeout(&to.into(), timeout)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(timeout))?;
    Ok(stream)
}

/// The reply; several messages where it is a zone that goes on.
fn over_stream(packet: &[u8], mut stream: impl Read + Write) -> std::io::Result<Vec<Vec<u8>>> {
    stream.write_all(&framed(packet))?;
    let mut replies = Vec::new();
    let mut ends = Ends::default();
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut reply)?;
        let goes_on = ends.goes_on(&reply);
        replies.push(reply);
        if !goes_on {
            return Ok(replies);
        }
    }
}

/// Where a zone ends: a second SOA, or a lone one (RFC 5936 section 2.2, RFC 1995 section 4).
#[derive(Default)]
struct Ends {
    records: usize,
    soas: usize,
}

impl Ends {
    fn goes_on(&mut self, reply: &[u8]) -> bool {
        let Ok(message) = Message::from_vec(reply) else {
            return false;
        };
        let asks = |query: &Query| matches!(query.query_type(), RecordType::AXFR | RecordType::IXFR);
        let is_transfer = message.queries.iter().any(asks) || self.records > 0;
        let soas = message
            .answers
            .iter()
            .filter(|record| record.record_type() == RecordType::SOA);
        self.records += message.answers.len();
        self.soas += soas.count();
        is_transfer && !message.answers.is_empty() && self.soas == 1 && self.records > 1
    }
}

/// A message with its length in front, as RFC 1035 section 4.2.2 has it on streams.
fn framed(packet: &[u8]) -> Vec<u8> {
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    [&len.to_be_bytes(), packet].concat()
}

/// What came on one connection.
#[derive(Debug, Default)]
pub struct Conversation {
    /// The replies, without their lengths.
    pub replies: Vec<Vec<u8>>,
    /// Seconds from the last reply (or the start) until the server closed; none: it did not.
    pub closed_after: Option<f64>,
}

/// Writes all `packets` at once on one connection; listens for a second, or for `watch` seconds more than that for its end.
///
/// # Errors
/// The connection cannot be made.
pub fn converse(packets: &[Vec<u8>], to: SocketAddr, watch: Option<f64>) -> std::io::Result<Conversation> {
    let mut stream = TcpStream::connect(to)?;
    let out: Vec<u8> = packets.iter().flat_map(|packet| framed(packet)).collect();
    stream.write_all(&out)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let begun = Instant::now();
    let mut last = begun;
    let mut seen = Conversation::default();
    let (mut buffered, mut room) = (Vec::new(), vec![0; 65_536]);
    while begun.elapsed().as_secs_f64() < watch.unwrap_or(1.0) + 2.0 {
        match stream.read(&mut room) {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if watch.is_none() && begun.elapsed() > Duration::from_secs(1) {
                    break;
                }
            }
            Ok(0) | Err(_) => {
                seen.closed_after = Some(last.elapsed().as_secs_f64());
                break;
            }
            Ok(len) => {
                buffered.extend_from_slice(&room[..len]);
                while let Some(message) = take_message(&mut buffered) {
                    seen.replies.push(message);
                    last = Instant::now();
                }
            }
        }
    }
    Ok(seen)
}

fn take_message(buffered: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes([*buffered.first()?, *buffered.get(1)?]));
    let message = buffered.get(2..2 + len)?.to_vec();
    buffered.drain(..2 + len);
    Some(message)
}

/// GET over HTTP/1.1; returns status and body.
///
/// # Errors
/// No connection, or nothing that looks like HTTP.
pub fn get(to: SocketAddr, path: &str, timeout: Duration) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&to, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let odd = || std::io::Error::other("no HTTP reply");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(odd)?;
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .ok_or_else(odd)?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunked(body) } else { body.to_owned() }))
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let len = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = rest.get(..len).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        whole.push_str(chunk);
        body = rest[len..].trim_start_matches("\r\n");
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets() {
        let ask = Ask {
            ask: Some("WWW.a. TYPE65280 CH".to_owned()),
            rd: Some(false),
            bufsize: Some(512),
            ..Ask::default()
        };
        let bytes = packet(&ask).unwrap();
        assert_eq!(bytes[2..12], [0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[12..23], *b"\x03WWW\x01a\0\xff\0\0\x03");
        assert_eq!(bytes[23..34], *b"\0\0\x29\x02\0\0\0\0\0\0\0");
        assert!(
            packet(&Ask {
                ask: Some("a.".to_owned()),
                ..Ask::default()
            })
            .is_err()
        );
        assert_eq!(from_hex("0a 0B").unwrap(), [10, 11]);
        assert!(from_hex("0").is_err() && from_hex("0g").is_err());
    }

    #[test]
    fn streams() {
        let mut buffered = b"\0\x02ab\0\x03c".to_vec();
        assert_eq!(take_message(&mut buffered).as_deref(), Some(b"ab".as_slice()));
        assert_eq!(take_message(&mut buffered), None);
        assert_eq!(buffered, b"\0\x03c");
        assert_eq!(unchunked("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), "abcde");
    }
}
