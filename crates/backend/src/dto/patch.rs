//! Patch: changes to objects, merged into the present object in the form of PUT; and their OpenAPI descriptions.

use super::channel::OverwriteBody;
use crate::{
    error::V1Error,
    extract::{Check, parse},
    types::{AnyId, Bits, Snowflake, Time, nullable},
};
use guildhall_http_kit::Reservation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Changes to an object: fields as for PUT; omitted ones are unchanged.
///
/// They are laid over what is there as `PUT` takes it, and checked whole.
#[derive(Debug)]
pub(crate) struct Patch {
    fields: Map<String, Value>,
    _reservation: Reservation,
}

impl Patch {
    /// `reservation` covers the memory of `fields`.
    pub fn new(fields: Map<String, Value>, reservation: Reservation) -> Self {
        Self { fields, _reservation: reservation }
    }

    /// The object with the changes applied.
    pub fn apply<T: Serialize + serde::de::DeserializeOwned + Check>(&self, before: &T) -> Result<T, V1Error> {
        let mut fields = serde_json::to_value(before).map_err(|_| V1Error::bug("an object as JSON"))?;
        if let Some(fields) = fields.as_object_mut() {
            fields.extend(self.fields.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        parse(&serde_json::to_vec(&fields).map_err(|_| V1Error::bug("a value as JSON"))?)
    }
}

macro_rules! patches {
    ($($(#[$doc:meta])* $name:ident as $shown:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize, ToSchema)]
        #[schema(as = $shown)]
        #[expect(dead_code, reason = "only its schema is used: the fields are laid over the object as `Patch`")]
        pub(crate) struct $name { $(
            #[serde(default, deserialize_with = "nullable")]
            #[schema(value_type = Option<$type>, required = false)]
            $field: Option<Option<$type>>,
        )* }
    )* };
}
patches! {
    /// Fields of a guild to change, as for PUT.
    GuildChange as GuildPatch {
        name: String, owner_id: AnyId, icon: String, description: String, afk_channel_id: Snowflake, afk_timeout: u16,
        system_channel_id: Snowflake, verification_level: u8, default_message_notifications: u8,
        explicit_content_filter: u8, features: Vec<String>, preferred_locale: String, external_id: String,
    }
    /// Fields of a role to change, as for PUT.
    RoleChange as RolePatch {
        name: String, color: u32, hoist: bool, position: i32, permissions: Bits, managed: bool, mentionable: bool,
    }
    /// Fields of a channel to change, as for PUT. The type stays.
    ChannelChange as ChannelPatch {
        name: String, position: i32, parent_id: Snowflake, topic: String, nsfw: bool, rate_limit_per_user: u16,
        bitrate: u32, user_limit: u16, permission_overwrites: Vec<OverwriteBody>, external_id: String,
    }
    /// Fields of an account to change, as for PUT.
    UserChange as UserPatch {
        username: String, discriminator: String, global_name: String, avatar: String, banner: String,
        public_flags: u32, application_flags: u32, external_id: String,
    }
    /// Fields of a member to change, as for PUT.
    MemberChange as MemberPatch {
        nick: String, roles: Vec<Snowflake>, joined_at: Time, mute: bool, deaf: bool, flags: u32,
        communication_disabled_until: Time,
    }
}
