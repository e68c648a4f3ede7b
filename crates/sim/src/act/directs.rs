//! Actions in direct messages and groups.

use crate::{checker::Fault, model::DirectModel, world::World};
use guildhall_guild::{Actor, ChannelPatch, Command, DirectCommand, MessagePatch, NewMessage, ReplyTo};
use guildhall_model::{ChannelId, MessageId, ReactionEmoji, User, UserId};
use std::sync::Arc;

const DIRECTS_MIN: u64 = 3;
const DIRECTS_MAX: u64 = 10;
/// In a group when it is made.
const PEOPLE_MAX: u64 = 6;

impl World {
    pub(super) fn act_in_directs(&mut self) -> Result<(), Fault> {
        // People talk for a while.
        (0..1 + self.rng.below(3)).try_for_each(|_| self.one_thing_in_directs())
    }

    fn one_thing_in_directs(&mut self) -> Result<(), Fault> {
        let count = self.directs.all().count() as u64;
        match self.rng.below(if count < DIRECTS_MIN { 4 } else { 20 }) {
            0 | 1 if count < DIRECTS_MAX => {
                let (user, other) = (self.correspondent(), self.correspondent());
                self.open_direct(&user, &other)
            }
            2 if count < DIRECTS_MAX => self.found_group(),
            _ if count > 0 => {
                let at = self.rng.below(count) as usize;
                let direct = self.directs.all().nth(at).cloned();
                direct.map_or(Ok(()), |direct| self.act_in_direct(&direct))
            }
            _ => Ok(()),
        }
    }

    /// An account for a direct message, mostly one with a client.
    fn correspondent(&mut self) -> Arc<User> {
        let at = self.rng.below(self.clients.len() as u64) as usize;
        let id = self.clients[at].user.id;
        let known = self.accounts.iter().find(|user| user.id == id).filter(|_| self.rng.chance(0.9));
        known.or(self.rng.pick(&self.accounts)).expect("there are accounts").clone()
    }

    fn found_group(&mut self) -> Result<(), Fault> {
        let mut people: Vec<Arc<User>> = Vec::new();
        for _ in 0..1 + self.rng.below(PEOPLE_MAX) {
            let user = self.correspondent();
            if !user.bot && !people.iter().any(|other| other.id == user.id) {
                people.push(user);
            }
        }
        if people.is_empty() { Ok(()) } else { self.make_group(people) }
    }

    fn act_in_direct(&mut self, direct: &DirectModel) -> Result<(), Fault> {
        let channel = ChannelId::new(direct.id);
        let people: Vec<u64> = direct.people.keys().copied().collect();
        let messages: Vec<u64> = direct.messages.keys().copied().collect();
        let one = UserId::new(self.rng.pick(&people).copied().unwrap_or_default());
        let by = match self.rng.below(20) {
            0 => Actor::System,
            // An account that is not a recipient, or was one.
            1 | 2 => Actor::User(self.correspondent().id),
            _ => Actor::User(one),
        };
        let message = self.rng.pick(&messages).map(|id| MessageId::new(*id));
        let other = UserId::new(self.rng.pick(&people).copied().unwrap_or_default());
        let name = *self.rng.pick(&["🔥", "👍"]).expect("there are two");
        let emoji = ReactionEmoji { id: None, name: name.to_owned() };
        let command = match (self.rng.below(100), message) {
            (0..8, Some(message)) => {
                self.actions.messages_count += 1;
                let content = Some(format!("edited {}", self.actions.messages_count));
                Command::EditMessage(channel, message, Box::new(MessagePatch { content, ..MessagePatch::default() }))
            }
            (8..13, Some(message)) => Command::DeleteMessage(channel, message),
            (13..24, Some(message)) => Command::AddReaction(channel, message, emoji),
            (24..28, Some(message)) => Command::RemoveReaction(channel, message, emoji, other),
            (28..31, Some(message)) => Command::Pin(channel, message),
            (31..33, Some(message)) => Command::Unpin(channel, message),
            (33..39, _) => Command::StartTyping(channel),
            (39..47, _) => Command::Direct(DirectCommand::AddRecipient(self.correspondent())),
            (47..53, _) => Command::Direct(DirectCommand::RemoveRecipient(other)),
            (53..57, _) if by != Actor::System || self.rng.chance(0.3) => Command::DeleteChannel(channel),
            (57..60, _) => {
                let name = Some(format!("group {}", self.rng.below(5)));
                Command::UpdateChannel(channel, Box::new(ChannelPatch { name, ..ChannelPatch::default() }))
            }
            (60..63, _) => {
                let patch = ChannelPatch { owner_id: Some(other), ..ChannelPatch::default() };
                Command::UpdateChannel(channel, Box::new(patch))
            }
            (63..66, _) => Command::Direct(DirectCommand::Open),
            _ => self.say_in_direct(channel, message),
        };
        self.command_direct(channel, by, &command)?;
        Ok(())
    }

    fn say_in_direct(&mut self, channel: ChannelId, answered: Option<MessageId>) -> Command {
        self.actions.messages_count += 1;
        let mut content = format!("between us {}", self.actions.messages_count);
        if self.rng.chance(0.3) {
            content = format!("{content} <@{}>", self.correspondent().id);
        }
        let answered = answered.filter(|_| self.rng.chance(0.3));
        let reply_to = answered.map(|message_id| ReplyTo { message_id, fail_if_not_exists: false });
        let nonce = self.rng.chance(0.3).then_some(guildhall_model::Nonce::Number(self.actions.messages_count as i64));
        Command::CreateMessage(channel, Box::new(NewMessage { content, reply_to, nonce, ..NewMessage::default() }))
    }
}
