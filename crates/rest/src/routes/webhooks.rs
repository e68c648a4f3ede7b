//! Webhooks: managed by members, used with a token. Spec  docs/protocol/reference.md §7.1.
//!
//! Invariants  paths with a token need no account: the token authorizes. Their limit is counted per peer.

use super::{
    Call, PathParams, channel_form, interactions::followups::Followups, message_form, render, threads::applied_tags,
};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, MessageRequest, Query},
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{
    Actor, MessageReply, NewWebhook, Refusal, Request, WebhookAccess, WebhookPatch, WebhookPost,
    request::{self, WithReason},
};
use guildhall_media::{Picture, PictureRule, hash_of};
use guildhall_model::{
    ChannelId, GuildId, MessageId, ResourceKind, User, UserId, Webhook, WebhookId, from_gateway::WebhookBody,
    name::reserved_in_webhook,
};
use guildhall_store::PictureOwner;
use serde_json::Value;
use std::sync::Arc;

const NAME_CHARS_MAX: usize = 80;

/// A name that cannot be taken for a part of the service.
pub(super) fn name(value: &Value) -> Parsed<String> {
    let name = form::name_of_person(value, 1, NAME_CHARS_MAX)?;
    match reserved_in_webhook(&name) {
        Some(word) => Err(form::reserved(word).into()),
        None => Ok(name),
    }
}

fn avatar_hash(avatar: &Option<Option<Picture>>) -> Option<Option<String>> {
    hash_of(avatar).map(|avatar| avatar.map(String::from))
}

fn body(webhook: &Webhook) -> Response {
    Json(WebhookBody::from(webhook)).into_response()
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let token = api.node.new_secret();
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let (name, avatar) = input.read(|form| {
        let avatar = form.picture("avatar", rule);
        Some((form.required("name", name)?, avatar))
    })?;
    if avatar.is_some() {
        // The same permission as for listing them.
        api.request_in_channel(&caller, channel_id, request::ListWebhooks(Some(channel_id))).await?;
    }
    let id: WebhookId = api.node.next_id().await?;
    let new = NewWebhook { id: Some(id), name, avatar: avatar_hash(&avatar).flatten(), token };
    let held = api.media.hold_fields(caller.id.get(), PictureOwner::User(id.cast()), [avatar]).await?;
    let created = api.request_in_channel(&caller, channel_id, request::CreateWebhook(channel_id, Box::new(new))).await;
    Ok(body(&*held.settled(created).await?))
}

fn list(webhooks: Vec<Arc<Webhook>>) -> Result<Response, ApiError> {
    Ok(Json(webhooks.iter().map(|webhook| WebhookBody::from(&**webhook)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn of_channel(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    list(api.request_in_channel(&caller, channel_id, request::ListWebhooks(Some(channel_id))).await?)
}

pub(super) async fn of_guild(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    list(api.request(&caller, params.id("guild_id")?, request::ListWebhooks(None)).await?)
}

/// A webhook that a path names.
pub(super) struct Named {
    id: WebhookId,
    guild_id: GuildId,
    access: WebhookAccess,
    reason: Option<Arc<str>>,
}

impl Named {
    async fn find(api: &Api, params: &PathParams, access: WebhookAccess) -> Result<Self, ApiError> {
        let id: WebhookId = params.id("webhook_id")?;
        let guild_id = api.node.store().guild_of_resource(ResourceKind::Webhook, id.get()).await?;
        let guild_id = guild_id.ok_or(ApiError::Refused(Refusal::UnknownWebhook))?;
        Ok(Self { id, guild_id, access, reason: None })
    }

    async fn managed(api: &Api, params: &PathParams, caller: &Caller) -> Result<Self, ApiError> {
        let named = Self::find(api, params, WebhookAccess::Actor(Actor::User(caller.id))).await?;
        Ok(Self { reason: caller.reason(), ..named })
    }

    pub async fn by_token(api: &Api, params: &PathParams) -> Result<Self, ApiError> {
        Self::find(api, params, WebhookAccess::Token(params.text("webhook_token").to_owned())).await
    }

    async fn request<R: Request>(
        &self,
        api: &Api,
        request: impl FnOnce(WebhookId, WebhookAccess) -> R,
    ) -> Result<R::Reply, ApiError> {
        let request = WithReason(self.reason.clone(), request(self.id, self.access.clone()));
        match api.node.command(self.guild_id, Actor::System, request).await {
            Err(Refusal::UnknownGuild) => Err(ApiError::Refused(Refusal::UnknownWebhook)),
            other => Ok(other?),
        }
    }

    /// Reads the webhook, which checks its token or the permission of its manager. Handlers call this
    /// before they read a body.
    pub async fn show(&self, api: &Api) -> Result<Arc<Webhook>, ApiError> {
        let own = Self { id: self.id, guild_id: self.guild_id, access: self.access.clone(), reason: None };
        own.request(api, request::ReadWebhook).await
    }

    /// Posts a message.
    pub async fn execute(&self, api: &Api, post: WebhookPost) -> Result<Box<MessageReply>, ApiError> {
        self.request(api, |id, access| request::ExecuteWebhook(id, access, Box::new(post))).await
    }

    /// A caller with the token sees the webhook's messages in full.
    fn viewer(&self) -> User {
        let id: UserId = self.id.cast();
        User::new(id, "webhook")
    }
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let reply = Named::managed(&api, &params, &caller).await?.request(&api, request::ReadWebhook).await?;
    Ok(body(&reply))
}

pub(super) async fn read_by_token(State(api): State<Arc<Api>>, params: PathParams) -> Result<Response, ApiError> {
    let reply = Named::by_token(&api, &params).await?.request(&api, request::ReadWebhook).await?;
    Ok(Json(WebhookBody::from(&*reply).without_user()).into_response())
}

/// `channel_id` of a patch.
enum ChannelField {
    Read,
    /// The holder of a webhook's token cannot move it.
    Ignored,
}

/// Reads a patch and keeps its picture. The sender was found to have the right.
async fn patch(
    api: &Api,
    named: &Named,
    input: JsonRequest,
    permit: ReadPermit,
    channel: ChannelField,
) -> Result<Arc<Webhook>, ApiError> {
    let rule = PictureRule::large(&api.media);
    let input = input.json(api, permit, BodyLimits::PROFILE).await?;
    let (patch, avatar) = input.read(|form| {
        let avatar = form.picture("avatar", rule);
        let patch = WebhookPatch {
            name: form.optional("name", name),
            avatar: avatar_hash(&avatar),
            channel_id: match channel {
                ChannelField::Read => form.optional("channel_id", form::id),
                ChannelField::Ignored => None,
            },
        };
        Some((patch, avatar))
    })?;
    let held = api.media.hold_fields(permit.sender(), PictureOwner::User(named.id.cast()), [avatar]).await?;
    let updated = named.request(api, |id, access| request::UpdateWebhook(id, access, Box::new(patch))).await;
    held.settled(updated).await
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let named = Named::managed(&api, &params, &caller).await?;
    let permit = ReadPermit::managed_webhook(&caller, &*named.show(&api).await?);
    Ok(body(&*patch(&api, &named, input, permit, ChannelField::Read).await?))
}

pub(super) async fn update_by_token(
    State(api): State<Arc<Api>>,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let named = Named::by_token(&api, &params).await?;
    let permit = ReadPermit::webhook(&*named.show(&api).await?);
    let webhook = patch(&api, &named, input, permit, ChannelField::Ignored).await?;
    Ok(Json(WebhookBody::from(&*webhook).without_user()).into_response())
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let named = Named::managed(&api, &params, &caller).await?;
    named.request(&api, request::DeleteWebhook).await?;
    api.media.collect_pictures(PictureOwner::User(named.id.cast())).await;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn delete_by_token(State(api): State<Arc<Api>>, params: PathParams) -> Result<StatusCode, ApiError> {
    let named = Named::by_token(&api, &params).await?;
    named.request(&api, request::DeleteWebhook).await?;
    api.media.collect_pictures(PictureOwner::User(named.id.cast())).await;
    Ok(StatusCode::NO_CONTENT)
}

fn thread_id(form: &mut Form<'_>) -> Option<ChannelId> {
    form.optional("thread_id", form::id)
}

/// Posts a message. Without `wait` the answer is empty, but still waits until the message is stored.
pub(super) async fn execute(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
    request: MessageRequest,
) -> Result<Response, ApiError> {
    if let Some(followups) = Followups::of(&api, &params).await? {
        return followups.create(&api, request).await;
    }
    let named = Named::by_token(&api, &params).await?;
    let webhook = named.show(&api).await?;
    // The token includes the right to send files, as upstream.
    let input = request.read(&api, ReadPermit::webhook(&webhook), webhook.channel_id, async { Ok(()) }).await?;
    let (wait, thread_id) = query.read(|form| {
        let wait = form.optional("wait", form::boolean).unwrap_or(false);
        Some((wait, thread_id(form)))
    })?;
    let numbers = input.uploads.numbers();
    let read = message_form::new_message_with(&input.value, &numbers, ChannelId::new(0), |form| {
        let username = form.optional("username", name);
        let thread_name = form.optional("thread_name", |v| form::name(v, 1, channel_form::NAME_CHARS_MAX));
        (username, form.optional("avatar_url", avatar_url), thread_name, applied_tags(form))
    });
    let (mut message, files, (username, avatar, thread_name, applied_tags)) = read?;
    if thread_name.is_none() && !applied_tags.is_empty() {
        let fault = FieldError::new("INVALID_VALUE", "Tags are for a new post: set `thread_name` as well.");
        return Err(form::FieldErrors::at("applied_tags", fault).into());
    }
    if message.reply_to.is_some() {
        let fault = FieldError::new("UNSUPPORTED", "A webhook answers no messages.");
        return Err(form::FieldErrors::at("message_reference", fault).into());
    }
    let kept = input.uploads.keep(&api.media, webhook.channel_id, &files).await?;
    kept.put_into(&mut message);
    let viewer = named.viewer();
    let avatar = avatar.filter(|url| !url.is_empty());
    let post = Box::new(WebhookPost { message, username, avatar, thread_id, thread_name, applied_tags });
    let reply = named.request(&api, |id, access| request::ExecuteWebhook(id, access, post)).await;
    let reply = kept.settled(reply).await?;
    Ok(if wait { Json(render::reply(&viewer, &reply)).into_response() } else { StatusCode::NO_CONTENT.into_response() })
}

/// Empty: the webhook's own.
fn avatar_url(value: &Value) -> Parsed<String> {
    if value == "" { Ok(String::new()) } else { message_form::url(value) }
}

/// The message in the path, and the thread in the query.
fn message_of(params: &PathParams, query: &Query) -> Result<(Option<ChannelId>, MessageId), ApiError> {
    Ok((query.read(|form| Some(thread_id(form)))?, params.id("message_id")?))
}

pub(super) async fn read_message(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
) -> Result<Response, ApiError> {
    if let Some(followups) = Followups::of(&api, &params).await? {
        return followups.read(&api, &params).await;
    }
    let (thread, message) = message_of(&params, &query)?;
    let named = Named::by_token(&api, &params).await?;
    let viewer = named.viewer();
    let reply = named.request(&api, |id, access| request::ReadWebhookMessage(id, access, thread, message)).await?;
    Ok(Json(render::reply(&viewer, &reply)).into_response())
}

pub(super) async fn edit_message(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
    request: MessageRequest,
) -> Result<Response, ApiError> {
    if let Some(followups) = Followups::of(&api, &params).await? {
        return followups.edit(&api, &params, request).await;
    }
    let (thread, message) = message_of(&params, &query)?;
    let named = Named::by_token(&api, &params).await?;
    let webhook = named.show(&api).await?;
    named.request(&api, |id, access| request::ReadWebhookMessage(id, access, thread, message)).await?;
    let input = request.read(&api, ReadPermit::webhook(&webhook), webhook.channel_id, async { Ok(()) }).await?;
    let (mut patch, files) = message_form::message_patch(&input.value, &input.uploads.numbers())?;
    let kept = input.uploads.keep(&api.media, webhook.channel_id, &files).await?;
    kept.put_into_patch(&mut patch);
    let viewer = named.viewer();
    let command = |id, access| request::EditWebhookMessage(id, access, thread, message, Box::new(patch));
    let reply = kept.settled(named.request(&api, command).await).await?;
    Ok(Json(render::reply(&viewer, &reply)).into_response())
}

pub(super) async fn delete_message(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
) -> Result<StatusCode, ApiError> {
    if let Some(followups) = Followups::of(&api, &params).await? {
        return followups.delete(&api, &params).await;
    }
    let (thread, message) = message_of(&params, &query)?;
    let named = Named::by_token(&api, &params).await?;
    named.request(&api, |id, access| request::DeleteWebhookMessage(id, access, thread, message)).await?;
    Ok(StatusCode::NO_CONTENT)
}
