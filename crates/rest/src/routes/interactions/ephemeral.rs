//! Ephemeral messages: answers that one account sees.
//!
//! Owns        `Ephemeral`, a record of the store per message, apart from every channel's history; its events.
//! Invariants  N3 events of an ephemeral message name its reader alone, so they go through no guild and no relay; a
//!             replay withholds them from a reader who left the guild. The reader must still view the channel when one
//!             is made or changed. (tests of
//!             `guildhall/tests/it/surface/interactions.rs`) N4 its text is reviewed as that of any message.
//! Limits      `EPHEMERAL_MS` for its components; the token's time for changes by the application; mentions of the
//!             first `RESOLVED_MAX` users and roles. The sweep of `super::answers` removes the records.

use super::{
    answers::{EPHEMERAL, is_older, key},
    publish,
    token::Token,
    unknown_application,
};
use crate::{error::ApiError, state::Api};
use guildhall_guild::{
    Actor, AllowedMentions, InteractionContext, InteractionQuery, MessagePatch, MessageReply, Named, RESOLVED_MAX,
    Refusal, Response, may_mention, request,
};
use guildhall_model::{
    Attachment, EventName, GuildId, Message, MessageId, MessageReference, NewAttachment, Permissions, UserId,
    from_gateway::{MessageBody, MessageExtras},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Until then its components can be used.
pub(super) const EPHEMERAL_MS: i64 = 60 * 60_000;
const ATTACHMENTS_MAX: usize = 10;

/// A message for one account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ephemeral {
    pub reader: UserId,
    pub message: Arc<Message>,
}

impl Ephemeral {
    /// An ephemeral message that is not too old.
    pub async fn read(api: &Api, message_id: MessageId) -> Result<Option<Self>, ApiError> {
        if is_older(api, message_id, EPHEMERAL_MS) {
            return Ok(None);
        }
        let Some(bytes) = api.node.store().record(EPHEMERAL, &key(message_id)).await? else { return Ok(None) };
        let mut found: Self =
            serde_json::from_slice(&bytes).map_err(|_| ApiError::Bug("an ephemeral message that can be read"))?;
        found.message = api.node.with_links(found.message);
        Ok(Some(found))
    }

    async fn put(&self, api: &Api) -> Result<(), ApiError> {
        let bytes = serde_json::to_vec(self).map_err(|_| ApiError::Bug("an ephemeral message that can be written"))?;
        Ok(api.node.store().put_record(EPHEMERAL, &key(self.message.id), &bytes).await?)
    }

    fn publish(&self, api: &Api, name: EventName, context: &InteractionContext) -> Result<(), ApiError> {
        let message = &self.message;
        // As upstream, the body does not name the guild.
        let extras = MessageExtras { guild_id: None, channel_type: context.channel.kind, member: None };
        let body = MessageBody::new(message).with_extras(extras, |_| None, message);
        publish(api, name, message.guild_id, self.reader, &body)
    }
}

/// The channel as the reader views it, with the named accounts and roles; refused if they do not, or the
/// application has left.
async fn place(
    api: &Api,
    token: &Token,
    guild_id: GuildId,
    named: &Named,
) -> Result<Box<InteractionContext>, ApiError> {
    let Named { users, roles, .. } = named.clone();
    let query = InteractionQuery { application: token.application, users, roles, channels: Vec::new() };
    let query = request::ReadInteraction(token.channel_id, Box::new(query));
    let context = api.node.command(guild_id, Actor::User(token.user_id), query).await?;
    if context.application_permissions.is_none() {
        return Err(ApiError::Refused(Refusal::UnknownWebhook));
    }
    Ok(context)
}

fn named(content: &str, allowed: Option<&AllowedMentions>) -> Named {
    Named::parse(content, RESOLVED_MAX).allowed(allowed)
}

/// Sets the mentions, as the guild does for other messages: of members, and of what the application may mention.
fn mention(message: &mut Message, named: &Named, context: &InteractionContext) {
    let permissions = context.application_permissions.unwrap_or(Permissions::NONE);
    let everyone = message.guild_id.map(GuildId::cast);
    let roles = context.roles.iter().filter(|role| Some(role.id) != everyone && may_mention(role, permissions));
    message.mention_roles = roles.map(|role| role.id).collect();
    message.mentions = context.members.iter().map(|(member, _)| member.user.clone()).collect();
    message.mention_everyone = named.everyone && permissions.contains(Permissions::MENTION_EVERYONE);
}

/// Attachments as stored: those without an id get one.
async fn with_ids(api: &Api, new: Vec<NewAttachment>) -> Result<Vec<Attachment>, ApiError> {
    let mut attachments = Vec::with_capacity(new.len());
    for new in new {
        let id = match new.id {
            Some(id) => id,
            None => api.node.next_id().await?,
        };
        attachments.push(new.with_id(id));
    }
    Ok(attachments)
}

fn reply(message: Arc<Message>) -> Box<MessageReply> {
    Box::new(MessageReply { message, reactions: Vec::new(), referenced: None })
}

pub(super) async fn create(api: &Api, token: &Token, mut response: Response) -> Result<Box<MessageReply>, ApiError> {
    let guild_id = api.channel_guild(token.channel_id).await?;
    // A deferred answer has no text yet.
    if !response.is_deferred {
        let message = &mut response.message;
        api.node.review_answer(guild_id, token.channel_id, token.application, message).await?;
    }
    let named = named(&response.message.content, response.message.allowed_mentions.as_ref());
    let context = place(api, token, guild_id, &named).await?;
    let author = api.node.user(token.application).await?.ok_or_else(unknown_application)?;
    let Response { application, interaction, message: new, kind, reply_to, is_deferred } = response;
    let loading = if is_deferred { Message::LOADING } else { 0 };
    let mut message = Message {
        content: new.content,
        embeds: new.embeds,
        components: new.components,
        attachments: with_ids(api, new.attachments).await?,
        flags: new.flags | Message::EPHEMERAL | loading,
        kind: if reply_to.is_some() { Message::KIND_REPLY } else { kind },
        message_reference: reply_to.map(|message_id| MessageReference {
            message_id,
            channel_id: token.channel_id,
            guild_id: token.guild_id,
        }),
        webhook_id: Some(application.cast()),
        application_id: Some(application.cast()),
        interaction: Some(interaction),
        ..Message::new(api.node.next_id().await?, token.channel_id, token.guild_id, author)
    };
    mention(&mut message, &named, &context);
    let made = Ephemeral { reader: token.user_id, message: Arc::new(message) };
    made.put(api).await?;
    made.publish(api, EventName::MessageCreate, &context)?;
    Ok(reply(made.message))
}

/// Changes one. The caller has checked that the token opens it.
pub(super) async fn edit(
    api: &Api,
    token: &Token,
    message_id: MessageId,
    mut patch: MessagePatch,
) -> Result<Box<MessageReply>, ApiError> {
    let guild_id = api.channel_guild(token.channel_id).await?;
    let found = Ephemeral::read(api, message_id).await?.filter(|found| found.reader == token.user_id);
    let found = found.ok_or(ApiError::UNKNOWN_MESSAGE)?;
    let place_of = (token.channel_id, message_id);
    api.node.review_answer_edit(guild_id, place_of, token.application, &mut patch).await?;
    let mut message = Message::clone(&found.message);
    let was_loading = message.flags & Message::LOADING != 0;
    message.flags &= !Message::LOADING;
    let changes_mentions = patch.content.is_some() || patch.allowed_mentions.is_some();
    if let Some(content) = &patch.content {
        message.content.clone_from(content);
    }
    let named = match changes_mentions {
        true => named(&message.content, patch.allowed_mentions.as_ref()),
        false => Named::default(),
    };
    let context = place(api, token, guild_id, &named).await?;
    if changes_mentions {
        mention(&mut message, &named, &context);
    }
    if let Some(embeds) = &patch.embeds {
        message.embeds.clone_from(embeds);
    }
    if let Some(components) = &patch.components {
        message.components.clone_from(components);
    }
    if let Some(kept) = &patch.attachments {
        message.attachments.retain(|attachment| kept.contains(&attachment.id));
    }
    message.attachments.extend(with_ids(api, patch.added).await?);
    if message.attachments.len() > ATTACHMENTS_MAX {
        return Err(Refusal::InvalidForm("attachments").into());
    }
    if let Some(flags) = patch.flags {
        message.flags = message.flags & (Message::EPHEMERAL | !(Message::IS_COMPONENTS_V2 | 4)) | flags;
    }
    if message.is_empty() {
        return Err(Refusal::EmptyMessage.into());
    }
    if !was_loading {
        message.edited_timestamp = Some(api.now().unix);
    }
    let changed = Ephemeral { message: Arc::new(message), ..found };
    changed.put(api).await?;
    changed.publish(api, EventName::MessageUpdate, &context)?;
    Ok(reply(changed.message))
}

/// Deletes one. The caller has checked that the token opens it.
pub(super) async fn delete(api: &Api, token: &Token, found: &Ephemeral) -> Result<(), ApiError> {
    api.node.store().delete_record(EPHEMERAL, &key(found.message.id)).await?;
    let mut body = json!({"id": found.message.id, "channel_id": token.channel_id});
    if let Some(guild_id) = token.guild_id {
        body["guild_id"] = json!(guild_id);
    }
    publish(api, EventName::MessageDelete, token.guild_id, found.reader, &body)
}
