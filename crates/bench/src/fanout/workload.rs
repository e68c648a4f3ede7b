//! Workload: events of a busy guild, one command at a time.
//!
//! Owns        the frequency of each kind of event, its actor, and the messages to react to, edit and delete.
//! Invariants  the same seed and the same messages give the same commands; each actor has the permission; each command
//!             makes a difference (except a rare reaction that exists already).
//! Limits      `RECENT_MAX`, `VOICE_MAX`, `GIVEN_MAX`, `JOINED_MAX`, `ELSEWHERE_MAX`: actions that can be undone.
//! Not here    content of messages: `text`.

use crate::{crowd, text};
use guildhall_guild::{Actor, Command, MemberPatch, MessagePatch, NewMessage, ReplyTo};
use guildhall_model::{ChannelId, MessageId, Presence, ReactionEmoji, RoleId, Status, UserId};
use guildhall_stdx::Rng;
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

/// Messages that may still be edited, answered and reacted to.
const RECENT_MAX: usize = 256;
const VOICE_MAX: usize = 500;
const GIVEN_MAX: usize = 256;
const JOINED_MAX: usize = 256;
const ELSEWHERE_MAX: usize = 4096;
/// Of the messages, how many answer another.
const REPLIES: f64 = 0.15;
/// Shares that also mention a user, a role of one in twenty members, and everyone.
const USER_MENTIONS: f64 = 0.08;
const ROLE_MENTIONS: f64 = 0.005;
const EVERYONE_MENTIONS: f64 = 0.002;
/// Of those who are mentioned, how many are people who look at the guild: conversations are among those.
const MENTIONS_OF_ACTIVE: f64 = 0.8;
/// Of the changes of presence, how many are of members without a session here.
const PRESENCES_ELSEWHERE: f64 = 0.15;
/// Share of joins by new accounts, which have the largest ids.
const NEW_ACCOUNTS: f64 = 0.7;
const EMOJI: [&str; 5] = ["👍", "🔥", "😂", "❤️", "👀"];

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Message,
    Edit,
    Reaction,
    Unreaction,
    Typing,
    Presence,
    Voice,
    Nick,
    Role,
    Join,
    Leave,
}

/// Per cent of each. There is no published workload that we know of, so this is what a busy public guild looks like to
/// us: one message in three gets a reaction, every second message was typed long enough to show, presences
/// change more often than members write, and members join and leave all day.
pub const SHARES: [(Kind, u64); 11] = [
    (Kind::Message, 28),
    (Kind::Edit, 2),
    (Kind::Reaction, 10),
    (Kind::Unreaction, 1),
    (Kind::Typing, 14),
    (Kind::Presence, 30),
    (Kind::Voice, 4),
    (Kind::Nick, 1),
    (Kind::Role, 2),
    (Kind::Join, 4),
    (Kind::Leave, 4),
];

/// The kind for `draw` of `0..100`.
fn kind_of(draw: u64) -> Kind {
    let mut upto = 0;
    for (kind, share) in SHARES {
        upto += share;
        if draw < upto {
            return kind;
        }
    }
    Kind::Message
}

/// A message of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// Which member.
    pub author: usize,
}

/// Something that happens.
#[derive(Debug)]
pub struct Step {
    pub kind: Kind,
    pub actor: Actor,
    pub command: Command,
    /// The member who acts, if one does.
    pub author: usize,
}

/// Groups of the crowd's members, which are numbered.
#[derive(Clone, Copy, Debug)]
pub struct People {
    /// The first members display the guild; only they do what needs an open client.
    pub active: usize,
    /// The first members that have a session.
    pub online: usize,
    /// Number of all members.
    pub members: usize,
}

/// A source of commands.
#[derive(Debug)]
pub struct Workload {
    rng: Rng,
    people: People,
    count: usize,
    /// Newest last; only of channels that all members may view.
    recent: VecDeque<Posted>,
    reacted: VecDeque<(Posted, ReactionEmoji, usize)>,
    /// Members with another presence than that of their session.
    busy: HashSet<usize>,
    /// Members with a presence and no session.
    elsewhere: VecDeque<usize>,
    /// Voice channel of each member in voice.
    in_voice: BTreeMap<usize, usize>,
    given: VecDeque<(usize, RoleId)>,
    joined: VecDeque<UserId>,
}

impl Workload {
    pub fn new(seed: u64, people: People) -> Self {
        // Without active sessions, online members act.
        let active = if people.active == 0 { people.online } else { people.active };
        Self {
            rng: Rng::new(seed),
            people: People { active, ..people },
            count: 0,
            recent: VecDeque::new(),
            reacted: VecDeque::new(),
            busy: HashSet::new(),
            elsewhere: VecDeque::new(),
            in_voice: BTreeMap::new(),
            given: VecDeque::new(),
            joined: VecDeque::new(),
        }
    }

    /// A message of this workload exists now.
    pub fn posted(&mut self, posted: Posted) {
        if posted.channel_id == crowd::insiders_channel() {
            return;
        }
        keep(&mut self.recent, posted, RECENT_MAX);
    }

    /// The next step.
    pub fn next(&mut self) -> Step {
        self.count += 1;
        let draw = self.rng.below(100);
        let who = self.below(self.people.active);
        let kind = match kind_of(draw) {
            // There is nothing to react to, or to take back, yet.
            Kind::Reaction | Kind::Edit if self.recent.is_empty() => Kind::Message,
            Kind::Unreaction if self.reacted.is_empty() => Kind::Typing,
            Kind::Leave if self.joined.is_empty() => Kind::Join,
            Kind::Join if self.joined.len() == JOINED_MAX => Kind::Leave,
            kind => kind,
        };
        let user = Actor::User(crowd::user_id(who));
        let (actor, command, author) = match kind {
            Kind::Message => self.message(who),
            Kind::Edit => self.edit(),
            Kind::Reaction => (user, self.reaction(who), who),
            Kind::Unreaction => self.unreaction(),
            Kind::Typing => (user, Command::StartTyping(self.channel(who)), who),
            Kind::Presence => (Actor::System, self.presence(), who),
            Kind::Voice => (Actor::System, self.voice(), who),
            Kind::Nick => (Actor::System, self.nick(), who),
            Kind::Role => (Actor::System, self.role(), who),
            Kind::Join => (Actor::System, self.join(), who),
            Kind::Leave => (Actor::System, self.leave(), who),
        };
        Step { kind, actor, command, author }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    // ── what those do who look at the guild ──────────────────────────────────────────────────────

    /// Most messages are in the first channels. Half of those of insiders are in channels for insiders.
    fn channel(&mut self, who: usize) -> ChannelId {
        if crowd::is_insider(who) && self.rng.chance(0.5) {
            return crowd::insiders_channel();
        }
        let spread = self.below(crowd::PUBLIC_CHANNELS) + 1;
        crowd::channel_id(self.below(spread))
    }

    fn message(&mut self, who: usize) -> (Actor, Command, usize) {
        let mut new = NewMessage { content: text::sentence(self.count), ..NewMessage::default() };
        let mut who = who;
        if self.rng.chance(EVERYONE_MENTIONS) {
            // The owner may.
            who = 0;
            new.content += " @everyone";
        } else if self.rng.chance(ROLE_MENTIONS) {
            who = 0;
            new.content += &format!(" <@&{}>", crowd::role_id(0));
        } else if self.rng.chance(USER_MENTIONS) {
            let among = if self.rng.chance(MENTIONS_OF_ACTIVE) { self.people.active } else { self.people.online };
            new.content += &format!(" <@{}>", crowd::user_id(self.below(among)));
        }
        let mut channel_id = self.channel(who);
        if !self.recent.is_empty() && self.rng.chance(REPLIES) {
            let posted = self.earlier();
            channel_id = posted.channel_id;
            new.reply_to = Some(ReplyTo { message_id: posted.message_id, fail_if_not_exists: false });
        }
        (Actor::User(crowd::user_id(who)), Command::CreateMessage(channel_id, Box::new(new)), who)
    }

    fn edit(&mut self) -> (Actor, Command, usize) {
        let posted = self.earlier();
        let content = format!("{} (edit {})", text::sentence(self.count), self.count);
        let patch = MessagePatch { content: Some(content), ..MessagePatch::default() };
        let author = Actor::User(crowd::user_id(posted.author));
        (author, Command::EditMessage(posted.channel_id, posted.message_id, Box::new(patch)), posted.author)
    }

    fn reaction(&mut self, who: usize) -> Command {
        let emoji = EMOJI[self.below(EMOJI.len())];
        let emoji = ReactionEmoji { id: None, name: emoji.to_owned() };
        let posted = self.earlier();
        keep(&mut self.reacted, (posted, emoji.clone(), who), RECENT_MAX);
        Command::AddReaction(posted.channel_id, posted.message_id, emoji)
    }

    fn unreaction(&mut self) -> (Actor, Command, usize) {
        let (posted, emoji, who) = self.reacted.pop_back().expect("it was looked at before");
        // A member who added the same reaction twice removes it once.
        self.reacted.retain(|(of, with, by)| (of, with, by) != (&posted, &emoji, &who));
        let user_id = crowd::user_id(who);
        let command = Command::RemoveReaction(posted.channel_id, posted.message_id, emoji, user_id);
        (Actor::User(user_id), command, who)
    }

    /// One of the recent messages, newer ones more often.
    fn earlier(&mut self) -> Posted {
        let back = self.below(self.recent.len()) + 1;
        let back = self.below(back);
        self.recent[self.recent.len() - 1 - back]
    }

    // ── events of any member ─────────────────────────────────────────────────────────────────────

    fn presence(&mut self) -> Command {
        let absent = self.people.members - self.people.online;
        if absent > 0 && self.rng.chance(PRESENCES_ELSEWHERE) {
            return self.presence_elsewhere(absent);
        }
        let who = self.below(self.people.online);
        // An activity besides that of the session, so that each change makes a difference.
        let presence = if self.busy.remove(&who) {
            None
        } else {
            self.busy.insert(who);
            let name = format!("game {}", self.below(50));
            let activity = serde_json::json!({"name": name, "type": 0, "created_at": 1_700_000_000_000u64});
            let activities = activity.as_object().cloned().into_iter().collect();
            Some(Arc::new(Presence { status: Status::Dnd, activities, ..Presence::default() }))
        };
        Command::ShowPresence(crowd::user_id(who), presence)
    }

    /// A member without a session goes online or offline.
    fn presence_elsewhere(&mut self, absent: usize) -> Command {
        let who = self.people.online + self.below(absent);
        let goes = self.elsewhere.len() == ELSEWHERE_MAX || self.elsewhere.contains(&who) || self.rng.chance(0.5);
        if let Some(gone) = goes.then(|| self.elsewhere.pop_front()).flatten() {
            return Command::ShowPresence(crowd::user_id(gone), None);
        }
        self.elsewhere.push_back(who);
        let online = Presence { status: Status::Online, ..Presence::default() };
        Command::ShowPresence(crowd::user_id(who), Some(Arc::new(online)))
    }

    /// Two in five join, two leave, one moves.
    fn voice(&mut self) -> Command {
        let draw = self.below(5);
        let who = self.below(self.people.online);
        if self.in_voice.is_empty() || draw < 2 && self.in_voice.len() < VOICE_MAX && !self.in_voice.contains_key(&who)
        {
            let channel = self.below(crowd::VOICE_CHANNELS);
            self.in_voice.insert(who, channel);
            return Command::ShowVoice(crowd::user_id(who), Some(crowd::voice_channel(channel)));
        }
        let nth = self.below(self.in_voice.len());
        let (who, channel) = self.in_voice.iter_mut().nth(nth).expect("it is below their number");
        let who = *who;
        if draw == 4 {
            *channel += 1;
            return Command::ShowVoice(crowd::user_id(who), Some(crowd::voice_channel(*channel)));
        }
        self.in_voice.remove(&who);
        Command::ShowVoice(crowd::user_id(who), None)
    }

    fn nick(&mut self) -> Command {
        let nick = Some(Some(format!("nick {}", self.count)));
        let who = self.below(self.people.members);
        Command::UpdateMember(crowd::user_id(who), Box::new(MemberPatch { nick, ..MemberPatch::default() }))
    }

    /// As often as a role is given, one that was given is taken.
    fn role(&mut self) -> Command {
        let takes = self.given.len() == GIVEN_MAX || self.rng.chance(0.5);
        if let Some((who, role)) = takes.then(|| self.given.pop_front()).flatten() {
            return Command::RemoveMemberRole(crowd::user_id(who), role);
        }
        let who = self.below(self.people.members);
        let mut levels = (0..crowd::LEVELS).map(crowd::role_id);
        let has = |role: &RoleId| crowd::roles_of(who).any(|of| of == *role) || self.given.contains(&(who, *role));
        let role = levels.find(|role| !has(role)).unwrap_or(crowd::role_id(0));
        self.given.push_back((who, role));
        Command::AddMemberRole(crowd::user_id(who), role)
    }

    fn join(&mut self) -> Command {
        let newest = self.people.members - 1;
        let user_number = if self.rng.chance(NEW_ACCOUNTS) { newest } else { self.below(self.people.members) };
        let user = crowd::stranger(user_number, self.count as u64);
        self.joined.push_back(user.id);
        Command::AddMember(user)
    }

    /// Most who leave have not been here for long.
    fn leave(&mut self) -> Command {
        let nth = self.below(self.joined.len());
        let user_id = self.joined.remove(nth).expect("it is below their number");
        Command::RemoveMember(user_id)
    }
}

fn keep<T>(all: &mut VecDeque<T>, new: T, max: usize) {
    if all.len() == max {
        all.pop_front();
    }
    all.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild::{Guild, GuildLimits, Outcome, Output, Reply};
    use guildhall_guild_protocol::{PartitionId, RelayId, ToGuild};
    use guildhall_stdx::Now;
    use std::collections::HashMap;

    const PEOPLE: People = People { active: 50, online: 400, members: 500 };

    #[test]
    fn the_shares_are_those_of_the_list() {
        assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u64>(), 100);
        let mut counts: HashMap<Kind, u64> = HashMap::new();
        (0..100).for_each(|draw| *counts.entry(kind_of(draw)).or_default() += 1);
        assert_eq!(counts, HashMap::from(SHARES));
    }

    /// A refused command, or one that changes nothing, would be measured as an event that costs nothing.
    #[test]
    fn every_command_is_accepted_and_makes_a_difference() {
        let mut guild = Guild::load(crowd::record(PEOPLE.members, 0, 0), GuildLimits::default(), 1);
        let mut workload = Workload::new(7, PEOPLE);
        let mut now = Now::new(1, 1_800_000_000_000);
        let relay = RelayId::first(PartitionId(0));
        guild.handle_relay(now, ToGuild::Subscribe { relay, epoch: 1 });
        guild.handle_relay(now, ToGuild::WantPresences { relay, all: true });
        while guild.poll_output().is_some() {}
        let (mut silent, mut counts) = (0, HashMap::new());
        for _ in 0..3_000 {
            // Slow enough that no presence has to wait.
            now = Now::new(now.instant.0 + 20, now.unix.0 + 20);
            let Step { kind, actor, command, author } = workload.next();
            *counts.entry(kind).or_insert(0) += 1;
            let reply = match guild.handle_command(now, actor, &command) {
                Outcome::Reply(Ok(reply)) => reply,
                other => panic!("{command:?}: {other:?}"),
            };
            if let (Kind::Message, Reply::Message(reply)) = (kind, reply) {
                let message = &reply.message;
                workload.posted(Posted { channel_id: message.channel_id, message_id: message.id, author });
            }
            let outputs = std::iter::from_fn(|| guild.poll_output());
            silent += usize::from(outputs.filter(|output| matches!(output, Output::Relay(..))).count() == 0);
        }
        // The same person reacts twice with the same emoji now and then.
        assert!(silent <= 10, "{silent} commands sent no event");
        assert_eq!(counts.len(), SHARES.len(), "{counts:?}");
        assert!(
            workload.recent.len() <= RECENT_MAX
                && workload.in_voice.len() <= VOICE_MAX
                && workload.given.len() <= GIVEN_MAX
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_commands() {
        let commands = |seed| {
            let mut workload = Workload::new(seed, PEOPLE);
            (0..200).map(|_| format!("{:?}", workload.next())).collect::<Vec<_>>()
        };
        assert_eq!(commands(1), commands(1));
        assert_ne!(commands(1), commands(2));
    }
}
