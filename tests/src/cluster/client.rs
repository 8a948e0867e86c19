//! A blocking client of an API server: HTTP/1.1 over TLS, connections used again, objects as JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};

use super::http::{Body, Framing, Head};
use crate::tls::TlsClient;

/// How long a reply may take.
const REPLY_WITHIN: Duration = Duration::from_secs(30);
/// Who owns what is applied.
const MANAGER: &str = "nodens-tests";
/// Kinds whose status is a resource of its own, written after the object.
const WITH_STATUS: [&str; 4] = ["Node", "Pod", "Service", "ServiceImport"];

type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// A watch that is under way.
pub struct Events {
    body: BufReader<Body<Connection>>,
}

impl Iterator for Events {
    type Item = std::io::Result<Value>;

    /// The next event; none where the server has ended the watch in order.
    fn next(&mut self) -> Option<Self::Item> {
        let mut line = String::new();
        match self.body.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).map_err(Into::into)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// What an API server calls objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Resource {
    kind: String,
    plural: String,
    is_namespaced: bool,
}

/// A client that has a token, or a certificate.
pub struct Client {
    tls: TlsClient,
    address: SocketAddr,
    token: Option<String>,
    idle: Mutex<Vec<Connection>>,
    /// By API version.
    resources: Mutex<BTreeMap<String, Vec<Resource>>>,
}

/// A status other than 2xx, or no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 0: no reply.
    pub status: u16,
    /// What the server says.
    pub message: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}: {}", self.status, self.message)
    }
}

impl std::error::Error for Refusal {}

fn no_reply(error: impl std::fmt::Display) -> Refusal {
    Refusal {
        status: 0,
        message: error.to_string(),
    }
}

impl Client {
    /// One that trusts `ca` and is known by its token or by `identity`, a certificate and its key.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn new(
        port: u16,
        ca: &Path,
        token: Option<&str>,
        identity: Option<(&Path, &Path)>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Self {
            tls: TlsClient::new(ca, identity, "127.0.0.1", None)?,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            token: token.map(str::to_owned),
            idle: Mutex::default(),
            resources: Mutex::default(),
        })
    }

    fn connect(&self) -> std::io::Result<Connection> {
        let socket = TcpStream::connect_timeout(&self.address, REPLY_WITHIN)?;
        socket.set_read_timeout(Some(REPLY_WITHIN))?;
        socket.set_nodelay(true)?;
        Ok(BufReader::new(self.tls.over(socket)))
    }

    /// The certificate that the server shows to a new connection.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn certificate_shown(&self) -> std::io::Result<CertificateDer<'static>> {
        let mut connection = self.connect()?;
        let stream = connection.get_mut();
        stream.conn.complete_io(&mut stream.sock)?;
        let shown = stream.conn.peer_certificates().and_then(|chain| chain.first());
        shown.cloned().ok_or_else(|| std::io::Error::other("no certificate"))
    }

    /// One request; its status and its body.
    ///
    /// # Errors
    /// No reply comes.
    pub fn request(
        &self,
        method: &str,
        target: &str,
        content_type: &str,
        body: &str,
    ) -> std::io::Result<(u16, String)> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut connection) = idle
            && let Ok(reply) = self.begin(&mut connection, method, target, content_type, body)
        {
            return self.finish(connection, &reply);
        }
        // Most likely the server has closed a connection that lay idle.
        let mut connection = self.connect()?;
        let reply = self.begin(&mut connection, method, target, content_type, body)?;
        self.finish(connection, &reply)
    }

    /// Reads the body of a reply, and keeps its connection.
    fn finish(&self, mut connection: Connection, reply: &Head) -> std::io::Result<(u16, String)> {
        let framing = reply.framing();
        if framing == Framing::UntilEnd {
            return Err(std::io::Error::other("a reply without a length"));
        }
        let mut text = String::new();
        Body::new(&mut connection, framing).read_to_string(&mut text)?;
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
        Ok((reply.status().unwrap_or_default(), text))
    }

    /// The head of the reply to one request.
    fn begin(
        &self,
        connection: &mut Connection,
        method: &str,
        target: &str,
        content_type: &str,
        body: &str,
    ) -> std::io::Result<Head> {
        let mut head = Head {
            line: format!("{method} {target} HTTP/1.1"),
            fields: vec![
                ("Host".to_owned(), self.address.to_string()),
                ("Accept".to_owned(), "application/json".to_owned()),
                ("Content-Length".to_owned(), body.len().to_string()),
            ],
        };
        if !body.is_empty() {
            head.fields.push(("Content-Type".to_owned(), content_type.to_owned()));
        }
        if let Some(token) = &self.token {
            head.fields
                .push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        let mut message = Vec::new();
        head.write(&mut message)?;
        message.extend_from_slice(body.as_bytes());
        connection.get_mut().write_all(&message)?;
        Head::read(connection)?.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }

    /// Watches what is at a path: its events as they come. Each must come within `patience`.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn watch(&self, target: &str, patience: Duration) -> std::io::Result<Events> {
        let mut connection = self.connect()?;
        let reply = self.begin(&mut connection, "GET", target, "", "")?;
        if reply.status() != Some(200) {
            return Err(std::io::Error::other(reply.line));
        }
        connection.get_ref().sock.set_read_timeout(Some(patience))?;
        let framing = reply.framing();
        Ok(Events {
            body: BufReader::new(Body::new(connection, framing)),
        })
    }

    /// One request, whose reply is an object.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn call(&self, method: &str, target: &str, content_type: &str, body: &Value) -> Result<Value, Refusal> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (status, text) = self.request(method, target, content_type, &body).map_err(no_reply)?;
        let reply: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if (200..300).contains(&status) {
            return Ok(reply);
        }
        let message = reply["message"].as_str().unwrap_or(&text).to_owned();
        Err(Refusal { status, message })
    }

    /// What is at a path.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn get(&self, target: &str) -> Result<Value, Refusal> {
        self.call("GET", target, "", &Value::Null)
    }

    /// Adds an object to a collection.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value, Refusal> {
        self.call("POST", collection, "application/json", object)
    }

    /// Makes an object be as it is here, its status too.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn apply(&self, object: &Value) -> Result<(), Refusal> {
        let path = self.path_of(object)?;
        let target = format!("{path}?fieldManager={MANAGER}&force=true");
        self.call("PATCH", &target, "application/apply-patch+yaml", object)?;
        let kind = object["kind"].as_str().unwrap_or_default();
        if !object["status"].is_null() && WITH_STATUS.contains(&kind) {
            let status = json!({ "status": object["status"] });
            self.merge(&format!("{path}/status"), &status)?;
        }
        Ok(())
    }

    /// Merges fields into what is at a path.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn merge(&self, path: &str, fields: &Value) -> Result<Value, Refusal> {
        self.call("PATCH", path, "application/merge-patch+json", fields)
    }

    /// Deletes what is at a path, if anything is, without a time of grace. Nothing in the cluster finishes a namespace, so this does.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn delete(&self, path: &str) -> Result<(), Refusal> {
        let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
        match self.call("DELETE", path, "application/json", &options) {
            Ok(_) => {}
            Err(refusal) if refusal.status == 404 => return Ok(()),
            Err(refusal) => return Err(refusal),
        }
        let Some(name) = path
            .strip_prefix("/api/v1/namespaces/")
            .filter(|rest| !rest.contains('/'))
        else {
            return Ok(());
        };
        let finished = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "spec": { "finalizers": [] }
        });
        self.call("PUT", &format!("{path}/finalize"), "application/json", &finished)
            .map(drop)
    }

    /// A token for a service account.
    ///
    /// # Errors
    /// It is refused, or no reply comes.
    pub fn token_for(&self, namespace: &str, account: &str) -> Result<String, Refusal> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 }
        });
        let reply = self.create(&path, &request)?;
        let token = reply["status"]["token"].as_str();
        token
            .map(str::to_owned)
            .ok_or_else(|| no_reply("a token request without a token"))
    }

    /// Where an object is.
    ///
    /// # Errors
    /// The server does not know its kind, or no reply comes.
    pub fn path_of(&self, object: &Value) -> Result<String, Refusal> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let resource = self.resource(&version, &kind)?;
        let root = root_of(&version);
        let name = text(&object["metadata"]["name"]);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        Ok(if resource.is_namespaced {
            format!("{root}/namespaces/{namespace}/{}/{name}", resource.plural)
        } else {
            format!("{root}/{}/{name}", resource.plural)
        })
    }

    fn resource(&self, version: &str, kind: &str) -> Result<Resource, Refusal> {
        let mut known = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = |list: &Vec<Resource>| list.iter().find(|resource| resource.kind == kind).cloned();
        if let Some(resource) = known.get(version).and_then(of_kind) {
            return Ok(resource);
        }
        let list = resources_in(&self.get(&root_of(version))?);
        let found = of_kind(&list).ok_or_else(|| no_reply(format!("{version} has no kind {kind}")));
        known.insert(version.to_owned(), list);
        found
    }
}

fn root_of(version: &str) -> String {
    match version {
        "v1" => "/api/v1".to_owned(),
        other => format!("/apis/{other}"),
    }
}

fn resources_in(list: &Value) -> Vec<Resource> {
    let entries = list["resources"].as_array().into_iter().flatten();
    entries
        .filter_map(|entry| {
            Some(Resource {
                kind: entry["kind"].as_str()?.to_owned(),
                plural: entry["name"].as_str().filter(|name| !name.contains('/'))?.to_owned(),
                is_namespaced: entry["namespaced"].as_bool()?,
            })
        })
        .collect()
}
