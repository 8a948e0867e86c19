//! Why a question brought no reply, in the words that operators match on.

use std::fmt;
use std::net::SocketAddr;

use nodens_wire::{Rcode, edns};

use super::{BUDGET, Proto};
use crate::io::SocketError;

/// Why a question brought no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The stanza has as many in flight as it may.
    Concurrent {
        /// So many.
        max: usize,
    },
    /// The worker has as many in flight as it can.
    Crowded,
    /// The client's question was given up, after the time of its block's `cancel`.
    Cancelled,
    /// What was asked before for the same query took all the time that a query has.
    Overdue,
    /// All upstreams are down, and none was tried.
    NoHealthy,
    /// The last attempt.
    Attempt {
        /// Whom it asked.
        to: SocketAddr,
        /// By what.
        proto: Proto,
        /// How it ended.
        how: Failure,
    },
}

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Without a reply in time.
    TimedOut,
    /// The connection did not stand in time.
    DialTimedOut,
    /// There was no socket.
    Dial(SocketError),
    /// The socket failed.
    Read(SocketError),
    /// The other end closed the connection.
    Ended,
    /// TLS was not agreed on, or broke.
    Tls(Box<str>),
    /// The reply does not decode.
    Undecodable,
}

impl Failure {
    /// Nothing was heard for as long as one waits.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::TimedOut | Self::DialTimedOut)
    }

    /// It failed on this side, which says nothing about the upstream.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Dial(SocketError::Exhausted | SocketError::NoSuchAddress))
    }
}

impl Failed {
    /// What the client is told.
    #[must_use]
    pub fn rcode(&self) -> Rcode {
        match self {
            Self::Concurrent { .. } => Rcode::REFUSED,
            Self::Crowded | Self::Cancelled | Self::Overdue | Self::NoHealthy | Self::Attempt { .. } => Rcode::SERVFAIL,
        }
    }

    /// The extended error that fits, if one does.
    #[must_use]
    pub fn ede(&self) -> Option<u16> {
        match self {
            Self::Concurrent { .. } | Self::Crowded => None,
            Self::Cancelled | Self::Overdue | Self::NoHealthy => Some(edns::ede::NO_REACHABLE_AUTHORITY),
            Self::Attempt { how, .. } => Some(match how {
                how if how.is_silence() => edns::ede::NO_REACHABLE_AUTHORITY,
                _ => edns::ede::NETWORK_ERROR,
            }),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (to, proto, how) = match self {
            Self::Concurrent { max } => return write!(f, "concurrent queries exceeded maximum {max}"),
            Self::Crowded => return f.write_str("too many queries in flight"),
            Self::Cancelled => return f.write_str("no reply in the time that `cancel` gives"),
            Self::Overdue => return write!(f, "no time left after {BUDGET:?} of waiting for what led here"),
            Self::NoHealthy => return f.write_str("no healthy proxies"),
            Self::Attempt { to, proto, how } => (to, proto, how),
        };
        let net = match proto {
            Proto::Udp => "udp",
            Proto::Tcp | Proto::TcpTls => "tcp",
        };
        match how {
            Failure::TimedOut => write!(f, "read {net} ->{to}: i/o timeout"),
            Failure::DialTimedOut => write!(f, "dial {net} {to}: i/o timeout"),
            Failure::Dial(error @ SocketError::Exhausted) => write!(f, "dial {net} {to}: socket: {error}"),
            Failure::Dial(error) => write!(f, "dial {net} {to}: connect: {error}"),
            Failure::Read(error) => write!(f, "read {net} ->{to}: read: {error}"),
            Failure::Ended => write!(f, "read {net} ->{to}: EOF"),
            Failure::Tls(error) => write!(f, "dial {net} {to}: tls: {error}"),
            Failure::Undecodable => write!(f, "read {net} ->{to}: the reply does not decode"),
        }
    }
}

impl std::error::Error for Failed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_are_searched_for() {
        let check = |proto, how, expected: &str| {
            let to = "192.0.2.1:53".parse().unwrap();
            assert_eq!(Failed::Attempt { to, proto, how }.to_string(), expected);
        };
        check(Proto::Udp, Failure::TimedOut, "read udp ->192.0.2.1:53: i/o timeout");
        check(Proto::Tcp, Failure::TimedOut, "read tcp ->192.0.2.1:53: i/o timeout");
        check(
            Proto::TcpTls,
            Failure::DialTimedOut,
            "dial tcp 192.0.2.1:53: i/o timeout",
        );
        check(
            Proto::Udp,
            Failure::Read(SocketError::Refused),
            "read udp ->192.0.2.1:53: read: connection refused",
        );
        check(
            Proto::Tcp,
            Failure::Dial(SocketError::Refused),
            "dial tcp 192.0.2.1:53: connect: connection refused",
        );
        assert_eq!(
            Failed::Concurrent { max: 5 }.to_string(),
            "concurrent queries exceeded maximum 5"
        );
        assert_eq!(Failed::NoHealthy.to_string(), "no healthy proxies");
    }

    #[test]
    fn what_the_client_is_told() {
        let attempt = |how| Failed::Attempt {
            to: "[2001:db8::1]:53".parse().unwrap(),
            proto: Proto::Udp,
            how,
        };
        assert_eq!(Failed::Concurrent { max: 1 }.rcode(), Rcode::REFUSED);
        assert_eq!(attempt(Failure::TimedOut).rcode(), Rcode::SERVFAIL);
        assert_eq!(attempt(Failure::TimedOut).ede(), Some(22));
        assert_eq!(Failed::NoHealthy.ede(), Some(22));
        assert_eq!(attempt(Failure::Read(SocketError::Refused)).ede(), Some(23));
        assert_eq!(Failed::Crowded.ede(), None);
    }
}
