//! Refusals of commands, with HTTP status and code of reference.md §10.1.

use serde::{Deserialize, Deserializer, Serialize};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Name of a field in a request. The alias keeps serde from borrowing it.
type FieldName = &'static str;

/// Names of fields that other nodes sent, which are kept for good. A further one is replaced by `OTHER_FIELD`.
const FIELD_NAMES_MAX: usize = 256;
/// A longer name is replaced, too.
const FIELD_NAME_BYTES_MAX: usize = 64;
/// Error text for callers while the disk is full.
pub const DISK_FULL: &str = "the disk is full: writes are refused, reads and deletions continue";
/// Why a node without its database refuses most of its requests.
pub const DATABASE_AWAY: &str =
    "the database cannot be reached: writes are refused, and what is not in memory cannot be read";
const OTHER_FIELD: FieldName = "request";

static FIELD_NAMES: Mutex<BTreeSet<FieldName>> = Mutex::new(BTreeSet::new());

fn field_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FieldName, D::Error> {
    let name = Cow::<str>::deserialize(deserializer)?;
    // The set is consistent between any two statements.
    let mut names = FIELD_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(&*name) {
        return Ok(name);
    }
    if names.len() >= FIELD_NAMES_MAX || name.len() > FIELD_NAME_BYTES_MAX {
        return Ok(OTHER_FIELD);
    }
    let name: FieldName = Box::leak(name.into_owned().into_boxed_str());
    names.insert(name);
    Ok(name)
}

/// Why a guild refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The guild does not exist, or the actor is not a member.
    #[error("Unknown Guild")]
    UnknownGuild,
    /// No such channel here.
    #[error("Unknown Channel")]
    UnknownChannel,
    /// No such message.
    #[error("Unknown Message")]
    UnknownMessage,
    /// Not a member.
    #[error("Unknown Member")]
    UnknownMember,
    /// No such role.
    #[error("Unknown Role")]
    UnknownRole,
    /// No such custom emoji.
    #[error("Unknown Emoji")]
    UnknownEmoji,
    /// No such user.
    #[error("Unknown User")]
    UnknownUser,
    /// The account is not banned.
    #[error("Unknown Ban")]
    UnknownBan,
    /// The invite does not exist or has expired.
    #[error("Unknown Invite")]
    UnknownInvite,
    /// No such webhook.
    #[error("Unknown Webhook")]
    UnknownWebhook,
    /// The token does not belong to the webhook.
    #[error("Invalid Webhook Token")]
    InvalidWebhookToken,
    /// The account is banned.
    #[error("The user is banned from this guild.")]
    Banned,
    /// The actor cannot view the object.
    #[error("Missing Access")]
    MissingAccess,
    /// The actor can view the object, but lacks the permission.
    #[error("Missing Permissions")]
    MissingPermissions,
    /// Another account wrote the message.
    #[error("Cannot edit a message authored by another user")]
    NotTheAuthor,
    /// The channel type has no messages.
    #[error("Cannot send messages in a non-text channel")]
    NotATextChannel,
    /// The sticker is not of this guild.
    #[error("Invalid sticker sent")]
    InvalidSticker,
    /// The message would be empty.
    #[error("Cannot send an empty message")]
    EmptyMessage,
    /// The message to reply to does not exist.
    #[error("Invalid Form Body")]
    UnknownReference,
    /// More different emoji than a message can have.
    #[error("Maximum number of reactions reached (20)")]
    TooManyReactions,
    /// No such rule of auto moderation.
    #[error("Unknown Auto Moderation Rule")]
    UnknownAutoModRule,
    /// More rules of this type than a guild can have.
    #[error("Maximum number of auto moderation rules of this type reached")]
    TooManyRules,
    /// The guild has no welcome screen.
    #[error("Unknown Guild Welcome Screen")]
    UnknownWelcomeScreen,
    /// An enabled onboarding has more channels.
    #[error(
        "Cannot update onboarding while below requirements: it needs 7 channels, and in 5 of them @everyone must be \
         able to send messages"
    )]
    OnboardingRequirements,
    /// No template has this code.
    #[error("Unknown guild template")]
    UnknownTemplate,
    /// A guild has at most one.
    #[error("This guild already has a template")]
    TemplateExists,
    /// The guild has more overwrites of roles than a template can have.
    #[error("This guild has more than 10000 permission overwrites of roles: a template cannot have that many")]
    TemplateTooLarge,
    /// The message's type does not allow this.
    #[error("Invalid message type")]
    InvalidMessageType,
    /// The message was published before, or is a copy.
    #[error("This message has already been crossposted")]
    CrosspostedBefore,
    /// More followers than a channel can have.
    #[error("Maximum number of followers of this channel reached")]
    TooManyFollowers,
    /// The message has no poll.
    #[error("Cannot expire a non-poll message")]
    NoPoll,
    /// The poll has ended.
    #[error("Poll expired")]
    PollExpired,
    /// A message with a poll keeps its content.
    #[error("Cannot edit a poll message")]
    PollMessage,
    /// An emoji of an answer is not of this guild.
    #[error("Cannot use an emoji included with the poll")]
    PollEmoji,
    /// More open polls than a guild can have.
    #[error("Maximum number of open polls reached: wait until one has ended, or end one")]
    TooManyPolls,
    /// More channels, roles or similar objects than a guild can have.
    #[error("Maximum number of guild channels reached (500)")]
    TooManyChannels,
    /// More roles than a guild can have.
    #[error("Maximum number of guild roles reached (250)")]
    TooManyRoles,
    /// More bans than a guild can have.
    #[error("Maximum number of bans has been reached (500000)")]
    TooManyBans,
    /// More invites than a guild can have.
    #[error("Maximum number of invites reached (1000)")]
    TooManyInvites,
    /// More temporary members than a guild can have.
    #[error("Maximum number of temporary members reached; ask for an invite that is not temporary")]
    TooManyTemporaryMembers,
    /// More webhooks than a channel can have.
    #[error("Maximum number of webhooks reached (15)")]
    TooManyWebhooks,
    /// More pins than a channel can have.
    #[error("Maximum number of pins reached for the channel (250)")]
    TooManyPins,
    /// No such sticker.
    #[error("Unknown Sticker")]
    UnknownSticker,
    /// The scheduled event does not exist.
    #[error("Unknown Guild Scheduled Event")]
    UnknownScheduledEvent,
    /// The channel has no open stage.
    #[error("Unknown Stage Instance")]
    UnknownStage,
    /// The channel has an open stage already.
    #[error("The Stage is already open")]
    StageExists,
    /// More emoji than a guild can have.
    #[error("Maximum number of emojis reached (250)")]
    TooManyEmojis,
    /// More stickers than a guild can have.
    #[error("Maximum number of stickers reached (60)")]
    TooManyStickers,
    /// More scheduled events than a guild can have.
    #[error("Maximum number of uncompleted guild scheduled events has been reached (100)")]
    TooManyScheduledEvents,
    /// More threads than a guild can have.
    #[error("Maximum number of active threads reached (1000)")]
    TooManyThreads,
    /// More members than a thread can have.
    #[error("Maximum number of thread participants has been reached (1000)")]
    TooManyThreadMembers,
    /// The message has a thread already.
    #[error("A thread has already been created for this message")]
    ThreadExists,
    /// An archived thread accepts only new messages.
    #[error("Thread is archived")]
    ArchivedThread,
    /// A locked thread is for members with MANAGE_THREADS.
    #[error("This thread is locked")]
    LockedThread,
    /// The forum requires a tag for each post.
    #[error("A tag is required to create a forum post in this channel")]
    TagRequired,
    /// A webhook of a forum has to name a post.
    #[error("Webhooks posted to forum channels must have a thread_name or thread_id")]
    NeedsPostOrThread,
    /// A webhook opens a post or writes in one.
    #[error("Webhooks posted to forum channels cannot have both a thread_name and thread_id")]
    PostOrThread,
    /// The webhook's channel has no posts.
    #[error("Webhooks can only create threads in forum channels")]
    NoPostsByWebhook,
    /// Direct messages do not support this.
    #[error("Cannot execute action on a DM channel")]
    NotInDirect,
    /// The recipient does not accept direct messages from this account.
    #[error("Cannot send messages to this user")]
    CannotMessage,
    /// More new direct messages or groups than an account may create per day.
    #[error("You are opening direct messages too fast")]
    TooManyDirects,
    /// The account cannot be a recipient.
    #[error("Invalid Recipient(s)")]
    InvalidRecipient,
    /// More accounts than a group can have.
    #[error("Maximum number of recipients reached (10)")]
    TooManyRecipients,
    /// More overwrites than a channel can have.
    #[error("Maximum number of permission overwrites reached (1000)")]
    TooManyOverwrites,
    /// No such overwrite.
    #[error("Unknown Permission Overwrite")]
    UnknownOverwrite,
    /// `@everyone` or a managed role is not allowed here.
    #[error("Invalid Role")]
    InvalidRole,
    /// The member is not in voice.
    #[error("Target user is not connected to voice.")]
    NotInVoice,
    /// The user is not in a voice channel that the actor can view.
    #[error("Unknown Voice State")]
    UnknownVoiceState,
    /// The channel's type does not allow this.
    #[error("Cannot execute action on this channel type")]
    WrongChannelType,
    /// The scheduled event is over.
    #[error("Cannot update a finished event")]
    FinishedEvent,
    /// The field does not allow this value.
    #[error("Invalid Form Body")]
    InvalidForm(#[serde(deserialize_with = "field_name")] FieldName),
    /// Slow mode is active.
    #[error("This action cannot be performed due to slowmode rate limit.")]
    SlowMode {
        /// Milliseconds until the next message is allowed.
        retry_after_ms: u64,
    },
    /// A hook of the program around the node refused the text. Guilds never return it: the caller's node does.
    #[error("Message was blocked by automatic moderation")]
    Blocked,
    /// As `Blocked`, with the hook's text for the client: `Refusal::blocked`.
    #[error("{0}")]
    BlockedBecause(#[serde(deserialize_with = "field_name")] FieldName),
    /// The object was changed by another caller: read it again.
    #[error("It was changed by another request")]
    Changed,
    /// The guild cannot be loaded, or its worker is overloaded: retry.
    #[error("Service Unavailable")]
    Unavailable,
    /// As `Unavailable`, because the disk is full. Set by the caller's node; guilds and other nodes do not use it.
    #[error("{DISK_FULL}")]
    DiskFull,
    /// As `Unavailable`, because the node does not reach its database. Guilds never return it: the caller's node does.
    #[error("{DATABASE_AWAY}")]
    DatabaseAway,
    /// The guild's reply has another type than the request names: a bug. The command may have been applied.
    #[error("500: Internal Server Error")]
    Internal,
}

/// Texts of hooks that are kept for good. A further one is left out.
const BLOCKED_TEXTS_MAX: usize = 1_024;
/// A longer text is cut.
const BLOCKED_CHARS_MAX: usize = 200;

static BLOCKED_TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl Refusal {
    /// The refusal of a text with a message for its author, of at most `BLOCKED_CHARS_MAX` characters. A hook has few
    /// different ones; past `BLOCKED_TEXTS_MAX` a new one is replaced by `Blocked`.
    #[must_use]
    pub fn blocked(message: &str) -> Self {
        let message: String = message.trim().chars().take(BLOCKED_CHARS_MAX).collect();
        if message.is_empty() {
            return Self::Blocked;
        }
        // The set is consistent between any two statements.
        let mut texts = BLOCKED_TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(&*message) {
            return Self::BlockedBecause(text);
        }
        if texts.len() >= BLOCKED_TEXTS_MAX {
            return Self::Blocked;
        }
        let text: &'static str = Box::leak(message.into_boxed_str());
        texts.insert(text);
        Self::BlockedBecause(text)
    }

    /// HTTP status and JSON error code.
    #[must_use]
    pub fn status_and_code(self) -> (u16, u32) {
        match self {
            Self::UnknownGuild => (404, 10004),
            Self::UnknownChannel => (404, 10003),
            Self::UnknownMessage => (404, 10008),
            Self::UnknownMember => (404, 10007),
            Self::UnknownRole => (404, 10011),
            Self::UnknownEmoji => (400, 10014),
            Self::UnknownUser => (404, 10013),
            Self::UnknownBan => (404, 10026),
            Self::UnknownInvite => (404, 10006),
            Self::UnknownWebhook => (404, 10015),
            Self::InvalidWebhookToken => (401, 50027),
            Self::Banned => (403, 40007),
            Self::TooManyBans => (400, 30035),
            Self::TooManyInvites => (400, 30016),
            Self::TooManyTemporaryMembers => (400, 0),
            Self::TooManyWebhooks => (400, 30007),
            Self::TooManyPins => (400, 30003),
            Self::UnknownSticker => (404, 10060),
            Self::UnknownScheduledEvent => (404, 10070),
            Self::UnknownStage => (404, 10067),
            Self::StageExists => (400, 150_006),
            Self::TooManyEmojis => (400, 30008),
            Self::TooManyStickers => (400, 30039),
            Self::TooManyScheduledEvents => (400, 30038),
            Self::TooManyThreads => (400, 160_006),
            Self::TooManyThreadMembers => (400, 30033),
            Self::ThreadExists => (400, 160_004),
            Self::ArchivedThread => (403, 50083),
            Self::LockedThread => (403, 160_005),
            Self::TagRequired => (400, 40067),
            Self::NeedsPostOrThread => (400, 220_001),
            Self::PostOrThread => (400, 220_002),
            Self::NoPostsByWebhook => (400, 220_003),
            Self::MissingAccess => (403, 50001),
            Self::MissingPermissions => (403, 50013),
            Self::NotTheAuthor => (403, 50005),
            Self::NotATextChannel => (400, 50008),
            Self::InvalidSticker => (400, 50081),
            Self::EmptyMessage => (400, 50006),
            Self::UnknownReference => (400, 50035),
            Self::TooManyReactions => (400, 30010),
            Self::UnknownAutoModRule => (404, 10066),
            Self::TooManyRules => (400, 0),
            Self::UnknownWelcomeScreen => (404, 10069),
            Self::OnboardingRequirements => (400, 350_001),
            Self::UnknownTemplate => (404, 10057),
            Self::TemplateExists => (400, 30031),
            Self::TemplateTooLarge => (400, 0),
            Self::InvalidMessageType => (400, 50068),
            Self::CrosspostedBefore => (400, 40033),
            Self::TooManyFollowers => (400, 30007),
            Self::NoPoll => (400, 520_006),
            Self::PollExpired => (400, 520_001),
            Self::PollMessage => (400, 520_003),
            Self::PollEmoji => (400, 520_004),
            Self::TooManyPolls => (400, 0),
            Self::TooManyChannels => (400, 30013),
            Self::TooManyRoles => (400, 30005),
            Self::NotInDirect => (403, 50003),
            Self::CannotMessage => (403, 50007),
            Self::TooManyDirects => (400, 40003),
            Self::InvalidRecipient => (400, 50033),
            Self::TooManyRecipients => (400, 30004),
            Self::TooManyOverwrites => (400, 30060),
            Self::UnknownOverwrite => (404, 10009),
            Self::InvalidRole => (400, 50028),
            Self::NotInVoice => (400, 40032),
            Self::UnknownVoiceState => (404, 10065),
            Self::WrongChannelType => (400, 50024),
            Self::FinishedEvent => (400, 180_000),
            Self::InvalidForm(_) => (400, 50035),
            Self::SlowMode { .. } => (429, 20016),
            Self::Blocked | Self::BlockedBecause(_) => (400, 200_000),
            Self::Changed => (409, 0),
            Self::Unavailable | Self::DiskFull | Self::DatabaseAway => (503, 0),
            Self::Internal => (500, 0),
        }
    }
}
