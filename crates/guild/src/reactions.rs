//! Reactions: emoji that members put on messages.
//!
//! Owns        the rules of docs/protocol/reference.md §10.3 for reactions.
//! Doors       `add_reaction`, `remove_reaction`, `clear_reactions`, from `Guild::handle_command`.
//! Invariants  C1 an event is published exactly when a reaction was added or removed. C2 a custom emoji is identified
//!             by its id; its published name is the one that it has in the guild, or had at its first use here.
//! Limits      `reactions_max` different emoji; as many people as there are members.

use crate::{
    cache::Reactions,
    check::ChannelContext,
    command::{CommandResult, Refusal},
    machine::Guild,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{Payload, ReactionEvent, ReplicaUpdate};
use guildhall_model::{ChannelId, EventName, Member, MessageId, Permissions, ReactionEmoji, RoleId, UserId};

impl Guild {
    pub(crate) fn add_reaction(
        &mut self,
        turn: Turn<'_>,
        key: (ChannelId, MessageId),
        emoji: &ReactionEmoji,
    ) -> CommandResult<()> {
        if emoji.answer().is_some() {
            return Err(Refusal::UnknownEmoji.into());
        }
        let context = self.message_channel(turn, key.0)?;
        let member = context.author()?;
        context.need_history()?;
        context.need_free()?;
        self.need_open(&context)?;
        let user_id = member.user.id;
        let reactions_max = self.limits.reactions_max;
        let message = self.need_message(key)?;
        let author_id = message.message.author.id;
        let emoji = match message.reactions.iter().find(|reactions| reactions.is_with(emoji)) {
            Some(reactions) if reactions.contains(user_id) => return Ok(()),
            Some(reactions) => reactions.emoji.clone(),
            None => {
                context.need(Permissions::ADD_REACTIONS)?;
                if message.reactions.iter().filter(|of| of.emoji.answer().is_none()).count() >= reactions_max {
                    return Err(Refusal::TooManyReactions.into());
                }
                self.usable_emoji(emoji, &member)?
            }
        };
        self.write(Write::AddReaction(key.0, key.1, emoji.clone(), user_id));
        let version = self.touch();
        self.messages.change(key, version, |message| message.add_reaction(&emoji, user_id));
        let event =
            ReactionEvent { user_id, channel_id: key.0, message_id: key.1, author_id, emoji, member: Some(member) };
        self.publish_reaction(EventName::MessageReactionAdd, &context, event);
        Ok(())
    }

    /// Unicode emoji as they are; custom ones must be the guild's own, and get the name they have there. One with roles
    /// is for members who have one of them. Direct messages have no emoji of their own, and take all.
    fn usable_emoji(&self, emoji: &ReactionEmoji, member: &Member) -> Result<ReactionEmoji, Refusal> {
        let Some(id) = emoji.id.filter(|_| !self.is_direct()) else { return Ok(emoji.clone()) };
        let own = self.structure.guild.emojis.iter().find(|own| own.id == id).ok_or(Refusal::UnknownEmoji)?;
        let everyone: RoleId = self.structure.id().cast();
        let is_allowed = |role: &RoleId| *role == everyone || member.roles.contains(role);
        if !own.roles.is_empty() && !own.roles.iter().any(is_allowed) {
            return Err(Refusal::MissingPermissions);
        }
        Ok(ReactionEmoji { id: Some(id), name: own.name.clone() })
    }

    fn publish_reaction(&mut self, name: EventName, context: &ChannelContext, event: ReactionEvent) {
        let rule = self.channel_rule(&context.channel);
        let event = self.event(name, rule, Payload::Reaction(Box::new(event)));
        self.publish(event, ReplicaUpdate::None);
    }

    pub(crate) fn remove_reaction(
        &mut self,
        turn: Turn<'_>,
        key: (ChannelId, MessageId),
        emoji: &ReactionEmoji,
        user_id: UserId,
    ) -> CommandResult<()> {
        let context = self.message_channel(turn, key.0)?;
        if !context.is(user_id) {
            context.need(Permissions::MANAGE_MESSAGES)?;
            context.need_history()?;
        }
        // A backend erases the reactions of an account in closed threads, too.
        if context.member.is_some() {
            self.need_open(&context)?;
        }
        let message = self.need_message(key)?;
        let author_id = message.message.author.id;
        let reactions = message.reactions.iter().find(|reactions| reactions.is_with(emoji));
        let Some(reactions) = reactions.filter(|reactions| reactions.contains(user_id)) else {
            return Ok(());
        };
        let emoji = reactions.emoji.clone();
        // With an account its votes are erased.
        if let Some(answer_id) = emoji.answer() {
            self.remove_vote(&context, key, answer_id, user_id);
            return Ok(());
        }
        self.write(Write::RemoveReaction(key.0, key.1, emoji.clone(), user_id));
        let version = self.touch();
        self.messages.change(key, version, |message| message.remove_reaction(&emoji, user_id));
        let event = ReactionEvent { user_id, channel_id: key.0, message_id: key.1, author_id, emoji, member: None };
        self.publish_reaction(EventName::MessageReactionRemove, &context, event);
        Ok(())
    }

    pub(crate) fn clear_reactions(
        &mut self,
        turn: Turn<'_>,
        key: (ChannelId, MessageId),
        emoji: Option<&ReactionEmoji>,
    ) -> CommandResult<()> {
        let context = self.message_channel(turn, key.0)?;
        context.need(Permissions::MANAGE_MESSAGES)?;
        self.need_open(&context)?;
        let message = self.need_readable(&context, key.1)?;
        let is_meant = |of: &Reactions| of.emoji.answer().is_none() && emoji.is_none_or(|emoji| of.is_with(emoji));
        let Some(first) = message.reactions.iter().find(|reactions| is_meant(reactions)) else {
            return Ok(());
        };
        let emoji_as_used = emoji.map(|_| first.emoji.clone());
        // Votes of a poll stay.
        let has_votes = message.message.poll.is_some();
        let all: Vec<_> = message.reactions.iter().filter(|of| is_meant(of)).map(|of| of.emoji.clone()).collect();
        match has_votes {
            true => all.into_iter().for_each(|emoji| self.write(Write::ClearReactions(key.0, key.1, Some(emoji)))),
            false => self.write(Write::ClearReactions(key.0, key.1, emoji_as_used.clone())),
        }
        let version = self.touch();
        let mut cleared = Vec::new();
        self.messages.change(key, version, |message| {
            cleared = message.reactions.extract_if(.., |reactions| is_meant(reactions)).collect();
        });
        self.dispose(cleared.iter().map(Reactions::len).sum(), cleared);
        let name = match emoji_as_used {
            Some(_) => EventName::MessageReactionRemoveEmoji,
            None => EventName::MessageReactionRemoveAll,
        };
        let payload = Payload::ReactionsCleared { channel_id: key.0, message_id: key.1, emoji: emoji_as_used };
        let event = self.event(name, self.channel_rule(&context.channel), payload);
        self.publish(event, ReplicaUpdate::None);
        Ok(())
    }
}
