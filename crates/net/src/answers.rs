//! Answers: the ends at which the rest of the node answers a partition's requests.
//!
//! Invariants  each answer reaches the partition once. If one is dropped without a result, its client has to retry: the
//!             partition reports a failure, except for messages, where the client gets nothing.

use crate::mailbox::{Mailbox, PartitionCommand};
use guildhall_model::{GuildId, Message, User};
use guildhall_partition::{Account, AuthFailure, Fetched, HandOver, OwnData, ResumeFault};
use guildhall_stdx::SlotKey;
use std::sync::Arc;

/// Answers one `Output::Authenticate`.
pub struct AuthAnswer {
    mailbox: Mailbox,
    conn: SlotKey,
    is_sent: bool,
}

impl AuthAnswer {
    pub(crate) fn new(mailbox: Mailbox, conn: SlotKey) -> Self {
        Self { mailbox, conn, is_sent: false }
    }

    /// Sends the result to the partition.
    pub fn send(mut self, result: Result<Account, AuthFailure>) {
        self.is_sent = true;
        self.mailbox.send(PartitionCommand::Authenticated { conn: self.conn, result });
    }
}

impl Drop for AuthAnswer {
    /// The check was abandoned: the client may try again.
    fn drop(&mut self) {
        if !self.is_sent {
            let result = Err(AuthFailure::Unavailable);
            self.mailbox.send(PartitionCommand::Authenticated { conn: self.conn, result });
        }
    }
}

/// Answers one `Output::FetchMessages`. Without an answer the client receives nothing, and repeats its request.
pub struct MessagesAnswer {
    mailbox: Mailbox,
    session: SlotKey,
    guild_id: GuildId,
}

impl MessagesAnswer {
    pub(crate) fn new(mailbox: Mailbox, session: SlotKey, guild_id: GuildId) -> Self {
        Self { mailbox, session, guild_id }
    }

    /// Sends the messages to the partition.
    pub fn send(self, messages: Vec<Arc<Message>>) {
        let Self { mailbox, session, guild_id } = self;
        mailbox.send(PartitionCommand::Messages { session, guild_id, messages });
    }
}

/// Answers one `Output::FetchSession` or `Output::FetchRest`.
pub struct SessionAnswer {
    mailbox: Mailbox,
    session_id: Arc<str>,
    is_rest: bool,
    /// None once it is sent.
    user: Option<Arc<User>>,
}

impl SessionAnswer {
    pub(crate) fn new(mailbox: Mailbox, (session_id, is_rest): (Arc<str>, bool), user: Arc<User>) -> Self {
        Self { mailbox, session_id, is_rest, user: Some(user) }
    }

    /// Sends the session to the partition, or why no node sent it.
    pub fn send(mut self, result: Result<HandOver, ResumeFault>) {
        self.pass(result);
    }

    fn pass(&mut self, result: Result<HandOver, ResumeFault>) {
        let Some(user) = self.user.take() else { return };
        let fetched = Fetched { session_id: self.session_id.clone(), user, is_rest: self.is_rest, result };
        self.mailbox.send(PartitionCommand::Fetched(Box::new(fetched)));
    }
}

impl Drop for SessionAnswer {
    /// The upstream has stopped: the client identifies again.
    fn drop(&mut self) {
        self.pass(Err(ResumeFault::Move));
    }
}

/// Answers one `Output::FetchDirects`.
pub struct DirectsAnswer {
    mailbox: Mailbox,
    session: SlotKey,
    is_sent: bool,
}

impl DirectsAnswer {
    pub(crate) fn new(mailbox: Mailbox, session: SlotKey) -> Self {
        Self { mailbox, session, is_sent: false }
    }

    /// Sends the direct messages and the settings to the partition.
    pub fn send(mut self, own: OwnData) {
        self.is_sent = true;
        self.mailbox.send(PartitionCommand::Directs { session: self.session, own: Some(own) });
    }
}

impl Drop for DirectsAnswer {
    /// The upstream could not read them: the client may try again.
    fn drop(&mut self) {
        if !self.is_sent {
            self.mailbox.send(PartitionCommand::Directs { session: self.session, own: None });
        }
    }
}
