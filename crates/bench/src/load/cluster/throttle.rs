//! Throttle: a proxy between a node and NATS that can slow down the node's messages with other nodes.
//!
//! Owns        its listener, and two threads for each connection.
//! Invariants  only the connection with messages between nodes is slow, in both directions. That of the leases is not:
//!             a node that loses its lease leaves the cluster, and then there is no slow link any more.
//! Limits      chunks of `CHUNK_BYTES`; `BUFFER_BYTES` of each socket's receive buffer, so that NATS notices.

use anyhow::{Context as _, Result};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt::set_socket_recv_buffer_size};
use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

const CHUNK_BYTES: usize = 4 << 10;
const BUFFER_BYTES: usize = 16 << 10;
/// How often a slow connection looks whether it is still slow.
const LOOK: Duration = Duration::from_millis(20);
/// Part of the subject of each message to a node.
const SUBJECT: &[u8] = b".node.";

#[derive(Default)]
struct Shared {
    /// 0: as fast as it goes.
    bytes_per_s: AtomicU64,
    /// Bytes of messages from other nodes that have passed.
    passed: AtomicU64,
}

/// See the module. Its threads end with the connections, when the node or NATS ends.
pub struct Throttle {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Throttle {
    pub fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("binding the proxy")?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        thread::spawn(move || {
            for node in listener.incoming().map_while(Result::ok) {
                // A node whose connection breaks off tries again.
                drop(serve(&theirs, node, upstream));
            }
        });
        Ok(Self { addr, shared })
    }

    /// From now on; 0: no limit.
    pub fn set_bytes_per_s(&self, bytes_per_s: u64) {
        self.shared.bytes_per_s.store(bytes_per_s, Relaxed);
    }

    /// Bytes of messages from other nodes so far.
    pub fn passed_bytes(&self) -> u64 {
        self.shared.passed.load(Relaxed)
    }
}

fn serve(shared: &Arc<Shared>, node: TcpStream, upstream: SocketAddr) -> Result<()> {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    set_socket_recv_buffer_size(&fd, BUFFER_BYTES)?;
    connect(&fd, &upstream)?;
    let nats = TcpStream::from(fd);
    node.set_nodelay(true)?;
    nats.set_nodelay(true)?;
    let has_messages = Arc::new(AtomicBool::new(false));
    let (from_node, to_nats) = (node.try_clone()?, nats.try_clone()?);
    for (from, to, is_sent) in [(from_node, to_nats, true), (nats, node, false)] {
        let (shared, has_messages) = (shared.clone(), has_messages.clone());
        thread::spawn(move || {
            pump(&shared, &has_messages, &from, &to, is_sent);
            drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
        });
    }
    Ok(())
}

/// Passes bytes on until one of the two ends.
fn pump(shared: &Shared, has_messages: &AtomicBool, mut from: &TcpStream, mut to: &TcpStream, is_sent: bool) {
    let mut buffer = [0; CHUNK_BYTES];
    loop {
        // A slow link is one that takes little at a time.
        let rate = if has_messages.load(Relaxed) { shared.bytes_per_s.load(Relaxed) } else { 0 };
        let most = if rate == 0 { CHUNK_BYTES } else { (rate / 10).clamp(1, CHUNK_BYTES as u64) as usize };
        let Ok(count @ 1..) = from.read(&mut buffer[..most]) else { return };
        let bytes = &buffer[..count];
        if is_sent && bytes.windows(SUBJECT.len()).any(|part| part == SUBJECT) {
            has_messages.store(true, Relaxed);
        }
        if has_messages.load(Relaxed) {
            pause(shared, count);
            if !is_sent {
                shared.passed.fetch_add(count as u64, Relaxed);
            }
        }
        if to.write_all(bytes).is_err() {
            return;
        }
    }
}

/// Waits until the slow link has had time for this number of bytes.
fn pause(shared: &Shared, count: usize) {
    let began = Instant::now();
    loop {
        let rate = shared.bytes_per_s.load(Relaxed);
        if rate == 0 {
            return;
        }
        let left = Duration::from_secs_f64(count as f64 / rate as f64).saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that sends `hello` through the proxy, and the other end.
    fn connected(throttle: &Throttle, nats: &TcpListener, hello: &[u8]) -> (TcpStream, TcpStream) {
        let mut node = TcpStream::connect(throttle.addr).unwrap();
        node.write_all(hello).unwrap();
        let (mut server, _) = nats.accept().unwrap();
        for end in [&node, &server] {
            end.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        }
        let mut heard = vec![0; hello.len()];
        server.read_exact(&mut heard).unwrap();
        assert_eq!(heard, hello);
        (node, server)
    }

    #[test]
    fn only_messages_between_nodes_are_slow_and_only_while_they_are_to_be() {
        let nats = TcpListener::bind("127.0.0.1:0").unwrap();
        let throttle = Throttle::start(nats.local_addr().unwrap()).unwrap();
        let (mut leases, mut leases_server) = connected(&throttle, &nats, b"SUB _INBOX.x 1\r\n");
        let (mut bus, mut bus_server) = connected(&throttle, &nats, b"SUB guildhall.node.3 1\r\n");
        let mut bytes = vec![0; 40_000];

        throttle.set_bytes_per_s(10_000);
        leases_server.write_all(&bytes).unwrap();
        leases.read_exact(&mut bytes).unwrap();
        assert_eq!(throttle.passed_bytes(), 0);

        let began = Instant::now();
        bus_server.write_all(&bytes[..4_000]).unwrap();
        bus.read_exact(&mut bytes[..4_000]).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());

        bus_server.write_all(&bytes).unwrap();
        throttle.set_bytes_per_s(0);
        bus.read_exact(&mut bytes).unwrap();
        assert!(throttle.passed_bytes() >= 40_000);
    }
}
