//! Rules of events: a row for each name.
//!
//! Owns        which sessions of user accounts an event is for, its share of replay buffers, and which events it shares
//!             a compression history with. A new name of an event does not compile without a row.
//! Not here    intents: the row of the name in `guildhall_model`. Contents that a body withholds: `Redaction`.
//!             Spec  docs/protocol/reference.md §7, §8.5; docs/security.md.

use crate::event::UserFilter;
use guildhall_model::EventName;

/// How replay buffers treat an event of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetentionKind {
    Lasting,
    Presence,
    Voice,
    Typing,
    List,
}

/// What decides on the visibility domain of an event with this name. Of what a backend published, always the audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainRule {
    /// Its audience rule, and its intents.
    Audience,
    /// It has a channel's own data, which members see whether they may view the channel or not, and which settings may
    /// hide from some.
    ChannelData,
    /// Nothing: it has the reader's own member in it.
    Reader,
    /// It has rows of a member list.
    Lists,
}

/// What follows from an event's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventRules {
    pub users: UserFilter,
    pub retention: RetentionKind,
    pub domain: DomainRule,
}

macro_rules! rules {
    ($($name:ident $users:ident $retention:ident $domain:ident;)*) => {
        impl EventRules {
            pub const fn of(name: EventName) -> Self {
                match name {
                    $(EventName::$name => Self {
                        users: UserFilter::$users,
                        retention: RetentionKind::$retention,
                        domain: DomainRule::$domain,
                    },)*
                }
            }
        }
    };
}

rules! {
    // name                        user accounts replay    visibility domain
    Ready                          All           Lasting   Audience;
    ReadySupplemental              All           Lasting   Audience;
    Resumed                        All           Lasting   Audience;
    RateLimited                    All           Lasting   Audience;
    GuildCreate                    All           Lasting   Audience;
    GuildUpdate                    All           Lasting   Audience;
    GuildDelete                    All           Lasting   Audience;
    GuildRoleCreate                All           Lasting   Audience;
    GuildRoleUpdate                All           Lasting   Audience;
    GuildRoleDelete                All           Lasting   Audience;
    GuildBanAdd                    All           Lasting   Audience;
    GuildBanRemove                 All           Lasting   Audience;
    GuildAuditLogEntryCreate       All           Lasting   Audience;
    GuildEmojisUpdate              All           Lasting   Audience;
    GuildStickersUpdate            All           Lasting   Audience;
    InviteCreate                   Named         Lasting   Audience;
    InviteDelete                   Named         Lasting   Audience;
    WebhooksUpdate                 All           Lasting   Audience;
    GuildScheduledEventCreate      All           Lasting   Audience;
    GuildScheduledEventUpdate      All           Lasting   Audience;
    GuildScheduledEventDelete      All           Lasting   Audience;
    GuildScheduledEventUserAdd     All           Lasting   Audience;
    GuildScheduledEventUserRemove  All           Lasting   Audience;
    StageInstanceCreate            All           Lasting   Audience;
    StageInstanceUpdate            All           Lasting   Audience;
    StageInstanceDelete            All           Lasting   Audience;
    ChannelPinsUpdate              Active        Lasting   Audience;
    ThreadCreate                   Threads       Lasting   Audience;
    ThreadUpdate                   Threads       Lasting   Audience;
    ThreadDelete                   Threads       Lasting   Audience;
    ThreadMemberUpdate             Threads       Lasting   Audience;
    ThreadMembersUpdate            Threads       Lasting   Audience;
    ThreadMemberListUpdate         All           Lasting   Audience;
    UserUpdate                     All           Lasting   Audience;
    ChannelCreate                  All           Lasting   ChannelData;
    ChannelUpdate                  All           Lasting   ChannelData;
    ChannelDelete                  All           Lasting   ChannelData;
    ChannelRecipientAdd            All           Lasting   Audience;
    ChannelRecipientRemove         All           Lasting   Audience;
    ChannelMemberCountUpdate       All           Lasting   Audience;
    ChannelInfo                    All           Lasting   Audience;
    ChannelStatuses                All           Lasting   Audience;
    ChannelSync                    All           Lasting   Audience;
    ThreadListSync                 Threads       Lasting   Reader;
    DeletedEntityIds               All           Lasting   Audience;
    SoundboardSounds               All           Lasting   Audience;
    SessionsReplace                All           Lasting   Audience;
    GuildMemberAdd                 MemberUpdates Lasting   Audience;
    GuildMemberUpdate              MemberUpdates Lasting   Audience;
    GuildMemberRemove              MemberUpdates Lasting   Audience;
    GuildMembersChunk              All           Lasting   Audience;
    GuildMemberListUpdate          All           List      Lists;
    PresenceUpdate                 Named         Presence  Audience;
    MessageCreate                  Active        Lasting   Audience;
    MessageUpdate                  Active        Lasting   Audience;
    MessageDelete                  Active        Lasting   Audience;
    MessageDeleteBulk              Active        Lasting   Audience;
    LastMessages                   All           Lasting   Audience;
    MessageReactionAdd             Active        Lasting   Audience;
    MessageReactionRemove          Active        Lasting   Audience;
    MessageReactionRemoveAll       Active        Lasting   Audience;
    MessageReactionRemoveEmoji     Active        Lasting   Audience;
    MessagePollVoteAdd             Active        Lasting   Audience;
    MessagePollVoteRemove          Active        Lasting   Audience;
    TypingStart                    Typing        Typing    Audience;
    VoiceStateUpdate               Voice         Voice     Audience;
    VoiceServerUpdate              All           Lasting   Audience;
    PassiveUpdateV1                All           Lasting   Audience;
    PassiveUpdateV2                All           Lasting   Audience;
    ChannelUnreadUpdate            All           Lasting   Audience;
    MessageAck                     All           Lasting   Audience;
    ChannelPinsAck                 All           Lasting   Audience;
    UserGuildSettingsUpdate        All           Lasting   Audience;
    RelationshipAdd                All           Lasting   Reader;
    RelationshipUpdate             All           Lasting   Reader;
    RelationshipRemove             All           Lasting   Reader;
    InteractionCreate              All           Lasting   Reader;
    InteractionSuccess             All           Lasting   Reader;
    InteractionFailure             All           Lasting   Reader;
    InteractionModalCreate         All           Lasting   Reader;
    ApplicationCommandAutocompleteResponse All   Lasting   Reader;
    ApplicationCommandPermissionsUpdate    All   Lasting   Audience;
    AutoModerationRuleCreate       Named         Lasting   Audience;
    AutoModerationRuleUpdate       Named         Lasting   Audience;
    AutoModerationRuleDelete       Named         Lasting   Audience;
    AutoModerationActionExecution  Named         Lasting   Audience;
    Backend                        All           Lasting   Audience;
}
