//! Requests by which a client validates its cache (ops 30, 31). Spec  docs/protocol/reference.md §1.3, §8.8.

use super::{PayloadError, guild_of, ids_of};
use crate::id::GuildId;
use serde_json::Value;

/// Op 30: hashes of the cached ids per kind. For each hash that differs, the answer lists the ids that exist. None: the
/// client did not send that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetDeletedEntityIds {
    pub guild_id: GuildId,
    /// Hash of channel ids.
    pub channel_ids_hash: Option<u32>,
    /// Hash of role ids.
    pub role_ids_hash: Option<u32>,
    /// Hash of emoji ids.
    pub emoji_ids_hash: Option<u32>,
    /// Hash of sticker ids.
    pub sticker_ids_hash: Option<u32>,
}

impl GetDeletedEntityIds {
    /// Parses the payload.
    ///
    /// # Errors
    /// When it is not an object or `guild_id` not a snowflake.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let (guild_id, d) = guild_of("GET_DELETED_ENTITY_IDS", d)?;
        let hash = |key: &str| match d.get(key)? {
            Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        Ok(Self {
            guild_id,
            channel_ids_hash: hash("channel_ids_hash"),
            role_ids_hash: hash("role_ids_hash"),
            emoji_ids_hash: hash("emoji_ids_hash"),
            sticker_ids_hash: hash("sticker_ids_hash"),
        })
    }
}

/// Op 31: the soundboards of some guilds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSoundboardSounds {
    /// Sorted, without duplicates.
    pub guild_ids: Vec<GuildId>,
}

impl RequestSoundboardSounds {
    /// Further guilds are dropped. Equals the guild limit of an account.
    pub const GUILDS_MAX: usize = 200;

    /// Parses the payload.
    ///
    /// # Errors
    /// When it is not an object or `guild_ids` not an array.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let error = |problem| PayloadError { opcode: "REQUEST_SOUNDBOARD_SOUNDS", problem };
        let d = d.as_object().ok_or(error("expected an object"))?;
        let guild_ids = d.get("guild_ids").and_then(|ids| ids_of(ids, Self::GUILDS_MAX));
        Ok(Self { guild_ids: guild_ids.ok_or(error("`guild_ids` must be an array"))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hashes() {
        let check = |d: Value, expected: Option<[Option<u32>; 4]>| {
            let got = GetDeletedEntityIds::parse(&d).ok();
            let got = got.map(|g| [g.channel_ids_hash, g.role_ids_hash, g.emoji_ids_hash, g.sticker_ids_hash]);
            assert_eq!(got, expected, "{d}");
        };
        check(
            json!({"guild_id": "1", "channel_ids_hash": 3_477_805_530u64, "role_ids_hash": 0, "emoji_ids_hash": "7"}),
            Some([Some(3_477_805_530), Some(0), Some(7), None]),
        );
        check(
            json!({"guild_id": "1", "channel_ids_hash": -1, "role_ids_hash": u64::MAX, "emoji_ids_hash": 1.5, "sticker_ids_hash": {}}),
            Some([None; 4]),
        );
        check(json!({"guild_id": null}), None);
        check(json!(7), None);
    }

    #[test]
    fn soundboards() {
        let check = |d: Value, expected: Option<&[u64]>| {
            let got = RequestSoundboardSounds::parse(&d).ok();
            let got: Option<Vec<u64>> = got.map(|got| got.guild_ids.iter().map(|id| id.get()).collect());
            assert_eq!(got.as_deref(), expected, "{d}");
        };
        check(json!({"guild_ids": ["2", 1, null]}), Some(&[1, 2]));
        check(json!({"guild_ids": "2"}), None);
        check(json!({}), None);
        check(json!(null), None);
    }
}
