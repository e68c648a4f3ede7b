//! Who may see an event, by its name and content (docs/protocol.md §4.1, §4.3, §5.3, §7).

use super::{State, text::payload_text};
use guildhall_model::Message;
use guildhall_relay::Payload;
use std::{cell::RefCell, rc::Rc};

const GUILDS: u32 = 1 << 0;
const GUILD_MEMBERS: u32 = 1 << 1;
const GUILD_VOICE_STATES: u32 = 1 << 7;
const GUILD_PRESENCES: u32 = 1 << 8;
const GUILD_MESSAGES: u32 = 1 << 9;
const GUILD_MESSAGE_REACTIONS: u32 = 1 << 10;
const GUILD_MESSAGE_TYPING: u32 = 1 << 11;
const MESSAGE_CONTENT: u32 = 1 << 15;

/// Members an event is for.
#[derive(Clone, Copy, Debug)]
enum Who {
    Members,
    /// Who can view the channel.
    Viewers(u64),
    /// Who can view the first channel but not the second, where somebody went.
    ViewersOfOne(u64, u64),
}

/// An event of the guild, with everything needed to say who gets it and what it says.
#[derive(Debug)]
pub struct Event {
    pub name: &'static str,
    who: Who,
    intents: u32,
    /// Whom it is about: they get it whatever `who` and `intents` say.
    about: Option<u64>,
    /// User accounts get it only if it is about them.
    by_subscription: bool,
    /// The guild once it has happened.
    pub state: Rc<State>,
    /// The member that left.
    pub left: Option<u64>,
    payload: Payload,
    texts: RefCell<[Option<Rc<str>>; 4]>,
}

/// A session, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    pub user: u64,
    pub is_bot: bool,
    pub intents: u32,
}

impl Event {
    /// `next` is what the guild published right after, in the same breath.
    pub fn new(
        event: &guildhall_relay::Event,
        next: Option<&guildhall_relay::Event>,
        before: &State,
        state: Rc<State>,
    ) -> Self {
        let name = event.name.as_str();
        let payload = event.payload.clone();
        let channel = |n: guildhall_model::ChannelId| Who::Viewers(n.get());
        let (who, intents, about, by_subscription) = match &payload {
            Payload::Message(event) => (channel(event.message.channel_id), GUILD_MESSAGES, None, false),
            Payload::MessageDelete { channel_id, .. } => (channel(*channel_id), GUILD_MESSAGES, None, false),
            Payload::Reaction(event) => (channel(event.channel_id), GUILD_MESSAGE_REACTIONS, None, false),
            Payload::ReactionsCleared { channel_id, .. } => {
                (channel(*channel_id), GUILD_MESSAGE_REACTIONS, None, false)
            }
            Payload::Typing { channel_id, .. } => (channel(*channel_id), GUILD_MESSAGE_TYPING, None, true),
            Payload::Presence { .. } => (Who::Members, GUILD_PRESENCES, None, true),
            Payload::Member(member) => (Who::Members, GUILD_MEMBERS, Some(member.user.id.get()), true),
            Payload::MemberRemove(_) => (Who::Members, GUILD_MEMBERS, None, true),
            Payload::Guild(_)
            | Payload::GuildGone
            | Payload::Role(_)
            | Payload::RoleDelete(_)
            | Payload::Channel(_) => (Who::Members, GUILDS, None, false),
            Payload::Voice { state: voice, .. } => {
                let user = voice.user_id.get();
                let was_in = before.voice.get(&user).map(|(channel, _)| *channel);
                let goes_to = next.and_then(|next| match &next.payload {
                    Payload::Voice { state, .. } if state.user_id == voice.user_id => state.channel_id,
                    _ => None,
                });
                match (voice.channel_id, was_in, goes_to) {
                    (Some(channel), ..) => (Who::Viewers(channel.get()), GUILD_VOICE_STATES, Some(user), false),
                    // Somebody moves: only who does not see where to sees them leave.
                    (None, Some(left), Some(to)) => {
                        (Who::ViewersOfOne(left, to.get()), GUILD_VOICE_STATES, None, false)
                    }
                    (None, left, _) => (Who::Viewers(left.unwrap_or(0)), GUILD_VOICE_STATES, Some(user), false),
                }
            }
            Payload::VoiceServer { .. } => (Who::Members, 0, None, false),
        };
        let left = if let Payload::MemberRemove(user) = &payload { Some(user.id.get()) } else { None };
        Self { name, who, intents, about, by_subscription, state, left, payload, texts: RefCell::default() }
    }

    fn admits(&self, user: u64) -> bool {
        match self.who {
            Who::Members => self.state.members.contains_key(&user),
            Who::Viewers(channel) => self.state.viewers(channel).contains(&user),
            Who::ViewersOfOne(channel, other) => {
                self.state.viewers(channel).contains(&user) && !self.state.viewers(other).contains(&user)
            }
        }
    }

    /// Whether a session in the guild gets it when it happens.
    pub fn is_for(&self, reader: Reader) -> bool {
        let is_about = self.about == Some(reader.user);
        if !reader.is_bot && self.by_subscription && !is_about {
            return false;
        }
        is_about || reader.intents & self.intents != 0 && self.admits(reader.user)
    }

    /// Whether it may still be shown to who got it once, with the guild as it is `now`.
    pub fn may_be_replayed_to(&self, user: u64, now: &State) -> bool {
        let is_member = now.members.contains_key(&user) && !now.is_deleted;
        match self.who {
            _ if !is_member => false,
            _ if self.about == Some(user) => true,
            Who::Members => true,
            Who::Viewers(channel) | Who::ViewersOfOne(channel, _) => now.viewers(channel).contains(&user),
        }
    }

    /// What it says to who reads it, by `redaction_for`.
    pub fn text(&self, redaction: u8) -> Rc<str> {
        let mut texts = self.texts.borrow_mut();
        let text = &mut texts[usize::from(redaction)];
        text.get_or_insert_with(|| payload_text(self.name, &self.payload, redaction).into()).clone()
    }

    /// What of it is withheld from this reader.
    pub fn redaction(&self, reader: Reader) -> u8 {
        redaction_for(reader, &self.payload)
    }
}

/// Bit 0: the message's content is withheld; bit 1: that of the message it answers.
fn redaction_for(reader: Reader, payload: &Payload) -> u8 {
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
