//! Outcomes of commands.
//!
//! Owns        `Outcome` for the driver; within the guild `Stop`, and `CommandResult` of the functions that run one.

use super::{Refusal, Reply};
use crate::job::JobId;
use guildhall_model::{ChannelId, MessageId};

/// What became of a command.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The command was applied or refused. The caller gets the reply once everything up to `version` is durable;
    /// replies to reads too, because they may depend on pending writes.
    Reply(Result<Reply, Refusal>),
    /// It takes a while, and nothing is refused yet: `Output::Answer` with this id will follow,
    /// once, from another input.
    Later(JobId),
    /// It needs a message that is not in memory, and has changed nothing. Load the message, hand it to
    /// `handle_message_loaded` (or `handle_message_load_failed`), and run the same command again. It
    /// may then need another.
    NeedsMessage(ChannelId, MessageId),
}

/// Reason why a command stops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The command is refused.
    Refused(Refusal),
    /// The command needs this message, which the driver must load.
    Needs(ChannelId, MessageId),
    /// A job or background task answers the command later.
    Later(JobId),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(crate) type CommandResult<T = Reply> = Result<T, Stop>;
