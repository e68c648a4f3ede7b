//! Templates of guilds: made, changed, and guilds made from them. Spec  docs/protocol/choices.md "Community".

use super::{
    Call, PathParams,
    guilds::{self, guild_of_path, need, need_room_for_guild},
};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
    user_policy::SelfService,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, NewGuild, NewTemplate, Refusal, TemplatePatch, TemplateReply, request};
use guildhall_media::{PictureRule, hash_of};
use guildhall_model::{
    Channel, ChannelId, ForumTag, FromTemplate, Guild, GuildId, InviteCode, Overwrite, OverwriteKind, Permissions,
    ResourceKind, Role, RoleIcon, RoleId, TemplateSource, from_gateway::UserBody,
};
use guildhall_store::PictureOwner;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NAME_CHARS_MAX: usize = 100;
const DESCRIPTION_CHARS_MAX: usize = 120;

/// The body names roles and channels by numbers from 0, as upstream: the ids of the guild mean nothing elsewhere.
struct Numbers {
    roles: BTreeMap<RoleId, usize>,
    channels: BTreeMap<ChannelId, usize>,
}

impl Numbers {
    fn of(source: &TemplateSource) -> Self {
        let everyone: RoleId = source.guild.id.cast();
        let others = source.roles.iter().map(|role| role.id).filter(|id| *id != everyone);
        Self {
            roles: [everyone].into_iter().chain(others).zip(0..).collect(),
            channels: source.channels.iter().map(|channel| channel.id).zip(1..).collect(),
        }
    }

    fn channel(&self, id: Option<ChannelId>) -> Option<usize> {
        id.and_then(|id| self.channels.get(&id).copied())
    }

    fn role_body(&self, role: &Role) -> Value {
        let unicode_emoji = match &role.icon {
            Some(RoleIcon::Emoji(emoji)) => Some(emoji),
            _ => None,
        };
        json!({
            "id": self.roles.get(&role.id), "name": role.name, "permissions": role.permissions, "color": role.color,
            "colors": {"primary_color": role.color, "secondary_color": null, "tertiary_color": null},
            "hoist": role.hoist, "mentionable": role.mentionable, "icon": null, "unicode_emoji": unicode_emoji,
        })
    }

    fn channel_body(&self, channel: &Channel) -> Value {
        let overwrite = |overwrite: &Overwrite| match overwrite.target {
            OverwriteKind::Role(id) => Some(json!({
                "id": self.roles.get(&id)?, "type": 0, "allow": overwrite.allow, "deny": overwrite.deny,
            })),
            OverwriteKind::Member(_) => None,
        };
        let forum = channel.forum.as_deref();
        let tag = |tag: &ForumTag| {
            json!({
                "id": null, "name": tag.name, "moderated": tag.moderated, "emoji_id": null,
                "emoji_name": tag.emoji_name,
            })
        };
        json!({
            "id": self.channel(Some(channel.id)), "type": channel.kind, "name": channel.name,
            "position": channel.position, "topic": channel.topic, "bitrate": channel.bitrate,
            "user_limit": channel.user_limit, "nsfw": channel.nsfw, "rate_limit_per_user": channel.rate_limit_per_user,
            "parent_id": self.channel(channel.parent_id),
            "permission_overwrites": channel.overwrites.iter().filter_map(overwrite).collect::<Vec<_>>(),
            "default_auto_archive_duration": channel.default_auto_archive_duration,
            "default_thread_rate_limit_per_user": channel.default_thread_rate_limit_per_user,
            "available_tags": forum.map(|forum| forum.available_tags.iter().map(tag).collect::<Vec<_>>()),
            "default_reaction_emoji": forum.and_then(|forum| forum.default_reaction_emoji.as_ref()),
            "default_sort_order": forum.and_then(|forum| forum.default_sort_order),
            "default_forum_layout": forum.map(|forum| forum.default_forum_layout),
            "default_tag_setting": null, "template": "", "theme_color": null, "icon_emoji": null,
        })
    }
}

fn source_body(source: &TemplateSource) -> Value {
    let (numbers, guild) = (Numbers::of(source), &source.guild);
    json!({
        "name": guild.name,
        "description": guild.description,
        "region": null,
        "verification_level": guild.verification_level,
        "default_message_notifications": guild.default_message_notifications,
        "explicit_content_filter": guild.explicit_content_filter,
        "preferred_locale": guild.preferred_locale,
        "afk_timeout": guild.afk_timeout,
        "afk_channel_id": numbers.channel(guild.afk_channel_id),
        "system_channel_id": numbers.channel(guild.system_channel_id),
        "system_channel_flags": 0,
        "roles": source.roles.iter().map(|role| numbers.role_body(role)).collect::<Vec<_>>(),
        "channels": source.channels.iter().map(|channel| numbers.channel_body(channel)).collect::<Vec<_>>(),
    })
}

fn body(reply: &TemplateReply) -> Value {
    let template = &reply.template;
    json!({
        "code": template.code,
        "name": template.name,
        "description": template.description,
        "usage_count": template.usage_count,
        "creator_id": template.creator.as_ref().map(|creator| creator.id),
        "creator": template.creator.as_ref().map(|creator| UserBody::from(&**creator).for_rest()),
        "created_at": template.created_at,
        "updated_at": template.updated_at,
        "source_guild_id": template.source.guild.id,
        "serialized_source_guild": source_body(&template.source),
        "is_dirty": reply.is_dirty.then_some(true),
    })
}

fn answer(reply: &TemplateReply) -> Response {
    Json(body(reply)).into_response()
}

fn code(params: &PathParams) -> Result<InviteCode, ApiError> {
    params.text("code").parse().map_err(|_| ApiError::Refused(Refusal::UnknownTemplate))
}

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let templates = api.request(&caller, params.id("guild_id")?, request::ListTemplates).await?;
    Ok(Json(templates.iter().map(body).collect::<Vec<_>>()).into_response())
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let code = api.node.new_invite_code();
    let new = input.read(&api, ReadPermit::read_guild(&caller, &guild), BodyLimits::FORM, |form| {
        let name = form.required("name", |v| form::name(v, 1, NAME_CHARS_MAX));
        let description = form.optional("description", |v| form::text(v, 0, DESCRIPTION_CHARS_MAX));
        Some(NewTemplate { code, name: name?, description: description.filter(|text| !text.is_empty()) })
    });
    let new = request::CreateTemplate(Box::new(new.await?));
    Ok(answer(&*api.request(&caller, guild.structure.id(), new).await?))
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let code = code(&params)?;
    let patch = input.read(&api, ReadPermit::read_guild(&caller, &guild), BodyLimits::FORM, |form| {
        Some(TemplatePatch {
            name: form.optional("name", |v| form::name(v, 1, NAME_CHARS_MAX)),
            description: form.nullable("description", |v| form::text(v, 0, DESCRIPTION_CHARS_MAX)),
        })
    });
    let update = request::UpdateTemplate(code, Box::new(patch.await?));
    Ok(answer(&*api.request(&caller, guild.structure.id(), update).await?))
}

pub(super) async fn sync(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let sync = request::SyncTemplate(code(&params)?);
    Ok(answer(&*api.request(&caller, params.id("guild_id")?, sync).await?))
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let delete = request::DeleteTemplate(code(&params)?);
    Ok(answer(&*api.request(&caller, params.id("guild_id")?, delete).await?))
}

/// The template of the path, and its guild. The code suffices.
async fn found(api: &Api, params: &PathParams) -> Result<(GuildId, Box<TemplateReply>), ApiError> {
    let unknown = || ApiError::Refused(Refusal::UnknownTemplate);
    let code = code(params)?;
    let guild_id = api.node.store().guild_of_resource(ResourceKind::Template, code.number()).await?;
    let guild_id = guild_id.ok_or_else(unknown)?;
    match api.node.command(guild_id, Actor::System, request::ReadTemplate(code)).await {
        Err(Refusal::UnknownGuild) => Err(unknown()),
        other => Ok((guild_id, other?)),
    }
}

pub(super) async fn read(Call { api, caller: _, params }: Call) -> Result<Response, ApiError> {
    let (_, reply) = found(&api, &params).await?;
    Ok(answer(&reply))
}

/// Makes a guild with the template's roles and channels, in one step. The caller owns it.
pub(super) async fn instantiate(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    caller.need(&api, SelfService::CreateGuilds)?;
    let (source_id, reply) = found(&api, &params).await?;
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, ReadPermit::caller(&caller), BodyLimits::PROFILE).await?;
    let (name, icon) = input.read(|form| {
        let name = form.required("name", |v| form::name(v, 2, 100));
        let icon = form.picture("icon", rule);
        Some((name?, icon))
    })?;
    need_room_for_guild(&api, caller.id, None).await?;
    let guild_id = api.node.next_id().await?;
    let source = &reply.template.source;
    let mut ids = Vec::with_capacity(source.ids_count());
    for _ in 0..source.ids_count() {
        ids.push(api.node.next_id().await?);
    }
    let FromTemplate { guild, roles, channels } = source.instantiate(guild_id, ids);
    let icon_hash = hash_of(&icon).flatten().map(String::from);
    let guild = Guild { name, owner_id: caller.id, icon: icon_hash, ..guild };
    let held = api.media.hold_fields(caller.id.get(), PictureOwner::Guild(guild_id), [icon]).await?;
    let new = NewGuild { guild, owner: caller.0.clone(), roles, channels };
    let created = api.node.create_guild(new).await;
    held.settled(created.map_err(ApiError::from)).await?;
    api.node.settle_member(guild_id, &caller).await?;
    // The guild is there, whether or not it is counted.
    let counted = request::UseTemplate(reply.template.code);
    if let Err(refusal) = api.node.command(source_id, Actor::System, counted).await {
        tracing::debug!(%refusal, "the use of a template is not counted");
    }
    let guild = guilds::guild(&api, &caller, guild_id).await?;
    Ok((StatusCode::CREATED, guilds::body(&guild)).into_response())
}
