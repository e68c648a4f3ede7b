//! Descriptions: an interaction as its application receives it.
//!
//! Owns        `Scene`, the place of an interaction with the objects that it names; the body of INTERACTION_CREATE.
//! Invariants  D1 the application receives objects that the invoking account may view, and nothing of others.

use super::{options::Wanted, token::Token, unknown_application};
use crate::{
    auth::Caller,
    error::ApiError,
    form::{FieldError, FieldErrors},
    state::Api,
};
use guildhall_guild::{InteractionContext, InteractionQuery, request};
use guildhall_model::{
    Channel, ChannelId, GuildId, Message, Permissions, User, UserId,
    from_gateway::{ChannelBody, MemberBody, MessageBody, PartialMemberBody, RoleBody, ThreadBody, UserBody},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Guilds have no language of their own here.
const LOCALE: &str = "en-US";

/// An interaction's place, and the objects that it names.
pub(super) struct Scene {
    pub context: Box<InteractionContext>,
    pub user: Arc<User>,
    /// The bot of the application.
    pub application: Arc<User>,
    pub channel_id: ChannelId,
    pub guild_id: Option<GuildId>,
    /// Named accounts, members or not.
    users: Vec<Arc<User>>,
    /// Has the files of the request that options name.
    pub files: Option<Arc<Message>>,
}

impl Scene {
    /// Reads the place with the permissions of the caller. Refused if the caller cannot view it, or if the bot of the
    /// application is not a member.
    pub async fn read(
        api: &Api,
        caller: &Caller,
        channel_id: ChannelId,
        application: UserId,
        wanted: &Wanted,
    ) -> Result<Self, ApiError> {
        let mut users = wanted.users.clone();
        let mut roles = wanted.roles.clone();
        users.extend(wanted.mentionables.iter().map(|id| id.cast::<guildhall_model::marker::User>()));
        roles.extend(wanted.mentionables.iter().map(|id| id.cast::<guildhall_model::marker::Role>()));
        let channels = wanted.channels.iter().map(|(id, _)| *id).collect();
        let query = InteractionQuery { application, users: users.clone(), roles, channels };
        let query = request::ReadInteraction(channel_id, Box::new(query));
        let context = api.request_in_channel(caller, channel_id, query).await?;
        let bot = api.node.user(application).await?.filter(|user| user.bot).ok_or_else(unknown_application)?;
        if context.application_permissions.is_none() {
            return Err(unknown_application());
        }
        let mut scene = Self {
            guild_id: context.guild.as_ref().map(|guild| guild.id),
            user: caller.0.clone(),
            application: bot,
            channel_id,
            users: Vec::new(),
            files: None,
            context,
        };
        for user_id in users {
            match scene.context.members.iter().find(|(member, _)| member.user.id == user_id) {
                Some((member, _)) => scene.users.push(member.user.clone()),
                None => scene.users.extend(api.node.user(user_id).await?),
            }
        }
        scene.need_all(wanted)?;
        Ok(scene)
    }

    /// Refuses what does not exist, or the caller may not view: both alike.
    fn need_all(&self, wanted: &Wanted) -> Result<(), FieldErrors> {
        let unknown = |what: &str| {
            let fault = FieldError::new("MODEL_TYPE_CONVERT", format!("There is no such {what} here."));
            Err(FieldErrors::at("data", fault))
        };
        let has_user = |id: u64| self.users.iter().any(|user| user.id.get() == id);
        let has_role = |id: u64| self.context.roles.iter().any(|role| role.id.get() == id);
        if !wanted.users.iter().all(|id| has_user(id.get())) {
            return unknown("user");
        }
        if !wanted.roles.iter().all(|id| has_role(id.get())) {
            return unknown("role");
        }
        if !wanted.mentionables.iter().all(|id| has_user(id.get()) || has_role(id.get())) {
            return unknown("user or role");
        }
        for (id, kinds) in &wanted.channels {
            let Some((channel, _)) = self.context.channels.iter().find(|(channel, _)| channel.id == *id) else {
                return unknown("channel");
            };
            if !kinds.is_empty() && !kinds.contains(&(channel.kind as i64)) {
                return unknown("channel of the option's types");
            }
        }
        Ok(())
    }

    /// The objects that the interaction names, as `resolved`; none if it names none.
    pub fn resolved(&self, message: Option<&Message>) -> Option<Value> {
        let mut resolved = Map::new();
        let mut put = |key: &str, objects: Map<String, Value>| {
            if !objects.is_empty() {
                resolved.insert(key.to_owned(), Value::Object(objects));
            }
        };
        let users = self.users.iter().map(|user| (user.id.to_string(), json!(UserBody::from(&**user).for_rest())));
        put("users", users.collect());
        let members = self.context.members.iter().map(|(member, permissions)| {
            let mut body = json!(PartialMemberBody::from(&**member));
            body["permissions"] = json!(permissions);
            (member.user.id.to_string(), body)
        });
        put("members", members.collect());
        let roles = self.context.roles.iter().map(|role| (role.id.to_string(), json!(RoleBody::from(&**role))));
        put("roles", roles.collect());
        let channels = self.context.channels.iter();
        put("channels", channels.map(|(channel, of)| (channel.id.to_string(), self.channel(channel, *of))).collect());
        let messages = message.iter().map(|of| (of.id.to_string(), json!(MessageBody::new(of).for_rest())));
        put("messages", messages.collect());
        let files = self.files.iter().map(|message| json!(MessageBody::new(message).for_rest())["attachments"].take());
        let attachments = files.flat_map(|files| if let Value::Array(files) = files { files } else { Vec::new() });
        let attachments = attachments.map(|mut body| {
            body["ephemeral"] = json!(true);
            (body["id"].as_str().unwrap_or_default().to_owned(), body)
        });
        put("attachments", attachments.collect());
        (!resolved.is_empty()).then_some(Value::Object(resolved))
    }

    /// A channel without its access rules, and with the caller's permissions.
    fn channel(&self, channel: &Channel, permissions: Permissions) -> Value {
        if self.guild_id.is_none() {
            let kind = channel.kind;
            let recipient = json!([UserBody::from(&*self.application).for_rest()]);
            return json!({"id": channel.id, "type": kind, "flags": 0, "recipients": recipient,
                "last_message_id": channel.last_message_id});
        }
        let mut body = match channel.kind.is_thread() {
            true => json!(ThreadBody::new(channel, 0, None)),
            false => json!(ChannelBody::from(channel)),
        };
        if let Some(fields) = body.as_object_mut() {
            fields.remove("permission_overwrites");
            fields.remove("member_count");
            fields.insert("permissions".to_owned(), json!(permissions));
        }
        body
    }

    /// Body of INTERACTION_CREATE.
    pub fn body(&self, token: &Token, written: &str, data: Value, message: Option<Value>) -> Value {
        let InteractionContext { channel, permissions, .. } = &*self.context;
        let app_permissions = self.context.application_permissions.unwrap_or(Permissions::NONE);
        let mut body = json!({
            "id": token.id,
            "application_id": token.application,
            "type": token.kind,
            "data": data,
            "channel": self.channel(channel, *permissions),
            "channel_id": self.channel_id,
            "token": written,
            "version": 1,
            "locale": LOCALE,
            "app_permissions": app_permissions,
            "entitlements": [],
            "entitlement_sku_ids": [],
            "authorizing_integration_owners": {"0": self.guild_id.unwrap_or(GuildId::new(0))},
            "context": u8::from(self.guild_id.is_none()),
            "attachment_size_limit": 10 << 20,
        });
        if let Some(message) = message {
            body["message"] = message;
        }
        match (&self.context.guild, &self.context.member) {
            (Some(guild), Some(member)) => {
                let mut described = json!(MemberBody::from(&**member).for_rest());
                described["permissions"] = json!(permissions);
                body["member"] = described;
                body["guild_id"] = json!(guild.id);
                body["guild"] = json!({"id": guild.id, "locale": LOCALE, "features": guild.features});
                body["guild_locale"] = json!(LOCALE);
            }
            _ => body["user"] = json!(UserBody::from(&*self.user).for_rest()),
        }
        body
    }
}
