//! Lists and watches over plain HTTP, as an API server has them, and a client that reads all of it and keeps nothing.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nodens_tests::cluster::http::{Body, Head, write_chunk};

use super::Kind;
use super::store::{News, Store};

/// How much of a list is one chunk.
const CHUNK: usize = 65_536;
/// How often a quiet watch says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts that does not say.
const WATCH_SECS: u64 = 1_800;
/// Says that the objects that were there when a watch began have all been sent.
const INITIAL_END: &str = r#""annotations":{"k8s.io/initial-events-end":"true"},"#;

/// Answers on connections to a listener, each in a thread of its own, for as long as the process lives.
pub fn serve(listener: TcpListener, store: Arc<Store>) {
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let store = Arc::clone(&store);
            // A client that leaves ends its thread.
            thread::spawn(move || answer_all(socket, &store));
        }
    });
}

fn answer_all(socket: TcpStream, store: &Store) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut from = BufReader::new(socket.try_clone()?);
    let mut to = socket;
    while let Some(request) = Head::read(&mut from)? {
        io::copy(&mut Body::new(&mut from, request.framing()), &mut io::sink())?;
        let (path, query) = request
            .target()
            .split_once('?')
            .unwrap_or_else(|| (request.target(), ""));
        let query = Query(query);
        match Kind::ALL.into_iter().find(|kind| kind.path() == path) {
            Some(kind) if matches!(query.value("watch"), Some("1" | "true")) => watch(&mut to, store, kind, &query)?,
            Some(kind) => list(&mut to, store, kind, &query)?,
            None if matches!(path, "/readyz" | "/livez" | "/healthz") => whole(&mut to, "200 OK", "text/plain", "ok")?,
            None if path == "/version" => {
                let version = r#"{"major":"1","minor":"37","gitVersion":"v1.37.0","platform":"linux/amd64"}"#;
                whole(&mut to, "200 OK", JSON, version)?;
            }
            None => whole(&mut to, "404 Not Found", JSON, &status(404, "NotFound"))?,
        }
    }
    Ok(())
}

const JSON: &str = "application/json";

/// The part of a target behind the question mark. What is asked for here needs no escapes.
struct Query<'q>(&'q str);

impl<'q> Query<'q> {
    fn value(&self, name: &str) -> Option<&'q str> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }
}

fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{reason}","reason":"{reason}","code":{code}}}"#
    )
}

fn whole(to: &mut TcpStream, line: &str, content_type: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {line}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    to.write_all(head.as_bytes())
}

fn begin_chunks(to: &mut TcpStream) -> io::Result<()> {
    to.write_all(format!("HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes())
}

/// A page; `continue` says of which version it is and which object comes next.
fn list(to: &mut TcpStream, store: &Store, kind: Kind, query: &Query<'_>) -> io::Result<()> {
    let limit = query.number("limit").filter(|&limit| limit > 0);
    let (objects, version, from) = match query.value("continue").filter(|token| !token.is_empty()) {
        None => {
            let (objects, version) = store.snapshot(kind);
            (objects, version, 0)
        }
        Some(token) => {
            let parts = token.split_once('-');
            let place = parts.and_then(|(version, from)| Some((version.parse().ok()?, from.parse::<usize>().ok()?)));
            let found = place.and_then(|(version, from)| Some((store.snapshot_of(kind, version)?, version, from)));
            let Some(found) = found else {
                return whole(to, "410 Gone", JSON, &status(410, "Expired"));
            };
            found
        }
    };
    let rest = objects.get(from..).unwrap_or_default();
    let len = limit.map_or(rest.len(), |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX).min(rest.len())
    });
    let mut text = format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{version}""#,
        kind.name(),
        kind.api()
    );
    if len < rest.len() {
        text += &format!(
            r#","continue":"{version}-{}","remainingItemCount":{}"#,
            from + len,
            rest.len() - len
        );
    }
    text += r#"},"items":["#;
    begin_chunks(to)?;
    for (at, object) in rest[..len].iter().enumerate() {
        text += if at == 0 { "{" } else { ",{" };
        text += object;
        if text.len() >= CHUNK {
            write_chunk(to, text.as_bytes())?;
            text.clear();
        }
    }
    text += "]}\n";
    write_chunk(to, text.as_bytes())?;
    write_chunk(to, b"")
}

fn bookmark(kind: Kind, version: u64, annotations: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"{}","apiVersion":"{}","metadata":{{{annotations}"resourceVersion":"{version}","creationTimestamp":null}}}}}}"#,
        kind.name(),
        kind.api()
    ) + "\n"
}

fn watch(to: &mut TcpStream, store: &Store, kind: Kind, query: &Query<'_>) -> io::Result<()> {
    let end = Instant::now() + Duration::from_secs(query.number("timeoutSeconds").unwrap_or(WATCH_SECS));
    begin_chunks(to)?;
    let mut after = query.number("resourceVersion").unwrap_or_default();
    if query.value("sendInitialEvents") == Some("true") || after == 0 {
        after = send_all(to, store, kind, query)?;
    }
    let mut bookmark_at = Instant::now() + BOOKMARK_EVERY;
    loop {
        let now = Instant::now();
        if now >= end {
            return write_chunk(to, b"");
        }
        match store.news(kind, after, bookmark_at.min(end).saturating_duration_since(now)) {
            News::TooOld => {
                let error = format!(r#"{{"type":"ERROR","object":{}}}"#, status(410, "Expired")) + "\n";
                write_chunk(to, error.as_bytes())?;
                return write_chunk(to, b"");
            }
            News::Events(lines, version) => {
                after = version;
                if !lines.is_empty() {
                    write_chunk(to, lines.concat().as_bytes())?;
                }
            }
        }
        if Instant::now() >= bookmark_at {
            bookmark_at += BOOKMARK_EVERY;
            write_chunk(to, bookmark(kind, after, "").as_bytes())?;
        }
    }
}

/// All that is there, as events; its version.
fn send_all(to: &mut TcpStream, store: &Store, kind: Kind, query: &Query<'_>) -> io::Result<u64> {
    let (objects, version) = store.snapshot(kind);
    let mut text = String::new();
    for object in objects.iter() {
        text += &format!(r#"{{"type":"ADDED","object":{{{}}}"#, kind.whole(object));
        text.push('\n');
        if text.len() >= CHUNK {
            write_chunk(to, text.as_bytes())?;
            text.clear();
        }
    }
    if query.value("allowWatchBookmarks") == Some("true") {
        text += &bookmark(kind, version, INITIAL_END);
    }
    if !text.is_empty() {
        write_chunk(to, text.as_bytes())?;
    }
    Ok(version)
}

/// Watches one kind at `HOST:PORT`, from all that is there on, and forgets it, until the server ends it; how many bytes came.
///
/// # Errors
/// There is no server, or it breaks off.
pub fn drain(server: &str, kind: Kind) -> io::Result<u64> {
    let mut to = TcpStream::connect(server)?;
    let target = format!(
        "{}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true",
        kind.path()
    );
    to.write_all(format!("GET {target} HTTP/1.1\r\nHost: {server}\r\n\r\n").as_bytes())?;
    let mut from = BufReader::with_capacity(CHUNK, to);
    let reply = Head::read(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut body = Body::new(&mut from, reply.framing());
    let (mut room, mut count) = (vec![0; CHUNK], 0);
    loop {
        match body.read(&mut room)? {
            0 => return Ok(count),
            len => count += len as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Shape;
    use serde_json::Value;

    const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

    fn started() -> (String, Arc<Store>) {
        let shape = Shape {
            namespaces: 2,
            services: 5,
            endpoints: 2,
            headless_every: 2,
            pods: 10,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let store = Arc::new(Store::new(shape));
        serve(listener, Arc::clone(&store));
        (server, store)
    }

    fn get(server: &str, target: &str) -> (u16, String) {
        let mut to = TcpStream::connect(server).unwrap();
        to.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .unwrap();
        let mut from = BufReader::new(to);
        let reply = Head::read(&mut from).unwrap().unwrap();
        let mut text = String::new();
        Body::new(&mut from, reply.framing()).read_to_string(&mut text).unwrap();
        (reply.status().unwrap(), text)
    }

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn pages_are_of_one_version() {
        let (server, store) = started();
        let first = json(&get(&server, &format!("{SLICES}?limit=3")).1);
        store.change_endpoint(4);
        let token = first["metadata"]["continue"].as_str().unwrap();
        let second = json(&get(&server, &format!("{SLICES}?limit=3&continue={token}")).1);
        assert_eq!(first["metadata"]["remainingItemCount"], 2);
        assert_eq!(
            first["metadata"]["resourceVersion"],
            second["metadata"]["resourceVersion"]
        );
        assert_eq!(second["metadata"]["continue"], Value::Null);
        let count = |page: &Value| page["items"].as_array().unwrap().len();
        assert_eq!((count(&first), count(&second)), (3, 2));
        assert_eq!(get(&server, &format!("{SLICES}?limit=3&continue=1-3")).0, 410);
        assert_eq!(get(&server, "/api/v1/nodes").0, 404);
    }

    #[test]
    fn watches_begin_with_all_or_behind_a_version() {
        let (server, store) = started();
        store.change_endpoint(0);
        let all = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1";
        let (status, text) = get(&server, &format!("{SLICES}?{all}"));
        let events: Vec<Value> = text.lines().map(json).collect();
        let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(
            (status, &types[..]),
            (200, &["ADDED", "ADDED", "ADDED", "ADDED", "ADDED", "BOOKMARK"][..])
        );
        let bookmark = &events[5]["object"]["metadata"];
        assert_eq!(bookmark["annotations"]["k8s.io/initial-events-end"], "true");
        let version: u64 = bookmark["resourceVersion"].as_str().unwrap().parse().unwrap();

        let from = |version: u64| {
            get(
                &server,
                &format!("{SLICES}?watch=true&resourceVersion={version}&timeoutSeconds=1"),
            )
            .1
        };
        assert_eq!(json(&from(version - 1))["object"]["metadata"]["name"], "svc-000000");
        assert_eq!(from(version), "");
        assert_eq!(json(&from(1))["object"]["code"], 410);
    }
}
