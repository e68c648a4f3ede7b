//! Vocabulary of the wire protocol: ids, bit sets, codes, and the objects that clients see.
//!
//! Owns        the terms of the protocol reference, each defined once: typed ids, intents, capabilities, permissions,
//!             opcodes, close codes; the state objects (`User`, `Guild`, …) as the store keeps them;
//!             `from_gateway`, the bodies that the gateway sends; `to_gateway`, the payloads that clients send.
//! Invariants  a state object is never serialized to clients directly: a body in `from_gateway` borrows from it and
//!             adds the constants of the protocol, so storage and wire format change independently.
//! Not here    behaviour, encoding, I/O.
#![forbid(unsafe_code)]

pub mod activity;
mod audit;
mod auto_moderation;
mod capabilities;
mod channel;
mod close_code;
mod community;
mod direct;
mod emoji;
mod event_name;
mod forum;
pub mod from_gateway;
mod guild;
mod guild_resource;
mod id;
mod intents;
mod invite;
mod member;
mod message;
mod murmur3;
pub mod name;
mod notification_settings;
pub mod opcode;
mod permissions;
mod poll;
mod presence;
mod read_state;
mod relationship;
mod role;
mod scheduled_event;
mod snowflake;
mod stage_instance;
mod sticker;
mod thread;
pub mod to_gateway;
mod user;
mod voice;

pub use audit::{AuditAction, AuditChange, AuditEntry};
pub use auto_moderation::{AutoModAction, AutoModExecution, AutoModRule, AutoModTrigger};
pub use capabilities::{Capabilities, PassiveUpdate};
pub use channel::{Channel, ChannelType, Overwrite, OverwriteKind};
pub use close_code::{CloseCode, SessionFate};
pub use community::{
    FromTemplate, GuildTemplate, Onboarding, OnboardingOption, OnboardingPrompt, TemplateSource, WelcomeChannel,
    WelcomeScreen,
};
pub use direct::{Direct, DirectFields};
pub use emoji::{Emoji, ReactionEmoji, is_unicode_emoji};
pub use event_name::EventName;
pub use forum::{DefaultReaction, ForumFields, ForumTag};
pub use guild::Guild;
pub use guild_resource::{Ban, Follower, GuildResource, Pin, ResourceKey, ResourceKind, Webhook, WebhookSource};
pub use id::{
    ApplicationId, ChannelId, EmojiId, GuildId, Id, MessageId, ParseIdError, RoleId, StickerId, UserId, WebhookId,
    marker,
};
pub use intents::Intents;
pub use invite::{Invite, InviteCode, ParseInviteCodeError};
pub use member::{Member, MemberPictures, OnboardingAnswers};
pub use message::{
    Attachment, Message, MessageInteraction, MessageReference, MessageSnapshot, NewAttachment, Nonce, StickerItem,
};
pub use murmur3::murmur3_32;
pub use notification_settings::{ChannelOverride, MuteConfig, NOTIFICATIONS_INHERITED, NotificationSettings};
pub use opcode::Opcode;
pub use permissions::{MemberStanding, Permissions, channel_permissions, guild_permissions, thread_permissions};
pub use poll::{OpenPoll, Poll, PollAnswer};
pub use presence::{Activity, ClientStatus, Platform, Presence, Status};
pub use read_state::{MentionTarget, ReadState, UnreadMention};
pub use relationship::{Relation, Relationship, RelationshipKind};
pub use role::{Role, RoleColors, RoleIcon};
pub use scheduled_event::ScheduledEvent;
pub use snowflake::{EPOCH_MS, SnowflakeGenerator, shard_of, smallest_id_at, timestamp_of};
pub use stage_instance::StageInstance;
pub use sticker::Sticker;
pub use thread::{ThreadFields, ThreadMember};
pub use user::{AccountKind, User};
pub use voice::VoiceState;
