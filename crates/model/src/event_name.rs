//! Names of dispatch events, with the intents that gate each.
//!
//! Spec  docs/protocol/reference.md §4.1, §7.

use crate::intents::Intents;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

macro_rules! events {
    ($($variant:ident $wire:literal $($intent:ident)|*;)*) => {
        /// A dispatch event that the gateway itself sends.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventName { $(#[doc = $wire] $variant,)* }

        impl EventName {
            /// All names, for metrics per event.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The value of `t`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The event with this name, if Guildhall sends it.
            #[must_use]
            pub fn from_wire(name: &str) -> Option<Self> {
                match name { $($wire => Some(Self::$variant),)* _ => None }
            }

            /// A session needs any of these intents to receive the event in a guild; none: no intent is needed.
            #[must_use]
            pub const fn guild_intents(self) -> Intents {
                match self { $(Self::$variant => Intents(0 $(| Intents::$intent.0)*),)* }
            }
        }
    };
}

events! {
    Ready "READY" ;
    ReadySupplemental "READY_SUPPLEMENTAL" ;
    Resumed "RESUMED" ;
    RateLimited "RATE_LIMITED" ;
    GuildCreate "GUILD_CREATE" GUILDS;
    GuildUpdate "GUILD_UPDATE" GUILDS;
    GuildDelete "GUILD_DELETE" GUILDS;
    GuildRoleCreate "GUILD_ROLE_CREATE" GUILDS;
    GuildRoleUpdate "GUILD_ROLE_UPDATE" GUILDS;
    GuildRoleDelete "GUILD_ROLE_DELETE" GUILDS;
    GuildBanAdd "GUILD_BAN_ADD" GUILD_MODERATION;
    GuildBanRemove "GUILD_BAN_REMOVE" GUILD_MODERATION;
    GuildAuditLogEntryCreate "GUILD_AUDIT_LOG_ENTRY_CREATE" GUILD_MODERATION;
    GuildEmojisUpdate "GUILD_EMOJIS_UPDATE" GUILD_EXPRESSIONS;
    GuildStickersUpdate "GUILD_STICKERS_UPDATE" GUILD_EXPRESSIONS;
    InviteCreate "INVITE_CREATE" GUILD_INVITES;
    InviteDelete "INVITE_DELETE" GUILD_INVITES;
    WebhooksUpdate "WEBHOOKS_UPDATE" GUILD_WEBHOOKS;
    GuildScheduledEventCreate "GUILD_SCHEDULED_EVENT_CREATE" GUILD_SCHEDULED_EVENTS;
    GuildScheduledEventUpdate "GUILD_SCHEDULED_EVENT_UPDATE" GUILD_SCHEDULED_EVENTS;
    GuildScheduledEventDelete "GUILD_SCHEDULED_EVENT_DELETE" GUILD_SCHEDULED_EVENTS;
    GuildScheduledEventUserAdd "GUILD_SCHEDULED_EVENT_USER_ADD" GUILD_SCHEDULED_EVENTS;
    GuildScheduledEventUserRemove "GUILD_SCHEDULED_EVENT_USER_REMOVE" GUILD_SCHEDULED_EVENTS;
    StageInstanceCreate "STAGE_INSTANCE_CREATE" GUILDS;
    StageInstanceUpdate "STAGE_INSTANCE_UPDATE" GUILDS;
    StageInstanceDelete "STAGE_INSTANCE_DELETE" GUILDS;
    ChannelPinsUpdate "CHANNEL_PINS_UPDATE" GUILDS;
    ThreadCreate "THREAD_CREATE" GUILDS;
    ThreadUpdate "THREAD_UPDATE" GUILDS;
    ThreadDelete "THREAD_DELETE" GUILDS;
    ThreadMemberUpdate "THREAD_MEMBER_UPDATE" GUILDS;
    ThreadMembersUpdate "THREAD_MEMBERS_UPDATE" GUILD_MEMBERS;
    ThreadMemberListUpdate "THREAD_MEMBER_LIST_UPDATE" ;
    UserUpdate "USER_UPDATE" ;
    ChannelCreate "CHANNEL_CREATE" GUILDS;
    ChannelUpdate "CHANNEL_UPDATE" GUILDS;
    ChannelDelete "CHANNEL_DELETE" GUILDS;
    ChannelRecipientAdd "CHANNEL_RECIPIENT_ADD" ;
    ChannelRecipientRemove "CHANNEL_RECIPIENT_REMOVE" ;
    ChannelMemberCountUpdate "CHANNEL_MEMBER_COUNT_UPDATE" ;
    ChannelInfo "CHANNEL_INFO" ;
    ChannelStatuses "CHANNEL_STATUSES" ;
    ChannelSync "CHANNEL_SYNC" ;
    ThreadListSync "THREAD_LIST_SYNC" GUILDS;
    DeletedEntityIds "DELETED_ENTITY_IDS" ;
    SoundboardSounds "SOUNDBOARD_SOUNDS" ;
    SessionsReplace "SESSIONS_REPLACE" ;
    GuildMemberAdd "GUILD_MEMBER_ADD" GUILD_MEMBERS;
    GuildMemberUpdate "GUILD_MEMBER_UPDATE" GUILD_MEMBERS;
    GuildMemberRemove "GUILD_MEMBER_REMOVE" GUILD_MEMBERS;
    GuildMembersChunk "GUILD_MEMBERS_CHUNK" ;
    GuildMemberListUpdate "GUILD_MEMBER_LIST_UPDATE" ;
    PresenceUpdate "PRESENCE_UPDATE" GUILD_PRESENCES;
    MessageCreate "MESSAGE_CREATE" GUILD_MESSAGES;
    MessageUpdate "MESSAGE_UPDATE" GUILD_MESSAGES;
    MessageDelete "MESSAGE_DELETE" GUILD_MESSAGES;
    MessageDeleteBulk "MESSAGE_DELETE_BULK" GUILD_MESSAGES;
    LastMessages "LAST_MESSAGES" ;
    MessageReactionAdd "MESSAGE_REACTION_ADD" GUILD_MESSAGE_REACTIONS;
    MessageReactionRemove "MESSAGE_REACTION_REMOVE" GUILD_MESSAGE_REACTIONS;
    MessageReactionRemoveAll "MESSAGE_REACTION_REMOVE_ALL" GUILD_MESSAGE_REACTIONS;
    MessageReactionRemoveEmoji "MESSAGE_REACTION_REMOVE_EMOJI" GUILD_MESSAGE_REACTIONS;
    MessagePollVoteAdd "MESSAGE_POLL_VOTE_ADD" GUILD_MESSAGE_POLLS;
    MessagePollVoteRemove "MESSAGE_POLL_VOTE_REMOVE" GUILD_MESSAGE_POLLS;
    TypingStart "TYPING_START" GUILD_MESSAGE_TYPING;
    VoiceStateUpdate "VOICE_STATE_UPDATE" GUILD_VOICE_STATES;
    VoiceServerUpdate "VOICE_SERVER_UPDATE" ;
    PassiveUpdateV1 "PASSIVE_UPDATE_V1" ;
    PassiveUpdateV2 "PASSIVE_UPDATE_V2" ;
    ChannelUnreadUpdate "CHANNEL_UNREAD_UPDATE" ;
    MessageAck "MESSAGE_ACK" ;
    ChannelPinsAck "CHANNEL_PINS_ACK" ;
    UserGuildSettingsUpdate "USER_GUILD_SETTINGS_UPDATE" ;
    RelationshipAdd "RELATIONSHIP_ADD" ;
    RelationshipUpdate "RELATIONSHIP_UPDATE" ;
    RelationshipRemove "RELATIONSHIP_REMOVE" ;
    InteractionCreate "INTERACTION_CREATE" ;
    InteractionSuccess "INTERACTION_SUCCESS" ;
    InteractionFailure "INTERACTION_FAILURE" ;
    InteractionModalCreate "INTERACTION_MODAL_CREATE" ;
    ApplicationCommandAutocompleteResponse "APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE" ;
    ApplicationCommandPermissionsUpdate "APPLICATION_COMMAND_PERMISSIONS_UPDATE" ;
    AutoModerationRuleCreate "AUTO_MODERATION_RULE_CREATE" AUTO_MODERATION_CONFIGURATION;
    AutoModerationRuleUpdate "AUTO_MODERATION_RULE_UPDATE" AUTO_MODERATION_CONFIGURATION;
    AutoModerationRuleDelete "AUTO_MODERATION_RULE_DELETE" AUTO_MODERATION_CONFIGURATION;
    AutoModerationActionExecution "AUTO_MODERATION_ACTION_EXECUTION" AUTO_MODERATION_EXECUTION;
    // Placeholder for names that backends choose; the payload has the actual name.
    Backend "BACKEND" ;
}

/// As the value of `t`.
impl Serialize for EventName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::from_wire(&name).ok_or_else(|| D::Error::custom("unknown name of an event"))
    }
}

impl EventName {
    /// A bot's session needs any of these intents to receive the event about a direct message. Bots cannot
    /// have the last one.
    #[must_use]
    pub const fn direct_intents(self) -> Intents {
        match self {
            Self::MessageCreate
            | Self::MessageUpdate
            | Self::MessageDelete
            | Self::MessageDeleteBulk
            | Self::ChannelPinsUpdate => Intents::DIRECT_MESSAGES,
            Self::MessageReactionAdd
            | Self::MessageReactionRemove
            | Self::MessageReactionRemoveAll
            | Self::MessageReactionRemoveEmoji => Intents::DIRECT_MESSAGE_REACTIONS,
            Self::MessagePollVoteAdd | Self::MessagePollVoteRemove => Intents::DIRECT_MESSAGE_POLLS,
            Self::TypingStart => Intents::DIRECT_MESSAGE_TYPING,
            _ => Intents::PRIVATE_CHANNELS,
        }
    }
}
