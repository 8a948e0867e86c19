//! Messages of HTTP/1.1 over any stream, as far as an API server and its clients use it.

use std::io::{self, BufRead, Read, Write};

/// More than any head that is sent here.
const HEAD_BYTES_MAX: u64 = 65_536;

/// The first line of a request or a reply, and the fields below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `GET /api/v1/pods HTTP/1.1`, `HTTP/1.1 200 OK`.
    pub line: String,
    /// Names as they were sent, with their values.
    pub fields: Vec<(String, String)>,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its length, until an empty one.
    Chunked,
    /// As long as the connection.
    UntilEnd,
}

impl Head {
    /// Reads one; none where the stream ends before it begins.
    ///
    /// # Errors
    /// The stream fails or ends inside it.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut from = from.take(HEAD_BYTES_MAX);
        let mut head = Self::default();
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let text = line.trim_end();
            match (text.is_empty(), head.line.is_empty()) {
                (true, _) if line.is_empty() && head.line.is_empty() => return Ok(None),
                (true, _) if line.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                (true, true) => {}
                (true, false) => return Ok(Some(head)),
                (false, true) => head.line = text.to_owned(),
                (false, false) => {
                    let (name, value) = text
                        .split_once(':')
                        .ok_or_else(|| io::Error::other(format!("no field: {text}")))?;
                    head.fields.push((name.to_owned(), value.trim().to_owned()));
                }
            }
        }
    }

    /// Writes it with the empty line behind it.
    ///
    /// # Errors
    /// The stream fails.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let fields: String = self
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        to.write_all(format!("{}\r\n{fields}\r\n", self.line).as_bytes())
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) {
        self.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    /// Of a request: path and query.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// Of a reply: its status.
    pub fn status(&self) -> Option<u16> {
        self.line.split(' ').nth(1)?.parse().ok()
    }

    /// How long its body is. A request that says nothing has none, a reply that says nothing lasts as long as the connection.
    pub fn framing(&self) -> Framing {
        let length = self.field("content-length").and_then(|value| value.parse().ok());
        let is_chunked = self
            .field("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        match length {
            _ if is_chunked => Framing::Chunked,
            Some(length) => Framing::Length(length),
            None if self.line.starts_with("HTTP/") && !matches!(self.status(), Some(204 | 304)) => Framing::UntilEnd,
            None => Framing::Length(0),
        }
    }
}

/// The body of a message, without the marks of its chunks.
#[derive(Debug)]
pub struct Body<R> {
    from: R,
    framing: Framing,
    /// Bytes of the body or of the present chunk that are still to come.
    left: u64,
    is_over: bool,
    /// A line about a chunk as far as it has come: a read that timed out inside it goes on there.
    line: String,
}

impl<R: BufRead> Body<R> {
    /// The body that comes next in `from`.
    pub fn new(from: R, framing: Framing) -> Self {
        let (left, is_over) = match framing {
            Framing::Length(length) => (length, length == 0),
            Framing::Chunked => (0, false),
            Framing::UntilEnd => (u64::MAX, false),
        };
        Self {
            from,
            framing,
            left,
            is_over,
            line: String::new(),
        }
    }

    /// One line about a chunk, without its end.
    fn chunk_line(&mut self) -> io::Result<String> {
        if self.from.read_line(&mut self.line)? == 0 || !self.line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(std::mem::take(&mut self.line).trim_end().to_owned())
    }

    /// The length of the next chunk. The line that ends the chunk before it is empty.
    fn begin_chunk(&mut self) -> io::Result<()> {
        let mut line = self.chunk_line()?;
        while line.is_empty() {
            line = self.chunk_line()?;
        }
        let digits = line.split(';').next().unwrap_or_default();
        self.left = u64::from_str_radix(digits, 16).map_err(|_| io::Error::other(format!("no chunk: {line}")))?;
        Ok(())
    }
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.is_over || room.is_empty() {
            return Ok(0);
        }
        if self.framing == Framing::Chunked && self.left == 0 {
            self.begin_chunk()?;
            if self.left == 0 {
                self.is_over = true;
                // Trailers are not sent; the empty line is all that follows.
                return self.chunk_line().map(|_| 0);
            }
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(room.len());
        let len = self.from.read(&mut room[..most])?;
        if len == 0 && self.framing != Framing::UntilEnd {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= len as u64;
        self.is_over = len == 0 || (self.left == 0 && matches!(self.framing, Framing::Length(_)));
        Ok(len)
    }
}

/// Writes one chunk; an empty one ends the body.
///
/// # Errors
/// The stream fails.
pub fn write_chunk(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    to.write_all(&chunk)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, framing: Framing, body: Result<&str, ()>) {
        let mut from = message.as_bytes();
        let head = Head::read(&mut from).unwrap().unwrap();
        assert_eq!(head.framing(), framing, "{message}");
        let mut text = String::new();
        let read = Body::new(&mut from, framing).read_to_string(&mut text);
        assert_eq!(read.map(|_| text.as_str()).map_err(drop), body, "{message}");
    }

    #[test]
    fn bodies() {
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd",
            Framing::Length(3),
            Ok("abc"),
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
            Framing::Length(3),
            Err(()),
        );
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\nrest",
            Framing::Chunked,
            Ok("abc0123456789"),
        );
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            Framing::Chunked,
            Err(()),
        );
        check("HTTP/1.1 200 OK\r\n\r\nabc", Framing::UntilEnd, Ok("abc"));
        check("HTTP/1.1 204 No Content\r\n\r\n", Framing::Length(0), Ok(""));
        check("GET /api HTTP/1.1\r\nHost: x\r\n\r\nGET", Framing::Length(0), Ok(""));
    }

    #[test]
    fn heads() {
        let text = "GET /api?watch=1 HTTP/1.1\r\nHost: x:1\r\n\r\n";
        let mut head = Head::read(&mut text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.target(), head.field("host")), ("/api?watch=1", Some("x:1")));
        let mut written = Vec::new();
        head.write(&mut written).unwrap();
        assert_eq!(written, text.as_bytes());
        head.remove("HOST");
        assert_eq!(head.fields, []);
        assert_eq!(Head::read(&mut &b""[..]).unwrap(), None);
        assert!(Head::read(&mut &b"GET / HTTP/1.1\r\nHost"[..]).is_err());
    }
}
