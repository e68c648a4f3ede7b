//! Refusals: reasons why an IDENTIFY started no session, or a RESUME continued none.
//!
//! Owns        `IdentifyFault` and `ResumeFault`, the closed sets of reasons, each with its close code or op 9.
//!             `Core::refuse_identify` and `Core::refuse_resume` answer clients.
//! Invariants  every IDENTIFY that starts no session while its client is connected leads to one
//!             `Output::IdentifyRefused`, every such RESUME to one `Output::ResumeRefused`. A close reason fits a close
//!             frame (123 bytes). (tests `close_reasons_*` in `tests/it/closing.rs`,
//!             `every_refused_resume_has_its_reason` in `tests/it/resume.rs`)
//! Not here    counting and logging: the driver.

use guildhall_model::{CloseCode, UserId, to_gateway::IdentifyError};
use guildhall_stdx::faults;
use std::borrow::Cow;

/// Bytes of a close frame's reason (RFC 6455 §5.5).
pub(crate) const REASON_BYTES_MAX: usize = 123;

faults! {
    /// Reason why an IDENTIFY started no session. The texts name the correction.
    IdentifyFault of "an IDENTIFY" {
        "payload" Payload "its payload cannot be read: the close reason names the field",
        "address_rate" AddressRate "its address sent too many: see limits.identifies_per_second_max",
        "token_rate" TokenRate "its token was sent too often: see limits.identify_concurrency and limits.identify_interval_ms",
        "node_rate" NodeRate "the node got more than limits.identifies_per_second_max",
        "token" Token "its token was refused: see the reason of the token",
        "unavailable" Unavailable "its token could not be checked now: the store or the key set did not answer, or the node has no lease",
        "intents_malformed" IntentsMalformed "`intents` is no number, or a bot left it out",
        "intents_unknown" IntentsUnknown "`intents` has bits without a meaning",
        "intents_not_granted" IntentsNotGranted "it asks for privileged intents that application_flags of the account do not grant",
        "intents_of_users" IntentsOfUsers "it asks for intents that bots cannot have",
        "shard" Shard "`shard` is not [id, count] with id below count",
        "sharding_required" ShardingRequired "its shard would hold more than limits.guilds_per_shard_max guilds",
        "bot_rate" BotRate "the bot identifies more often than limits.identify_concurrency per limits.identify_interval_ms allow",
        "bot_day" BotDay "the bot used up limits.bot_identifies_per_day",
        "sessions" Sessions "the account has limits.user_sessions_max sessions",
        "accounts" Accounts "the node remembers no further accounts now",
    }
}

faults! {
    /// Reason why a RESUME continued no session. The texts describe the cause, and the client's next step.
    ResumeFault of "a RESUME" {
        "token" Token "its token was refused: see the reason of the token",
        "unavailable" Unavailable "its token could not be checked now: the store or the key set did not answer, or the node has no lease",
        "unknown" Unknown "no session has this id: it ended, or waited longer than limits.session_resume_ms",
        "account" Account "the session belongs to another account",
        "encoding" Encoding "the session has another encoding than this connection: JSON or ETF",
        "not_ready" NotReady "the session has no READY yet",
        "sequence" Sequence "the events after `seq` are not kept any more (limits.replay_*), or `seq` is ahead of the session",
        "permissions" Permissions "a GUILD_CREATE to replay has channels that the account cannot view any more",
        "move" Move "another node has the session, or had it, and did not send it in time",
        "silent" Silent "another node has the session, which lacks the intent GUILDS: its client would not see that it moved",
        "doubt" Doubt "its node was killed, and which events of its account the client has received is not known",
        "size" Size "another node has the session, and its events are more than one node sends another",
    }
}

impl IdentifyFault {
    /// The code to close with. None: op 9, after which the client may try again.
    #[must_use]
    pub fn close_code(self) -> Option<CloseCode> {
        match self {
            Self::Payload => Some(CloseCode::UnknownOpcode),
            Self::Token => Some(CloseCode::AuthenticationFailed),
            Self::IntentsMalformed | Self::IntentsUnknown => Some(CloseCode::InvalidIntents),
            Self::IntentsNotGranted | Self::IntentsOfUsers => Some(CloseCode::DisallowedIntents),
            Self::Shard => Some(CloseCode::InvalidShard),
            Self::ShardingRequired => Some(CloseCode::ShardingRequired),
            Self::Sessions => Some(CloseCode::TooManySessions),
            Self::AddressRate
            | Self::TokenRate
            | Self::NodeRate
            | Self::Unavailable
            | Self::BotRate
            | Self::BotDay
            | Self::Accounts => None,
        }
    }
}

impl From<IdentifyError> for IdentifyFault {
    fn from(error: IdentifyError) -> Self {
        match error {
            IdentifyError::MalformedIntents => Self::IntentsMalformed,
            IdentifyError::UnknownIntents(_) => Self::IntentsUnknown,
            IdentifyError::UngrantedIntents(_) => Self::IntentsNotGranted,
            IdentifyError::UserIntents(_) => Self::IntentsOfUsers,
            IdentifyError::InvalidShard => Self::Shard,
        }
    }
}

/// A RESUME that continued no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeRefused {
    /// Reason of the refusal.
    pub fault: ResumeFault,
    /// The account, once its token is checked.
    pub user_id: Option<UserId>,
}

/// An IDENTIFY that started no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifyRefused {
    /// Reason of the refusal.
    pub fault: IdentifyFault,
    /// The account, once its token is checked.
    pub user_id: Option<UserId>,
    /// The field or intents, where the reason does not contain them. Never text that the client chose freely.
    pub detail: Option<Cow<'static, str>>,
}

impl From<IdentifyFault> for IdentifyRefused {
    fn from(fault: IdentifyFault) -> Self {
        Self { fault, user_id: None, detail: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Fault;

    #[test]
    fn reasons_fit_a_close_frame() {
        for fault in IdentifyFault::ALL {
            if let Some(code) = fault.close_code() {
                assert!(code.reason().len() + 2 + fault.to_string().len() <= REASON_BYTES_MAX, "{fault}");
            }
        }
    }
}
