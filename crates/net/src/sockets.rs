//! Sockets: the `Transport` of a node. Non-blocking, edge-triggered; only their partition writes to them.
//!
//! Invariants  N1 a full socket is not written to before it reports room. N2 when reading resumes, a socket is read at
//!             once, because its edge may have passed. N3 a batch has one send per socket. N4 a slot is empty when a
//!             socket is put into it.
//! Limits      `LATER_BYTES_MAX` per socket and batch, and the batch's own limit.

use crate::{
    admission::AddressPermit,
    mailbox::{ConnPermit, MovedSocket},
    tls::Records,
    write_watch::WriteWatch,
};
use guildhall_guild_protocol::PartitionId;
use guildhall_model::UserId;
use guildhall_partition::{CloseSender, Closed, MovingConn, PartialSend, Transport};
use guildhall_stdx::SlotKey;
use guildhall_uring::SendBatch;
use mio::{Interest, Registry, Token, net::TcpStream};
use rustix::net::sockopt::set_socket_linger;
use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    mem,
    net::{IpAddr, Shutdown},
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

/// Larger frames are sent directly: copying them into a batch would cost more than it saves.
const LATER_BYTES_MAX: usize = 4 << 10;

/// Token of the mailbox in the poll; sockets have their slot as token.
pub const WAKE: Token = Token(usize::MAX);

struct Socket {
    stream: TcpStream,
    tls: Option<Box<Records>>,
    /// The rest of the answer to its upgrade, which is sent before anything else. Such a socket has no TLS.
    answer: Option<Box<[u8]>>,
    permit: ConnPermit,
    generation: u32,
    is_reading: bool,
    /// In `readable`.
    is_queued: bool,
    /// Number of the batch that has its last queued bytes. None: it never had any, or the batch failed.
    waits_in: Option<u32>,
}

impl Socket {
    /// Sends the answer to the upgrade, with `bytes` behind it; returns how many of these are sent.
    fn send_answer(&mut self, answer: &[u8], bytes: &[u8]) -> Result<usize, Closed> {
        let sent = loop {
            if let Some(result) = written(self.stream.write_vectored(&[IoSlice::new(answer), IoSlice::new(bytes)])) {
                break result?;
            }
        };
        if sent < answer.len() {
            self.answer = Some(answer[sent..].into());
        }
        Ok(sent.saturating_sub(answer.len()))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, Closed> {
        if let Some(answer) = self.answer.take() {
            return self.send_answer(&answer, bytes);
        }
        if let Some(tls) = &mut self.tls {
            return tls.send(&mut self.stream, &[IoSlice::new(bytes)]).map_err(|_| Closed);
        }
        loop {
            if let Some(result) = written(self.stream.write(bytes)) {
                return result;
            }
        }
    }

    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Closed> {
        if let Some(answer) = self.answer.take() {
            return self.send_answer(&answer, slices.first().map_or(&[], |first| first));
        }
        if let Some(tls) = &mut self.tls {
            return tls.send(&mut self.stream, slices).map_err(|_| Closed);
        }
        loop {
            if let Some(result) = written(self.stream.write_vectored(slices)) {
                return result;
            }
        }
    }
}

/// The sockets of one partition.
pub struct Sockets {
    registry: Registry,
    sockets: Vec<Option<Socket>>,
    /// Sockets that may have something to read, in the order of their events.
    pub readable: Vec<SlotKey>,
    /// Frames that go out together. None: each goes out by itself.
    batch: Option<SendBatch>,
    /// Number of the batch that is being filled. A batch that was submitted because it was full keeps the number, and
    /// so does the next.
    batch_number: u32,
    /// Sends of this batch that the socket took in part: at most one per socket.
    shortfalls: Vec<(SlotKey, PartialSend)>,
    /// Connections that left for other partitions, in order, until `take_transfers`.
    transfers: Vec<Transfer>,
    /// Sockets for another process, in the order of `leave`.
    leaving: Vec<MovedSocket>,
    /// `nanos` counts from here.
    started: Instant,
    /// Time at which a guild handed over the message that is handled now.
    pub handed_over_at: Option<Instant>,
    /// Traced events of this turn.
    pub watch: WriteWatch,
}

/// A connection and its socket that move to another partition.
pub struct Transfer {
    pub to: PartitionId,
    pub socket: MovedSocket,
    pub conn: Box<MovingConn>,
}

impl Sockets {
    pub fn new(registry: Registry, batch: Option<SendBatch>) -> Self {
        Self {
            registry,
            sockets: Vec::new(),
            readable: Vec::new(),
            batch,
            batch_number: 1,
            shortfalls: Vec::new(),
            transfers: Vec::new(),
            leaving: Vec::new(),
            started: Instant::now(),
            handed_over_at: None,
            watch: WriteWatch::default(),
        }
    }

    /// Adds a socket. The poll reports bytes that have arrived; TLS may hold some that the poll does not see.
    pub fn insert(&mut self, key: SlotKey, socket: MovedSocket) -> io::Result<()> {
        let MovedSocket { mut stream, answer, tls, permit } = socket;
        self.registry.register(&mut stream, Token(key.slot as usize), Interest::READABLE | Interest::WRITABLE)?;
        let (slot, has_tls) = (key.slot as usize, tls.is_some());
        if self.sockets.len() <= slot {
            self.sockets.resize_with(slot + 1, || None);
        }
        debug_assert!(self.sockets[slot].is_none(), "the old socket would be dropped without a close frame");
        self.sockets[slot] = Some(Socket {
            stream,
            tls,
            answer,
            permit,
            generation: key.generation,
            is_reading: true,
            is_queued: false,
            waits_in: None,
        });
        if has_tls {
            self.queue(key);
        }
        Ok(())
    }

    /// Returns the connections that moved to other partitions since the last call.
    pub fn take_transfers(&mut self) -> Vec<Transfer> {
        mem::take(&mut self.transfers)
    }

    /// Returns the sockets that left for another process since the last call.
    pub fn take_leaving(&mut self) -> Vec<MovedSocket> {
        mem::take(&mut self.leaving)
    }

    /// Removes and returns a socket.
    fn take(&mut self, key: SlotKey) -> Option<MovedSocket> {
        self.get(key)?;
        let mut socket = self.sockets[key.slot as usize].take()?;
        self.registry.deregister(&mut socket.stream).ok()?;
        Some(MovedSocket { stream: socket.stream, answer: socket.answer, tls: socket.tls, permit: socket.permit })
    }

    fn get(&mut self, key: SlotKey) -> Option<&mut Socket> {
        self.sockets.get_mut(key.slot as usize)?.as_mut().filter(|socket| socket.generation == key.generation)
    }

    /// Key of the socket of a poll event.
    pub fn key_of(&self, token: Token) -> Option<SlotKey> {
        let socket = self.sockets.get(token.0)?.as_ref()?;
        Some(SlotKey { slot: token.0 as u32, generation: socket.generation })
    }

    /// Queues a socket that may have something to read.
    pub fn queue(&mut self, key: SlotKey) {
        if let Some(socket) = self.get(key)
            && !socket.is_queued
            && socket.is_reading
        {
            socket.is_queued = true;
            self.readable.push(key);
        }
    }

    /// Sends waiting TLS records, or the rest of the answer to the upgrade, when the socket has room. False: the socket
    /// is full again, and another event follows.
    pub fn make_way(&mut self, key: SlotKey) -> io::Result<bool> {
        let Some(socket) = self.get(key) else { return Ok(true) };
        if let Some(answer) = socket.answer.take() {
            socket.send_answer(&answer, &[]).map_err(|_| ErrorKind::ConnectionReset)?;
        }
        match &mut socket.tls {
            Some(tls) => tls.flush(&mut socket.stream),
            None => Ok(socket.answer.is_none()),
        }
    }

    /// Sends what is in the batch; what does not fit is in `shortfalls` then.
    fn submit_batch(&mut self) {
        let Some(batch) = &mut self.batch else { return };
        let (sockets, shortfalls) = (&self.sockets, &mut self.shortfalls);
        // The socket may have been dropped, and its slot may have another one.
        let fd_of = |tag| {
            let key = key_of_tag(tag);
            let socket = sockets.get(key.slot as usize)?.as_ref()?;
            (socket.generation == key.generation).then(|| socket.stream.as_fd())
        };
        let started = self.watch.send_begins();
        let result = batch.submit(fd_of, |tag, shortfall| {
            let shortfall = match shortfall {
                guildhall_uring::PartialSend::Rest(rest) => PartialSend::Rest(rest.to_vec()),
                guildhall_uring::PartialSend::Closed => PartialSend::Closed,
            };
            shortfalls.push((key_of_tag(tag), shortfall));
        });
        started.into_iter().for_each(|started| self.watch.sent(started));
        if let Err(error) = result {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "io_uring failed: from now on each frame is sent by itself"
            );
            self.batch = None;
        }
    }

    /// Reads once. `Ok(None)`: nothing available, or reading is paused. `Ok(Some(0))`: end of stream.
    pub fn read(&mut self, key: SlotKey, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(socket) = self.get(key) else { return Ok(None) };
        socket.is_queued = false;
        if !socket.is_reading {
            return Ok(None);
        }
        if let Some(tls) = &mut socket.tls {
            return tls.read(&mut socket.stream, buffer);
        }
        loop {
            match socket.stream.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

fn tag_of(key: SlotKey) -> u64 {
    u64::from(key.slot) << 32 | u64::from(key.generation)
}

fn key_of_tag(tag: u64) -> SlotKey {
    SlotKey { slot: (tag >> 32) as u32, generation: tag as u32 }
}

/// Full is not an error, everything else ends the connection.
fn written(result: io::Result<usize>) -> Option<Result<usize, Closed>> {
    match result {
        Ok(0) => Some(Err(Closed)),
        Ok(count) => Some(Ok(count)),
        Err(error) if error.kind() == ErrorKind::Interrupted => None,
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Ok(0)),
        Err(_) => Some(Err(Closed)),
    }
}

impl Transport for Sockets {
    fn nanos(&self) -> Option<u64> {
        Some(self.started.elapsed().as_nanos() as u64)
    }

    fn handed_over_ns(&self) -> Option<u64> {
        Some(self.handed_over_at?.saturating_duration_since(self.started).as_nanos() as u64)
    }

    fn note_account(&mut self, conn: SlotKey, user_id: UserId) {
        let Some(socket) = self.get(conn) else { return };
        if let Some(access) = &mut socket.permit.access {
            access.user_id = Some(user_id.get());
        }
        if let Some(address) = &socket.permit.address {
            address.remember();
        }
    }

    fn note_close(&mut self, conn: SlotKey, code: Option<u16>, sender: CloseSender) {
        if let Some(access) = self.get(conn).and_then(|socket| socket.permit.access.as_mut()) {
            access.close = Some((code, sender.name()));
        }
    }

    fn send(&mut self, conn: SlotKey, bytes: &[u8]) -> Result<usize, Closed> {
        let started = self.watch.send_begins();
        let result = self.get(conn).ok_or(Closed)?.send(bytes);
        started.into_iter().for_each(|started| self.watch.sent(started));
        result
    }

    fn send_vectored(&mut self, conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Closed> {
        let started = self.watch.send_begins();
        let result = self.get(conn).ok_or(Closed)?.send_vectored(slices);
        started.into_iter().for_each(|started| self.watch.sent(started));
        result
    }

    fn encode_begins(&mut self) {
        self.watch.encode_begins();
    }

    fn encode_ends(&mut self) {
        self.watch.encode_ends();
    }

    fn queue_send(&mut self, conn: SlotKey, bytes: &[u8]) -> bool {
        if self.batch.is_none() || bytes.len() > LATER_BYTES_MAX {
            return false;
        }
        let number = self.batch_number;
        // TLS records are made one by one, so a batch gains nothing.
        let Some(socket) = self.get(conn).filter(|socket| socket.tls.is_none() && socket.answer.is_none()) else {
            return false;
        };
        socket.waits_in = Some(number);
        if self.batch.as_mut().is_some_and(|batch| batch.push(tag_of(conn), bytes)) {
            return true;
        }
        self.submit_batch();
        if self.batch.as_mut().is_some_and(|batch| batch.push(tag_of(conn), bytes)) {
            return true;
        }
        // The ring has failed: the frame is sent directly.
        if let Some(socket) = self.get(conn) {
            socket.waits_in = None;
        }
        false
    }

    fn has_queued(&self, conn: SlotKey) -> bool {
        let socket = self.sockets.get(conn.slot as usize).and_then(Option::as_ref);
        // Also while its shortfall has not been collected.
        socket.is_some_and(|socket| socket.generation == conn.generation && socket.waits_in == Some(self.batch_number))
    }

    fn flush_batch(&mut self) -> Vec<(SlotKey, PartialSend)> {
        if self.batch.as_ref().is_some_and(|batch| !batch.is_empty()) {
            self.submit_batch();
        }
        self.batch_number = self.batch_number.wrapping_add(1);
        mem::take(&mut self.shortfalls)
    }

    fn address(&self, conn: SlotKey) -> Option<IpAddr> {
        let socket = self.sockets.get(conn.slot as usize).and_then(Option::as_ref);
        let socket = socket.filter(|socket| socket.generation == conn.generation)?;
        socket.permit.address.as_ref().map(AddressPermit::address)
    }

    fn pause_reading(&mut self, conn: SlotKey) {
        if let Some(socket) = self.get(conn) {
            socket.is_reading = false;
        }
    }

    fn resume_reading(&mut self, conn: SlotKey) {
        if let Some(socket) = self.get(conn) {
            socket.is_reading = true;
            self.queue(conn);
        }
    }

    fn transfer(&mut self, conn: SlotKey, to: PartitionId, moving: Box<MovingConn>) {
        if let Some(socket) = self.take(conn) {
            self.transfers.push(Transfer { to, socket, conn: moving });
        }
    }

    fn finish(&mut self, conn: SlotKey) {
        if let Some(socket) = self.get(conn) {
            // An error means that the peer is gone, which the next read reports.
            let _ = match &mut socket.tls {
                Some(tls) => tls.finish(&mut socket.stream),
                None => socket.stream.shutdown(Shutdown::Write),
            };
        }
    }

    fn can_leave(&self, conn: SlotKey) -> bool {
        let socket = self.sockets.get(conn.slot as usize).and_then(Option::as_ref);
        // The keys of TLS stay in this process.
        socket.is_some_and(|socket| {
            socket.generation == conn.generation && socket.tls.is_none() && socket.answer.is_none()
        })
    }

    fn leave(&mut self, conn: SlotKey) {
        let socket = self.take(conn);
        self.leaving.extend(socket);
    }

    fn drop_conn(&mut self, conn: SlotKey) {
        drop(self.take(conn));
    }

    fn reset_conn(&mut self, conn: SlotKey) {
        let Some(socket) = self.take(conn) else { return };
        // An error means that the peer is gone.
        let _ = set_socket_linger(&socket.stream, Some(Duration::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{TcpListener, TcpStream as StdStream},
        sync::{Arc, atomic::AtomicUsize},
        time::Duration,
    };

    /// Longer than anything takes that a test waits for.
    const PATIENCE: Duration = Duration::from_secs(30);

    struct World {
        poll: mio::Poll,
        sockets: Sockets,
        count: Arc<AtomicUsize>,
    }

    fn key(slot: u32, generation: u32) -> SlotKey {
        SlotKey { slot, generation }
    }

    impl World {
        fn new(batch: Option<SendBatch>) -> Self {
            let poll = mio::Poll::new().unwrap();
            let sockets = Sockets::new(poll.registry().try_clone().unwrap(), batch);
            Self { poll, sockets, count: Arc::default() }
        }

        /// Connects a client, and returns its end.
        fn connect(&mut self, key: SlotKey) -> StdStream {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let theirs = StdStream::connect(listener.local_addr().unwrap()).unwrap();
            theirs.set_read_timeout(Some(PATIENCE)).unwrap();
            let ours = listener.accept().unwrap().0;
            ours.set_nonblocking(true).unwrap();
            self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let permit = ConnPermit::new(self.count.clone());
            let socket = MovedSocket { stream: TcpStream::from_std(ours), answer: None, tls: None, permit };
            self.sockets.insert(key, socket).unwrap();
            theirs
        }

        /// Sends as the partition does: through the batch, or directly where there is none.
        fn give(&mut self, key: SlotKey, bytes: &[u8]) -> usize {
            if self.sockets.queue_send(key, bytes) { bytes.len() } else { self.sockets.send(key, bytes).unwrap() }
        }
    }

    /// Both ways of sending; the batch only where io_uring is available.
    fn worlds() -> impl Iterator<Item = World> {
        std::iter::once(World::new(None)).chain(SendBatch::new().ok().map(|batch| World::new(Some(batch))))
    }

    fn read(theirs: &mut StdStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        theirs.read_exact(&mut bytes).unwrap_or_else(|error| panic!("{error} instead of {count} bytes"));
        bytes
    }

    #[test]
    fn everybody_gets_theirs_in_order() {
        for mut world in worlds() {
            // More bytes than fit into one batch.
            const BYTES: usize = 4000;
            let mut clients: Vec<_> = (0..200).map(|slot| world.connect(key(slot, 1))).collect();
            for round in 0..3u8 {
                for slot in 0..200 {
                    assert!(!world.sockets.has_queued(key(slot, 1)));
                    assert_eq!(world.give(key(slot, 1), &[round ^ slot as u8; BYTES]), BYTES);
                    assert_eq!(world.sockets.has_queued(key(slot, 1)), world.sockets.batch.is_some());
                }
                assert_eq!(world.sockets.flush_batch(), []);
            }
            for (slot, theirs) in clients.iter_mut().enumerate() {
                for round in 0..3 {
                    assert_eq!(read(theirs, BYTES), [round ^ slot as u8; BYTES]);
                }
            }
        }
    }

    #[test]
    fn the_answer_to_an_upgrade_comes_before_the_first_frame_and_counts_for_no_frame() {
        for mut world in worlds() {
            for (slot, is_vectored) in [(0, false), (1, true)] {
                let mut theirs = world.connect(key(slot, 1));
                world.sockets.get(key(slot, 1)).unwrap().answer = Some(b"101 ".as_slice().into());
                assert!(!world.sockets.queue_send(key(slot, 1), b"hello"), "nothing overtakes the answer");
                assert!(!world.sockets.can_leave(key(slot, 1)));
                let sent = match is_vectored {
                    false => world.sockets.send(key(slot, 1), b"hello"),
                    true => world.sockets.send_vectored(key(slot, 1), &[IoSlice::new(b"hello")]),
                };
                assert_eq!(sent, Ok(5));
                assert_eq!(world.sockets.send(key(slot, 1), b" again"), Ok(6));
                assert_eq!(read(&mut theirs, 15), b"101 hello again");
            }
            // A socket that is full takes the rest of the answer once it has room.
            let mut theirs = world.connect(key(2, 1));
            let mut taken = 0;
            while let count @ 1.. = world.sockets.send(key(2, 1), &[7; 1 << 16]).unwrap() {
                taken += count;
            }
            world.sockets.get(key(2, 1)).unwrap().answer = Some(b"101 ".as_slice().into());
            assert_eq!(world.sockets.send(key(2, 1), b"hello"), Ok(0));
            assert!(matches!(world.sockets.make_way(key(2, 1)), Ok(false)));
            read(&mut theirs, taken);
            while !world.sockets.make_way(key(2, 1)).unwrap() {}
            assert_eq!(world.sockets.send(key(2, 1), b"hello"), Ok(5));
            assert_eq!(read(&mut theirs, 9), b"101 hello");
        }
    }

    #[test]
    fn unsent_bytes_are_returned_and_room_is_reported() {
        for mut world in worlds() {
            let mut theirs = world.connect(key(0, 1));
            let mut events = mio::Events::with_capacity(8);
            // Event of the new socket.
            world.poll.poll(&mut events, Some(PATIENCE)).unwrap();
            let frame: Vec<u8> = (0..4096).map(|n| n as u8).collect();
            let mut taken = 0;
            let rest = loop {
                let mut sent = world.give(key(0, 1), &frame);
                if let Some((of, shortfall)) = world.sockets.flush_batch().pop() {
                    let PartialSend::Rest(rest) = shortfall else { panic!("it lives") };
                    assert_eq!(of, key(0, 1));
                    assert!(frame.ends_with(&rest));
                    sent = frame.len() - rest.len();
                }
                taken += sent;
                if sent < frame.len() {
                    break frame[sent..].to_vec();
                }
            };
            let got = read(&mut theirs, taken);
            assert!(got.iter().enumerate().all(|(n, byte)| *byte == n as u8));
            let is_writable = |events: &mio::Events| events.iter().any(mio::event::Event::is_writable);
            for _ in 0..100 {
                world.poll.poll(&mut events, Some(Duration::from_millis(300))).unwrap();
                if is_writable(&events) {
                    break;
                }
            }
            assert!(is_writable(&events), "the partition receives the event for the room");
            assert_eq!(world.sockets.send(key(0, 1), &rest), Ok(rest.len()));
            assert_eq!(read(&mut theirs, rest.len()), rest);
        }
    }

    #[test]
    fn a_queued_frame_of_a_dropped_connection_reaches_neither_it_nor_its_successor() {
        for mut world in worlds() {
            if world.sockets.batch.is_none() {
                continue;
            }
            let mut before = world.connect(key(0, 1));
            assert_eq!(world.give(key(0, 1), b"for the first"), 13);
            world.sockets.drop_conn(key(0, 1));
            let mut after = world.connect(key(0, 2));
            assert!(!world.sockets.has_queued(key(0, 2)));
            assert_eq!(world.give(key(0, 2), b"hello"), 5);
            assert_eq!(world.sockets.flush_batch(), []);
            assert_eq!(read(&mut after, 5), b"hello");
            let mut nothing = Vec::new();
            before.read_to_end(&mut nothing).unwrap();
            assert!(nothing.is_empty());
        }
    }

    /// Otherwise the kernel would keep megabytes for each connection that was reset, until its client reads them.
    #[test]
    fn a_reset_connection_leaves_no_bytes_in_the_kernel() {
        for mut world in worlds() {
            let mut fill = |slot| {
                let theirs = world.connect(key(slot, 1));
                while world.sockets.send(key(slot, 1), &[0; 1 << 16]).unwrap() > 0 {}
                theirs
            };
            let (kept, reset) = (fill(0), fill(1));
            world.sockets.drop_conn(key(0, 1));
            world.sockets.reset_conn(key(1, 1));
            for _ in 0..300 {
                if reset.peer_addr().is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(reset.peer_addr().is_err(), "the client sees the reset at once, without having read a byte");
            assert!(kept.peer_addr().is_ok(), "a client without a reset can still read the sent bytes");
        }
    }

    #[test]
    fn a_finished_connection_is_reported_as_closed() {
        for mut world in worlds() {
            let _theirs = world.connect(key(0, 1));
            world.sockets.finish(key(0, 1));
            if world.sockets.queue_send(key(0, 1), b"too late") {
                assert_eq!(world.sockets.flush_batch(), [(key(0, 1), PartialSend::Closed)]);
            } else {
                assert_eq!(world.sockets.send(key(0, 1), b"too late"), Err(Closed));
            }
        }
    }

    #[test]
    fn large_frames_are_not_queued() {
        for mut world in worlds() {
            let _theirs = world.connect(key(0, 1));
            assert!(!world.sockets.queue_send(key(0, 1), &vec![0; LATER_BYTES_MAX + 1]));
            assert!(!world.sockets.has_queued(key(0, 1)));
        }
    }
}
