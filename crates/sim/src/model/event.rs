//! Visibility of an event by its name and content (docs/protocol/reference.md §4.1, §4.3, §5.3, §7).

use super::{
    Publication, State, Telling,
    audience_model::AudienceModel,
    resource::{ResourceAudience, resource_audience},
    text::payload_text,
};
use guildhall_guild_protocol::Payload;
use guildhall_model::{Channel, Message};
use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

pub const GUILDS: u32 = 1 << 0;
pub const GUILD_MEMBERS: u32 = 1 << 1;
const GUILD_VOICE_STATES: u32 = 1 << 7;
const GUILD_PRESENCES: u32 = 1 << 8;
pub const GUILD_MESSAGES: u32 = 1 << 9;
const GUILD_MESSAGE_REACTIONS: u32 = 1 << 10;
const GUILD_MESSAGE_TYPING: u32 = 1 << 11;
pub const MESSAGE_CONTENT: u32 = 1 << 15;

/// User accounts an event is for, before permissions (docs/protocol/reference.md §7, §8.4, §8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    All,
    /// Active sessions of the guild.
    Active,
    /// Active sessions, and those that receive no voice states by passive updates.
    Voice,
    /// Sessions that subscribe to typing.
    Typing,
    /// Sessions that subscribe to all changes of members.
    Members,
    /// Sessions that subscribe to all threads, and members of the thread.
    Threads,
    /// Watchers of the member.
    Watchers,
}

/// A change that passive updates include.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// A channel has a newer message.
    Message,
    /// A voice state changed: its user, and their previous channel.
    Voice(u64, Option<u64>),
}

/// Mentions of a message.
#[derive(Clone, Debug, Default)]
struct Mentions {
    users: Vec<u64>,
    roles: Vec<u64>,
    everyone: bool,
}

/// An event of the guild, with the state that decides about its recipients and content.
#[derive(Debug)]
pub struct Event {
    pub name: &'static str,
    who: AudienceModel,
    intents: u32,
    users: Users,
    /// Subject of the event: they receive it in any case.
    own: Option<u64>,
    /// The member it is about: their watchers receive it.
    member: Option<u64>,
    calls: Mentions,
    /// The change for passive updates.
    pub change: Option<Change>,
    /// The guild once it has happened, and before.
    pub state: Rc<State>,
    pub before: Rc<State>,
    /// Before the last change of the guild or of a member, which views follow from.
    pub viewed_before: Rc<State>,
    /// The member that left.
    pub left: Option<u64>,
    payload: Payload,
    publication: Option<Publication>,
    texts: RefCell<[Option<Rc<str>>; 4]>,
}

/// Properties of a session that visibility depends on.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub user: u64,
    pub is_bot: bool,
    pub intents: u32,
    /// A user account that looks at the guild.
    pub is_active: bool,
    pub typing: bool,
    pub member_updates: bool,
    /// The session subscribes to all threads.
    pub threads: bool,
    /// Members it watches.
    pub watched: &'a BTreeSet<u64>,
    pub passive: PassiveForm,
}

/// Notification of a user account about a guild that it does not display (docs/protocol/reference.md §8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassiveForm {
    Unreads,
    V1,
    V2,
}

/// Whether this is the first of two events about one move in voice, for viewers of the channel that the user left.
pub fn is_half_a_move(event: &guildhall_guild_protocol::Event, next: Option<&guildhall_guild_protocol::Event>) -> bool {
    match (&event.payload, next.map(|next| &next.payload)) {
        (Payload::Voice { state, .. }, Some(Payload::Voice { state: next, .. })) => {
            state.channel_id.is_none() && next.channel_id.is_some() && state.user_id == next.user_id
        }
        _ => false,
    }
}

impl Event {
    /// The member whose presence it shows.
    pub fn presence_user(&self) -> Option<u64> {
        match &self.payload {
            Payload::Presence { user_id, .. } => Some(user_id.get()),
            _ => None,
        }
    }

    /// The channel of the guild that it makes, changes or deletes.
    pub fn channel(&self) -> Option<&Channel> {
        match &self.payload {
            Payload::Channel(channel) => Some(channel),
            _ => None,
        }
    }

    /// `next` is what the guild published right after, in the same breath.
    pub fn new(
        event: &guildhall_guild_protocol::Event,
        next: Option<&guildhall_guild_protocol::Event>,
        [viewed_before, before]: [Rc<State>; 2],
        state: Rc<State>,
        telling: &Telling,
    ) -> Self {
        let name = event.name.as_str();
        let payload = event.payload.clone();
        let channel = |n: guildhall_model::ChannelId| AudienceModel::of_messages(&state, n.get());
        let member = |user: guildhall_model::UserId| Some(user.get());
        let (who, intents, users, own, about) = match &payload {
            Payload::Message(event) => (channel(event.message.channel_id), GUILD_MESSAGES, Users::Active, None, None),
            Payload::MessageDelete { channel_id, .. } => {
                (channel(*channel_id), GUILD_MESSAGES, Users::Active, None, None)
            }
            Payload::Reaction(event) => (channel(event.channel_id), GUILD_MESSAGE_REACTIONS, Users::Active, None, None),
            Payload::ReactionsCleared { channel_id, .. } => {
                (channel(*channel_id), GUILD_MESSAGE_REACTIONS, Users::Active, None, None)
            }
            Payload::Typing { channel_id, .. } => {
                (channel(*channel_id), GUILD_MESSAGE_TYPING, Users::Typing, None, None)
            }
            Payload::Presence { user_id, .. } => {
                (AudienceModel::Members, GUILD_PRESENCES, Users::Watchers, None, member(*user_id))
            }
            Payload::Member(of) if name == "GUILD_MEMBER_ADD" && matches!(telling, Telling::ToNewMember) => {
                let user = of.user.id;
                (AudienceModel::Users([user.get()].into()), GUILD_MEMBERS, Users::Members, member(user), member(user))
            }
            Payload::Member(of) => {
                (AudienceModel::Members, GUILD_MEMBERS, Users::Members, member(of.user.id), member(of.user.id))
            }
            Payload::MemberRemove(user) => {
                (AudienceModel::Members, GUILD_MEMBERS, Users::Members, None, member(user.id))
            }
            Payload::Guild(_)
            | Payload::GuildGone
            | Payload::Role(_)
            | Payload::RoleDelete(_)
            | Payload::Channel(_) => (AudienceModel::Members, GUILDS, Users::All, None, None),
            Payload::Voice { state: voice, .. } => {
                let was_in = before.voice.get(&voice.user_id.get()).map(|(channel, _)| *channel);
                let who = match (voice.channel_id, was_in, next.map(|next| &next.payload)) {
                    (Some(channel), ..) => AudienceModel::Viewers(channel.get()),
                    // Only who does not see where to sees them leave.
                    (None, Some(left), Some(Payload::Voice { state: to, .. })) if is_half_a_move(event, next) => {
                        AudienceModel::ViewersOfOne(left, to.channel_id.map_or(0, |to| to.get()))
                    }
                    (None, left, _) => AudienceModel::Viewers(left.unwrap_or(0)),
                };
                let own = if is_half_a_move(event, next) { None } else { member(voice.user_id) };
                (who, GUILD_VOICE_STATES, Users::Voice, own, None)
            }
            Payload::VoiceServer { .. }
            | Payload::PassiveDelta(_)
            | Payload::PassiveSnapshot(_)
            | Payload::Unread(_)
            | Payload::ChannelMemberCount { .. }
            | Payload::MemberList(_) => (AudienceModel::Members, 0, Users::Watchers, None, None),
            Payload::Backend(_) => match telling {
                Telling::Publication(of) => (of.who.clone(), of.intents(), of.users(), None, None),
                Telling::Usual | Telling::ToNewMember => {
                    (AudienceModel::Users(BTreeSet::new()), 0, Users::Watchers, None, None)
                }
            },
            Payload::Resource(resource) => {
                let ResourceAudience { who, intents, users, own } = resource_audience(resource, &before, &state);
                (who, intents, users, own, None)
            }
        };
        let change = match &payload {
            Payload::Message(_) if name == "MESSAGE_CREATE" => Some(Change::Message),
            Payload::Voice { state: voice, .. } if !is_half_a_move(event, next) => {
                let user = voice.user_id.get();
                Some(Change::Voice(user, before.voice.get(&user).map(|(channel, _)| *channel)))
            }
            _ => None,
        };
        let publication = match (&payload, telling) {
            (Payload::Backend(_), Telling::Publication(of)) => Some(of.clone()),
            _ => None,
        };
        let calls = match &payload {
            Payload::Backend(_) => publication.as_ref().map(Mentions::of_publication).unwrap_or_default(),
            Payload::Message(event) if name == "MESSAGE_CREATE" => Mentions::of(&event.message),
            _ => Mentions::default(),
        };
        let left = if let Payload::MemberRemove(user) = &payload { Some(user.id.get()) } else { None };
        let texts = RefCell::default();
        Self {
            name,
            who,
            intents,
            users,
            own,
            member: about,
            calls,
            change,
            state,
            before,
            viewed_before,
            left,
            payload,
            publication,
            texts,
        }
    }

    /// Whether a session in the guild gets it when it happens.
    pub fn is_for(&self, reader: Reader<'_>, now_unix_ms: i64) -> bool {
        if self.own == Some(reader.user) {
            return true;
        }
        // The deletion of a thread goes to its former members.
        let is_end = matches!(self.who, AudienceModel::Thread(thread) if thread.is_end);
        if !self.who.admits(if is_end { &self.before } else { &self.state }, reader.user, now_unix_ms) {
            return false;
        }
        if reader.is_bot {
            return self.intents == 0 || reader.intents & self.intents != 0;
        }
        let is_presence = self.users == Users::Watchers;
        if is_presence && self.member == Some(reader.user) {
            return false;
        }
        let is_wanted = match self.users {
            Users::All => true,
            Users::Active => reader.is_active,
            Users::Voice => reader.is_active || reader.passive == PassiveForm::Unreads,
            Users::Typing => reader.typing,
            Users::Members => reader.member_updates,
            Users::Threads => reader.threads || self.is_for_thread_member(reader.user),
            Users::Watchers => false,
        };
        is_wanted
            || self.member.is_some_and(|member| reader.watched.contains(&member))
            || self.calls.reach(reader.user, &self.state)
    }

    fn is_for_thread_member(&self, user: u64) -> bool {
        match &self.who {
            AudienceModel::Thread(thread) => {
                // For a deleted thread: its former members.
                let states = [&self.state, &self.before];
                let thread = states.iter().find_map(|state| state.threads.get(&thread.id));
                thread.is_some_and(|thread| thread.members.contains(&user))
            }
            AudienceModel::OneOfThread(..) => true,
            _ => false,
        }
    }

    /// Whether it may be replayed to a recipient, with the guild as it is `now`.
    pub fn may_be_replayed_to(&self, user: u64, now: &State, now_unix_ms: i64) -> bool {
        let is_member = now.members.contains_key(&user) && !now.is_deleted;
        is_member && (self.own == Some(user) || self.who.still_admits(now, user, now_unix_ms))
    }

    /// Its content for a recipient with `redaction_for`.
    pub fn text(&self, redaction: u8) -> Rc<str> {
        let mut texts = self.texts.borrow_mut();
        let text = &mut texts[usize::from(redaction)];
        let say = || match &self.publication {
            Some(publication) => format!("{} {}", publication.name(), publication.text(redaction)).into(),
            None => payload_text(self.name, &self.payload, redaction, &self.state).into(),
        };
        text.get_or_insert_with(say).clone()
    }

    /// What of it is withheld from this reader.
    pub fn redaction(&self, reader: Reader<'_>) -> u8 {
        let Some(publication) = &self.publication else { return redaction_for(reader, &self.payload) };
        publication.redaction(reader)
    }
}

impl Mentions {
    /// Users that a publication names are called by it.
    fn of_publication(publication: &Publication) -> Self {
        match publication.who {
            AudienceModel::Users(_) => Self::default(),
            _ => Self { users: publication.readers().into_iter().flatten().collect(), ..Self::default() },
        }
    }

    fn of(message: &Message) -> Self {
        let mentioned = message.mentions.iter().map(|user| user.id.get());
        Self {
            users: mentioned.chain([message.author.id.get()]).collect(),
            roles: message.mention_roles.iter().map(|role| role.get()).collect(),
            everyone: message.mention_everyone,
        }
    }

    fn reach(&self, user: u64, state: &State) -> bool {
        let has = |role: &u64| state.members.get(&user).is_some_and(|member| member.roles.contains(role));
        self.everyone || self.users.contains(&user) || self.roles.iter().any(has)
    }
}

/// Bit 0: the message's content is withheld; bit 1: that of the message it answers.
fn redaction_for(reader: Reader<'_>, payload: &Payload) -> u8 {
    let Payload::Message(event) = payload else { return 0 };
    if !reader.is_bot || reader.intents & MESSAGE_CONTENT != 0 {
        return 0;
    }
    let concerns = |message: &Message| {
        message.author.id.get() == reader.user || message.mentions.iter().any(|user| user.id.get() == reader.user)
    };
    let withheld = u8::from(!concerns(&event.message));
    let referenced = event.referenced.as_ref().is_some_and(|message| !concerns(message));
    withheld | u8::from(referenced) << 1
}
