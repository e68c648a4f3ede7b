//! Transport: the sockets of a partition, and its requests to the rest of the node.
//!
//! Owns        the `Transport` trait (bytes, now), `Output` (everything else, later), and `Gatekeeper` (admission of
//!             IDENTIFY).
//! Not here    sockets: `guildhall-net` has real ones, the test kit has fakes.

use crate::{
    conn::MovingConn,
    moves::SessionClaim,
    refused::{IdentifyFault, IdentifyRefused, ResumeRefused},
    transfers::TransferEnd,
};
use guildhall_guild_protocol::{Canary, PartitionId, SessionNews, ToGuild};
use guildhall_model::{ChannelId, GuildId, MessageId, User, UserId};
use guildhall_stdx::{Now, SlotKey, Timestamp};
use std::{fmt, io::IoSlice, net::IpAddr, sync::Arc};

/// The socket is dead. The partition drops the connection; the session lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Sender of the first close frame of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseSender {
    /// This node, or the partition of it that serves the connection.
    Node,
    /// The client at the other end.
    Client,
}

impl CloseSender {
    /// Its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "server",
            Self::Client => "client",
        }
    }
}

/// Purpose of a token check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthPurpose {
    /// An IDENTIFY: the answer needs the ids of the account's guilds. `shard_id` is 0 if the IDENTIFY has
    /// no valid shard.
    Identify { shard_id: u32 },
    /// A RESUME: its session has the guilds.
    Resume,
}

/// Why a queued frame did not go out whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialSend {
    /// The socket is full: these bytes are left. `Partition::handle_writable` follows when it has room again.
    Rest(Vec<u8>),
    /// The socket is dead, as in the error of this name.
    Closed,
}

/// The sockets of a partition.
pub trait Transport {
    /// Writes as much as the socket takes now and returns the number of bytes. Fewer than requested means that it is
    /// full: `Partition::handle_writable` follows when it has room again.
    ///
    /// # Errors
    /// `Closed`.
    fn send(&mut self, conn: SlotKey, bytes: &[u8]) -> Result<usize, Closed>;

    /// As `send`, from several slices.
    ///
    /// # Errors
    /// `Closed`.
    fn send_vectored(&mut self, conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Closed>;

    /// Queues whole frames, to be sent with those of other connections by the next `flush_batch` at the latest. False:
    /// not queued, use `send`. Nothing else is written to a connection that `has_queued`.
    fn queue_send(&mut self, _conn: SlotKey, _bytes: &[u8]) -> bool {
        false
    }

    /// Whether frames of this connection are queued.
    fn has_queued(&self, _conn: SlotKey) -> bool {
        false
    }

    /// Sends all queued frames. Returns those that the sockets did not take whole.
    fn flush_batch(&mut self) -> Vec<(SlotKey, PartialSend)> {
        Vec::new()
    }

    /// Monotonic time in nanoseconds, to measure sampled compressions. None: none is measured.
    fn nanos(&self) -> Option<u64> {
        None
    }

    /// Time at which a guild handed over the message that is handled now, on the clock of `nanos`. None: no message of
    /// a guild is handled.
    fn handed_over_ns(&self) -> Option<u64> {
        None
    }

    /// A relay begins to encode an event's body, once per audience and not per recipient: for traces.
    fn encode_begins(&mut self) {}

    /// The body is encoded.
    fn encode_ends(&mut self) {}

    /// Address that an IDENTIFY of this connection counts for. None: its address has no limit of its own.
    fn address(&self, _conn: SlotKey) -> Option<IpAddr> {
        None
    }

    /// The connection has a session of this account from now on.
    fn note_account(&mut self, conn: SlotKey, user_id: UserId) {
        let _ = (conn, user_id);
    }

    /// The first close frame of the connection, and its sender.
    fn note_close(&mut self, conn: SlotKey, code: Option<u16>, sender: CloseSender) {
        let _ = (conn, code, sender);
    }

    /// Stops reading: bytes of the client stay in the socket.
    fn pause_reading(&mut self, conn: SlotKey);

    /// Reads again, also the bytes that arrived in the meantime.
    fn resume_reading(&mut self, conn: SlotKey);

    /// Moves a connection with its socket to the partition of its session, which calls `Partition::handle_transferred`.
    /// The socket must leave its key within this call: the next connection may get the same slot. A transport that does
    /// not implement this closes the socket, and the client connects again.
    fn transfer(&mut self, conn: SlotKey, to: PartitionId, moving: Box<MovingConn>) {
        let _ = (to, moving);
        self.drop_conn(conn);
    }

    /// Whether the socket can go on in another process.
    fn can_leave(&self, _conn: SlotKey) -> bool {
        false
    }

    /// Takes the socket out for another process. It must leave its key within this call.
    fn leave(&mut self, conn: SlotKey) {
        self.drop_conn(conn);
    }

    /// Half-closes the socket, because nothing more will be sent. Drops further input.
    fn finish(&mut self, conn: SlotKey);

    /// Closes the socket at once. The key is not used again.
    fn drop_conn(&mut self, conn: SlotKey);

    /// As `drop_conn`, and discards the bytes in a full socket. Otherwise the kernel would hold them for as long as the
    /// client neither reads nor leaves.
    fn reset_conn(&mut self, conn: SlotKey) {
        self.drop_conn(conn);
    }
}

/// A request of a partition to the rest of the node.
#[derive(Debug)]
pub enum Output {
    /// Check a token; the answer goes to `Partition::handle_authenticated`.
    Authenticate {
        /// The connection that waits.
        conn: SlotKey,
        /// As the client sent it, without prefix.
        token: String,
        /// Request whose token is checked.
        purpose: AuthPurpose,
    },
    /// Read messages; those that are there go to `Partition::handle_messages`.
    FetchMessages {
        /// The session that requested them.
        session: SlotKey,
        guild_id: GuildId,
        messages: Vec<(ChannelId, MessageId)>,
    },
    /// Read an account's direct messages and the settings of its clients; the answer goes to
    /// `Partition::handle_directs`.
    FetchDirects {
        /// The session whose READY waits for them.
        session: SlotKey,
        user_id: UserId,
    },
    /// Fetch the session of a RESUME from the node that has it; the answer goes to `Partition::handle_fetched`.
    FetchSession {
        claim: SessionClaim,
        /// Account of the claim.
        user: Arc<User>,
    },
    /// Fetch the rest of a session that its guilds have transferred here; the answer goes to
    /// `Partition::handle_fetched`.
    FetchRest {
        end: TransferEnd,
        /// Account of the session.
        user: Arc<User>,
    },
    /// A session changed.
    SessionNews(SessionNews),
    /// The presence of a user account may have changed.
    PresenceChanged(UserId),
    /// Send an account the present presences of those of these accounts that are its friends.
    ShowFriends { user_id: UserId, friends: Vec<UserId> },
    /// An IDENTIFY started no session.
    IdentifyRefused(IdentifyRefused),
    /// A RESUME continued no session.
    ResumeRefused(ResumeRefused),
    /// A relay's message to its guild.
    ToGuild(GuildId, ToGuild),
    /// A relay's canary session received this.
    Canary(Canary),
}

/// Place of a session whose IDENTIFY was admitted while its token was checked. Without `begin`, dropping it
/// frees the place.
pub struct Reservation(Option<Box<dyn FnOnce() + Send>>);

impl Reservation {
    /// `give_back` runs when the reservation is dropped without `begin`.
    #[must_use]
    pub fn new(give_back: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(give_back)))
    }

    /// The session begins. `Gatekeeper::session_ended` ends it.
    pub fn begin(mut self) {
        self.0 = None;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.0.is_some()).finish()
    }
}

/// A checked token.
#[derive(Debug)]
pub struct Account {
    pub user: Arc<User>,
    /// Ids of their guilds, ascending; empty for a RESUME.
    pub guilds: Vec<GuildId>,
    /// A mark that differs between the account's tokens, and from which the token cannot be derived.
    pub token: u64,
    /// When the token expires. None: never.
    pub expires_at: Option<Timestamp>,
    /// Decision of the cluster on an IDENTIFY. None: `Gatekeeper::admit` decides.
    pub admission: Option<Result<Reservation, IdentifyFault>>,
}

/// Reason why a token was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    /// The token is wrong, revoked or expired.
    #[error("the token is not valid")]
    Invalid,
    /// The check is not possible now.
    #[error("the token could not be checked")]
    Unavailable,
}

/// Limits on IDENTIFY that hold for the whole node.
pub trait Gatekeeper: Send + Sync {
    /// Takes one IDENTIFY from the allowances of its address and its token, and then from the node's. It is called
    /// before the token is checked.
    ///
    /// # Errors
    /// Which of the three is used up; the node's was not touched then.
    fn may_begin(&self, now: Now, address: Option<IpAddr>, token: &str) -> Result<(), IdentifyFault> {
        let _ = (now, address, token);
        Ok(())
    }

    /// An IDENTIFY that `may_begin` admitted started no session: the node's allowance is refunded. Those of its address
    /// and its token are not, so that they bound the checks of one peer.
    fn refund(&self, now: Now) {
        let _ = now;
    }

    /// May `user` start a session of shard `shard_id` now? If so, it counts.
    ///
    /// # Errors
    /// Reason of the refusal.
    fn admit(&self, now: Now, user: &User, shard_id: u32) -> Result<(), IdentifyFault>;

    /// A session was restored from the previous process. It counts as the account's, but not as an IDENTIFY.
    fn session_restored(&self, user: &User) {
        let _ = user;
    }

    /// A session that was admitted ended.
    fn session_ended(&self, user: &User);
}
