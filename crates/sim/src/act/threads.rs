//! Threads: begun, joined, left, closed, opened, deleted.

use super::SentMessage;
use crate::{checker::Fault, world::World};
use guildhall_guild::{Actor, ChannelPatch, Command, NewMessage, NewThread};
use guildhall_model::{ChannelId, ChannelType, UserId};

/// Number of threads from which on no further ones are started.
const THREADS_MAX: usize = 8;

impl World {
    pub(super) fn act_on_threads(&mut self, member: UserId, channel: ChannelId) -> Result<(), Fault> {
        let state = self.checker.state.clone();
        let threads: Vec<u64> = state.threads.keys().copied().collect();
        let thread = self.rng.pick(&threads).map(|id| ChannelId::new(*id));
        let Some(thread) = thread.filter(|_| threads.len() >= THREADS_MAX || self.rng.chance(0.75)) else {
            return self.begin_thread(channel);
        };
        let member = self.viewer(state.threads[&thread.get()].parent).unwrap_or(member);
        let by = if self.rng.chance(0.3) { Actor::System } else { Actor::User(member) };
        let members: Vec<u64> = state.threads[&thread.get()].members.iter().copied().collect();
        let user = self.rng.pick(&members).map_or(member, |user| UserId::new(*user));
        let (by, command) = match self.rng.below(24) {
            0..4 => (Actor::User(member), Command::AddThreadMember(thread, member)),
            4..6 => (by, Command::AddThreadMember(thread, member)),
            6..8 => {
                let Actor::User(other) = self.random_member() else { return Ok(()) };
                (Actor::User(user), Command::AddThreadMember(thread, other))
            }
            8..10 => (Actor::User(user), Command::RemoveThreadMember(thread, user)),
            10..12 => (by, Command::RemoveThreadMember(thread, user)),
            12..15 => {
                let mut patch = ChannelPatch { archived: Some(self.rng.chance(0.5)), ..ChannelPatch::default() };
                patch.locked = self.rng.chance(0.2).then(|| self.rng.chance(0.5));
                (by, Command::UpdateChannel(thread, Box::new(patch)))
            }
            15 => {
                let name = Some(format!("thread {}", self.rng.below(100)));
                (by, Command::UpdateChannel(thread, Box::new(ChannelPatch { name, ..ChannelPatch::default() })))
            }
            16 => (by, Command::DeleteChannel(thread)),
            17 => (Actor::User(user), Command::StartTyping(thread)),
            _ => return self.say(user, thread),
        };
        self.command(by, &command)?;
        Ok(())
    }

    /// From a message or without, public or private; in a forum with its first message.
    fn begin_thread(&mut self, channel: ChannelId) -> Result<(), Fault> {
        let state = self.checker.state.clone();
        let texts: Vec<u64> =
            state.channels.iter().filter(|(_, of)| matches!(of.kind, 0 | 5 | 15)).map(|(id, _)| *id).collect();
        let channel = self.rng.pick(&texts).map_or(channel, |id| ChannelId::new(*id));
        let from = self.actions.messages.back().copied().filter(|_| self.rng.chance(0.4));
        let from = from.filter(|sent| state.channels.contains_key(&sent.channel.get()));
        let (channel, from) = match from {
            Some(SentMessage { channel, message, .. }) => (channel, Some(message)),
            None => (channel, None),
        };
        let is_forum = state.channels.get(&channel.get()).is_some_and(|channel| channel.kind == 15);
        let kinds = [None, Some(ChannelType::PublicThread), Some(ChannelType::PrivateThread)];
        let kind = if is_forum { None } else { *self.rng.pick(&kinds).expect("there are some") };
        let content = "the first of a post".to_owned();
        let new = NewThread {
            name: format!("thread {}", self.rng.below(100)),
            from,
            kind,
            invitable: self.rng.chance(0.5),
            message: is_forum.then(|| Box::new(NewMessage { content, ..NewMessage::default() })),
            ..NewThread::default()
        };
        let Some(member) = self.viewer(channel.get()) else { return Ok(()) };
        self.command(Actor::User(member), &Command::CreateThread(channel, Box::new(new)))?;
        Ok(())
    }

    /// An account that can view a channel; often the owner, with all permissions.
    fn viewer(&mut self, channel: u64) -> Option<UserId> {
        let state = self.checker.state.clone();
        if self.rng.chance(0.3) {
            return Some(UserId::new(state.owner));
        }
        let viewers: Vec<u64> = state.viewers(channel).iter().copied().collect();
        self.rng.pick(&viewers).map(|user| UserId::new(*user))
    }
}
