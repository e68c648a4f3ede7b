//! Followups: further answers to an interaction, and changes to all of them, by its token.
//!
//! Owns        what the paths `/webhooks/{application_id}/{interaction_token}` do, which are those of webhooks.
//! Invariants  F1 a token reads, changes and deletes messages of its own interaction, and no others. (tests of
//!             `guildhall/tests/it/surface/interactions.rs`)
//! Limits      `TOKEN_MS`; `FOLLOWUPS_MAX` ephemeral messages.
//! Not here    webhooks: `crate::routes::webhooks`, which calls `of` first.

use super::{
    answers::Answer,
    callback::{DEFERRED_UPDATE, UPDATE, is_ephemeral, kind_of, viewer},
    ephemeral::{self, Ephemeral},
    token::Token,
};
use crate::{
    body::MessageRequest,
    error::ApiError,
    form::{FieldError, FieldErrors},
    permit::ReadPermit,
    routes::{PathParams, message_form, render},
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, MessageReply, NewMessage, Refusal, ResponsePatch, request};
use guildhall_model::{Message, MessageId, MessageInteraction};
use std::sync::Arc;

const ORIGINAL: &str = "@original";

/// A message that answers an interaction.
pub(super) struct Reply<'a> {
    pub token: &'a Token,
    pub is_followup: bool,
    /// The first answer, for a followup.
    pub original: Option<Answer>,
}

impl Reply<'_> {
    /// Sends it: into the channel, or to the user alone.
    pub async fn send(
        self,
        api: &Api,
        message: NewMessage,
        is_ephemeral: bool,
        is_deferred: bool,
    ) -> Result<Box<MessageReply>, ApiError> {
        let Self { token, is_followup, original } = self;
        let refused = |field: &str, message: &'static str| {
            Err(FieldErrors::at(field, FieldError::new("UNSUPPORTED", message)).into())
        };
        if message.forward.is_some() {
            return refused("message_reference", "Interactions forward no messages.");
        }
        if is_ephemeral && message.poll.is_some() {
            return refused("poll", "An ephemeral message has no poll.");
        }
        let user = api.node.user(token.user_id).await?.ok_or(ApiError::Refused(Refusal::UnknownUser))?;
        // A message that others see names no ephemeral one.
        let visible = |message_id: MessageId, is_hidden: bool| (is_ephemeral || !is_hidden).then_some(message_id);
        let original = original.and_then(|answer| visible(answer.message_id?, answer.is_ephemeral));
        let source = token.source.and_then(|source| visible(source.message_id, source.is_ephemeral));
        let interaction = MessageInteraction {
            id: token.id,
            kind: token.kind,
            name: token.name.clone(),
            user: user.clone(),
            original_response_message_id: original.filter(|_| is_followup),
            interacted_message_id: source,
            triggering: token.triggering.as_ref().map(|triggering| {
                Box::new(MessageInteraction {
                    id: triggering.id,
                    kind: triggering.kind,
                    name: triggering.name.clone(),
                    user,
                    original_response_message_id: None,
                    interacted_message_id: source,
                    triggering: None,
                })
            }),
        };
        let response = guildhall_guild::Response {
            application: token.application,
            interaction: Box::new(interaction),
            message,
            kind: kind_of(token),
            reply_to: if is_followup { original } else { source },
            is_deferred,
        };
        if is_ephemeral {
            return ephemeral::create(api, token, response).await;
        }
        let guild_id = api.channel_guild(token.channel_id).await?;
        let command = request::CreateResponse(token.channel_id, Box::new(response));
        Ok(api.node.command(guild_id, Actor::System, command).await?)
    }
}

/// The right of a path of webhooks, if it has the token of an interaction.
pub(crate) struct Followups {
    token: Token,
    answer: Answer,
}

/// A message of an interaction.
enum Found {
    Public(MessageId),
    Ephemeral(Box<Ephemeral>),
}

impl Followups {
    /// None: the path has another token.
    pub async fn of(api: &Api, params: &PathParams) -> Result<Option<Self>, ApiError> {
        let text = params.text("webhook_token");
        if !Token::is_one(text) {
            return Ok(None);
        }
        let token = Token::of_followup(api, params.id("webhook_id")?, text)?;
        let answer = Answer::read(api, token.id).await?.ok_or(ApiError::Refused(Refusal::UnknownWebhook))?;
        Ok(Some(Self { token, answer }))
    }

    fn permit(&self) -> ReadPermit {
        ReadPermit::interaction(self.token.application)
    }

    fn shown(&self, reply: &MessageReply) -> Response {
        Json(render::reply(&viewer(&self.token), reply)).into_response()
    }

    pub async fn create(self, api: &Api, request: MessageRequest) -> Result<Response, ApiError> {
        let token = &self.token;
        let input = request.read(api, self.permit(), token.channel_id, async { Ok(()) }).await?;
        // The first followup of a deferred answer is that answer, as upstream.
        if let Some(loading) = self.loading(api).await? {
            let (mut patch, files) = message_form::message_patch(&input.value, &input.uploads.numbers())?;
            let kept = input.uploads.keep(&api.media, token.channel_id, &files).await?;
            kept.put_into_patch(&mut patch);
            let edited = kept.settled(self.change(api, loading, patch).await).await?;
            return Ok(self.shown(&edited));
        }
        let (mut new, files) = message_form::new_message(&input.value, &input.uploads.numbers(), token.channel_id)?;
        let is_ephemeral = is_ephemeral(&input.value);
        if is_ephemeral {
            Answer::count_followup(api, token.id).await?;
        }
        let kept = input.uploads.keep(&api.media, token.channel_id, &files).await?;
        kept.put_into(&mut new);
        let reply = Reply { token, is_followup: true, original: Some(self.answer) };
        let reply = kept.settled(reply.send(api, new, is_ephemeral, false).await).await?;
        Ok(self.shown(&reply))
    }

    /// The first answer, while it is loading.
    async fn loading(&self, api: &Api) -> Result<Option<Found>, ApiError> {
        let Some(message_id) = self.answer.message_id else { return Ok(None) };
        if matches!(self.answer.kind, DEFERRED_UPDATE | UPDATE) {
            return Ok(None);
        }
        Ok(match self.message(api, message_id).await? {
            Some((found, message)) if message.flags & Message::LOADING != 0 => Some(found),
            _ => None,
        })
    }

    /// A message of this interaction (F1).
    async fn message(&self, api: &Api, message_id: MessageId) -> Result<Option<(Found, Arc<Message>)>, ApiError> {
        let token = &self.token;
        let is_original = self.answer.message_id == Some(message_id);
        let is_its = |message: &Message| {
            let answers = message.interaction.as_ref().is_some_and(|interaction| interaction.id == token.id);
            message.author.id == token.application && (answers || is_original)
        };
        if let Some(found) = Ephemeral::read(api, message_id).await? {
            let message = found.message.clone();
            let is_readers = found.reader == token.user_id && found.message.channel_id == token.channel_id;
            return Ok((is_readers && is_its(&message)).then(|| (Found::Ephemeral(Box::new(found)), message)));
        }
        let found = api.message(token.channel_id, message_id).await?;
        Ok(found.filter(|found| is_its(&found.message)).map(|found| (Found::Public(message_id), found.message)))
    }

    async fn in_path(&self, api: &Api, params: &PathParams) -> Result<(Found, Arc<Message>), ApiError> {
        let message_id = match params.text("message_id") {
            ORIGINAL => self.answer.message_id.ok_or(ApiError::UNKNOWN_MESSAGE)?,
            _ => params.id("message_id")?,
        };
        self.message(api, message_id).await?.ok_or(ApiError::UNKNOWN_MESSAGE)
    }

    async fn change(
        &self,
        api: &Api,
        found: Found,
        patch: guildhall_guild::MessagePatch,
    ) -> Result<Box<MessageReply>, ApiError> {
        let token = &self.token;
        match found {
            Found::Ephemeral(found) => ephemeral::edit(api, token, found.message.id, patch).await,
            Found::Public(message_id) => {
                let patch = ResponsePatch { application: token.application, interaction: None, patch };
                let guild_id = api.channel_guild(token.channel_id).await?;
                let command = request::EditResponse(token.channel_id, message_id, Box::new(patch));
                Ok(api.node.command(guild_id, Actor::System, command).await?)
            }
        }
    }

    pub async fn read(self, api: &Api, params: &PathParams) -> Result<Response, ApiError> {
        let (_, message) = self.in_path(api, params).await?;
        Ok(self.shown(&MessageReply { message, reactions: Vec::new(), referenced: None }))
    }

    pub async fn edit(self, api: &Api, params: &PathParams, request: MessageRequest) -> Result<Response, ApiError> {
        let (found, _) = self.in_path(api, params).await?;
        let input = request.read(api, self.permit(), self.token.channel_id, async { Ok(()) }).await?;
        let (mut patch, files) = message_form::message_patch(&input.value, &input.uploads.numbers())?;
        let kept = input.uploads.keep(&api.media, self.token.channel_id, &files).await?;
        kept.put_into_patch(&mut patch);
        let edited = kept.settled(self.change(api, found, patch).await).await?;
        Ok(self.shown(&edited))
    }

    pub async fn delete(self, api: &Api, params: &PathParams) -> Result<StatusCode, ApiError> {
        match self.in_path(api, params).await? {
            (Found::Ephemeral(found), _) => ephemeral::delete(api, &self.token, &found).await?,
            (Found::Public(message_id), _) => {
                let channel_id = self.token.channel_id;
                let guild_id = api.channel_guild(channel_id).await?;
                api.node.command(guild_id, Actor::System, request::DeleteMessage(channel_id, message_id)).await?;
            }
        }
        Ok(StatusCode::NO_CONTENT)
    }
}
