use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// They pass.
    Open,
    /// Connections are closed, and new ones at once.
    Cut,
    /// They vanish; connections stay, and new ones are accepted.
    Silent,
}

/// Passes bytes on to an etcd, or does not.
pub(crate) struct Proxy {
    pub(crate) endpoint: String,
    wire: watch::Sender<Wire>,
    pub(crate) accepted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let (wire, state) = watch::channel(Wire::Open);
        let accepted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(join(stream, target.clone(), state.clone()));
            }
        });
        Self {
            endpoint,
            wire,
            accepted,
            task,
        }
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn join(stream: TcpStream, target: String, state: watch::Receiver<Wire>) {
    if *state.borrow() == Wire::Cut {
        return;
    }
    let Ok(other) = TcpStream::connect(target).await else {
        return;
    };
    let (from_us, to_us) = stream.into_split();
    let (from_etcd, to_etcd) = other.into_split();
    tokio::select! {
        () = pass(from_us, to_etcd, state.clone()) => {}
        () = pass(from_etcd, to_us, state.clone()) => {}
    }
}

/// Bytes that came while the wire was silent are lost, so such a connection never speaks again.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<Wire>) {
    let mut buf = vec![0; 65_536];
    let mut lost = false;
    loop {
        let wire = *state.borrow_and_update();
        lost |= wire == Wire::Silent;
        if wire == Wire::Cut {
            return;
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            read = from.read(&mut buf) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) if lost => {}
                Ok(n) => if to.write_all(&buf[..n]).await.is_err() { return },
            },
        }
    }
}
