//! What became of a socket to another server, in the words that logs of DNS servers are searched for.

use std::{fmt, io};

use rustix::io::Errno;

/// Why the kernel refused or ended a socket of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketError {
    /// Nobody listens there.
    Refused,
    /// The other end broke it off.
    Reset,
    /// No way leads to its network.
    NetworkUnreachable,
    /// No way leads to the host.
    HostUnreachable,
    /// The kernel has given up.
    TimedOut,
    /// The address that it was to come from is none of this host's.
    NoSuchAddress,
    /// Something on this host does not allow it.
    NotPermitted,
    /// No file descriptor, port or memory is left: it is not the other server's fault.
    Exhausted,
    /// Something else, by the kernel's number.
    Other(i32),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::NetworkUnreachable => "network is unreachable",
            Self::HostUnreachable => "no route to host",
            Self::TimedOut => "connection timed out",
            Self::NoSuchAddress => "cannot assign requested address",
            Self::NotPermitted => "operation not permitted",
            Self::Exhausted => "too many open files",
            Self::Other(number) => return write!(f, "errno {number}"),
        })
    }
}

impl From<Errno> for SocketError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::CONNRESET | Errno::PIPE => Self::Reset,
            Errno::NETUNREACH => Self::NetworkUnreachable,
            Errno::HOSTUNREACH => Self::HostUnreachable,
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::ADDRNOTAVAIL => Self::NoSuchAddress,
            Errno::PERM | Errno::ACCESS => Self::NotPermitted,
            // A port that cannot be had says AGAIN.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN => Self::Exhausted,
            other => Self::Other(other.raw_os_error()),
        }
    }
}

impl From<&io::Error> for SocketError {
    fn from(error: &io::Error) -> Self {
        Errno::from_io_error(error).map_or(Self::Other(0), Self::from)
    }
}
