//! Link: what a partition needs from whoever holds the sockets, and what it asks of the rest of the node.
//!
//! Owns        the `Transport` trait (bytes, now), `Output` (everything else, later), and `Gatekeeper` (who may
//!             identify).
//! Not here    sockets: `guildhall-net` has real ones, the test kit pretends.

use crate::{
    conn::MovingConn,
    refused::{IdentifyFault, IdentifyRefused, ResumeRefused},
    sessions::SessionNews,
};
use guildhall_guild_protocol::{PartitionId, ToGuild};
use guildhall_model::{ChannelId, GuildId, MessageId, User, UserId};
use guildhall_stdx::{Now, SlotKey, Timestamp};
use std::{io::IoSlice, net::IpAddr, sync::Arc};

/// The socket is dead. The partition drops the connection; the session lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Why a queued frame did not go out whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialSend {
    /// The socket is full: this is left. `Partition::handle_writable` follows when it has room again.
    Rest(Vec<u8>),
    /// As the error of the same name.
    Closed,
}

/// The sockets of a partition.
pub trait Transport {
    /// Writes what the socket takes now and returns how many bytes that were. Fewer than asked for means it is
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

    /// Takes whole frames that may go out later, together with others': with the next `flush_batch` at the latest. False:
    /// not taken, use `send`. Nothing else is written to a connection that `has_queued`.
    fn queue_send(&mut self, _conn: SlotKey, _bytes: &[u8]) -> bool {
        false
    }

    /// Whether frames of this connection wait for `flush_batch`.
    fn has_queued(&self, _conn: SlotKey) -> bool {
        false
    }

    /// Sends what was queued, and tells of each frame that did not go out whole.
    fn flush_batch(&mut self) -> Vec<(SlotKey, PartialSend)> {
        Vec::new()
    }

    /// Monotonic time in nanoseconds, to measure sampled compressions. None: none is measured.
    fn nanos(&self) -> Option<u64> {
        None
    }

    /// Address that an IDENTIFY of this connection counts for. None: its address has no limit of its own.
    fn address(&self, _conn: SlotKey) -> Option<IpAddr> {
        None
    }

    /// The connection has a session of this account from now on.
    fn note_account(&mut self, conn: SlotKey, user_id: UserId) {
        let _ = (conn, user_id);
    }

    /// The first close frame of the connection, and whether the client sent it.
    fn note_close(&mut self, conn: SlotKey, code: Option<u16>, by_client: bool) {
        let _ = (conn, code, by_client);
    }

    /// Stops or goes on reading. Told to go on, it also delivers what came in between.
    fn set_reading(&mut self, conn: SlotKey, reading: bool);

    /// Moves a connection with its socket to the partition of its session, which calls `Partition::handle_transferred`.
    /// The socket must leave its key within this call: the next connection may get the same slot. A link that does not
    /// implement this closes the socket, and the client connects again.
    fn transfer(&mut self, conn: SlotKey, to: PartitionId, moving: Box<MovingConn>) {
        let _ = (to, moving);
        self.drop_conn(conn);
    }

    /// Half-closes the socket, because nothing more will be sent. Drops further input.
    fn finish(&mut self, conn: SlotKey);

    /// Closes the socket at once. The key is not used again.
    fn drop_conn(&mut self, conn: SlotKey);

    /// The same where the socket was full: what it still holds is thrown away with it. Otherwise the kernel would keep
    /// those bytes for as long as a client is there that does not read.
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
        /// The account's guilds are needed as well.
        with_guilds: bool,
    },
    /// Read messages; those that are there go to `Partition::handle_messages`.
    FetchMessages {
        /// The session that requested them.
        session: SlotKey,
        /// Their guild.
        guild_id: GuildId,
        /// Their channels and ids.
        messages: Vec<(ChannelId, MessageId)>,
    },
    /// Read an account's direct messages; the answer goes to `Partition::handle_directs`.
    FetchDirects {
        /// The session whose READY waits for them.
        session: SlotKey,
        /// The account.
        user_id: UserId,
    },
    /// A session changed.
    SessionNews(SessionNews),
    /// An IDENTIFY started no session.
    IdentifyRefused(IdentifyRefused),
    /// A RESUME continued no session.
    ResumeRefused(ResumeRefused),
    /// A relay's message to its guild.
    ToGuild(GuildId, ToGuild),
}

/// A checked token.
#[derive(Clone, Debug)]
pub struct Account {
    /// The account.
    pub user: Arc<User>,
    /// Ids of their guilds, ascending; empty unless they were requested.
    pub guilds: Vec<GuildId>,
    /// A mark that differs between the account's tokens, and from which the token cannot be derived.
    pub token: u64,
    /// When the token expires. None: never.
    pub expires_at: Option<Timestamp>,
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
    fn session_returned(&self, user: &User) {
        let _ = user;
    }

    /// A session that was admitted ended.
    fn session_ended(&self, user: &User);
}
