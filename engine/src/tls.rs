//! TLS between the bytes of a stream and the messages in it, without the stream (RFC 7858): a server's side and a
//! client's.
//!
//! ```text
//!   bytes of a read ── open ──> messages ── answers ── seal ──> bytes of one write
//!                        └───── handshake, alerts ─────────────────^
//! ```
//!
//! rustls is a state machine as everything here is. It draws its keys from the kernel's randomness, since nobody may
//! foresee them, and asks the configuration for the time when it looks at tickets and certificates.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};

/// Bytes of the other side that are kept because their record or handshake message is not whole: the longest record, which a
/// client's certificates must fit in too.
pub const SEALED_LEN_MAX: usize = 5 + 16_384 + 2_048;
/// What a record adds to its contents, at most.
const RECORD_EXTRA: usize = 64;
const RECORD_LEN_MAX: usize = 16_384;
/// The first byte of a client that speaks TLS (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;

/// What the connections of a listener begin with. Another may take its place, for those that come later.
#[derive(Debug)]
pub struct TlsSettings {
    current: ArcSwap<ServerConfig>,
}

impl TlsSettings {
    /// Certificate, key and what clients have to show.
    #[must_use]
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self {
            current: ArcSwap::new(config),
        }
    }

    /// Connections that are open stay with what they began with.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        self.current.store(config);
    }
}

/// The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlsBroken;

/// What a connection broke with, where rustls's own words need to be known.
pub(crate) fn words(error: &rustls::Error) -> String {
    let text = error.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return "invalid peer certificate: it is an authority's own (CA:TRUE), and has to be one that an authority signed".to_owned();
    }
    text
}

/// Whether the other side may still say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Talk {
    GoesOn,
    HasEnded,
}

/// One side of a connection, as far as rustls tells them apart.
pub(crate) trait Side {
    type Data;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn is_handshaking(&self) -> bool;
    fn wants_write(&self) -> bool;
}

macro_rules! side {
    ($connection:ty, $data:ty) => {
        impl Side for $connection {
            type Data = $data;

            fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, $data> {
                self.process_tls_records(bytes)
            }

            fn is_handshaking(&self) -> bool {
                (**self).is_handshaking()
            }

            fn wants_write(&self) -> bool {
                (**self).wants_write()
            }
        }
    };
}

side!(UnbufferedServerConnection, ServerConnectionData);
side!(UnbufferedClientConnection, ClientConnectionData);

/// One connection.
pub(crate) struct Session<C> {
    connection: C,
    /// Came, and is no whole record or handshake message yet.
    sealed: Vec<u8>,
    /// What it broke with.
    error: Option<rustls::Error>,
}

/// A client's connection to us.
pub(crate) struct Tls {
    session: Session<UnbufferedServerConnection>,
    has_begun: bool,
}

/// Our connection to a server.
pub(crate) type TlsClient = Session<UnbufferedClientConnection>;

impl<C> fmt::Debug for Session<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("sealed", &self.sealed.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// What is to leave once the connection is free to say it.
enum Say<'a> {
    Nothing,
    Messages(&'a [u8]),
    Goodbye,
}

impl Tls {
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, TlsBroken> {
        let config = settings.current.load_full();
        let connection = UnbufferedServerConnection::new(config).map_err(|_| TlsBroken)?;
        Ok(Self {
            session: Session::of(connection),
            has_begun: false,
        })
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// The client has sent something, and the handshake has not come to its end.
    pub(crate) fn is_half_way(&self) -> bool {
        self.has_begun && self.is_handshaking()
    }

    /// As [`Session::open`].
    pub(crate) fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<Talk, TlsBroken> {
        if !self.has_begun {
            match bytes.first() {
                None => {}
                Some(&HANDSHAKE) => self.has_begun = true,
                // Whoever asks in the clear would take an alert for the answer.
                Some(_) => {
                    self.has_begun = true;
                    return Err(TlsBroken);
                }
            }
        }
        self.session.open(bytes, plain, out)
    }

    /// As [`Session::seal`].
    pub(crate) fn seal(&mut self, answers: &[u8], out: &mut Vec<u8>) -> Result<(), TlsBroken> {
        self.session.seal(answers, out)
    }

    /// As [`Session::end`].
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), TlsBroken> {
        self.session.end(out)
    }
}

impl TlsClient {
    /// Begins a connection to the server of this name.
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        UnbufferedClientConnection::new(config, name).map(Self::of)
    }
}

impl<C: Side> Session<C> {
    fn of(connection: C) -> Self {
        Self {
            connection,
            sealed: Vec::new(),
            error: None,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// What it broke with, if rustls knows.
    pub(crate) fn error(&self) -> Option<&rustls::Error> {
        self.error.as_ref()
    }

    /// Takes in what came. The messages, or parts of them, go behind `plain`; what the other side has to be told goes
    /// behind `out`, also where the connection broke: an alert that says why.
    pub(crate) fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<Talk, TlsBroken> {
        self.sealed.extend_from_slice(bytes);
        let peer = self.advance(&Say::Nothing, plain, out)?;
        if self.sealed.is_empty() {
            // Most of the time a connection has nothing left over, so the memory goes back.
            self.sealed = Vec::new();
        }
        if self.sealed.len() > SEALED_LEN_MAX {
            return Err(TlsBroken);
        }
        Ok(peer)
    }

    /// Puts messages into records behind `out`.
    pub(crate) fn seal(&mut self, messages: &[u8], out: &mut Vec<u8>) -> Result<(), TlsBroken> {
        if messages.is_empty() {
            return Ok(());
        }
        let nothing = &mut Vec::new();
        self.advance(&Say::Messages(messages), nothing, out).map(drop)
    }

    /// The other side is told that nothing else will come: an end without this could be somebody else's.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), TlsBroken> {
        let nothing = &mut Vec::new();
        self.advance(&Say::Goodbye, nothing, out).map(drop)
    }

    fn advance(&mut self, say: &Say<'_>, plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<Talk, TlsBroken> {
        let mut peer = Talk::GoesOn;
        let mut at = 0;
        let result = loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process(&mut self.sealed[at..]);
            let mut is_done = false;
            let step = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                    match traffic.next_record() {
                        None => break Ok(()),
                        Some(Ok(record)) => {
                            discard += record.discard;
                            plain.extend_from_slice(record.payload);
                        }
                        Some(Err(_)) => break Err(TlsBroken),
                    }
                },
                Ok(ConnectionState::EncodeTlsData(mut data)) => append(out, RECORD_LEN_MAX, |room| {
                    data.encode(room).map_err(|error| match error {
                        EncodeError::InsufficientSize(error) => Some(error),
                        EncodeError::AlreadyEncoded => None,
                    })
                }),
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Ok(())
                }
                Ok(ConnectionState::PeerClosed) => {
                    peer = Talk::HasEnded;
                    Ok(())
                }
                Ok(ConnectionState::Closed) => {
                    peer = Talk::HasEnded;
                    is_done = true;
                    Ok(())
                }
                Ok(ConnectionState::BlockedHandshake) => {
                    is_done = true;
                    Ok(())
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    is_done = true;
                    let too_small = |error| match error {
                        EncryptError::InsufficientSize(error) => Some(error),
                        EncryptError::EncryptExhausted => None,
                    };
                    match say {
                        Say::Nothing => Ok(()),
                        Say::Messages(bytes) => {
                            let len = bytes.len() + (bytes.len() / RECORD_LEN_MAX + 1) * RECORD_EXTRA;
                            append(out, len, |room| traffic.encrypt(bytes, room).map_err(too_small))
                        }
                        Say::Goodbye => append(out, RECORD_EXTRA, |room| {
                            traffic.queue_close_notify(room).map_err(too_small)
                        }),
                    }
                }
                // Early data are never offered; a state that is not known today cannot be gone on from.
                Ok(_) => Err(TlsBroken),
                Err(error) => {
                    self.error = Some(error);
                    self.alert(at + discard, out);
                    Err(TlsBroken)
                }
            };
            at += discard;
            if step.is_err() || is_done {
                break step;
            }
        };
        self.sealed.drain(..at);
        result.map(|()| peer)
    }

    /// After an error rustls has an alert for the other side. The bytes that were the error must not be looked at again.
    fn alert(&mut self, at: usize, out: &mut Vec<u8>) {
        while self.connection.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) = self.connection.process(&mut self.sealed[at..]).state
        {
            let told = append(out, RECORD_EXTRA, |room| {
                data.encode(room).map_err(|error| match error {
                    EncodeError::InsufficientSize(error) => Some(error),
                    EncodeError::AlreadyEncoded => None,
                })
            });
            if told.is_err() {
                return;
            }
        }
    }
}

/// Lets `write` fill room behind `out`, `len` bytes or as many more as it says it needs.
fn append(
    out: &mut Vec<u8>,
    mut len: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Result<(), TlsBroken> {
    let start = out.len();
    loop {
        out.resize(start + len, 0);
        match write(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(Some(InsufficientSizeError { required_size })) if required_size > len => len = required_size,
            Err(_) => {
                out.truncate(start);
                return Err(TlsBroken);
            }
        }
    }
}
