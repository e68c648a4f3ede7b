//! Mix: what happens in a busy guild, one command at a time.
//!
//! Owns        how often each kind of event happens, and which messages there are to react to and to edit.
//! Invariants  the same seed and the same messages give the same commands; whoever acts may do so.
//! Not here    what is said: `text`.

use crate::bench::{crowd, text};
use guildhall_guild::{Actor, Command, MemberPatch, MessagePatch, NewMessage, ReplyTo};
use guildhall_model::{ChannelId, MessageId, Presence, ReactionEmoji, Status};
use guildhall_stdx::Rng;
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

/// Messages that may still be edited, answered and reacted to.
const RECENT_MAX: usize = 256;
/// Of the messages, how many answer another.
const REPLIES: f64 = 0.15;
const EMOJI: [&str; 5] = ["👍", "🔥", "😂", "❤️", "👀"];

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Message,
    Typing,
    Presence,
    Reaction,
    Edit,
    Member,
}

/// Per cent of each.
pub const SHARES: [(Kind, u64); 6] = [
    (Kind::Message, 70),
    (Kind::Typing, 8),
    (Kind::Presence, 8),
    (Kind::Reaction, 6),
    (Kind::Edit, 4),
    (Kind::Member, 4),
];

/// The kind that `draw` of `0..100` stands for.
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

/// A message that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// Which member.
    pub author: usize,
}

/// A source of commands. Everybody who acts is one of the first `people` members of the crowd.
#[derive(Debug)]
pub struct Mix {
    rng: Rng,
    people: usize,
    count: usize,
    /// Newest last; only of channels that everybody sees.
    recent: VecDeque<Said>,
    /// Who shows something else than their session does.
    busy: HashSet<usize>,
}

impl Mix {
    pub fn new(seed: u64, people: usize) -> Self {
        Self { rng: Rng::new(seed), people, count: 0, recent: VecDeque::new(), busy: HashSet::new() }
    }

    /// A message of this mix exists now.
    pub fn said(&mut self, said: Said) {
        if said.channel_id == crowd::insiders_channel() {
            return;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(said);
    }

    /// The next command, who asks for it, and who the author is if it is a message.
    pub fn next(&mut self) -> (Kind, Actor, Command, usize) {
        self.count += 1;
        let draw = self.rng.below(100);
        let who = self.rng.below(self.people as u64) as usize;
        let kind = match kind_of(draw) {
            // There is nothing to react to yet.
            Kind::Reaction | Kind::Edit if self.recent.is_empty() => Kind::Message,
            kind => kind,
        };
        let user = Actor::User(crowd::user_id(who));
        let (actor, command) = match kind {
            Kind::Message => (user, self.message(who)),
            Kind::Typing => (user, Command::StartTyping(self.channel(who))),
            Kind::Presence => (Actor::System, self.presence(who)),
            Kind::Reaction => {
                let emoji = EMOJI[self.rng.below(EMOJI.len() as u64) as usize];
                let said = self.earlier();
                let emoji = ReactionEmoji { id: None, name: emoji.to_owned() };
                (user, Command::AddReaction(said.channel_id, said.message_id, emoji))
            }
            Kind::Edit => {
                let said = self.earlier();
                let content = format!("{} (edit {})", text::sentence(self.count), self.count);
                let patch = MessagePatch { content: Some(content), ..MessagePatch::default() };
                let author = Actor::User(crowd::user_id(said.author));
                (author, Command::EditMessage(said.channel_id, said.message_id, Box::new(patch)))
            }
            Kind::Member => {
                let nick = Some(Some(format!("nick {}", self.count)));
                let patch = MemberPatch { nick, ..MemberPatch::default() };
                (Actor::System, Command::UpdateMember(crowd::user_id(who), Box::new(patch)))
            }
        };
        (kind, actor, command, who)
    }

    /// Most of what is said is said in the first channels. Half of what insiders say is for insiders.
    fn channel(&mut self, who: usize) -> ChannelId {
        if crowd::is_insider(who) && self.rng.chance(0.5) {
            return crowd::insiders_channel();
        }
        let spread = self.rng.below(crowd::PUBLIC_CHANNELS as u64) + 1;
        crowd::channel_id(self.rng.below(spread) as usize)
    }

    fn message(&mut self, who: usize) -> Command {
        let mut new = NewMessage { content: text::sentence(self.count), ..NewMessage::default() };
        let mut channel_id = self.channel(who);
        if !self.recent.is_empty() && self.rng.chance(REPLIES) {
            let said = self.earlier();
            channel_id = said.channel_id;
            new.reply_to = Some(ReplyTo { message_id: said.message_id, fail_if_not_exists: false });
        }
        Command::CreateMessage(channel_id, Box::new(new))
    }

    /// Shown beside what the session shows, so that it makes a difference each time.
    fn presence(&mut self, who: usize) -> Command {
        let presence = if self.busy.remove(&who) {
            None
        } else {
            self.busy.insert(who);
            let name = format!("game {}", self.rng.below(50));
            let activity = serde_json::json!({"name": name, "type": 0, "created_at": 1_700_000_000_000u64});
            let activities = activity.as_object().cloned().into_iter().collect();
            Some(Arc::new(Presence { status: Status::Dnd, activities, ..Presence::default() }))
        };
        Command::ShowPresence(crowd::user_id(who), presence)
    }

    /// One of the recent messages, newer ones more often.
    fn earlier(&mut self) -> Said {
        let back = self.rng.below(self.recent.len() as u64) + 1;
        let back = self.rng.below(back) as usize;
        self.recent[self.recent.len() - 1 - back]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild::{Guild, GuildLimits, Outcome, Output, Reply};
    use guildhall_stdx::Now;
    use std::collections::HashMap;

    #[test]
    fn the_shares_are_those_of_the_list() {
        assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u64>(), 100);
        let mut counts: HashMap<Kind, u64> = HashMap::new();
        (0..100).for_each(|draw| *counts.entry(kind_of(draw)).or_default() += 1);
        assert_eq!(counts, HashMap::from(SHARES));
    }

    /// A refused command, or one that changes nothing, would be measured as an event that costs nothing.
    #[test]
    fn every_command_is_accepted_and_told() {
        let people = 500;
        let mut guild = Guild::load(crowd::record(people, 0, 0), GuildLimits::default(), 1);
        let mut mix = Mix::new(7, people);
        let now = Now::new(1, 1_800_000_000_000);
        let relay = guildhall_relay::RelayId::first(guildhall_relay::PartitionId(0));
        guild.handle_relay(now, guildhall_relay::ToGuild::Subscribe { relay, epoch: 1 });
        while guild.poll_output().is_some() {}
        let mut silent = 0;
        for _ in 0..3_000 {
            let (kind, actor, command, author) = mix.next();
            let reply = match guild.handle_command(now, actor, &command) {
                Outcome::Reply(Ok(reply)) => reply,
                other => panic!("{command:?}: {other:?}"),
            };
            if let (Kind::Message, Reply::Message(reply)) = (kind, reply) {
                let message = &reply.record.message;
                mix.said(Said { channel_id: message.channel_id, message_id: message.id, author });
            }
            let outputs = std::iter::from_fn(|| guild.poll_output());
            silent += usize::from(outputs.filter(|output| matches!(output, Output::Relay(..))).count() == 0);
        }
        // The same person reacts twice with the same emoji now and then.
        assert!(silent <= 3, "{silent} commands were not told");
        assert!(mix.recent.len() <= RECENT_MAX);
    }

    #[test]
    fn the_same_seed_gives_the_same_commands() {
        let commands = |seed| {
            let mut mix = Mix::new(seed, 1_000);
            (0..200).map(|_| format!("{:?}", mix.next())).collect::<Vec<_>>()
        };
        assert_eq!(commands(1), commands(1));
        assert_ne!(commands(1), commands(2));
    }
}
