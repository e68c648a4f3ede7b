//! Bodies that the gateway and the REST API send.
//!
//! Owns        the content of each body: one borrowing struct per object of reference.md §6, with every field that
//!             strict parsers require (reference.md §12), including constant ones.
//! Invariants  ids serialise through `Id`, so JSON gets strings and ETF gets integers.

mod audit;
mod auto_moderation;
mod channel;
mod deleted_entities;
mod direct;
mod gateway_guild;
mod guild;
mod invite;
mod member;
mod member_list;
mod message;
mod passive;
mod presence;
mod read_state;
mod ready;
mod relationship;
mod replies;
mod role;
mod scheduled_event;
mod session;
mod stage_instance;
mod sticker;
mod thread;
mod user;
mod user_ready;
mod voice;
mod webhook;

pub use audit::AuditEntryBody;
pub use auto_moderation::{AutoModActionBody, AutoModExecutionBody, AutoModRuleBody};
pub use channel::{ChannelBody, OverwriteBody};
pub use deleted_entities::{DeletedEntityIdsBody, ExistingEntities};
pub use direct::DirectBody;
pub use gateway_guild::{GatewayGuildBody, GuildPeople, GuildSnapshot, GuildText};
pub use guild::{EmojiBody, GuildBody, GuildReference, RestGuildBody, UnavailableGuild};
pub use invite::{InviteBody, InviteEventBody, WelcomeScreenBody};
pub use member::{MemberBody, MemberUpdateBody, PartialMemberBody};
pub use member_list::{MemberListGroup, MemberListItem, MemberListMember, MemberListOp, MemberListUpdateBody};
pub use message::{
    MentionBody, MessageBody, MessageExtras, ReactionBody, ReactionEmojiBody, ReferencedMessage, VoteCount,
};
pub use passive::{ChannelUnread, ChannelUnreadUpdateBody, PassiveUpdateV1Body, PassiveUpdateV2Body};
pub use presence::PresenceBody;
pub use read_state::{ChannelPinsAckBody, MessageAckBody, NotificationSettingsBody, ReadStateBody};
pub use ready::{ApplicationRef, BotReadyBody};
pub use relationship::{RelationshipBody, RelationshipChangeBody};
pub use replies::{
    ChannelInfoBody, ChannelMemberCountUpdateBody, ChannelStatusesBody, ChannelSyncBody, LastMessagesBody,
    SoundboardSoundsBody,
};
pub use role::RoleBody;
pub use scheduled_event::ScheduledEventBody;
pub use session::{ClientInfo, SessionBody, SessionsBody};
pub use stage_instance::StageInstanceBody;
pub use sticker::StickerBody;
pub use thread::{ThreadBody, ThreadListSyncBody, ThreadMemberBody, ThreadMembersBody};
pub use user::{PublicUserBody, SelfUserBody, UserBody};
pub use user_ready::{ReadyGuild, ReadySupplementalBody, SharedGuild, UserReady};
pub use voice::VoiceStateBody;
pub use webhook::{BanBody, WebhookBody};

/// Serializes as an empty array. Placeholder for lists that Guildhall does not fill.
pub type Nothing = [(); 0];
/// Serializes as an empty object.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Empty {}
