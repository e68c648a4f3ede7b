//! Events: a change in a guild, its audience, and its body, encoded at most once per encoding and redaction.
//!
//! Owns        `Event`, shared by every relay and kept by every replay buffer that holds it.
//! Doors       `render`, which encodes the body for an (encoding, redaction) pair.
//! Invariants  immutable; only `audience` decides on visibility, at the event and again at replay.
//! Not here    the current recipients: `Relay`; what follows from an event's name: `crate::event_rules`.
//!             Spec  docs/protocol/reference.md §4, §5.3, §7.

use crate::{
    backend::BackendEvent,
    event_rules::{EventRules, RetentionKind},
    payload::Payload,
    resource_payload::ResourcePayload,
};
use guildhall_codec::Encoding;
use guildhall_member_list::ListId;
use guildhall_model::{ChannelId, ChannelType, EventName, GuildId, Intents, Permissions, Presence, RoleId, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::sync::Arc;

/// Parts of an event that a recipient does not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Redaction {
    #[default]
    None,
    /// The content of the message.
    Message,
    /// The content of the message that it answers.
    Referenced,
    /// The contents of both.
    MessageAndReferenced,
    /// Everything about a channel except its type, position and category: for members who cannot view it.
    Channel,
    /// The newest message and pin of a channel, for members who cannot view it.
    ChannelUnread,
}

impl Redaction {
    /// Forms that the body of one event may have; `index` is below it.
    pub const COUNT: usize = 4;

    /// For a session that lacks MESSAGE_CONTENT, of a user who neither wrote nor is named in anything.
    #[must_use]
    pub fn for_strangers(readers: &ContentReaders) -> Self {
        match readers.referenced {
            None => Self::Message,
            Some(_) => Self::MessageAndReferenced,
        }
    }

    /// For a session that lacks MESSAGE_CONTENT: withhold what its user neither wrote nor is mentioned in.
    #[must_use]
    pub fn for_user(readers: &ContentReaders, user_id: UserId) -> Self {
        let message = !readers.message.contains(&user_id);
        let referenced = readers.referenced.as_ref().is_some_and(|readers| !readers.contains(&user_id));
        match (message, referenced) {
            (false, false) => Self::None,
            (true, false) => Self::Message,
            (false, true) => Self::Referenced,
            (true, true) => Self::MessageAndReferenced,
        }
    }

    /// The message's own content is withheld.
    #[must_use]
    pub const fn message(self) -> bool {
        matches!(self, Self::Message | Self::MessageAndReferenced)
    }

    /// The content of the message it answers is withheld.
    #[must_use]
    pub const fn referenced(self) -> bool {
        matches!(self, Self::Referenced | Self::MessageAndReferenced)
    }

    /// A small number, different for each form of the same event: a message has no form of a channel.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::None => 0,
            Self::Message | Self::Channel => 1,
            Self::Referenced | Self::ChannelUnread => 2,
            Self::MessageAndReferenced => 3,
        }
    }
}

/// Users who receive a message's content whatever their intents: its author and the users that it mentions.
#[derive(Clone, Debug)]
pub struct ContentReaders {
    /// Of the message.
    pub message: SmallVec<[UserId; 4]>,
    /// Of the message it answers, if that is in the body.
    pub referenced: Option<SmallVec<[UserId; 4]>>,
}

impl ContentReaders {
    /// All readers of either message.
    pub fn iter(&self) -> impl Iterator<Item = UserId> + '_ {
        self.message.iter().chain(self.referenced.iter().flatten()).copied()
    }
}

/// Users and roles that a message mentions: their passive sessions receive it too.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    /// Its author, and users it mentions.
    pub users: SmallVec<[UserId; 4]>,
    /// Roles it mentions.
    pub roles: SmallVec<[RoleId; 2]>,
    /// `@everyone` or `@here`.
    pub everyone: bool,
}

/// Which members an event is for, before intents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AudienceRule {
    /// Every member.
    Members,
    /// Members who can view the channel.
    Channel(ChannelId),
    /// Members who can view the first channel but not the second: for a user who moves from the first to the second.
    ChannelExcept(ChannelId, ChannelId),
    /// Members who hold any of these permissions in the guild.
    GuildPermission(Permissions),
    /// Members who hold all of these permissions in the channel.
    ChannelPermission(ChannelId, Permissions),
    /// Members who can view all of these channels.
    Channels(Arc<[ChannelId]>),
    /// Members who can view any channel that has this member list.
    List(ListId),
    /// Members who can view a thread: its parent, and if it is private they are in it or may manage threads.
    Thread {
        /// The channel it is in.
        parent: ChannelId,
        thread: ChannelId,
        /// A private thread, which only some viewers of the parent can view.
        is_private: bool,
        /// Only this one of them.
        only: Option<UserId>,
    },
    /// One user's sessions.
    User(UserId),
    /// These users' sessions. Ascending.
    Users(Arc<[UserId]>),
    /// Members with any of these roles; `@everyone` is all of them.
    Roles(Arc<[RoleId]>),
}

impl AudienceRule {
    /// The users that it names, if it does.
    #[must_use]
    pub fn users(&self) -> &[UserId] {
        match self {
            Self::User(user_id) => std::slice::from_ref(user_id),
            Self::Users(user_ids) => user_ids,
            _ => &[],
        }
    }

    /// Whether it names this user.
    #[must_use]
    pub fn names(&self, user_id: UserId) -> bool {
        self.users().binary_search(&user_id).is_ok()
    }
}

/// Recipients of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Audience {
    /// Which members.
    pub rule: AudienceRule,
    /// A session needs any of these; `NONE`: no intent is needed.
    pub intents: Intents,
    /// User of the event, whose sessions receive it in spite of `rule` and `intents`.
    pub always: Option<UserId>,
    /// Excludes this user's sessions; only for user accounts. Their clients apply their own actions.
    pub never_user_account: Option<UserId>,
    /// Which user accounts, `always` aside.
    pub users: UserFilter,
    /// User accounts that watch this member get it too.
    pub about: Option<UserId>,
    /// Passive sessions of these get it too. Does not cross between nodes: `Event` derives it from its payload.
    #[serde(skip)]
    pub mentions: Option<Box<Mentions>>,
}

impl Audience {
    /// Exactly the sessions that the audience rule admits and that subscribe to the event.
    #[must_use]
    pub fn of(rule: AudienceRule, intents: Intents) -> Self {
        let users = UserFilter::All;
        Self { rule, intents, always: None, never_user_account: None, users, about: None, mentions: None }
    }
}

/// Condition of an event on user accounts, before permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserFilter {
    /// All channels and members.
    All,
    /// Those active in the guild.
    Active,
    /// Those active in the guild, and passive ones whose updates do not include voice.
    Voice,
    /// Those subscribed to typing.
    Typing,
    /// Those subscribed to all member updates.
    MemberUpdates,
    /// Those subscribed to all threads, and members of the thread.
    Threads,
    /// Only those named by the audience: the affected user, and watchers of that member.
    Named,
}

impl UserFilter {
    /// The rule of reference.md §7 and §8.5. With `All` passive sessions receive the event.
    #[must_use]
    pub const fn of(name: EventName) -> Self {
        EventRules::of(name).users
    }
}

/// How replay buffers treat an event once they hold many of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Kept until the limits of the buffer are reached.
    Lasting,
    /// Presence of a member: the newest supersedes all older ones.
    Presence(UserId),
    /// Voice state of a user. Successive ones may have different viewers, so none supersedes another.
    Voice(UserId),
    /// Typing indicator: clients drop it after 10 s.
    Typing,
    /// Delta of a member list: useless without the deltas before it.
    List,
}

impl Retention {
    /// Number of kinds with a share of their own.
    pub const SHARES: usize = 4;

    /// Number of the share, below `SHARES`; none for `Lasting`.
    #[must_use]
    pub fn share(self) -> Option<usize> {
        match self {
            Self::Lasting => None,
            Self::Presence(_) => Some(0),
            Self::Voice(_) => Some(1),
            Self::Typing => Some(2),
            Self::List => Some(3),
        }
    }
}

/// Stands for no guild in `EventForm`.
const TO_ACCOUNTS: GuildId = GuildId::new(0);

/// An event as it crosses between nodes, with a borrowed or an owned audience and payload.
///
/// What follows from the payload does not cross: only that an event has it, which is for constructors to decide.
#[derive(Serialize, Deserialize)]
struct EventForm<A, P> {
    /// `TO_ACCOUNTS` without one.
    guild_id: GuildId,
    name: EventName,
    audience: A,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_mentions: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_content_readers: bool,
    payload: P,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = EventForm {
            guild_id: self.guild_id.unwrap_or(TO_ACCOUNTS),
            name: self.name,
            audience: &self.audience,
            has_mentions: self.audience.mentions.is_some(),
            has_content_readers: self.content_readers.is_some(),
            payload: &self.payload,
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = EventForm::<Audience, Payload>::deserialize(deserializer)?;
        let EventForm { guild_id, name, mut audience, has_mentions, has_content_readers, payload } = form;
        audience.mentions = if has_mentions { payload.mentions().map(Box::new) } else { None };
        let content_readers = if has_content_readers { payload.content_readers() } else { None };
        let guild_id = Some(guild_id).filter(|guild_id| *guild_id != TO_ACCOUNTS);
        Ok(Self { guild_id, name, audience, content_readers, payload })
    }
}

/// Something that happened.
#[derive(Debug)]
pub struct Event {
    /// None: it is addressed to accounts, as those in a direct message are.
    pub guild_id: Option<GuildId>,
    pub name: EventName,
    pub audience: Audience,
    /// Bots that lack MESSAGE_CONTENT get a redacted body, except these users. None: nothing to redact.
    pub content_readers: Option<ContentReaders>,
    pub payload: Payload,
}

impl Event {
    /// An event for sessions that the audience rule admits and that have an intent for `name`.
    #[must_use]
    pub fn new(guild_id: GuildId, name: EventName, rule: AudienceRule, payload: Payload) -> Self {
        Self::make(Some(guild_id), name, rule, payload)
    }

    fn make(guild_id: Option<GuildId>, name: EventName, rule: AudienceRule, payload: Payload) -> Self {
        let mentions = if name == EventName::MessageCreate { payload.mentions().map(Box::new) } else { None };
        Self {
            guild_id,
            name,
            audience: Audience { users: UserFilter::of(name), mentions, ..Audience::of(rule, name.guild_intents()) },
            content_readers: payload.content_readers(),
            payload,
        }
    }

    /// An event of a direct message for its recipients, without redaction.
    #[must_use]
    pub fn direct(name: EventName, user_ids: Arc<[UserId]>, payload: Payload) -> Self {
        Self {
            guild_id: None,
            name,
            audience: Audience::of(AudienceRule::Users(user_ids), name.direct_intents()),
            content_readers: None,
            payload,
        }
    }

    /// A user account's presence for its friends, ascending.
    #[must_use]
    pub fn of_friend(user_id: UserId, presence: Arc<Presence>, friends: Arc<[UserId]>) -> Self {
        Self::direct(EventName::PresenceUpdate, friends, Payload::Presence { user_id, presence })
    }

    /// The account whose presence the event has for its friends.
    #[must_use]
    pub fn friend(&self) -> Option<UserId> {
        match &self.payload {
            Payload::Presence { user_id, .. } if self.guild_id.is_none() => Some(*user_id),
            _ => None,
        }
    }

    /// Its treatment in replay buffers.
    #[must_use]
    pub fn retention(&self) -> Retention {
        match (EventRules::of(self.name).retention, &self.payload) {
            (RetentionKind::Presence, Payload::Presence { user_id, .. }) => Retention::Presence(*user_id),
            (RetentionKind::Voice, Payload::Voice { state, .. }) => Retention::Voice(state.user_id),
            (RetentionKind::Typing, _) => Retention::Typing,
            (RetentionKind::List, Payload::MemberList(_)) => Retention::List,
            // Of what a backend published under such a name, nothing is known to supersede it.
            (RetentionKind::Presence | RetentionKind::Voice | RetentionKind::List | RetentionKind::Lasting, _) => {
                Retention::Lasting
            }
        }
    }

    /// Whether the event is of a direct message, and not a backend's event for accounts.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.guild_id.is_none() && !matches!(self.payload, Payload::Backend(_))
    }

    /// The direct message it is about, if it is about one.
    #[must_use]
    pub fn direct_channel(&self) -> Option<ChannelId> {
        if !self.is_direct() {
            return None;
        }
        match &self.payload {
            Payload::Message(event) => Some(event.message.channel_id),
            Payload::MessageDelete { channel_id, .. }
            | Payload::ReactionsCleared { channel_id, .. }
            | Payload::Typing { channel_id, .. } => Some(*channel_id),
            Payload::Reaction(event) => Some(event.channel_id),
            Payload::Resource(resource) => match &**resource {
                ResourcePayload::Pins { channel_id, .. }
                | ResourcePayload::MessagesGone { channel_id, .. }
                | ResourcePayload::PollVote { channel_id, .. }
                | ResourcePayload::Recipient { channel_id, .. } => Some(*channel_id),
                ResourcePayload::Direct { direct, .. } => Some(direct.channel.id),
                _ => None,
            },
            _ => None,
        }
    }

    /// The group that recipients of the event have left by it.
    #[must_use]
    pub fn group_left(&self) -> Option<ChannelId> {
        match &self.payload {
            Payload::Resource(resource) if self.name == EventName::ChannelDelete => match &**resource {
                ResourcePayload::Direct { direct, .. } if direct.channel.kind == ChannelType::GroupDm => {
                    Some(direct.channel.id)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// An event that a backend published in a guild. Users that it names receive it even if their client does
    /// not display the guild.
    #[must_use]
    pub fn of_backend(guild_id: GuildId, rule: AudienceRule, event: Arc<BackendEvent>) -> Self {
        Self::published(Some(guild_id), rule, event)
    }

    /// An event that a backend published to accounts.
    #[must_use]
    pub fn of_backend_to_users(user_ids: Arc<[UserId]>, event: Arc<BackendEvent>) -> Self {
        Self::published(None, AudienceRule::Users(user_ids), event)
    }

    fn published(guild_id: Option<GuildId>, rule: AudienceRule, event: Arc<BackendEvent>) -> Self {
        let names_users = !rule.users().is_empty();
        let mut event = Self::make(guild_id, event.known(), rule, Payload::Backend(event));
        if names_users {
            event.audience.users = UserFilter::All;
            // A user who is named needs no mention.
            event.audience.mentions = None;
        }
        event
    }

    /// An event about an interaction, for an account. With a guild only those of its sessions get it whose shard has
    /// the guild, and a replay only a member of it; without, those of the first shard. It needs no intent.
    #[must_use]
    pub fn of_interaction(guild_id: Option<GuildId>, user_id: UserId, event: Arc<BackendEvent>) -> Self {
        let mut event = Self::published(guild_id, AudienceRule::Users([user_id].into()), event);
        event.audience.intents = Intents::NONE;
        event.content_readers = None;
        event
    }

    /// An event that a backend published in a direct message, for its recipients.
    #[must_use]
    pub fn of_backend_in_direct(user_ids: Arc<[UserId]>, event: Arc<BackendEvent>) -> Self {
        let mut event = Self::of_backend_to_users(user_ids, event);
        if event.audience.intents != Intents::NONE {
            event.audience.intents = event.name.direct_intents();
        }
        event.content_readers = None;
        event
    }

    /// The value of `t`.
    #[must_use]
    pub fn wire_name(&self) -> &str {
        match &self.payload {
            Payload::Backend(event) => event.name(),
            _ => self.name.as_str(),
        }
    }

    /// The same, if it is known for as long as the process lives.
    #[must_use]
    pub fn static_name(&self) -> Option<&'static str> {
        match &self.payload {
            Payload::Backend(event) => event.static_name(),
            _ => Some(self.name.as_str()),
        }
    }

    /// Also for `user_id`, in spite of rule and intents.
    #[must_use]
    pub fn always_to(mut self, user_id: UserId) -> Self {
        self.audience.always = Some(user_id);
        self
    }

    /// Also for user accounts that watch `user_id`.
    #[must_use]
    pub fn about(mut self, user_id: UserId) -> Self {
        self.audience.about = Some(user_id);
        self
    }

    /// Not for `user_id` if that is a user account.
    #[must_use]
    pub fn never_to_user_account(mut self, user_id: UserId) -> Self {
        self.audience.never_user_account = Some(user_id);
        self
    }

    /// The body as JSON, without redaction.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.render(Encoding::Json, Redaction::None, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the body (the value of `d`) to `out`.
    pub fn render(&self, encoding: Encoding, redaction: Redaction, out: &mut Vec<u8>) {
        self.payload.render(self.guild_id, encoding, redaction, out);
    }
}
