//! Fake sockets: two byte queues whose ends can fill up, stall and break.
//!
//! Owns        `FakeSocket`, shared by the client and the link that holds its server end; `FakeLink`.
//! Invariants  bytes arrive in order, or (after a cut) not at all. A short write is followed by one writable event,
//!             once there is room.
//! Limits      `room_bytes` unread by the client, `write_bytes_max` per write; both can change at any time.

use guildhall_guild_protocol::PartitionId;
use guildhall_partition::{Closed, MovingConn, PartialSend, Transport};
use guildhall_stdx::SlotKey;
use std::{
    cell::{Cell, RefCell, RefMut},
    collections::HashMap,
    io::IoSlice,
    rc::Rc,
};

/// State of the server's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerEnd {
    /// Open for writing.
    #[default]
    Open,
    /// Shut down for writing.
    Finished,
    /// The socket was dropped.
    Dropped,
}

#[derive(Debug)]
struct State {
    /// Bytes written by the server and not yet read by the client.
    to_client: Vec<u8>,
    /// Number of bytes of `to_client` that the client has read.
    taken: usize,
    to_server: Vec<u8>,
    room_bytes: usize,
    write_bytes_max: usize,
    /// A write was short and no writable event followed yet.
    is_full: bool,
    is_server_reading: bool,
    server_end: ServerEnd,
    /// The client is gone: further writes are lost.
    is_cut: bool,
    /// The server's next write fails.
    is_dead: bool,
    is_hangup_due: bool,
    writes_count: usize,
}

/// One fake connection. Clones share the socket.
#[derive(Clone, Debug)]
pub struct FakeSocket(Rc<RefCell<State>>);

impl Default for FakeSocket {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(State {
            to_client: Vec::new(),
            taken: 0,
            to_server: Vec::new(),
            room_bytes: usize::MAX,
            write_bytes_max: usize::MAX,
            is_full: false,
            is_server_reading: true,
            server_end: ServerEnd::Open,
            is_cut: false,
            is_dead: false,
            is_hangup_due: false,
            writes_count: 0,
        })))
    }
}

impl FakeSocket {
    fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// Sets the maximum number of unread bytes towards the client.
    pub fn set_room(&self, bytes: usize) {
        self.state().room_bytes = bytes;
    }

    /// Sets the maximum number of bytes per write.
    pub fn set_write_max(&self, bytes: usize) {
        self.state().write_bytes_max = bytes;
    }

    // ── the client's end ─────────────────────────────────────────────────────────────────────────

    /// Writes to the server; lost after a cut or close.
    pub fn client_write(&self, bytes: &[u8]) {
        let mut state = self.state();
        if !state.is_cut && state.server_end != ServerEnd::Dropped {
            state.to_server.extend_from_slice(bytes);
        }
    }

    /// Reads at most `max` bytes.
    pub fn client_read(&self, max: usize) -> Vec<u8> {
        let mut state = self.state();
        let start = state.taken;
        let end = start + max.min(state.to_client.len() - start);
        state.taken = end;
        let bytes = state.to_client[start..end].to_vec();
        if end == state.to_client.len() {
            state.to_client.clear();
            state.taken = 0;
        }
        bytes
    }

    /// Number of bytes that the client has not read.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        let state = self.state();
        state.to_client.len() - state.taken
    }

    /// Breaks the connection: all bytes in flight are lost, in both directions. The server notices by `take_hangup`;
    /// until then its writes are lost.
    pub fn cut(&self) {
        let mut state = self.state();
        state.is_cut = true;
        state.is_hangup_due = true;
        state.to_client.clear();
        state.taken = 0;
        state.to_server.clear();
    }

    /// The client closes its end in order: bytes sent before arrive first.
    pub fn client_close(&self) {
        self.state().is_hangup_due = true;
    }

    /// Makes the server's next write fail.
    pub fn kill(&self) {
        self.state().is_dead = true;
    }

    /// State of the server's end.
    #[must_use]
    pub fn server_end(&self) -> ServerEnd {
        self.state().server_end
    }

    /// The connection is broken.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Number of writes by the server; a vectored write counts once.
    #[must_use]
    pub fn writes_count(&self) -> usize {
        self.state().writes_count
    }

    // ── readiness, as a poll reports it ──────────────────────────────────────────────────────────

    /// At most `max` bytes for the server, if it is reading and there are any.
    pub fn take_readable(&self, max: usize) -> Option<Vec<u8>> {
        let mut state = self.state();
        if !state.is_server_reading || state.to_server.is_empty() {
            return None;
        }
        let count = max.min(state.to_server.len());
        Some(state.to_server.drain(..count).collect())
    }

    /// Number of bytes towards the server that it has not read.
    #[must_use]
    pub fn to_server_bytes(&self) -> usize {
        self.state().to_server.len()
    }

    /// Takes the writable event: a write was short since the last call, and there is room now.
    pub fn take_writable(&self) -> bool {
        let mut state = self.state();
        let has_room = state.is_cut || state.to_client.len() - state.taken < state.room_bytes;
        let is_writable = state.is_full && has_room;
        if is_writable {
            state.is_full = false;
        }
        is_writable
    }

    /// The server waits for room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.state().is_full
    }

    /// The server reads.
    #[must_use]
    pub fn is_server_reading(&self) -> bool {
        self.state().is_server_reading
    }

    /// Takes the hang-up event: the client's end closed. A server that is not reading receives it later.
    pub fn take_hangup(&self) -> bool {
        let mut state = self.state();
        state.is_server_reading && state.to_server.is_empty() && std::mem::take(&mut state.is_hangup_due)
    }

    // ── the server's end ─────────────────────────────────────────────────────────────────────────

    fn server_write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Closed> {
        let mut state = self.state();
        assert_eq!(state.server_end, ServerEnd::Open, "written to after it was finished");
        if state.is_dead {
            return Err(Closed);
        }
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(wanted > 0, "a write of nothing");
        state.writes_count += 1;
        let room = state.room_bytes.saturating_sub(state.to_client.len() - state.taken);
        let taken = wanted.min(room).min(state.write_bytes_max);
        let taken = if state.is_cut { wanted } else { taken };
        let mut left = if state.is_cut { 0 } else { taken };
        for slice in slices {
            let part = left.min(slice.len());
            state.to_client.extend_from_slice(&slice[..part]);
            left -= part;
        }
        state.is_full |= taken < wanted;
        Ok(taken)
    }
}

/// A connection and its socket on their way to another partition.
#[derive(Debug)]
pub struct Transfer {
    /// The key that it had here.
    pub key: SlotKey,
    /// The partition of its session.
    pub to: PartitionId,
    /// The server end that the link held.
    pub socket: FakeSocket,
    /// What `Partition::handle_transferred` takes.
    pub conn: Box<MovingConn>,
}

/// Server ends of a partition's sockets.
#[derive(Debug, Default)]
pub struct FakeLink {
    sockets: HashMap<SlotKey, FakeSocket>,
    /// Sends can be queued.
    batches: bool,
    queued: Vec<(SlotKey, Vec<u8>)>,
    transfers: Vec<Transfer>,
    /// Sockets for another process, in order.
    leaving: Vec<FakeSocket>,
    /// Every write that was tried, in order.
    writes: Option<Vec<(SlotKey, Vec<u8>)>>,
    /// Calls of `nanos`.
    clock_reads: Cell<u64>,
}

impl FakeLink {
    /// A link that queues sends, as with io_uring.
    #[must_use]
    pub fn batching() -> Self {
        Self { batches: true, ..Self::default() }
    }

    /// Inserts a socket under the key that its connection is about to get.
    pub fn insert(&mut self, key: SlotKey, socket: FakeSocket) {
        let before = self.sockets.insert(key, socket);
        assert!(before.is_none(), "a key was used twice");
    }

    /// Records every write from now on.
    pub fn record_writes(&mut self) {
        self.writes.get_or_insert_default();
    }

    /// Takes the recorded writes: the bytes that the server had for each call, in its order.
    pub fn take_writes(&mut self) -> Vec<(SlotKey, Vec<u8>)> {
        self.writes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the sockets that left for another process since the last call.
    pub fn take_leaving(&mut self) -> Vec<FakeSocket> {
        std::mem::take(&mut self.leaving)
    }

    fn note_write(&mut self, conn: SlotKey, slices: &[IoSlice<'_>]) {
        if let Some(writes) = &mut self.writes {
            writes.push((conn, slices.iter().flat_map(|slice| slice.iter().copied()).collect()));
        }
    }

    /// Takes the connections that left for other partitions since the last call.
    pub fn take_transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    /// Socket with this key.
    #[must_use]
    pub fn socket(&self, key: SlotKey) -> Option<&FakeSocket> {
        self.sockets.get(&key)
    }

    /// All keys, ascending.
    #[must_use]
    pub fn keys(&self) -> Vec<SlotKey> {
        let mut keys: Vec<SlotKey> = self.sockets.keys().copied().collect();
        keys.sort_unstable();
        keys
    }
}

impl Transport for FakeLink {
    /// Each call is a microsecond after the one before.
    fn nanos(&self) -> Option<u64> {
        self.clock_reads.set(self.clock_reads.get() + 1);
        Some(1_000 * self.clock_reads.get())
    }

    /// Every message is handed over when it is handled.
    fn handed_over_ns(&self) -> Option<u64> {
        Some(1_000 * self.clock_reads.get())
    }

    fn send(&mut self, conn: SlotKey, bytes: &[u8]) -> Result<usize, Closed> {
        self.send_vectored(conn, &[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Closed> {
        assert!(!self.has_queued(conn), "written to while a frame waits");
        self.note_write(conn, slices);
        self.sockets.get(&conn).expect("only sockets that are there are written to").server_write(slices)
    }

    fn queue_send(&mut self, conn: SlotKey, bytes: &[u8]) -> bool {
        assert!(!self.has_queued(conn), "one frame per socket and batch");
        if self.batches {
            self.queued.push((conn, bytes.to_vec()));
        }
        self.batches
    }

    fn has_queued(&self, conn: SlotKey) -> bool {
        self.queued.iter().any(|(key, _)| *key == conn)
    }

    fn flush_batch(&mut self) -> Vec<(SlotKey, PartialSend)> {
        let mut shortfalls = Vec::new();
        for (key, bytes) in std::mem::take(&mut self.queued) {
            self.note_write(key, &[IoSlice::new(&bytes)]);
            let Some(socket) = self.sockets.get(&key) else { continue };
            match socket.server_write(&[IoSlice::new(&bytes)]) {
                Ok(sent) if sent == bytes.len() => {}
                Ok(sent) => shortfalls.push((key, PartialSend::Rest(bytes[sent..].to_vec()))),
                Err(Closed) => shortfalls.push((key, PartialSend::Closed)),
            }
        }
        shortfalls
    }

    fn pause_reading(&mut self, conn: SlotKey) {
        if let Some(socket) = self.sockets.get(&conn) {
            socket.state().is_server_reading = false;
        }
    }

    fn resume_reading(&mut self, conn: SlotKey) {
        if let Some(socket) = self.sockets.get(&conn) {
            socket.state().is_server_reading = true;
        }
    }

    fn transfer(&mut self, key: SlotKey, to: PartitionId, conn: Box<MovingConn>) {
        let socket = self.sockets.remove(&key).expect("a socket moves once");
        self.transfers.push(Transfer { key, to, socket, conn });
    }

    fn can_leave(&self, conn: SlotKey) -> bool {
        self.sockets.contains_key(&conn)
    }

    fn leave(&mut self, conn: SlotKey) {
        self.leaving.extend(self.sockets.remove(&conn));
    }

    fn finish(&mut self, conn: SlotKey) {
        if let Some(socket) = self.sockets.get(&conn) {
            socket.state().server_end = ServerEnd::Finished;
        }
    }

    fn drop_conn(&mut self, conn: SlotKey) {
        let socket = self.sockets.remove(&conn).expect("a socket is dropped once");
        socket.state().server_end = ServerEnd::Dropped;
    }
}
