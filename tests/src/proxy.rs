//! A TCP proxy in front of a server, with the faults of a network: silence, and refusal.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often threads look at the mode.
const TICK: Duration = Duration::from_millis(5);

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Passes on all bytes.
    Open = 0,
    /// Nothing passes and nothing ends, as when packets are lost; what was sent arrives when it is open again.
    Silent = 1,
    /// Present connections are cut, new ones are refused.
    Refuse = 2,
    /// The proxy is over.
    Gone = 3,
}

#[derive(Debug)]
struct Shared {
    mode: AtomicU8,
    connections: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn is(&self, mode: Mode) -> bool {
        self.mode.load(Ordering::SeqCst) == mode as u8
    }
}

/// A proxy on a port of its own.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on `port` and connects to loopback port `target`.
    ///
    /// # Errors
    /// The port is taken.
    pub fn start(port: u16, target: u16) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            mode: AtomicU8::new(Mode::Open as u8),
            connections: Mutex::default(),
        });
        let listener = listen(port)?;
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(listener, port, target, &shared)
        });
        Ok(Self {
            port,
            shared,
            thread: Some(thread),
        })
    }

    /// The URL of an etcd behind it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Changes what it does, from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.store(mode as u8, Ordering::SeqCst);
        if matches!(mode, Mode::Refuse | Mode::Gone) {
            for stream in self
                .shared
                .connections
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
            {
                // It may have ended by itself.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Mode::Gone);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(listener: TcpListener, port: u16, target: u16, shared: &Arc<Shared>) {
    let mut listener = Some(listener);
    while !shared.is(Mode::Gone) {
        if shared.is(Mode::Refuse) {
            listener = None;
        } else if listener.is_none() {
            listener = listen(port).ok();
        }
        if shared.is(Mode::Open)
            && let Some((client, _)) = listener.as_ref().and_then(|l| l.accept().ok())
            && let Ok(server) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, target)))
        {
            join(&client, &server, shared);
            continue;
        }
        thread::sleep(TICK);
    }
}

fn join(client: &TcpStream, server: &TcpStream, shared: &Arc<Shared>) {
    let clone = |stream: &TcpStream| stream.try_clone().ok();
    let mut known = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
    for (from, to) in [(client, server), (server, client)] {
        let (Some(from), Some(to)) = (clone(from), clone(to)) else {
            return;
        };
        let _ = from.set_nonblocking(false);
        let _ = from.set_read_timeout(Some(TICK));
        let _ = to.set_nodelay(true);
        known.extend(clone(&from));
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // Either side's end is the end of both.
            let _ = pass(&from, &to, &shared);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut room = vec![0; 65_536];
    loop {
        if shared.is(Mode::Silent) {
            thread::sleep(TICK);
            continue;
        }
        if !shared.is(Mode::Open) {
            return Ok(());
        }
        match from.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(len) => {
                // What came in before the silence leaves after it.
                while shared.is(Mode::Silent) {
                    thread::sleep(TICK);
                }
                to.write_all(&room[..len])?;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::free_port;

    #[test]
    fn open_silent_refused() {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free_port();
        let proxy = Proxy::start(port, target.local_addr().unwrap().port()).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (mut server, _) = target.accept().unwrap();
        let mut room = [0; 8];
        client.write_all(b"a").unwrap();
        assert_eq!(server.read(&mut room).unwrap(), 1);
        proxy.set(Mode::Silent);
        thread::sleep(TICK * 4);
        client.write_all(b"b").unwrap();
        server.set_read_timeout(Some(TICK * 20)).unwrap();
        assert!(server.read(&mut room).is_err());
        proxy.set(Mode::Open);
        server.set_read_timeout(None).unwrap();
        assert_eq!(server.read(&mut room).unwrap(), 1);
        proxy.set(Mode::Refuse);
        assert_eq!(client.read(&mut room).unwrap_or(0), 0);
        thread::sleep(TICK * 4);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        proxy.set(Mode::Open);
        thread::sleep(TICK * 10);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    }
}
