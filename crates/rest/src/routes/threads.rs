//! Threads: created, joined, left, listed. What changes or ends one is with channels. Spec  docs/protocol/reference.md
//! §10.3.

use super::{Call, PathParams, channel_form, message_form, render};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, MessageRequest, Query},
    error::ApiError,
    form::{self, FieldError, Form},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{ArchivedThreads, NewThread, ThreadList, ThreadReply, request};
use guildhall_guild_protocol::ThreadEntry;
use guildhall_model::{
    ChannelId, ChannelType, Id, Member, MessageId, ThreadMember, UserId,
    from_gateway::{MessageBody, ThreadBody, ThreadMemberBody},
};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

const PAGE_MAX: i64 = 100;
const PAGE_DEFAULT: i64 = 50;
const TAGS_MAX: usize = 5;

/// A thread in the form for one account.
pub(super) fn body((entry, own): &(ThreadEntry, Option<ThreadMember>)) -> Response {
    Json(entry.body(*own)).into_response()
}

fn new_thread(form: &mut Form<'_>, from: Option<MessageId>) -> Option<NewThread> {
    let name = form.required("name", |v| form::name(v, 1, channel_form::NAME_CHARS_MAX));
    Some(NewThread {
        from,
        kind: form.optional("type", thread_kind),
        auto_archive_duration: form.optional("auto_archive_duration", channel_form::auto_archive),
        invitable: form.optional("invitable", form::boolean).unwrap_or(true),
        rate_limit_per_user: form.optional("rate_limit_per_user", channel_form::slow_mode),
        message: None,
        applied_tags: applied_tags(form),
        name: name?,
    })
}

/// Tags of a new post.
pub(super) fn applied_tags(form: &mut Form<'_>) -> Vec<Id<()>> {
    form.optional("applied_tags", |v| form::list(v, 0, TAGS_MAX, form::id)).unwrap_or_default()
}

fn thread_kind(value: &Value) -> form::Parsed<ChannelType> {
    match form::integer(value, 0, 255)? {
        10 => Ok(ChannelType::AnnouncementThread),
        11 => Ok(ChannelType::PublicThread),
        12 => Ok(ChannelType::PrivateThread),
        _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (10, 11, 12).").into()),
    }
}

async fn begin(api: &Api, caller: &Caller, parent: ChannelId, new: NewThread) -> Result<ThreadReply, ApiError> {
    api.request_in_channel(caller, parent, request::CreateThread(parent, Box::new(new))).await
}

/// A post, with its first message: libraries read both from the answer.
#[derive(Serialize)]
struct PostBody<'a> {
    #[serde(flatten)]
    thread: ThreadBody<'a>,
    /// None: it was deleted already.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageBody<'a>>,
}

async fn begun_post(api: &Api, caller: &Caller, reply: ThreadReply) -> Result<Response, ApiError> {
    let (entry, own) = *reply;
    let post_id = entry.channel.id;
    let record = api.message(post_id, post_id.cast()).await?;
    let message = record.as_ref().map(|record| render::message(caller, record, None));
    let body = PostBody { thread: entry.body(own), message };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

fn created(reply: &(ThreadEntry, Option<ThreadMember>)) -> Result<Response, ApiError> {
    Ok((StatusCode::CREATED, body(reply)).into_response())
}

/// From a message. The kind is the channel's.
pub(super) async fn create_from_message(
    Call { api, caller, params }: Call,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let (parent, from) = (params.id("channel_id")?, params.id("message_id")?);
    let permit = ReadPermit::message(&api, &caller, parent, from).await?;
    let new = input.read(&api, permit, BodyLimits::FORM, |form| new_thread(form, Some(from))).await?;
    created(&*begin(&api, &caller, parent, NewThread { kind: None, ..new }).await?)
}

/// Without a message; in a forum or media channel a post, with its first message.
pub(super) async fn create(Call { api, caller, params }: Call, request: MessageRequest) -> Result<Response, ApiError> {
    let parent = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, parent).await?;
    let input = request.read(&api, permit, parent, api.may_attach(&caller, parent, None)).await?;
    let mut refused = None;
    let (mut new, message) = form::object(&input.value, |form| {
        let new = new_thread(form, None);
        let message = form.optional("message", |value| {
            match message_form::new_message(value, &input.uploads.numbers(), parent) {
                Ok(read) => Ok(Some(read)),
                Err(ApiError::Form(faults)) => Err(faults),
                Err(error) => {
                    refused = Some(error);
                    Ok(None)
                }
            }
        });
        Some((new?, message.flatten()))
    })?;
    if let Some(refused) = refused {
        return Err(refused);
    }
    if let Some((mut message, files)) = message {
        message_form::need_bot(&message, caller.bot)?;
        let kept = input.uploads.keep(&api.media, parent, &files).await?;
        kept.put_into(&mut message);
        new.message = Some(Box::new(message));
        let reply = kept.settled(begin(&api, &caller, parent, new).await).await?;
        return begun_post(&api, &caller, reply).await;
    }
    created(&*begin(&api, &caller, parent, new).await?)
}

/// The account at the end of the path: `@me`, or an id.
fn named(params: &PathParams, caller: &Caller) -> Result<UserId, ApiError> {
    if params.text("user_id") == "@me" { Ok(caller.id) } else { params.id("user_id") }
}

pub(super) async fn add_member(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let thread_id = params.id("channel_id")?;
    let command = request::AddThreadMember(thread_id, named(&params, &caller)?);
    api.done_in_channel(&caller, thread_id, command).await
}

pub(super) async fn remove_member(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let thread_id = params.id("channel_id")?;
    let command = request::RemoveThreadMember(thread_id, named(&params, &caller)?);
    api.done_in_channel(&caller, thread_id, command).await
}

type Members = Vec<(ThreadMember, Option<Arc<Member>>)>;

async fn members(api: &Api, caller: &Caller, thread_id: ChannelId) -> Result<Members, ApiError> {
    api.request_in_channel(caller, thread_id, request::ListThreadMembers(thread_id)).await
}

fn member_body<'a>((of, member): &'a (ThreadMember, Option<Arc<Member>>), with_member: bool) -> ThreadMemberBody<'a> {
    ThreadMemberBody::from(*of).with_member(member.as_deref().filter(|_| with_member)).for_rest()
}

pub(super) async fn read_member(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let user_id = named(&params, &caller)?;
    let with_member = query.read(|form| Some(form.optional("with_member", form::boolean).unwrap_or(false)))?;
    let members = members(&api, &caller, params.id("channel_id")?).await?;
    let member = members.iter().find(|(of, _)| of.user_id == user_id);
    let member = member.ok_or(ApiError::Refused(guildhall_guild::Refusal::UnknownMember))?;
    Ok(Json(member_body(member, with_member)).into_response())
}

/// Lists members by ascending user id; all of them unless a page is requested.
pub(super) async fn list_members(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let (with_member, after, limit) = query.read(|form| {
        let with_member = form.optional("with_member", form::boolean).unwrap_or(false);
        let after = form.optional("after", form::id).unwrap_or(UserId::new(0));
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX));
        Some((with_member, after, limit.map_or(usize::MAX, |limit| limit as usize)))
    })?;
    let members = members(&api, &caller, params.id("channel_id")?).await?;
    let page = members.iter().filter(|(of, _)| of.user_id > after).take(limit);
    Ok(Json(page.map(|member| member_body(member, with_member)).collect::<Vec<_>>()).into_response())
}

#[derive(Serialize)]
struct ThreadsBody<'a> {
    threads: Vec<ThreadBody<'a>>,
    members: Vec<ThreadMemberBody<'a>>,
    has_more: bool,
}

fn list(list: &ThreadList) -> Result<Response, ApiError> {
    let own = |entry: &ThreadEntry| list.own.iter().find(|own| own.thread_id == entry.channel.id).copied();
    let body = ThreadsBody {
        threads: list.threads.iter().map(|entry| entry.body(own(entry))).collect(),
        members: list.own.iter().copied().map(Into::into).collect(),
        has_more: list.has_more,
    };
    Ok(Json(body).into_response())
}

pub(super) async fn active(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    list(&*api.request(&caller, params.id("guild_id")?, request::ListThreads).await?)
}

/// Archived threads of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Archive {
    Public,
    Private,
    /// Private threads that the caller has joined.
    OwnPrivate,
}

async fn archived(
    api: &Api,
    caller: &Caller,
    params: &PathParams,
    query: &Query,
    archive: Archive,
) -> Result<Response, ApiError> {
    let parent = params.id("channel_id")?;
    let (before, before_id, limit) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_DEFAULT) as usize;
        let (before, before_id) = match archive {
            Archive::OwnPrivate => (None, form.optional("before", form::id)),
            Archive::Public | Archive::Private => (form.optional("before", form::timestamp), None),
        };
        Some((before, before_id, limit))
    })?;
    let (are_private, are_own) = (archive != Archive::Public, archive == Archive::OwnPrivate);
    let which = ArchivedThreads { are_private, are_own, before, before_id, limit };
    list(&*api.request_in_channel(caller, parent, request::ListArchivedThreads(parent, which)).await?)
}

pub(super) async fn archived_public(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    archived(&api, &caller, &params, &query, Archive::Public).await
}

pub(super) async fn archived_private(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    archived(&api, &caller, &params, &query, Archive::Private).await
}

/// Private ones that the caller is in, by descending id.
pub(super) async fn archived_own(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    archived(&api, &caller, &params, &query, Archive::OwnPrivate).await
}
