//! What a port takes to receive 64 datagrams and send 64 replies, the kernel's part included, the clients' not.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nodens_engine::io::{
    BATCH_MAX, Counters, Datagram, Handler, ListenerId, ListenerSockets, Port, PortKind, StreamEvent, UpstreamDatagram,
    Waker, bind_udp, open, probe_uring,
};

/// As long as a usual query.
const QUERY_LEN: usize = 48;

struct Echo {
    served: usize,
}

impl Handler for Echo {
    fn datagrams(&mut self, batch: &mut [Datagram<'_>]) {
        self.served += batch.len();
        for datagram in batch {
            datagram.reply[..datagram.query.len()].copy_from_slice(datagram.query);
            datagram.reply_len = datagram.query.len();
        }
    }

    fn stream(&mut self, _: StreamEvent<'_>) {}

    fn upstream(&mut self, _: UpstreamDatagram<'_>) -> bool {
        false
    }
}

fn echo(c: &mut Criterion, name: &str, kind: PortKind, bound: &str) {
    let socket = bind_udp(bound.parse().expect("an address")).expect("a free port");
    let to = socket
        .local_addr()
        .ok()
        .and_then(|address| address.as_socket())
        .expect("an address");
    let sockets = ListenerSockets {
        listener: ListenerId(0),
        udp: Some(socket),
        tcp: None,
    };
    let waker = Waker::new().expect("a descriptor");
    let mut port = open(kind, vec![sockets], &waker, &Arc::new(Counters::new())).expect("a port");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client
        .connect(SocketAddr::from(([127, 0, 0, 1], to.port())))
        .expect("loopback is there");
    let mut group = c.benchmark_group("port");
    group.throughput(Throughput::Elements(BATCH_MAX as u64));
    group.bench_function(format!("{name}/echo{BATCH_MAX}"), |b| {
        b.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            let mut buffer = [0; QUERY_LEN];
            for _ in 0..rounds {
                for _ in 0..BATCH_MAX {
                    client.send(&[0; QUERY_LEN]).expect("the server is there");
                }
                let mut echo = Echo { served: 0 };
                let start = Instant::now();
                while echo.served < BATCH_MAX {
                    port.wait(None).expect("a port goes on");
                    port.serve(&mut echo).expect("a port goes on");
                }
                spent += start.elapsed();
                for _ in 0..BATCH_MAX {
                    client.recv(&mut buffer).expect("all are answered");
                }
            }
            spent
        });
    });
}

fn ports(c: &mut Criterion) {
    echo(c, "mmsg", PortKind::Mmsg, "127.0.0.1:0");
    echo(c, "mmsg-wildcard", PortKind::Mmsg, "[::]:0");
    match probe_uring() {
        Ok(()) => {
            echo(c, "uring", PortKind::Uring, "127.0.0.1:0");
            echo(c, "uring-wildcard", PortKind::Uring, "[::]:0");
        }
        Err(denied) => println!("skipped: {denied}"),
    }
}

criterion_group!(benches, ports);
criterion_main!(benches);
