//! Relay sink: the partitions' mailboxes and the clock, as the node uses them.

use crate::mailbox::Input;
use guildhall_accounting::TraceHandle;
use guildhall_cluster::DirectoryChange;
use guildhall_guild_protocol::{PartitionId, Published, ToRelay, Whose};
use guildhall_model::{CloseCode, GuildId, Presence, User, UserId};
use guildhall_stdx::Now;
use std::sync::Arc;
use tokio::sync::oneshot;

/// An input that a guild has not handled.
pub struct Unhandled(pub(crate) Input);

/// Where guilds' messages to relays go. Implemented by whatever runs the partitions.
pub trait RelaySink: Send + Sync + 'static {
    /// Hands over a message without waiting.
    ///
    /// # Errors
    /// Returns the message if the partition's mailbox is full. It is not retried: the guild restarts the relay's stream
    /// when there is room.
    ///
    /// # Panics
    /// Must not: it would take a guild worker down.
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay>;

    /// As `try_deliver`, for an event of a traced request: the relay adds its spans to `trace`.
    ///
    /// # Errors
    /// As `try_deliver`.
    fn try_deliver_traced(&self, partition: PartitionId, message: ToRelay, trace: &TraceHandle) -> Result<(), ToRelay> {
        let _ = trace;
        self.try_deliver(partition, message)
    }

    /// The guild has handed over all messages of its last input: those for one node can travel together. Must not wait.
    fn delivered(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// An account joined a guild, durably: its live sessions on all partitions attach to the guild. The guild
    /// cannot notify them itself, because its relays do not know them yet. Guild workers call this, so it must
    /// not wait or panic.
    fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        let _ = (user_id, guild_id);
    }

    /// Sends an event to the sessions of the accounts in its audience rule, in the order of the calls. Guild workers
    /// call this after `may_publish_to_users` returned true, so it must not wait or panic. With `trace`, the request's,
    /// the partitions add their spans. Returns the number of this node's partitions: each reports to the event's
    /// receipt, if it has one.
    fn publish_to_users(&self, published: &Arc<Published>, trace: Option<&TraceHandle>) -> usize {
        let _ = (published, trace);
        0
    }

    /// Closes sessions of this node's partitions. Each partition answers with its number of closed sessions.
    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> Vec<oneshot::Receiver<usize>> {
        let _ = (whose, code);
        Vec::new()
    }

    /// Presences of these accounts over the sessions of this node's partitions, without those that are offline. Each
    /// partition answers.
    fn presences(&self, user_ids: &Arc<[UserId]>) -> Vec<oneshot::Receiver<Vec<(UserId, Presence)>>> {
        let _ = user_ids;
        Vec::new()
    }

    /// Whether there is room for another such event. False: guilds hold the event and try again within milliseconds.
    fn may_publish_to_users(&self) -> bool {
        true
    }

    /// An account changed, durably: its live sessions on all partitions receive USER_UPDATE. Must not wait.
    fn announce_user(&self, user: &Arc<User>) {
        let _ = user;
    }

    /// Entries of the directory changed, durably: other nodes read them again. Must not wait.
    fn changed(&self, changes: &[DirectoryChange]) {
        let _ = changes;
    }

    /// The store refused a commit, because another node has claimed the guild. Must not wait.
    fn fenced(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// The guild is about to be loaded. Must not wait.
    fn in_use(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// The guild was dropped from memory. Must not wait.
    fn unloaded(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// Whether this node has ceased to own the guild, and its worker has yet to handle the release: inputs that come
    /// before the release are refused.
    fn is_releasing(&self, guild_id: GuildId) -> bool {
        let _ = guild_id;
        false
    }

    /// The guild's worker has handed a guild over: these inputs it has not handled. Must not wait.
    fn gave_up(&self, guild_id: GuildId, inputs: Vec<Unhandled>) {
        let _ = (guild_id, inputs);
    }

    /// The guild's worker has handled a release.
    fn released(&self, guild_id: GuildId) {
        let _ = guild_id;
    }
}

/// The node's clock. The real one is in `guildhall-net`, a fake one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// Current time.
    fn now(&self) -> Now;
}
