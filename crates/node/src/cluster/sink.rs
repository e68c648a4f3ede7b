//! Sink: guilds' messages to relays of this node and of others.

use super::Membership;
use crate::{RelaySink, relay_sink::Unhandled, request_trace::context_of};
use guildhall_accounting::TraceHandle;
use guildhall_cluster::{DirectoryChange, PeerMessage};
use guildhall_guild_protocol::{PartitionId, Published, ToRelay, Whose};
use guildhall_model::{CloseCode, GuildId, Presence, User, UserId};
use std::sync::Arc;
use tokio::sync::oneshot;

/// `RelaySink` of a node in a cluster.
pub(crate) struct ClusterSink {
    pub(crate) local: Arc<dyn RelaySink>,
    pub(crate) membership: Arc<Membership>,
}

impl ClusterSink {
    /// Drops a message of a guild that this node has ceased to own: its relays here are about to be reset.
    fn if_owned(&self, message: ToRelay, deliver: impl FnOnce(ToRelay) -> Result<(), ToRelay>) -> Result<(), ToRelay> {
        if self.is_releasing(message.guild_id) { Ok(()) } else { deliver(message) }
    }
}

impl RelaySink for ClusterSink {
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        if partition.node() == self.membership.number().0 {
            self.if_owned(message, |message| self.local.try_deliver(partition, message))
        } else {
            self.membership.try_send_to_relay(partition, message, None)
        }
    }

    fn try_deliver_traced(&self, partition: PartitionId, message: ToRelay, trace: &TraceHandle) -> Result<(), ToRelay> {
        if partition.node() == self.membership.number().0 {
            self.if_owned(message, |message| self.local.try_deliver_traced(partition, message, trace))
        } else {
            self.membership.try_send_to_relay(partition, message, context_of(trace))
        }
    }

    fn delivered(&self, guild_id: GuildId) {
        self.membership.release_messages(guild_id);
    }

    fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        self.local.announce_joined(user_id, guild_id);
        self.membership.send_to_all(&PeerMessage::Joined { user_id, guild_id });
    }

    fn publish_to_users(&self, published: &Arc<Published>, trace: Option<&TraceHandle>) -> usize {
        let partitions = self.local.publish_to_users(published, trace);
        let published = published.clone();
        self.membership.send_to_all(&match trace.and_then(context_of) {
            Some(trace) => PeerMessage::TracedUsers { published, trace },
            None => PeerMessage::Users(published),
        });
        partitions
    }

    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> Vec<oneshot::Receiver<usize>> {
        self.local.close_sessions(whose, code)
    }

    fn presences(&self, user_ids: &Arc<[UserId]>) -> Vec<oneshot::Receiver<Vec<(UserId, Presence)>>> {
        self.local.presences(user_ids)
    }

    fn may_publish_to_users(&self) -> bool {
        self.local.may_publish_to_users()
    }

    fn announce_user(&self, user: &Arc<User>) {
        self.local.announce_user(user);
        self.membership.send_to_all(&PeerMessage::UserChanged(user.clone()));
    }

    fn changed(&self, changes: &[DirectoryChange]) {
        if !changes.is_empty() {
            self.membership.send_to_all(&PeerMessage::Changed(changes.to_vec()));
        }
    }

    fn fenced(&self, guild_id: GuildId) {
        self.membership.release(guild_id);
    }

    fn in_use(&self, guild_id: GuildId) {
        self.membership.in_use(guild_id);
    }

    fn unloaded(&self, guild_id: GuildId) {
        self.membership.unloaded(guild_id);
    }

    fn is_releasing(&self, guild_id: GuildId) -> bool {
        self.membership.releasing.contains(guild_id)
    }

    fn gave_up(&self, guild_id: GuildId, inputs: Vec<Unhandled>) {
        self.membership.gave_up(guild_id, inputs);
    }

    fn released(&self, guild_id: GuildId) {
        self.membership.releasing.end(guild_id);
    }
}
