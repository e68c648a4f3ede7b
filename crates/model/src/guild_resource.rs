//! Guild resources: bans, invites, webhooks, pins, thread members and other records of a guild. One table stores them,
//! one row each.
//!
//! Owns        `GuildResource`, one variant per kind; `ResourceKey`, the key of its row.
//! Invariants  the key is derived from the content, so writing the same resource again replaces it.
//! Spec        docs/protocol/reference.md §7.1, §7.2, §10.3, §10.4.

use crate::{
    audit::AuditEntry,
    auto_moderation::AutoModRule,
    community::{GuildTemplate, Onboarding, WelcomeScreen},
    id::{ApplicationId, ChannelId, GuildId, MessageId, UserId, WebhookId},
    invite::Invite,
    poll::OpenPoll,
    thread::ThreadMember,
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A banned account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// The account as it was when it was banned.
    pub user: Arc<User>,
    /// Reason that the moderator gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Lets an application post into a channel without an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Also the author id of its messages.
    pub id: WebhookId,
    pub guild_id: GuildId,
    /// Channel that receives the messages.
    pub channel_id: ChannelId,
    /// Default author name of its messages.
    pub name: String,
    /// Hash of the default author avatar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// Secret; anyone who has it can post.
    pub token: String,
    /// Creator; none if the backend created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<User>>,
    /// The application that made it, if it was a bot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_id: Option<ApplicationId>,
    /// Announcement channel that it follows. It has no token then, and posts copies only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<WebhookSource>>,
}

/// The followed channel of a webhook, with names from the time at which it was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSource {
    pub guild_id: GuildId,
    pub guild_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guild_icon: Option<String>,
    pub channel_id: ChannelId,
    pub channel_name: String,
}

/// A channel that follows an announcement channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    /// The announcement channel.
    pub channel_id: ChannelId,
    /// Webhook of the channel that follows.
    pub webhook_id: WebhookId,
    /// Guild of the webhook.
    pub guild_id: GuildId,
}

/// A message pinned in its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// Time of pinning.
    pub pinned_at: Timestamp,
}

/// One stored resource of a guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuildResource {
    Ban(Arc<Ban>),
    Invite(Arc<Invite>),
    Webhook(Arc<Webhook>),
    Pin(Pin),
    /// Membership of one account in one thread.
    ThreadMember(ThreadMember),
    /// A member who joined by a temporary invite.
    TemporaryMember(UserId),
    AuditEntry(Arc<AuditEntry>),
    OpenPoll(OpenPoll),
    Follower(Follower),
    AutoModRule(Arc<AutoModRule>),
    WelcomeScreen(Arc<WelcomeScreen>),
    Onboarding(Arc<Onboarding>),
    Template(Arc<GuildTemplate>),
    /// Accounts that joined by the vanity URL.
    VanityUses(u32),
}

/// Kind of a resource. The numbers are stored. Each variant names the parts of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum ResourceKind {
    /// Keyed by user id.
    Ban = 1,
    /// Keyed by the invite code as a number.
    Invite = 2,
    /// Keyed by webhook id.
    Webhook = 3,
    /// Keyed by channel id, then message id.
    Pin = 4,
    /// Keyed by thread id, then user id.
    ThreadMember = 5,
    /// Keyed by user id.
    TemporaryMember = 6,
    /// Audit log entry, keyed by its id.
    AuditEntry = 7,
    /// Keyed by channel id, then message id.
    OpenPoll = 8,
    /// Keyed by the id of the announcement channel, then that of the webhook.
    Follower = 9,
    /// Rule of auto moderation, keyed by its id.
    AutoModRule = 10,
    /// At most one, keyed by 0.
    WelcomeScreen = 11,
    /// At most one, keyed by 0.
    Onboarding = 12,
    /// Keyed by the code as a number.
    Template = 13,
    /// At most one, keyed by 0.
    VanityUses = 14,
}

/// Key of a resource within its guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceKey {
    pub kind: ResourceKind,
    /// Below 2⁶³. For invites, webhooks and templates it is unique across guilds.
    pub id: u64,
    /// Second part of the key; 0 for kinds with one part.
    pub part: u64,
}

impl ResourceKey {
    /// Key of a kind with one part.
    #[must_use]
    pub const fn whole(kind: ResourceKind, id: u64) -> Self {
        Self { kind, id, part: 0 }
    }
}

impl GuildResource {
    #[must_use]
    pub fn key(&self) -> ResourceKey {
        use ResourceKind as K;
        match self {
            Self::Ban(ban) => ResourceKey::whole(K::Ban, ban.user.id.get()),
            Self::Invite(invite) => ResourceKey::whole(K::Invite, invite.code.number()),
            Self::Webhook(webhook) => ResourceKey::whole(K::Webhook, webhook.id.get()),
            Self::Pin(pin) => ResourceKey { kind: K::Pin, id: pin.channel_id.get(), part: pin.message_id.get() },
            Self::ThreadMember(ThreadMember { thread_id, user_id, .. }) => {
                ResourceKey { kind: K::ThreadMember, id: thread_id.get(), part: user_id.get() }
            }
            Self::TemporaryMember(user_id) => ResourceKey::whole(K::TemporaryMember, user_id.get()),
            Self::AuditEntry(entry) => ResourceKey::whole(K::AuditEntry, entry.id.get()),
            Self::OpenPoll(poll) => {
                ResourceKey { kind: K::OpenPoll, id: poll.channel_id.get(), part: poll.message_id.get() }
            }
            Self::Follower(of) => ResourceKey { kind: K::Follower, id: of.channel_id.get(), part: of.webhook_id.get() },
            Self::AutoModRule(rule) => ResourceKey::whole(K::AutoModRule, rule.id.get()),
            Self::WelcomeScreen(_) => ResourceKey::whole(K::WelcomeScreen, 0),
            Self::Onboarding(_) => ResourceKey::whole(K::Onboarding, 0),
            Self::Template(template) => ResourceKey::whole(K::Template, template.code.number()),
            Self::VanityUses(_) => ResourceKey::whole(K::VanityUses, 0),
        }
    }

    /// The thread membership, if this is one.
    #[must_use]
    pub fn thread_member(&self) -> Option<ThreadMember> {
        if let Self::ThreadMember(member) = self { Some(*member) } else { None }
    }

    /// Serializes the content as JSON.
    ///
    /// # Errors
    /// Those of the serializer; none are known.
    pub fn to_json(&self) -> serde_json::Result<String> {
        match self {
            Self::Ban(ban) => serde_json::to_string(&**ban),
            Self::Invite(invite) => serde_json::to_string(&**invite),
            Self::Webhook(webhook) => serde_json::to_string(&**webhook),
            Self::Pin(pin) => serde_json::to_string(pin),
            Self::ThreadMember(member) => serde_json::to_string(member),
            Self::TemporaryMember(user_id) => serde_json::to_string(user_id),
            Self::AuditEntry(entry) => serde_json::to_string(&**entry),
            Self::OpenPoll(poll) => serde_json::to_string(poll),
            Self::Follower(follower) => serde_json::to_string(follower),
            Self::AutoModRule(rule) => serde_json::to_string(&**rule),
            Self::WelcomeScreen(screen) => serde_json::to_string(&**screen),
            Self::Onboarding(onboarding) => serde_json::to_string(&**onboarding),
            Self::Template(template) => serde_json::to_string(&**template),
            Self::VanityUses(uses) => serde_json::to_string(uses),
        }
    }

    /// Deserializes content of the kind with number `kind`. None for an unknown kind, which a later version wrote.
    ///
    /// # Errors
    /// When the content does not match the kind.
    pub fn from_json(kind: u8, json: &str) -> serde_json::Result<Option<Self>> {
        use ResourceKind as K;
        Ok(Some(match kind {
            k if k == K::Ban as u8 => Self::Ban(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Invite as u8 => Self::Invite(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Webhook as u8 => Self::Webhook(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Pin as u8 => Self::Pin(serde_json::from_str(json)?),
            k if k == K::ThreadMember as u8 => Self::ThreadMember(serde_json::from_str(json)?),
            k if k == K::TemporaryMember as u8 => Self::TemporaryMember(serde_json::from_str(json)?),
            k if k == K::AuditEntry as u8 => Self::AuditEntry(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::OpenPoll as u8 => Self::OpenPoll(serde_json::from_str(json)?),
            k if k == K::Follower as u8 => Self::Follower(serde_json::from_str(json)?),
            k if k == K::AutoModRule as u8 => Self::AutoModRule(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::WelcomeScreen as u8 => Self::WelcomeScreen(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Onboarding as u8 => Self::Onboarding(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Template as u8 => Self::Template(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::VanityUses as u8 => Self::VanityUses(serde_json::from_str(json)?),
            _ => return Ok(None),
        }))
    }
}

impl Webhook {
    /// The author of its messages. `name` and `avatar` override the webhook's own.
    #[must_use]
    pub fn author(&self, name: Option<&str>, avatar: Option<&str>) -> User {
        let id: UserId = self.id.cast();
        User {
            bot: true,
            avatar: avatar.or(self.avatar.as_deref()).map(str::to_owned),
            discriminator: "0000".to_owned(),
            ..User::new(id, name.unwrap_or(&self.name))
        }
    }
}
