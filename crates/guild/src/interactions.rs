//! Interactions: the guild's checks and messages for them.
//!
//! Owns        `ReadInteraction`, `CreateResponse`, `EditResponse`.
//! Invariants  O1 `ReadInteraction` answers with objects that the actor may view. O2 a message answers an interaction
//!             only while the application's bot is a member.
//! Limits      `RESOLVED_MAX` objects of each kind.
//! Not here    tokens, deadlines, ephemeral messages: `guildhall-rest`, which holds them outside of the guild.
//!             Spec  docs/protocol/choices.md "Interactions".

use crate::{
    command::{
        Actor, CommandResult, InteractionContext, InteractionQuery, MessageReply, RESOLVED_MAX, Refusal, Response,
        ResponsePatch,
    },
    machine::Guild,
    mentions::Mentioning,
    messages::Sending,
    turn::Turn,
};
use guildhall_model::{ChannelId, Message, MessageId, MessageReference, Permissions};

impl Guild {
    pub(crate) fn read_interaction(
        &self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        query: &InteractionQuery,
    ) -> CommandResult<Box<InteractionContext>> {
        let context = self.message_channel(turn, channel_id)?;
        let InteractionQuery { application, users, roles, channels } = query;
        if users.len().max(roles.len()).max(channels.len()) > RESOLVED_MAX {
            return Err(Refusal::InvalidForm("data").into());
        }
        let permissions_of = |user_id| {
            let context = self.in_channel(turn.by(Actor::User(user_id)), channel_id);
            context.map_or(Permissions::NONE, |context| context.permissions)
        };
        let viewed = |id: &ChannelId| {
            let context = self.in_channel(turn, *id).ok()?;
            Some((context.channel, context.permissions))
        };
        let member = |id: &_| Some((self.member(*id)?, permissions_of(*id)));
        Ok(Box::new(InteractionContext {
            channel: context.channel,
            guild: if self.is_direct() { None } else { Some(self.structure.guild.clone()) },
            member: context.member.filter(|_| !self.is_direct()),
            permissions: context.permissions,
            application_permissions: self.member(*application).map(|_| permissions_of(*application)),
            is_silenced: context.is_silenced,
            members: users.iter().filter_map(member).collect(),
            roles: roles.iter().filter_map(|id| self.structure.roles.get(id).cloned()).collect(),
            channels: channels.iter().filter_map(viewed).collect(),
        }))
    }

    pub(crate) fn create_response(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        response: &Response,
    ) -> CommandResult<Box<MessageReply>> {
        self.in_guild(turn)?.need_system()?;
        let Response { application, interaction, message: new, kind, reply_to, is_deferred } = response;
        let author = self.member(*application).ok_or(Refusal::UnknownWebhook)?;
        let context = self.message_channel(turn, channel_id)?;
        self.need_reopenable(&context)?;
        if !is_deferred {
            self.check_filled(new)?;
        }
        let referenced = match reply_to {
            Some(message_id) => self.find_message((channel_id, *message_id))?.map(|found| found.message.clone()),
            None => None,
        };
        // Nothing is refused from here on.

        self.open_thread(turn.now, &context);
        let guild_id = self.guild_of_messages();
        let by_application = self.in_channel(turn.by(Actor::User(*application)), channel_id);
        let permissions = by_application.map_or(Permissions::NONE, |context| context.permissions);
        let message = Message {
            kind: if referenced.is_some() { Message::KIND_REPLY } else { *kind },
            message_reference: referenced.as_ref().map(|referenced| MessageReference {
                message_id: referenced.id,
                channel_id,
                guild_id,
            }),
            webhook_id: Some(application.cast()),
            application_id: Some(application.cast()),
            interaction: Some(interaction.clone()),
            ..Message::new(self.next_id(turn.now), channel_id, guild_id, author.user.clone())
        };
        let mut message = self.with_content(turn.now, new, Mentioning { permissions, replied: None }, message);
        if *is_deferred {
            message.flags |= Message::LOADING;
        }
        if context.channel.kind.is_thread() {
            self.join_by_mention(turn.now, &context, &message.mentions);
        }
        let sending = Sending { referenced, ..Sending::default() };
        Ok(self.commit_message(turn.now, &context, message, sending))
    }

    pub(crate) fn edit_response(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        message_id: MessageId,
        patch: &ResponsePatch,
    ) -> CommandResult<Box<MessageReply>> {
        self.in_guild(turn)?.need_system()?;
        self.member(patch.application).ok_or(Refusal::UnknownWebhook)?;
        let message = &self.need_message((channel_id, message_id))?.message;
        let answers = message.interaction.as_ref().map(|interaction| interaction.id);
        let is_its = patch.interaction.is_none_or(|id| answers == Some(id));
        if message.author.id != patch.application || !is_its {
            return Err(Refusal::UnknownMessage.into());
        }
        self.edit_message(turn, channel_id, message_id, &patch.patch)
    }
}
